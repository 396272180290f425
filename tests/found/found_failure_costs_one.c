/* One failure in the background cost two checkpoints: the next call returned the old error and began nothing.
 * Now the next call begins its own checkpoint and returns VARVE_EARLIER_FAILED: it costs one, and nobody can miss it.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <varve/varve.h>

#include "details.h"
#include "ranks.h"
#include "test.h"

#define SIZE (512 << 10)

static uint8_t data[SIZE];
static struct varve_session *session;

/* Files cannot grow: every pack fails with EFBIG. */
static void break_storage(int is_broken) {
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = is_broken ? 0 : limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
}

static void fill(int64_t version) {
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (uint8_t)((i * 31 + i / 4096 * 7) ^ (uint64_t)(version * 101));
}

static void open_session(const char *settings) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_error error;
    char all[256];
    snprintf(all, sizeof all, "threads=1,beat_seconds=600,dead_seconds=1200,%s", settings);
    options.settings = all;
    if (varve_open(ranks_folder(), "job", &options, &session, &error) != 0)
        fail_msg("%s", error.text);
    assert_int_equal(varve_protect(session, "data", data, SIZE), 0);
    fill(1);
    assert_int_equal(varve_checkpoint(session, 1), 0);
    assert_int_equal(varve_wait(session), 0);
}

/* Begin one, and let it fail before anybody asks. */
static void fail_behind(int64_t version) {
    struct vv_details stats = {0};
    break_storage(1);
    fill(version);
    assert_int_equal(varve_checkpoint(session, version), 0);
    do {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        assert_int_equal(vv_details_get(session, &stats), 0);
    } while (stats.result == -EINPROGRESS);
    assert_int_equal(stats.result, -EFBIG);
    break_storage(0);
}

static void expect_earlier(int64_t version, const char *was_begun, const char *had_failed) {
    fill(version);
    int rc = varve_checkpoint(session, version);
    assert_int_equal(rc, VARVE_EARLIER_FAILED);
    const struct varve_error *error = varve_session_error(session);
    assert_int_equal(error->code, -EFBIG); /* why the earlier one failed */
    assert_non_null(strstr(error->text, was_begun));
    assert_non_null(strstr(error->text, had_failed));
}

static void expect_stored(int64_t version) {
    static uint8_t right[SIZE];
    fill(version);
    memcpy(right, data, SIZE);
    memset(data, 0, SIZE);
    assert_int_equal(varve_restart(session, version, NULL), 0);
    assert_memory_equal(data, right, SIZE);
}

static void it_costs_one(void **state) {
    (void)state;
    open_session("on_error=fail");
    fail_behind(2);
    expect_earlier(3, "version 3 was begun", "version 2 had failed");
    assert_int_equal(varve_wait(session), 0);
    fill(4);
    assert_int_equal(varve_checkpoint(session, 4), 0); /* told once */
    assert_int_equal(varve_wait(session), 0);
    expect_stored(3);
    expect_stored(4);
    assert_int_equal(varve_restart(session, 2, NULL), -ENOENT);
    assert_int_equal(varve_close(session), 0);
}

/* A program that takes it for a failure of this version, and tries again. */
static void the_same_version_again(void **state) {
    (void)state;
    open_session("on_error=fail");
    fail_behind(2);
    expect_earlier(3, "version 3 was begun", "version 2 had failed");
    assert_int_equal(varve_checkpoint(session, 3), 0); /* it is there */
    assert_int_equal(varve_checkpoint(session, 3), -EINVAL);
    fill(4);
    assert_int_equal(varve_checkpoint(session, 4), 0);
    assert_int_equal(varve_wait(session), 0);
    expect_stored(3);
    assert_int_equal(varve_close(session), 0);
}

/* The one that was begun fails as well: it is begun again. */
static void again_and_again(void **state) {
    struct vv_details stats = {0};
    (void)state;
    open_session("on_error=fail");
    fail_behind(2);
    break_storage(1);
    expect_earlier(3, "version 3 was begun", "version 2 had failed");
    do {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        vv_details_get(session, &stats);
    } while (stats.result == -EINPROGRESS);
    break_storage(0);
    expect_earlier(3, "version 3 was begun", "version 3 had failed");
    assert_int_equal(varve_wait(session), 0);
    expect_stored(3);
    assert_int_equal(varve_close(session), 0);
}

/* After a restart the version is another one, although its number is the same. */
static void a_restart_in_between(void **state) {
    (void)state;
    open_session("on_error=fail");
    fail_behind(2);
    expect_earlier(3, "version 3 was begun", "version 2 had failed");
    assert_int_equal(varve_restart(session, 1, NULL), 0);
    memset(data, 77, SIZE);
    assert_int_equal(varve_checkpoint(session, 3), 0);
    memset(data, 0, SIZE);
    assert_int_equal(varve_restart(session, 3, NULL), 0);
    assert_true(data[0] == 77 && data[SIZE - 1] == 77);
    assert_int_equal(varve_close(session), 0);
}

static void whoever_asks_first_is_told(void **state) {
    (void)state;
    open_session("on_error=fail");
    fail_behind(2);
    assert_int_equal(varve_wait(session), -EFBIG);
    assert_int_equal(varve_checkpoint(session, 3), 0);
    assert_int_equal(varve_wait(session), 0);
    fail_behind(4);
    assert_int_equal(varve_close(session), -EFBIG);
}

