/* A program that is killed while its checkpoints move on: they are in the first store, each tier has whole ones only,
 * and the next session finishes what was begun. TIERS_EVERY=1 tries all operations of the storage, not only some. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tiered.h"

static int *is_open; /* shared: the child has a session */

/* Two checkpoints; the second tier is what fault says. */
static int run_child(const char *fault) {
    *is_open = 0;
    pid_t child = fork();
    if (child == 0) {
        struct varve_session *session =
            tiered_open(TIERED_ALWAYS "log=error,tiers=%s?fault=%s,durable=2", second, fault);
        *is_open = 1;
        tiered_save(session, 1);
        tiered_save(session, 2);
        varve_close(session);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static int kill_at(const char *kind, unsigned step) {
    char fault[64];
    snprintf(fault, sizeof fault, "%s:%u", kind, step);
    int status = run_child(fault);
    if (!WIFSIGNALED(status)) {
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        tiered_clear();
        return 0;
    }
    assert_int_equal(WTERMSIG(status), SIGKILL);
    if (!*is_open) { /* in a bucket the look whether there is a store is an operation, too */
        tiered_clear();
        return 1;
    }
    /* What is there is whole. */
    int newest = tiered_has(first, 2, 2) ? 2 : 1;
    assert_true(tiered_has(first, newest, newest));
    copied_count(second, "job", fault);
    struct varve_session *session = tiered_open(TIERED_ALWAYS "log=error,tiers=%s", second);
    tiered_restart(session, newest, newest);
    assert_int_equal(varve_close(session), 0);
    if (!tiered_has(second, newest, newest))
        fail_msg("after %s version %d is not in the second tier", fault, newest);
    tiered_clear();
    return 1;
}

static void test_killed(void **state) {
    const char *given = getenv("TIERS_EVERY");
    unsigned every = given && atoi(given) > 0 ? (unsigned)atoi(given) : 17, killed = 0;
    (void)state;
    is_open = group_memory(sizeof *is_open);
    assert_non_null(is_open);
    for (int i = 0; i < 2; i++)
        for (unsigned step = 1 + (unsigned)i * 5; kill_at(i ? "kill-after" : "kill", step); step += every)
            killed++;
    print_message("killed at %u operations\n", killed);
    assert_true(killed > 10 / (every / 17 + 1));
    group_memory_free(is_open, sizeof *is_open);
}

/* Version 1 arrives, and the program is killed by hand in the middle of a slow move of version 2. */
static void kill_by_hand(void) {
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct varve_session *session = tiered_open(TIERED_ALWAYS "log=error,tiers=%s,durable=2", second);
        tiered_save(session, 1);
        varve_close(session);
        session = tiered_open(TIERED_ALWAYS "log=error,tiers=%s?limit=1MB", second);
        tiered_save(session, 2);
        if (write(ready[1], &byte, 1) != 1)
            _exit(1);
        pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    usleep(700000);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ready[0]);
    close(ready[1]);
    assert_true(tiered_has(first, 2, 2));
    assert_false(tiered_has(second, 2, 2));
}

/* Then the first store is lost, too: what had arrived comes back. */
static void test_first_lost(void **state) {
    (void)state;
    kill_by_hand();
    folder_remove(first);
    struct varve_session *session = tiered_open("log=error,tiers=%s", second);
    tiered_restart(session, 1, 1);
    assert_int_equal(varve_close(session), 0);
    tiered_clear();
}

/* ---- healing ---- */

static void tell_finding(void *arg, int level, const char *key, const char *text) {
    (void)arg;
    if (level < 2)
        print_message("%s: %s\n", key, text);
}

/* The newest of two in the first store is damaged, and a program is killed at this operation there while it restarts:
 * 1. 0: it came to the end. The next one is given what it should have. */
static int kill_healing(const char *kind, unsigned step) {
    char command[400];
    struct varve_session *session = tiered_open(TIERED_ALWAYS "log=error,tiers=%s,durable=2", second);
    tiered_save(session, 1);
    tiered_save(session, 2);
    assert_int_equal(varve_close(session), 0);
    snprintf(command, sizeof command, "truncate -s 100 %s/n/job/data/*/*2/*/00000000", first);
    assert_int_equal(system(command), 0);
    pid_t child = fork();
    if (child == 0) {
        int64_t version;
        size_t size = strlen(first);
        snprintf(first + size, sizeof first - size, "?fault=%s:%u", kind, step);
        session = tiered_open("log=error,tiers=%s", second);
        _exit(varve_restart(session, VARVE_LATEST, &version) == 0 && version == 2 ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    int is_killed = WIFSIGNALED(status);
    if (!is_killed)
        assert_int_equal(status, 0);
    /* killed just before the damaged one was forgotten, that is left to keep */
    session = tiered_open("log=error,keep=2,tiers=%s,durable=2", second);
    tiered_restart(session, 2, 2);
    tiered_save(session, 3);
    assert_int_equal(varve_close(session), 0);
    struct varve_verify_result result = {.objects = 0};
    struct varve_verify_options options = {.size = sizeof options, .finding = tell_finding};
    struct varve_store *tool;
    assert_int_equal(varve_store_open(first, NULL, &tool, NULL), 0);
    assert_int_equal(varve_store_verify(tool, &options, &result, NULL), 0);
    varve_store_close(tool);
    if (result.damaged_objects || result.lost_checkpoints || !tiered_has(first, 3, 3) || !tiered_has(second, 3, 3))
        fail_msg("after %s:%u %d objects are damaged", kind, step, (int)result.damaged_objects);
    tiered_clear();
    return is_killed;
}

static void test_killed_healing(void **state) {
    const char *given = getenv("TIERS_EVERY");
    unsigned every = given && atoi(given) > 0 ? (unsigned)atoi(given) : 17, killed = 0;
    (void)state;
    if (strstr(second, "://"))
        skip(); /* it is the first store that is written */
    for (int i = 0; i < 2; i++)
        for (unsigned step = 12 + (unsigned)i * 5; kill_healing(i ? "kill-after" : "kill", step); step += every)
            killed++;
    print_message("killed at %u operations\n", killed);
    assert_true(killed > 4);
}

/* ---- a job ---- */

static int *ready; /* ranks that have saved all; shared */

static void rank_until_killed(struct varve_comm *comm, void *arg) {
    static struct copied_memory own;
    struct varve_session *session = copied_open(comm, first, arg, &own);
    for (int step = 0; step < 3; step++) {
        copied_change(&own, comm->rank, step);
        if (varve_checkpoint(session, step) != 0 || varve_wait(session) != 0)
            group_fail(comm, "checkpoint %d: %s", step, varve_session_error(session)->text);
    }
    __atomic_fetch_add(ready, 1, __ATOMIC_SEQ_CST);
    pause();
}

/* All processes of the job are killed at once, while the tier takes what they have saved. */
static void kill_job(char *settings) {
    struct group_end end;
    *ready = 0;
    pid_t child = fork();
    if (child == 0) {
        group_run(COPIED_RANKS, rank_until_killed, settings, NULL, &end);
        _exit(1);
    }
    for (int i = 0; i < 6000 && __atomic_load_n(ready, __ATOMIC_SEQ_CST) < COPIED_RANKS; i++)
        usleep(10000);
    assert_int_equal(__atomic_load_n(ready, __ATOMIC_SEQ_CST), COPIED_RANKS);
    assert_int_equal(kill(child, SIGKILL), 0); /* and with it all ranks: PR_SET_PDEATHSIG */
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* With the first tier in memory nothing is lost: all restart from there, and what the tier lacks moves on. */
static void test_job_killed(void **state) {
    char settings[256];
    (void)state;
    ready = group_memory(sizeof *ready);
    assert_non_null(ready);
    snprintf(settings, sizeof settings, "log=error,tiers=%s?limit=1MB", second);
    kill_job(settings);
    assert_int_equal(copied_count(first, "job", "killed"), 3);
    assert_int_equal(copied_count(second, "job", "killed"), 0);
    snprintf(settings, sizeof settings, "log=error,takeover_seconds=1,tiers=%s,durable=2", second);
    struct tiered_job job = {settings, 2, 0};
    group_must_run(COPIED_RANKS, tiered_rank, &job, NULL, "from memory");
    copied_check(first, second, "job", 3, "went on");
    folder_remove(first); /* the node, with its memory */
    job = (struct tiered_job){settings, 3, 1};
    group_must_run(COPIED_RANKS, tiered_rank, &job, NULL, "from the tier");
    copied_check(first, second, "job", 4, "after the node");
    group_memory_free(ready, sizeof *ready);
    tiered_clear();
}

/* An epilogue after the job died: `varve flush` brings the rest from memory to the second store, before that goes. */
static void test_flush(void **state) {
    const char *varve = getenv("VARVE");
    char command[512];
    (void)state;
    if (!varve)
        skip();
    kill_by_hand();
    snprintf(command, sizeof command, "'%s' flush '%s' job --to '%s' >/dev/null", varve, first, second);
    assert_int_equal(system(command), 0);
    assert_true(tiered_has(second, 2, 2));
    folder_remove(first);
    struct varve_session *session = tiered_open("log=error,tiers=%s", second);
    tiered_restart(session, 2, 2);
    assert_int_equal(varve_close(session), 0);
    tiered_clear();
}

/* What addresses in tiers say of their tiers is nothing to the tool. */
static void test_flush_tiers(void **state) {
    char command[900], third[100];
    (void)state;
    if (!getenv("VARVE"))
        skip();
    snprintf(third, sizeof third, "%s/third", folder);
    struct varve_session *session = tiered_open("log=error");
    tiered_save(session, 1);
    assert_int_equal(varve_close(session), 0);
    snprintf(command, sizeof command,
             "VARVE_TIERS='%s?keep=3;%s?limit=900MB&waiting=4&keep=all' '%s' flush '%s' job >/dev/null", second, third,
             getenv("VARVE"), first);
    assert_int_equal(system(command), 0);
    assert_true(tiered_has(second, 1, 1) && tiered_has(third, 1, 1));
    folder_remove(third);
    tiered_clear();
}

static int stop_in_reading_back(void *arg, uint64_t done, uint64_t total) {
    (void)arg;
    return done > total / 2;
}

/* A copy that was stopped while it was read back, and adopted by a session there: it keeps its time. What is newer is
 * copied. */
static void test_flush_adopted(void **state) {
    const char *varve = getenv("VARVE");
    struct varve_which which = {.name = "job", .version = 2};
    struct varve_copy_result result = {.size = sizeof result};
    struct varve_copy_options options = {.size = sizeof options, .progress = stop_in_reading_back};
    struct varve_options plain = VARVE_OPTIONS_INIT;
    struct varve_error error = {.text = ""};
    struct varve_store *tool;
    char command[512];
    (void)state;
    if (!varve)
        skip();
    struct varve_session *session = tiered_open("log=error,keep=all");
    for (int i = 1; i <= 3; i++)
        tiered_save(session, i);
    assert_int_equal(varve_close(session), 0);
    assert_int_equal(varve_store_open(first, NULL, &tool, &error), 0);
    assert_int_equal(varve_store_copy(tool, &which, second, "job", &options, &result, &error), -EINTR);
    varve_store_close(tool);
    plain.settings = "log=error,takeover_seconds=1";
    assert_int_equal(varve_open(second, "job", &plain, &session, &error), 0);
    assert_int_equal(varve_close(session), 0);
    assert_true(tiered_has(second, 2, 2));
    snprintf(command, sizeof command, "'%s' flush '%s' job --to '%s' >/dev/null", varve, first, second);
    assert_int_equal(system(command), 0);
    assert_true(tiered_has(second, 3, 3));
    assert_false(tiered_has(second, 1, 1)); /* older than what is there */
    assert_int_equal(copied_count(second, "job", "adopted"), 2);
    tiered_clear();
}

static void forget_newest_in_first(void) {
    struct varve_which which = {.name = "job", .version = 2};
    struct varve_error error = {.text = ""};
    struct varve_store *tool;
    assert_int_equal(varve_store_open(first, NULL, &tool, &error), 0);
    assert_int_equal(varve_store_forget(tool, &which, &error), 0);
    varve_store_close(tool);
}

static int flush_to_second(void) {
    char command[512];
    snprintf(command, sizeof command, "'%s' flush '%s' job --to '%s' >/dev/null 2>&1", getenv("VARVE"), first, second);
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Another run has saved there, later and with higher versions: what is here is nowhere else, and that is no success.
 * What has been there before all that is. */
static void test_flush_other_run(void **state) {
    struct varve_options plain = VARVE_OPTIONS_INIT;
    struct varve_session *session;
    struct varve_error error = {.text = ""};
    (void)state;
    if (!getenv("VARVE"))
        skip();
    session = tiered_open("log=error,keep=all");
    tiered_save(session, 1);
    assert_int_equal(varve_close(session), 0);
    assert_int_equal(flush_to_second(), 0);
    session = tiered_open("log=error,keep=all");
    tiered_save(session, 2);
    assert_int_equal(varve_close(session), 0);
    plain.settings = "log=error,keep=all";
    assert_int_equal(varve_open(second, "job", &plain, &session, &error), 0);
    assert_int_equal(varve_protect(session, "memory", memory, sizeof memory), 0);
    tiered_save(session, 9);
    assert_int_equal(varve_close(session), 0);
    assert_int_not_equal(flush_to_second(), 0);
    assert_false(tiered_has(second, 2, 2));
    assert_true(tiered_has(second, 9, 9));
    forget_newest_in_first();
    assert_int_equal(flush_to_second(), 0); /* version 1 is there */
    tiered_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_killed),          cmocka_unit_test(test_first_lost),
                                       cmocka_unit_test(test_flush),           cmocka_unit_test(test_flush_adopted),
                                       cmocka_unit_test(test_flush_other_run), cmocka_unit_test(test_job_killed),
                                       cmocka_unit_test(test_flush_tiers),     cmocka_unit_test(test_killed_healing)};
    return cmocka_run_group_tests(tests, tiered_setup, tiered_teardown);
}
