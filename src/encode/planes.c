/* Byte planes, lanes of vectors and bit matrices. With SSE2, 16 elements fill as many registers as an element has
 * bytes, and go through one round for each time that number can be halved: a round separates bytes of even and odd
 * places, so that the lowest bit of a byte's place inside its element moves into the number of its register. The
 * reverse interleaves. */
#include <string.h>

#include "encode/filter_private.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

static void split_from(unsigned element, const uint8_t *in, size_t from, size_t count, uint8_t *planes, size_t stride) {
    for (unsigned k = 0; k < element; k++)
        for (size_t i = from; i < count; i++)
            planes[k * stride + i] = in[i * element + k];
}

static void join_from(unsigned element, const uint8_t *planes, size_t stride, size_t from, size_t count, uint8_t *out) {
    for (unsigned k = 0; k < element; k++)
        for (size_t i = from; i < count; i++)
            out[i * element + k] = planes[k * stride + i];
}

void vv_planes_split_plain(unsigned element, const uint8_t *in, size_t count, uint8_t *planes, size_t stride) {
    split_from(element, in, 0, count, planes, stride);
}

void vv_planes_join_plain(unsigned element, const uint8_t *planes, size_t stride, size_t count, uint8_t *out) {
    join_from(element, planes, stride, 0, count, out);
}

static void lanes_split_from(unsigned width, const uint8_t *in, size_t from, size_t count, uint8_t *lanes,
                             size_t stride) {
    for (size_t i = from; i < count; i++)
        for (size_t l = 0; l < 3; l++)
            memcpy(lanes + (l * stride + i) * width, in + (i * 3 + l) * width, width);
}

static void lanes_join_from(unsigned width, const uint8_t *lanes, size_t stride, size_t from, size_t count,
                            uint8_t *out) {
    for (size_t i = from; i < count; i++)
        for (size_t l = 0; l < 3; l++)
            memcpy(out + (i * 3 + l) * width, lanes + (l * stride + i) * width, width);
}

void vv_lanes_split_plain(unsigned width, const uint8_t *in, size_t count, uint8_t *lanes, size_t stride) {
    lanes_split_from(width, in, 0, count, lanes, stride);
}

void vv_lanes_join_plain(unsigned width, const uint8_t *lanes, size_t stride, size_t count, uint8_t *out) {
    lanes_join_from(width, lanes, stride, 0, count, out);
}

/* Three rounds exchange the off-diagonal parts of 2 x 2, 4 x 4 and 8 x 8 bits. */
static uint64_t turn(uint64_t x) {
    uint64_t t = (x ^ x >> 7) & UINT64_C(0x00aa00aa00aa00aa);
    x ^= t ^ t << 7;
    t = (x ^ x >> 14) & UINT64_C(0x0000cccc0000cccc);
    x ^= t ^ t << 14;
    t = (x ^ x >> 28) & UINT64_C(0x00000000f0f0f0f0);
    return x ^ t ^ t << 28;
}

void vv_bits_turn_plain(uint8_t *data, size_t words) {
    for (size_t i = 0; i < words; i++) {
        uint64_t x = 0;
        for (int b = 0; b < 8; b++)
            x |= (uint64_t)data[i * 8 + b] << b * 8;
        x = turn(x);
        for (int b = 0; b < 8; b++)
            data[i * 8 + b] = (uint8_t)(x >> b * 8);
    }
}

#ifdef __SSE2__
#define INLINE static inline __attribute__((always_inline))

/* One round apart: bytes of even places of a pair of registers to the first half, of odd places to the second. */
INLINE void round_apart(unsigned registers, const __m128i *in, __m128i *out) {
    const __m128i low = _mm_set1_epi16(0xff);
#pragma GCC unroll 8
    for (unsigned j = 0; j < registers / 2; j++) {
        __m128i a = in[2 * j], b = in[2 * j + 1];
        out[j] = _mm_packus_epi16(_mm_and_si128(a, low), _mm_and_si128(b, low));
        out[j + registers / 2] = _mm_packus_epi16(_mm_srli_epi16(a, 8), _mm_srli_epi16(b, 8));
    }
}

INLINE void round_together(unsigned registers, const __m128i *in, __m128i *out) {
#pragma GCC unroll 8
    for (unsigned j = 0; j < registers / 2; j++) {
        out[2 * j] = _mm_unpacklo_epi8(in[j], in[j + registers / 2]);
        out[2 * j + 1] = _mm_unpackhi_epi8(in[j], in[j + registers / 2]);
    }
}

