/* The functions of hash_wide.h, for the vectors of the file that includes this. WIDE: the name of their table.
 * LEAVE_WIDE(): what a processor wants to be told before other code goes on, if anything. */
#include "base/hash_wide.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static inline struct vv_hash128 from_xxh(XXH128_hash_t hash) {
    return (struct vv_hash128){.low = hash.low64, .high = hash.high64};
}

#ifndef LEAVE_WIDE
#define LEAVE_WIDE() (void)0
#endif

static uint64_t wide_sum64(const void *data, size_t size) {
    uint64_t sum = XXH3_64bits(data, size);
    LEAVE_WIDE();
    return sum;
}

static struct vv_hash128 wide_digest(const void *data, size_t size) {
    XXH128_hash_t hash = XXH3_128bits(data, size);
    LEAVE_WIDE();
    return from_xxh(hash);
}

static struct vv_hash128 wide_id(uint64_t seed, const void *data, size_t size) {
    XXH128_hash_t hash = XXH3_128bits_withSeed(data, size, seed);
    LEAVE_WIDE();
    return from_xxh(hash);
}

static void wide_add(void *state, const void *data, size_t size) {
    XXH3_128bits_update(state, data, size);
    LEAVE_WIDE();
}

const struct vv_hash_wide WIDE = {wide_sum64, wide_digest, wide_id, wide_add};
