/* Reading one region back, checked granule by granule: what the tool's restore and the restart of callback regions share. */
#ifndef VV_READ_H
#define VV_READ_H

#include "store/view.h"

/* Bytes in ascending order. Nonzero stops with that error. */
typedef int (*vv_bytes_fn)(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total);

/* Find a region of an owner by name: the recipe stands before its first run. VARVE_MISMATCH when it is not there. */
int vv_region_find(struct vv_view *view, uint32_t owner, const char *region, struct vv_recipe **recipe_out,
                   struct vv_recipe_region *region_out, struct varve_error *error);

/* Stream the bytes of the region the recipe stands before, `window` bytes at a time; fn may be NULL to check only. At the end the region's digest is
 * compared: VARVE_CORRUPT if it differs. */
int vv_region_stream(struct vv_view *view, struct vv_recipe *recipe, const struct vv_recipe_region *region,
                     uint64_t seed, size_t window, struct vv_pool *pool, vv_bytes_fn fn, void *arg,
                     struct varve_error *error);

#endif
