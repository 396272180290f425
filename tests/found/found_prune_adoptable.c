/* A session had written a whole checkpoint and died before its record; the next one died before it had adopted it; then
 * a prune deleted it, although the next start would have adopted it. Prune and adopt must ask by one criterion. */
#include "unit/store_life.h"

static struct vv_store *store;

static int open_one(void **state) {
    (void)state;
    store = open_store(fresh_uri(), VV_STORE_WRITE);
    return 0;
}

static int close_one(void **state) {
    (void)state;
    vv_store_close(store);
    return 0;
}

static uint32_t begin(struct vv_lease **lease) {
    ok(take(store, 60, 0, lease));
    return vv_lease_generation(*lease);
}

/* One that came and died before it did anything. */
static void pass_by(void) {
    struct vv_lease *lease = NULL;
    begin(&lease);
    vv_lease_release(lease);
}

static void assert_adopted(uint64_t version) {
    struct vv_lease *lease = NULL;
    begin(&lease);
    assert_int_equal(vv_adopt(store, lease, NAME, &error), 1);
    assert_int_equal(record_state(store, 1, version), 0);
    vv_lease_release(lease);
    assert_whole(store);
}

static void test_after_one_more_session(void **state) {
    struct vv_lease *lease = NULL;
    (void)state;
    begin(&lease);
    checkpoint(store, lease, at(1, 1, 0), at(0, 0, 0), NULL, 0);
    write_single(store, at(1, 2, 0), at(1, 1, 0), NULL, 0);
    vv_lease_release(lease);
    pass_by();
    pass_by();
    ok(prune(store, NULL));
    assert_adopted(2);
}

/* Above it lies half an attempt: the tombstone that prune puts there must not end the full one below. */
static void test_below_half_an_attempt(void **state) {
    struct vv_lease *lease = NULL;
    struct pack_spec half = {.writers = 2};
    (void)state;
    begin(&lease);
    checkpoint(store, lease, at(1, 1, 0), at(0, 0, 0), NULL, 0);
    write_single(store, at(1, 2, 0), at(1, 1, 0), NULL, 0);
    ok(write_pack(store, at(1, 3, 0), &half));
    vv_lease_release(lease);
    pass_by();
    ok(prune(store, NULL));
    ok(prune(store, NULL));
    assert_false(exists(store, at(1, 3, 0), VV_KIND_PACK));
    assert_adopted(2);
}

/* Below a checkpoint of a later session it is waste, as before. */
static void test_older_than_a_checkpoint(void **state) {
    struct vv_lease *lease = NULL;
    (void)state;
    begin(&lease);
    write_single(store, at(1, 2, 0), at(0, 0, 0), NULL, 0);
    vv_lease_release(lease);
    begin(&lease);
    checkpoint(store, lease, at(2, 1, 0), at(0, 0, 0), NULL, 0);
    vv_lease_release(lease);
    ok(prune(store, NULL));
    assert_false(exists(store, at(1, 2, 0), VV_KIND_PACK));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_after_one_more_session, open_one, close_one),
        cmocka_unit_test_setup_teardown(test_below_half_an_attempt, open_one, close_one),
        cmocka_unit_test_setup_teardown(test_older_than_a_checkpoint, open_one, close_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
