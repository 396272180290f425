/* Which files there are, and whether one is still as it was found. */
#include "../test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "files/walk.h"

static void test_same_size_and_time(void **state) {
    (void)state;
    char folder[] = "/tmp/varve-walk.XXXXXX";
    struct files_list files = {.count = 0};
    struct varve_error error;
    struct stat now;
    assert_non_null(mkdtemp(folder));
    int fd = open(folder, O_RDONLY | O_DIRECTORY);
    assert_true(fd >= 0);
    int file = openat(fd, "file", O_RDWR | O_CREAT, 0600);
    assert_int_equal(write(file, "before", 6), 6);
    assert_int_equal(files_walk(&files, fd, "file", &error), 0);
    assert_int_equal(fstat(file, &now), 0);
    assert_int_equal(files_is_same(&files.list[0], &now), 1);

    /* Written, and the time set back, as archivers and rsync do. */
    struct timespec pause = {.tv_nsec = 30000000}, times[2] = {now.st_atim, now.st_mtim};
    nanosleep(&pause, NULL);
    assert_int_equal(pwrite(file, "behind", 6, 0), 6);
    assert_int_equal(futimens(file, times), 0);
    assert_int_equal(fstat(file, &now), 0);
    assert_int_equal(now.st_mtim.tv_nsec, times[1].tv_nsec);
    assert_int_equal(files_is_same(&files.list[0], &now), 0);

    close(file);
    files_list_clear(&files);
    unlinkat(fd, "file", 0);
    close(fd);
    rmdir(folder);
}

static void test_paths(void **state) {
    (void)state;
    assert_int_equal(files_is_path("a"), 1);
    assert_int_equal(files_is_path("a/..b/.c"), 1);
    const char *const bad[] = {"", "/a", "a/", "a//b", ".", "..", "a/./b", "a/../b", "a/.."};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(files_is_path(bad[i]), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_size_and_time),
        cmocka_unit_test(test_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
