/* A restart needed a claim, so a store on a read-only mount could not be restarted from. With access=read nothing is
 * claimed or written. Without it the session is open for reading, says so in one line, and only a checkpoint fails. */
#include "found/small.h"

static void test_access_read(void **state) {
    (void)state;
    if (!can_mount())
        skip();
    make_versions("job", "", 3);
    shell("mount --bind $D/ck $D/ck && mount -o remount,bind,ro $D/ck");
    struct varve_session *session = open_name("job", "access=read");
    restart(session, 3);
    expect(session, varve_checkpoint(session, 4), -EROFS);
    assert_non_null(strstr(varve_session_error(session)->text, "access=write"));
    assert_int_equal(varve_close(session), 0);
    assert_string_equal(logged, "");
}

static void test_access_write(void **state) {
    (void)state;
    if (!can_mount())
        skip();
    make_versions("job", "", 3);
    shell("mount --bind $D/ck $D/ck && mount -o remount,bind,ro $D/ck");
    struct varve_session *session = open_name("job", "");
    assert_non_null(strstr(logged, "job is open for reading only"));
    restart(session, 3);
    expect(session, save(session, 4), -EROFS);
    shell("mount -o remount,bind,rw $D/ck"); /* it was a mistake of the administrator */
    expect(session, save(session, 5), 0);
    assert_int_equal(varve_close(session), 0);
    session = open_name("job", "access=read");
    restart(session, 5);
    assert_int_equal(varve_close(session), 0);
}

/* Also where it could be written: no claim, no heartbeat, no temporary file, no probe. */
static void test_nothing_is_written(void **state) {
    (void)state;
    make_versions("job", "", 3);
    char *before = snapshot();
    struct varve_session *session = open_name("job", "access=read,direct=on");
    restart(session, 3);
    expect(session, varve_stored(session, VARVE_LATEST, NULL, NULL, NULL), 0);
    expect(session, varve_reject(session, 3), 0);
    restart(session, 2);
    expect(session, varve_checkpoint(session, 4), -EROFS);
    assert_int_equal(varve_close(session), 0);
    expect_unchanged(before);
}

static void test_no_store_is_made(void **state) {
    (void)state;
    struct varve_session *session = NULL;
    struct varve_error error;
    assert_int_equal(try_open("job", "access=read", &session, &error), VARVE_NO_STORE);
    assert_int_equal(access(store_path, F_OK), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_access_read, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_access_write, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_nothing_is_written, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_no_store_is_made, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
