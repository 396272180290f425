/* zfp: cuts a field into small blocks, transforms each and codes it bit plane by bit plane.
 *
 * Payload of codec 4, reversible: u32 row; the bytes behind the last whole value (raw length modulo element), as they
 * are; then a zfp stream without zfp's header, to the end of the payload. The stream is written in reversible mode from
 * an array of zfp's type float or double (after the element) of nx * ny values: with row 0, one dimension, nx is the
 * number of whole values in the block; else two, nx = row and ny = that number divided by row, rounded up: the last row
 * is filled up, what is too much is dropped. row is 0, or at least 4 and at most a quarter of the number of values.
 *
 * Payload of codec 5, grid: u32 row; i16 exponent of the grid; i16 exponent of the tolerance; then as above, but the
 * stream is written in fixed-accuracy mode with 2 to the power of that exponent as tolerance, and the values that come
 * out are rounded to the nearest multiple of 2 to the power of the exponent of the grid (to the even one when two are
 * as near; 0 for -0). Whoever writes makes sure that this gives back every bit. Exponents of the tolerance are within
 * -1074 to 1023, of the grid within -1021 to 1023.
 *
 * zfp reads and writes its buffer without looking for its end. What the most is that it reads or writes follows from
 * type, shape and mode alone, whatever the bits say: each block has a limited number of bit planes, and in these no bit
 * is coded twice. So there is always that much room, and 0 behind the stream. */
#include "encode/codec.h"

#ifdef VARVE_HAS_ZFP
#include <errno.h>
#include <math.h>
#include <string.h>
#include <varve/varve.h>
#include <zfp.h>

#include "base/bytes.h"
#include "encode/grid.h"

enum { REVERSIBLE = INT16_MIN, HEAD = 4, HEAD_GRID = 8, SLACK = 64 /* bytes behind what zfp should need */ };

/* ---- one stream ---- */

static zfp_field field_of(uint8_t element, const struct vv_shape *shape, void *values) {
    zfp_field field;
    memset(&field, 0, sizeof field);
    field.type = element == 4 ? zfp_type_float : zfp_type_double;
    field.nx = shape->row;
    field.ny = shape->rows > 1 ? shape->rows : 0;
    field.data = values;
    return field;
}

static zfp_stream *open_stream(int tolerance) {
    zfp_stream *zfp = zfp_stream_open(NULL);
    if (zfp && tolerance == REVERSIBLE)
        zfp_stream_set_reversible(zfp);
    else if (zfp)
        zfp_stream_set_accuracy(zfp, ldexp(1, tolerance));
    return zfp;
}

/* Bytes of the stream of an array, which lie in the coder's VV_CODER_STREAM then; 0 if that is not possible. */
static int64_t run_encoder(struct vv_coder *coder, const zfp_field *field, int tolerance) {
    zfp_stream *zfp = open_stream(tolerance);
    size_t capacity = zfp ? zfp_stream_maximum_size(zfp, field) + SLACK : 0;
    uint8_t *buffer = zfp ? vv_coder_buffer_of(coder, VV_CODER_STREAM, capacity) : NULL;
    bitstream *bits = buffer ? stream_open(buffer, capacity) : NULL;
    int64_t got = -ENOMEM;
    if (bits) {
        zfp_stream_set_bit_stream(zfp, bits);
        zfp_stream_rewind(zfp);
        got = (int64_t)zfp_compress(zfp, field);
        stream_close(bits);
    }
    if (zfp)
        zfp_stream_close(zfp);
    return got;
}

/* The reverse; size bytes of stored are copied to VV_CODER_STREAM, or are there already if stored is NULL. */
static int run_decoder(struct vv_coder *coder, zfp_field *field, int tolerance, const void *stored, size_t size) {
    zfp_stream *zfp = open_stream(tolerance);
    size_t capacity = zfp ? zfp_stream_maximum_size(zfp, field) + SLACK : 0;
    uint8_t *buffer = zfp ? vv_coder_buffer_of(coder, VV_CODER_STREAM, capacity) : NULL;
    bitstream *bits = buffer ? stream_open(buffer, capacity) : NULL;
    int rc = bits ? 0 : -ENOMEM;
    if (bits && size > capacity - SLACK)
        rc = VARVE_CORRUPT;
    if (rc == 0) {
        if (stored)
            memcpy(buffer, stored, size);
        memset(buffer + size, 0, capacity - size);
        zfp_stream_set_bit_stream(zfp, bits);
        zfp_stream_rewind(zfp);
        size_t used = zfp_decompress(zfp, field); /* in whole words */
        if (used == 0 || used > (size + 7) / 8 * 8)
            rc = VARVE_CORRUPT;
    }
    if (bits)
        stream_close(bits);
    if (zfp)
        zfp_stream_close(zfp);
    return rc;
}

