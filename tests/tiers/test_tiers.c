/* Checkpoints move on to further stores and come back from there; what is slow, fails or is missing is told. */
#include <fcntl.h>
#include <glob.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"
#include "copy/copy_private.h"
#include "lifecycle/commit.h"
#include "storage/storage.h"
#include "tiered.h"
#include "tiers/tiers.h"

static double now(void) {
    return (double)vv_clock_ns() * 1e-9;
}

static void close_well(struct varve_session *session) {
    assert_int_equal(varve_close(session), 0);
}

static struct vv_details details(struct varve_session *session) {
    struct vv_details all;
    assert_int_equal(vv_details_get(session, &all), 0);
    return all;
}

/* ---- the mover ---- */

static struct vv_log hearing = {.level = VV_LOG_INFO, .rank = -1, .fn = tiered_hear};

static struct vv_store *open_first(void) {
    struct varve_backend *backend;
    struct vv_store *store;
    struct varve_error error = {.text = ""};
    assert_int_equal(vv_backend_open(first, NULL, &backend, &error), 0);
    assert_int_equal(vv_store_open(backend, VV_STORE_READ, &hearing, &store, &error), 0);
    return store;
}

static struct vv_tiers *open_tiers(const char *settings) {
    struct vv_settings taken;
    struct varve_error error = {.text = ""};
    struct vv_tiers *tiers = NULL;
    heard[0] = '\0';
    vv_settings_init(&taken);
    assert_int_equal(vv_settings_set_text(&taken, settings, "test", &error), 0);
    struct vv_tiers_options options = {first, "job", &taken, &hearing};
    assert_int_equal(vv_tiers_open(&options, &tiers, &error), 0);
    assert_non_null(tiers);
    return tiers;
}

static int take_generation(void *arg, uint32_t generation, uint64_t version) {
    (void)version;
    *(uint32_t *)arg = generation;
    return 0;
}

static void add_all(struct vv_tiers *tiers, struct vv_store *store, int from, int to) {
    uint32_t generation = 0;
    assert_int_equal(vv_records_list(store, "job", take_generation, &generation, NULL), 0);
    for (int i = from; i <= to; i++)
        vv_tiers_add(tiers, &(struct vv_attempt){.generation = generation, .version = (uint64_t)i});
}

static void make_first(int count) {
    struct varve_session *session = tiered_open("log=error,keep=all");
    for (int i = 0; i < count; i++)
        tiered_save(session, i);
    close_well(session);
}

/* More come than may wait: the oldest are passed over, the others arrive in their order. */
static void test_queue(void **state) {
    struct varve_error error = {.text = ""};
    struct vv_tiers_counts counts;
    struct vv_attempt spared[8];
    char settings[256];
    (void)state;
    make_first(6);
    snprintf(settings, sizeof settings, "tiers=%s,tiers_waiting=2", second);
    struct vv_tiers *tiers = open_tiers(settings);
    struct vv_store *store = open_first();
    add_all(tiers, store, 0, 5);
    assert_int_equal(vv_tiers_spared(tiers, spared, 8), 2);
    assert_true(spared[0].version == 4 && spared[1].version == 5);
    assert_false(vv_tiers_is_settled(tiers, 2));
    assert_int_equal(vv_tiers_start(tiers, store, NULL, &error), 0);
    assert_int_equal(vv_tiers_wait(tiers, 2, &error), 0);
    assert_true(vv_tiers_is_settled(tiers, 2));
    assert_int_equal(vv_tiers_spared(tiers, spared, 8), 0);
    vv_tiers_count(tiers, &counts);
    assert_int_equal(counts.moved, 2);
    assert_int_equal(counts.passed, 4);
    assert_int_equal(counts.failed, 0);
    assert_true(counts.bytes >= 2 * TIERED_BYTES);
    vv_tiers_close(tiers);
    assert_non_null(strstr(heard, "cannot keep up: version 0 of job is passed over"));
    assert_true(strstr(heard, "version 4 of job is in tier 2") < strstr(heard, "version 5 of job is in tier 2"));
    assert_null(strstr(heard, "varve flush"));
    for (int i = 0; i < 6; i++)
        assert_int_equal(tiered_has(second, i, i), i >= 4);
    vv_store_close(store);
    tiered_clear();
}

/* What is not there when the time is over is told with the command that brings it there. */
static void test_left(void **state) {
    struct varve_error error = {.text = ""};
    char settings[256];
    (void)state;
    make_first(2);
    snprintf(settings, sizeof settings, TIERED_ALWAYS "tiers=%s?limit=1MB,tiers_seconds=0", second);
    struct vv_tiers *tiers = open_tiers(settings);
    struct vv_store *store = open_first();
    assert_int_equal(vv_tiers_start(tiers, store, NULL, &error), 0); /* the newest is lacking */
    double begin = now();
    vv_sleep_ms(300); /* it is under way */
    vv_tiers_close(tiers);
    assert_true(now() - begin < 8); /* a window of 32 MiB is written to its end */
    assert_non_null(strstr(heard, "version 1 of job is not in tier 2"));
    assert_non_null(strstr(heard, "varve flush '"));
    assert_false(tiered_has(second, 1, 1));
    vv_store_close(store);
    tiered_clear();
}

/* ---- sessions ---- */

static void test_ranks(void **state) {
    char settings[256];
    (void)state;
    snprintf(settings, sizeof settings, "log=error,tiers=%s?limit=8MB", second); /* rank 0 is late at the end */
    copied_make(first, settings, 2);
    copied_check(first, second, "job", 1, "late");
    tiered_clear();
    snprintf(settings, sizeof settings, "log=error,keep=3,tiers=%s,durable=2", second);
    copied_make(first, settings, 4);
    for (int i = 0; i < 4; i++)
        copied_check(i ? first : second, second, "job", i, "moved"); /* keep=3: version 0 is only in the second */
    assert_int_equal(copied_count(first, "job", "first"), 3);
    assert_int_equal(copied_count(second, "job", "second"), 4);
    tiered_clear();
}

/* Rank 0 knows that the tier has failed; all ranks are told the same, and the checkpoint is in the first store. */
static void failing_rank(struct varve_comm *comm, void *arg) {
    static struct copied_memory memory_of_rank;
    struct varve_session *session = copied_open(comm, first, arg, &memory_of_rank);
    copied_change(&memory_of_rank, comm->rank, 0);
    if (varve_checkpoint(session, 0) != 0)
        group_fail(comm, "checkpoint: %s", varve_session_error(session)->text);
    int rc, tests = 0;
    while ((rc = varve_test(session)) == 0 && tests++ < 10000)
        vv_sleep_ms(1);
    const struct varve_error *error = varve_session_error(session);
    if (rc != -EIO || error->rank != 0 || !strstr(error->text, "tier 2"))
        group_fail(comm, "test says %d, rank %d: %s", rc, error->rank, error->text);
    if (varve_wait(session) != -EIO || !strstr(varve_session_error(session)->text, "tier 2"))
        group_fail(comm, "wait says: %s", varve_session_error(session)->text);
    varve_close(session);
}

static void test_ranks_fail(void **state) {
    char settings[256];
    (void)state;
    snprintf(settings, sizeof settings, "log=error,tiers=%s?fault=fail-from:30:EIO,durable=2,tiers_seconds=5", second);
    group_must_run(COPIED_RANKS, failing_rank, settings, NULL, "failing");
    assert_int_equal(copied_count(first, "job", "failing"), 1);
    assert_int_equal(copied_count(second, "job", "failing"), 0);
    tiered_clear();
}

