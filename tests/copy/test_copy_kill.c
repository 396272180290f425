/* A copy that is killed, or whose storage fails, at each operation of the storage that it writes to: before the copy
 * is whole none is to be seen, what was there stays, and given again it goes on. COPY_EVERY=1 tries all operations, not
 * only some; COPY_TO=ADDRESS takes another storage than files, with a prefix of its own each time. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "copied.h"

#define VERSION 2

static char folder[64], from[80];
static unsigned every = 11, round_count;

static int setup(void **state) {
    const char *given = getenv("COPY_EVERY");
    (void)state;
    every = given && atoi(given) > 0 ? (unsigned)atoi(given) : every;
    if (folder_make(NULL, "test-copy-kill", folder, sizeof folder) != 0)
        return -1;
    snprintf(from, sizeof from, "%s/from", folder);
    copied_make(from, "log=error,keep=3", VERSION + 1);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    folder_remove(folder);
    return 0;
}

static int copy_to(const char *address, int version, struct varve_copy_result *result, struct varve_error *error) {
    struct varve_store *tool = copied_tool(from);
    struct varve_which which = {.name = "job", .version = version};
    *result = (struct varve_copy_result){.size = sizeof *result};
    int rc = varve_store_copy(tool, &which, address, NULL, NULL, result, error);
    varve_store_close(tool);
    return rc;
}

/* A place of its own for each try; is_old: version 0 is there already, so that the copy builds on it. */
static void make_place(char address[160], int is_old) {
    const char *to = getenv("COPY_TO");
    struct varve_copy_result result;
    struct varve_error error = {.text = ""};
    if (to)
        snprintf(address, 160, "%s/%d-%u", to, (int)getpid(), round_count++);
    else
        snprintf(address, 160, "%s/to", folder);
    if (!to)
        folder_remove(address);
    if (is_old && copy_to(address, 0, &result, &error) != 0)
        fail_msg("copy of 0: %s", error.text);
}

static int in_child(const char *address, const char *fault) {
    struct varve_copy_result result;
    struct varve_error error = {.text = ""};
    char uri[256];
    pid_t child = fork();
    if (child == 0) {
        snprintf(uri, sizeof uri, "%s?fault=%s", address, fault);
        int rc = copy_to(uri, VERSION, &result, &error);
        _exit(rc == 0 ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

struct sums {
    unsigned step, met, resumed;
};

/* One try with this fault, and one without. */
static int try_fault(const char *fault, int is_old, struct sums *sums) {
    struct varve_copy_result result;
    struct varve_error error = {.text = ""};
    char address[160];
    make_place(address, is_old);
    int status = in_child(address, fault);
    if (WIFSIGNALED(status))
        assert_int_equal(WTERMSIG(status), SIGKILL);
    int count = copied_count(address, "job", fault);
    assert_in_range(count, is_old, is_old + 1);
    if (is_old)
        copied_check(from, address, "job", 0, fault);
    if (count > is_old)
        copied_check(from, address, "job", VERSION, fault);
    if (copy_to(address, VERSION, &result, &error) != 0)
        fail_msg("after %s: %s", fault, error.text);
    copied_check(from, address, "job", VERSION, fault);
    assert_int_equal(copied_count(address, "job", fault), is_old + 1);
    assert_true(!result.is_there || result.bytes_written == 0);
    sums->met += status != 0;
    sums->resumed += result.bytes_resumed > 0 || result.is_there;
    return status;
}

static void fail_everywhere(const char *kind, const char *number, int is_old) {
    struct sums sums = {.step = 1};
    char fault[64];
    int ended = 0; /* tries in a row that met no fault: what fails may be done without */
    for (; ended < (*number ? 4 : 1); sums.step += every) {
        snprintf(fault, sizeof fault, "%s:%u%s", kind, sums.step, number);
        int status = try_fault(fault, is_old, &sums);
        ended = status == 0 ? ended + 1 : 0;
        assert_true(sums.step < 3000);
    }
    print_message("%s%s%s: %u steps, %u tried and ended it, %u had something left\n", kind, number,
                  is_old ? " on an older one" : "", sums.step - every, sums.met, sums.resumed);
    assert_true(sums.met > 20 / every);
    assert_true(*number || sums.resumed > 0);
}

static void test_killed(void **state) {
    (void)state;
    fail_everywhere("kill", "", 0);
    fail_everywhere("kill-after", "", 1);
}

static void test_failing(void **state) {
    (void)state;
    fail_everywhere("fail", ":EIO", 1);
    fail_everywhere("fail-after", ":EIO", 0);
    fail_everywhere("fail-from", ":ENOSPC", 0);
}

/* Does it differ from what was copied? What is damaged, or not there, does not. */
static int is_other(const char *address, const char *fault) {
    struct varve_which which = {.name = "job", .version = VERSION};
    struct varve_store *one = copied_tool(from), *other = NULL;
    struct varve_error error = {.text = ""};
    int rc = varve_store_open(address, COPIED_SETTINGS, &other, &error);
    if (rc == 0) {
        struct varve_compare_options options = {.size = sizeof options, .second = other};
        rc = varve_store_compare(one, &which, &which, &options, NULL, &error);
    }
    if (rc < 0 && rc != VARVE_CORRUPT && rc != VARVE_NO_CHECKPOINT && rc != VARVE_NO_STORE &&
        rc != VARVE_UNKNOWN_FORMAT)
        fail_msg("%s: %d %s", fault, rc, error.text);
    varve_store_close(other);
    varve_store_close(one);
    return rc > 0 ? -1 : rc == 0;
}

/* One bit of what is written there, or read, is wrong: there is never a copy that differs. Where data was hit, that is
 * noticed when it is read back, and the next try makes it anew. */
static void test_wrong_bits(void **state) {
    unsigned noticed = 0, healed = 0;
    (void)state;
    for (unsigned step = 1; step < 250; step += every) {
        struct varve_copy_result result;
        struct varve_error error = {.text = ""};
        char address[160], fault[64];
        snprintf(fault, sizeof fault, "flip:%u", step);
        make_place(address, 0);
        int status = in_child(address, fault);
        int was_same = is_other(address, fault);
        assert_true(was_same >= 0);
        if (status == 0 && !was_same)
            fail_msg("%s: a copy was reported that cannot be read", fault);
        int rc = copy_to(address, VERSION, &result, &error);
        int is_same = is_other(address, fault);
        assert_true(is_same >= 0);
        assert_true(rc != 0 || is_same);
        noticed += status != 0;
        healed += status != 0 && rc == 0;
    }
    print_message("flip: %u were noticed, %u of these were copied anew\n", noticed, healed);
    assert_true(healed > 0 || every > 11); /* a few tries may meet no data */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_killed), cmocka_unit_test(test_failing),
                                       cmocka_unit_test(test_wrong_bits)};
    return cmocka_run_group_tests_name("copy_kill", tests, setup, teardown);
}
