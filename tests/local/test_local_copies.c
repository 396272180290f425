/* Nodes that are lost, while everything is kept on several of them. Each restart compares all bytes (ranks.h). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <varve/varve_inspect.h>

#include "nodes.h"
#include "test.h"

static struct plan make = {.fn = node_make_store, .value = 3, .faulty_rank = -1};
static struct plan back = {.fn = node_come_back, .faulty_rank = -1};

static void set_copies(const char *settings) {
    make.settings = back.settings = settings;
}

/* A restart from this version, and one more checkpoint after it if `next` is not 0. */
static const struct board *come_back(int64_t version, int64_t next) {
    back.value = next;
    const struct board *board = ranks_run(&back);
    ranks_expect(board, "restart", 1, 0, -1, "");
    assert_int_equal(ranks_answer(board, "restart", 1)->version, version);
    if (next)
        ranks_expect(board, "checkpoint", 1, 0, -1, "");
    return board;
}

static void begin_again(void) {
    assert_int_equal(ranks_teardown(NULL), 0);
    assert_int_equal(ranks_setup(NULL), 0);
}

/* One of two nodes, and it is replaced by an empty one; two ranks each. Then the other. */
static void replaced_node(void **state) {
    (void)state;
    for (int node = 0; node < 2; node++) {
        set_copies(node ? "copies=2" : "threads=2"); /* 2 is the default there */
        nodes_place(0, 0, 1, 1);
        ranks_run(&make);
        node_lose(node);
        const struct board *board = come_back(3, 4);
        assert_non_null(strstr(board->log[0], "were read from copies"));
        board = come_back(4, 5);
        assert_null(strstr(board->log[0], "were read from copies")); /* version 4 was stored anew, with copies */
        node_lose(1 - node);
        come_back(5, 0);
        begin_again();
    }
}

/* The ranks of the lost node go on elsewhere. */
static void fewer_nodes(void **state) {
    (void)state;
    set_copies("copies=2");
    for (int node = 0; node < 4; node++) {
        nodes_place(0, 1, 2, 3);
        ranks_run(&make);
        node_lose(node);
        int other = (node + 2) % 4;
        nodes_place(node == 0 ? other : 0, node == 1 ? other : 1, node == 2 ? other : 2, node == 3 ? other : 3);
        come_back(3, 4);
        come_back(4, 0);
        begin_again();
    }
}

/* What is expected when `lost` of `nodes` nodes next to each other go, with so many copies. */
static void lose_nodes(int nodes, int first, int lost, int copies) {
    char settings[32];
    snprintf(settings, sizeof settings, "copies=%d", copies);
    set_copies(settings);
    nodes_place(0, 1, 2, nodes == 4 ? 3 : 0);
    ranks_run(&make);
    for (int i = 0; i < lost; i++)
        node_lose((first + i) % nodes);
    if (lost < copies)
        come_back(3, 4);
    else {
        const struct board *board = ranks_run(&back);
        ranks_expect(board, "restart", 1, VARVE_CORRUPT, -1, "lost");
    }
    begin_again();
}

static void any_nodes(void **state) {
    (void)state;
    for (int nodes = 3; nodes <= 4; nodes++)
        for (int lost = 1; lost <= 2; lost++)
            for (int copies = 1; copies <= 3; copies++)
                for (int first = 0; first < nodes; first += ranks_stride())
                    lose_nodes(nodes, first, lost, copies);
}

/* Two nodes that are not next to each other: no copy of anything is on both. */
static void two_apart(void **state) {
    (void)state;
    set_copies("copies=2");
    nodes_place(0, 1, 2, 3);
    ranks_run(&make);
    node_lose(0);
    node_lose(2);
    come_back(3, 4);
    node_lose(1);
    node_lose(3);
    come_back(4, 0);
}

/* Lose a node, go on for three checkpoints, lose another. */
static void one_after_another(void **state) {
    (void)state;
    set_copies("copies=2");
    nodes_place(0, 1, 2, 3);
    ranks_run(&make);
    for (int64_t version = 3, node = 1; version < 12; version += 3, node = (node + 1) % 4) {
        node_lose((int)node);
        for (int64_t i = 0; i < 3; i++)
            come_back(version + i, version + i + 1);
    }
}

/* The newest is lost, since its copies were switched off; the one before is not. */
static void older_is_whole(void **state) {
    (void)state;
    nodes_place(0, 0, 1, 1);
    set_copies("copies=2");
    ranks_run(&make);
    set_copies("copies=1");
    come_back(3, 4);
    node_lose(1);
    set_copies("copies=2");
    const struct board *board = come_back(3, 5);
    assert_non_null(strstr(board->log[0], "version 4: regions field, step of rank 2 are lost"));
    come_back(5, 0);
}

/* What was stored once is not depended on when everything shall be kept twice. */
static void more_copies(void **state) {
    (void)state;
    for (int node = 0; node < 2; node++) {
        nodes_place(0, 0, 1, 1);
        set_copies("copies=1");
        ranks_run(&make);
        set_copies("copies=2");
        come_back(3, 4);
        come_back(4, 5);
        node_lose(node);
        come_back(5, 0);
        begin_again();
    }
}

/* A single object is damaged or gone. */
static void damaged_objects(void **state) {
    char path[512];
    (void)state;
    set_copies("copies=2");
    for (int how = 0; how < 4; how++) {
        nodes_place(0, 0, 1, 1);
        ranks_run(&make);
        node_pack_path(1, 1, 3, 0, 2, path, sizeof path);
        if (how == 0)
            remove_file(path);
        else if (how == 1)
            assert_int_equal(truncate(path, 100), 0);
        else
            flip_bit(path, how == 2 ? 40 : 100); /* head; first block */
        const struct board *board = come_back(3, 4);
        assert_non_null(strstr(board->log[0], "were read from copies"));
        board = come_back(4, 0);
        assert_null(strstr(board->log[0], "were read from copies"));
        begin_again();
    }
}

static void take_finding(void *arg, int level, const char *key, const char *text) {
    (void)key;
    if (level < 2)
        snprintf(arg, 512, "%.511s", text);
}

/* Seen alone, a node's store with copies in it is sound. */
static void one_node_alone(void **state) {
    (void)state;
    set_copies("copies=2");
    nodes_place(0, 0, 1, 1);
    ranks_run(&make);
    nodes_place(1, 0, 0, 1);
    come_back(3, 4);
    come_back(4, 5);
    for (int node = 0; node < 2; node++) {
        struct varve_verify_result result = {0};
        struct varve_store *store;
        struct varve_error error = {0};
        char folder[512], text[512] = "";
        node_folder(node, folder, sizeof folder);
        assert_int_equal(varve_store_open(folder, "log=error", &store, &error), 0);
        struct varve_verify_options options = {.size = sizeof options, .finding = take_finding, .arg = text};
        if (varve_store_verify(store, &options, &result, &error) != 0)
            fail_msg("%s", error.text);
        if (result.damaged_objects + result.lost_checkpoints)
            fail_msg("node %d: %s", node, text);
        varve_store_close(store);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, ranks_setup, ranks_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {TEST(replaced_node),     TEST(fewer_nodes),     TEST(any_nodes),
                                       TEST(two_apart),         TEST(more_copies),     TEST(older_is_whole),
                                       TEST(one_after_another), TEST(damaged_objects), TEST(one_node_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