/* Rank 0 copies back what the first store has lost; all ranks restart from it. */
static void test_lost(void **state) {
    char settings[256];
    (void)state;
    snprintf(settings, sizeof settings, "log=error,tiers=%s,durable=2", second);
    copied_make(first, settings, 3);
    folder_remove(first);
    struct tiered_job job = {settings, 2, 1};
    group_must_run(COPIED_RANKS, tiered_rank, &job, NULL, "lost");
    copied_check(first, second, "job", 2, "came back");
    copied_check(first, second, "job", 3, "went on");
    tiered_clear();
}

/* All is in the first store: nothing is copied back, and what the tier lacks or has lost moves on. */
static void test_behind(void **state) {
    (void)state;
    struct varve_session *session = tiered_open("tiers=%s,durable=2", second);
    tiered_save(session, 1);
    close_well(session);
    session = tiered_open("log=error");
    tiered_save(session, 2);
    close_well(session);
    assert_false(tiered_has(second, 2, 2));
    session = tiered_open("log=info,tiers=%s", second);
    tiered_restart(session, 2, 2);
    assert_int_equal(details(session).tiers_back, 0);
    close_well(session);
    assert_true(tiered_has(second, 2, 2));
    session = tiered_open("log=info,tiers=%s", second); /* and once more: nothing moves */
    close_well(session);
    assert_null(strstr(heard, "is in tier 2"));
    tiered_lose_second();
    session = tiered_open("tiers=%s", second);
    close_well(session);
    assert_true(tiered_has(second, 2, 2));
    tiered_clear();
}

/* A tier that has lost its own, or was never there, is no reason to stop; but what nobody can tell is no first run. */
static void test_cannot_tell(void **state) {
    struct varve_session *session;
    struct varve_error error = {.text = ""};
    char settings[256];
    (void)state;
    session = tiered_open("tiers=%s,durable=2", second);
    tiered_save(session, 1);
    close_well(session);
    snprintf(settings, sizeof settings, "tiers=%s?fault=fail-from:1:EIO,tiers_seconds=1", second);
    session = tiered_open("%s", settings);
    tiered_restart(session, 1, 1);
    assert_non_null(strstr(heard, "tier 2"));
    varve_close(session);
    folder_remove(first);
    assert_true(tiered_try_open(settings, &session, &error) < 0);
    if (!strstr(error.text, "tier 2") || !strstr(error.text, "no checkpoint of job"))
        fail_msg("%s", error.text);
    session = tiered_open("tiers=%s", second);
    tiered_restart(session, 1, 1);
    close_well(session);
    tiered_clear();
}

/* The path of a tier that is not mounted is no empty tier. */
static void test_not_mounted(void **state) {
    struct varve_session *session;
    struct varve_error error = {.text = ""};
    char settings[256];
    (void)state;
    snprintf(settings, sizeof settings, "tiers=%s/absent/store,tiers_seconds=1", folder);
    assert_int_equal(tiered_try_open(settings, &session, &error), VARVE_NO_STORE);
    if (!strstr(error.text, "tier 2") || !strstr(error.text, "no checkpoint of job"))
        fail_msg("%s", error.text);
    session = tiered_open("log=error");
    tiered_save(session, 1);
    close_well(session);
    session = tiered_open("%s", settings);
    tiered_restart(session, 1, 1);
    varve_close(session);
    tiered_clear();
}

/* A job that goes back to an older checkpoint makes its versions again. The tier takes them as they come. */
static void test_goes_back(void **state) {
    int64_t version;
    (void)state;
    struct varve_session *session = tiered_open("keep=all,tiers=%s,durable=2", second);
    for (int i = 1; i <= 3; i++)
        tiered_save(session, i);
    assert_int_equal(varve_restart(session, 1, &version), 0);
    tiered_fill(memory, sizeof memory, 12);
    assert_int_equal(varve_checkpoint(session, 2), 0);
    if (varve_wait(session) != 0)
        fail_msg("%s", varve_session_error(session)->text);
    close_well(session);
    assert_true(tiered_has(second, 2, 12));
    folder_remove(first);
    session = tiered_open("keep=all,tiers=%s", second);
    tiered_restart(session, 2, 12);
    close_well(session);
    tiered_clear();
}

static void forget_in_first(int version) {
    struct varve_which which = {.name = "job", .version = version};
    struct varve_error error = {.text = ""};
    struct varve_store *tool;
    assert_int_equal(varve_store_open(first, NULL, &tool, &error), 0);
    assert_int_equal(varve_store_forget(tool, &which, &error), 0);
    varve_store_close(tool);
}

/* Version 1 is in both stores, 10 only in the first one, which then is away; the job goes on from the tier, with 5. */
static void make_two_lines(const char *away) {
    struct varve_session *session = tiered_open("tiers=%s,durable=2", second);
    tiered_save(session, 1);
    close_well(session);
    session = tiered_open("log=error");
    tiered_save(session, 10);
    close_well(session);
    assert_int_equal(rename(first, away), 0);
    session = tiered_open("tiers=%s,durable=2", second);
    tiered_restart(session, 1, 1);
    tiered_save(session, 5);
    close_well(session);
    folder_remove(first);
    assert_int_equal(rename(away, first), 0);
}

/* The tier could not be read as the session was opened, and can be now. */
static void move_to_other_line(const char *settings) {
    struct varve_error error = {.text = ""};
    struct vv_tiers_counts counts;
    struct vv_tiers *tiers = open_tiers(settings);
    struct vv_store *store = open_first();
    assert_int_equal(vv_tiers_start(tiers, store, NULL, &error), 0);
    assert_int_equal(vv_tiers_wait(tiers, 2, &error), VARVE_MISMATCH);
    vv_tiers_count(tiers, &counts);
    assert_int_equal(counts.moved, 0);
    vv_tiers_close(tiers);
    vv_store_close(store);
}

/* A job went on elsewhere, with lower versions. What it has reported stays, and its user says which line goes on. */
static void test_two_lines(void **state) {
    struct varve_session *session;
    struct varve_error error = {.text = ""};
    char settings[256], away[100];
    (void)state;
    snprintf(away, sizeof away, "%s/away", folder);
    snprintf(settings, sizeof settings, "tiers=%s,tiers_keep=1", second);
    make_two_lines(away);
    assert_int_equal(tiered_try_open(settings, &session, &error), VARVE_MISMATCH);
    if (!strstr(error.text, "has job@5, saved later than @10") || !strstr(error.text, "varve forget"))
        fail_msg("%s", error.text);
    move_to_other_line(settings);
    assert_true(tiered_has(second, 5, 5));
    forget_in_first(10);
    session = tiered_open("%s", settings);
    tiered_restart(session, 5, 5);
    close_well(session);
    tiered_clear();
}

/* Addresses are meant as they were when the session was opened. */
static void test_other_folder(void **state) {
    char here[512];
    (void)state;
    if (strstr(second, "://"))
        skip();
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    struct varve_session *session = tiered_open("tiers=%s,durable=2", strrchr(second, '/') + 1);
    assert_int_equal(chdir(here), 0);
    tiered_save(session, 1);
    close_well(session);
    assert_true(tiered_has(second, 1, 1));
    folder_remove(first);
    session = tiered_open("tiers=%s", second);
    tiered_restart(session, 1, 1);
    close_well(session);
    tiered_clear();
}

/* ---- slow ---- */

