/* What changed: every watch's tracker is asked, its ranges are widened to whole chunks and those SCHEDULED.
 *
 * What was never touched is kept apart ("holes") until the tracker has answered to the end: if it breaks off,
 * everything that is there counts as changed, and nobody must have been told the contrary. Holes also tell which pages
 * there is nothing to arm in. */
#include <errno.h>

#include "base/alloc.h"
#include "base/error.h"
#include "capture/capture_private.h"
#include "memory/mapped.h"

#define EARLY_LEAST (16u << 20) /* bytes: what is smaller will fit staging */
#define REST_EPOCHS 7u          /* for which a watch is left alone that changes as a whole */

struct collecting {
    struct vv_capture *capture;
    struct vv_watched *watched;
    int is_ignored; /* only the tracker's own bookkeeping is wanted */
};

static void schedule(struct vv_watched *w, uint64_t first, uint64_t last) {
    for (uint64_t chunk = first; chunk < last && chunk < w->base.chunks; chunk++) {
        if (vv_state(w, chunk) == VV_SCHEDULED)
            continue;
        vv_state_set(w, chunk, VV_SCHEDULED);
        w->scheduled++;
    }
}

static int add_hole(struct vv_watched *w, uint64_t first, uint64_t last) {
    if (w->hole_count && w->holes[w->hole_count - 1].last == first) {
        w->holes[w->hole_count - 1].last = (uint32_t)last;
        return 0;
    }
    if (VV_GROW(w->holes, w->hole_count, w->hole_capacity) != 0)
        return -ENOMEM;
    w->holes[w->hole_count++] = (struct vv_hole){(uint32_t)first, (uint32_t)last};
    return 0;
}

static int collected(void *arg, uint64_t offset, uint64_t length, int is_untouched) {
    struct collecting *collecting = arg;
    struct vv_watched *w = collecting->watched;
    uint64_t end = offset + length, first = offset / VV_PAGE, last = (end + VV_PAGE - 1) / VV_PAGE;
    if (collecting->is_ignored || length == 0)
        return 0;
    if (!is_untouched) {
        schedule(w, first, last);
        return 0;
    }
    /* A chunk of which only a part is untouched is looked at. */
    if (offset % VV_PAGE) {
        schedule(w, first, first + 1);
        first++;
    }
    if (end % VV_PAGE && end != w->base.size) {
        schedule(w, last - 1, last);
        last--;
    }
    return first < last ? add_hole(w, first, last) : 0;
}

/* What is carried over from a checkpoint that failed, and what others asked for; but holes are zeros, whatever they
 * were. */
static void schedule_carried(struct vv_watched *w) {
    for (size_t i = 0; i < w->hole_count; i++)
        for (uint64_t chunk = vv_skip(w, w->holes[i].first); chunk < w->holes[i].last; chunk = vv_skip(w, chunk + 1))
            vv_byte_set(w, chunk, VV_CHUNK_CHANGED, 0);
    for (uint64_t chunk = vv_skip(w, 0); chunk < w->base.chunks; chunk = vv_skip(w, chunk + 1)) {
        if (!(w->base.bytes[chunk] & VV_CHUNK_CHANGED))
            continue;
        vv_byte_set(w, chunk, VV_CHUNK_CHANGED, 0);
        schedule(w, chunk, chunk + 1);
    }
}

static void unschedule(struct vv_watched *w) {
    for (uint64_t chunk = vv_skip(w, 0); chunk < w->base.chunks; chunk = vv_skip(w, chunk + 1))
        vv_state_set(w, chunk, VV_IDLE);
    w->scheduled = 0;
    w->hole_count = 0;
}

/* ---- one watch ---- */

/* The one it has while it is not held. */
static struct vv_tracker *tracker_for(const struct vv_capture *c, const struct vv_watched *w) {
    if (!w->base.is_plain || w->base.untracked || w->base.is_doubted)
        return &vv_tracker_none;
    if (!c->is_forced && vv_pinned_may_write(c, w))
        return &vv_tracker_none;
    if (c->preferred != &c->trap.base)
        return c->preferred;
    int fits = !w->base.was_lost && !w->cannot_guard && vv_guard_suits(c->guard, w);
    return fits ? c->preferred : &vv_tracker_none;
}

/* A watch in the guard only because it was held last time stays there until it is known whether it is held again. */
static void prepare(struct vv_capture *c, struct vv_watched *w) {
    int is_guarded = w->base.tracker == &c->trap.base;
    if (w->base.untracked > 0)
        w->base.untracked--;
    if (w->is_attached && (!w->base.is_plain || w->base.is_doubted || (is_guarded && w->base.was_lost)))
        vv_watched_detach(c, w);
    if (w->is_attached && !c->is_forced && vv_pinned_may_write(c, w))
        vv_watched_detach(c, w);
    /* Zeros that are told once are not told again unless they change, and a checkpoint that failed does not have them.
     * Noting them all would fill the bytes of sparse regions: ask for everything instead. */
    if (w->is_attached && w->is_stale && w->base.tracker == c->noted)
        vv_watched_detach(c, w);
    w->is_stale = 0;
    if (!w->is_attached)
        vv_watched_attach(c, w, tracker_for(c, w));
}

void vv_watched_return(struct vv_capture *c, struct vv_watched *w) {
    struct collecting ignoring = {c, w, 1};
    if (w->is_attached)
        vv_watched_detach(c, w);
    if (vv_watched_attach(c, w, tracker_for(c, w)) != 0 || !w->is_attached)
        return;
    /* What changed until now is known already: only what comes from now on is of interest. */
    if (w->base.tracker->ops->collect(w->base.tracker, &w->base, collected, &ignoring) == 0)
        w->is_fresh = 0;
}

