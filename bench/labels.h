/* What the chunks of an array are from checkpoint to checkpoint, found without the library and with a record that is
 * never full: as they were, zeros, never seen, or seen elsewhere. This says what every method of storing them would
 * take.
 *
 * Every content is stored once, so a chunk that was seen has one place, and the longest run that continues at a chunk
 * is found by going on as long as places follow each other, or as long as the same place comes again: `runs` are
 * greedy maximal runs, `plain_runs` those without repetition. A chunk that is as it was ends a run. */
#ifndef LABELS_H
#define LABELS_H

#include "known.h"

struct changed {
    uint64_t index; /* of the chunk */
    XXH128_hash_t hash;
    uint64_t place; /* where it was stored first: checkpoint * chunks + index */
    int is_first;
    int is_zero;
};

/* Sums over checkpoints. */
struct label_counts {
    uint64_t fixed, zero, first, shifted; /* chunks */
    uint64_t first_bytes, changed_bytes;
    uint64_t runs, first_runs, shifted_runs, zero_runs; /* the last three by the first chunk of a run */
    uint64_t plain_runs;
};

struct labels {
    const uint8_t *data;
    uint8_t *last; /* a copy, as of the last checkpoint */
    size_t size;
    uint32_t chunk;
    uint64_t chunks, checkpoint;
    struct known known;
    struct changed *changed; /* of the last checkpoint, ascending */
    size_t changed_count, changed_capacity;
    struct label_counts counts;
};

/* Before the first checkpoint the array counts as zeros. */
void labels_init(struct labels *labels, const void *data, size_t size, uint32_t chunk);
void labels_checkpoint(struct labels *labels);
void labels_clear(struct labels *labels);

/* Bytes that methods of Tan et al. would store for the checkpoints in such sums: a bit per chunk and what changed
 * (basic); what is new, 4 bytes for each new chunk and 12 for each that was seen, zeros among them (list). */
uint64_t labels_basic_bytes(const struct labels *labels, unsigned checkpoints);
uint64_t labels_list_bytes(const struct labels *labels);

#endif
