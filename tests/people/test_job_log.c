/* The log that a session keeps for `varve report`: bounded for any number of checkpoints, its sums true; what the
 * storage refuses fails nobody, old ones go. With a folder as argument it writes the log of 10,000 checkpoints of 1,024
 * ranks into a store there, for the test of the report; with one more argument, a log of somebody with bad intentions.
 */
#include "test.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve_inspect.h>

#include "base/fault.h"
#include "joblog/session_log_private.h"
#include "lifecycle/job_log.h"
#include "storage/storage.h"

#define NAME "long run"
#define CHECKPOINTS 10000u
#define RANKS 1024u

static struct varve_error error;
static struct vv_log quiet = {.level = VV_LOG_ERROR};

static void ok(int rc) {
    if (rc != 0)
        fail_msg("%d: %s", rc, error.text);
}

/* ---- a job without its other parts ---- */

struct job {
    struct vv_job job;
    struct varve_comm comm;
};

static void open_job(struct job *own, const char *uri, uint32_t ranks) {
    struct vv_backend_options options = {.may_create = 1};
    struct vv_lease_options lease = {.ranks = ranks, .beat_seconds = 1, .dead_seconds = 60};
    struct varve_backend *backend = NULL;
    memset(own, 0, sizeof *own);
    own->comm.ranks = ranks;
    own->job.comm = &own->comm;
    own->job.log = quiet;
    snprintf(own->job.name, sizeof own->job.name, NAME);
    ok(vv_backend_open(uri, &options, &backend, &error));
    ok(vv_store_open(backend, VV_STORE_WRITE, &quiet, &own->job.store, &error));
    ok(vv_lease_take(own->job.store, NAME, &lease, &own->job.lease, &error));
}

static void close_job(struct job *own) {
    vv_lease_release(own->job.lease);
    vv_store_close(own->job.store);
}

/* Numbers that a sum must hit exactly. */
static void log_one(struct vv_session_log *log, struct vv_job *job, uint64_t version, int result) {
    struct vv_details stats = {.seconds_encode = 0.25, .codec = "zstd", .dedup = "exact"};
    struct vv_tally tally = {.writers = job->comm->ranks / 8 + 1, .written_median = 5000};
    struct varve_error why = {.text = "the disk is on fire: \"node 7\"\n"};
    uint64_t changed = (version % 97 + 1) << 20;
    tally.sums[VV_TALLY_PROTECTED] = UINT64_C(1) << 40;
    tally.sums[VV_TALLY_CHANGED] = changed;
    tally.sums[VV_TALLY_NEW] = changed / 2;
    tally.sums[VV_TALLY_KNOWN] = changed / 2;
    tally.sums[VV_TALLY_STORED] = changed / 4 + version;
    tally.sums[VV_TALLY_METADATA] = 3;
    tally.changed = (struct vv_spread){.least = version, .most = 2 * version, .most_rank = 5};
    tally.took = (struct vv_spread){.least = 1000000, .most = 2000000 + version, .most_rank = 9, .sum = 5000000};
    tally.written = (struct vv_spread){.least = 4000 - version % 7, .most = 6000 + version, .most_rank = 3};
    struct vv_logged logged = {
        .version = version, .result = result, .error = &why, .durable_ns = 500000000, .stats = &stats, .tally = &tally};
    struct vv_logged_call call = {version, 125000000, 25000000, "auto", "scan"};
    job->freed.bytes += 10;
    job->freed.objects += 1;
    vv_session_log_checkpoint(log, &logged);
    vv_session_log_call(log, &call);
}

static void log_long(struct vv_session_log *log, struct vv_job *job) {
    vv_session_log_restart(log, "restarted", 17, 1.5, 4096, 0, &error);
    for (uint64_t version = 1; version <= CHECKPOINTS; version++)
        log_one(log, job, version, version % 1000 == 500 ? -EIO : 0);
}

/* ---- what was written ---- */

struct found {
    unsigned logs, lines, checkpoints, events, ends, failed;
    size_t bytes;
    uint64_t count, changed, stored, newest;
    double blocked, durable;
    uint32_t first, last;
    int has_damage;
};

static double member(const char *line, const char *key) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\"%s\":", key);
    const char *at = strstr(line, wanted);
    return at ? strtod(at + strlen(wanted), NULL) : 0;
}

