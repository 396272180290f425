/* Four ranks, one of which (each in turn) gives something else than the others or cannot do its part: every collective
 * call returns the same on all of them, the error is that of the rank where it happened, and the job goes on. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <varve/varve.h>
#include <varve/varve_inspect.h>

#include "base/alloc.h"
#include "ranks.h"
#include "test.h"

#define EACH_VICTIM(plan) for ((plan).faulty_rank = 0; (plan).faulty_rank < RANKS; (plan).faulty_rank++)

/* After whatever went wrong: the next checkpoint works, and comes back. */
static void go_on(struct ranks_job *job, int64_t version) {
    rank_checkpoint(job, version);
    rank_note(job, "wait at last", varve_wait(job->session), -2);
    int64_t got = -2;
    rank_garbage(job);
    int rc = varve_restart(job->session, VARVE_LATEST, &got);
    rank_note(job, "restart at last", rc, got);
    rank_check(job, got);
    rank_close(job);
}

static void expect_end(const struct board *board, int64_t version) {
    ranks_expect(board, "wait at last", 1, 0, -1, "");
    ranks_expect(board, "restart at last", 1, 0, -1, "");
    assert_int_equal(ranks_answer(board, "restart at last", 1)->version, version);
    ranks_expect(board, "close", 1, 0, -1, "");
}

/* ---- arguments ---- */

static void give_other_versions(struct ranks_job *job) {
    rank_open(job);
    rank_checkpoint(job, 1);
    rank_checkpoint(job, job->is_faulty ? 7 : 5);
    rank_wait(job);
    rank_restart(job, job->is_faulty ? 1 : VARVE_LATEST);
    rank_note(job, "reject", varve_reject(job->session, job->is_faulty ? 1 : 2), -2);
    rank_note(job, "stored", varve_stored(job->session, job->is_faulty ? 1 : 2, NULL, NULL, NULL), -2);
    go_on(job, 8);
}

static void different_versions(void **state) {
    struct plan plan = {.fn = give_other_versions};
    (void)state;
    EACH_VICTIM(plan) {
        const struct board *board = ranks_run(&plan);
        ranks_expect(board, "checkpoint", 1, 0, -1, "");
        ranks_expect(board, "checkpoint", 2, VARVE_DISAGREED, -1, "version");
        ranks_expect(board, "wait", 1, 0, -1, "");
        ranks_expect(board, "restart", 1, VARVE_DISAGREED, -1, "version");
        ranks_expect(board, "reject", 1, VARVE_DISAGREED, -1, "version");
        ranks_expect(board, "stored", 1, VARVE_DISAGREED, -1, "version");
        expect_end(board, 8);
    }
}

/* ---- calls ---- */

static void mix_calls_up(struct ranks_job *job) {
    rank_open(job);
    rank_checkpoint(job, 1);
    if (job->is_faulty)
        rank_note(job, "mixed", varve_restart(job->session, VARVE_LATEST, NULL), -2);
    else
        rank_note(job, "mixed", varve_checkpoint(job->session, 2), -2);
    rank_note(job, "mixed", job->is_faulty ? varve_need(job->session) : varve_reject(job->session, 1), -2);
    go_on(job, 8);
}

static void mixed_calls(void **state) {
    struct plan plan = {.fn = mix_calls_up};
    (void)state;
    EACH_VICTIM(plan) {
        const struct board *board = ranks_run(&plan);
        ranks_expect(board, "mixed", 1, VARVE_DISAGREED, -1, "in varve_checkpoint, another in varve_restart");
        ranks_expect(board, "mixed", 2, VARVE_DISAGREED, -1, "in varve_reject, another in varve_need");
        expect_end(board, 8);
    }
}

