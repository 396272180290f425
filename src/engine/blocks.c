/* New chunks become blocks: gathered by the scanning thread, encoded and appended to the pack by the pool.
 *
 * Large regions fill blocks of their own; small ones share blocks with others that hold the same type, so that what lies
 * together is alike. A few blocks are open at a time, each for one large region or one type: its lane. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "encode/coders.h"
#include "encode/grid.h"
#include "engine/engine_private.h"
#include "format/values.h"

#define LANES 4
#define LARGE_IDS (4u << 20) /* of regions that may be larger than memory: no more are kept for the tables, 64 MiB */
#define SHARED_BLOCKS (UINT64_C(1) << 63) /* the chooser's number for blocks that regions share: this and their type */

/* Whose data follows, or is in a block. */
struct source {
    uint64_t region; /* its number; UINT64_MAX: of several, or nobody knows */
    int is_big;      /* it can fill blocks of its own */
    int is_large;    /* nothing may be kept in memory for each of its chunks */
    struct vv_content content;
};

struct block_buffer {
    struct vv_blocks *owner;
    struct block_buffer *next; /* in the list of free ones */
    uint8_t *raw;              /* made when it is first used, */
    uint8_t *encoded;          /* and when something first gets smaller */
    uint32_t size;
    struct source from;
    struct vv_extent *extents;
    uint32_t extent_count;
    struct vv_hash128 *ids;
    uint32_t id_count;
};

struct vv_blocks {
    struct vv_session *session;
    struct vv_pack_writer *pack;
    uint32_t room;     /* bytes of a block */
    uint32_t granules; /* the most chunks, and so extents and ids, in one */
    struct block_buffer *lanes[LANES]; /* open blocks, those in use first */
    unsigned lane_count;
    struct source from;    /* of the data that comes now */
    pthread_mutex_t mutex; /* the lists, the pack and the sums */
    pthread_cond_t freed;
    struct block_buffer *free;
    struct block_buffer *all;
    unsigned count;
    struct vv_coders coders;
    uint64_t large_ids;  /* of large regions, in the tables */
    struct varve_error error; /* of the first block that failed */
};

int vv_blocks_create(struct vv_session *session, struct vv_pack_writer *pack, const struct vv_room *room,
                     struct vv_blocks **out) {
    struct vv_blocks *blocks = vv_calloc(1, sizeof *blocks);
    if (!blocks)
        return -ENOMEM;
    blocks->session = session;
    blocks->pack = pack;
    blocks->room = room->block_size;
    blocks->count = room->blocks + LANES - 1; /* open ones never keep the pool waiting */
    /* Short chunks at region ends must not fill the tables before the bytes: allow for blocks of many small regions. */
    blocks->granules = blocks->room / 64;
    pthread_mutex_init(&blocks->mutex, NULL);
    pthread_cond_init(&blocks->freed, NULL);
    vv_coders_init(&blocks->coders);
    blocks->all = vv_calloc(blocks->count, sizeof *blocks->all);
    if (!blocks->all) {
        vv_blocks_destroy(blocks);
        return -ENOMEM;
    }
    for (unsigned i = 0; i < blocks->count; i++) {
        blocks->all[i].owner = blocks;
        blocks->all[i].next = blocks->free;
        blocks->free = &blocks->all[i];
    }
    vv_blocks_region(blocks, NULL);
    *out = blocks;
    return 0;
}

void vv_blocks_destroy(struct vv_blocks *blocks) {
    if (!blocks)
        return;
    vv_pool_wait(blocks->session->pool);
    for (unsigned i = 0; blocks->all && i < blocks->count; i++) {
        vv_free(blocks->all[i].raw);
        vv_free(blocks->all[i].encoded);
        vv_free(blocks->all[i].extents);
        vv_free(blocks->all[i].ids);
    }
    vv_coders_clear(&blocks->coders);
    vv_free(blocks->all);
    pthread_mutex_destroy(&blocks->mutex);
    pthread_cond_destroy(&blocks->freed);
    vv_free(blocks);
}

/* ---- encoding and writing, on the pool ---- */

