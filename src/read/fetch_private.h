/* Inside fetching: what fetch.c collects and fetch_jobs.c reads. */
#ifndef VV_FETCH_PRIVATE_H
#define VV_FETCH_PRIVATE_H

#include <pthread.h>

#include "base/buffer_pool.h"
#include "encode/coders.h"
#include "read/view_private.h"

#define VV_NO_LIST UINT32_MAX

/* There may be millions, of 32 bytes each: most have one place, which is in it, and no list. */
struct vv_want {
    uint64_t address; /* of the first place */
    uint64_t size;
    uint8_t *out;
    void *tag; /* for the placed function */
    uint32_t source;
    uint32_t owner;
    uint32_t list; /* of places, the first of which may lie before address: its index in fetch->places; or VV_NO_LIST */
    uint16_t place_count;
    uint16_t candidate; /* see pick_place */
};

struct vv_fetch_piece {
    uint8_t *out;
    uint32_t source;
    uint32_t writer : 31;
    uint32_t is_own : 1; /* of the owner the view is read for */
    uint32_t block;
    uint32_t raw;
    uint32_t length : 31;
    uint32_t has_failed : 1;
    uint32_t want;
};

struct vv_fetch {
    struct vv_view *view;
    struct vv_pool *pool;
    struct vv_seeker seeker;
    vv_placed_fn placed; /* or NULL */
    void *tag;           /* of the wants that are being added */
    void *failed_tag;    /* of the want that was nowhere */
    struct vv_buf places;
    struct vv_buf wants;
    struct vv_buf pieces;
    struct vv_buf repeats;
    struct vv_scratch_pool scratch;
    struct vv_coders coders;
    pthread_mutex_t lock;     /* of error */
    struct varve_error error; /* the first of the jobs */
};

/* Read and place all pieces: each block once, in parallel on the pool. Those that could not be read have has_failed,
 * and the first reason is in fetch->error. */
int vv_fetch_pieces(struct vv_fetch *fetch, struct varve_error *error);

#endif
