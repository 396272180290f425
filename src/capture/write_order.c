/* The expected order of writes, from what the log of the last epoch that taught something says.
 *
 * The log has each chunk at most once: when it was first written as far as that was noticed (a trap, a sample), or when
 * it was released before anybody came. What is released in the expected order and not complained about keeps its place
 * that way; what was written earlier than expected moves forward to the time it was. So the log itself is the next
 * expectation, and two arrays are enough.
 *
 * One correction: the log counts releases, which run ahead of the program by what was captured in the call. A chunk
 * that was written when the log had n entries is the program's (n - lead)th, and goes there. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "capture/capture_private.h"

#define LOOK_AHEAD 4096u /* expected chunks looked at to tell a surprise */

int vv_numbers_reserve(struct vv_watch_numbers *numbers, uint64_t capacity) {
    if (capacity <= numbers->capacity)
        return 0;
    capacity += capacity / 4;
    uint32_t *list = vv_pages_map(capacity * sizeof *list);
    if (!list)
        return -ENOMEM;
    if (numbers->count)
        memcpy(list, numbers->list, numbers->count * sizeof *list);
    vv_pages_unmap(numbers->list, numbers->capacity * sizeof *list);
    numbers->list = list;
    numbers->capacity = capacity;
    return 0;
}

static int compare_numbers(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

void vv_numbers_sort(uint32_t *list, uint32_t count) {
    qsort(list, count, sizeof *list, compare_numbers);
}

uint32_t vv_runs_of(const uint32_t *list, uint32_t count, struct vv_page_run *runs) {
    uint32_t run_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct vv_page_run *run = run_count ? &runs[run_count - 1] : NULL;
        if (run && run->number + run->count == list[i])
            run->count++;
        else
            runs[run_count++] = (struct vv_page_run){list[i], 1, i};
    }
    return run_count;
}

void vv_numbers_free(struct vv_watch_numbers *numbers) {
    vv_pages_unmap(numbers->list, numbers->capacity * sizeof *numbers->list);
    *numbers = (struct vv_watch_numbers){0};
}

static void append(struct vv_watch_numbers *numbers, uint32_t number) {
    if (numbers->count < numbers->capacity)
        numbers->list[numbers->count++] = number;
}

/* While the order is made, chunks that have their place are PROCESSED; the plan gives every one its state afterwards.
 */
static void place(struct vv_capture *c, struct vv_watched *w, uint64_t chunk) {
    append(&c->order, w->base.first + (uint32_t)chunk);
    vv_state_set(w, chunk, VV_PROCESSED);
}

/* Need it not be captured inside the call? */
static int can_stay(const struct vv_capture *c, const struct vv_watched *w, uint64_t chunk) {
    return c->is_frozen ? w->may_freeze : w->may_hold && chunk >= w->hold_first && chunk < w->hold_end;
}

enum which { ALL, UNHOLDABLE };

static void place_by_address(struct vv_capture *c, enum which which) {
    for (size_t i = 0; i < c->sorted_count; i++) {
        struct vv_watched *w = c->sorted[i];
        for (uint64_t chunk = vv_skip(w, 0); chunk < w->base.chunks; chunk = vv_skip(w, chunk + 1))
            if (vv_state(w, chunk) == VV_SCHEDULED && (which == ALL || !can_stay(c, w, chunk)))
                place(c, w, chunk);
    }
}

/* Those of the log with one of these accesses (bits), in its order. */
static void place_logged(struct vv_capture *c, unsigned accesses) {
    for (uint32_t i = 0; i < c->log_of_writes.count; i++) {
        uint64_t chunk;
        struct vv_watched *w = vv_watched_of(c, c->log_of_writes.list[i], &chunk);
        if (w && vv_state(w, chunk) == VV_SCHEDULED && (accesses >> vv_access(w, chunk) & 1))
            place(c, w, chunk);
    }
}

static struct vv_watched *logged(const struct vv_capture *c, uint64_t index, uint64_t *chunk) {
    struct vv_watched *w =
        index < c->log_of_writes.count ? vv_watched_of(c, c->log_of_writes.list[index], chunk) : NULL;
    return w && vv_state(w, *chunk) == VV_SCHEDULED ? w : NULL;
}