/* ---- shapes ---- */

/* 1 if two dimensions give fewer bytes than one for a few rows in the middle. Negative on error. */
static int rows_help(struct vv_coder *coder, uint8_t element, const struct vv_shape *shape, uint8_t *values,
                     int tolerance) {
    struct vv_shape part = {.row = shape->row < 256 ? shape->row : 256, .rows = shape->rows < 18 ? 4 : 16};
    if (shape->rows <= part.rows) /* the last row may not be whole */
        part.rows = shape->rows - 1;
    size_t first = (shape->rows - 1 - part.rows) / 2 * shape->row;
    zfp_field field = field_of(element, &part, values + first * element);
    field.sx = 1;
    field.sy = (ptrdiff_t)shape->row;
    int64_t with_rows = run_encoder(coder, &field, tolerance), flat = 0;
    for (size_t y = 0; y < part.rows && with_rows >= 0; y++) {
        struct vv_shape line = {.row = part.row, .rows = 1};
        field = field_of(element, &line, values + (first + y * shape->row) * element);
        int64_t got = run_encoder(coder, &field, tolerance);
        if (got < 0)
            return (int)got;
        flat += got - 4; /* half a word, on average, fills up each */
    }
    return with_rows < 0 ? (int)with_rows : with_rows < flat;
}

/* Values as zfp wants them: aligned, and whole rows; the last is filled up from the one above. *row becomes 0 where
 * rows do not help. 0 or negative. */
static int lay_out(struct vv_coder *coder, uint8_t element, const void *data, size_t size, int tolerance, uint32_t *row,
                   struct vv_shape *shape, uint8_t **out) {
    size_t count = size / element;
    if (!vv_shape_of(*row, element, size, shape))
        *row = 0;
    uint8_t *values = vv_coder_buffer_of(coder, VV_CODER_VALUES, (count + *row) * element);
    if (!values)
        return -ENOMEM;
    memcpy(values, data, count * element);
    if (*row) {
        int help = rows_help(coder, element, shape, values, tolerance);
        if (help < 0)
            return help;
        if (!help)
            *row = 0;
    }
    vv_shape_of(*row, element, size, shape);
    for (size_t i = count; i < vv_shape_values(shape); i++)
        memcpy(values + i * element, values + (i - *row) * element, element);
    *out = values;
    return 0;
}

/* Put the parts behind the head together. */
static int64_t finish_block(struct vv_coder *coder, uint8_t element, const void *data, size_t size, size_t head,
                            size_t got, uint8_t *out) {
    size_t tail = size % element;
    if (got == 0 || got + head + tail >= size)
        return 0;
    memcpy(out + head, (const uint8_t *)data + (size - tail), tail);
    memcpy(out + head + tail, coder->buffer[VV_CODER_STREAM].data, got);
    return (int64_t)(got + head + tail);
}

/* ---- reversible ---- */

static int64_t zfp_encode_reversible(struct vv_coder *coder, uint8_t element, const struct vv_content *content,
                                     const void *data, size_t size, void *out, int level) {
    (void)level;
    uint32_t row = content->row;
    struct vv_shape shape;
    uint8_t *values;
    if (size < element || size < HEAD + 8)
        return 0;
    fenv_t saved;
    vv_arithmetic_begin(&saved);
    int64_t rc = lay_out(coder, element, data, size, REVERSIBLE, &row, &shape, &values);
    if (rc == 0) {
        zfp_field field = field_of(element, &shape, values);
        rc = run_encoder(coder, &field, REVERSIBLE);
    }
    vv_arithmetic_end(&saved);
    if (rc <= 0)
        return rc;
    vv_put32(out, row);
    return finish_block(coder, element, data, size, HEAD, (size_t)rc, out);
}

