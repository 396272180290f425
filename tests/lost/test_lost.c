/* Nodes that are lost with their disks: what comes back, and what is said about what does not.
 *
 * Rank r's data is on its own node and, with `copies`, on the next copies - 1 nodes of the ring. So nothing is lost as
 * long as no node is lost together with all those that have its copies; then everything comes back bit for bit, on the
 * nodes that are left or on empty ones. Otherwise the restart says what is lost and takes an older checkpoint that is
 * whole, or fails; it never looks as if there had been none.
 *
 * Without an argument a sample is tried; with "all", every set of one or two lost nodes out of three and four, both on
 * the nodes that are left and on empty ones, or, if TEST_SCALE asks for less, on these and those by turns. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "lives.h"
#include "test.h"

static int has_all;

struct cell {
    int nodes, copies;
    unsigned lost;
    int is_replaced;
};

/* The nodes of which nothing is left: lost together with all that had copies of them. */
static unsigned without_copies(const struct cell *cell) {
    unsigned nodes = 0;
    for (int node = 0; node < cell->nodes; node++) {
        int left = 0;
        for (int i = 0; i < cell->copies; i++)
            left += !(cell->lost >> (node + i) % cell->nodes & 1);
        nodes |= (unsigned)!left << node;
    }
    return nodes;
}

static uint32_t ranks_of(const struct cell *cell) {
    return 2 * (uint32_t)cell->nodes;
}

static unsigned all_nodes(const struct cell *cell) {
    return (1u << cell->nodes) - 1;
}

/* The life that is there from the beginning, and the one after the loss. */
static struct life first_life(const struct cell *cell, int copies, int64_t first, int64_t last) {
    struct life life = {.copies = copies, .first = first, .last = last};
    place_evenly(&life, ranks_of(cell), all_nodes(cell));
    return life;
}

static struct life next_life(const struct cell *cell, int64_t first, int64_t last) {
    struct life life = {.copies = cell->copies, .is_back = 1, .first = first, .last = last};
    place_evenly(&life, ranks_of(cell), cell->is_replaced ? all_nodes(cell) : all_nodes(cell) & ~cell->lost);
    return life;
}

static void expect_saved(const struct lived *lived, int64_t version) {
    if (lived->open_code || lived->restart_code || lived->save_code || lived->saved != version)
        fail_msg("version %" PRId64 " was not saved (%d, %d, %d): %s", version, lived->open_code, lived->restart_code,
                 lived->save_code, lived->text);
}

static void expect_back(const struct lived *lived, int64_t version) {
    if (lived->open_code || lived->restart_code || lived->version != version)
        fail_msg("it did not come back with version %" PRId64 ", but with %" PRId64 " (open %s, restart %s): %s\n%s",
                 version, lived->version, varve_error_name(lived->open_code), varve_error_name(lived->restart_code),
                 lived->text, lived->log);
}

/* ---- what is said ---- */

static int has_word(const char *line, size_t size, const char *word) {
    size_t length = strlen(word);
    for (size_t i = 0; i + length <= size; i++)
        if (strncmp(line + i, word, length) == 0 && (i + length == size || !strchr("0123456789", line[i + length])))
            return 1;
    return 0;
}

static int names_a_region(const char *line, size_t size) {
    for (int i = 0; i < LOST_REGIONS; i++)
        if (has_word(line, size, lost_region(i)))
            return 1;
    return 0;
}

/* One line that names the version, and one that names this rank and regions of it. */
static void expect_said(const char *text, int64_t version, unsigned ranks) {
    char word[32];
    snprintf(word, sizeof word, "job@%" PRId64, version);
    if (!has_word(text, strlen(text), word))
        fail_msg("nothing is said about %s:\n%s", word, text);
    for (int rank = 0; ranks >> rank; rank++) {
        int is_said = !(ranks >> rank & 1);
        snprintf(word, sizeof word, "rank %d", rank);
        for (const char *line = text; *line && !is_said; line += strcspn(line, "\n"), line += *line == '\n') {
            size_t size = strcspn(line, "\n");
            is_said = has_word(line, size, word) && names_a_region(line, size);
        }
        if (!is_said)
            fail_msg("nothing is said about the regions that rank %d has lost:\n%s", rank, text);
    }
}

