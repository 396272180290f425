/* What a restart on other ranks refuses before a byte is written, what it warns of, and what it must not be led astray
 * by. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>

#include "group.h"
#include "moved.h"
#include "test.h"

static void what_belongs_to_one_rank_is_refused(void **state) {
    (void)state;
    moved_run(&(struct plan){.step = SAVE, .cut = moved_cut_of(1, 4, 1, 1)});
    moved_run(&(struct plan){.step = RESTART, .cut = moved_cut_of(1, 3, 1, 1), .code = VARVE_MISMATCH});
}

static void refuses(const struct plan *save, struct cut other, const char *says) {
    moved_run(save);
    moved_run(&(struct plan){.step = RESTART, .cut = other, .is_told = 1, .code = VARVE_MISMATCH, .says = says});
}

/* Whole blocks with equal bytes count once, others are refused: as `varve show` and `varve verify` say it. */
static void what_is_there_twice_must_be_equal(void **state) {
    const struct cut others[] = {moved_cut_of(1, 1, 1, 1), moved_cut_of(1, 3, 1, 1)};
    (void)state;
    moved_run(&(struct plan){.step = SAVE, .cut = moved_cut_of(1, 4, 1, 1), .is_told = 1, .is_copied = 1});
    *moved_warned = 0;
    for (int i = 0; i < 2; i++)
        moved_run(&(struct plan){.step = RESTART, .cut = others[i], .is_told = 1});
    assert_int_equal(*moved_warned, 0);
    moved_check_store();
    for (int i = 0; i < 2; i++)
        refuses(
            &(struct plan){.step = SAVE, .cut = moved_cut_of(1, 4, 1, 1), .is_told = 1, .is_copied = 1, .is_torn = 1},
            others[i], "region field: ranks 0 and 2 have stored different bytes of [0:4500]: say with");
    refuses(&(struct plan){.step = SAVE, .cut = moved_cut_of(2, 3, 1, 1), .is_told = 1, .has_overlap = 1},
            moved_cut_of(2, 1, 1, 1),
            "region field: ranks 0 and 1 have both stored [69:70, 0:97]: each rank protects only");
}

static void what_is_missing_is_named(void **state) {
    const struct plan save = {.step = SAVE, .cut = moved_cut_of(1, 3, 1, 1), .is_told = 1, .has_hole = 1};
    (void)state;
    refuses(&save, moved_cut_of(1, 1, 1, 1),
            "region field: no rank has stored [6000:9001], which rank 0 wants: 3001 of its 9001 elements are missing");
    refuses(&save, moved_cut_of(1, 2, 1, 1),
            "region field: no rank has stored [6000:9001], which rank 1 wants: 3001 of its 4501 elements are missing");
    refuses(&(struct plan){.step = SAVE, .cut = moved_cut_of(1, 6, 1, 1), .is_told = 1, .is_copied = 1, .has_hole = 1},
            moved_cut_of(1, 2, 1, 1),
            "region field: no rank has stored [6000:9001], which rank 1 wants: 3001 of its 4501 elements are missing");
    refuses(&(struct plan){.step = SAVE, .cut = moved_cut_of(2, 3, 1, 1), .is_told = 1, .has_gap = 1},
            moved_cut_of(2, 1, 2, 1),
            "region field: no rank has stored [210:211, 0:48], which rank 0 wants: 48 of its 10128 elements are");
}

static void a_list_of_another_length_is_refused(void **state) {
    (void)state;
    moved_run(&(struct plan){.step = SAVE, .cut = moved_cut_of(1, 3, 1, 1), .is_told = 1});
    moved_run(&(struct plan){
        .step = RESTART, .cut = moved_cut_of(1, 4, 1, 1), .is_told = 1, .is_short = 1, .code = VARVE_MISMATCH});
}

