/* Nodes of which one has missed something, lost something, or is another one than before. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <varve/varve_inspect.h>

#include "base/fault.h"
#include "nodes.h"
#include "test.h"

/* Everything is kept once: what happens when there are copies is in test_local_copies.c. */
static struct plan make = {.fn = node_make_store, .value = 3, .faulty_rank = -1, .settings = "copies=1"};
static struct plan back = {.fn = node_come_back, .faulty_rank = -1, .settings = "copies=1"};

static void make_store(void) {
    nodes_place(0, 0, 1, 1);
    ranks_run(&make);
}

static void expect_restart(int64_t version) {
    const struct board *board = ranks_run(&back);
    ranks_expect(board, "restart", 1, 0, -1, "");
    assert_int_equal(ranks_answer(board, "restart", 1)->version, version);
}

/* What the error must name: the rank, and its host. */
static void expect_rank_named(const struct answer *answer, int rank) {
    char host[64] = "", word[96];
    gethostname(host, sizeof host - 1);
    snprintf(word, sizeof word, "rank %d on %s", rank, host);
    if (answer->error.rank != rank || !strstr(answer->error.text, word))
        fail_msg("\"%s\" (of rank %d) does not say \"%s\"", answer->error.text, answer->error.rank, word);
}

/* ---- a node that has missed a commit ---- */

static void missed_record(void **state) {
    char path[512], other[512];
    (void)state;
    for (int node = 0; node < 2; node++) {
        make_store();
        node_record_path(node, 1, 3, path, sizeof path);
        node_record_path(1 - node, 1, 3, other, sizeof other);
        remove_file(path);
        expect_restart(3);
        assert_true(is_there(path) && node_has_record(node, 1, 3));
        if (node == 1)
            assert_true(is_same_file(path, other)); /* rank 0 adopts, and sets the time */
        expect_restart(3);
        assert_int_equal(ranks_teardown(NULL), 0);
        assert_int_equal(ranks_setup(NULL), 0);
    }
}

/* A node that has missed it never offers the older one alone. */
static void missed_everything_newer(void **state) {
    char path[512];
    (void)state;
    make_store();
    for (int64_t version = 2; version <= 3; version++) {
        node_record_path(1, 1, version, path, sizeof path);
        remove_file(path);
    }
    node_writers_path(1, 1, 3, 0, path, sizeof path);
    remove_file(path);
    expect_restart(3);
    assert_true(node_has_record(1, 1, 3));
}

static int take_nothing(void *arg, const struct varve_region_info *region) {
    (void)arg, (void)region;
    return 0;
}

static void ask(struct ranks_job *job) {
    int64_t got = -2;
    if (node_open(job, NULL) != 0)
        return;
    int rc = varve_stored(job->session, VARVE_LATEST, take_nothing, NULL, &got);
    rank_note(job, "stored", rc, got);
    rank_close(job);
}

/* A program that asks first, to know how much to protect, is told of the checkpoint it will get. */
static void asking_first(void **state) {
    struct plan plan = {.fn = ask, .faulty_rank = -1};
    char path[512];
    (void)state;
    make_store();
    node_record_path(1, 1, 3, path, sizeof path);
    remove_file(path);
    const struct board *board = ranks_run(&plan);
    ranks_expect(board, "stored", 1, 0, -1, "");
    assert_int_equal(ranks_answer(board, "stored", 1)->version, 3);
}

/* ---- damage on one node ---- */

static void damaged(void (*path_of)(int node, char *path, size_t capacity)) {
    char path[512], other[512];
    for (int node = 0; node < 2; node++) {
        for (int how = 0; how < 2; how++) {
            make_store();
            path_of(node, path, sizeof path);
            path_of(1 - node, other, sizeof other);
            if (how == 0)
                flip_bit(path, 130);
            else
                assert_int_equal(truncate(path, 100), 0);
            expect_restart(3);
            assert_true(is_same_file(path, other));
            assert_int_equal(ranks_teardown(NULL), 0);
            assert_int_equal(ranks_setup(NULL), 0);
        }
    }
}

static void path_of_record(int node, char *path, size_t capacity) {
    node_record_path(node, 1, 3, path, capacity);
}

static void path_of_writers(int node, char *path, size_t capacity) {
    node_writers_path(node, 1, 3, 0, path, capacity);
}

static void damaged_record(void **state) {
    (void)state;
    damaged(path_of_record);
}