static void take_line(struct found *found, const char *line) {
    found->lines++;
    assert_true(line[0] == '{' && line[strlen(line) - 1] == '}');
    found->ends += strstr(line, "\"type\":\"end\"") != NULL;
    found->events += strstr(line, "\"type\":\"event\"") != NULL;
    if (!strstr(line, "\"type\":\"checkpoint\""))
        return;
    found->checkpoints++;
    found->count += (uint64_t)member(line, "count");
    found->failed += (unsigned)member(line, "failed");
    found->changed += (uint64_t)member(line, "bytes_changed");
    found->stored += (uint64_t)member(line, "bytes_stored");
    found->blocked += member(line, "seconds_blocked");
    found->durable += member(line, "seconds_durable");
    found->newest = (uint64_t)member(line, "version");
}

static int take_log(void *arg, uint32_t generation, const char *text, size_t size, const struct varve_error *why) {
    struct found *found = arg;
    if (found->logs++ == 0)
        found->first = generation;
    found->last = generation;
    found->bytes = size;
    found->has_damage |= why != NULL;
    if (why)
        return 0;
    char *copy = strndup(text, size), *next = copy;
    assert_non_null(copy);
    assert_true(size == 0 || text[size - 1] == '\n');
    for (char *line; (line = strsep(&next, "\n")) && *line;)
        take_line(found, line);
    free(copy);
    return 0;
}

static struct found find(struct vv_store *store) {
    struct found found = {0};
    ok(vv_job_logs_each(store, NAME, take_log, &found, &error));
    return found;
}

/* ---- tests ---- */

static void test_bound(void **state) {
    struct job own;
    uint64_t changed = 0, stored = 0;
    (void)state;
    for (uint64_t version = 1; version <= CHECKPOINTS; version++) {
        if (version % 1000 != 500) {
            changed += (version % 97 + 1) << 20;
            stored += ((version % 97 + 1) << 20) / 4 + version;
        }
    }
    open_job(&own, "mem://log-bound", RANKS);
    struct vv_session_log *log = vv_session_log_open(&own.job);
    log_long(log, &own.job);
    vv_session_log_close(log, "closed");
    struct found found = find(own.job.store);
    assert_int_equal(found.logs, 1);
    assert_in_range(found.bytes, 1000, VV_JOB_LOG_MAX);
    assert_in_range(found.checkpoints, VV_LOG_FRESH, VV_LOG_FRESH + VV_LOG_OLD);
    assert_int_equal(found.count, CHECKPOINTS - 10);
    assert_int_equal(found.failed, 10);
    assert_int_equal(found.newest, CHECKPOINTS);
    assert_int_equal(found.changed, changed);
    assert_int_equal(found.stored, stored);
    assert_true(found.blocked > 0.125 * CHECKPOINTS - 0.01 && found.blocked < 0.125 * CHECKPOINTS + 0.01);
    assert_true(found.durable > 0.5 * (CHECKPOINTS - 10) - 0.01 && found.durable < 0.5 * (CHECKPOINTS - 10) + 0.01);
    assert_int_equal(found.events, 11); /* the restart, and what failed */
    assert_int_equal(found.ends, 1);
    close_job(&own);
}

/* A version that failed behind its call and is tried again has two calls: each counts once, where it belongs. */
static void test_tried_again(void **state) {
    const struct vv_details stats = {.codec = "zstd"};
    const struct vv_tally tally = {.writers = 1};
    struct vv_logged logged = {.version = 7, .result = -EIO, .error = &error, .stats = &stats, .tally = &tally};
    struct vv_logged_call call = {7, 125000000, 0, "auto", "scan"};
    struct job own;
    (void)state;
    open_job(&own, "mem://log-again", 1);
    struct vv_session_log *log = vv_session_log_open(&own.job);
    vv_session_log_call(log, &call);
    vv_session_log_checkpoint(log, &logged);
    call.blocked_ns = 500000000;
    vv_session_log_call(log, &call);
    logged.result = 0;
    vv_session_log_checkpoint(log, &logged);
    vv_session_log_close(log, "closed");
    assert_true(find(own.job.store).blocked == 0.625);
    close_job(&own);
}