/* Also met where every rank protects its own part without a word on the whole. */
static void another_whole_is_refused(void **state) {
    struct cut rows = {.dims = 2, .size = {64, 64}, .grid = {4, 1, 1}};
    struct cut more = {.dims = 2, .size = {66, 64}, .grid = {3, 1, 1}};
    (void)state;
    refuses(&(struct plan){.step = SAVE, .cut = rows, .is_told = 1}, more,
            "and 66 in what is protected; say where each rank's part lies, or VARVE_JOINED if it is a list");
}

/* What was never stored is missed, and what was asked for in another way is not put back by rank. */
static void nothing_is_restored_by_halves(void **state) {
    struct cut rows = {.dims = 2, .size = {64, 64}, .grid = {4, 1, 1}};
    struct cut tiles = {.dims = 2, .size = {64, 64}, .grid = {2, 2, 1}};
    (void)state;
    moved_run(&(struct plan){.step = SAVE, .cut = rows, .is_told = 1});
    moved_run(&(struct plan){.step = RESTART, .cut = tiles, .is_told = 1, .has_extra = 1, .code = VARVE_MISMATCH});
    moved_run(&(struct plan){
        .step = RESTART, .cut = tiles, .is_told = 1, .has_extra = 1, .is_extra_own = 1, .code = VARVE_MISMATCH});
    moved_run(&(struct plan){.step = RESTART, .cut = tiles, .is_told = 1, .is_alone = 1, .code = VARVE_MISMATCH});
    moved_run(&(struct plan){.step = RESTART, .cut = tiles, .is_told = 1, .chosen = "own"}); /* it has not moved */
}

/* The ranks leave elements out, or have some twice: they get what they want, and are told. */
static void other_totals_are_told(void **state) {
    const struct cut three = moved_cut_of(2, 3, 1, 1), two = moved_cut_of(2, 2, 1, 1);
    (void)state;
    moved_run(&(struct plan){.step = SAVE, .cut = three, .is_told = 1});
    moved_run(&(struct plan){.step = RESTART, .cut = two, .is_told = 1});
    assert_int_equal(*moved_warned, 0);
    moved_run(&(struct plan){.step = RESTART, .cut = two, .is_told = 1, .has_gap = 1});
    assert_int_equal(*moved_warned, 1);
    *moved_warned = 0;
    moved_run(&(struct plan){.step = RESTART, .cut = two, .is_told = 1, .has_overlap = 1});
    assert_int_equal(*moved_warned, 2);
}

/* What is stored on some ranks, and what others want of it. */
static void what_does_not_fit_is_refused(void **state) {
    const struct cut three = moved_cut_of(1, 3, 1, 1), two = moved_cut_of(1, 2, 1, 1);
    (void)state;
    moved_run(&(struct plan){.step = SAVE, .cut = three, .is_told = 1, .is_different = 1});
    moved_run(&(struct plan){.step = RESTART, .cut = two, .is_told = 1, .code = VARVE_MISMATCH});
    moved_run(&(struct plan){.step = SAVE, .cut = three, .is_told = 1, .has_hole = 1});
    moved_run(&(struct plan){.step = RESTART, .cut = two, .is_told = 1, .code = VARVE_MISMATCH});
    moved_run(&(struct plan){.step = SAVE, .cut = three, .is_told = 1});
    moved_run(&(struct plan){.step = RESTART, .cut = two, .is_told = 1, .is_signed = 1, .code = VARVE_MISMATCH});
    moved_run(&(struct plan){.step = RESTART, .cut = three, .is_told = 1, .is_signed = 1, .code = VARVE_MISMATCH});
    moved_run(&(struct plan){.step = RESTART, .cut = two, .is_told = 1});
}

/* ---- what is stored of a rank ---- */

static int count_region(void *arg, const struct varve_region_info *region) {
    (void)region;
    ++*(unsigned *)arg;
    return 0;
}

