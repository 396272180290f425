/* Which parts of a region may have changed since the last committed checkpoint. A tracker may report too much, never too little. */
#ifndef VV_TRACKER_H
#define VV_TRACKER_H

#include "memory/pages.h"
#include "memory/regions.h"

struct vv_tracker;

struct vv_tracker_ops {
    const char *name;
    /* Begin to watch a region's memory; called when it is protected or moves. May be NULL. */
    int (*attach)(struct vv_tracker *tracker, struct vv_region *region);
    void (*detach)(struct vv_tracker *tracker, struct vv_region *region);
    /* Report the ranges that may have changed, ascending; what is not reported is unchanged. Required. Called once per checkpoint. */
    int (*changed)(struct vv_tracker *tracker, struct vv_region *region, vv_pages_fn fn, void *arg);
    /* The checkpoint that `changed` was asked for was committed (or not: then its ranges belong to the next one too). May be NULL. */
    void (*settle)(struct vv_tracker *tracker, int is_committed);
    void (*close)(struct vv_tracker *tracker);
};
struct vv_tracker {
    const struct vv_tracker_ops *ops;
};

/* The tracker that knows nothing: every touched page may have changed; ids decide. */
extern struct vv_tracker vv_tracker_none;

#endif
