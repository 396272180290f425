/* The inside of capture.h: what its files share.
 *
 *   capture.c       create, begin, go, settle
 *   lock.c          the lock
 *   choose.c        which tracker and which guard work here
 *   watches.c       the watches, and their trackers
 *   take_in.c       their lists and numbers, after some came or went
 *   begin.c         what changed: asks the trackers, and remembers what was never touched
 *   pinned.c        memory that devices may write, where no tracker sees it
 *   unreported.c    some of what the trackers said nothing about, for the audit
 *   plan.c          what is drained, staged, and held or frozen; into and out of the guard
 *   freeze.c        what is left to a frozen copy of the process
 *   cost.c          whether that, or holding, pays
 *   write_order.c   the expected order of writes
 *   sample.c        learns it before anything was held
 *   slots.c         the staging buffer, and what is copied into it inside the call
 *   show.c          everything shown before it is consumed
 *   flow.c          next, done, stop
 *   release.c       pages are disarmed, who waits goes on
 *   trap.c          somebody writes a held page
 *   tracker_trap.c  a tracker over the guard
 *
 * Chunks of all watches have one numbering of 32 bits: those of a watch follow each other, and there is a gap of one
 * between watches, so that neighbours by number are neighbours in memory. */
#ifndef VV_CAPTURE_PRIVATE_H
#define VV_CAPTURE_PRIVATE_H

#include <stdatomic.h>

#include "capture/capture.h"
#include "memory/frozen.h"
#include "memory/pagemap.h"
#include "memory/peek.h"

#define VV_NONE UINT32_MAX
enum {
    VV_AHEAD = 5,    /* beside enum vv_access: released, or copied in the call, before anybody came */
    VV_MARK = 4096,  /* bytes of a watch per mark */
    VV_MOST = 64,    /* chunks of a piece */
    VV_DRAINED = 16, /* of one that is drained: its copy stays near the processor */
    VV_URGENT = 64,  /* chunks that somebody waits for, and those that follow, at a time */
    VV_FINE = 1,     /* chunks of a piece in the paper's mode: it stores page by page */
    VV_SPARE = 16,   /* one in so many slots is left for surprises */
    VV_RING = 1024,  /* chunks that somebody waits for, in all; power of two */
    VV_WAITING = 64, /* pages whose waiting is timed at a time */
    VV_AROUND = 64   /* pages released by a trap on one that is merely watched; power of two */
};

/* A lock that a signal handler may take: 0 free, 1 taken, 2 taken and somebody sleeps. Never held while the program's
 * memory is written, or across a call of the guard's. */
struct vv_lock {
    atomic_uint word;
};
void vv_lock_take(struct vv_lock *lock);
void vv_lock_give(struct vv_lock *lock);

/* Whole chunks [first, last) that were never touched. */
struct vv_hole {
    uint32_t first, last;
};

struct vv_watched {
    struct vv_watch base; /* first */
    char *name;
    uint32_t skew;                 /* of the start within its page */
    uint64_t page_first, page_end; /* whole pages inside, by number */
    uint64_t hold_first, hold_end; /* chunks that lie in such pages only */
    int is_new, is_unseen, is_left, is_dead,
        is_attached;         /* not numbered yet; in no checkpoint yet; given up; to be freed; attached */
    int is_fresh;            /* the next collect reports everything, which says nothing about the program */
    int is_early;            /* watched for its order before the first checkpoint, which takes all of it */
    int is_suitable;         /* of the kind of memory that can be watched, as it looked when it was new */
    int had_holes, is_stale; /* told as untouched in this checkpoint; in one that failed */
    int has_order;           /* the log knows in which order it is written */
    int may_hold, cannot_guard;
    int may_freeze, cannot_freeze;
    int is_overlapped;                 /* another watch has some of its memory */
    struct vv_tracker *told_by;        /* who told what changed in this checkpoint; NULL: everything is looked at */
    uint64_t scheduled, to_hold, busy; /* chunks: of this checkpoint; planned to be held; SCHEDULED or IN_PROGRESS */
    struct vv_hole *holes;             /* while one begins */
    size_t hole_count, hole_capacity;
};

struct vv_numbers { /* mapped: costs what is written */
    uint32_t *list;
    uint64_t capacity;
    uint32_t count;
};

struct vv_queue {
    uint32_t head, tail;
};
struct vv_slot {
    uint32_t number, next;
};
struct vv_slots {
    uint8_t *data; /* count chunks, and a few more for windows when there are too few to give any away */
    uint32_t count, backed, spare, used; /* used: at the most, since they were made */
    uint64_t *is_free;
    uint32_t free_count, cursor;
    struct vv_slot *list;
    struct vv_queue bulk, cow; /* copied in the call; copied because somebody wrote */
};

/* Held chunks that were read together; handed out run by run. */
struct vv_run {
    uint32_t number, count, place;
};
struct vv_window {
    uint8_t *data;
    uint32_t capacity; /* chunks */
    uint32_t numbers[VV_MOST];
    uint32_t count;
    struct vv_run runs[VV_MOST];
    uint32_t run_count, next;
};

/* Frozen chunks that were read together. */
struct vv_thaw {
    struct vv_run runs[VV_FROZEN_RUNS];
    uint32_t run_count, next, given; /* chunks of the next run that were handed out already */
    int is_ascending;                /* all that is frozen comes by address */
};

