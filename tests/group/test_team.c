/* Ranks that share a writer: what comes back, how many objects there are, how much each writer has, and what a rank or
 * a writer in trouble means for the others. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <varve/varve.h>
#include <varve/varve_inspect.h>

#include "base/alloc.h"
#include "details.h"
#include "folder.h"
#include "group.h"
#include "test.h"

#define RANKS_MOST 12
#define STEPS 8
#define FIELDS 4

struct board {
    struct vv_details stats[STEPS][RANKS_MOST];
    struct varve_error errors[STEPS][RANKS_MOST];
    int codes[STEPS][RANKS_MOST];
};

struct plan;
struct job {
    struct varve_comm *comm;
    struct varve_session *session;
    const struct plan *plan;
    uint8_t *fields[FIELDS];
    size_t sizes[FIELDS];
    int step;
    int is_refusing; /* the callback region fails */
    int is_stopping; /* the process stops for a while when it is asked */
};

struct plan {
    void (*fn)(struct job *job);
    uint32_t ranks;
    const char *settings;
    const char *fault; /* of the storage of faulty_rank */
    uint32_t faulty_rank;
    struct group_options options;
    size_t scale;        /* of the fields; 0: 1 */
    uint64_t key;        /* of the content */
    int is_lopsided;     /* only the first ranks have anything */
    int is_still;        /* rank 1 never changes anything, the others everything: it depends on what they do not */
    uint64_t allocation; /* that fails on faulty_rank, in version 3; 0: none */
};

static char folder[64];
static struct board *board;

static int setup(void **state) {
    (void)state;
    board = group_memory(sizeof *board);
    return folder_make(NULL, "test-team", folder, sizeof folder);
}

static int teardown(void **state) {
    (void)state;
    group_memory_free(board, sizeof *board);
    return folder_remove(folder);
}

/* ---- in a rank ---- */

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Field 0: smooth doubles, which compress; 1: small, of floats; 2: bytes; 3: random. Version v changes every (v + 1)-th
 * chunk. */
static void fill(struct job *job, uint64_t version) {
    for (size_t field = 0; field < FIELDS; field++)
        for (size_t at = 0; at < job->sizes[field]; at += 8) {
            uint64_t since = job->plan->is_still && job->comm->rank == 1 ? 1 : version;
            while (!job->plan->is_still && since > 0 && (at / 4096) % (since + 1) != 0)
                since--;
            uint64_t seed = mix(job->comm->rank * 16 + field + (since << 32) + (job->plan->key << 48));
            double value = (double)(seed % 1000) + (double)at * 1e-3 * (double)(job->comm->rank + 1);
            uint64_t word =
                field == 3 ? mix(seed + at) : (uint64_t)(at / 64) * 0x0101010101u + (job->plan->is_still ? seed : 0);
            size_t left = job->sizes[field] - at;
            memcpy(job->fields[field] + at, field == 0 ? (void *)&value : (void *)&word, left < 8 ? left : 8);
        }
}

static int ask_length(void *arg, uint64_t *length) {
    (void)arg;
    *length = 10000;
    return 0;
}

#define STOPPED_MS 1600 /* longer than anybody waits before looking for the dead */

static void stop_for_a_while(void) {
    pid_t self = getpid();
    pid_t child = fork();
    if (child == 0) {
        usleep(STOPPED_MS * 1000);
        kill(self, SIGCONT);
        _exit(0);
    }
    kill(self, SIGSTOP);
    waitpid(child, NULL, 0);
}

static int ask_bytes(void *arg, uint64_t offset, void *data, size_t size) {
    struct job *job = arg;
    (void)offset;
    if (job->is_stopping)
        stop_for_a_while();
    job->is_stopping = 0;
    memset(data, (int)job->comm->rank + 1, size);
    return job->is_refusing ? -EDOM : 0;
}

static int take_bytes(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    const struct job *job = arg;
    const uint8_t *bytes = data;
    if (offset + size > total || total != 10000)
        return -EILSEQ;
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != (uint8_t)(job->comm->rank + 1))
            return -EILSEQ;
    return 0;
}

