/* Filters against the words of docs/format.md 6, written down once more in the plainest way; vectors against no
 * vectors. */
#include <stdlib.h>
#include <string.h>

#include "encode/coding.h"
#include "encode/filter.h"
#include "encode/filter_private.h"
#include "encode_data.h"
#include "test.h"

enum { LARGEST = 70000, EDGE = 32 };
static const uint8_t elements[] = {1, 2, 4, 8, 12, 16, 24};
static uint8_t data[LARGEST + 1], got[LARGEST + EDGE], expected[LARGEST], between[LARGEST], back[LARGEST + EDGE];

/* Numbers in an element that shuffles take one by one. */
static size_t lanes_of(size_t e) {
    return e == 12 || e == 24 ? 3 : 1;
}

static void plain_shuffle(size_t e, const uint8_t *in, uint8_t *out, size_t size) {
    size_t n = size / e, at = 0, width = e / lanes_of(e);
    for (size_t k = 0; k < width; k++)
        for (size_t lane = 0; lane < lanes_of(e); lane++)
            for (size_t i = 0; i < n; i++)
                out[at++] = in[i * e + lane * width + k];
    while (at < size) {
        out[at] = in[at];
        at++;
    }
}

static void plain_bitshuffle(size_t e, const uint8_t *in, uint8_t *out, size_t size) {
    size_t n = size / e / 8 * 8, at = 0, lanes = lanes_of(e), width = e / lanes;
    for (size_t plane = 0; plane < 8 * e; plane++) {
        size_t bit = plane / lanes, k = plane % lanes * width + bit / 8;
        for (size_t i = 0; i < n; i += 8) {
            uint8_t byte = 0;
            for (size_t j = 0; j < 8; j++)
                byte |= (uint8_t)((in[(i + j) * e + k] >> bit % 8 & 1) << j);
            out[at++] = byte;
        }
    }
    while (at < size) {
        out[at] = in[at];
        at++;
    }
}

/* With a borrow from byte to byte. */
static void plain_delta(size_t e, const uint8_t *in, uint8_t *out, size_t size) {
    size_t width = e == 12 ? 4 : e > 8 ? 8 : e, whole = size - size % e;
    memcpy(out, in, size);
    for (size_t i = e; i < whole; i += width)
        for (size_t k = 0, borrow = 0; k < width; k++) {
            int d = (int)in[i + k] - (int)in[i + k - e] - (int)borrow;
            borrow = d < 0;
            out[i + k] = (uint8_t)d;
        }
}

static void plain_xor(size_t e, const uint8_t *in, uint8_t *out, size_t size) {
    memcpy(out, in, size);
    for (size_t i = e; i < size - size % e; i++)
        out[i] = in[i] ^ in[i - e];
}

/* The bit that leaves a byte enters the next one; the highest of a number enters its lowest byte. */
static void plain_rotate(size_t e, const uint8_t *in, uint8_t *out, size_t size) {
    size_t width = e == 12 ? 4 : e > 8 ? 8 : e, whole = size - size % e;
    memcpy(out, in, size);
    for (size_t i = 0; i < whole; i++)
        out[i] = (uint8_t)(in[i] << 1 | in[i % width ? i - 1 : i + width - 1] >> 7);
}

static void plain(int filter, size_t e, const uint8_t *in, uint8_t *out, size_t size) {
    switch (filter) {
    case VV_FILTER_SHUFFLE:
        plain_shuffle(e, in, out, size);
        break;
    case VV_FILTER_BITSHUFFLE:
        plain_bitshuffle(e, in, out, size);
        break;
    case VV_FILTER_DELTA:
        plain_delta(e, in, out, size);
        break;
    case VV_FILTER_XOR:
        plain_xor(e, in, out, size);
        break;
    case VV_FILTER_ROTATE:
        plain_rotate(e, in, out, size);
        break;
    default:
        memcpy(out, in, size);
    }
}

static void compare(const uint8_t filter[2], uint8_t element, size_t size) {
    plain(filter[0], element, data + 1, between, size);
    plain(filter[1], element, between, expected, size);
    memset(got + size, 0x5a, EDGE);
    memset(back + size, 0x5a, EDGE);
    vv_filter_apply(filter, element, data + 1, got, size);
    assert_memory_equal(got, expected, size);
    vv_filter_undo(filter, element, got, back, size);
    assert_memory_equal(back, data + 1, size);
    for (int i = 0; i < EDGE; i++)
        assert_true(got[size + (size_t)i] == 0x5a && back[size + (size_t)i] == 0x5a);
}

