/* When the record of the last checkpoint was gone without a tombstone (forgotten, and pruned since), the next
 * checkpoint was tried on top of it and failed: the look before it compared the loader's answer with the wrong code. It
 * must be a whole checkpoint at once. */
#include "sessions.h"

static void test_parent_gone(void **state) {
    char path[512];
    (void)state;
    struct varve_session *session = open_session("on_error=fail");
    save(session, 1);
    record_of(1, 1, path);
    assert_int_equal(unlink(path), 0);
    save(session, 2);
    assert_int_equal(varve_close(session), 0);
    session = open_session("");
    assert_int_equal(restart(session), 2);
    assert_int_equal(varve_close(session), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_parent_gone, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
