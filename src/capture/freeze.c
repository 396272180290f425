/* What does not fit staging is left to a frozen copy of the process (frozen/frozen.h): the program may write, free,
 * move and replace its memory at once, and nobody is ever stopped.
 *
 * The copy is made inside vv_capture_decide, while all can still be drained instead, and after the copies for staging,
 * which would cost more to write with a second process beside. Its chunks count as STAGED from vv_capture_go on. They
 * are read in windows as large as the buffer, handed out run by run, and each page is given back when it was read.
 *
 * Memory is bounded by what was seen: a flight in which the program has rewritten more than staging and two per cent
 * of what is protected before it was given back makes the next one drain as much more, of what is expected to be
 * written first. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"
#include "capture/capture_private.h"
#include "memory/inherited.h"
#include "memory/process.h"

#define GAP (64u * (uint64_t)VV_PAGE) /* memory between two ranges that is kept with them, at first */
#define LOOK_NS UINT64_C(10000000)    /* between two looks at the copy's memory, at least */
#define LOOK_SHARE 20u                /* one in so many of the time */
#define PAUSE 8u                      /* checkpoints for which it is not asked again what was answered with no */
#define EXTRA_SHARE 50u               /* one in so many bytes that are protected may be kept beside staging */

/* ---- is it possible? ---- */

/* Before Linux 5.12 a page that is pinned anywhere in the process could part from its device by the mere making of a
 * copy: where anything is, none is made, not even to try it. */
int vv_freeze_may(const struct vv_capture *c) {
    if (c->freezing == VV_FREEZE_ALWAYS)
        return 1;
    return c->freezing != VV_FREEZE_NEVER && !c->cannot_freeze && c->freeze_pause == 0 && c->pinned == 0;
}

/* A program that rewrites all of it at once makes the copy as large. */
int vv_freeze_is_short(const struct vv_capture *c, uint64_t chunks) {
    int64_t left = c->freezing != VV_FREEZE_ALWAYS ? c->memory_left() : -1;
    unsigned beside = c->plan.beside > 0 ? c->plan.beside : 1;
    return left >= 0 && chunks * VV_PAGE > (uint64_t)left / 2 / beside;
}

/* What devices write past the page table is in no copy as it was. */
static int may_freeze(const struct vv_capture *c, const struct vv_watched *w) {
    if (w->scheduled == 0 || w->cannot_freeze || w->is_overlapped || w->base.is_doubted)
        return 0;
    return !(w->base.flags & VARVE_DEVICE_WRITES) && !vv_pinned_may_write(c, w);
}

static int look_at_mappings(struct vv_capture *c) {
    struct vv_inherited inherited;
    int can = 0;
    if (vv_inherited_open(&inherited) != 0)
        return 0; /* nobody tells what a copy would have */
    for (size_t i = 0; i < c->sorted_count; i++) {
        struct vv_watched *w = c->sorted[i];
        w->may_freeze = may_freeze(c, w) && vv_inherited_has(&inherited, w->base.ptr, w->base.size);
        can |= w->may_freeze;
    }
    if (can && vv_inherited_has_pool(&inherited)) {
        vv_log(c->log, VV_LOG_INFO, "memory is not frozen: the process has private huge pages of a pool");
        can = 0;
    }
    vv_inherited_close(&inherited);
    return can;
}

int vv_freeze_can_any(struct vv_capture *c) {
    int64_t pages = vv_process_resident();
    uint64_t begun_ns = vv_clock_ns();
    int can = look_at_mappings(c);
    c->freeze_asked_ns = vv_clock_ns() - begun_ns;
    vv_cost_walked(c, (double)c->freeze_asked_ns * 1e-9, pages > 0 ? (uint64_t)pages : 0);
    if (!can)
        c->freeze_pause = PAUSE;
    return can;
}

/* ---- making it ---- */

struct ranges {
    struct vv_frozen_range list[VV_FROZEN_KEPT];
    size_t count;
    uint64_t gap;
};

static int add_range(struct ranges *ranges, uintptr_t start, uintptr_t end) {
    struct vv_frozen_range *last = ranges->count ? &ranges->list[ranges->count - 1] : NULL;
    if (last && start <= last->start + last->length + ranges->gap) {
        last->length = end - last->start;
        return 0;
    }
    if (ranges->count == VV_FROZEN_KEPT)
        return -ENOSPC;
    ranges->list[ranges->count++] = (struct vv_frozen_range){start, end - start};
    return 0;
}