static void filters_do_what_the_format_says(void **unused) {
    (void)unused;
    static const size_t sizes[] = {
        1,           2,     3,     7,     8,       15,    16,    17,          31,    33,    63,        127,
        128,         129,   255,   257,   1000,    4095,  4096,  4097,        8191,  16383, 16384,     16385,
        16384 + 128, 32768, 40001, 65536, LARGEST, 11,    12,    13,          23,    24,    25,        95,
        97,          191,   193,   5000,  15359,   15360, 15361, 15360 + 192, 30720, 30721, 46080 - 24};
    static const uint8_t filters[][2] = {{1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}, {3, 1},
                                         {3, 2}, {4, 1}, {4, 2}, {5, 1}, {5, 2}};
    fill_data(data, LARGEST + 1, NOISE, VARVE_BYTES, 1);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t f = 0; f < sizeof filters / sizeof filters[0]; f++)
            for (size_t e = 0; e < sizeof elements; e++) {
                assert_true(vv_filter_is_valid(filters[f], elements[e]) && vv_filter_is_one_pass(filters[f]));
                compare(filters[f], elements[e], sizes[s]);
            }
}

static void vectors_give_what_plain_code_gives(void **unused) {
    (void)unused;
    fill_data(data, LARGEST + 1, NOISE, VARVE_BYTES, 1);
    for (unsigned element = 1; element <= 16; element *= 2)
        for (size_t count = 0; count < 70; count++) {
            memset(got, 0x5a, sizeof got);
            memset(expected, 0x5a, sizeof expected);
            vv_planes_split(element, data + 1, count, got, count + 3);
            vv_planes_split_plain(element, data + 1, count, expected, count + 3);
            assert_memory_equal(got, expected, 16 * 80);
            vv_planes_join(element, data + 1, count + 5, count, got);
            vv_planes_join_plain(element, data + 1, count + 5, count, expected);
            assert_memory_equal(got, expected, 16 * 80);
        }
    for (unsigned width = 4; width <= 8; width += 4)
        for (size_t count = 0; count < 40; count++) {
            memset(got, 0x5a, sizeof got);
            memset(expected, 0x5a, sizeof expected);
            vv_lanes_split(width, data + 1, count, got, count + 3);
            vv_lanes_split_plain(width, data + 1, count, expected, count + 3);
            assert_memory_equal(got, expected, 24 * 50);
            for (size_t i = 0; i < count * 3; i++)
                assert_memory_equal(got + (i % 3 * (count + 3) + i / 3) * width, data + 1 + i * width, width);
            vv_lanes_join(width, data + 1, count + 5, count, got);
            vv_lanes_join_plain(width, data + 1, count + 5, count, expected);
            assert_memory_equal(got, expected, 24 * 50);
            for (size_t i = 0; i < count * 3; i++)
                assert_memory_equal(got + i * width, data + 1 + (i % 3 * (count + 5) + i / 3) * width, width);
        }
    for (size_t words = 0; words < 20; words++) {
        memcpy(got, data + 1, 400);
        memcpy(expected, data + 1, 400);
        vv_bits_turn(got, words);
        vv_bits_turn_plain(expected, words);
        assert_memory_equal(got, expected, 400);
        for (size_t bit = 0; bit < words * 64; bit++) { /* row r, column c of each matrix */
            size_t at = bit / 64 * 8, r = bit / 8 % 8, c = bit % 8;
            assert_int_equal(got[at + r] >> c & 1, data[1 + at + c] >> r & 1);
        }
    }
}

/* -1.5, the least positive denormal, a NaN and 2 as float32: sign behind the mantissa, exponents together. */
static void known_numbers_are_rotated(void **unused) {
    (void)unused;
    static const uint8_t in[] = {0, 0, 0xc0, 0xbf, 1, 0, 0, 0, 1, 0, 0xc0, 0xff, 0, 0, 0, 0x40, 0x77};
    static const uint8_t out[] = {1, 2, 3, 0, 0, 0, 0, 0, 0x80, 0, 0x80, 0, 0x7f, 0, 0xff, 0x80, 0x77};
    vv_filter_apply((const uint8_t[]){VV_FILTER_ROTATE, VV_FILTER_SHUFFLE}, 4, in, got, sizeof in);
    assert_memory_equal(got, out, sizeof out);
}

static void what_is_valid(void **unused) {
    (void)unused;
    assert_true(vv_filter_is_valid((const uint8_t[]){0, 0}, 0));
    assert_false(vv_filter_is_valid((const uint8_t[]){0, 1}, 8));
    assert_false(vv_filter_is_valid((const uint8_t[]){6, 0}, 8));
    assert_false(vv_filter_is_valid((const uint8_t[]){1, 6}, 8));
    for (unsigned element = 0; element < 256; element++)
        assert_int_equal(vv_filter_is_valid((const uint8_t[]){1, 0}, (uint8_t)element),
                         element && memchr(elements, (int)element, sizeof elements) != NULL);
    assert_false(vv_filter_is_one_pass((const uint8_t[]){1, 3}));
    assert_false(vv_filter_is_one_pass((const uint8_t[]){3, 4}));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters_do_what_the_format_says),
        cmocka_unit_test(vectors_give_what_plain_code_gives),
        cmocka_unit_test(known_numbers_are_rotated),
        cmocka_unit_test(what_is_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
