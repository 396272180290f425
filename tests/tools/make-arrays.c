/* make-arrays STORE: the store in tests/format/array-store, which every later program must be able to read: two
 * versions of a job of four ranks, whose arrays are cut in every way that the index of arrays has a rule for, and in
 * ways for which it has none; and attributes. make-arrays --check STORE RANKS: it comes back on so many ranks.
 * read_arrays.py knows the values too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>

#include "group.h"

#define RANKS 4
#define MOST 200 /* elements of an array */
#define LIST 10

enum { FLOOR, REST, CEIL, CYCLIC, UNEVEN, PATCHES, ARRAYS };
static const char *const names[ARRAYS] = {"floor", "rest", "rounded up", "cyclic", "uneven", "patches"};
static const enum varve_type types[ARRAYS] = {VARVE_F64, VARVE_I32, VARVE_I32, VARVE_U16, VARVE_U64, VARVE_I64};
static const uint64_t sizes[ARRAYS][2] = {{10, 7}, {11, 0}, {10, 0}, {9, 14}, {20, 0}, {6, 6}};

struct job {
    const char *store;
    int is_check;
};

struct rank {
    struct varve_comm *comm;
    struct varve_session *session;
    struct varve_array array[ARRAYS];
    union {
        double f64[MOST];
        int32_t i32[MOST];
        uint16_t u16[MOST];
        uint64_t u64[MOST];
    } data[ARRAYS];
    uint64_t list_first, list_count, list[LIST][2];
    char letters[LIST];
    uint32_t common[3], own[2], scratch[2];
};

/* ---- which part a rank has ---- */

static struct varve_dim cut(uint64_t size, uint64_t first, uint64_t end) {
    return (struct varve_dim){end - first, first, size};
}

static void deal(struct varve_array *array, unsigned dim, uint64_t size, uint64_t block, uint64_t at, uint64_t parts) {
    uint64_t every = block * parts, rest = size % every, before = block * at;
    uint64_t more = rest <= before ? 0 : rest - before < block ? rest - before : block;
    array->dim[dim] = (struct varve_dim){size / every * block + more, before, size};
    array->stride[dim] = (struct varve_stride){block, every};
}

/* As it was saved. */
static void cut_four(struct rank *rank, int64_t version) {
    static const uint64_t uneven[] = {0, 1, 2, 10, 20},
                          patches[RANKS][4] = {{0, 2, 0, 6}, {2, 6, 0, 3}, {2, 4, 3, 6}, {4, 6, 3, 6}};
    uint64_t r = rank->comm->rank, row = r / 2, column = r % 2;
    struct varve_array *array = rank->array;
    array[FLOOR].dim[0] = cut(10, 5 * row, 5 * row + 5);
    array[FLOOR].dim[1] = cut(7, column ? 3 : 0, column ? 7 : 3);
    array[REST].dim[0] = cut(11, 3 * r, r == 3 ? 11 : 3 * r + 3);
    array[CEIL].dim[0] = cut(10, 3 * r, r == 3 ? 10 : 3 * r + 3);
    deal(&array[CYCLIC], 0, 9, 2, row, 2);
    deal(&array[CYCLIC], 1, 14, version == 1 ? 3 : 4, column, 2);
    array[UNEVEN].dim[0] = cut(20, uneven[r], uneven[r + 1]);
    array[PATCHES].dim[0] = cut(6, patches[r][0], patches[r][1]);
    array[PATCHES].dim[1] = cut(6, patches[r][2], patches[r][3]);
    static const uint64_t list[] = {0, 0, 3, 8, 10};
    rank->list_first = list[r];
    rank->list_count = list[r + 1] - list[r];
}

/* By rows, as even as can be. */
static void cut_rows(struct rank *rank) {
    uint64_t r = rank->comm->rank, ranks = rank->comm->ranks;
    for (int i = 0; i < ARRAYS; i++) {
        rank->array[i].dim[0] = cut(sizes[i][0], sizes[i][0] * r / ranks, sizes[i][0] * (r + 1) / ranks);
        rank->array[i].dim[1] = cut(sizes[i][1], 0, sizes[i][1]);
    }
    rank->list_first = LIST * r / ranks;
    rank->list_count = LIST * (r + 1) / ranks - rank->list_first;
}

static uint64_t elements_of(const struct varve_array *array) {
    return array->dim[0].local * (array->dims > 1 ? array->dim[1].local : 1);
}

static uint64_t index_of(const struct varve_array *array, unsigned dim, uint64_t local) {
    const struct varve_stride *stride = &array->stride[dim];
    return array->dim[dim].first +
           (stride->block ? local / stride->block * stride->every + local % stride->block : local);
}

static uint64_t place_of(const struct varve_array *array, uint64_t element) {
    if (array->dims == 1)
        return index_of(array, 0, element);
    uint64_t columns = array->dim[1].local;
    return index_of(array, 0, element / columns) * array->dim[1].global + index_of(array, 1, element % columns);
}

/* ---- values ---- */