struct vv_waiting {
    uintptr_t page;
    uint64_t since_ns;
};

struct vv_trap { /* tracker_trap.c */
    struct vv_tracker base;
    struct vv_tracker_ops ops;
    char name[24];
    struct vv_capture *capture;
    int pagemap;        /* -1: cannot be looked at */
    vv_pagemap_fn scan; /* vv_pagemap_scan, or on older kernels vv_pagemap_read */
    int is_uffd, is_mprotect;
    uint64_t pages; /* attached */
};

struct vv_capture {
    int mode, ordering;
    const struct vv_log *log;
    struct vv_tracker *preferred;
    struct vv_tracker *noted; /* scan or softdirty, where the kernel notes writes; NULL: none works, or is wanted */
    struct vv_trap trap;
    struct vv_guard *guard;
    int guard_tried;
    enum { VV_FREEZE_CHEAPER, VV_FREEZE_ALWAYS, VV_FREEZE_NEVER } freezing;
    struct vv_frozen *frozen; /* NULL: none was wanted yet */
    int cannot_freeze, is_left_said;
    unsigned freeze_pause;        /* checkpoints for which it is not thought of */
    int is_short;                 /* too little memory is left to freeze what does not fit */
    int64_t (*memory_left)(void); /* vv_process_memory_left; tests have their own */
    int is_forced;                /* a tracker was asked for: it is believed whatever is pinned */
    int64_t pinned;               /* bytes, at the most that were seen; negative: the kernel does not tell */
    int is_pinned_said;
    int is_merged;     /* the kernel may merge its pages, which takes them out of a userfaultfd unseen */
    char why_not[192]; /* there is no guard */
    char reason[128];

    struct vv_lock lock;
    struct vv_watched **all; /* in the order of coming; */
    size_t count, capacity;
    struct vv_watched **sorted; /* by address; of those that took part in the last begin */
    struct vv_watched **by_number;
    size_t sorted_count;
    int has_changed; /* watches came or went since the last begin */
    uint64_t next_number;

    struct vv_numbers order; /* this checkpoint's chunks: those to drain, those to stage, those to hold or freeze */
    struct vv_numbers log_of_writes;   /* first accesses in this epoch, or of an earlier one that taught more */
    uint32_t drain, stage, unholdable; /* counts */
    uint32_t drained, held_next;       /* cursors into order */
    struct vv_slots slots;
    struct vv_window window, urgent;
    struct vv_thaw thaw;
    int is_frozen, was_refused; /* of this checkpoint: nothing is held, what comes last is frozen; that failed */
    int is_deferred; /* all of it is looked at in the background: what does not fit staging is frozen, watch by watch */
    int is_copied;   /* what is staged is in its slots */
    uint8_t *draining;      /* what is drained just now; NULL: nothing was yet */
    uint32_t ring[VV_RING]; /* chunks waited for */
    uint32_t ring_head, ring_tail;
    struct vv_waiting waiting[VV_WAITING];
    uint32_t waiting_count;
    int has_more_waiting; /* than are noted */
    int is_begun, is_going, in_flight;
    struct vv_watched *_Atomic lost; /* its memory was taken away */
    char **lost_names;               /* of all watches that this happened to: never held again, wherever they are */
    size_t lost_count;

    struct vv_capture_plan plan;
    struct vv_capture_sums sums;
    uint64_t surprises, held_chunks, lead;                        /* of the epoch that the log is of */
    double arm_seconds_per_page, hold_traps, hold_seconds_waited; /* as measured */
    double freeze_seconds_per_page;           /* of the process, to make a frozen copy, as measured; 0: unknown */
    double frozen_copies;                     /* pages that the last one kept at the most; negative: unknown */
    uint64_t freeze_asked_ns, freeze_look_ns; /* it took to know what a copy has; when its memory is looked at next */
    uint64_t drain_first;                     /* chunks, so that a frozen copy does not grow too large */
    int was_held, was_held_before, was_scattered; /* in this checkpoint, in the one before; its expected order */
    int is_first, was_first; /* the last checkpoint was the first of most of it: all was new, which tells nothing */
    double sampled_share;    /* of what there was before the first checkpoint, what was seen written */
    uint64_t samples, sample_ms;
    uint64_t sampled_ns;     /* when the first sample was taken that saw something */
    uint32_t sampled_lowest; /* chunk of the last sample */
    double pace;             /* seconds in which the program writes one more chunk, by the samples; 0: unknown */
    uint64_t peak_memory;
};

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
void vv_cost_walked(struct vv_capture *c, double seconds, uint64_t pages);
void vv_cost_frozen(struct vv_capture *c, double seconds, uint64_t pages);
/* Does the order jump about? */
int vv_cost_is_scattered(const struct vv_capture *c);
/* Then: how many chunks to drain first. */
uint64_t vv_cost_drained_first(const struct vv_capture *c);
void vv_cost_armed(struct vv_capture *c, double seconds, uint64_t pages);
void vv_cost_learn(struct vv_capture *c);

/* write_order.c */
int vv_numbers_reserve(struct vv_numbers *numbers, uint64_t capacity);
void vv_numbers_free(struct vv_numbers *numbers);
void vv_numbers_sort(uint32_t *list, uint32_t count);
/* Numbers that follow each other, with the places of the first of each; returns how many runs there are. */
uint32_t vv_runs_of(const uint32_t *list, uint32_t count, struct vv_run *runs);
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
