/* How far two values are apart, type by type: the same bits or not, NaN, infinities, -0, the tiniest numbers, the ends
 * of the integers. */
#include <fenv.h>
#include <math.h>
#include <string.h>

#include "base/array.h"
#include "inspect/diff_private.h"
#include "test.h"

#define EXACT (-1.0)

struct values {
    uint8_t bytes[2][16];
};

static struct values f64(double a, double b) {
    struct values values = {0};
    memcpy(values.bytes[0], &a, sizeof a);
    memcpy(values.bytes[1], &b, sizeof b);
    return values;
}

static struct values f32(float a, float b) {
    struct values values = {0};
    memcpy(values.bytes[0], &a, sizeof a);
    memcpy(values.bytes[1], &b, sizeof b);
    return values;
}

static struct values c128(double a, double ai, double b, double bi) {
    struct values values = f64(a, b);
    memcpy(values.bytes[0] + 8, &ai, sizeof ai);
    memcpy(values.bytes[1] + 8, &bi, sizeof bi);
    return values;
}

static struct values c64(float a, float ai, float b, float bi) {
    struct values values = f32(a, b);
    memcpy(values.bytes[0] + 4, &ai, sizeof ai);
    memcpy(values.bytes[1] + 4, &bi, sizeof bi);
    return values;
}

static struct values bits(uint64_t a, uint64_t b) {
    struct values values = {0};
    memcpy(values.bytes[0], &a, sizeof a);
    memcpy(values.bytes[1], &b, sizeof b);
    return values;
}

static struct vv_diff_tally compare(int type, struct values values, double tolerance, double relative) {
    struct vv_diff_rule rule = {.type = (uint8_t)type,
                                .element = vv_type_size(type),
                                .is_by_value = tolerance >= 0,
                                .tolerance = tolerance >= 0 ? tolerance : 0,
                                .relative = relative};
    struct vv_diff_tally tally = {0};
    vv_diff_elements(&rule, 7, values.bytes[0], values.bytes[1], rule.element, &tally);
    assert_int_equal(tally.bytes, tally.changed * rule.element);
    assert_true(tally.changed == 0 || tally.first == 7);
    return tally;
}

static void expect_at(int line, struct vv_diff_tally tally, uint64_t changed, uint64_t differing, uint64_t nan,
                      double largest, double relative) {
    if (tally.changed != changed || tally.differing != differing || tally.nan != nan || !(tally.largest == largest) ||
        !(fabs(tally.largest_relative - relative) < 1e-15 || tally.largest_relative == relative))
        fail_msg("line %d: changed %d differing %d nan %d largest %.17g relative %.17g", line, (int)tally.changed,
                 (int)tally.differing, (int)tally.nan, tally.largest, tally.largest_relative);
}
#define expect(...) expect_at(__LINE__, __VA_ARGS__)

static void every_bit_counts_without_a_tolerance(void **unused) {
    (void)unused;
    expect(compare(VARVE_F64, f64(1, 1), EXACT, 0), 0, 0, 0, 0, 0);
    expect(compare(VARVE_F64, f64(1, 1.5), EXACT, 0), 1, 1, 0, 0.5, 0.5 / 1.5);
    expect(compare(VARVE_F64, f64(0.0, -0.0), EXACT, 0), 1, 1, 0, 0, 0);
    expect(compare(VARVE_F64, f64(NAN, NAN), EXACT, 0), 0, 0, 0, 0, 0);
    expect(compare(VARVE_F64, bits(0x7ff8000000000000, 0x7ff8000000000001), EXACT, 0), 1, 1, 0, 0, 0);
    expect(compare(VARVE_F64, f64(INFINITY, INFINITY), EXACT, 0), 0, 0, 0, 0, 0);
    expect(compare(VARVE_F64, f64(5e-324, 0), EXACT, 0), 1, 1, 0, 5e-324, 1);
    expect(compare(VARVE_BYTES, bits(1, 2), EXACT, 0), 1, 1, 0, 0, 0);
}

