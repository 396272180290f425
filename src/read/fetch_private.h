/* Inside fetching: what fetch.c collects and fetch_jobs.c reads. */
#ifndef VV_FETCH_PRIVATE_H
#define VV_FETCH_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/buffer_pool.h"
#include "encode/coders.h"
#include "read/view_private.h"
#include "store/read_costs.h"

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
    uint8_t place_count;
    uint8_t sharing;    /* enum vv_sharing */
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
    vv_placed_fn placed;     /* or NULL */
    void *tag;               /* of the wants that are being added */
    enum vv_sharing sharing; /* the same */
    void *failed_tag;        /* of the want that was nowhere */
    struct vv_buf places;
    struct vv_buf wants;
    struct vv_buf pieces;
    struct vv_buf repeats;
    struct vv_scratch_pool scratch;
    struct vv_scratch_pool ids; /* apart: in turns with blocks they would become as large */
    struct vv_coders coders;
    pthread_mutex_t lock;     /* of error */
    struct varve_error error; /* the first of the jobs */
    atomic_int has_lost_ids;  /* some could not be had: blocks are read whole from now on, and checked by their sums */
    atomic_int is_ahead;      /* of other ranks: a block could not be lent, so those behind it wait as well */
};

/* ---- fetch_jobs.c ---- */
#define VV_READ_ALIGN 4096u

/* Pieces that are had together. */
struct vv_fetch_job {
    struct vv_fetch *fetch;
    struct vv_fetch_piece *pieces;
    size_t count;
    int is_in_parts; /* somebody else is asked for the pieces first */
    int is_by_sum;   /* blocks are read as a whole: to check parts of them by their ids would take more bytes */
    int is_alone;    /* one block, for vv_fetch_block */
    int is_lent;     /* which others on this node read, too */
    int is_left;     /* it was not done: there is no room to lend it */
    size_t turn;     /* then its place among those that were left, from 1: there is nothing else to do first */
};

/* Read and place all pieces: each block once, in parallel on the pool. Those that could not be read have has_failed,
 * and the first reason is in fetch->error. */
int vv_fetch_pieces(struct vv_fetch *fetch, struct varve_error *error);
/* How many bytes up to the next multiple of VV_READ_ALIGN certainly follow this block in its object. */
size_t vv_fetch_readable_behind(const struct vv_pack_tables *tables, uint64_t number);
int vv_fetch_check_sum(struct vv_fetch *fetch, const char *key, const struct vv_block *block, uint32_t number,
                       const void *stored, struct varve_error *error);
int vv_fetch_decode(struct vv_fetch *fetch, const char *key, const struct vv_block *block, const uint8_t *stored,
                    uint8_t *raw, struct varve_error *error);
void vv_fetch_copy(struct vv_fetch *fetch, const struct vv_fetch_piece *pieces, size_t count, const uint8_t *raw);
/* Copy all pieces of the block, of which they are, to their places. */
void vv_fetch_place(struct vv_fetch_job *job, const uint8_t *raw);

/* ---- fetch_block.c ---- */
/* Can these pieces of a block be checked by the ids of their granules? */
int vv_fetch_has_ids(const struct vv_fetch *fetch, const struct vv_block *block, const struct vv_fetch_piece *pieces,
                     size_t count);
/* How many bytes of the block need not be read for these pieces of it, which ascend, if ids check them; 0: it is read
 * as a whole. */
uint32_t vv_fetch_saved(const struct vv_fetch *fetch, const struct vv_block *block, const struct vv_fetch_piece *pieces,
                        size_t count);
/* 0; 1: not now; or an error. */
int vv_fetch_block(struct vv_fetch_job *job, const struct vv_pack_tables *tables, struct varve_error *error);

#endif
