/* The ranks of such a job, and what they hold. What an element should be follows from its place in the global array
 * alone. */
#include "moved.h"

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

char moved_folder[128];

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

/* 0 to most; often one of these two, which makes parts that are empty. */
static uint64_t drawn(const struct cut *cut, uint64_t number, uint64_t most) {
    uint64_t x = value_of(value_of(number, cut->seed), cut->dims) >> 16;
    return x % 5 == 0 ? 0 : x % 5 == 1 ? most : x / 5 % (most + 1);
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Where the parts of a dimension begin and end: one more than there are. */
static void cut_dimension(const struct cut *cut, unsigned dim, uint64_t *edges) {
    uint32_t parts = cut->grid[dim];
    for (uint32_t i = 0; i <= parts; i++)
        edges[i] = cut->shape == UNEVEN && i > 0 && i < parts ? drawn(cut, dim * 100 + i, cut->size[dim])
                                                              : cut->size[dim] * i / parts;
    qsort(edges, parts + 1, sizeof *edges, by_value);
}

static void cut_grid(const struct cut *cut, uint32_t number, struct varve_array *array) {
    for (unsigned i = cut->dims; i-- > 0; number /= cut->grid[i]) {
        uint64_t edges[GROUP_RANKS_MAX + 1], at = number % cut->grid[i];
        cut_dimension(cut, i, edges);
        array->dim[i] = (struct varve_dim){edges[at + 1] - edges[at], edges[at], cut->size[i]};
        if (cut->cycle[i])
            deal(array, i, cut->size[i], cut->cycle[i], at, cut->grid[i]);
    }
}

/* Some of the ranks get what lies before a place, the others what lies behind it, until each has its own. */
static void halve(const struct cut *cut, uint32_t number, struct varve_array *array) {
    uint32_t ranks = ranks_of(cut);
    for (unsigned i = 0; i < cut->dims; i++)
        array->dim[i] = (struct varve_dim){cut->size[i], 0, cut->size[i]};
    for (uint64_t half = 1; ranks > 1;) {
        uint32_t before = 1 + (uint32_t)drawn(cut, 4 * half, ranks - 2);
        struct varve_dim *dim = &array->dim[(value_of(half, cut->seed) >> 32) % cut->dims];
        uint64_t place = drawn(cut, 4 * half + 1, dim->local);
        int is_before = number < before;
        dim->first += is_before ? 0 : place;
        dim->local = is_before ? place : dim->local - place;
        number -= is_before ? 0 : before;
        ranks = is_before ? before : ranks - before;
        half = 2 * half + !is_before;
    }
}

void moved_cut_out(struct rank *rank) {
    struct cut cut = rank->plan->cut;
    cut.grid[0] /= rank->plan->is_copied ? 2 : 1;
    uint32_t blocks = ranks_of(&cut), number = rank->comm->rank % blocks;
    rank->array = (struct varve_array){.size = sizeof rank->array, .type = VARVE_U64, .dims = cut.dims};
    (cut.shape == BOXES ? halve : cut_grid)(&cut, number, &rank->array);
    rank->count = 1;
    for (unsigned i = 0; i < cut.dims; i++)
        rank->count *= rank->array.dim[i].local;
    if (rank->plan->is_signed)
        rank->array.type = VARVE_I64;
    if (rank->plan->has_hole && number + 1 == blocks)
        rank->array.dim[0].local = rank->count = 0;
    if (rank->plan->has_gap && rank->comm->rank + 1 == rank->comm->ranks)
        change_rows(rank, 0, -1);
    if (rank->plan->has_overlap && rank->comm->rank > 0)
        change_rows(rank, -1, 1);
    rank->field = calloc(rank->count + 1, sizeof *rank->field);
}

/* Uneven: the first ranks of many have nothing. */
void moved_share_list(struct rank *rank) {
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
        rank->field[i] = value_of(place_of(rank, i), salt + (rank->plan->is_torn ? rank->comm->rank : 0));
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
void moved_check(struct rank *rank, uint64_t salt, uint32_t ranks_before) {
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

_Atomic int *moved_looked;
static _Atomic int *said; /* some rank has got the error that was wanted */
_Atomic int *moved_warned;

static void note_warnings(void *arg, int level, const char *line) {
    (void)arg;
    (void)level;
    const char *looked_at = strstr(line, "looked at the descriptions of ");
    int count = looked_at ? atoi(looked_at + strlen("looked at the descriptions of ")) : 0, before = *moved_looked;
    while (count > before && !atomic_compare_exchange_weak(moved_looked, &before, count))
        ;
    *moved_warned |= strstr(line, "that no rank protects now") ? 1 : strstr(line, "protected by several ranks") ? 2 : 0;
}

void moved_open_session(struct rank *rank) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_error error = {0};
    char address[160];
    snprintf(address, sizeof address, "file://%s", moved_folder);
    options.settings = rank->plan->settings;
    options.log = note_warnings;
    if (varve_open_comm(group_comm(rank->comm), address, "grid", &options, &rank->session, &error) != 0)
        group_fail(rank->comm, "open: %s", error.text);
}

void moved_protect(struct rank *rank) {
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

void moved_save(struct rank *rank, int64_t version, uint64_t salt) {
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

void moved_restart(struct rank *rank) {
    int rc = ask_for_it(rank);
    const char *text = varve_session_error(rank->session)->text;
    if (rc && rank->plan->says && strstr(text, rank->plan->says))
        *said = 1;
    if (rc && rank->plan->says && strlen(text) >= 200)
        group_fail(rank->comm, "nobody reads %zu characters: %s", strlen(text), text);
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

uint32_t *moved_ranks;
static uint64_t *salt_before, *steps_before;

static void run_rank(struct varve_comm *comm, void *arg) {
    struct rank rank = {.plan = arg, .comm = comm};
    moved_cut_out(&rank);
    moved_share_list(&rank);
    moved_open_session(&rank);
    moved_protect(&rank);
    if (rank.plan->step == SAVE) {
        moved_save(&rank, 1, 7);
        moved_save(&rank, 2, 8);
    } else {
        moved_restart(&rank);
        if (rank.plan->code == 0 && !rank.plan->chosen)
            moved_check(&rank, *salt_before, *moved_ranks);
        else if (rank.plan->code == 0)
            check_chosen(&rank, *salt_before);
    }
    if (rank.plan->step == GO_ON)
        moved_save(&rank, 3 + (int64_t)*steps_before, *salt_before + 1);
    if (varve_close(rank.session) != 0)
        group_fail(comm, "close failed");
    free(rank.field);
}

/* ---- outside ---- */

void moved_run(const struct plan *plan) {
    static const char *const shapes[] = {"", " uneven", " boxes"};
    char about[200];
    snprintf(about, sizeof about, "%s: %ux%ux%u%s, seed %" PRIu64, plan->step == SAVE ? "save" : "restart",
             plan->cut.grid[0], plan->cut.grid[1], plan->cut.grid[2], shapes[plan->cut.shape], plan->cut.seed);
    *said = 0;
    group_must_run(ranks_of(&plan->cut), run_rank, plan, NULL, about);
    if (plan->says && !*said)
        fail_msg("%s: no rank says \"%s\"", about, plan->says);
    if (plan->step == SAVE)
        *salt_before = 8;
    if (plan->step == GO_ON && !plan->is_kept)
        ++*salt_before;
    *steps_before += plan->step == GO_ON;
    if (plan->step != RESTART)
        *moved_ranks = ranks_of(&plan->cut);
}

int moved_setup(void **state) {
    (void)state;
    moved_ranks = group_memory(4096);
    salt_before = (uint64_t *)(moved_ranks + 2);
    steps_before = salt_before + 1;
    moved_warned = (_Atomic int *)(steps_before + 1);
    moved_looked = moved_warned + 1;
    said = moved_looked + 1;
    return folder_make(NULL, "test-elastic", moved_folder, sizeof moved_folder);
}

int moved_teardown(void **state) {
    (void)state;
    folder_remove(moved_folder);
    group_memory_free(moved_ranks, 4096);
    return 0;
}

struct cut moved_cut_of(unsigned dims, uint32_t a, uint32_t b, uint32_t c) {
    return (struct cut){.dims = dims,
                        .size = {dims == 1   ? 9001
                                 : dims == 2 ? 211
                                             : 41,
                                 dims == 2 ? 97 : 31, 17},
                        .grid = {a, b, c}};
}

void moved_check_store(void) {
    char command[400];
    snprintf(command, sizeof command, "%s verify file://%s >/dev/null", VARVE_TOOL, moved_folder);
    assert_int_equal(system(command), 0);
}

void moved_turn(const struct cut *cuts, size_t count, const char *settings) {
    for (size_t from = 0; from < count; from++) {
        moved_teardown(NULL);
        moved_setup(NULL);
        moved_run(&(struct plan){.step = SAVE, .cut = cuts[from], .settings = settings, .is_told = 1});
        for (size_t to = 0; to < count; to++)
            moved_run(&(struct plan){.step = RESTART, .cut = cuts[to], .settings = settings, .is_told = 1});
    }
}

struct cut moved_drawn_cut(struct cut cut, int shape, uint64_t seed) {
    cut.shape = shape;
    cut.seed = seed;
    return cut;
}
