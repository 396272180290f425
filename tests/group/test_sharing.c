/* What several ranks hold is stored once: in one checkpoint, from one checkpoint to a later one of another rank, in the
 * call and in the background; and what a failed checkpoint has offered is not found by anybody. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <varve/varve.h>

#include "base/alloc.h"
#include "details.h"
#include "folder.h"
#include "group.h"
#include "test.h"
#include "unit/freezing.h"

#define RANKS 4
#define CHUNK 4096
#define CHUNKS 256
#define SIZE (CHUNKS * CHUNK)

struct board {
    struct vv_details stats[8][RANKS]; /* of step, of rank */
    int codes[8][RANKS];
};

struct job {
    struct varve_comm *comm;
    struct varve_session *session;
    uint8_t *field;
    int step;
};

struct plan {
    void (*fn)(struct job *job);
    const char *settings;
    const char *fault; /* of rank 2's storage */
    struct group_options options;
    int is_meddling; /* the comm writes protected memory */
    int is_blind;    /* the comm does not know where its ranks run */
};

static char folder[64];
static struct board *board;
static const struct plan *plan;
static uint8_t *meddled;

static int setup(void **state) {
    (void)state;
    board = group_memory(sizeof *board);
    return folder_make(NULL, "test-sharing", folder, sizeof folder);
}

static int teardown(void **state) {
    (void)state;
    group_memory_free(board, sizeof *board);
    return folder_remove(folder);
}

/* ---- in a rank ---- */

static int meddling_exchange(struct varve_comm *comm, const struct varve_message *out, size_t out_count,
                             const uint32_t *from, size_t from_count, varve_gather_fn fn, void *arg);
static struct varve_comm_ops meddling_ops;
static const struct varve_comm_ops *real_ops;

static int meddling_exchange(struct varve_comm *comm, const struct varve_message *out, size_t out_count,
                             const uint32_t *from, size_t from_count, varve_gather_fn fn, void *arg) {
    if (meddled)
        meddled[100]++;
    return real_ops->exchange(comm, out, out_count, from, from_count, fn, arg);
}

static struct varve_comm *own_comm(struct job *job) {
    struct varve_comm *comm = group_comm(job->comm);
    if (plan->is_blind)
        comm->nodes = 0;
    if (plan->is_meddling) {
        real_ops = comm->ops;
        meddling_ops = *comm->ops;
        meddling_ops.exchange = meddling_exchange;
        comm->ops = &meddling_ops;
    }
    return comm;
}

/* Chunks [first, last) get the content that `key` stands for. */
static void fill(struct job *job, int first, int last, uint64_t key) {
    for (int i = first; i < last; i++)
        for (size_t j = 0; j < CHUNK; j += 8) {
            uint64_t value = (key * 1000 + (uint64_t)i) * 0x9e3779b97f4a7c15u + j * 0xbf58476d1ce4e5b9u;
            memcpy(job->field + (size_t)i * CHUNK + j, &value, 8);
        }
}

static void open_session(struct job *job) {
    char address[128];
    struct varve_options options = {.size = sizeof options, .settings = plan->settings};
    snprintf(address, sizeof address, "file://%s%s%s", folder, plan->fault && job->comm->rank == 2 ? "?fault=" : "",
             plan->fault && job->comm->rank == 2 ? plan->fault : "");
    struct varve_error error;
    if (varve_open_comm(own_comm(job), address, "sharing", &options, &job->session, &error) != 0) {
        if (plan->fault) /* it met the fault: all ranks are told, and that was all */
            exit(0);
        group_fail(job->comm, "open: %s", error.text);
    }
    if (varve_protect(job->session, "field", job->field, SIZE) != 0)
        group_fail(job->comm, "protect");
}

/* A checkpoint; its code and statistics go to the board. */
static int save(struct job *job, int64_t version) {
    uint32_t rank = job->comm->rank;
    int rc = varve_checkpoint(job->session, version);
    if (rc == 0)
        rc = varve_wait(job->session);
    struct vv_details *stats = &board->stats[job->step][rank];
    vv_details_get(job->session, stats);
    board->codes[job->step++][rank] = rc;
    return rc;
}

