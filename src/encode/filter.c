/* The filters, in tiles that stay in the cache.
 *
 * Byte shuffle: byte plane k of all whole elements, for k = 0, 1, ...; the bytes behind the last whole element follow.
 * Bit shuffle: as a byte shuffle of the whole groups of 8 elements; then each byte plane is cut into words of 8 bytes
 * (8 elements), rows and columns of their bits are exchanged, and the words are byte-shuffled in turn. That leaves, per
 * byte plane and bit, one bit of every element. Elements behind the last whole group follow as they are.
 * Delta and xor: against the element before, as little-endian numbers; 16 bytes are two numbers of 8.
 * Rotate: each number by one bit, to the left; the highest bit becomes the lowest.
 * Elements of 12 and 24 bytes are vectors of three numbers, which the shuffles take apart into three lanes: planes are
 * those of the numbers, and in each plane come all first numbers, then all second, then all third ones. So bytes that
 * are alike lie as close together as without lanes, which codecs that look at a part of the block at a time need. */
#include <string.h>

#include "base/bytes.h"
#include "encode/coding.h"
#include "encode/filter.h"
#include "encode/filter_private.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Bytes; whole groups of 8 elements of any size, and of 128 so that vectors of the processor are full. */
enum { TILE = 16384, TILE_OF_VECTORS = 15360 };

static size_t tile_of(unsigned element) {
    return element % 3 ? TILE : TILE_OF_VECTORS;
}

int vv_filter_is_valid(const uint8_t filter[2], uint8_t element) {
    if (filter[0] >= VV_FILTERS || filter[1] >= VV_FILTERS)
        return 0;
    if (filter[0] == VV_FILTER_NONE)
        return filter[1] == VV_FILTER_NONE;
    return element == 1 || element == 2 || element == 4 || element == 8 || element == 12 || element == 16 ||
           element == 24;
}

static int is_shuffle(int filter) {
    return filter == VV_FILTER_SHUFFLE || filter == VV_FILTER_BITSHUFFLE;
}

int vv_filter_is_one_pass(const uint8_t filter[2]) {
    return filter[1] == VV_FILTER_NONE || (!is_shuffle(filter[0]) && is_shuffle(filter[1]));
}

/* ---- differences and rotation ---- */

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

/* Bytes of the numbers an element is made of. */
static inline __attribute__((always_inline)) unsigned width_of(unsigned element) {
    return element == 12 ? 4 : element > 8 ? 8 : element;
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
    const unsigned width = width_of(element);
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
    const unsigned width = width_of(element);
    for (unsigned lane = 0; lane < element; lane += width) {
        uint64_t v = load(data + from - element + lane, width);
        for (size_t i = from + lane; i < size; i += element) {
            uint64_t d = load(data + i, width);
            v = is_xor ? v ^ d : v + d;
            keep(data + i, width, v);
        }
    }
}

#ifdef __SSE2__
/* Numbers of one byte are rotated as two in 16 bits: what crosses their border is masked out. */
static inline __attribute__((always_inline)) __m128i rotated(unsigned width, int is_back, __m128i a) {
    switch (width) {
    case 1:
        return is_back ? _mm_or_si128(_mm_and_si128(_mm_srli_epi16(a, 1), _mm_set1_epi8(0x7f)),
                                      _mm_and_si128(_mm_slli_epi16(a, 7), _mm_set1_epi8((char)0x80)))
                       : _mm_or_si128(_mm_add_epi8(a, a), _mm_and_si128(_mm_srli_epi16(a, 7), _mm_set1_epi8(1)));
    case 2:
        return is_back ? _mm_or_si128(_mm_srli_epi16(a, 1), _mm_slli_epi16(a, 15))
                       : _mm_or_si128(_mm_slli_epi16(a, 1), _mm_srli_epi16(a, 15));
    case 4:
        return is_back ? _mm_or_si128(_mm_srli_epi32(a, 1), _mm_slli_epi32(a, 31))
                       : _mm_or_si128(_mm_slli_epi32(a, 1), _mm_srli_epi32(a, 31));
    default:
        return is_back ? _mm_or_si128(_mm_srli_epi64(a, 1), _mm_slli_epi64(a, 63))
                       : _mm_or_si128(_mm_slli_epi64(a, 1), _mm_srli_epi64(a, 63));
    }
}
#endif