/* 4 MB at 2 MB/s twice, since it is read back: six checkpoints that waited for that would take 20 seconds. */
static void test_slow(void **state) {
    (void)state;
    struct varve_session *session =
        tiered_open(TIERED_ALWAYS "keep=2,tiers=%s?limit=2MB,tiers_waiting=1,tiers_seconds=100", second);
    double begin = now();
    for (int i = 0; i < 6; i++)
        tiered_save(session, i);
    double took = now() - begin;
    if (took > 8)
        fail_msg("six checkpoints took %.1f s", took);
    assert_in_range(details(session).tiers_passed, 1, 4);
    close_well(session);
    assert_non_null(strstr(heard, "cannot keep up"));
    assert_null(strstr(heard, "did not get to")); /* keep=2 leaves what is being copied alone */
    assert_true(tiered_has(second, 0, 0));
    assert_true(tiered_has(second, 5, 5));
    tiered_clear();
}

static void test_durable(void **state) {
    (void)state;
    struct varve_session *session = tiered_open(TIERED_ALWAYS "tiers=%s?limit=4MB,durable=2", second);
    tiered_fill(memory, sizeof memory, 1);
    double begin = now();
    assert_int_equal(varve_checkpoint(session, 1), 0);
    assert_int_equal(varve_test(session), 0);
    assert_int_equal(varve_wait(session), 0);
    assert_true(now() - begin > 0.5);
    assert_true(tiered_has(second, 1, 1));
    assert_int_equal(varve_test(session), 1);
    assert_int_equal(varve_wait(session), 0);
    close_well(session);
    tiered_clear();
}

/* ---- failing ---- */

/* One operation of the tier fails. Either the copy can do without, or it is told, and the next one arrives. */
static void test_fails(void **state) {
    int failed = 0;
    (void)state;
    for (int step = 12; step < 120; step += 9) {
        struct varve_session *session = tiered_open(TIERED_ALWAYS "tiers=%s?fault=fail:%d:EIO,durable=2", second, step);
        tiered_fill(memory, sizeof memory, 1);
        assert_int_equal(varve_checkpoint(session, 1), 0);
        int rc = varve_wait(session);
        assert_true(rc == 0 ? tiered_has(second, 1, 1) : rc == -EIO);
        if (rc != 0 && (!strstr(varve_session_error(session)->text, "tier 2") ||
                        !strstr(heard, "version 1 of job did not get to tier 2")))
            fail_msg("%s", varve_session_error(session)->text);
        assert_int_equal(varve_wait(session), rc);
        assert_true(tiered_has(first, 1, 1));
        failed += rc != 0;
        assert_int_equal(details(session).tiers_failed, rc != 0);
        tiered_save(session, 2);
        assert_true(tiered_has(second, 2, 2));
        close_well(session);
        tiered_clear();
    }
    assert_true(failed > 2);
}

/* At the end the last one is tried once more. */
static void test_again(void **state) {
    (void)state;
    struct varve_session *session = tiered_open(TIERED_ALWAYS "tiers=%s?fault=fail:40:EIO", second);
    tiered_save(session, 1);
    close_well(session);
    assert_non_null(strstr(heard, "version 1 of job did not get to tier 2"));
    assert_true(tiered_has(second, 1, 1));
    tiered_clear();
}

/* ---- damage ---- */

static void damage(int version) {
    char pattern[200];
    glob_t packs;
    snprintf(pattern, sizeof pattern, "%s/n/job/data/*/*%d/*/0000000?", first, version);
    assert_int_equal(glob(pattern, 0, NULL, &packs), 0);
    for (size_t i = 0; i < packs.gl_pathc; i++) {
        int fd = open(packs.gl_pathv[i], O_WRONLY);
        assert_true(fd >= 0 && pwrite(fd, "damage", 6, 100000) == 6);
        close(fd);
    }
    globfree(&packs);
}

/* Asked for by its number it is not healed, since it would become the newest. It is told which tier has it, and what to
 * do; done so, it comes back. */
static void test_damaged(void **state) {
    struct varve_which which = {.name = "job", .version = 2};
    struct varve_error error = {.text = ""};
    struct varve_store *tool;
    int64_t version;
    (void)state;
    struct varve_session *session = tiered_open("tiers=%s,durable=2,codec=none", second);
    tiered_save(session, 1);
    tiered_save(session, 2);
    close_well(session);
    damage(2);
    session = tiered_open("tiers=%s", second);
    assert_int_equal(varve_restart(session, 2, &version), VARVE_CORRUPT);
    if (!strstr(heard, "tier 2") || !strstr(heard, "' 'job@2:1'`"))
        fail_msg("%s", heard);
    if (!strstr(varve_session_error(session)->text, "tier 2") || !strstr(varve_session_error(session)->text, "job@2:1"))
        fail_msg("%s", varve_session_error(session)->text);
    varve_close(session);
    assert_int_equal(varve_store_open(first, NULL, &tool, &error), 0);
    assert_int_equal(varve_store_forget(tool, &which, &error), 0);
    varve_store_close(tool);
    session = tiered_open("tiers=%s", second);
    assert_int_equal(details(session).tiers_back, 1);
    tiered_restart(session, 2, 2);
    close_well(session);
    tiered_clear();
}

/* One object of the newest checkpoint of the first store, by a pattern below n/job. */
static void spoil(const char *pattern, int is_removed) {
    char path[200];
    struct stat st;
    glob_t found;
    snprintf(path, sizeof path, "%s/n/job/%s", first, pattern);
    assert_int_equal(glob(path, 0, NULL, &found), 0);
    const char *one = found.gl_pathv[0];
    assert_int_equal(chmod(one, 0600), 0);
    int fd = open(one, O_WRONLY);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    assert_int_equal(pwrite(fd, "damage", 6, st.st_size / 2), 6);
    close(fd);
    if (is_removed)
        assert_int_equal(unlink(one), 0);
    globfree(&found);
}

static void tell_finding(void *arg, int level, const char *key, const char *text) {
    (void)arg;
    if (level < 2)
        print_message("%s: %s\n", key, text);
}

/* All bytes of all checkpoints of the first store are read. */
static void first_is_whole(void) {
    struct varve_verify_options options = {.size = sizeof options, .finding = tell_finding};
    struct varve_verify_result result = {.objects = 0};
    struct varve_error error = {.text = ""};
    struct varve_store *tool;
    assert_int_equal(varve_store_open(first, NULL, &tool, &error), 0);
    int rc = varve_store_verify(tool, &options, &result, &error);
    if (rc < 0 || result.damaged_objects || result.lost_checkpoints)
        fail_msg("%d objects, %d checkpoints, %s", (int)result.damaged_objects, (int)result.lost_checkpoints,
                 error.text);
    varve_store_close(tool);
}

static const struct {
    const char *pattern;
    int is_removed, is_listed; /* without its record it is none: then it comes back as the session is opened */
} spoiled[] = {
    {"record/*fd", 0, 1},         {"record/*fd", 1, 0},           {"data/*/*2/*/00000000", 0, 1},
    {"data/*/*2/*/00000000", 1, 1}, {"data/*/*2/*/writers", 0, 1}, {"data/*/*2/*/writers", 1, 1},
    {"data/*/*2/*/00000000.0*", 0, 1}, {"data/*/*2/*/00000000.0*", 1, 1},
};

