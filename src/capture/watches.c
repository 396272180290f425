/* The watches of a capture: adding and removing them, their trackers, and finding them. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/search.h"
#include "base/thread.h"
#include "capture/capture_private.h"
#include "memory/signals.h"

/* ---- finding ---- */

/* The last watch of a list that begins at or below; -1: none. */
static long find_below(struct vv_watched *const *list, size_t count, int by_address, uint64_t key) {
    size_t at;
    VV_SEARCH(at, 0, count, (by_address ? (uint64_t)(uintptr_t)list[at]->base.ptr : list[at]->base.first) <= key);
    return (long)at - 1;
}

struct vv_watched *vv_watched_of(const struct vv_capture *c, uint32_t number, uint64_t *chunk) {
    long i = find_below(c->by_number, c->sorted_count, 0, number);
    if (i < 0 || number - c->by_number[i]->base.first >= c->by_number[i]->base.chunks)
        return NULL;
    *chunk = number - c->by_number[i]->base.first;
    return c->by_number[i];
}

/* Guarded watches do not overlap, but others may lie around them: those are passed over. */
struct vv_watched *vv_watched_at(const struct vv_capture *c, uintptr_t page) {
    for (long i = find_below(c->sorted, c->sorted_count, 1, page); i >= 0; i--) {
        struct vv_watched *w = c->sorted[i];
        if (w->base.tracker == &c->trap.base && page >= vv_page_address(w, w->page_first) &&
            page < vv_page_address(w, w->page_end))
            return w;
        if (w->base.tracker == &c->trap.base)
            return NULL;
    }
    return NULL;
}

/* ---- trackers ---- */

void vv_watched_detach(struct vv_capture *c, struct vv_watched *w) {
    struct vv_tracker *tracker = w->base.tracker;
    sigset_t before;
    vv_signals_block(&before); /* as in vv_capture_leave */
    vv_lock_take(&c->lock);
    for (uint64_t page = vv_skip(w, 0); page <= w->base.chunks; page = vv_skip(w, page + 1))
        vv_byte_set(w, page, VV_PAGE_ARMED, 0);
    w->base.tracker = &vv_tracker_none;
    w->is_attached = 0;
    vv_lock_give(&c->lock);
    vv_signals_restore(&before);
    if (tracker->ops->detach)
        tracker->ops->detach(tracker, &w->base);
}

int vv_watched_attach(struct vv_capture *c, struct vv_watched *w, struct vv_tracker *tracker) {
    if (tracker == &vv_tracker_none)
        return 0;
    int rc = tracker->ops->attach(tracker, &w->base);
    if (rc != 0)
        return rc;
    vv_lock_take(&c->lock);
    w->base.tracker = tracker;
    w->is_attached = 1;
    w->is_fresh = 1;
    vv_lock_give(&c->lock);
    return 0;
}

/* ---- coming and going ---- */

#define FREE_AT_ONCE 1024u /* watches that are looked at under the lock */

/* Large arrays are mapped, so that what is never touched costs nothing; a million small ones must not be. */
#define MAPPED (32u << 10)

static void *alloc_bytes(uint64_t size) {
    return size < MAPPED ? vv_calloc(size, 1) : vv_pages_map(size);
}

static void free_bytes(void *bytes, uint64_t size) {
    if (size < MAPPED)
        vv_free(bytes);
    else
        vv_pages_unmap(bytes, size);
}

void vv_watched_free(struct vv_watched *w) {
    free_bytes(w->base.bytes, w->base.chunks + 1);
    free_bytes(w->base.marks, w->base.chunks / VV_MARK + 1);
    vv_free(w->holes);
    vv_free(w->name);
    vv_free(w);
}

static void measure(struct vv_watched *w) {
    size_t length;
    uintptr_t start = vv_watch_inside(&w->base, &length);
    w->skew = (uint32_t)((uintptr_t)w->base.ptr % VV_PAGE);
    w->page_first = length ? (start - vv_page_address(w, 0)) / VV_PAGE : 0;
    w->page_end = w->page_first + length / VV_PAGE;
    w->hold_first = w->page_first;
    w->hold_end = w->skew && w->page_end > w->page_first ? w->page_end - 1 : w->page_end;
}

static int was_lost(const struct vv_capture *c, const char *name) {
    for (size_t i = 0; i < c->lost_count; i++)
        if (strcmp(c->lost_names[i], name) == 0)
            return 1;
    return 0;
}

