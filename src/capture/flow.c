/* Handing out what was captured, and stopping that.
 *
 * Held chunks are read in windows: as many as fit are marked IN_PROGRESS (whoever writes one waits), read with vv_peek,
 * and then
 *
 *   auto   their pages are disarmed at once, in ranges, before anything slow is done with the bytes;
 *   trap   they stay as they are until the piece is done, as in the paper; only pages that somebody waits for are
 * disarmed then. That the memory is still what was armed is looked up.
 *
 * Two windows, so that chunks that somebody waits for need not wait for those already read. */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "capture/capture_private.h"
#include "memory/process.h"

/* Of pieces that are in no slot. */
#define SLOT_MEMORY VV_NONE
#define SLOT_WINDOW (VV_NONE - 1)

/* Is a page that chunks of this watch hold not what was armed any more? With the lock. */
static int is_gone(struct vv_capture *c, const struct vv_watched *w) {
    for (uint64_t page = vv_skip(w, w->page_first); page < w->page_end; page = vv_skip(w, page + 1)) {
        uint64_t first = page;
        while (page < w->page_end && vv_page_is_busy(w, page))
            page++;
        if (page > first && vv_trap_check(&c->trap, w, first, page) != 0)
            return 1;
    }
    return 0;
}

/* Who takes one region away without a word often takes others, too: one failure is enough for all of them. Only a
 * userfaultfd can be asked without touching the memory. */
static void lose_others(struct vv_capture *c) {
    if (!c->trap.is_uffd || c->trap.pagemap < 0)
        return;
    for (size_t i = 0; i < c->sorted_count; i++) {
        struct vv_watched *w = c->sorted[i];
        vv_lock_take(&c->lock);
        int has_gone = w->busy > 0 && w->base.tracker == &c->trap.base && is_gone(c, w);
        vv_lock_give(&c->lock);
        if (has_gone)
            vv_watched_lose(c, w);
    }
}

static int fail_lost(struct vv_capture *c, struct varve_error *error) {
    struct vv_watched *w = c->lost;
    vv_watched_lose(c, w);
    lose_others(c);
    return vv_error(
        error, -EFAULT,
        "region %s: its memory was unmapped, moved, dropped (MADV_DONTNEED)%s or replaced while a checkpoint of it"
        " was in flight",
        w->name, c->trap.is_uffd && vv_process_is_merged() ? ", merged with equal pages by the kernel (KSM)" : "");
}

/* ---- windows ---- */

static void make_runs(struct vv_window *window) {
    vv_numbers_sort(window->numbers, window->count);
    window->next = 0;
    window->run_count = vv_runs_of(window->numbers, window->count, window->runs);
}

/* Which of them is it that is gone? */
static void note_lost(struct vv_capture *c, const struct vv_window *window) {
    for (uint32_t i = 0; i < window->run_count; i++) {
        uint64_t chunk;
        struct vv_watched *w = vv_watched_of(c, window->runs[i].number, &chunk);
        uint8_t byte;
        if (!c->lost || vv_peek(&byte, w->base.ptr + chunk * VV_PAGE, 1) != 0)
            c->lost = w;
    }
}

struct reading {
    struct vv_watched *watched;
    uint64_t first, last; /* pages */
    int64_t solid;
};

static struct reading begin_reading(struct vv_capture *c, const struct vv_page_run *run, uint64_t *chunk) {
    struct vv_watched *w = vv_watched_of(c, run->number, chunk);
    struct reading reading = {w, *chunk, vv_chunk_last_page(w, *chunk + run->count - 1) + 1, 0};
    reading.solid = vv_trap_solid(&c->trap, w, reading.first, reading.last);
    return reading;
}

/* Was it, until it was read, what was armed? Where disarming tells, that is enough. */
static int end_reading(struct vv_capture *c, const struct reading *reading) {
    struct vv_trap *trap = &c->trap;
    int rc = 0;
    if (c->mode == VV_CHOOSE_CAPTURE_TRAP || !trap->is_uffd)
        rc = vv_trap_check(trap, reading->watched, reading->first, reading->last);
    if (rc == 0 &&
        (reading->solid < 0 || reading->solid != vv_trap_solid(trap, reading->watched, reading->first, reading->last)))
        rc = -EFAULT;
    if (rc != 0)
        c->lost = reading->watched;
    return rc;
}

