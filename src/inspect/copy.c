/* From one store to another, as tools ask for it. */
#include "copy/copy.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "inspect/inspect_private.h"

static void tell_copy(const struct vv_copy_result *result, struct varve_copy_result *out) {
    struct varve_copy_result told = {
        .size = out->size,
        .is_there = result->is_there,
        .generation = result->generation,
        .version = (int64_t)result->version,
        .ranks = result->ranks,
        .regions = result->regions,
        .bytes_protected = result->protected_bytes,
        .bytes_new = result->new_bytes,
        .bytes_resumed = result->resumed_bytes,
        .bytes_written = result->written,
    };
    memcpy(out, &told, out->size);
}

static int copy_to(struct varve_store *store, struct varve_which *which, const char *to, const char *name,
                   const struct varve_copy_options *given, struct vv_copy_result *result, struct varve_error *error) {
    struct vv_copy_options options = {
        .settings = &store->settings,
        .pool = store->pool,
        .is_dry_run = given->is_dry_run,
        .may_go_back = given->may_go_back,
        .progress = given->progress,
        .arg = given->arg,
    };
    struct vv_copy_place place = {.from = store->store,
                                  .from_address = store->address,
                                  .address = to,
                                  .settings = &store->settings,
                                  .log = &store->log,
                                  .is_dry_run = given->is_dry_run};
    struct vv_store *other = NULL;
    int rc = varve_store_resolve(store, which, error);
    if (rc == 0)
        rc = vv_copy_open(&place, &other, error);
    if (rc == 0) {
        struct vv_copy_source from = {store->store, which->name, which->generation, (uint64_t)which->version};
        rc = vv_copy(&from, other, name, &options, result, error);
    }
    vv_store_close(other);
    return rc;
}

int varve_store_copy(struct varve_store *store, const struct varve_which *which, const char *to, const char *name,
                     const struct varve_copy_options *options, struct varve_copy_result *out,
                     struct varve_error *error) {
    struct varve_copy_options given = {0};
    struct vv_copy_result result = {0};

    vv_error_clear(error);
    if (!store || !which || !which->name || !to || !*to || (options && options->size > sizeof given) ||
        (out && out->size > sizeof *out))
        return vv_error(error, -EINVAL,
                        "varve_store_copy needs a store, a checkpoint and an address, and options of this library");
    if (options)
        memcpy(&given, options, options->size);
    struct varve_which source = *which;
    int rc = vv_inspect_check_name(name, error);
    if (rc == 0)
        rc = copy_to(store, &source, to, name ? name : which->name, &given, &result, error);
    if (out)
        tell_copy(&result, out);
    return rc < 0 ? vv_error_default(error, rc, "cannot copy %s: %s", which->name, varve_error_text(rc)) : 0;
}
