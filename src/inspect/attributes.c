/* What a program has attached to a checkpoint. */
#include <errno.h>
#include <inttypes.h>

#include "base/error.h"
#include "inspect/inspect_private.h"
#include "read/attributes_reader.h"

int varve_store_attributes(struct varve_store *store, const struct varve_which *which, varve_attribute_fn fn, void *arg,
                           struct varve_error *error) {
    struct varve_which found = which ? *which : (struct varve_which){0};
    struct vv_residents *residents = NULL;
    struct vv_view *view = NULL;

    vv_error_clear(error);
    if (!fn)
        return vv_error(error, -EINVAL, "varve_store_attributes needs a function");
    int rc = vv_inspect_open_rank(store, &found, 0, &view, &residents, error);
    rc = rc ? rc : vv_attributes_read(view, store->store->settings.seed, store->pool, fn, arg, error);
    vv_residents_destroy(residents);
    vv_view_close(view);
    return rc < 0 ? vv_error_default(error, rc, "cannot read the attributes of %s@%" PRId64 ": %s", found.name,
                                     found.version, varve_error_text(rc))
                  : 0;
}
