/* Checkpoints of some ranks that come back on others: every element is where it belongs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>

#include "group.h"
#include "moved.h"
#include "test.h"

static void comes_back_in_one_dimension(void **state) {
    struct cut cuts[6];
    const uint32_t ranks[] = {1, 2, 3, 5, 8, 16};
    (void)state;
    for (size_t i = 0; i < 6; i++)
        cuts[i] = moved_cut_of(1, ranks[i], 1, 1);
    moved_turn(cuts, 6, "");
}

static void comes_back_in_two_dimensions(void **state) {
    const struct cut cuts[] = {moved_cut_of(2, 1, 1, 1), moved_cut_of(2, 4, 1, 1), moved_cut_of(2, 1, 4, 1),
                               moved_cut_of(2, 2, 2, 1), moved_cut_of(2, 3, 2, 1), moved_cut_of(2, 1, 7, 1)};
    (void)state;
    moved_turn(cuts, 6, "");
}

static void comes_back_in_three_dimensions(void **state) {
    const struct cut cuts[] = {moved_cut_of(3, 1, 1, 1), moved_cut_of(3, 2, 2, 2), moved_cut_of(3, 1, 1, 5),
                               moved_cut_of(3, 3, 1, 2)};
    (void)state;
    moved_turn(cuts, 4, "");
}

/* As ScaLAPACK deals out a matrix: from each grid and block to each, and to blocks that lie together. */
static void comes_back_in_cyclic_blocks(void **state) {
    struct cut cuts[] = {moved_cut_of(2, 2, 3, 1), moved_cut_of(2, 3, 1, 1), moved_cut_of(2, 2, 2, 1),
                         moved_cut_of(2, 1, 1, 1), moved_cut_of(2, 4, 2, 1), moved_cut_of(2, 4, 2, 1),
                         moved_cut_of(2, 2, 2, 1)};
    /* Of rows in blocks of 80 the last of four ranks has none, and its first would be beyond the last row. */
    const uint32_t cycles[][2] = {{16, 8}, {5, 97}, {1, 1}, {7, 3}, {40, 0}, {80, 60}, {0, 0}};
    (void)state;
    for (size_t i = 0; i < 7; i++)
        memcpy(cuts[i].cycle, cycles[i], sizeof cycles[i]);
    moved_turn(cuts, 7, "");
}

/* Parts of any size, of which some are empty, and boxes that are no grid: from each to each, and to even parts. */
static void comes_back_in_irregular_parts(void **state) {
    struct cut flat[8], cube[4];
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        const uint32_t grids[3][2] = {{3, 3}, {1, 7}, {5, 2}}, boxes[3] = {16, 7, 4};
        flat[seed] = moved_drawn_cut(moved_cut_of(2, grids[seed][0], grids[seed][1], 1), UNEVEN, seed);
        flat[3 + seed] = moved_drawn_cut(moved_cut_of(2, boxes[seed], 1, 1), BOXES, seed);
    }
    flat[6] = moved_cut_of(2, 2, 3, 1);
    flat[7] = moved_cut_of(2, 3, 2, 1);
    flat[7].cycle[0] = 16;
    moved_turn(flat, 8, "");
    cube[0] = moved_drawn_cut(moved_cut_of(3, 12, 1, 1), BOXES, 7);
    cube[1] = moved_drawn_cut(moved_cut_of(3, 5, 1, 1), BOXES, 8);
    cube[2] = moved_drawn_cut(moved_cut_of(3, 2, 3, 2), UNEVEN, 9);
    cube[3] = moved_cut_of(3, 1, 2, 2);
    moved_turn(cube, 4, "block_size=64K");
}

/* However it was stored. */
static void comes_back_from_every_way_of_storing(void **state) {
    const struct cut cuts[] = {moved_cut_of(2, 4, 1, 1), moved_cut_of(2, 1, 3, 1)};
    const char *const ways[] = {"aggregate=2,codec=size", "dedup=exact,codec=zstd", "capture=sync,threads=0,dedup=none",
                                "block_size=64K,fine=64", "restart_window=1M"};
    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        moved_turn(cuts, 2, ways[i]);
}

/* A job that changes its size again and again keeps making checkpoints. */
static void goes_on_from_there(void **state) {
    const struct cut cuts[] = {moved_cut_of(2, 2, 2, 1), moved_cut_of(2, 1, 3, 1), moved_cut_of(2, 6, 1, 1),
                               moved_cut_of(2, 1, 1, 1), moved_cut_of(2, 2, 4, 1)};
    (void)state;
    moved_run(&(struct plan){.step = SAVE, .cut = cuts[0], .is_told = 1});
    for (size_t i = 1; i < 5; i++) {
        moved_run(&(struct plan){.step = GO_ON, .cut = cuts[i], .is_told = 1});
        moved_check_store();
    }
    moved_run(&(struct plan){.step = RESTART, .cut = cuts[0], .is_told = 1});
}

