/* What a simulated rank of bench-scale-restart protects: two regions of half the size, one the same on all ranks and
 * the other its own; or its block of one array in two dimensions, which comes back on any number of ranks. */
#ifndef VARVE_BENCH_SCALE_STATE_H
#define VARVE_BENCH_SCALE_STATE_H

#include <stddef.h>
#include <stdint.h>
#include <varve/varve.h>

struct scale_state {
    uint32_t number;
    size_t half; /* of the two regions; 0: an array */
    uint64_t *same, *own;
    struct varve_array array;
    uint64_t *block;
    size_t block_bytes;
};

/* Two regions, zeros. All of these end the program without memory. */
void scale_state_regions(struct scale_state *state, uint32_t number, size_t size);
/* The block of this rank, zeros: the ranks form a grid as MPI_Dims_create makes it. So many rows and columns in all. */
void scale_state_array(struct scale_state *state, uint32_t number, uint32_t ranks, uint64_t rows, uint64_t columns);
void scale_state_clear(struct scale_state *state);

/* 0, or as varve_protect. */
int scale_state_protect(const struct scale_state *state, struct varve_session *session);
/* What all checkpoints of this number have. The region that is the same on all ranks is the same in all checkpoints. */
void scale_state_fill(const struct scale_state *state, uint64_t checkpoint);
int scale_state_is_right(const struct scale_state *state, uint64_t checkpoint);

#endif
