/* New chunks become blocks: gathered by the scanning thread, encoded and appended to the pack by the pool. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/engine_private.h"

#define SAMPLE (64u << 10)      /* bytes that decide a codec */
#define SAMPLE_AGAIN (64u << 20) /* of one region, after which it is decided anew */
#define FIRST_GUESS 1e9         /* storage speed before anything was measured, bytes per second */

struct block_buffer {
    struct vv_blocks *owner;
    struct block_buffer *next; /* in the list of free ones */
    uint8_t *raw;
    uint8_t *encoded; /* made when a codec first needs it */
    uint32_t size;
    const struct vv_codec_ops *codec;
    struct vv_extent *extents;
    uint32_t extent_count;
    struct vv_hash128 *ids;
    uint32_t id_count;
};

struct vv_blocks {
    struct vv_session *session;
    struct vv_pack_writer *pack;
    uint32_t room;    /* bytes of a block */
    uint32_t granules; /* the most chunks, and so extents and ids, in one */
    struct block_buffer *current;
    const struct vv_codec_ops *codec; /* of the region; NULL: to be chosen */
    uint64_t since_choice;
    uint64_t region; /* whose data came last */
    pthread_mutex_t mutex; /* the free list, the pack and the sums */
    pthread_cond_t freed;
    struct block_buffer *free;
    struct block_buffer *all;
    unsigned count;
    struct vv_blocks_sums sums;
    struct varve_error error; /* of the first block that failed */
};

static int init_buffer(struct vv_blocks *blocks, struct block_buffer *buffer) {
    buffer->owner = blocks;
    buffer->raw = vv_aligned(blocks->room, 4096);
    buffer->extents = vv_malloc(blocks->granules * sizeof *buffer->extents);
    buffer->ids = vv_malloc(blocks->granules * sizeof *buffer->ids);
    if (!buffer->raw || !buffer->extents || !buffer->ids)
        return -ENOMEM;
    buffer->next = blocks->free;
    blocks->free = buffer;
    return 0;
}

int vv_blocks_create(struct vv_session *session, struct vv_pack_writer *pack, const struct vv_room *room,
                     struct vv_blocks **out) {
    struct vv_blocks *blocks = vv_calloc(1, sizeof *blocks);
    if (!blocks)
        return -ENOMEM;
    blocks->session = session;
    blocks->pack = pack;
    blocks->room = room->block_size;
    blocks->count = room->blocks;
    blocks->region = UINT64_MAX;
    /* Short chunks at region ends must not fill the tables before the bytes: allow for blocks of many small regions. */
    blocks->granules = blocks->room / 64;
    pthread_mutex_init(&blocks->mutex, NULL);
    pthread_cond_init(&blocks->freed, NULL);
    blocks->all = vv_calloc(blocks->count, sizeof *blocks->all);
    int rc = blocks->all ? 0 : -ENOMEM;
    for (unsigned i = 0; i < blocks->count && rc == 0; i++)
        rc = init_buffer(blocks, &blocks->all[i]);
    if (rc) {
        vv_blocks_destroy(blocks);
        return rc;
    }
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
    vv_free(blocks->all);
    pthread_mutex_destroy(&blocks->mutex);
    pthread_cond_destroy(&blocks->freed);
    vv_free(blocks);
}

/* Encode if that makes it smaller; what is stored and its size. */
static const void *encode(struct block_buffer *buffer, struct vv_block *block) {
    block->codec = 0;
    block->raw = block->stored = buffer->size;
    if (buffer->codec->number == 0)
        return buffer->raw;
    if (!buffer->encoded)
        buffer->encoded = vv_malloc(buffer->owner->room);
    if (!buffer->encoded)
        return buffer->raw; /* no memory to make it smaller: store it as it is */
    int64_t got = buffer->codec->encode(buffer->raw, buffer->size, buffer->encoded,
                                        buffer->owner->session->settings.zstd_level);
    if (got <= 0 || got >= buffer->size)
        return buffer->raw;
    block->codec = buffer->codec->number;
    block->stored = (uint32_t)got;
    return buffer->encoded;
}

