/* How much a restart reads. Blocks are read whole, so what several ranks need must not lie among what only one does.
 * What several ranks of a node need is read by one of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>

#include "folder.h"
#include "group.h"
#include "io_count.h"
#include "test.h"

#define RANKS 4
#define PAGE ((size_t)4096)
#define PAGES ((size_t)2048)
#define SIZE (PAGES * PAGE)

static char folder[64];
static uint64_t *bytes_read; /* of each rank */

static int setup(void **state) {
    (void)state;
    bytes_read = group_memory(RANKS * sizeof *bytes_read);
    return folder_make(NULL, "test-restart-bytes", folder, sizeof folder);
}

static int teardown(void **state) {
    (void)state;
    group_memory_free(bytes_read, RANKS * sizeof *bytes_read);
    return folder_remove(folder);
}

/* Every second page is the same on all ranks. */
static void fill(uint8_t *memory, uint32_t rank) {
    for (size_t i = 0; i < SIZE; i += 8) {
        uint64_t page = i / PAGE, key = page % 2 ? rank + 1 : 0;
        uint64_t value = (key << 32 | page) * 0x9e3779b97f4a7c15u + i % PAGE * 0xbf58476d1ce4e5b9u;
        memcpy(memory + i, &value, 8);
    }
}

static struct varve_session *open_session(struct varve_comm *comm, uint8_t *memory, const char *settings) {
    char address[128];
    struct varve_options options = {.size = sizeof options, .settings = settings};
    struct varve_session *session = NULL;
    struct varve_error error;
    snprintf(address, sizeof address, "file://%s", folder);
    if (varve_open_comm(group_comm(comm), address, "bytes", &options, &session, &error) != 0)
        group_fail(comm, "open: %s", error.text);
    if (varve_protect(session, "field", memory, SIZE) != 0)
        group_fail(comm, "protect");
    return session;
}

static void save(struct varve_comm *comm, void *arg) {
    uint8_t *memory = aligned_alloc(PAGE, SIZE);
    fill(memory, comm->rank);
    struct varve_session *session = open_session(comm, memory, arg);
    if (varve_checkpoint(session, 1) != 0 || varve_wait(session) != 0)
        group_fail(comm, "checkpoint: %s", varve_session_error(session)->text);
    varve_close(session);
    free(memory);
}

static void come_back(struct varve_comm *comm, void *arg) {
    uint8_t *memory = aligned_alloc(PAGE, SIZE), *wanted = aligned_alloc(PAGE, SIZE);
    int64_t version = -1;
    fill(wanted, comm->rank);
    struct varve_session *session = open_session(comm, memory, arg);
    uint64_t before = io_read_so_far();
    if (varve_restart(session, VARVE_LATEST, &version) != 0 || version != 1)
        group_fail(comm, "restart: %s", varve_session_error(session)->text);
    bytes_read[comm->rank] = io_read_so_far() - before;
    if (memcmp(memory, wanted, SIZE) != 0)
        group_fail(comm, "other bytes came back");
    varve_close(session);
    free(wanted);
    free(memory);
}

/* A rank needs all of its memory: 1. If shared and private pages lay in the same blocks, it would read nearly the whole
 * store: 2.5 times as much. */
static void a_rank_reads_what_it_needs(void **state) {
    static const char settings[] = "dedup=exact,aggregate=off,codec=none";
    (void)state;
    if (io_read_so_far() == 0)
        skip(); /* the kernel does not count */
    const struct group_options apart = {.ranks_per_node = 1};
    group_must_run(RANKS, save, settings, &apart, NULL);
    group_must_run(RANKS, come_back, settings, &apart, NULL);
    for (int rank = 0; rank < RANKS; rank++) {
        print_message("rank %d read %.2f of what it needs\n", rank, (double)bytes_read[rank] / SIZE);
        assert_true(bytes_read[rank] <= SIZE / 100 * 125);
    }
}

/* What all ranks read together, of what is unique in the job. */
static double read_over_unique(const char *settings) {
    double sum = 0, unique = (double)SIZE / 2 * (RANKS + 1);
    group_must_run(RANKS, save, settings, NULL, settings);
    group_must_run(RANKS, come_back, settings, NULL, settings);
    for (int rank = 0; rank < RANKS; rank++)
        sum += (double)bytes_read[rank];
    print_message("%s: %.2f of what is unique\n", settings, sum / unique);
    return sum / unique;
}

/* If each rank read for itself, it would be 1.6. Mostly it is 1.05; on a busy machine a rank may come so late that what
 * it wants is not kept for it any more. */
#define BOUND_UNIQUE 1.35

static void a_node_reads_once(void **state) {
    (void)state;
    if (io_read_so_far() == 0)
        skip();
    assert_true(read_over_unique("dedup=exact,aggregate=off,codec=none") <= BOUND_UNIQUE);
}

/* Blocks of several ranks, of one writer. */
static void a_node_reads_a_shared_writers_pack_once(void **state) {
    (void)state;
    if (io_read_so_far() == 0)
        skip();
    assert_true(read_over_unique("dedup=exact,aggregate=4,codec=none") <= BOUND_UNIQUE);
    folder_remove(folder);
    setup(state);
    /* Every block has something of every rank: without lending it would be 4. */
    assert_true(read_over_unique("dedup=exact,aggregate=4,codec=none,grouping=agnostic-block") <= 2 * BOUND_UNIQUE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_rank_reads_what_it_needs, setup, teardown),
        cmocka_unit_test_setup_teardown(a_node_reads_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_node_reads_a_shared_writers_pack_once, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
