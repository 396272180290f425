/* A restart on fewer ranks in which one rank runs out of memory, or its storage fails, once, at any step: all ranks
 * return the same code and tell the same story, and the next try brings everything back. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>

#include "base/alloc.h"
#include "folder.h"
#include "group.h"
#include "test.h"

#define BEFORE 4u
#define RANKS 3u
#define ROWS 60u
#define COLUMNS 40u
#define LIST 500u

enum way { RESTART, BEGIN, ALLOC };

struct plan {
    enum way way;
    uint32_t victim;
    uint64_t fail_at;  /* this allocation of the victim; 0: none */
    const char *fault; /* of its storage; or NULL */
};

static char folder[128];

/* What the ranks leave. */
static struct board {
    int opened[RANKS], code[RANKS], again[RANKS];
    uint64_t allocations;
    struct varve_error error[RANKS];
} * board;

/* ---- in the ranks ---- */

struct rank {
    struct varve_comm *comm;
    struct varve_session *session;
    uint64_t first, rows; /* of the field */
    uint64_t list_first, list_count;
    uint64_t field[ROWS * COLUMNS], list[LIST], common[700];
};

static uint64_t value_of(uint64_t place, uint64_t salt) {
    uint64_t x = place * UINT64_C(0x9e3779b97f4a7c15) + salt;
    return (x ^ (x >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
}

static void share_out(struct rank *rank) {
    uint64_t number = rank->comm->rank, ranks = rank->comm->ranks;
    rank->first = ROWS * number / ranks;
    rank->rows = ROWS * (number + 1) / ranks - rank->first;
    rank->list_first = LIST * number / ranks;
    rank->list_count = LIST * (number + 1) / ranks - rank->list_first;
}

/* With is_checked, compare instead. */
static void fill(struct rank *rank, int is_checked) {
    const struct {
        uint64_t *values, first, count;
    } regions[] = {{rank->field, rank->first * COLUMNS, rank->rows * COLUMNS},
                   {rank->list, rank->list_first, rank->list_count},
                   {rank->common, 0, 700}};
    for (uint64_t salt = 0; salt < 3; salt++)
        for (uint64_t i = 0; i < regions[salt].count; i++) {
            uint64_t value = value_of(regions[salt].first + i, salt);
            if (is_checked && regions[salt].values[i] != value)
                group_fail(rank->comm, "WRONG: element %" PRIu64 " of region %" PRIu64, i, salt);
            regions[salt].values[i] = value;
        }
}

static int open_session(struct rank *rank, const char *fault) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_error error = {0};
    char address[256];
    snprintf(address, sizeof address, "file://%s%s%s", folder, fault ? "?fault=" : "", fault ? fault : "");
    options.settings = "threads=0,capture=sync,keep=all";
    return varve_open_comm(group_comm(rank->comm), address, "job", &options, &rank->session, &error);
}

static void protect(struct rank *rank) {
    struct varve_session *s = rank->session;
    struct varve_array field = {.size = sizeof field,
                                .type = VARVE_U64,
                                .dims = 2,
                                .dim = {{rank->rows, rank->first, ROWS}, {COLUMNS, 0, COLUMNS}}};
    struct varve_array list = {.size = sizeof list, .type = VARVE_U64, .dims = 1, .dim = {{.local = rank->list_count}}};
    int rc = varve_protect_array(s, "field", rank->field, &field);
    rc = rc ? rc : varve_protect_array(s, "list", rank->list, &list);
    rc = rc ? rc : varve_protect(s, "common", rank->common, sizeof rank->common);
    rc = rc ? rc : varve_distribute(s, "list", VARVE_JOINED);
    rc = rc ? rc : varve_distribute(s, "common", VARVE_REPLICATED);
    if (rc)
        group_fail(rank->comm, "protect: %s", varve_session_error(s)->text);
}

static void *give_nothing(void *arg, const struct varve_region_info *region) {
    (void)arg, (void)region;
    return NULL;
}

static void take_nothing(void *arg, const char *region, void *ptr) {
    (void)arg, (void)region, (void)ptr;
}

static int restart(struct rank *rank, enum way way) {
    const struct varve_allocator allocator = {.size = sizeof allocator, .alloc = give_nothing, .release = take_nothing};
    int64_t version = -1;
    if (way == ALLOC) /* all is protected already, so nobody is asked */
        return varve_restart_alloc(rank->session, VARVE_LATEST, &allocator, NULL, &version);
    if (way == RESTART)
        return varve_restart(rank->session, VARVE_LATEST, &version);
    int rc = varve_restart_begin(rank->session, VARVE_LATEST, &version);
    return rc ? rc : varve_restart_end(rank->session);
}

static void save(struct varve_comm *comm, void *arg) {
    struct rank rank = {.comm = comm};
    (void)arg;
    share_out(&rank);
    if (open_session(&rank, NULL) != 0)
        group_fail(comm, "open failed");
    protect(&rank);
    fill(&rank, 0);
    if (varve_checkpoint(rank.session, 1) != 0 || varve_wait(rank.session) != 0)
        group_fail(comm, "checkpoint: %s", varve_session_error(rank.session)->text);
    varve_close(rank.session);
}

static void come_back(struct varve_comm *comm, void *arg) {
    const struct plan *plan = arg;
    struct rank rank = {.comm = comm};
    int is_victim = comm->rank == plan->victim;
    share_out(&rank);
    board->opened[comm->rank] = open_session(&rank, is_victim ? plan->fault : NULL);
    if (board->opened[comm->rank] != 0)
        return;
    protect(&rank);
    vv_alloc_fail_at(is_victim ? plan->fail_at : 0);
    board->code[comm->rank] = restart(&rank, plan->way);
    board->error[comm->rank] = *varve_session_error(rank.session);
    if (is_victim)
        board->allocations = vv_alloc_count();
    vv_alloc_fail_at(0);
    if (board->code[comm->rank] == 0)
        fill(&rank, 1);
    memset(rank.field, 0, sizeof rank.field);
    board->again[comm->rank] = restart(&rank, plan->way);
    if (board->again[comm->rank] == 0)
        fill(&rank, 1);
    varve_close(rank.session);
}

/* ---- outside ---- */

static int setup(void **state) {
    (void)state;
    board = group_memory(sizeof *board);
    if (folder_make(NULL, "test-elastic-faults", folder, sizeof folder) != 0)
        return -1;
    return group_run(BEFORE, save, NULL, NULL, NULL);
}

static int teardown(void **state) {
    (void)state;
    folder_remove(folder);
    group_memory_free(board, sizeof *board);
    return 0;
}

/* What the restart gave, the same on all ranks; 1 when the session was not opened. */
static int run(const struct plan *plan) {
    const struct group_options nodes = {.ranks_per_node = 2};
    char about[120];
    memset(board, 0, sizeof *board);
    snprintf(about, sizeof about, "way %d, rank %u, allocation %" PRIu64 ", storage %s", plan->way, plan->victim,
             plan->fail_at, plan->fault ? plan->fault : "sound");
    group_must_run(RANKS, come_back, plan, &nodes, about);
    for (uint32_t i = 0; i < RANKS; i++) {
        if (board->opened[i] != board->opened[0] || board->code[i] != board->code[0])
            fail_msg("%s: rank %u has %d and %d, rank 0 has %d and %d", about, i, board->opened[i], board->code[i],
                     board->opened[0], board->code[0]);
        if (board->code[0] && (strcmp(board->error[i].text, board->error[0].text) != 0 ||
                               board->error[i].rank != (int)plan->victim || !board->error[i].text[0]))
            fail_msg("%s: rank %u says of rank %d: %s", about, i, board->error[i].rank, board->error[i].text);
        int may_fail = plan->fault && board->code[0] == 0; /* storage that has not failed yet */
        if (board->again[i] != board->again[0] || (board->again[i] && !may_fail))
            fail_msg("%s: rank %u has %d at the second try", about, i, board->again[i]);
    }
    return board->opened[0] ? 1 : board->code[0];
}

#ifdef VARVE_FAULTS
static void no_memory(void **state) {
    static const enum way ways[] = {RESTART, BEGIN, ALLOC};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        int failed = 0, tries = 0;
        for (uint32_t victim = 0; victim < RANKS; victim++) {
            struct plan plan = {.way = ways[i], .victim = victim};
            assert_int_equal(run(&plan), 0);
            uint64_t most = board->allocations;
            int is_each = ways[i] == RESTART && victim == 1;
            for (plan.fail_at = 1 + victim; plan.fail_at <= most; plan.fail_at += is_each ? 1 : 1 + plan.fail_at / 8) {
                int rc = run(&plan);
                if (rc && rc != -ENOMEM)
                    fail_msg("allocation %" PRIu64 " of rank %u: %d", plan.fail_at, victim, rc);
                failed += rc != 0;
                tries++;
            }
        }
        printf("way %d: %d of %d restarts failed\n", (int)ways[i], failed, tries);
        assert_true(failed >= 20);
    }
}
#else
static void no_memory(void **state) {
    (void)state;
    skip();
}
#endif

static void failing_storage(void **state) {
    int failed = 0;
    (void)state;
    for (uint32_t victim = 0; victim < RANKS; victim++)
        for (int k = 1; k <= 30; k++) {
            char fault[64];
            snprintf(fault, sizeof fault, "fail:%d:EIO", k);
            int rc = run(&(struct plan){.victim = victim, .fault = fault});
            if (rc < 0 && rc != -EIO)
                fail_msg("%s on rank %u: %d: %s", fault, victim, rc, board->error[0].text);
            failed += rc < 0;
        }
    printf("%d restarts failed\n", failed);
    assert_true(failed >= 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(failing_storage, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