static void protect(struct job *job) {
    static const char *const names[FIELDS] = {"pressure", "flags", "notes", "noise"};
    static const int types[FIELDS] = {VARVE_F64, VARVE_I32, VARVE_BYTES, VARVE_U64};
    static const uint64_t elements[FIELDS] = {8, 4, 1, 8};
    for (size_t i = 0; i < FIELDS; i++) {
        struct varve_array array = {.size = sizeof array, .type = types[i], .dims = 1};
        array.dim[0].local = array.dim[0].global = job->sizes[i] / elements[i];
        int rc = types[i] == VARVE_BYTES ? varve_protect(job->session, names[i], job->fields[i], job->sizes[i])
                                         : varve_protect_array(job->session, names[i], job->fields[i], &array);
        if (rc)
            group_fail(job->comm, "protect %s: %d", names[i], rc);
    }
    struct varve_callbacks callbacks = {
        .size = sizeof callbacks, .length = ask_length, .save = ask_bytes, .load = take_bytes};
    if (!job->plan->is_still && varve_protect_callback(job->session, "asked", &callbacks, job) != 0)
        group_fail(job->comm, "protect asked");
}

static void open_session(struct job *job) {
    char address[160];
    const struct plan *plan = job->plan;
    struct varve_options options = {.size = sizeof options, .settings = plan->settings};
    int is_faulty = plan->fault && job->comm->rank == plan->faulty_rank;
    snprintf(address, sizeof address, "file://%s%s%s", folder, is_faulty ? "?fault=" : "",
             is_faulty ? plan->fault : "");
    struct varve_error error;
    if (varve_open_comm(group_comm(job->comm), address, "team", &options, &job->session, &error) != 0)
        group_fail(job->comm, "open: %s", error.text);
    protect(job);
}

static int save(struct job *job, int64_t version) {
    uint32_t rank = job->comm->rank;
    int rc = varve_checkpoint(job->session, version);
    if (rc == 0)
        rc = varve_wait(job->session);
    board->codes[job->step][rank] = rc;
    if (rc)
        board->errors[job->step][rank] = *varve_session_error(job->session);
    vv_details_get(job->session, &board->stats[job->step][rank]);
    job->step++;
    return rc;
}

static void make_fields(struct job *job) {
    static const size_t sizes[FIELDS] = {300000, 5000, 4097, 70000};
    size_t scale = job->plan->scale ? job->plan->scale : 1;
    for (size_t i = 0; i < FIELDS; i++) {
        job->sizes[i] = sizes[i] / 8 * 8 * scale + (i == 2);
        if (job->plan->is_lopsided && job->comm->rank > 1)
            job->sizes[i] = 8192;
        job->fields[i] = aligned_alloc(4096, (job->sizes[i] + 4095) / 4096 * 4096);
    }
}

static void run_rank(struct varve_comm *comm, void *arg) {
    struct job job = {.comm = comm, .plan = arg};
    make_fields(&job);
    job.plan->fn(&job);
    varve_close(job.session);
    for (size_t i = 0; i < FIELDS; i++)
        free(job.fields[i]);
}

static void save_three(struct job *job) {
    open_session(job);
    for (int64_t version = 1; version <= 3; version++) {
        fill(job, (uint64_t)version);
        if (save(job, version) != 0)
            group_fail(job->comm, "checkpoint %lld: %s", (long long)version,
                       board->errors[version - 1][job->comm->rank].text);
    }
}

static void check_version(struct job *job, int64_t version) {
    int64_t found = -1;
    for (size_t i = 0; i < FIELDS; i++)
        memset(job->fields[i], 0x5a, job->sizes[i]);
    int rc = varve_restart(job->session, version, &found);
    if (rc || found != version)
        group_fail(job->comm, "restart %lld: %s", (long long)version, varve_session_error(job->session)->text);
    uint8_t *before[FIELDS];
    for (size_t i = 0; i < FIELDS; i++) {
        before[i] = job->fields[i];
        job->fields[i] = malloc(job->sizes[i] + 8);
    }
    fill(job, (uint64_t)version);
    for (size_t i = 0; i < FIELDS; i++) {
        if (memcmp(before[i], job->fields[i], job->sizes[i]) != 0)
            group_fail(job->comm, "version %lld: field %zu has other bytes", (long long)version, i);
        free(job->fields[i]);
        job->fields[i] = before[i];
    }
}

