/* Decoded blocks, for all ranks that want parts of them. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "peers/peers_private.h"
#include "store/block_decode.h"

#define BUCKETS 256

struct vv_block_cache {
    pthread_mutex_t lock;
    pthread_cond_t is_loaded;
    struct vv_slice_cache *slices;
    struct vv_coders coders;
    size_t budget, bytes;
    uint64_t decoded;
    struct vv_whole *newest, *oldest; /* of those nobody borrows */
    struct vv_whole *buckets[BUCKETS];
};

int vv_block_cache_create(struct vv_slice_cache *slices, size_t budget, struct vv_block_cache **out) {
    struct vv_block_cache *wholes = vv_calloc(1, sizeof *wholes);
    if (!wholes)
        return -ENOMEM;
    wholes->slices = slices;
    wholes->budget = budget;
    vv_coders_init(&wholes->coders);
    pthread_mutex_init(&wholes->lock, NULL);
    pthread_cond_init(&wholes->is_loaded, NULL);
    *out = wholes;
    return 0;
}

/* ---- which are there ---- */

static struct vv_whole *look_up(struct vv_block_cache *wholes, struct vv_hash128 id) {
    struct vv_whole *whole = wholes->buckets[id.low % BUCKETS];
    while (whole && !vv_hash128_equal(whole->id, id))
        whole = whole->chain;
    return whole;
}

/* Out of the table, and gone. */
static void drop(struct vv_block_cache *wholes, struct vv_whole *whole) {
    struct vv_whole **at = &wholes->buckets[whole->id.low % BUCKETS];
    while (*at != whole)
        at = &(*at)->chain;
    *at = whole->chain;
    wholes->bytes -= whole->size;
    vv_free(whole->data);
    vv_free(whole);
}

static void remove_idle(struct vv_block_cache *wholes, struct vv_whole *whole) {
    *(whole->newer ? &whole->newer->older : &wholes->newest) = whole->older;
    *(whole->older ? &whole->older->newer : &wholes->oldest) = whole->newer;
    whole->newer = whole->older = NULL;
}

static void make_capacity(struct vv_block_cache *wholes) {
    while (wholes->bytes > wholes->budget && wholes->oldest) {
        struct vv_whole *whole = wholes->oldest;
        remove_idle(wholes, whole);
        drop(wholes, whole);
    }
}

static struct vv_whole *add(struct vv_block_cache *wholes, struct vv_hash128 id, size_t size) {
    struct vv_whole *whole = vv_calloc(1, sizeof *whole);
    uint8_t *data = whole ? vv_malloc(size) : NULL;
    if (!data) {
        vv_free(whole);
        return NULL;
    }
    *whole = (struct vv_whole){
        .id = id, .data = data, .size = size, .refs = 1, .is_loading = 1, .chain = wholes->buckets[id.low % BUCKETS]};
    wholes->buckets[id.low % BUCKETS] = whole;
    wholes->bytes += size;
    make_capacity(wholes);
    return whole;
}

void vv_block_cache_destroy(struct vv_block_cache *wholes) {
    if (!wholes)
        return;
    wholes->budget = 0;
    make_capacity(wholes);
    vv_coders_clear(&wholes->coders);
    pthread_cond_destroy(&wholes->is_loaded);
    pthread_mutex_destroy(&wholes->lock);
    vv_free(wholes);
}

/* ---- loading ---- */

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
    if (rc == 0 && vv_sum64(stored, block->stored) != block->sum)
        rc = VARVE_CORRUPT;
    if (rc == 0 && !is_plain)
        rc = vv_block_decode(&wholes->coders, key, block, stored, raw, &ignored);
    if (!is_plain)
        vv_free(stored);
    return rc;
}

/* With the lock, which it gives away while it works. A block that could not be read is not remembered. */
static int load(struct vv_block_cache *wholes, const char *key, const struct vv_block *block, struct vv_whole *whole) {
    pthread_mutex_unlock(&wholes->lock);
    int rc = read_whole(wholes, key, block, whole->data);
    pthread_mutex_lock(&wholes->lock);
    whole->is_loading = 0;
    wholes->decoded += rc == 0;
    if (rc)
        drop(wholes, whole);
    pthread_cond_broadcast(&wholes->is_loaded);
    return rc;
}

int vv_block_cache_acquire(struct vv_block_cache *wholes, const char *key, const struct vv_block *block,
                           struct vv_whole **out) {
    struct vv_hash128 id = vv_block_cache_id(key, block);
    struct vv_whole *whole;
    int rc = 0;
    pthread_mutex_lock(&wholes->lock);
    while ((whole = look_up(wholes, id)) && whole->is_loading)
        pthread_cond_wait(&wholes->is_loaded, &wholes->lock);
    if (whole) {
        if (whole->refs++ == 0)
            remove_idle(wholes, whole);
    } else {
        whole = add(wholes, id, block->raw);
        rc = whole ? load(wholes, key, block, whole) : -ENOMEM;
    }
    pthread_mutex_unlock(&wholes->lock);
    *out = rc ? NULL : whole;
    return rc;
}

void vv_block_cache_release(struct vv_block_cache *wholes, struct vv_whole *whole) {
    if (!whole)
        return;
    pthread_mutex_lock(&wholes->lock);
    if (--whole->refs == 0) {
        whole->older = wholes->newest;
        *(wholes->newest ? &wholes->newest->newer : &wholes->oldest) = whole;
        wholes->newest = whole;
    }
    make_capacity(wholes);
    pthread_mutex_unlock(&wholes->lock);
}

uint64_t vv_block_cache_decoded(struct vv_block_cache *wholes) {
    pthread_mutex_lock(&wholes->lock);
    uint64_t decoded = wholes->decoded;
    pthread_mutex_unlock(&wholes->lock);
    return decoded;
}