/* What is to be frozen is SCHEDULED, and nothing else is. */
static int add_watch(struct ranges *ranges, const struct vv_watched *w) {
    int rc = 0;
    for (uint64_t chunk = vv_skip(w, 0); chunk < w->base.chunks && rc == 0; chunk = vv_skip(w, chunk + 1)) {
        uint64_t first = chunk;
        while (chunk < w->base.chunks && vv_state(w, chunk) == VV_SCHEDULED)
            chunk++;
        uintptr_t start = (uintptr_t)w->base.ptr + first * VV_PAGE;
        if (chunk > first)
            rc = add_range(ranges, start, start + vv_chunks_size(w, first, chunk - first));
    }
    return rc;
}

static void find_ranges(const struct vv_capture *c, struct ranges *ranges) {
    int rc = -ENOSPC;
    for (ranges->gap = GAP; rc != 0; ranges->gap *= 4) {
        rc = 0;
        ranges->count = 0;
        for (size_t i = 0; i < c->sorted_count && rc == 0; i++)
            rc = add_watch(ranges, c->sorted[i]);
    }
}

static int make_copy(struct vv_capture *c) {
    struct ranges *ranges = vv_malloc(sizeof *ranges);
    if (!ranges)
        return -ENOMEM;
    find_ranges(c, ranges);
    int rc = c->frozen ? 0 : vv_frozen_create(&c->frozen);
    if (rc == 0)
        rc = vv_frozen_begin(c->frozen, ranges->list, ranges->count);
    vv_free(ranges);
    return rc;
}

int vv_freeze_begin(struct vv_capture *c) {
    int64_t pages = vv_process_resident();
    uint64_t begun_ns = vv_clock_ns();
    int rc = c->copy_error = make_copy(c);
    if (rc == 0) {
        uint64_t took = vv_clock_ns() - begun_ns;
        vv_cost_frozen(c, (double)(took + c->freeze_asked_ns) * 1e-9, pages > 0 ? (uint64_t)pages : 0);
        vv_log(c->log, VV_LOG_DEBUG, "%.2f ms for a copy of the process, and %.2f ms to know what it has",
               (double)took * 1e-6, (double)c->freeze_asked_ns * 1e-6);
        c->freeze_look_ns = 0;
    } else {
        const char *disposition = c->frozen ? vv_frozen_why_gone(c->frozen) : "";
        if (vv_frozen_may_pass(rc))
            c->freeze_pause = PAUSE;
        else
            c->cannot_freeze = 1;
        vv_log(c->log, VV_LOG_INFO, "memory is not frozen, no copy of the process could be made: %s%s%s", strerror(-rc),
               disposition[0] ? ": " : "", disposition);
    }
    return rc;
}

/* ---- reading it ---- */

void vv_freeze_arrange(struct vv_capture *c, int must_ascend) {
    uint32_t first = c->drain + c->stage, *list = c->order.list;
    if (must_ascend)
        vv_numbers_sort(list + first, c->order.count - first);
    c->thaw.is_ascending = 1;
    for (uint32_t i = first + 1; i < c->order.count && c->thaw.is_ascending; i++)
        c->thaw.is_ascending = list[i - 1] < list[i];
}

/* The next chunks, as many as the buffer holds. Windows end where a large page may end, so that those are given back
 * whole. */
static uint32_t gather(struct vv_capture *c, uint32_t *numbers) {
    uint32_t count = 0;
    for (; c->held_next < c->order.count && count < VV_FROZEN_BYTES / VV_PAGE; c->held_next++) {
        uint32_t number = c->order.list[c->held_next];
        uint64_t chunk;
        const struct vv_watched *w = vv_watched_of(c, number, &chunk);
        uintptr_t start = (uintptr_t)w->base.ptr + chunk * VV_PAGE;
        if (count > 0 && number == numbers[count - 1] + 1 && start % VV_FROZEN_BYTES < VV_PAGE)
            break;
        numbers[count++] = number;
    }
    vv_numbers_sort(numbers, count);
    return count;
}

static void make_runs(struct vv_thaw *thaw, const uint32_t *numbers, uint32_t count) {
    thaw->next = thaw->given = 0;
    thaw->run_count = vv_runs_of(numbers, count, thaw->runs);
}

