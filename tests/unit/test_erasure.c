/* The code of parity: every set of lost symbols comes back, and the vectors of docs/format.md 6. */
#include <stdlib.h>
#include <string.h>

#include "encode/erasure.h"
#include "test.h"

#define SIZE 4099 /* two steps and a few bytes */

static uint8_t symbols[VV_ERASURE_DATA_MAX][SIZE];

static void make(uint32_t data, uint32_t parity) {
    const uint8_t *sources[VV_ERASURE_DATA_MAX];
    uint8_t factors[VV_ERASURE_DATA_MAX];
    for (uint32_t i = 0; i < data; i++) {
        for (size_t at = 0; at < SIZE; at++)
            symbols[i][at] = (uint8_t)(random() >> 7);
        sources[i] = symbols[i];
    }
    for (uint32_t t = 0; t < parity; t++) {
        for (uint32_t i = 0; i < data; i++)
            factors[i] = vv_erasure_factor(t, i);
        vv_erasure_sum(factors, sources, data, SIZE, symbols[data + t]);
    }
}

/* What is not in the set gives each data of it. */
static void check_lost(uint32_t data, uint32_t members, unsigned lost) {
    static uint8_t out[SIZE];
    uint32_t have[VV_ERASURE_DATA_MAX], count = 0;
    const uint8_t *sources[VV_ERASURE_DATA_MAX];
    uint8_t factors[VV_ERASURE_DATA_MAX];
    for (uint32_t i = 0; i < members && count < data; i++)
        if (!(lost >> i & 1)) {
            sources[count] = symbols[i];
            have[count++] = i;
        }
    assert_int_equal(count, data);
    for (uint32_t i = 0; i < data; i++)
        if (lost >> i & 1) {
            assert_int_equal(vv_erasure_solve(data, have, i, factors), 0);
            vv_erasure_sum(factors, sources, data, SIZE, out);
            assert_memory_equal(out, symbols[i], SIZE);
        }
}

static void test_any_lost(void **state) {
    (void)state;
    for (uint32_t parity = 1; parity <= 3; parity++)
        for (uint32_t data = 1; data + parity <= 16; data++) {
            make(data, parity);
            for (unsigned lost = 1; lost < 1u << (data + parity); lost++)
                if ((uint32_t)__builtin_popcount(lost) == parity)
                    check_lost(data, data + parity, lost);
        }
}

/* x^8 = x^4 + x^3 + x^2 + 1 */
static void test_vectors(void **state) {
    static const uint8_t data[4][4] = {{1, 0, 0x80, 0xff}, {0, 1, 0x80, 0xff}, {0, 0, 0x80, 0xff}, {0, 0, 0x80, 0xff}};
    static const uint8_t first[4] = {1, 1, 0, 0}, second[4] = {1, 2, 0x80 ^ 0x1d ^ 0x3a ^ 0x74, 0};
    const uint8_t *sources[4] = {data[0], data[1], data[2], data[3]};
    uint8_t out[4], factors[4], expected = 0xff;
    (void)state;
    for (uint32_t t = 0; t < 2; t++) {
        for (uint32_t i = 0; i < 4; i++)
            factors[i] = vv_erasure_factor(t, i);
        vv_erasure_sum(factors, sources, 4, 4, out);
        assert_memory_equal(out, t ? second : first, 3);
    }
    for (int i = 0, x = 0xff; i < 3; i++) {
        x = (x << 1 ^ (x & 0x80 ? 0x1d : 0)) & 0xff;
        expected ^= (uint8_t)x;
    }
    assert_int_equal(out[3], expected);
}

static void test_refused(void **state) {
    uint8_t factors[VV_ERASURE_DATA_MAX];
    static const uint32_t twice[2] = {0, 0};
    (void)state;
    assert_int_not_equal(vv_erasure_solve(2, twice, 1, factors), 0);
    assert_int_not_equal(vv_erasure_solve(0, twice, 0, factors), 0);
    assert_int_not_equal(vv_erasure_solve(VV_ERASURE_DATA_MAX + 1, twice, 0, factors), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_lost),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
