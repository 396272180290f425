/* A store was opened for writing in a folder of anybody: another user could put a folder of his, or a link, in the
 * place where a job would make its store, or plant parts of a store in a folder where everybody may make files. Such a
 * root is refused unless owner=any says that it is meant; reading is allowed. */
#include "session.h"

#include <grp.h>
#include <varve/varve_inspect.h>

#define OTHER 65533

/* As another user, in a process of its own. Returns what fn returns, 0 to 100. */
static int as_user(uid_t user, int (*fn)(void)) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (setgroups(0, NULL) < 0 || setgid(STRANGER) < 0 || setuid(user) < 0)
            _exit(99);
        _exit(fn());
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int save_with(const char *settings) {
    int rc = found_save(found_path("ck"), settings, 1, 2);
    if (rc < 0)
        fprintf(stderr, "%s\n", found_error.text);
    return rc == 0 ? 0 : rc == -EPERM ? 1 : 2;
}

static int save_plainly(void) {
    return save_with("min_free=0");
}

static int save_again(void) {
    return found_save(found_path("ck"), "min_free=0", 3, 4) == 0 ? 0 : 2;
}

static int save_anyway(void) {
    return save_with("min_free=0,owner=any");
}

static int save_as_group(void) {
    return save_with("min_free=0,mode=group");
}

static void make_root(uid_t owner, mode_t mode) {
    assert_int_equal(chmod(found_folder, 0755), 0);
    assert_int_equal(mkdir(found_path("ck"), 0700), 0);
    assert_int_equal(chown(found_path("ck"), owner, STRANGER), 0);
    assert_int_equal(chmod(found_path("ck"), mode), 0);
}

static void test_root_of_another_user(void **state) {
    (void)state;
    make_root(OTHER, 0700);
    assert_int_equal(save_plainly(), 1); /* the superuser: he could, but it is not his */
    assert_non_null(strstr(found_error.text, "belongs to user 65533"));
    assert_non_null(strstr(found_error.text, "owner=any"));
    assert_false(found_is_there(found_path("ck/varve")));
    assert_int_equal(save_anyway(), 0);
}

static void test_root_that_its_group_may_write(void **state) {
    (void)state;
    make_root(OTHER, 02770);
    assert_int_equal(as_user(STRANGER, save_plainly), 1);
    assert_false(found_is_there(found_path("ck/varve")));
    assert_int_equal(as_user(STRANGER, save_as_group), 0);
    assert_int_equal(as_user(OTHER, save_as_group), 0);
}

/* Our own root: whoever made it so trusts the group. */
static void test_own_root_that_its_group_may_write(void **state) {
    (void)state;
    make_root(STRANGER, 0770);
    assert_int_equal(as_user(STRANGER, save_plainly), 0);
    assert_true(found_is_there(found_path("ck/varve")));
    assert_int_equal(chmod(found_path("ck"), 02775), 0);
    assert_int_equal(as_user(STRANGER, save_again), 0);
}

static void test_root_that_everybody_may_write(void **state) {
    (void)state;
    make_root(STRANGER, 0777);
    assert_int_equal(as_user(STRANGER, save_plainly), 1);
    assert_int_equal(as_user(STRANGER, save_as_group), 1);
    assert_int_equal(as_user(STRANGER, save_anyway), 0);
    assert_int_equal(chmod(found_path("ck"), 0755), 0);
    assert_int_equal(as_user(STRANGER, save_plainly), 0);
}