static void ask_what_is_stored(struct varve_comm *comm, void *arg) {
    struct rank rank = {.plan = arg, .comm = comm};
    unsigned told = 0, wanted = comm->rank < *moved_ranks ? 6 : 4; /* two are private */
    int64_t version = -1;
    moved_open_session(&rank);
    if (varve_stored(rank.session, VARVE_LATEST, count_region, &told, &version) != 0)
        group_fail(comm, "stored: %s", varve_session_error(rank.session)->text);
    if (version != 2 || told != wanted)
        group_fail(comm, "%u regions instead of %u, of version %" PRId64, told, wanted, version);
    if (varve_close(rank.session) != 0)
        group_fail(comm, "close failed");
}

/* A program may ask what there is before it makes room on more ranks: the others are told of what all have together. */
static void more_ranks_ask_what_is_stored(void **state) {
    (void)state;
    moved_run(&(struct plan){.step = SAVE, .cut = moved_cut_of(1, 3, 1, 1), .is_told = 1});
    group_must_run(5, ask_what_is_stored, &(struct plan){0}, NULL, "stored of five");
    group_must_run(2, ask_what_is_stored, &(struct plan){0}, NULL, "stored of two");
}

/* Of sixteen ranks each of eight looks at rank 0, at the two that have its elements and lists, at two of which it
 * compares what all have, and at the one of its own number. */
static void not_all_descriptions_are_read(void **state) {
    const struct cut sixteen = moved_cut_of(1, 16, 1, 1), eight = moved_cut_of(1, 8, 1, 1);
    (void)state;
    moved_run(&(struct plan){.step = SAVE, .cut = sixteen, .is_told = 1, .is_even = 1});
    *moved_looked = 0;
    moved_run(&(struct plan){.step = RESTART, .cut = eight, .is_told = 1, .is_even = 1, .settings = "log=info"});
    assert_in_range(*moved_looked, 2, 7);
}

static struct varve_array array_of(uint64_t local, uint64_t first, uint64_t global) {
    return (struct varve_array){
        .size = sizeof(struct varve_array), .type = VARVE_U64, .dims = 1, .dim = {{local, first, global}}};
}

/* What could lead an index astray. Each rank has 50 rows, the higher rank the lower ones. */
struct trap {
    int is_restart;
    int is_copy; /* the region is said to be the same on all ranks; odd ones have other bytes, rank 0 none */
    int code;
};

static void spring(struct varve_comm *comm, void *arg) {
    const struct trap *trap = arg;
    const struct plan plan = {.settings = ""};
    struct rank rank = {.plan = &plan, .comm = comm};
    uint64_t rows = 100 / comm->ranks, first = 100 - rows * (comm->rank + 1), data[100] = {0}, other[100] = {0};
    struct varve_array array = {.size = sizeof array, .type = VARVE_U64, .dims = 1, .dim = {{rows, first, 100}}};
    int64_t version;
    moved_open_session(&rank);
    for (uint64_t i = 0; !trap->is_restart && i < rows; i++)
        data[i] = trap->is_copy ? 7 + comm->rank % 2 : first + i;
    /* Without arrays there is no index. This one leads to rank 0 alone. */
    struct varve_array all_of_it = array_of(comm->rank ? 0 : 100, 0, 100);
    int rc = varve_protect_array(rank.session, "field", other, &all_of_it);
    if (rc == 0 && trap->is_copy && (trap->is_restart || comm->rank > 0))
        rc = varve_protect(rank.session, "rows", data, 160);
    else if (rc == 0 && !trap->is_copy)
        rc = varve_protect_array(rank.session, "rows", data, &array);
    if (rc == 0 && (trap->is_copy || trap->is_restart) && (trap->is_restart || !trap->is_copy || comm->rank > 0))
        rc = varve_distribute(rank.session, "rows", trap->is_copy ? VARVE_REPLICATED : VARVE_JOINED);
    if (rc == 0 && !trap->is_restart)
        rc = varve_checkpoint(rank.session, 1) || varve_wait(rank.session);
    if (rc == 0 && trap->is_restart)
        rc = varve_restart(rank.session, VARVE_LATEST, &version);
    if (rc != trap->code)
        group_fail(comm, "%d instead of %d: %s", rc, trap->code, varve_session_error(rank.session)->text);
    for (uint64_t i = 0; trap->is_restart && !trap->is_copy && rc == 0 && i < rows; i++)
        if (data[i] != 75 - (rows * comm->rank + i) / 25 * 25 + i % 25)
            group_fail(comm, "WRONG: row %d is %d", (int)i, (int)data[i]);
    if (varve_close(rank.session) != 0)
        group_fail(comm, "close failed");
}

