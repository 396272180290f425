/* Codecs: make a block smaller, and the reverse. One ops struct per codec, numbered as in docs/format.md 6. */
#ifndef VV_CODEC_H
#define VV_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct vv_codec_ops {
    const char *name;
    uint8_t number; /* on storage */
    /* Encode into out, which has size bytes: gives the encoded size, 0 when it would not be smaller, or a negative error. */
    int64_t (*encode)(const void *data, size_t size, void *out, int level);
    /* Decode stored bytes into exactly size bytes; 0 or VARVE_CORRUPT. Never writes past out + size. */
    int (*decode)(const void *stored, size_t stored_size, void *out, size_t size);
};

const struct vv_codec_ops *vv_codec_by_number(uint8_t number); /* NULL when unknown */
const struct vv_codec_ops *vv_codec_by_name(const char *name);

/* Which codec pays for data like this sample: the cheapest of encoding time plus stored bytes over the storage's speed. */
const struct vv_codec_ops *vv_codec_choose(const void *sample, size_t size, double storage_bytes_per_second, int level);

#endif
