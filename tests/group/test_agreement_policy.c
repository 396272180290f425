/* Four ranks and what they do about trouble of one of them: on_error=warn and retry, a fallback to an older checkpoint
 * that is whole on all ranks, and keep. Every call returns the same on all of them. */
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

#define EACH_VICTIM(plan) for ((plan).faulty_rank = 0; (plan).faulty_rank < RANKS; (plan).faulty_rank++)

static void renew_folder(void) {
    assert_int_equal(ranks_teardown(NULL), 0);
    assert_int_equal(ranks_setup(NULL), 0);
}

/* ---- on_error ---- */

/* How many tries, and what came of it: told by the statistics, too. */
static void note_stats(struct ranks_job *job) {
    struct vv_details stats = {0};
    if (vv_details_get(job->session, &stats) != 0)
        group_fail(job->comm, "stats");
    rank_note(job, "attempts", (int)stats.attempts, stats.version);
    rank_note(job, "result", 0, stats.result);
}

static void save_with_policy(struct ranks_job *job) {
    if (rank_open(job) != 0)
        return;
    rank_checkpoint(job, 1);
    rank_wait(job);
    note_stats(job);
    rank_checkpoint(job, 2);
    rank_note(job, "second wait", varve_wait(job->session), -2);
    rank_restart(job, VARVE_LATEST);
    rank_close(job);
}

/* Faults at all operations of a checkpoint, and a little more. Returns how many of the first checkpoints failed or had
 * to be tried again. */
static int run_policy(struct plan *plan, void (*check)(const struct plan *plan, const struct board *board)) {
    char fault[64];
    int count = 0;
    for (int k = 4 + plan->faulty_rank % ranks_stride(); k <= 30; k += ranks_stride()) {
        snprintf(fault, sizeof fault, "fail:%d:ENOSPC", k);
        plan->fault = fault;
        const struct board *board = ranks_run(plan);
        if (ranks_answer(board, "open", 1)->code == 0) {
            check(plan, board);
            count += ranks_answer(board, "wait", 1)->code < 0 || ranks_answer(board, "attempts", 1)->code > 1;
        }
        renew_folder();
    }
    return count;
}

static void check_warned(const struct plan *plan, const struct board *board) {
    int code = ranks_answer(board, "wait", 1)->code;
    ranks_expect(board, "checkpoint", 1, 0, -1, "");
    if (code < 0) {
        ranks_expect(board, "wait", 1, -ENOSPC, plan->faulty_rank, "");
        assert_int_equal(ranks_answer(board, "result", 1)->version, -ENOSPC);
        assert_non_null(strstr(board->log[0], "checkpoint 1 failed"));
        for (int rank = 1; rank < RANKS; rank++) /* one of them is enough */
            assert_null(strstr(board->log[rank], "checkpoint 1 failed"));
    }
    ranks_expect(board, "checkpoint", 2, 0, -1, "");
    const struct answer *answer = ranks_answer(board, "restart", 1);
    if (ranks_answer(board, "second wait", 1)->code == 0 && answer->code == 0)
        assert_int_equal(answer->version, 2);
}

static void warn(void **state) {
    struct plan plan = {.fn = save_with_policy, .settings = "on_error=warn"};
    (void)state;
    EACH_VICTIM(plan) {
        int failed = run_policy(&plan, check_warned);
        printf("rank %d: %d checkpoints failed\n", plan.faulty_rank, failed);
        assert_true(failed >= 4 / ranks_stride());
    }
}

static void check_retried(const struct plan *plan, const struct board *board) {
    (void)plan;
    ranks_expect(board, "checkpoint", 1, 0, -1, ""); /* the second try works */
    ranks_expect(board, "wait", 1, 0, -1, "");
    assert_in_range(ranks_answer(board, "attempts", 1)->code, 1, 2);
    ranks_expect(board, "second wait", 1, 0, -1, "");
    const struct answer *answer = ranks_answer(board, "restart", 1);
    if (answer->code == 0)
        assert_int_equal(answer->version, 2);
}

static void retry(void **state) {
    struct plan plan = {.fn = save_with_policy, .settings = "on_error=retry:2"};
    (void)state;
    EACH_VICTIM(plan) {
        int retried = run_policy(&plan, check_retried);
        printf("rank %d: %d checkpoints were tried again\n", plan.faulty_rank, retried);
        assert_true(retried >= 4 / ranks_stride());
    }
}

/* The storage of one rank fails for good: every try fails, on all ranks, and no longer than told. */
static void save_in_vain(struct ranks_job *job) {
    if (rank_open(job) != 0)
        return;
    rank_checkpoint(job, 1);
    rank_wait(job);
    note_stats(job);
    rank_checkpoint(job, 2);
    rank_note(job, "second wait", varve_wait(job->session), -2);
    rank_close(job);
}

static void retry_in_vain(void **state) {
    struct plan plan = {.fn = save_in_vain, .settings = "on_error=retry:3"}, look = {.fn = rank_make_store, .value = 0};
    char fault[64];
    int failed = 0;
    (void)state;
    EACH_VICTIM(plan) {
        for (int k = 8; k <= 20; k += 3) {
            snprintf(fault, sizeof fault, "fail-from:%d:EIO", k);
            plan.fault = fault;
            const struct board *board = ranks_run(&plan);
            if (ranks_answer(board, "open", 1)->code == 0) {
                ranks_expect(board, "second wait", 1, -EIO, plan.faulty_rank, "");
                assert_int_equal(ranks_answer(board, "close", 1)->code, -EIO);
                assert_in_range(ranks_answer(board, "attempts", 1)->code, 1, 4);
                failed += ranks_answer(board, "checkpoint", 1)->code < 0;
            }
            ranks_run(&look); /* the name is free again */
            renew_folder();
        }
    }
    assert_true(failed >= 4);
}