void vv_begin_early(struct vv_capture *c) {
    if (!c->noted || c->noted->ops->renew) /* the program is running: nothing can be begun anew */
        return;
    for (size_t i = 0; i < c->sorted_count; i++) {
        struct vv_watched *w = c->sorted[i];
        if (w->is_attached || !w->is_unseen || w->base.size < EARLY_LEAST || tracker_for(c, w) != c->noted)
            continue;
        vv_watched_return(c, w);
        w->is_early = w->is_fresh = w->is_attached;
    }
}

/* A watch that changes as a whole costs a note per page, and the notes say what one knows. */
static void rest_if_useless(struct vv_capture *c, struct vv_watched *w) {
    uint64_t untouched = 0;
    for (size_t i = 0; i < w->hole_count; i++)
        untouched += w->holes[i].last - w->holes[i].first;
    int is_useless = !w->is_fresh && w->scheduled * 2 > w->base.chunks - untouched;
    w->is_fresh = 0;
    if (is_useless && w->is_attached && c->noted && w->base.tracker == c->noted) {
        vv_watched_detach(c, w);
        w->base.untracked = REST_EPOCHS;
    }
}

static int collect_watch(struct vv_capture *c, struct vv_watched *w) {
    struct collecting collecting = {c, w, 0};
    struct vv_tracker *tracker = w->base.tracker;
    int is_early = w->is_early;
    w->is_early = 0;
    collecting.is_ignored = is_early;
    int rc = tracker->ops->collect(tracker, &w->base, collected, &collecting);
    collecting.is_ignored = 0;
    w->told_by = rc == 0 && !is_early && tracker != &vv_tracker_none ? tracker : NULL;
    if (rc == 0 && is_early)
        rc = (w->is_attached ? vv_pages_walk_ours : vv_pages_walk)(w->base.ptr, w->base.size, collected, &collecting);
    else if (rc != 0 && tracker != &vv_tracker_none) {
        vv_log(c->log, VV_LOG_DEBUG, "region %s: %s could not tell what changed (%d): everything is looked at", w->name,
               tracker->ops->name, rc);
        unschedule(w);
        vv_watched_detach(c, w);
        w->base.is_doubted |= rc == -EFAULT; /* a page that cannot be read: a tracker may tell of it only once */
        rc = vv_pages_walk(w->base.ptr, w->base.size, collected, &collecting);
    }
    if (rc == 0)
        schedule_carried(w);
    return rc;
}

/* Is it there at all? To read what is not would be a signal for the program. */
static int look_if_mapped(struct vv_capture *c, struct varve_error *error) {
    struct vv_mapped mapped;
    int rc = 1;
    if (vv_mapped_open(&mapped, 0) != 0)
        return 0; /* no /proc: nobody can tell */
    for (size_t i = 0; i < c->sorted_count && rc == 1; i++) {
        rc = vv_mapped_has(&mapped, c->sorted[i]->base.ptr, c->sorted[i]->base.size);
        if (rc == 0)
            vv_error(error, -EFAULT,
                     "region %s: its memory is not mapped, or some of it may not be read (PROT_NONE);"
                     " unprotect a region before its memory goes",
                     c->sorted[i]->name);
    }
    vv_mapped_close(&mapped);
    return rc == 0 ? -EFAULT : 0;
}

static int fail_collect(const struct vv_watched *w, int rc, struct varve_error *error) {
    return vv_error(error, rc,
                    rc == -EFAULT ? "region %s: a page of it cannot be read: a guard page, or memory that has failed"
                                  : "region %s: no memory to note what changed",
                    w->name);
}

/* Is this the first checkpoint of most of what there is? */
static void note_first(struct vv_capture *c) {
    uint64_t all = 0, unseen = 0;
    for (size_t i = 0; i < c->sorted_count; i++) {
        all += c->sorted[i]->base.chunks;
        unseen += c->sorted[i]->is_unseen ? c->sorted[i]->base.chunks : 0;
    }
    c->is_first = unseen * 2 > all;
    if (c->is_first)
        c->sampled_share = all ? (double)c->log_of_writes.count / (double)all : 0;
}

int vv_begin_collect(struct vv_capture *c, vv_untouched_fn untouched, void *arg, struct varve_error *error) {
    c->was_first = c->is_first;
    note_first(c);
    int rc = look_if_mapped(c, error);
    for (size_t i = 0; i < c->sorted_count && rc == 0; i++) {
        struct vv_watched *w = c->sorted[i];
        w->scheduled = w->to_hold = w->busy = 0;
        w->is_unseen = 0;
        w->hole_count = 0;
        prepare(c, w);
        rc = collect_watch(c, w);
        if (rc != 0)
            return fail_collect(w, rc, error);
        w->had_holes = w->hole_count > 0;
        for (size_t k = 0; rc == 0 && k < w->hole_count; k++)
            rc = untouched(arg, &w->base, w->holes[k].first, w->holes[k].last);
        if (rc != 0)
            return vv_error_default(error, rc, "region %s: what was never touched could not be noted", w->name);
        rest_if_useless(c, w);
    }
    if (rc == 0 && c->noted && c->noted->ops->renew)
        c->noted->ops->renew(c->noted);
    return rc;
}

void vv_begin_clear(struct vv_capture *c) {
    for (size_t i = 0; i < c->sorted_count; i++) {
        struct vv_watched *w = c->sorted[i];
        vv_free(w->holes);
        w->holes = NULL;
        w->hole_count = w->hole_capacity = 0;
    }
}
