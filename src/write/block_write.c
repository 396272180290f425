/* A full block, in a thread of the pool: put into order, encoded, appended to the pack. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/settings.h"
#include "format/values.h"
#include "write/blocks_private.h"

#define LARGE_IDS (4u << 20) /* of regions that may be larger than memory: no more are kept for the tables, 64 MiB */
#define LOOK_AGAIN 64u       /* blocks of a variable after which its order is sampled again */

/* ---- order ---- */

/* Chunks of small variables that share a block: the same variable of all ranks together. */
struct keyed {
    uint64_t key;
    struct vv_order_piece piece;
};

static int compare_keyed(const void *a, const void *b) {
    const struct keyed *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->piece.owner != y->piece.owner)
        return x->piece.owner < y->piece.owner ? -1 : 1;
    return x->piece.address < y->piece.address ? -1 : x->piece.address > y->piece.address;
}

static size_t order_by_key(const struct vv_block_buffer *buffer, struct vv_order_piece *out) {
    struct keyed *list = vv_malloc(buffer->chunk_count * sizeof *list);
    if (!list)
        return 0;
    for (uint32_t i = 0; i < buffer->chunk_count; i++)
        list[i] = (struct keyed){buffer->keys[i], buffer->chunks[i]};
    qsort(list, buffer->chunk_count, sizeof *list, compare_keyed);
    for (uint32_t i = 0; i < buffer->chunk_count; i++)
        out[i] = list[i].piece;
    vv_free(list);
    return buffer->chunk_count;
}

static int has_many_keys(const struct vv_block_buffer *buffer) {
    return buffer->lane.key >= VV_SHARED_BLOCKS && (buffer->blocks->options.grouping == VV_CHOOSE_GROUPING_AUTO ||
                                                    buffer->blocks->options.grouping >= VV_CHOOSE_GROUPING_AWARE);
}

/* The pieces in their new order, to be freed; NULL: without memory for it. */
static struct vv_order_piece *make_order(const struct vv_block_buffer *buffer, uint32_t turn, size_t *count_out) {
    int is_by_key = has_many_keys(buffer);
    size_t capacity = is_by_key ? buffer->chunk_count : vv_order_capacity(buffer->chunks, buffer->chunk_count, turn);
    struct vv_order_piece *pieces = vv_malloc(capacity * sizeof *pieces);
    *count_out = !pieces     ? 0
                 : is_by_key ? order_by_key(buffer, pieces)
                             : vv_order_make(buffer->chunks, buffer->chunk_count, turn, pieces);
    if (*count_out > 0 && *count_out <= buffer->blocks->granules)
        return pieces;
    vv_free(pieces);
    return NULL;
}

static int put_bytes(struct vv_block_buffer *buffer, const struct vv_order_piece *pieces, size_t count) {
    if (!buffer->ordered)
        buffer->ordered = vv_aligned(buffer->blocks->options.block_size, 4096);
    if (!buffer->ordered)
        return -ENOMEM;
    uint32_t at = 0;
    for (size_t i = 0; i < count; i++) {
        memcpy(buffer->ordered + at, buffer->raw + pieces[i].at, pieces[i].size);
        at += pieces[i].size;
    }
    return 0;
}

void vv_block_extent(struct vv_block_buffer *buffer, uint32_t owner, uint64_t address, uint32_t size,
                     int is_joined_anywhere) {
    struct vv_extent *last = buffer->extent_count ? &buffer->extents[buffer->extent_count - 1] : NULL;
    if (last && last->owner == owner && last->address + last->length == address &&
        (is_joined_anywhere || last->length % VV_GRANULE == 0))
        last->length += size;
    else
        buffer->extents[buffer->extent_count++] = (struct vv_extent){owner, address, size};
}

/* The block becomes what the pieces say. Without memory to move ids, and where chunks were taken apart, it has none. */
static void take_order(struct vv_block_buffer *buffer, const struct vv_order_piece *pieces, size_t count) {
    int is_whole = vv_order_is_whole(buffer->chunk_count, count) && !buffer->is_fine;
    struct vv_hash128 *ids = is_whole ? vv_malloc(buffer->blocks->granules * sizeof *ids) : NULL;
    for (size_t i = 0; i < count; i++) {
        vv_block_extent(buffer, pieces[i].owner, pieces[i].address, pieces[i].size, !is_whole);
        if (ids)
            ids[i] = buffer->ids[pieces[i].chunk];
    }
    if (ids) {
        vv_free(buffer->ids);
        buffer->ids = ids;
    } else
        buffer->id_count = 0;
}

/* As it came: where there is no memory for anything better. */
static void keep_order(struct vv_block_buffer *buffer) {
    for (uint32_t i = 0; i < buffer->chunk_count; i++) {
        const struct vv_order_piece *piece = &buffer->chunks[i];
        vv_block_extent(buffer, piece->owner, piece->address, piece->size, buffer->is_fine);
    }
}

static void swap_raw(struct vv_block_buffer *buffer) {
    uint8_t *raw = buffer->raw;
    buffer->raw = buffer->ordered;
    buffer->ordered = raw;
}

