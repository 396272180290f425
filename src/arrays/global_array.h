/* Arrays of the whole job, put together from the blocks that its ranks hold. */
#ifndef VV_GLOBAL_ARRAY_H
#define VV_GLOBAL_ARRAY_H

#include "arrays/overlap.h"
#include "read/view.h"

struct vv_array_block {
    uint32_t owner;
    int is_again; /* a block before it has the same elements, and the same bits */
    struct vv_hash128 digest;
};

struct vv_global_array {
    char name[VV_REGION_NAME_MAX + 1];
    struct varve_array array;      /* all of it: each dimension from 0 on */
    struct vv_array_block *blocks; /* ascending owners */
    size_t count, capacity;
    struct vv_part_dim *boxes; /* of each block, for each dimension */
    size_t box_capacity;
    size_t wholes;    /* blocks that are all of an array, as they say */
    size_t joined;    /* blocks that are parts of a list */
    uint32_t uneven;  /* 1 + who has stored a block of an array of another size or type than the first; 0: nobody */
    int is_private;   /* each rank has an array of its own under this name */
    int is_ambiguous; /* some elements are stored more than once, and not alike; or ranks say different things of it */
    int has_others;   /* some ranks are on other nodes */
    uint64_t missing; /* elements that nobody has stored; not told of what is private or ambiguous */
    char *problem;    /* of what is ambiguous, or misses something; else NULL */
};

struct vv_global_arrays {
    struct vv_global_array *list; /* in the order in which they were met */
    size_t count, capacity;
    uint32_t *index; /* by hash of the name: 1 + a number in the list; 0: nothing */
    size_t index_size;
};

#define VV_ARRAYS_MOST 1000000u

/* Add what this owner holds: of all arrays, or of the one of this name. -E2BIG beyond VV_ARRAYS_MOST of them. */
int vv_global_arrays_add(struct vv_global_arrays *arrays, struct vv_view *view, uint32_t owner, const char *name,
                         struct varve_error *error);
/* Add one region that has dimensions. Owners ascend. Of the region, name, length, shape and digest count. */
int vv_global_arrays_describe(struct vv_global_arrays *arrays, uint32_t owner, const struct vv_recipe_region *region,
                              struct varve_error *error);
/* All owners were added: is every element there, once? has_others: some owners could not be added, as they are on other
 * nodes. 0, or -ENOMEM. */
int vv_global_arrays_check(struct vv_global_arrays *arrays, int has_others, struct varve_error *error);
/* NULL if there is none of this name. */
const struct vv_global_array *vv_global_arrays_find(const struct vv_global_arrays *arrays, const char *name);
/* Which elements a block has. */
void vv_array_block_part(const struct vv_global_array *global, size_t block, struct vv_part *out);
void vv_global_arrays_clear(struct vv_global_arrays *arrays);

#endif
