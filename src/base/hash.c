#include "base/hash.h"
#include "base/alloc.h"
#include "base/bytes.h"

#include <errno.h>

#define WIDE vv_hash_plain
#include "base/hash_wide_code.h"

/* What the vector code inside asks for. */
#define STATE_ALIGNMENT 64

struct vv_digest_state {
    XXH3_state_t xxh;
};

uint64_t vv_sum64(const void *data, size_t size) {
    return vv_hash_widest()->sum64(data, size);
}

struct vv_hash128 vv_digest(const void *data, size_t size) {
    return vv_hash_widest()->digest(data, size);
}

int vv_digest_begin(struct vv_digest_state **out) {
    struct vv_digest_state *state = vv_aligned(sizeof *state, STATE_ALIGNMENT);
    if (!state)
        return -ENOMEM;
    XXH3_INITSTATE(&state->xxh);
    XXH3_128bits_reset(&state->xxh);
    *out = state;
    return 0;
}

void vv_digest_add(struct vv_digest_state *state, const void *data, size_t size) {
    if (size)
        vv_hash_widest()->add(&state->xxh, data, size);
}

struct vv_hash128 vv_digest_end(struct vv_digest_state *state) {
    struct vv_hash128 hash = from_xxh(XXH3_128bits_digest(&state->xxh));
    vv_digest_drop(state);
    return hash;
}

void vv_digest_drop(struct vv_digest_state *state) {
    vv_free(state);
}

void vv_hash128_put(void *out, struct vv_hash128 hash) {
    vv_put64(out, hash.low);
    vv_put64((uint8_t *)out + 8, hash.high);
}

struct vv_hash128 vv_hash128_get(const void *in) {
    return (struct vv_hash128){.low = vv_get64(in), .high = vv_get64((const uint8_t *)in + 8)};
}
