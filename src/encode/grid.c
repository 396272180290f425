/* Adding and subtracting a number so large that its last bit is worth one step of the grid rounds to that grid, by the
 * processor's own rule (to nearest, ties to even), two or four values at a time. Where that number would leave the
 * range of the type, values are divided, rounded and multiplied one by one; both are exact. */
#include "encode/grid.h"

#include <float.h>
#include <math.h>
#include <string.h>
#include <varve/varve.h>

#include "encode/codec.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

double vv_grid_of(double bound) {
    if (!(bound >= DBL_MIN && bound <= DBL_MAX))
        return 0;
    int exponent = ilogb(bound) + 1;
    return ldexp(1, exponent > DBL_MAX_EXP - 1 ? DBL_MAX_EXP - 1 : exponent);
}

/* The way that always works. */
static double round_one(double x, double grid, double greatest) {
    double steps = fabs(x) / grid; /* exact, or so small that it rounds to 0 in any case */
    if (!(steps < 0x1p52))         /* or not a number */
        return x;
    double near = nearbyint(steps) * grid;
    if (near > greatest)
        return x;
    return near == 0 ? 0 : copysign(near, x);
}

static void round_slowly(uint8_t type, double grid, const uint8_t *in, uint8_t *out, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (type == VARVE_F32) {
            float x;
            memcpy(&x, in + i * 4, 4);
            float y = (float)round_one(x, grid, FLT_MAX);
            if (x == x) /* converting would make a signalling NaN quiet */
                memcpy(out + i * 4, &y, 4);
            else
                memmove(out + i * 4, in + i * 4, 4);
        } else {
            double x;
            memcpy(&x, in + i * 8, 8);
            x = round_one(x, grid, DBL_MAX);
            memcpy(out + i * 8, &x, 8);
        }
    }
}

#ifdef __SSE2__
static size_t round_f64(double grid, const uint8_t *in, uint8_t *out, size_t count) {
    const __m128d shift = _mm_set1_pd(grid * 0x1p52), sign = _mm_set1_pd(-0.0);
    size_t i = 0;
    for (; i + 2 <= count; i += 2) {
        __m128d x = _mm_loadu_pd((const double *)(const void *)(in + i * 8));
        __m128d size = _mm_andnot_pd(sign, x);
        __m128d near = _mm_sub_pd(_mm_add_pd(size, shift), shift);
        __m128d is_zero = _mm_cmpeq_pd(near, _mm_setzero_pd());
        near = _mm_or_pd(near, _mm_andnot_pd(is_zero, _mm_and_pd(sign, x)));
        __m128d is_small = _mm_cmplt_pd(size, shift); /* not of a NaN */
        _mm_storeu_pd((double *)(void *)(out + i * 8),
                      _mm_or_pd(_mm_and_pd(is_small, near), _mm_andnot_pd(is_small, x)));
    }
    return i;
}

static size_t round_f32(float grid, const uint8_t *in, uint8_t *out, size_t count) {
    const __m128 shift = _mm_set1_ps(grid * 0x1p23F), sign = _mm_set1_ps(-0.0F);
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        __m128 x = _mm_loadu_ps((const float *)(const void *)(in + i * 4));
        __m128 size = _mm_andnot_ps(sign, x);
        __m128 near = _mm_sub_ps(_mm_add_ps(size, shift), shift);
        __m128 is_zero = _mm_cmpeq_ps(near, _mm_setzero_ps());
        near = _mm_or_ps(near, _mm_andnot_ps(is_zero, _mm_and_ps(sign, x)));
        __m128 is_small = _mm_cmplt_ps(size, shift);
        _mm_storeu_ps((float *)(void *)(out + i * 4),
                      _mm_or_ps(_mm_and_ps(is_small, near), _mm_andnot_ps(is_small, x)));
    }
    return i;
}

static size_t round_quickly(uint8_t type, double grid, const uint8_t *in, uint8_t *out, size_t count) {
    if (type == VARVE_F64 && grid >= 0x1p-1022 && grid <= 0x1p960)
        return round_f64(grid, in, out, count);
    if (type == VARVE_F32 && grid >= 0x1p-126 && grid <= 0x1p100)
        return round_f32((float)grid, in, out, count);
    return 0;
}
#else
static size_t round_quickly(uint8_t type, double grid, const uint8_t *in, uint8_t *out, size_t count) {
    (void)type, (void)grid, (void)in, (void)out, (void)count;
    return 0;
}
#endif

void vv_grid_round(uint8_t type, double grid, const void *in, void *out, size_t size) {
    size_t width = type == VARVE_F32 ? 4 : 8, count = size / width;
    fenv_t saved;
    vv_arithmetic_begin(&saved);
    size_t done = round_quickly(type, grid, in, out, count) * width;
    round_slowly(type, grid, (const uint8_t *)in + done, (uint8_t *)out + done, count - done / width);
    vv_arithmetic_end(&saved);
    if (in != out && size > count * width)
        memcpy((uint8_t *)out + count * width, (const uint8_t *)in + count * width, size - count * width);
}
