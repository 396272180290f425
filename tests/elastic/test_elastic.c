/* Checkpoints of some ranks that come back on others: every element is where it belongs, or the restart is refused
 * before a byte is written. What an element should be follows from its place in the global array alone. */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>

#include "folder.h"
#include "group.h"
#include "test.h"

#define DIMS_MOST 3
#define LIST 1000 /* elements of the list, of three words each; of the list of bytes as well */

/* A global array, cut into a grid of blocks. A grid that does not divide it gives uneven blocks; more blocks than
 * elements, empty ones. */
struct cut {
    unsigned dims;
    uint64_t size[DIMS_MOST];
    uint32_t grid[DIMS_MOST];  /* their product is the number of ranks */
    uint32_t cycle[DIMS_MOST]; /* dealt out in blocks of so many elements, one to each; 0: one block for each */
};

enum step { SAVE, RESTART, GO_ON };
struct plan {
    enum step step;
    struct cut cut;
    const char *settings;
    int is_told;        /* what the regions are that are no arrays */
    int code;           /* that is expected of the restart */
    int is_copied;      /* the array is twice there: on two ranks */
    int is_even;        /* the list is shared evenly */
    int is_kept;        /* the data is saved again as it is */
    int has_extra;      /* a region is protected that was never stored */
    const char *chosen; /* only this region is asked for */
    unsigned flags;     /* of varve_restart_regions */
    int is_begun;       /* with varve_restart_begin */
    int is_different;   /* what is said to be everywhere the same is not */
    int has_hole;       /* the last block is not stored */
    int is_signed;      /* the array is of another type */
    int is_alone;       /* rank 0 calls varve_restart, the others ask for one region */
    int has_gap;        /* the last rank leaves its last row out */
    int has_overlap;    /* and all but the first have one more in front */
    int is_extra_own;   /* the region that was never stored is by rank */
    int is_short;       /* together the ranks want one element of the list less than there are */
};

static char folder[128];

/* ---- in the ranks ---- */

struct rank {
    const struct plan *plan;
    struct varve_comm *comm;
    struct varve_session *session;
    struct varve_array array;
    uint64_t count;
    uint64_t *field;
    uint64_t list_first, list_count;
    uint64_t list[LIST][3];
    uint8_t bytes[LIST];
    uint64_t everywhere[600], own[300], dropped[100];
};

static uint32_t ranks_of(const struct cut *cut) {
    uint32_t ranks = 1;
    for (unsigned i = 0; i < cut->dims; i++)
        ranks *= cut->grid[i];
    return ranks;
}

