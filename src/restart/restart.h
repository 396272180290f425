/* From a record to memory. */
#ifndef VV_RESTART_H
#define VV_RESTART_H

#include "capture/protected.h"
#include "job/job.h"

/* What the checkpoint that came back says of those before it, in seconds (format/attributes.h); below 0: nothing. */
struct vv_told_costs {
    double cost, durable;
};

/* What a restart works on. */
struct vv_restart_context {
    struct vv_job *job;
    struct vv_protected *memory;
    uint32_t replicas;                                              /* that this session keeps of everything */
    uint32_t parity;                                                /* the same: lost nodes that it makes up for */
    int has_begun;                                                  /* a checkpoint was begun in this session */
    /* Has the session further tiers? Then rank 0 is told of each candidate that is damaged, and may make another of
     * that version: 1 and *out, 0, or an error. is_newest: nothing newer is whole, or was rejected. */
    int has_tiers;
    int (*damaged)(void *arg, const struct vv_attempt *candidate, int is_newest, struct vv_attempt *out,
                   struct varve_error *error);
    void *damaged_arg;
    struct vv_told_costs *told; /* of rank 0, if it wants to know; or NULL */
};

struct vv_restart_options {
    int64_t version;            /* or VARVE_LATEST */
    const char *const *regions; /* NULL: all protected */
    size_t region_count;
    unsigned flags;    /* VARVE_RESTART_* */
    int is_allocating; /* what is not protected, or with another size, gets memory from the program */
    const struct varve_allocator *allocator;
    void *arg;
};

/* ---- candidates.c: walk the checkpoints, newest first. Collective, the same answer on all ranks. ---- */
int vv_restart_options_check(const struct vv_restart_options *options, struct varve_error *error);
/* Tries one checkpoint on all ranks. */
typedef int (*vv_try_fn)(struct vv_restart_context *context, const void *arg, uint32_t generation, uint64_t version,
                         struct varve_error *error);
/* Try them until one is whole on all ranks. */
int vv_try_candidates(struct vv_restart_context *context, int64_t version, vv_try_fn try, const void *arg,
                      int64_t *version_out, struct varve_error *error);
/* The generation of the one that was offered: what the job restarted from, or else the newest of this version that is
 * not rejected yet. 0 when all are rejected. */
int vv_find_offered(struct vv_restart_context *context, int64_t version, uint32_t *generation_out,
                    struct varve_error *error);

/* ---- restart.c: from one candidate; arg is a struct vv_restart_options ---- */
int vv_try_restart(struct vv_restart_context *context, const void *arg, uint32_t generation, uint64_t version,
                   struct varve_error *error);

/* ---- begun.c: the same, but the reading goes on in a thread of its own, which talks to nobody ---- */
struct vv_begun;
/* NULL: no memory. */
struct vv_begun *vv_begun_create(const struct vv_restart_context *context, const struct vv_restart_options *options);
void vv_begun_destroy(struct vv_begun *begun); /* nothing is under way; accepts NULL */
/* Up to where the ranks have agreed on it and the thread reads; arg points to a struct vv_begun *. */
int vv_try_begin(struct vv_restart_context *context, const void *arg, uint32_t generation, uint64_t version,
                 struct varve_error *error);
/* Until this region is where it belongs, and checked; or why not. Not collective. */
int vv_begun_wait(struct vv_begun *begun, const char *name, struct varve_error *error);
/* All ranks go on from it, or none. Collective. Destroys it. */
int vv_begun_end(struct vv_begun *begun, struct varve_error *error);
/* Nobody goes on from it. Not collective. Destroys it; accepts NULL. */
void vv_begun_abandon(struct vv_begun *begun);

/* ---- resume.c: the same without reading; arg is not used ---- */
int vv_try_continue(struct vv_restart_context *context, const void *arg, uint32_t generation, uint64_t version,
                    struct varve_error *error);

/* ---- stored_regions.c: what a checkpoint holds of this rank; arg is a struct vv_stored_asking ---- */
struct vv_stored_asking {
    varve_region_fn fn;
    void *arg;
};
int vv_try_stored(struct vv_restart_context *context, const void *arg, uint32_t generation, uint64_t version,
                  struct varve_error *error);

#endif