/* Stored by places, it comes back as a list in the order of ranks. */
static void an_array_that_becomes_a_list(void **state) {
    (void)state;
    group_must_run(4, spring, &(struct trap){.is_restart = 0}, NULL, "by places");
    group_must_run(2, spring, &(struct trap){.is_restart = 1}, NULL, "as a list");
}

/* Nobody compares with rank 0, which has none. */
static void copies_that_differ_without_rank_0(void **state) {
    (void)state;
    group_must_run(5, spring, &(struct trap){.is_copy = 1}, NULL, "copies that differ");
    group_must_run(2, spring, &(struct trap){.is_restart = 1, .is_copy = 1, .code = VARVE_MISMATCH}, NULL, "refused");
}

/* A list whose part on rank 1 is said to be something else. */
struct odd_list {
    uint64_t count; /* of this rank's part, when it comes back; 0: it is stored */
    int code;
};

static void keep_odd_list(struct varve_comm *comm, void *arg) {
    const struct odd_list *odd = arg;
    const struct plan plan = {.settings = ""};
    struct rank rank = {.plan = &plan, .comm = comm};
    uint64_t list[150], field[100] = {0};
    struct varve_array all_of_it = array_of(comm->rank ? 0 : 100, 0, 100); /* there is an index */
    moved_open_session(&rank);
    for (uint64_t i = 0; i < 150; i++)
        list[i] = odd->count ? 0 : 100 * comm->rank + i;
    int rc = varve_protect_array(rank.session, "field", field, &all_of_it);
    rc = rc ? rc : varve_protect(rank.session, "list", list, 8 * (odd->count ? odd->count : 100));
    rc = rc ? rc : varve_distribute(rank.session, "list", odd->count || comm->rank != 1 ? VARVE_JOINED : VARVE_DROPPED);
    if (rc == 0 && odd->count)
        rc = varve_restart(rank.session, VARVE_LATEST, NULL);
    else if (rc == 0)
        rc = varve_checkpoint(rank.session, 1) || varve_wait(rank.session);
    if (rc != odd->code)
        group_fail(comm, "%d instead of %d: %s", rc, odd->code, varve_session_error(rank.session)->text);
    for (uint64_t i = 0; rc == 0 && i < odd->count; i++)
        if (list[i] != odd->count * comm->rank + i)
            group_fail(comm, "WRONG: element %d is %d", (int)i, (int)list[i]);
    if (varve_close(rank.session) != 0)
        group_fail(comm, "close failed");
}

/* The index would lead past it, and two thirds of the list would pass for all of it. */
static void a_list_that_is_something_else_on_one_rank(void **state) {
    (void)state;
    group_must_run(3, keep_odd_list, &(struct odd_list){0}, NULL, "stored");
    group_must_run(2, keep_odd_list, &(struct odd_list){.count = 100, .code = VARVE_MISMATCH}, NULL, "two thirds");
    group_must_run(2, keep_odd_list, &(struct odd_list){.count = 150}, NULL, "all of it");
}

/* ---- arrays that are described otherwise, on the same rank ---- */

static uint64_t given[100], streamed[120];
static unsigned asked;
static uint64_t streamed_count;

static void *give(void *arg, const struct varve_region_info *region) {
    (void)arg;
    asked++;
    return strcmp(region->name, "block") == 0 && region->array->dim[0].first == 50 &&
                   region->array->dim[0].global == 200
               ? given
               : NULL;
}

static void take_back(void *arg, const char *region, void *ptr) {
    (void)arg;
    (void)region;
    (void)ptr;
}

static int stream_length(void *arg, uint64_t *bytes_out) {
    (void)arg;
    *bytes_out = streamed_count * 8;
    return 0;
}