static int write_block(void *arg) {
    struct block_buffer *buffer = arg;
    struct vv_blocks *blocks = buffer->owner;
    struct vv_block block = {.flags = VV_BLOCK_IDS, .owner = buffer->extents[0].owner};
    struct varve_error error = {0};
    const void *stored = encode(buffer, &block);
    pthread_mutex_lock(&blocks->mutex);
    int rc = vv_pack_block(blocks->pack, &block, stored, buffer->extents, buffer->extent_count, buffer->ids,
                           buffer->id_count, &error);
    blocks->sums.codec_bytes[block.codec] += block.raw;
    if (rc && blocks->error.code == 0)
        blocks->error = error.code ? error : (struct varve_error){.code = rc, .rank = -1};
    buffer->size = buffer->extent_count = buffer->id_count = 0;
    buffer->next = blocks->free;
    blocks->free = buffer;
    pthread_cond_signal(&blocks->freed);
    pthread_mutex_unlock(&blocks->mutex);
    return rc;
}

static int submit(struct vv_blocks *blocks) {
    struct block_buffer *buffer = blocks->current;
    blocks->current = NULL;
    if (!buffer || buffer->size == 0)
        return 0;
    buffer->codec = blocks->codec ? blocks->codec : vv_codec_by_number(0);
    return vv_pool_submit(blocks->session->pool, write_block, buffer);
}

static int take_buffer(struct vv_blocks *blocks) {
    pthread_mutex_lock(&blocks->mutex);
    /* After an error the pool drops jobs unrun and their buffers do not come back: do not wait for them. */
    while (!blocks->free && blocks->error.code == 0)
        pthread_cond_wait(&blocks->freed, &blocks->mutex);
    int rc = blocks->error.code;
    if (rc == 0) {
        blocks->current = blocks->free;
        blocks->free = blocks->current->next;
    }
    pthread_mutex_unlock(&blocks->mutex);
    return rc;
}

static void choose_codec(struct vv_blocks *blocks) {
    struct vv_session *session = blocks->session;
    static const char *const names[] = {NULL, "none", "lz4", "zstd"};
    blocks->since_choice = 0;
    if (session->settings.codec != VV_CHOOSE_CODEC_AUTO) {
        blocks->codec = vv_codec_by_name(names[session->settings.codec]);
        return;
    }
    uint32_t size = blocks->current->size < SAMPLE ? blocks->current->size : SAMPLE;
    double speed = session->storage_speed > 0 ? session->storage_speed : FIRST_GUESS;
    blocks->codec = vv_codec_choose(blocks->current->raw + (blocks->current->size - size) / 2, size, speed,
                                    session->settings.zstd_level);
}

void vv_blocks_region(struct vv_blocks *blocks, uint64_t number) {
    if (number == blocks->region)
        return;
    blocks->region = number;
    /* Small regions share a block, and the choice made for it. */
    if (blocks->current && blocks->current->size > blocks->room / 4) {
        if (!blocks->codec)
            choose_codec(blocks);
        submit(blocks); /* an error is met again at the next add */
    }
    if (!blocks->current || blocks->current->size == 0)
        blocks->codec = NULL;
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
    struct block_buffer *buffer = blocks->current;
    if (buffer && (buffer->size + size > blocks->room || buffer->id_count == blocks->granules)) {
        if (!blocks->codec || blocks->since_choice > SAMPLE_AGAIN)
            choose_codec(blocks);
        int rc = submit(blocks);
        if (rc)
            return rc;
        buffer = NULL;
    }
    if (!buffer) {
        int rc = take_buffer(blocks);
        if (rc)
            return rc;
        buffer = blocks->current;
    }
    memcpy(buffer->raw + buffer->size, data, size);
    note_extent(buffer, owner, address, size);
    buffer->ids[buffer->id_count++] = id;
    buffer->size += size;
    blocks->since_choice += size;
    return 0;
}

int vv_blocks_finish(struct vv_blocks *blocks, struct vv_blocks_sums *sums_out, struct varve_error *error) {
    if (blocks->current && blocks->current->size > 0 && !blocks->codec)
        choose_codec(blocks);
    int rc = submit(blocks);
    int waited = vv_pool_wait(blocks->session->pool);
    if (rc == 0)
        rc = waited;
    if (rc && error)
        *error = blocks->error.code ? blocks->error : (struct varve_error){.code = rc, .rank = -1};
    *sums_out = blocks->sums;
    return rc;
}
