/* The tracker that knows nothing. It still looks at the page table: what was never touched reads as zeros and costs
 * nothing. */
#include "memory/tracker.h"

static int none_attach(struct vv_tracker *tracker, struct vv_watch *watch) {
    (void)tracker, (void)watch;
    return 0;
}

static void none_detach(struct vv_tracker *tracker, struct vv_watch *watch) {
    (void)tracker, (void)watch;
}

static int none_collect(struct vv_tracker *tracker, struct vv_watch *watch, vv_pages_fn fn, void *arg) {
    (void)tracker;
    return vv_pages_walk(watch->ptr, watch->size, fn, arg);
}

static void none_close(struct vv_tracker *tracker) {
    (void)tracker;
}

static const struct vv_tracker_ops none_ops = {
    .name = "none",
    .attach = none_attach,
    .detach = none_detach,
    .collect = none_collect,
    .close = none_close,
};

struct vv_tracker vv_tracker_none = {&none_ops};
