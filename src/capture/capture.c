/* The capture itself, and the steps of a checkpoint inside the call. See capture.h for the whole, and capture_private.h
 * for what is where. */
#include <errno.h>

#include "base/alloc.h"
#include "base/error.h"
#include "capture/capture_private.h"
#include "memory/process.h"
#include "memory/signals.h"

int vv_capture_create_guarded(const struct vv_capture_options *options, struct vv_guard *guard, struct vv_capture **out,
                              struct varve_error *error) {
    char why[160] = "";
    struct vv_capture *c = vv_calloc(1, sizeof *c);
    if (!c)
        return vv_error(error, -ENOMEM, "no memory for a session");
    c->mode = options->capture;
    if (options->capture == VV_CHOOSE_CAPTURE_FROZEN || options->capture == VV_CHOOSE_CAPTURE_HELD) {
        c->mode = VV_CHOOSE_CAPTURE_AUTO;
        c->freezing = options->capture == VV_CHOOSE_CAPTURE_FROZEN ? VV_FREEZE_ALWAYS : VV_FREEZE_NEVER;
    }
    c->ordering = options->order;
    c->log = options->log;
    c->is_forced = options->tracker != VV_CHOOSE_TRACKER_AUTO;
    c->hold_traps = c->frozen_copies = -1;
    c->sample_ms = 1;
    c->memory_left = vv_process_memory_left;
    c->sums.reason = "nothing was captured yet";
    c->slots.bulk = c->slots.cow = (struct vv_queue){VV_NONE, VV_NONE};
    if (guard)
        vv_choose_guard(c, guard);
    int rc = vv_choose_tracker(c, options->tracker, error);
    if (rc == 0 && c->freezing == VV_FREEZE_ALWAYS && vv_frozen_works(why, sizeof why) != 0)
        rc = vv_error(error, -ENOTSUP, "capture=frozen does not work here: %s", why);
    if (rc != 0) {
        vv_capture_destroy(c);
        return rc;
    }
    vv_log(c->log, VV_LOG_INFO, "tracker %s", c->reason);
    *out = c;
    return 0;
}

int vv_capture_create(const struct vv_capture_options *options, struct vv_capture **out, struct varve_error *error) {
    return vv_capture_create_guarded(options, NULL, out, error);
}

void vv_capture_inside(struct vv_capture *c) {
    c->mode = VV_CHOOSE_CAPTURE_SYNC;
}

void vv_capture_destroy(struct vv_capture *c) {
    if (!c)
        return;
    vv_capture_settle(c, 0);
    for (size_t i = 0; i < c->count; i++)
        vv_capture_unwatch(c, &c->all[i]->base);
    vv_frozen_destroy(c->frozen);
    if (c->guard)
        c->guard->ops->close(c->guard);
    if (c->noted)
        c->noted->ops->close(c->noted);
    vv_trap_clear(&c->trap);
    vv_slots_free(&c->slots);
    vv_free(c->draining);
    vv_numbers_free(&c->order);
    vv_numbers_free(&c->log_of_writes);
    for (size_t i = 0; i < c->count; i++)
        vv_watched_free(c->all[i]);
    vv_free(c->all);
    vv_free(c->sorted);
    vv_free(c->by_number);
    for (size_t i = 0; i < c->lost_count; i++)
        vv_free(c->lost_names[i]);
    vv_free(c->lost_names);
    vv_free(c);
}

const char *vv_capture_reason(const struct vv_capture *c) {
    return c->reason;
}

/* ---- a checkpoint ---- */

static void start_anew(struct vv_capture *c, const struct vv_capture_plan *plan) {
    vv_cost_learn(c);
    vv_freeze_learn(c);
    c->plan = *plan;
    c->sums = (struct vv_capture_sums){.reason = "nothing was captured"};
    c->order.count = 0;
    c->drain = c->stage = c->unholdable = c->drained = 0;
    c->ring_head = c->ring_tail = 0;
    c->waiting_count = 0;
    c->has_more_waiting = 0;
    c->window.run_count = c->window.next = c->urgent.run_count = c->urgent.next = 0;
    c->was_held_before = c->was_held;
    c->is_going = c->in_flight = c->was_held = 0;
    c->is_frozen = c->is_copied = c->was_refused = c->is_short = c->is_deferred = 0;
    c->lost = NULL;
    for (size_t i = 0; i < c->sorted_count && c->samples > 0; i++)
        c->sorted[i]->has_order |= c->sorted[i]->base.tracker == c->noted && c->sorted[i]->base.size > plan->staging;
    c->samples = 0;
    c->sample_ms = 1;
}

int vv_capture_begin(struct vv_capture *c, const struct vv_capture_plan *plan, vv_untouched_fn untouched, void *arg,
                     struct varve_error *error) {
    vv_lock_take(&c->lock); /* sees what traps have done until now; from here on nobody writes */
    vv_lock_give(&c->lock);
    start_anew(c, plan);
    c->is_begun = 1;
    vv_pinned_look(c);
    int rc = vv_watches_take_in(c);
    if (rc == -EFBIG)
        vv_error(error, rc, "more than 16 TiB are protected in one process");
    if (rc == 0)
        rc = vv_slots_set(&c->slots, c->mode == VV_CHOOSE_CAPTURE_SYNC ? 0 : plan->staging);
    if (rc == 0)
        rc = vv_begin_collect(c, untouched, arg, error);
    if (rc != 0) {
        vv_capture_settle(c, 0);
        return vv_error_default(error, rc, "no memory to begin a checkpoint");
    }
    return 0;
}