static int decode_any(struct vv_coder *coder, uint8_t element, size_t head, int grid, int tolerance,
                      const uint8_t *stored, size_t stored_size, uint8_t *out, size_t size) {
    struct vv_shape shape;
    size_t tail = size % element;
    if (stored_size < head + tail || !vv_shape_of(vv_get32(stored), element, size, &shape))
        return VARVE_CORRUPT;
    uint8_t *values = vv_coder_buffer_of(coder, VV_CODER_VALUES, vv_shape_values(&shape) * element);
    if (!values)
        return -ENOMEM;
    zfp_field field = field_of(element, &shape, values);
    fenv_t saved;
    vv_arithmetic_begin(&saved);
    int rc = run_decoder(coder, &field, tolerance, stored + head + tail, stored_size - head - tail);
    if (rc == 0 && tolerance != REVERSIBLE)
        vv_grid_round(element == 4 ? VARVE_F32 : VARVE_F64, ldexp(1, grid), values, values, size - tail);
    vv_arithmetic_end(&saved);
    if (rc)
        return rc;
    memcpy(out, values, size - tail);
    memcpy(out + (size - tail), stored + head, tail);
    return 0;
}

static int zfp_decode_reversible(struct vv_coder *coder, uint8_t element, const void *stored, size_t stored_size,
                                 void *out, size_t size) {
    return decode_any(coder, element, HEAD, 0, REVERSIBLE, stored, stored_size, out, size);
}

/* ---- grid ---- */

static int are_finite(uint8_t element, const uint8_t *data, size_t count) {
    uint32_t bad = 0;
    for (size_t i = 0; element == 4 && i < count; i++)
        bad |= (vv_get32(data + i * 4) >> 23 & 0xff) == 0xff;
    for (size_t i = 0; element == 8 && i < count; i++)
        bad |= (vv_get64(data + i * 8) >> 52 & 0x7ff) == 0x7ff;
    return !bad;
}

/* 1 if the stream of `got` bytes that was just written gives the values back; 0; or negative. count: without what fills
 * up the last row. values is overwritten. */
static int gives_back(struct vv_coder *coder, uint8_t element, const struct vv_shape *shape, int grid, int tolerance,
                      size_t got, uint8_t *values, const void *data, size_t count) {
    zfp_field field = field_of(element, shape, values);
    int rc = run_decoder(coder, &field, tolerance, NULL, got);
    if (rc)
        return rc == VARVE_CORRUPT ? 0 : rc;
    vv_grid_round(element == 4 ? VARVE_F32 : VARVE_F64, ldexp(1, grid), values, values, count * element);
    return memcmp(values, data, count * element) == 0;
}

/* zfp stays far below the tolerance it is given, mostly; how far depends on the data. So begin with one that may be too
 * large and come down until every value is given back. At a quarter of the grid only rounding inside zfp can still be
 * in the way: large values on a fine grid. *tolerance is where to begin, and where it ended. The size, 0 or
 * negative. */
static int64_t find_tolerance(struct vv_coder *coder, uint8_t element, const struct vv_shape *shape, int grid,
                              uint8_t *values, const void *data, size_t count, int *tolerance) {
    size_t all = vv_shape_values(shape);
    for (; *tolerance >= grid - 2 && *tolerance >= ZFP_MIN_EXP; --*tolerance) {
        zfp_field field = field_of(element, shape, values);
        int64_t got = run_encoder(coder, &field, *tolerance);
        if (got <= 0)
            return got;
        int ok = gives_back(coder, element, shape, grid, *tolerance, (size_t)got, values, data, count);
        if (ok)
            return ok < 0 ? ok : got;
        memcpy(values, data, count * element); /* another attempt */
        for (size_t i = count; i < all; i++)
            memcpy(values + i * element, values + (i - shape->row) * element, element);
    }
    return 0;
}

