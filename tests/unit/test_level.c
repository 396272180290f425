/* Who gives how much to whom: afterwards all have about the mean, what one gives another takes, and nobody does both.
 */
#include <string.h>

#include "test.h"
#include "write/team.h"

#define MOST 24

static uint64_t state = 88172645463325252u;

static uint64_t next_random(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void check(const uint64_t *loads, uint32_t count) {
    static uint64_t gives[MOST][MOST], takes[MOST][MOST];
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        vv_balance(loads, count, i, gives[i], takes[i]);
        sum += loads[i];
    }
    uint64_t mean = sum / count, few = mean / 32 + count;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t given = 0, taken = 0;
        for (uint32_t j = 0; j < count; j++) {
            assert_int_equal(gives[i][j], takes[j][i]);
            given += gives[i][j];
            taken += takes[i][j];
        }
        assert_true(given == 0 || taken == 0);
        assert_true(given <= loads[i]);
        uint64_t after = loads[i] - given + taken;
        assert_true(after <= mean + few);
        if (loads[i] > mean + mean / 32)
            assert_true(after >= mean);
    }
}

static void test_shares(void **unused) {
    (void)unused;
    uint64_t loads[MOST] = {100, 0, 0, 0};
    check(loads, 1);
    check(loads, 4);
    memset(loads, 0, sizeof loads);
    check(loads, 5);
    for (int round = 0; round < 2000; round++) {
        uint32_t count = 1 + (uint32_t)(next_random() % MOST);
        for (uint32_t i = 0; i < count; i++)
            loads[i] = next_random() % 4 == 0 ? next_random() % 1000000000 : next_random() % 1000;
        check(loads, count);
    }
}

/* Stretch by stretch: in the end everybody has its share, and at every moment about what was due. */
static void test_targets(void **unused) {
    (void)unused;
    struct vv_share shares[3] = {{10u << 20, 0}, {0, 0}, {25u << 20, 0}};
    uint64_t expected = 64u << 20;
    for (uint64_t seen = VV_BALANCE_STRETCH; seen <= expected; seen += VV_BALANCE_STRETCH) {
        uint32_t target = vv_balance_target(shares, 3, seen, expected);
        assert_int_not_equal(target, 1);
        if (target < 3)
            shares[target].sent += VV_BALANCE_STRETCH;
        for (int i = 0; i < 3; i++) {
            double due = (double)shares[i].share * (double)seen / (double)expected;
            assert_true((double)shares[i].sent <= due + 2 * VV_BALANCE_STRETCH);
            assert_true((double)shares[i].sent >= due - 2 * VV_BALANCE_STRETCH);
        }
    }
    assert_in_range(shares[0].sent, shares[0].share - VV_BALANCE_STRETCH, shares[0].share);
    assert_in_range(shares[2].sent, shares[2].share - VV_BALANCE_STRETCH, shares[2].share);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shares), cmocka_unit_test(test_targets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
