/* With keep=2, a damaged checkpoint that a restart had passed over counted as one of the two that are kept, and the
 * good one from which the job went on was forgotten. What a restart passes over takes nobody's place. */
#include "sessions.h"

/* Version 3 is damaged; the job comes back from 2 and saves 3 once more. */
static void come_back(const char *settings) {
    char path[512];
    struct varve_session *session = open_session(settings);
    for (int64_t version = 1; version <= 3; version++)
        save(session, version);
    assert_int_equal(varve_close(session), 0);
    pack_of(1, 3, path);
    flip_byte(path, 5000);
    session = open_session(settings);
    assert_int_equal(restart(session), 2);
    save(session, 3);
    assert_int_equal(varve_close(session), 0);
}

static void test_good_one_is_kept(void **state) {
    char path[512];
    (void)state;
    come_back("keep=2,codec=none");
    pack_of(2, 3, path);
    flip_byte(path, 5000);
    struct varve_session *session = open_session("keep=2,codec=none");
    assert_int_equal(restart(session), 2);
    assert_int_equal(varve_close(session), 0);
}

/* As soon as two good ones are newer, it goes with the others. */
static void test_damaged_one_goes_later(void **state) {
    char path[512];
    (void)state;
    come_back("keep=2,codec=none");
    struct varve_session *session = open_session("keep=2,codec=none");
    assert_int_equal(restart(session), 3);
    save(session, 4);
    assert_int_equal(varve_close(session), 0);
    pack_of(1, 3, path);
    assert_false(is_there(path));
    pack_of(2, 3, path);
    assert_true(is_there(path));
}

/* The session after the next one knows it, too: the record of the first one after the restart tells. */
static void test_next_session_knows(void **state) {
    char path[512];
    (void)state;
    come_back("keep=3,codec=none");
    struct varve_session *session = open_session("keep=3,codec=none");
    assert_int_equal(restart(session), 3);
    save(session, 4);
    assert_int_equal(varve_close(session), 0);
    record_of(1, 2, path);
    assert_true(is_there(path));
    pack_of(3, 4, path);
    flip_byte(path, 5000);
    pack_of(2, 3, path);
    flip_byte(path, 5000);
    session = open_session("keep=3,codec=none");
    assert_int_equal(restart(session), 2);
    assert_int_equal(varve_close(session), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_good_one_is_kept, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_damaged_one_goes_later, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_next_session_knows, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
