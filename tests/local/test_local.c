/* The normal life of jobs with node-local stores: two nodes, three, one, and one for each rank. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve_inspect.h>

#include "nodes.h"
#include "test.h"

static const int placements[][RANKS] = {{0, 0, 1, 1}, {0, 1, 1, 2}, {0, 0, 0, 0},
                                        {0, 1, 2, 3}, {0, 1, 0, 1}, {1, 0, 2, 0}};

static void place(size_t i) {
    nodes_place(placements[i][0], placements[i][1], placements[i][2], placements[i][3]);
}

static int is_used(int node) {
    for (int rank = 0; rank < RANKS; rank++)
        if (node_of(rank) == node)
            return 1;
    return 0;
}

#define EACH_NODE(node)                                                                                                \
    for (int node = 0; node < NODES_MAX; node++)                                                                       \
        if (is_used(node))

/* ---- a whole life ---- */

static int count_region(void *arg, const struct varve_region_info *region) {
    uint64_t *bytes = arg;
    *bytes += region->bytes;
    return 0;
}

static void live(struct ranks_job *job) {
    uint64_t bytes = 0;
    int64_t got = -2;
    if (node_open(job, NULL) != 0)
        return;
    rank_restart(job, VARVE_LATEST);
    rank_note(job, "need", varve_need(job->session), -2);
    for (int64_t version = 1; version <= 5; version++)
        rank_checkpoint(job, version);
    rank_wait(job);
    rank_note(job, "test", varve_test(job->session), -2);
    int rc = varve_stored(job->session, VARVE_LATEST, count_region, &bytes, &got);
    rank_note(job, "stored", rc, got);
    if (bytes != FIELD + sizeof job->step)
        group_fail(job->comm, "%" PRIu64 " bytes are said to be stored", bytes);
    rank_note(job, "reject", varve_reject(job->session, 5), -2);
    rank_restart(job, VARVE_LATEST);
    rank_checkpoint(job, 5);
    rank_checkpoint(job, 6);
    rank_restart(job, 3);
    rank_restart(job, 7);
    rank_restart(job, VARVE_LATEST);
    rank_close(job);
}

static void come_again(struct ranks_job *job) {
    if (node_open(job, NULL) != 0)
        return;
    rank_restart(job, VARVE_LATEST);
    rank_restart(job, 2);
    rank_checkpoint(job, 20);
    rank_close(job);
}

static void check_life(const struct board *board) {
    ranks_expect(board, "restart", 1, VARVE_NO_CHECKPOINT, -1, "no checkpoint");
    for (int n = 1; n <= 7; n++)
        ranks_expect(board, "checkpoint", n, 0, -1, "");
    ranks_expect(board, "wait", 1, 0, -1, "");
    ranks_expect(board, "test", 1, 1, -1, "");
    assert_int_equal(ranks_answer(board, "stored", 1)->version, 5);
    assert_int_equal(ranks_answer(board, "restart", 2)->version, 4);
    assert_int_equal(ranks_answer(board, "restart", 3)->version, 3);
    ranks_expect(board, "restart", 4, -ENOENT, -1, "version 7");
    assert_int_equal(ranks_answer(board, "restart", 5)->version, 6);
    ranks_expect(board, "close", 1, 0, -1, "");
}

/* Every node has every record, and of the packs those of its own ranks. */
static void check_nodes(uint32_t generation, int64_t version) {
    char path[512];
    EACH_NODE(node) {
        assert_true(node_has_record(node, generation, version));
        node_writers_path(node, generation, version, 0, path, sizeof path);
        assert_true(is_there(path));
        for (int rank = 0; rank < RANKS; rank++) {
            node_pack_path(node, generation, version, 0, rank, path, sizeof path);
            assert_int_equal(is_there(path), node_of(rank) == node);
        }
    }
}

static void whole_life(void **state) {
    struct plan first = {.fn = live, .faulty_rank = -1}, then = {.fn = come_again, .faulty_rank = -1};
    (void)state;
    for (size_t i = 0; i < sizeof placements / sizeof *placements; i++) {
        place(i);
        check_life(ranks_run(&first));
        check_nodes(1, 5);
        check_nodes(2, 6);
        const struct board *board = ranks_run(&then);
        assert_int_equal(ranks_answer(board, "restart", 1)->version, 6);
        assert_int_equal(ranks_answer(board, "restart", 2)->version, 2);
        ranks_expect(board, "checkpoint", 1, 0, -1, "");
        board = ranks_run(&then);
        assert_int_equal(ranks_answer(board, "restart", 1)->version, 20);
        assert_int_equal(ranks_teardown(NULL), 0);
        assert_int_equal(ranks_setup(NULL), 0);
    }
}

