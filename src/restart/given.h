/* Memory that the program gives for the regions of one candidate (varve_restart_alloc). */
#ifndef VV_GIVEN_H
#define VV_GIVEN_H

#include "restart/restart.h"

struct vv_given_region;
struct vv_given {
    struct vv_regions *regions;
    const struct vv_restart_options *options;
    struct vv_given_region *list;
    size_t count;
};

/* What of a region this rank is to get. */
struct vv_given_want {
    const char *name;
    uint64_t bytes;
    const struct varve_array *array;
    enum varve_distribution how;
};

/* Ask the program for memory for it, in the thread that called vv_peers_run. 1: it is protected there now; 0: the
 * program does not want it; or -ENOMEM. No region is watched. */
int vv_given_take(struct vv_given *given, struct vv_peers *peers, const struct vv_given_want *want,
                  struct varve_error *error);
/* The candidate is what the program goes on with, or everything goes back to the program, and is unprotected. */
void vv_given_end(struct vv_given *given, int is_kept);

#endif
