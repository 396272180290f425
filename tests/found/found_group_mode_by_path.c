/* With mode=group a new folder was opened to the group by its name, after it was made: somebody who may write to the
 * folder above could put a link there in between, and anything of ours became writable for the group. The mode is set
 * on the open folder, and no link is followed. Here our own mkdirat plays the other one. */
#include "session.h"

#include <sys/syscall.h>

#include "storage/file_private.h"

static int is_planting;

/* The library's calls come here, too. */
int mkdirat(int folder, const char *path, mode_t mode) {
    if (syscall(SYS_mkdirat, folder, path, mode) < 0)
        return -1;
    if (is_planting) {
        assert_int_equal(rmdir(found_path("ck/f")), 0);
        assert_int_equal(symlink(found_path("victim"), found_path("ck/f")), 0);
    }
    return 0;
}

static void test_mode_of_a_link(void **state) {
    (void)state;
    struct vv_backend_options options = {.may_create = 1, .mode = VV_MODE_GROUP};
    struct varve_backend *backend = NULL;
    struct stat st;
    assert_int_equal(mkdir(found_path("victim"), 0700), 0);
    assert_int_equal(vv_backend_open(found_path("ck"), &options, &backend, &found_error), 0);
    is_planting = 1;
    assert_int_equal(vv_backend_put(backend, "f/x", "", 0), -ELOOP);
    is_planting = 0;
    vv_backend_close(backend);
    assert_int_equal(stat(found_path("victim"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_false(found_is_there(found_path("victim/x")));
}

static void test_new_folders_are_for_the_group(void **state) {
    (void)state;
    struct vv_backend_options options = {.may_create = 1, .mode = VV_MODE_GROUP};
    struct varve_backend *backend = NULL;
    struct stat st;
    mode_t before = umask(077);
    assert_int_equal(vv_backend_open(found_path("ck"), &options, &backend, &found_error), 0);
    assert_int_equal(vv_backend_put(backend, "g/h/x", "", 0), 0);
    umask(before);
    assert_int_equal(stat(found_path("ck/g/h"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0770);
    assert_int_equal(stat(found_path("ck/g/h/x"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    vv_backend_close(backend);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_mode_of_a_link, found_setup, found_teardown),
        cmocka_unit_test_setup_teardown(test_new_folders_are_for_the_group, found_setup, found_teardown),
    };
    alarm(60);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
