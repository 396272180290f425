/* With keep=2, a checkpoint that the program had refused (varve_reject) counted as one of the two that are kept, and of
 * the good ones only the newest was left. A refused checkpoint takes nobody's place. */
#include "sessions.h"

static void save_three(void) {
    struct varve_session *session = open_session("keep=2");
    for (int64_t version = 1; version <= 3; version++)
        save(session, version);
    assert_int_equal(varve_close(session), 0);
}

static void test_refused_and_restarted(void **state) {
    char path[512];
    (void)state;
    save_three();
    struct varve_session *session = open_session("keep=2");
    assert_int_equal(restart(session), 3);
    assert_int_equal(varve_reject(session, 3), 0);
    assert_int_equal(restart(session), 2);
    save(session, 4);
    assert_int_equal(varve_close(session), 0);
    pack_of(1, 2, path);
    assert_true(is_there(path));
    session = open_session("keep=2");
    assert_int_equal(restart(session), 4);
    assert_int_equal(varve_reject(session, 4), 0);
    assert_int_equal(varve_reject(session, 3), 0);
    assert_int_equal(restart(session), 2);
    assert_int_equal(varve_close(session), 0);
}

/* Refused, and the job goes on with what it has in memory. */
static void test_refused_only(void **state) {
    int64_t version = -1;
    (void)state;
    save_three();
    struct varve_session *session = open_session("keep=2");
    assert_int_equal(restart(session), 3);
    save(session, 4);
    assert_int_equal(varve_reject(session, 4), 0);
    save(session, 5);
    assert_int_equal(varve_close(session), 0);
    session = open_session("keep=2");
    assert_int_equal(varve_restart(session, 3, &version), 0);
    assert_true(is_filled(3));
    assert_int_equal(varve_close(session), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_refused_and_restarted, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_refused_only, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
