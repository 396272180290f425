/* Two values of an element: the same bits, or how far apart.
 *
 * Distances are those of doubles, into which all types but i64 and u64 go without loss; of these two they are computed
 * as integers and rounded once. The distance of complex numbers is that of points in the plane. Tiny numbers are taken
 * as they are; -0 is as far from 0 as 0 is. Equal infinities are at distance 0, all else is infinitely far from them.
 * NaN has no distance: two of them are the same by value, one alone is always different. */
#include "inspect/diff_private.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/array.h"

#define SLICE 4096u /* compared at once, as most bytes are the same; a multiple of all elements */

/* ---- what an element holds ---- */

static double half_value(uint16_t bits) {
    int exponent = bits >> 10 & 31;
    int fraction = bits & 1023;
    double value = exponent == 31  ? (fraction ? NAN : INFINITY)
                   : exponent == 0 ? ldexp(fraction, -24)
                                   : ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -value : value;
}

static double brain_value(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return (double)value;
}

static double float_value(const uint8_t *data) {
    float value;
    memcpy(&value, data, sizeof value);
    return (double)value;
}

static double double_value(const uint8_t *data) {
    double value;
    memcpy(&value, data, sizeof value);
    return value;
}

static uint64_t bits_of(const uint8_t *data, uint32_t size) {
    uint64_t bits = 0;
    for (uint32_t i = 0; i < size; i++)
        bits |= (uint64_t)data[i] << 8 * i; /* stored data is little-endian */
    return bits;
}

static int is_signed(uint8_t type) {
    return type == VARVE_I8 || type == VARVE_I16 || type == VARVE_I32 || type == VARVE_I64;
}

static int64_t signed_value(const uint8_t *data, uint32_t size) {
    uint64_t bits = bits_of(data, size);
    unsigned above = 64 - 8 * size;
    return (int64_t)(bits << above) >> above;
}

static int is_complex(uint8_t type) {
    return type == VARVE_C64 || type == VARVE_C128;
}

static int is_float(uint8_t type) {
    return type >= VARVE_F32 && type < VV_TYPES;
}

static double part_value(uint8_t type, const uint8_t *data) {
    switch (type) {
    case VARVE_F16:
        return half_value((uint16_t)bits_of(data, 2));
    case VARVE_BF16:
        return brain_value((uint16_t)bits_of(data, 2));
    case VARVE_F32:
    case VARVE_C64:
        return float_value(data);
    default:
        return double_value(data);
    }
}

/* Real and imaginary part; of real types the second is 0. */
static void float_parts(uint8_t type, const uint8_t *data, double out[2]) {
    out[0] = part_value(type, data);
    out[1] = is_complex(type) ? part_value(type, data + vv_type_size(type) / 2) : 0;
}

/* ---- distances ---- */

struct distance {
    int nans;       /* in how many of the two */
    double apart;   /* without NaN */
    double greater; /* magnitude */
    double relative;
};

static double apart_parts(double a, double b) {
    return a == b ? 0 : fabs(a - b); /* infinities, too */
}

static struct distance float_distance(uint8_t type, const uint8_t *first, const uint8_t *second) {
    double a[2];
    double b[2];
    struct distance distance = {0};

    float_parts(type, first, a);
    float_parts(type, second, b);
    distance.nans = (isnan(a[0]) || isnan(a[1])) + (isnan(b[0]) || isnan(b[1]));
    if (distance.nans)
        return distance;
    distance.apart = hypot(apart_parts(a[0], b[0]), apart_parts(a[1], b[1]));
    distance.greater = fmax(hypot(a[0], a[1]), hypot(b[0], b[1]));
    distance.relative = distance.apart == 0        ? 0
                        : isfinite(distance.apart) ? distance.apart / distance.greater
                        : isinf(distance.greater)  ? INFINITY
                                                   : hypot(a[0] / distance.greater - b[0] / distance.greater,
                                                           a[1] / distance.greater - b[1] / distance.greater);
    return distance;
}

static double magnitude(int64_t value) {
    return value < 0 ? (double)-(uint64_t)value : (double)value;
}

static struct distance integer_distance(const struct vv_diff_rule *rule, const uint8_t *first, const uint8_t *second) {
    struct distance distance = {0};

    if (is_signed(rule->type)) {
        int64_t a = signed_value(first, rule->element);
        int64_t b = signed_value(second, rule->element);
        distance.apart = (double)(a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a);
        distance.greater = fmax(magnitude(a), magnitude(b));
    } else {
        uint64_t a = bits_of(first, rule->element);
        uint64_t b = bits_of(second, rule->element);
        distance.apart = (double)(a > b ? a - b : b - a);
        distance.greater = (double)(a > b ? a : b);
    }
    distance.relative = distance.apart / distance.greater; /* they differ: one is not 0 */
    return distance;
}