static void note_memory(struct vv_capture *c) {
    uint64_t now = vv_clock_ns();
    if (now < c->freeze_look_ns)
        return;
    int64_t bytes = vv_frozen_memory(c->frozen);
    uint64_t pause = (vv_clock_ns() - now) * LOOK_SHARE;
    c->freeze_look_ns = now + (pause > LOOK_NS ? pause : LOOK_NS);
    vv_lock_take(&c->lock);
    if (bytes > (int64_t)c->sums.frozen_memory)
        c->sums.frozen_memory = (uint64_t)bytes;
    vv_lock_give(&c->lock);
}

/* Who is to blame? The region of the run that was being copied; else any that was asked for. before: runs that were
 * asked for before ours. */
static int fail_frozen(struct vv_capture *c, int before, const struct vv_watched *any, struct varve_error *error) {
    int at = vv_frozen_fatal_run(c->frozen) - before;
    uint64_t chunk;
    int is_known = at >= 0 && (uint32_t)at < c->thaw.run_count;
    struct vv_watched *w = is_known ? vv_watched_of(c, c->thaw.runs[at].number, &chunk) : (struct vv_watched *)any;
    int is_hole = vv_frozen_met_a_hole(c->frozen);
    w->cannot_freeze |= is_hole;
    if (!is_hole && c->freezing != VV_FREEZE_ALWAYS) {
        c->cannot_freeze = 1; /* whoever ended it, such as a system short of memory, may do so again */
        vv_log(c->log, VV_LOG_WARN, "the frozen copy of the process is gone: %s; no other is made",
               vv_frozen_why_gone(c->frozen));
    }
    c->thaw.run_count = 0;
    return vv_error(
        error, -ECHILD, "region %s: the frozen copy of the process that its bytes were to be read from is gone: %s%s",
        w->name, vv_frozen_why_gone(c->frozen), is_hole ? ": memory that is not in the copy, or cannot be read" : "");
}

/* What to ask for; returns whether all of it is of one watch, of which *out is the first. */
static int list_runs(const struct vv_capture *c, struct vv_frozen_run *wanted, struct vv_watched **out) {
    int is_one = 1;
    for (uint32_t i = 0; i < c->thaw.run_count; i++) {
        const struct vv_page_run *run = &c->thaw.runs[i];
        uint64_t chunk;
        struct vv_watched *w = vv_watched_of(c, run->number, &chunk);
        wanted[i] = (struct vv_frozen_run){(uintptr_t)w->base.ptr + chunk * VV_PAGE,
                                           (uint32_t)vv_chunks_size(w, chunk, run->count), run->place * VV_PAGE};
        *out = i == 0 ? w : *out;
        is_one &= *out == w;
    }
    return is_one;
}

static int read_any(struct vv_capture *c, struct varve_error *error) {
    struct vv_frozen_run wanted[VV_FROZEN_RUNS];
    uint32_t numbers[VV_FROZEN_BYTES / VV_PAGE];
    struct vv_watched *first = NULL;
    make_runs(&c->thaw, numbers, gather(c, numbers));
    int is_one = list_runs(c, wanted, &first);
    note_memory(c);
    int rc = vv_frozen_read(c->frozen, wanted, c->thaw.run_count,
                            c->thaw.is_ascending && is_one ? VV_FROZEN_GIVE_BETWEEN : VV_FROZEN_GIVE);
    return rc ? fail_frozen(c, 0, first, error) : 0;
}

/* ---- what was deferred ---- */

#define MOST_RUNS (VV_FROZEN_RUNS - 2) /* beside the ends of what is given back */

/* The chunks of one watch from *at on, in ascending order; with is_all also those that are skipped by now. Returns the
 * watch, and what they span together with those. */
static struct vv_watched *gather_watch(const struct vv_capture *c, uint32_t *at, int is_all, uint32_t *numbers,
                                       uint32_t *count, struct vv_frozen_range *span) {
    uint64_t chunk;
    struct vv_watched *first = vv_watched_of(c, c->order.list[*at], &chunk);
    uint64_t last = chunk;
    span->start = (uintptr_t)first->base.ptr + chunk * VV_PAGE;
    for (*count = 0; *at < c->order.count && *count < MOST_RUNS; ++*at) {
        if (vv_watched_of(c, c->order.list[*at], &chunk) != first)
            break;
        last = chunk;
        if (is_all || vv_state(first, chunk) == VV_STAGED)
            numbers[(*count)++] = c->order.list[*at];
    }
    span->length = (uintptr_t)first->base.ptr + last * VV_PAGE + vv_chunk_size(first, last) - span->start;
    return first;
}