static void heal_one(size_t i) {
    struct varve_session *session = tiered_open(TIERED_ALWAYS "tiers=%s,durable=2,keep=all", second);
    tiered_save(session, 1);
    tiered_save(session, 2);
    close_well(session);
    spoil(spoiled[i].pattern, spoiled[i].is_removed);
    session = tiered_open("tiers=%s,durable=2", second);
    tiered_restart(session, 2, 2);
    assert_int_equal(details(session).tiers_healed, spoiled[i].is_listed);
    assert_int_equal(details(session).tiers_back, !spoiled[i].is_listed);
    if (spoiled[i].is_listed && !strstr(heard, "was copied back from tier 2"))
        fail_msg("%s", heard);
    first_is_whole();
    tiered_save(session, 3);
    close_well(session);
    first_is_whole();
    assert_true(tiered_has(first, 1, 1) && tiered_has(first, 2, 2) && tiered_has(second, 3, 3));
    session = tiered_open("tiers=%s", second);
    tiered_restart(session, 3, 3);
    assert_int_equal(details(session).tiers_healed, 0);
    close_well(session);
    tiered_clear();
}

/* Damage in each kind of object: the restart gives the newest version back, and the first store is whole then. */
static void test_healed(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof spoiled / sizeof *spoiled; i++)
        heal_one(i);
}

/* On all ranks. */
static void test_healed_ranks(void **state) {
    char settings[256];
    (void)state;
    snprintf(settings, sizeof settings, "log=error,tiers=%s,durable=2,keep=all", second);
    copied_make(first, settings, 3);
    spoil("data/*/*2/*/00000001", 0);
    struct tiered_job job = {settings, 2, 0};
    group_must_run(COPIED_RANKS, tiered_rank, &job, NULL, "healed");
    copied_check(first, second, "job", 3, "went on");
    first_is_whole();
    tiered_clear();
}

/* What the newest shares with an older one is damaged: the newest is copied back with nothing below it. The session
 * itself has made the damaged one, and goes on with lower versions. */
static void test_healed_below(void **state) {
    struct varve_session *session = tiered_open(TIERED_ALWAYS "tiers=%s,durable=2,keep=all", second);
    (void)state;
    tiered_save(session, 5);
    memset(memory, 7, 1 << 20);
    assert_int_equal(varve_checkpoint(session, 6), 0);
    assert_int_equal(varve_wait(session), 0);
    spoil("data/*/*5/*/00000000.00000002", 0);
    int64_t version;
    assert_int_equal(varve_restart(session, VARVE_LATEST, &version), 0);
    assert_int_equal(version, 6);
    assert_int_equal(details(session).tiers_healed, 1);
    tiered_save(session, 3);
    close_well(session);
    session = tiered_open("tiers=%s,durable=2", second);
    tiered_restart(session, 3, 3);
    close_well(session);
    tiered_clear();
}

/* A tier that fails in the middle: an older one comes back, as without tiers, and the next session is given it. */
static void test_heal_fails(void **state) {
    int failed = 0;
    (void)state;
    if (strstr(second, "://")) /* the operations are others */
        skip();
    for (int step = 8; step < 60; step += 7) {
        int64_t version = 0;
        struct varve_session *session = tiered_open(TIERED_ALWAYS "tiers=%s,durable=2", second);
        tiered_save(session, 1);
        tiered_save(session, 2);
        close_well(session);
        spoil("data/*/*2/*/00000000", 0);
        session = tiered_open("tiers=%s?fault=fail-from:%d:EIO,tiers_seconds=0", second, step);
        assert_int_equal(varve_restart(session, VARVE_LATEST, &version), 0);
        assert_int_equal(version, details(session).tiers_healed ? 2 : 1);
        varve_close(session);
        failed += version == 1 && strstr(heard, "could not give version 2 of job back");
        session = tiered_open("tiers=%s", second);
        tiered_restart(session, 2, 2);
        close_well(session);
        first_is_whole();
        tiered_clear();
    }
    assert_true(failed > 1);
}

/* What a copy that failed has left, or the tombstone of one that did not come out well, is in nobody's way: the session
 * makes the same version anew. */
static void test_heal_fails_and_goes_on(void **state) {
    char clean[sizeof first];
    int failed = 0;
    (void)state;
    memcpy(clean, first, sizeof first);
    for (int step = 88; step < 132; step += 3) {
        struct varve_error error = {.text = ""};
        struct varve_session *session = tiered_open(TIERED_ALWAYS "tiers=%s,durable=2", second);
        char settings[256];
        int64_t version;
        tiered_save(session, 2);
        close_well(session);
        spoil("data/*/*2/*/00000000", 0);
        snprintf(settings, sizeof settings, "log=error,beat_seconds=30,tiers=%s", second);
        snprintf(first, sizeof first, "%s?fault=fail:%d:EIO", clean, step);
        int rc = tiered_try_open(settings, &session, &error);
        memcpy(first, clean, sizeof first);
        assert_int_equal(rc, 0);
        if (varve_restart(session, VARVE_LATEST, &version) != 0) {
            failed++;
            tiered_fill(memory, sizeof memory, 12);
            if (varve_checkpoint(session, 2) != 0 || varve_wait(session) != 0)
                fail_msg("step %d: %s", step, varve_session_error(session)->text);
        }
        varve_close(session);
        tiered_clear();
    }
    assert_true(failed > 3);
}

/* The job went back and made version 2 again, which never came to the tier. Its record cannot tell when it was saved:
 * the version 2 of the former life is not taken for it. */
static void test_heal_other_life(void **state) {
    int64_t version;
    (void)state;
    struct varve_session *session = tiered_open("tiers=%s,durable=2,keep=all", second);
    tiered_save(session, 1);
    tiered_save(session, 2);
    close_well(session);
    session = tiered_open("log=error,keep=all");
    assert_int_equal(varve_restart(session, 1, &version), 0);
    tiered_fill(memory, sizeof memory, 12);
    assert_int_equal(varve_checkpoint(session, 2), 0);
    close_well(session);
    struct varve_which which = {.name = "job", .version = 2, .generation = 1};
    struct varve_error error = {.text = ""};
    struct varve_store *tool;
    assert_int_equal(varve_store_open(first, NULL, &tool, &error), 0);
    assert_int_equal(varve_store_forget(tool, &which, &error), 0);
    varve_store_close(tool);
    spoil("record/*fd", 0);
    session = tiered_open("keep=all,tiers=%s", second);
    tiered_restart(session, 1, 1);
    assert_int_equal(details(session).tiers_healed, 0);
    assert_non_null(strstr(heard, "skipped checkpoint job@2 (generation 2)"));
    close_well(session);
    tiered_clear();
}

/* ---- damage in further stores ---- */

/* Records of the second store, the newest first. */
static void damage_records(size_t count) {
    char pattern[200];
    glob_t records;
    snprintf(pattern, sizeof pattern, "%s/n/job/record/*", second);
    assert_int_equal(glob(pattern, 0, NULL, &records), 0);
    assert_true(records.gl_pathc >= count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(chmod(records.gl_pathv[i], 0600), 0);
        int fd = open(records.gl_pathv[i], O_WRONLY);
        assert_true(fd >= 0 && pwrite(fd, "damage", 6, 100) == 6);
        close(fd);
    }
    globfree(&records);
}

/* A tier of which no record can be read is not empty. If an older one can, what is newer is told. */
static void test_unread(void **state) {
    struct varve_session *session;
    struct varve_error error = {.text = ""};
    char settings[256];
    (void)state;
    if (strstr(second, "://"))
        skip();
    snprintf(settings, sizeof settings, "tiers=%s", second);
    session = tiered_open("tiers=%s,durable=2", second);
    tiered_save(session, 1);
    tiered_save(session, 2);
    close_well(session);
    damage_records(1);
    session = tiered_open("%s", settings); /* the first store has it */
    tiered_restart(session, 2, 2);
    varve_close(session);
    assert_null(strstr(heard, "cannot be read"));
    folder_remove(first);
    session = tiered_open("%s", settings);
    tiered_restart(session, 1, 1);
    close_well(session);
    assert_non_null(strstr(heard, "version 2 of job in tier 2"));
    assert_non_null(strstr(heard, "cannot be read"));
    folder_remove(first);
    damage_records(2);
    assert_int_equal(tiered_try_open(settings, &session, &error), VARVE_CORRUPT);
    if (!strstr(error.text, "no checkpoint of job, and tier 2"))
        fail_msg("%s", error.text);
    tiered_clear();
}

