/* A store that may be read, but not written, could not be restarted from. */
#include "found/small.h"

static void as_nobody(const char *settings, int is_warned) {
    assert_int_equal(setgid(65534), 0);
    assert_int_equal(setuid(65534), 0);
    struct varve_session *session = NULL;
    struct varve_error error;
    assert_int_equal(try_open("job", settings, &session, &error), 0);
    assert_int_equal(varve_protect(session, "data", region, SIZE), 0);
    assert_true(is_warned == (strstr(logged, "job is open for reading only") != NULL));
    restart(session, 3);
    assert_true(save(session, 4) == (is_warned ? -EACCES : -EROFS));
    assert_int_equal(varve_close(session), is_warned ? -EACCES : 0); /* it tells of the failed checkpoint, too */
    _exit(0);
}

static void run(const char *settings, int is_warned) {
    int status;
    pid_t child = fork();
    if (child == 0)
        as_nobody(settings, is_warned);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_other_user(void **state) {
    (void)state;
    umask(022);
    make_versions("job", "mode=umask", 3);
    char *before = snapshot();
    run("access=read", 0);
    run("", 1);
    expect_unchanged(before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_other_user, make_folder, remove_folder),
    };
    if (geteuid() != 0) {
        print_message("skipped: only root can become somebody else\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
