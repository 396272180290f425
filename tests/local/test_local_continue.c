/* Jobs with node-local stores that go on from a checkpoint without reading it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "details.h"
#include "nodes.h"
#include "test.h"

#define SHARE "table_share=0.1"

static void same_again(struct ranks_job *job) {
    struct vv_details stats = {0};
    int64_t got = -2;
    if (node_open(job, NULL) != 0)
        return;
    int rc = varve_continue(job->session, VARVE_LATEST, &got);
    if (rank_note(job, "continue", rc, got) != 0) {
        rank_close(job);
        return;
    }
    rank_set(job, job->plan->value);
    rank_note(job, "checkpoint", varve_checkpoint(job->session, 10), -2);
    rank_wait(job);
    if (vv_details_get(job->session, &stats) != 0)
        group_fail(job->comm, "stats");
    rank_note(job, "new", 0, (int64_t)stats.bytes_new);
    rank_garbage(job);
    rc = varve_restart(job->session, 10, &got);
    rank_note(job, "restart", rc, got);
    if (rc == 0)
        rank_check(job, job->plan->value);
    rank_close(job);
}

static void each_rank_knows_its_own(void **state) {
    struct plan make = {.fn = node_make_store, .value = 3, .settings = SHARE, .faulty_rank = -1};
    struct plan plan = {.fn = same_again, .value = 3, .settings = SHARE, .faulty_rank = -1};
    (void)state;
    nodes_place(0, 0, 1, 1);
    ranks_run(&make);
    const struct board *board = ranks_run(&plan);
    assert_int_equal(ranks_answer(board, "continue", 1)->version, 3);
    assert_int_equal(ranks_answer(board, "new", 1)->version, 0);
    assert_int_equal(ranks_answer(board, "restart", 1)->version, 10);
}

/* A node is lost. The other has copies, but nothing may be referred to that is there once only: all is stored again. */
static void lost_nodes_are_made_good(void **state) {
    struct plan make = {
        .fn = node_make_store, .value = 3, .settings = SHARE ",copies=2,dedup=local", .faulty_rank = -1};
    struct plan plan = {.fn = same_again, .value = 3, .settings = SHARE ",copies=2,dedup=local", .faulty_rank = -1};
    (void)state;
    nodes_place(0, 0, 1, 1);
    ranks_run(&make);
    node_lose(1);
    const struct board *board = ranks_run(&plan);
    assert_int_equal(ranks_answer(board, "continue", 1)->version, 3);
    assert_int_equal(ranks_answer(board, "new", 1)->version, FIELD + sizeof(uint64_t));
    assert_int_equal(ranks_answer(board, "restart", 1)->version, 10);
}

/* Without copies the checkpoint is lost: damage, and never a first run. */
static void what_is_lost_is_told(void **state) {
    struct plan make = {.fn = node_make_store, .value = 3, .settings = SHARE ",copies=1", .faulty_rank = -1};
    struct plan plan = {.fn = same_again, .value = 3, .settings = SHARE ",copies=1", .faulty_rank = -1};
    (void)state;
    nodes_place(0, 0, 1, 1);
    ranks_run(&make);
    node_lose(1);
    ranks_expect(ranks_run(&plan), "continue", 1, VARVE_CORRUPT, -1, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_rank_knows_its_own, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(lost_nodes_are_made_good, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(what_is_lost_is_told, ranks_setup, ranks_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