int vv_freeze_look(struct vv_capture *c, const struct vv_watched *w, uint32_t *at, vv_look_fn fn, void *arg,
                   struct varve_error *error) {
    struct vv_frozen_run wanted[VV_FROZEN_RUNS];
    struct vv_frozen_range span;
    uint32_t numbers[MOST_RUNS], count;
    uint64_t chunk;
    int rc = 0;
    while (rc == 0 && *at < c->order.count && vv_watched_of(c, c->order.list[*at], &chunk) == w) {
        struct vv_watched *first = gather_watch(c, at, 1, numbers, &count, &span);
        make_runs(&c->thaw, numbers, count);
        list_runs(c, wanted, &first);
        note_memory(c);
        if (vv_frozen_read(c->frozen, wanted, c->thaw.run_count, VV_FROZEN_KEEP) != 0)
            return fail_frozen(c, 0, w, error);
        for (uint32_t i = 0; i < c->thaw.run_count && rc == 0; i++) {
            const struct vv_page_run *run = &c->thaw.runs[i];
            vv_watched_of(c, run->number, &chunk);
            rc = fn(arg, &first->base, chunk, run->count, vv_frozen_buffer(c->frozen) + (size_t)run->place * VV_PAGE);
        }
    }
    c->thaw.run_count = c->thaw.next = c->thaw.given = 0;
    return rc;
}

/* Whole windows of a watch, so that everything between what is wanted can be given back. */
static int read_deferred(struct vv_capture *c, struct varve_error *error) {
    struct vv_frozen_run wanted[VV_FROZEN_RUNS];
    struct vv_frozen_range span;
    uint32_t numbers[MOST_RUNS], count;
    do {
        struct vv_watched *first = gather_watch(c, &c->held_next, 0, numbers, &count, &span), *same = first;
        make_runs(&c->thaw, numbers, count);
        wanted[0] = (struct vv_frozen_run){span.start, 0, 0};
        list_runs(c, wanted + 1, &same);
        wanted[c->thaw.run_count + 1] = (struct vv_frozen_run){span.start + span.length, 0, 0};
        note_memory(c);
        if (vv_frozen_read(c->frozen, wanted, c->thaw.run_count + 2, VV_FROZEN_GIVE_BETWEEN) != 0)
            return fail_frozen(c, 1, first, error);
    } while (count == 0 && c->held_next < c->order.count);
    return 0;
}

int vv_freeze_read(struct vv_capture *c, struct varve_error *error) {
    return c->is_deferred ? read_deferred(c, error) : read_any(c, error);
}

int vv_freeze_has_piece(const struct vv_capture *c) {
    return c->thaw.next < c->thaw.run_count;
}

void vv_freeze_give(struct vv_capture *c, struct vv_piece *piece) {
    struct vv_thaw *thaw = &c->thaw;
    const struct vv_page_run *run = &thaw->runs[thaw->next];
    uint32_t left = run->count - thaw->given;
    piece->watch = &vv_watched_of(c, run->number + thaw->given, &piece->first)->base;
    piece->count = left < VV_MOST ? left : VV_MOST;
    piece->data = vv_frozen_buffer(c->frozen) + (size_t)(run->place + thaw->given) * VV_PAGE;
    thaw->given += piece->count;
    if (thaw->given == run->count) {
        thaw->next++;
        thaw->given = 0;
    }
}

/* ---- the end ---- */

/* How much more, or less, must be drained for the copy to stay within its bounds? */
void vv_freeze_learn(struct vv_capture *c) {
    uint64_t all = 0, most, used = c->sums.frozen_memory;
    c->freeze_pause -= c->freeze_pause > 0;
    if (c->is_deferred) /* nothing of it can be drained */
        return;
    if (c->sums.bytes_frozen == 0) {
        c->drain_first /= 2; /* it may be less by now */
        return;
    }
    for (size_t i = 0; i < c->sorted_count; i++)
        all += c->sorted[i]->base.size;
    most = c->plan.staging + all / EXTRA_SHARE;
    if (used > most)
        c->drain_first += (used - most) / VV_PAGE;
    else if (used < most / 2) /* the program has become slower, or its order is known by now */
        c->drain_first -= c->drain_first / 4 + (c->drain_first > 0);
}

void vv_freeze_end(struct vv_capture *c) {
    c->thaw.run_count = c->thaw.next = 0;
    if (c->frozen && vv_frozen_end(c->frozen) != 0 && !c->is_left_said) {
        c->is_left_said = 1;
        vv_log(c->log, VV_LOG_WARN, "a frozen copy of the process neither ends nor can be killed: it is left behind");
    }
}
