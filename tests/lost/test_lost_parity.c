/* Nodes that are lost with their disks, where parity is kept instead of copies.
 *
 * Six nodes with parity=4+2 stand the loss of any two: everything comes back bit for bit, on the nodes that are left or
 * on empty ones. With three lost, a restart says so and takes an older checkpoint that is whole, or fails.
 *
 * Without an argument all sets of one or two lost nodes are tried, on the nodes that are left and on empty ones by
 * turns, and a sample of three; with "all" both, and all sets of three. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lives.h"
#include "test.h"

#define PARITY "parity=4+2"

static int has_all;

struct cell {
    uint32_t ranks;
    unsigned nodes, lost;
    int is_replaced;
};

static struct life next_life(const struct cell *cell, int64_t first, int64_t last) {
    struct life life = {.is_back = 1, .first = first, .last = last, .settings = PARITY};
    place_evenly(&life, cell->ranks, cell->is_replaced ? cell->nodes : cell->nodes & ~cell->lost);
    return life;
}

static struct life first_life(const struct cell *cell, const char *settings, int64_t first, int64_t last) {
    struct life life = {.first = first, .last = last, .settings = settings};
    place_evenly(&life, cell->ranks, cell->nodes);
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

static void expect_word(const char *text, const char *word) {
    if (!strstr(text, word))
        fail_msg("nothing is said of \"%s\":\n%s", word, text);
}

/* Version 3 leans on versions 1 and 2, and what is saved after the loss on nothing of theirs. */
static void comes_back(const struct cell *cell) {
    struct life life = first_life(cell, PARITY, 1, 3);
    lives_clean();
    life.killed = cell->lost;
    life.has_second = cell->lost % 2 == 0;
    expect_saved(live(&life), 3);
    lose(cell->lost, cell->is_replaced);
    life = next_life(cell, 4, 5);
    const struct lived *lived = live(&life);
    expect_back(lived, 3);
    expect_word(lived->log, "rebuilt from parity");
    expect_saved(lived, 5);
    life = next_life(cell, 1, 0);
    lived = live(&life);
    expect_back(lived, 5);
    if (strstr(lived->log, "rebuilt from parity"))
        fail_msg("it still depends on what was lost:\n%s", lived->log);
}

static void does_not(const struct cell *cell) {
    struct life life = first_life(cell, PARITY, 1, 3);
    char all[sizeof((struct lived *)0)->log + sizeof((struct lived *)0)->text + 2];
    lives_clean();
    life.killed = cell->lost;
    expect_saved(live(&life), 3);
    lose(cell->lost, cell->is_replaced);
    life = next_life(cell, 1, 0);
    const struct lived *lived = live(&life);
    int rc = lived->open_code ? lived->open_code : lived->restart_code;
    if (rc >= 0 || rc == VARVE_NO_CHECKPOINT)
        fail_msg("everything is lost, and it says %s, version %" PRId64 ": %s", varve_error_name(rc), lived->version,
                 lived->text);
    snprintf(all, sizeof all, "%s\n%s", lived->text, lived->log);
    expect_word(all, "job@3");
}

/* Version 1 is on four nodes. */
static void takes_an_older_one(const struct cell *cell) {
    struct life life = first_life(cell, "copies=4", 1, 1);
    lives_clean();
    expect_saved(live(&life), 1);
    life = first_life(cell, PARITY, 2, 3);
    life.is_back = 1;
    life.killed = cell->lost;
    expect_saved(live(&life), 3);
    lose(cell->lost, cell->is_replaced);
    life = next_life(cell, 4, 4);
    const struct lived *lived = live(&life);
    expect_back(lived, 1);
    expect_word(lived->log, "job@3");
    expect_saved(lived, 4);
    life = next_life(cell, 1, 0);
    expect_back(live(&life), 4);
}

static void tell(const struct cell *cell) {
    printf("  nodes %02x, %u ranks, lost %02x, %s\n", cell->nodes, cell->ranks, cell->lost,
           cell->is_replaced ? "replaced" : "without them");
    fflush(stdout);
}

static void any_two_of_six(void **state) {
    (void)state;
    for (unsigned lost = 1; lost < 64; lost++) {
        static const uint32_t ranks[] = {6, 12, 8};
        struct cell cell = {ranks[lost % 3], 63, lost, (int)(lost / 3 % 2)};
        if (__builtin_popcount(lost) > 2)
            continue;
        for (int both = 0; both <= has_all; both++) {
            tell(&cell);
            comes_back(&cell);
            cell.is_replaced ^= 1;
        }
    }
}

static void three_of_six(void **state) {
    (void)state;
    for (unsigned lost = 1; lost < 64; lost++) {
        struct cell cell = {6, 63, lost, (int)(lost / 2 % 2)};
        if (__builtin_popcount(lost) != 3 || (!has_all && lost != 7 && lost != 21 && lost != 56))
            continue;
        tell(&cell);
        does_not(&cell);
        if (has_all || lost == 21)
            takes_an_older_one(&cell);
    }
}

/* Fewer than six: groups are of all of them. */
static void fewer_nodes(void **state) {
    (void)state;
    for (uint32_t nodes = 2; nodes <= 5; nodes++) {
        struct cell cell = {nodes + 1, (1u << nodes) - 1, nodes == 2 ? 1 : 5, (int)nodes % 2};
        tell(&cell);
        comes_back(&cell);
    }
}

