#include "restart/unnamed.h"

#include <inttypes.h>
#include <string.h>

#include "format/attributes.h"

/* What follows the prefix, or NULL. */
static const char *after(const char *name, const char *prefix) {
    size_t length = strlen(prefix);
    return strncmp(name, prefix, length) == 0 ? name + length : NULL;
}

/* Address-true mode: pointers are only right where everything is what it was, and where it was. */
static int refuse_object(uint64_t version, const char *name, struct varve_error *error) {
    const char *object = after(name, VV_HEAP_OBJECT), *place = after(name, VV_HEAP_OBJECT_AT);
    if (object)
        return vv_error(error, VARVE_MISMATCH,
                        "version %" PRIu64 " was stored by a process with %s (file, build id), and this one has "
                        "another or none: nothing was restored. Pointers need the same program, libraries and "
                        "kernel, by `varve run --fixed`",
                        version, object);
    if (place)
        return vv_error(error, VARVE_MISMATCH,
                        "version %" PRIu64 " was stored by a process with %s (file, address), and here it is "
                        "elsewhere: pointers come back only with the same kernel, `ulimit -s` and environment of the "
                        "loader; nothing was restored",
                        version, place);
    return 0;
}

int vv_refuse_unnamed(const struct vv_view *view, const struct vv_recipe_region *stored, const struct vv_region *region,
                      struct varve_error *error) {
    uint64_t version = vv_view_attempt(view)->version;
    if (!stored)
        return vv_error(error, VARVE_MISMATCH,
                        "allocation %s: %" PRIu64 " bytes are allocated but version %" PRIu64
                        " has none of this place and number; run the program as it was run then; nothing was restored",
                        region->name, region->size, version);
    int rc = region ? 0 : refuse_object(version, stored->name, error);
    if (rc)
        return rc;
    if (!region)
        return vv_error(error, VARVE_MISMATCH,
                        "allocation %s of version %" PRIu64 ": %" PRIu64
                        " bytes are stored but the program has not allocated them; run it as it was run then, by %s; "
                        "nothing was restored",
                        stored->name, version, stored->length,
                        after(stored->name, VV_HEAP_FIXED) ? "`varve run --fixed`"
                                                           : "`varve run` and with the setting heap");
    return vv_error(error, VARVE_MISMATCH,
                    "allocation %s of version %" PRIu64 ": %" PRIu64 " bytes are stored but %" PRIu64
                    " are allocated; run the program as it was run then; nothing was restored",
                    stored->name, version, stored->length, region->size);
}

int vv_resize_unnamed(struct vv_region *region, const struct vv_recipe_region *stored) {
    if (!region->resize || region->size == stored->length)
        return 0;
    int rc = region->resize(stored->length);
    if (rc == 0)
        region->size = stored->length;
    return rc;
}
