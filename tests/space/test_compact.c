/* varve_store_compact: the checkpoints of a wasteful store take what they need afterwards, and are the same; killed at
 * every step, or with every operation of the storage failing once, nothing is lost; and it keeps away from running
 * programs. */
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/fault.h"
#include "test.h"
#include "wasteful.h"

#define FEW 7 /* checkpoints, where every step is tried */

static char folder[64], store[80], model[80];
static int newest; /* version */

static void make_store(const struct wasteful *way) {
    newest = (way->checkpoints ? way->checkpoints : WASTEFUL_CHECKPOINTS) - 1;
    make_wasteful(way, store);
}

/* ---- what must be there ---- */

/* The memory of a rank at a version, as the program had it. */
static void remember(struct wasteful_memory *memory, uint32_t rank, int version) {
    wasteful_begin(memory, rank);
    for (int i = 0; i <= version; i++)
        wasteful_change(memory);
}

static int compare_bytes(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    const struct wasteful_memory *memory = arg;
    return total != WASTEFUL_SIZE || memcmp(memory->bytes + offset, data, size) != 0 ? -EILSEQ : 0;
}

static void check_version(struct varve_store *tool, uint32_t ranks, int version, const char *when) {
    static struct wasteful_memory memory;
    struct varve_which which = {.name = "job", .version = version};
    struct varve_error error = {.text = ""};
    for (uint32_t rank = 0; rank < ranks; rank++) {
        remember(&memory, rank, version);
        if (varve_store_read(tool, &which, rank, "memory", 0, compare_bytes, &memory, &error) != 0)
            fail_msg("%s: version %d of rank %u: %s", when, version, rank, error.text);
    }
}

static void on_finding(void *arg, int level, const char *key, const char *text) {
    if (level < 2)
        fail_msg("%s: %s: %s", (const char *)arg, key, text);
}

static void check_all(uint32_t ranks, const char *when) {
    struct varve_verify_options options = {
        .size = sizeof options, .finding = on_finding, .arg = (void *)(uintptr_t)when};
    struct varve_verify_result result;
    struct varve_error error = {.text = ""};
    struct varve_store *tool = open_tool(store);
    check_version(tool, ranks, newest - 1, when);
    check_version(tool, ranks, newest, when);
    if (varve_store_verify(tool, &options, &result, &error) != 0)
        fail_msg("%s: verify: %s", when, error.text);
    assert_in_range(result.checkpoints, 2, 4); /* copies may be there beside their originals */
    varve_store_close(tool);
}

static const char *fault_before = ""; /* what went wrong before, for messages */

static struct varve_compact_result compact(void) {
    struct varve_compact_result result = {.size = sizeof result};
    struct varve_error error = {.text = ""};
    struct varve_store *tool = open_tool(store);
    if (varve_store_compact(tool, "job", NULL, &result, &error) != 0)
        fail_msg("compact %s: %s", fault_before, error.text);
    varve_store_close(tool);
    return result;
}

/* Little data: the tables of packs are a few hundred bytes for each checkpoint. */
static void check_small(const struct varve_compact_result *result) {
    assert_true((double)result->bytes_after <= 1.05 * (double)result->bytes_live);
    assert_true(result->bytes_after < result->bytes_before / 2);
}

/* ---- the job goes on ---- */

static void go_on_rank(struct varve_comm *comm, void *arg) {
    const struct wasteful_job *job = arg;
    static struct wasteful_memory memory, then;
    const int versions[] = {newest - 1, newest, newest + 1};
    for (int i = 0; i < 3; i++) {
        struct varve_session *session = wasteful_open(comm, job->way, job->store, &memory);
        remember(&then, comm->rank, versions[i]);
        memset(memory.bytes, 0, sizeof memory.bytes);
        if (varve_restart(session, i == 1 ? VARVE_LATEST : versions[i], NULL) != 0)
            group_fail(comm, "restart from %d: %s", versions[i], varve_session_error(session)->text);
        if (memcmp(memory.bytes, then.bytes, WASTEFUL_SIZE) != 0)
            group_fail(comm, "version %d did not come back", versions[i]);
        memory.common = then.common;
        memory.own = then.own;
        wasteful_change(&memory);
        if (i == 1 && (varve_checkpoint(session, newest + 1) != 0 || varve_wait(session) != 0))
            group_fail(comm, "checkpoint: %s", varve_session_error(session)->text);
        varve_close(session);
    }
}

static void go_on(const struct wasteful *way) {
    struct wasteful_job job = {way, store};
    group_must_run(way->ranks, go_on_rank, &job, NULL, "after compact");
}