static void put_in_order(struct vv_block_buffer *buffer, uint32_t turn) {
    size_t count;
    struct vv_order_piece *pieces = make_order(buffer, turn, &count);
    if (pieces && put_bytes(buffer, pieces, count) == 0) {
        take_order(buffer, pieces, count);
        swap_raw(buffer);
    } else
        keep_order(buffer);
    vv_free(pieces);
}

/* ---- encoding ---- */

/* What the chooser knows it by. */
static uint64_t variable_of(const struct vv_block_buffer *buffer) {
    if (vv_blocks_are_grouped(buffer->blocks))
        return buffer->key;
    return buffer->region != UINT64_MAX ? buffer->region : VV_SHARED_BLOCKS | buffer->content.type;
}

/* The bytes it takes, 0 if it does not get smaller; into the coder's own room: who waits to be encoded needs none. */
static int64_t encode_bytes(struct vv_block_buffer *buffer, struct vv_coder *coder, const uint8_t *data,
                            struct vv_coding *coding) {
    const struct vv_blocks_options *options = &buffer->blocks->options;
    uint8_t *encoded = coding->codec == VV_CODEC_NONE ? NULL : vv_coder_out(coder, options->block_size);
    if (!encoded)
        return 0;
    int64_t got = vv_coder_encode(coder, coding, &buffer->content, data, buffer->size, encoded, options->level);
    if (got == 0 && coding->codec >= VV_CODEC_FPZIP && coding->codec <= VV_CODEC_ZFP_GRID) {
        /* One value that is no number is enough for that. */
        vv_coding_fit(VV_CODING_SHUFFLE_ZSTD, &buffer->content, 0, coding);
        got = vv_coder_encode(coder, coding, &buffer->content, data, buffer->size, encoded, options->level);
    }
    return got;
}

/* Encode if that makes it smaller; what is stored and its size. Without memory to make it smaller it is stored as it
 * is. */
static const void *encode(struct vv_block_buffer *buffer, struct vv_coder *coder, struct vv_block *block) {
    struct vv_chooser *chooser = buffer->blocks->options.chooser;
    uint64_t variable = variable_of(buffer);
    struct vv_coding coding = {0};
    vv_chooser_pick(chooser, coder, variable, &buffer->content, buffer->raw, buffer->size, &coding);
    uint64_t begun = vv_clock_thread_ns(); /* that others were given the processor says nothing about a coding */
    int64_t got = encode_bytes(buffer, coder, buffer->raw, &coding);
    int is_smaller = got > 0 && got < buffer->size;
    size_t stored = is_smaller ? (size_t)got : buffer->size;
    vv_chooser_encoded(chooser, variable, &coding, buffer->size, stored, (double)(vv_clock_thread_ns() - begun) * 1e-9);
    if (!is_smaller)
        return buffer->raw;
    block->codec = coding.codec;
    memcpy(block->filter, coding.filter, sizeof block->filter);
    block->element = coding.element;
    block->stored = (uint32_t)stored;
    return vv_coder_out(coder, block->stored);
}

/* ---- which order: by sample ---- */

/* What the block would take in this order. */
static uint64_t try_order(struct vv_block_buffer *buffer, struct vv_coder *coder, uint32_t turn) {
    size_t count;
    struct vv_order_piece *pieces = make_order(buffer, turn, &count);
    struct vv_coding coding = {0};
    int64_t got = 0;
    if (pieces && put_bytes(buffer, pieces, count) == 0) {
        vv_chooser_pick(buffer->blocks->options.chooser, coder, variable_of(buffer), &buffer->content, buffer->ordered,
                        buffer->size, &coding);
        got = encode_bytes(buffer, coder, buffer->ordered, &coding);
    }
    vv_free(pieces);
    return got > 0 && got < buffer->size ? (uint64_t)got : buffer->size;
}

/* With the lock: what is known about the variable; or it is this block that shall tell. Only one with several ranks
 * can. */
static int is_sample(struct vv_block_buffer *buffer, uint32_t *turn_out) {
    struct vv_known_order *order = vv_known_order(buffer->blocks, buffer->key);
    int is_known = order->key == buffer->key && order->blocks > 0;
    *turn_out = is_known ? order->turn : 0;
    if (buffer->chunks[0].owner == buffer->chunks[buffer->chunk_count - 1].owner ||
        (is_known && order->blocks++ < LOOK_AGAIN))
        return 0;
    *order = (struct vv_known_order){buffer->key, *turn_out, 1};
    return 1;
}

static uint32_t sampled_turn(struct vv_block_buffer *buffer, struct vv_coder *coder) {
    struct vv_blocks *blocks = buffer->blocks;
    uint32_t turn = 0;
    if (!vv_blocks_are_sampled(blocks) || has_many_keys(buffer))
        return 0;
    pthread_mutex_lock(&blocks->mutex);
    int is_due = is_sample(buffer, &turn);
    pthread_mutex_unlock(&blocks->mutex);
    if (!is_due || !coder)
        return turn;
    uint64_t in_turns = try_order(buffer, coder, blocks->options.turn), together = try_order(buffer, coder, 0);
    turn = in_turns * 50 < together * 49 ? blocks->options.turn : 0; /* turns take more to describe */
    pthread_mutex_lock(&blocks->mutex);
    if (vv_known_order(blocks, buffer->key)->key == buffer->key)
        vv_known_order(blocks, buffer->key)->turn = turn;
    pthread_mutex_unlock(&blocks->mutex);
    return turn;
}

