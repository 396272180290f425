/* Children of fork, while a session of the parent counts signals: they see their signals as if it were not there. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <varve/varve.h>

#include "folder.h"
#include "test.h"

static char folder[256];
static unsigned char data[4096];

static struct varve_session *open_session(const char *name) {
    struct varve_session *s;
    struct varve_error error = {.text = ""};
    struct varve_options options = VARVE_OPTIONS_INIT;
    options.settings = "interval=asked,exit_signal=TERM,threads=0,log=warn";
    if (varve_open(folder, name, &options, &s, &error) != 0)
        fail_msg("%s", error.text);
    assert_int_equal(varve_protect(s, "data", data, sizeof data), 0);
    return s;
}

static void leave_with_7(int number) {
    (void)number;
    _exit(7);
}

static void leave_with_8(int number, siginfo_t *info, void *context) {
    (void)context;
    _exit(info->si_signo == number ? 8 : 1);
}

/* What a child does that gets a SIGTERM; it ends with 3 if nothing happens. */
static int status_of_child(void (*begin)(void)) {
    struct timespec second = {1, 0};
    int status = -1, ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        if (begin)
            begin();
        if (write(ready[1], "x", 1) != 1)
            _exit(1);
        nanosleep(&second, NULL);
        _exit(3);
    }
    assert_int_equal(read(ready[0], &(char){0}, 1), 1);
    assert_int_equal(kill(pid, SIGTERM), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(ready[0]);
    close(ready[1]);
    return status;
}

static int ends_by_term(int status) {
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM;
}

static int ends_with(int status, int code) {
    return WIFEXITED(status) && WEXITSTATUS(status) == code;
}

/* The parent has been asked by nobody but itself. */
static void expect_no_wish(struct varve_session *s) {
    assert_int_equal(varve_need(s), 0);
    raise(SIGTERM);
    assert_int_equal(varve_need(s), 1);
    assert_int_equal(varve_close(s), 0);
}

static void no_handler(void **unused) {
    (void)unused;
    struct varve_session *s = open_session("parent");
    assert_true(ends_by_term(status_of_child(NULL)));
    expect_no_wish(s);
}

static void ignored(void **unused) {
    (void)unused;
    signal(SIGTERM, SIG_IGN);
    struct varve_session *s = open_session("parent");
    assert_true(ends_with(status_of_child(NULL), 3));
    expect_no_wish(s);
    signal(SIGTERM, SIG_DFL);
}

static void handlers(void **unused) {
    (void)unused;
    struct sigaction info = {.sa_sigaction = leave_with_8, .sa_flags = SA_SIGINFO};
    signal(SIGTERM, leave_with_7);
    struct varve_session *s = open_session("parent");
    assert_true(ends_with(status_of_child(NULL), 7));
    assert_int_equal(varve_close(s), 0);
    sigaction(SIGTERM, &info, NULL);
    s = open_session("parent");
    assert_true(ends_with(status_of_child(NULL), 8));
    assert_int_equal(varve_close(s), 0);
    signal(SIGTERM, SIG_DFL);
}

/* It has a session of its own, which is asked, and gone when it is closed. */
static void open_in_child(void) {
    struct varve_session *s = open_session("child");
    raise(SIGTERM);
    if (varve_need(s) != 1 || varve_close(s) != 0)
        _exit(1);
}

static void own_session(void **unused) {
    (void)unused;
    struct varve_session *s = open_session("parent");
    assert_true(ends_by_term(status_of_child(open_in_child)));
    expect_no_wish(s);
}

static int setup(void **unused) {
    (void)unused;
    return folder_make(getenv("TMPDIR"), "varve-asked-fork", folder, sizeof folder);
}

static int teardown(void **unused) {
    (void)unused;
    return folder_remove(folder);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {TEST(no_handler), TEST(ignored), TEST(handlers), TEST(own_session)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
