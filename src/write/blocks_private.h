/* What blocks.c (gathering) and block_write.c (order, encoding, writing) share. */
#ifndef VV_BLOCKS_PRIVATE_H
#define VV_BLOCKS_PRIVATE_H

#include "encode/coders.h"
#include "encode/interleave.h"
#include "write/blocks.h"

#define VV_LANES_OWN 4 /* of a rank that writes by itself */
#define VV_SHARED_BLOCKS                                                                                               \
    (UINT64_C(1)                                                                                                       \
     << 63) /* the number, for lanes and for the chooser, of blocks that small regions share: this and their type */
#define VV_NOBODY UINT32_MAX

/* What may come into one block. */
struct vv_lane {
    uint64_t key;
    uint32_t owner; /* of one rank only; VV_NOBODY: of any */
    uint8_t type;
    uint8_t is_shared;
    double grid;
};

struct vv_block_buffer {
    struct vv_blocks *blocks;
    struct vv_block_buffer *next; /* in the list of free ones */
    uint8_t *raw;                 /* made when it is first used, */
    uint8_t *ordered;             /* and when something is first put into order */
    uint32_t size;
    struct vv_lane lane;
    struct vv_content content;
    uint64_t region; /* all of it is of this region of one rank; UINT64_MAX: of several, or nobody knows */
    uint64_t key;    /* the variable; VV_SHARED_BLOCKS and type: of several */
    uint32_t is_large;
    struct vv_extent *extents; /* one rank's data: as it came, joined. Several ranks': after it was put into order */
    uint32_t extent_count;
    struct vv_hash128 *ids;
    uint32_t id_count;
    int is_fine; /* some of it are parts of granules: then none of it has ids */
    /* several ranks' data: its chunks, and the variable of each */
    struct vv_order_piece *chunks;
    uint64_t *keys;
    uint32_t chunk_count;
};

struct vv_blocks {
    struct vv_blocks_options options;
    uint32_t granules;              /* the most chunks, and so extents and ids, in one block */
    struct vv_block_buffer **lanes; /* open blocks, those in use first */
    unsigned lane_count, lane_capacity;
    const struct vv_variable *from; /* of the data that comes now */
    struct vv_lane from_lane;
    pthread_mutex_t mutex; /* the lists, the pack, the sums and the known orders */
    pthread_cond_t freed;
    struct vv_block_buffer *free;
    struct vv_block_buffer *all;
    unsigned count;
    unsigned submitted; /* to the pool, and not done */
    struct vv_coders coders;
    uint64_t large_ids;                       /* of large regions, in the tables */
    uint64_t bytes_turns, bytes_concatenated; /* of blocks with several ranks */
    struct varve_error error;                 /* of the first block that failed */
};

/* Do several ranks' data meet here? */
static inline int vv_blocks_are_grouped(const struct vv_blocks *blocks) {
    return blocks->options.ranks > 1;
}

/* Does the setting leave it to samples how ranks lie in a block? */
static inline int vv_blocks_are_sampled(const struct vv_blocks *blocks) {
    return blocks->options.grouping == 0 && blocks->options.orders;
}
static inline struct vv_known_order *vv_known_order(const struct vv_blocks *blocks, uint64_t key) {
    return &blocks->options.orders[key % VV_KNOWN_ORDERS];
}

/* block_write.c: what comes next in the block; it continues the extent before it, if that has whole granules or
 * is_joined_anywhere. */
void vv_block_extent(struct vv_block_buffer *buffer, uint32_t owner, uint64_t address, uint32_t size,
                     int is_joined_anywhere);
/* A job of the pool; arg is a struct vv_block_buffer. */
int vv_block_write(void *arg);

#endif
