/* Inside a view. */
#ifndef VV_VIEW_PRIVATE_H
#define VV_VIEW_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "read/view_parts.h"

/* A block that was decoded for a part of it: whoever reads small regions one after another wants the next part soon.
 * Its stored bytes are read and checked each time; only the decoding is spared. */
struct vv_decoded {
    int is_wanted; /* 0: who reads everything at once has many threads and no use for it */
    pthread_mutex_t lock;
    struct vv_block block; /* what it is of; raw 0: nothing */
    char key[VV_KEY_CAPACITY];
    uint8_t *data;
    size_t capacity;
};

struct vv_view {
    struct vv_store *store;
    struct vv_decoded decoded;
    uint32_t reader; /* the owner it is read for, or VV_ALL_OWNERS */
    char name[VV_NAME_MAX + 1];
    struct vv_attempt attempt;
    struct vv_record record;
    struct vv_pack_cache *cache;
    int owns_cache;
    atomic_int used_copies;
    vv_trust_fn is_trusted; /* NULL: all are */
    void *is_trusted_arg;
};

#endif
