/* Watches that came and went since the last checkpoint are taken into the lists, and get their numbers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "capture/capture_private.h"

static int by_address(const void *a, const void *b) {
    const struct vv_watched *x = *(struct vv_watched *const *)a, *y = *(struct vv_watched *const *)b;
    return x->base.ptr < y->base.ptr ? -1 : x->base.ptr > y->base.ptr;
}

static int by_first(const void *a, const void *b) {
    const struct vv_watched *x = *(struct vv_watched *const *)a, *y = *(struct vv_watched *const *)b;
    return x->base.first < y->base.first ? -1 : x->base.first > y->base.first;
}

/* Numbers are given once, so that the log stays good when watches come and go. When they run out everybody gets a new
 * one, and what the log knew is forgotten. */
static int number_watches(struct vv_capture *c) {
    uint64_t next = c->next_number;
    for (size_t i = 0; i < c->count; i++)
        next += c->all[i]->is_new ? c->all[i]->base.chunks + 1 : 0;
    int is_anew = next >= UINT32_MAX;
    if (is_anew) {
        vv_order_forget(c);
        c->next_number = 0;
    }
    for (size_t i = 0; i < c->count; i++) {
        struct vv_watched *w = c->all[i];
        if (!w->is_new && !is_anew)
            continue;
        if (c->next_number + w->base.chunks + 1 >= UINT32_MAX)
            return -EFBIG;
        w->base.first = (uint32_t)c->next_number;
        w->has_order = w->has_order && !is_anew;
        c->next_number += w->base.chunks + 1;
    }
    return 0;
}

static void find_plain(struct vv_capture *c) {
    uintptr_t reached = 0;
    struct vv_watched *furthest = NULL;
    for (size_t i = 0; i < c->sorted_count; i++) {
        struct vv_watched *w = c->sorted[i];
        uintptr_t start = (uintptr_t)w->base.ptr, end = start + w->base.size;
        size_t length;
        uintptr_t inside = vv_watch_inside(&w->base, &length);
        if (w->is_new)
            w->is_suitable = length > 0 && !(w->base.flags & VARVE_DEVICE_WRITES) &&
                             vv_memory_is_plain((const void *)inside, length);
        w->base.is_plain = w->is_suitable;
        w->is_overlapped = furthest && start < reached;
        if (w->is_overlapped) {
            w->base.is_plain = furthest->base.is_plain = 0;
            furthest->is_overlapped = 1;
        }
        if (!furthest || end > reached) {
            furthest = w;
            reached = end;
        }
    }
}

static int sort_watches(struct vv_capture *c) {
    struct vv_watched **sorted = vv_calloc(c->count + 1, sizeof *sorted);
    struct vv_watched **numbered = vv_calloc(c->count + 1, sizeof *numbered);
    size_t count = 0;
    if (!sorted || !numbered) {
        vv_free(sorted);
        vv_free(numbered);
        return -ENOMEM;
    }
    for (size_t i = 0; i < c->count; i++)
        if (!c->all[i]->is_left)
            sorted[count++] = c->all[i];
    memcpy(numbered, sorted, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_address);
    qsort(numbered, count, sizeof *numbered, by_first);
    vv_lock_take(&c->lock);
    struct vv_watched **old_sorted = c->sorted, **old_numbered = c->by_number;
    c->sorted = sorted;
    c->by_number = numbered;
    c->sorted_count = count;
    vv_lock_give(&c->lock);
    vv_free(old_sorted);
    vv_free(old_numbered);
    return 0;
}

/* Nobody finds them any more. */
static void free_dead(struct vv_capture *c) {
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++)
        if (c->all[i]->is_dead)
            vv_watched_free(c->all[i]);
        else
            c->all[kept++] = c->all[i];
    c->count = kept;
}

int vv_watches_take_in(struct vv_capture *c) {
    if (!c->has_changed)
        return 0;
    vv_lock_take(&c->lock); /* a page may be trapped at any time, which uses the numbers and writes the log */
    int rc = number_watches(c);
    vv_lock_give(&c->lock);
    if (rc == 0)
        rc = sort_watches(c);
    if (rc == 0)
        free_dead(c);
    uint64_t chunks = 0;
    for (size_t i = 0; i < c->count; i++)
        chunks += c->all[i]->base.chunks;
    if (rc == 0)
        rc = vv_numbers_reserve(&c->order, chunks);
    vv_lock_take(&c->lock);
    if (rc == 0)
        rc = vv_numbers_reserve(&c->log_of_writes, chunks);
    if (rc == 0)
        vv_order_tidy(c);
    vv_lock_give(&c->lock);
    if (rc != 0)
        return rc;
    find_plain(c);
    for (size_t i = 0; i < c->count; i++)
        c->all[i]->is_new = 0;
    c->has_changed = 0;
    return 0;
}
