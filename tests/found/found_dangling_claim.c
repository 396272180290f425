/* Where the key of the next claim was taken by something that no look finds (a link that leads nowhere), varve_open
 * tried again and again for ever. It must give up after some seconds and say what lies there. */
#include <errno.h>

#include "sessions.h"

static void test_open_gives_up(void **state) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = open_session("");
    struct varve_error error = {0};
    char path[512];
    (void)state;
    save(session, 1);
    assert_int_equal(varve_close(session), 0);
    path_of("claim/00000002", path);
    assert_int_equal(symlink("nowhere", path), 0);
    alarm(60); /* it would hang otherwise */
    assert_int_not_equal(varve_open(store_path, "job", &options, &session, &error), 0);
    alarm(0);
    assert_non_null(strstr(error.text, "claim"));
    assert_int_equal(unlink(path), 0);
    session = open_session("");
    assert_int_equal(restart(session), 1);
    assert_int_equal(varve_close(session), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_open_gives_up, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
