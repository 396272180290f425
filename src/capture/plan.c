/* What is drained, staged, and held or frozen, and the way of watches into the guard and out of it.
 *
 * The order array has the chunks to drain first, then those to stage, then those to hold or, in another checkpoint, to
 * freeze. Everything that can fail about either happens here, inside vv_capture_decide, while it can still be drained
 * instead: a watch that cannot be put into the guard or armed is struck off, and so is freezing when no copy can be
 * made; then the plan is made again. */
#include <errno.h>
#include <inttypes.h>

#include "base/thread.h"
#include "capture/capture_private.h"
#include "memory/process.h"

#define FEW_SLOTS 16u /* fewer give none away for windows */

static uint64_t scheduled_in_all(const struct vv_capture *c) {
    uint64_t sum = 0;
    for (size_t i = 0; i < c->sorted_count; i++)
        sum += c->sorted[i]->scheduled;
    return sum;
}

static uint32_t between(uint32_t value, uint32_t low, uint32_t high) {
    return value < low ? low : value > high ? high : value;
}

/* Where held chunks are read to. It is part of what the plan allows, unless that is next to nothing. */
static void give_windows(struct vv_capture *c) {
    struct vv_slots *slots = &c->slots;
    uint32_t most = c->mode == VV_CHOOSE_CAPTURE_TRAP ? VV_FINE : VV_MOST, reserve = 0;
    if (slots->count < FEW_SLOTS) {
        c->window.capacity = c->urgent.capacity = slots->spare / 2;
        c->window.data = slots->data + (size_t)slots->count * VV_PAGE;
    } else {
        c->window.capacity = between(slots->count / 8, 1, most);
        c->urgent.capacity = between(slots->count / 64, 2, c->mode == VV_CHOOSE_CAPTURE_TRAP ? VV_FINE : VV_URGENT);
        reserve = c->window.capacity + c->urgent.capacity;
        c->window.data = slots->data + (size_t)(slots->count - reserve) * VV_PAGE;
    }
    c->urgent.data = c->window.data + (size_t)c->window.capacity * VV_PAGE;
    vv_slots_reset(slots, reserve);
}

/* ---- how much of what ---- */

static int may_hold(struct vv_capture *c, struct vv_watched *w) {
    if (!w->base.is_plain || w->base.was_lost || w->base.is_doubted || w->cannot_guard || w->hold_first >= w->hold_end)
        return 0;
    if (vv_pinned_may_write(c, w)) /* whatever tracker was asked for: nobody would notice a torn page */
        return 0;
    if (c->mode == VV_CHOOSE_CAPTURE_TRAP)
        return w->is_attached && w->base.tracker == &c->trap.base;
    size_t length;
    uintptr_t start = vv_watch_inside(&w->base, &length);
    return vv_guard_suits(c->guard, w) && vv_memory_is_plain((const void *)start, length);
}

static int can_hold_any(struct vv_capture *c) {
    int can = 0, works = vv_peek_works();
    if (works)
        vv_capture_guard(c);
    c->is_merged = c->trap.is_uffd && vv_process_is_merged();
    works = works && !c->is_merged;
    for (size_t i = 0; i < c->sorted_count; i++) {
        struct vv_watched *w = c->sorted[i];
        w->may_hold = works && c->guard && w->scheduled > 0 && may_hold(c, w);
        can |= w->may_hold;
    }
    return can;
}

static const char *why_not_held(const struct vv_capture *c) {
    if (c->is_merged)
        return "what did not fit was drained: the kernel merges equal pages of this process (KSM)";
    for (size_t i = 0; i < c->sorted_count; i++)
        if (c->sorted[i]->scheduled > 0 && vv_pinned_may_write(c, c->sorted[i]))
            return "what did not fit was drained: memory is pinned for devices, and VARVE_NO_DEVICE_WRITES was not "
                   "promised";
    return "what did not fit was drained: holding needs a kernel-capable userfaultfd or VARVE_NO_KERNEL_WRITES";
}

static const char *why_not_copied(const struct vv_capture *c) {
    return c->copy_error == -ENOMEM
               ? "what did not fit was drained: no memory for a copy of the process (vm.overcommit_memory, limits)"
               : "what did not fit was drained: no copy of the process could be made";
}

static const char *why_drained(const struct vv_capture *c, int can_hold, int can_freeze) {
    if (c->was_refused)
        return why_not_copied(c);
    if (can_hold)
        return can_freeze ? "what did not fit was drained: cheaper than holding and freezing"
                          : "what did not fit was drained: cheaper than holding";
    if (can_freeze)
        return "what did not fit was drained: cheaper than freezing";
    if (c->is_short)
        return "what did not fit was drained: too little memory is left to freeze it";
    if (c->copy_error != 0)
        return why_not_copied(c);
    if (c->plan.must_not_hold)
        return "what did not fit was drained: copies go to other nodes meanwhile";
    return c->freezing == VV_FREEZE_ALWAYS ? "what did not fit was drained: nothing of it could be frozen"
                                           : why_not_held(c);
}

