#include "base/cache.h"
#include "base/alloc.h"

void vv_cache_init(struct vv_cache *cache, size_t budget, size_t entry_size,
                   void (*clear)(struct vv_cache_entry *entry)) {
    cache->budget = budget;
    cache->entry_size = entry_size;
    cache->clear = clear;
    pthread_mutex_init(&cache->lock, NULL);
    pthread_cond_init(&cache->is_loaded, NULL);
}

/* What points to the entry of this id, or to the NULL at the end of its chain. */
static struct vv_cache_entry **link_of(struct vv_cache *cache, struct vv_hash128 id) {
    struct vv_cache_entry **at = &cache->buckets[id.low % VV_CACHE_BUCKETS];
    while (*at && !vv_hash128_equal((*at)->id, id))
        at = &(*at)->chain;
    return at;
}

static void idle_remove(struct vv_cache *cache, struct vv_cache_entry *entry) {
    *(entry->newer ? &entry->newer->older : &cache->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &cache->oldest) = entry->newer;
    entry->newer = entry->older = NULL;
}

static void idle_add(struct vv_cache *cache, struct vv_cache_entry *entry) {
    entry->older = cache->newest;
    *(cache->newest ? &cache->newest->newer : &cache->oldest) = entry;
    cache->newest = entry;
}

/* Threads may wait for it, but none has its address: they look for its id again. */
static void forget_entry(struct vv_cache *cache, struct vv_cache_entry *entry) {
    *link_of(cache, entry->id) = entry->chain;
    cache->bytes -= entry->bytes;
    cache->clear(entry);
    vv_free(entry);
}

static void forget_oldest(struct vv_cache *cache) {
    struct vv_cache_entry *entry = cache->oldest;
    idle_remove(cache, entry);
    forget_entry(cache, entry);
}

static void make_room(struct vv_cache *cache) {
    while (cache->bytes > cache->budget && cache->oldest)
        forget_oldest(cache);
}

void vv_cache_clear(struct vv_cache *cache) {
    while (cache->oldest)
        forget_oldest(cache);
    pthread_cond_destroy(&cache->is_loaded);
    pthread_mutex_destroy(&cache->lock);
}

/* Room is made before it is loaded, so that old and new are not there together. */
static struct vv_cache_entry *add_entry(struct vv_cache *cache, struct vv_hash128 id, size_t bytes) {
    struct vv_cache_entry *entry = vv_calloc(1, cache->entry_size);
    if (!entry)
        return NULL;
    entry->id = id;
    entry->bytes = bytes;
    entry->refs = 1;
    entry->is_loading = 1;
    *link_of(cache, id) = entry;
    cache->bytes += bytes;
    make_room(cache);
    return entry;
}

void *vv_cache_acquire(struct vv_cache *cache, struct vv_hash128 id, size_t bytes) {
    struct vv_cache_entry *entry;
    pthread_mutex_lock(&cache->lock);
    while ((entry = *link_of(cache, id)) && entry->is_loading)
        pthread_cond_wait(&cache->is_loaded, &cache->lock);
    if (!entry)
        entry = add_entry(cache, id, bytes);
    else if (entry->refs++ == 0)
        idle_remove(cache, entry);
    pthread_mutex_unlock(&cache->lock);
    return entry;
}

void *vv_cache_add(struct vv_cache *cache, struct vv_hash128 id, size_t bytes) {
    pthread_mutex_lock(&cache->lock);
    struct vv_cache_entry *entry = *link_of(cache, id) ? NULL : add_entry(cache, id, bytes);
    pthread_mutex_unlock(&cache->lock);
    return entry;
}

void vv_cache_loaded(struct vv_cache *cache, struct vv_cache_entry *entry, size_t bytes, int rc) {
    pthread_mutex_lock(&cache->lock);
    entry->is_loading = 0;
    cache->bytes = cache->bytes - entry->bytes + bytes;
    entry->bytes = bytes;
    if (rc < 0)
        forget_entry(cache, entry);
    make_room(cache);
    pthread_cond_broadcast(&cache->is_loaded);
    pthread_mutex_unlock(&cache->lock);
}

void vv_cache_release(struct vv_cache *cache, struct vv_cache_entry *entry) {
    pthread_mutex_lock(&cache->lock);
    if (--entry->refs == 0) {
        idle_add(cache, entry);
        make_room(cache);
    }
    pthread_mutex_unlock(&cache->lock);
}

size_t vv_cache_bytes(struct vv_cache *cache) {
    pthread_mutex_lock(&cache->lock);
    size_t bytes = cache->bytes;
    pthread_mutex_unlock(&cache->lock);
    return bytes;
}