static void run(const struct wasteful *way) {
    make_store(way);
    check_all(way->ranks, "before");
    struct varve_compact_result result = compact();
    print_message("%u ranks, %-24s: %.2f of what is needed before, %.3f after\n", way->ranks, way->settings,
                  (double)result.bytes_before / (double)result.bytes_live,
                  (double)result.bytes_after / (double)result.bytes_live);
    assert_int_equal(result.moved, 2);
    check_small(&result);
    check_all(way->ranks, "after");
    assert_int_equal(compact().moved, 0);
    go_on(way);
    folder_remove(store);
}

static void test_one_rank(void **state) {
    static const char *const settings[] = {"", "fine=64", "dedup=none", "codec=zstd"};
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        run(&(struct wasteful){.ranks = 1, .settings = settings[i]});
}

static void test_ranks(void **state) {
    static const char *const settings[] = {"dedup=exact", "dedup=exact,aggregate=4", "dedup=exact,fine=64"};
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        run(&(struct wasteful){.ranks = 4, .settings = settings[i]});
}

/* ---- killed, and failing storage ---- */

static int in_child(const char *fault) {
    struct varve_store *tool = NULL;
    char uri[160];
    pid_t child = fork();
    if (child == 0) {
        snprintf(uri, sizeof uri, "file://%s?fault=%s", store, fault);
        int rc = varve_store_open(uri, "log=error", &tool, NULL);
        _exit(rc == 0 && varve_store_compact(tool, "job", NULL, NULL, NULL) == 0 ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void copy_model(void) {
    char command[256];
    snprintf(command, sizeof command, "rm -rf %s && cp -a %s %s", store, model, store);
    assert_int_equal(system(command), 0);
}

static unsigned steps; /* that there are, as the first look has shown */

/* Every operation, or every so many, until one run meets none any more. */
static void fail_everywhere(uint32_t ranks, const char *kind, const char *number, unsigned every) {
    const char *scale = getenv("TEST_SCALE");
    char fault[64];
    unsigned step = 1, met = 0;
    every *= scale && atoi(scale) > 0 && atoi(scale) < 100 ? 100 / (unsigned)atoi(scale) : 1;
    for (int status = -1; status != 0; step += every) {
        copy_model();
        snprintf(fault, sizeof fault, "%s:%u%s", kind, step, number);
        status = in_child(fault);
        if (WIFSIGNALED(status))
            assert_int_equal(WTERMSIG(status), SIGKILL);
        met += status != 0;
        check_all(ranks, fault);
        fault_before = fault;
        struct varve_compact_result result = compact();
        fault_before = "";
        if ((double)result.bytes_after > 1.05 * (double)result.bytes_live)
            fail_msg("%s: %d bytes are left, %d are needed, %d were moved", fault, (int)result.bytes_after,
                     (int)result.bytes_live, (int)result.moved);
        check_all(ranks, fault);
        if (*number && status == 0 && step < steps)
            status = -1; /* what fails may be done without */
        assert_true(step < 3000);
    }
    steps = steps ? steps : step;
    print_message("%u ranks, %s: %u steps, %u were tried and ended it\n", ranks, kind, step - every, met);
    assert_true(met > 30 / every);
}

static void make_model(const struct wasteful *way) {
    char command[256];
    setenv("VARVE_CODEC", "none", 1); /* it is done many times */
    make_store(way);
    snprintf(command, sizeof command, "rm -rf %s && mv %s %s", model, store, model);
    assert_int_equal(system(command), 0);
}

static void test_killed(void **state) {
    (void)state;
    make_model(&(struct wasteful){.ranks = 1, .settings = "", .checkpoints = FEW});
    steps = 0;
    fail_everywhere(1, "kill", "", 1);
    fail_everywhere(1, "fail", ":EIO", 5);
    fail_everywhere(1, "fail-after", ":EIO", 7);
}

static void test_ranks_killed(void **state) {
    (void)state;
    make_model(&(struct wasteful){.ranks = 4, .settings = "dedup=exact", .checkpoints = FEW});
    steps = 0;
    fail_everywhere(4, "kill", "", 5);
}

static int count_one(void *arg, const struct varve_checkpoint_info *info) {
    (void)info;
    ++*(int *)arg;
    return 0;
}

static int count_checkpoints(struct varve_store *tool) {
    struct varve_error error = {.text = ""};
    int count = 0;
    assert_int_equal(varve_store_list(tool, "job", count_one, &count, &error), 0);
    return count;
}

/* ---- beside others ---- */

struct beside {
    struct varve_store *other;
    unsigned prunes, refused;
};

/* While it copies and reads back, others prune, and try to forget what is being copied. */
static int meddle(void *arg, uint64_t done, uint64_t total) {
    struct beside *beside = arg;
    struct varve_which which = {.name = "job", .version = newest};
    struct varve_error error = {.text = ""};
    if (varve_store_prune(beside->other, "job", 0, NULL, NULL, NULL, &error) != 0)
        fail_msg("prune beside: %s", error.text);
    beside->prunes++;
    beside->refused += varve_store_forget(beside->other, &which, &error) == VARVE_BUSY;
    return done > total;
}

/* A prune takes the second copy for given up, since there is a newer record in its generation. Then the commit is
 * refused, everything is there, and the next compaction does it. */
static void test_prune_beside(void **state) {
    struct varve_compact_result result = {.size = sizeof result};
    struct beside beside = {0};
    struct varve_compact_options options = {.size = sizeof options, .progress = meddle, .arg = &beside};
    struct varve_error error = {.text = ""};
    (void)state;
    make_store(&(struct wasteful){.ranks = 4, .settings = "dedup=exact"});
    struct varve_store *tool = open_tool(store);
    beside.other = open_tool(store);
    int rc = varve_store_compact(tool, "job", &options, &result, &error);
    assert_true(rc < 0 && result.moved == 1);
    assert_int_equal(count_checkpoints(tool), 2); /* the copy is gone */
    print_message("pruned beside: %s\n", error.text);
    assert_true(beside.prunes > 8);
    assert_int_equal(beside.refused, beside.prunes);
    varve_store_close(beside.other);
    varve_store_close(tool);
    check_all(4, "pruned beside");
    result = compact();
    check_small(&result);
    check_all(4, "pruned beside, and done");
    folder_remove(store);
}

#ifdef VARVE_FAULTS
/* It stops before it makes the record of the second copy. */
static void compact_and_stop(void) {
    struct varve_store *tool = NULL;
    struct varve_error error = {.text = ""};
    vv_fault_set("store.record.before_create=stop:2");
    int rc = varve_store_open(store, "log=error", &tool, &error);
    rc = rc ? rc : varve_store_compact(tool, "job", NULL, NULL, &error);
    _exit(rc == VARVE_FENCED || rc == VARVE_FORGOTTEN ? 0 : 1);
}

/* Tells when it has stopped, and lets it go on when that was read. */
static void watch_over(int to, int from) {
    int status = 0;
    char byte = 's';
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pid_t child = fork();
    if (child == 0)
        compact_and_stop();
    int ok = waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) && write(to, &byte, 1) == 1;
    ok &= read(from, &byte, 1) == 1 && kill(child, SIGCONT) == 0 && waitpid(child, &status, 0) == child && status == 0;
    _exit(!ok);
}

/* As on another machine: nobody can tell whether it lives, but by its heartbeat. */
static pid_t compact_elsewhere(int to, int from) {
    int status = 0;
    pid_t child = fork();
    if (child != 0)
        return child;
    pid_t first = unshare(CLONE_NEWPID) == 0 ? fork() : -1;
    if (first == 0)
        watch_over(to, from);
    _exit(first > 0 && waitpid(first, &status, 0) == first && status == 0 ? 0 : 1);
}

/* Somebody takes it for dead, claims the name, and prunes what it has written. */
static void take_over(void) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error = {.text = ""};
    struct varve_store *tool = open_tool(store);
    if (varve_store_unlock(tool, "job", 1, NULL, NULL, NULL, &error) != 0)
        fail_msg("unlock: %s", error.text);
    options.settings = "log=error";
    assert_int_equal(varve_open(store, "job", &options, &session, &error), 0);
    assert_int_equal(varve_store_prune(tool, "job", 0, NULL, NULL, NULL, &error), 0);
    varve_close(session);
    varve_store_close(tool);
}

/* It is stopped between its last look and the replacing, longer than others wait for a heartbeat: half a minute. */
static void test_stopped_for_long(void **state) {
    int up[2], down[2], status = 0;
    char byte;
    (void)state;
    if (geteuid() != 0) /* namespaces of processes are for root */
        skip();
    make_store(&(struct wasteful){.ranks = 1, .settings = ""});
    assert_int_equal(pipe(up) | pipe(down), 0);
    pid_t child = compact_elsewhere(up[1], down[0]);
    close(up[1]);
    assert_int_equal(read(up[0], &byte, 1), 1);
    take_over();
    assert_int_equal(write(down[1], &byte, 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0); /* it was told that it has lost the claim */
    check_all(1, "stopped for long");
    folder_remove(store);
}
#else
static void test_stopped_for_long(void **state) {
    (void)state;
    skip(); /* it takes a fault point */
}
#endif

static int damage_copy(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    char noise[400];
    (void)ftw;
    if (type != FTW_F || !strstr(path, "/data/00000002/") || !strstr(path, "/00000000/00000000"))
        return 0;
    FILE *file = fopen(path, "r+b");
    memset(noise, 'x', sizeof noise);
    assert_non_null(file);
    fseek(file, (long)st->st_size / 2, SEEK_SET);
    assert_int_equal(fwrite(noise, sizeof noise, 1, file), 1);
    return fclose(file);
}

/* When the first part of a copy was read back, the rest of it is damaged. */
static int damage(void *arg, uint64_t done, uint64_t total) {
    unsigned *calls = arg;
    if (++*calls == 5) /* four ranks were copied, one was read back */
        assert_int_equal(nftw(store, damage_copy, 16, FTW_PHYS), 0);
    return done > total;
}

/* A copy that cannot be read back is never committed nor adopted, and no original goes for it. */
static void test_damaged_copy(void **state) {
    unsigned calls = 0;
    struct varve_compact_options options = {.size = sizeof options, .progress = damage, .arg = &calls};
    struct varve_error error = {.text = ""};
    (void)state;
    make_store(&(struct wasteful){.ranks = 4, .settings = "dedup=exact"});
    struct varve_store *tool = open_tool(store);
    assert_int_equal(varve_store_compact(tool, "job", &options, NULL, &error), VARVE_CORRUPT);
    check_version(tool, 4, newest - 1, "a damaged copy"); /* verify finds the damage in what nobody needs */
    check_version(tool, 4, newest, "a damaged copy");
    varve_store_close(tool);
    struct varve_compact_result result = compact();
    check_small(&result);
    check_all(4, "a damaged copy, and done");
    folder_remove(store);
}

static int stop(void *arg, uint64_t done, uint64_t total) {
    unsigned *left = arg;
    return done <= total && (*left)-- == 0;
}

static void test_stopped(void **state) {
    struct varve_error error = {.text = ""};
    (void)state;
    make_store(&(struct wasteful){.ranks = 1, .settings = ""});
    for (unsigned after = 0; after < 4; after++) {
        unsigned left = after;
        struct varve_compact_options options = {.size = sizeof options, .progress = stop, .arg = &left};
        struct varve_store *tool = open_tool(store);
        assert_int_equal(varve_store_compact(tool, "job", &options, NULL, &error), -EINTR);
        assert_int_equal(count_checkpoints(tool), 2);
        varve_store_close(tool);
        check_all(1, "stopped");
    }
    assert_true(compact().bytes_after > 0);
    check_all(1, "stopped, and done");
    folder_remove(store);
}

static void test_job_alive(void **state) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error = {.text = ""};
    int ready[2], done[2];
    char byte = 0;
    (void)state;
    make_store(&(struct wasteful){.ranks = 1, .settings = ""});
    assert_int_equal(pipe(ready) | pipe(done), 0);
    pid_t child = fork();
    if (child == 0) {
        close(done[1]);
        options.settings = "log=error";
        int rc = varve_open(store, "job", &options, &session, &error);
        rc |= write(ready[1], &byte, 1) != 1 || read(done[0], &byte, 1) < 0;
        varve_close(session);
        _exit(rc != 0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    struct varve_store *tool = open_tool(store);
    assert_int_equal(varve_store_compact(tool, "job", NULL, NULL, &error), VARVE_BUSY);
    close(done[1]);
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    check_all(1, "beside a job");
    assert_int_equal(varve_store_compact(tool, "job", NULL, NULL, &error), 0);
    varve_store_close(tool);
    folder_remove(store);
}

/* ---- fewer of them, and damage ---- */

static void test_keep(void **state) {
    struct varve_compact_options options = {.size = sizeof options, .keep = 1};
    struct varve_compact_result result = {.size = sizeof result};
    struct varve_which which = {.name = "job", .version = newest - 1};
    struct varve_error error = {.text = ""};
    (void)state;
    make_store(&(struct wasteful){.ranks = 1, .settings = ""});
    struct varve_store *tool = open_tool(store);
    if (varve_store_compact(tool, "job", &options, &result, &error) != 0)
        fail_msg("compact: %s", error.text);
    assert_int_equal(result.moved, 1);
    assert_int_equal(result.forgotten, 1);
    check_small(&result);
    check_version(tool, 1, newest, "kept");
    assert_true(varve_store_resolve(tool, &which, &error) < 0);
    varve_store_close(tool);
    folder_remove(store);
}

static char sparse[160];

static int take_pack(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)ftw;
    if (type == FTW_F && strstr(path, "/data/") && st->st_size > 500000)
        snprintf(sparse, sizeof sparse, "%.159s", path);
    return 0;
}

/* Data that is damaged is not copied: it stays where it is, and so do the records. */
static void test_damaged(void **state) {
    struct varve_error error = {.text = ""};
    struct varve_which which = {.name = "job", .version = newest};
    (void)state;
    make_store(&(struct wasteful){.ranks = 1, .settings = ""});
    struct varve_store *tool = open_tool(store);
    nftw(store, take_pack, 16, FTW_PHYS);
    FILE *file = fopen(sparse, "r+b");
    assert_non_null(file);
    for (long at = 4096; at < 900000; at += 4096) {
        fseek(file, at, SEEK_SET);
        fputc('x', file);
    }
    fclose(file);
    assert_int_equal(varve_store_compact(tool, "job", NULL, NULL, &error), VARVE_CORRUPT);
    assert_int_equal(varve_store_resolve(tool, &which, &error), 0);
    assert_int_equal(access(sparse, F_OK), 0);
    varve_store_close(tool);
    folder_remove(store);
}

/* Nothing is to be written again; but others would go because this one is there, and it cannot be read. */
static void test_keep_damaged(void **state) {
    struct varve_compact_options options = {.size = sizeof options, .keep = 1};
    struct varve_error error = {.text = ""};
    (void)state;
    make_store(&(struct wasteful){.ranks = 1, .settings = ""});
    assert_int_equal(compact().moved, 2);
    assert_int_equal(nftw(store, damage_copy, 16, FTW_PHYS), 0);
    struct varve_store *tool = open_tool(store);
    assert_int_equal(varve_store_compact(tool, "job", &options, NULL, &error), VARVE_CORRUPT);
    assert_int_equal(count_checkpoints(tool), 2);
    varve_store_close(tool);
    folder_remove(store);
}

/* A compaction was killed when one copy was there. The job goes on with keep=3: the copy and its original count once.
 */
static void test_keep_counts_versions(void **state) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error = {.text = ""};
    static struct wasteful_memory memory;
    (void)state;
    make_model(&(struct wasteful){.ranks = 1, .settings = "", .checkpoints = FEW});
    struct varve_store *tool = NULL;
    for (unsigned step = 1; !tool || count_checkpoints(tool) != 3; step += 10) {
        char fault[64];
        varve_store_close(tool);
        copy_model();
        snprintf(fault, sizeof fault, "kill:%u", step);
        assert_int_not_equal(in_child(fault), 0);
        tool = open_tool(store);
    }
    options.settings = "keep=3,log=error";
    assert_int_equal(varve_open(store, "job", &options, &session, &error), 0);
    assert_int_equal(varve_protect(session, "memory", memory.bytes, WASTEFUL_SIZE), 0);
    assert_int_equal(varve_restart(session, VARVE_LATEST, NULL), 0);
    assert_int_equal(varve_checkpoint(session, newest + 1), 0);
    assert_int_equal(varve_close(session), 0);
    check_version(tool, 1, newest, "kept");
    check_version(tool, 1, newest - 1, "kept, and not pushed out by a copy");
    varve_store_close(tool);
    folder_remove(store);
}

/* ---- what it does not do ---- */

static void refuse(uint32_t ranks, const char *settings, const char *wanted) {
    struct wasteful way = {.ranks = ranks, .settings = settings, .checkpoints = FEW, .ranks_per_node = 1};
    struct varve_error error = {.text = ""};
    make_store(&way);
    struct varve_store *tool = open_tool(store);
    assert_int_equal(varve_store_compact(tool, "job", NULL, NULL, &error), VARVE_UNSUPPORTED);
    assert_non_null(strstr(error.text, wanted));
    varve_store_close(tool);
    folder_remove(store);
}

static void test_refused(void **state) {
    (void)state;
    refuse(1, "storage=local", "the store of one node");
    refuse(2, "copies=2", "with copies");
}

static int setup(void **state) {
    (void)state;
    if (make_folder(folder, store) != 0)
        return -1;
    snprintf(model, sizeof model, "%.64s/model", folder);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    return folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stopped_for_long),
        cmocka_unit_test(test_damaged_copy),
        cmocka_unit_test(test_keep_damaged),
        cmocka_unit_test(test_keep_counts_versions),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_prune_beside),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_job_alive),
        cmocka_unit_test(test_keep),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_ranks_killed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
