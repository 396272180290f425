/* Showing what was captured before it is consumed, so that it can be named. */
#include "capture/capture_private.h"

/* A run of chunks of one kind, from `first` on, at most VV_MOST. */
static uint32_t run_of(const struct vv_watched *w, uint64_t first, int state) {
    uint32_t count = 0;
    while (count < VV_MOST && first + count < w->base.chunks && vv_state(w, first + count) == state)
        count++;
    return count;
}

static int look_at_memory(struct vv_watched *w, vv_look_fn fn, void *arg) {
    for (uint64_t chunk = vv_skip(w, 0); chunk < w->base.chunks; chunk = vv_skip(w, chunk)) {
        uint32_t count = run_of(w, chunk, VV_SCHEDULED);
        if (count == 0) {
            chunk++;
            continue;
        }
        int rc = fn(arg, &w->base, chunk, count, w->base.ptr + chunk * VV_PAGE);
        if (rc != 0)
            return rc;
        chunk += count;
    }
    return 0;
}

/* The staged chunks of a watch, from a slot on; returns the next one. */
static uint32_t look_at_slots(struct vv_capture *c, const struct vv_watched *w, uint32_t slot, vv_look_fn fn, void *arg,
                              int *rc) {
    for (; slot != VV_NONE && *rc == 0; slot = c->slots.list[slot].next) {
        uint64_t chunk;
        struct vv_watched *of = vv_watched_of(c, c->slots.list[slot].number, &chunk);
        if (of && of != w)
            break;
        if (of)
            *rc = fn(arg, &of->base, chunk, 1, c->slots.data + (size_t)slot * VV_PAGE);
    }
    return slot;
}

/* Nothing is consumed yet, and everything is in slots or frozen, both in the order of the watches: nobody else touches
 * the queue. */
static int look_behind(struct vv_capture *c, vv_look_fn fn, void *arg, struct varve_error *error) {
    uint32_t slot = c->slots.bulk.head, at = c->drain + c->stage;
    int rc = 0;
    for (size_t i = 0; i < c->sorted_count && rc == 0; i++) {
        slot = look_at_slots(c, c->sorted[i], slot, fn, arg, &rc);
        if (rc == 0)
            rc = vv_freeze_look(c, c->sorted[i], &at, fn, arg, error);
    }
    return rc;
}

int vv_capture_look(struct vv_capture *c, vv_look_fn fn, void *arg, struct varve_error *error) {
    if (c->is_going)
        return look_behind(c, fn, arg, error);
    int rc = 0;
    for (size_t i = 0; i < c->sorted_count && rc == 0; i++)
        rc = look_at_memory(c->sorted[i], fn, arg);
    return rc;
}

void vv_capture_drop(struct vv_watch *watch, uint64_t chunk) {
    struct vv_watched *w = (struct vv_watched *)watch;
    if (vv_state(w, chunk) != VV_SCHEDULED)
        return;
    vv_state_set(w, chunk, VV_PROCESSED);
    w->scheduled--;
}

void vv_capture_skip(struct vv_capture *c, struct vv_watch *watch, uint64_t chunk) {
    struct vv_watched *w = (struct vv_watched *)watch;
    vv_lock_take(&c->lock);
    if (vv_state(w, chunk) == VV_STAGED)
        vv_state_set(w, chunk, VV_PROCESSED);
    vv_lock_give(&c->lock);
}