/* A call that is refused tells nothing of it. */
static void arguments_first(void **state) {
    (void)state;
    open_session("on_error=fail");
    fail_behind(2);
    assert_int_equal(varve_checkpoint(session, 1), -EINVAL);
    expect_earlier(3, "version 3 was begun", "version 2 had failed");
    assert_int_equal(varve_close(session), 0);
}

/* This one fails inside its call: its own error counts, and the text has both. */
static void both_fail(void **state) {
    (void)state;
    open_session("on_error=fail");
    fail_behind(2);
    void *gone = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(varve_protect(session, "gone", gone, 1 << 20), 0);
    munmap(gone, 1 << 20);
    assert_int_equal(varve_checkpoint(session, 3), -EFAULT);
    assert_int_equal(varve_session_error(session)->code, -EFAULT);
    assert_non_null(strstr(varve_session_error(session)->text, "region gone"));
    assert_non_null(strstr(varve_session_error(session)->text, "version 2 had failed"));
    assert_int_equal(varve_unprotect(session, "gone"), 0);
    assert_int_equal(varve_checkpoint(session, 3), 0);
    assert_int_equal(varve_close(session), 0);
}

static void only_a_warning(void **state) {
    (void)state;
    open_session("on_error=warn,log=error");
    fail_behind(2);
    fill(3);
    assert_int_equal(varve_checkpoint(session, 3), 0);
    assert_int_equal(varve_wait(session), 0);
    assert_int_equal(varve_close(session), 0);
}

static int tell_failure(void *arg, struct varve_memory *out) {
    (void)arg, (void)out;
    return -EFBIG;
}

/* A call that was refused with the code of the one before was taken for it, and reported as done. */
static void refused_is_no_warning(void **state) {
    (void)state;
    open_session("on_error=warn,log=error");
    fail_behind(2);
    assert_int_equal(varve_protect_moving(session, "moving", tell_failure, NULL), 0);
    assert_int_equal(varve_checkpoint(session, 3), -EFBIG);
    assert_int_equal(varve_unprotect(session, "moving"), 0);
    fill(3);
    assert_int_equal(varve_checkpoint(session, 3), 0);
    assert_int_equal(varve_close(session), 0);
}

/* ---- many ranks ---- */

static int may_heal;

/* Asked when an attempt begins: the one before has landed on all ranks by then. */
static int ask_length(void *arg, uint64_t *bytes_out) {
    (void)arg;
    if (may_heal)
        break_storage(0);
    *bytes_out = 0;
    return 0;
}

static int no_save(void *arg, uint64_t offset, void *buffer, size_t size) {
    (void)arg, (void)offset, (void)buffer, (void)size;
    return 0;
}

static int no_load(void *arg, uint64_t offset, const void *buffer, size_t size, uint64_t total) {
    (void)arg, (void)offset, (void)buffer, (void)size, (void)total;
    return 0;
}

static void fail_on_one(struct ranks_job *job) {
    struct varve_callbacks callbacks = {sizeof callbacks, ask_length, no_save, no_load, 0};
    if (rank_open(job) != 0)
        return;
    varve_protect_callback(job->session, "nothing", &callbacks, NULL);
    rank_checkpoint(job, 1);
    rank_wait(job);
    break_storage(job->is_faulty);
    rank_checkpoint(job, 2);
    may_heal = 1;
    rank_checkpoint(job, 3);
    rank_note(job, "told", varve_session_error(job->session)->code, -2);
    rank_checkpoint(job, 3);
    rank_wait(job);
    rank_restart(job, VARVE_LATEST);
    rank_close(job);
}

static void all_ranks_are_told_the_same(void **state) {
    struct plan plan = {.fn = fail_on_one, .faulty_rank = 2, .settings = "threads=1,aggregate=1"};
    (void)state;
    const struct board *board = ranks_run(&plan);
    assert_int_equal(ranks_answer(board, "checkpoint", 2)->code, 0);
    const struct answer *answer = ranks_answer(board, "checkpoint", 3);
    assert_int_equal(answer->code, VARVE_EARLIER_FAILED);
    assert_int_equal(answer->error.rank, 2);
    assert_int_equal(ranks_answer(board, "told", 1)->code, -EFBIG);
    assert_int_equal(ranks_answer(board, "checkpoint", 4)->code, 0);
    assert_int_equal(ranks_answer(board, "restart", 1)->version, 3);
}

static int set_up(void **state) {
    break_storage(0);
    return ranks_setup(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_costs_one, set_up, ranks_teardown),
        cmocka_unit_test_setup_teardown(the_same_version_again, set_up, ranks_teardown),
        cmocka_unit_test_setup_teardown(again_and_again, set_up, ranks_teardown),
        cmocka_unit_test_setup_teardown(a_restart_in_between, set_up, ranks_teardown),
        cmocka_unit_test_setup_teardown(whoever_asks_first_is_told, set_up, ranks_teardown),
        cmocka_unit_test_setup_teardown(arguments_first, set_up, ranks_teardown),
        cmocka_unit_test_setup_teardown(both_fail, set_up, ranks_teardown),
        cmocka_unit_test_setup_teardown(only_a_warning, set_up, ranks_teardown),
        cmocka_unit_test_setup_teardown(refused_is_no_warning, set_up, ranks_teardown),
        cmocka_unit_test_setup_teardown(all_ranks_are_told_the_same, set_up, ranks_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