/* Everything as it is now comes back from this version, in this session and in a new one. */
static void expect_back(struct job *job, int64_t version) {
    uint8_t *kept = malloc(SIZE);
    int64_t got = -1;
    memcpy(kept, job->field, SIZE);
    memset(job->field, 0xee, SIZE);
    int rc = varve_restart(job->session, version, &got);
    if (plan->fault && rc == -EIO)
        exit(0); /* it met the fault now */
    if (rc != 0 || got != version)
        group_fail(job->comm, "restart: %s", varve_session_error(job->session)->text);
    if (memcmp(kept, job->field, SIZE) != 0)
        group_fail(job->comm, "version %d came back with other bytes", (int)version);
    free(kept);
}

static void reopen(struct job *job) {
    varve_close(job->session);
    open_session(job);
}

static void in_rank(struct varve_comm *comm, void *arg) {
    struct job job = {.comm = comm, .field = aligned_alloc(CHUNK, SIZE)};
    (void)arg;
    memset(job.field, 0, SIZE);
    open_session(&job);
    plan->fn(&job);
    varve_close(job.session);
    free(job.field);
}

/* ---- in the test ---- */

static void run(const struct plan *given) {
    plan = given;
    group_must_run(RANKS, in_rank, NULL, &given->options, NULL);
}

static uint64_t stored(int step) {
    uint64_t sum = 0;
    for (int rank = 0; rank < RANKS; rank++)
        sum += board->stats[step][rank].bytes_stored;
    return sum;
}

#define EXACT "dedup=exact,codec=none"

static void save_same(struct job *job) {
    fill(job, 0, CHUNKS, 1);
    save(job, 1);
    expect_back(job, 1);
    reopen(job);
    expect_back(job, 1);
    fill(job, 10, 20, 2); /* after a restart: what was stored is still there to be referred to */
    save(job, 2);
    reopen(job);
    expect_back(job, 2);
}

static void check_same(const struct plan *given) {
    run(given);
    assert_int_equal(stored(0), SIZE);
    assert_int_equal(stored(1), 10 * CHUNK);
    for (int rank = 0; rank < RANKS; rank++) {
        assert_in_range(board->stats[0][rank].bytes_new, SIZE / RANKS * 9 / 10, SIZE / RANKS * 11 / 10);
        assert_int_equal(board->stats[0][rank].bytes_new + board->stats[0][rank].bytes_elsewhere, SIZE);
        assert_int_equal(board->codes[0][rank], 0);
    }
}

static void same_on_all_ranks(void **state) {
    (void)state;
    check_same(&(struct plan){.fn = save_same, .settings = EXACT, .options = {.ranks_per_node = 2}});
    assert_string_equal(board->stats[0][1].dedup, "exact");
}

static void same_in_the_background(void **state) {
    (void)state;
    check_same(&(struct plan){.fn = save_same, .settings = EXACT, .options = {.has_second = 1}});
    teardown(NULL);
    setup(NULL);
    check_same(&(struct plan){.fn = save_same, .settings = EXACT}); /* of one node, without */
}

/* Half is the same on all ranks, half the rank's own. The program overwrites everything as soon as the call returns. */
static void save_and_overwrite(struct job *job) {
    uint8_t *kept = malloc(SIZE);
    int64_t got = -1;
    for (int64_t version = 1; version <= 3; version++) {
        fill(job, 0, CHUNKS / 2, (uint64_t)version);
        fill(job, CHUNKS / 2, CHUNKS, 100 * (uint64_t)version + job->comm->rank);
        memcpy(kept, job->field, SIZE);
        int rc = varve_checkpoint(job->session, version);
        memset(job->field, 0xdd, SIZE);
        struct vv_details *stats = &board->stats[version - 1][job->comm->rank];
        if (rc == 0)
            rc = varve_wait(job->session);
        vv_details_get(job->session, stats);
        board->codes[version - 1][job->comm->rank] = rc;
    }
    if (varve_restart(job->session, 3, &got) != 0 || memcmp(kept, job->field, SIZE) != 0)
        group_fail(job->comm, "what was overwritten after the call has come back with other bytes");
    free(kept);
}

