/* Capture: the bytes of the changed chunks as they were at the call, while the program goes on.
 *
 * One object per session, which owns the watches, the trackers, the guard and the staging buffer. A checkpoint goes:
 *
 *   vv_capture_begin     in the call. Asks every watch's tracker what changed: those chunks are SCHEDULED.
 *   vv_capture_look      in the call, or in the background once all is staged: shows everything, so that it can be
 * named. What turns out not to be needed is dropped before anything is copied. vv_capture_decide    in the call. Makes
 * the expected order of writes from what the last epoch taught. Decides, by measured costs, how much of what is
 * scheduled is copied into staging, drained inside the call, and either held or frozen. Arms the guard over what is
 * held, or makes the frozen copy of the process; where that fails, it is drained instead. vv_capture_next/done in the
 * call, while vv_capture_must_drain says so: the calling thread consumes what neither fits staging nor is left for
 *                        later.
 *   vv_capture_go        in the call. Copies into staging. After it has returned the program may write.
 *   vv_capture_next/done in the background, by one thread, until nothing is left. Whoever writes a held page too early
 * gets it copied into a free slot (COW), or waits until it is processed (WAIT). Whoever writes a frozen page just does.
 *   vv_capture_settle    nothing is held any more. Says whether the checkpoint was committed; if not, its chunks are
 * carried over into the next one.
 *
 * A chunk: IDLE, SCHEDULED (the bytes are in the program's memory, unwritten), then STAGED (a copy is in a slot, or
 * frozen; the memory is free) or IN_PROGRESS (being read from the program's memory), then PROCESSED. Only SCHEDULED and
 * IN_PROGRESS chunks hold their pages.
 *
 * What is held is read with vv_peek, never by plain loads: the program may have unmapped it. A page is disarmed after
 * it was read; if that fails, the memory was not what we thought, and the capture fails with -EFAULT naming the region:
 * nothing wrong is ever stored.
 *
 * Threads: everything but the guard's callback is called by one thread at a time. One lock, which a signal handler may
 * take (futex, no allocation), protects the bytes, slots and queues. */
#ifndef VV_CAPTURE_H
#define VV_CAPTURE_H

#include <varve/varve.h>

#include "base/log.h"
#include "base/settings.h" /* the choices of capture, order and tracker */
#include "memory/guard.h"
#include "memory/tracker.h"

struct vv_capture;

struct vv_capture_options {
    int capture, order, tracker; /* enum vv_capture_choice, vv_order_choice, vv_tracker_choice */
    const struct vv_log *log;    /* lives as long as the capture */
};

/* Probes what works here; a tracker that was asked for and does not work is an error (-ENOTSUP, with the reason). With
 * capture=trap the tracker is a trap (uffd where it is transparent; else mprotect, for regions with
 * VARVE_NO_KERNEL_WRITES only). With capture=frozen a frozen copy must work here. */
int vv_capture_create(const struct vv_capture_options *options, struct vv_capture **out, struct varve_error *error);
/* From now on as with capture=sync. Before the first checkpoint. */
void vv_capture_inside(struct vv_capture *capture);
void vv_capture_destroy(struct vv_capture *capture); /* accepts NULL */
/* Which tracker was chosen and why, for people: "scan: the kernel notes writes (WP_ASYNC works here)". */
const char *vv_capture_tracker(const struct vv_capture *capture); /* its name */
const char *vv_capture_reason(const struct vv_capture *capture);

/* ---- watches; not while the memory is in flight: vv_capture_leave first ---- */
/* The name lives as long as the watch: it is used in errors. NULL: no memory. Never fails because the memory cannot be
 * tracked. */
struct vv_watch *vv_capture_watch(struct vv_capture *capture, const char *name, void *ptr, uint64_t size,
                                  unsigned flags);
void vv_capture_unwatch(struct vv_capture *capture, struct vv_watch *watch);
/* The program will unmap, move or free this memory: wait until no chunk of it is held, then take it out of its tracker
 * and guard for good (its tracker is `none` from then on, is_plain 0): it may be somebody else's memory next. Another
 * thread goes on consuming meanwhile. The watch itself stays until vv_capture_unwatch, since copies of its chunks may
 * not be consumed yet. */
void vv_capture_leave(struct vv_capture *capture, struct vv_watch *watch);
/* Does no chunk of any watch need the program's memory any more? Asked again and again with the same *next, which
 * begins as 0. While one checkpoint is in flight, by any thread. */
int vv_capture_is_free(struct vv_capture *capture, size_t *next);
/* After that: watches leave a guard that makes the kernel's own writes fail (mprotect), and the next checkpoint looks
 * at all of them. Other guards let every write pass that meets nothing held. */
void vv_capture_unguard(struct vv_capture *capture);
/* Bytes [offset, offset + length) belong to the next checkpoint, changed or not. Nothing is in flight. */
void vv_capture_mark(struct vv_capture *c, struct vv_watch *watch, uint64_t offset, uint64_t length);

