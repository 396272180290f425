/* The codecs none, lz4, zstd and both after one another, and what all codecs share.
 *
 * Payloads: lz4 is one block of the LZ4 block format; zstd is one or more zstd frames. lz4-zstd (6): u32 length of an
 * LZ4 block, then zstd frames that decode to just that block. lz4 finds the long repetitions of long runs of zeros and
 * counters quickly, zstd codes what is left. */
#include "encode/codec.h"

#include <errno.h>
#include <lz4.h>
#include <string.h>
#define ZSTD_STATIC_LINKING_ONLY /* for memory of our own */
#include <zstd.h>
#include <zstd_errors.h>

#include "base/alloc.h"
#include "base/bytes.h"

uint8_t *vv_coder_buffer_of(struct vv_coder *coder, enum vv_coder_buffer which, size_t size) {
    if (coder->buffer[which].data && coder->buffer[which].capacity >= size)
        return coder->buffer[which].data;
    vv_free(coder->buffer[which].data);
    coder->buffer[which].capacity = 0;
    coder->buffer[which].data = vv_aligned(size, 64);
    if (coder->buffer[which].data)
        coder->buffer[which].capacity = size;
    return coder->buffer[which].data;
}

int vv_shape_of(uint32_t row, uint8_t element, size_t size, struct vv_shape *out) {
    size_t count = size / element;
    *out = (struct vv_shape){.row = count, .rows = 1};
    if (row == 0)
        return count > 0;
    if (row < 4 || count / 4 < row)
        return 0;
    *out = (struct vv_shape){.row = row, .rows = (count + row - 1) / row};
    return 1;
}

static int64_t none_encode(struct vv_coder *coder, uint8_t element, const struct vv_content *content, const void *data,
                           size_t size, void *out, int level) {
    (void)coder, (void)element, (void)content, (void)data, (void)size, (void)out, (void)level;
    return 0; /* never smaller */
}

static int none_decode(struct vv_coder *coder, uint8_t element, const void *stored, size_t stored_size, void *out,
                       size_t size) {
    (void)coder, (void)element;
    if (stored_size != size)
        return VARVE_CORRUPT;
    memcpy(out, stored, size);
    return 0;
}

static int64_t lz4_encode(struct vv_coder *coder, uint8_t element, const struct vv_content *content, const void *data,
                          size_t size, void *out, int level) {
    (void)coder, (void)element, (void)content, (void)level;
    if (size > LZ4_MAX_INPUT_SIZE)
        return 0;
    /* One byte less than the input: what does not get smaller is not worth decoding. */
    int got = LZ4_compress_default(data, out, (int)size, (int)size - 1);
    return got > 0 ? got : 0;
}

static int lz4_decode(struct vv_coder *coder, uint8_t element, const void *stored, size_t stored_size, void *out,
                      size_t size) {
    (void)coder, (void)element;
    if (stored_size > INT32_MAX || size > LZ4_MAX_INPUT_SIZE)
        return VARVE_CORRUPT;
    int got = LZ4_decompress_safe(stored, out, (int)stored_size, (int)size);
    return got >= 0 && (size_t)got == size ? 0 : VARVE_CORRUPT;
}

/* Memory of zstd is ours: it is much with high levels, shall be gone when it is freed, and is counted. */
static void *zstd_alloc(void *arg, size_t size) {
    (void)arg;
    return vv_malloc(size);
}

static void zstd_free(void *arg, void *ptr) {
    (void)arg;
    vv_free(ptr);
}

static const ZSTD_customMem zstd_memory = {zstd_alloc, zstd_free, NULL};

int64_t vv_zstd_encode(struct vv_coder *coder, const void *data, size_t size, void *out, size_t capacity, int level) {
    if (!coder->zstd_encoder)
        coder->zstd_encoder = ZSTD_createCCtx_advanced(zstd_memory);
    if (!coder->zstd_encoder)
        return -ENOMEM;
    size_t got = ZSTD_compressCCtx(coder->zstd_encoder, out, capacity, data, size, level);
    if (ZSTD_isError(got))
        return ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation ? -ENOMEM : 0;
    return (int64_t)got;
}

int vv_zstd_decode(struct vv_coder *coder, const void *stored, size_t stored_size, void *out, size_t size) {
    if (!coder->zstd_decoder)
        coder->zstd_decoder = ZSTD_createDCtx_advanced(zstd_memory);
    if (!coder->zstd_decoder)
        return -ENOMEM;
    size_t got = ZSTD_decompressDCtx(coder->zstd_decoder, out, size, stored, stored_size);
    if (ZSTD_isError(got))
        return ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation ? -ENOMEM : VARVE_CORRUPT;
    return got == size ? 0 : VARVE_CORRUPT;
}

/* Begin a frame in which only literals are coded: steps so long that no match is found, tables as small as can be. */
static int begin_entropy(struct vv_coder *coder, size_t size) {
    static const struct {
        ZSTD_cParameter name;
        int value;
    } parameters[] = {{ZSTD_c_strategy, ZSTD_fast},
                      {ZSTD_c_targetLength, ZSTD_TARGETLENGTH_MAX},
                      {ZSTD_c_windowLog, 17},
                      {ZSTD_c_hashLog, ZSTD_HASHLOG_MIN},
                      {ZSTD_c_literalCompressionMode, ZSTD_ps_enable}};
    if (!coder->zstd_encoder)
        coder->zstd_encoder = ZSTD_createCCtx_advanced(zstd_memory);
    if (!coder->zstd_encoder)
        return -ENOMEM;
    ZSTD_CCtx_reset(coder->zstd_encoder, ZSTD_reset_session_and_parameters);
    for (size_t i = 0; i < sizeof parameters / sizeof parameters[0]; i++)
        if (ZSTD_isError(ZSTD_CCtx_setParameter(coder->zstd_encoder, parameters[i].name, parameters[i].value)))
            return -EINVAL;
    return ZSTD_isError(ZSTD_CCtx_setPledgedSrcSize(coder->zstd_encoder, size)) ? -EINVAL : 0;
}

