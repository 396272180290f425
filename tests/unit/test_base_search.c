/* VV_SEARCH against looking at one item after another: every length, every place, and what is not there. */
#include <stddef.h>
#include <stdint.h>

#include "base/search.h"
#include "test.h"

#define MOST 20u

static void test_finds_what_a_walk_finds(void **state) {
    (void)state;
    uint32_t list[MOST];
    for (uint32_t i = 0; i < MOST; i++)
        list[i] = i / 3 * 2; /* each three times, and every second number is missing */
    for (size_t first = 0; first <= MOST; first++)
        for (size_t end = first; end <= MOST; end++)
            for (uint32_t wanted = 0; wanted < MOST; wanted++) {
                size_t walked = first, at;
                while (walked < end && list[walked] < wanted)
                    walked++;
                VV_SEARCH(at, first, end, list[at] < wanted);
                assert_int_equal(at, walked);
            }
}

/* Up to the last number that fits the type, and without a look at anything outside. */
static void test_stays_inside(void **state) {
    (void)state;
    uint32_t at, looks = 0;
    VV_SEARCH(at, 0, UINT32_MAX, at < UINT32_MAX && ++looks);
    assert_int_equal(at, UINT32_MAX);
    assert_in_range(looks, 31, 33);
    VV_SEARCH(at, 5, 5, (fail(), 0));
    assert_int_equal(at, 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_what_a_walk_finds),
        cmocka_unit_test(test_stays_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