static void set(struct rank *rank, int array, uint64_t at, uint64_t value) {
    if (types[array] == VARVE_F64)
        rank->data[array].f64[at] = (double)value + 0.5;
    else if (types[array] == VARVE_I32)
        rank->data[array].i32[at] = (int32_t)value;
    else if (types[array] == VARVE_U16)
        rank->data[array].u16[at] = (uint16_t)value;
    else
        rank->data[array].u64[at] = value;
}

static void fill(struct rank *rank, int64_t version) {
    uint64_t salt = (uint64_t)version * 1000;
    for (int i = 0; i < ARRAYS; i++)
        for (uint64_t at = 0; at < elements_of(&rank->array[i]); at++)
            set(rank, i, at, salt + 200 * (uint64_t)i + place_of(&rank->array[i], at));
    for (uint64_t i = 0; i < rank->list_count; i++) {
        rank->list[i][0] = salt + rank->list_first + i;
        rank->list[i][1] = 7 * (rank->list_first + i);
        rank->letters[i] = (char)('a' + version + (int64_t)(rank->list_first + i));
    }
    for (uint32_t i = 0; i < 3; i++)
        rank->common[i] = (uint32_t)version * 10 + i;
    rank->own[0] = rank->own[1] = (uint32_t)version * 100 + rank->comm->rank;
}

static int protect(struct rank *rank) {
    struct varve_array list = {
        .size = sizeof list, .type = VARVE_U64, .dims = 2, .dim = {{.local = rank->list_count}, {.local = 2}}};
    struct varve_session *session = rank->session;
    int rc = 0;
    for (int i = 0; i < ARRAYS && rc == 0; i++)
        rc = varve_protect_array(session, names[i], &rank->data[i], &rank->array[i]);
    rc = rc ? rc : varve_protect_array(session, "list", rank->list, &list);
    rc = rc ? rc : varve_distribute(session, "list", VARVE_JOINED);
    rc = rc ? rc : varve_protect(session, "letters", rank->letters, rank->list_count);
    rc = rc ? rc : varve_distribute(session, "letters", VARVE_JOINED);
    rc = rc ? rc : varve_protect(session, "common", rank->common, sizeof rank->common);
    rc = rc ? rc : varve_distribute(session, "common", VARVE_REPLICATED);
    rc = rc ? rc : varve_protect(session, "own", rank->own, sizeof rank->own);
    rc = rc ? rc : varve_distribute(session, "own", VARVE_BY_RANK);
    rc = rc ? rc : varve_protect(session, "scratch", rank->scratch, sizeof rank->scratch);
    return rc ? rc : varve_distribute(session, "scratch", VARVE_DROPPED);
}

/* ---- the job ---- */

static void open_session(struct rank *rank, const struct job *job) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_error error = {0};
    options.settings = "keep=all,codec=none";
    for (int i = 0; i < ARRAYS; i++)
        rank->array[i] = (struct varve_array){
            .size = sizeof(struct varve_array), .type = (int)types[i], .dims = sizes[i][1] ? 2 : 1};
    if (varve_open_comm(group_comm(rank->comm), job->store, "arrays", &options, &rank->session, &error) != 0)
        group_fail(rank->comm, "open: %s", error.text);
}

static void save(struct rank *rank, int64_t version) {
    cut_four(rank, version);
    fill(rank, version);
    int rc = protect(rank);
    rc = rc ? rc : varve_attribute(rank->session, "time", version == 1 ? "0.25" : "0.5");
    rc = rc ? rc : varve_attribute(rank->session, "note", version == 1 ? "two\nlines" : NULL);
    rc = rc ? rc : varve_attribute(rank->session, "empty", "");
    rc = rc ? rc : varve_checkpoint(rank->session, version);
    rc = rc ? rc : varve_wait(rank->session);
    if (rc)
        group_fail(rank->comm, "save: %s", varve_session_error(rank->session)->text);
}

/* What came back is what would be filled in, but for what belongs to ranks. */
static void check(struct rank *rank, int64_t version) {
    static struct rank wanted;
    wanted = *rank;
    fill(&wanted, version);
    if (rank->comm->rank >= RANKS)
        memcpy(wanted.own, rank->own, sizeof wanted.own);
    if (memcmp(&wanted, rank, sizeof wanted) != 0)
        group_fail(rank->comm, "WRONG: version %d", (int)version);
}

static void run_rank(struct varve_comm *comm, void *arg) {
    const struct job *job = arg;
    static struct rank rank;
    rank.comm = comm;
    open_session(&rank, job);
    for (int64_t version = 1; version <= 2; version++) {
        if (!job->is_check) {
            save(&rank, version);
            continue;
        }
        cut_rows(&rank);
        if (protect(&rank) != 0 || varve_restart(rank.session, version, NULL) != 0)
            group_fail(comm, "restart: %s", varve_session_error(rank.session)->text);
        check(&rank, version);
    }
    if (varve_close(rank.session) != 0)
        group_fail(comm, "close failed");
}

int main(int argc, char **argv) {
    struct job job = {.is_check = argc == 4 && strcmp(argv[1], "--check") == 0};
    job.store = argv[argc > 1 ? 1 + job.is_check : 0];
    if (argc != 2 + 2 * job.is_check)
        return 2;
    return group_run(job.is_check ? (uint32_t)strtoul(argv[3], NULL, 10) : RANKS, run_rank, &job, NULL, NULL) != 0;
}
