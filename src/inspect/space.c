/* What checkpoints need of the space they keep, and letting them take no more. */
#include "inspect/inspect_private.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "check/usage.h"
#include "compact/compact.h"

int varve_store_usage(struct varve_store *store, const char *name, varve_progress_fn progress, void *arg,
                      struct varve_usage *out, struct varve_error *error) {
    struct vv_usage_options options = {.progress = progress, .arg = arg};
    struct vv_usage usage;

    vv_error_clear(error);
    if (!store || !name || !out || out->size == 0 || out->size > sizeof *out)
        return vv_error(error, -EINVAL, "varve_store_usage needs a store, a name and a place for the result");
    int rc = vv_inspect_require_name(store, name, error);
    if (rc == 0)
        rc = vv_usage_count(store->store, name, &options, &usage, error);
    if (rc < 0)
        return vv_error_default(error, rc, "cannot count what \"%s\" uses: %s", name, varve_error_text(rc));
    struct varve_usage result = {
        .size = out->size,
        .checkpoints = usage.checkpoints,
        .bytes_live = usage.live_bytes,
        .bytes_kept = usage.kept_bytes,
        .bytes_free = usage.free.bytes,
        .objects_free = usage.free.objects,
        .attempts = usage.attempts,
        .newest_attempts = usage.newest_attempts,
        .newest_packs = usage.newest_packs,
    };
    memcpy(out, &result, out->size);
    return 0;
}

int varve_store_compact(struct varve_store *store, const char *name, const struct varve_compact_options *options,
                        struct varve_compact_result *out, struct varve_error *error) {
    struct varve_compact_options given = {0};
    struct vv_compact_result result = {0};

    vv_error_clear(error);
    if (!store || !name || (options && options->size > sizeof given) || (out && out->size > sizeof *out))
        return vv_error(error, -EINVAL, "varve_store_compact needs a store and a name, and options of this library");
    if (options)
        memcpy(&given, options, options->size);
    int rc = vv_inspect_require_name(store, name, error);
    if (rc < 0)
        return rc;
    vv_inspect_ranged_clear(store);
    struct vv_compact_options inner = {
        .settings = &store->settings,
        .pool = store->pool,
        .keep = given.keep,
        .report = given.report,
        .progress = given.progress,
        .arg = given.arg,
    };
    rc = vv_compact(store->store, name, &inner, &result, error);
    if (out) {
        struct varve_compact_result told = {
            .size = out->size,
            .moved = result.moved,
            .forgotten = result.forgotten,
            .bytes_written = result.written,
            .bytes_before = result.before,
            .bytes_after = result.after,
            .bytes_live = result.live,
        };
        memcpy(out, &told, out->size);
    }
    return rc < 0 ? vv_error_default(error, rc, "cannot compact \"%s\": %s", name, varve_error_text(rc)) : 0;
}
