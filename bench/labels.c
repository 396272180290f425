/* Labels of chunks. */
#include "labels.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"

#define PAGE 4096u /* no chunk is larger */

void labels_init(struct labels *labels, const void *data, size_t size, uint32_t chunk) {
    *labels = (struct labels){.data = data, .size = size, .chunk = chunk, .chunks = (size + chunk - 1) / chunk};
    labels->last = bench_pages(size);
}

void labels_clear(struct labels *labels) {
    if (labels->last)
        munmap(labels->last, labels->size);
    known_clear(&labels->known);
    free(labels->changed);
    *labels = (struct labels){0};
}

static int is_zero(const uint8_t *data, size_t size) {
    return size == 0 || (data[0] == 0 && memcmp(data, data + 1, size - 1) == 0);
}

static void note(struct labels *labels, uint64_t index, const uint8_t *data, size_t size) {
    struct changed chunk = {.index = index, .hash = XXH3_128bits(data, size), .is_zero = is_zero(data, size)};
    uint64_t place = labels->checkpoint * labels->chunks + index;
    chunk.place = chunk.is_zero ? 0 : known_put(&labels->known, chunk.hash, place);
    chunk.is_first = !chunk.is_zero && chunk.place == place;
    if (labels->changed_count == labels->changed_capacity) {
        labels->changed_capacity = labels->changed_capacity ? 2 * labels->changed_capacity : 4096;
        labels->changed = realloc(labels->changed, labels->changed_capacity * sizeof *labels->changed);
        bench_check(labels->changed != NULL, "memory");
    }
    labels->changed[labels->changed_count++] = chunk;
    labels->counts.zero += (uint64_t)chunk.is_zero;
    labels->counts.first += (uint64_t)chunk.is_first;
    labels->counts.shifted += !chunk.is_zero && !chunk.is_first;
    labels->counts.first_bytes += chunk.is_first ? size : 0;
    labels->counts.changed_bytes += size;
}

enum going {
    ALONE,
    ON,
    AGAIN
}; /* a run of one chunk, of places that follow each other, of one place again and again */

/* What a run becomes with the chunk to its right; ALONE: that one begins another. */
static enum going joined(enum going going, const struct changed *left, const struct changed *right) {
    if (left->index + 1 != right->index || left->is_zero != right->is_zero)
        return ALONE;
    if (left->is_zero)
        return ON;
    if (going != AGAIN && left->is_first == right->is_first && left->place + 1 == right->place)
        return ON;
    return going != ON && left->place == right->place ? AGAIN : ALONE;
}

static void count_runs(struct labels *labels) {
    struct label_counts *counts = &labels->counts;
    enum going going = ALONE;
    for (size_t i = 0; i < labels->changed_count; i++) {
        const struct changed *chunk = &labels->changed[i];
        counts->plain_runs += i == 0 || joined(ON, chunk - 1, chunk) == ALONE;
        going = i == 0 ? ALONE : joined(going, chunk - 1, chunk);
        if (going != ALONE)
            continue;
        counts->runs++;
        counts->zero_runs += (uint64_t)chunk->is_zero;
        counts->first_runs += (uint64_t)chunk->is_first;
        counts->shifted_runs += !chunk->is_zero && !chunk->is_first;
    }
}

/* Pages first: most of them are as they were. */
void labels_checkpoint(struct labels *labels) {
    labels->changed_count = 0;
    for (size_t page = 0; page < labels->size; page += PAGE) {
        size_t end = labels->size - page < PAGE ? labels->size : page + PAGE;
        if (memcmp(labels->data + page, labels->last + page, end - page) == 0)
            continue;
        for (size_t at = page; at < end; at += labels->chunk) {
            size_t size = end - at < labels->chunk ? end - at : labels->chunk;
            if (memcmp(labels->data + at, labels->last + at, size) != 0)
                note(labels, at / labels->chunk, labels->data + at, size);
        }
        memcpy(labels->last + page, labels->data + page, end - page);
    }
    labels->counts.fixed += labels->chunks - labels->changed_count;
    count_runs(labels);
    labels->checkpoint++;
}

uint64_t labels_basic_bytes(const struct labels *labels, unsigned checkpoints) {
    return checkpoints * ((labels->chunks + 7) / 8) + labels->counts.changed_bytes;
}

uint64_t labels_list_bytes(const struct labels *labels) {
    const struct label_counts *counts = &labels->counts;
    return counts->first_bytes + 4 * counts->first + 12 * (counts->shifted + counts->zero);
}