static void bounds_hold_to_the_last_value(void **unused) {
    (void)unused;
    expect(compare(VARVE_F64, f64(1, 1.5), 0.5, 0), 1, 0, 0, 0.5, 0.5 / 1.5);
    expect(compare(VARVE_F64, f64(1, 1.5), nextafter(0.5, 0), 0), 1, 1, 0, 0.5, 0.5 / 1.5);
    expect(compare(VARVE_F64, f64(3, 4), 0, 0.25), 1, 0, 0, 1, 0.25);
    expect(compare(VARVE_F64, f64(3, 4), 0, 0.2499), 1, 1, 0, 1, 0.25);
    expect(compare(VARVE_F64, f64(-3, 4), 0, 1.75), 1, 0, 0, 7, 1.75);
    /* One of the two is enough. */
    expect(compare(VARVE_F64, f64(1e-12, 2e-12), 1e-9, 1e-9), 1, 0, 0, 1e-12, 0.5);
    expect(compare(VARVE_F64, f64(1e12, 1e12 + 1), 1e-9, 1e-9), 1, 0, 0, 1, 1 / (1e12 + 1));
}

static void special_values_by_value(void **unused) {
    (void)unused;
    expect(compare(VARVE_F64, f64(0.0, -0.0), 0, 0), 1, 0, 0, 0, 0);
    expect(compare(VARVE_F32, f32(-0.0f, 0.0f), 0, 0), 1, 0, 0, 0, 0);
    expect(compare(VARVE_F64, bits(0x7ff8000000000000, 0xfff8000000000001), 0, 0), 1, 0, 0, 0, 0);
    expect(compare(VARVE_F64, f64(NAN, 1), 1e300, 1), 1, 1, 1, 0, 0);
    expect(compare(VARVE_F64, f64(1, NAN), 1e300, 1), 1, 1, 1, 0, 0);
    expect(compare(VARVE_F64, f64(NAN, INFINITY), 1e300, 1), 1, 1, 1, 0, 0);
    expect(compare(VARVE_F64, f64(INFINITY, -INFINITY), 1e300, 5), 1, 1, 0, INFINITY, INFINITY);
    expect(compare(VARVE_F64, f64(INFINITY, 1e308), 1e308, 5), 1, 1, 0, INFINITY, INFINITY);
    /* Tiny numbers are not taken for 0. */
    expect(compare(VARVE_F64, f64(5e-324, 1e-323), 0, 0), 1, 1, 0, 5e-324, 0.5);
    expect(compare(VARVE_F64, f64(5e-324, 1e-323), 5e-324, 0), 1, 0, 0, 5e-324, 0.5);
    expect(compare(VARVE_F32, f32(1e-45f, 0), 0, 0.5), 1, 1, 0, (double)1e-45f, 1);
    /* A distance that no double can hold is beyond every tolerance; its ratio is known. */
    expect(compare(VARVE_F64, f64(1.7e308, -1.7e308), 1e308, 1), 1, 1, 0, INFINITY, 2);
}

static void short_floats(void **unused) {
    (void)unused;
    expect(compare(VARVE_F16, bits(0x3c00, 0xc000), 0, 0), 1, 1, 0, 3, 1.5);               /* 1, -2 */
    expect(compare(VARVE_F16, bits(0x0001, 0x0002), 0, 0), 1, 1, 0, 0x1p-24, 0.5);         /* the tiniest two */
    expect(compare(VARVE_F16, bits(0x7bff, 0x7c00), 1e9, 0), 1, 1, 0, INFINITY, INFINITY); /* 65504, infinity */
    expect(compare(VARVE_F16, bits(0x7c01, 0x7e00), 0, 0), 1, 0, 0, 0, 0);                 /* two NaN */
    expect(compare(VARVE_F16, bits(0x7e00, 0x3c00), 9, 9), 1, 1, 1, 0, 0);
    expect(compare(VARVE_F16, bits(0x8000, 0x0000), 0, 0), 1, 0, 0, 0, 0);
    expect(compare(VARVE_BF16, bits(0x3f80, 0x4040), 0, 0), 1, 1, 0, 2, 2.0 / 3); /* 1, 3 */
    expect(compare(VARVE_BF16, bits(0x3f80, 0x4040), 2, 0), 1, 0, 0, 2, 2.0 / 3);
    expect(compare(VARVE_BF16, bits(0x7fc0, 0x7f80), 9, 0), 1, 1, 1, 0, 0); /* NaN, infinity */
    expect(compare(VARVE_BF16, bits(0x0001, 0x0000), 0, 0), 1, 1, 0, 0x1p-133, 1);
}

