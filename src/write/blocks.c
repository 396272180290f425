/* Gathering: which chunks come into one block. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/settings.h"
#include "write/blocks_private.h"

#define LANE_LEAST (256u << 10) /* bytes of all ranks that make a variable worth a lane of its own */
#define LANES_MORE 12           /* of a writer of several ranks: one for each of them, and these */

static int make_buffers(struct vv_blocks *blocks) {
    blocks->all = vv_calloc(blocks->count, sizeof *blocks->all);
    blocks->lanes = vv_calloc(blocks->lane_capacity, sizeof(struct vv_block_buffer *));
    if (!blocks->all || !blocks->lanes)
        return -ENOMEM;
    for (unsigned i = 0; i < blocks->count; i++) {
        blocks->all[i].blocks = blocks;
        blocks->all[i].next = blocks->free;
        blocks->free = &blocks->all[i];
    }
    return 0;
}

int vv_blocks_create(const struct vv_blocks_options *options, struct vv_blocks **out) {
    struct vv_blocks *blocks = vv_calloc(1, sizeof *blocks);
    if (!blocks)
        return -ENOMEM;
    blocks->options = *options;
    blocks->lane_capacity = options->ranks > 1 ? options->ranks + LANES_MORE : VV_LANES_OWN;
    blocks->count = options->blocks + blocks->lane_capacity - 1; /* open ones never keep the pool waiting */
    /* Short chunks at region ends must not fill the tables before the bytes: allow for blocks of many small regions,
     * and for less where many blocks are open. */
    blocks->granules = options->block_size / (vv_blocks_are_grouped(blocks) ? 256 : 64);
    pthread_mutex_init(&blocks->mutex, NULL);
    pthread_cond_init(&blocks->freed, NULL);
    vv_coders_init(&blocks->coders);
    if (make_buffers(blocks) != 0) {
        vv_blocks_destroy(blocks);
        return -ENOMEM;
    }
    *out = blocks;
    return 0;
}

void vv_blocks_destroy(struct vv_blocks *blocks) {
    if (!blocks)
        return;
    vv_pool_wait(blocks->options.pool);
    for (unsigned i = 0; blocks->all && i < blocks->count; i++) {
        struct vv_block_buffer *buffer = &blocks->all[i];
        vv_free(buffer->raw);
        vv_free(buffer->ordered);
        vv_free(buffer->extents);
        vv_free(buffer->ids);
        vv_free(buffer->chunks);
        vv_free(buffer->keys);
    }
    vv_coders_clear(&blocks->coders);
    vv_free(blocks->lanes);
    vv_free(blocks->all);
    pthread_mutex_destroy(&blocks->mutex);
    pthread_cond_destroy(&blocks->freed);
    vv_free(blocks);
}

/* ---- lanes ---- */

static struct vv_lane shared_lane(const struct vv_variable *variable) {
    return (struct vv_lane){.key = VV_SHARED_BLOCKS | variable->content.type,
                            .owner = VV_NOBODY,
                            .type = variable->content.type,
                            .grid = variable->content.grid};
}

/* A rank by itself: large regions have lanes of their own. */
static struct vv_lane own_lane(const struct vv_blocks *blocks, const struct vv_variable *variable) {
    struct vv_lane lane = shared_lane(variable);
    if (variable->length >= blocks->options.block_size)
        lane.key = variable->region;
    return lane;
}

/* Do ranks take turns in the blocks of this variable? Blocks of several ranks tell, which large regions do not fill:
 * those stay by themselves. */
static int takes_turns(struct vv_blocks *blocks, uint64_t key) {
    if (!vv_blocks_are_sampled(blocks))
        return blocks->options.grouping == VV_CHOOSE_GROUPING_AWARE_BLOCK;
    pthread_mutex_lock(&blocks->mutex);
    const struct vv_known_order *order = vv_known_order(blocks, key);
    int is_turn = order->key == key && order->blocks > 0 && order->turn > 0;
    pthread_mutex_unlock(&blocks->mutex);
    return is_turn;
}

/* Variables of some size, all ranks together, have lanes of their own; where ranks do not take turns, a large region
 * has its own, too. */
static struct vv_lane aware_lane(struct vv_blocks *blocks, const struct vv_variable *variable) {
    struct vv_lane lane = shared_lane(variable);
    if (variable->length < LANE_LEAST / blocks->options.ranks)
        return lane;
    lane.key = variable->key & ~VV_SHARED_BLOCKS;
    if (variable->length >= blocks->options.block_size && !takes_turns(blocks, variable->key))
        lane.owner = variable->owner;
    return lane;
}

