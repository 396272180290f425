/* Is every element of an array there, once? And which indices are not, in words. */
#ifndef VV_ONCE_H
#define VV_ONCE_H

#include "arrays/overlap.h"
#include "base/hash.h"

/* Indices that follow each other in each dimension. */
struct vv_box {
    unsigned dims;
    uint64_t first[VV_DIMS_MAX], end[VV_DIMS_MAX];
};
#define VV_BOX_TEXT 120
/* As slices of Python: [30:40, 25:50]. What has no room becomes "...". Returns out. */
const char *vv_box_text(const struct vv_box *box, char out[VV_BOX_TEXT]);

/* What a rank has stored of an array. */
struct vv_owned {
    struct vv_part part;
    struct vv_hash128 digest;
    uint32_t owner;
    size_t number; /* of the caller */
    int is_again;  /* one before it has the same elements, and the same bits */
};
struct vv_twice {
    uint32_t owner[2]; /* ascending */
    struct vv_box box; /* some of what both have */
    int is_other;      /* they have the same elements, with other bits; else only some are the same */
};
/* Of equal parts with equal bits the first owner's counts, and the others are marked. Sorts the list. parts has room
 * for all; then it has the *used ones that count and are not empty. 1: *twice is there twice, 0: nothing is; -ENOMEM;
 * -E2BIG as vv_parts_meet. */
int vv_parts_once(struct vv_owned *list, size_t count, const struct vv_part **parts, size_t *used,
                  struct vv_twice *twice);
/* 1 and the first indices of the wanted part that none of these has, which have elements; 0 if there are none;
 * -ENOMEM; -E2BIG after too many looks. Sorts the parts. */
int vv_parts_hole(const struct vv_part *wanted, const struct vv_part **parts, size_t count, struct vv_box *box);

#endif
