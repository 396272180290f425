/* fpzip: predicts each value of a smooth field from its neighbours and codes the difference. Lossless here.
 *
 * Payload of codec 3: u32 row; the bytes behind the last whole value (raw length modulo element), as they are; then an
 * fpzip stream without fpzip's header, to the end of the payload. The stream holds one field of full precision (32 or
 * 64 bits, after the element) of nx * ny values: with row 0, nx is the number of whole values in the block and ny = 1;
 * else nx = row and ny = that number divided by row, rounded up: the last row is filled up, what is too much dropped.
 * row is 0, or at least 4 and at most a quarter of the number of values.
 *
 * Writing uses libfpzip. Reading does not: the library takes any stream for a good one, and can be made to read and
 * write anywhere by a bad one. The decoder below is written to the same format (FPZIP_CODEC 0x0110, predictions in
 * floating-point arithmetic) and checks each step. Values that are not finite, or so large that a prediction may leave
 * the range, are not written: sums that are not numbers have different bits on different processors. */
#include "encode/codec.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/bytes.h"

/* ---- reading: a range decoder with an adaptive model of the length and sign of the differences ---- */

enum {
    WEIGHT_BITS = 16,  /* the weights of all symbols together are 2^16 */
    PERIOD = 1024,     /* symbols between two adaptions, in the end */
    SYMBOLS_MAX = 129, /* a sign and up to 64 lengths, and no difference */
    JUMPS = 128,
};

struct decoder {
    const uint8_t *at, *end;
    uint32_t low, range, code;
    int is_bad;
    uint32_t symbols, period, left, more, step;
    uint32_t weight[SYMBOLS_MAX];
    uint32_t below[SYMBOLS_MAX + 1]; /* sum of the weights before it, as of the last adaption */
    uint8_t jump[JUMPS + 1];         /* where to begin to look for a symbol */
};

static void adapt(struct decoder *d) {
    if (d->more) { /* the same weights for some more symbols, which count for one more each */
        d->left = d->more;
        d->more = 0;
        d->step++;
        return;
    }
    d->period = d->period * 2 < PERIOD ? d->period * 2 : PERIOD;
    uint32_t sum = 1u << WEIGHT_BITS, free_weight = sum;
    for (uint32_t s = d->symbols; s-- > 0;) {
        sum -= d->weight[s];
        d->below[s] = sum;
        d->weight[s] = d->weight[s] >> 1 | 1;
        free_weight -= d->weight[s];
    }
    d->step = free_weight / d->period;
    d->more = free_weight % d->period;
    d->left = d->period - d->more;
    for (uint32_t j = 0, s = 0; j <= JUMPS; j++) {
        while (s + 1 < d->symbols && d->below[s + 1] <= j << (WEIGHT_BITS - 7))
            s++;
        d->jump[j] = (uint8_t)s;
    }
}

static void take_bytes(struct decoder *d, unsigned count) {
    while (count-- > 0) {
        uint8_t byte = 0;
        if (d->at < d->end)
            byte = *d->at++;
        else
            d->is_bad = 1;
        d->code = d->code << 8 | byte;
        d->low <<= 8;
    }
}

static void decoder_begin(struct decoder *d, uint8_t element, const uint8_t *stored, size_t size) {
    memset(d, 0, sizeof *d);
    d->at = stored;
    d->end = stored + size;
    d->range = UINT32_MAX;
    take_bytes(d, 4);
    d->symbols = 2 * 8 * (uint32_t)element + 1;
    d->below[d->symbols] = 1u << WEIGHT_BITS;
    for (uint32_t s = 0; s < d->symbols; s++)
        d->weight[s] = (1u << WEIGHT_BITS) / d->symbols + (s < (1u << WEIGHT_BITS) % d->symbols);
    d->period = d->symbols >> 4 | 2;
    adapt(d);
}

