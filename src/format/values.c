/* The least and the greatest value, at the speed of memory: every block of a typed region is looked at when it is
 * stored.
 *
 * A group of GROUP bytes is handled at a time, with an accumulator for each of its elements, so that no element waits
 * for the one before and compilers use vector instructions. */
#include "format/values.h"

#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/array.h"

#define GROUP 128

enum kind { KIND_SIGNED, KIND_UNSIGNED, KIND_FLOAT };

int vv_values_have_range(uint8_t type) {
    return type != VARVE_BYTES && type < VV_TYPES;
}

static enum kind kind_of(uint8_t type) {
    switch (type) {
    case VARVE_I8:
    case VARVE_I16:
    case VARVE_I32:
    case VARVE_I64:
        return KIND_SIGNED;
    case VARVE_U8:
    case VARVE_U16:
    case VARVE_U32:
    case VARVE_U64:
        return KIND_UNSIGNED;
    default:
        return KIND_FLOAT;
    }
}

/* The elements of the last group are topped up with the first element of all, which changes nothing: the loop over a
 * group has a fixed length. */
static const void *last_group(const uint8_t *data, size_t done, size_t size, size_t element, uint8_t *group) {
    memcpy(group, data + done, size - done);
    for (size_t at = size - done; at < GROUP; at += element)
        memcpy(group + at, data, element);
    return group;
}

/* NAME(data, size, &low, &high): size is a multiple of the element's and not 0. */
#define RANGE_OF_INTEGERS(NAME, TYPE)                                                                                  \
    static void NAME(const uint8_t *data, size_t size, TYPE *low_out, TYPE *high_out) {                                \
        enum { LANES = GROUP / sizeof(TYPE) };                                                                         \
        TYPE low[LANES], high[LANES], x[LANES];                                                                        \
        uint8_t last[GROUP];                                                                                           \
        for (int i = 0; i < LANES; i++) {                                                                              \
            memcpy(&low[i], data, sizeof(TYPE));                                                                       \
            high[i] = low[i];                                                                                          \
        }                                                                                                              \
        for (size_t done = 0; done < size; done += GROUP) {                                                            \
            memcpy(x, size - done < GROUP ? last_group(data, done, size, sizeof(TYPE), last) : data + done, GROUP);    \
            for (int i = 0; i < LANES; i++) {                                                                          \
                low[i] = x[i] < low[i] ? x[i] : low[i];                                                                \
                high[i] = x[i] > high[i] ? x[i] : high[i];                                                             \
            }                                                                                                          \
        }                                                                                                              \
        for (int i = 1; i < LANES; i++) {                                                                              \
            low[0] = low[i] < low[0] ? low[i] : low[0];                                                                \
            high[0] = high[i] > high[0] ? high[i] : high[0];                                                           \
        }                                                                                                              \
        *low_out = low[0];                                                                                             \
        *high_out = high[0];                                                                                           \
    }
RANGE_OF_INTEGERS(range_i8, int8_t)
RANGE_OF_INTEGERS(range_u8, uint8_t)
RANGE_OF_INTEGERS(range_i16, int16_t)
RANGE_OF_INTEGERS(range_u16, uint16_t)
RANGE_OF_INTEGERS(range_i32, int32_t)
RANGE_OF_INTEGERS(range_u32, uint32_t)
RANGE_OF_INTEGERS(range_i64, int64_t)
RANGE_OF_INTEGERS(range_u64, uint64_t)

/* The same; comparisons with NaN are false, so it never gets into low and high. Returns whether there was one. */
#define RANGE_OF_FLOATS(NAME, TYPE, MASK)                                                                              \
    static int NAME(const uint8_t *data, size_t size, double *low_out, double *high_out) {                             \
        enum { LANES = GROUP / sizeof(TYPE) };                                                                         \
        TYPE low[LANES], high[LANES], x[LANES];                                                                        \
        MASK nan[LANES] = {0};                                                                                         \
        uint8_t last[GROUP];                                                                                           \
        int has_nan = 0;                                                                                               \
        for (int i = 0; i < LANES; i++) {                                                                              \
            low[i] = (TYPE)INFINITY;                                                                                   \
            high[i] = (TYPE)-INFINITY;                                                                                 \
        }                                                                                                              \
        for (size_t done = 0; done < size; done += GROUP) {                                                            \
            memcpy(x, size - done < GROUP ? last_group(data, done, size, sizeof(TYPE), last) : data + done, GROUP);    \
            for (int i = 0; i < LANES; i++) {                                                                          \
                low[i] = x[i] < low[i] ? x[i] : low[i];                                                                \
                high[i] = x[i] > high[i] ? x[i] : high[i];                                                             \
                nan[i] |= x[i] != x[i];                                                                                \
            }                                                                                                          \
        }                                                                                                              \
        for (int i = 0; i < LANES; i++) {                                                                              \
            low[0] = low[i] < low[0] ? low[i] : low[0];                                                                \
            high[0] = high[i] > high[0] ? high[i] : high[0];                                                           \
            has_nan |= nan[i] != 0;                                                                                    \
        }                                                                                                              \
        *low_out = (double)low[0];                                                                                     \
        *high_out = (double)high[0];                                                                                   \
        return has_nan;                                                                                                \
    }