static void give_bad_versions(struct ranks_job *job) {
    rank_open(job);
    rank_checkpoint(job, 3);
    rank_checkpoint(job, job->is_faulty ? -4 : 4);
    rank_checkpoint(job, job->is_faulty ? 2 : 4); /* it is too low */
    rank_restart(job, job->is_faulty ? -7 : VARVE_LATEST);
    rank_note(job, "reject", varve_reject(job->session, job->is_faulty ? -7 : 3), -2);
    rank_note(job, "stored", varve_stored(job->session, job->is_faulty ? -7 : 3, NULL, NULL, NULL), -2);
    int64_t got = -2;
    unsigned flags = job->is_faulty ? 1u << 20 : 0;
    int rc = varve_restart_regions(job->session, VARVE_LATEST, NULL, 0, flags, &got);
    rank_note(job, "flags", rc, got);
    go_on(job, 4);
}

static void bad_versions(void **state) {
    struct plan plan = {.fn = give_bad_versions};
    (void)state;
    EACH_VICTIM(plan) {
        const struct board *board = ranks_run(&plan);
        ranks_expect(board, "checkpoint", 2, -EINVAL, plan.faulty_rank, "-4");
        ranks_expect(board, "checkpoint", 3, -EINVAL, plan.faulty_rank, "too low");
        ranks_expect(board, "restart", 1, -EINVAL, plan.faulty_rank, "-7");
        ranks_expect(board, "reject", 1, -EINVAL, plan.faulty_rank, "-7");
        ranks_expect(board, "stored", 1, -EINVAL, plan.faulty_rank, "-7");
        ranks_expect(board, "flags", 1, -EINVAL, plan.faulty_rank, "flags");
        expect_end(board, 4);
        assert_int_equal(ranks_teardown(NULL), 0);
        assert_int_equal(ranks_setup(NULL), 0);
    }
}

/* ---- regions ---- */

static void protect_otherwise(struct ranks_job *job) {
    static uint8_t other[FIELD + 1];
    rank_open(job);
    if (job->is_faulty && varve_protect(job->session, "field", other, sizeof other) != 0)
        group_fail(job->comm, "protect");
    rank_restart(job, VARVE_LATEST);
    if (job->is_faulty && (varve_protect(job->session, "field", job->field, FIELD) != 0 ||
                           varve_protect(job->session, "unheard of", other, 100) != 0))
        group_fail(job->comm, "protect");
    rank_restart(job, VARVE_LATEST);
    if (job->is_faulty && varve_unprotect(job->session, "unheard of") != 0)
        group_fail(job->comm, "unprotect");
    rank_restart(job, VARVE_LATEST);
    if (job->is_faulty && varve_unprotect(job->session, "step") != 0) /* not an error: it just stays there */
        group_fail(job->comm, "unprotect");
    int64_t got = -2;
    int rc = varve_restart(job->session, VARVE_LATEST, &got);
    rank_note(job, "restart without", rc, got);
    rank_protect(job);
    go_on(job, 11);
}

static void regions_that_do_not_fit(void **state) {
    struct plan make = {.fn = rank_make_store, .value = 3}, plan = {.fn = protect_otherwise};
    (void)state;
    EACH_VICTIM(plan) {
        ranks_run(&make);
        const struct board *board = ranks_run(&plan);
        ranks_expect(board, "restart", 1, VARVE_MISMATCH, plan.faulty_rank, "field");
        ranks_expect(board, "restart", 2, VARVE_MISMATCH, plan.faulty_rank, "unheard of");
        ranks_expect(board, "restart", 3, 0, -1, "");
        ranks_expect(board, "restart without", 1, 0, -1, "");
        expect_end(board, 11);
        assert_int_equal(ranks_teardown(NULL), 0);
        assert_int_equal(ranks_setup(NULL), 0);
    }
}

/* ---- another number of ranks ---- */

static void come_as_others(struct ranks_job *job) {
    rank_open(job);
    rank_restart(job, VARVE_LATEST);
    rank_restart(job, 2);
    rank_close(job);
}

static void another_number_of_ranks(void **state) {
    static const uint32_t others[] = {3, 2, 1};
    struct plan make = {.fn = rank_make_store, .value = 2}, plan = {.fn = come_as_others};
    (void)state;
    ranks_run(&make);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        plan.ranks = others[i];
        const struct board *board = ranks_run(&plan);
        ranks_expect(board, "restart", 1, VARVE_MISMATCH, -1, "run it with 4");
        ranks_expect(board, "restart", 2, VARVE_MISMATCH, -1, "run it with 4");
    }
    plan.ranks = RANKS;
    ranks_expect(ranks_run(&plan), "restart", 1, 0, -1, "");
    ranks_teardown(state);
    ranks_setup(state);
    make.ranks = 2;
    ranks_run(&make);
    ranks_expect(ranks_run(&plan), "restart", 1, VARVE_MISMATCH, -1, "run it with 2");
}

