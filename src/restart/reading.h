/* One candidate that is being read: what restart.c compares and takes, reading.c reads, and begun.c lets a thread read.
 */
#ifndef VV_READING_H
#define VV_READING_H

#include "restart/given.h"
#include "restart/restart_private.h"
#include "restart/shared_packs.h"

/* A region that is both stored and wanted. */
struct vv_target {
    uint64_t number;
    uint64_t stored_length;
    size_t slot; /* in the session's regions */
    int is_now;  /* it is one of those that are read together now */
    int is_read; /* its bytes are where they belong, and were checked */
    /* while it is read: */
    uint64_t seed;
    const uint8_t *base;
    struct vv_hash128 *ids;
};

struct vv_restart {
    struct vv_restart_context *context;
    const struct vv_restart_options *options;
    struct vv_peers *peers;
    uint32_t generation; /* the candidate */
    uint64_t version;
    struct vv_made_by named; /* by how many ranks it was made, and what ours may */
    int is_under_replicated; /* something is there fewer times than it should be */
    struct vv_shared_note spread;
    uint64_t own_bytes, others_bytes; /* of this rank's part, in its own packs and in those of others or of several */
    int needs_others;                 /* blocks shall be read once and passed on */
    struct vv_view *view;
    struct vv_recipe *recipe; /* of this rank; read several times */
    uint64_t recipe_at;       /* it has passed all regions with lower numbers; UINT64_MAX: it must be rewound */
    struct vv_fetch *fetch;
    uint32_t first_source, last_source; /* whose bytes are read in this pass: see postpone_sources */
    struct vv_pool *pool;               /* reads and hashes */
    struct vv_pool *backer;             /* one thread that goes ahead and puts pages behind the memory; or NULL */
    struct vv_buf backing;              /* memory that will be filled by the batch that is being collected */
    struct vv_history history;          /* becomes the session's when all is well */
    struct vv_recipe_layers layers;
    struct vv_target *targets; /* ascending numbers */
    size_t target_count, target_capacity;
    size_t now_from, now_to; /* those that are read together now are among these */
    struct vv_given given;
    uint64_t unprotected_count; /* regions that are stored, and that the program neither protects nor has declined */
    char unprotected[256];      /* the first of them */
};

/* ---- restart.c ---- */
/* All that comes before the first byte is written: the ranks agree that they can read this candidate. Collective. Clear
 * it in any case. VV_OTHER_PARTS: vv_restart_elsewhere goes on, and clears it. */
int vv_restart_prepare(struct vv_restart *restart, struct varve_error *error);
/* This rank has read and checked all of it: the history as it will be, while this can still fail. */
int vv_restart_remember(struct vv_restart *restart, struct varve_error *error);
/* rc: has this rank remembered it? If all have, it is from now on what the job goes on from. Collective; the same code
 * on all ranks. */
int vv_restart_take(struct vv_restart *restart, int rc, struct varve_error *error);
/* All ranks have heard VV_OTHER_PARTS: this candidate is read by the places of its elements, if that may be.
 * Collective; up to where vv_elastic_read follows. Clear elastic in any case. */
struct vv_elastic;
int vv_restart_elsewhere(struct vv_restart *restart, struct vv_elastic *elastic, struct varve_error *error);
/* rc: the job goes on from it, or why not. Not collective. */
void vv_restart_clear(struct vv_restart *restart, int rc);

/* ---- reading.c ---- */
int vv_restart_threads(struct vv_restart *restart, struct varve_error *error);
/* Before the first read: load tables that will be needed, where that pays. */
void vv_read_ahead(struct vv_restart *restart);
/* Read and check the targets that are to be read now. Talks to nobody but through the peers. */
int vv_read_targets(struct vv_restart *restart, struct varve_error *error);

#endif