/* All versions come back, and the job goes on from the middle one. */
static void check_three(struct job *job) {
    open_session(job);
    for (int64_t version = 3; version >= 1; version--)
        check_version(job, version);
    check_version(job, 2);
    fill(job, 5);
    if (save(job, 5) != 0)
        group_fail(job->comm, "checkpoint 5: %s", varve_session_error(job->session)->text);
    check_version(job, 5);
}

/* ---- in the test ---- */

static void run(const struct plan *plan) {
    group_must_run(plan->ranks, run_rank, plan, &plan->options, plan->settings);
}

/* Packs, and parts of them, below a version's folder; bytes go to sizes. */
static int count_packs(int64_t version, uint64_t *sizes) {
    char path[160];
    int count = 0;
    snprintf(path, sizeof path, "%s/n/team/data/00000001/%016llx/00000000", folder, (unsigned long long)version);
    DIR *dir = opendir(path);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        struct stat status;
        char object[480];
        if (entry->d_name[0] != '0')
            continue;
        snprintf(object, sizeof object, "%s/%s", path, entry->d_name);
        assert_int_equal(stat(object, &status), 0);
        if (sizes)
            sizes[strtoul(entry->d_name, NULL, 16)] = (uint64_t)status.st_size;
        count++;
    }
    if (dir)
        closedir(dir);
    return count;
}

static void check_store(void) {
    char address[80], command[300];
    snprintf(address, sizeof address, "file://%s", folder);
    snprintf(command, sizeof command, "%s verify %s >/dev/null", VARVE_TOOL, address);
    assert_int_equal(system(command), 0);
}

static void round_trip(const char *settings, uint32_t ranks, uint32_t per_node, int packs) {
    struct plan plan = {
        .fn = save_three, .ranks = ranks, .settings = settings, .options = {.ranks_per_node = per_node}};
    assert_int_equal(setup(NULL), 0);
    run(&plan);
    for (int64_t version = 1; version <= 3; version++)
        assert_int_equal(count_packs(version, NULL), packs);
    plan.fn = check_three;
    run(&plan);
    check_store();
    teardown(NULL);
}

/* TEST_SCALE asks for less. */
static int is_short(void) {
    const char *percent = getenv("TEST_SCALE");
    return percent && atoi(percent) <= 25;
}

static void test_round_trips(void **state) {
    (void)state;
    round_trip("aggregate=4", 8, 0, 2);
    if (is_short())
        return;
    round_trip("aggregate=4,capture=sync,threads=0", 6, 3, 2);
    round_trip("aggregate=5,dedup=none", 8, 6, 3);
    round_trip("aggregate=32,dedup=exact,codec=size", 5, 0, 1);
    round_trip("aggregate=1", 4, 0, 4);
    round_trip("aggregate=0", 9, 0, 1);
}

static void test_groupings(void **state) {
    (void)state;
    round_trip("aggregate=4,codec=size,grouping=aware-block,group_block=1K,block_size=64K", 4, 0, 1);
    if (is_short())
        return;
    round_trip("aggregate=4,codec=size,grouping=agnostic,group_block=4K", 4, 0, 1);
    round_trip("aggregate=4,codec=size,grouping=agnostic-block,group_block=1K", 4, 0, 1);
    round_trip("aggregate=4,codec=size,grouping=aware,block_size=64K", 4, 0, 1);
    round_trip("aggregate=4,codec=size,grouping=aware-block,group_block=64K", 4, 0, 1);
    round_trip("aggregate=4,codec=size,grouping=auto,block_size=64K", 4, 0, 1);
}

/* The same data is found whoever wrote it, and whoever writes next. */
static void test_change_of_teams(void **state) {
    (void)state;
    struct plan plan = {.fn = save_three, .ranks = 6, .settings = "aggregate=1"};
    setup(NULL);
    run(&plan);
    plan.fn = check_three;
    plan.settings = "aggregate=3";
    run(&plan);
    plan.fn = save_three;
    plan.key = 7;
    run(&plan);
    plan.fn = check_three;
    plan.settings = "aggregate=2,grouping=aware-block";
    run(&plan);
    check_store();
    teardown(NULL);
}

/* All new data sits on two ranks of one team: it is shared out between the writers, on one node or on several, whose
 * ranks talk inside the call or in the background. */