/* Data that stays as it is refers to what the ranks before have stored, whose numbers may be higher or fewer. */
static void unchanged_data_is_found_again(void **state) {
    const struct cut wide = moved_cut_of(2, 1, 8, 1), narrow = moved_cut_of(2, 1, 2, 1),
                     other = moved_cut_of(2, 3, 1, 1);
    char command[400];
    (void)state;
    moved_run(&(struct plan){.step = SAVE, .cut = narrow, .is_told = 1});
    const struct cut cuts[] = {wide, wide, other, narrow, narrow};
    for (size_t i = 0; i < 5; i++) {
        moved_run(&(struct plan){.step = GO_ON, .cut = cuts[i], .is_told = 1, .is_kept = 1, .settings = "keep=all"});
        moved_check_store();
    }
    snprintf(command, sizeof command, "%s compact file://%s grid >/dev/null", VARVE_TOOL, moved_folder);
    assert_int_equal(system(command), 0);
    moved_check_store();
    moved_run(&(struct plan){.step = RESTART, .cut = other, .is_told = 1});
}

/* As many ranks, another share of the list. */
static void a_list_is_shared_anew_by_as_many_ranks(void **state) {
    (void)state;
    moved_run(&(struct plan){.step = SAVE, .cut = moved_cut_of(1, 3, 1, 1), .is_told = 1, .is_even = 1});
    moved_run(&(struct plan){.step = RESTART, .cut = moved_cut_of(1, 3, 1, 1), .is_told = 1});
}

/* The same number of ranks, the same sizes, other blocks: never put back in the order of ranks. */
static void another_grid_of_as_many_ranks(void **state) {
    struct cut rows = {.dims = 2, .size = {64, 64}, .grid = {4, 1, 1}};
    struct cut tiles = {.dims = 2, .size = {64, 64}, .grid = {2, 2, 1}};
    (void)state;
    moved_run(&(struct plan){.step = SAVE, .cut = rows, .is_told = 1});
    moved_run(&(struct plan){.step = RESTART, .cut = tiles, .is_told = 1});
}

/* Chosen regions, in steps, and with something that was never stored: on as many ranks with other blocks, and on
 * others. */
static void comes_back_in_all_ways(void **state) {
    const struct cut rows = moved_cut_of(2, 4, 1, 1),
                     others[] = {moved_cut_of(2, 2, 2, 1), moved_cut_of(2, 1, 3, 1), moved_cut_of(2, 5, 1, 1)};
    (void)state;
    moved_run(&(struct plan){.step = SAVE, .cut = rows, .is_told = 1});
    for (size_t i = 0; i < 3; i++) {
        const struct plan plan = {.step = RESTART, .cut = others[i], .is_told = 1};
        struct plan other = plan;
        other.chosen = "field";
        moved_run(&other);
        if (i > 0) { /* bytes as they are, and there are none of this rank's */
            other.flags = VARVE_RESTART_RESIZE;
            other.code = VARVE_MISMATCH;
            moved_run(&other);
        }
        other = plan;
        other.has_extra = 1;
        other.code = VARVE_MISMATCH;
        moved_run(&other);
        other.flags = VARVE_RESTART_MISSING;
        other.code = 0;
        moved_run(&other);
        other = plan;
        other.is_begun = 1;
        other.step = GO_ON;
        moved_run(&other);
        moved_run(&(struct plan){.step = GO_ON, .cut = rows, .is_told = 1});
    }
}

/* A session that has come back once, in another order of its regions than they are stored in, and then with others. */
static void again_in_one_session(struct varve_comm *comm, void *arg) {
    struct rank rank = {.plan = arg, .comm = comm};
    uint64_t last[600];
    int64_t version;
    moved_cut_out(&rank);
    moved_share_list(&rank);
    moved_open_session(&rank);
    moved_protect(&rank);
    moved_save(&rank, 1, 7);
    if (varve_close(rank.session) != 0)
        group_fail(comm, "close failed");
    moved_open_session(&rank);
    memcpy(last, rank.everywhere, sizeof last);
    if (varve_protect(rank.session, "everywhere", rank.everywhere, sizeof rank.everywhere) != 0)
        group_fail(comm, "protect: %s", varve_session_error(rank.session)->text);
    moved_protect(&rank);
    moved_restart(&rank);
    varve_unprotect(rank.session, "field");
    struct cut cut = rank.plan->cut;
    struct plan plan = {.cut = {.dims = 2, .size = {cut.size[0], cut.size[1]}, .grid = {cut.grid[1], cut.grid[0], 1}}};
    free(rank.field);
    rank.plan = &plan;
    moved_cut_out(&rank);
    if (varve_protect_array(rank.session, "field", rank.field, &rank.array) != 0 ||
        varve_restart(rank.session, VARVE_LATEST, &version) != 0)
        group_fail(comm, "second restart: %s", varve_session_error(rank.session)->text);
    moved_check(&rank, 7, comm->ranks);
    moved_save(&rank, 2, 8);
    memset(rank.field, 0, rank.count * sizeof *rank.field);
    if (varve_restart(rank.session, VARVE_LATEST, &version) != 0 || version != 2)
        group_fail(comm, "third restart: %s", varve_session_error(rank.session)->text);
    moved_check(&rank, 8, comm->ranks);
    if (memcmp(last, rank.everywhere, sizeof last) == 0 || varve_close(rank.session) != 0)
        group_fail(comm, "close failed");
    free(rank.field);
}