/* range is at least 2^16 afterwards: a range that is smaller and lies across a boundary of 2^24 is cut there. */
static void widen(struct decoder *d) {
    while ((d->low ^ (d->low + d->range)) >> 24 == 0) {
        take_bytes(d, 1);
        d->range <<= 8;
    }
    if (d->range >> 16 == 0) {
        take_bytes(d, 2);
        d->range = -d->low;
    }
}

/* Which of 2^bits equal parts of the range the code lies in. A good stream never lies behind the last one. */
static uint32_t part_of(struct decoder *d, unsigned bits) {
    d->range >>= bits;
    uint32_t part = (d->code - d->low) / d->range;
    if (part >> bits == 0)
        return part;
    d->is_bad = 1;
    return 0;
}

static uint32_t take_symbol(struct decoder *d) {
    uint32_t part = part_of(d, WEIGHT_BITS), s = d->jump[part >> (WEIGHT_BITS - 7)];
    while (part >= d->below[s + 1])
        s++;
    d->low += d->range * d->below[s];
    d->range *= d->below[s + 1] - d->below[s];
    widen(d);
    if (d->left == 0)
        adapt(d);
    d->left--;
    d->weight[s] += d->step;
    return s;
}

static uint64_t take_bits(struct decoder *d, unsigned count) {
    uint64_t value = 0;
    for (unsigned done = 0;; done += 16) {
        unsigned now = count - done > 16 ? 16 : count - done;
        uint32_t part = part_of(d, now);
        d->low += d->range * part;
        widen(d);
        value |= (uint64_t)part << done;
        if (done + now == count)
            return value;
    }
}

/* The next difference, modulo 2^64. */
static uint64_t take_difference(struct decoder *d) {
    uint32_t s = take_symbol(d), none = d->symbols / 2;
    if (s == none)
        return 0;
    unsigned length = s > none ? s - none - 1 : none - 1 - s;
    uint64_t size = (UINT64_C(1) << length) + take_bits(d, length);
    return s > none ? size : -size;
}

/* Numbers in the order of the values: negative ones turned round, positive ones above them. */
static uint32_t order32(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits >> 31 ? ~bits : bits | UINT32_C(1) << 31;
}