static struct vv_lane lane_of(struct vv_blocks *blocks, const struct vv_variable *variable) {
    if (!vv_blocks_are_grouped(blocks))
        return own_lane(blocks, variable);
    switch (blocks->options.grouping) {
    case VV_CHOOSE_GROUPING_AGNOSTIC:
        return (struct vv_lane){.key = VV_SHARED_BLOCKS, .owner = variable->owner};
    case VV_CHOOSE_GROUPING_AGNOSTIC_BLOCK:
        return (struct vv_lane){.key = VV_SHARED_BLOCKS, .owner = VV_NOBODY};
    default:
        return aware_lane(blocks, variable);
    }
}

static int is_alike(const struct vv_lane *a, const struct vv_lane *b) {
    return a->type == b->type && a->is_shared == b->is_shared && a->grid == b->grid;
}

static int is_same_lane(const struct vv_lane *a, const struct vv_lane *b) {
    return a->key == b->key && a->owner == b->owner && is_alike(a, b);
}

/* The open block for what comes now; lane_room if there is none. */
static unsigned find_lane(const struct vv_blocks *blocks) {
    for (unsigned i = 0; i < blocks->lane_count; i++)
        if (is_same_lane(&blocks->lanes[i]->lane, &blocks->from_lane))
            return i;
    return blocks->lane_capacity;
}

void vv_blocks_variable(struct vv_blocks *blocks, const struct vv_variable *variable) {
    blocks->from = variable;
    blocks->from_lane = lane_of(blocks, variable);
}

static int submit(struct vv_blocks *blocks, unsigned lane) {
    struct vv_block_buffer *buffer = blocks->lanes[lane];
    blocks->lanes[lane] = blocks->lanes[--blocks->lane_count];
    pthread_mutex_lock(&blocks->mutex);
    blocks->submitted++;
    pthread_mutex_unlock(&blocks->mutex);
    return vv_pool_submit(blocks->options.pool, vv_block_write, buffer);
}

static unsigned fullest_lane(const struct vv_blocks *blocks) {
    unsigned fullest = 0;
    for (unsigned i = 1; i < blocks->lane_count; i++)
        if (blocks->lanes[i]->size > blocks->lanes[fullest]->size)
            fullest = i;
    return fullest;
}

static int is_full(const struct vv_block_buffer *buffer, uint32_t more) {
    const struct vv_blocks *blocks = buffer->blocks;
    return buffer->size + more > blocks->options.block_size || buffer->id_count == blocks->granules;
}

/* All lanes are taken. One that is well filled goes; chunks that come from many regions in turn share a block instead,
 * or there would be many small ones. The lane to share, or lane_room. */
static int make_way(struct vv_blocks *blocks, unsigned *lane_out) {
    unsigned fullest = fullest_lane(blocks);
    uint32_t well = blocks->options.block_size / 4;
    for (unsigned i = 0; i < blocks->lane_count && blocks->lanes[fullest]->size < well; i++)
        if (is_alike(&blocks->lanes[i]->lane, &blocks->from_lane) && !is_full(blocks->lanes[i], 4096)) {
            *lane_out = i;
            return 0;
        }
    return submit(blocks, fullest);
}

/* ---- blocks ---- */

static int make_buffer(struct vv_block_buffer *buffer) {
    const struct vv_blocks *blocks = buffer->blocks;
    if (!buffer->raw)
        buffer->raw = vv_aligned(blocks->options.block_size, 4096);
    if (!buffer->extents)
        buffer->extents = vv_malloc(blocks->granules * sizeof *buffer->extents);
    if (!buffer->ids)
        buffer->ids = vv_malloc(blocks->granules * sizeof *buffer->ids);
    if (!buffer->raw || !buffer->extents || !buffer->ids)
        return -ENOMEM;
    if (!vv_blocks_are_grouped(blocks))
        return 0;
    if (!buffer->chunks)
        buffer->chunks = vv_malloc(blocks->granules * sizeof *buffer->chunks);
    if (!buffer->keys)
        buffer->keys = vv_malloc(blocks->granules * sizeof *buffer->keys);
    return buffer->chunks && buffer->keys ? 0 : -ENOMEM;
}

