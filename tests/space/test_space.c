/* What a store takes stays bounded, however long a job runs and however its memory changes: by one process and by ranks
 * that share what they store, with every way of storing; and everything comes back. */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>

#include "folder.h"
#include "group.h"
#include "test.h"

#define CHUNK 4096u
#define CHUNKS 256u
#define SIZE (CHUNKS * CHUNK)
#define CHECKPOINTS 80
#define CHANGED 13   /* chunks of each half: a twentieth */
#define MOST 2.4     /* of what is needed: metadata is much with so little data, */
#define MOST_HOT 3.3 /* most of all where few chunks are left in each of many packs */

static char folder[64], store[80];

/* The first half is the same on all ranks, and changes alike. */
struct memory {
    uint8_t bytes[SIZE];
    uint64_t common, own;
};

struct way {
    uint32_t ranks;
    const char *settings;
    struct group_options options;
    int is_hot;      /* the same chunks change each time, and one more that stays */
    int differ;      /* rank 0 has one chunk that changes, and stays */
    int checkpoints; /* 0: as many as usual */
};

static uint64_t draw(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return *state >> 33;
}

static void fill(uint8_t *chunk, uint64_t *state) {
    for (size_t i = 0; i < CHUNK; i += 8) {
        uint64_t word = draw(state) << 32 ^ draw(state);
        memcpy(chunk + i, &word, 8);
    }
}

static void change_half(uint8_t *half, uint64_t *state, const struct way *way, int step) {
    for (uint32_t i = 0; i < CHANGED; i++) {
        uint32_t which = way->is_hot ? i : (uint32_t)(draw(state) % (CHUNKS / 2));
        fill(half + (size_t)which * CHUNK, state);
    }
    if (way->is_hot)
        fill(half + (CHANGED + (size_t)step % (CHUNKS / 2 - CHANGED)) * CHUNK, state);
}

static void change(struct memory *memory, const struct way *way, uint32_t rank, int step) {
    if (way->differ && rank == 0) {
        fill(memory->bytes + SIZE / 2 + (size_t)step % (CHUNKS / 2) * CHUNK, &memory->own);
        return;
    }
    change_half(memory->bytes, &memory->common, way, step);
    change_half(memory->bytes + SIZE / 2, &memory->own, way, step);
}

static struct varve_session *open_session(struct varve_comm *comm, const struct way *way, struct memory *memory) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session;
    struct varve_error error;
    char settings[256];
    snprintf(settings, sizeof settings, "keep=2,codec=none,log=error%s%s", *way->settings ? "," : "", way->settings);
    options.settings = settings;
    char address[96];
    uint32_t each = way->options.ranks_per_node;
    if (each)
        snprintf(address, sizeof address, "%s/node%u", store, comm->rank / each);
    else
        snprintf(address, sizeof address, "%s", store);
    if (varve_open_comm(group_comm(comm), address, "job", &options, &session, &error) != 0)
        group_fail(comm, "open: %s", error.text);
    if (varve_protect(session, "memory", memory->bytes, SIZE) != 0)
        group_fail(comm, "protect: %s", varve_session_error(session)->text);
    return session;
}

static struct varve_session *live_again(struct varve_comm *comm, const struct way *way, struct varve_session *session,
                                        struct memory *memory) {
    static uint8_t then[SIZE];
    if (varve_close(session) != 0)
        group_fail(comm, "close");
    memcpy(then, memory->bytes, SIZE);
    memset(memory->bytes, 0, SIZE);
    session = open_session(comm, way, memory);
    if (varve_restart(session, VARVE_LATEST, NULL) != 0)
        group_fail(comm, "restart: %s", varve_session_error(session)->text);
    if (memcmp(then, memory->bytes, SIZE) != 0)
        group_fail(comm, "what came back is not what was saved");
    return session;
}

