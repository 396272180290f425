/* What the files of capture/ call of each other. */
#ifndef VV_CAPTURE_PRIVATE_H
#define VV_CAPTURE_PRIVATE_H

#include "capture/capture_state_private.h"

/* ---- bytes ---- */

static inline int vv_state(const struct vv_watched *w, uint64_t chunk) {
    return w->base.bytes[chunk] & VV_CHUNK_STATE;
}
static inline int vv_access(const struct vv_watched *w, uint64_t chunk) {
    return (w->base.bytes[chunk] & VV_CHUNK_ACCESS) >> 3;
}
static inline void vv_byte_set(struct vv_watched *w, uint64_t index, unsigned mask, unsigned bits) {
    w->base.bytes[index] = (uint8_t)((w->base.bytes[index] & ~mask) | bits);
    w->base.marks[index / VV_MARK] = 1;
}
static inline void vv_state_set(struct vv_watched *w, uint64_t chunk, int state) {
    vv_byte_set(w, chunk, VV_CHUNK_STATE, (unsigned)state);
}
/* The first index from here whose byte may be anything but 0. */
static inline uint64_t vv_skip(const struct vv_watched *w, uint64_t index) {
    uint64_t mark = index / VV_MARK, end = w->base.chunks / VV_MARK + 1;
    if (mark >= end || w->base.marks[mark])
        return index;
    while (mark < end && !w->base.marks[mark])
        mark++;
    return mark * VV_MARK;
}
static inline uint64_t vv_chunk_size(const struct vv_watched *w, uint64_t chunk) {
    uint64_t left = w->base.size - chunk * VV_PAGE;
    return left < VV_PAGE ? left : VV_PAGE;
}
static inline uint64_t vv_chunks_size(const struct vv_watched *w, uint64_t chunk, uint64_t count) {
    return (count - 1) * VV_PAGE + vv_chunk_size(w, chunk + count - 1);
}

/* ---- pages and chunks of a watch ---- */

static inline uintptr_t vv_page_address(const struct vv_watched *w, uint64_t page) {
    return (uintptr_t)w->base.ptr - w->skew + page * VV_PAGE;
}
/* The chunks [*first, returned) that have a part in a page. */
static inline uint64_t vv_page_chunks(const struct vv_watched *w, uint64_t page, uint64_t *first) {
    *first = w->skew && page > 0 ? page - 1 : page;
    return page + 1 < w->base.chunks ? page + 1 : w->base.chunks;
}
/* The last page in which a chunk has a part; the first has the chunk's number. */
static inline uint64_t vv_chunk_last_page(const struct vv_watched *w, uint64_t chunk) {
    return chunk + (w->skew ? 1 : 0);
}
static inline int vv_is_busy(int state) {
    return state == VV_SCHEDULED || state == VV_IN_PROGRESS;
}
static inline int vv_page_is_busy(const struct vv_watched *w, uint64_t page) {
    uint64_t chunk, end = vv_page_chunks(w, page, &chunk);
    for (; chunk < end; chunk++)
        if (vv_is_busy(vv_state(w, chunk)))
            return 1;
    return 0;
}
static inline int vv_page_is_armed(const struct vv_watched *w, uint64_t page) {
    return (w->base.bytes[page] & VV_PAGE_ARMED) != 0;
}

/* Pages [first, last) of a watch are to be disarmed. */
struct vv_release {
    struct vv_watched *watched;
    uint64_t first, last;
    uint64_t chunks; /* copied by a trap, that are busy until it is done */
};

/* watches.c; the watch of a number, and the chunk in it. NULL: it is gone. */
struct vv_watched *vv_watched_of(const struct vv_capture *c, uint32_t number, uint64_t *chunk);
struct vv_watched *vv_watched_at(const struct vv_capture *c, uintptr_t page);
/* A tracker that the watch is taken out of, and put into; the first may be the guard's. */
void vv_watched_detach(struct vv_capture *c, struct vv_watched *w);
int vv_watched_attach(struct vv_capture *c, struct vv_watched *w, struct vv_tracker *tracker);
void vv_watched_free(struct vv_watched *w);
/* Memory of this watch was taken away under a capture: watches of its name are not held any more. */
void vv_watched_lose(struct vv_capture *c, struct vv_watched *w);
/* take_in.c: those that came and went since the last checkpoint. 0, -ENOMEM or -EFBIG. */
int vv_watches_take_in(struct vv_capture *c);

