/* The records of a name: listing and reading them (docs/format.md 10). */
#include "store/records.h"

#include <errno.h>
#include <inttypes.h>

struct record_listing {
    struct vv_store *store;
    const char *prefix;
    vv_record_fn fn;
    void *arg;
};

static int take_record(void *arg, const char *component, int is_prefix) {
    struct record_listing *listing = arg;
    uint32_t generation;
    uint64_t version;
    if (is_prefix || vv_record_component_parse(component, &generation, &version) < 0) {
        vv_log(listing->store->log, VV_LOG_WARN, "%s/%s cannot be interpreted; left alone", listing->prefix, component);
        return 0;
    }
    return listing->fn(listing->arg, generation, version);
}

int vv_records_list(struct vv_store *store, const char *name, vv_record_fn fn, void *arg, struct varve_error *error) {
    char prefix[VV_KEY_CAPACITY];
    struct record_listing listing = {.store = store, .prefix = prefix, .fn = fn, .arg = arg};
    vv_prefix_records(name, prefix);
    int rc = vv_backend_list(store->backend, prefix, NULL, 0, take_record, &listing);
    return rc < 0 ? vv_error_default(error, rc, "cannot list %s: %s", prefix, varve_error_text(rc)) : 0;
}

struct newest {
    uint32_t generation;
    uint64_t version;
};

static int take_newest(void *arg, const char *component, int is_prefix) {
    struct newest *newest = arg;
    return is_prefix || vv_record_component_parse(component, &newest->generation, &newest->version) < 0 ? 0 : 1;
}

int vv_records_newest(struct vv_store *store, const char *name, uint32_t generation, uint64_t *version_out,
                      struct varve_error *error) {
    char prefix[VV_KEY_CAPACITY], after[25];
    struct newest newest = {0};
    vv_prefix_records(name, prefix);
    vv_record_component(generation, UINT64_MAX, after); /* no version is as high: it comes before all of them */
    int rc = vv_backend_list(store->backend, prefix, after, 0, take_newest, &newest);
    if (rc < 0)
        return vv_error_sys(error, rc, "cannot list %s", prefix);
    *version_out = newest.version;
    return newest.generation == generation;
}

int vv_record_load(struct vv_store *store, const char *name, uint32_t generation, uint64_t version,
                   struct vv_record *out, struct varve_error *error) {
    struct vv_attempt attempt = {.generation = generation, .version = version};
    struct vv_key key = vv_attempt_key(name, &attempt, VV_KIND_RECORD, 0, 0);
    struct vv_buf buf;
    vv_buf_init(&buf);
    int rc = vv_object_read(store, &key, &buf, error);
    if (rc == 0)
        rc = vv_record_parse(buf.data, buf.size, &key, store->id, out, error);
    else if (rc == -ENOENT)
        rc = vv_error(error, VARVE_NO_CHECKPOINT, "%s has no checkpoint of generation %u, version %" PRIu64, name,
                      generation, version);
    vv_buf_clear(&buf);
    return rc;
}
