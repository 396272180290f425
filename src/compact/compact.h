/* Compacting: the checkpoints of a name at rest take what they need, and no more. */
#ifndef VV_COMPACT_H
#define VV_COMPACT_H

#include "base/settings.h"
#include "base/thread.h"
#include "lifecycle/commit.h"

struct vv_compact_options {
    const struct vv_settings *settings; /* how blocks are made; codec=auto means the smallest here */
    struct vv_pool *pool;               /* reads */
    uint64_t keep;                      /* only the newest so many, the others are forgotten; 0: all */
    /* Told before a checkpoint is moved (0) or forgotten (1); may be NULL. */
    void (*report)(void *arg, int is_forgotten, uint32_t generation, uint64_t version);
    /* Bytes of regions copied and read back; nonzero stops with -EINTR. May be NULL. */
    int (*progress)(void *arg, uint64_t done, uint64_t total);
    void *arg;
};
struct vv_compact_result {
    uint64_t moved; /* checkpoints; 0: they were packed well enough */
    uint64_t forgotten;
    uint64_t written; /* bytes in new packs */
    uint64_t before;  /* bytes in packs of the name, waste included */
    uint64_t after;
    uint64_t live; /* of what is left, as vv_usage_count has it */
};

/* Write each checkpoint of the name that is kept once more, newest first, into the generation that is claimed for it
 * and under its version, with all live data that no newer one has; read it back; commit it. Then forget the originals
 * and what is not kept, and prune. Whatever it is killed at, every checkpoint is there, some perhaps twice, and it can
 * be begun again. VARVE_BUSY while a session may be alive; VARVE_UNSUPPORTED for node-local stores, for data with
 * copies, and where two lives that saved the same versions are kept; VARVE_CORRUPT when a checkpoint is damaged: then
 * all stay as they are. out is filled in any case. */
int vv_compact(struct vv_store *store, const char *name, const struct vv_compact_options *options,
               struct vv_compact_result *out, struct varve_error *error);

#endif