static void level(const char *settings, uint32_t per_node, int has_second) {
    uint64_t sizes[8] = {0};
    struct plan plan = {.fn = save_three,
                        .ranks = 8,
                        .settings = settings,
                        .scale = 16,
                        .is_lopsided = 1,
                        .options = {.ranks_per_node = per_node, .has_second = has_second}};
    setup(NULL);
    run(&plan);
    assert_int_equal(count_packs(1, sizes), 4);
    for (int i = 1; i < 4; i++)
        assert_in_range(sizes[i], sizes[0] * 8 / 10, sizes[0] * 12 / 10);
    assert_true(board->stats[0][0].bytes_moved > sizes[0]);
    plan.fn = check_three;
    run(&plan);
    check_store();
    teardown(NULL);
}

static void test_level(void **state) {
    (void)state;
    level("aggregate=2,codec=none", 0, 0);
}

static void test_level_nodes(void **state) {
    (void)state;
    level("aggregate=2,codec=none,capture=sync", 4, 0);
    level("aggregate=2,codec=none,dedup=none", 4, 1);
    level("aggregate=2,codec=none,dedup=exact", 4, 1);
}

static void assert_same_story(int step, uint32_t ranks) {
    for (uint32_t i = 1; i < ranks; i++) {
        assert_int_equal(board->codes[step][i], board->codes[step][0]);
        assert_int_equal(board->errors[step][i].rank, board->errors[step][0].rank);
        assert_string_equal(board->errors[step][i].text, board->errors[step][0].text);
    }
}

/* The second checkpoint fails, the third works. */
static void save_through(struct job *job) {
    open_session(job);
    for (int64_t version = 1; version <= 3; version++) {
        job->is_refusing = job->plan->fault == NULL && version == 2 && job->comm->rank == job->plan->faulty_rank;
        fill(job, (uint64_t)version);
        save(job, version);
    }
    check_version(job, 3);
}

static void fail_through(const char *settings, uint32_t faulty_rank, const char *fault, int code) {
    struct plan plan = {
        .fn = save_through, .ranks = 6, .settings = settings, .faulty_rank = faulty_rank, .fault = fault};
    setup(NULL);
    run(&plan);
    int failed = 0;
    for (int step = 0; step < 3; step++) {
        assert_same_story(step, 6);
        if (board->codes[step][0]) {
            failed++;
            assert_int_equal(board->codes[step][0], code);
            assert_int_equal(board->errors[step][0].rank, (int)faulty_rank);
        }
    }
    assert_int_equal(failed, 1);
    check_store();
    teardown(NULL);
}

/* A rank that cannot give its data, and a writer that cannot store it. */
static void test_trouble(void **state) {
    (void)state;
    fail_through("aggregate=3,on_error=warn", 1, NULL, -EDOM);
    fail_through("aggregate=3,on_error=warn", 3, NULL, -EDOM);
    fail_through("aggregate=3,on_error=warn,capture=sync", 5, NULL, -EDOM);
}

/* A rank dies in the middle: the others are told, and nobody waits for ever. */
static void save_and_die(struct job *job) {
    open_session(job);
    fill(job, 1);
    save(job, 1);
    fill(job, 2);
    if (job->comm->rank == job->plan->faulty_rank)
        raise(SIGKILL);
    save(job, 2);
}

static void test_death(void **state) {
    (void)state;
    for (uint32_t faulty_rank = 0; faulty_rank < 4; faulty_rank += 3) {
        struct group_end end;
        struct plan plan = {.fn = save_and_die,
                            .ranks = 4,
                            .settings = "aggregate=4",
                            .faulty_rank = faulty_rank,
                            .options = {.grace_ms = 4000, .is_noticed = 1, .seconds = 30}};
        setup(NULL);
        assert_int_not_equal(group_run(plan.ranks, run_rank, &plan, &plan.options, &end), 0);
        assert_int_equal(end.first, (int)faulty_rank);
        for (uint32_t i = 0; i < 4; i++)
            if (i != faulty_rank)
                assert_int_equal(end.status[i], 0);
        teardown(NULL);
    }
}

/* ---- a writer whose storage fails ---- */

#define SAVES 4

/* The fault is met somewhere, once or from then on. What was saved comes back. */
static void save_in_trouble(struct job *job) {
    int64_t saved = 0;
    open_session(job);
    for (int64_t version = 1; version <= SAVES; version++) {
        fill(job, (uint64_t)version);
        if (save(job, version) == 0)
            saved = version;
    }
    if (saved > 0)
        check_version(job, saved);
}