int vv_capture_decide(struct vv_capture *c, struct varve_error *error) {
    int rc = c->is_deferred ? 0 : vv_plan_make(c);
    vv_begin_clear(c);
    if (rc != 0) {
        vv_capture_settle(c, 0);
        return vv_error_default(error, rc, "no memory to begin a checkpoint");
    }
    c->held_next = c->drain + c->stage;
    for (size_t i = 0; i < c->sorted_count; i++)
        c->sorted[i]->busy = c->sorted[i]->to_hold;
    return 0;
}

int vv_capture_must_drain(const struct vv_capture *c) {
    return c->drained < c->drain;
}

/* The log of this epoch begins with what the program finds free already. With the lock. */
static void begin_log(struct vv_capture *c, int is_held) {
    int is_trapped = 0;
    for (size_t i = 0; i < c->sorted_count; i++) {
        is_trapped |= c->sorted[i]->base.tracker == &c->trap.base;
        c->sorted[i]->has_order |= c->sorted[i]->to_hold > 0;
    }
    if (!is_trapped)
        return;
    vv_order_forget(c);
    c->surprises = 0;
    c->held_chunks = is_held ? c->order.count - c->drain - c->stage : 0;
    c->lead = is_held ? c->drain + c->stage + c->window.capacity : 0;
    for (uint32_t i = 0; is_held && i < c->drain + c->stage && c->mode == VV_CHOOSE_CAPTURE_AUTO; i++) {
        uint64_t chunk;
        struct vv_watched *w = vv_watched_of(c, c->order.list[i], &chunk);
        vv_order_note(c, w, chunk, VV_AHEAD);
    }
}

int vv_capture_go(struct vv_capture *c, struct varve_error *error) {
    (void)error;
    uint32_t left = c->order.count - c->drain - c->stage;
    int is_held = left > 0 && !c->is_frozen;
    vv_stage_all(c);
    vv_lock_take(&c->lock);
    begin_log(c, is_held);
    for (uint32_t i = c->order.count - left; i < c->order.count; i++) {
        uint64_t chunk;
        struct vv_watched *w = vv_watched_of(c, c->order.list[i], &chunk);
        *(is_held ? &c->sums.bytes_held : &c->sums.bytes_frozen) += vv_chunk_size(w, chunk);
        if (!is_held)
            vv_state_set(w, chunk, VV_STAGED); /* the memory is free */
    }
    c->was_held = is_held;
    c->is_going = c->in_flight = 1;
    vv_lock_give(&c->lock);
    return 0;
}

void vv_capture_settle(struct vv_capture *c, int is_committed) {
    sigset_t before;
    if (!c->is_begun)
        return;
    vv_begin_clear(c);
    vv_signals_block(&before); /* as in vv_capture_leave */
    vv_capture_stop(c);
    vv_lock_take(&c->lock);
    for (size_t i = 0; i < c->sorted_count; i++) {
        struct vv_watched *w = c->sorted[i];
        w->is_stale |= !is_committed && w->had_holes;
        for (uint64_t chunk = vv_skip(w, 0); chunk < w->base.chunks; chunk = vv_skip(w, chunk + 1)) {
            if (vv_state(w, chunk) == VV_IDLE)
                continue;
            vv_byte_set(w, chunk, VV_CHUNK_STATE | VV_CHUNK_CHANGED,
                        is_committed ? w->base.bytes[chunk] & VV_CHUNK_CHANGED : VV_CHUNK_CHANGED);
        }
    }
    c->is_begun = c->is_going = c->in_flight = 0;
    vv_lock_give(&c->lock);
    vv_signals_restore(&before);
}

void vv_capture_sums(struct vv_capture *c, struct vv_capture_sums *out) {
    sigset_t before;
    vv_signals_block(&before); /* as in vv_capture_leave */
    vv_lock_take(&c->lock);
    uint64_t state = ((uint64_t)c->order.count + c->log_of_writes.count) * sizeof(uint32_t);
    for (size_t i = 0; i < c->sorted_count; i++) {
        const struct vv_watch *watch = &c->sorted[i]->base;
        for (uint64_t mark = 0; mark <= watch->chunks / VV_MARK; mark++)
            if (watch->marks[mark]) /* the last page of bytes may not be used to its end */
                state += watch->chunks + 1 - mark * VV_MARK < VV_MARK ? watch->chunks + 1 - mark * VV_MARK : VV_MARK;
    }
    *out = c->sums;
    out->memory = state + (uint64_t)(c->slots.used > c->slots.backed ? c->slots.used : c->slots.backed) * VV_PAGE +
                  c->slots.count * sizeof(struct vv_slot);
    vv_lock_give(&c->lock);
    vv_signals_restore(&before);
}
