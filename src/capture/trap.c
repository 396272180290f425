/* Somebody writes a page that is armed (algorithm 2 of the paper).
 *
 * In the guard's thread, or inside a signal handler of the writing thread: nothing is allocated, errno is kept, the
 * lock is one that may be taken there. Whatever is disarmed here is disarmed before the write that came here can go on:
 * a disarming that came later could meet the next checkpoint's arming. */
#include <errno.h>

#include "base/thread.h"
#include "capture/capture_private.h"

/* With the lock. */
static int copy_into_slot(struct vv_capture *c, struct vv_watched *w, uint64_t chunk) {
    uint32_t number = w->base.first + (uint32_t)chunk;
    uint32_t slot = c->is_going ? vv_slots_take(&c->slots, number) : VV_NONE;
    if (slot == VV_NONE)
        return 0;
    /* Another thread may have taken it away, or put other memory there: the checkpoint fails, the writer does not wait
     * for it. */
    if (vv_peek(c->slots.data + (size_t)slot * VV_PAGE, w->base.ptr + chunk * VV_PAGE, vv_chunk_size(w, chunk)) != 0 ||
        (c->trap.is_uffd && c->trap.pagemap >= 0 &&
         vv_trap_check(&c->trap, w, chunk, vv_chunk_last_page(w, chunk) + 1) != 0))
        c->lost = w;
    vv_slots_push(&c->slots, &c->slots.cow, slot);
    vv_state_set(w, chunk, VV_STAGED);
    w->busy--;
    return 1;
}

static void hurry(struct vv_capture *c, uint32_t number) {
    if (c->ring_head - c->ring_tail < VV_RING)
        c->ring[c->ring_head++ % VV_RING] = number;
}

struct trap {
    struct vv_capture *capture;
    struct vv_watched *watched;
    uint64_t page;
    int copied, blocked;
    uint32_t index;                  /* of its chunk in the order; VV_NONE: it was not expected yet, or is not held */
    struct vv_release also[VV_MOST]; /* disarmed beside the page itself */
    uint32_t also_count;
};

/* With the lock. */
static void meet_chunk(struct trap *trap, uint64_t chunk) {
    struct vv_capture *c = trap->capture;
    struct vv_watched *w = trap->watched;
    uint32_t number = w->base.first + (uint32_t)chunk;
    int state = vv_state(w, chunk);
    if (!vv_is_busy(state))
        return;
    int is_first = vv_access(w, chunk) == VV_ACCESS_NOT, is_expected = 0;
    if (state == VV_SCHEDULED && c->mode == VV_CHOOSE_CAPTURE_AUTO) {
        trap->index = vv_order_index(c, number);
        is_expected = trap->index != VV_NONE;
        c->surprises += is_first && !is_expected;
    }
    /* Who comes when expected, only before us, teaches nothing about the order; and with few slots left, which are for
     * surprises, it is better to wait a moment for many pages than to be stopped at each. */
    int may_copy = state == VV_SCHEDULED && (!is_expected || c->slots.free_count > c->slots.count / VV_SPARE);
    if (may_copy && copy_into_slot(c, w, chunk)) {
        vv_order_note(c, w, chunk, is_expected ? VV_AHEAD : VV_ACCESS_COW);
        trap->copied = 1;
        return;
    }
    if (state == VV_SCHEDULED && is_first)
        hurry(c, number);
    is_expected |= state == VV_IN_PROGRESS && c->mode == VV_CHOOSE_CAPTURE_AUTO;
    vv_order_note(c, w, chunk, is_expected ? VV_AHEAD : VV_ACCESS_WAIT);
    trap->blocked = 1;
}

static int may_pass(const struct vv_watched *w, uint64_t page) {
    return page >= w->page_first && page < w->page_end && vv_page_is_armed(w, page) && !vv_page_is_busy(w, page);
}

/* A trap costs ten to fifty times what it costs to look at a chunk: who writes one watched page will write its
 * neighbours, and those count as changed then. With the lock. */