/* A command that is advised names the first store as it is, or not at all. */
static void test_advice(void **state) {
    char address[200], settings[256], advice[VV_TIERS_ADVICE];
    struct vv_attempt damaged = {.generation = 1, .version = 1};
    (void)state;
    struct varve_session *session = tiered_open("tiers=%s,durable=2", second);
    tiered_save(session, 1);
    close_well(session);
    snprintf(settings, sizeof settings, "tiers=%s", second);
    for (size_t size = 10; size < sizeof address; size += 10) {
        struct vv_tiers_options options = {address, "job", NULL, &hearing};
        struct vv_settings taken;
        struct vv_tiers *tiers;
        char whole[256];
        memset(address, 'x', size);
        address[0] = '/', address[size] = '\0';
        vv_settings_init(&taken);
        assert_int_equal(vv_settings_set_text(&taken, settings, "test", NULL), 0);
        options.settings = &taken;
        assert_int_equal(vv_tiers_open(&options, &tiers, NULL), 0);
        vv_tiers_look_for(tiers, &damaged);
        vv_tiers_advice(tiers, advice);
        vv_tiers_close(tiers);
        snprintf(whole, sizeof whole, "`varve forget '%s' 'job@1:1'`", address);
        if (!strstr(advice, whole) && !strstr(advice, "`varve forget 'STORE' 'job@1:1'`"))
            fail_msg("%s", advice);
        if (size <= 80)
            assert_non_null(strstr(advice, whole));
    }
    tiered_clear();
}

/* Three tiers: one that fails does not hold up the other, and damage in one is passed by. */
static void test_three(void **state) {
    char third[96];
    (void)state;
    snprintf(third, sizeof third, "%s/third", folder);
    struct varve_session *session =
        tiered_open("tiers=%s?fault=fail-from:60:EIO;%s,durable=3,tiers_seconds=1", second, third);
    tiered_save(session, 1);
    tiered_save(session, 2);
    varve_close(session);
    assert_true(tiered_has(third, 2, 2));
    folder_remove(first);
    session = tiered_open("tiers=%s;%s", second, third);
    tiered_restart(session, 2, 2);
    close_well(session);
    assert_true(tiered_has(second, 2, 2));
    folder_remove(first); /* what comes back may be older than what cannot be read */
    session = tiered_open("tiers=%s?fault=fail-from:1:EIO;%s,tiers_seconds=1", second, third);
    tiered_restart(session, 2, 2);
    assert_non_null(strstr(heard, "could not be read, and may have newer checkpoints of job"));
    varve_close(session);
    folder_remove(third);
    tiered_clear();
}

/* The tier that has the newest fails while it is read. Another gives back an older one, and that is told. */
static void test_best_fails(void **state) {
    char third[96];
    int told = 0;
    (void)state;
    if (strstr(second, "://")) /* the operations are others */
        skip();
    snprintf(third, sizeof third, "%s/third", folder);
    struct varve_session *session = tiered_open("tiers=%s;%s,durable=3", second, third);
    tiered_save(session, 1);
    close_well(session);
    session = tiered_open("tiers=%s,durable=2", second);
    tiered_save(session, 2);
    close_well(session);
    for (int step = 10; step < 31; step += 3) {
        int64_t version = 0;
        folder_remove(first);
        session = tiered_open("tiers=%s?fault=fail-from:%d:EIO;%s,tiers_seconds=0", second, step, third);
        assert_int_equal(varve_restart(session, VARVE_LATEST, &version), 0);
        varve_close(session);
        if (version == 1 && !strstr(heard, "could not give back version 2") && !strstr(heard, "could not be read"))
            fail_msg("step %d: %s", step, heard);
        told += version == 1 && strstr(heard, "tier 2") && strstr(heard, "could not give back version 2 of job");
    }
    assert_true(told > 0);
    folder_remove(third);
    tiered_clear();
}

static void test_keeps(void **state) {
    (void)state;
    struct varve_session *session = tiered_open("tiers=%s,durable=2,tiers_keep=2", second);
    for (int i = 0; i < 5; i++)
        tiered_save(session, i);
    close_well(session);
    assert_int_equal(copied_count(second, "job", "kept"), 2);
    assert_true(tiered_has(second, 4, 4) && tiered_has(second, 3, 3));
    tiered_clear();
}

/* Each tier keeps its own number, and lets its own number wait; the settings are for those that say nothing. */
static void test_own_numbers(void **state) {
    char third[96], fourth[96];
    (void)state;
    snprintf(third, sizeof third, "%s/third", folder);
    snprintf(fourth, sizeof fourth, "%s/fourth", folder);
    struct varve_session *session =
        tiered_open("keep=all,tiers=%s?keep=2;%s?limit=900MB&keep=all&waiting=9;%s,tiers_keep=4,durable=4", second,
                    third, fourth);
    for (int i = 0; i < 6; i++) {
        tiered_save(session, i);
        vv_sleep_ms(300); /* the other two have it, too */
    }
    close_well(session);
    assert_int_equal(copied_count(second, "job", "two"), 2);
    assert_int_equal(copied_count(third, "job", "all"), 6);
    assert_int_equal(copied_count(fourth, "job", "four"), 4);
    assert_true(tiered_has(second, 5, 5) && tiered_has(second, 4, 4) && tiered_has(third, 0, 0));
    folder_remove(third);
    folder_remove(fourth);
    tiered_clear();
}

static void test_own_waiting(void **state) {
    struct varve_error error = {.text = ""};
    struct vv_attempt spared[8];
    char settings[256];
    (void)state;
    make_first(6);
    snprintf(settings, sizeof settings, "tiers=%s?waiting=4,tiers_waiting=1", second);
    struct vv_tiers *tiers = open_tiers(settings);
    struct vv_store *store = open_first();
    add_all(tiers, store, 0, 5);
    assert_int_equal(vv_tiers_spared(tiers, spared, 8), 4);
    assert_int_equal(vv_tiers_start(tiers, store, NULL, &error), 0);
    assert_int_equal(vv_tiers_wait(tiers, 2, &error), 0);
    vv_tiers_close(tiers);
    assert_non_null(strstr(heard, "tiers_waiting=4"));
    vv_store_close(store);
    tiered_clear();
}

static void refuse(const char *settings, int code, const char *word) {
    struct varve_session *session;
    struct varve_error error = {.text = ""};
    assert_int_equal(tiered_try_open(settings, &session, &error), code);
    if (!strstr(error.text, word))
        fail_msg("%s: %s", settings, error.text);
    tiered_clear();
}

static void test_refused(void **state) {
    char settings[256];
    (void)state;
    refuse("durable=2", VARVE_SETTING, "durable (2");
    refuse("tiers=a;;b", VARVE_SETTING, "none of them empty");
    refuse("tiers=a;", VARVE_SETTING, "none of them empty");
    refuse("tiers=a;b?keep=few", VARVE_SETTING, "\"keep=few\" of an address in tiers must look like keep=3");
    refuse("tiers=a?limit=5MB&keep=", VARVE_SETTING, "must look like keep=3");
    refuse("tiers=a?keep=10000000", VARVE_SETTING, "must look like keep=3");
    refuse("tiers=a?waiting=0", VARVE_SETTING, "must look like waiting=2");
    refuse("tiers=a?waiting=33", VARVE_SETTING, "must look like waiting=2");
    refuse("tiers=a?keeps=3", VARVE_SETTING, "\"keeps\"");
    refuse("tiers=a;b;c;d;e;f;g;h", VARVE_SETTING, "at most 7");
    snprintf(settings, sizeof settings, "storage=local,tiers=%s", second);
    refuse(settings, VARVE_UNSUPPORTED, "shared storage");
}

