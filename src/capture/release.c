/* Releasing what is held: pages are disarmed, and who waits there goes on. */
#include <errno.h>

#include "base/thread.h"
#include "capture/capture_private.h"

/* With the lock: these pages are not held any more; who waits there is told by the disarming that follows. */
static void note_released(struct vv_capture *c, struct vv_watched *w, uint64_t first, uint64_t last) {
    for (uint64_t page = first; page < last; page++) {
        if (!vv_page_is_armed(w, page))
            continue;
        uint64_t chunk, end = vv_page_chunks(w, page, &chunk);
        int is_waited = 0;
        for (; chunk < end; chunk++)
            is_waited |= vv_access(w, chunk) == VV_ACCESS_WAIT;
        c->sums.ahead_pages += !is_waited;
        vv_byte_set(w, page, VV_PAGE_ARMED, 0);
    }
}

void vv_waiting_over(struct vv_capture *c, uintptr_t start, uintptr_t end) {
    uint64_t now = vv_clock_ns();
    for (uint32_t i = 0; i < c->waiting_count;) {
        if (c->waiting[i].page < start || c->waiting[i].page >= end) {
            i++;
            continue;
        }
        c->sums.seconds_waited += (double)(now - c->waiting[i].since_ns) * 1e-9;
        c->waiting[i] = c->waiting[--c->waiting_count];
    }
}

int vv_release(struct vv_capture *c, const struct vv_release *release) {
    if (release->first >= release->last)
        return 0;
    uintptr_t start = vv_page_address(release->watched, release->first);
    uintptr_t end = vv_page_address(release->watched, release->last);
    int rc = c->guard->ops->disarm(c->guard, start, end - start);
    /* Too many mappings for now: the pages stay guarded, but nothing is held there, so new writers pass. Who waits
     * already is seen to again and again (vv_wake_stuck). */
    if (rc == -EAGAIN)
        return 0;
    vv_lock_take(&c->lock);
    vv_waiting_over(c, start, end);
    vv_lock_give(&c->lock);
    return rc;
}

/* Who waits in a page that nothing holds any more: it could not be disarmed when it should have been, or the last chunk
 * in the way was copied because of a write to the page beside it. */
void vv_wake_stuck(struct vv_capture *c) {
    for (uint32_t i = 0;; i++) {
        vv_lock_take(&c->lock);
        struct vv_watched *w = i < c->waiting_count ? vv_watched_at(c, c->waiting[i].page) : NULL;
        uint64_t page = w ? (c->waiting[i].page - vv_page_address(w, 0)) / VV_PAGE : 0;
        struct vv_release release = {w, page, w && !vv_page_is_busy(w, page) ? page + 1 : page, 0};
        int is_end = i >= c->waiting_count;
        vv_lock_give(&c->lock);
        if (is_end)
            return;
        vv_release(c, &release);
        vv_lock_take(&c->lock);
        if (w && (i >= c->waiting_count || c->waiting[i].page != vv_page_address(w, page)))
            i--; /* gone, and another one may have its place */
        vv_lock_give(&c->lock);
    }
}

/* The pages of chunks [first, first + count) that nothing holds any more. With the lock. */
struct vv_release vv_release_of(struct vv_capture *c, struct vv_watched *w, uint64_t first, uint64_t count) {
    struct vv_release release = {w, first, vv_chunk_last_page(w, first + count - 1) + 1, 0};
    if (vv_page_is_busy(w, release.first))
        release.first++;
    if (release.last > release.first && vv_page_is_busy(w, release.last - 1))
        release.last--;
    if (release.first < release.last)
        note_released(c, w, release.first, release.last);
    return release;
}

/* Of chunks that may go: those in slots for which there is room, read in one go. With the lock. */
static int copy_chunks(struct vv_capture *c, const uint32_t *numbers, uint32_t count) {
    struct iovec to[VV_MOST], from[VV_MOST];
    for (uint32_t i = 0; i < count; i++) {
        uint64_t chunk;
        struct vv_watched *w = vv_watched_of(c, numbers[i], &chunk);
        uint32_t slot = vv_slots_take(&c->slots, numbers[i]);
        to[i] = (struct iovec){c->slots.data + (size_t)slot * VV_PAGE, VV_PAGE};
        from[i] = (struct iovec){w->base.ptr + chunk * VV_PAGE, VV_PAGE};
        vv_slots_push(&c->slots, &c->slots.cow, slot);
        vv_state_set(w, chunk, VV_STAGED);
        vv_order_note(c, w, chunk, VV_AHEAD);
    }
    return vv_peek_many(to, from, count);
}

static void insert_sorted(uint32_t *numbers, uint32_t count, uint32_t number) {
    while (count > 0 && numbers[count - 1] > number) {
        numbers[count] = numbers[count - 1];
        count--;
    }
    numbers[count] = number;
}

uint32_t vv_copy_following(struct vv_capture *c, uint32_t at, struct vv_release *releases) {
    uint32_t numbers[VV_MOST], count = 0, runs = 0, spare = c->slots.count / VV_SPARE;
    uint64_t chunk;
    for (uint32_t i = at; i < c->order.count && i < at + 2 * VV_MOST && count < VV_MOST; i++) {
        struct vv_watched *w = vv_watched_of(c, c->order.list[i], &chunk);
        if (c->slots.free_count <= spare + count)
            break;
        if (w && vv_state(w, chunk) == VV_SCHEDULED && vv_chunk_size(w, chunk) == VV_PAGE)
            insert_sorted(numbers, count++, c->order.list[i]);
    }
    int rc = copy_chunks(c, numbers, count);
    for (uint32_t i = 0, n; i < count; i += n) {
        struct vv_watched *w = vv_watched_of(c, numbers[i], &chunk);
        if (rc != 0)
            c->lost = w;
        for (n = 1; i + n < count && numbers[i + n] == numbers[i] + n;)
            n++;
        releases[runs] = vv_release_of(c, w, chunk, n);
        releases[runs++].chunks = n;
    }
    return runs;
}

static void release_watch(struct vv_capture *c, struct vv_watched *w) {
    struct vv_release release = {.watched = w, .first = w->page_first, .last = w->page_end};
    vv_lock_take(&c->lock);
    for (uint64_t page = vv_skip(w, 0); page < w->page_end; page = vv_skip(w, page + 1))
        vv_byte_set(w, page, VV_PAGE_ARMED, 0);
    vv_lock_give(&c->lock);
    vv_release(c, &release);
}

/* More wait than are noted, and nothing is held any more. */
void vv_release_all(struct vv_capture *c) {
    c->has_more_waiting = 0;
    for (size_t i = 0; i < c->sorted_count; i++)
        if (c->sorted[i]->base.tracker == &c->trap.base)
            release_watch(c, c->sorted[i]);
}

/* Nothing is left to hand out, yet somebody waits: disarming everything around needs fewer mappings, not more. */
void vv_release_whole(struct vv_capture *c) {
    if (c->has_more_waiting)
        vv_release_all(c);
    vv_lock_take(&c->lock);
    struct vv_watched *w = c->waiting_count ? vv_watched_at(c, c->waiting[0].page) : NULL;
    vv_lock_give(&c->lock);
    if (w)
        release_watch(c, w);
}
