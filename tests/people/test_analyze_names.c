/* A table of names that is full goes on with a fair sample. */
#include "../test.h"

#include "analyze/names.h"

static uint64_t name_of(uint64_t number) {
    number = (number + 1) * UINT64_C(0x9E3779B97F4A7C15);
    number = (number ^ number >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    return number ^ number >> 31;
}

/* The weight of those that were known; *all: of those that counted. */
static double put_all(struct names *names, uint64_t first, uint64_t count, uint64_t value, double *all) {
    double known = 0;
    uint64_t old;

    for (uint64_t i = first; i < first + count; i++) {
        if (!names_counts(names, name_of(i)))
            continue;
        double weight = names_weight(names);
        int rc = names_put(names, name_of(i), value, &old);
        assert_true(rc >= 0);
        if (rc > 0)
            assert_int_equal(old, value - 1);
        known += rc > 0 ? weight : 0;
        *all += weight;
    }
    return known;
}

static void test_all_fit(void **state) {
    struct names names = {.most = 100000};
    double all = 0;
    (void)state;

    assert_true(put_all(&names, 0, 50000, 1, &all) == 0);
    assert_true(put_all(&names, 0, 50000, 2, &all) == 50000);
    assert_true(all == 100000);
    assert_int_equal(names.count, 50000);
    names_clear(&names);
}

static void test_sample_is_fair(void **state) {
    struct names names = {.most = 4096};
    double all = 0;
    (void)state;

    assert_true(put_all(&names, 0, 1000000, 1, &all) == 0);
    assert_true(names.count <= 4096 && names.count > 1000);
    assert_true(names.capacity <= 8192);
    assert_true(all > 0.9e6 && all < 1.1e6);
    all = 0;
    double known = put_all(&names, 500000, 1000000, 2, &all); /* half of these are known */
    assert_true(known / all > 0.45 && known / all < 0.55);
    names_clear(&names);
}

static void test_name_zero(void **state) {
    struct names names = {.most = 16};
    uint64_t old = 0;
    (void)state;

    assert_int_equal(names_put(&names, 0, 7, &old), 0);
    assert_int_equal(names_put(&names, 0, 8, &old), 1);
    assert_int_equal(old, 7);
    names_clear(&names);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_fit),
        cmocka_unit_test(test_sample_is_fair),
        cmocka_unit_test(test_name_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