static void complex_numbers_are_points(void **unused) {
    (void)unused;
    expect(compare(VARVE_C128, c128(1, 1, 4, 5), 5, 0), 1, 0, 0, 5, 5 / hypot(4, 5));
    expect(compare(VARVE_C128, c128(1, 1, 4, 5), 4.999, 0), 1, 1, 0, 5, 5 / hypot(4, 5));
    expect(compare(VARVE_C64, c64(1, 0, 1, 0.5f), 0.5, 0), 1, 0, 0, 0.5, 0.5 / hypot(1, 0.5));
    /* A part that is noise beside the other is within a relative bound. */
    expect(compare(VARVE_C128, c128(1, 0, 1, 2e-17), 0, 1e-12), 1, 0, 0, 2e-17, 2e-17);
    expect(compare(VARVE_C128, c128(NAN, 1, 1, NAN), 0, 0), 1, 0, 0, 0, 0);
    expect(compare(VARVE_C128, c128(NAN, 1, 1, 1), 9, 9), 1, 1, 1, 0, 0);
    expect(compare(VARVE_C128, c128(INFINITY, 1, INFINITY, 2), 1, 0), 1, 0, 0, 1, 0);
    expect(compare(VARVE_C64, c64(0, -0.0f, -0.0f, 0), 0, 0), 1, 0, 0, 0, 0);
}

static void integers_are_exact(void **unused) {
    (void)unused;
    expect(compare(VARVE_I8, bits(0x7f, 0x80), 1000, 10), 1, 1, 0, 255, 255.0 / 128);
    expect(compare(VARVE_U8, bits(0, 255), 1000, 10), 1, 1, 0, 255, 1);
    expect(compare(VARVE_I16, bits(0xffff, 1), 1000, 10), 1, 1, 0, 2, 2);
    expect(compare(VARVE_U16, bits(0xffff, 1), EXACT, 0), 1, 1, 0, 65534, 65534.0 / 65535);
    expect(compare(VARVE_I32, bits(0x80000000, 0x7fffffff), EXACT, 0), 1, 1, 0, 4294967295.0,
           4294967295.0 / 2147483648);
    expect(compare(VARVE_U32, bits(5, 4), EXACT, 0), 1, 1, 0, 1, 0.2);
    expect(compare(VARVE_I64, bits(0x8000000000000000, 0x7fffffffffffffff), EXACT, 0), 1, 1, 0, 0x1p64, 2);
    expect(compare(VARVE_U64, bits(UINT64_MAX, 0), EXACT, 0), 1, 1, 0, 0x1p64, 1);
    expect(compare(VARVE_I64, bits(1u << 20, (1u << 20) + 1), EXACT, 0), 1, 1, 0, 1, 1.0 / 1048577);
}

/* A program may have set its processor to flush tiny numbers, or to round otherwise. */
static void arithmetic_is_our_own(void **unused) {
    (void)unused;
    fesetround(FE_UPWARD);
    expect(compare(VARVE_F64, f64(1, 1 + 1e-3), 0.1, 0), 1, 0, 0, 1 + 1e-3 - 1, (1 + 1e-3 - 1) / (1 + 1e-3));
    assert_int_equal(fegetround(), FE_UPWARD);
    fesetround(FE_TONEAREST);
}

