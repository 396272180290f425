/* How much a restart with other blocks reads. Rows become columns: each rank wants a part of every block, and one of
 * them reads it for all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>

#include "folder.h"
#include "group.h"
#include "io_count.h"
#include "test.h"

#define RANKS 4u
#define ROWS ((uint64_t)512)
#define COLUMNS ((uint64_t)8192)

static char folder[64];
static uint64_t *bytes_read; /* of each rank */

static int setup(void **state) {
    (void)state;
    bytes_read = group_memory(RANKS * sizeof *bytes_read);
    return folder_make(NULL, "test-turn-bytes", folder, sizeof folder);
}

static int teardown(void **state) {
    (void)state;
    group_memory_free(bytes_read, RANKS * sizeof *bytes_read);
    return folder_remove(folder);
}

static uint64_t value_of(uint64_t place) {
    uint64_t x = place * UINT64_C(0x9e3779b97f4a7c15);
    return (x ^ (x >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
}

/* Of this rank: some rows, or some columns. How many elements differ, if they are only looked at. */
static uint64_t each_element(const struct varve_array *array, uint64_t *data, int is_filled) {
    uint64_t wrong = 0;
    for (uint64_t y = 0; y < array->dim[0].local; y++)
        for (uint64_t x = 0; x < array->dim[1].local; x++, data++) {
            uint64_t value = value_of((array->dim[0].first + y) * COLUMNS + array->dim[1].first + x);
            wrong += is_filled && *data != value;
            *data = is_filled ? *data : value;
        }
    return wrong;
}

static struct varve_session *open_session(struct varve_comm *comm, const char *settings) {
    char address[128];
    struct varve_options options = {.size = sizeof options, .settings = settings};
    struct varve_session *session = NULL;
    struct varve_error error;
    snprintf(address, sizeof address, "file://%s", folder);
    if (varve_open_comm(group_comm(comm), address, "turn", &options, &session, &error) != 0)
        group_fail(comm, "open: %s", error.text);
    return session;
}

static void run(struct varve_comm *comm, const char *settings, int is_saving) {
    uint64_t own = is_saving ? ROWS / RANKS : COLUMNS / RANKS, before;
    struct varve_array array = {.size = sizeof array, .type = VARVE_U64, .dims = 2};
    array.dim[0] = (struct varve_dim){is_saving ? own : ROWS, is_saving ? own * comm->rank : 0, ROWS};
    array.dim[1] = (struct varve_dim){is_saving ? COLUMNS : own, is_saving ? 0 : own * comm->rank, COLUMNS};
    uint64_t *data = aligned_alloc(4096, ROWS * COLUMNS * 8 / RANKS);
    struct varve_session *session = open_session(comm, settings);
    int rc = varve_protect_array(session, "field", data, &array);
    if (is_saving)
        each_element(&array, data, 0);
    before = io_read_so_far();
    rc = rc ? rc : is_saving ? varve_checkpoint(session, 1) : varve_restart(session, VARVE_LATEST, NULL);
    rc = rc ? rc : varve_wait(session);
    bytes_read[comm->rank] = io_read_so_far() - before;
    if (rc)
        group_fail(comm, "%s", varve_session_error(session)->text);
    if (each_element(&array, data, 1) != 0)
        group_fail(comm, "other elements came back");
    varve_close(session);
    free(data);
}

static void save(struct varve_comm *comm, void *arg) {
    run(comm, arg, 1);
}

static void come_back(struct varve_comm *comm, void *arg) {
    run(comm, arg, 0);
}

static double read_over_needed(const char *settings) {
    double sum = 0;
    folder_remove(folder);
    assert_int_equal(folder_make(NULL, "test-turn-bytes", folder, sizeof folder), 0);
    group_must_run(RANKS, save, settings, NULL, settings);
    group_must_run(RANKS, come_back, settings, NULL, settings);
    for (unsigned rank = 0; rank < RANKS; rank++)
        sum += (double)bytes_read[rank];
    print_message("%s: %.2f of the array\n", settings, sum / (double)(ROWS * COLUMNS * 8));
    return sum / (double)(ROWS * COLUMNS * 8);
}

/* Mostly 1.03. If each rank read for itself, it would be 4; on a busy machine a rank may come so late that what it
 * wants is not kept for it any more. */
#define BOUND 3.0

static void each_block_is_read_once(void **state) {
    (void)state;
    if (io_read_so_far() == 0)
        skip(); /* the kernel does not count */
    assert_true(read_over_needed("codec=none,block_size=64K") <= BOUND);
    assert_true(read_over_needed("codec=none,block_size=64K,aggregate=4") <= BOUND);
    assert_true(read_over_needed("codec=zstd,block_size=64K") <= BOUND);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_block_is_read_once)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