/* More: two groups, each of which stands the loss of two. */
static void more_nodes(void **state) {
    (void)state;
    for (uint32_t nodes = 7; nodes <= 12; nodes += 5) {
        struct cell cell = {nodes, (1u << nodes) - 1, 1 | 4 | 1u << (nodes - 1) | 1u << (nodes - 2), nodes == 7};
        tell(&cell);
        comes_back(&cell);
    }
}

static void two_and_then_two(void **state) {
    (void)state;
    struct cell cell = {8, 63, 3, 1};
    struct life life = first_life(&cell, PARITY, 1, 2);
    lives_clean();
    life.killed = cell.lost;
    expect_saved(live(&life), 2);
    lose(cell.lost, 1);
    life = next_life(&cell, 3, 4);
    life.killed = 12;
    expect_saved(live(&life), 4);
    lose(12, 1);
    life = next_life(&cell, 5, 5);
    const struct lived *lived = live(&life);
    expect_back(lived, 4);
    expect_saved(lived, 5);
}

/* ---- damage ---- */

static void expect_after(void (*hurt)(const char *), const char *pattern, unsigned lost, int is_back) {
    struct cell cell = {6, 63, lost, 1};
    struct life life = first_life(&cell, PARITY, 1, 1);
    lives_clean();
    expect_saved(live(&life), 1);
    hurt(pattern);
    lose(lost, 1);
    life = next_life(&cell, 2, 2);
    const struct lived *lived = live(&life);
    if (is_back) {
        expect_back(lived, 1);
        expect_saved(lived, 2);
    } else if (lived->restart_code != VARVE_CORRUPT)
        fail_msg("it says %s: %s", varve_error_name(lived->restart_code), lived->text);
}

/* Damaged parity counts as lost. What it would have given is wrong, and nobody gets it. */
static void damaged_parity(void **state) {
    (void)state;
    expect_after(lives_damage, "*/node4/*.parity", 1, 1);
    expect_after(lives_damage, "*.parity", 3, 0);
    expect_after(lives_remove, "*/node4/*.parity", 1, 1);
    expect_after(lives_remove, "*/node[45]/*.parity", 1, 0);
}

/* The job had died when all packs were sealed, and before all parity was made: adopted, but not to be depended on. */
static void adopted_without_parity(void **state) {
    (void)state;
    struct cell cell = {6, 63, 3, 1};
    struct life life = first_life(&cell, PARITY, 1, 1);
    lives_clean();
    expect_saved(live(&life), 1);
    lives_remove("*/node5/*.parity");
    lives_remove("*/writers");
    lives_remove("*/catalogue");
    lives_remove("*/record/*");
    life = first_life(&cell, PARITY, 2, 2);
    life.is_back = 1;
    life.killed = cell.lost;
    const struct lived *lived = live(&life);
    expect_saved(lived, 2);
    lose(cell.lost, 1);
    life = next_life(&cell, 1, 0);
    expect_back(live(&life), 2);
}

/* What three versions take on six nodes: packs, tables of packs, parity. Copies are in packs of others. */
static void takes_half_the_bytes(void **state) {
    static const char *const kept[] = {"copies=1", "copies=2", "copies=3", "parity=5+1", "parity=4+2", "parity=3+3"};
    uint64_t bytes[sizeof kept / sizeof *kept];
    (void)state;
    printf("  kept        stands the loss of       bytes       more\n");
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        static const int stands[] = {0, 1, 2, 1, 2, 3};
        struct cell cell = {6, 63, 0, 1};
        struct life life = first_life(&cell, kept[i], 1, 3);
        lives_clean();
        expect_saved(live(&life), 3);
        bytes[i] = lives_bytes("*/data/*");
        printf("  %-10s  %d nodes          %12" PRIu64 "     %5.1f %%\n", kept[i], stands[i], bytes[i],
               100.0 * ((double)bytes[i] / (double)bytes[0] - 1));
    }
    fflush(stdout);
    if (bytes[4] - bytes[0] > (bytes[1] - bytes[0]) * 6 / 10)
        fail_msg("parity=4+2 takes %" PRIu64 " bytes more, copies=2 %" PRIu64, bytes[4] - bytes[0],
                 bytes[1] - bytes[0]);
}

/* Before: copies, and other codes. */
static void was_kept_otherwise(void **state) {
    static const char *const before[] = {"copies=2", "copies=1", "parity=5+1"};
    (void)state;
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        struct cell cell = {6, 63, 9, 1};
        struct life life = first_life(&cell, before[i], 1, 2);
        lives_clean();
        expect_saved(live(&life), 2);
        life = first_life(&cell, PARITY, 3, 3);
        life.is_back = 1;
        expect_saved(live(&life), 3);
        lose(cell.lost, 1);
        life = next_life(&cell, 1, 0);
        expect_back(live(&life), 3);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, lives_setup, lives_teardown)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(any_two_of_six),
        TEST(three_of_six),
        TEST(fewer_nodes),
        TEST(more_nodes),
        TEST(two_and_then_two),
        TEST(damaged_parity),
        TEST(adopted_without_parity),
        TEST(was_kept_otherwise),
        TEST(takes_half_the_bytes),
    };
    has_all = argc > 1 && strcmp(argv[1], "all") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
