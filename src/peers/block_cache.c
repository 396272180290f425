/* Decoded blocks, for all ranks that want parts of them. */
#include <errno.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "peers/peers_private.h"
#include "store/block_decode.h"
#include "store/read_costs.h"

struct vv_block_cache {
    struct vv_cache cache;
    struct vv_slice_cache *slices;
    struct vv_coders coders;
    struct vv_read_costs *costs;
    _Atomic uint64_t decoded;
};

static void clear_whole(struct vv_cache_entry *entry) {
    vv_free(((struct vv_whole *)entry)->data);
}

int vv_block_cache_create(struct vv_slice_cache *slices, struct vv_read_costs *costs, size_t budget,
                          struct vv_block_cache **out) {
    struct vv_block_cache *wholes = vv_calloc(1, sizeof *wholes);
    if (!wholes)
        return -ENOMEM;
    wholes->slices = slices;
    wholes->costs = costs;
    vv_coders_init(&wholes->coders);
    vv_cache_init(&wholes->cache, budget, sizeof(struct vv_whole), clear_whole);
    *out = wholes;
    return 0;
}

void vv_block_cache_destroy(struct vv_block_cache *wholes) {
    if (!wholes)
        return;
    vv_cache_clear(&wholes->cache);
    vv_coders_clear(&wholes->coders);
    vv_free(wholes);
}

struct vv_hash128 vv_block_cache_id(const char *key, const struct vv_block *block) {
    struct vv_hash128 name = vv_peers_key_id(key);
    uint64_t words[] = {name.low,
                        name.high,
                        block->offset,
                        block->sum,
                        (uint64_t)block->stored << 32 | block->raw,
                        (uint64_t)block->codec << 24 | (uint64_t)block->filter[0] << 16 |
                            (uint64_t)block->filter[1] << 8 | block->element};
    return vv_digest(words, sizeof words);
}

/* Nothing is believed that the sum does not cover. What exactly is wrong tells the reader who then looks for itself. */
static int read_whole(struct vv_block_cache *wholes, const char *key, const struct vv_block *block, uint8_t *raw) {
    int is_plain = block->stored == block->raw && block->codec == 0;
    uint8_t *stored = is_plain ? raw : vv_malloc(block->stored);
    struct varve_error ignored = {0};
    if (!stored)
        return -ENOMEM;
    int64_t got = vv_slice_cache_get(wholes->slices, key, block->offset, stored, block->stored);
    int rc = got < 0 ? (int)got : (uint64_t)got < block->stored ? VARVE_CORRUPT : 0;
    uint64_t begin = vv_clock_ns();
    if (rc == 0 && vv_sum64(stored, block->stored) != block->sum)
        rc = VARVE_CORRUPT;
    begin = vv_cost(&wholes->costs->checking_ns, begin);
    if (rc == 0 && !is_plain)
        rc = vv_block_decode(&wholes->coders, key, block, stored, raw, &ignored);
    vv_cost(&wholes->costs->decoding_ns, begin);
    wholes->costs->blocks++;
    wholes->costs->bytes_raw += block->raw;
    if (!is_plain)
        vv_free(stored);
    return rc;
}

int vv_block_cache_acquire(struct vv_block_cache *wholes, const char *key, const struct vv_block *block,
                           struct vv_whole **out) {
    struct vv_whole *whole = vv_cache_acquire(&wholes->cache, vv_block_cache_id(key, block), block->raw);
    int rc = whole ? 0 : -ENOMEM;
    if (whole && whole->entry.is_loading) {
        whole->data = vv_malloc(block->raw);
        rc = whole->data ? read_whole(wholes, key, block, whole->data) : -ENOMEM;
        wholes->decoded += rc == 0;
        vv_cache_loaded(&wholes->cache, &whole->entry, block->raw, rc);
    }
    *out = rc ? NULL : whole;
    return rc;
}

void vv_block_cache_release(struct vv_block_cache *wholes, struct vv_whole *whole) {
    if (whole)
        vv_cache_release(&wholes->cache, &whole->entry);
}

uint64_t vv_block_cache_decoded(struct vv_block_cache *wholes) {
    return wholes->decoded;
}
