/* Random edits of random data: what programs do between two checkpoints. Everything follows from the seed. */
#ifndef VARVE_EDITS_H
#define VARVE_EDITS_H

#include <stddef.h>
#include <stdint.h>

/* A region's memory. It has room for more than it holds. */
struct piece {
    uint8_t *data;
    size_t size, capacity;
};

void edits_seed(uint64_t seed);
/* The seed of this run: FINE_SEED or TEST_SEED in the environment, else the time; printed. */
uint64_t edits_first_seed(void);
uint32_t edits_draw(uint32_t below); /* below 1: 0 */

void piece_make(struct piece *piece, size_t size, size_t capacity);
void piece_free(struct piece *piece);
void piece_noise(struct piece *piece, size_t at, size_t size);
/* The same bytes at another place in memory. */
void piece_move(struct piece *piece);
/* One edit of one of these: overwrite, move (from another one, too), insert, delete, repeat, zero; grow and shrink
 * if it may. `grain` is what some of the edits are aligned to. */
void edits_one(struct piece *pieces, unsigned count, uint32_t grain, int may_resize);

#endif
