/* The filters, in tiles that stay in the cache.
 *
 * Byte shuffle: byte plane k of all whole elements, for k = 0, 1, ...; the bytes behind the last whole element follow.
 * Bit shuffle: as a byte shuffle of the whole groups of 8 elements; then each byte plane is cut into words of 8 bytes
 * (8 elements), rows and columns of their bits are exchanged, and the words are byte-shuffled in turn. That leaves, per
 * byte plane and bit, one bit of every element. Elements behind the last whole group follow as they are.
 * Delta and xor: against the element before, as little-endian numbers; 16 bytes are two numbers of 8. */
#include <string.h>

#include "base/bytes.h"
#include "encode/coding.h"
#include "encode/filter.h"
#include "encode/filter_private.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { TILE = 16384 }; /* bytes; whole groups of 8 elements of any size */

int vv_filter_is_valid(const uint8_t filter[2], uint8_t element) {
    if (filter[0] >= VV_FILTERS || filter[1] >= VV_FILTERS)
        return 0;
    if (filter[0] == VV_FILTER_NONE)
        return filter[1] == VV_FILTER_NONE;
    return element == 1 || element == 2 || element == 4 || element == 8 || element == 16;
}

static int is_shuffle(int filter) {
    return filter == VV_FILTER_SHUFFLE || filter == VV_FILTER_BITSHUFFLE;
}

int vv_filter_is_one_pass(const uint8_t filter[2]) {
    return filter[1] == VV_FILTER_NONE || (!is_shuffle(filter[0]) && is_shuffle(filter[1]));
}

/* ---- differences ---- */

static uint64_t load(const uint8_t *p, unsigned width) {
    switch (width) {
    case 1:
        return *p;
    case 2:
        return vv_get16(p);
    case 4:
        return vv_get32(p);
    default:
        return vv_get64(p);
    }
}

static void keep(uint8_t *p, unsigned width, uint64_t v) {
    switch (width) {
    case 1:
        *p = (uint8_t)v;
        break;
    case 2:
        vv_put16(p, (uint16_t)v);
        break;
    case 4:
        vv_put32(p, (uint32_t)v);
        break;
    default:
        vv_put64(p, v);
    }
}

#ifdef __SSE2__
static inline __attribute__((always_inline)) __m128i minus(unsigned width, __m128i a, __m128i b) {
    return width == 1   ? _mm_sub_epi8(a, b)
           : width == 2 ? _mm_sub_epi16(a, b)
           : width == 4 ? _mm_sub_epi32(a, b)
                        : _mm_sub_epi64(a, b);
}
#endif

/* out[i] = in[i] - in[i - 1] for bytes `from` to `size` (whole elements) of in; from is at least one element. */
static inline __attribute__((always_inline)) void differ(int is_xor, unsigned element, const uint8_t *in, size_t from,
                                                         size_t size, uint8_t *out) {
    const unsigned width = element > 8 ? 8 : element;
    size_t i = from;
#ifdef __SSE2__
    for (; i + 16 <= size; i += 16) {
        __m128i a = _mm_loadu_si128((const __m128i *)(in + i));
        __m128i b = _mm_loadu_si128((const __m128i *)(in + i - element));
        _mm_storeu_si128((__m128i *)(out + i), is_xor ? _mm_xor_si128(a, b) : minus(width, a, b));
    }
#endif
    for (; i < size; i += width) {
        uint64_t a = load(in + i, width), b = load(in + i - element, width);
        keep(out + i, width, is_xor ? a ^ b : a - b);
    }
}

/* The reverse in place: the element before `from` is right already. */
static inline __attribute__((always_inline)) void sum_up(int is_xor, unsigned element, uint8_t *data, size_t from,
                                                         size_t size) {
    const unsigned width = element > 8 ? 8 : element;
    for (unsigned lane = 0; lane < element; lane += width) {
        uint64_t v = load(data + from - element + lane, width);
        for (size_t i = from + lane; i < size; i += element) {
            uint64_t d = load(data + i, width);
            v = is_xor ? v ^ d : v + d;
            keep(data + i, width, v);
        }
    }
}

/* Constant widths let the compiler leave out what is not needed. */
#define FOR_EACH_ELEMENT(call)                                                                                         \
    switch (element) {                                                                                                 \
    case 1:                                                                                                            \
        call(1);                                                                                                       \
        break;                                                                                                         \
    case 2:                                                                                                            \
        call(2);                                                                                                       \
        break;                                                                                                         \
    case 4:                                                                                                            \
        call(4);                                                                                                       \
        break;                                                                                                         \
    case 8:                                                                                                            \
        call(8);                                                                                                       \
        break;                                                                                                         \
    default:                                                                                                           \
        call(16);                                                                                                      \
    }

