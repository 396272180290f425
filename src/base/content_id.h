/* Content ids: the name of a piece of bytes, and the digest of a region made of its granules' ids (docs/format.md 9).
 */
#ifndef VV_CONTENT_ID_H
#define VV_CONTENT_ID_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

#define VV_GRANULE 4096u /* bytes of a granule, which is what ids are of */

/* The id of some bytes that are not all zero. The all-zero id never comes out: it means "zeros" in tables. */
struct vv_hash128 vv_id(uint64_t seed, const void *data, size_t size);

int vv_is_zero(const void *data, size_t size);

/* The ids of chunks of `chunk` bytes, the last of which may be shorter; zero for zeros. Returns how many there are. */
uint32_t vv_ids(uint64_t seed, const uint8_t *data, size_t size, uint32_t chunk, struct vv_hash128 *ids);

/* What granule `index` with this id adds to its region's digest. */
struct vv_hash128 vv_digest_term(uint64_t index, struct vv_hash128 id);
static inline struct vv_hash128 vv_hash128_add(struct vv_hash128 a, struct vv_hash128 b) {
    struct vv_hash128 sum = {a.low + b.low, a.high + b.high};
    sum.high += sum.low < a.low;
    return sum;
}
static inline struct vv_hash128 vv_hash128_subtract(struct vv_hash128 a, struct vv_hash128 b) {
    struct vv_hash128 rest = {a.low - b.low, a.high - b.high};
    rest.high -= a.low < b.low;
    return rest;
}

#endif