static void damaged_writers(void **state) {
    (void)state;
    damaged(path_of_writers);
}

/* On all nodes: then it is named, and the one before comes back. */
static void damaged_everywhere(void **state) {
    char path[512];
    (void)state;
    make_store();
    for (int node = 0; node < 2; node++) {
        node_record_path(node, 1, 3, path, sizeof path);
        flip_bit(path, 130);
    }
    expect_restart(2);
}

/* ---- a node that is lost ---- */

static void lost_node(void **state) {
    struct plan ranks_back = {.fn = node_come_back, .value = 9, .faulty_rank = -1, .settings = "copies=1"};
    (void)state;
    for (int node = 0; node < 2; node++) {
        make_store();
        node_lose(node);
        const struct board *board = ranks_run(&ranks_back);
        ranks_expect(board, "open", 1, 0, -1, "");
        char lost[64];
        snprintf(lost, sizeof lost, "version 3: regions field, step of rank %d are lost", node * 2);
        ranks_expect(board, "restart", 1, VARVE_CORRUPT, node * 2, lost);
        for (int rank = 2 * node; rank < 2 * node + 2; rank++) /* each says so of its own, for each version */
            assert_non_null(strstr(board->log[rank], "version 1: regions field, step of rank "));
        for (int64_t version = 1; version <= 3; version++) /* what is not there is not promised there */
            assert_false(node_has_record(node, 1, version));
        assert_int_equal(ranks_teardown(NULL), 0);
        assert_int_equal(ranks_setup(NULL), 0);
    }
}

/* The disk was only not mounted: once it is there again, everything comes back. */
static void found_node(void **state) {
    (void)state;
    make_store();
    node_move(1, 3);
    const struct board *board = ranks_run(&back);
    ranks_expect(board, "restart", 1, VARVE_CORRUPT, -1, "");
    node_lose(1);
    node_move(3, 1);
    expect_restart(3);
}

/* Of one rank only the pack is gone, of the newest: the one before is whole. */
static void lost_pack(void **state) {
    char path[512];
    (void)state;
    make_store();
    node_pack_path(1, 1, 3, 0, 2, path, sizeof path);
    remove_file(path);
    const struct board *board = ranks_run(&back);
    assert_int_equal(ranks_answer(board, "restart", 1)->version, 2);
    assert_non_null(strstr(board->log[0], "rank 2"));
}

/* ---- ranks on other nodes than before ---- */

static void moved_ranks(void **state) {
    static const int places[][4] = {{1, 1, 0, 0}, {0, 0, 0, 1}, {1, 0, 1, 0}, {2, 1, 0, 0}, {0, 1, 2, 3}, {3, 2, 1, 0}};
    struct plan plan = {.fn = node_come_back, .faulty_rank = -1, .settings = "copies=1,threads=2"};
    (void)state;
    make_store();
    for (unsigned i = 0; i < sizeof places / sizeof *places; i++) { /* each goes on from the one before */
        nodes_place(places[i][0], places[i][1], places[i][2], places[i][3]);
        plan.value = 4 + i;
        if (i == 3)
            plan.settings = "copies=1"; /* threads=0 */
        const struct board *board = ranks_run(&plan);
        ranks_expect(board, "restart", 1, 0, -1, "");
        assert_int_equal(ranks_answer(board, "restart", 1)->version, 3 + i);
        ranks_expect(board, "checkpoint", 1, 0, -1, "");
        for (int rank = 0; rank < RANKS; rank++)
            assert_null(strstr(board->log[rank], "from copies")); /* everything is in its own place */
    }
}

/* On a node where it never was, a rank asks what there is. */
static void moved_and_asked(void **state) {
    struct plan plan = {.fn = ask, .faulty_rank = -1, .settings = "copies=1"};
    (void)state;
    make_store();
    nodes_place(2, 1, 0, 0);
    const struct board *board = ranks_run(&plan);
    ranks_expect(board, "stored", 1, 0, -1, "");
    assert_int_equal(ranks_answer(board, "stored", 1)->version, 3);
}

static void fewer_ranks(void **state) {
    struct plan few = {.fn = node_come_back, .ranks = 2, .faulty_rank = -1, .settings = "copies=1"};
    (void)state;
    make_store();
    nodes_place(0, 1, 0, 0);
    const struct board *board = ranks_run(&few);
    ranks_expect(board, "restart", 1, VARVE_MISMATCH, -1, "run it with 4");
}

