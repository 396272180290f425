/* Ranks that are told of a checkpoint before its upkeep is over: rank 0 forgets an older one, which takes it SLOW ms
 * here. Meanwhile all of them may call whatever they like. */
#include <stdio.h>
#include <stdlib.h>
#include <varve/varve.h>

#include "base/thread.h"
#include "ranks.h"
#include "test.h"

#define SLOW 800
#define VERSIONS 6

static void note_quick(struct ranks_job *job, uint64_t begin) {
    rank_note(job, "took long", vv_clock_ns() - begin > SLOW * UINT64_C(1000000) / 2, -2);
}

/* A call of each kind that does not begin anything. */
static void ask(struct ranks_job *job) {
    uint64_t begin = vv_clock_ns();
    rank_wait(job);
    rank_note(job, "test", varve_test(job->session), -2);
    rank_note(job, "need", varve_need(job->session), -2);
    rank_wait(job);
    rank_note(job, "release", varve_release(job->session), -2);
    note_quick(job, begin);
}

static void save_all(struct ranks_job *job) {
    static double more[1000];
    if (rank_open(job) != 0)
        return;
    rank_protect(job);
    for (int64_t version = 1; version <= VERSIONS; version++) {
        rank_set(job, version);
        if (version == VERSIONS - 1)
            varve_protect(job->session, "more", more, sizeof more);
        if (varve_checkpoint(job->session, version) != 0)
            group_fail(job->comm, "checkpoint");
        if (version >= VERSIONS - 2)
            ask(job);
    }
    varve_unprotect(job->session, "more");
    rank_note(job, "reject", varve_reject(job->session, -1), -2); /* lands */
    rank_close(job);
}

static void read_back(struct ranks_job *job) {
    if (rank_open(job) != 0)
        return;
    if (rank_restart(job, VARVE_LATEST) == 0)
        rank_check(job, VERSIONS);
    rank_close(job);
}

static void told_before_the_upkeep(void **state) {
#ifndef VARVE_FAULTS
    skip();
#endif
    struct plan plan = {.fn = save_all, .settings = "keep=2,threads=1"};
    (void)state;
    const struct board *board = ranks_run(&plan);
    for (int n = 1; n <= 3; n++) {
        assert_int_equal(ranks_answer(board, "took long", n)->code, 0);
        ranks_expect(board, "wait", 2 * n, 0, -1, "");
        assert_int_equal(ranks_answer(board, "test", n)->code, 1);
    }
    plan.fn = read_back;
    ranks_expect(ranks_run(&plan), "restart", 1, 0, -1, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(told_before_the_upkeep, ranks_setup, ranks_teardown),
    };
    char fault[64];
    snprintf(fault, sizeof fault, "store.prune.before_data=sleep:%d", SLOW);
    setenv("VARVE_FAULT", fault, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
