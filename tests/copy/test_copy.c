/* varve_store_copy: the copy is the same, only what is missing is stored, and what cannot be copied is named. */
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "copied.h"

static char folder[64], from[80], to[80];

static int setup(void **state) {
    (void)state;
    if (folder_make(NULL, "test-copy", folder, sizeof folder) != 0)
        return -1;
    snprintf(from, sizeof from, "%s/from", folder);
    snprintf(to, sizeof to, "%s/to", folder);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    folder_remove(folder);
    return 0;
}

/* After each test, also one that failed: the next begins without stores. */
static int remove_stores(void **state) {
    (void)state;
    folder_remove(from);
    folder_remove(to);
    return 0;
}

static struct varve_error why;

static int copy_at(const char *address, int version, const char *name, const struct varve_copy_options *options,
                   struct varve_copy_result *result) {
    struct varve_store *tool = copied_tool(from);
    struct varve_which which = {.name = "job", .version = version};
    *result = (struct varve_copy_result){.size = sizeof *result};
    why = (struct varve_error){.text = ""};
    int rc = varve_store_copy(tool, &which, address, name, options, result, &why);
    varve_store_close(tool);
    return rc;
}

static int copy_to(int version, const char *name, const struct varve_copy_options *options,
                   struct varve_copy_result *result) {
    return copy_at(to, version, name, options, result);
}

/* One operation of the storage that is written to fails. */
static int copy_failing(unsigned step, const char *code, const struct varve_copy_options *options,
                        struct varve_copy_result *result) {
    char address[160];
    snprintf(address, sizeof address, "%s?fault=fail:%u:%s", to, step, code);
    return copy_at(address, 0, NULL, options, result);
}

static struct varve_copy_result copy(int version, const char *name) {
    struct varve_copy_result result;
    int rc = copy_to(version, name, NULL, &result);
    if (rc != 0)
        fail_msg("copy of %d: %d %s", version, rc, why.text);
    return result;
}

/* ---- the same ---- */

static void run_same(const char *settings) {
    struct varve_copy_options dry = {.size = sizeof dry, .is_dry_run = 1};
    struct varve_copy_result told, result;
    copied_make(from, settings, 4);
    assert_int_equal(copy_to(1, NULL, &dry, &told), 0);
    assert_int_equal(access(to, F_OK), -1);
    result = copy(1, NULL);
    assert_int_equal(result.bytes_new, told.bytes_new);
    assert_int_equal(result.ranks, COPIED_RANKS);
    assert_true(result.generation != 0 && !result.is_there && result.bytes_written > 0);
    copied_check(from, to, "job", 1, settings);
    /* Once more: nothing is written. */
    result = copy(1, NULL);
    assert_true(result.is_there && result.bytes_written == 0);
    copy(2, NULL);
    copied_check(from, to, "job", 2, settings);
    /* The next one, which needs data of both: only what changed, which a dry run knows before. */
    assert_int_equal(copy_to(3, NULL, &dry, &told), 0);
    result = copy(3, NULL);
    assert_int_equal(result.bytes_new, told.bytes_new);
    assert_true(result.bytes_new < result.bytes_protected / 4);
    copied_check(from, to, "job", 3, settings);
    copied_check(from, to, "job", 1, settings);
    /* Under another name it depends on nothing. */
    result = copy(0, "other name");
    copied_check(from, to, "other name", 0, settings);
    assert_int_equal(copied_count(to, "job", settings), 3);
    remove_stores(NULL);
}

static void test_same(void **state) {
    static const char *const settings[] = {"log=error,keep=9", "log=error,keep=9,fine=64",
                                           "log=error,keep=9,aggregate=3,codec=zstd",
                                           "log=error,keep=9,dedup=none,codec=none"};
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        run_same(settings[i]);
}

/* ---- the job goes on from it ---- */

