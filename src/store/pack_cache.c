#include "store/pack_cache.h"
#include "base/alloc.h"

#include <errno.h>
#include <pthread.h>

#define BUCKETS 4096

struct vv_pack_cache {
    pthread_mutex_t lock;
    pthread_cond_t is_loaded;
    size_t budget;
    size_t bytes;
    struct vv_cached *newest; /* of those nobody borrows */
    struct vv_cached *oldest;
    struct vv_cached *buckets[BUCKETS];
};

int vv_pack_cache_create(size_t budget_bytes, struct vv_pack_cache **out) {
    struct vv_pack_cache *cache = vv_calloc(1, sizeof *cache);
    if (!cache)
        return -ENOMEM;
    cache->budget = budget_bytes;
    pthread_mutex_init(&cache->lock, NULL);
    pthread_cond_init(&cache->is_loaded, NULL);
    *out = cache;
    return 0;
}

static uint64_t key_hash(const struct vv_cache_key *key) {
    uint64_t words[4] = {(uint64_t)key->attempt.generation << 32 | key->attempt.attempt, key->attempt.version,
                         (uint64_t)key->writer << 32 | key->kind, key->page};
    return vv_sum64(words, sizeof words);
}

static int is_same_key(const struct vv_cache_key *a, const struct vv_cache_key *b) {
    return vv_attempt_compare(&a->attempt, &b->attempt) == 0 && a->writer == b->writer && a->kind == b->kind &&
           a->page == b->page;
}

static struct vv_cached *find_cached(struct vv_pack_cache *cache, const struct vv_cache_key *key, uint64_t hash) {
    struct vv_cached *at = cache->buckets[hash % BUCKETS];
    while (at && !(at->hash == hash && is_same_key(&at->key, key)))
        at = at->chain;
    return at;
}

static void unchain(struct vv_pack_cache *cache, struct vv_cached *cached) {
    struct vv_cached **at = &cache->buckets[cached->hash % BUCKETS];
    while (*at != cached)
        at = &(*at)->chain;
    *at = cached->chain;
}

static void idle_remove(struct vv_pack_cache *cache, struct vv_cached *cached) {
    *(cached->newer ? &cached->newer->older : &cache->newest) = cached->older;
    *(cached->older ? &cached->older->newer : &cache->oldest) = cached->newer;
    cached->newer = cached->older = NULL;
}

static void idle_add(struct vv_pack_cache *cache, struct vv_cached *cached) {
    cached->older = cache->newest;
    *(cache->newest ? &cache->newest->newer : &cache->oldest) = cached;
    cache->newest = cached;
}

static void drop(struct vv_pack_cache *cache, struct vv_cached *cached) {
    idle_remove(cache, cached);
    unchain(cache, cached);
    cache->bytes -= cached->bytes;
    cached->destroy(cached->object);
    vv_free(cached);
}

static void evict_oldest(struct vv_pack_cache *cache) {
    while (cache->bytes > cache->budget && cache->oldest)
        drop(cache, cache->oldest);
}

void vv_pack_cache_destroy(struct vv_pack_cache *cache) {
    if (!cache)
        return;
    while (cache->oldest)
        drop(cache, cache->oldest);
    pthread_cond_destroy(&cache->is_loaded);
    pthread_mutex_destroy(&cache->lock);
    vv_free(cache);
}

/* Called and returns with the lock held. */
static int load_new(struct vv_pack_cache *cache, struct vv_cached *cached, vv_cache_load_fn load, void *arg,
                    struct varve_error *error) {
    cached->is_loading = 1;
    cached->refs = 1;
    cached->chain = cache->buckets[cached->hash % BUCKETS];
    cache->buckets[cached->hash % BUCKETS] = cached;
    pthread_mutex_unlock(&cache->lock);
    int rc = load(arg, &cached->object, &cached->bytes, error);
    pthread_mutex_lock(&cache->lock);
    cached->is_loading = 0;
    pthread_cond_broadcast(&cache->is_loaded);
    if (rc < 0) {
        unchain(cache, cached);
        vv_free(cached);
        return rc;
    }
    cached->bytes += sizeof *cached;
    cache->bytes += cached->bytes;
    evict_oldest(cache);
    return 0;
}

static struct vv_cached *find_loaded(struct vv_pack_cache *cache, const struct vv_cache_key *key, uint64_t hash) {
    struct vv_cached *cached = find_cached(cache, key, hash);
    while (cached && cached->is_loading) {
        pthread_cond_wait(&cache->is_loaded, &cache->lock);
        cached = find_cached(cache, key, hash);
    }
    return cached;
}

int vv_pack_cache_acquire(struct vv_pack_cache *cache, const struct vv_cache_key *key, vv_cache_load_fn load, void *arg,
                          void (*destroy)(void *object), struct vv_cached **out, struct varve_error *error) {
    uint64_t hash = key_hash(key);
    int rc = 0;
    pthread_mutex_lock(&cache->lock);
    struct vv_cached *cached = find_loaded(cache, key, hash);
    if (cached) {
        if (cached->refs++ == 0)
            idle_remove(cache, cached);
    } else if ((cached = vv_calloc(1, sizeof *cached))) {
        cached->key = *key;
        cached->hash = hash;
        cached->destroy = destroy;
        rc = load_new(cache, cached, load, arg, error);
    } else {
        rc = vv_error_sys(error, -ENOMEM, "reading tables");
    }
    pthread_mutex_unlock(&cache->lock);
    if (rc == 0)
        *out = cached;
    return rc;
}

void vv_pack_cache_release(struct vv_pack_cache *cache, struct vv_cached *cached) {
    if (!cached)
        return;
    pthread_mutex_lock(&cache->lock);
    if (--cached->refs == 0) {
        idle_add(cache, cached);
        evict_oldest(cache);
    }
    pthread_mutex_unlock(&cache->lock);
}

size_t vv_pack_cache_bytes(struct vv_pack_cache *cache) {
    pthread_mutex_lock(&cache->lock);
    size_t bytes = cache->bytes;
    pthread_mutex_unlock(&cache->lock);
    return bytes;
}