/* The heartbeat writes it, so that a job that is killed leaves one; only when there is something new. */
static void test_heartbeat(void **state) {
    struct job own;
    (void)state;
    open_job(&own, "mem://log-beat", 1);
    struct vv_session_log *log = vv_session_log_open(&own.job);
    assert_int_equal(find(own.job.store).logs, 0);
    log_one(log, &own.job, 1, 0);
    for (int i = 0; i < 100 && find(own.job.store).logs == 0; i++)
        vv_sleep_ms(100);
    struct found found = find(own.job.store);
    assert_int_equal(found.logs, 1);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.ends, 0);
    vv_session_log_close(log, "closed");
    assert_int_equal(find(own.job.store).ends, 1);
    close_job(&own);
}

/* A program in a language with decimal commas writes the same numbers. */
static void test_language_does_not_matter(void **state) {
    static const char *const languages[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "fr_FR"};
    struct job own;
    const char *found = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof languages / sizeof languages[0] && !found; i++)
        found = setlocale(LC_ALL, languages[i]);
    if (!found)
        skip();
    open_job(&own, "mem://log-language", 1);
    struct vv_session_log *log = vv_session_log_open(&own.job);
    log_one(log, &own.job, 1, 0);
    vv_session_log_close(log, "closed");
    setlocale(LC_ALL, "C");
    assert_true(find(own.job.store).blocked == 0.125);
    close_job(&own);
}

static void test_nothing(void **state) {
    struct job own;
    (void)state;
    open_job(&own, "mem://log-nothing", 1);
    struct vv_session_log *log = vv_session_log_open(&own.job);
    vv_session_log_restart(log, "restarted", 0, 0, 0, VARVE_NO_CHECKPOINT, &error);
    vv_session_log_close(log, "closed");
    assert_int_equal(find(own.job.store).logs, 0);
    close_job(&own);
}

/* Many sessions: the newest logs stay. */
static void test_many(void **state) {
    struct job own;
    (void)state;
    for (unsigned i = 0; i < VV_JOB_LOGS_KEPT + 5; i++) {
        open_job(&own, "mem://log-many", 1);
        struct vv_session_log *log = vv_session_log_open(&own.job);
        log_one(log, &own.job, i, 0);
        vv_session_log_close(log, "closed");
        close_job(&own);
    }
    open_job(&own, "mem://log-many", 1);
    struct found found = find(own.job.store);
    assert_int_equal(found.logs, VV_JOB_LOGS_KEPT);
    assert_int_equal(found.first, VV_JOB_LOGS_KEPT + 5); /* the newest comes first */
    assert_int_equal(found.last, 6);
    close_job(&own);
}

/* A prune leaves logs to a name that somebody may have open, and takes all when nothing else is left of it. */
static void test_prune(void **state) {
    struct vv_prune_options options = {.is_dry_run = 1};
    struct vv_prune_result result;
    struct job own;
    (void)state;
    open_job(&own, "mem://log-prune", 1);
    struct vv_session_log *log = vv_session_log_open(&own.job);
    log_one(log, &own.job, 1, 0);
    vv_session_log_close(log, "closed");
    ok(vv_prune(own.job.store, NAME, &(struct vv_prune_options){0}, &result, &error));
    assert_int_equal(find(own.job.store).logs, 1);
    vv_lease_release(own.job.lease);
    own.job.lease = NULL;
    ok(vv_prune(own.job.store, NAME, &options, &result, &error));
    assert_int_equal(result.objects, 1);
    assert_int_equal(find(own.job.store).logs, 1);
    ok(vv_prune(own.job.store, NAME, &(struct vv_prune_options){0}, &result, &error));
    assert_int_equal(find(own.job.store).logs, 0);
    close_job(&own);
}

#ifdef VARVE_FAULTS
static _Atomic unsigned warnings;

static void count_warning(void *arg, int level, const char *text) {
    (void)arg;
    warnings += level == VV_LOG_WARN && strstr(text, "varve report") != NULL;
}

/* It cannot be written for a while: that is told once, and it comes back with all it had. */
static void test_refused(void **state) {
    struct job own;
    (void)state;
    open_job(&own, "mem://log-refused", 1);
    own.job.log = (struct vv_log){.level = VV_LOG_WARN, .fn = count_warning};
    struct vv_session_log *log = vv_session_log_open(&own.job);
    vv_fault_set("store.log.before_replace=error:5");
    log_one(log, &own.job, 1, 0);
    for (int i = 0; i < 100 && warnings == 0; i++)
        vv_sleep_ms(100);
    vv_sleep_ms(2500); /* two more heartbeats */
    assert_int_equal(warnings, 1);
    assert_int_equal(find(own.job.store).logs, 0);
    vv_fault_set(NULL);
    vv_session_log_close(log, "closed");
    assert_int_equal(find(own.job.store).count, 1);
    close_job(&own);
}
#endif

