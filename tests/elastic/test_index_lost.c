/* A checkpoint whose index of arrays is damaged, or could not be made, comes back on other ranks all the same: all
 * descriptions are read then. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>

#include "folder.h"
#include "group.h"
#include "test.h"

#define ROWS 1200
#define NAME_LENGTH 255 /* of the many */

enum step { SAVE, RESTART };
struct life {
    enum step step;
    uint32_t ranks;
    int64_t undescribed; /* the version up to which the rows are bytes */
    uint64_t many;       /* arrays of nothing with long names, in version 2 */
    int64_t newest;      /* that is saved, or comes back */
};

static char folder[128];
static _Atomic int *counts; /* of the lines below, in memory that all share */
static const char *const lines[] = {"looked at the descriptions of", "all descriptions are read",
                                    "there is no index of arrays"};
enum { LOOKED, READ_ALL, NO_INDEX, LINES };

static void note(void *arg, int level, const char *line) {
    (void)arg;
    (void)level;
    for (size_t i = 0; i < LINES; i++)
        if (strstr(line, lines[i]))
            counts[i]++;
}

struct rank {
    const struct life *life;
    struct varve_comm *comm;
    struct varve_session *session;
    uint64_t first, count;
    uint64_t rows[ROWS];
};

static void must(const struct rank *rank, int rc, const char *what) {
    if (rc)
        group_fail(rank->comm, "%s: %s", what, varve_session_error(rank->session)->text);
}

static void protect_rows(struct rank *rank, int is_described) {
    struct varve_array array = {
        .size = sizeof array, .type = VARVE_U64, .dims = 1, .dim = {{rank->count, rank->first, ROWS}}};
    must(rank, varve_protect(rank->session, "rows", rank->rows, rank->count * 8), "protect");
    must(rank, varve_describe(rank->session, "rows", is_described ? &array : NULL), "describe");
}

static void protect_many(struct rank *rank, uint64_t count) {
    static uint64_t nothing;
    struct varve_array array = {.size = sizeof array, .type = VARVE_U64, .dims = VARVE_DIMS_MAX};
    char name[NAME_LENGTH + 1];
    for (unsigned i = 0; i < VARVE_DIMS_MAX; i++)
        array.dim[i] = (struct varve_dim){0, 0, 1};
    for (uint64_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%0*" PRIu64, NAME_LENGTH, i);
        must(rank, varve_protect_array(rank->session, name, &nothing, &array), "protect");
    }
}

static void unprotect_many(struct rank *rank, uint64_t count) {
    char name[NAME_LENGTH + 1];
    for (uint64_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%0*" PRIu64, NAME_LENGTH, i);
        must(rank, varve_unprotect(rank->session, name), "unprotect");
    }
}

/* The data stays as it is: what is new is what is said of it. */
static void save(struct rank *rank) {
    const struct life *life = rank->life;
    for (uint64_t i = 0; i < rank->count; i++)
        rank->rows[i] = (rank->first + i) * UINT64_C(0x9e3779b97f4a7c15);
    for (int64_t version = 1; version <= life->newest; version++) {
        protect_rows(rank, version > life->undescribed);
        if (version == 2)
            protect_many(rank, life->many);
        if (version == 3)
            unprotect_many(rank, life->many);
        must(rank, varve_checkpoint(rank->session, version), "checkpoint");
        must(rank, varve_wait(rank->session), "wait");
    }
}

static void come_back(struct rank *rank) {
    protect_rows(rank, 1);
    must(rank, varve_restart(rank->session, rank->life->newest, NULL), "restart");
    for (uint64_t i = 0; i < rank->count; i++)
        if (rank->rows[i] != (rank->first + i) * UINT64_C(0x9e3779b97f4a7c15))
            group_fail(rank->comm, "WRONG: row %" PRIu64, rank->first + i);
}

static void run_rank(struct varve_comm *comm, void *arg) {
    struct rank rank = {.life = arg, .comm = comm};
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_error error = {0};
    rank.first = ROWS * (uint64_t)comm->rank / comm->ranks;
    rank.count = ROWS * (comm->rank + UINT64_C(1)) / comm->ranks - rank.first;
    options.settings = "log=info,codec=none,keep=all,threads=0";
    options.log = note;
    if (varve_open_comm(group_comm(comm), folder, "job", &options, &rank.session, &error) != 0)
        group_fail(comm, "open: %s", error.text);
    if (rank.life->step == SAVE)
        save(&rank);
    else
        come_back(&rank);
    if (varve_close(rank.session) != 0)
        group_fail(comm, "close failed");
}

static void live(const struct life *life) {
    for (size_t i = 0; i < LINES; i++)
        counts[i] = 0;
    group_must_run(life->ranks, run_rank, life, NULL, NULL);
}

/* ---- damage ---- */

/* Flip a bit behind the index's magic, wherever a pack has it as it is. */
static int damage_one(const char *path, const char *magic) {
    FILE *file = fopen(path, "r+be");
    static char data[1 << 20];
    size_t size = file ? fread(data, 1, sizeof data, file) : 0;
    char *at = size ? memmem(data, size, magic, 4) : NULL;
    if (at) {
        assert_int_equal(fseek(file, at - data + 9, SEEK_SET), 0);
        assert_int_equal(fputc(at[9] ^ 1, file), (uint8_t)(at[9] ^ 1));
    }
    if (file)
        fclose(file);
    return at != NULL;
}

static int damage_index(void) {
    char command[300], path[400];
    int count = 0;
    snprintf(command, sizeof command, "find %s -type f", folder);
    FILE *list = popen(command, "re");
    assert_non_null(list);
    while (fgets(path, sizeof path, list)) {
        path[strcspn(path, "\n")] = '\0';
        count += damage_one(path, "VVX1");
    }
    pclose(list);
    return count;
}

/* The block in which the index lies holds nothing else: the rows were stored before anybody said what they are. */
static void what_is_damaged_is_not_needed(void **state) {
    (void)state;
    live(&(struct life){.step = SAVE, .ranks = 4, .undescribed = 1, .newest = 2});
    live(&(struct life){.step = RESTART, .ranks = 3, .newest = 2});
    assert_int_equal(counts[LOOKED], 3);
    assert_int_equal(counts[READ_ALL], 0);
    assert_int_equal(damage_index(), 1);
    live(&(struct life){.step = RESTART, .ranks = 3, .newest = 2});
    assert_int_equal(counts[LOOKED], 0);
    assert_int_equal(counts[READ_ALL], 3);
}

/* ---- more than rank 0 takes ---- */

/* Four times 34 MB. The index of version 1 must not be left in version 2: it would be of other arrays. With fewer
 * arrays there is one again. */
static void too_many_arrays_have_none(void **state) {
    (void)state;
    live(&(struct life){.step = SAVE, .ranks = 4, .many = 100000, .newest = 3});
    assert_int_equal(counts[NO_INDEX], 4); /* each rank's log, once */
    for (int64_t version = 1; version <= 3; version++) {
        live(&(struct life){.step = RESTART, .ranks = 3, .newest = version});
        assert_int_equal(counts[LOOKED], version == 2 ? 0 : 3);
        assert_int_equal(counts[READ_ALL], 0);
    }
}

static int setup(void **state) {
    (void)state;
    counts = group_memory(4096);
    return folder_make(NULL, "test-index-lost", folder, sizeof folder);
}

static int teardown(void **state) {
    (void)state;
    group_memory_free(counts, 4096);
    return folder_remove(folder);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(what_is_damaged_is_not_needed),
        TEST(too_many_arrays_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