/* Encode if that makes it smaller; what is stored and its size. Without memory to make it smaller it is stored as it is. */
static const void *encode(struct block_buffer *buffer, struct vv_coder *coder, struct vv_block *block) {
    struct vv_session *session = buffer->owner->session;
    const struct source *from = &buffer->from;
    uint64_t variable = from->region != UINT64_MAX ? from->region : SHARED_BLOCKS | from->content.type;
    struct vv_coding coding = {0};
    int64_t got = 0;
    vv_chooser_pick(session->chooser, coder, variable, &from->content, buffer->raw, buffer->size, &coding);
    uint64_t begun = vv_clock_thread_ns(); /* that others were given the processor says nothing about a coding */
    if (coding.codec != VV_CODEC_NONE && !buffer->encoded)
        buffer->encoded = vv_malloc(buffer->owner->room);
    if (coding.codec != VV_CODEC_NONE && buffer->encoded)
        got = vv_coder_encode(coder, &coding, &from->content, buffer->raw, buffer->size, buffer->encoded,
                              session->settings.zstd_level);
    if (got == 0 && coding.codec >= VV_CODEC_FPZIP && coding.codec <= VV_CODEC_ZFP_GRID && buffer->encoded) {
        /* One value that is no number is enough for that. */
        vv_coding_fit(VV_CODING_SHUFFLE_ZSTD, &from->content, 0, &coding);
        got = vv_coder_encode(coder, &coding, &from->content, buffer->raw, buffer->size, buffer->encoded,
                              session->settings.zstd_level);
    }
    int is_smaller = got > 0 && got < buffer->size;
    size_t stored = is_smaller ? (size_t)got : buffer->size;
    vv_chooser_encoded(session->chooser, variable, &coding, buffer->size, stored,
                       (double)(vv_clock_thread_ns() - begun) * 1e-9);
    if (!is_smaller)
        return buffer->raw;
    block->codec = coding.codec;
    memcpy(block->filter, coding.filter, sizeof block->filter);
    block->element = coding.element;
    block->stored = (uint32_t)stored;
    return buffer->encoded;
}

static const void *encode_with(struct block_buffer *buffer, const struct vv_lent_coder *lent, struct vv_block *block) {
    block->raw = block->stored = buffer->size;
    if (buffer->from.region != UINT64_MAX && buffer->from.content.type != VARVE_BYTES)
        vv_values_range(buffer->from.content.type, buffer->raw, buffer->size, &block->range);
    return lent ? encode(buffer, lent->coder, block) : buffer->raw;
}

static void give_back(struct block_buffer *buffer) {
    struct vv_blocks *blocks = buffer->owner;
    buffer->size = buffer->extent_count = buffer->id_count = 0;
    buffer->next = blocks->free;
    blocks->free = buffer;
    pthread_cond_signal(&blocks->freed);
}

static int write_block(void *arg) {
    struct block_buffer *buffer = arg;
    struct vv_blocks *blocks = buffer->owner;
    struct vv_block block = {.flags = VV_BLOCK_IDS, .owner = buffer->extents[0].owner};
    struct varve_error error = {0};
    struct vv_lent_coder *lent = vv_coders_borrow(&blocks->coders);
    const void *stored = encode_with(buffer, lent, &block);
    vv_coders_return(&blocks->coders, lent);
    pthread_mutex_lock(&blocks->mutex);
    if (buffer->from.is_large && (blocks->large_ids += buffer->id_count) > LARGE_IDS)
        block.flags = 0; /* a later session finds less of it again */
    uint64_t begun = vv_clock_ns();
    int rc = vv_pack_block(blocks->pack, &block, stored, buffer->extents, buffer->extent_count, buffer->ids,
                           buffer->id_count, &error);
    uint64_t took = vv_clock_ns() - begun;
    vv_chooser_wrote(blocks->session->chooser, block.stored, (double)took * 1e-9);
    if (rc && blocks->error.code == 0)
        blocks->error = error.code ? error : (struct varve_error){.code = rc, .rank = -1};
    give_back(buffer);
    pthread_mutex_unlock(&blocks->mutex);
    return rc;
}

/* ---- gathering ---- */

static int submit(struct vv_blocks *blocks, unsigned lane) {
    struct block_buffer *buffer = blocks->lanes[lane];
    blocks->lanes[lane] = blocks->lanes[--blocks->lane_count];
    return vv_pool_submit(blocks->session->pool, write_block, buffer);
}

static int is_alike(const struct vv_content *a, const struct vv_content *b) {
    return a->type == b->type && a->grid == b->grid;
}

/* Regions that fill blocks of their own have their own lane; small ones share that of their type. */
static int is_lane_of(const struct block_buffer *buffer, const struct source *from) {
    const struct source *in = &buffer->from;
    if (in->is_big != from->is_big || !is_alike(&in->content, &from->content))
        return 0;
    return !from->is_big || in->region == from->region;
}

/* The open block for what comes now; LANES if there is none. */
static unsigned find_lane(const struct vv_blocks *blocks) {
    for (unsigned i = 0; i < blocks->lane_count; i++)
        if (is_lane_of(blocks->lanes[i], &blocks->from))
            return i;
    return LANES;
}

void vv_blocks_region(struct vv_blocks *blocks, const struct vv_past *past) {
    const struct vv_array *array = past ? past->pending_array : NULL;
    uint64_t number = past ? past->number : UINT64_MAX;
    if (number == blocks->from.region && number != UINT64_MAX)
        return;
    blocks->from = (struct source){.region = number, .content = {.type = VARVE_BYTES}};
    if (past) {
        blocks->from.is_large = past->pending_nameless;
        blocks->from.is_big = past->pending_length >= blocks->room;
    }
    if (array) {
        uint64_t row = array->dims > 1 ? array->dim[array->dims - 1].local : 0;
        blocks->from.content.type = array->type;
        blocks->from.content.row = row < UINT32_MAX ? (uint32_t)row : 0;
        blocks->from.content.grid = array->bound > 0 ? vv_grid_of(array->bound) : 0;
    }
}

