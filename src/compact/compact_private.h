/* What compact.c (which checkpoints, in which order) and compact_write.c (the pack of one) share. */
#ifndef VV_COMPACT_PRIVATE_H
#define VV_COMPACT_PRIVATE_H

#include "compact/compact.h"
#include "read/place_map.h"
#include "read/view.h"
#include "write/offline.h"

/* The copy of a checkpoint. */
struct vv_compacted {
    struct vv_dependency dependency;
    uint32_t index; /* its dependency index in the one at hand */
};

struct vv_attempts_list {
    struct vv_attempt *list;
    size_t count, capacity;
};

struct vv_compact {
    struct vv_store *store;
    const char *name;
    const struct vv_compact_options *options;
    struct vv_compact_result *result;
    struct varve_error *error;
    struct vv_lease *lease;
    struct vv_attempts_list kept;    /* newest first */
    uint64_t counted;                /* of these, by options->keep; the others are pinned */
    struct vv_attempts_list dropped; /* newest first: they are forgotten in the end, without being moved; */
    struct vv_attempts_list moved;   /* and so are these, of which there is a copy. Newest first. */
    struct vv_compacted *done;       /* the copies, oldest first */
    size_t done_count;
    struct vv_attempt given_up; /* a copy of which it is not known whether it became a checkpoint; generation 0: none */
    int is_forgetting;          /* originals */
    struct vv_place_map map;    /* from where bytes were to where they are */
    struct vv_offline offline;
    uint64_t progress, total;
};

/* So many bytes more; -EINTR when it shall stop. */
int vv_compact_progress(struct vv_compact *compact, uint64_t bytes);
/* Write and seal the pack of this attempt: all that the view's checkpoint refers to and the map does not have, and a
 * manifest for each owner. */
int vv_compact_write(struct vv_compact *compact, struct vv_view *view, const struct vv_attempt *attempt);

#endif
