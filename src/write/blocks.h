/* New chunks become blocks: gathered by the thread that finds or receives them, put into order, encoded and appended to
 * a pack by the pool.
 *
 * What lies together shall be alike. A block is for one *lane*, and a few are open at a time. A rank that writes by
 * itself has a lane for each large region, and one for small regions of each type. A writer of several ranks has, by
 * the setting `grouping`, a lane for each variable (the same one of all ranks, or of each of them), or for each rank,
 * or one for all. What several ranks will read has lanes apart, so that a restart reads whole blocks of what it needs.
 * Inside a block the ranks follow one another, or take turns (encode/interleave.h). */
#ifndef VV_BLOCKS_H
#define VV_BLOCKS_H

#include "base/thread.h"
#include "encode/choice.h"
#include "store/pack_writer.h"

struct vv_blocks;

/* What the data is that comes now: a region of a rank. All ranks run the same program, so it travels as it is. */
struct vv_variable {
    uint64_t key;    /* the same for regions that hold the same variable, on every rank */
    uint64_t region; /* its number; UINT64_MAX: nobody knows */
    uint64_t length; /* of the region */
    uint32_t owner;
    uint32_t is_large; /* nothing may be kept in memory for each of its chunks */
    struct vv_content content;
};

struct vv_blocks_options {
    struct vv_pack_writer *pack;
    struct vv_pool *pool; /* nobody else uses it meanwhile */
    struct vv_chooser *chooser;
    uint32_t block_size;
    unsigned blocks;               /* that may be on their way */
    uint32_t ranks;                /* whose data meets here */
    int grouping;                  /* enum vv_grouping_choice; counts only with several ranks */
    uint32_t turn;                 /* bytes of a rank, where ranks take turns */
    int level;                     /* of zstd */
    struct vv_known_order *orders; /* VV_KNOWN_ORDERS of them, kept from one checkpoint to the next, zeros to begin
                                      with; NULL: nothing is sampled */
};

/* How the ranks of a variable lie best in a block, as samples have said. */
struct vv_known_order {
    uint64_t key;
    uint32_t turn;   /* 0: one after another */
    uint32_t blocks; /* that were made so since it was sampled; 0: it was not yet */
};
#define VV_KNOWN_ORDERS 1024u

struct vv_new_chunk {
    uint32_t owner;
    uint64_t address; /* in the owner's layout */
    uint32_t size;    /* a granule, or with a zero id a part of one */
    struct vv_hash128 id;
    int is_shared; /* other ranks will read it, too: it lies apart from what only its owner reads */
    unsigned held; /* partners that have it themselves, a bit for each (output.h) */
};

int vv_blocks_create(const struct vv_blocks_options *options, struct vv_blocks **out);
/* Data of this region follows. It must live until another one is told. */
void vv_blocks_variable(struct vv_blocks *blocks, const struct vv_variable *variable);
/* Append a chunk. Copies its data. Chunks that continue each other cost the least to describe. */
int vv_blocks_add(struct vv_blocks *blocks, const struct vv_new_chunk *chunk, const void *data);
/* Encode and write what is left and wait; the first error of any block. */
int vv_blocks_finish(struct vv_blocks *blocks, struct varve_error *error);
/* What most bytes' blocks were made of: "aware-block 4K", at most 31 characters; "" with one rank. After
 * vv_blocks_finish. */
void vv_blocks_grouping(const struct vv_blocks *blocks, char out[32]);
void vv_blocks_destroy(struct vv_blocks *blocks); /* waits; accepts NULL */

#endif