static void go_on_rank(struct varve_comm *comm, void *arg) {
    static struct copied_memory memory, then;
    int64_t version = -1;
    (void)arg;
    for (int step = 0; step < 3; step++)
        copied_change(&then, comm->rank, step);
    struct varve_session *session = copied_open(comm, to, "log=error,keep=9", &memory);
    if (varve_restart(session, VARVE_LATEST, &version) != 0 || version != 2)
        group_fail(comm, "restart: %s", varve_session_error(session)->text);
    if (memcmp(memory.own, then.own, sizeof then.own) != 0 ||
        memcmp(memory.common, then.common, sizeof then.common) != 0 ||
        memcmp(memory.pattern, then.pattern, sizeof then.pattern) != 0 ||
        memcmp(memory.short_end, then.short_end, sizeof then.short_end) != 0)
        group_fail(comm, "version 2 did not come back");
    copied_change(&memory, comm->rank, 3);
    if (varve_checkpoint(session, 3) != 0 || varve_wait(session) != 0)
        group_fail(comm, "checkpoint: %s", varve_session_error(session)->text);
    varve_close(session);
}

static void test_goes_on(void **state) {
    struct varve_copy_result result;
    (void)state;
    copied_make(from, "log=error,keep=9", 3);
    copy(2, NULL);
    group_must_run(COPIED_RANKS, go_on_rank, NULL, NULL, "goes on");
    assert_int_equal(copied_count(to, "job", "gone on"), 2);
    assert_true(copy(2, NULL).is_there);
    /* What is there is later than this, or no copy of this. */
    assert_int_equal(copy_to(1, NULL, NULL, &result), VARVE_MISMATCH);
    assert_non_null(strstr(why.text, "later version 3"));
    copied_make(from, "log=error,keep=9", 4); /* another life, in which version 2 is another one */
    assert_int_equal(copy_to(2, NULL, NULL, &result), VARVE_MISMATCH);
    assert_int_equal(copied_count(to, "job", "refused"), 2);
}

/* ---- what is refused ---- */

static void hold_rank(struct varve_comm *comm, void *arg) {
    static struct copied_memory memory;
    struct varve_copy_result result;
    (void)arg;
    struct varve_session *session = copied_open(comm, to, "log=error,keep=9", &memory);
    if (comm->rank == 0) {
        int rc = copy_to(0, NULL, NULL, &result);
        if (rc != VARVE_BUSY)
            group_fail(comm, "%d instead of busy: %s", rc, why.text);
        if (copy_to(0, "other", NULL, &result) != 0)
            group_fail(comm, "another name is free, but %s", why.text);
    }
    varve_close(session);
}

static void test_busy(void **state) {
    (void)state;
    copied_make(from, "log=error,keep=9", 1);
    group_must_run(COPIED_RANKS, hold_rank, NULL, NULL, "busy");
    assert_int_equal(copied_count(to, "job", "busy"), 0);
    copied_check(from, to, "other", 0, "beside a session");
    copy(0, NULL);
}

static void find_packs(const char *store, glob_t *out) {
    char pattern[160];
    snprintf(pattern, sizeof pattern, "%s/n/job/data/*/*/*/0000000?", store);
    assert_int_equal(glob(pattern, 0, NULL, out), 0);
}