/* ---- one store twice ---- */

struct twice {
    const char *address; /* of the first store */
    char settings[512];
    const char *words[2];
};

/* The same on all ranks. */
static void twice_rank(struct varve_comm *comm, void *arg) {
    const struct twice *twice = arg;
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error = {.text = ""};
    options.settings = twice->settings;
    int rc = varve_open_comm(group_comm(comm), twice->address, "job", &options, &session, &error);
    if (rc != VARVE_SETTING || session || !strstr(error.text, twice->words[0]) || !strstr(error.text, twice->words[1]))
        group_fail(comm, "%s with %s: %d, %s", twice->address, twice->settings, rc, error.text);
}

static void refuse_twice(const char *address, const char *one, const char *other, const char *word) {
    struct twice twice = {.address = address, .words = {"is the same store as", word}};
    snprintf(twice.settings, sizeof twice.settings, "log=error,tiers_seconds=1,tiers=%s%s%s", one, *other ? ";" : "",
             other);
    group_must_run(2, twice_rank, &twice, NULL, "one store twice");
}

/* The first store once more, and a tier twice, there or not: also by other spellings, links and parameters. */
static void test_twice(void **state) {
    char link[100], other[200], dots[200], here[100];
    (void)state;
    snprintf(here, sizeof here, "%s/here", folder);
    snprintf(link, sizeof link, "%s/link", folder);
    snprintf(other, sizeof other, "file://%s//here/?limit=5MB", folder);
    snprintf(dots, sizeof dots, "%s/./here/../here", folder);
    for (int is_there = 0; is_there < 2; is_there++) {
        refuse_twice(first, first, "", "tier 1");
        refuse_twice(first, here, other, "tier 2, ");
        refuse_twice(first, second, second, "tier 2, ");
        if (is_there)
            refuse_twice(first, here, dots, "tier 2, ");
        assert_int_equal(symlink(is_there ? here : ".", link), 0);
        refuse_twice(first, is_there ? here : first, is_there ? link : "", is_there ? "tier 2, " : "tier 1");
        refuse_twice(is_there ? here : first, is_there ? link : first, "", "tier 1");
        if (is_there)
            refuse_twice(here, second, other, "tier 1");
        unlink(link);
        if (!is_there) {
            struct varve_session *session = tiered_open("log=error,tiers=%s;%s,durable=3", second, here);
            tiered_save(session, 1);
            close_well(session);
        }
    }
    tiered_clear();
    folder_remove(here);
}

/* In a mount namespace of its own: the same folder by another mount. */
static void see_bound(void) {
    char bound[100];
    snprintf(bound, sizeof bound, "%s/bound", folder);
    if (mkdir(bound, 0700) != 0 || mount(first, bound, NULL, MS_BIND, NULL) != 0)
        _exit(2);
    refuse_twice(first, bound, "", "tier 1");
    _exit(0);
}

