/* Things that are loaded once, never change after that, are borrowed by any number of threads, and stay until room is
 * needed for others. What they are and how they are loaded is their owner's: its own struct begins with an entry.
 *
 * Any thread. */
#ifndef VV_CACHE_H
#define VV_CACHE_H

#include <pthread.h>

#include "base/hash.h"

#define VV_CACHE_BUCKETS 4096

struct vv_cache_entry {
    struct vv_hash128 id;
    int is_loading; /* only who has to load it ever sees this set */

    /* the cache's own */
    unsigned refs;
    size_t bytes;
    struct vv_cache_entry *chain, *newer, *older;
};

struct vv_cache {
    pthread_mutex_t lock;
    pthread_cond_t is_loaded;
    size_t budget, bytes;
    size_t entry_size;
    void (*clear)(struct vv_cache_entry *entry);
    struct vv_cache_entry *newest, *oldest; /* of those nobody borrows */
    struct vv_cache_entry *buckets[VV_CACHE_BUCKETS];
};

/* In memory that is zero. Holds at most `budget` bytes, and what is borrowed. Entries are zeroed structs of entry_size
 * bytes; clear frees what is in one, also of one that failed, and may not use the cache. */
void vv_cache_init(struct vv_cache *cache, size_t budget, size_t entry_size,
                   void (*clear)(struct vv_cache_entry *entry));
void vv_cache_clear(struct vv_cache *cache); /* nothing may be borrowed */

/* Borrow the entry of this id, and wait while another thread loads it. One that is not there is added, counts as
 * `bytes`, and is_loading: then the caller loads it, and calls vv_cache_loaded. NULL without memory. */
void *vv_cache_acquire(struct vv_cache *cache, struct vv_hash128 id, size_t bytes);
/* The same if it is not there; else NULL. Never waits, so that who loads one can load its neighbours as well. */
void *vv_cache_add(struct vv_cache *cache, struct vv_hash128 id, size_t bytes);
/* Others may borrow it from now on; it counts as `bytes`. A failure (rc < 0) is not remembered: the entry is gone, and
 * the next thread that waits for it tries again. */
void vv_cache_loaded(struct vv_cache *cache, struct vv_cache_entry *entry, size_t bytes, int rc);
void vv_cache_release(struct vv_cache *cache, struct vv_cache_entry *entry);
/* Bytes held now. */
size_t vv_cache_bytes(struct vv_cache *cache);

#endif
