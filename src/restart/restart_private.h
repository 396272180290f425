/* What the files of restart/ share. */
#ifndef VV_RESTART_PRIVATE_H
#define VV_RESTART_PRIVATE_H

#include "restart/restart.h"

/* ---- candidate.c: what restarting and continuing have in common ---- */
/* The storage as the job sees it; with node-local stores, may this checkpoint be read from them (vv_leaders_complete)?
 * Collective; nothing is in flight. The code may be of this rank alone: the caller agrees on it. Close the peers in any
 * case. */
int vv_candidate_peers(struct vv_restart_context *context, uint32_t generation, uint64_t version, struct vv_peers **out,
                       int *is_under_replicated_out, struct varve_error *error);
/* A leader: is there a record? */
int vv_can_read(struct vv_job *job, uint32_t generation, uint64_t version, struct varve_error *error);
/* Open a checkpoint whose record a leader has read. Not to find it here is an error, never "there is none". */
int vv_open_named(struct vv_job *job, struct vv_store *store, uint32_t generation, uint64_t version,
                  struct vv_view **out, struct varve_error *error);
/* How many ids the table may remember of so many bytes. */
size_t vv_candidate_capacity(const struct vv_restart_context *context, uint64_t bytes);
/* A leader names the checkpoint in its heartbeat before anybody reads it: from now on nobody forgets it. Whether
 * somebody was faster shows when the view is opened. rc: of vv_candidate_peers on this rank. Collective. */
struct vv_made_by {
    uint64_t ranks; /* that have made it */
    int may;        /* in: may this rank come back on others? Out: may all of them? */
    int is_asking;  /* in: does this rank ask the program for memory? Out: does any? */
};
int vv_candidate_name(struct vv_job *job, int rc, uint32_t generation, uint64_t version, struct vv_made_by *named,
                      struct varve_error *error);
/* Open it, if it is of as many ranks as this job has. */
int vv_candidate_open(struct vv_job *job, struct vv_store *store, uint32_t generation, uint64_t version,
                      struct vv_view **out, struct varve_error *error);
/* What it may depend on becomes the sources of an empty history; slots are the view's numbers of sources. */
int vv_candidate_sources(struct vv_view *view, struct vv_history *history, struct varve_error *error);
/* Was the granule at this offset of the stored region read and checked? Only then may later checkpoints refer to it. */
typedef int (*vv_was_read_fn)(void *arg, uint64_t number, uint64_t offset);
/* Put the ids that are stored for this rank's regions into the table; has room for as many as these bytes may take.
 * was_read NULL: somebody else has read everything (varve_continue). */
int vv_candidate_learn(const struct vv_restart_context *context, struct vv_view *view, vv_was_read_fn was_read,
                       void *arg, struct vv_history *history, struct varve_error *error);
/* The same of one owner, as far as the table reaches. */
int vv_candidate_learn_of(struct vv_view *view, uint32_t owner, vv_was_read_fn was_read, void *arg,
                          struct vv_history *history, struct varve_error *error);
/* rc: has this rank read all that it needs? If all have, the heartbeats name the checkpoint, in a generation where
 * nothing was tried yet. Where something is kept fewer times than it should be, the next checkpoint shall stand on its
 * own, with all copies. Collective; the same code on all ranks. */
int vv_candidate_begin(struct vv_restart_context *context, int rc, struct vv_view *view, int is_under_replicated,
                       struct varve_error *error);
/* All ranks agree: the job continues from it. layers: NULL if no byte of it was read. The history is taken. */
void vv_candidate_take(struct vv_restart_context *context, struct vv_view *view, struct vv_history *history,
                       const struct vv_recipe_layers *layers);
/* It did not work out: the heartbeats name the former parent again. */
void vv_candidate_leave(struct vv_job *job);
/* The origin a run stands for; sources of the view are slots of the history. */
struct vv_origin vv_origin_of(const struct vv_run *run);

/* ---- elastic.c ---- */
/* The code of a rank that has found other parts stored than it has. Lower than every error, so that all ranks follow.
 */
#define VV_OTHER_PARTS (-(1 << 20))

/* ---- asked.c ---- */
/* Is a region of this name among those that are asked for? */
int vv_is_asked(const struct vv_restart_options *options, const char *name);
/* Are all of them protected? VARVE_MISMATCH, and which is not. */
int vv_check_asked(const struct vv_restart_options *options, const struct vv_regions *regions,
                   struct varve_error *error);
/* Has it the function that was added later? */
static inline int vv_has_choose(const struct varve_allocator *allocator) {
    return allocator->size >= sizeof *allocator && allocator->choose;
}

/* ---- candidates.c ---- */
/* Nobody knows that we read it, without a claim: was it forgotten meanwhile? Then that is the reason, and no damage.
 * Returns it, or the result. Collective. */
int vv_see_forgotten(struct vv_restart_context *context, const struct vv_attempt *candidate, int result,
                     struct varve_error *why);

/* ---- prefetch_tables.c: load the tables that the regions of a recipe need, many at a time; nothing here can fail. The
 * recipe is read through. ---- */
void vv_load_ahead(struct vv_view *view, struct vv_recipe *recipe, struct vv_pool *pool);

/* ---- digest_check.c: what a restart has read must have the digests that were stored ---- */
struct vv_check {
    struct vv_pool *pool;
    uint64_t seed;
    struct vv_buf strips, pasts; /* begin as zeros */
};
/* Plan to hash a region, whose past has its origins, length and digest; its ids are filled in. 0 or -ENOMEM. The past
 * must stay where it is. */
int vv_check_region(struct vv_check *check, struct vv_past *past, const void *memory);
/* Hash all planned; VARVE_CORRUPT when a digest differs. */
int vv_check_run(struct vv_check *check, struct varve_error *error);
void vv_check_clear(struct vv_check *check);

#endif
