/* Node-local stores with parity: packs of several parts, other numbers of ranks, what is told, and what is refused.
 * Lost nodes of every kind are in tests/lost. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "folder.h"
#include "group.h"
#include "test.h"

#define NODES 4
#define SLOW 512 /* rows of the array, of 8 KiB each */
#define FAST 1024

struct plan {
    const char *settings;
    uint32_t ranks;
    int saves; /* versions; 0: it comes back */
    unsigned nodes;
    int expected; /* of varve_open */
    const char *text;
    int is_joined; /* the group takes each two nodes for one, as with VARVE_DOMAIN */
};

static char folder[128];
static uint64_t *told; /* bytes of parity, rebuilt bytes: of all ranks */

static uint32_t node_of(const struct plan *plan, uint32_t rank) {
    uint32_t wanted = rank * (uint32_t)__builtin_popcount(plan->nodes) / plan->ranks, node = 0;
    for (;; node++)
        if (plan->nodes >> node & 1 && wanted-- == 0)
            return node;
}

static uint64_t value_of(uint64_t row, uint64_t column, int64_t version) {
    uint64_t x = (row * FAST + column + 1) * UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)version;
    return x ^ x >> 31;
}

static void take_stat(void *arg, const struct varve_stat *stat) {
    (void)arg;
    if (strcmp(stat->name, "bytes_parity") == 0)
        __atomic_add_fetch(&told[0], (uint64_t)stat->value, __ATOMIC_RELAXED);
    if (strcmp(stat->name, "restart_bytes_rebuilt") == 0)
        __atomic_add_fetch(&told[1], (uint64_t)stat->value, __ATOMIC_RELAXED);
}

static void use(struct varve_comm *comm, struct varve_session *session, const struct plan *plan) {
    uint64_t first = (uint64_t)SLOW * comm->rank / plan->ranks, end = (uint64_t)SLOW * (comm->rank + 1) / plan->ranks;
    uint64_t *rows = calloc((size_t)(end - first) * FAST, sizeof *rows);
    struct varve_array array = {
        .size = sizeof array, .type = VARVE_U64, .dims = 2, .dim = {{end - first, first, SLOW}, {FAST, 0, FAST}}};
    int64_t version = 1;
    if (!rows || varve_protect_array(session, "rows", rows, &array) != 0)
        group_fail(comm, "protect: %s", varve_session_error(session)->text);
    for (; version <= plan->saves; version++) {
        for (uint64_t row = first; row < end; row++)
            for (uint64_t column = 0; column < FAST; column++)
                rows[(row - first) * FAST + column] = value_of(row, column, version);
        if (varve_checkpoint(session, version) != 0 || varve_wait(session) != 0)
            group_fail(comm, "save: %s", varve_session_error(session)->text);
    }
    if (!plan->saves && varve_restart(session, VARVE_LATEST, &version) != 0)
        group_fail(comm, "restart: %s", varve_session_error(session)->text);
    for (uint64_t row = first; row < end && !plan->saves; row++)
        for (uint64_t column = 0; column < FAST; column++)
            if (rows[(row - first) * FAST + column] != value_of(row, column, version))
                group_fail(comm, "WRONG BYTES in row %llu", (unsigned long long)row);
    varve_stats_each(session, take_stat, NULL);
    free(rows);
}

static void live(struct varve_comm *comm, void *arg) {
    const struct plan *plan = arg;
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error = {0};
    char store[256], settings[256];
    snprintf(store, sizeof store, "%s/node%u", folder, node_of(plan, comm->rank));
    snprintf(settings, sizeof settings, "storage=local,part_size=1M,block_size=64K,log=error,%s", plan->settings);
    options.settings = settings;
    int rc = varve_open_comm(group_comm(comm), store, "job", &options, &session, &error);
    if (rc != plan->expected || (plan->text && !strstr(error.text, plan->text)))
        group_fail(comm, "open says %s: %s", varve_error_name(rc), error.text);
    if (!session)
        return;
    use(comm, session, plan);
    if (varve_close(session) != 0)
        group_fail(comm, "close");
}

