/* Repair looked once more at a damaged record, and then replaced it. When the record was forgotten and its data pruned
 * between the two, repair put a record over the tombstone that led to nothing. Whoever comes between must leave the
 * data, or the tombstone. */
#include "unit/store_hook.h"

static struct vv_store *store, *hooked;
static int forgotten;  /* what forget said */
static int has_looked; /* the one that forgets had looked before repair began */

static int come_between(int verb, const char *key, uint64_t offset, int is_after) {
    struct vv_attempt attempt = at(1, 20, 0);
    (void)offset, (void)is_after;
    if (verb != VV_VERB_REPLACE || !is_key(key, attempt, VV_KIND_RECORD))
        return 0;
    forgotten = has_looked ? vv_record_bury(store, NAME, &attempt, &error) : vv_forget(store, NAME, 1, 20, &error);
    int rc = prune(store, NULL);
    assert_int_equal(rc, forgotten == 0 ? 0 : VARVE_CORRUPT);
    return 0;
}

static int prepare(void **state) {
    struct vv_lease *lease = NULL;
    char text[VV_KEY_CAPACITY];
    const char *uri = fresh_uri();
    (void)state;
    store = open_store(uri, VV_STORE_WRITE);
    hooked = open_hooked(uri);
    ok(take(store, 60, 0, &lease));
    struct vv_dependency first = checkpoint(store, lease, at(1, 10, 0), at(0, 0, 0), NULL, 0);
    checkpoint(store, lease, at(1, 20, 0), first.attempt, &first, 1);
    vv_lease_release(lease);
    key_text(at(1, 20, 0), VV_KIND_RECORD, 0, 0, text);
    damage(store, text, 200);
    return 0;
}

static int finish(void **state) {
    (void)state;
    hook = NULL;
    vv_store_close(hooked);
    vv_store_close(store);
    return 0;
}

static void repair_meanwhile(void) {
    struct vv_repair_options options = {0};
    forgotten = 1;
    hook = come_between;
    int rc = vv_repair(hooked, &options, &error);
    hook = NULL;
    ok(rc);
    assert_int_not_equal(forgotten, 1);
    assert_whole(store);
}

static void test_forget_is_refused(void **state) {
    (void)state;
    has_looked = 0;
    repair_meanwhile();
    assert_int_equal(forgotten, VARVE_BUSY);
    assert_int_equal(record_state(store, 1, 20), 0);
}

static void test_forget_that_had_looked(void **state) {
    (void)state;
    has_looked = 1;
    repair_meanwhile();
    assert_int_equal(forgotten, 0);
    ok(prune(store, NULL));
    assert_whole(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_forget_is_refused, prepare, finish),
        cmocka_unit_test_setup_teardown(test_forget_that_had_looked, prepare, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
