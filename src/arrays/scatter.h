/* The common elements of two parts, from the stored one to memory. Long stretches are read where they belong; short
 * ones are read together with what lies between them, into memory of the scatter, and copied from there. */
#ifndef VV_SCATTER_H
#define VV_SCATTER_H

#include "arrays/overlap.h"
#include "read/view.h"

struct vv_scatter;
struct vv_scatter_options {
    unsigned threads;                      /* that read */
    uint64_t window;                       /* memory to keep book, and a quarter of it for short stretches */
    int (*zero)(void *ptr, uint64_t size); /* make it zeros; 0, or it cannot be written */
};
int vv_scatter_create(struct vv_view *view, const struct vv_scatter_options *options, struct vv_scatter **out,
                      struct varve_error *error);
/* Want what the overlap has of the region that the recipe stands before; base is where the other part lies. Some of it
 * may be read at once. */
int vv_scatter_region(struct vv_scatter *scatter, struct vv_recipe *recipe, struct vv_overlap *overlap, void *base,
                      enum vv_sharing sharing, struct varve_error *error);
/* Read everything that is wanted. */
int vv_scatter_run(struct vv_scatter *scatter, struct varve_error *error);
void vv_scatter_destroy(struct vv_scatter *scatter); /* accepts NULL */

#endif
