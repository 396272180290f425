/* Buffers that are borrowed for one read and used again. Any thread. */
#ifndef VV_BUFFER_POOL_H
#define VV_BUFFER_POOL_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct vv_scratch {
    struct vv_scratch *next;
    size_t size;
    uint8_t *data;
};
struct vv_scratch_pool {
    pthread_mutex_t lock;
    struct vv_scratch *free;
};

void vv_scratch_init(struct vv_scratch_pool *pool);
void vv_scratch_clear(struct vv_scratch_pool *pool); /* nothing may be borrowed */
/* At least size bytes; NULL without memory. */
struct vv_scratch *vv_scratch_acquire(struct vv_scratch_pool *pool, size_t size);
void vv_scratch_release(struct vv_scratch_pool *pool, struct vv_scratch *scratch); /* accepts NULL */

#endif