static void comes_back_again_in_one_session(void **state) {
    const struct plan plan = {.cut = {.dims = 2, .size = {64, 64}, .grid = {4, 1, 1}}, .is_told = 1};
    (void)state;
    group_must_run(4, again_in_one_session, &plan, NULL, "rows, then columns");
    moved_check_store();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, moved_setup, moved_teardown)

/* ---- all of it, which takes long ---- */

static unsigned long first, count;

/* So many ranks, in as many rows and columns and layers as they have. */
static struct cut even_cut(unsigned dims, uint32_t ranks) {
    uint32_t grid[DIMS_MOST] = {ranks, 1, 1};
    for (unsigned i = 1; i < dims; i++)
        for (uint32_t parts = 4; parts > 1 && grid[i] == 1; parts--)
            if (grid[0] % parts == 0 && grid[0] > parts) {
                grid[0] /= parts;
                grid[i] = parts;
            }
    return moved_cut_of(dims, grid[0], grid[1], grid[2]);
}

/* Numbers 0 to 47: from 1 to 16 ranks in one, two and three dimensions, each to all of 1 to 16. From 48 to 63 the same
 * in two dimensions, which are dealt out in blocks, or one of them. */
static void comes_back_from_all_to_all(void **state) {
    struct cut cuts[16];
    (void)state;
    for (unsigned long number = first; number < first + count; number++) {
        for (uint32_t i = 0; i < 16; i++)
            cuts[i] = even_cut(number < 48 ? (unsigned)(number / 16) + 1 : 2, i + 1);
        for (uint32_t i = 0; number >= 48 && i < 16; i++)
            memcpy(cuts[i].cycle, (uint32_t[]){i % 2 ? 8 : 0, i % 3 ? 5 : 1}, 2 * sizeof cuts[i].cycle[0]);
        moved_teardown(NULL);
        moved_setup(NULL);
        moved_run(&(struct plan){.step = SAVE, .cut = cuts[number % 16], .is_told = 1});
        for (size_t to = 0; to < 16; to++)
            moved_run(&(struct plan){.step = RESTART, .cut = cuts[to], .is_told = 1});
    }
    printf("elastic: %lu points\n", count * 16);
}

static uint64_t chance;
static uint32_t by_chance(uint32_t below) {
    chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(chance >> 33) % below;
}

/* Of at most 16 ranks: any boxes, or any grid. Of grids some are cut at any places, and of the others a third of the
 * dimensions is dealt out in blocks. */
static void random_cut(struct cut *cut) {
    const int shapes[] = {EVEN, EVEN, UNEVEN, BOXES};
    uint32_t left = 16;
    *cut = moved_drawn_cut(*cut, shapes[by_chance(4)], by_chance(UINT32_C(1) << 30));
    for (unsigned i = 0; i < cut->dims; i++) {
        cut->grid[i] = cut->shape == BOXES ? (i ? 1 : 1 + by_chance(16)) : 1 + by_chance(left < 7 ? left : 7);
        left /= cut->grid[i];
        cut->cycle[i] = cut->shape != EVEN || by_chance(3) ? 0 : 1 + by_chance(40);
    }
}

static void comes_back_by_chance(void **state) {
    static const char *const ways[] = {"", "aggregate=4", "codec=size", "dedup=exact", "block_size=64K", "fine=64"};
    (void)state;
    for (unsigned long number = first; number < first + count; number++) {
        struct cut cut = {.size = {1, 1, 1}, .grid = {1, 1, 1}};
        chance = number;
        cut.dims = 1 + by_chance(3);
        for (unsigned i = 0; i < cut.dims; i++)
            cut.size[i] = by_chance(cut.dims == 1 ? 20000 : cut.dims == 2 ? 200 : 40);
        struct plan plan = {.step = SAVE, .is_told = 1, .settings = ways[by_chance(6)]};
        moved_teardown(NULL);
        moved_setup(NULL);
        random_cut(&cut);
        plan.cut = cut;
        moved_run(&plan);
        for (int i = 0; i < 2; i++) {
            random_cut(&cut);
            plan.step = i ? RESTART : GO_ON;
            plan.cut = cut;
            moved_run(&plan);
        }
    }
    printf("elastic: %lu points\n", count);
}

