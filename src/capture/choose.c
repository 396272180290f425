/* What works here: the tracker that tells what changed, and the guard that stops who writes. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "capture/capture_private.h"

void vv_choose_guard(struct vv_capture *c, struct vv_guard *guard) {
    c->guard = guard;
    c->guard_tried = 1;
    vv_trap_init(&c->trap, c, guard->ops->name);
}

static int open_guard(struct vv_capture *c, int is_uffd) {
    struct vv_guard *guard = NULL;
    int rc =
        (is_uffd ? vv_guard_uffd : vv_guard_mprotect)(vv_capture_trapped, c, &guard, c->why_not, sizeof c->why_not);
    if (rc == 0)
        vv_choose_guard(c, guard);
    return rc;
}

/* Only now: who never holds needs neither a thread nor a handler. */
struct vv_guard *vv_capture_guard(struct vv_capture *c) {
    if (c->guard_tried)
        return c->guard;
    c->guard_tried = 1;
    unsigned flags = 0;
    for (size_t i = 0; i < c->count; i++)
        flags |= c->all[i]->base.flags;
    if (open_guard(c, 1) != 0 && (flags & VARVE_NO_KERNEL_WRITES))
        open_guard(c, 0);
    if (!c->guard)
        vv_log(c->log, VV_LOG_INFO, "memory is not held: %s", c->why_not);
    return c->guard;
}

int vv_guard_suits(const struct vv_guard *guard, const struct vv_watched *w) {
    return guard && (guard->ops->is_transparent || (w->base.flags & VARVE_NO_KERNEL_WRITES));
}

static int prefer_trap(struct vv_capture *c, int choice, struct varve_error *error) {
    int rc = c->guard ? 0 : -ENOTSUP;
    if (rc != 0 && choice != VV_CHOOSE_TRACKER_TRAP_MPROTECT)
        rc = open_guard(c, 1);
    if (rc != 0 && choice != VV_CHOOSE_TRACKER_TRAP_UFFD)
        rc = open_guard(c, 0);
    if (rc != 0)
        return vv_error(error, -ENOTSUP, "writes cannot be trapped here: %s", c->why_not);
    if (!vv_peek_works())
        return vv_error(error, -ENOTSUP, "writes cannot be trapped here: memory cannot be read by a system call");
    c->preferred = &c->trap.base;
    snprintf(c->reason, sizeof c->reason, "%s: first writes are stopped%s", c->trap.name,
             c->guard->ops->is_transparent ? "" : ", of regions with VARVE_NO_KERNEL_WRITES only");
    return 0;
}

static int prefer_noted(struct vv_capture *c, int choice, struct varve_error *error) {
    char why[128] = "", why_not[128] = "";
    int is_softdirty = choice == VV_CHOOSE_TRACKER_SOFTDIRTY;
    if (!is_softdirty && vv_tracker_scan(&c->noted, why, sizeof why) == 0)
        snprintf(c->reason, sizeof c->reason, "scan: the kernel notes writes (WP_ASYNC works here)");
    else if (choice == VV_CHOOSE_TRACKER_SCAN)
        return vv_error(error, -ENOTSUP, "tracker scan does not work here: %s", why);
    else if (is_softdirty && vv_tracker_softdirty(1, &c->noted, why_not, sizeof why_not) == 0)
        snprintf(c->reason, sizeof c->reason, "softdirty: the kernel notes writes (soft-dirty bits work here)");
    else if (is_softdirty)
        return vv_error(error, -ENOTSUP, "tracker softdirty does not work here: %s", why_not);
    if (c->noted)
        c->preferred = c->noted;
    else
        snprintf(c->reason, sizeof c->reason, "none: %.100s", why);
    return 0;
}

int vv_choose_tracker(struct vv_capture *c, int choice, struct varve_error *error) {
    int is_trap = choice == VV_CHOOSE_TRACKER_TRAP_UFFD || choice == VV_CHOOSE_TRACKER_TRAP_MPROTECT;
    c->preferred = &vv_tracker_none;
    if (sysconf(_SC_PAGESIZE) != VV_PAGE) {
        c->guard_tried = 1;
        snprintf(c->why_not, sizeof c->why_not, "pages are not of 4096 bytes");
    }
    if (c->mode == VV_CHOOSE_CAPTURE_TRAP || is_trap)
        return prefer_trap(c, choice, error);
    if (choice != VV_CHOOSE_TRACKER_NONE)
        return prefer_noted(c, choice, error);
    snprintf(c->reason, sizeof c->reason, "none: as it was asked for");
    return 0;
}
