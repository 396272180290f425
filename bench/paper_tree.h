/* How many entries Algorithm 1 of Tan et al. (ICPP 2023) needs for the same chunks: a binary tree of hashes over
 * them, in which two neighbours become one entry if both are new, or if both were seen and their common hash is one
 * of two neighbours that were new together. Only counted, never stored; Varve's runs are compared with it.
 *
 * Where the paper leaves it open: new neighbours are joined on all levels before those that were seen, and the tree
 * is one of a power of two of leaves, of which those beyond the array's end never change. */
#ifndef PAPER_TREE_H
#define PAPER_TREE_H

#include "labels.h"

struct paper_tree {
    struct known known; /* of nodes above the leaves */
    uint64_t first_roots, shifted_roots;
};

/* The chunks that a checkpoint has changed. */
void paper_tree_checkpoint(struct paper_tree *tree, const struct changed *changed, size_t count);
void paper_tree_clear(struct paper_tree *tree);

#endif