static void another_store(void **state) {
    struct plan one = {.fn = node_make_store, .value = 1, .faulty_rank = -1, .settings = "copies=1"};
    (void)state;
    nodes_place(0, 0, 0, 0);
    ranks_run(&one);
    nodes_place(1, 1, 1, 1);
    ranks_run(&one);
    nodes_place(0, 0, 1, 1);
    const struct board *board = ranks_run(&back);
    ranks_expect(board, "open", 1, VARVE_MISMATCH, -1, "another store");
    expect_rank_named(ranks_answer(board, "open", 1), 2);
}

/* ---- forgetting ---- */

static void forget(int node, int64_t version) {
    struct varve_which which = {.name = "job", .version = version};
    struct varve_store *store;
    struct varve_error error = {0};
    char folder[512];
    node_folder(node, folder, sizeof folder);
    assert_int_equal(varve_store_open(folder, "log=error", &store, &error), 0);
    if (varve_store_forget(store, &which, &error) != 0)
        fail_msg("%s", error.text);
    varve_store_close(store);
}

static void prune(int node) {
    struct varve_prune_result result;
    struct varve_store *store;
    struct varve_error error = {0};
    char folder[512];
    node_folder(node, folder, sizeof folder);
    assert_int_equal(varve_store_open(folder, "log=error", &store, &error), 0);
    if (varve_store_prune(store, NULL, 0, NULL, NULL, &result, &error) != 0)
        fail_msg("%s", error.text);
    varve_store_close(store);
}

/* Forgotten on one node is forgotten; it does not come back when the tombstone has gone. */
static void forgotten(void **state) {
    (void)state;
    for (int node = 0; node < 2; node++) {
        make_store();
        forget(node, 3);
        expect_restart(2);
        assert_false(node_has_record(0, 1, 3));
        assert_false(node_has_record(1, 1, 3));
        prune(node);
        const struct board *board = ranks_run(&back);
        assert_int_equal(ranks_answer(board, "restart", 1)->version, 2);
        for (int rank = 0; rank < RANKS; rank++)
            assert_string_equal(board->log[rank], ""); /* nothing is damaged */
        assert_int_equal(ranks_teardown(NULL), 0);
        assert_int_equal(ranks_setup(NULL), 0);
    }
}

/* ---- keep=2 after a commit that failed on one node only ---- */

static void fail_once(struct ranks_job *job) {
    if (node_open(job, NULL) != 0)
        return;
    rank_checkpoint(job, 1);
    rank_checkpoint(job, 2);
    vv_fault_set(node_of(job->rank) == job->plan->value ? "store.record.before_create=error:5" : NULL);
    rank_checkpoint(job, 3);
    vv_fault_set(NULL);
    rank_checkpoint(job, 4);
    rank_close(job);
}

/* Nobody was told of version 3: the two newest are 2 and 4, on all nodes. */
static void keeps_what_was_reported(void **state) {
    (void)state;
    for (int node = 0; node < 2; node++) {
        struct plan plan = {.fn = fail_once, .settings = "keep=2,copies=1", .value = node, .faulty_rank = -1};
        char path[512];
        nodes_place(0, 0, 1, 1);
        const struct board *board = ranks_run(&plan);
        ranks_expect(board, "checkpoint", 3, -EIO, -1, "");
        ranks_expect(board, "checkpoint", 4, 0, -1, "");
        for (int i = 0; i < 2; i++)
            assert_true(node_has_record(i, 1, 2) && !node_has_record(i, 1, 3) && node_has_record(i, 1, 4));
        node_pack_path(1, 1, 4, 0, 3, path, sizeof path);
        flip_bit(path, 200);
        expect_restart(2);
        assert_int_equal(ranks_teardown(NULL), 0);
        assert_int_equal(ranks_setup(NULL), 0);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, ranks_setup, ranks_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(missed_record),
        TEST(missed_everything_newer),
        TEST(asking_first),
        TEST(damaged_record),
        TEST(damaged_writers),
        TEST(damaged_everywhere),
        TEST(lost_node),
        TEST(found_node),
        TEST(lost_pack),
        TEST(moved_ranks),
        TEST(moved_and_asked),
        TEST(fewer_ranks),
        TEST(another_store),
        TEST(forgotten),
        TEST(keeps_what_was_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
