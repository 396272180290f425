/* Files outside the store were deleted: every old file in ROOT/tmp counted as a leftover, whatever its name, and tmp
 * was opened through links. Only what is called as we call our temporaries may go, no link is followed below the root,
 * and no store is made where somebody has a tmp with something in it. */
#include "session.h"

#include "base/log.h"
#include "storage/file_private.h"

static void plant_sparse(void) {
    assert_int_equal(mkdir(found_path("victim"), 0700), 0);
    found_write(found_path("victim/thesis.tex"), "years of work\n", 0600);
    found_make_old(found_path("victim/thesis.tex"));
    /* Not even a file that is called as ours are. */
    found_write(found_path("victim/0123456789abcdef-1-0-0123456789abcdef"), "x", 0600);
    found_make_old(found_path("victim/0123456789abcdef-1-0-0123456789abcdef"));
}

static void assert_sparse_is_whole(void) {
    assert_true(found_is_there(found_path("victim/thesis.tex")));
    assert_true(found_is_there(found_path("victim/0123456789abcdef-1-0-0123456789abcdef")));
}

static int links_told; /* warnings of a link inside a store, and the last one */
static char link_line[1000];

static void count_links(void *arg, int level, const char *line) {
    (void)arg;
    (void)level;
    fprintf(stderr, "%s\n", line);
    if (!strstr(line, " is, or leads through, a symbolic link, which is not followed"))
        return;
    links_told++;
    snprintf(link_line, sizeof link_line, "%s", line);
}

static void test_tmp_is_a_link(void **state) {
    (void)state;
    plant_sparse();
    assert_int_equal(mkdir(found_path("ck"), 0700), 0);
    assert_int_equal(symlink(found_path("victim"), found_path("ck/tmp")), 0);
    assert_true(found_save(found_path("ck"), "keep=2,min_free=0", 1, 5) < 0);
    assert_sparse_is_whole();
}

static void test_link_in_a_store_that_is_there(void **state) {
    (void)state;
    plant_sparse();
    assert_int_equal(found_save(found_path("ck"), "keep=2,min_free=0", 1, 5), 0);
    if (found_is_there(found_path("ck/tmp")))
        assert_int_equal(rmdir(found_path("ck/tmp")), 0);
    assert_int_equal(symlink(found_path("victim"), found_path("ck/tmp")), 0);
    links_told = 0;
    found_log = count_links;
    int rc = found_save(found_path("ck"), "keep=2,min_free=0", 6, 9);
    found_log = NULL;
    assert_int_equal(rc, -ELOOP);
    assert_int_equal(links_told, 1);
    assert_non_null(strstr(link_line, found_path("ck/tmp")));
    assert_sparse_is_whole();
}

/* Nobody attacks: a folder that holds only tmp with an old file. */
static void test_somebodys_folder_is_no_store(void **state) {
    (void)state;
    assert_int_equal(mkdir(found_path("ck"), 0700), 0);
    assert_int_equal(mkdir(found_path("ck/tmp"), 0700), 0);
    found_write(found_path("ck/tmp/notes"), "mine\n", 0600);
    found_make_old(found_path("ck/tmp/notes"));
    assert_int_equal(found_save(found_path("ck"), "keep=2,min_free=0", 1, 5), VARVE_NO_STORE);
    assert_true(found_is_there(found_path("ck/tmp/notes")));
}

static void test_strangers_in_our_tmp_stay(void **state) {
    (void)state;
    static const char *const strangers[] = {"notes",
                                            "0123456789abcdef-1-0",
                                            "0123456789abcdef-1-0-0123456789abcdef.bak",
                                            "0123456789abcdef-01-0-0123456789abcdef",
                                            "0123456789abcdef-1--0123456789abcdef",
                                            "0123456789ABCDEF-1-0-0123456789abcdef",
                                            "unknown-0-0-0123456789abcdef",
                                            "known-1-0-0123456789abcdef",
                                            "unknown-99999999999-0-0123456789abcdef",
                                            ".x.,0123456789abcdef-1-0-0123456789abcdef"};
    char path[100];
    assert_int_equal(found_save(found_path("ck"), "keep=2,min_free=0", 1, 3), 0);
    (void)mkdir(found_path("ck/tmp"), 0700);
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        snprintf(path, sizeof path, "ck/tmp/%s", strangers[i]);
        found_write(found_path(path), "x", 0600);
        found_make_old(found_path(path));
    }
    found_write(found_path("ck/tmp/0123456789abcdef-1-0-0123456789abcdef"), "x", 0600);
    found_make_old(found_path("ck/tmp/0123456789abcdef-1-0-0123456789abcdef"));
    found_write(found_path("ck/tmp/unknown-1-4294967295-0123456789abcdef"), "x", 0600);
    found_make_old(found_path("ck/tmp/unknown-1-4294967295-0123456789abcdef"));
    assert_int_equal(found_save(found_path("ck"), "keep=2,min_free=0", 4, 8), 0);
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        snprintf(path, sizeof path, "ck/tmp/%s", strangers[i]);
        assert_true(found_is_there(found_path(path)));
    }
    assert_false(found_is_there(found_path("ck/tmp/0123456789abcdef-1-0-0123456789abcdef")));
    assert_false(found_is_there(found_path("ck/tmp/unknown-1-4294967295-0123456789abcdef")));
}