static uint64_t value_of(uint64_t place, uint64_t salt) {
    uint64_t x = place * UINT64_C(0x9e3779b97f4a7c15) + salt;
    return (x ^ (x >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
}

static void change_rows(struct rank *rank, int first, int count) {
    struct varve_dim *rows = &rank->array.dim[0];
    rank->count = rank->count / rows->local * (rows->local + (uint64_t)count);
    rows->first += (uint64_t)first;
    rows->local += (uint64_t)count;
}

/* What the rank at this place of so many gets of a dimension that is dealt out in blocks. */
static void deal(struct varve_array *array, unsigned dim, uint64_t size, uint64_t block, uint64_t at, uint64_t ranks) {
    uint64_t rounds = size / (block * ranks), rest = size % (block * ranks), before = at * block;
    uint64_t more = rest <= before ? 0 : rest - before < block ? rest - before : block;
    array->dim[dim] = (struct varve_dim){rounds * block + more, before, size};
    array->stride[dim] = (struct varve_stride){block, block * ranks};
}

static void cut_out(struct rank *rank) {
    const struct cut *cut = &rank->plan->cut;
    uint32_t number = rank->plan->is_copied ? 0 : rank->comm->rank;
    rank->array = (struct varve_array){.size = sizeof rank->array, .type = VARVE_U64, .dims = cut->dims};
    rank->count = 1;
    for (unsigned i = cut->dims; i-- > 0;) {
        uint64_t at = number % cut->grid[i], first = cut->size[i] * at / cut->grid[i];
        uint64_t end = cut->size[i] * (at + 1) / cut->grid[i];
        rank->array.dim[i] = (struct varve_dim){end - first, first, cut->size[i]};
        if (cut->cycle[i])
            deal(&rank->array, i, cut->size[i], cut->cycle[i], at, cut->grid[i]);
        rank->count *= rank->array.dim[i].local;
        number /= cut->grid[i];
    }
    if (rank->plan->is_signed)
        rank->array.type = VARVE_I64;
    if (rank->plan->has_hole && rank->comm->rank + 1 == rank->comm->ranks)
        rank->array.dim[0].local = rank->count = 0;
    if (rank->plan->has_gap && rank->comm->rank + 1 == rank->comm->ranks)
        change_rows(rank, 0, -1);
    if (rank->plan->has_overlap && rank->comm->rank > 0)
        change_rows(rank, -1, 1);
    rank->field = calloc(rank->count + 1, sizeof *rank->field);
}

/* Uneven: the first ranks of many have nothing. */
static void share_list(struct rank *rank) {
    uint64_t number = rank->comm->rank, ranks = rank->comm->ranks;
    rank->list_first = LIST * number * number / (ranks * ranks) / 7 * 7;
    uint64_t end = LIST * (number + 1) * (number + 1) / (ranks * ranks) / 7 * 7;
    rank->list_count = (number + 1 == ranks ? LIST : end) - rank->list_first;
    if (rank->plan->is_even) {
        rank->list_first = LIST * number / ranks;
        rank->list_count = LIST * (number + 1) / ranks - rank->list_first;
    }
    if (rank->plan->is_short && number + 1 == ranks)
        rank->list_count--;
}

static uint64_t place_of(const struct rank *rank, uint64_t element) {
    uint64_t place = 0, scale = 1;
    for (unsigned i = rank->array.dims; i-- > 0;) {
        const struct varve_dim *dim = &rank->array.dim[i];
        const struct varve_stride *stride = &rank->array.stride[i];
        uint64_t local = element % dim->local;
        place +=
            (dim->first + (stride->block ? local / stride->block * stride->every + local % stride->block : local)) *
            scale;
        element /= dim->local;
        scale *= dim->global;
    }
    return place;
}

static void fill(struct rank *rank, uint64_t salt) {
    for (uint64_t i = 0; i < rank->count; i++)
        rank->field[i] = value_of(place_of(rank, i), salt);
    for (size_t i = 0; i < rank->list_count; i++) {
        for (size_t j = 0; j < 3; j++)
            rank->list[i][j] = value_of((rank->list_first + i) * 3 + j, salt + 2);
        rank->bytes[i] = (uint8_t)value_of(rank->list_first + i, salt + 3);
    }
    for (size_t i = 0; i < 600; i++)
        rank->everywhere[i] = value_of(i, salt + 1 + (rank->plan->is_different ? rank->comm->rank : 0));
    for (size_t i = 0; i < 300; i++)
        rank->own[i] = value_of(i, salt + 100 + rank->comm->rank);
}

static void check_field(struct rank *rank, uint64_t salt) {
    for (uint64_t i = 0; i < rank->count; i++)
        if (rank->field[i] != value_of(place_of(rank, i), salt))
            group_fail(rank->comm, "WRONG: element %" PRIu64 " of %" PRIu64, i, rank->count);
}

/* A rank that was not there before has its own region as it was: zeros. */
static void check(struct rank *rank, uint64_t salt, uint32_t ranks_before) {
    check_field(rank, salt);
    for (size_t i = 0; i < rank->list_count; i++) {
        for (size_t j = 0; j < 3; j++)
            if (rank->list[i][j] != value_of((rank->list_first + i) * 3 + j, salt + 2))
                group_fail(rank->comm, "WRONG: element %zu of the list", i);
        if (rank->bytes[i] != (uint8_t)value_of(rank->list_first + i, salt + 3))
            group_fail(rank->comm, "WRONG: byte %zu of the list", i);
    }
    for (size_t i = 0; i < 600; i++)
        if (rank->everywhere[i] != value_of(i, salt + 1))
            group_fail(rank->comm, "WRONG: what is everywhere, at %zu", i);
    for (size_t i = 0; i < 300; i++)
        if (rank->own[i] != (rank->comm->rank < ranks_before ? value_of(i, salt + 100 + rank->comm->rank) : 0))
            group_fail(rank->comm, "WRONG: what is this rank's, at %zu", i);
}

static _Atomic int *looked; /* of how many ranks a rank has read the descriptions, at most */
static _Atomic int *warned; /* of elements that nobody wants any more, 1, or several ranks, 2 */

static void note_warnings(void *arg, int level, const char *line) {
    (void)arg;
    (void)level;
    const char *looked_at = strstr(line, "looked at the descriptions of ");
    int count = looked_at ? atoi(looked_at + strlen("looked at the descriptions of ")) : 0, before = *looked;
    while (count > before && !atomic_compare_exchange_weak(looked, &before, count))
        ;
    *warned |= strstr(line, "that no rank protects now") ? 1 : strstr(line, "protected by several ranks") ? 2 : 0;
}

static void open_session(struct rank *rank) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_error error = {0};
    char address[160];
    snprintf(address, sizeof address, "file://%s", folder);
    options.settings = rank->plan->settings;
    options.log = note_warnings;
    if (varve_open_comm(group_comm(rank->comm), address, "grid", &options, &rank->session, &error) != 0)
        group_fail(rank->comm, "open: %s", error.text);
}

static void protect(struct rank *rank) {
    struct varve_session *s = rank->session;
    struct varve_array list = {
        .size = sizeof list, .type = VARVE_U64, .dims = 2, .dim = {{.local = rank->list_count}, {.local = 3}}};
    int rc = varve_protect_array(s, "field", rank->field, &rank->array);
    rc = rc ? rc : varve_protect_array(s, "list", rank->list, &list);
    rc = rc ? rc : varve_protect(s, "bytes", rank->bytes, rank->list_count);
    rc = rc ? rc : varve_protect(s, "everywhere", rank->everywhere, sizeof rank->everywhere);
    rc = rc ? rc : varve_protect(s, "own", rank->own, sizeof rank->own);
    if (rank->plan->has_extra)
        rc = rc ? rc : varve_protect(s, "extra", rank->dropped, sizeof rank->dropped);
    if (rank->plan->is_extra_own)
        rc = rc ? rc : varve_distribute(s, "extra", VARVE_BY_RANK);
    if (rank->plan->is_told) {
        rc = rc ? rc : varve_protect(s, "dropped", rank->dropped, sizeof rank->dropped);
        rc = rc ? rc : varve_distribute(s, "list", VARVE_JOINED);
        rc = rc ? rc : varve_distribute(s, "bytes", VARVE_JOINED);
        rc = rc ? rc : varve_distribute(s, "everywhere", VARVE_REPLICATED);
        rc = rc ? rc : varve_distribute(s, "own", VARVE_BY_RANK);
        rc = rc ? rc : varve_distribute(s, "dropped", VARVE_DROPPED);
    }
    if (rc)
        group_fail(rank->comm, "protect: %s", varve_session_error(s)->text);
}

static void save(struct rank *rank, int64_t version, uint64_t salt) {
    fill(rank, rank->plan->is_kept ? salt - 1 : salt); /* a rank that is new has something of its own by now */
    if (varve_checkpoint(rank->session, version) != 0 || varve_wait(rank->session) != 0)
        group_fail(rank->comm, "checkpoint: %s", varve_session_error(rank->session)->text);
}

static int is_untouched(const struct rank *rank) {
    for (uint64_t i = 0; i < rank->count; i++)
        if (rank->field[i] != 0)
            return 0;
    return 1;
}

static int ask_for_it(struct rank *rank) {
    const struct plan *plan = rank->plan;
    const char *chosen = plan->is_alone && rank->comm->rank > 0 ? "everywhere" : plan->chosen;
    int64_t version = -1;
    if (plan->is_begun) {
        int rc = varve_restart_begin(rank->session, VARVE_LATEST, &version);
        rc = rc ? rc : varve_restart_wait(rank->session, "field");
        if (rc == 0 && (varve_restart_wait(rank->session, "nothing") != -ENOENT ||
                        varve_restart_wait(rank->session, "dropped") != -ENOENT))
            group_fail(rank->comm, "waited for what is not read");
        return rc ? rc : varve_restart_end(rank->session);
    }
    if (chosen || plan->flags)
        return varve_restart_regions(rank->session, VARVE_LATEST, chosen ? &chosen : NULL, chosen ? 1 : 0, plan->flags,
                                     &version);
    return varve_restart(rank->session, VARVE_LATEST, &version);
}

static void restart(struct rank *rank) {
    int rc = ask_for_it(rank);
    if (rc != rank->plan->code)
        group_fail(rank->comm, "restart: %d: %s", rc, varve_session_error(rank->session)->text);
    if (rc && !is_untouched(rank))
        group_fail(rank->comm, "it was refused, but something was written");
}

/* What was asked for is there, and nothing else. */
static void check_chosen(struct rank *rank, uint64_t salt) {
    if (strcmp(rank->plan->chosen, "field") == 0)
        check_field(rank, salt);
    else if (!is_untouched(rank))
        group_fail(rank->comm, "WRONG: something else was restored");
    if (rank->everywhere[0] != 0)
        group_fail(rank->comm, "WRONG: what is everywhere was restored");
}

static uint32_t *ranks_before; /* of the newest checkpoint, in memory that all share */
static uint64_t *salt_before, *steps_before;

static void run_rank(struct varve_comm *comm, void *arg) {
    struct rank rank = {.plan = arg, .comm = comm};
    cut_out(&rank);
    share_list(&rank);
    open_session(&rank);
    protect(&rank);
    if (rank.plan->step == SAVE) {
        save(&rank, 1, 7);
        save(&rank, 2, 8);
    } else {
        restart(&rank);
        if (rank.plan->code == 0 && !rank.plan->chosen)
            check(&rank, *salt_before, *ranks_before);
        else if (rank.plan->code == 0)
            check_chosen(&rank, *salt_before);
    }
    if (rank.plan->step == GO_ON)
        save(&rank, 3 + (int64_t)*steps_before, *salt_before + 1);
    if (varve_close(rank.session) != 0)
        group_fail(comm, "close failed");
    free(rank.field);
}

/* ---- outside ---- */

static void run(const struct plan *plan) {
    char about[200];
    snprintf(about, sizeof about, "%s: %ux%ux%u", plan->step == SAVE ? "save" : "restart", plan->cut.grid[0],
             plan->cut.grid[1], plan->cut.grid[2]);
    group_must_run(ranks_of(&plan->cut), run_rank, plan, NULL, about);
    if (plan->step == SAVE)
        *salt_before = 8;
    if (plan->step == GO_ON && !plan->is_kept)
        ++*salt_before;
    *steps_before += plan->step == GO_ON;
    if (plan->step != RESTART)
        *ranks_before = ranks_of(&plan->cut);
}

static int setup(void **state) {
    (void)state;
    ranks_before = group_memory(4096);
    salt_before = (uint64_t *)(ranks_before + 2);
    steps_before = salt_before + 1;
    warned = (_Atomic int *)(steps_before + 1);
    looked = warned + 1;
    return folder_make(NULL, "test-elastic", folder, sizeof folder);
}

static int teardown(void **state) {
    (void)state;
    folder_remove(folder);
    group_memory_free(ranks_before, 4096);
    return 0;
}

static struct cut cut_of(unsigned dims, uint32_t a, uint32_t b, uint32_t c) {
    return (struct cut){.dims = dims,
                        .size = {dims == 1   ? 9001
                                 : dims == 2 ? 211
                                             : 41,
                                 dims == 2 ? 97 : 31, 17},
                        .grid = {a, b, c}};
}

static void check_store(void) {
    char command[400];
    snprintf(command, sizeof command, "%s verify file://%s >/dev/null", VARVE_TOOL, folder);
    assert_int_equal(system(command), 0);
}

/* Every pair of grids of one array, each from a store of its own. */
static void turn(const struct cut *cuts, size_t count, const char *settings) {
    for (size_t from = 0; from < count; from++) {
        teardown(NULL);
        setup(NULL);
        run(&(struct plan){.step = SAVE, .cut = cuts[from], .settings = settings, .is_told = 1});
        for (size_t to = 0; to < count; to++)
            run(&(struct plan){.step = RESTART, .cut = cuts[to], .settings = settings, .is_told = 1});
    }
}

static void comes_back_in_one_dimension(void **state) {
    struct cut cuts[6];
    const uint32_t ranks[] = {1, 2, 3, 5, 8, 16};
    (void)state;
    for (size_t i = 0; i < 6; i++)
        cuts[i] = cut_of(1, ranks[i], 1, 1);
    turn(cuts, 6, "");
}

static void comes_back_in_two_dimensions(void **state) {
    const struct cut cuts[] = {cut_of(2, 1, 1, 1), cut_of(2, 4, 1, 1), cut_of(2, 1, 4, 1),
                               cut_of(2, 2, 2, 1), cut_of(2, 3, 2, 1), cut_of(2, 1, 7, 1)};
    (void)state;
    turn(cuts, 6, "");
}

static void comes_back_in_three_dimensions(void **state) {
    const struct cut cuts[] = {cut_of(3, 1, 1, 1), cut_of(3, 2, 2, 2), cut_of(3, 1, 1, 5), cut_of(3, 3, 1, 2)};
    (void)state;
    turn(cuts, 4, "");
}

/* As ScaLAPACK deals out a matrix: from each grid and block to each, and to blocks that lie together. */
static void comes_back_in_cyclic_blocks(void **state) {
    struct cut cuts[] = {cut_of(2, 2, 3, 1), cut_of(2, 3, 1, 1), cut_of(2, 2, 2, 1), cut_of(2, 1, 1, 1),
                         cut_of(2, 4, 2, 1), cut_of(2, 4, 2, 1), cut_of(2, 2, 2, 1)};
    /* Of rows in blocks of 80 the last of four ranks has none, and its first would be beyond the last row. */
    const uint32_t cycles[][2] = {{16, 8}, {5, 97}, {1, 1}, {7, 3}, {40, 0}, {80, 60}, {0, 0}};
    (void)state;
    for (size_t i = 0; i < 7; i++)
        memcpy(cuts[i].cycle, cycles[i], sizeof cycles[i]);
    turn(cuts, 7, "");
}

/* However it was stored. */
static void comes_back_from_every_way_of_storing(void **state) {
    const struct cut cuts[] = {cut_of(2, 4, 1, 1), cut_of(2, 1, 3, 1)};
    const char *const ways[] = {"aggregate=2,codec=size", "dedup=exact,codec=zstd", "capture=sync,threads=0,dedup=none",
                                "block_size=64K,fine=64", "restart_window=1M"};
    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        turn(cuts, 2, ways[i]);
}

/* A job that changes its size again and again keeps making checkpoints. */
static void goes_on_from_there(void **state) {
    const struct cut cuts[] = {cut_of(2, 2, 2, 1), cut_of(2, 1, 3, 1), cut_of(2, 6, 1, 1), cut_of(2, 1, 1, 1),
                               cut_of(2, 2, 4, 1)};
    (void)state;
    run(&(struct plan){.step = SAVE, .cut = cuts[0], .is_told = 1});
    for (size_t i = 1; i < 5; i++) {
        run(&(struct plan){.step = GO_ON, .cut = cuts[i], .is_told = 1});
        check_store();
    }
    run(&(struct plan){.step = RESTART, .cut = cuts[0], .is_told = 1});
}

/* Data that stays as it is refers to what the ranks before have stored, whose numbers may be higher or fewer. */
static void unchanged_data_is_found_again(void **state) {
    const struct cut wide = cut_of(2, 1, 8, 1), narrow = cut_of(2, 1, 2, 1), other = cut_of(2, 3, 1, 1);
    char command[400];
    (void)state;
    run(&(struct plan){.step = SAVE, .cut = narrow, .is_told = 1});
    const struct cut cuts[] = {wide, wide, other, narrow, narrow};
    for (size_t i = 0; i < 5; i++) {
        run(&(struct plan){.step = GO_ON, .cut = cuts[i], .is_told = 1, .is_kept = 1, .settings = "keep=all"});
        check_store();
    }
    snprintf(command, sizeof command, "%s compact file://%s grid >/dev/null", VARVE_TOOL, folder);
    assert_int_equal(system(command), 0);
    check_store();
    run(&(struct plan){.step = RESTART, .cut = other, .is_told = 1});
}

static void what_belongs_to_one_rank_is_refused(void **state) {
    (void)state;
    run(&(struct plan){.step = SAVE, .cut = cut_of(1, 4, 1, 1)});
    run(&(struct plan){.step = RESTART, .cut = cut_of(1, 3, 1, 1), .code = VARVE_MISMATCH});
}

static void what_is_there_twice_is_refused(void **state) {
    (void)state;
    run(&(struct plan){.step = SAVE, .cut = cut_of(1, 2, 1, 1), .is_told = 1, .is_copied = 1});
    run(&(struct plan){.step = RESTART, .cut = cut_of(1, 1, 1, 1), .is_told = 1, .code = VARVE_MISMATCH});
}

static void a_list_of_another_length_is_refused(void **state) {
    (void)state;
    run(&(struct plan){.step = SAVE, .cut = cut_of(1, 3, 1, 1), .is_told = 1});
    run(&(struct plan){
        .step = RESTART, .cut = cut_of(1, 4, 1, 1), .is_told = 1, .is_short = 1, .code = VARVE_MISMATCH});
}

/* As many ranks, another share of the list. */
static void a_list_is_shared_anew_by_as_many_ranks(void **state) {
    (void)state;
    run(&(struct plan){.step = SAVE, .cut = cut_of(1, 3, 1, 1), .is_told = 1, .is_even = 1});
    run(&(struct plan){.step = RESTART, .cut = cut_of(1, 3, 1, 1), .is_told = 1});
}

/* What was never stored is missed, and what was asked for in another way is not put back by rank. */
static void nothing_is_restored_by_halves(void **state) {
    struct cut rows = {.dims = 2, .size = {64, 64}, .grid = {4, 1, 1}};
    struct cut tiles = {.dims = 2, .size = {64, 64}, .grid = {2, 2, 1}};
    (void)state;
    run(&(struct plan){.step = SAVE, .cut = rows, .is_told = 1});
    run(&(struct plan){.step = RESTART, .cut = tiles, .is_told = 1, .has_extra = 1, .code = VARVE_MISMATCH});
    run(&(struct plan){
        .step = RESTART, .cut = tiles, .is_told = 1, .has_extra = 1, .is_extra_own = 1, .code = VARVE_MISMATCH});
    run(&(struct plan){.step = RESTART, .cut = tiles, .is_told = 1, .is_alone = 1, .code = VARVE_MISMATCH});
    run(&(struct plan){.step = RESTART, .cut = tiles, .is_told = 1, .chosen = "own"}); /* it has not moved */
}

/* The ranks leave elements out, or have some twice: they get what they want, and are told. */
static void other_totals_are_told(void **state) {
    const struct cut three = cut_of(2, 3, 1, 1), two = cut_of(2, 2, 1, 1);
    (void)state;
    run(&(struct plan){.step = SAVE, .cut = three, .is_told = 1});
    run(&(struct plan){.step = RESTART, .cut = two, .is_told = 1});
    assert_int_equal(*warned, 0);
    run(&(struct plan){.step = RESTART, .cut = two, .is_told = 1, .has_gap = 1});
    assert_int_equal(*warned, 1);
    *warned = 0;
    run(&(struct plan){.step = RESTART, .cut = two, .is_told = 1, .has_overlap = 1});
    assert_int_equal(*warned, 2);
}

/* ---- what is stored of a rank ---- */

static int count_region(void *arg, const struct varve_region_info *region) {
    (void)region;
    ++*(unsigned *)arg;
    return 0;
}

static void ask_what_is_stored(struct varve_comm *comm, void *arg) {
    struct rank rank = {.plan = arg, .comm = comm};
    unsigned told = 0, wanted = comm->rank < *ranks_before ? 6 : 4; /* two are private */
    int64_t version = -1;
    open_session(&rank);
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
    run(&(struct plan){.step = SAVE, .cut = cut_of(1, 3, 1, 1), .is_told = 1});
    group_must_run(5, ask_what_is_stored, &(struct plan){0}, NULL, "stored of five");
    group_must_run(2, ask_what_is_stored, &(struct plan){0}, NULL, "stored of two");
}

/* Of sixteen ranks each of eight looks at rank 0, at the two that have its elements and lists, at two of which it
 * compares what all have, and at the one of its own number. */
static void not_all_descriptions_are_read(void **state) {
    const struct cut sixteen = cut_of(1, 16, 1, 1), eight = cut_of(1, 8, 1, 1);
    (void)state;
    run(&(struct plan){.step = SAVE, .cut = sixteen, .is_told = 1, .is_even = 1});
    *looked = 0;
    run(&(struct plan){.step = RESTART, .cut = eight, .is_told = 1, .is_even = 1, .settings = "log=info"});
    assert_in_range(*looked, 2, 7);
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
    open_session(&rank);
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

/* What is stored on some ranks, and what others want of it. */
static void what_does_not_fit_is_refused(void **state) {
    const struct cut three = cut_of(1, 3, 1, 1), two = cut_of(1, 2, 1, 1);
    (void)state;
    run(&(struct plan){.step = SAVE, .cut = three, .is_told = 1, .is_different = 1});
    run(&(struct plan){.step = RESTART, .cut = two, .is_told = 1, .code = VARVE_MISMATCH});
    run(&(struct plan){.step = SAVE, .cut = three, .is_told = 1, .has_hole = 1});
    run(&(struct plan){.step = RESTART, .cut = two, .is_told = 1, .code = VARVE_MISMATCH});
    run(&(struct plan){.step = SAVE, .cut = three, .is_told = 1});
    run(&(struct plan){.step = RESTART, .cut = two, .is_told = 1, .is_signed = 1, .code = VARVE_MISMATCH});
    run(&(struct plan){.step = RESTART, .cut = three, .is_told = 1, .is_signed = 1, .code = VARVE_MISMATCH});
    run(&(struct plan){.step = RESTART, .cut = two, .is_told = 1});
}

/* Chosen regions, in steps, and with something that was never stored: on as many ranks with other blocks, and on
 * others. */
static void comes_back_in_all_ways(void **state) {
    const struct cut rows = cut_of(2, 4, 1, 1), others[] = {cut_of(2, 2, 2, 1), cut_of(2, 1, 3, 1), cut_of(2, 5, 1, 1)};
    (void)state;
    run(&(struct plan){.step = SAVE, .cut = rows, .is_told = 1});
    for (size_t i = 0; i < 3; i++) {
        const struct plan plan = {.step = RESTART, .cut = others[i], .is_told = 1};
        struct plan other = plan;
        other.chosen = "field";
        run(&other);
        if (i > 0) { /* bytes as they are, and there are none of this rank's */
            other.flags = VARVE_RESTART_RESIZE;
            other.code = VARVE_MISMATCH;
            run(&other);
        }
        other = plan;
        other.has_extra = 1;
        other.code = VARVE_MISMATCH;
        run(&other);
        other.flags = VARVE_RESTART_MISSING;
        other.code = 0;
        run(&other);
        other = plan;
        other.is_begun = 1;
        other.step = GO_ON;
        run(&other);
        run(&(struct plan){.step = GO_ON, .cut = rows, .is_told = 1});
    }
}

/* The same number of ranks, the same sizes, other blocks: never put back in the order of ranks. */
static void another_grid_of_as_many_ranks(void **state) {
    struct cut rows = {.dims = 2, .size = {64, 64}, .grid = {4, 1, 1}};
    struct cut tiles = {.dims = 2, .size = {64, 64}, .grid = {2, 2, 1}};
    (void)state;
    run(&(struct plan){.step = SAVE, .cut = rows, .is_told = 1});
    run(&(struct plan){.step = RESTART, .cut = tiles, .is_told = 1});
}

/* A session that has come back once, in another order of its regions than they are stored in, and then with others. */
static void again_in_one_session(struct varve_comm *comm, void *arg) {
    struct rank rank = {.plan = arg, .comm = comm};
    uint64_t last[600];
    int64_t version;
    cut_out(&rank);
    share_list(&rank);
    open_session(&rank);
    protect(&rank);
    save(&rank, 1, 7);
    if (varve_close(rank.session) != 0)
        group_fail(comm, "close failed");
    open_session(&rank);
    memcpy(last, rank.everywhere, sizeof last);
    if (varve_protect(rank.session, "everywhere", rank.everywhere, sizeof rank.everywhere) != 0)
        group_fail(comm, "protect: %s", varve_session_error(rank.session)->text);
    protect(&rank);
    restart(&rank);
    varve_unprotect(rank.session, "field");
    struct cut cut = rank.plan->cut;
    struct plan plan = {.cut = {.dims = 2, .size = {cut.size[0], cut.size[1]}, .grid = {cut.grid[1], cut.grid[0], 1}}};
    free(rank.field);
    rank.plan = &plan;
    cut_out(&rank);
    if (varve_protect_array(rank.session, "field", rank.field, &rank.array) != 0 ||
        varve_restart(rank.session, VARVE_LATEST, &version) != 0)
        group_fail(comm, "second restart: %s", varve_session_error(rank.session)->text);
    check(&rank, 7, comm->ranks);
    save(&rank, 2, 8);
    memset(rank.field, 0, rank.count * sizeof *rank.field);
    if (varve_restart(rank.session, VARVE_LATEST, &version) != 0 || version != 2)
        group_fail(comm, "third restart: %s", varve_session_error(rank.session)->text);
    check(&rank, 8, comm->ranks);
    if (memcmp(last, rank.everywhere, sizeof last) == 0 || varve_close(rank.session) != 0)
        group_fail(comm, "close failed");
    free(rank.field);
}

static void comes_back_again_in_one_session(void **state) {
    const struct plan plan = {.cut = {.dims = 2, .size = {64, 64}, .grid = {4, 1, 1}}, .is_told = 1};
    (void)state;
    group_must_run(4, again_in_one_session, &plan, NULL, "rows, then columns");
    check_store();
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
    open_session(&rank);
    protect_three(&rank, block, 50, 200, 100);
    if (varve_checkpoint(rank.session, 1) != 0 || varve_close(rank.session) != 0)
        group_fail(comm, "save");
    memset(block, 0, sizeof block);
    open_session(&rank);
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

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
    return cut_of(dims, grid[0], grid[1], grid[2]);
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
        teardown(NULL);
        setup(NULL);
        run(&(struct plan){.step = SAVE, .cut = cuts[number % 16], .is_told = 1});
        for (size_t to = 0; to < 16; to++)
            run(&(struct plan){.step = RESTART, .cut = cuts[to], .is_told = 1});
    }
    printf("elastic: %lu points\n", count * 16);
}

static uint64_t chance;
static uint32_t by_chance(uint32_t below) {
    chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(chance >> 33) % below;
}

/* Any grid of at most 16 ranks, a third of the dimensions dealt out in blocks. */
static void random_grid(struct cut *cut) {
    uint32_t left = 16;
    for (unsigned i = 0; i < cut->dims; i++) {
        cut->grid[i] = 1 + by_chance(left < 7 ? left : 7);
        left /= cut->grid[i];
        cut->cycle[i] = by_chance(3) ? 0 : 1 + by_chance(40);
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
        teardown(NULL);
        setup(NULL);
        random_grid(&cut);
        plan.cut = cut;
        run(&plan);
        for (int i = 0; i < 2; i++) {
            random_grid(&cut);
            plan.step = i ? RESTART : GO_ON;
            plan.cut = cut;
            run(&plan);
        }
    }
    printf("elastic: %lu points\n", count);
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
        TEST(comes_back_from_every_way_of_storing),
        TEST(goes_on_from_there),
        TEST(what_belongs_to_one_rank_is_refused),
        TEST(what_is_there_twice_is_refused),
        TEST(a_list_of_another_length_is_refused),
        TEST(unchanged_data_is_found_again),
        TEST(a_list_is_shared_anew_by_as_many_ranks),
        TEST(nothing_is_restored_by_halves),
        TEST(another_grid_of_as_many_ranks),
        TEST(other_totals_are_told),
        TEST(more_ranks_ask_what_is_stored),
        TEST(not_all_descriptions_are_read),
        TEST(an_array_that_becomes_a_list),
        TEST(copies_that_differ_without_rank_0),
        TEST(what_does_not_fit_is_refused),
        TEST(comes_back_in_all_ways),
        TEST(comes_back_again_in_one_session),
        TEST(arrays_that_are_described_otherwise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
