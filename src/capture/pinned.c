/* Memory that is pinned for devices. A device, or the kernel through a registered buffer, writes it without touching
 * the page table: trackers do not see it, guards do not stop it. What of the process is pinned nobody tells, so as soon
 * as anything is, nothing is believed but regions that are promised to be written by processors only. For good: who
 * pins once does so again, and between two checkpoints nobody looks. */
#include <inttypes.h>
#include <stdio.h>

#include "capture/capture_private.h"
#include "memory/process.h"

static int is_any(const struct vv_capture *c) {
    return c->pinned != 0;
}

int vv_pinned_may_write(const struct vv_capture *c, const struct vv_watched *w) {
    return is_any(c) && !(w->base.flags & VARVE_NO_DEVICE_WRITES);
}

/* Bytes that will be looked at because of it. */
static uint64_t bytes_concerned(const struct vv_capture *c) {
    uint64_t sum = 0;
    for (size_t i = 0; i < c->count; i++)
        if (!c->all[i]->is_left && !(c->all[i]->base.flags & (VARVE_NO_DEVICE_WRITES | VARVE_DEVICE_WRITES)))
            sum += c->all[i]->base.size;
    return sum;
}

static void say(struct vv_capture *c) {
    char what[64] = "the kernel does not tell what is pinned for devices";
    if (c->pinned > 0)
        snprintf(what, sizeof what, "%" PRId64 " bytes are pinned for devices (VmPin)", c->pinned);
    uint64_t bytes = bytes_concerned(c);
    if (bytes == 0)
        return;
    c->is_pinned_said = 1;
    if (!c->is_forced && c->preferred != &vv_tracker_none)
        snprintf(c->reason, sizeof c->reason, "none: %s; %s is for VARVE_NO_DEVICE_WRITES only", what,
                 c->preferred->ops->name);
    /* One rank speaks for all: it is the same everywhere, mostly. */
    vv_log(c->log, !c->log || c->log->rank <= 0 ? VV_LOG_WARN : VV_LOG_INFO,
           "%s, and devices write where no tracker sees it: %s %" PRIu64
           " bytes at each checkpoint, and nothing is held; protect regions that no device writes with "
           "VARVE_NO_DEVICE_WRITES",
           what,
           c->is_forced ? "the tracker is believed because it was asked for, for"
                        : "all that was touched is looked at, of",
           bytes);
}

const char *vv_capture_tracker(const struct vv_capture *c) {
    int is_used = !is_any(c) || c->is_forced;
    for (size_t i = 0; i < c->count && !is_used; i++)
        is_used = !c->all[i]->is_left && (c->all[i]->base.flags & VARVE_NO_DEVICE_WRITES);
    return is_used ? c->preferred->ops->name : vv_tracker_none.ops->name;
}

void vv_pinned_look(struct vv_capture *c) {
    int64_t now = vv_process_pinned();
    if (now > 0 ? now > c->pinned : c->pinned == 0)
        c->pinned = now;
    if (is_any(c) && !c->is_pinned_said)
        say(c);
}