/* ---- the same store, whatever the later jobs ask for ---- */

static void come_without_setting(struct ranks_job *job) {
    char folder[256];
    node_folder(node_of(job->rank), folder, sizeof folder);
    if (rank_open_as(job, folder, NULL, "storage=shared") != 0)
        return;
    rank_restart(job, VARVE_LATEST);
    rank_close(job);
}

static void stays_local(void **state) {
    struct plan make = {.fn = node_make_store, .value = 2, .faulty_rank = -1},
                plan = {.fn = come_without_setting, .faulty_rank = -1};
    (void)state;
    nodes_place(0, 0, 1, 1);
    ranks_run(&make);
    const struct board *board = ranks_run(&plan);
    ranks_expect(board, "restart", 1, 0, -1, "");
    assert_int_equal(ranks_answer(board, "restart", 1)->version, 2);
}

/* ---- keep ---- */

static void keeps_two(void **state) {
    struct plan make = {.fn = node_make_store, .value = 9, .settings = "keep=2", .faulty_rank = -1},
                back = {.fn = node_come_back, .faulty_rank = -1};
    char path[512];
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        place(i);
        ranks_run(&make);
        EACH_NODE(node) {
            for (int64_t version = 1; version <= 9; version++)
                assert_int_equal(node_has_record(node, 1, version), version >= 8);
            for (int rank = 0; rank < RANKS; rank++) { /* three versions share a page: older ones have nothing left */
                node_pack_path(node, 1, 2, 0, rank, path, sizeof path);
                assert_false(is_there(path));
            }
        }
        const struct board *board = ranks_run(&back);
        assert_int_equal(ranks_answer(board, "restart", 1)->version, 9);
        assert_int_equal(ranks_teardown(NULL), 0);
        assert_int_equal(ranks_setup(NULL), 0);
    }
}

/* The newest is damaged on one node: all go back to the one before. */
static void falls_back(void **state) {
    struct plan make = {.fn = node_make_store, .value = 4, .settings = "keep=2,copies=1", .faulty_rank = -1},
                back = {.fn = node_come_back, .value = 9, .settings = "copies=1", .faulty_rank = -1};
    char path[512];
    (void)state;
    nodes_place(0, 0, 1, 1);
    ranks_run(&make);
    node_pack_path(1, 1, 4, 0, 3, path, sizeof path);
    flip_bit(path, 200);
    const struct board *board = ranks_run(&back);
    ranks_expect(board, "restart", 1, 0, -1, "");
    assert_int_equal(ranks_answer(board, "restart", 1)->version, 3);
    assert_non_null(strstr(board->log[0], "rank 3"));
    ranks_expect(board, "checkpoint", 1, 0, -1, "");
    board = ranks_run(&back);
    assert_int_equal(ranks_answer(board, "restart", 1)->version, 9);
}

/* ---- storage that fails on one rank ---- */

static void save_with_trouble(struct ranks_job *job) {
    if (node_open(job, NULL) != 0)
        return;
    for (int64_t version = 1; version <= 4; version++)
        rank_checkpoint(job, version);
    rank_close(job);
}

/* From some moment on nothing can be written on a rank: all hear of it, and what was reported comes back. */
static void fails_together(void **state) {
    struct plan back = {.fn = node_come_back, .faulty_rank = -1};
    (void)state;
    nodes_place(0, 1, 1, 2);
    for (int faulty_rank = 0; faulty_rank < RANKS; faulty_rank++)
        for (int at = 30; at <= 75; at += 15) {
            char fault[64];
            struct plan plan = {.fn = save_with_trouble, .faulty_rank = faulty_rank, .fault = fault};
            int64_t saved = -1;
            snprintf(fault, sizeof fault, "fail-from:%d:EIO", at);
            const struct board *board = ranks_run(&plan);
            if (ranks_answer(board, "open", 1)->code == 0)
                for (int n = 1; n <= 4; n++)
                    saved = ranks_answer(board, "checkpoint", n)->code == 0 ? n : saved;
            board = ranks_run(&back);
            if (saved >= 0) {
                ranks_expect(board, "restart", 1, 0, -1, "");
                assert_true(ranks_answer(board, "restart", 1)->version >= saved);
            }
            assert_int_equal(ranks_teardown(NULL), 0);
            assert_int_equal(ranks_setup(NULL), 0);
        }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, ranks_setup, ranks_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(whole_life), TEST(stays_local), TEST(keeps_two), TEST(falls_back), TEST(fails_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
