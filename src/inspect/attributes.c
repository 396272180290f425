/* What a program has attached to a checkpoint. */
#include <errno.h>
#include <inttypes.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/attributes.h"
#include "inspect/inspect_private.h"
#include "read/region_reader.h"

static int take_bytes(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    (void)total;
    memcpy((char *)arg + offset, data, size);
    return 0;
}

/* All of them, to be freed; 1 and NULL if there are none. */
static int read_texts(struct varve_store *store, struct vv_view *view, char **out, size_t *size_out,
                      struct varve_error *error) {
    struct vv_recipe *recipe = NULL;
    struct vv_recipe_region region;
    *out = NULL;
    int rc = vv_region_find(view, 0, VV_ATTRIBUTES, &recipe, &region, error);
    if (rc == VARVE_MISMATCH) {
        vv_error_clear(error);
        return 1;
    }
    if (rc == 0 && region.length > VV_ATTRIBUTES_MOST)
        rc = vv_error(error, VARVE_CORRUPT, "the attributes have %" PRIu64 " bytes, must have at most %d",
                      region.length, VV_ATTRIBUTES_MOST);
    if (rc == 0 && !(*out = vv_malloc(region.length + 1)))
        rc = vv_error(error, -ENOMEM, "no memory for attributes");
    if (rc == 0)
        rc = vv_region_stream(view, recipe, &region, store->store->settings.seed, VV_ATTRIBUTES_MOST, store->pool,
                              take_bytes, *out, error);
    *size_out = (size_t)(rc == 0 ? region.length : 0);
    vv_recipe_close(recipe);
    return rc;
}

static int tell(const char *texts, size_t size, varve_attribute_fn fn, void *arg, struct varve_error *error) {
    struct vv_attribute_reader reader = {texts, size};
    struct vv_attribute attribute;
    int rc;
    while ((rc = vv_attribute_next(&reader, &attribute)) > 0) {
        rc = fn(arg, attribute.name, attribute.value);
        if (rc)
            return rc < 0 ? rc : vv_error(error, -EIO, "the function that takes the attributes returned %d", rc);
    }
    return rc == -EBADMSG ? vv_error(error, VARVE_CORRUPT, "the attributes are no pairs of texts") : rc;
}

int varve_store_attributes(struct varve_store *store, const struct varve_which *which, varve_attribute_fn fn, void *arg,
                           struct varve_error *error) {
    struct varve_which found = which ? *which : (struct varve_which){0};
    struct vv_residents *residents = NULL;
    struct vv_view *view = NULL;
    char *texts = NULL;
    size_t size = 0;

    vv_error_clear(error);
    if (!fn)
        return vv_error(error, -EINVAL, "varve_store_attributes needs a function");
    int rc = vv_inspect_open_rank(store, &found, 0, &view, &residents, error);
    rc = rc ? rc : read_texts(store, view, &texts, &size, error);
    if (rc == 0)
        rc = tell(texts, size, fn, arg, error);
    vv_free(texts);
    vv_residents_destroy(residents);
    vv_view_close(view);
    return rc < 0 ? vv_error_default(error, rc, "cannot read the attributes of %s@%" PRId64 ": %s", found.name,
                                     found.version, varve_error_text(rc))
                  : 0;
}
