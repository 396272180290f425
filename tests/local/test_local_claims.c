/* Who may write: two jobs at once, jobs that died at any step of a commit, and jobs that were asleep. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "nodes.h"
#include "test.h"

static struct plan back = {.fn = node_come_back, .faulty_rank = -1};

static void sleep_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* ---- a job that dies between the steps of a commit ---- */

static const char *const steps[] = {
    "store.commit.before_claims", "store.commit.before_parent", "store.writers.before_create",
    "store.writers.after_create", "store.record.before_create", "store.record.after_create",
    "store.beat.before_refer",
};
#define STEPS (sizeof steps / sizeof *steps)

/* Version 3 is the one that does not come to its end. */
static void die(struct ranks_job *job) {
    char point[128];
    if (node_open(job, NULL) != 0)
        return;
    rank_checkpoint(job, 1);
    rank_checkpoint(job, 2);
    snprintf(point, sizeof point, "%s=kill", steps[job->plan->value]);
    vv_fault_set(job->is_faulty ? point : NULL);
    rank_checkpoint(job, 3);
    sleep_ms(10000); /* for the others to go with us */
}

/* Whichever of ranks 2 and 3 keeps node 1 dies. */
static void die_as_leader(struct ranks_job *job) {
    job->is_faulty = node_of(job->rank) == 1;
    die(job);
}

static void dies_in_a_commit(void **state) {
    (void)state;
    for (size_t i = 0; i < STEPS; i++)
        for (int node = 0; node < 2; node++) {
            struct plan plan = {.fn = node == 0 ? die : die_as_leader, .faulty_rank = 0, .value = (int64_t)i};
            nodes_place(0, 0, 1, 1);
            nodes_run_dying(&plan, node == 0 ? 0 : -1);
            const struct board *board = ranks_run(&back);
            ranks_expect(board, "restart", 1, 0, -1, "");
            int64_t got = ranks_answer(board, "restart", 1)->version;
            /* all packs are there: it is adopted, or copied; the heartbeat is only renewed when it was reported */
            if (got != 3)
                fail_msg("killed on node %d at %s: version %" PRId64 " came back", node, steps[i], got);
            assert_true(node_has_record(0, 1, 3) && node_has_record(1, 1, 3));
            assert_int_equal(ranks_teardown(NULL), 0);
            assert_int_equal(ranks_setup(NULL), 0);
        }
}

/* Before all packs are there it is nothing; and the next attempt at the version is not disturbed by what is left. */
static void die_early(struct ranks_job *job) {
    if (node_open(job, NULL) != 0)
        return;
    rank_checkpoint(job, 1);
    vv_fault_set(job->is_faulty ? "engine.save.before_seal=kill" : NULL);
    rank_checkpoint(job, 2);
    sleep_ms(10000);
}

static void dies_before_its_pack(void **state) {
    (void)state;
    for (int faulty_rank = 0; faulty_rank < RANKS; faulty_rank++) {
        struct plan plan = {.fn = die_early, .faulty_rank = faulty_rank},
                    again = {.fn = node_come_back, .value = 2, .faulty_rank = -1};
        nodes_place(0, 0, 1, 1);
        nodes_run_dying(&plan, faulty_rank);
        const struct board *board = ranks_run(&again);
        assert_int_equal(ranks_answer(board, "restart", 1)->version, 1);
        ranks_expect(board, "checkpoint", 1, 0, -1, "");
        board = ranks_run(&back);
        assert_int_equal(ranks_answer(board, "restart", 1)->version, 2);
        assert_int_equal(ranks_teardown(NULL), 0);
        assert_int_equal(ranks_setup(NULL), 0);
    }
}

/* It dies while it copies a record, and the next one goes on with that. */
static void die_copying(struct ranks_job *job) {
    vv_fault_set(node_of(job->rank) == 1 ? "store.copy.before_record=kill" : NULL);
    node_come_back(job);
    sleep_ms(10000);
}

static void dies_copying(void **state) {
    struct plan make = {.fn = node_make_store, .value = 2, .faulty_rank = -1},
                plan = {.fn = die_copying, .faulty_rank = -1};
    char path[512];
    (void)state;
    nodes_place(0, 0, 1, 1);
    ranks_run(&make);
    node_record_path(1, 1, 2, path, sizeof path);
    remove_file(path);
    node_writers_path(1, 1, 2, 0, path, sizeof path);
    remove_file(path);
    nodes_run_dying(&plan, -1);
    assert_true(is_there(path)); /* the list */
    assert_false(node_has_record(1, 1, 2));
    const struct board *board = ranks_run(&back);
    assert_int_equal(ranks_answer(board, "restart", 1)->version, 2);
    assert_true(node_has_record(1, 1, 2));
}

/* ---- two jobs ---- */

struct signals {
    atomic_int is_open, may_go_on;
    atomic_int pids[RANKS];
};
static struct signals *signals;

static void wait_for(atomic_int *flag, int count) {
    for (int i = 0; i < 3000 && atomic_load(flag) < count; i++)
        sleep_ms(10);
    if (atomic_load(flag) < count)
        abort();
}

static void hold(struct ranks_job *job) {
    if (node_open(job, NULL) != 0)
        return;
    rank_checkpoint(job, 1);
    atomic_store(&signals->pids[job->rank], getpid());
    atomic_fetch_add(&signals->is_open, 1);
    wait_for(&signals->may_go_on, 1);
    rank_checkpoint(job, 2);
    rank_close(job);
}

