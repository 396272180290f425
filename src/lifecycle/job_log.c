/* Job logs (job_log.h). */
#include "lifecycle/job_log.h"

#include <errno.h>

#include "base/fault.h"
#include "lifecycle/lifecycle.h"
#include "store/listing.h"

int vv_job_log_write(struct vv_store *store, const char *name, uint32_t generation, const char *text, size_t size,
                     struct varve_error *error) {
    struct vv_key key = vv_generation_key(name, generation, VV_KIND_LOG);
    char key_text[VV_KEY_CAPACITY];
    struct vv_buf buf;
    vv_key_print(&key, key_text);
    vv_buf_init(&buf);
    vv_job_log_encode(&buf, &key, store->id, text, size);
    int rc = buf.failed ? buf.failed : VV_FAULT("store.log.before_replace");
    if (rc == 0)
        rc = vv_backend_replace(store->backend, key_text, buf.data, buf.size);
    vv_buf_clear(&buf);
    return rc < 0 ? vv_error_sys(error, rc, "cannot write %s", key_text) : 0;
}

static int list_logs(struct vv_store *store, const char *name, struct vv_numbers *out, struct varve_error *error) {
    char prefix[VV_KEY_CAPACITY];
    vv_prefix_logs(name, prefix);
    return vv_numbers_list(store, prefix, 8, NULL, out, error);
}

static int hand_over(struct vv_store *store, const char *name, uint32_t generation, vv_job_log_fn fn, void *arg) {
    struct vv_key key = vv_generation_key(name, generation, VV_KIND_LOG);
    struct varve_error why = {0};
    const char *text = NULL;
    size_t size = 0;
    struct vv_buf buf;
    vv_buf_init(&buf);
    int rc = vv_object_read(store, &key, &buf, &why);
    if (rc == 0)
        rc = vv_job_log_parse(buf.data, buf.size, &key, store->id, &text, &size, &why);
    int told = rc == -ENOENT ? 0 : fn(arg, generation, rc < 0 ? NULL : text, size, rc < 0 ? &why : NULL);
    vv_buf_clear(&buf);
    return told;
}

int vv_job_logs_each(struct vv_store *store, const char *name, vv_job_log_fn fn, void *arg, struct varve_error *error) {
    struct vv_numbers logs;
    int rc = list_logs(store, name, &logs, error);
    for (size_t i = logs.count; rc == 0 && i > 0; i--)
        if (logs.list[i - 1] != 0)
            rc = hand_over(store, name, (uint32_t)logs.list[i - 1], fn, arg);
    vv_numbers_clear(&logs);
    return rc;
}

int vv_job_logs_thin(struct vv_store *store, const char *name, size_t kept, const struct vv_prune_options *options,
                     struct vv_prune_result *result, struct varve_error *error) {
    struct vv_numbers logs;
    int rc = list_logs(store, name, &logs, error);
    for (size_t i = 0; rc == 0 && i + kept < logs.count; i++) {
        struct vv_key key = vv_generation_key(name, (uint32_t)logs.list[i], VV_KIND_LOG);
        char text[VV_KEY_CAPACITY];
        vv_key_print(&key, text);
        rc = vv_prune_object(store, text, options, result, error);
    }
    vv_numbers_clear(&logs);
    return rc;
}
