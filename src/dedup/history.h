/* What the last committed checkpoint held: per region the ids of its granules and the origins of its bytes, and the
 * attempts they come from.
 *
 * History changes only when a checkpoint has been committed: a save collects what will be different in `pending` fields
 * and then either accepts or drops them, so that after a failed checkpoint nothing is missing from the next. */
#ifndef VV_HISTORY_H
#define VV_HISTORY_H

#include "base/array.h"
#include "base/content_id.h"
#include "dedup/fine.h"
#include "dedup/fine_index.h"
#include "dedup/fine_sample.h"
#include "dedup/origins.h"
#include "dedup/table.h"

/* An attempt that stored bytes we may refer to. */
struct vv_source {
    uint32_t generation;
    uint32_t attempt;
    uint64_t version;
    struct vv_hash128 writers_digest;
    uint64_t live_bytes; /* of ours that it still holds, after the last commit */
    uint64_t lost_bytes; /* of ours that changed since the checkpoint before, or since the one before that: the fewer */
    uint64_t lost_last;  /* since the checkpoint before */
    uint64_t own_bytes;  /* of these, what this rank has stored there itself */
    uint64_t raw_bytes;  /* that this rank stored there in all; 0 when unknown */
    int is_over;         /* nobody in the job needs it, and never will */
};

/* A change of one granule, waiting for the commit. */
struct vv_new_id {
    uint64_t index;
    struct vv_hash128 id;
};

struct vv_past {
    uint64_t number; /* region number */
    char *name;
    uint64_t length;
    uint64_t address; /* in our layout */
    uint64_t slot;    /* bytes reserved there */
    struct vv_hash128 digest;
    struct vv_hash128 *ids; /* one per granule, zero for zeros; pages cost nothing until touched */
    uint64_t ids_capacity;  /* granules */
    int has_no_ids;         /* too large for ids to be kept */
    struct vv_origins origins;
    struct vv_array *array;        /* what it holds, as stored; NULL: bytes */
    uint8_t distribution;          /* enum varve_distribution, as stored */
    uint32_t fine;                 /* bytes of the chunks in which it is looked at; 0: granules only */
    uint32_t fine_sampled;         /* what samples say about that */
    struct vv_fine_sample *sample; /* NULL: there is none */
    struct vv_fine_mark *marks;    /* of its fine chunks (dedup/fine.h); NULL: there are none */
    uint64_t marks_capacity;
    uint32_t marks_chunk;
    int are_marks_pending; /* they are those of a save that is under way, or has failed */
    uint64_t variable;     /* the same for regions that hold the same variable; 0: not yet known */

    /* the save that is under way: */
    int is_new;   /* no committed checkpoint holds it */
    int is_gone;  /* not protected any more */
    int is_moved; /* has another address than before */
    struct vv_array *pending_array;
    uint8_t pending_distribution;
    int is_retold; /* what it holds is said in other words than before */
    int pending_no_ids;
    uint64_t pending_length;
    uint64_t pending_address;
    uint64_t pending_slot;
    struct vv_hash128 pending_digest;
    struct vv_new_id *new_ids;
    size_t new_count, new_capacity;
    struct vv_origins changed; /* what differs */
    struct vv_origins merged;  /* origins with it applied; only if anything differs */
};

struct vv_history {
    struct vv_past *list; /* ascending numbers */
    size_t count, capacity;
    struct vv_source *sources;
    uint8_t *is_alive; /* per source: may be referred to */
    uint32_t source_count, source_capacity;
    struct vv_table table;
    struct vv_fine_index seen; /* fine chunks */
    struct vv_fine_set met;    /* of the samples */
    uint64_t layout_end;
};

void vv_history_clear(struct vv_history *history);
/* The past of a region number, or NULL. */
struct vv_past *vv_history_find(struct vv_history *history, uint64_t number);
/* A new one at the end; numbers ascend. NULL: no memory. */
struct vv_past *vv_history_add(struct vv_history *history, uint64_t number, const char *name);
/* A slot for an attempt, alive. Returns it or -ENOMEM. */
int64_t vv_history_source(struct vv_history *history, const struct vv_source *source);
/* Room for the ids of `granules`; the ones beyond the old room are zero. 0 or -ENOMEM. */
int vv_past_reserve_ids(struct vv_past *past, uint64_t granules);
/* Marks for so many bytes in chunks of this size, those of the last committed checkpoint as far as they are known.
 * Without memory there are none. */
void vv_past_marks(struct vv_past *past, uint64_t size, uint32_t chunk);
void vv_past_drop_marks(struct vv_past *past);
int vv_past_new_id(struct vv_past *past, uint64_t index, struct vv_hash128 id);
/* The origins as they will be after the commit; after vv_history_merge. */
const struct vv_origins *vv_past_after(const struct vv_past *past);
/* Put `changed` in order and build `merged` for every past that differs; 0 or -ENOMEM. */
int vv_history_merge(struct vv_history *history);
/* What each source will hold after the commit: live_out has source_count entries. */
void vv_history_live(const struct vv_history *history, uint64_t *live_out);
/* The same of what this rank has stored itself, into own_bytes of the sources. */
void vv_history_own(struct vv_history *history, uint32_t rank);
/* The save was committed: pending becomes past; sources nobody refers to die. live: from vv_history_live. */
void vv_history_accept(struct vv_history *history, const uint64_t *live);
/* The save failed: pending is dropped, and the source it was writing dies with all its ids in the table. */
void vv_history_drop(struct vv_history *history, uint32_t source);

#endif