static int is_within(const struct vv_diff_rule *rule, const struct distance *distance) {
    if (!rule->is_by_value || !is_float(rule->type))
        return 0;
    if (distance->nans)
        return distance->nans == 2;
    return isfinite(distance->apart) &&
           (distance->apart <= rule->tolerance || distance->apart <= rule->relative * distance->greater);
}

/* ---- counting ---- */

static void note_largest(struct vv_diff_tally *tally, uint64_t number, const struct distance *distance) {
    if (distance->apart > tally->largest || !tally->has_largest) {
        tally->largest_element = number;
        tally->has_largest = 1;
    }
    tally->largest = fmax(tally->largest, distance->apart);
    tally->largest_relative = fmax(tally->largest_relative, distance->relative);
}

static void note_first(struct vv_diff_tally *tally, uint64_t number, const uint8_t *a, const uint8_t *b, size_t size) {
    tally->first = number;
    memset(tally->value, 0, sizeof tally->value);
    memcpy(tally->value[0], a, size);
    memcpy(tally->value[1], b, size);
}

static void count_element(const struct vv_diff_rule *rule, uint64_t number, const uint8_t *a, const uint8_t *b,
                          size_t size, struct vv_diff_tally *tally) {
    struct distance distance = {0};
    int has_distance = rule->type != VARVE_BYTES && size == rule->element;

    tally->changed++;
    tally->bytes += size;
    if (has_distance) {
        distance = is_float(rule->type) ? float_distance(rule->type, a, b) : integer_distance(rule, a, b);
        if (!distance.nans)
            note_largest(tally, number, &distance);
    }
    int is_differing = !has_distance || !is_within(rule, &distance);
    if (tally->changed == 1 || (is_differing && tally->differing == 0))
        note_first(tally, number, a, b, size);
    tally->differing += is_differing;
    tally->nan += is_differing && distance.nans == 1;
}

void vv_diff_elements(const struct vv_diff_rule *rule, uint64_t first, const uint8_t *a, const uint8_t *b, size_t size,
                      struct vv_diff_tally *tally) {
    fenv_t saved;

    vv_arithmetic_begin(&saved);
    for (size_t begin = 0; begin < size; begin += SLICE) {
        size_t end = size - begin < SLICE ? size : begin + SLICE;
        if (memcmp(a + begin, b + begin, end - begin) == 0)
            continue;
        for (size_t at = begin; at < end; at += rule->element) {
            size_t length = end - at < rule->element ? end - at : rule->element;
            if (memcmp(a + at, b + at, length) != 0)
                count_element(rule, first + at / rule->element, a + at, b + at, length, tally);
        }
    }
    vv_arithmetic_end(&saved);
}

/* ---- text ---- */

/* As few digits as give the value back. */
static void float_text(uint8_t type, const uint8_t *data, char out[VV_DIFF_TEXT_CAPACITY / 2]) {
    size_t capacity = VV_DIFF_TEXT_CAPACITY / 2;
    double value = part_value(type, data);
    int is_single = type != VARVE_F64 && type != VARVE_C128;
    uint32_t size = is_complex(type) ? vv_type_size(type) / 2 : vv_type_size(type);

    if (isnan(value)) {
        snprintf(out, capacity, "nan(0x%0*" PRIx64 ")", (int)size * 2, bits_of(data, size));
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, capacity, "%.*g", digits, value);
        double back = strtod(out, NULL);
        if (is_single ? (float)back == (float)value : back == value)
            return;
    }
}

static void complex_text(uint8_t type, const uint8_t *data, char out[VV_DIFF_TEXT_CAPACITY]) {
    char real[VV_DIFF_TEXT_CAPACITY / 2];
    char imaginary[VV_DIFF_TEXT_CAPACITY / 2];

    float_text(type, data, real);
    float_text(type, data + vv_type_size(type) / 2, imaginary);
    snprintf(out, VV_DIFF_TEXT_CAPACITY, "%.40s%s%.40si", real, imaginary[0] == '-' ? "" : "+", imaginary);
}

void vv_diff_value_text(uint8_t type, const uint8_t *value, char out[VV_DIFF_TEXT_CAPACITY]) {
    if (is_complex(type))
        complex_text(type, value, out);
    else if (is_float(type))
        float_text(type, value, out);
    else if (type == VARVE_BYTES)
        snprintf(out, VV_DIFF_TEXT_CAPACITY, "0x%02x", value[0]);
    else if (is_signed(type))
        snprintf(out, VV_DIFF_TEXT_CAPACITY, "%" PRId64, signed_value(value, vv_type_size(type)));
    else
        snprintf(out, VV_DIFF_TEXT_CAPACITY, "%" PRIu64, bits_of(value, vv_type_size(type)));
}
