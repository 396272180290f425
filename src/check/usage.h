/* What the checkpoints of a name need, and what they keep alive. */
#ifndef VV_USAGE_H
#define VV_USAGE_H

#include "lifecycle/commit.h"

struct vv_usage {
    uint64_t checkpoints;
    uint64_t attempts;           /* that any of them depends on, their own included */
    uint64_t live_bytes;         /* what their manifests refer to, as stored, and the tables of their own packs */
    uint64_t kept_bytes;         /* all objects of these attempts */
    uint64_t newest_attempts;    /* that the newest checkpoint depends on, its own included */
    uint64_t newest_packs;       /* of these */
    struct vv_prune_result free; /* what prune would remove */
};

struct vv_usage_options {
    int (*progress)(void *arg, uint64_t done,
                    uint64_t total); /* in protected bytes; nonzero stops with -EINTR; or NULL */
    void *arg;
    uint64_t newest; /* only so many checkpoints; 0: all */
};

/* Reads every manifest and the tables of packs, no data. Changes nothing. VARVE_UNSUPPORTED for one of several node-
 * local stores: what others have is not seen. */
int vv_usage_count(struct vv_store *store, const char *name, const struct vv_usage_options *options,
                   struct vv_usage *out, struct varve_error *error);

#endif