/* A rank with memory that cannot be frozen, more than fits staging: then all ranks name inside the call. */
static void save_beside_shared(struct job *job) {
    size_t size = 64 * CHUNK;
    uint8_t *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(shared, 5, size);
    if (job->comm->rank == 1 && varve_protect(job->session, "shared", shared, size) != 0)
        group_fail(job->comm, "protect");
    save_and_overwrite(job);
    varve_unprotect(job->session, "shared");
    munmap(shared, size);
}

/* The program lets go of regions, and comes with others, while what they hold is being named. */
static void save_and_let_go(struct job *job) {
    uint8_t *other = malloc(SIZE), *kept = malloc(SIZE);
    char name[32];
    int64_t got = -1;
    for (int64_t version = 1; version <= 6; version++) {
        fill(job, 0, CHUNKS, (uint64_t)version);
        memcpy(kept, job->field, SIZE);
        int rc = varve_checkpoint(job->session, version);
        if (version % 3 == 0)
            varve_unprotect(job->session, "field");
        if (version % 3 == 1 && varve_protect(job->session, "field", other, SIZE) != 0)
            group_fail(job->comm, "protect");
        memset(job->field, 0xdd, SIZE);
        for (int i = 0; i < 200; i++) { /* the list of them grows */
            snprintf(name, sizeof name, "empty.%d.%d", (int)version, i);
            varve_protect(job->session, name, other, 0);
        }
        if (rc == 0)
            rc = varve_wait(job->session);
        for (int i = 0; i < 200; i++) {
            snprintf(name, sizeof name, "empty.%d.%d", (int)version, i);
            varve_unprotect(job->session, name);
        }
        if (rc != 0)
            group_fail(job->comm, "checkpoint %d: %s", (int)version, varve_session_error(job->session)->text);
        if (varve_protect(job->session, "field", job->field, SIZE) != 0 ||
            varve_restart(job->session, version, &got) != 0 || memcmp(kept, job->field, SIZE) != 0)
            group_fail(job->comm, "version %d: %s", (int)version, varve_session_error(job->session)->text);
    }
    free(other);
    free(kept);
}

static void regions_come_and_go(void **state) {
    (void)state;
    run(&(struct plan){.fn = save_and_let_go, .settings = EXACT ",keep=all"});
    run(&(struct plan){.fn = save_and_let_go, .settings = EXACT ",keep=all,capture=frozen,staging=128K"});
}

/* After one that was frozen, a checkpoint fails before anything of it is captured. */
static int refuse_length(void *arg, uint64_t *out) {
    *out = 0;
    return *(int *)arg;
}

static int save_nothing(void *arg, uint64_t offset, void *buffer, size_t size) {
    (void)arg, (void)offset, (void)buffer, (void)size;
    return 0;
}

static int load_nothing(void *arg, uint64_t offset, const void *buffer, size_t size, uint64_t total) {
    (void)arg, (void)offset, (void)buffer, (void)size, (void)total;
    return 0;
}

static void save_and_fail(struct job *job) {
    static const struct varve_callbacks callbacks = {sizeof callbacks, refuse_length, save_nothing, load_nothing, 0};
    int refused = 0;
    if (varve_protect_callback(job->session, "callback", &callbacks, &refused) != 0)
        group_fail(job->comm, "protect");
    for (int64_t version = 1; version <= 6; version++) {
        fill(job, 0, CHUNKS, (uint64_t)version);
        refused = job->comm->rank == 1 && version % 2 == 0 ? -EIO : 0;
        save(job, version);
        usleep(20000); /* the written pages are looked at meanwhile */
    }
    refused = 0;
    save(job, 7);
    expect_back(job, 7);
}

static void fails_after_freezing(void **state) {
    (void)state;
    run(&(struct plan){.fn = save_and_fail, .settings = EXACT ",keep=all,capture=frozen,staging=128K"});
    for (int step = 0; step < 7; step++)
        for (int rank = 0; rank < RANKS; rank++)
            assert_int_equal(board->codes[step][rank], step % 2 == 1 ? -EIO : 0);
}

