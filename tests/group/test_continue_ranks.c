/* Four ranks that go on from a checkpoint without reading it: each knows what its own regions hold, and all are told
 * the same. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <varve/varve.h>
#include <varve/varve_inspect.h>

#include "details.h"
#include "ranks.h"
#include "test.h"

#define SHARE "table_share=0.1"

static int go_on(struct ranks_job *job, int64_t version) {
    int64_t got = -2;
    int rc = varve_continue(job->session, version, &got);
    return rank_note(job, "continue", rc, got);
}

static void note_new(struct ranks_job *job) {
    struct vv_details stats = {0};
    if (vv_details_get(job->session, &stats) != 0)
        group_fail(job->comm, "stats");
    rank_note(job, "new", 0, (int64_t)stats.bytes_new);
}

/* From the newest; what is stored then is what the version before was. */
static void same_again(struct ranks_job *job) {
    int64_t version = job->plan->value;
    if (rank_open(job) != 0)
        return;
    if (go_on(job, VARVE_LATEST) == 0) {
        rank_set(job, version);
        rank_note(job, "checkpoint", varve_checkpoint(job->session, 10), -2);
        rank_wait(job);
        note_new(job);
    }
    rank_close(job);
}

static void read_back(struct ranks_job *job) {
    int64_t got = -2;
    if (rank_open(job) != 0)
        return;
    rank_garbage(job);
    int rc = varve_restart(job->session, VARVE_LATEST, &got);
    rank_note(job, "restart", rc, got);
    if (got == 10)
        rank_check(job, job->plan->value);
    rank_close(job);
}

static void make_store(int64_t versions, const char *settings) {
    struct plan plan = {.fn = rank_make_store, .value = versions, .settings = settings};
    ranks_expect(ranks_run(&plan), "checkpoint", 1, 0, -1, "");
}

static void each_rank_knows_its_own(void **state) {
    static const char *const settings[] = {SHARE, SHARE ",dedup=exact", SHARE ",dedup=local", SHARE ",capture=sync"};
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        make_store(3, settings[i]);
        struct plan plan = {.fn = same_again, .value = 3, .settings = settings[i]};
        const struct board *board = ranks_run(&plan);
        assert_int_equal(ranks_answer(board, "continue", 1)->version, 3);
        ranks_expect(board, "wait", 1, 0, -1, "");
        assert_int_equal(ranks_answer(board, "new", 1)->version, 0);
        plan.fn = read_back;
        assert_int_equal(ranks_answer(ranks_run(&plan), "restart", 1)->version, 10);
        assert_int_equal(ranks_teardown(NULL), 0);
        assert_int_equal(ranks_setup(NULL), 0);
    }
}

static void damage(int64_t version, int writer) {
    char path[512];
    struct stat st;
    uint8_t byte;
    ranks_pack_path(version, writer, path, sizeof path);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    assert_int_equal(pread(fd, &byte, 1, st.st_size - 40), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, st.st_size - 40), 1);
    close(fd);
}

static void damage_of_one_is_damage_of_all(void **state) {
    (void)state;
    make_store(3, SHARE);
    damage(3, 2);
    struct plan plan = {.fn = same_again, .value = 2, .settings = SHARE};
    const struct board *board = ranks_run(&plan);
    assert_int_equal(ranks_answer(board, "continue", 1)->version, 2);
    assert_int_equal(ranks_answer(board, "new", 1)->version, 0);
    assert_non_null(strstr(board->log[0], "skipped checkpoint"));
    plan.fn = read_back;
    assert_int_equal(ranks_answer(ranks_run(&plan), "restart", 1)->version, 10);
}

static void another_number_of_ranks(void **state) {
    (void)state;
    make_store(1, "");
    struct plan plan = {.fn = same_again, .value = 1, .ranks = 3};
    ranks_expect(ranks_run(&plan), "continue", 1, VARVE_MISMATCH, -1, "4 ranks");
}

static void disagree(struct ranks_job *job) {
    if (rank_open(job) != 0)
        return;
    go_on(job, job->is_faulty ? 1 : 2);
    int rc = job->is_faulty ? varve_continue(job->session, 1, NULL) : varve_restart(job->session, 1, NULL);
    rank_note(job, "mixed", rc, -2);
    rank_checkpoint(job, 5);
    go_on(job, 1);
    rank_close(job);
}

static void all_must_say_the_same(void **state) {
    (void)state;
    make_store(2, "");
    struct plan plan = {.fn = disagree, .faulty_rank = 1};
    const struct board *board = ranks_run(&plan);
    ranks_expect(board, "continue", 1, VARVE_DISAGREED, -1, "varve_continue");
    ranks_expect(board, "mixed", 1, VARVE_DISAGREED, -1, "same call");
    ranks_expect(board, "checkpoint", 1, 0, -1, "");
    ranks_expect(board, "continue", 2, -EINVAL, -1, "first checkpoint");
}

/* Whatever fails on one rank's storage on the way: the same answer everywhere, and a checkpoint can follow. */
static void faults_of_one(struct ranks_job *job) {
    if (rank_open(job) != 0)
        return;
    go_on(job, VARVE_LATEST);
    rank_checkpoint(job, 9);
    rank_wait(job);
    rank_close(job);
}

static void trouble_of_one_is_told_to_all(void **state) {
    char fault[64];
    int failed = 0;
    (void)state;
    for (int k = 1; k <= 40; k += ranks_stride()) {
        make_store(1, "");
        struct plan plan = {.fn = faults_of_one, .faulty_rank = k % RANKS, .fault = fault};
        snprintf(fault, sizeof fault, "fail:%d:EIO", k);
        const struct board *board = ranks_run(&plan);
        if (ranks_answer(board, "open", 1)->code == 0)
            failed += ranks_answer(board, "continue", 1)->code < 0;
        assert_int_equal(ranks_teardown(NULL), 0);
        assert_int_equal(ranks_setup(NULL), 0);
    }
    assert_true(failed > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_rank_knows_its_own, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(damage_of_one_is_damage_of_all, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(another_number_of_ranks, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(all_must_say_the_same, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(trouble_of_one_is_told_to_all, ranks_setup, ranks_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