/* Where to begin: what is good enough for a small part. */
static int first_tolerance(struct vv_coder *coder, uint8_t element, const struct vv_shape *shape, int grid,
                           const uint8_t *data, size_t count) {
    int tolerance = grid + 4 < 1023 ? grid + 4 : 1023;
    size_t rows = shape->rows > 1 ? 4096 / shape->row + 4 : 1;
    struct vv_shape part = {.row = rows > 1 ? shape->row : count, .rows = rows};
    if (rows == 1 && count > 4096)
        part.row = 4096;
    if (rows > 1 && rows >= shape->rows)
        return grid + 1; /* there is no smaller part */
    size_t part_count = vv_shape_values(&part), first = (count - part_count) / 2;
    uint8_t *values = vv_coder_buffer_of(coder, VV_CODER_VALUES, 0);
    const uint8_t *from = data + first * element;
    memcpy(values, from, part_count * element);
    int64_t got = find_tolerance(coder, element, &part, grid, values, from, part_count, &tolerance);
    return got > 0 ? tolerance : grid - 1;
}

static int64_t zfp_encode_grid(struct vv_coder *coder, uint8_t element, const struct vv_content *content,
                               const void *data, size_t size, void *out, int level) {
    (void)level;
    uint32_t row = content->row;
    struct vv_shape shape;
    uint8_t *values;
    size_t count = size / element;
    int grid = content->grid > 0 && isfinite(content->grid) ? ilogb(content->grid) : REVERSIBLE;
    if (grid < -1021 || ldexp(1, grid) != content->grid || size < element || size < HEAD_GRID + 8 ||
        !are_finite(element, data, count))
        return 0;
    fenv_t saved;
    vv_arithmetic_begin(&saved);
    int tolerance = 0;
    int64_t rc = lay_out(coder, element, data, size, grid, &row, &shape, &values);
    if (rc == 0) {
        tolerance = first_tolerance(coder, element, &shape, grid, data, count);
        memcpy(values, data, count * element);
        for (size_t i = count; i < vv_shape_values(&shape); i++)
            memcpy(values + i * element, values + (i - shape.row) * element, element);
        rc = find_tolerance(coder, element, &shape, grid, values, data, count, &tolerance);
    }
    vv_arithmetic_end(&saved);
    if (rc <= 0)
        return rc;
    vv_put32(out, row);
    vv_put16((uint8_t *)out + 4, (uint16_t)grid);
    vv_put16((uint8_t *)out + 6, (uint16_t)tolerance);
    return finish_block(coder, element, data, size, HEAD_GRID, (size_t)rc, out);
}

static int zfp_decode_grid(struct vv_coder *coder, uint8_t element, const void *stored, size_t stored_size, void *out,
                           size_t size) {
    if (stored_size < HEAD_GRID)
        return VARVE_CORRUPT;
    int grid = (int16_t)vv_get16((const uint8_t *)stored + 4);
    int tolerance = (int16_t)vv_get16((const uint8_t *)stored + 6);
    if (grid < -1021 || grid > 1023 || tolerance < ZFP_MIN_EXP || tolerance > 1023)
        return VARVE_CORRUPT;
    return decode_any(coder, element, HEAD_GRID, grid, tolerance, stored, stored_size, out, size);
}

static int is_built_in(void) {
    return 1;
}
#else
static int64_t zfp_encode_reversible(struct vv_coder *coder, uint8_t element, const struct vv_content *content,
                                     const void *data, size_t size, void *out, int level) {
    (void)coder, (void)element, (void)content, (void)data, (void)size, (void)out, (void)level;
    return 0;
}
#define zfp_encode_grid zfp_encode_reversible

static int zfp_decode_reversible(struct vv_coder *coder, uint8_t element, const void *stored, size_t stored_size,
                                 void *out, size_t size) {
    (void)coder, (void)element, (void)stored, (void)stored_size, (void)out, (void)size;
    return VARVE_UNKNOWN_FORMAT;
}
#define zfp_decode_grid zfp_decode_reversible

static int is_built_in(void) {
    return 0;
}
#endif

const struct vv_codec_ops vv_codec_zfp = {.name = "zfp",
                                          .number = VV_CODEC_ZFP,
                                          .is_of_floats = 1,
                                          .can_encode = is_built_in,
                                          .can_decode = is_built_in,
                                          .encode = zfp_encode_reversible,
                                          .decode = zfp_decode_reversible};
const struct vv_codec_ops vv_codec_zfp_grid = {.name = "zfp-grid",
                                               .number = VV_CODEC_ZFP_GRID,
                                               .is_of_floats = 1,
                                               .can_encode = is_built_in,
                                               .can_decode = is_built_in,
                                               .encode = zfp_encode_grid,
                                               .decode = zfp_decode_grid};
