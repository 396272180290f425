/* Things with ids, in the order of the ids. */
#ifndef VV_SORT_H
#define VV_SORT_H

#include "base/hash.h"

static inline int vv_hash128_compare(struct vv_hash128 a, struct vv_hash128 b) {
    if (a.low != b.low)
        return a.low < b.low ? -1 : 1;
    return (a.high > b.high) - (a.high < b.high);
}

/* order becomes the indexes of `count` things (at most UINT32_MAX / 2), ascending by id (low, then high); those with
 * the same id stay in their order. first: the id of the first thing; the next is `stride` bytes further. 0 or -ENOMEM.
 */
int vv_order_by_id(const struct vv_hash128 *first, size_t stride, size_t count, uint32_t *order);

#endif