static void plan_drain(struct vv_capture *c, uint64_t chunks, uint64_t stage, const char *reason) {
    vv_slots_reset(&c->slots, 0);
    vv_order_by_address(c);
    c->drain = (uint32_t)(chunks - stage);
    c->stage = (uint32_t)stage;
    c->sums.reason = reason;
}

static void set_states(struct vv_capture *c, int is_final) {
    for (size_t i = 0; i < c->sorted_count; i++)
        c->sorted[i]->to_hold = 0;
    for (uint32_t i = 0; i < c->order.count; i++) {
        uint64_t chunk;
        struct vv_watched *w = vv_watched_of(c, c->order.list[i], &chunk);
        int is_last = i >= c->drain + c->stage, is_held = is_last && !c->is_frozen;
        vv_state_set(w, chunk, is_last || !is_final ? VV_SCHEDULED : i < c->drain ? VV_PROCESSED : VV_STAGED);
        w->to_hold += is_held;
    }
}

/* Chunks that could be held, back to where the order can be made again. */
static void undo_order(struct vv_capture *c) {
    c->drain = c->order.count;
    c->stage = 0;
    set_states(c, 0);
}

static void plan_hold(struct vv_capture *c) {
    give_windows(c);
    vv_order_expected(c, 0);
    /* A quarter stays free for what is written before it is expected. */
    uint32_t capacity = c->slots.free_count - c->slots.free_count / 4;
    uint32_t drain = c->unholdable > capacity ? c->unholdable - capacity : 0;
    c->was_scattered = vv_cost_is_scattered(c);
    if (c->was_scattered) { /* what is captured in the call, then, lies together: one range is left to arm */
        uint64_t first = vv_cost_drained_first(c);
        drain = between((uint32_t)first, drain, c->order.count);
        undo_order(c);
        vv_order_expected(c, (uint64_t)drain + capacity);
    }
    c->drain = drain;
    c->stage = between(capacity, 0, c->order.count - drain);
    c->sums.reason = "what did not fit was held";
    vv_log(c->log, VV_LOG_DEBUG,
           "%u chunks: %u drained, %u staged, the rest held; of the last %" PRIu64 " held %" PRIu64
           " came as a surprise; one more is written every %.2f us",
           c->order.count, c->drain, c->stage, c->held_chunks, c->surprises, c->pace * 1e6);
}

static void plan_freeze(struct vv_capture *c) {
    vv_slots_reset(&c->slots, 0);
    c->is_frozen = 1;
    vv_order_expected(c, 0);
    uint32_t capacity = c->slots.free_count, all = c->order.count;
    uint64_t drain = c->unholdable > capacity ? c->unholdable - capacity : 0;
    if (c->freezing != VV_FREEZE_ALWAYS && drain < c->drain_first)
        drain = c->drain_first;
    c->drain = (uint32_t)(drain < all ? drain : all);
    c->stage = between(capacity, 0, all - c->drain);
    c->is_frozen = all > c->drain + c->stage;
    vv_freeze_arrange(c, c->ordering == VV_CHOOSE_ORDER_ADDRESS || vv_cost_is_scattered(c));
    c->sums.reason = c->is_frozen ? "what did not fit was frozen" : why_drained(c, 0, 1);
}

static void plan_trap(struct vv_capture *c) {
    can_hold_any(c);
    give_windows(c);
    vv_order_expected(c, 0);
    c->drain = c->unholdable;
    c->stage = 0;
    c->sums.reason = c->order.count > c->unholdable ? "trap: everything that can be was held"
                                                    : "trap: nothing could be held, all was stored inside the call";
}

/* Who may be stopped and who not does not matter for freezing: nobody ever is. */
static void plan_excess(struct vv_capture *c, uint64_t chunks) {
    int can_hold = !c->plan.must_not_hold && c->freezing != VV_FREEZE_ALWAYS && can_hold_any(c);
    int can_freeze = c->mode == VV_CHOOSE_CAPTURE_AUTO && !c->was_refused && vv_freeze_may(c);
    enum vv_rest way = vv_cost_choose(c, chunks, can_hold, can_freeze);
    uint64_t excess = chunks - c->slots.count, first = c->drain_first < excess ? c->drain_first : excess;
    c->is_short = way == VV_REST_FREEZE && vv_freeze_is_short(c, excess - first);
    if (way == VV_REST_FREEZE && (c->is_short || !vv_freeze_can_any(c))) {
        can_freeze = 0;
        way = vv_cost_choose(c, chunks, can_hold, 0);
    }
    if (way == VV_REST_FREEZE)
        plan_freeze(c);
    else if (way == VV_REST_HOLD)
        plan_hold(c);
    else
        plan_drain(c, chunks, c->slots.count, why_drained(c, can_hold, can_freeze));
}

static void plan_once(struct vv_capture *c) {
    uint64_t chunks = scheduled_in_all(c), slots = c->slots.count;
    c->is_frozen = 0;
    if (c->mode == VV_CHOOSE_CAPTURE_SYNC)
        plan_drain(c, chunks, 0, "sync: everything was stored inside the call");
    else if (c->mode == VV_CHOOSE_CAPTURE_TRAP && !c->plan.must_not_hold)
        plan_trap(c);
    else if (chunks <= slots)
        plan_drain(c, chunks, chunks, "everything fitted staging");
    else
        plan_excess(c, chunks);
}