INLINE void split_vectors(unsigned element, const uint8_t *in, size_t count, uint8_t *planes, size_t stride) {
    for (size_t i = 0; i < count; i += 16) {
        __m128i a[16], b[16];
#pragma GCC unroll 16
        for (unsigned j = 0; j < element; j++)
            a[j] = _mm_loadu_si128((const __m128i *)(in + i * element + (size_t)j * 16));
        round_apart(element, a, b);
        if (element >= 4)
            round_apart(element, b, a);
        if (element >= 8)
            round_apart(element, a, b);
        if (element >= 16)
            round_apart(element, b, a);
        const __m128i *last = element == 4 || element == 16 ? a : b;
#pragma GCC unroll 16
        for (unsigned j = 0; j < element; j++)
            _mm_storeu_si128((__m128i *)(planes + j * stride + i), last[j]);
    }
}

INLINE void join_vectors(unsigned element, const uint8_t *planes, size_t stride, size_t count, uint8_t *out) {
    for (size_t i = 0; i < count; i += 16) {
        __m128i a[16], b[16];
#pragma GCC unroll 16
        for (unsigned j = 0; j < element; j++)
            a[j] = _mm_loadu_si128((const __m128i *)(planes + j * stride + i));
        round_together(element, a, b);
        if (element >= 4)
            round_together(element, b, a);
        if (element >= 8)
            round_together(element, a, b);
        if (element >= 16)
            round_together(element, b, a);
        const __m128i *last = element == 4 || element == 16 ? a : b;
#pragma GCC unroll 16
        for (unsigned j = 0; j < element; j++)
            _mm_storeu_si128((__m128i *)(out + i * element + (size_t)j * 16), last[j]);
    }
}

void vv_planes_split(unsigned element, const uint8_t *in, size_t count, uint8_t *planes, size_t stride) {
    size_t whole = count / 16 * 16;
    switch (element) {
    case 2:
        split_vectors(2, in, whole, planes, stride);
        break;
    case 4:
        split_vectors(4, in, whole, planes, stride);
        break;
    case 8:
        split_vectors(8, in, whole, planes, stride);
        break;
    case 16:
        split_vectors(16, in, whole, planes, stride);
        break;
    default:
        memcpy(planes, in, whole);
    }
    split_from(element, in, whole, count, planes, stride);
}

void vv_planes_join(unsigned element, const uint8_t *planes, size_t stride, size_t count, uint8_t *out) {
    size_t whole = count / 16 * 16;
    switch (element) {
    case 2:
        join_vectors(2, planes, stride, whole, out);
        break;
    case 4:
        join_vectors(4, planes, stride, whole, out);
        break;
    case 8:
        join_vectors(8, planes, stride, whole, out);
        break;
    case 16:
        join_vectors(16, planes, stride, whole, out);
        break;
    default:
        memcpy(out, planes, whole);
    }
    join_from(element, planes, stride, whole, count, out);
}

INLINE __m128i load16(const uint8_t *from) {
    return _mm_loadu_si128((const __m128i *)from);
}

INLINE void keep16(uint8_t *to, __m128i v) {
    _mm_storeu_si128((__m128i *)to, v);
}

/* Four numbers of each: a from places a0 and a1 of the first register, then b0 and b1 of the second. */
#define PICK4(a, a0, a1, b, b0, b1)                                                                                    \
    _mm_castps_si128(_mm_shuffle_ps(_mm_castsi128_ps(a), _mm_castsi128_ps(b), _MM_SHUFFLE(b1, b0, a1, a0)))
#define PICK8(a, a0, b, b0) _mm_castpd_si128(_mm_shuffle_pd(_mm_castsi128_pd(a), _mm_castsi128_pd(b), (b0) << 1 | (a0)))

