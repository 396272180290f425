/* Codecs: make a block smaller, and the reverse. One ops struct per codec, numbered as in docs/format.md 6; filters are
 * not their business. Private to this folder: others use coding.h. */
#ifndef VV_CODEC_H
#define VV_CODEC_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arithmetic.h"
#include "base/error.h"
#include "encode/coding.h"

struct vv_codec_ops {
    const char *name;
    uint8_t number;          /* on storage */
    uint8_t is_of_floats;    /* needs elements of 4 or 8 bytes, without filters */
    int (*can_encode)(void); /* NULL: always; 0 if its library was not built in */
    int (*can_decode)(void); /* the same */
    /* Encode into out, which has size bytes (at least 1): the encoded size, less than size; 0 when it would not be
     * smaller or the data does not fit; or a negative error. */
    int64_t (*encode)(struct vv_coder *coder, uint8_t element, const struct vv_content *content, const void *data,
                      size_t size, void *out, int level);
    /* Decode stored bytes into exactly size bytes (at least 1); 0, VARVE_CORRUPT, VARVE_UNKNOWN_FORMAT or -ENOMEM.
     * Never reads or writes elsewhere. */
    int (*decode)(struct vv_coder *coder, uint8_t element, const void *stored, size_t stored_size, void *out,
                  size_t size);
};

/* Instead of a level of zstd: code each byte plane of shuffled elements by its frequencies, and look for nothing else.
 * Exponents of weights repeat by chance only; short matches make them larger, and take most of the time. */
#define VV_LEVEL_ENTROPY INT_MIN

const struct vv_codec_ops *vv_codec_by_number(uint8_t number); /* NULL when unknown */
extern const struct vv_codec_ops vv_codec_none, vv_codec_lz4, vv_codec_zstd, vv_codec_fpzip, vv_codec_zfp,
    vv_codec_zfp_grid, vv_codec_lz4_zstd;

/* Buffers that grow on demand and stay. The filters use the first, who encodes the last, codecs the others. */
enum vv_coder_buffer { VV_CODER_FILTERED, VV_CODER_VALUES, VV_CODER_STREAM, VV_CODER_OUT, VV_CODER_BUFFERS };
struct vv_coder {
    struct ZSTD_CCtx_s *zstd_encoder;
    struct ZSTD_DCtx_s *zstd_decoder;
    struct {
        uint8_t *data;
        size_t capacity;
    } buffer[VV_CODER_BUFFERS];
};
/* At least size bytes, aligned to 64; NULL when there is no memory. Old content is lost if it has to grow. */
uint8_t *vv_coder_buffer_of(struct vv_coder *coder, enum vv_coder_buffer which, size_t size);
int64_t vv_zstd_encode(struct vv_coder *coder, const void *data, size_t size, void *out, size_t capacity, int level);
int vv_zstd_decode(struct vv_coder *coder, const void *stored, size_t stored_size, void *out, size_t size);

/* ---- what fpzip and zfp share ---- */

/* The block as an array of `rows` rows of `row` values; a block that ends within a row is filled up with values that
 * cost little. One dimension is one row of all values. */
struct vv_shape {
    size_t row, rows;
};
/* The shape of size bytes if rows are that long; 0 if such rows make no sense there. row 0: one dimension. */
int vv_shape_of(uint32_t row, uint8_t element, size_t size, struct vv_shape *out);
static inline size_t vv_shape_values(const struct vv_shape *shape) {
    return shape->row * shape->rows;
}

#endif
