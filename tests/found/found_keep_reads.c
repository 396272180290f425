/* A run that leaves the many checkpoints of earlier runs alone read all their records at each checkpoint to choose what
 * to forget, although none of them can be chosen. */
#include "unit/store_life.h"

#define EARLIER 40

static uint64_t count_reads(struct vv_store *store) {
    struct vv_backend_counts counts;
    ok(vv_count_get(store->backend, &counts));
    return counts.calls[VV_VERB_GET];
}

static void test_earlier_ones_are_not_read(void **state) {
    const struct vv_keep_options options = {.keep = 3, .from = 2};
    char uri[100];
    struct vv_lease *lease = NULL;
    (void)state;
    snprintf(uri, sizeof uri, "%s?count=1", fresh_uri());
    struct vv_store *store = open_store(uri, VV_STORE_WRITE);
    ok(take(store, 60, 0, &lease));
    for (uint64_t version = 1; version <= EARLIER; version++)
        checkpoint(store, lease, at(1, version, 0), at(0, 0, 0), NULL, 0);
    vv_lease_release(lease);
    ok(take(store, 60, 0, &lease));
    for (uint64_t version = 1; version <= 4; version++)
        checkpoint(store, lease, at(2, version, 0), at(0, 0, 0), NULL, 0);
    uint64_t begin = count_reads(store);
    ok(vv_keep(store, lease, NAME, &options, &error));
    uint64_t keeping = count_reads(store) - begin;
    ok(prune(store, NULL));
    uint64_t pruning = count_reads(store) - begin - keeping;
    assert_true(pruning > EARLIER && keeping < pruning + EARLIER);
    assert_int_equal(record_state(store, 2, 1), VARVE_NO_CHECKPOINT);
    assert_int_equal(record_state(store, 2, 2), 0);
    assert_int_equal(record_state(store, 1, 1), 0);
    vv_lease_release(lease);
    vv_store_close(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_earlier_ones_are_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