static int read_runs(struct vv_capture *c, struct vv_window *window) {
    struct iovec to[VV_MOST], from[VV_MOST];
    struct reading readings[VV_MOST];
    int rc = 0;
    for (uint32_t i = 0; i < window->run_count; i++) {
        uint64_t chunk;
        readings[i] = begin_reading(c, &window->runs[i], &chunk);
        from[i] =
            (struct iovec){readings[i].watched->base.ptr + chunk * VV_PAGE, (size_t)window->runs[i].count * VV_PAGE};
        to[i] = (struct iovec){window->data + (size_t)window->runs[i].place * VV_PAGE, from[i].iov_len};
    }
    if (vv_peek_many(to, from, window->run_count) != 0) {
        note_lost(c, window);
        return -EFAULT;
    }
    for (uint32_t i = 0; i < window->run_count && rc == 0; i++)
        rc = end_reading(c, &readings[i]);
    return rc;
}

static void not_busy(struct vv_capture *c, const struct vv_window *window) {
    vv_lock_take(&c->lock);
    for (uint32_t i = 0; i < window->run_count; i++) {
        uint64_t chunk;
        vv_watched_of(c, window->runs[i].number, &chunk)->busy -= window->runs[i].count;
    }
    vv_lock_give(&c->lock);
}

/* The bytes are in the window: nobody needs to wait for these chunks any more. */
static int release_runs(struct vv_capture *c, const struct vv_window *window) {
    struct vv_release releases[VV_MOST];
    int rc = 0;
    vv_lock_take(&c->lock);
    for (uint32_t i = 0; i < window->count; i++) {
        uint64_t chunk;
        struct vv_watched *w = vv_watched_of(c, window->numbers[i], &chunk);
        vv_state_set(w, chunk, VV_STAGED);
    }
    for (uint32_t i = 0; i < window->run_count; i++) {
        uint64_t chunk;
        struct vv_watched *w = vv_watched_of(c, window->runs[i].number, &chunk);
        for (uint64_t k = chunk; k < chunk + window->runs[i].count; k++)
            vv_order_note(c, w, k, VV_AHEAD);
        releases[i] = vv_release_of(c, w, chunk, window->runs[i].count);
    }
    vv_lock_give(&c->lock);
    for (uint32_t i = 0; i < window->run_count; i++) {
        if (vv_release(c, &releases[i]) != 0) {
            c->lost = releases[i].watched;
            rc = -EFAULT;
        }
    }
    not_busy(c, window); /* not before: then the program may take the memory away (vv_capture_leave) */
    return rc;
}

static int read_window(struct vv_capture *c, struct vv_window *window) {
    make_runs(window);
    int rc = read_runs(c, window);
    if (rc == 0 && c->mode != VV_CHOOSE_CAPTURE_TRAP)
        rc = release_runs(c, window);
    return rc;
}

/* With the lock. */
static int take_chunk(struct vv_capture *c, struct vv_window *window, uint32_t number) {
    uint64_t chunk;
    struct vv_watched *w = vv_watched_of(c, number, &chunk);
    if (!w || vv_state(w, chunk) != VV_SCHEDULED)
        return 0;
    vv_state_set(w, chunk, VV_IN_PROGRESS);
    window->numbers[window->count++] = number;
    return 1;
}

/* Chunks that somebody waits for. With the lock. */
static void gather_waited(struct vv_capture *c, struct vv_window *window) {
    window->count = window->run_count = window->next = 0;
    uint32_t capacity =
        c->mode == VV_CHOOSE_CAPTURE_TRAP ? 2 : window->capacity; /* the paper serves one page at a time */
    while (c->ring_tail != c->ring_head && window->count < capacity)
        take_chunk(c, window, c->ring[c->ring_tail++ % VV_RING]);
    /* Whoever waits for one will come to the next, which costs another trap. */
    uint32_t at = c->mode == VV_CHOOSE_CAPTURE_AUTO && window->count ? vv_order_index(c, window->numbers[0]) : VV_NONE;
    for (uint32_t i = 1; at != VV_NONE && i < VV_MOST && at + i < c->order.count && window->count < capacity; i++)
        take_chunk(c, window, c->order.list[at + i]);
}

/* The next expected ones. In the paper's mode only neighbours, since those that wait their turn in a window cannot be
 * copied for somebody who writes them. With the lock. */
static void gather_expected(struct vv_capture *c, struct vv_window *window) {
    window->count = window->run_count = window->next = 0;
    for (; c->held_next < c->order.count && window->count < window->capacity; c->held_next++) {
        uint32_t number = c->order.list[c->held_next];
        if (c->mode == VV_CHOOSE_CAPTURE_TRAP && window->count && number != window->numbers[window->count - 1] + 1)
            break;
        take_chunk(c, window, number);
    }
}

/* ---- pieces ---- */