/* ---- every verb, through a link in the place of a folder and of an object ---- */

static struct varve_backend *open_backend(int step_by_step) {
    struct vv_file_tuning tuning = {.step_by_step = step_by_step};
    static struct vv_log log = {.level = VV_LOG_WARN, .rank = -1, .fn = count_links};
    struct vv_backend_options options = {.may_create = 1, .tuning = &tuning, .log = &log};
    struct varve_backend *backend = NULL;
    assert_int_equal(vv_backend_open(found_path("root"), &options, &backend, &found_error), 0);
    return backend;
}

static int see_name(void *arg, const char *name, int is_prefix) {
    (void)name;
    (void)is_prefix;
    ++*(int *)arg;
    return 0;
}

static void refuse_links(int step_by_step) {
    struct varve_backend *backend = open_backend(step_by_step);
    uint64_t size;
    char byte;
    int count = 0;
    plant_sparse();
    assert_int_equal(mkdir(found_path("victim/empty"), 0700), 0);
    links_told = 0;
    assert_int_equal(vv_backend_put(backend, "n/a", "1", 1), 0);
    assert_int_equal(symlink(found_path("victim"), found_path("root/n/link")), 0);
    assert_int_equal(symlink(found_path("victim/thesis.tex"), found_path("root/n/file")), 0);
    assert_int_equal(symlink(found_path("nowhere"), found_path("root/n/dangling")), 0);
    static const char *const keys[] = {"n/link/thesis.tex", "n/file", "n/dangling", "n/link/empty/x"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        assert_int_equal(vv_backend_get(backend, keys[i], 0, &byte, 1), -ELOOP);
        assert_int_equal(vv_backend_stat(backend, keys[i], &size), -ELOOP);
        assert_int_equal(vv_backend_sync(backend, keys[i]), -ELOOP);
        assert_true(vv_backend_put(backend, keys[i], "2", 1) < 0);
    }
    assert_int_equal(vv_backend_replace(backend, "n/link/thesis.tex", "3", 1), -ELOOP);
    assert_int_equal(vv_backend_remove(backend, "n/link/thesis.tex"), -ELOOP);
    assert_int_equal(vv_backend_remove(backend, "n/link/empty/x"), -ELOOP);
    assert_int_equal(vv_backend_list(backend, "n/link", NULL, 0, see_name, &count), -ELOOP);
    /* Names that are taken are told, so that nobody waits for them to appear. */
    assert_int_equal(vv_backend_list(backend, "n", NULL, 0, see_name, &count), 0);
    assert_int_equal(count, 4);
    assert_int_equal(links_told, 1); /* however often one is in the way */
    /* The link itself is an entry of ours to replace and remove; what it leads to is not. */
    assert_int_equal(vv_backend_replace(backend, "n/file", "4", 1), 0);
    assert_int_equal(vv_backend_remove(backend, "n/dangling"), 0);
    assert_true(found_is_there(found_path("victim/empty")));
    assert_sparse_is_whole();
    vv_backend_close(backend);
}

static void test_links_are_refused(void **state) {
    (void)state;
    refuse_links(0);
}

static void test_links_are_refused_on_old_kernels(void **state) {
    (void)state;
    refuse_links(1);
}

/* Opening went round for ever: the name of the next claim was taken, and no listing showed it. */
static void test_dangling_claim(void **state) {
    (void)state;
    const char *settings = "min_free=0,beat_seconds=1,dead_seconds=2,takeover_seconds=10";
    assert_int_equal(found_save(found_path("ck"), settings, 1, 1), 0);
    assert_int_equal(symlink("nowhere", found_path("ck/n/x/claim/00000002")), 0);
    assert_int_equal(found_save(found_path("ck"), settings, 2, 2), -ELOOP);
    assert_non_null(strstr(found_error.text, "n/x/claim/00000002"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tmp_is_a_link, found_setup, found_teardown),
        cmocka_unit_test_setup_teardown(test_link_in_a_store_that_is_there, found_setup, found_teardown),
        cmocka_unit_test_setup_teardown(test_somebodys_folder_is_no_store, found_setup, found_teardown),
        cmocka_unit_test_setup_teardown(test_strangers_in_our_tmp_stay, found_setup, found_teardown),
        cmocka_unit_test_setup_teardown(test_links_are_refused, found_setup, found_teardown),
        cmocka_unit_test_setup_teardown(test_links_are_refused_on_old_kernels, found_setup, found_teardown),
        cmocka_unit_test_setup_teardown(test_dangling_claim, found_setup, found_teardown),
    };
    alarm(60);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