/* Where no room is left, what there is belongs to checkpoints. */
static void test_full(void **state) {
    struct job own;
    (void)state;
    open_job(&own, "mem://log-full", 1);
    struct vv_session_log *log = vv_session_log_open(&own.job);
    log_one(log, &own.job, 1, -ENOSPC);
    vv_sleep_ms(2500);
    assert_int_equal(find(own.job.store).logs, 0);
    log_one(log, &own.job, 2, 0);
    vv_session_log_close(log, "closed");
    struct found found = find(own.job.store);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.failed, 1);
    close_job(&own);
}

/* A damaged one is told, and the others are read. */
static void test_damaged(void **state) {
    struct job own;
    (void)state;
    open_job(&own, "mem://log-damaged", 1);
    ok(vv_job_log_write(own.job.store, NAME, 1, "{}\n", 3, &error));
    ok(vv_job_log_write(own.job.store, NAME, 2, "{}\n", 3, &error));
    assert_int_equal(vv_backend_replace(own.job.store->backend, "n/long%20run/log/00000001", "nonsense", 8), 0);
    struct found found = find(own.job.store);
    assert_int_equal(found.logs, 2);
    assert_int_equal(found.lines, 1);
    assert_true(found.has_damage);
    close_job(&own);
}

static int write_long(const char *folder) {
    struct job own;
    open_job(&own, folder, RANKS);
    struct vv_session_log *log = vv_session_log_open(&own.job);
    log_long(log, &own.job);
    vv_session_log_close(log, "closed");
    close_job(&own);
    return 0;
}

/* Every text and every number of it is as bad as a log can have it. */
static int write_hostile(const char *folder) {
#define EVIL "<b>&\\\"\\u001b[31m\xc2\x9b\xe2\x80\xae" /* and U+009B, U+202E */
    static const char text[] =
        "{\"type\":\"job\",\"program\":\"" EVIL "program\",\"host\":\"" EVIL "host\",\"ranks\":2,\"checkpoints\":1,"
        "\"capture\":\"" EVIL "\",\"tracker\":\"" EVIL "\",\"dedup\":\"" EVIL "\",\"storage_speed\":1e308}\n"
        "{\"type\":\"codec\",\"codec\":\"" EVIL "codec\",\"checkpoints\":1}\n"
        "{\"type\":\"event\",\"what\":\"" EVIL "what\",\"text\":\"" EVIL "text\",\"seconds\":1e308}\n"
        "{\"type\":\"checkpoint\",\"version\":1,\"count\":1,\"writers\":1,\"codec\":\"" EVIL "codec\","
        "\"bytes_protected\":18446744073709551615,\"seconds_blocked\":1e308,\"seconds_durable\":1e308,"
        "\"took_sum\":1e308,\"took_most\":1e308,\"written_median\":1e308,\"written_most\":1e308}\n"
        "{\"type\":\"checkpoint\",\"version\":2,\"failed\":1,\"seconds_blocked\":1e308,\"took_sum\":1e308}\n"
        "{\"type\":\"end\",\"time\":1,\"why\":\"" EVIL "why\"}\n";
    struct job own;
    open_job(&own, folder, 1);
    ok(vv_job_log_write(own.job.store, NAME, 1, text, sizeof text - 1, &error));
    close_job(&own);
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bound),
                                       cmocka_unit_test(test_tried_again),
                                       cmocka_unit_test(test_heartbeat),
                                       cmocka_unit_test(test_language_does_not_matter),
                                       cmocka_unit_test(test_nothing),
                                       cmocka_unit_test(test_many),
                                       cmocka_unit_test(test_prune),
                                       cmocka_unit_test(test_damaged),
#ifdef VARVE_FAULTS
                                       cmocka_unit_test(test_refused),
#endif
                                       cmocka_unit_test(test_full)};
    if (argc > 2)
        return write_hostile(argv[1]);
    return argc > 1 ? write_long(argv[1]) : cmocka_run_group_tests(tests, NULL, NULL);
}