static void rank_main(struct varve_comm *comm, void *arg) {
    const struct way *way = arg;
    static struct memory memory;
    memory.common = 1;
    memory.own = 2 + comm->rank;
    for (uint32_t i = 0; i < CHUNKS; i++)
        fill(memory.bytes + (size_t)i * CHUNK, i < CHUNKS / 2 ? &memory.common : &memory.own);
    struct varve_session *session = open_session(comm, way, &memory);
    int last = way->checkpoints ? way->checkpoints : CHECKPOINTS;
    for (int i = 0; i < last; i++) {
        if (i % 30 == 29 && !way->checkpoints)
            session = live_again(comm, way, session, &memory);
        change(&memory, way, comm->rank, i);
        if (varve_checkpoint(session, i) != 0 || varve_wait(session) != 0)
            group_fail(comm, "checkpoint %d: %s", i, varve_session_error(session)->text);
    }
    session = live_again(comm, way, session, &memory);
    varve_close(session);
}

static double bytes;

static int add_file(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)ftw;
    bytes += type == FTW_F && strstr(path, "/data/") ? (double)st->st_size : 0;
    return 0;
}

static void run(const struct way *way) {
    group_must_run(way->ranks, rank_main, way, &way->options, way->settings);
    int is_shared = way->ranks > 1 && !strstr(way->settings, "dedup=local");
    double halves = is_shared ? 1 + way->ranks : 2 * way->ranks;
    double needed = halves * (SIZE / 2 + (CHANGED + 1.0) * CHUNK) * (strstr(way->settings, "copies=2") ? 2 : 1);
    bytes = 0;
    nftw(store, add_file, 16, FTW_PHYS);
    print_message("%u ranks, %-40s %s: %.2f of what is needed\n", way->ranks, way->settings,
                  way->is_hot ? "hot" : "random", bytes / needed);
    assert_true(bytes / needed < ((way->is_hot || way->differ) && way->ranks > 1 ? MOST_HOT : MOST));
    assert_int_equal(folder_remove(store), 0);
}

static void test_one_process(void **state) {
    static const char *const settings[] = {"", "fine=64", "capture=trap", "dedup=none"};
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        for (int is_hot = 0; is_hot < 2; is_hot++)
            run(&(struct way){.ranks = 1, .settings = settings[i], .is_hot = is_hot});
}

/* Attempts that died long ago are not in the way of those that are to be emptied. */
static void test_long(void **state) {
    (void)state;
    run(&(struct way){.ranks = 1, .settings = "", .is_hot = 1, .checkpoints = 700});
}

/* A rank that needs all it has stored does not speak for the others. */
static void test_ranks_differ(void **state) {
    (void)state;
    run(&(struct way){.ranks = 4, .settings = "dedup=local", .differ = 1, .checkpoints = 240});
}

static void test_ranks(void **state) {
    static const char *const settings[] = {"dedup=exact", "dedup=local", "dedup=exact,aggregate=4",
                                           "dedup=exact,fine=64", "dedup=auto"};
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        run(&(struct way){.ranks = 4, .settings = settings[i]});
    run(&(struct way){.ranks = 4, .settings = "dedup=exact", .is_hot = 1});
    run(&(struct way){.ranks = 4, .settings = "dedup=exact", .options.has_second = 1});
}

/* Two nodes with disks of their own, each with a copy of what the other has. */
static void test_nodes(void **state) {
    (void)state;
    assert_int_equal(mkdir(store, 0700), 0);
    run(&(struct way){.ranks = 4, .settings = "dedup=exact,storage=local,copies=2", .options.ranks_per_node = 2});
}

static int setup(void **state) {
    (void)state;
    if (folder_make(NULL, "test-space", folder, sizeof folder) != 0)
        return -1;
    snprintf(store, sizeof store, "%s/store", folder);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    return folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_process), cmocka_unit_test(test_long),
                                       cmocka_unit_test(test_ranks), cmocka_unit_test(test_ranks_differ),
                                       cmocka_unit_test(test_nodes)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