/* ---- one checkpoint ---- */
struct vv_capture_plan {
    uint64_t staging;     /* bytes of slots there may be; the memory is kept from checkpoint to checkpoint */
    double storage_speed; /* bytes per second that the way to storage takes, as measured; 0: unknown */
    double changed_share; /* of the chunks consumed last time, how many were really different; 1: unknown */
    int must_not_hold;    /* who consumes waits for other ranks: nobody may be stopped meanwhile */
    unsigned beside;      /* processes of the job on this node, which need memory at the same time; 0: unknown */
    double own_share;     /* of the chunks that were different last time, how many no other rank stored; 0: unknown */
    double drain_speed;   /* bytes per second that the storage takes when nothing else is in its way; 0: unknown */
};
/* Ranges that were never touched are told to `untouched` at once (with the watch and whole chunks [first, last)). */
typedef int (*vv_untouched_fn)(void *arg, struct vv_watch *watch, uint64_t first, uint64_t last);
int vv_capture_begin(struct vv_capture *capture, const struct vv_capture_plan *plan, vv_untouched_fn untouched,
                     void *arg, struct varve_error *error);
/* Show a random sample of the chunks that are there and of which a tracker has told nothing, as they lie in the
 * program's memory: `most` of them, with equal chances (one may come twice), or all if there are not more. random: the
 * state of a generator. fn returns 0 or an error, which ends it. Between vv_capture_begin and vv_capture_decide. */
typedef int (*vv_unreported_fn)(void *arg, struct vv_watch *watch, uint64_t chunk, const uint8_t *data);
int vv_capture_unreported(struct vv_capture *capture, uint64_t most, uint64_t *random, vv_unreported_fn fn, void *arg);
/* Can everything that is scheduled be looked at in the background as well: because it fits staging, or because what
 * does not can be frozen, as far as is known without trying? */
enum vv_later { VV_LATER_NOT, VV_LATER_FROZEN, VV_LATER_STAGED };
enum vv_later vv_capture_later(struct vv_capture *capture);
/* Naming it inside the call instead, and asking the other ranks, took so long. */
void vv_capture_named(struct vv_capture *capture, double seconds);
/* Freeze it now. 1, and vv_capture_decide has nothing left to decide, unless it is undone; or 0. */
int vv_capture_freeze(struct vv_capture *capture);
void vv_capture_unfreeze(struct vv_capture *capture);
int vv_capture_is_frozen(const struct vv_capture *capture);
/* Show all chunks that are scheduled (before vv_capture_decide: in the program's memory), or that were deferred, those
 * of a watch by ascending number. fn returns 0 or an error, which ends it. */
typedef int (*vv_look_fn)(void *arg, struct vv_watch *watch, uint64_t first, uint32_t count, const uint8_t *data);
int vv_capture_look(struct vv_capture *capture, vv_look_fn fn, void *arg, struct varve_error *error);
/* This scheduled chunk need not be captured: somebody else stores it, or it is where it was. If the checkpoint fails,
 * it counts as changed nevertheless. Before vv_capture_decide; skip: after it, of one that was deferred, which may be
 * shown once more. */
void vv_capture_drop(struct vv_watch *watch, uint64_t chunk);
void vv_capture_skip(struct vv_capture *capture, struct vv_watch *watch, uint64_t chunk);
int vv_capture_decide(struct vv_capture *capture, struct varve_error *error);
int vv_capture_must_drain(const struct vv_capture *capture);
int vv_capture_go(struct vv_capture *capture, struct varve_error *error);

/* Chunks [first, first + count) of a watch, at data; the last one of a region may be short. */
struct vv_piece {
    struct vv_watch *watch;
    uint64_t first;
    uint32_t count;
    const uint8_t *data;
    uint32_t slot; /* inside */
};
/* 1 and a piece, 0 when nothing is left, or an error. One piece at a time: it is done before the next is asked for. */
int vv_capture_next(struct vv_capture *capture, struct vv_piece *piece, struct varve_error *error);
void vv_capture_done(struct vv_capture *capture, const struct vv_piece *piece);
/* Release whatever is still held, without having consumed it (after an error). The staging keeps its memory. */
void vv_capture_stop(struct vv_capture *capture);
/* The checkpoint's outcome is known. */
void vv_capture_settle(struct vv_capture *capture, int is_committed);

/* Look which pages were written since, for the order; called now and then while nothing is in flight, from the
 * background thread. Returns after how many milliseconds it wants to be called again, 0: no more in this epoch. */
unsigned vv_capture_sample(struct vv_capture *capture);

struct vv_capture_sums {
    uint64_t bytes_staged;  /* copied in the call */
    uint64_t bytes_drained; /* consumed in the call because they did not fit */
    uint64_t bytes_held;
    uint64_t bytes_frozen;  /* left to a frozen copy of the process */
    uint64_t frozen_memory; /* that the copy kept, at the most that was seen: what the program rewrote too early */
    uint64_t wait_pages, cow_pages,
        avoided_pages;      /* first writes by what they met; the last are those noticed by a trap */
    uint64_t ahead_pages;   /* held pages released before anybody came */
    uint64_t trapped_pages; /* all traps, also those after the checkpoint was stored */
    double seconds_waited;  /* of writers, for WAIT pages */
    uint64_t memory;        /* staging in use at the most, and page state, bytes */
    const char *reason;     /* why it was staged, drained, held or frozen; constant text */
};
/* Of the checkpoint begun last; traps are counted until the next begins. */
void vv_capture_sums(struct vv_capture *capture, struct vv_capture_sums *out);

#endif