/* A plane is flushed before the next one begins: blocks of zstd have frequencies of their own, and planes differ. */
static int64_t encode_entropy(struct vv_coder *coder, uint8_t element, const void *data, size_t size, void *out) {
    size_t width = element % 3 ? element : element / 3u, plane = size / element * (element / width);
    ZSTD_outBuffer to = {out, size - 1, 0};
    int rc = begin_entropy(coder, size);
    if (rc)
        return rc == -ENOMEM ? rc : 0;
    for (size_t at = 0; at < size;) {
        size_t length = plane && at < width * plane ? plane : size - at;
        ZSTD_inBuffer from = {(const uint8_t *)data + at, length, 0};
        at += length;
        ZSTD_EndDirective what = at == size ? ZSTD_e_end : ZSTD_e_flush;
        size_t left = ZSTD_compressStream2(coder->zstd_encoder, &to, &from, what);
        if (ZSTD_isError(left))
            return ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation ? -ENOMEM : 0;
        if (left > 0)
            return 0; /* no room: not smaller */
    }
    return (int64_t)to.pos;
}

static int64_t zstd_encode(struct vv_coder *coder, uint8_t element, const struct vv_content *content, const void *data,
                           size_t size, void *out, int level) {
    (void)content;
    if (level == VV_LEVEL_ENTROPY)
        return encode_entropy(coder, element, data, size, out);
    return vv_zstd_encode(coder, data, size, out, size - 1, level);
}

static int zstd_decode(struct vv_coder *coder, uint8_t element, const void *stored, size_t stored_size, void *out,
                       size_t size) {
    (void)element;
    return vv_zstd_decode(coder, stored, stored_size, out, size);
}

static int64_t both_encode(struct vv_coder *coder, uint8_t element, const struct vv_content *content, const void *data,
                           size_t size, void *out, int level) {
    (void)element, (void)content;
    if (size > LZ4_MAX_INPUT_SIZE || size < 8)
        return 0;
    int bound = LZ4_compressBound((int)size);
    uint8_t *between = vv_coder_buffer_of(coder, VV_CODER_STREAM, (size_t)bound);
    if (!between)
        return -ENOMEM;
    int length = LZ4_compress_default(data, (char *)between, (int)size, bound);
    if (length <= 0)
        return 0;
    vv_put32(out, (uint32_t)length);
    int64_t got = vv_zstd_encode(coder, between, (size_t)length, (uint8_t *)out + 4, size - 5, level);
    return got > 0 ? got + 4 : got;
}

static int both_decode(struct vv_coder *coder, uint8_t element, const void *stored, size_t stored_size, void *out,
                       size_t size) {
    if (stored_size < 4 || size > LZ4_MAX_INPUT_SIZE)
        return VARVE_CORRUPT;
    uint32_t length = vv_get32(stored);
    if (length == 0 || length > (uint32_t)LZ4_compressBound((int)size))
        return VARVE_CORRUPT;
    uint8_t *between = vv_coder_buffer_of(coder, VV_CODER_STREAM, length);
    if (!between)
        return -ENOMEM;
    int rc = vv_zstd_decode(coder, (const uint8_t *)stored + 4, stored_size - 4, between, length);
    return rc ? rc : lz4_decode(coder, element, between, length, out, size);
}

const struct vv_codec_ops vv_codec_none = {
    .name = "none", .number = VV_CODEC_NONE, .encode = none_encode, .decode = none_decode};
const struct vv_codec_ops vv_codec_lz4 = {
    .name = "lz4", .number = VV_CODEC_LZ4, .encode = lz4_encode, .decode = lz4_decode};
const struct vv_codec_ops vv_codec_zstd = {
    .name = "zstd", .number = VV_CODEC_ZSTD, .encode = zstd_encode, .decode = zstd_decode};
const struct vv_codec_ops vv_codec_lz4_zstd = {
    .name = "lz4-zstd", .number = VV_CODEC_LZ4_ZSTD, .encode = both_encode, .decode = both_decode};

const struct vv_codec_ops *vv_codec_by_number(uint8_t number) {
    static const struct vv_codec_ops *const codecs[VV_CODECS] = {
        [VV_CODEC_NONE] = &vv_codec_none,         [VV_CODEC_LZ4] = &vv_codec_lz4,
        [VV_CODEC_ZSTD] = &vv_codec_zstd,         [VV_CODEC_FPZIP] = &vv_codec_fpzip,
        [VV_CODEC_ZFP] = &vv_codec_zfp,           [VV_CODEC_ZFP_GRID] = &vv_codec_zfp_grid,
        [VV_CODEC_LZ4_ZSTD] = &vv_codec_lz4_zstd,
    };
    return number < VV_CODECS ? codecs[number] : NULL;
}
