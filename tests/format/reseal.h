/* Make the sums and digests of changed bytes right again, so that a parser looks at the fields and not only at them. */
#ifndef TEST_RESEAL_H
#define TEST_RESEAL_H

#include "format/pack.h"

#include <string.h>

/* The head's own sum. */
static inline void reseal_head(uint8_t *data, size_t size) {
    if (size >= VV_HEAD_SIZE)
        vv_put64(data + 88, vv_sum64(data, 88));
}

/* The tail of a small object and its head's sum. */
static inline void reseal_small(uint8_t *data, size_t size) {
    reseal_head(data, size);
    if (size < VV_HEAD_SIZE + VV_TAIL_SIZE)
        return;
    vv_put64(data + size - VV_TAIL_SIZE, size);
    vv_hash128_put(data + size - 16, vv_digest(data, size - 16));
}

/* The end behind a footer: size bytes are both, offset is where the footer begins in its object. */
static inline void reseal_footer(uint8_t *data, size_t size, uint64_t offset) {
    if (size < VV_END_SIZE)
        return;
    uint8_t *end = data + size - VV_END_SIZE;
    vv_put64(end, offset);
    vv_put32(end + 8, (uint32_t)(size - VV_END_SIZE));
    memcpy(end + 12, "VEND", 4);
    vv_hash128_put(end + 16, vv_digest(data, size - VV_END_SIZE));
}

/* A whole pack whose section list has `sections` entries at the end of its footer. */
static inline void reseal_pack(uint8_t *data, size_t size, uint32_t sections) {
    uint64_t footer = vv_get64(data + size - VV_END_SIZE);
    uint8_t *at = data + size - VV_END_SIZE - (size_t)sections * 40;
    reseal_head(data, size);
    for (uint32_t i = 0; i < sections; i++, at += 40) {
        uint64_t offset = vv_get64(at + 8), length = vv_get64(at + 16);
        if (offset <= footer && length <= footer - offset)
            vv_hash128_put(at + 24, vv_digest(data + offset, length));
    }
    reseal_footer(data + footer, size - footer, footer);
}

#endif
