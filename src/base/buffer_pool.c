#include "base/buffer_pool.h"
#include "base/alloc.h"

#define PAGE 4096u

void vv_scratch_init(struct vv_scratch_pool *pool) {
    pool->free = NULL;
    pthread_mutex_init(&pool->lock, NULL);
}

static void destroy(struct vv_scratch *scratch) {
    vv_free(scratch->data);
    vv_free(scratch);
}

void vv_scratch_clear(struct vv_scratch_pool *pool) {
    while (pool->free) {
        struct vv_scratch *scratch = pool->free;
        pool->free = scratch->next;
        destroy(scratch);
    }
    pthread_mutex_destroy(&pool->lock);
}

struct vv_scratch *vv_scratch_acquire(struct vv_scratch_pool *pool, size_t size) {
    pthread_mutex_lock(&pool->lock);
    struct vv_scratch *scratch = pool->free;
    if (scratch)
        pool->free = scratch->next;
    pthread_mutex_unlock(&pool->lock);
    if (!scratch)
        scratch = vv_calloc(1, sizeof *scratch);
    if (scratch && scratch->size < size) {
        vv_free(scratch->data);
        scratch->data = vv_aligned(size, PAGE); /* a direct read into it needs no copy */
        scratch->size = size;
        if (!scratch->data) {
            destroy(scratch);
            scratch = NULL;
        }
    }
    return scratch;
}

void vv_scratch_release(struct vv_scratch_pool *pool, struct vv_scratch *scratch) {
    if (!scratch)
        return;
    pthread_mutex_lock(&pool->lock);
    scratch->next = pool->free;
    pool->free = scratch;
    pthread_mutex_unlock(&pool->lock);
}
