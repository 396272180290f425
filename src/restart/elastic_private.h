/* A restart with other parts than were stored: what elastic.c puts together, elastic_lists.c adds up and
 * elastic_match.c compares. */
#ifndef VV_ELASTIC_PRIVATE_H
#define VV_ELASTIC_PRIVATE_H

#include "arrays/once.h"
#include "base/array.h"
#include "restart/given.h"
#include "restart/stored_names.h"

/* Nearly every block may be lent, not only some as in other restarts: with few slots ranks that are once apart stay so.
 */
#define VV_LENT_MORE 3u

/* A protected region, and the elements it wants. */
struct vv_wanted {
    struct vv_region *region;
    enum varve_distribution how;
    struct vv_part part;
    uint64_t found;           /* elements */
    uint64_t stored;          /* elements of an array: of all ranks, as often as they are there */
    uint64_t joined, total;   /* of a list: what was seen of it, and what all ranks want of it */
    struct vv_hash128 digest; /* replicated: of the first that was seen */
    uint32_t first_owner;     /* that it was seen on */
    int is_seen;              /* some rank has stored it */
    int must_be_stored;       /* by this rank */
    int is_unsaid;            /* it is not said what becomes of it: it may not be stored at all */
};

/* A stored region that has elements of it. */
struct vv_stored_part {
    uint32_t owner;
    uint32_t wanted;
    uint64_t number;
    struct vv_part part;
    enum vv_sharing sharing;  /* may other ranks want some of it, too? */
    int is_whole;             /* all of it becomes all of the region */
    int is_again;             /* a rank before has stored the same elements, and the same bits */
    struct vv_hash128 digest; /* of the whole region */
};

/* A region that is part of a list. */
struct vv_list {
    struct vv_region *region;
    uint64_t end, total; /* of what is wanted: by the ranks up to this one, and by all */
};

/* A rank whose description is to be read, for the sake of a region; of a list, where its part is. */
struct vv_owner {
    uint32_t owner, wanted;
    uint64_t first, rows;
};

struct vv_elastic {
    struct vv_restart_context *context;
    const struct vv_restart_options *options;
    uint32_t generation;
    uint64_t version;
    struct vv_peers *peers;
    struct vv_view *view;
    struct vv_history history;
    int has_same_replicas; /* all ranks have declared the same regions as replicated */
    struct vv_list *lists; /* ascending names */
    uint64_t *list_sums;   /* while they are added up */
    size_t list_count;
    struct vv_wanted *wanted; /* by slots of the regions; those that are empty have no region */
    size_t wanted_count;
    struct vv_owner *owners; /* ascending; none: all ranks are looked at */
    size_t owner_count, owner_capacity;
    struct vv_stored_part *parts; /* ascending owners, then numbers */
    size_t part_count, part_capacity;
    uint64_t bytes;          /* that will be read */
    uint64_t reach;          /* bytes of the stored regions that these are in */
    uint64_t wanted_blocks;  /* bytes of this rank's blocks of arrays */
    int is_under_replicated; /* something is there fewer times than it should be */
    int is_asking;           /* some rank asks the program for memory; then there are: */
    struct vv_stored_names names;
    uint64_t *protected_bytes; /* by all ranks: of each name with its stored rows, then of each without a shape */
    struct vv_given given;
};

/* Does it have dimensions that give its size? What was only described may not: then it is stored as bytes, too. */
static inline int vv_is_array(const struct vv_region *region) {
    return region->array && region->array->dims > 0 && vv_array_is_of(region->array, region->size);
}

/* Of a list: its elements, or bytes. */
static inline uint64_t vv_list_count(const struct vv_region *region) {
    return vv_is_array(region) ? region->array->dim[0].local : region->size;
}

/* The view, if it is not open yet. */
static inline int vv_elastic_open(struct vv_elastic *elastic, struct vv_store *store, struct varve_error *error) {
    return elastic->view ? 0
                         : vv_open_named(elastic->context->job, store, elastic->generation, elastic->version,
                                         &elastic->view, error);
}

/* Shall it be filled? */
static inline int vv_is_region_asked(const struct vv_elastic *elastic, const struct vv_region *region) {
    return region->name && vv_is_asked(elastic->options, region->name);
}

/* ---- elastic.c ---- */
/* Until all ranks know that what they want is stored; elastic has the candidate, which is named, and the peers of a
 * restart that has found other parts, which are its own from then on; the rest is zeros. Nothing is written.
 * Collective; the same code on all ranks. */
int vv_elastic_prepare(struct vv_elastic *elastic, struct varve_error *error);
/* Read it. Collective; returns the code of this rank, for the caller to agree upon. */
int vv_elastic_read(struct vv_elastic *elastic, struct varve_error *error);
/* rc: has this rank read it? If all have, it is from now on what the job goes on from. Collective; the same code on all
 * ranks. */
int vv_elastic_take(struct vv_elastic *elastic, int rc, struct varve_error *error);
/* rc: the job goes on from it, or why not. Not collective. */
void vv_elastic_clear(struct vv_elastic *elastic, int rc);

/* ---- elastic_ask.c: ask the program for memory, if it wants to be asked. Nothing is written. Collective. ---- */
int vv_elastic_ask(struct vv_elastic *elastic, struct varve_error *error);

/* ---- elastic_lists.c: how much of each list do the ranks before this one want? Collective. ---- */
int vv_elastic_lists(struct vv_elastic *elastic, struct varve_error *error);

/* Of a region that is VARVE_JOINED. */
const struct vv_list *vv_elastic_list(const struct vv_elastic *elastic, const char *name);

/* ---- elastic_index.c: whose descriptions are to be read? 1 and elastic->owners, or 0: those of all ranks. ---- */
int vv_elastic_owners(struct vv_elastic *elastic, struct varve_error *error);
/* NULL: the index does not say that this rank has some of it. */
const struct vv_owner *vv_elastic_owner(const struct vv_elastic *elastic, uint32_t owner, uint32_t wanted);

/* Regions that this rank protects and has not stored: by slots, 1 or 0. */
struct vv_missing {
    const struct vv_regions *regions;
    const uint8_t *is_missing;
};
/* Has another rank some of one of them, or the same? 1, or 0; 1 too if that cannot be told, as all descriptions tell
 * it. */
int vv_elastic_may_have(struct vv_view *view, const struct vv_missing *missing);

/* ---- elastic_match.c: which stored parts have what this rank wants. VARVE_MISMATCH unless all of it is there, once.
 * Nothing is written; the view is open. ---- */
int vv_elastic_match(struct vv_elastic *elastic, struct varve_error *error);

#endif