static int give_run(struct vv_capture *c, struct vv_window *window, struct vv_piece *piece) {
    const struct vv_page_run *run = &window->runs[window->next++];
    struct vv_watched *w = vv_watched_of(c, run->number, &piece->first);
    piece->watch = &w->base;
    piece->count = run->count;
    piece->data = window->data + (size_t)run->place * VV_PAGE;
    piece->slot = SLOT_WINDOW;
    return 1;
}

/* With the lock. */
static int give_slots(struct vv_capture *c, struct vv_queue *queue, struct vv_piece *piece) {
    piece->count = vv_slots_pop(&c->slots, queue, &piece->slot);
    piece->watch = &vv_watched_of(c, c->slots.list[piece->slot].number, &piece->first)->base;
    piece->data = c->slots.data + (size_t)piece->slot * VV_PAGE;
    return 1;
}

/* A copy: what is hashed and what is stored must be the same bytes, whoever writes meanwhile although nobody may. */
static int give_memory(struct vv_capture *c, struct vv_piece *piece) {
    if (c->drained >= c->drain)
        return 0;
    if (!c->draining && !(c->draining = vv_malloc((size_t)VV_DRAINED * VV_PAGE)))
        return -ENOMEM;
    uint32_t number = c->order.list[c->drained];
    struct vv_watched *w = vv_watched_of(c, number, &piece->first);
    for (piece->count = 0; c->drained < c->drain && piece->count < VV_DRAINED; c->drained++, piece->count++)
        if (c->order.list[c->drained] != number + piece->count)
            break;
    piece->watch = &w->base;
    uint64_t size = vv_chunks_size(w, piece->first, piece->count);
    memcpy(c->draining, w->base.ptr + piece->first * VV_PAGE, size);
    piece->data = c->draining;
    piece->slot = SLOT_MEMORY;
    c->sums.bytes_drained += size;
    return 1;
}

enum next { NOTHING, READ_URGENT, READ_WINDOW, READ_FROZEN, GIVE_URGENT, GIVE_WINDOW, GIVE_FROZEN, GIVEN };

/* Copies made for somebody who wrote go first when slots run short, or always, as in the paper. With the lock. */
static int cow_goes_first(const struct vv_capture *c) {
    return c->slots.cow.head != VV_NONE &&
           (c->mode == VV_CHOOSE_CAPTURE_TRAP || c->slots.free_count < (c->slots.count + 7) / 8);
}

/* With the lock. */
static enum next choose_next(struct vv_capture *c, struct vv_piece *piece) {
    if (c->is_frozen && vv_freeze_has_piece(c))
        return GIVE_FROZEN;
    if (c->is_frozen && c->held_next < c->order.count)
        return READ_FROZEN;
    if (c->urgent.next < c->urgent.run_count)
        return GIVE_URGENT;
    gather_waited(c, &c->urgent);
    if (c->urgent.count)
        return READ_URGENT;
    if (cow_goes_first(c))
        return give_slots(c, &c->slots.cow, piece) ? GIVEN : NOTHING;
    if (c->window.next < c->window.run_count)
        return GIVE_WINDOW;
    gather_expected(c, &c->window);
    if (c->window.count)
        return READ_WINDOW;
    if (c->slots.cow.head != VV_NONE)
        return give_slots(c, &c->slots.cow, piece) ? GIVEN : NOTHING;
    if (c->slots.bulk.head != VV_NONE)
        return give_slots(c, &c->slots.bulk, piece) ? GIVEN : NOTHING;
    c->in_flight = 0; /* from here on a write comes after */
    return NOTHING;
}

/* Whoever copies for a writer finds out last whether the memory was still ours: wait for it before saying that all is
 * well. */
static void wait_for_copies(struct vv_capture *c) {
    for (size_t i = 0; i < c->sorted_count && !c->lost;) {
        vv_lock_take(&c->lock);
        int is_busy = c->sorted[i]->busy > 0;
        vv_lock_give(&c->lock);
        if (is_busy)
            sched_yield();
        else
            i++;
    }
}