RANGE_OF_FLOATS(range_f32, float, uint32_t)
RANGE_OF_FLOATS(range_f64, double, uint64_t)

/* Half floats of both kinds are sign and magnitude, so their order is that of the magnitudes with the sign as a whole
 * number's; only the two that are found are made real floats. infinity: its bits; what is above is NaN. */
static int range_half(const uint8_t *data, size_t size, uint16_t infinity, int16_t *low_out, int16_t *high_out) {
    enum { LANES = GROUP / 2 };
    int16_t low[LANES], high[LANES];
    uint16_t x[LANES], nan[LANES] = {0};
    uint8_t last[GROUP];
    int has_nan = 0;

    for (int i = 0; i < LANES; i++) {
        low[i] = INT16_MAX;
        high[i] = INT16_MIN;
    }
    for (size_t done = 0; done < size; done += GROUP) {
        memcpy(x, size - done < GROUP ? last_group(data, done, size, 2, last) : data + done, GROUP);
        for (int i = 0; i < LANES; i++) {
            int16_t magnitude = (int16_t)(x[i] & 0x7fff);
            int16_t sign = (int16_t)((int16_t)x[i] >> 15);
            int16_t value = (int16_t)((magnitude ^ sign) - sign);
            int16_t is_nan = (int16_t) - (magnitude > (int16_t)infinity);
            int16_t if_least = (int16_t)((value & ~is_nan) | (INT16_MAX & is_nan));
            int16_t if_greatest = (int16_t)((value & ~is_nan) | (INT16_MIN & is_nan));
            low[i] = if_least < low[i] ? if_least : low[i];
            high[i] = if_greatest > high[i] ? if_greatest : high[i];
            nan[i] |= (uint16_t)is_nan;
        }
    }
    for (int i = 0; i < LANES; i++) {
        low[0] = low[i] < low[0] ? low[i] : low[0];
        high[0] = high[i] > high[0] ? high[i] : high[0];
        has_nan |= nan[i] != 0;
    }
    *low_out = low[0];
    *high_out = high[0];
    return has_nan;
}

static double f16_value(int16_t ordered) {
    int magnitude = ordered < 0 ? -ordered : ordered;
    int exponent = magnitude >> 10, fraction = magnitude & 0x3ff;
    double value = exponent == 31 ? INFINITY : exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return ordered < 0 ? -value : value;
}

static double bf16_value(int16_t ordered) {
    uint32_t bits = (uint32_t)(ordered < 0 ? -ordered : ordered) << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return ordered < 0 ? -(double)value : (double)value;
}

static int half_doubles(uint8_t type, const uint8_t *data, size_t size, double *low, double *high) {
    int16_t least, greatest;
    int is_f16 = type == VARVE_F16;
    int has_nan = range_half(data, size, is_f16 ? 0x7c00 : 0x7f80, &least, &greatest);

    if (least > greatest) { /* nothing but NaN */
        *low = INFINITY;
        *high = -INFINITY;
        return has_nan;
    }
    *low = is_f16 ? f16_value(least) : bf16_value(least);
    *high = is_f16 ? f16_value(greatest) : bf16_value(greatest);
    return has_nan;
}

static uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double value_of(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void float_range(uint8_t type, const uint8_t *data, size_t size, struct vv_range *out) {
    double low, high;
    int has_nan;

    if (type == VARVE_F32 || type == VARVE_C64)
        has_nan = range_f32(data, size, &low, &high);
    else if (type == VARVE_F64 || type == VARVE_C128)
        has_nan = range_f64(data, size, &low, &high);
    else
        has_nan = half_doubles(type, data, size, &low, &high);
    out->flags = (uint8_t)(has_nan ? VV_RANGE_NAN : 0);
    if (low > high) {
        out->flags |= VV_RANGE_EMPTY;
        return;
    }
    out->low = bits_of(low + 0.0); /* + 0.0: never -0 */
    out->high = bits_of(high + 0.0);
}

static void whole_range(uint8_t type, const uint8_t *data, size_t size, struct vv_range *out) {
#define INTEGERS(CONSTANT, TYPE, WIDE, FUNCTION)                                                                       \
    case CONSTANT: {                                                                                                   \
        TYPE low, high;                                                                                                \
        FUNCTION(data, size, &low, &high);                                                                             \
        out->low = (uint64_t)(WIDE)low;                                                                                \
        out->high = (uint64_t)(WIDE)high;                                                                              \
        break;                                                                                                         \
    }
    switch (type) {
        INTEGERS(VARVE_I8, int8_t, int64_t, range_i8)
        INTEGERS(VARVE_U8, uint8_t, uint64_t, range_u8)
        INTEGERS(VARVE_I16, int16_t, int64_t, range_i16)
        INTEGERS(VARVE_U16, uint16_t, uint64_t, range_u16)
        INTEGERS(VARVE_I32, int32_t, int64_t, range_i32)
        INTEGERS(VARVE_U32, uint32_t, uint64_t, range_u32)
        INTEGERS(VARVE_I64, int64_t, int64_t, range_i64)
        INTEGERS(VARVE_U64, uint64_t, uint64_t, range_u64)
    default:
        break;
    }
#undef INTEGERS
}

void vv_values_range(uint8_t type, const void *data, size_t size, struct vv_range *out) {
    *out = (struct vv_range){0};
    size_t element = vv_values_have_range(type) ? vv_type_size(type) : 0;
    if (!element || size < element)
        return;
    size -= size % element;
    out->type = type;
    if (kind_of(type) == KIND_FLOAT) {
        fenv_t saved;
        vv_arithmetic_begin(&saved);
        float_range(type, data, size, out);
        vv_arithmetic_end(&saved);
    } else {
        whole_range(type, data, size, out);
    }
}

static int is_less(enum kind kind, uint64_t a, uint64_t b) {
    switch (kind) {
    case KIND_SIGNED:
        return (int64_t)a < (int64_t)b;
    case KIND_UNSIGNED:
        return a < b;
    default:
        return value_of(a) < value_of(b);
    }
}

void vv_range_join(struct vv_range *all, const struct vv_range *more) {
    if (!more->type)
        return;
    if (!all->type) {
        *all = *more;
        return;
    }
    enum kind kind = kind_of(all->type);
    int is_first = (all->flags & VV_RANGE_EMPTY) != 0;
    uint8_t nan = (all->flags | more->flags) & VV_RANGE_NAN;
    if (!(more->flags & VV_RANGE_EMPTY)) {
        all->low = is_first || is_less(kind, more->low, all->low) ? more->low : all->low;
        all->high = is_first || is_less(kind, all->high, more->high) ? more->high : all->high;
        all->flags = 0;
    }
    all->flags |= nan;
}

/* The double next to this one, away from 0: for whole numbers, of which 0 is never rounded. */
static double next_out(double value) {
    return value_of(bits_of(value) + 1);
}

static double next_in(double value) {
    return value_of(bits_of(value) - 1);
}

static void signed_doubles(int64_t low, int64_t high, double *low_out, double *high_out) {
    *low_out = (double)low;
    *high_out = (double)high;
    /* 2^63 is above all i64, so the way back would overflow. */
    if (*low_out >= 0x1p63 || (int64_t)*low_out > low)
        *low_out = low < 0 ? next_out(*low_out) : next_in(*low_out);
    if (*high_out < 0x1p63 && (int64_t)*high_out < high)
        *high_out = high < 0 ? next_in(*high_out) : next_out(*high_out);
}

static void unsigned_doubles(uint64_t low, uint64_t high, double *low_out, double *high_out) {
    *low_out = (double)low;
    *high_out = (double)high;
    if (*low_out >= 0x1p64 || (uint64_t)*low_out > low)
        *low_out = next_in(*low_out);
    if (*high_out < 0x1p64 && (uint64_t)*high_out < high)
        *high_out = next_out(*high_out);
}

void vv_range_doubles(const struct vv_range *range, double *low, double *high) {
    switch (kind_of(range->type)) {
    case KIND_SIGNED:
        signed_doubles((int64_t)range->low, (int64_t)range->high, low, high);
        return;
    case KIND_UNSIGNED:
        unsigned_doubles(range->low, range->high, low, high);
        return;
    default:
        *low = value_of(range->low);
        *high = value_of(range->high);
        return;
    }
}