/* capture.c. With a guard of the caller's (tests), which the capture closes; NULL: what works here. */
int vv_capture_create_guarded(const struct vv_capture_options *options, struct vv_guard *guard, struct vv_capture **out,
                              struct varve_error *error);
/* choose.c. A guard that is there already is taken, */
void vv_choose_guard(struct vv_capture *c, struct vv_guard *guard);
/* or one is made if that was not tried yet. */
struct vv_guard *vv_capture_guard(struct vv_capture *c);
int vv_choose_tracker(struct vv_capture *c, int choice, struct varve_error *error);
int vv_guard_suits(const struct vv_guard *guard, const struct vv_watched *w);

/* pinned.c: look again at what is pinned; told in the log once. */
void vv_pinned_look(struct vv_capture *c);
/* May devices write this watch, so that neither trackers nor guards can be believed? */
int vv_pinned_may_write(const struct vv_capture *c, const struct vv_watched *w);

/* begin.c */
int vv_begin_collect(struct vv_capture *c, vv_untouched_fn untouched, void *arg, struct varve_error *error);
void vv_begin_clear(struct vv_capture *c);
/* Watches that had no checkpoint yet are watched from now on, for the order. */
void vv_begin_early(struct vv_capture *c);
/* Out of the guard, back into the tracker that suits it, which watches from now on. Nobody writes. */
void vv_watched_return(struct vv_capture *c, struct vv_watched *w);
/* plan.c */
int vv_plan_make(struct vv_capture *c);
/* freeze.c; 1 if copies may be made, as far as is known without making one, and (long, it asks for all mappings) if
 * there is anything for them. */
int vv_freeze_may(const struct vv_capture *c);
int vv_freeze_can_any(struct vv_capture *c);
/* 1 if too little memory is left in the system, for all ranks that do the same, to freeze so many chunks. */
int vv_freeze_is_short(const struct vv_capture *c, uint64_t chunks);
/* Show the frozen chunks of a watch, from *at in the order on, which is left behind them. */
int vv_freeze_look(struct vv_capture *c, const struct vv_watched *w, uint32_t *at, vv_look_fn fn, void *arg,
                   struct varve_error *error);
/* The chunks that are to be frozen come as they are, or by address: then what lies between two that were read will not
 * be asked for any more, and can be given back with them. */
void vv_freeze_arrange(struct vv_capture *c, int must_ascend);
/* Make the copy, of what is SCHEDULED. 0 or -errno. */
int vv_freeze_begin(struct vv_capture *c);
/* Read the next chunks, then hand them out. */
int vv_freeze_read(struct vv_capture *c, struct varve_error *error);
int vv_freeze_has_piece(const struct vv_capture *c);
void vv_freeze_give(struct vv_capture *c, struct vv_piece *piece);
void vv_freeze_end(struct vv_capture *c);
/* The epoch is over. */
void vv_freeze_learn(struct vv_capture *c);
/* cost.c: what becomes of what exceeds the slots? */
enum vv_rest { VV_REST_DRAIN, VV_REST_HOLD, VV_REST_FREEZE };
/* Is it cheaper to freeze what does not fit than to name all of it, and drain it, inside the call? */
int vv_cost_defers(const struct vv_capture *c, uint64_t scheduled);
enum vv_rest vv_cost_choose(struct vv_capture *c, uint64_t scheduled, int can_hold, int can_freeze);
void vv_cost_named(struct vv_capture *c, double seconds, uint64_t pages);
void vv_cost_walked(struct vv_capture *c, double seconds, uint64_t pages);
void vv_cost_frozen(struct vv_capture *c, double seconds, uint64_t pages);
/* Does the order jump about? */
int vv_cost_is_scattered(const struct vv_capture *c);
/* Then: how many chunks to drain first. */
uint64_t vv_cost_drained_first(const struct vv_capture *c);
void vv_cost_armed(struct vv_capture *c, double seconds, uint64_t pages);
void vv_cost_learn(struct vv_capture *c);

