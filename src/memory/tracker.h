/* Which pages of a watched region may have changed since the last time they were asked for. A tracker may report too
 * much, never too little; what it cannot see must not be watched by it. */
#ifndef VV_TRACKER_H
#define VV_TRACKER_H

#include "memory/pages.h"
#include "memory/tracked_range.h"

struct vv_tracker;

struct vv_tracker_ops {
    const char *name; /* "scan", "softdirty", "trap-uffd", "trap-mprotect", "none" */
    /* Begin to watch the whole pages inside a region (vv_watch_inside). The first collect reports everything touched.
     * An error: this memory cannot be watched in this way. */
    int (*attach)(struct vv_tracker *tracker, struct vv_watch *watch);
    /* Memory that is gone is no error. */
    void (*detach)(struct vv_tracker *tracker, struct vv_watch *watch);
    /* Report what may have changed since the last collect, and what was never touched, as offsets from the region's
     * start, ascending; then watch anew (see renew). What is not reported is unchanged. Nobody writes the region
     * meanwhile. The partial pages at its ends are always reported. */
    int (*collect)(struct vv_tracker *tracker, struct vv_watch *watch, vv_pages_fn fn, void *arg);
    /* After all watches were collected, and before anybody writes one of them again. Until then a tracker that has this
     * keeps its notes, and would report them once more; a watch that was not collected is reported whole next time.
     * NULL: collect has done it. */
    void (*renew)(struct vv_tracker *tracker);
    /* What has changed by now, without beginning anew; for learning the order of writes. May be NULL. */
    int (*peek)(struct vv_tracker *tracker, struct vv_watch *watch, vv_pages_fn fn, void *arg);
    void (*close)(struct vv_tracker *tracker);
};
struct vv_tracker {
    const struct vv_tracker_ops *ops;
};

/* Knows nothing: every touched page may have changed; ids decide. */
extern struct vv_tracker vv_tracker_none;

/* userfaultfd WP_ASYNC and PAGEMAP_SCAN (Linux 6.7), unprivileged: the kernel notes the first write to a page. Tries it
 * on pages of its own: an error, and the reason in `why`, when a write there is not seen. */
int vv_tracker_scan(struct vv_tracker **out, char *why, size_t capacity);

/* Soft-dirty bits (/proc/self/clear_refs, /proc/self/pagemap), for kernels before 6.7. Tried in the same way. The bits
 * are of the whole process, so it has one such tracker at a time: -EBUSY. is_forced: also where userfaultfd may not be
 * used, and memory that is moved into a watched place by mremap may go unnoticed. */
int vv_tracker_softdirty(int is_forced, struct vv_tracker **out, char *why, size_t capacity);

#endif
