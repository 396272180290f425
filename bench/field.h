/* The memory of one rank as bench-field checkpoints it.
 *
 * Float64, a smooth wave in every page of 4 KiB. Even pages are the same on all ranks of a job, odd ones are the
 * rank's own. Between two checkpoints about 10 % of the pages are written anew: in runs of 64, or, scattered, single
 * ones here and there. Unique memory has noise instead, another one on every rank and in every page for every
 * checkpoint: nothing can be saved there. Replicas of a training have noise, too, new in every page for every
 * checkpoint, but all of it, or every other page, is the same on all ranks. */
#ifndef FIELD_H
#define FIELD_H

#include <stddef.h>
#include <stdint.h>

#define FIELD_PAGE 4096u

struct field {
    unsigned rank;
    int is_unique;  /* noise, and all of it new each time; */
    unsigned alike; /* of two pages of noise, those that are the same on all ranks */
    int is_scattered;
    size_t size;
    size_t pages;
    uint8_t *memory;
    uint32_t *age; /* per page: the checkpoint before which it was last written */
};

/* size, rank, is_unique, alike and is_scattered are set by the caller. Without memory it is good for comparing only. */
void field_init(struct field *field, int has_memory);
void field_clear(struct field *field);
/* What the program writes before a checkpoint that is not the first: bytes written. */
uint64_t field_advance(struct field *field, unsigned checkpoint);
/* The same in `parts` pieces, from the first pages to the last. A part may be written again. */
uint64_t field_advance_part(struct field *field, unsigned checkpoint, unsigned part, unsigned parts);
/* Of what is written before a checkpoint (0: all), the bytes that this rank stores when all ranks together store
 * nothing twice: what only it has, and on rank 0 what all have. */
uint64_t field_floor(const struct field *field, unsigned checkpoint);
/* Is it what field has after its `checkpoints` checkpoints? Names the first page that is not. */
int field_compare(const struct field *like, unsigned checkpoints, const uint8_t *memory);
/* The computing between checkpoints, on memory of its own. */
double field_compute(void);

#endif
