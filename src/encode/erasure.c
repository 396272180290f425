#include "encode/erasure.h"

#include <errno.h>
#include <string.h>

#define STEP 2048u /* bytes that stay in the nearest cache */

static uint8_t twice(uint8_t x) {
    return (uint8_t)(x << 1 ^ (x & 0x80 ? 0x1d : 0));
}

static uint8_t times(uint8_t x, uint8_t y) {
    uint8_t product = 0;
    for (; y; y >>= 1, x = twice(x))
        product ^= y & 1 ? x : 0;
    return product;
}

/* x^254: what gives 1 together with x. */
static uint8_t inverse(uint8_t x) {
    uint8_t power = 1;
    for (int i = 0; i < 254; i++)
        power = times(power, x);
    return power;
}

uint8_t vv_erasure_factor(uint32_t parity, uint32_t data) {
    uint8_t factor = 1;
    for (uint32_t i = 0; i < parity * data % 255; i++)
        factor = twice(factor);
    return factor;
}

/* ---- solving ---- */

/* A row per data: what each symbol has of it, and whether it is the wanted one. */
struct equations {
    uint32_t count;
    uint8_t rows[VV_ERASURE_DATA_MAX][VV_ERASURE_DATA_MAX + 1];
};

static void swap_rows(struct equations *equations, uint32_t a, uint32_t b) {
    uint8_t row[VV_ERASURE_DATA_MAX + 1];
    memcpy(row, equations->rows[a], sizeof row);
    memcpy(equations->rows[a], equations->rows[b], sizeof row);
    memcpy(equations->rows[b], row, sizeof row);
}

/* Only row `at` has anything in column `at`, and there it has 1. */
static int eliminate(struct equations *equations, uint32_t at) {
    uint32_t pivot = at;
    while (pivot < equations->count && !equations->rows[pivot][at])
        pivot++;
    if (pivot == equations->count)
        return -EINVAL;
    swap_rows(equations, at, pivot);
    uint8_t *row = equations->rows[at], factor = inverse(row[at]);
    for (uint32_t i = 0; i <= equations->count; i++)
        row[i] = times(row[i], factor);
    for (uint32_t other = 0; other < equations->count; other++) {
        factor = equations->rows[other][at];
        for (uint32_t i = 0; other != at && factor && i <= equations->count; i++)
            equations->rows[other][i] ^= times(row[i], factor);
    }
    return 0;
}

int vv_erasure_solve(uint32_t data, const uint32_t *have, uint32_t wanted, uint8_t *factors_out) {
    struct equations equations = {.count = data};
    int rc = data >= 1 && data <= VV_ERASURE_DATA_MAX ? 0 : -EINVAL;
    for (uint32_t i = 0; rc == 0 && i < data; i++) {
        for (uint32_t j = 0; j < data; j++)
            equations.rows[i][j] = have[j] < data ? have[j] == i : vv_erasure_factor(have[j] - data, i);
        equations.rows[i][data] = i == wanted;
    }
    for (uint32_t i = 0; rc == 0 && i < data; i++)
        rc = eliminate(&equations, i);
    for (uint32_t i = 0; rc == 0 && i < data; i++)
        factors_out[i] = equations.rows[i][data];
    return rc;
}

/* ---- sums ---- */

/* Eight bytes at a time: doubled, and reduced where the highest bit was set. */
static uint64_t twice_each(uint64_t x) {
    uint64_t high = x & UINT64_C(0x8080808080808080);
    return (x ^ high) << 1 ^ (((high << 1) - (high >> 7)) & UINT64_C(0x1d1d1d1d1d1d1d1d));
}

/* One step of one source: its doubles, of which those are added that make up the factor. */
static void add_step(uint8_t factor, const uint8_t *source, size_t size, uint64_t *sum) {
    uint64_t power[STEP / 8];
    size_t words = (size + 7) / 8;
    power[words - 1] = 0;
    memcpy(power, source, size);
    for (; factor; factor >>= 1) {
        if (factor & 1)
            for (size_t i = 0; i < words; i++)
                sum[i] ^= power[i];
        if (factor > 1)
            for (size_t i = 0; i < words; i++)
                power[i] = twice_each(power[i]);
    }
}

void vv_erasure_sum(const uint8_t *factors, const uint8_t *const *sources, uint32_t count, size_t size, uint8_t *out) {
    uint64_t sum[STEP / 8];
    for (size_t at = 0; at < size; at += STEP) {
        size_t step = size - at < STEP ? size - at : STEP;
        memset(sum, 0, sizeof sum);
        for (uint32_t i = 0; i < count; i++)
            add_step(factors[i], sources[i] + at, step, sum);
        memcpy(out + at, sum, step);
    }
}
