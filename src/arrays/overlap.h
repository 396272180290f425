/* Which elements of a global array two parts of it have in common, and where these lie in the memory of each.
 *
 * A part is what one rank has: in each dimension some indices of the global array, ascending. They follow each other,
 * or come in blocks of equal length at equal distances, as block-cyclic layouts have them. */
#ifndef VV_OVERLAP_H
#define VV_OVERLAP_H

#include "base/array.h"
#include "format/manifest.h"

struct vv_part_dim {
    uint64_t local; /* elements here */
    uint64_t first; /* global index of the first */
    uint64_t block; /* elements that follow each other; the last block may be shorter */
    uint64_t every; /* from the start of a block to that of the next; at least block */
};
struct vv_part {
    uint32_t element; /* bytes */
    unsigned dims;
    struct vv_part_dim dim[VV_DIMS_MAX];
};

/* Bytes that lie together on both sides. */
struct vv_stretch {
    uint64_t from, to; /* where they begin there and here */
    uint64_t length;
};

/* Elements of one dimension that follow each other on both sides. */
struct vv_overlap_dim {
    uint64_t from, to, length;
    uint64_t at;                 /* of these, the one that is dealt with */
    uint64_t from_step, to_step; /* bytes between neighbours */
};
struct vv_overlap {
    const struct vv_part *there, *here;
    unsigned dims;  /* those behind it lie together on both sides */
    uint64_t piece; /* bytes of one element of the last of these */
    int is_at_end;
    struct vv_overlap_dim dim[VV_DIMS_MAX];
};

/* Of a block of an array; of a list of so many bytes. */
void vv_part_of_array(const struct varve_array *array, struct vv_part *out);
void vv_part_of_bytes(uint64_t bytes, struct vv_part *out);
uint64_t vv_part_elements(const struct vv_part *part);
/* The global index of one of its elements. */
uint64_t vv_part_index(const struct vv_part_dim *dim, uint64_t local);
/* Behind the last index it has in this dimension, which it has some of. */
uint64_t vv_part_end(const struct vv_part_dim *dim);
/* Have they an index in common? */
int vv_part_dims_meet(const struct vv_part_dim *a, const struct vv_part_dim *b);
/* Does it have this index? *change: the next one for which the answer is another, or UINT64_MAX. */
int vv_part_has(const struct vv_part_dim *dim, uint64_t index, uint64_t *change);
/* 1 if two of them have an element in common, and which two; 0 if not; -ENOMEM; -E2BIG if it would take too long: they
 * are many, and no grid or cuts through all of them, not even in a period, keep them apart. */
int vv_parts_meet(const struct vv_part *const *parts, size_t count, size_t *first, size_t *second);

/* 1 if they have an element in common: walk it then. Both parts have the same element and dimensions, and live as long
 * as the overlap. */
int vv_overlap_begin(struct vv_overlap *overlap, const struct vv_part *there, const struct vv_part *here);
/* 1 and the next stretch, ascending in `from`; 0 at the end. */
int vv_overlap_next(struct vv_overlap *overlap, struct vv_stretch *out);
/* How many elements they have in common. */
uint64_t vv_overlap_count(const struct vv_part *there, const struct vv_part *here);

#endif