static void test_bound(void **state) {
    char bound[100];
    int status;
    (void)state;
    if (geteuid() != 0)
        skip();
    make_first(1);
    pid_t child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
            _exit(77);
        see_bound();
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    snprintf(bound, sizeof bound, "%s/bound", folder);
    rmdir(bound);
    tiered_clear();
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

/* A bucket by another name of its server: only what is stored there tells. */
static void test_other_endpoint(void **state) {
    const char *endpoint = getenv("AWS_ENDPOINT_URL"), *port = endpoint ? strrchr(endpoint, ':') : NULL;
    char other[300];
    (void)state;
    if (strncmp(second, "s3://", 5) != 0 || !port || !strstr(endpoint, "127.0.0.1"))
        skip();
    snprintf(other, sizeof other, "%s?endpoint=%.*slocalhost%s", second, strncmp(endpoint, "https", 5) == 0 ? 8 : 7,
             endpoint, port);
    struct varve_session *session = tiered_open("log=error,tiers=%s,durable=2", second);
    tiered_save(session, 1);
    close_well(session);
    refuse_twice(second, other, "", "tier 1");
    refuse_twice(first, second, other, "tier 2, ");
    tiered_clear();
}

/* A folder that was copied has the id of the first store, and is another one. */
static void test_copied_folder(void **state) {
    char command[300];
    (void)state;
    if (strstr(second, "://"))
        skip();
    make_first(1);
    snprintf(command, sizeof command, "cp -r '%s' '%s'", first, second);
    assert_int_equal(system(command), 0);
    struct varve_session *session = tiered_open("tiers=%s,durable=2", second);
    tiered_save(session, 5);
    close_well(session);
    assert_true(tiered_has(second, 5, 5));
    tiered_clear();
}

/* ---- the end of the job ---- */

/* The checkpoint for it did not get to the tier: another one is wanted, and the job ends with that. */
static void test_asked_to_end(void **state) {
    (void)state;
    struct varve_session *session =
        tiered_open(TIERED_ALWAYS "tiers=%s?fault=fail:40:EIO,durable=2,interval=asked,exit_signal=USR1", second);
    assert_int_equal(varve_need(session), 0);
    raise(SIGUSR1);
    assert_int_equal(varve_need(session), 1);
    assert_int_equal(varve_checkpoint(session, 1), 0);
    assert_int_equal(varve_should_exit(session), 0);
    assert_non_null(strstr(heard, "version 1 of job did not get to tier 2"));
    assert_int_equal(varve_need(session), 1);
    assert_int_equal(varve_checkpoint(session, 2), 0);
    assert_int_equal(varve_should_exit(session), 1);
    assert_int_equal(varve_need(session), 0);
    close_well(session);
    tiered_clear();
}

/* With durable=2 it waits for the tier as well, but no longer than is set. */
static void test_close_late(void **state) {
    (void)state;
    struct varve_session *session = tiered_open(TIERED_ALWAYS "tiers=%s?limit=1MB,durable=2,tiers_seconds=1", second);
    tiered_fill(memory, sizeof memory, 1);
    assert_int_equal(varve_checkpoint(session, 1), 0);
    assert_int_equal(varve_close(session), -ETIMEDOUT);
    assert_non_null(strstr(heard, "version 1 of job is not in tier 2"));
    assert_non_null(strstr(heard, "varve flush '"));
    assert_true(tiered_has(first, 1, 1));
    assert_false(tiered_has(second, 1, 1));
    tiered_clear();
}

/* A server of S3 that hangs in the middle of a move (S3_SERVER is its process): varve_close waits for two requests more
 * than is set, each for its patience and one timeout. */
static void test_close_hangs(void **state) {
    const char *server = getenv("S3_SERVER");
    (void)state;
    if (!server)
        skip();
    struct varve_session *session =
        tiered_open(TIERED_ALWAYS "tiers=%s?timeout=1s&patience=2s&limit=1MB,tiers_seconds=1", second);
    tiered_save(session, 1);
    vv_sleep_ms(1500); /* it is under way */
    assert_int_equal(kill((pid_t)atoi(server), SIGSTOP), 0);
    double begin = now();
    int rc = varve_close(session);
    double took = now() - begin;
    kill((pid_t)atoi(server), SIGCONT);
    print_message("varve_close took %.1f s\n", took);
    assert_int_equal(rc, 0);
    assert_non_null(strstr(heard, "varve flush '"));
    assert_true(took < 1 + 2 * (2 + 1 + 1) + 2); /* a part takes a second by itself */
    assert_true(tiered_has(first, 1, 1));
    assert_false(tiered_has(second, 1, 1));
    tiered_clear();
}

/* A process that has the name in the tier, and stands still: it may be alive, and is watched for a minute. */
static pid_t hold_second(void) {
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct varve_options options = VARVE_OPTIONS_INIT;
        struct varve_session *session;
        options.settings = "log=error";
        if (varve_open(second, "job", &options, &session, NULL) != 0 || write(ready[1], &byte, 1) != 1)
            _exit(1);
        pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    assert_int_equal(kill(child, SIGSTOP), 0);
    return child;
}

/* The time for tiers is over while it is watched: varve_close does not wait for that. */
static void test_close_watches(void **state) {
    (void)state;
    pid_t holder = hold_second();
    struct varve_session *session = tiered_open("tiers=%s,tiers_seconds=1", second);
    tiered_save(session, 1);
    double begin = now();
    close_well(session);
    double took = now() - begin;
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    if (took > 8)
        fail_msg("varve_close took %.1f s", took);
    assert_non_null(strstr(heard, "waiting for process"));
    assert_non_null(strstr(heard, "varve flush '"));
    tiered_clear();
}

static int count_in_reading_back(void *arg, uint64_t done, uint64_t total) {
    *(int *)arg += done > total / 2 && done < total;
    return *(int *)arg > 1;
}

/* A region of several windows can be stopped in the middle, also while it is read back. */
static void test_stop_in_region(void **state) {
    size_t size = 4u * VV_COPY_WINDOW;
    uint8_t *large = calloc(1, size);
    int count = 0;
    struct varve_which which = {.name = "job", .version = 1};
    struct varve_copy_result result = {.size = sizeof result};
    struct varve_copy_options options = {.size = sizeof options, .progress = count_in_reading_back, .arg = &count};
    struct varve_error error = {.text = ""};
    struct varve_store *tool;
    (void)state;
    assert_non_null(large);
    struct varve_session *session = tiered_open("log=error");
    assert_int_equal(varve_protect(session, "memory", large, size), 0);
    assert_int_equal(varve_checkpoint(session, 1), 0);
    close_well(session);
    free(large);
    assert_int_equal(varve_store_open(first, NULL, &tool, &error), 0);
    assert_int_equal(varve_store_copy(tool, &which, second, "job", &options, &result, &error), -EINTR);
    assert_int_equal(count, 2);
    varve_store_close(tool);
    tiered_clear();
}

static int stop_at_first(void *arg, uint64_t done, uint64_t total) {
    (void)total;
    return ++*(int *)arg == 1 && done == 0;
}

/* A copy can be stopped while it reads what the other store has, before it has copied anything. */
static void test_stop_before_data(void **state) {
    int count = 0;
    struct varve_which which = {.name = "job", .version = 0};
    struct varve_copy_result result = {.size = sizeof result};
    struct varve_copy_options options = {.size = sizeof options};
    struct varve_error error = {.text = ""};
    struct varve_store *tool;
    (void)state;
    make_first(2);
    assert_int_equal(varve_store_open(first, NULL, &tool, &error), 0);
    assert_int_equal(varve_store_copy(tool, &which, second, "job", &options, &result, &error), 0);
    options.progress = stop_at_first;
    options.arg = &count;
    which = (struct varve_which){.name = "job", .version = 1};
    assert_int_equal(varve_store_copy(tool, &which, second, "job", &options, &result, &error), -EINTR);
    assert_int_equal(result.bytes_written, 0);
    assert_int_equal(varve_store_copy(tool, &which, second, "job", &options, &result, &error), 0);
    varve_store_close(tool);
    tiered_clear();
}

/* ---- encrypted stores, and programs that only read ---- */

#define SEALED "encrypt=on,key=env:TIERS_KEY,"

static int can_open(const char *address, const char *settings) {
    struct varve_error error = {.text = ""};
    struct varve_store *tool = NULL;
    int rc = varve_store_open(address, settings, &tool, &error);
    varve_store_close(tool);
    return rc == 0;
}

/* What is encrypted moves on to a tier that is, too, and comes back; never to one that is not. */
static void test_sealed(void **state) {
    struct varve_options plain = VARVE_OPTIONS_INIT;
    struct varve_error error = {.text = ""};
    struct varve_session *session;
    (void)state;
    if (!getenv("TIERS_KEY"))
        skip();
    session = tiered_open(SEALED "tiers=%s,durable=2", second);
    tiered_save(session, 1);
    close_well(session);
    assert_false(can_open(second, NULL));
    assert_true(can_open(second, "key=env:TIERS_KEY"));
    folder_remove(first);
    session = tiered_open(SEALED "tiers=%s", second);
    assert_int_equal(details(session).tiers_back, 1);
    tiered_restart(session, 1, 1);
    close_well(session);
    tiered_lose_second();
    plain.settings = "log=error";
    assert_int_equal(varve_open(second, "other", &plain, &session, &error), 0);
    close_well(session);
    session = tiered_open("key=env:TIERS_KEY,tiers=%s,durable=2,tiers_seconds=1", second);
    tiered_fill(memory, sizeof memory, 2);
    assert_int_equal(varve_checkpoint(session, 2), 0);
    assert_true(varve_wait(session) < 0);
    if (!strstr(varve_session_error(session)->text, "is encrypted"))
        fail_msg("%s", varve_session_error(session)->text);
    varve_close(session);
    assert_int_equal(copied_count(second, "job", "plain"), 0);
    tiered_clear();
}

struct emptied {
    struct varve_backend *backend;
    char prefix[VV_BACKEND_KEY_MAX + 1];
    int removed;
};

static int empty_entry(void *arg, const char *name, int is_prefix) {
    struct emptied *emptied = arg;
    size_t used = strlen(emptied->prefix);
    snprintf(emptied->prefix + used, sizeof emptied->prefix - used, "%s%s", used ? "/" : "", name);
    int rc = is_prefix ? vv_backend_list(emptied->backend, emptied->prefix, NULL, 0, empty_entry, emptied)
                       : vv_backend_remove(emptied->backend, emptied->prefix);
    emptied->removed += !is_prefix && rc == 0;
    emptied->prefix[used] = '\0';
    return rc == -ENOENT ? 0 : rc;
}

/* All that the second store has, its keys included, is gone; its folder stays. */
static void empty_second(void) {
    struct emptied emptied = {.prefix = ""};
    struct varve_error error = {.text = ""};
    assert_int_equal(vv_backend_open(second, NULL, &emptied.backend, &error), 0);
    assert_int_equal(vv_backend_list(emptied.backend, "", NULL, 0, empty_entry, &emptied), 0);
    assert_true(emptied.removed > 4);
    vv_backend_close(emptied.backend);
}

/* 1 if it opens, with or without the key, and gives the bytes of this step back. */
static int second_gives(const char *settings, int version) {
    folder_remove(first);
    struct varve_error error = {.text = ""};
    struct varve_session *session;
    static uint8_t wanted[TIERED_BYTES];
    int64_t found = -1;
    heard[0] = '\0';
    int rc = tiered_try_open(settings, &session, &error);
    if (rc == 0 && (rc = varve_restart(session, VARVE_LATEST, &found)) == 0)
        tiered_fill(wanted, sizeof wanted, version);
    if (rc != 0)
        print_message("%s\n", *error.text ? error.text : varve_session_error(session)->text);
    varve_close(session);
    return rc == 0 && found == version && memcmp(memory, wanted, sizeof memory) == 0;
}

/* A tier is emptied while the job runs, between two checkpoints. durable=2 says yes only for what comes back. */
static void test_emptied(void **state) {
    char settings[256];
    (void)state;
    for (int is_sealed = getenv("TIERS_KEY") != NULL; is_sealed >= 0; is_sealed--) {
        snprintf(settings, sizeof settings, "%stiers=%s,durable=2", is_sealed ? SEALED : "", second);
        struct varve_session *session = tiered_open("%s", settings);
        tiered_save(session, 1);
        empty_second();
        tiered_save(session, 2);
        int is_told = strstr(heard, "was emptied while it was open") != NULL;
        tiered_save(session, 3);
        close_well(session);
        assert_true(second_gives(settings, 3));
        assert_null(strstr(heard, "the store object"));
        assert_true(is_told);
        tiered_clear();
    }
}

/* And in the middle of a move: an error, or what was said is there. */
static void test_emptied_under_way(void **state) {
    char settings[512];
    int whole = 0;
    (void)state;
    if (!getenv("TIERS_KEY"))
        skip();
    for (int ms = 100; ms <= 2300; ms += 1100) {
        snprintf(settings, sizeof settings, SEALED TIERED_ALWAYS "tiers=%s?limit=4MB,durable=2,tiers_seconds=1",
                 second);
        struct varve_session *session = tiered_open("%s", settings);
        tiered_save(session, 1);
        tiered_fill(memory, sizeof memory, 2);
        assert_int_equal(varve_checkpoint(session, 2), 0);
        vv_sleep_ms((unsigned)ms);
        empty_second();
        int rc = varve_wait(session);
        varve_close(session);
        snprintf(settings, sizeof settings, SEALED "tiers=%s,durable=2,tiers_seconds=1", second);
        assert_true(rc != 0 || second_gives(settings, 2));
        whole += rc == 0;
        tiered_clear();
    }
    print_message("%d of 3 emptied moves were whole all the same\n", whole);
}

/* Another store was made in its place: nothing is mixed. */
static void test_replaced(void **state) {
    struct varve_options plain = VARVE_OPTIONS_INIT;
    struct varve_error error = {.text = ""};
    struct varve_session *session, *other;
    (void)state;
    session = tiered_open("tiers=%s,durable=2,tiers_seconds=1", second);
    tiered_save(session, 1);
    empty_second();
    plain.settings = "log=error";
    assert_int_equal(varve_open(second, "other", &plain, &other, &error), 0);
    close_well(other);
    tiered_fill(memory, sizeof memory, 2);
    assert_int_equal(varve_checkpoint(session, 2), 0);
    assert_int_equal(varve_wait(session), VARVE_MISMATCH);
    assert_non_null(strstr(varve_session_error(session)->text, "another store"));
    tiered_save(session, 3); /* it is the tier from now on */
    close_well(session);
    assert_true(tiered_has(second, 3, 3));
    tiered_clear();
}

/* The owner of the second storage, who has no key, puts a store of their own there. */
static void forge_second(void) {
    struct varve_options plain = VARVE_OPTIONS_INIT;
    struct varve_error error = {.text = ""};
    struct varve_session *session;
    plain.settings = "log=error";
    assert_int_equal(varve_open(second, "job", &plain, &session, &error), 0);
    assert_int_equal(varve_protect(session, "memory", memory, sizeof memory), 0);
    tiered_save(session, 7);
    close_well(session);
}

/* With encrypt=on it is not believed: neither where the first store has nothing, nor where it has something older. */
static void test_forged(void **state) {
    struct varve_error error = {.text = ""};
    struct varve_session *session;
    char settings[512];
    (void)state;
    if (!getenv("TIERS_KEY"))
        skip();
    forge_second();
    snprintf(settings, sizeof settings, SEALED "tiers=%s", second);
    assert_int_equal(tiered_try_open(settings, &session, &error), VARVE_KEY);
    assert_non_null(strstr(error.text, "is not encrypted"));
    folder_remove(first);
    session = tiered_open(SEALED "log=error");
    tiered_save(session, 1);
    close_well(session);
    session = tiered_open(SEALED "tiers=%s,tiers_seconds=1", second);
    assert_int_equal(details(session).tiers_back, 0);
    assert_non_null(strstr(heard, "is not encrypted"));
    tiered_restart(session, 1, 1);
    varve_close(session);
    tiered_clear();
}

/* Nothing is brought back, and nothing moves. */
static void test_only_reads(void **state) {
    (void)state;
    struct varve_session *session = tiered_open("tiers=%s,durable=2", second);
    tiered_save(session, 1);
    tiered_save(session, 2);
    close_well(session);
    forget_in_first(2);
    session = tiered_open("log=info,access=read,tiers=%s", second);
    assert_non_null(strstr(heard, "tiers are not looked at: access=read"));
    tiered_restart(session, 1, 1);
    assert_int_equal(details(session).tiers_back, 0);
    close_well(session);
    assert_int_equal(copied_count(first, "job", "read"), 1);
    tiered_lose_second();
    session = tiered_open("access=read,tiers=%s", second);
    close_well(session);
    assert_false(can_open(second, NULL));
    tiered_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue),          cmocka_unit_test(test_left),
        cmocka_unit_test(test_ranks),          cmocka_unit_test(test_ranks_fail),
        cmocka_unit_test(test_lost),           cmocka_unit_test(test_behind),
        cmocka_unit_test(test_cannot_tell),    cmocka_unit_test(test_not_mounted),
        cmocka_unit_test(test_goes_back),      cmocka_unit_test(test_slow),
        cmocka_unit_test(test_two_lines),      cmocka_unit_test(test_other_folder),
        cmocka_unit_test(test_durable),        cmocka_unit_test(test_fails),
        cmocka_unit_test(test_again),          cmocka_unit_test(test_three),
        cmocka_unit_test(test_damaged),        cmocka_unit_test(test_best_fails),
        cmocka_unit_test(test_keeps),          cmocka_unit_test(test_refused),
        cmocka_unit_test(test_asked_to_end),   cmocka_unit_test(test_close_late),
        cmocka_unit_test(test_stop_in_region), cmocka_unit_test(test_sealed),
        cmocka_unit_test(test_only_reads),     cmocka_unit_test(test_close_hangs),
        cmocka_unit_test(test_unread),         cmocka_unit_test(test_advice),
        cmocka_unit_test(test_close_watches),  cmocka_unit_test(test_stop_before_data),
        cmocka_unit_test(test_forged),         cmocka_unit_test(test_twice),
        cmocka_unit_test(test_bound),          cmocka_unit_test(test_other_endpoint),
        cmocka_unit_test(test_copied_folder),  cmocka_unit_test(test_emptied),
        cmocka_unit_test(test_own_numbers),    cmocka_unit_test(test_own_waiting),
        cmocka_unit_test(test_healed),         cmocka_unit_test(test_healed_ranks),
        cmocka_unit_test(test_healed_below),   cmocka_unit_test(test_heal_fails),
        cmocka_unit_test(test_heal_fails_and_goes_on),
        cmocka_unit_test(test_heal_other_life),
        cmocka_unit_test(test_replaced),       cmocka_unit_test(test_emptied_under_way),
    };
    cmocka_set_test_filter(getenv("TIERS_ONLY")); /* by hand; NULL: all */
    return cmocka_run_group_tests(tests, tiered_setup, tiered_teardown);
}