static uint64_t order64(double x) {
    uint64_t bits;
    memcpy(&bits, &x, 8);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

/* Adding 0 turns -0 into 0, as the sum over three dimensions does that the format is defined by. */
static float predict32(float left, float up, float corner) {
    return left + up + 0.0F - corner;
}

static double predict64(double left, double up, double corner) {
    return left + up + 0.0 - corner;
}

static void decode32(struct decoder *d, const struct vv_shape *shape, float *out) {
    for (size_t y = 0; y < shape->rows && !d->is_bad; y++) {
        float *row = out + y * shape->row, *above = y ? row - shape->row : NULL, left = 0, corner = 0;
        for (size_t x = 0; x < shape->row; x++) {
            float up = above ? above[x] : 0;
            uint32_t bits = order32(predict32(left, up, corner)) + (uint32_t)take_difference(d);
            bits = bits >> 31 ? bits ^ UINT32_C(1) << 31 : ~bits;
            memcpy(&row[x], &bits, 4);
            left = row[x];
            corner = up;
        }
    }
}

static void decode64(struct decoder *d, const struct vv_shape *shape, double *out) {
    for (size_t y = 0; y < shape->rows && !d->is_bad; y++) {
        double *row = out + y * shape->row, *above = y ? row - shape->row : NULL, left = 0, corner = 0;
        for (size_t x = 0; x < shape->row; x++) {
            double up = above ? above[x] : 0;
            uint64_t bits = order64(predict64(left, up, corner)) + take_difference(d);
            bits = bits >> 63 ? bits ^ UINT64_C(1) << 63 : ~bits;
            memcpy(&row[x], &bits, 8);
            left = row[x];
            corner = up;
        }
    }
}

/* values has room for the whole shape. */
static int decode_stream(uint8_t element, const struct vv_shape *shape, const uint8_t *stored, size_t size,
                         void *values) {
    struct decoder d;
    fenv_t saved;
    vv_arithmetic_begin(&saved);
    decoder_begin(&d, element, stored, size);
    if (element == 4)
        decode32(&d, shape, values);
    else
        decode64(&d, shape, values);
    vv_arithmetic_end(&saved);
    return d.is_bad ? VARVE_CORRUPT : 0;
}

static int fpzip_decode(struct vv_coder *coder, uint8_t element, const void *stored, size_t stored_size, void *out,
                        size_t size) {
    struct vv_shape shape;
    size_t tail = size % element;
    if (stored_size < 4 + tail || !vv_shape_of(vv_get32(stored), element, size, &shape))
        return VARVE_CORRUPT;
    uint8_t *values = vv_coder_buffer_of(coder, VV_CODER_VALUES, vv_shape_values(&shape) * element);
    if (!values)
        return -ENOMEM;
    const uint8_t *stream = (const uint8_t *)stored + 4 + tail;
    int rc = decode_stream(element, &shape, stream, stored_size - 4 - tail, values);
    if (rc)
        return rc;
    memcpy(out, values, size - tail);
    memcpy((uint8_t *)out + (size - tail), (const uint8_t *)stored + 4, tail);
    return 0;
}

/* ---- writing ---- */

#ifdef VARVE_HAS_FPZIP
#ifndef FPZIP_FP
#define FPZIP_FP FPZIP_FP_FAST /* fpzip.h only wants it to be defined */
#endif
#include <fpzip.h>

/* 1 if no sum of four such values can leave the range. */
static int are_moderate(uint8_t element, const uint8_t *data, size_t count) {
    uint32_t bad = 0;
    for (size_t i = 0; element == 4 && i < count; i++)
        bad |= (vv_get32(data + i * 4) >> 23 & 0xff) >= 127 + 124;
    for (size_t i = 0; element == 8 && i < count; i++)
        bad |= (vv_get64(data + i * 8) >> 52 & 0x7ff) >= 1023 + 1020;
    return !bad;
}

static uint64_t value_order(uint8_t element, const void *values, size_t i) {
    return element == 4 ? order32(((const float *)values)[i]) : order64(((const double *)values)[i]);
}

static uint64_t predicted_order(uint8_t element, const void *values, size_t i, size_t row) {
    if (element == 4) {
        const float *v = (const float *)values + i;
        return order32(predict32(v[-1], v[-(ptrdiff_t)row], v[-1 - (ptrdiff_t)row]));
    }
    const double *v = (const double *)values + i;
    return order64(predict64(v[-1], v[-(ptrdiff_t)row], v[-1 - (ptrdiff_t)row]));
}

static unsigned bits_of_difference(uint64_t a, uint64_t b) {
    uint64_t size = a > b ? a - b : b - a;
    return size ? 64 - (unsigned)__builtin_clzll(size) : 0;
}

/* 1 if the row above helps: the differences at some places are shorter with it. */
static int rows_help(uint8_t element, const void *values, size_t count, size_t row) {
    uint64_t bits_flat = 0, bits_rows = 0;
    size_t stride = count / 2000 | 1;
    for (size_t i = row + 1; i < count; i += stride) {
        uint64_t value = value_order(element, values, i);
        bits_flat += bits_of_difference(value, value_order(element, values, i - 1));
        bits_rows += bits_of_difference(value, predicted_order(element, values, i, row));
    }
    return bits_rows < bits_flat;
}

/* Fill the last row up with values that are just as predicted. */
static void fill_up(uint8_t element, void *values, size_t count, const struct vv_shape *shape) {
    for (size_t i = count; i < vv_shape_values(shape); i++) {
        if (element == 4) {
            float *v = (float *)values + i;
            *v = predict32(v[-1], v[-(ptrdiff_t)shape->row], v[-1 - (ptrdiff_t)shape->row]);
        } else {
            double *v = (double *)values + i;
            *v = predict64(v[-1], v[-(ptrdiff_t)shape->row], v[-1 - (ptrdiff_t)shape->row]);
        }
    }
}

/* The size of the stream; 0 if room is too small for it. */
static size_t encode_stream(uint8_t element, const struct vv_shape *shape, const void *values, void *out,
                            size_t capacity) {
    FPZ *fpz = fpzip_write_to_buffer(out, capacity);
    if (!fpz)
        return 0;
    fpz->type = element == 4 ? FPZIP_TYPE_FLOAT : FPZIP_TYPE_DOUBLE;
    fpz->prec = 0;
    fpz->nx = (int)shape->row;
    fpz->ny = (int)shape->rows;
    fpz->nz = fpz->nf = 1;
    size_t got = fpzip_write(fpz, values);
    fpzip_write_close(fpz);
    return got;
}

static int64_t fpzip_encode(struct vv_coder *coder, uint8_t element, const struct vv_content *content, const void *data,
                            size_t size, void *out, int level) {
    (void)level;
    struct vv_shape shape;
    size_t tail = size % element, count = size / element, head = 4 + tail;
    if (count == 0 || count > INT32_MAX / 2 || size <= head || !are_moderate(element, data, count))
        return 0;
    uint32_t row = vv_shape_of(content->row, element, size, &shape) && shape.rows > 1 ? content->row : 0;
    uint8_t *values = vv_coder_buffer_of(coder, VV_CODER_VALUES, (count + row) * element);
    if (!values)
        return -ENOMEM;
    memcpy(values, data, count * element);
    fenv_t saved;
    vv_arithmetic_begin(&saved);
    if (row && !rows_help(element, values, count, row))
        row = 0;
    vv_shape_of(row, element, size, &shape);
    fill_up(element, values, count, &shape);
    size_t got = encode_stream(element, &shape, values, (uint8_t *)out + head, size - head);
    vv_arithmetic_end(&saved);
    if (got == 0 || got + head >= size)
        return 0;
    vv_put32(out, row);
    memcpy((uint8_t *)out + 4, (const uint8_t *)data + (size - tail), tail);
    return (int64_t)(got + head);
}

/* The library may have been built with another arithmetic, or be of a later format: see whether it writes what is read
 * here. */
static int is_usable;

static void try_library(void) {
    enum { ROW = 16, ROWS = 16 };
    const struct vv_shape shapes[] = {{ROW, ROWS}, {ROW * ROWS, 1}};
    is_usable = 1;
    for (uint8_t element = 4; element <= 8; element += 4)
        for (int s = 0; s < 2; s++) {
            union {
                float f32[ROW * ROWS];
                double f64[ROW * ROWS];
            } values, back;
            uint8_t stream[2 * sizeof values];
            for (int i = 0; i < ROW * ROWS; i++) {
                int x = i % ROW, y = i / ROW;
                double v = 1.0 / (3 + x) - 1e-3 * y * (i % 7);
                if (element == 4)
                    values.f32[i] = (float)v;
                else
                    values.f64[i] = v;
            }
            size_t bytes = (size_t)ROW * ROWS * element;
            size_t got = encode_stream(element, &shapes[s], &values, stream, sizeof stream);
            if (got == 0 || decode_stream(element, &shapes[s], stream, got, &back) != 0 ||
                memcmp(&values, &back, bytes) != 0)
                is_usable = 0;
        }
}

static int fpzip_can_encode(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, try_library);
    return is_usable;
}
#else
static int64_t fpzip_encode(struct vv_coder *coder, uint8_t element, const struct vv_content *content, const void *data,
                            size_t size, void *out, int level) {
    (void)coder, (void)element, (void)content, (void)data, (void)size, (void)out, (void)level;
    return 0;
}

static int fpzip_can_encode(void) {
    return 0;
}
#endif

const struct vv_codec_ops vv_codec_fpzip = {.name = "fpzip",
                                            .number = VV_CODEC_FPZIP,
                                            .is_of_floats = 1,
                                            .can_encode = fpzip_can_encode,
                                            .encode = fpzip_encode,
                                            .decode = fpzip_decode};