/* Open a block for what comes now, or one to share. */
static int open_lane(struct vv_blocks *blocks, unsigned *lane_out) {
    *lane_out = blocks->lane_capacity;
    int rc = blocks->lane_count == blocks->lane_capacity ? make_way(blocks, lane_out) : 0;
    if (rc || *lane_out < blocks->lane_capacity)
        return rc;
    pthread_mutex_lock(&blocks->mutex);
    /* After an error the pool drops jobs unrun and their buffers do not come back: do not wait for them. */
    while ((!blocks->free || blocks->submitted >= blocks->options.blocks) && blocks->error.code == 0)
        pthread_cond_wait(&blocks->freed, &blocks->mutex);
    struct vv_block_buffer *buffer = blocks->free;
    rc = blocks->error.code ? blocks->error.code : make_buffer(buffer);
    if (rc == 0)
        blocks->free = buffer->next;
    pthread_mutex_unlock(&blocks->mutex);
    if (rc)
        return rc;
    const struct vv_variable *from = blocks->from;
    buffer->lane = blocks->from_lane;
    buffer->content = from->content;
    buffer->region = from->region;
    buffer->key = from->key;
    buffer->is_large = from->is_large;
    *lane_out = blocks->lane_count;
    blocks->lanes[blocks->lane_count++] = buffer;
    return 0;
}

/* What is known of all that is in the block, with what comes now. */
static void note_content(struct vv_block_buffer *buffer, uint32_t owner) {
    const struct vv_variable *from = buffer->blocks->from;
    int is_other_rank = (buffer->chunk_count > 0 && buffer->chunks[0].owner != owner) ||
                        (buffer->extent_count > 0 && buffer->extents[0].owner != owner);
    if (buffer->region != from->region || is_other_rank)
        buffer->region = UINT64_MAX;
    if (buffer->key != from->key) {
        buffer->key = VV_SHARED_BLOCKS | from->content.type;
        buffer->content.row = 0;
    }
    if (buffer->content.row != from->content.row)
        buffer->content.row = 0;
    if (buffer->content.type != from->content.type || buffer->content.grid != from->content.grid)
        buffer->content = (struct vv_content){.type = 0};
    buffer->is_large &= from->is_large;
}

static void note_chunk(struct vv_block_buffer *buffer, const struct vv_new_chunk *chunk) {
    uint32_t number = buffer->chunk_count++;
    buffer->chunks[number] = (struct vv_order_piece){
        .owner = chunk->owner, .at = buffer->size, .size = chunk->size, .chunk = number, .address = chunk->address};
    buffer->keys[number] = buffer->blocks->from->key;
}

int vv_blocks_add(struct vv_blocks *blocks, const struct vv_new_chunk *chunk, const void *data) {
    blocks->from_lane.is_shared = chunk->is_shared != 0;
    unsigned lane = find_lane(blocks);
    int rc = 0;
    if (lane < blocks->lane_capacity && is_full(blocks->lanes[lane], chunk->size)) {
        rc = submit(blocks, lane);
        lane = blocks->lane_capacity;
    }
    if (rc == 0 && lane == blocks->lane_capacity)
        rc = open_lane(blocks, &lane);
    if (rc)
        return rc;
    struct vv_block_buffer *buffer = blocks->lanes[lane];
    note_content(buffer, chunk->owner);
    buffer->is_fine |= vv_hash128_is_zero(chunk->id);
    memcpy(buffer->raw + buffer->size, data, chunk->size);
    if (vv_blocks_are_grouped(blocks))
        note_chunk(buffer, chunk);
    else
        vv_block_extent(buffer, chunk->owner, chunk->address, chunk->size, buffer->is_fine);
    buffer->ids[buffer->id_count++] = chunk->id;
    buffer->size += chunk->size;
    return 0;
}

int vv_blocks_finish(struct vv_blocks *blocks, struct varve_error *error) {
    int rc = 0;
    while (blocks->lane_count > 0 && rc == 0)
        rc = submit(blocks, blocks->lane_count - 1);
    int waited = vv_pool_wait(blocks->options.pool);
    vv_memory_note(); /* copies, blocks, coders and the storage's buffers: most of all is here now */
    if (rc == 0)
        rc = waited;
    if (rc && error)
        *error = blocks->error.code ? blocks->error : (struct varve_error){.code = rc, .rank = -1};
    return rc;
}
