/* Content ids with XXH3-128. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/bytes.h"
#include "chunk/id.h"

struct vv_hash128 vv_id(uint64_t seed, const void *data, size_t size) {
    XXH128_hash_t hash = XXH3_128bits_withSeed(data, size, seed);
    struct vv_hash128 id = {hash.low64, hash.high64};
    return id;
}

int vv_is_zero(const void *data, size_t size) {
    const uint8_t *bytes = data;
    /* Most chunks show within the first bytes that they are not zero. */
    while (size > 0 && ((uintptr_t)bytes & 7) != 0) {
        if (*bytes++ != 0)
            return 0;
        size--;
    }
    while (size >= 64) {
        uint64_t words[8];
        memcpy(words, bytes, sizeof words);
        if ((words[0] | words[1] | words[2] | words[3] | words[4] | words[5] | words[6] | words[7]) != 0)
            return 0;
        bytes += 64;
        size -= 64;
    }
    while (size > 0) {
        if (*bytes++ != 0)
            return 0;
        size--;
    }
    return 1;
}

struct vv_hash128 vv_digest_term(uint64_t index, struct vv_hash128 id) {
    uint8_t bytes[24];
    vv_put64(bytes, index);
    vv_hash128_put(bytes + 8, id);
    XXH128_hash_t hash = XXH3_128bits(bytes, sizeof bytes);
    struct vv_hash128 term = {hash.low64, hash.high64};
    return term;
}