/* ---- the matrix ---- */

/* Version 1 has three copies, versions 2 and 3 as many as asked for. */
static void with_an_older_one(const struct cell *cell) {
    struct life life = first_life(cell, 3, 1, 1);
    expect_saved(live(&life), 1);
    life = first_life(cell, cell->copies, 2, 3);
    life.is_back = 1;
    life.killed = cell->lost;
    unsigned ranks = ranks_on(&life, without_copies(cell));
    expect_saved(live(&life), 3);
    lose(cell->lost, cell->is_replaced);
    life = next_life(cell, 4, 5);
    const struct lived *lived = live(&life);
    expect_back(lived, ranks ? 1 : 3);
    if (ranks)
        expect_said(lived->log, 3, ranks);
    expect_saved(lived, 5);
    life = next_life(cell, 1, 0);
    expect_back(live(&life), 5);
}

/* All versions have as many copies as asked for. */
static void without_an_older_one(const struct cell *cell) {
    struct life life = first_life(cell, cell->copies, 1, 3);
    char all[sizeof((struct lived *)0)->log + sizeof((struct lived *)0)->text];
    life.killed = cell->lost;
    unsigned ranks = ranks_on(&life, without_copies(cell));
    expect_saved(live(&life), 3);
    lose(cell->lost, cell->is_replaced);
    life = next_life(cell, 1, 0);
    const struct lived *lived = live(&life);
    if (!ranks) {
        expect_back(lived, 3);
        return;
    }
    int rc = lived->open_code ? lived->open_code : lived->restart_code;
    if (rc >= 0 || rc == VARVE_NO_CHECKPOINT)
        fail_msg("everything is lost, and it says %s, version %" PRId64 ": %s", varve_error_name(rc), lived->version,
                 lived->text);
    snprintf(all, sizeof all, "%s\n%s", lived->text, lived->log);
    expect_said(all, 3, ranks);
}

static void try_cell(const struct cell *cell) {
    printf("  %d nodes, lost %s%s%s%s, %d copies, %s\n", cell->nodes, cell->lost & 1 ? "0" : "",
           cell->lost & 2 ? "1" : "", cell->lost & 4 ? "2" : "", cell->lost & 8 ? "3" : "", cell->copies,
           cell->is_replaced ? "replaced" : "without them");
    fflush(stdout);
    lives_clean();
    with_an_older_one(cell);
    if (!has_all && !without_copies(cell))
        return;
    lives_clean();
    without_an_older_one(cell);
}

static void try_sets(int nodes, int copies) {
    for (unsigned lost = 1; lost < 1u << nodes; lost++) {
        struct cell cell = {.nodes = nodes, .copies = copies, .lost = lost};
        int is_sample = nodes == 3 ? lost == 2 || lost == 3 : lost == 5 || (lost == 3 && copies > 1);
        if (__builtin_popcount(lost) > 2 || (!has_all && !is_sample))
            continue;
        cell.is_replaced = (nodes + copies + (int)lost) % 2;
        try_cell(&cell);
        cell.is_replaced ^= 1;
        if (has_all && lives_scale() == 100)
            try_cell(&cell);
    }
}

static void three_nodes(void **state) {
    (void)state;
    for (int copies = 1; copies <= 3; copies++)
        try_sets(3, copies);
}

static void four_nodes(void **state) {
    (void)state;
    for (int copies = 1; copies <= 3; copies++)
        try_sets(4, copies);
}

/* ---- one after the other ---- */

/* A node is lost, the job goes on for three checkpoints, and loses another one: each time it has two copies of all. */
static void one_and_then_another(void **state) {
    (void)state;
    for (int is_replaced = 0; is_replaced < 2; is_replaced++)
        for (unsigned then = 0; then < 4; then++) {
            struct cell cell = {.nodes = 4, .copies = 2, .lost = 2, .is_replaced = is_replaced};
            struct life life = first_life(&cell, 2, 1, 3);
            if ((then == 1 && !is_replaced) || (!has_all && then == 3))
                continue;
            lives_clean();
            life.killed = cell.lost;
            expect_saved(live(&life), 3);
            lose(cell.lost, is_replaced);
            life = next_life(&cell, 4, 6);
            life.killed = 1u << then;
            const struct lived *lived = live(&life);
            expect_back(lived, 3);
            expect_saved(lived, 6);
            lose(life.killed, is_replaced);
            cell.lost |= life.killed;
            life = next_life(&cell, 7, 7);
            lived = live(&life);
            expect_back(lived, 6);
            expect_saved(lived, 7);
        }
}

