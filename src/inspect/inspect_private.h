/* What the files of the inspection API share. */
#ifndef VV_INSPECT_PRIVATE_H
#define VV_INSPECT_PRIVATE_H

#include <varve/varve_inspect.h>

#include "arrays/global_array.h"
#include "base/settings.h"
#include "check/verify.h"
#include "lifecycle/commit.h"
#include "storage/storage.h"

/* Where varve_store_range or varve_store_read looked last: who asks for one region after the other finds the next one
 * at once. */
struct vv_ranged {
    struct vv_view *view; /* NULL: nowhere */
    struct vv_recipe *recipe;
    uint32_t rank;
    uint32_t generation;
    int64_t version;
    char name[VV_NAME_MAX + 1];
};

struct varve_store {
    struct vv_store *store;
    struct vv_pool *pool;
    struct vv_log log;
    struct vv_settings settings;
    char *address;
    int is_source; /* of a copy: encrypt is not for it */
    varve_progress_fn progress;
    void *progress_arg;
    /* What varve_store_show gave out last: */
    char shown_name[VV_NAME_MAX + 1];
    char shown_program[VV_TEXT_CAPACITY];
    struct vv_ranged ranged;
};

/* Fill in which's generation and version, and open the view of it. */
int vv_inspect_open_view(struct varve_store *store, struct varve_which *which, struct vv_view **out,
                         struct varve_error *error);
/* Of a node-local store: is the data of this rank not on this node? See vv_owner_is_elsewhere. residents begin as NULL,
 * serve further calls about the same name, and are destroyed by the caller. */
int vv_inspect_is_elsewhere(struct varve_store *store, const struct varve_which *which, struct vv_view *view,
                            uint32_t rank, struct vv_residents **residents, struct varve_error *error);
/* The same, and the rank must be there, on this node. */
int vv_inspect_open_rank(struct varve_store *store, struct varve_which *which, uint32_t rank, struct vv_view **out,
                         struct vv_residents **residents, struct varve_error *error);
/* Reading an array, or a slice of it, in slabs of at most 64 MiB: view and global are set by the caller. */
struct vv_array_reading {
    struct vv_view *view;
    struct vv_scatter *scatter;
    const struct vv_global_array *global;
    struct vv_part slice; /* what is wanted */
    unsigned dim;         /* the slice is given out in slabs: single indices of the dimensions before this one, */
    uint64_t rows;        /* and so many of this one */
    uint64_t inner;       /* bytes of one of these */
    uint8_t *window;      /* the slab that was read */
};
/* Choose the slice, or all, and check that every element of it is there once. */
int vv_array_reading_choose(struct vv_array_reading *reading, const struct varve_slice *slice,
                            struct varve_error *error);
int vv_array_reading_open(struct vv_array_reading *reading, struct varve_store *store, const struct varve_slice *slice,
                          struct varve_error *error);
void vv_array_reading_close(struct vv_array_reading *reading); /* whether it was opened or not */
/* The bytes of all slabs together, and the first one, if that is not 0. */
uint64_t vv_array_slab_first(const struct vv_array_reading *reading, struct vv_part *slab);
int vv_array_slab_read(struct vv_array_reading *reading, const struct vv_part *slab, struct varve_error *error);
/* To the next slab; 0 when it was the last. */
int vv_array_slab_next(const struct vv_array_reading *reading, struct vv_part *slab);
/* All arrays, or the one of this name, of the ranks that are on this node. */
int vv_inspect_arrays(struct varve_store *store, const struct varve_which *which, struct vv_view *view,
                      const char *name, struct vv_global_arrays *out, struct varve_error *error);
/* What was read from the storage since the first time that this was asked. */
int vv_inspect_read_so_far(struct varve_store *store, uint64_t *out, struct varve_error *error);
/* How a block is compressed, as the setting `codec` names it. */
const char *vv_inspect_codec(const struct vv_block *block);
/* Open what this rank has of a checkpoint, unless it is open already, and find a region in it: those behind the one
 * that was found last are found on the way. Out of the store while in use: a function that is told may ask for others.
 */
int vv_inspect_ranged_take(struct varve_store *store, const struct varve_which *which, uint32_t rank,
                           const char *region, struct vv_ranged *ranged, struct vv_recipe_region *found,
                           struct varve_error *error);
/* Back, when all of the region was looked at; after a failure (rc) it is closed. */
void vv_inspect_ranged_give(struct varve_store *store, struct vv_ranged *ranged, int rc);
/* Forget what they looked at last: the store is to be changed, or closed. */
void vv_inspect_ranged_clear(struct varve_store *store);
/* Ranks that a command has to leave out; they come in ascending order. */
struct vv_left_out {
    uint32_t first, last; /* of the run of ranks at hand */
    uint32_t count;
    char text[160];
};
void vv_inspect_leave_out(struct vv_left_out *ranks, uint32_t rank);
/* Warn about them if there are any. */
void vv_inspect_tell_left_out(struct varve_store *store, const struct varve_which *which, struct vv_left_out *ranks);
/* 0, or -EINVAL with a text when the name cannot be one. NULL is allowed. */
int vv_inspect_check_name(const char *name, struct varve_error *error);

struct vv_names {
    char (*list)[VV_NAME_MAX + 1];
    size_t count;
    size_t capacity;
};
/* All names, or only `name` if it is not NULL. Clear with vv_inspect_names_clear. */
int vv_inspect_names(struct varve_store *store, const char *name, struct vv_names *out, struct varve_error *error);
/* VARVE_NO_CHECKPOINT when the store has nothing of this name; NULL stands for all. */
int vv_inspect_require_name(struct varve_store *store, const char *name, struct varve_error *error);
void vv_inspect_names_clear(struct vv_names *names);

#endif
