/* What a program has attached to a checkpoint, read back. */
#include "read/attributes_reader.h"

#include <errno.h>
#include <inttypes.h>

#include "base/alloc.h"
#include "base/error.h"
#include "format/attributes.h"
#include "read/region_reader.h"

static int take_bytes(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    (void)total;
    memcpy((char *)arg + offset, data, size);
    return 0;
}

/* All of them, to be freed; 1 and NULL if there are none. */
static int read_texts(struct vv_view *view, uint64_t seed, struct vv_pool *pool, char **out, size_t *size_out,
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
        rc = vv_region_stream(view, recipe, &region, seed, VV_ATTRIBUTES_MOST, pool, take_bytes, *out, error);
    *size_out = (size_t)(rc == 0 ? region.length : 0);
    vv_recipe_close(recipe);
    return rc;
}

static int tell(const char *texts, size_t size, vv_attribute_fn fn, void *arg, struct varve_error *error) {
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

int vv_attributes_read(struct vv_view *view, uint64_t seed, struct vv_pool *pool, vv_attribute_fn fn, void *arg,
                       struct varve_error *error) {
    char *texts = NULL;
    size_t size = 0;
    int rc = read_texts(view, seed, pool, &texts, &size, error);
    if (rc == 0)
        rc = tell(texts, size, fn, arg, error);
    vv_free(texts);
    return rc < 0 ? rc : 0;
}