/* As many ranks as before, and rank 0 alone has stored the regions. */
struct lone {
    int is_restart;
    unsigned flags;  /* of varve_restart_regions */
    const char *has; /* "array", "list" or "copy" */
};

/* The last ones of the hundred. */
static void protect_lone(struct rank *rank, const struct lone *lone, uint64_t *data, uint64_t rows) {
    struct varve_array array = {.size = sizeof array, .type = VARVE_U64, .dims = 1, .dim = {{rows, 100 - rows, 100}}};
    int is_copy = strcmp(lone->has, "copy") == 0, is_list = strcmp(lone->has, "list") == 0;
    int rc = is_copy || is_list ? varve_protect(rank->session, "lone", data, rows * 8)
                                : varve_protect_array(rank->session, "lone", data, &array);
    if (rc == 0 && (is_copy || is_list))
        rc = varve_distribute(rank->session, "lone", is_copy ? VARVE_REPLICATED : VARVE_JOINED);
    if (rc)
        group_fail(rank->comm, "protect: %s", varve_session_error(rank->session)->text);
}

static void store_lone(struct varve_comm *comm, void *arg) {
    const struct lone *lone = arg;
    const struct plan plan = {.settings = ""};
    struct rank rank = {.plan = &plan, .comm = comm};
    uint64_t wanted = comm->rank == 0 || lone->has[0] == 'c' ? 100 : lone->has[0] == 'l' ? 0 : 30;
    uint64_t data[100], own = comm->rank + 1, fresh = 5;
    for (uint64_t i = 0; i < 100; i++)
        data[i] = lone->is_restart ? 0 : i + 1;
    moved_open_session(&rank);
    int rc = varve_protect(rank.session, "own", &own, sizeof own);
    if (comm->rank == 0 || lone->is_restart)
        protect_lone(&rank, lone, data, wanted);
    if (lone->flags)
        rc = varve_protect(rank.session, "fresh", &fresh, sizeof fresh);
    own += lone->is_restart * 10;
    if (rc == 0 && !lone->is_restart)
        rc = varve_checkpoint(rank.session, 1) || varve_wait(rank.session);
    else if (rc == 0)
        rc = varve_restart_regions(rank.session, VARVE_LATEST, NULL, 0, lone->flags, NULL);
    if (rc)
        group_fail(comm, "%d: %s", rc, varve_session_error(rank.session)->text);
    for (uint64_t i = 0; lone->is_restart && i < wanted; i++)
        if (data[i] != 100 - wanted + i + 1)
            group_fail(comm, "WRONG: %d is %d", (int)i, (int)data[i]);
    if (own != comm->rank + 1 || fresh != 5 || varve_close(rank.session) != 0)
        group_fail(comm, "WRONG: own %d, fresh %d", (int)own, (int)fresh);
}

/* Whoever has stored none of it gets its part all the same, also where regions that are not stored are left alone. */
static void who_has_stored_none_gets_it(void **state) {
    static const char *const all[] = {"array", "list", "copy"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        moved_teardown(NULL);
        moved_setup(NULL);
        group_must_run(3, store_lone, &(struct lone){.has = all[i]}, NULL, all[i]);
        group_must_run(3, store_lone, &(struct lone){1, 0, all[i]}, NULL, all[i]);
        group_must_run(3, store_lone, &(struct lone){1, VARVE_RESTART_MISSING, all[i]}, NULL, all[i]);
    }
}

/* test_elastic [all|chance FIRST COUNT] */
int main(int argc, char **argv) {
    if (argc == 4) {
        const struct CMUnitTest all[] = {TEST(comes_back_from_all_to_all)}, some[] = {TEST(comes_back_by_chance)};
        first = strtoul(argv[2], NULL, 10);
        count = strtoul(argv[3], NULL, 10);
        return strcmp(argv[1], "all") == 0 ? cmocka_run_group_tests(all, NULL, NULL)
                                           : cmocka_run_group_tests(some, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {
        TEST(comes_back_in_one_dimension),
        TEST(comes_back_in_two_dimensions),
        TEST(comes_back_in_three_dimensions),
        TEST(comes_back_in_cyclic_blocks),
        TEST(comes_back_in_irregular_parts),
        TEST(comes_back_from_every_way_of_storing),
        TEST(goes_on_from_there),
        TEST(unchanged_data_is_found_again),
        TEST(a_list_is_shared_anew_by_as_many_ranks),
        TEST(another_grid_of_as_many_ranks),
        TEST(comes_back_in_all_ways),
        TEST(comes_back_again_in_one_session),
        TEST(who_has_stored_none_gets_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
