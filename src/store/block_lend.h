/* Blocks that several ranks of a node read: one of them reads, checks and decodes it, and the others copy what they
 * want of it from memory that all of them share. A store that has a lender (struct vv_store) is asked before such a
 * block is read. Nothing depends on it: who is not lent a block reads it like any other. */
#ifndef VV_BLOCK_LEND_H
#define VV_BLOCK_LEND_H

#include "format/pack.h"

#define VV_LEND_SLACK 8192u /* bytes of a loan beyond the block: a read may begin and end at multiples of 4 KiB */

enum vv_loan_state {
    VV_LOAN_NONE,  /* read it yourself; there is nothing to give back */
    VV_LOAN_LATER, /* as many are lent as there is room for: do something else first */
    VV_LOAN_FULL,  /* what is needed of the decoded block is at data */
    VV_LOAN_EMPTY, /* read it for all: block->raw + VV_LEND_SLACK bytes at data, page-aligned; then call filled */
};

struct vv_loan {
    uint8_t *data;
    uint32_t slot; /* the lender's */
};

#define VV_LEND_WORD 64u /* bits */
#define VV_LEND_WORDS (VV_BLOCK_RAW_MAX / VV_GRANULE / VV_LEND_WORD)

/* Granules of a block, a bit for each. */
struct vv_loan_parts {
    uint64_t needed[VV_LEND_WORDS];
    uint64_t read[VV_LEND_WORDS]; /* if nobody has done so yet */
};

struct vv_lend_ops {
    /* Any thread. May wait for another rank, not for long. parts NULL: the whole block, checked by its sum. turn: there
     * is nothing else to do first, and of this rank's threads that wait for room the one with the lowest gets it; 0:
     * there is. */
    enum vv_loan_state (*take)(void *arg, const char *key, const struct vv_block *block,
                               const struct vv_loan_parts *parts, size_t turn, struct vv_loan *out);
    /* The decoded block begins `lead` bytes after data, which becomes that; or rc says why there is none. */
    void (*filled)(void *arg, struct vv_loan *loan, uint32_t lead, int rc);
    void (*give_back)(void *arg, const struct vv_loan *loan);
    /* So many times what this one wants, all ranks may want that may borrow; `most`: all of the job together. */
    double (*wanted)(const void *arg, double most);
    /* Like a backend's get: bytes that all ranks of the node ask for alike, as tables are. */
    int64_t (*get)(void *arg, const char *key, uint64_t offset, void *data, size_t size);
};

#endif