/* ---- nothing is lost ---- */

/* The ranks are on other nodes than before. */
static void ranks_move(void **state) {
    struct cell cell = {.nodes = 3};
    (void)state;
    for (int copies = 1; copies <= 2; copies++) {
        struct life life = first_life(&cell, copies, 1, 2);
        lives_clean();
        expect_saved(live(&life), 2);
        life.is_back = 1;
        life.first = 3;
        life.last = 4;
        for (uint32_t rank = 0; rank < life.ranks; rank++)
            life.node_of[rank] = (rank + 1) % 3;
        const struct lived *lived = live(&life);
        expect_back(lived, 2);
        expect_saved(lived, 4);
        life.first = 5;
        life.last = 0;
        for (uint32_t rank = 0; rank < life.ranks; rank++)
            life.node_of[rank] =
                copies == 1 ? rank / 3 * 2 + (rank == 1) : rank < 4; /* with copies, one fewer will do */
        expect_back(live(&life), 4);
    }
}

/* ---- fewer copies before than now ---- */

/* Saves up to version 4 from what is there, loses a node, and must come back with it: nothing may depend on what had no
 * copies. */
static void save_lose_return(int copies, unsigned nodes, uint32_t ranks, int64_t first, unsigned lost) {
    struct life life = {.copies = copies, .is_back = 1, .first = first, .last = 4};
    place_evenly(&life, ranks, nodes);
    expect_saved(live(&life), 4);
    lose(lost, 1);
    life.first = 5;
    life.last = 0;
    expect_back(live(&life), 4);
}

static void copies_were_fewer(void **state) {
    (void)state;
    struct life life = {.copies = 1, .first = 1, .last = 1};
    lives_clean();
    place_evenly(&life, 6, 7);
    expect_saved(live(&life), 1);
    save_lose_return(2, 7, 6, 2, 2);
}

static void nodes_were_fewer(void **state) {
    (void)state;
    struct life life = {.copies = 2, .first = 1, .last = 2};
    lives_clean();
    place_evenly(&life, 4, 1);
    expect_saved(live(&life), 2);
    save_lose_return(2, 3, 4, 3, 1);
}

/* The job had died when all packs were sealed, and some copies of their tables were not made: adopted, but not to be
 * depended on. */
static void adopted_without_tables(void **state) {
    static const char *const unmade[] = {"*.copy", "*/node2/*.copy"};
    static const unsigned lost[] = {2, 3};
    (void)state;
    for (int copies = 2; copies <= 3; copies++) {
        struct life life = {.copies = copies, .first = 1, .last = 1};
        lives_clean();
        place_evenly(&life, 6, 7);
        expect_saved(live(&life), 1);
        lives_remove(unmade[copies - 2]);
        lives_remove("*/writers");
        lives_remove("*/catalogue");
        lives_remove("*/record/*");
        save_lose_return(copies, 7, 6, 2, lost[copies - 2]);
    }
}

/* The writers list of an older attempt is on every node: one of them is enough. */
static void damaged_list_on_one_node(void **state) {
    (void)state;
    struct life life = {.copies = 2, .first = 1, .last = 3};
    lives_clean();
    place_evenly(&life, 6, 7);
    expect_saved(live(&life), 3);
    lives_damage("*/node1/*/0000000000000001/*/writers");
    life.is_back = 1;
    life.first = 4;
    life.last = 0;
    expect_back(live(&life), 3);
    expect_back(live(&life), 3); /* and it was mended */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, lives_setup, lives_teardown)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(three_nodes),       TEST(four_nodes),       TEST(one_and_then_another),   TEST(ranks_move),
        TEST(copies_were_fewer), TEST(nodes_were_fewer), TEST(adopted_without_tables), TEST(damaged_list_on_one_node),
    };
    has_all = argc > 1 && strcmp(argv[1], "all") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
