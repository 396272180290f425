/* The codecs none, lz4 and zstd, and the choice among them. */
#include <errno.h>
#include <lz4.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "encode/codec.h"

static int64_t none_encode(const void *data, size_t size, void *out, int level) {
    (void)data, (void)size, (void)out, (void)level;
    return 0; /* never smaller */
}

static int none_decode(const void *stored, size_t stored_size, void *out, size_t size) {
    if (stored_size != size)
        return VARVE_CORRUPT;
    memcpy(out, stored, size);
    return 0;
}

static int64_t lz4_encode(const void *data, size_t size, void *out, int level) {
    (void)level;
    if (size > LZ4_MAX_INPUT_SIZE)
        return 0;
    /* One byte less than the input: what does not get smaller is not worth decoding. */
    int got = LZ4_compress_default(data, out, (int)size, (int)size - 1);
    return got > 0 ? got : 0;
}

static int lz4_decode(const void *stored, size_t stored_size, void *out, size_t size) {
    int got = LZ4_decompress_safe(stored, out, (int)stored_size, (int)size);
    return got >= 0 && (size_t)got == size ? 0 : VARVE_CORRUPT;
}

static int64_t zstd_encode(const void *data, size_t size, void *out, int level) {
    size_t got = ZSTD_compress(out, size - 1, data, size, level);
    return ZSTD_isError(got) ? 0 : (int64_t)got;
}

static int zstd_decode(const void *stored, size_t stored_size, void *out, size_t size) {
    size_t got = ZSTD_decompress(out, size, stored, stored_size);
    if (ZSTD_isError(got))
        return ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation ? -ENOMEM : VARVE_CORRUPT;
    return got == size ? 0 : VARVE_CORRUPT;
}

static const struct vv_codec_ops codecs[] = {
    {.name = "none", .number = 0, .encode = none_encode, .decode = none_decode},
    {.name = "lz4", .number = 1, .encode = lz4_encode, .decode = lz4_decode},
    {.name = "zstd", .number = 2, .encode = zstd_encode, .decode = zstd_decode},
};

const struct vv_codec_ops *vv_codec_by_number(uint8_t number) {
    return number < sizeof codecs / sizeof codecs[0] ? &codecs[number] : NULL;
}

const struct vv_codec_ops *vv_codec_by_name(const char *name) {
    for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++)
        if (strcmp(codecs[i].name, name) == 0)
            return &codecs[i];
    return NULL;
}

/* Seconds until `size` bytes are on storage when this codec is used, as the sample suggests. */
static double cost(const struct vv_codec_ops *codec, const void *sample, size_t size, void *scratch,
                   double storage_bytes_per_second, int level) {
    uint64_t begin = vv_clock_ns();
    int64_t stored = codec->encode(sample, size, scratch, level);
    double seconds = (double)(vv_clock_ns() - begin) * 1e-9;
    if (stored <= 0)
        stored = (int64_t)size;
    return seconds + (double)stored / storage_bytes_per_second;
}

const struct vv_codec_ops *vv_codec_choose(const void *sample, size_t size, double storage_bytes_per_second,
                                           int level) {
    const struct vv_codec_ops *best = &codecs[0];
    double best_cost = (double)size / storage_bytes_per_second;
    void *scratch = vv_malloc(size);
    if (!scratch || size < 64) {
        vv_free(scratch);
        return best;
    }
    for (size_t i = 1; i < sizeof codecs / sizeof codecs[0]; i++) {
        double c = cost(&codecs[i], sample, size, scratch, storage_bytes_per_second, level);
        if (c < best_cost) {
            best = &codecs[i];
            best_cost = c;
        }
    }
    vv_free(scratch);
    return best;
}
