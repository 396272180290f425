/* Parts of blocks, from somebody who has the whole block decoded.
 *
 * Blocks of a pack with several owners hold a little of each of them, so all of those who read them back want a part of
 * every block. A store that has a helper (the parts member of struct vv_store) is asked before such a block is read;
 * what the helper cannot give is read and decoded like any other block, and only that tells what is wrong with it. */
#ifndef VV_BLOCK_PARTS_H
#define VV_BLOCK_PARTS_H

#include "format/pack.h"

struct vv_block_part {
    uint8_t *out;
    uint32_t raw; /* where it begins in the decoded block */
    uint32_t length;
};

/* What is wanted of one block. */
struct vv_block_wish {
    const struct vv_block *block;
    const struct vv_block_part *parts; /* ascending by raw; they may overlap */
    size_t count;
    int result; /* filled: 0, all parts are at their place, and the block was checked; or an error: try it yourself */
};

struct vv_parts_ops {
    /* Ask before blocks of this pack are read of which only parts are wanted? Any thread. */
    int (*is_shared)(void *arg, const struct vv_attempt *attempt, uint32_t writer);
    /* Blocks of the object under this key: a pack or a part. Any thread; it may wait for others. */
    void (*get)(void *arg, const char *key, struct vv_block_wish *list, size_t count);
};

#endif