/* Three registers hold x0 y0 z0 x1, y1 z1 x2 y2 and z2 x3 y3 z3, or x0 y0, z0 x1 and y1 z1. */
void vv_lanes_split(unsigned width, const uint8_t *in, size_t count, uint8_t *lanes, size_t stride) {
    size_t i = 0, lane = stride * width;
    if (width == 4)
        for (; i + 4 <= count; i += 4) {
            __m128i a = load16(in + i * 12), b = load16(in + i * 12 + 16), c = load16(in + i * 12 + 32);
            __m128i yz = PICK4(a, 1, 2, b, 0, 1), xy = PICK4(b, 2, 3, c, 1, 2); /* of 0 and 1, of 2 and 3 */
            keep16(lanes + i * 4, PICK4(a, 0, 3, xy, 0, 2));
            keep16(lanes + lane + i * 4, PICK4(yz, 0, 2, xy, 1, 3));
            keep16(lanes + 2 * lane + i * 4, PICK4(yz, 1, 3, c, 0, 3));
        }
    else
        for (; i + 2 <= count; i += 2) {
            __m128i a = load16(in + i * 24), b = load16(in + i * 24 + 16), c = load16(in + i * 24 + 32);
            keep16(lanes + i * 8, PICK8(a, 0, b, 1));
            keep16(lanes + lane + i * 8, PICK8(a, 1, c, 0));
            keep16(lanes + 2 * lane + i * 8, PICK8(b, 0, c, 1));
        }
    lanes_split_from(width, in, i, count, lanes, stride);
}

void vv_lanes_join(unsigned width, const uint8_t *lanes, size_t stride, size_t count, uint8_t *out) {
    size_t i = 0, lane = stride * width;
    if (width == 4)
        for (; i + 4 <= count; i += 4) {
            const uint8_t *at = lanes + i * 4;
            __m128i x = load16(at), y = load16(at + lane), z = load16(at + 2 * lane);
            __m128i xy = PICK4(x, 0, 2, y, 0, 2), yz = PICK4(y, 1, 3, z, 1, 3), zx = PICK4(z, 0, 2, x, 1, 3);
            keep16(out + i * 12, PICK4(xy, 0, 2, zx, 0, 2));
            keep16(out + i * 12 + 16, PICK4(yz, 0, 2, xy, 1, 3));
            keep16(out + i * 12 + 32, PICK4(zx, 1, 3, yz, 1, 3));
        }
    else
        for (; i + 2 <= count; i += 2) {
            const uint8_t *at = lanes + i * 8;
            __m128i x = load16(at), y = load16(at + lane), z = load16(at + 2 * lane);
            keep16(out + i * 24, PICK8(x, 0, y, 0));
            keep16(out + i * 24 + 16, PICK8(z, 0, x, 1));
            keep16(out + i * 24 + 32, PICK8(y, 1, z, 1));
        }
    lanes_join_from(width, lanes, stride, i, count, out);
}

INLINE __m128i turn_round(__m128i x, int shift, __m128i mask) {
    __m128i t = _mm_and_si128(_mm_xor_si128(x, _mm_srli_epi64(x, shift)), mask);
    return _mm_xor_si128(_mm_xor_si128(x, t), _mm_slli_epi64(t, shift));
}

void vv_bits_turn(uint8_t *data, size_t words) {
    const __m128i two = _mm_set1_epi64x(INT64_C(0x00aa00aa00aa00aa));
    const __m128i four = _mm_set1_epi64x(INT64_C(0x0000cccc0000cccc));
    const __m128i eight = _mm_set1_epi64x(INT64_C(0x00000000f0f0f0f0));
    size_t i = 0;
    for (; i + 2 <= words; i += 2) {
        __m128i x = _mm_loadu_si128((const __m128i *)(data + i * 8));
        x = turn_round(turn_round(turn_round(x, 7, two), 14, four), 28, eight);
        _mm_storeu_si128((__m128i *)(data + i * 8), x);
    }
    vv_bits_turn_plain(data + i * 8, words - i);
}
#else
void vv_planes_split(unsigned element, const uint8_t *in, size_t count, uint8_t *planes, size_t stride) {
    split_from(element, in, 0, count, planes, stride);
}

void vv_planes_join(unsigned element, const uint8_t *planes, size_t stride, size_t count, uint8_t *out) {
    join_from(element, planes, stride, 0, count, out);
}

void vv_lanes_split(unsigned width, const uint8_t *in, size_t count, uint8_t *lanes, size_t stride) {
    lanes_split_from(width, in, 0, count, lanes, stride);
}

void vv_lanes_join(unsigned width, const uint8_t *lanes, size_t stride, size_t count, uint8_t *out) {
    lanes_join_from(width, lanes, stride, 0, count, out);
}

void vv_bits_turn(uint8_t *data, size_t words) {
    vv_bits_turn_plain(data, words);
}
#endif
