/* The process that looks into a file may crash, hang, or talk nonsense: whoever asked gets a note, and no variable. */
#include "../test.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "files/look.h"

#define SIZE 100000

static int tell_one(int answer) {
    struct files_found found = {.count = 0};
    struct files_variable like = {.type = VARVE_F64};
    files_found_variable(&found, "one", &like);
    files_found_extent(&found, 0, 8000);
    return files_found_write(&found, answer);
}

static int look_well(void *arg, int answer) {
    (void)arg;
    return tell_one(answer);
}

static int look_and_return(void *arg, int answer) {
    tell_one(answer);
    return *(int *)arg;
}

static int look_and_die(void *arg, int answer) {
    int number = *(int *)arg;
    (void)!write(answer, "half a message", 14);
    signal(number, SIG_DFL); /* the test's own handler would catch it */
    raise(number);
    return 0;
}

static int look_forever(void *arg, int answer) {
    (void)answer;
    while (*(int *)arg == 0)
        pause();
    return 0;
}

static int look_silently(void *arg, int answer) {
    (void)arg, (void)answer;
    return 0;
}

static int look_outside(void *arg, int answer) {
    struct files_found found = {.count = 0};
    struct files_variable like = {.type = VARVE_F64};
    (void)arg;
    files_found_variable(&found, "beyond", &like);
    files_found_extent(&found, SIZE - 4096, 8000);
    return files_found_write(&found, answer);
}

static int talk_without_end(void *arg, int answer) {
    static char block[65536];
    (void)arg;
    while (write(answer, block, sizeof block) > 0)
        ;
    return 0;
}

/* Returns how many variables there were; note has this in it. */
static size_t look(files_look_fn fn, int value, int seconds, const char *note_part) {
    struct files_found found = {.count = 0};
    char note[FILES_NOTE_CAPACITY] = "?";
    assert_int_equal(files_look_by(fn, &value, SIZE, FILES_HDF5, seconds, &found, note), 0);
    if (*note_part ? !strstr(note, note_part) : note[0] != '\0')
        fail_msg("note \"%s\" instead of \"%s\"", note, note_part);
    size_t count = found.count;
    files_found_clear(&found);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left behind */
    assert_int_equal(errno, ECHILD);
    return count;
}

static void test_well(void **state) {
    (void)state;
    assert_int_equal(look(look_well, 0, 60, ""), 1);
}

static void test_failed(void **state) {
    (void)state;
    assert_int_equal(look(look_and_return, -EBADMSG, 60, "is damaged"), 1);
    assert_int_equal(look(look_and_return, -E2BIG, 60, "too many pieces"), 1);
    assert_int_equal(look(look_and_return, -ENOMEM, 60, "too much memory"), 1);
    assert_int_equal(look(look_and_return, -EIO, 60, "could not be looked into"), 1);
}

static void test_crashed(void **state) {
    (void)state;
    assert_int_equal(look(look_and_die, SIGABRT, 60, "as HDF5 crashed (signal 6)"), 0);
    assert_int_equal(look(look_and_die, SIGSEGV, 60, "as HDF5 crashed (signal 11)"), 0);
    assert_int_equal(look(look_and_die, SIGXCPU, 60, "takes too long"), 0);
}

static void test_hangs(void **state) {
    (void)state;
    time_t began = time(NULL);
    assert_int_equal(look(look_forever, 0, 1, "takes too long"), 0);
    assert_true(time(NULL) - began < 30);
}

static void test_nonsense(void **state) {
    (void)state;
    assert_int_equal(look(look_silently, 0, 60, "nothing that makes sense"), 0);
    assert_int_equal(look(look_outside, 0, 60, "make no sense"), 0);
    assert_int_equal(look(talk_without_end, 0, 60, "has too many pieces"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_well),  cmocka_unit_test(test_failed),   cmocka_unit_test(test_crashed),
        cmocka_unit_test(test_hangs), cmocka_unit_test(test_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