/* Without memory for the name, at least this watch is not held. */
void vv_watched_lose(struct vv_capture *c, struct vv_watched *w) {
    w->base.was_lost = 1;
    if (was_lost(c, w->name))
        return;
    char **names = vv_realloc(c->lost_names, (c->lost_count + 1) * sizeof *names);
    if (!names)
        return;
    c->lost_names = names;
    if ((names[c->lost_count] = vv_strdup(w->name)) != NULL)
        c->lost_count++;
}

static int append(struct vv_capture *c, struct vv_watched *w) {
    if (VV_GROW(c->all, c->count, c->capacity) != 0)
        return -ENOMEM;
    c->all[c->count++] = w;
    c->has_changed = 1;
    return 0;
}

struct vv_watch *vv_capture_watch(struct vv_capture *c, const char *name, void *ptr, uint64_t size, unsigned flags) {
    struct vv_watched *w = vv_calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->base = (struct vv_watch){.ptr = ptr, .size = size, .flags = flags, .tracker = &vv_tracker_none};
    w->base.chunks = (size + VV_PAGE - 1) / VV_PAGE;
    w->base.was_lost = was_lost(c, name);
    w->is_new = w->is_unseen = 1;
    w->name = vv_strdup(name);
    w->base.bytes = alloc_bytes(w->base.chunks + 1);
    w->base.marks = alloc_bytes(w->base.chunks / VV_MARK + 1);
    measure(w);
    if (!w->name || !w->base.bytes || !w->base.marks || append(c, w) != 0) {
        vv_watched_free(w);
        return NULL;
    }
    return &w->base;
}

/* It is in the lists until they are made anew: to take a million out one by one would take for ever. */
void vv_capture_unwatch(struct vv_capture *c, struct vv_watch *watch) {
    struct vv_watched *w = (struct vv_watched *)watch;
    if (w->is_attached)
        vv_watched_detach(c, w);
    w->is_left = w->is_dead = 1;
    w->base.is_plain = 0;
    c->has_changed = 1;
}

/* Is nothing of it held any more? A handler of the program's that interrupts us and writes a held page would wait for
 * ever for the lock that we have: no signals meanwhile. */
static int try_to_leave(struct vv_capture *c, struct vv_watched *w) {
    sigset_t before;
    vv_signals_block(&before);
    vv_lock_take(&c->lock);
    int is_free = w->busy == 0;
    w->is_left |= is_free;
    vv_lock_give(&c->lock);
    vv_signals_restore(&before);
    return is_free;
}

void vv_capture_leave(struct vv_capture *c, struct vv_watch *watch) {
    struct vv_watched *w = (struct vv_watched *)watch;
    while (!try_to_leave(c, w))
        vv_sleep_ms(1);
    if (w->is_attached)
        vv_watched_detach(c, w);
    w->base.is_plain = 0;
    c->has_changed = 1;
}

/* Chunks only ever stop being busy, so that each watch is looked at until it is free, and then no more. */
int vv_capture_is_free(struct vv_capture *c, size_t *next) {
    int is_busy = 0;
    while (*next < c->sorted_count && !is_busy) {
        sigset_t before;
        vv_signals_block(&before); /* as in vv_capture_leave */
        vv_lock_take(&c->lock);
        for (size_t end = *next + FREE_AT_ONCE; *next < end && *next < c->sorted_count && !is_busy;) {
            is_busy = c->sorted[*next]->busy > 0;
            *next += !is_busy;
        }
        vv_lock_give(&c->lock);
        vv_signals_restore(&before);
    }
    return !is_busy;
}

void vv_capture_unguard(struct vv_capture *c) {
    if (!c->guard || c->guard->ops->is_transparent)
        return;
    for (size_t i = 0; i < c->sorted_count; i++)
        if (c->sorted[i]->is_attached && c->sorted[i]->base.tracker == &c->trap.base)
            vv_watched_detach(c, c->sorted[i]);
}

/* Threads of the program may write meanwhile, and be trapped; they do not wait for long. */
void vv_capture_mark(struct vv_capture *c, struct vv_watch *watch, uint64_t offset, uint64_t length) {
    uint64_t last = (offset + length + VV_PAGE - 1) / VV_PAGE;
    last = last < watch->chunks ? last : watch->chunks;
    for (uint64_t chunk = offset / VV_PAGE; chunk < last;) {
        vv_lock_take(&c->lock);
        for (uint64_t end = chunk + VV_MARK; chunk < end && chunk < last; chunk++)
            vv_byte_set((struct vv_watched *)watch, chunk, VV_CHUNK_CHANGED, VV_CHUNK_CHANGED);
        vv_lock_give(&c->lock);
    }
}
