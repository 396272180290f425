/* The memory that a session protects: its regions, and the capture that watches over them. */
#ifndef VV_PROTECTED_H
#define VV_PROTECTED_H

#include <pthread.h>

#include "base/settings.h"
#include "capture/capture.h"
#include "memory/regions.h"

struct vv_match;

struct vv_protected {
    struct vv_regions regions;
    struct vv_capture *capture;
    int capturing;          /* enum vv_capture_choice, as it is done */
    struct vv_watch *left;  /* watches over memory that the program took back while a checkpoint was in flight */
    struct vv_match *match; /* which regions hold the same variable */
    int is_overwritten;     /* the restart under way has begun to write regions */
    pthread_mutex_t *lock;  /* held by the thread that uses the capture while nothing is in flight */
};

/* Does varve_checkpoint return before everything is stored? */
static inline int vv_is_in_background(const struct vv_protected *memory) {
    return memory->capturing != VV_CHOOSE_CAPTURE_SYNC;
}

/* ---- region_watches.c ---- */
/* Regions have watches, and watches of regions that are gone are gone. Nothing is in flight. 0 or -ENOMEM. */
int vv_watch_regions(struct vv_protected *memory);
/* With the lock; nothing is in flight. */
int vv_watch_region(struct vv_protected *memory, struct vv_region *region);
/* Forget all watches: the memory will be written by us, or the history does not fit them any more. Nothing is in
 * flight. */
void vv_unwatch_regions(struct vv_protected *memory);
/* The region's memory is the program's again. */
void vv_unwatch_region(struct vv_protected *memory, struct vv_region *region, int is_in_flight);

#endif
