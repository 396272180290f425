/* A checkpoint of node-local stores that is pinned on one node stays on all of them. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <varve/varve_inspect.h>

#include "nodes.h"
#include "test.h"

#define NODES 3

/* In one rank, on the store of its node. */
static int pin_here(struct ranks_job *job, int64_t version, int is_pinned) {
    struct varve_which which = {.name = "job", .version = version};
    struct varve_store *store = NULL;
    struct varve_error why = {0};
    char folder[256];
    node_folder(node_of(job->rank), folder, sizeof folder);
    int rc = varve_store_open(folder, "log=error", &store, &why);
    if (rc == 0)
        rc = is_pinned ? varve_store_pin(store, &which, "by one node", &why) : varve_store_unpin(store, &which, &why);
    varve_store_close(store);
    if (rc < 0)
        group_fail(job->comm, "version %" PRId64 " could not be pinned or unpinned: %s", version, why.text);
    return rc;
}

static void save(struct ranks_job *job, int64_t first, int64_t last) {
    for (int64_t version = first; version <= last; version++) {
        rank_checkpoint(job, version);
        rank_wait(job);
    }
}

/* Rank `value` pins version 2 while it is one of the newest; no other node hears of it. */
static void live(struct ranks_job *job) {
    if (node_open(job, "keep=2") != 0)
        return;
    save(job, 1, 3);
    if (job->rank == job->plan->value)
        pin_here(job, 2, 1);
    rank_wait(job);
    save(job, 4, 9);
    rank_restart(job, 2);
    rank_close(job);
}

/* keep=2 goes on with the next checkpoint. */
static void unpin_and_go_on(struct ranks_job *job) {
    if (node_open(job, "keep=2") != 0)
        return;
    rank_restart(job, 9);
    if (job->rank == job->plan->value)
        pin_here(job, 2, 0);
    save(job, 10, 12);
    rank_close(job);
}

static void expect_on_all(int64_t version, int is_expected) {
    for (int node = 0; node < NODES; node++)
        assert_int_equal(node_has_record(node, 1, version), is_expected);
}

static void stays_on_all(void **state) {
    (void)state;
    for (int rank = 0; rank < RANKS; rank++) {
        struct plan plan = {.fn = live, .faulty_rank = -1, .value = rank};
        nodes_place(0, 1, 1, 2);
        const struct board *board = ranks_run(&plan);
        assert_int_equal(ranks_answer(board, "restart", 1)->version, 2);
        expect_on_all(1, 0);
        expect_on_all(2, 1);
        expect_on_all(3, 0);
        expect_on_all(8, 1);
        plan.fn = unpin_and_go_on;
        board = ranks_run(&plan);
        assert_int_equal(ranks_answer(board, "restart", 1)->version, 9);
        expect_on_all(2, 0);
        assert_int_equal(ranks_teardown(NULL), 0);
        assert_int_equal(ranks_setup(NULL), 0);
    }
}

/* Where a node has pinned a checkpoint whose record is damaged there, the others keep it, too. */
static void pin_and_damage(struct ranks_job *job) {
    char path[512];
    if (node_open(job, "keep=2") != 0)
        return;
    save(job, 1, 3);
    if (job->rank == 3) {
        pin_here(job, 2, 1);
        node_record_path(2, 1, 2, path, sizeof path);
        flip_bit(path, 200);
    }
    rank_wait(job);
    save(job, 4, 7);
    rank_close(job);
}

static void damaged_record(void **state) {
    struct plan plan = {.fn = pin_and_damage, .faulty_rank = -1};
    (void)state;
    nodes_place(0, 1, 1, 2);
    ranks_run(&plan);
    assert_true(node_has_record(0, 1, 2));
    assert_true(node_has_record(1, 1, 2));
    assert_false(node_has_record(0, 1, 3));
}

/* ---- by chance ---- */

#define CHECKPOINTS 150
#define PINS_MOST 6

struct pins {
    int64_t list[PINS_MOST];
    int count, tries, refused, lost;
};

static void save_many(struct ranks_job *job) {
    if (node_open(job, "keep=2") != 0)
        return;
    for (int64_t version = 1; version <= CHECKPOINTS; version++) {
        rank_set(job, version);
        int rc = varve_checkpoint(job->session, version);
        rc = rc ? rc : varve_wait(job->session);
        if (rc)
            group_fail(job->comm, "checkpoint %" PRId64 ": %s", version, varve_session_error(job->session)->text);
    }
    rank_close(job);
}

static int take_oldest(void *arg, const struct varve_checkpoint_info *info) {
    struct varve_which *which = arg;
    if (!info->is_pinned)
        *which = (struct varve_which){.name = "job", .generation = info->generation, .version = info->version};
    return 0;
}

static int is_on_all(int64_t version) {
    int nodes = 0;
    for (int node = 0; node < NODES; node++)
        nodes += node_has_record(node, 1, version);
    return nodes == NODES;
}

/* Somebody on node 2, beside the job: pins what is the next to go there. When there are many pins, one is looked at and
 * taken away. */
static void pin_by_chance(struct pins *pins) {
    struct varve_store *store = NULL;
    struct varve_error why = {0};
    char folder[256];
    unsigned seed = (unsigned)getpid();
    node_folder(2, folder, sizeof folder);
    while (varve_store_open(folder, "log=error", &store, NULL) != 0)
        usleep(1000);
    for (;;) {
        struct varve_which which = {0};
        usleep((useconds_t)rand_r(&seed) % 1500);
        if (varve_store_list(store, "job", take_oldest, &which, NULL) != 0 || !which.name)
            continue;
        int rc = varve_store_pin(store, &which, "by chance", &why);
        pins->tries++;
        pins->refused += rc < 0;
        if (rc != 0)
            continue;
        int64_t *place = &pins->list[pins->count == PINS_MOST ? rand_r(&seed) % PINS_MOST : pins->count++];
        struct varve_which old = {.name = "job", .generation = 1, .version = *place};
        if (old.version != 0)
            pins->lost += !is_on_all(old.version);
        *place = which.version;
        if (old.version != 0)
            (void)varve_store_unpin(store, &old, NULL);
    }
}

static void by_chance(void **state) {
    struct plan plan = {.fn = save_many, .faulty_rank = -1};
    struct pins *pins = group_memory(sizeof *pins);
    (void)state;
    nodes_place(0, 1, 1, 2);
    fflush(NULL);
    pid_t other = fork();
    if (other == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pin_by_chance(pins);
    }
    ranks_run(&plan);
    kill(other, SIGKILL);
    assert_int_equal(waitpid(other, NULL, 0), other);
    print_message("%d tries to pin, %d refused\n", pins->tries, pins->refused);
    assert_true(pins->count > 0);
    assert_int_equal(pins->lost, 0);
    for (int i = 0; i < pins->count; i++)
        assert_true(is_on_all(pins->list[i]));
    group_memory_free(pins, sizeof *pins);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(stays_on_all, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(damaged_record, ranks_setup, ranks_teardown),
        cmocka_unit_test_setup_teardown(by_chance, ranks_setup, ranks_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