/* Bytes at to at + size of the differences of in, to out. */
static void differ_tile(int filter, unsigned element, const uint8_t *in, size_t at, size_t size, uint8_t *out) {
    size_t from = 0;
    const uint8_t *tile = in + at;
    if (at == 0) {
        from = size < element ? size : element;
        memcpy(out, in, from);
    }
#define CALL_XOR(e) differ(1, e, tile, from, size, out)
#define CALL_DELTA(e) differ(0, e, tile, from, size, out)
    if (filter == VV_FILTER_XOR)
        FOR_EACH_ELEMENT(CALL_XOR)
    else
        FOR_EACH_ELEMENT(CALL_DELTA)
}

static void sum_up_tile(int filter, unsigned element, uint8_t *data, size_t at, size_t end) {
    size_t from = at ? at : element;
#define CALL_XOR_BACK(e) sum_up(1, e, data, from, end)
#define CALL_DELTA_BACK(e) sum_up(0, e, data, from, end)
    if (filter == VV_FILTER_XOR)
        FOR_EACH_ELEMENT(CALL_XOR_BACK)
    else
        FOR_EACH_ELEMENT(CALL_DELTA_BACK)
}

/* ---- shuffles ---- */

/* A tile of `count` elements, the first of which is number `first` of `all`. count and all are multiples of 8. */
static void bits_split(unsigned element, const uint8_t *in, size_t first, size_t count, size_t all, uint8_t *out) {
    uint8_t planes[TILE];
    vv_planes_split(element, in, count, planes, count);
    vv_bits_turn(planes, count * element / 8);
    for (unsigned k = 0; k < element; k++)
        vv_planes_split(8, planes + k * count, count / 8, out + k * all + first / 8, all / 8);
}

static void bits_join(unsigned element, const uint8_t *in, size_t first, size_t count, size_t all, uint8_t *out) {
    uint8_t planes[TILE];
    for (unsigned k = 0; k < element; k++)
        vv_planes_join(8, in + k * all + first / 8, all / 8, count / 8, planes + k * count);
    vv_bits_turn(planes, count * element / 8);
    vv_planes_join(element, planes, count, count, out);
}

struct plan {
    int difference;  /* VV_FILTER_DELTA, VV_FILTER_XOR or none */
    int shuffle;     /* VV_FILTER_SHUFFLE, VV_FILTER_BITSHUFFLE or none */
    size_t whole;    /* bytes of whole elements: what is subtracted */
    size_t shuffled; /* bytes that are shuffled */
};

static struct plan plan_of(const uint8_t filter[2], uint8_t element, size_t size) {
    struct plan p = {.whole = size - size % element};
    p.difference = is_shuffle(filter[0]) ? VV_FILTER_NONE : filter[0];
    p.shuffle = is_shuffle(filter[0]) ? filter[0] : filter[1];
    if (p.shuffle == VV_FILTER_BITSHUFFLE)
        p.shuffled = size - size % ((size_t)element * 8);
    else if (p.shuffle == VV_FILTER_SHUFFLE)
        p.shuffled = p.whole;
    return p;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

void vv_filter_apply(const uint8_t filter[2], uint8_t element, const void *in, void *out, size_t size) {
    const struct plan p = plan_of(filter, element, size);
    const uint8_t *from = in;
    uint8_t *to = out, tile[TILE];
    size_t all = p.shuffled / element;
    for (size_t at = 0; at < p.shuffled; at += TILE) {
        size_t bytes = least(TILE, p.shuffled - at);
        const uint8_t *source = from + at;
        if (p.difference) {
            differ_tile(p.difference, element, from, at, bytes, tile);
            source = tile;
        }
        if (p.shuffle == VV_FILTER_BITSHUFFLE)
            bits_split(element, source, at / element, bytes / element, all, to);
        else
            vv_planes_split(element, source, bytes / element, to + at / element, all);
    }
    size_t rest = p.shuffled; /* elements that are not shuffled, but subtracted; then the bytes behind them */
    if (p.difference && rest < p.whole) {
        differ_tile(p.difference, element, from, rest, p.whole - rest, to + rest);
        rest = p.whole;
    }
    if (rest < size)
        memcpy(to + rest, from + rest, size - rest);
}

void vv_filter_undo(const uint8_t filter[2], uint8_t element, const void *in, void *out, size_t size) {
    const struct plan p = plan_of(filter, element, size);
    const uint8_t *from = in;
    uint8_t *to = out;
    size_t all = p.shuffled / element;
    for (size_t at = 0; at < p.shuffled; at += TILE) {
        size_t bytes = least(TILE, p.shuffled - at);
        if (p.shuffle == VV_FILTER_BITSHUFFLE)
            bits_join(element, from, at / element, bytes / element, all, to + at);
        else
            vv_planes_join(element, from + at / element, all, bytes / element, to + at);
        if (p.difference)
            sum_up_tile(p.difference, element, to, at, at + bytes);
    }
    if (p.shuffled < size)
        memcpy(to + p.shuffled, from + p.shuffled, size - p.shuffled);
    if (p.difference && p.shuffled < p.whole)
        sum_up_tile(p.difference, element, to, p.shuffled, p.whole);
}