int vv_capture_next(struct vv_capture *c, struct vv_piece *piece, struct varve_error *error) {
    if (!c->is_going)
        return give_memory(c, piece);
    vv_lock_take(&c->lock);
    int has_waiting = c->waiting_count > 0 || c->has_more_waiting;
    enum next next = c->lost ? NOTHING : choose_next(c, piece);
    vv_lock_give(&c->lock);
    struct vv_window *window = next == READ_URGENT || next == GIVE_URGENT ? &c->urgent : &c->window;
    int rc = 0;
    if (has_waiting)
        vv_wake_stuck(c);
    if (has_waiting && next == NOTHING)
        vv_release_whole(c);
    if (next == READ_URGENT || next == READ_WINDOW)
        rc = read_window(c, window);
    if (next == READ_FROZEN && (rc = vv_freeze_read(c, error)) != 0)
        return rc;
    if (next == READ_FROZEN && !vv_freeze_has_piece(c)) /* the rest was skipped */
        return vv_capture_next(c, piece, error);
    if (next == NOTHING)
        wait_for_copies(c);
    if (rc != 0 || c->lost)
        return fail_lost(c, error);
    if (next == NOTHING || next == GIVEN)
        return next == GIVEN;
    if (next == READ_FROZEN || next == GIVE_FROZEN) {
        piece->slot = SLOT_WINDOW;
        vv_freeze_give(c, piece);
        return 1;
    }
    return give_run(c, window, piece);
}

/* As in the paper: processed. Only who waits there needs the pages. */
static void finish_held(struct vv_capture *c, struct vv_watched *w, uint64_t first, uint64_t count) {
    for (uint64_t page = first; page <= vv_chunk_last_page(w, first + count - 1); page++) {
        vv_lock_take(&c->lock);
        uint64_t chunk, end = vv_page_chunks(w, page, &chunk);
        int is_waited = 0;
        for (; chunk < end; chunk++)
            is_waited |= vv_access(w, chunk) == VV_ACCESS_WAIT;
        struct vv_release release = {w, page, page, 0};
        if (is_waited && vv_page_is_armed(w, page) && !vv_page_is_busy(w, page)) {
            release.last++;
            vv_byte_set(w, page, VV_PAGE_ARMED, 0);
        }
        vv_lock_give(&c->lock);
        if (vv_release(c, &release) != 0)
            c->lost = w;
    }
}

void vv_capture_done(struct vv_capture *c, const struct vv_piece *piece) {
    struct vv_watched *w = (struct vv_watched *)piece->watch;
    vv_lock_take(&c->lock);
    int was_held = vv_is_busy(vv_state(w, piece->first));
    for (uint64_t chunk = piece->first; chunk < piece->first + piece->count; chunk++)
        vv_state_set(w, chunk, VV_PROCESSED);
    if (piece->slot < SLOT_WINDOW)
        vv_slots_give(&c->slots, piece->slot, piece->count);
    vv_lock_give(&c->lock);
    if (!was_held)
        return;
    finish_held(c, w, piece->first, piece->count);
    vv_lock_take(&c->lock);
    w->busy -= piece->count;
    vv_lock_give(&c->lock);
}

/* ---- stopping ---- */

/* The next run of pages that chunks of this watch hold, from this page; the chunks are let go. With the lock. */
static struct vv_release drop_next(struct vv_watched *w, uint64_t page) {
    while (page < w->page_end && !vv_page_is_busy(w, page))
        page = vv_skip(w, page + 1);
    struct vv_release release = {w, page, page, 0};
    while (release.last < w->page_end && vv_page_is_busy(w, release.last))
        release.last++;
    for (uint64_t k = release.first; k < release.last; k++) {
        uint64_t chunk, end = vv_page_chunks(w, k, &chunk);
        for (; chunk < end; chunk++)
            if (vv_is_busy(vv_state(w, chunk)))
                vv_state_set(w, chunk, VV_PROCESSED);
        vv_byte_set(w, k, VV_PAGE_ARMED, 0);
    }
    return release;
}

void vv_capture_stop(struct vv_capture *c) {
    vv_freeze_end(c);
    for (size_t i = 0; i < c->sorted_count; i++) {
        struct vv_watched *w = c->sorted[i];
        for (uint64_t page = w->page_first; page < w->page_end;) {
            vv_lock_take(&c->lock);
            struct vv_release release = {w, w->page_end, w->page_end, 0};
            if (w->busy)
                release = drop_next(w, page);
            vv_lock_give(&c->lock);
            vv_release(c, &release);
            page = release.last > page ? release.last : w->page_end;
        }
        vv_lock_take(&c->lock);
        w->busy = 0;
        vv_lock_give(&c->lock);
    }
    vv_lock_take(&c->lock);
    c->in_flight = 0;
    c->window.run_count = c->window.next = c->urgent.run_count = c->urgent.next = 0;
    c->ring_tail = c->ring_head;
    c->held_next = c->order.count;
    c->drained = c->drain;
    c->slots.bulk = c->slots.cow = (struct vv_queue){VV_NONE, VV_NONE};
    vv_lock_give(&c->lock);
    vv_wake_stuck(c);
    if (c->has_more_waiting)
        vv_release_all(c);
}