static void named_behind_the_call(void **state) {
    (void)state;
    if (!can_freeze())
        skip();
    for (int i = 0; i < 4; i++) {
        run(&(struct plan){.fn = i < 2 ? save_and_overwrite : save_beside_shared,
                           .settings = EXACT ",capture=frozen,staging=128K,keep=all",
                           .options = {.has_second = i % 2}});
        for (int step = 0; step < 3; step++) {
            for (int rank = 0; rank < RANKS; rank++) {
                assert_int_equal(board->codes[step][rank], 0);
                if (i < 2)
                    assert_true(board->stats[step][rank].bytes_frozen > SIZE / 2);
            }
            /* Once, and what rank 1 has beside it. */
            assert_in_range(stored(step), SIZE / 2 + RANKS * SIZE / 2, SIZE / 2 + RANKS * SIZE / 2 + CHUNK);
        }
        teardown(NULL);
        setup(NULL);
    }
}

static void same_with_trap(void **state) {
    (void)state;
    check_same(&(struct plan){.fn = save_same, .settings = EXACT ",capture=trap,staging=1M"});
}

static void same_inside_the_call(void **state) {
    (void)state;
    check_same(&(struct plan){.fn = save_same, .settings = EXACT ",capture=sync"});
}

static void same_with_top_k(void **state) {
    (void)state;
    check_same(&(struct plan){.fn = save_same, .settings = "dedup=top-k,codec=none"});
    assert_string_equal(board->stats[0][1].dedup, "top-k");
}

/* Fewer than there are: what falls off every rank stores itself. */
static void save_once(struct job *job) {
    fill(job, 0, CHUNKS, 1);
    save(job, 1);
    reopen(job);
    expect_back(job, 1);
}

static void few_with_top_k(void **state) {
    (void)state;
    run(&(struct plan){.fn = save_once, .settings = "dedup=top-k,dedup_top=100,codec=none"});
    assert_int_equal(stored(0), (100 + RANKS * (CHUNKS - 100)) * CHUNK);
}

static void not_asked(void **state) {
    (void)state;
    run(&(struct plan){.fn = save_once, .settings = "dedup=local,codec=none"});
    assert_int_equal(stored(0), RANKS * SIZE);
    assert_string_equal(board->stats[0][0].dedup, "local");
}

/* ---- from one checkpoint to a later one of another rank ---- */

static void save_apart(struct job *job) {
    if (job->comm->rank == 0)
        fill(job, 0, 100, 5);
    save(job, 1);
    if (job->comm->rank == 3)
        fill(job, 0, 100, 5);
    save(job, 2);
    if (job->comm->rank == 0) /* nobody but rank 3 has it any more */
        memset(job->field, 0, SIZE);
    save(job, 3);
    if (job->comm->rank == 1)
        fill(job, 0, 100, 5);
    save(job, 4);
    reopen(job);
    expect_back(job, 4);
}

static void found_where_another_rank_stored_it(void **state) {
    (void)state;
    for (int second = 0; second < 2; second++) {
        run(&(struct plan){.fn = save_apart, .settings = EXACT ",space=0", .options = {.has_second = second}});
        assert_int_equal(stored(0), 100 * CHUNK);
        for (int step = 1; step < 4; step++)
            assert_int_equal(stored(step), 0);
        assert_int_equal(board->stats[1][3].bytes_elsewhere, 100 * CHUNK);
        assert_int_equal(board->stats[3][1].bytes_elsewhere, 100 * CHUNK);
        teardown(NULL);
        setup(NULL);
    }
}

/* What nobody's last checkpoint needs may be gone: it is not referred to. */
static void save_and_leave(struct job *job) {
    if (job->comm->rank == 0)
        fill(job, 0, 100, 5);
    save(job, 1);
    memset(job->field, 0, SIZE);
    save(job, 2);
    if (job->comm->rank == 3)
        fill(job, 0, 100, 5);
    save(job, 3);
    reopen(job);
    expect_back(job, 3);
}

static void left_behind_is_stored_again(void **state) {
    (void)state;
    run(&(struct plan){.fn = save_and_leave, .settings = EXACT});
    assert_int_equal(stored(2), 100 * CHUNK);
}

/* ---- failures ---- */