static int make_buffer(struct block_buffer *buffer) {
    const struct vv_blocks *blocks = buffer->owner;
    if (!buffer->raw)
        buffer->raw = vv_aligned(blocks->room, 4096);
    if (!buffer->extents)
        buffer->extents = vv_malloc(blocks->granules * sizeof *buffer->extents);
    if (!buffer->ids)
        buffer->ids = vv_malloc(blocks->granules * sizeof *buffer->ids);
    return buffer->raw && buffer->extents && buffer->ids ? 0 : -ENOMEM;
}

static unsigned fullest_lane(const struct vv_blocks *blocks) {
    unsigned fullest = 0;
    for (unsigned i = 1; i < blocks->lane_count; i++)
        if (blocks->lanes[i]->size > blocks->lanes[fullest]->size)
            fullest = i;
    return fullest;
}

/* All lanes are taken. One that is well filled goes; chunks that come from many regions in turn share a block instead, or
 * there would be many small ones. The lane to share, or LANES. */
static int make_way(struct vv_blocks *blocks, unsigned *lane_out) {
    unsigned fullest = fullest_lane(blocks);
    for (unsigned i = 0; i < LANES && blocks->lanes[fullest]->size < blocks->room / 4; i++)
        if (is_alike(&blocks->lanes[i]->from.content, &blocks->from.content) &&
            blocks->lanes[i]->id_count < blocks->granules) {
            *lane_out = i;
            return 0;
        }
    return submit(blocks, fullest);
}

/* Open a block for what comes now, or one to share. */
static int open_lane(struct vv_blocks *blocks, unsigned *lane_out) {
    *lane_out = LANES;
    int rc = blocks->lane_count == LANES ? make_way(blocks, lane_out) : 0;
    if (rc || *lane_out < LANES)
        return rc;
    pthread_mutex_lock(&blocks->mutex);
    /* After an error the pool drops jobs unrun and their buffers do not come back: do not wait for them. */
    while (!blocks->free && blocks->error.code == 0)
        pthread_cond_wait(&blocks->freed, &blocks->mutex);
    struct block_buffer *buffer = blocks->free;
    rc = blocks->error.code ? blocks->error.code : make_buffer(buffer);
    if (rc == 0)
        blocks->free = buffer->next;
    pthread_mutex_unlock(&blocks->mutex);
    if (rc)
        return rc;
    buffer->from = blocks->from;
    *lane_out = blocks->lane_count;
    blocks->lanes[blocks->lane_count++] = buffer;
    return 0;
}

static void note_extent(struct block_buffer *buffer, uint32_t owner, uint64_t address, uint32_t size) {
    struct vv_extent *last = buffer->extent_count ? &buffer->extents[buffer->extent_count - 1] : NULL;
    if (last && last->owner == owner && last->address + last->length == address && last->length % VV_GRANULE == 0)
        last->length += size;
    else
        buffer->extents[buffer->extent_count++] = (struct vv_extent){owner, address, size};
}

int vv_blocks_add(struct vv_blocks *blocks, uint32_t owner, uint64_t address, const void *data, uint32_t size,
                  struct vv_hash128 id) {
    unsigned lane = find_lane(blocks);
    int rc = 0;
    if (lane < LANES &&
        (blocks->lanes[lane]->size + size > blocks->room || blocks->lanes[lane]->id_count == blocks->granules)) {
        rc = submit(blocks, lane);
        lane = LANES;
    }
    if (rc == 0 && lane == LANES)
        rc = open_lane(blocks, &lane);
    if (rc)
        return rc;
    struct block_buffer *buffer = blocks->lanes[lane];
    if (buffer->from.region != blocks->from.region) {
        buffer->from.region = UINT64_MAX;
        buffer->from.is_large &= blocks->from.is_large;
        buffer->from.content.row = 0;
    }
    memcpy(buffer->raw + buffer->size, data, size);
    note_extent(buffer, owner, address, size);
    buffer->ids[buffer->id_count++] = id;
    buffer->size += size;
    return 0;
}

int vv_blocks_finish(struct vv_blocks *blocks, struct varve_error *error) {
    int rc = 0;
    while (blocks->lane_count > 0 && rc == 0)
        rc = submit(blocks, blocks->lane_count - 1);
    int waited = vv_pool_wait(blocks->session->pool);
    if (rc == 0)
        rc = waited;
    if (rc && error)
        *error = blocks->error.code ? blocks->error : (struct varve_error){.code = rc, .rank = -1};
    return rc;
}
