/* How much a restart with other blocks reads. Rows become columns: each rank wants a part of every block, and one of
 * them reads it for all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <varve/varve.h>

#include "folder.h"
#include "group.h"
#include "io_count.h"
#include "test.h"

#define RANKS 4u
#define ROWS ((uint64_t)512)
#define COLUMNS ((uint64_t)8192)
#define QUIET_NS UINT64_C(200000000)  /* where nothing else runs it takes 0.03 to 0.18 s */
#define ALONE_NS UINT64_C(1000000000) /* and 0.07 s for a rank alone */

static char folder[64];
static uint64_t *bytes_read; /* of each rank; then the nanoseconds that rank 0 took */

static int setup(void **state) {
    (void)state;
    bytes_read = group_memory((RANKS + 1) * sizeof *bytes_read);
    return folder_make(NULL, "test-turn-bytes", folder, sizeof folder);
}

static int teardown(void **state) {
    (void)state;
    group_memory_free(bytes_read, (RANKS + 1) * sizeof *bytes_read);
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

enum part { ITS_ROWS, ITS_COLUMNS, COLUMNS_OF_RANK_0 };

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void run(struct varve_comm *comm, const char *settings, enum part part) {
    int is_saving = part == ITS_ROWS, has_part = part != COLUMNS_OF_RANK_0 || comm->rank == 0;
    uint64_t own = is_saving ? ROWS / RANKS : COLUMNS / RANKS, before;
    struct varve_array array = {.size = sizeof array, .type = VARVE_U64, .dims = 2};
    array.dim[0] = (struct varve_dim){is_saving ? own : has_part ? ROWS : 0, is_saving ? own * comm->rank : 0, ROWS};
    array.dim[1] = (struct varve_dim){is_saving ? COLUMNS : own, is_saving ? 0 : own * comm->rank, COLUMNS};
    uint64_t *data = aligned_alloc(4096, ROWS * COLUMNS * 8 / RANKS);
    struct varve_session *session = open_session(comm, settings);
    int rc = varve_protect_array(session, "field", data, &array);
    if (is_saving)
        each_element(&array, data, 0);
    before = io_read_so_far();
    uint64_t begin = now_ns();
    rc = rc ? rc : is_saving ? varve_checkpoint(session, 1) : varve_restart(session, VARVE_LATEST, NULL);
    rc = rc ? rc : varve_wait(session);
    bytes_read[comm->rank] = io_read_so_far() - before;
    if (comm->rank == 0)
        bytes_read[RANKS] = now_ns() - begin;
    if (rc)
        group_fail(comm, "%s", varve_session_error(session)->text);
    if (each_element(&array, data, 1) != 0)
        group_fail(comm, "other elements came back");
    varve_close(session);
    free(data);
}

static void save(struct varve_comm *comm, void *arg) {
    run(comm, arg, ITS_ROWS);
}

static void come_back(struct varve_comm *comm, void *arg) {
    run(comm, arg, ITS_COLUMNS);
}

static void come_back_alone(struct varve_comm *comm, void *arg) {
    run(comm, arg, COLUMNS_OF_RANK_0);
}

/* Half of the ranks on each of two nodes, or all on one: bytes read by all of them, of the array. */
static double read_of_array(const char *settings, uint32_t ranks_per_node, group_fn back) {
    const struct group_options options = {.ranks_per_node = ranks_per_node};
    const double needed = (double)(ROWS * COLUMNS * 8);
    double sum = 0;
    folder_remove(folder);
    assert_int_equal(folder_make(NULL, "test-turn-bytes", folder, sizeof folder), 0);
    group_must_run(RANKS, save, settings, &options, settings);
    group_must_run(RANKS, back, settings, &options, settings);
    for (unsigned rank = 0; rank < RANKS; rank++)
        sum += (double)bytes_read[rank];
    print_message("%s, %u nodes: %.3f of the array, %.3f s\n", settings, ranks_per_node ? 2 : 1, sum / needed,
                  (double)bytes_read[RANKS] * 1e-9);
    return sum / needed;
}

/* A rank that gets no processor for long is left behind, and reads for itself then. So it may take three attempts
 * where it takes longer than on a quiet machine. */
static double least_of_array(const char *settings, uint32_t ranks_per_node, group_fn back, double most) {
    double least = read_of_array(settings, ranks_per_node, back);
    for (int more = 2; more > 0 && least > most && bytes_read[RANKS] > QUIET_NS; more--) {
        double again = read_of_array(settings, ranks_per_node, back);
        least = again < least ? again : least;
    }
    return least;
}

/* At most 1.1 times the array, and 1 MiB for each rank. */
static void check_bytes(const char *settings, uint32_t ranks_per_node) {
    double most = 1.1 + RANKS / 32.0;
    assert_true(least_of_array(settings, ranks_per_node, come_back, most) <= most);
}

static void check_each(uint32_t ranks_per_node) {
    if (io_read_so_far() == 0)
        skip(); /* the kernel does not count */
    check_bytes("codec=none,block_size=64K", ranks_per_node);
    check_bytes("codec=none,block_size=128K", ranks_per_node);
    check_bytes("codec=none,block_size=256K", ranks_per_node);
    check_bytes("codec=none,block_size=1M", ranks_per_node);
    check_bytes("codec=none,block_size=64K,aggregate=4", ranks_per_node);
    check_bytes("codec=zstd,block_size=64K", ranks_per_node);
}

/* If each rank read for itself, blocks of 1 MiB would be read 4 times, and of the small ones 1.25 times as much as
 * there is, since reads begin and end at multiples of 4 KiB. */
static void a_node_reads_each_block_once(void **state) {
    (void)state;
    check_each(0);
}

/* What the other node wants comes from this one. */
static void two_nodes_read_each_block_once(void **state) {
    (void)state;
    check_each(RANKS / 2);
}

/* A quarter of each row, and 4 KiB more: all of each block only where others want the rest. It took seconds once, since
 * threads that wait for their turn looked only now and then. */
static void nobody_reads_what_no_rank_wants(void **state) {
    (void)state;
    double most = 1.3 / RANKS + RANKS / 32.0;
    if (io_read_so_far() == 0)
        skip();
    assert_true(least_of_array("codec=none,block_size=64K", 0, come_back_alone, most) <= most);
    for (int more = 2; more > 0 && bytes_read[RANKS] > ALONE_NS; more--)
        read_of_array("codec=none,block_size=64K", 0, come_back_alone);
    assert_true(bytes_read[RANKS] <= ALONE_NS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_reads_what_no_rank_wants),
        cmocka_unit_test(a_node_reads_each_block_once),
        cmocka_unit_test(two_nodes_read_each_block_once),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