static void save_with_fault(struct job *job) {
    fill(job, 0, CHUNKS, 1);
    int rc = save(job, 1);
    fill(job, 0, CHUNKS, 2);
    for (int64_t version = 2; version < 8; version++)
        if ((rc = save(job, version)) == 0) {
            expect_back(job, version);
            reopen(job);
            expect_back(job, version);
            return;
        }
    group_fail(job->comm, "every checkpoint failed, the last with %d", rc);
}

/* Whichever operation fails on one rank: the same code everywhere, and the next checkpoint is whole. */
static void failed_checkpoint_leaves_no_id(void **state) {
    (void)state;
    int failed = 0;
    for (int at = 4; at < 60; at += 3) {
        char fault[32];
        snprintf(fault, sizeof fault, "fail:%d:EIO", at);
        memset(board, 0, sizeof *board);
        run(&(struct plan){
            .fn = save_with_fault, .settings = EXACT, .fault = fault, .options = {.has_second = at % 2}});
        for (int step = 0; step < 8; step++) {
            for (int rank = 1; rank < RANKS; rank++)
                assert_int_equal(board->codes[step][rank], board->codes[step][0]);
            failed += board->codes[step][0] != 0;
        }
        teardown(NULL);
        setup(NULL);
    }
    assert_true(failed > 3);
}

/* Whichever allocation of one rank fails, in the call or in the background: nobody waits for ever, all are told the
 * same, and the next checkpoint is whole. */
static int fail_at;

static void save_without_memory(struct job *job) {
    fill(job, 0, CHUNKS / 2, 1);
    fill(job, CHUNKS / 2, CHUNKS, 10 + job->comm->rank);
    if (job->comm->rank == 1)
        vv_alloc_fail_at((uint64_t)fail_at);
    save(job, 1);
    vv_alloc_fail_at(0);
    for (int64_t version = 2; version < 5; version++)
        if (save(job, version) == 0) {
            expect_back(job, version);
            return;
        }
    group_fail(job->comm, "every checkpoint failed");
}

static void memory_runs_out_on_one_rank(void **state) {
    (void)state;
    int failed = 0;
#ifndef VARVE_FAULTS
    skip();
#endif
    for (fail_at = 1; fail_at < 120; fail_at += 3) {
        memset(board, 0, sizeof *board);
        run(&(struct plan){.fn = save_without_memory,
                           .settings = EXACT ",copies=2,on_error=fail",
                           .options = {.has_second = fail_at % 2, .ranks_per_node = 1, .seconds = 30}});
        for (int rank = 1; rank < RANKS; rank++)
            for (int step = 0; step < 3; step++)
                assert_int_equal(board->codes[step][rank], board->codes[step][0]);
        failed += board->codes[0][0] != 0;
        teardown(NULL);
        setup(NULL);
    }
    assert_true(failed > 10);
}

/* A thread that writes during the call would make the ids lie: the checkpoint fails and says so. */
static void save_meddled(struct job *job) {
    fill(job, 0, CHUNKS, 10 + job->comm->rank);
    meddled = job->comm->rank == 1 ? job->field : NULL;
    save(job, 1);
    meddled = NULL;
    save(job, 2);
    expect_back(job, 2);
}

static void written_during_the_call(void **state) {
    (void)state;
    run(&(struct plan){.fn = save_meddled, .settings = EXACT, .is_meddling = 1, .options = {.ranks_per_node = 1}});
    for (int rank = 0; rank < RANKS; rank++) {
        assert_int_equal(board->codes[0][rank], -EFAULT);
        assert_int_equal(board->codes[1][rank], 0);
    }
}

/* ---- auto ---- */

static void save_unique(struct job *job) {
    for (int64_t version = 1; version <= 7; version++) {
        fill(job, 0, CHUNKS, 100 * (uint64_t)version + job->comm->rank);
        save(job, version);
    }
    expect_back(job, 7);
}

static void steps_aside_when_it_does_not_pay(void **state) {
    (void)state;
    run(&(struct plan){.fn = save_unique, .settings = "dedup=auto,codec=none"});
    assert_string_equal(board->stats[0][2].dedup, "exact"); /* once may be bad luck */
    assert_string_equal(board->stats[1][2].dedup, "exact");
    assert_non_null(strstr(board->stats[1][2].dedup_reason, "took more time than it saved"));
    for (int step = 2; step < 5; step++)
        assert_string_equal(board->stats[step][2].dedup, "local");
    assert_string_equal(board->stats[5][2].dedup, "exact"); /* tried again, */
    assert_string_equal(board->stats[6][2].dedup, "local"); /* once */
}