/* ---- damage ---- */

enum { FLIPPED, CUT, EMPTY, GONE, DAMAGES };

static void damage(const char *path, int kind) {
    struct stat st;
    uint8_t byte = 0;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(chmod(path, 0600), 0);
    if (kind == GONE) {
        assert_int_equal(unlink(path), 0);
        return;
    }
    if (kind == FLIPPED) {
        int fd = open(path, O_RDWR | O_CLOEXEC);
        assert_int_equal(pread(fd, &byte, 1, 300), 1);
        byte ^= 4;
        assert_int_equal(pwrite(fd, &byte, 1, 300), 1);
        close(fd);
        return;
    }
    assert_int_equal(truncate(path, kind == CUT ? st.st_size - 7 : 0), 0);
}

static void come_back(struct ranks_job *job) {
    if (rank_open(job) != 0)
        return;
    rank_note(job, "stored", varve_stored(job->session, VARVE_LATEST, NULL, NULL, NULL), -2);
    rank_restart(job, VARVE_LATEST);
    rank_restart(job, 3);
    rank_checkpoint(job, 20);
    rank_close(job);
    rank_open(job);
    int64_t got = -2;
    rank_garbage(job);
    int rc = varve_restart(job->session, VARVE_LATEST, &got);
    rank_note(job, "last restart", rc, got);
    if (rc == 0)
        rank_check(job, got);
    rank_close(job);
}

/* One rank's part of the newest checkpoint is not whole: nobody gets that checkpoint, everybody gets the one before it.
 */
static void fallback(void **state) {
    struct plan make = {.fn = rank_make_store, .value = 3}, plan = {.fn = come_back};
    char path[512];
    (void)state;
    EACH_VICTIM(plan) {
        for (int kind = 0; kind < DAMAGES; kind++) {
            ranks_run(&make);
            ranks_pack_path(3, plan.faulty_rank, path, sizeof path);
            damage(path, kind);
            const struct board *board = ranks_run(&plan);
            ranks_expect(board, "restart", 1, 0, -1, "");
            assert_int_equal(ranks_answer(board, "restart", 1)->version, 2);
            assert_non_null(strstr(board->log[0], "skipped checkpoint job@3 "));
            ranks_expect(board, "restart", 2, VARVE_CORRUPT, -1, "");
            ranks_expect(board, "checkpoint", 1, 0, -1, "");
            ranks_expect(board, "last restart", 1, 0, -1, "");
            assert_int_equal(ranks_answer(board, "last restart", 1)->version, 20);
            renew_folder();
        }
    }
}

static void come_back_in_vain(struct ranks_job *job) {
    rank_open(job);
    rank_restart(job, VARVE_LATEST);
    rank_close(job);
}

/* Of each checkpoint another rank has lost its part: there is none to come back to, and nobody thinks that this is a
 * first run. */
static void nothing_whole(void **state) {
    struct plan make = {.fn = rank_make_store, .value = 4}, plan = {.fn = come_back_in_vain};
    char path[512];
    (void)state;
    ranks_run(&make);
    for (int version = 1; version <= 4; version++) {
        ranks_pack_path(version, version - 1, path, sizeof path);
        damage(path, version % DAMAGES);
    }
    const struct board *board = ranks_run(&plan);
    ranks_expect(board, "restart", 1, VARVE_CORRUPT, -1, "");
}

/* ---- keep ---- */

static void save_many(struct ranks_job *job) {
    rank_open(job);
    for (int64_t version = 1; version <= 7; version++)
        rank_checkpoint(job, version);
    rank_restart(job, 6);
    rank_checkpoint(job, 7);
    rank_close(job);
}

static int count_one(void *arg, const struct varve_checkpoint_info *checkpoint) {
    assert_int_equal(checkpoint->ranks, RANKS);
    assert_int_equal(checkpoint->is_damaged, 0);
    ++*(int *)arg;
    return 0;
}

static void keep(void **state) {
    struct plan plan = {.fn = save_many, .settings = "keep=3"}, look = {.fn = come_back_in_vain};
    struct varve_store *store;
    struct varve_verify_options options = {.size = sizeof options};
    struct varve_verify_result result;
    int count = 0;
    (void)state;
    const struct board *board = ranks_run(&plan);
    ranks_expect(board, "close", 1, 0, -1, "");
    assert_int_equal(varve_store_open(ranks_folder(), NULL, &store, NULL), 0);
    assert_int_equal(varve_store_list(store, NULL, count_one, &count, NULL), 0);
    assert_int_equal(count, 4); /* three, and the first version 7, which the restart from 6 has passed over */
    assert_int_equal(varve_store_verify(store, &options, &result, NULL), 0);
    assert_int_equal(result.damaged_objects + result.lost_checkpoints, 0);
    varve_store_close(store);
    board = ranks_run(&look);
    ranks_expect(board, "restart", 1, 0, -1, "");
    assert_int_equal(ranks_answer(board, "restart", 1)->version, 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(warn, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(retry, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(retry_in_vain, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(fallback, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(nothing_whole, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(keep, ranks_setup, ranks_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