/* ---- states, and the guard ---- */

static int put_into_guard(struct vv_capture *c, struct vv_watched *w, uint64_t *pages) {
    int rc = 0;
    if (!w->is_attached || w->base.tracker != &c->trap.base) {
        if (w->is_attached)
            vv_watched_detach(c, w);
        rc = vv_watched_attach(c, w, &c->trap.base);
    }
    if (rc == 0)
        rc = vv_trap_arm(&c->trap, w, c->preferred == &c->trap.base, pages);
    if (rc == 0)
        return 0;
    vv_log(c->log, VV_LOG_DEBUG, "region %s cannot be held (%d): it is stored inside the call", w->name, rc);
    w->cannot_guard = 1;
    vv_watched_return(c, w);
    return rc;
}

/* -EAGAIN: another plan is needed. */
static int use_guard(struct vv_capture *c) {
    uint64_t pages = 0, start = vv_clock_ns();
    int is_held = !c->is_frozen && c->order.count > c->drain + c->stage, has_failed = 0;
    for (size_t i = 0; i < c->sorted_count; i++) {
        struct vv_watched *w = c->sorted[i];
        int is_guarded = w->is_attached && w->base.tracker == &c->trap.base;
        if (w->to_hold > 0 || (is_guarded && c->preferred == &c->trap.base))
            has_failed |= put_into_guard(c, w, &pages) != 0 && w->to_hold > 0;
        else if (is_guarded)
            vv_watched_return(c, w);
    }
    if (is_held && !has_failed)
        vv_cost_armed(c, (double)(vv_clock_ns() - start) * 1e-9, pages);
    return has_failed ? -EAGAIN : 0;
}

/* -EAGAIN: as above. */
static int use_copy(struct vv_capture *c) {
    if (!c->is_frozen)
        return 0;
    vv_stage_all(c);
    if (vv_freeze_begin(c) == 0)
        return 0;
    c->was_refused = 1;
    c->is_copied = 0;
    c->sums.bytes_staged = 0;
    return -EAGAIN;
}

int vv_plan_make(struct vv_capture *c) {
    int rc = -EAGAIN;
    while (rc == -EAGAIN) {
        plan_once(c);
        set_states(c, 1);
        rc = use_guard(c);
        if (rc == 0)
            rc = use_copy(c);
        if (rc == -EAGAIN)
            set_states(c, 0);
    }
    return rc;
}

/* ---- looked at in the background ---- */

/* Is there room for what cannot be frozen? It must not be drained, since it has no name yet. */
static int fits_beside(const struct vv_capture *c) {
    uint64_t chunks = 0;
    for (size_t i = 0; i < c->sorted_count; i++)
        chunks += c->sorted[i]->may_freeze ? 0 : c->sorted[i]->scheduled;
    return chunks <= c->slots.count;
}

enum vv_later vv_capture_later(struct vv_capture *c) {
    uint64_t chunks = c->asked = scheduled_in_all(c);
    if (c->mode != VV_CHOOSE_CAPTURE_AUTO)
        return VV_LATER_NOT;
    if (chunks <= c->slots.count)
        return VV_LATER_STAGED;
    if (!vv_freeze_may(c) || !vv_cost_defers(c, chunks))
        return VV_LATER_NOT;
    c->is_short = vv_freeze_is_short(c, chunks - c->slots.count);
    return !c->is_short && vv_freeze_can_any(c) && fits_beside(c) ? VV_LATER_FROZEN : VV_LATER_NOT;
}

void vv_capture_named(struct vv_capture *c, double seconds) {
    vv_cost_named(c, seconds, c->asked);
    c->asked = 0;
}

/* Staged is what a copy does not have, and no more: to copy the rest twice would lengthen the call. */
static void plan_deferred(struct vv_capture *c) {
    vv_slots_reset(&c->slots, 0);
    c->is_frozen = 1;
    vv_order_deferred(c);
    c->drain = 0;
    c->stage = c->unholdable;
    c->sums.reason = "what did not fit was frozen";
    set_states(c, 1);
}

static void undo(struct vv_capture *c) {
    set_states(c, 0);
    c->is_frozen = c->is_copied = c->is_deferred = 0;
    c->sums.bytes_staged = 0;
}

int vv_capture_freeze(struct vv_capture *c) {
    plan_deferred(c);
    int rc = use_guard(c);
    if (rc == 0)
        rc = use_copy(c);
    c->is_deferred = rc == 0;
    if (rc != 0)
        undo(c);
    return rc == 0;
}

void vv_capture_unfreeze(struct vv_capture *c) {
    if (!c->is_begun || !c->is_deferred) /* of this checkpoint */
        return;
    vv_freeze_end(c);
    undo(c);
}

int vv_capture_is_frozen(const struct vv_capture *c) {
    return c->is_frozen;
}