static void release_around(struct trap *trap) {
    struct vv_watched *w = trap->watched;
    uint64_t page = trap->page, low = page & ~(uint64_t)(VV_AROUND - 1), high = low + VV_AROUND;
    uint64_t first = page, last = page + 1;
    while (first > low && may_pass(w, first - 1))
        first--;
    while (last < high && may_pass(w, last))
        last++;
    for (uint64_t k = first; k < last; k++)
        if (k != page)
            vv_byte_set(w, k, VV_PAGE_ARMED, 0);
    if (first < page)
        trap->also[trap->also_count++] = (struct vv_release){w, first, page, 0};
    if (last > page + 1)
        trap->also[trap->also_count++] = (struct vv_release){w, page + 1, last, 0};
}

static int waits_already(const struct vv_capture *c, uintptr_t page) {
    for (uint32_t i = 0; i < c->waiting_count; i++)
        if (c->waiting[i].page == page)
            return 1;
    return 0;
}

/* With the lock. */
static void block(struct trap *trap, uintptr_t address) {
    struct vv_capture *c = trap->capture;
    if (waits_already(c, address))
        return; /* the same write asks again, or another one */
    c->sums.wait_pages++;
    c->sums.trapped_pages++;
    if (c->waiting_count < VV_WAITING)
        c->waiting[c->waiting_count++] = (struct vv_waiting){address, vv_clock_ns()};
    else
        c->has_more_waiting = 1;
}

/* With the lock. */
static void pass(struct trap *trap, uintptr_t address) {
    struct vv_capture *c = trap->capture;
    struct vv_watched *w = trap->watched;
    uint64_t chunk, end = vv_page_chunks(w, trap->page, &chunk);
    for (; chunk < end; chunk++)
        vv_order_note(c, w, chunk, c->in_flight ? VV_ACCESS_AVOIDED : VV_ACCESS_AFTER);
    vv_byte_set(w, trap->page, VV_PAGE_ARMED, 0);
    if (waits_already(c, address)) {
        vv_waiting_over(c, address, address + VV_PAGE); /* a slot became free meanwhile */
    } else {
        c->sums.trapped_pages++;
        c->sums.cow_pages += trap->copied;
        c->sums.avoided_pages += !trap->copied && c->in_flight;
    }
    if (!trap->copied && c->mode != VV_CHOOSE_CAPTURE_TRAP)
        release_around(trap);
}

/* Copies are good only if the pages were still what was armed; until that is known the chunks are busy, so that nobody
 * takes the watch away. */
static void release_also(struct vv_capture *c, const struct vv_release *release) {
    int rc = vv_release(c, release);
    if (release->chunks == 0)
        return;
    if (rc != 0)
        c->lost = release->watched;
    vv_lock_take(&c->lock);
    release->watched->busy -= release->chunks;
    vv_lock_give(&c->lock);
}

int vv_capture_trapped(void *arg, uintptr_t page) {
    struct vv_capture *c = arg;
    int kept = errno;
    struct trap trap = {.capture = c, .index = VV_NONE};
    vv_lock_take(&c->lock);
    struct vv_watched *w = trap.watched = vv_watched_at(c, page);
    int is_ours = w != NULL;
    if (is_ours) {
        trap.page = (page - vv_page_address(w, 0)) / VV_PAGE;
        is_ours = vv_page_is_armed(w, trap.page) || vv_page_is_busy(w, trap.page);
    }
    if (is_ours) {
        uint64_t chunk, end = vv_page_chunks(w, trap.page, &chunk);
        for (; chunk < end; chunk++)
            meet_chunk(&trap, chunk);
        if (trap.blocked)
            block(&trap, page);
        else
            pass(&trap, page);
    }
    if (is_ours && trap.copied && !trap.blocked && trap.index != VV_NONE && !c->trap.is_mprotect)
        trap.also_count += vv_copy_following(c, trap.index, trap.also + trap.also_count);
    vv_lock_give(&c->lock);
    for (uint32_t i = 0; i < trap.also_count; i++)
        release_also(c, &trap.also[i]);
    errno = kept;
    return !trap.blocked;
}
