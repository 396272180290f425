/* The range of raw values, against the plainest way to find it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "format/values.h"
#include "test.h"

#define ROUNDS 3000
#define ELEMENTS_MAX 300

static uint64_t seed = 0x2545f4914f6cdd1du;

static uint64_t random_u64(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static double double_of(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* One element as a long double, which on this machine holds every i64 and u64; parts of complex numbers one by one. */
static long double element(uint8_t type, const uint8_t *at) {
#define AS(TYPE)                                                                                                       \
    ({                                                                                                                 \
        TYPE value_;                                                                                                   \
        memcpy(&value_, at, sizeof value_);                                                                            \
        value_;                                                                                                        \
    })
    switch (type) {
    case VARVE_I8:
        return AS(int8_t);
    case VARVE_U8:
        return AS(uint8_t);
    case VARVE_I16:
        return AS(int16_t);
    case VARVE_U16:
        return AS(uint16_t);
    case VARVE_I32:
        return AS(int32_t);
    case VARVE_U32:
        return AS(uint32_t);
    case VARVE_I64:
        return AS(int64_t);
    case VARVE_U64:
        return AS(uint64_t);
    case VARVE_F32:
    case VARVE_C64:
        return AS(float);
    case VARVE_F64:
    case VARVE_C128:
        return AS(double);
    case VARVE_F16: {
        unsigned bits = AS(uint16_t), exponent = bits >> 10 & 31, fraction = bits & 1023;
        long double value = exponent == 31 ? (fraction ? NAN : INFINITY)
                            : exponent     ? ldexpl(1 + fraction / 1024.0L, (int)exponent - 15)
                                           : ldexpl(fraction / 1024.0L, -14);
        return bits >> 15 ? -value : value;
    }
    default: {
        uint32_t bits = (uint32_t)AS(uint16_t) << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    }
}

static size_t part_size(uint8_t type) {
    return type == VARVE_C64 ? 4 : type == VARVE_C128 ? 8 : vv_type_size(type);
}

struct plain {
    long double low, high;
    int has_nan, is_empty;
};

static struct plain look_plainly(uint8_t type, const uint8_t *data, size_t size) {
    struct plain plain = {.is_empty = 1};
    size_t step = part_size(type);
    size -= size % vv_type_size(type);
    for (size_t at = 0; at < size; at += step) {
        long double value = element(type, data + at);
        if (isnan(value)) {
            plain.has_nan = 1;
            continue;
        }
        plain.low = plain.is_empty || value < plain.low ? value : plain.low;
        plain.high = plain.is_empty || value > plain.high ? value : plain.high;
        plain.is_empty = 0;
    }
    return plain;
}

static long double widest(uint8_t type, uint64_t bits) {
    switch (type) {
    case VARVE_I8:
    case VARVE_I16:
    case VARVE_I32:
    case VARVE_I64:
        return (int64_t)bits;
    case VARVE_U8:
    case VARVE_U16:
    case VARVE_U32:
    case VARVE_U64:
        return bits;
    default:
        return double_of(bits);
    }
}

static void check(uint8_t type, const uint8_t *data, size_t size) {
    struct vv_range range;
    double low, high;

    vv_values_range(type, data, size, &range);
    struct plain plain = look_plainly(type, data, size);
    if (size < vv_type_size(type)) {
        assert_int_equal(range.type, 0);
        return;
    }
    assert_int_equal(range.type, type);
    assert_int_equal(range.flags, (plain.has_nan ? VV_RANGE_NAN : 0) | (plain.is_empty ? VV_RANGE_EMPTY : 0));
    if (plain.is_empty) {
        assert_true(range.low == 0 && range.high == 0);
        return;
    }
    assert_true(widest(type, range.low) == plain.low);
    assert_true(widest(type, range.high) == plain.high);
    vv_range_doubles(&range, &low, &high);
    /* Outwards, and no further than needed. */
    assert_true(low <= plain.low && high >= plain.high);
    assert_true((double)plain.low != plain.low || low == plain.low);
    assert_true((double)plain.high != plain.high || high == plain.high);
    assert_true(low == plain.low || plain.low - low < 2048);
    assert_true(high == plain.high || high - plain.high < 2048);
}

/* Random bits have every kind of value in them; most floats get an ordinary exponent, so that NaN is not always there.
 */
static void fill(uint8_t type, uint8_t *data, size_t size, int are_tame) {
    for (size_t at = 0; at < size; at++)
        data[at] = (uint8_t)(random_u64() >> 24);
    size_t step = part_size(type);
    for (size_t at = 0; are_tame && at + step <= size; at += step) {
        if (type == VARVE_F32 || type == VARVE_C64) {
            float value = (float)((double)random_u64() / 1e18 - 9);
            memcpy(data + at, &value, 4);
        } else if (type == VARVE_F64 || type == VARVE_C128) {
            double value = (double)random_u64() / 1e18 - 9;
            memcpy(data + at, &value, 8);
        } else if (type == VARVE_F16 || type == VARVE_BF16) {
            data[at + 1] &= 0xbf;
        }
    }
}

static void test_all_types_agree_with_the_plain_way(void **state) {
    (void)state;
    uint8_t capacity[ELEMENTS_MAX * 16 + 8];
    for (int round = 0; round < ROUNDS; round++) {
        uint8_t type = (uint8_t)(1 + random_u64() % (VV_TYPES - 1));
        uint8_t *data = capacity + random_u64() % 8;
        size_t size = random_u64() % (ELEMENTS_MAX * vv_type_size(type));
        fill(type, data, size, random_u64() % 4 != 0);
        check(type, data, size);
    }
}

/* Wherever the least, the greatest and a NaN stand, they are found. */
static void test_every_place_counts(void **state) {
    (void)state;
    enum { COUNT = 100 };
    for (int place = 0; place < COUNT; place++) {
        double f64[COUNT];
        float f32[COUNT];
        int32_t i32[COUNT];
        uint8_t u8[COUNT];
        for (int i = 0; i < COUNT; i++)
            f64[i] = f32[i] = (float)(i32[i] = u8[i] = (uint8_t)(100 + i % 7));
        int other = (place + 37) % COUNT;
        f64[place] = f32[place] = (float)(i32[place] = u8[place] = 3);
        f64[other] = f32[other] = (float)(i32[other] = u8[other] = 250);
        check(VARVE_F64, (const uint8_t *)f64, sizeof f64);
        check(VARVE_F32, (const uint8_t *)f32, sizeof f32);
        check(VARVE_I32, (const uint8_t *)i32, sizeof i32);
        check(VARVE_U8, u8, sizeof u8);
        f64[(place + 11) % COUNT] = NAN;
        f32[(place + 11) % COUNT] = NAN;
        check(VARVE_F64, (const uint8_t *)f64, sizeof f64);
        check(VARVE_F32, (const uint8_t *)f32, sizeof f32);
    }
}

static void test_nan_infinity_and_zero(void **state) {
    (void)state;
    struct vv_range range;
    const double nans[] = {NAN, -NAN}, zeros[] = {-0.0, -0.0}, ends[] = {INFINITY, INFINITY, NAN};
    const uint16_t f16_nan = 0x7e00, bf16_nan = 0xffff, f16_ends[] = {0x7c00, 0xfc00, 0x8001, 0x8000};

    vv_values_range(VARVE_F64, nans, sizeof nans, &range);
    assert_int_equal(range.type, VARVE_F64);
    assert_int_equal(range.flags, VV_RANGE_NAN | VV_RANGE_EMPTY);
    vv_values_range(VARVE_F16, &f16_nan, 2, &range);
    assert_int_equal(range.flags, VV_RANGE_NAN | VV_RANGE_EMPTY);
    vv_values_range(VARVE_BF16, &bf16_nan, 2, &range);
    assert_int_equal(range.flags, VV_RANGE_NAN | VV_RANGE_EMPTY);

    vv_values_range(VARVE_F64, zeros, sizeof zeros, &range);
    assert_true(range.flags == 0 && range.low == 0 && range.high == 0);
    vv_values_range(VARVE_F16, &f16_ends[3], 2, &range);
    assert_true(range.flags == 0 && range.low == 0 && range.high == 0);

    vv_values_range(VARVE_F64, ends, sizeof ends, &range);
    assert_true(range.flags == VV_RANGE_NAN && double_of(range.low) == INFINITY && double_of(range.high) == INFINITY);
    check(VARVE_F16, (const uint8_t *)f16_ends, sizeof f16_ends);
}

static void test_what_has_no_order_has_no_range(void **state) {
    (void)state;
    struct vv_range range;
    uint8_t bytes[64] = {1};
    vv_values_range(VARVE_BYTES, bytes, sizeof bytes, &range);
    assert_int_equal(range.type, 0);
    vv_values_range(VV_TYPES, bytes, sizeof bytes, &range);
    assert_int_equal(range.type, 0);
    vv_values_range(VARVE_F64, bytes, 7, &range);
    assert_int_equal(range.type, 0);
    vv_values_range(VARVE_F64, NULL, 0, &range);
    assert_int_equal(range.type, 0);
}

static void test_ends_of_integers(void **state) {
    (void)state;
    const int64_t signs[] = {INT64_MIN, INT64_MAX, 0};
    const int64_t near[] = {INT64_MAX, INT64_MAX - 1}, odd[] = {-((1ll << 53) + 1), -((1ll << 53) + 1)};
    const uint64_t high[] = {UINT64_MAX, UINT64_MAX}, low[] = {0, (1ull << 53) + 1};
    check(VARVE_I64, (const uint8_t *)signs, sizeof signs);
    check(VARVE_I64, (const uint8_t *)near, sizeof near);
    check(VARVE_I64, (const uint8_t *)odd, sizeof odd);
    check(VARVE_U64, (const uint8_t *)high, sizeof high);
    check(VARVE_U64, (const uint8_t *)low, sizeof low);
}

/* Joined ranges of the two parts are the range of the whole. */
static void test_join(void **state) {
    (void)state;
    uint8_t data[ELEMENTS_MAX * 16];
    for (int round = 0; round < ROUNDS; round++) {
        uint8_t type = (uint8_t)(1 + random_u64() % (VV_TYPES - 1));
        size_t step = vv_type_size(type), count = random_u64() % 20, cut = random_u64() % (count + 1);
        struct vv_range whole, first, second;
        fill(type, data, count * step, random_u64() % 3 != 0);
        if (random_u64() % 4 == 0) /* all bits set: NaN, for floats */
            memset(data, 0xff, cut * step);
        vv_values_range(type, data, count * step, &whole);
        vv_values_range(type, data, cut * step, &first);
        vv_values_range(type, data + cut * step, (count - cut) * step, &second);
        vv_range_join(&first, &second);
        assert_int_equal(first.type, whole.type);
        assert_int_equal(first.flags, whole.flags);
        assert_true(first.low == whole.low && first.high == whole.high);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_types_agree_with_the_plain_way),
        cmocka_unit_test(test_every_place_counts),
        cmocka_unit_test(test_nan_infinity_and_zero),
        cmocka_unit_test(test_what_has_no_order_has_no_range),
        cmocka_unit_test(test_ends_of_integers),
        cmocka_unit_test(test_join),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