/* ---- opening ---- */

static void open_otherwise(struct ranks_job *job) {
    char elsewhere[256], nowhere[256];
    snprintf(elsewhere, sizeof elsewhere, "%s-%d", job->folder, job->plan->faulty_rank);
    snprintf(nowhere, sizeof nowhere, "%s/there/is/none", job->folder);
    rank_open_as(job, job->is_faulty ? nowhere : NULL, NULL, NULL);
    rank_open_as(job, job->is_faulty ? elsewhere : NULL, NULL, NULL);
    rank_open_as(job, NULL, job->is_faulty ? "other" : "job", NULL);
    rank_open_as(job, NULL, NULL, job->is_faulty ? "keep=of course" : NULL);
    rank_open_as(job, job->is_faulty ? "gopher://host" : NULL, NULL, NULL);
    if (rank_open(job) != 0)
        return;
    struct varve_session *first = job->session;
    rank_open(job); /* by the same job: busy */
    job->session = first;
    go_on(job, 1);
}

static void opening(void **state) {
    struct plan plan = {.fn = open_otherwise, .settings = "takeover_seconds=0"};
    char command[256];
    (void)state;
    EACH_VICTIM(plan) {
        const struct board *board = ranks_run(&plan);
        for (int i = 1; i <= 5; i++)
            if (ranks_answer(board, "open", i)->code == 0)
                fail_msg("open number %d worked", i);
        ranks_expect(board, "open", 3, VARVE_DISAGREED, -1, "name");
        ranks_expect(board, "open", 4, VARVE_SETTING, plan.faulty_rank, "keep");
        ranks_expect(board, "open", 5, VARVE_UNSUPPORTED, plan.faulty_rank, "gopher");
        ranks_expect(board, "open", 6, 0, -1, "");
        ranks_expect(board, "open", 7, VARVE_BUSY, 0, "");
        expect_end(board, 1);
        snprintf(command, sizeof command, "rm -rf '%s-%d'", ranks_folder(), plan.faulty_rank);
        assert_int_equal(system(command), 0);
        assert_int_equal(ranks_teardown(NULL), 0);
        assert_int_equal(ranks_setup(NULL), 0);
    }
}

/* ---- what is asked without arguments ---- */

static void ask(struct ranks_job *job) {
    rank_open_as(job, NULL, NULL, job->rank == 0 ? "interval_seconds=0.2" : "interval_seconds=10000");
    for (int i = 0; i < 8; i++) { /* clocks differ: some ranks look a little later */
        struct timespec time = {0, 27000000 + job->rank * 9000000};
        nanosleep(&time, NULL);
        rank_note(job, "need", varve_need(job->session), -2);
    }
    rank_note(job, "test", varve_test(job->session), -2);
    rank_checkpoint(job, 1);
    rank_note(job, "test", varve_test(job->session), -2);
    rank_note(job, "reject", varve_reject(job->session, 1), -2);
    rank_restart(job, VARVE_LATEST);
    rank_note(job, "reject", varve_reject(job->session, 99), -2);
    rank_checkpoint(job, 2);
    go_on(job, 3);
}

static void asking(void **state) {
    struct plan plan = {.fn = ask};
    (void)state;
    const struct board *board = ranks_run(&plan);
    assert_int_equal(ranks_answer(board, "need", 1)->code, 0);
    assert_int_equal(ranks_answer(board, "need", 8)->code, 1); /* by rank 0's settings */
    ranks_expect(board, "test", 2, 1, -1, "");
    ranks_expect(board, "reject", 1, 0, -1, "");
    ranks_expect(board, "restart", 1, -ENOENT, 0, "were rejected");
    ranks_expect(board, "reject", 2, -ENOENT, -1, "99");
    expect_end(board, 3);
}