/* Whole elements; in may be out. */
static inline __attribute__((always_inline)) void rotate(int is_back, unsigned element, const uint8_t *in, size_t size,
                                                         uint8_t *out) {
    const unsigned width = width_of(element), top = width * 8 - 1;
    size_t i = 0;
#ifdef __SSE2__
    for (; i + 16 <= size; i += 16) {
        __m128i a = _mm_loadu_si128((const __m128i *)(in + i));
        _mm_storeu_si128((__m128i *)(out + i), rotated(width, is_back, a));
    }
#endif
    for (; i < size; i += width) {
        uint64_t a = load(in + i, width);
        keep(out + i, width, is_back ? a >> 1 | a << top : a << 1 | a >> top);
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
    case 12:                                                                                                           \
        call(12);                                                                                                      \
        break;                                                                                                         \
    case 24:                                                                                                           \
        call(24);                                                                                                      \
        break;                                                                                                         \
    default:                                                                                                           \
        call(16);                                                                                                      \
    }

/* Bytes at to at + size of in, as the filter makes them, to out. */
static void change_tile(int filter, unsigned element, const uint8_t *in, size_t at, size_t size, uint8_t *out) {
    size_t from = 0;
    const uint8_t *tile = in + at;
#define CALL_ROTATE(e) rotate(0, e, tile, size, out)
    if (filter == VV_FILTER_ROTATE) {
        FOR_EACH_ELEMENT(CALL_ROTATE)
        return;
    }
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

static void change_back_tile(int filter, unsigned element, uint8_t *data, size_t at, size_t end) {
#define CALL_ROTATE_BACK(e) rotate(1, e, data + at, end - at, data + at)
    if (filter == VV_FILTER_ROTATE) {
        FOR_EACH_ELEMENT(CALL_ROTATE_BACK)
        return;
    }
    size_t from = at ? at : element;
#define CALL_XOR_BACK(e) sum_up(1, e, data, from, end)
#define CALL_DELTA_BACK(e) sum_up(0, e, data, from, end)
    if (filter == VV_FILTER_XOR)
        FOR_EACH_ELEMENT(CALL_XOR_BACK)
    else
        FOR_EACH_ELEMENT(CALL_DELTA_BACK)
}

/* ---- shuffles ---- */

/* Where tiles lie in the whole, and which kind of numbers they hold. count and all are multiples of 8 for bits. */
struct part {
    unsigned width; /* bytes of a number */
    unsigned lanes; /* numbers in an element: 3 in vectors; else elements are numbers here */
    size_t first;   /* element of the tile */
    size_t count;   /* elements in the tile */
    size_t all;     /* elements that are shuffled */
};

/* The numbers of one lane. Bit b of byte k of all lanes lies together. */
static void bits_split(const struct part *part, unsigned lane, const uint8_t *in, uint8_t *out) {
    size_t count = part->count, plane = part->all / 8;
    uint8_t planes[TILE];
    vv_planes_split(part->width, in, count, planes, count);
    vv_bits_turn(planes, count * part->width / 8);
    for (size_t k = 0; k < part->width; k++)
        vv_planes_split(8, planes + k * count, count / 8, out + (k * 8 * part->lanes + lane) * plane + part->first / 8,
                        plane * part->lanes);
}

static void bits_join(const struct part *part, unsigned lane, const uint8_t *in, uint8_t *out) {
    size_t count = part->count, plane = part->all / 8;
    uint8_t planes[TILE];
    for (size_t k = 0; k < part->width; k++)
        vv_planes_join(8, in + (k * 8 * part->lanes + lane) * plane + part->first / 8, plane * part->lanes, count / 8,
                       planes + k * count);
    vv_bits_turn(planes, count * part->width / 8);
    vv_planes_join(part->width, planes, count, count, out);
}

/* From the tile `in` to its places in all of `out`. */
static void split(int shuffle, const struct part *part, const uint8_t *in, uint8_t *out) {
    uint8_t apart[TILE];
    if (part->lanes > 1) {
        vv_lanes_split(part->width, in, part->count, apart, part->count);
        in = apart;
    }
    for (unsigned lane = 0; lane < part->lanes; lane++, in += part->count * part->width)
        if (shuffle == VV_FILTER_BITSHUFFLE)
            bits_split(part, lane, in, out);
        else
            vv_planes_split(part->width, in, part->count, out + lane * part->all + part->first,
                            part->all * part->lanes);
}

/* The reverse, from all of `in` to the tile `out`. */
static void join(int shuffle, const struct part *part, const uint8_t *in, uint8_t *out) {
    uint8_t apart[TILE], *to = part->lanes > 1 ? apart : out;
    for (unsigned lane = 0; lane < part->lanes; lane++)
        if (shuffle == VV_FILTER_BITSHUFFLE)
            bits_join(part, lane, in, to + lane * part->count * part->width);
        else
            vv_planes_join(part->width, in + lane * part->all + part->first, part->all * part->lanes, part->count,
                           to + lane * part->count * part->width);
    if (part->lanes > 1)
        vv_lanes_join(part->width, apart, part->count, part->count, out);
}

struct plan {
    int change;      /* VV_FILTER_DELTA, VV_FILTER_XOR, VV_FILTER_ROTATE or none */
    int shuffle;     /* VV_FILTER_SHUFFLE, VV_FILTER_BITSHUFFLE or none */
    size_t whole;    /* bytes of whole elements: what is changed */
    size_t shuffled; /* bytes that are shuffled */
};

static struct plan plan_of(const uint8_t filter[2], uint8_t element, size_t size) {
    struct plan p = {.whole = size - size % element};
    p.change = is_shuffle(filter[0]) ? VV_FILTER_NONE : filter[0];
    p.shuffle = is_shuffle(filter[0]) ? filter[0] : filter[1];
    if (p.shuffle == VV_FILTER_BITSHUFFLE)
        p.shuffled = size - size % ((size_t)element * 8);
    else if (p.shuffle == VV_FILTER_SHUFFLE)
        p.shuffled = p.whole;
    return p;
}

/* The tile at byte `at` of those that are shuffled. */
static struct part part_of(const struct plan *plan, unsigned element, size_t at) {
    size_t left = plan->shuffled - at, tile = tile_of(element);
    unsigned lanes = element % 3 ? 1 : 3;
    return (struct part){.width = element / lanes,
                         .lanes = lanes,
                         .first = at / element,
                         .count = (left < tile ? left : tile) / element,
                         .all = plan->shuffled / element};
}

void vv_filter_apply(const uint8_t filter[2], uint8_t element, const void *in, void *out, size_t size) {
    const struct plan p = plan_of(filter, element, size);
    const uint8_t *from = in;
    uint8_t *to = out, tile[TILE];
    for (size_t at = 0; at < p.shuffled; at += tile_of(element)) {
        const struct part part = part_of(&p, element, at);
        const uint8_t *source = from + at;
        if (p.change) {
            change_tile(p.change, element, from, at, part.count * element, tile);
            source = tile;
        }
        split(p.shuffle, &part, source, to);
    }
    size_t rest = p.shuffled; /* elements that are not shuffled, but changed; then the bytes behind them */
    if (p.change && rest < p.whole) {
        change_tile(p.change, element, from, rest, p.whole - rest, to + rest);
        rest = p.whole;
    }
    if (rest < size)
        memcpy(to + rest, from + rest, size - rest);
}

void vv_filter_undo(const uint8_t filter[2], uint8_t element, const void *in, void *out, size_t size) {
    const struct plan p = plan_of(filter, element, size);
    const uint8_t *from = in;
    uint8_t *to = out;
    for (size_t at = 0; at < p.shuffled; at += tile_of(element)) {
        const struct part part = part_of(&p, element, at);
        join(p.shuffle, &part, from, to + at);
        if (p.change)
            change_back_tile(p.change, element, to, at, at + part.count * element);
    }
    if (p.shuffled < size)
        memcpy(to + p.shuffled, from + p.shuffled, size - p.shuffled);
    if (p.change && p.shuffled < p.whole)
        change_back_tile(p.change, element, to, p.shuffled, p.whole);
}