static void many_elements_and_the_first_of_them(void **unused) {
    (void)unused;
    enum { COUNT = 3000 };
    static double a[COUNT], b[COUNT];
    for (int i = 0; i < COUNT; i++)
        a[i] = b[i] = i;
    b[100] += 0.125;
    b[2000] += 2;
    b[2500] = NAN;
    b[2999] -= 1;
    struct vv_diff_rule rule = {.type = VARVE_F64, .element = 8};
    struct vv_diff_tally tally = {0};
    vv_diff_elements(&rule, 1000, (uint8_t *)a, (uint8_t *)b, sizeof a, &tally);
    assert_int_equal(tally.first, 1100);
    expect(tally, 4, 4, 1, 2, 0.125 / 100.125);
    assert_int_equal(tally.largest_element, 3000);

    /* The first that changed gives way to the first that differs, wherever that comes. */
    rule.is_by_value = 1;
    rule.tolerance = 1;
    tally = (struct vv_diff_tally){0};
    vv_diff_elements(&rule, 0, (uint8_t *)a, (uint8_t *)b, 1500 * sizeof a[0], &tally);
    assert_int_equal(tally.first, 100);
    assert_int_equal(tally.differing, 0);
    vv_diff_elements(&rule, 1500, (uint8_t *)&a[1500], (uint8_t *)&b[1500], 1500 * sizeof a[0], &tally);
    assert_int_equal(tally.first, 2000);
    expect(tally, 4, 2, 1, 2, 0.125 / 100.125);
    assert_memory_equal(tally.value[0], &a[2000], 8);
    assert_memory_equal(tally.value[1], &b[2000], 8);
}

static void values_have_every_digit(void **unused) {
    (void)unused;
    struct {
        int type;
        struct values values;
        const char *text;
    } cases[] = {
        {VARVE_F64, f64(0.1, 0), "0.1"},
        {VARVE_F64, f64(0.1 + 0.2, 0), "0.30000000000000004"},
        {VARVE_F64, f64(-0.0, 0), "-0"},
        {VARVE_F64, f64(-INFINITY, 0), "-inf"},
        {VARVE_F64, f64(5e-324, 0), "5e-324"},
        {VARVE_F64, bits(0x7ff8000000000001, 0), "nan(0x7ff8000000000001)"},
        {VARVE_F32, f32(0.1f, 0), "0.1"},
        {VARVE_F32, f32(16777216, 0), "16777216"},
        {VARVE_F32, bits(0x7fc00000, 0), "nan(0x7fc00000)"},
        {VARVE_F16, bits(0x3c01, 0), "1.0009766"},
        {VARVE_BF16, bits(0x4049, 0), "3.140625"},
        {VARVE_C64, c64(1, -2.5f, 0, 0), "1-2.5i"},
        {VARVE_C128, c128(-0.1, INFINITY, 0, 0), "-0.1+infi"},
        {VARVE_I8, bits(0xff, 0), "-1"},
        {VARVE_I64, bits(0x8000000000000000, 0), "-9223372036854775808"},
        {VARVE_U64, bits(UINT64_MAX, 0), "18446744073709551615"},
        {VARVE_BYTES, bits(0x0a, 0), "0x0a"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[VV_DIFF_TEXT_CAPACITY];
        vv_diff_value_text((uint8_t)cases[i].type, cases[i].values.bytes[0], text);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bit_counts_without_a_tolerance),
        cmocka_unit_test(bounds_hold_to_the_last_value),
        cmocka_unit_test(special_values_by_value),
        cmocka_unit_test(short_floats),
        cmocka_unit_test(complex_numbers_are_points),
        cmocka_unit_test(integers_are_exact),
        cmocka_unit_test(arithmetic_is_our_own),
        cmocka_unit_test(many_elements_and_the_first_of_them),
        cmocka_unit_test(values_have_every_digit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