static int stream_save(void *arg, uint64_t offset, void *buffer, size_t size) {
    (void)arg;
    memcpy(buffer, (uint8_t *)streamed + offset, size);
    return 0;
}

static int stream_load(void *arg, uint64_t offset, const void *buffer, size_t size, uint64_t total) {
    (void)arg;
    memcpy((uint8_t *)streamed + offset, buffer, size);
    streamed_count = total / 8;
    return 0;
}

static void protect_three(struct rank *rank, uint64_t *block, uint64_t first, uint64_t global, uint64_t list) {
    static uint64_t nothing;
    static const struct varve_callbacks callbacks = {
        .size = sizeof callbacks, .length = stream_length, .save = stream_save, .load = stream_load};
    const struct varve_array whole = array_of(100, first, global), empty = array_of(0, first, global),
                             stream = array_of(list, 0, list);
    int rc = varve_protect_array(rank->session, "block", block, &whole);
    rc = rc ? rc : varve_protect_array(rank->session, "empty", &nothing, &empty);
    rc = rc ? rc : varve_protect_callback(rank->session, "stream", &callbacks, NULL);
    rc = rc ? rc : varve_describe(rank->session, "stream", &stream);
    if (rc)
        group_fail(rank->comm, "protect: %s", varve_session_error(rank->session)->text);
    streamed_count = list;
}

/* An array of other sizes in all is another one, unless the program is asked where it goes. Empty blocks are the same
 * everywhere, and a callback takes whatever comes. */
static void describe_otherwise(struct varve_comm *comm, void *arg) {
    const struct varve_allocator allocator = {.size = sizeof allocator, .alloc = give, .release = take_back};
    struct rank rank = {.plan = arg, .comm = comm};
    uint64_t block[100];
    for (size_t i = 0; i < 120; i++)
        streamed[i] = i + 1000;
    for (size_t i = 0; i < 100; i++)
        block[i] = i + 1;
    moved_open_session(&rank);
    protect_three(&rank, block, 50, 200, 100);
    if (varve_checkpoint(rank.session, 1) != 0 || varve_close(rank.session) != 0)
        group_fail(comm, "save");
    memset(block, 0, sizeof block);
    moved_open_session(&rank);
    protect_three(&rank, block, 0, 300, 120);
    if (varve_restart(rank.session, VARVE_LATEST, NULL) != VARVE_MISMATCH ||
        !strstr(varve_session_error(rank.session)->text, "region block"))
        group_fail(comm, "another array: %s", varve_session_error(rank.session)->text);
    if (varve_restart_alloc(rank.session, VARVE_LATEST, &allocator, NULL, NULL) != 0)
        group_fail(comm, "asked: %s", varve_session_error(rank.session)->text);
    if (asked != 1 || given[0] != 1 || given[99] != 100 || streamed_count != 100 || streamed[99] != 1099)
        group_fail(comm, "WRONG: asked %u times, %" PRIu64 " streamed", asked, streamed_count);
    if (varve_close(rank.session) != 0)
        group_fail(comm, "close failed");
}

static void arrays_that_are_described_otherwise(void **state) {
    const struct plan plan = {.step = SAVE};
    (void)state;
    group_must_run(1, describe_otherwise, &plan, NULL, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, moved_setup, moved_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(what_belongs_to_one_rank_is_refused),
        TEST(what_is_there_twice_must_be_equal),
        TEST(what_is_missing_is_named),
        TEST(a_list_of_another_length_is_refused),
        TEST(another_whole_is_refused),
        TEST(nothing_is_restored_by_halves),
        TEST(what_does_not_fit_is_refused),
        TEST(other_totals_are_told),
        TEST(more_ranks_ask_what_is_stored),
        TEST(not_all_descriptions_are_read),
        TEST(an_array_that_becomes_a_list),
        TEST(copies_that_differ_without_rank_0),
        TEST(a_list_that_is_something_else_on_one_rank),
        TEST(arrays_that_are_described_otherwise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
