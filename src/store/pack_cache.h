/* What reading has loaded: writers lists, footers, tables and ids of the packs of one name, in a cache. A view that
 * depends on thousands of packs therefore holds the tables of a bounded number of them.
 *
 * Any thread. */
#ifndef VV_PACK_CACHE_H
#define VV_PACK_CACHE_H

#include "base/cache.h"
#include "base/error.h"
#include "format/object.h"

struct vv_pack_cache;

enum vv_cached_kind {
    VV_CACHED_WRITERS,
    VV_CACHED_WRITERS_PAGE,
    VV_CACHED_FOOTER,
    VV_CACHED_TABLES,
    VV_CACHED_PART, /* its head is checked */
    VV_CACHED_IDS_CHECK,
    VV_CACHED_IDS,
    VV_CACHED_CONTENTS /* what blocks hold: view_blocks.c */
};

struct vv_cache_key {
    struct vv_attempt attempt;
    uint32_t writer;
    uint32_t kind;
    uint64_t page; /* of ids or writers; or part; or the owner of tables + 1 */
};

struct vv_cached {
    struct vv_cache_entry entry; /* first */
    struct vv_cache_key key;
    void *object;                  /* what load gave */
    void (*destroy)(void *object); /* NULL until it is there */
};

/* Makes the object and says what it costs in memory. */
typedef int (*vv_cache_load_fn)(void *arg, void **object_out, size_t *bytes_out, struct varve_error *error);

int vv_pack_cache_create(size_t budget_bytes, struct vv_pack_cache **out);
void vv_pack_cache_destroy(struct vv_pack_cache *cache); /* nothing may be borrowed; accepts NULL */

/* Borrow the object of this key, loading it if it is not there. load may borrow others. Several threads that want
 * the same one wait for one load. Failures are not remembered. */
int vv_pack_cache_acquire(struct vv_pack_cache *cache, const struct vv_cache_key *key, vv_cache_load_fn load, void *arg,
                          void (*destroy)(void *object), struct vv_cached **out, struct varve_error *error);
void vv_pack_cache_release(struct vv_pack_cache *cache, struct vv_cached *cached); /* accepts NULL */
/* Bytes held now. */
size_t vv_pack_cache_bytes(struct vv_pack_cache *cache);

#endif
