/* Further stores behind the one that the job writes: committed checkpoints move on to them in the background, and come
 * back when the first store has lost them (docs/design.md, "Tiers").
 *
 * Each tier is a whole store, and takes its checkpoints from the first one by the machinery of `varve copy`. It has a
 * thread and a queue of its own: one that is slow or fails holds up no other. All of this is in the process of rank 0.
 * Tiers are numbered from 1, which is the store of the job. */
#ifndef VV_TIERS_H
#define VV_TIERS_H

#include "base/settings.h"
#include "base/thread.h"
#include "lifecycle/lease.h"
#include "store/store.h"

struct vv_tiers;

struct vv_tiers_options {
    const char *address; /* of the first store */
    const char *name;
    const struct vv_settings *settings; /* copied */
    struct vv_log *log;                 /* lives as long as the tiers */
};

/* NULL and 0 if the settings name none. VARVE_SETTING if two of them are one store, or one is the first. */
int vv_tiers_open(const struct vv_tiers_options *options, struct vv_tiers **out, struct varve_error *error);
/* One listing per tier. If one has a newer checkpoint than the first store, which nobody has claimed yet, the newest
 * that is whole is copied there. An error only if the first store has no checkpoint of the name, and a tier has one
 * that cannot be copied, or cannot tell; and VARVE_MISMATCH if the job went on elsewhere with lower versions, which a
 * tier has. Accepts NULL. */
int vv_tiers_bring_back(struct vv_tiers *tiers, struct vv_store *first, struct varve_error *error);
/* Start the threads; tiers that lack the newest checkpoint of the first store get it. lease: of the session there, or
 * NULL. VARVE_SETTING as above, where only what lies in the stores tells. Accepts NULL. */
int vv_tiers_start(struct vv_tiers *tiers, struct vv_store *first, struct vv_lease *lease, struct varve_error *error);

/* This one was committed in the first store: it moves on. Never waits. Accepts NULL. */
void vv_tiers_add(struct vv_tiers *tiers, const struct vv_attempt *attempt);
/* Wait until this tier has the checkpoint that was added last, or has failed to take it: then why, with the number of
 * the tier. -ETIMEDOUT after vv_tiers_limit. Accepts NULL. */
int vv_tiers_wait(struct vv_tiers *tiers, unsigned number, struct varve_error *error);
/* Nothing more comes: from now on all waiting together, also that of vv_tiers_close, lasts as long as the settings say.
 * Accepts NULL. */
void vv_tiers_limit(struct vv_tiers *tiers);
/* Would vv_tiers_wait return at once? */
int vv_tiers_is_settled(struct vv_tiers *tiers, unsigned number);
/* Those that wait or are being read must not be forgotten: how many. arg is the tiers. */
size_t vv_tiers_spared(void *arg, struct vv_attempt *out, size_t capacity);

/* A restart has met this one damaged in the first store: the nearest tier that has it whole gives it back, as *out,
 * and the damaged one is forgotten. 1, 0 if none can, or an error of the restart. */
struct vv_heal {
    struct vv_store *first;
    struct vv_lease *lease; /* of the session there */
    const struct vv_attempt *damaged;
};
int vv_tiers_heal(struct vv_tiers *tiers, const struct vv_heal *heal, struct vv_attempt *out,
                  struct varve_error *error);
/* Where that is not done: a tier that has it is named in the log, with what to do. */
void vv_tiers_look_for(struct vv_tiers *tiers, const struct vv_attempt *damaged);
/* What was said of the newest of these; "" if no tier has it. Accepts NULL. */
#define VV_TIERS_ADVICE 384
void vv_tiers_advice(const struct vv_tiers *tiers, char out[VV_TIERS_ADVICE]);

struct vv_tiers_counts {
    uint64_t moved, passed, failed, back, healed;
    uint64_t bytes; /* written */
    uint64_t moving_ns;
};
void vv_tiers_count(struct vv_tiers *tiers, struct vv_tiers_counts *out); /* zeros for NULL */

/* Waits for what is on its way as long as the settings say, and tells what is left. Accepts NULL. */
void vv_tiers_close(struct vv_tiers *tiers);

#endif
