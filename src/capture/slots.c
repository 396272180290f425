/* The staging buffer, and how it is filled inside the call: slots of a chunk each, in one mapping that is kept from
 * checkpoint to checkpoint. Free ones are found by a bitmap, next to the last that was taken, so that copies made one
 * after another lie one after another. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "capture/capture_private.h"

#define SPARE 8u /* chunks for windows beside the slots, when those are few */

static size_t words_of(uint32_t count) {
    return ((size_t)count + 63) / 64;
}

void vv_slots_free(struct vv_slots *slots) {
    vv_pages_unmap(slots->data, ((size_t)slots->count + SPARE) * VV_PAGE);
    vv_free(slots->is_free);
    vv_free(slots->list);
    *slots = (struct vv_slots){0};
}

int vv_slots_set(struct vv_slots *slots, uint64_t bytes) {
    uint64_t count = bytes / VV_PAGE;
    if (count > UINT32_MAX / 2)
        count = UINT32_MAX / 2;
    if (slots->data && slots->count == count)
        return 0;
    vv_slots_free(slots);
    slots->count = (uint32_t)count;
    slots->spare = SPARE;
    slots->data = vv_pages_map((count + SPARE) * VV_PAGE);
    slots->is_free = vv_calloc(words_of(slots->count) + 1, sizeof *slots->is_free);
    slots->list = vv_calloc(count + 1, sizeof *slots->list);
    if (!slots->data || !slots->is_free || !slots->list) {
        vv_slots_free(slots);
        return -ENOMEM;
    }
    return 0;
}

void vv_slots_reset(struct vv_slots *slots, uint32_t reserve) {
    slots->free_count = slots->count - reserve;
    slots->cursor = 0;
    for (size_t i = 0; i < words_of(slots->count); i++) {
        uint64_t from = i * 64;
        uint64_t ones = slots->free_count > from ? slots->free_count - from : 0;
        slots->is_free[i] = ones >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << ones) - 1;
    }
    slots->bulk = slots->cow = (struct vv_queue){VV_NONE, VV_NONE};
}

/* Copying into memory that is not there yet costs four times as much. */
static void back_slots(struct vv_slots *slots, uint32_t count) {
    if (count > slots->count)
        count = slots->count;
    if (count <= slots->backed)
        return;
    vv_pages_back(slots->data + (size_t)slots->backed * VV_PAGE, (uint64_t)(count - slots->backed) * VV_PAGE);
    slots->backed = count;
}

uint32_t vv_slots_take(struct vv_slots *slots, uint32_t number) {
    if (slots->free_count == 0)
        return VV_NONE;
    size_t words = words_of(slots->count), word = slots->cursor / 64;
    uint64_t bits = slots->is_free[word] & (~UINT64_C(0) << (slots->cursor % 64));
    while (bits == 0) {
        word = word + 1 < words ? word + 1 : 0;
        bits = slots->is_free[word];
    }
    uint32_t slot = (uint32_t)(word * 64) + (uint32_t)__builtin_ctzll(bits);
    slots->is_free[word] &= ~(UINT64_C(1) << (slot % 64));
    slots->free_count--;
    if (slots->count - slots->free_count > slots->used)
        slots->used = slots->count - slots->free_count;
    slots->cursor = slot + 1 < slots->count ? slot + 1 : 0;
    slots->list[slot] = (struct vv_slot){number, VV_NONE};
    return slot;
}

void vv_slots_give(struct vv_slots *slots, uint32_t first, uint32_t count) {
    for (uint32_t slot = first; slot < first + count; slot++)
        slots->is_free[slot / 64] |= UINT64_C(1) << (slot % 64);
    slots->free_count += count;
}

void vv_slots_push(struct vv_slots *slots, struct vv_queue *queue, uint32_t slot) {
    slots->list[slot].next = VV_NONE;
    if (queue->head == VV_NONE)
        queue->head = slot;
    else
        slots->list[queue->tail].next = slot;
    queue->tail = slot;
}

uint32_t vv_slots_pop(struct vv_slots *slots, struct vv_queue *queue, uint32_t *slot) {
    uint32_t first = queue->head, count = 0, next = first;
    while (next != VV_NONE && count < VV_MOST && next == first + count &&
           slots->list[next].number == slots->list[first].number + count) {
        next = slots->list[next].next;
        count++;
    }
    queue->head = next;
    *slot = first;
    return count;
}

/* A run of chunks that are to be staged: copied into slots that follow each other where there are such. */
static void stage_run(struct vv_capture *c, struct vv_watched *w, uint64_t first, uint64_t count) {
    while (count > 0) {
        vv_lock_take(&c->lock);
        uint32_t slot = vv_slots_take(&c->slots, w->base.first + (uint32_t)first), got = 1;
        vv_slots_push(&c->slots, &c->slots.bulk, slot);
        for (; got < count; got++) {
            uint32_t next = vv_slots_take(&c->slots, w->base.first + (uint32_t)(first + got));
            vv_slots_push(&c->slots, &c->slots.bulk, next);
            if (next != slot + got)
                break;
        }
        vv_lock_give(&c->lock);
        memcpy(c->slots.data + (size_t)slot * VV_PAGE, w->base.ptr + first * VV_PAGE, vv_chunks_size(w, first, got));
        c->sums.bytes_staged += vv_chunks_size(w, first, got);
        if (got < count) { /* the slot that did not follow */
            uint32_t other = c->slots.bulk.tail;
            memcpy(c->slots.data + (size_t)other * VV_PAGE, w->base.ptr + (first + got) * VV_PAGE,
                   vv_chunk_size(w, first + got));
            c->sums.bytes_staged += vv_chunk_size(w, first + got);
            got++;
        }
        first += got;
        count -= got;
    }
}

/* By address, whatever the expected order: nobody waits for them, and long runs are copied and looked at faster. */
void vv_stage_all(struct vv_capture *c) {
    if (c->is_copied)
        return;
    c->is_copied = 1;
    back_slots(&c->slots, c->stage);
    for (size_t i = 0; i < c->sorted_count && c->stage > 0; i++) {
        struct vv_watched *w = c->sorted[i];
        for (uint64_t chunk = vv_skip(w, 0); chunk < w->base.chunks; chunk = vv_skip(w, chunk + 1)) {
            uint64_t first = chunk;
            while (chunk < w->base.chunks && vv_state(w, chunk) == VV_STAGED)
                chunk++;
            if (chunk > first)
                stage_run(c, w, first, chunk - first);
        }
    }
}
