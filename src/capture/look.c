/* Showing what was captured before it is consumed, so that it can be named. */
#include "capture/private.h"

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

/* Nothing is consumed yet, and everything is in slots: nobody else touches the queue. */
static int look_at_staging(struct vv_capture *c, vv_look_fn fn, void *arg) {
    for (uint32_t slot = c->slots.bulk.head; slot != VV_NONE; slot = c->slots.list[slot].next) {
        uint64_t chunk;
        struct vv_watched *w = vv_watched_of(c, c->slots.list[slot].number, &chunk);
        int rc = w ? fn(arg, &w->base, chunk, 1, c->slots.data + (size_t)slot * VV_PAGE) : 0;
        if (rc != 0)
            return rc;
    }
    return 0;
}

int vv_capture_look(struct vv_capture *c, vv_look_fn fn, void *arg) {
    if (c->is_going)
        return look_at_staging(c, fn, arg);
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