/* write_order.c */
int vv_numbers_reserve(struct vv_watch_numbers *numbers, uint64_t capacity);
void vv_numbers_free(struct vv_watch_numbers *numbers);
void vv_numbers_sort(uint32_t *list, uint32_t count);
/* Numbers that follow each other, with the places of the first of each; returns how many runs there are. */
uint32_t vv_runs_of(const uint32_t *list, uint32_t count, struct vv_page_run *runs);
void vv_order_by_address(struct vv_capture *c);
/* Those first that cannot stay. */
void vv_order_deferred(struct vv_capture *c);
/* Those that cannot be held (or frozen) come first, c->unholdable of them; then, until there are `lowest` in all, by
 * address. */
void vv_order_expected(struct vv_capture *c, uint64_t lowest);
/* A first access in this epoch. With the lock. */
void vv_order_note(struct vv_capture *c, struct vv_watched *w, uint64_t chunk, int access);
/* Begin the log anew. With the lock. */
void vv_order_forget(struct vv_capture *c);
/* Watches came and went: what is gone leaves the log. */
void vv_order_tidy(struct vv_capture *c);
/* Where in the order it comes, if it is among the next to be read; VV_NONE: it is a surprise. With the lock. */
uint32_t vv_order_index(const struct vv_capture *c, uint32_t number);

/* slots.c */
int vv_slots_set(struct vv_slots *slots, uint64_t bytes);
void vv_slots_free(struct vv_slots *slots);
/* All free. The last ones serve as windows if asked for. */
void vv_slots_reset(struct vv_slots *slots, uint32_t reserve);
uint32_t vv_slots_take(struct vv_slots *slots, uint32_t number); /* VV_NONE: none is free */
void vv_slots_give(struct vv_slots *slots, uint32_t first, uint32_t count);
void vv_slots_push(struct vv_slots *slots, struct vv_queue *queue, uint32_t slot);
/* The oldest, and those behind it that are its neighbours both as slots and as chunks. */
uint32_t vv_slots_pop(struct vv_slots *slots, struct vv_queue *queue, uint32_t *slot);
/* What is staged is copied into its slots. */
void vv_stage_all(struct vv_capture *c);

/* release.c. With the lock: the pages of chunks [first, first + count) that nothing holds any more. */
struct vv_release vv_release_of(struct vv_capture *c, struct vv_watched *w, uint64_t first, uint64_t count);
int vv_release(struct vv_capture *c, const struct vv_release *release);
void vv_wake_stuck(struct vv_capture *c);
void vv_release_all(struct vv_capture *c);
void vv_release_whole(struct vv_capture *c);
/* With the lock: nobody waits in [start, end) any more. */
void vv_waiting_over(struct vv_capture *c, uintptr_t start, uintptr_t end);

/* The program has caught up: copy the chunks of the order from `at` on into slots, as many as there is room for, and
 * tell the (at most VV_MOST) runs of pages to disarm. With the lock. */
uint32_t vv_copy_following(struct vv_capture *c, uint32_t at, struct vv_release *releases);

/* trap.c: the guard's callback; arg is the capture. */
int vv_capture_trapped(void *arg, uintptr_t page);

/* tracker_trap.c */
void vv_trap_init(struct vv_trap *trap, struct vv_capture *c, const char *guard_name);
void vv_trap_clear(struct vv_trap *trap);
/* Arm the whole pages inside, except those never touched and, unless all are wanted, those whose chunks are all
 * captured in the call. 0 or an error. */
int vv_trap_arm(struct vv_trap *trap, struct vv_watched *w, int all, uint64_t *pages);
/* Are pages [first, last), which are armed, still what was armed? 0 or an error. */
int vv_trap_check(struct vv_trap *trap, const struct vv_watched *w, uint64_t first, uint64_t last);
/* Bytes of these pages that are not the page of zeros that all share, or -EFAULT if some are not there: a page that was
 * dropped becomes one as soon as it is read. Always 0 where disarming finds that out. */
int64_t vv_trap_solid(struct vv_trap *trap, const struct vv_watched *w, uint64_t first, uint64_t last);

#endif