static void run_plan(const struct plan *plan) {
    uint32_t places[GROUP_RANKS_MAX];
    struct group_options options = {.node_of = places};
    for (uint32_t i = 0; i < plan->ranks; i++)
        places[i] = node_of(plan, i) >> plan->is_joined;
    memset(told, 0, 2 * sizeof *told);
    group_must_run(plan->ranks, live, plan, &options, plan->settings);
}

static void run(const char *settings, uint32_t ranks, unsigned nodes, int saves, int expected, const char *text) {
    struct plan plan = {settings, ranks, saves, nodes, expected, text, 0};
    run_plan(&plan);
}

static void lose_node(unsigned node) {
    char path[256];
    snprintf(path, sizeof path, "%s/node%u", folder, node);
    assert_int_equal(folder_remove(path), 0);
}

static int setup(void **state) {
    (void)state;
    told = group_memory(2 * sizeof *told);
    return folder_make(NULL, "varve-parity", folder, sizeof folder);
}

static int teardown(void **state) {
    (void)state;
    group_memory_free(told, 2 * sizeof *told);
    return folder_remove(folder);
}

/* A MiB per rank and more: packs have parts. The streams of two nodes are gone. */
static void parts_come_back(void **state) {
    (void)state;
    run("parity=2+2,codec=none", 4, 15, 2, 0, NULL);
    assert_in_range(told[0], SLOW * FAST * 8, SLOW * FAST * 8 * 11 / 10);
    lose_node(0);
    lose_node(2);
    run("parity=2+2", 4, 15, 0, 0, NULL);
    assert_true(told[1] >= SLOW * FAST * 8 / 2);
}

/* On the two nodes that are left, and on another number of ranks. */
static void other_ranks_come_back(void **state) {
    (void)state;
    run("parity=2+2", 6, 15, 2, 0, NULL);
    lose_node(1);
    lose_node(3);
    run("parity=2+2", 3, 5, 0, 0, NULL);
    assert_true(told[1] > 0);
    run("parity=2+2", 6, 5, 0, 0, NULL);
}

static void nothing_is_rebuilt(void **state) {
    (void)state;
    run("parity=3+1", 4, 15, 2, 0, NULL);
    assert_true(told[0] > 0);
    run("parity=3+1", 4, 15, 0, 0, NULL);
    assert_int_equal(told[1], 0);
    run("copies=1", 4, 15, 0, 0, NULL);
}

static void wrong_settings_are_refused(void **state) {
    static const char *const wrong[] = {"parity=2",   "parity=0+1",  "parity=2+3",
                                        "parity=4+4", "parity=14+1", "parity=4+2+1"};
    (void)state;
    run("parity=2+2,copies=2", 4, 15, 1, -EINVAL, "parity=2+2 and copies=2 exclude each other");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        run(wrong[i], 2, 3, 1, VARVE_SETTING, "parity");
}

static void shared_storage_is_refused(void **state) {
    (void)state;
    run("parity=2+2,storage=shared", 4, 1, 1, -EINVAL, "parity=2+2 is for node-local stores");
}

/* Hosts that fail together are one node, each with its own disk. */
static void joined_hosts_come_back(void **state) {
    struct plan plan = {"parity=1+1", 4, 2, 15, 0, NULL, 1};
    (void)state;
    run_plan(&plan);
    assert_true(told[0] > 0);
    lose_node(0);
    lose_node(1);
    plan.saves = 0;
    run_plan(&plan);
    assert_true(told[1] > 0);
}

/* With three ranks on two such nodes one of them would read what lies on the other's disk. */
static void joined_hosts_of_uneven_ranks_save(void **state) {
    struct plan plan = {"parity=1+1", 3, 2, 7, 0, NULL, 1};
    (void)state;
    run_plan(&plan);
    assert_int_equal(told[0], 0);
    plan.saves = 0;
    run_plan(&plan);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {TEST(parts_come_back), TEST(other_ranks_come_back), TEST(nothing_is_rebuilt),
                                       TEST(joined_hosts_come_back), TEST(joined_hosts_of_uneven_ranks_save),
                                       TEST(wrong_settings_are_refused), TEST(shared_storage_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