struct outcome {
    int failed; /* checkpoints */
    int retried;
};

/* All ranks are told the same: of the writer, and what it said. */
static void count_outcome(uint32_t ranks, uint32_t faulty_rank, int code, struct outcome *out) {
    for (int step = 0; step < SAVES; step++) {
        assert_same_story(step, ranks);
        out->retried += board->stats[step][0].attempts > 1;
        if (board->codes[step][0] == 0)
            continue;
        out->failed++;
        assert_int_equal(board->codes[step][0], code);
        assert_int_equal(board->errors[step][0].rank, (int)faulty_rank);
    }
}

/* Rank 3 writes for 4 and 5. Its storage does so many operations that a pack is begun, filled or sealed when it fails.
 */
static void fail_storage(const char *settings, const char *kind, const char *error, int code, struct outcome *out) {
    *out = (struct outcome){0};
    for (int k = 14; k <= 38; k += 6) {
        char fault[64];
        struct plan plan = {.fn = save_in_trouble, .ranks = 6, .settings = settings, .faulty_rank = 3, .fault = fault};
        snprintf(fault, sizeof fault, "%s:%d:%s", kind, k, error);
        setup(NULL);
        memset(board, 0, sizeof *board);
        run(&plan);
        count_outcome(plan.ranks, plan.faulty_rank, code, out);
        check_store();
        teardown(NULL);
    }
}

static void test_storage_fails(void **state) {
    struct outcome outcome;
    (void)state;
    fail_storage("aggregate=3,on_error=warn,log=error", "fail", "EIO", -EIO, &outcome);
    assert_in_range(outcome.failed, 1, 5);
    fail_storage("aggregate=3,on_error=warn,log=error,capture=sync,threads=0", "fail-after", "EIO", -EIO, &outcome);
    assert_in_range(outcome.failed, 1, 5);
    fail_storage("aggregate=3,on_error=retry:2,log=error,capture=sync", "fail", "EIO", -EIO, &outcome);
    assert_int_equal(outcome.failed, 0);
    assert_in_range(outcome.retried, 1, 5);
}

/* It is full, and stays so: every checkpoint says so, on all ranks, and what was there before is. */
static void save_on_full(struct job *job) {
    open_session(job);
    for (int64_t version = 1; version <= SAVES; version++) {
        fill(job, (uint64_t)version);
        save(job, version);
    }
}

static void check_first(struct job *job) {
    open_session(job);
    check_version(job, 1);
}

static void test_storage_full(void **state) {
    struct outcome outcome = {0};
    (void)state;
    struct plan plan = {.fn = save_on_full,
                        .ranks = 6,
                        .settings = "aggregate=3,on_error=warn,log=error,codec=none",
                        .faulty_rank = 3,
                        .fault = "fail-from:36:ENOSPC"};
    setup(NULL);
    memset(board, 0, sizeof *board);
    run(&plan);
    assert_int_equal(board->codes[0][0], 0);
    count_outcome(plan.ranks, plan.faulty_rank, -ENOSPC, &outcome);
    assert_in_range(outcome.failed, 2, 3);
    plan.fault = NULL;
    plan.fn = check_first;
    run(&plan);
    teardown(NULL);
}

/* ---- a process that is stopped for a while is not dead ---- */

static void save_with_breaks(struct job *job) {
    uint32_t rank = job->comm->rank;
    open_session(job);
    for (int64_t version = 1; version <= 2; version++) {
        fill(job, (uint64_t)version);
        job->is_stopping = rank == (version == 1 ? 4u : 3u); /* a member, and a writer */
        if (save(job, version) != 0)
            group_fail(job->comm, "checkpoint %lld: %s", (long long)version, varve_session_error(job->session)->text);
    }
    check_version(job, 2);
}

static void test_stopped(void **state) {
    (void)state;
    struct plan plan = {.fn = save_with_breaks, .ranks = 6, .settings = "aggregate=3", .options = {.seconds = 60}};
    setup(NULL);
    run(&plan);
    check_store();
    teardown(NULL);
}

/* ---- what is not kept ---- */

static void save_and_keep(struct job *job) {
    open_session(job);
    for (int64_t version = 1; version <= 7; version++) {
        fill(job, (uint64_t)version);
        if (save(job, version) != 0)
            group_fail(job->comm, "checkpoint %lld: %s", (long long)version, varve_session_error(job->session)->text);
    }
}

