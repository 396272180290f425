/* Pins: a checkpoint that has one is not forgotten (docs/format.md 10, docs/design.md).
 *
 * A pin and the forgetting of the same checkpoint meet at one key, by an operation that fails if it is taken. Before a
 * record is replaced by a tombstone, the key of its pin is *closed*: a tombstone is created there. So either the pin is
 * first, and the checkpoint stays, or the tombstone is, and nobody is told that the checkpoint is pinned. */
#ifndef VV_PIN_H
#define VV_PIN_H

#include "lifecycle/commit.h"
#include "store/listing.h"

/* What stands under the key of a pin. What cannot be interpreted there counts as a pin: it may be a damaged one. */
enum vv_pin_state { VV_PIN_NONE, VV_PIN_HELD, VV_PIN_CLOSED };
/* One of these, or an error of the storage. out (may be NULL) is filled when it is held; of a damaged one the reason
 * tells the damage, and the time is 0. */
int vv_pin_look(struct vv_store *store, const char *name, const struct vv_attempt *at, struct vv_pin *out,
                struct varve_error *error);

/* Pin a checkpoint: 0 when it is pinned and its record is there; 1 when it was pinned before, and nothing has changed.
 * VARVE_FORGOTTEN when its forgetting was faster or has begun, VARVE_NO_CHECKPOINT, or an error. pin->time_ns 0: now,
 * on this host. */
int vv_pin_set(struct vv_store *store, const char *name, const struct vv_attempt *at, const struct vv_pin *pin,
               struct varve_error *error);
/* Take the pin away, also a damaged one; 0, or VARVE_NO_CHECKPOINT when there is none. */
int vv_pin_unset(struct vv_store *store, const char *name, const struct vv_attempt *at, struct varve_error *error);
/* A copy of a checkpoint was made, and takes its place: its pin moves, if it has one. */
int vv_pin_move(struct vv_store *store, const char *name, const struct vv_attempt *from, const struct vv_attempt *to,
                struct varve_error *error);

/* From now on nobody can pin it: the step before its tombstone. VARVE_BUSY when it is pinned. */
int vv_pin_close(struct vv_store *store, const char *name, const struct vv_attempt *at, struct varve_error *error);
/* Its tombstone stands: what vv_pin_close has left is of no use any more. Best effort; prune looks after the rest. */
void vv_pin_end(struct vv_store *store, const char *name, const struct vv_attempt *at);

/* The pinned checkpoints of a name, sorted; attempt is 0. Clear in every case. */
int vv_pins_list(struct vv_store *store, const char *name, struct vv_attempts *out, struct varve_error *error);
/* Part of a prune: what stands under the keys of pins goes if its checkpoint is gone. */
int vv_pins_prune(struct vv_store *store, const char *name, const struct vv_prune_options *options,
                  struct vv_prune_result *result, struct varve_error *error);

#endif