static uint32_t turn_of(struct vv_block_buffer *buffer, struct vv_coder *coder) {
    switch (buffer->blocks->options.grouping) {
    case VV_CHOOSE_GROUPING_AGNOSTIC_BLOCK:
    case VV_CHOOSE_GROUPING_AWARE_BLOCK:
        return buffer->blocks->options.turn;
    case VV_CHOOSE_GROUPING_AUTO:
        return sampled_turn(buffer, coder);
    default:
        return 0;
    }
}

static void order_block(struct vv_block_buffer *buffer, const struct vv_lent_coder *lent) {
    struct vv_blocks *blocks = buffer->blocks;
    uint32_t turn = turn_of(buffer, lent ? lent->coder : NULL);
    put_in_order(buffer, turn);
    pthread_mutex_lock(&blocks->mutex);
    *(turn ? &blocks->bytes_turns : &blocks->bytes_concatenated) += buffer->size;
    pthread_mutex_unlock(&blocks->mutex);
}

void vv_blocks_grouping(const struct vv_blocks *blocks, char out[32]) {
    static const char *const names[] = {"aware", "agnostic", "agnostic-block", "aware", "aware-block"};
    int grouping = blocks->options.grouping;
    out[0] = 0;
    if (!vv_blocks_are_grouped(blocks))
        return;
    if (grouping == VV_CHOOSE_GROUPING_AUTO && blocks->bytes_turns > blocks->bytes_concatenated)
        grouping = VV_CHOOSE_GROUPING_AWARE_BLOCK;
    int is_turns = grouping == VV_CHOOSE_GROUPING_AGNOSTIC_BLOCK || grouping == VV_CHOOSE_GROUPING_AWARE_BLOCK;
    if (is_turns)
        snprintf(out, 32, "%s %uK", names[grouping], blocks->options.turn >> 10);
    else
        snprintf(out, 32, "%s", names[grouping]);
}

/* ---- writing ---- */

static void give_back(struct vv_block_buffer *buffer) {
    struct vv_blocks *blocks = buffer->blocks;
    buffer->size = buffer->extent_count = buffer->id_count = buffer->chunk_count = 0;
    buffer->is_fine = 0;
    if (vv_blocks_are_grouped(blocks)) { /* there are many: only those at work have all they need */
        vv_free(buffer->ordered);
        buffer->ordered = NULL;
    }
    buffer->next = blocks->free;
    blocks->free = buffer;
    blocks->submitted--;
    pthread_cond_signal(&blocks->freed);
}

/* What is stored is the block itself, or the coder's. */
static const void *prepare(struct vv_block_buffer *buffer, struct vv_lent_coder *lent, struct vv_block *block) {
    struct vv_blocks *blocks = buffer->blocks;
    if (vv_blocks_are_grouped(blocks))
        order_block(buffer, lent);
    if (buffer->is_fine)
        buffer->id_count = 0;
    *block = (struct vv_block){.flags = (buffer->id_count ? VV_BLOCK_IDS : 0) |
                                        (buffer->lane.is_shared ? VV_BLOCK_SHARED : 0),
                               .owner = buffer->extents[0].owner,
                               .raw = buffer->size,
                               .stored = buffer->size};
    if (buffer->region != UINT64_MAX && buffer->content.type != VARVE_BYTES)
        vv_values_range(buffer->content.type, buffer->raw, buffer->size, &block->range);
    return lent ? encode(buffer, lent->coder, block) : buffer->raw;
}

int vv_block_write(void *arg) {
    struct vv_block_buffer *buffer = arg;
    struct vv_blocks *blocks = buffer->blocks;
    struct varve_error error = {0};
    struct vv_block block;
    struct vv_lent_coder *lent = vv_coders_borrow(&blocks->coders);
    const void *stored = prepare(buffer, lent, &block);
    pthread_mutex_lock(&blocks->mutex);
    if (buffer->is_large && (blocks->large_ids += buffer->id_count) > LARGE_IDS)
        block.flags = 0; /* a later session finds less of it again */
    uint64_t begun = vv_clock_ns();
    int rc = vv_pack_block(blocks->options.pack, &block, stored, buffer->extents, buffer->extent_count, buffer->ids,
                           buffer->id_count, &error);
    uint64_t took = vv_clock_ns() - begun;
    vv_chooser_wrote(blocks->options.chooser, block.stored, (double)took * 1e-9);
    if (rc && blocks->error.code == 0)
        blocks->error = error.code ? error : (struct varve_error){.code = rc, .rank = -1};
    give_back(buffer);
    pthread_mutex_unlock(&blocks->mutex);
    vv_coders_return(&blocks->coders, lent);
    return rc;
}
