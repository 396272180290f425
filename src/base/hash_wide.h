/* XXH3 with vectors of a certain width, for hash.c and content_id.c alone. Nearly all bytes that are stored or restored
 * pass here, and twice: as content and as part of a block. Vectors of 32 bytes are a third faster than those of 16 on
 * bytes from memory, and nearly twice as fast on bytes from the cache. Those of 64 bytes gain less, and slow the
 * program's own code down on processors that lower their clock for them. */
#ifndef VV_HASH_WIDE_H
#define VV_HASH_WIDE_H

#include "base/hash.h"

struct vv_hash_wide {
    uint64_t (*sum64)(const void *data, size_t size);
    struct vv_hash128 (*digest)(const void *data, size_t size);
    struct vv_hash128 (*id)(uint64_t seed, const void *data, size_t size);
    void (*add)(void *state, const void *data, size_t size); /* of an XXH3_state_t, whatever the width */
};

extern const struct vv_hash_wide vv_hash_plain; /* of what all processors have */
extern const struct vv_hash_wide vv_hash_avx2;  /* only where CMake found that it can be compiled: VARVE_AVX2 */

/* What this processor can. */
static inline const struct vv_hash_wide *vv_hash_widest(void) {
#ifdef VARVE_AVX2
    if (__builtin_cpu_supports("avx2"))
        return &vv_hash_avx2;
#endif
    return &vv_hash_plain;
}

#endif
