/* The environment is read once per process, and some faults end it: each case runs in a child. */
#include "base/fault.h"
#include "base/thread.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef VARVE_FAULTS
#define ABORTED (1000 + SIGABRT)
#define KILLED (1000 + SIGKILL)

static const char *environment; /* VARVE_FAULT of the child */
static const char *list;        /* VARVE_FAULT_LIST of the child */

/* The exit code of the child, or 1000 and its signal. */
static int run(int (*child)(void)) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr))
            _exit(99);
        environment ? setenv("VARVE_FAULT", environment, 1) : unsetenv("VARVE_FAULT");
        list ? setenv("VARVE_FAULT_LIST", list, 1) : unsetenv("VARVE_FAULT_LIST");
        _exit(child());
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int hit_a_three_times(void) {
    int sum = 0;
    for (int i = 0; i < 3; i++)
        sum -= VV_FAULT("a");
    return sum;
}

static int hit_only_twice(void) {
    return -VV_FAULT("a") - VV_FAULT("a") - VV_FAULT("b") - VV_FAULT("aa");
}

static void test_environment(void **state) {
    (void)state;
    list = NULL;
    environment = NULL;
    assert_int_equal(run(hit_a_three_times), 0);
    environment = "b=kill";
    assert_int_equal(run(hit_a_three_times), 0);
    environment = "a=kill";
    assert_int_equal(run(hit_a_three_times), KILLED);
    environment = "a=kill:3";
    assert_int_equal(run(hit_a_three_times), KILLED);
    assert_int_equal(run(hit_only_twice), 0);
    environment = "a=kill:4";
    assert_int_equal(run(hit_a_three_times), 0);
    environment = "a=error:28";
    assert_int_equal(run(hit_a_three_times), 3 * 28);
    assert_int_equal(run(hit_only_twice), 2 * 28);
}

static int is_slow(void) {
    uint64_t before = vv_clock_ns();
    int rc = VV_FAULT("a");
    return rc == 0 && vv_clock_ns() - before >= 30000000;
}

static void test_sleep(void **state) {
    (void)state;
    list = NULL;
    environment = "a=sleep:30";
    assert_int_equal(run(is_slow), 1);
}

static int set_and_clear(void) {
    vv_fault_set("a=error:5");
    if (VV_FAULT("a") != -5)
        return 1;
    vv_fault_set("b=error:6");
    if (VV_FAULT("a") || VV_FAULT("b") != -6)
        return 2;
    vv_fault_set(NULL);
    return VV_FAULT("a") || VV_FAULT("b") ? 3 : 0;
}

static void test_set_inside_the_process(void **state) {
    (void)state;
    list = NULL;
    environment = "a=kill";
    assert_int_equal(run(set_and_clear), 0);
}

static void test_bad_specifications_are_loud(void **state) {
    (void)state;
    static const char *const bad[] = {"a",       "=kill",    "a=",         "a=stop",    "a=kill:0",   "a=kill:",
                                      "a=error", "a=error:", "a=error:-1", "a=error:0", "a=sleep:-1", "a=kill:2x"};
    list = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        environment = bad[i];
        assert_int_equal(run(hit_a_three_times), ABORTED);
    }
}

static void test_list(void **state) {
    (void)state;
    char path[] = "/tmp/varve-fault-XXXXXX";
    char text[100] = {0};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    list = path;
    environment = NULL;
    assert_int_equal(run(hit_only_twice), 0);
    environment = "a=kill";
    assert_int_equal(run(hit_only_twice), KILLED);
    assert_true(read(fd, text, sizeof text - 1) > 0);
    assert_string_equal(text, "a\na\nb\naa\na\n");
    close(fd);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_sleep),
        cmocka_unit_test(test_set_inside_the_process),
        cmocka_unit_test(test_bad_specifications_are_loud),
        cmocka_unit_test(test_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    printf("skipped: built without fault points\n");
    return VV_FAULT("a") ? 1 : 77;
}
#endif
