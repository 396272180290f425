/* Reading one region back, checked granule by granule: what the tool's restore and the restart of callback regions
 * share. */
#ifndef VV_REGION_READER_H
#define VV_REGION_READER_H

#include "read/view.h"

/* Bytes in ascending order. Nonzero stops with that error. */
typedef int (*vv_bytes_fn)(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total);

/* Find a region of an owner by name: the recipe stands before its first run. VARVE_MISMATCH when it is not there. */
int vv_region_find(struct vv_view *view, uint32_t owner, const char *region, struct vv_recipe **recipe_out,
                   struct vv_recipe_region *region_out, struct varve_error *error);

/* Stream the bytes of the region the recipe stands before, `window` bytes at a time; fn may be NULL to check only. At
 * the end the region's digest is compared: VARVE_CORRUPT if it differs. */
int vv_region_stream(struct vv_view *view, struct vv_recipe *recipe, const struct vv_recipe_region *region,
                     uint64_t seed, size_t window, struct vv_pool *pool, vv_bytes_fn fn, void *arg,
                     struct varve_error *error);

/* The same, and gives the ids of the granules (ids may be NULL), and each run to on_run (may be NULL; nonzero stops).
 */
typedef int (*vv_run_fn)(void *arg, const struct vv_run *run);
int vv_region_take(struct vv_view *view, struct vv_recipe *recipe, const struct vv_recipe_region *region, uint64_t seed,
                   size_t window, struct vv_pool *pool, vv_bytes_fn fn, void *arg, struct vv_hash128 *ids,
                   vv_run_fn on_run, void *run_arg, struct varve_error *error);

/* Ids of granules [first, ...) of `size` bytes at data, and what they add to the digest. */
struct vv_hash128 vv_ids_take(uint64_t seed, uint64_t first, const uint8_t *data, uint64_t size,
                              struct vv_hash128 *ids);
/* Say in which region it was. Returns rc. */
int vv_error_in_region(struct varve_error *error, int rc, const char *region);

#endif
