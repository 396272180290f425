#include "store/pack_cache.h"
#include "base/alloc.h"

#include <errno.h>

struct vv_pack_cache {
    struct vv_cache cache;
};

static void clear_cached(struct vv_cache_entry *entry) {
    struct vv_cached *cached = (struct vv_cached *)entry;
    if (cached->destroy)
        cached->destroy(cached->object);
}

int vv_pack_cache_create(size_t budget_bytes, struct vv_pack_cache **out) {
    struct vv_pack_cache *cache = vv_calloc(1, sizeof *cache);
    if (!cache)
        return -ENOMEM;
    vv_cache_init(&cache->cache, budget_bytes, sizeof(struct vv_cached), clear_cached);
    *out = cache;
    return 0;
}

void vv_pack_cache_destroy(struct vv_pack_cache *cache) {
    if (!cache)
        return;
    vv_cache_clear(&cache->cache);
    vv_free(cache);
}

static struct vv_hash128 key_id(const struct vv_cache_key *key) {
    uint64_t words[4] = {(uint64_t)key->attempt.generation << 32 | key->attempt.attempt, key->attempt.version,
                         (uint64_t)key->writer << 32 | key->kind, key->page};
    return vv_digest(words, sizeof words);
}

int vv_pack_cache_acquire(struct vv_pack_cache *cache, const struct vv_cache_key *key, vv_cache_load_fn load, void *arg,
                          void (*destroy)(void *object), struct vv_cached **out, struct varve_error *error) {
    struct vv_cached *cached = vv_cache_acquire(&cache->cache, key_id(key), 0); /* what it costs is not known yet */
    if (!cached)
        return vv_error_sys(error, -ENOMEM, "reading tables");
    if (cached->entry.is_loading) {
        size_t bytes = 0;
        int rc = load(arg, &cached->object, &bytes, error);
        cached->key = *key;
        cached->destroy = rc < 0 ? NULL : destroy;
        vv_cache_loaded(&cache->cache, &cached->entry, sizeof *cached + bytes, rc);
        if (rc < 0)
            return rc;
    }
    *out = cached;
    return 0;
}

void vv_pack_cache_release(struct vv_pack_cache *cache, struct vv_cached *cached) {
    if (cached)
        vv_cache_release(&cache->cache, &cached->entry);
}

size_t vv_pack_cache_bytes(struct vv_pack_cache *cache) {
    return vv_cache_bytes(&cache->cache);
}