static void place_corrected(struct vv_capture *c, unsigned seen) {
    uint64_t chunk, ahead = 0;
    for (uint64_t i = 0; i < c->log_of_writes.count; i++) {
        for (; ahead <= i + c->lead; ahead++) {
            struct vv_watched *w = logged(c, ahead, &chunk);
            if (w && (seen >> vv_access(w, chunk) & 1))
                place(c, w, chunk);
        }
        struct vv_watched *w = logged(c, i, &chunk);
        if (w)
            place(c, w, chunk);
    }
}

void vv_order_by_address(struct vv_capture *c) {
    c->order.count = 0;
    c->unholdable = 0;
    place_by_address(c, ALL);
}

void vv_order_deferred(struct vv_capture *c) {
    c->order.count = 0;
    place_by_address(c, UNHOLDABLE);
    c->unholdable = c->order.count;
    place_by_address(c, ALL);
}

/* The lowest of the others, until there are so many in all. */
static void place_lowest(struct vv_capture *c, uint64_t count) {
    for (size_t i = 0; i < c->sorted_count; i++) {
        struct vv_watched *w = c->sorted[i];
        for (uint64_t chunk = vv_skip(w, 0); chunk < w->base.chunks && c->order.count < count;
             chunk = vv_skip(w, chunk + 1))
            if (vv_state(w, chunk) == VV_SCHEDULED)
                place(c, w, chunk);
    }
}

void vv_order_expected(struct vv_capture *c, uint64_t lowest) {
    const unsigned seen = 1u << VV_ACCESS_WAIT | 1u << VV_ACCESS_COW;
    c->order.count = 0;
    place_by_address(c, UNHOLDABLE);
    c->unholdable = c->order.count;
    place_lowest(c, lowest);
    if (c->ordering == VV_CHOOSE_ORDER_LEARNED && c->mode == VV_CHOOSE_CAPTURE_TRAP) {
        place_logged(c, 1u << VV_ACCESS_WAIT);
        place_logged(c, 1u << VV_ACCESS_COW);
        place_logged(c, 1u << VV_ACCESS_AVOIDED);
    } else if (c->ordering == VV_CHOOSE_ORDER_LEARNED) {
        /* Much was not as expected: what was expected is worth less than what was seen. */
        if (c->surprises * 8 > c->held_chunks)
            place_logged(c, seen | 1u << VV_ACCESS_AVOIDED);
        place_corrected(c, seen);
    }
    place_by_address(c, ALL);
}

void vv_order_note(struct vv_capture *c, struct vv_watched *w, uint64_t chunk, int access) {
    if (vv_access(w, chunk) != VV_ACCESS_NOT)
        return;
    vv_byte_set(w, chunk, VV_CHUNK_ACCESS, (unsigned)access << 3);
    append(&c->log_of_writes, w->base.first + (uint32_t)chunk);
}

void vv_order_forget(struct vv_capture *c) {
    for (uint32_t i = 0; i < c->log_of_writes.count; i++) {
        uint64_t chunk;
        struct vv_watched *w = vv_watched_of(c, c->log_of_writes.list[i], &chunk);
        if (w)
            vv_byte_set(w, chunk, VV_CHUNK_ACCESS, 0);
    }
    c->log_of_writes.count = 0;
}

void vv_order_tidy(struct vv_capture *c) {
    struct vv_watch_numbers *log = &c->log_of_writes;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < log->count; i++) {
        uint64_t chunk;
        if (vv_watched_of(c, log->list[i], &chunk))
            log->list[kept++] = log->list[i];
    }
    log->count = kept;
}

uint32_t vv_order_index(const struct vv_capture *c, uint32_t number) {
    uint32_t ahead = c->slots.count < LOOK_AHEAD ? c->slots.count : LOOK_AHEAD;
    uint32_t end = c->order.count - c->held_next > ahead ? c->held_next + ahead : c->order.count;
    for (uint32_t i = c->held_next; i < end; i++)
        if (c->order.list[i] == number)
            return i;
    return VV_NONE;
}