static void check_kept(struct job *job) {
    int64_t found = -1;
    open_session(job);
    if (varve_restart(job->session, 6, &found) == 0)
        group_fail(job->comm, "version 6 was forgotten, and came back");
    check_version(job, 5);
    check_version(job, 7);
    fill(job, 8);
    if (save(job, 8) != 0)
        group_fail(job->comm, "checkpoint 8: %s", varve_session_error(job->session)->text);
    check_version(job, 8);
}

static void run_tool(const char *what) {
    char command[300];
    snprintf(command, sizeof command, "%s %s", VARVE_TOOL, what);
    assert_int_equal(system(command), 0);
}

/* Data that later checkpoints depend on stays, whoever it is of; what nobody needs goes. */
static void test_keep(void **state) {
    char command[160];
    (void)state;
    struct plan plan = {.fn = save_and_keep, .ranks = 6, .settings = "aggregate=3,keep=3"};
    setup(NULL);
    run(&plan);
    snprintf(command, sizeof command, "forget file://%s team@6 >/dev/null 2>&1", folder);
    run_tool(command);
    snprintf(command, sizeof command, "prune file://%s >/dev/null", folder);
    run_tool(command);
    check_store();
    plan.fn = check_kept;
    plan.settings = "aggregate=2";
    run(&plan);
    check_store();
    teardown(NULL);
}

/* The record of what the job builds on is gone: the next checkpoint stores everything, and is one at the first try. */
static void save_without_parent(struct job *job) {
    open_session(job);
    for (int64_t version = 1; version <= 3; version++) {
        char command[160];
        snprintf(command, sizeof command, "rm -r %s/n/team/record", folder);
        fill(job, (uint64_t)version);
        if (version == 3 && job->comm->rank == 0 && system(command) != 0)
            group_fail(job->comm, "the records could not be removed");
        if (save(job, version) != 0)
            group_fail(job->comm, "checkpoint %lld: %s", (long long)version,
                       board->errors[version - 1][job->comm->rank].text);
    }
    check_version(job, 3);
}

static void test_lost_parent(void **state) {
    (void)state;
    struct plan plan = {.fn = save_without_parent, .ranks = 4, .settings = "aggregate=2,log=error"};
    setup(NULL);
    run(&plan);
    teardown(NULL);
}

/* Memory is short at one moment of version 3: whatever is reported comes back, and the next version works. */
static void save_short(struct job *job) {
    open_session(job);
    for (int64_t version = 1; version <= 4; version++) {
        int is_short = version == 3 && job->comm->rank == job->plan->faulty_rank;
        fill(job, (uint64_t)version);
        if (is_short)
            vv_alloc_fail_at(job->plan->allocation);
        save(job, version);
        if (is_short)
            vv_alloc_fail_at(0);
    }
}

static void check_saved(struct job *job) {
    open_session(job);
    for (int64_t version = 1; version <= 4; version++)
        if (board->codes[version - 1][0] == 0)
            check_version(job, version);
}

static void test_short_of_memory(void **state) {
    (void)state;
#ifndef VARVE_FAULTS
    skip();
#endif
    uint64_t stride = is_short() ? 11 : 1;
    for (uint64_t at = 50; at < 110; at += stride) { /* where the writer is at work */
        struct plan plan = {.fn = save_short,
                            .ranks = 3,
                            .is_still = 1,
                            .allocation = at,
                            .settings =
                                "aggregate=3,keep=all,on_error=warn,log=error,capture=sync,threads=0,dedup=none"};
        setup(NULL);
        run(&plan);
        for (int step = 0; step < 4; step++)
            assert_same_story(step, 3);
        assert_int_equal(board->codes[3][0], 0);
        plan.fn = check_saved;
        plan.allocation = 0;
        run(&plan);
        teardown(NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_groupings),
        cmocka_unit_test(test_change_of_teams),
        cmocka_unit_test(test_level),
        cmocka_unit_test(test_level_nodes),
        cmocka_unit_test(test_trouble),
        cmocka_unit_test(test_death),
        cmocka_unit_test(test_storage_fails),
        cmocka_unit_test(test_storage_full),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_keep),
        cmocka_unit_test(test_lost_parent),
        cmocka_unit_test(test_short_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
