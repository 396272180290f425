/* Packs that hold data of several ranks: which of the attempts that a checkpoint reads from have such, as the peers are
 * told before they read them together. */
#ifndef VV_SHARED_PACKS_H
#define VV_SHARED_PACKS_H

#include "peers/peers.h"

/* What was learned about the source that was looked at last: most runs have the same as the one before. */
struct vv_shared_note {
    int is_known;
    uint32_t source;
    int is_shared_pack; /* it has fewer writers than ranks */
};
/* Make the note one of this source, and tell the peers if it is spread. */
int vv_learn_shared_pack(struct vv_shared_note *note, struct vv_view *view, struct vv_peers *peers, uint32_t source,
                         struct varve_error *error);
/* The same for all sources that the regions of this rank are in. is_any_out: is any of them spread? */
int vv_find_shared_packs(struct vv_view *view, struct vv_peers *peers, uint32_t rank, int *is_any_out,
                         struct varve_error *error);

#endif