/* ---- storage that fails ---- */

static void save_three(struct ranks_job *job) {
    if (rank_open(job) != 0 && rank_open_as(job, job->folder, NULL, NULL) != 0)
        return;
    rank_checkpoint(job, 1);
    rank_wait(job);
    rank_checkpoint(job, 2);
    rank_wait(job);
    rank_restart(job, VARVE_LATEST);
    go_on(job, 9);
}

/* The storage of one rank fails once, at its K-th operation. Whatever that was: all ranks are told the same, it is the
 * victim's error, and what comes next works. */
static void check_failing(struct plan *plan, const char *error, int code, int *failed) {
    char fault[64];
    for (int k = 1 + plan->faulty_rank % ranks_stride(); k <= 34; k += ranks_stride()) {
        snprintf(fault, sizeof fault, "%s:%d:%s", k % 4 ? "fail" : "fail-after", k, error);
        plan->fault = fault;
        const struct board *board = ranks_run(plan);
        for (size_t i = 0; i < board->count[0]; i++) {
            const struct answer *answer = &board->answers[0][i];
            if (answer->code >= 0)
                continue;
            if (answer->code != code && !(strcmp(answer->call, "restart") == 0 && answer->code == VARVE_NO_CHECKPOINT))
                fail_msg("%s: %s gave %s: %s", fault, answer->call, varve_error_name(answer->code), answer->error.text);
            if (answer->code == code && answer->error.rank != plan->faulty_rank)
                fail_msg("%s: %s failed on rank %d, and is said to have failed on rank %d: %s", fault, answer->call,
                         plan->faulty_rank, answer->error.rank, answer->error.text);
            *failed += strcmp(answer->call, "checkpoint") == 0;
        }
        expect_end(board, 9);
        ranks_teardown(NULL);
        ranks_setup(NULL);
    }
}

static void failing_storage(void **state) {
    static const char *const names[] = {"ENOSPC", "EIO", "EDQUOT", "ENOMEM"};
    static const int codes[] = {-ENOSPC, -EIO, -EDQUOT, -ENOMEM};
    struct plan plan = {.fn = save_three};
    (void)state;
    EACH_VICTIM(plan) {
        int failed = 0;
        check_failing(&plan, names[plan.faulty_rank], codes[plan.faulty_rank], &failed);
        printf("rank %d: %d checkpoints failed\n", plan.faulty_rank, failed);
        assert_true(failed >= 8 / ranks_stride());
    }
}

#ifdef VARVE_FAULTS
static void run_out_of_memory(struct ranks_job *job) {
    rank_open(job);
    rank_checkpoint(job, 1);
    if (job->is_faulty)
        vv_alloc_fail_at((uint64_t)job->plan->value);
    rank_checkpoint(job, 2);
    rank_wait(job);
    int64_t got = -2;
    rank_garbage(job);
    int rc = varve_restart(job->session, VARVE_LATEST, &got);
    rank_note(job, "restart", rc, got);
    vv_alloc_fail_at(0);
    go_on(job, 3);
}

static void no_memory(void **state) {
    struct plan plan = {.fn = run_out_of_memory};
    int failed = 0;
    (void)state;
    EACH_VICTIM(plan) {
        for (plan.value = 1; plan.value <= 130; plan.value += (1 + plan.value / 8) * ranks_stride()) {
            const struct board *board = ranks_run(&plan);
            const struct answer *answer = ranks_answer(board, "checkpoint", 2);
            if (answer->code != 0)
                ranks_expect(board, "checkpoint", 2, -ENOMEM, plan.faulty_rank, "");
            failed += answer->code != 0;
            expect_end(board, 3);
            ranks_teardown(NULL);
            ranks_setup(NULL);
        }
    }
    printf("%d checkpoints failed\n", failed);
    assert_true(failed >= 20 / ranks_stride());
}
#else
static void no_memory(void **state) {
    (void)state;
    skip();
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(different_versions, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(mixed_calls, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(bad_versions, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(regions_that_do_not_fit, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(another_number_of_ranks, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(opening, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(asking, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(failing_storage, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(no_memory, ranks_setup, ranks_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
