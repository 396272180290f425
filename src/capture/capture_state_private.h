/* The inside of capture.h: its state.
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
#ifndef VV_CAPTURE_STATE_PRIVATE_H
#define VV_CAPTURE_STATE_PRIVATE_H

#include <stdatomic.h>

#include "capture/capture.h"
#include "frozen/frozen.h"
#include "memory/lock.h"
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
    int64_t huge_changes;              /* vv_process_huge_changes when a trap last looked */
    size_t hole_count, hole_capacity;
};

struct vv_watch_numbers { /* mapped: costs what is written */
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
struct vv_page_run {
    uint32_t number, count, place;
};
struct vv_window {
    uint8_t *data;
    uint32_t capacity; /* chunks */
    uint32_t numbers[VV_MOST];
    uint32_t count;
    struct vv_page_run runs[VV_MOST];
    uint32_t run_count, next;
};

/* Frozen chunks that were read together. */
struct vv_thaw {
    struct vv_page_run runs[VV_FROZEN_RUNS];
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
    int copy_error;               /* of the last copy that was tried; 0: it was made */
    unsigned freeze_pause;        /* checkpoints for which it is not thought of */
    int is_short;                 /* too little memory is left to freeze what does not fit */
    int64_t (*memory_left)(void); /* vv_process_memory_left; tests have their own */
    int is_forced;                /* a tracker was asked for: it is believed whatever is pinned */
    int64_t pinned;               /* bytes, at the most that were seen; negative: the kernel does not tell */
    int is_pinned_said;
    int is_merged;     /* the kernel may merge its pages, which takes them out of a userfaultfd unseen */
    char why_not[192]; /* there is no guard */
    char reason[128];

    struct vv_lock lock;     /* never held while the program's memory is written, or across a call of the guard's */
    struct vv_watched **all; /* in the order of coming; */
    size_t count, capacity;
    struct vv_watched **sorted; /* by address; of those that took part in the last begin */
    struct vv_watched **by_number;
    size_t sorted_count;
    int has_changed; /* watches came or went since the last begin */
    uint64_t next_number;

    struct vv_watch_numbers order; /* of this checkpoint: chunks to drain, those to stage, those to hold or freeze */
    struct vv_watch_numbers log_of_writes; /* first accesses in this epoch, or of an earlier one that taught more */
    uint32_t drain, stage, unholdable;     /* counts */
    uint32_t drained, held_next;           /* cursors into order */
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
    uint64_t asked;                           /* chunks that were scheduled when it was asked if all can wait */
    double name_seconds_per_page;             /* to name one inside the call, as measured; 0: unknown */
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
};

#endif