/* As /tmp: everybody may make files and remove only their own. */
static void test_sticky_root(void **state) {
    (void)state;
    static const char *const planted[] = {"ck/n", "ck/n/x", "ck/tmp"};
    make_root(0, 01777);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mkdir(found_path(planted[i]), 0777), 0);
        assert_int_equal(chmod(found_path(planted[i]), 0777), 0);
        assert_int_equal(chown(found_path(planted[i]), OTHER, OTHER), 0);
    }
    assert_int_equal(as_user(STRANGER, save_plainly), 1);
    assert_int_equal(rmdir(found_path("ck/n/x")), 0);
    assert_int_equal(rmdir(found_path("ck/n")), 0);
    assert_int_equal(as_user(STRANGER, save_plainly), 1); /* tmp, where heartbeats are written, is still his */
    assert_int_equal(rmdir(found_path("ck/tmp")), 0);
    found_write(found_path("ck/varve"), "x", 0666);
    assert_int_equal(chown(found_path("ck/varve"), OTHER, OTHER), 0);
    assert_int_equal(as_user(STRANGER, save_plainly), 1); /* not looked into, or it would be damaged */
    assert_false(found_is_there(found_path("ck/n")));
    assert_int_equal(unlink(found_path("ck/varve")), 0);
    assert_int_equal(as_user(STRANGER, save_plainly), 0);
    assert_int_equal(as_user(OTHER, save_plainly), 2); /* -EACCES: varve has mode 0600 */
    assert_int_equal(chmod(found_path("ck/varve"), 0644), 0);
    assert_int_equal(as_user(OTHER, save_plainly), 1); /* it is right and may be read, and is somebody else's */
}

static int plant_link(void) {
    return symlink(found_path("production"), found_path("ck")) < 0 ? 2 : 0;
}

static void test_link_of_another_user(void **state) {
    (void)state;
    assert_int_equal(chmod(found_folder, 0777), 0); /* not sticky: there the kernel itself would not follow it */
    assert_int_equal(mkdir(found_path("production"), 0700), 0);
    assert_int_equal(as_user(OTHER, plant_link), 0);
    assert_int_equal(save_plainly(), 1);
    assert_non_null(strstr(found_error.text, "a link that user 65533 has made"));
    assert_false(found_is_there(found_path("production/varve")));
    assert_int_equal(unlink(found_path("ck")), 0);
    assert_int_equal(symlink(found_path("production"), found_path("ck")), 0);
    assert_int_equal(save_plainly(), 0);
}

static int see_checkpoint(void *arg, const struct varve_checkpoint_info *checkpoint) {
    (void)checkpoint;
    ++*(int *)arg;
    return 0;
}

static void test_reading_and_changing_with_the_tool(void **state) {
    (void)state;
    const struct varve_which first = {.name = "x", .version = 1};
    struct varve_store *store = NULL;
    int count = 0;
    make_root(OTHER, 0700);
    assert_int_equal(as_user(OTHER, save_plainly), 0);
    assert_int_equal(varve_store_open(found_path("ck"), NULL, &store, &found_error), 0);
    assert_int_equal(varve_store_list(store, NULL, see_checkpoint, &count, &found_error), 0);
    assert_int_equal(count, 2);
    assert_int_equal(varve_store_forget(store, &first, &found_error), -EPERM);
    varve_store_close(store);
    assert_int_equal(varve_store_open(found_path("ck"), "owner=any", &store, &found_error), 0);
    assert_int_equal(varve_store_forget(store, &first, &found_error), 0);
    varve_store_close(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_root_of_another_user, found_setup, found_teardown),
        cmocka_unit_test_setup_teardown(test_root_that_its_group_may_write, found_setup, found_teardown),
        cmocka_unit_test_setup_teardown(test_own_root_that_its_group_may_write, found_setup, found_teardown),
        cmocka_unit_test_setup_teardown(test_root_that_everybody_may_write, found_setup, found_teardown),
        cmocka_unit_test_setup_teardown(test_sticky_root, found_setup, found_teardown),
        cmocka_unit_test_setup_teardown(test_link_of_another_user, found_setup, found_teardown),
        cmocka_unit_test_setup_teardown(test_reading_and_changing_with_the_tool, found_setup, found_teardown),
    };
    if (found_skip_unless_root())
        return 77;
    alarm(60);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
