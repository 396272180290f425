/* Two nodes may have a checkpoint of the same generation and version, and yet not the same one. Parts of different
 * checkpoints must never come back together. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "nodes.h"
#include "test.h"

/* ---- two attempts at one version ---- */

/* The bytes of `content`, stored as this version. */
static int save_as(struct ranks_job *job, int64_t version, int64_t content) {
    rank_set(job, content);
    return rank_note(job, "checkpoint", varve_checkpoint(job->session, version), -2);
}

/* The record cannot be made on node 1; the program goes on, and saves the same version again. */
static void save_twice(struct ranks_job *job) {
    if (node_open(job, NULL) != 0)
        return;
    save_as(job, 9, 9);
    vv_fault_set(node_of(job->rank) == 1 ? "store.record.before_create=error:5" : NULL);
    save_as(job, 10, 10);
    vv_fault_set(NULL);
    save_as(job, 10, 77);
    _exit(0); /* as if killed: nothing is closed */
}

static void come_back_as_one(struct ranks_job *job) {
    int64_t got = -2;
    if (node_open(job, NULL) != 0)
        return;
    rank_garbage(job);
    int rc = varve_restart(job->session, VARVE_LATEST, &got);
    /* all ranks note the content they found: the test compares it */
    rank_note(job, "content", rc, rc == 0 ? (int64_t)job->step : got);
    if (rc == 0)
        rank_check(job, (int64_t)job->step);
    rank_close(job);
}

static void two_attempts(void **state) {
    struct plan first = {.fn = save_twice, .faulty_rank = -1}, then = {.fn = come_back_as_one, .faulty_rank = -1};
    (void)state;
    nodes_place(0, 0, 1, 1);
    const struct board *board = ranks_run(&first);
    ranks_expect(board, "checkpoint", 1, 0, -1, "");
    ranks_expect(board, "checkpoint", 2, -EIO, -1, "");
    board = ranks_run(&then);
    ranks_expect(board, "content", 1, 0, -1, "");
}

/* ---- two jobs, on nodes that do not know of each other ---- */

static void save_content(struct ranks_job *job) {
    if (node_open(job, NULL) != 0)
        return;
    rank_restart(job, VARVE_LATEST);
    save_as(job, 10, job->plan->value);
    rank_close(job);
}

static const struct board *run_two_jobs(const char *settings) {
    struct plan make = {.fn = node_make_store, .value = 1, .faulty_rank = -1, .settings = settings},
                one = {.fn = save_content, .value = 50, .faulty_rank = -1, .settings = settings},
                other = {.fn = save_content, .value = 60, .faulty_rank = -1, .settings = settings},
                then = {.fn = come_back_as_one, .faulty_rank = -1, .settings = settings};
    nodes_place(0, 0, 1, 1);
    ranks_run(&make); /* generation 1 on nodes 0 and 1 */
    nodes_place(1, 1, 2, 2);
    ranks_run(&one); /* generation 2 on nodes 1 and 2 */
    nodes_place(0, 0, 3, 3);
    ranks_run(&other);       /* generation 2 on nodes 0 and 3 */
    nodes_place(1, 1, 3, 3); /* ranks 0 and 1 of the one, ranks 2 and 3 of the other */
    return ranks_run(&then);
}

/* Without copies their restarts fail, and they begin anew. */
static void two_jobs(void **state) {
    (void)state;
    const struct board *board = run_two_jobs("copies=1");
    ranks_expect(board, "content", 1, VARVE_CORRUPT, -1, "");
}

/* With copies each of them goes on from version 1, and so does the last. */
static void two_jobs_with_copies(void **state) {
    (void)state;
    const struct board *board = run_two_jobs("copies=2");
    ranks_expect(board, "content", 1, 0, -1, "");
    assert_int_equal(ranks_answer(board, "content", 1)->version, 1);
    assert_non_null(strstr(board->log[0], "the nodes have different checkpoints"));
}

/* ---- votes of two jobs ---- */

/* All packs are there, and no record. */
static void die_voted(struct ranks_job *job) {
    if (node_open(job, NULL) != 0)
        return;
    rank_restart(job, VARVE_LATEST);
    vv_fault_set("store.writers.before_create=kill");
    save_as(job, 10, job->plan->value);
    pause(); /* until the others take us with them */
}

static void votes_of_two_jobs(void **state) {
    struct plan make = {.fn = node_make_store, .value = 1, .faulty_rank = -1, .settings = "copies=1"},
                one = {.fn = die_voted, .value = 50, .faulty_rank = -1, .settings = "copies=1"},
                other = {.fn = die_voted, .value = 60, .faulty_rank = -1, .settings = "copies=1"},
                then = {.fn = come_back_as_one, .faulty_rank = -1, .settings = "copies=1"};
    (void)state;
    nodes_place(0, 0, 1, 1);
    ranks_run(&make);
    nodes_place(1, 1, 2, 2);
    nodes_run_dying(&one, -1);
    nodes_place(0, 0, 3, 3);
    nodes_run_dying(&other, -1);
    nodes_place(1, 1, 3, 3);
    const struct board *board = ranks_run(&then);
    ranks_expect(board, "content", 1, VARVE_CORRUPT, -1, "version 1: regions field, step");
    nodes_place(0, 0, 3, 3); /* and what belongs together is still adopted */
    board = ranks_run(&then);
    ranks_expect(board, "content", 1, 0, -1, "");
    assert_int_equal(ranks_answer(board, "content", 1)->version, 60);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(two_attempts, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(two_jobs, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(two_jobs_with_copies, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(votes_of_two_jobs, ranks_setup, ranks_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