static void flip(const char *path, off_t at) {
    uint8_t byte = 0;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 16;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* One bit in each pack, in its data and in its tables: it is named, with its rank where it is data, and nothing of it
 * is committed. The copy goes on when the bit is right again. */
static void test_damage(void **state) {
    struct varve_copy_result result;
    glob_t packs = {0};
    int noticed = 0;
    (void)state;
    copied_make(from, "log=error,keep=9", 3);
    find_packs(from, &packs);
    assert_int_equal(packs.gl_pathc, 9);
    for (size_t i = 0; i < packs.gl_pathc; i++) {
        struct stat st;
        assert_int_equal(stat(packs.gl_pathv[i], &st), 0);
        off_t places[] = {200, st.st_size - 100};
        for (int j = 0; j < 2; j++) {
            flip(packs.gl_pathv[i], places[j]);
            int rc = copy_to(2, NULL, NULL, &result);
            flip(packs.gl_pathv[i], places[j]);
            if (rc == 0) { /* version 2 needs nothing of it any more */
                copied_check(from, to, "job", 2, packs.gl_pathv[i]);
                folder_remove(to);
                continue;
            }
            noticed++;
            assert_int_equal(rc, VARVE_CORRUPT);
            if (!strstr(why.text, "rank") && !strstr(why.text, "n/job/data/"))
                fail_msg("which? %s", why.text);
            assert_int_equal(copied_count(to, "job", "damage"), 0);
        }
    }
    globfree(&packs);
    assert_true(noticed >=
                6); /* those of version 2; of older ones it needs more or less, as the ranks found pages first */
    copy(2, NULL);
    copied_check(from, to, "job", 2, "after damage");
}

/* How many packs of the job there are in the store that is written to. */
static size_t count_packs(void) {
    glob_t packs = {0};
    find_packs(to, &packs);
    size_t count = packs.gl_pathc;
    globfree(&packs);
    return count;
}

/* What the copy would build on is damaged, in its data: it is made with nothing below it, and the try that came out
 * badly leaves nothing. */
static void test_damaged_parent(void **state) {
    glob_t packs = {0};
    int damaged = 0;
    (void)state;
    copied_make(from, "log=error,keep=9", 4);
    copy(0, NULL);
    find_packs(to, &packs);
    for (size_t i = 0; i < packs.gl_pathc; i++) {
        struct stat st;
        assert_int_equal(stat(packs.gl_pathv[i], &st), 0);
        if (st.st_size > (64 << 10)) { /* one with data */
            flip(packs.gl_pathv[i], 5000);
            damaged++;
        }
    }
    globfree(&packs);
    assert_true(damaged > 0);
    size_t before = count_packs();
    copy(1, NULL);
    assert_true(count_packs() <= 2 * before);
    copied_check(from, to, "job", 1, "damaged parent");
    copy(2, NULL); /* which builds on the last one */
    copied_check(from, to, "job", 2, "after a damaged parent");
}

/* The record of an older checkpoint there is damaged: newer ones are copied all the same. */
static void test_damaged_older_record(void **state) {
    char pattern[160];
    glob_t records = {0};
    (void)state;
    copied_make(from, "log=error,keep=9", 3);
    copy(0, NULL);
    snprintf(pattern, sizeof pattern, "%s/n/job/record/*", to);
    assert_int_equal(glob(pattern, 0, NULL, &records), 0);
    assert_int_equal(records.gl_pathc, 1);
    flip(records.gl_pathv[0], 130);
    globfree(&records);
    copy(1, NULL);
    copied_check(from, to, "job", 1, "damaged older record");
}

static int stop_at(void *arg, uint64_t done, uint64_t total) {
    return done > total / 100 * *(const unsigned *)arg;
}

/* Stopped by hand: the next one goes on with what was stored; a prune between them frees it. */
static void test_stopped(void **state) {
    struct varve_copy_result result;
    struct varve_prune_result pruned;
    uint64_t resumed = 0;
    (void)state;
    copied_make(from, "log=error,keep=9", 1);
    for (unsigned percent = 5; percent < 100; percent += 19) {
        struct varve_copy_options options = {.size = sizeof options, .progress = stop_at, .arg = &percent};
        assert_int_equal(copy_to(0, NULL, &options, &result), -EINTR);
        assert_int_equal(copied_count(to, "job", "stopped"), 0);
        if (percent == 43) {
            struct varve_store *tool = copied_tool(to);
            assert_int_equal(varve_store_prune(tool, NULL, 0, NULL, NULL, &pruned, &why), 0);
            assert_true(pruned.bytes > 0);
            varve_store_close(tool);
        }
        assert_true(result.bytes_resumed >= resumed || percent == 62);
        resumed = result.bytes_resumed;
    }
    result = copy(0, NULL);
    assert_int_equal(result.bytes_resumed, result.bytes_new);
    copied_check(from, to, "job", 0, "stopped");
}

static void stop_early(void) {
    unsigned percent = 40;
    struct varve_copy_options options = {.size = sizeof options, .progress = stop_at, .arg = &percent};
    struct varve_copy_result result;
    assert_int_equal(copy_to(0, NULL, &options, &result), -EINTR);
}

/* A bit in the footer of the first pack. */
static void damage_rest(void) {
    glob_t packs = {0};
    struct stat st;
    find_packs(to, &packs);
    assert_int_equal(stat(packs.gl_pathv[0], &st), 0);
    chmod(packs.gl_pathv[0], 0600);
    flip(packs.gl_pathv[0], st.st_size - 60);
    globfree(&packs);
}

/* What an earlier try has stored is damaged: it is not used, and the copy is made anew. */
static void test_damaged_rest(void **state) {
    (void)state;
    copied_make(from, "log=error,keep=9", 1);
    stop_early();
    damage_rest();
    assert_int_equal(copy(0, NULL).bytes_resumed, 0);
    copied_check(from, to, "job", 0, "damaged rest");
}

/* A session writes version 3 and is killed before its record. */
static void write_without_record(void) {
#ifdef VARVE_FAULTS
    pid_t child = fork();
    int status = 0;
    if (child == 0) {
        static uint8_t bytes[1 << 16] = {1, 2, 3};
        struct varve_options options = VARVE_OPTIONS_INIT;
        struct varve_session *session = NULL;
        options.settings = "log=error,keep=9";
        vv_fault_set("store.record.before_create=kill");
        int rc = varve_open(to, "job", &options, &session, NULL);
        rc = rc ? rc : varve_protect(session, "bytes", bytes, sizeof bytes);
        rc = rc ? rc : varve_checkpoint(session, 3);
        rc = rc ? rc : varve_wait(session);
        _exit(rc ? 1 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
#else
    skip();
#endif
}

/* Before a useless rest is made anew, what a session has written since then becomes a checkpoint. */
static void test_newer_is_kept(void **state) {
    struct varve_copy_result result;
    int count = 0;
    (void)state;
    copied_make(from, "log=error,keep=9", 1);
    stop_early();
    damage_rest();
    write_without_record();
    assert_int_equal(copy_to(0, NULL, NULL, &result), VARVE_MISMATCH);
    assert_non_null(strstr(why.text, "later version 3"));
    struct varve_store *tool = copied_tool(to);
    assert_int_equal(varve_store_list(tool, "job", copied_count_one, &count, &why), 0);
    assert_int_equal(count, 1);
    varve_store_close(tool);
}

/* A handle of the storage that is stale says nothing about what an earlier try has stored. */
static void test_stale(void **state) {
    struct varve_copy_result result;
    int failed = 0, ended = 0; /* tries in a row that met no fault: what fails may be done without */
    (void)state;
    copied_make(from, "log=error,keep=9", 1);
    for (unsigned step = 1; ended < 4; step += 3) {
        stop_early();
        int rc = copy_failing(step, "ESTALE", NULL, &result);
        ended = rc == 0 ? ended + 1 : 0;
        failed += rc != 0;
        result = rc == 0 ? result : copy(0, NULL);
        if (result.bytes_resumed == 0 && !result.is_there)
            fail_msg("step %u: what was stored was not gone on with", step);
        folder_remove(to);
        assert_true(step < 1000);
    }
    assert_true(failed > 10);
}

static int note_most(void *arg, uint64_t done, uint64_t total) {
    *(int *)arg = done > total / 2;
    return 0;
}

/* What cannot be read back is given up: the next try makes it anew, and nobody adopts it. */
static void test_unreadable(void **state) {
    struct varve_copy_result result;
    int given_up = 0, ended = 0; /* tries in a row that met no fault: what fails may be done without */
    (void)state;
    copied_make(from, "log=error,keep=9", 1);
    for (unsigned step = 1; ended < 4; step += 3) {
        int is_reading_back = 0;
        struct varve_copy_options options = {.size = sizeof options, .progress = note_most, .arg = &is_reading_back};
        int rc = copy_failing(step, "EIO", &options, &result);
        ended = rc == 0 ? ended + 1 : 0;
        if (rc == -EIO && is_reading_back) {
            result = copy(0, NULL);
            given_up += result.bytes_resumed == 0 && !result.is_there;
            copied_check(from, to, "job", 0, "unreadable");
        }
        folder_remove(to);
        assert_true(step < 1000);
    }
    assert_true(given_up > 0);
}

/* Who holds the name is dead half a second later. */
static void test_going_away(void **state) {
    int pipes[2];
    char byte = 0;
    (void)state;
    copied_make(from, "log=error,keep=9", 1);
    assert_int_equal(pipe(pipes), 0);
    signal(SIGCHLD, SIG_IGN); /* nobody waits for it */
    pid_t child = fork();
    if (child == 0) {
        struct varve_options options = VARVE_OPTIONS_INIT;
        struct varve_session *session = NULL;
        options.settings = "log=error,keep=9";
        if (varve_open(to, "job", &options, &session, NULL) != 0 || write(pipes[1], &byte, 1) != 1)
            _exit(1);
        usleep(500000);
        _exit(0);
    }
    close(pipes[1]);
    assert_int_equal(read(pipes[0], &byte, 1), 1);
    close(pipes[0]);
    copy(0, NULL);
    signal(SIGCHLD, SIG_DFL);
    copied_check(from, to, "job", 0, "gone away");
}

/* Packs with data are of 64 MiB, not of part_size, so that there is something to go on with. */
static void test_units(void **state) {
    const size_t size = 65u << 20;
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_which which = {.name = "job", .version = 0};
    struct varve_session *session = NULL;
    struct varve_store *tool = NULL;
    glob_t packs = {0};
    uint8_t *zeros = calloc(size, 1);
    (void)state;
    assert_non_null(zeros);
    options.settings = "log=error";
    assert_int_equal(varve_open(from, "job", &options, &session, &why), 0);
    assert_int_equal(varve_protect(session, "zeros", zeros, size), 0);
    assert_int_equal(varve_checkpoint(session, 0), 0);
    assert_int_equal(varve_close(session), 0);
    free(zeros);
    assert_int_equal(varve_store_open(from, "log=error", &tool, &why), 0);
    assert_int_equal(varve_store_copy(tool, &which, to, NULL, NULL, NULL, &why), 0);
    varve_store_close(tool);
    find_packs(to, &packs);
    assert_int_equal(packs.gl_pathc, 3); /* and one with manifests */
    globfree(&packs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_same, remove_stores),
        cmocka_unit_test_teardown(test_goes_on, remove_stores),
        cmocka_unit_test_teardown(test_busy, remove_stores),
        cmocka_unit_test_teardown(test_damage, remove_stores),
        cmocka_unit_test_teardown(test_damaged_parent, remove_stores),
        cmocka_unit_test_teardown(test_damaged_older_record, remove_stores),
        cmocka_unit_test_teardown(test_stopped, remove_stores),
        cmocka_unit_test_teardown(test_damaged_rest, remove_stores),
        cmocka_unit_test_teardown(test_newer_is_kept, remove_stores),
        cmocka_unit_test_teardown(test_stale, remove_stores),
        cmocka_unit_test_teardown(test_unreadable, remove_stores),
        cmocka_unit_test_teardown(test_going_away, remove_stores),
        cmocka_unit_test_teardown(test_units, remove_stores),
    };
    return cmocka_run_group_tests_name("copy", tests, setup, teardown);
}