/* ---- the background ---- */

static int count_records(void) {
    char path[128];
    int count = 0;
    snprintf(path, sizeof path, "%s/n/sharing/record", folder);
    DIR *entries = opendir(path);
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        count += entry->d_name[0] != '.';
    if (entries)
        closedir(entries);
    return count;
}

static void save_and_go_on(struct job *job) {
    fill(job, 0, CHUNKS, 1);
    if (varve_checkpoint(job->session, 1) != 0)
        group_fail(job->comm, "checkpoint: %s", varve_session_error(job->session)->text);
    for (int i = 0; i < 1000 && count_records() == 0; i++)
        usleep(10000);
    if (count_records() != 1)
        group_fail(job->comm, "no record without another call");
    while (varve_test(job->session) == 0)
        usleep(1000);
    expect_back(job, 1);
}

static void committed_while_the_program_goes_on(void **state) {
    (void)state;
    run(&(struct plan){.fn = save_and_go_on, .settings = EXACT, .options = {.has_second = 1}});
}

/* ---- copies ---- */

static void save_copies(struct job *job) {
    fill(job, 0, CHUNKS / 2, 1);
    fill(job, CHUNKS / 2, CHUNKS, 10 + job->comm->rank);
    save(job, 1);
    reopen(job);
    expect_back(job, 1);
}

static struct vv_details kept_stats[RANKS]; /* of the run before */

static void check_copies(const char *settings, int has_second) {
    const struct plan given = {
        .fn = save_copies, .settings = settings, .options = {.has_second = has_second, .ranks_per_node = 1}};
    run(&given);
    assert_int_equal(stored(0), 2 * (SIZE / 2 + RANKS * SIZE / 2));
    for (int rank = 0; rank < RANKS; rank++) /* what all hold is shared out, what one holds has a copy next door */
        assert_in_range(board->stats[0][rank].bytes_copied, SIZE / 2 + SIZE / 16, SIZE / 2 + SIZE / 4);
    memcpy(kept_stats, board->stats[0], sizeof kept_stats);
    teardown(NULL);
    setup(NULL);
}

static void copies_on_other_nodes(void **state) {
    (void)state;
    check_copies(EXACT ",copies=2", 0);
    check_copies(EXACT ",copies=2", 1);
    check_copies(EXACT ",copies=2,capture=sync", 0);
    check_copies(EXACT ",copies=2,staging=256K",
                 1); /* does not fit: frozen or drained, never held while others are waited for */
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(kept_stats[rank].bytes_held, 0);
    assert_true(kept_stats[0].bytes_drained + kept_stats[0].bytes_frozen > 0);
    check_copies(EXACT ",copies=2,capture=trap,staging=1M", 1);
    assert_int_equal(kept_stats[0].bytes_held, 0);
}

/* Ranks that have one store are on one disk, whatever the group says: no copies are promised. */
static void no_copies_on_the_same_disk(void **state) {
    (void)state;
    run(&(struct plan){.fn = save_copies, .settings = EXACT ",copies=2,storage=local", .is_blind = 1});
    assert_int_equal(stored(0), SIZE / 2 + RANKS * SIZE / 2);
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(board->stats[0][rank].bytes_copied, 0);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(same_on_all_ranks),
        CASE(same_in_the_background),
        CASE(named_behind_the_call),
        CASE(regions_come_and_go),
        CASE(fails_after_freezing),
        CASE(same_with_trap),
        CASE(same_inside_the_call),
        CASE(same_with_top_k),
        CASE(few_with_top_k),
        CASE(not_asked),
        CASE(found_where_another_rank_stored_it),
        CASE(left_behind_is_stored_again),
        CASE(failed_checkpoint_leaves_no_id),
        CASE(memory_runs_out_on_one_rank),
        CASE(written_during_the_call),
        CASE(steps_aside_when_it_does_not_pay),
        CASE(committed_while_the_program_goes_on),
        CASE(copies_on_other_nodes),
        CASE(no_copies_on_the_same_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