static int signals_setup(void **state) {
    signals = group_memory(sizeof *signals);
    return ranks_setup(state);
}

static int signals_teardown(void **state) {
    group_memory_free(signals, sizeof *signals);
    return ranks_teardown(state);
}

/* On the same nodes, and on such that have only one in common: the second one hears that it is busy, and the first one
 * does not mind. */
static void two_jobs(void **state) {
    struct plan plan = {.fn = hold, .faulty_rank = -1};
    (void)state;
    nodes_place(0, 0, 1, 1);
    int job = nodes_start(&plan);
    wait_for(&signals->is_open, RANKS);
    const struct board *board = ranks_run(&back);
    ranks_expect(board, "open", 1, VARVE_BUSY, -1, "in use");
    nodes_place(2, 2, 1, 1);
    board = ranks_run(&back);
    ranks_expect(board, "open", 1, VARVE_BUSY, -1, "in use");
    atomic_store(&signals->may_go_on, 1);
    board = nodes_end(job, &plan);
    ranks_expect(board, "checkpoint", 2, 0, -1, "");
    nodes_place(0, 0, 1, 1);
    board = ranks_run(&back);
    assert_int_equal(ranks_answer(board, "restart", 1)->version, 2);
}

static void stop_all(int signal) {
    for (int rank = 0; rank < RANKS; rank++)
        kill(atomic_load(&signals->pids[rank]), signal);
}

/* A job that does not move is taken for dead. When it wakes, it may not commit anything any more. */
static void asleep(void **state) {
    struct plan plan = {.fn = hold, .faulty_rank = -1}, next = {.fn = node_come_back, .value = 5, .faulty_rank = -1};
    (void)state;
    nodes_place(0, 0, 1, 1);
    int job = nodes_start(&plan);
    wait_for(&signals->is_open, RANKS);
    stop_all(SIGSTOP);
    const struct board *board = ranks_run(&next);
    ranks_expect(board, "restart", 1, 0, -1, "");
    ranks_expect(board, "checkpoint", 1, 0, -1, "");
    atomic_store(&signals->may_go_on, 1);
    stop_all(SIGCONT);
    board = nodes_end(job, &plan);
    ranks_expect(board, "checkpoint", 2, VARVE_FENCED, -1, "");
    board = ranks_run(&back);
    assert_int_equal(ranks_answer(board, "restart", 1)->version, 5);
}

/* ---- generations ---- */

/* Only one node was used in between: the next job begins above all of them. */
static void claim_alone(struct ranks_job *job) {
    if (node_open(job, NULL) == 0)
        rank_close(job);
}

static void different_generations(void **state) {
    struct plan make = {.fn = node_make_store, .value = 2, .faulty_rank = -1},
                alone = {.fn = claim_alone, .faulty_rank = -1},
                next = {.fn = node_come_back, .value = 3, .faulty_rank = -1};
    (void)state;
    nodes_place(0, 0, 1, 1);
    ranks_run(&make);
    nodes_place(1, 1, 1, 1);
    for (int i = 0; i < 3; i++) /* generations 2 to 4, on node 1 */
        ranks_run(&alone);
    nodes_place(0, 0, 1, 1);
    const struct board *board = ranks_run(&next);
    assert_int_equal(ranks_answer(board, "restart", 1)->version, 2);
    ranks_expect(board, "checkpoint", 1, 0, -1, "");
    assert_true(node_has_record(0, 5, 3) && node_has_record(1, 5, 3));
}

/* One leader cannot claim the next generation when the job goes back; the job says so, and comes together at the next
 * restart. */
static void advance_with_trouble(struct ranks_job *job) {
    if (node_open(job, NULL) != 0)
        return;
    rank_checkpoint(job, 1);
    rank_checkpoint(job, 2);
    vv_fault_set(node_of(job->rank) == job->plan->value ? "store.claim.before_create=error:5" : NULL);
    rank_restart(job, 1);
    vv_fault_set(NULL);
    rank_checkpoint(job, 3);
    rank_restart(job, 1);
    rank_checkpoint(job, 2);
    rank_close(job);
}

static void one_does_not_advance(void **state) {
    (void)state;
    for (int node = 0; node < 2; node++) {
        struct plan plan = {.fn = advance_with_trouble, .value = node, .faulty_rank = -1};
        nodes_place(0, 0, 1, 1);
        const struct board *board = ranks_run(&plan);
        ranks_expect(board, "restart", 1, -EIO, -1, "");
        ranks_expect(board, "checkpoint", 3, VARVE_DISAGREED, -1, "generation");
        ranks_expect(board, "restart", 2, 0, -1, "");
        ranks_expect(board, "checkpoint", 4, 0, -1, "");
        board = ranks_run(&back);
        assert_int_equal(ranks_answer(board, "restart", 1)->version, 2);
        assert_int_equal(ranks_teardown(NULL), 0);
        assert_int_equal(ranks_setup(NULL), 0);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, ranks_setup, ranks_teardown)
#define TEST_TWO(name) cmocka_unit_test_setup_teardown(name, signals_setup, signals_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(dies_in_a_commit), TEST(dies_before_its_pack),  TEST(dies_copying),         TEST_TWO(two_jobs),
        TEST_TWO(asleep),       TEST(different_generations), TEST(one_does_not_advance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
