/* On a host that remembered the folders of the store from some seconds ago, a restart took an older checkpoint than the
 * newest, or said that there was none, which a program takes for its first run. And varve_prune removed what the newest
 * depend on. An old listing must be an error that says so. Here the C library's fdopendir gives the folders of a copy
 * made earlier. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>

#include "sessions.h"
#include <varve/varve_inspect.h>

static int is_old; /* folders are listed as in the copy */

DIR *fdopendir(int fd) {
    static DIR *(*next)(int);
    char link[64], path[512], copy[1100];
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "fdopendir");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = is_old ? readlink(link, path, sizeof path - 1) : -1;
    size_t root = strlen(store_path);
    if (size > (ssize_t)root && strncmp(path, store_path, root) == 0 && strncmp(path + root, "/n/", 3) == 0) {
        path[size] = '\0';
        snprintf(copy, sizeof copy, "%s/copy%s", folder, path + root);
        int other = open(copy, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (other < 0)
            other = open(folder, O_TMPFILE | O_RDWR, 0600); /* not a folder: reads as an error */
        close(fd);
        fd = other;
    }
    return next(fd);
}

static void remember(void) {
    char command[700];
    snprintf(command, sizeof command, "cp -a '%s' '%s/copy'", store_path, folder);
    assert_int_equal(system(command), 0);
}

/* Folders of the name exist, but hold nothing yet. */
static void remember_nothing(void) {
    char command[1400];
    snprintf(command, sizeof command, "mkdir -p '%s/copy/n/job/record' '%s/copy/n/job/claim' '%s/copy/n/job/data'",
             folder, folder, folder);
    assert_int_equal(system(command), 0);
}

static void make(int64_t from, int64_t to, const char *settings) {
    struct varve_session *session = open_session(settings);
    if (from > 1)
        assert_int_equal(restart(session), from - 1);
    for (int64_t version = from; version <= to; version++)
        save(session, version);
    assert_int_equal(varve_close(session), 0);
}

static void restart_by_old_listing(void) {
    int64_t version = -1;
    is_old = 1;
    struct varve_session *session = open_session("");
    int rc = varve_restart(session, VARVE_LATEST, &version);
    is_old = 0;
    assert_int_equal(rc, -ESTALE);
    assert_non_null(strstr(varve_session_error(session)->text, "docs/backends.md"));
    assert_int_equal(restart(session), 3); /* the same session, as soon as listings are new */
    assert_int_equal(varve_close(session), 0);
}

static void test_not_a_first_run(void **state) {
    (void)state;
    remember_nothing();
    make(1, 3, "");
    restart_by_old_listing();
}

static void test_not_an_older_one(void **state) {
    (void)state;
    make(1, 2, "");
    remember();
    make(3, 3, "");
    restart_by_old_listing();
}

static void test_prune_refuses(void **state) {
    struct varve_store *store = NULL;
    struct varve_error error = {0};
    (void)state;
    make(1, 2, "keep=2");
    remember();
    make(3, 4, "keep=2");
    assert_int_equal(varve_store_open(store_path, NULL, &store, &error), 0);
    is_old = 1;
    int rc = varve_store_prune(store, "job", 0, NULL, NULL, NULL, &error);
    is_old = 0;
    varve_store_close(store);
    assert_int_equal(rc, -ESTALE);
    struct varve_session *session = open_session("");
    assert_int_equal(restart(session), 4);
    assert_int_equal(varve_close(session), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_not_a_first_run, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_not_an_older_one, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_prune_refuses, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
