/* Lineage: the checkpoint that the next one builds on, and what its history knows. Only lineage.c changes it. */
#ifndef VV_LINEAGE_H
#define VV_LINEAGE_H

#include "dedup/history.h"
#include "read/view.h"

#define VV_DYING 16 /* checkpoints whose dead attempts are counted */

struct vv_lineage {
    struct vv_history history;
    struct vv_attempt parent;         /* the checkpoint our history is of; generation 0: none */
    struct vv_hash128 parent_writers; /* digest of its writers list */
    struct vv_recipe_layers layers;   /* of its manifest; count 0: none */
    struct vv_attempt origin;         /* what the last restart has gone on from; generation 0: there was none */

    int has_saved;          /* in this generation */
    uint64_t next_version;  /* versions of this generation must be at least this */
    uint64_t tried_version; /* the last version tried in this generation */
    uint32_t tries;         /* how often; 0: nothing was tried in this generation */

    int is_continued;    /* no checkpoint since: only the table tells what is stored */
    int is_settled_well; /* the last attempt has become a checkpoint */
    int must_begin_anew; /* what the history refers to may be gone */

    uint64_t *rejected; /* checkpoints that the program has refused: pairs generation, version */
    size_t rejected_count;
    int has_failed_restart; /* the last restart found checkpoints and returned an error; the same on all ranks */

    uint64_t dying[VV_DYING]; /* bytes of attempts that only older kept checkpoints depend on, the latest first */
};

/* This version will be tried; the number of this try. */
void vv_lineage_request(struct vv_lineage *lineage, uint64_t version);
uint32_t vv_lineage_try(struct vv_lineage *lineage);

/* What the history refers to may be gone: the next checkpoint stores everything. */
void vv_lineage_doubt(struct vv_lineage *lineage);
/* Forget the history. */
void vv_lineage_reset(struct vv_lineage *lineage);

/* The attempt was committed: pending becomes past. */
struct vv_committed {
    struct vv_attempt attempt;
    struct vv_hash128 writers_digest;
    const struct vv_recipe_layers *layers;
    const uint64_t *live; /* of its sources, from vv_history_live */
    uint64_t layout_end;
};
void vv_lineage_accept(struct vv_lineage *lineage, const struct vv_committed *committed);
/* It was not. source: its slot in the history. */
void vv_lineage_drop(struct vv_lineage *lineage, uint32_t source);

/* The job continues from another checkpoint, which was read (layers) or not (NULL). The history is taken, and empty
 * afterwards. */
void vv_lineage_replace(struct vv_lineage *lineage, struct vv_view *view, struct vv_history *history,
                        const struct vv_recipe_layers *layers);

/* 0 or -ENOMEM; counts once vv_lineage_reject has followed. */
int vv_lineage_reserve_rejected(struct vv_lineage *lineage);
void vv_lineage_reject(struct vv_lineage *lineage, uint32_t generation, uint64_t version);
int vv_lineage_is_rejected(const struct vv_lineage *lineage, uint32_t generation, uint64_t version);
void vv_lineage_note_restart(struct vv_lineage *lineage, int has_failed);

/* So many bytes die with the next commit. kept: checkpoints that are kept beside the newest, at most VV_DYING. */
void vv_lineage_note_dying(struct vv_lineage *lineage, uint64_t bytes, size_t kept);

void vv_lineage_clear(struct vv_lineage *lineage);

#endif
