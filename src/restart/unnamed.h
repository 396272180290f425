/* Regions that libvarve_preload tells of (session/heap.c): a restart takes all of them as they were stored, or none. */
#ifndef VV_UNNAMED_H
#define VV_UNNAMED_H

#include "memory/regions.h"
#include "read/view.h"

/* VARVE_MISMATCH, and why: it is not here (region NULL), not stored (stored NULL), or has another size. */
int vv_refuse_unnamed(const struct vv_view *view, const struct vv_recipe_region *stored, const struct vv_region *region,
                      struct varve_error *error);
/* One that can have as many bytes as are stored gets them. 0 or -ENOMEM. */
int vv_resize_unnamed(struct vv_region *region, const struct vv_recipe_region *stored);

#endif
