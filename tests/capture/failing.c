/* A checkpoint that fails in the background is told of, once and to whoever asks first, and the next one has
 * everything.
 *
 *     failing --settings "capture=auto" [--must-hold] [--flags no-kernel] [CASE...] */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "details.h"
#include "flight.h"

#define SIZE (4 * MIB)

static char with_policy[512];

/* One checkpoint that is stored, and one that is in flight when the storage breaks. */
static void begin(struct flight *flight, const char *policy) {
    snprintf(with_policy, sizeof with_policy, "%s,on_error=%s", mode.settings, policy);
    mode.settings = with_policy;
    flight_open(flight);
    flight_protect(flight, "data", new_memory(SIZE), SIZE, 1);
    flight_protect(flight, "more", new_memory(MIB) + 16, MIB - 100, 1);
    flight_launch(flight);
    storage_break(0);
    if (varve_test(flight->session) != 0)
        fail("the checkpoint is not in flight: this tests nothing");
}

/* Some pages change, and what comes next has these and all that was lost. */
static void next_has_everything(struct flight *flight) {
    struct scribble_target target = {flight->regions[0].ptr, flight->regions[0].size};
    scribble_once(&target, 100, 77);
    flight_again(flight);
    struct scribblers *scribblers = flight_scribble(flight, NULL);
    flight_arrive(flight);
    scribblers_stop(scribblers);
    flight_again(flight);
    flight_arrive(flight);
}

static void must_not_exist(const struct flight *flight) {
    storage_heal();
    if (is_stored(flight->store, flight->version))
        fail("the checkpoint that failed is stored");
}

static void end(struct flight *flight) {
    next_has_everything(flight);
    flight_close(flight);
}

static void wait_tells(const char *policy) {
    struct flight flight;
    begin(&flight, policy);
    struct scribblers *scribblers = flight_scribble(&flight, NULL);
    int rc = varve_wait(flight.session), again = varve_wait(flight.session);
    scribblers_stop(scribblers);
    must_not_exist(&flight);
    if (rc != -EFBIG || again != rc)
        fail("varve_wait gives %d, and then %d, instead of -EFBIG (%d) twice", rc, again, -EFBIG);
    end(&flight);
}

static void wait_tells_fail(void) {
    wait_tells("fail");
}

static void wait_tells_warn(void) {
    wait_tells("warn");
}

static void test_tells(const char *policy) {
    struct flight flight;
    int rc;
    begin(&flight, policy);
    while ((rc = varve_test(flight.session)) == 0)
        usleep(1000);
    must_not_exist(&flight);
    if (rc != -EFBIG)
        fail("varve_test gives %d instead of -EFBIG (%d)", rc, -EFBIG);
    end(&flight);
}

static void test_tells_fail(void) {
    test_tells("fail");
}

static void test_tells_warn(void) {
    test_tells("warn");
}

/* Nobody asked: until the statistics say that it is over. */
static void let_it_fail(struct flight *flight) {
    struct vv_details stats;
    do {
        usleep(1000);
        kit_stats(flight->session, &stats);
    } while (stats.result == -EINPROGRESS);
    if (stats.result != -EFBIG)
        fail("the statistics say %d instead of -EFBIG (%d)", stats.result, -EFBIG);
    must_not_exist(flight);
}

/* It is begun all the same: the storage is well again, or it fails, too. */
static void next_call_tells(int is_patient) {
    struct flight flight;
    begin(&flight, "fail");
    if (is_patient)
        let_it_fail(&flight);
    int rc = varve_checkpoint(flight.session, flight.version + 1); /* otherwise it waits */
    int waited = varve_wait(flight.session);
    storage_heal();
    if (rc != VARVE_EARLIER_FAILED)
        fail("the next varve_checkpoint gives %d instead of VARVE_EARLIER_FAILED (%d)", rc, VARVE_EARLIER_FAILED);
    if (is_stored(flight.store, flight.version))
        fail("a checkpoint that failed is stored");
    if (waited != (is_patient ? 0 : -EFBIG) || is_stored(flight.store, flight.version + 1) != is_patient)
        fail("the one that was begun meanwhile: varve_wait gives %d", waited);
    flight.version += is_patient;
    end(&flight); /* if it failed, with the same number */
}

static void next_call_tells_later(void) {
    next_call_tells(1);
}

static void next_call_tells_at_once(void) {
    next_call_tells(0);
}

static void next_call_goes_on_with_warn(void) {
    struct flight flight;
    begin(&flight, "warn");
    let_it_fail(&flight);
    end(&flight); /* succeeds at once */
}

static void close_tells(void) {
    struct flight flight;
    begin(&flight, "fail");
    int rc = varve_close(flight.session);
    must_not_exist(&flight);
    if (rc != -EFBIG)
        fail("varve_close gives %d instead of -EFBIG (%d)", rc, -EFBIG);
    kit_folder_remove(flight.folder);
}

/* After the failure of one in flight everything can still be restored and gone on from. */
static void restart_after_failure(void) {
    struct flight flight;
    int64_t version = -1;
    begin(&flight, "fail");
    int failed = varve_wait(flight.session);
    must_not_exist(&flight);
    int rc = varve_restart(flight.session, VARVE_LATEST, &version);
    if (failed != -EFBIG || rc != 0 || version != flight.version - 1)
        fail("after %d, restart gives %d and version %lld", failed, rc, (long long)version);
    end(&flight);
}

/* ---- one operation of the storage fails, whichever ---- */

struct outcome {
    int called, waited;
};

static struct outcome try_checkpoint(struct flight *flight) {
    struct outcome outcome;
    images_clear(&flight->at_call);
    flight->at_call.version = ++flight->version;
    for (size_t i = 0; i < flight->count; i++)
        images_add(&flight->at_call, flight->regions[i].name, flight->regions[i].ptr, flight->regions[i].size);
    outcome.called = varve_checkpoint(flight->session, flight->version);
    struct scribblers *scribblers = flight_scribble(flight, NULL);
    outcome.waited = varve_wait(flight->session);
    scribblers_stop(scribblers);
    if (outcome.called != 0 && outcome.waited == 0)
        fail("varve_checkpoint gives %d, varve_wait then 0", outcome.called);
    if (outcome.waited == 0)
        images_check(&flight->at_call, flight->store);
    else if (is_stored(flight->store, flight->version))
        fail("checkpoint %lld failed with %d and is stored", (long long)flight->version, outcome.waited);
    return outcome;
}

#define OPERATIONS 60

/* Returns how many failed in the background. */
static unsigned try_operation(unsigned operation) {
    struct flight flight = {.version = 0};
    struct varve_error error = {0};
    unsigned failed = 0, in_background = 0;
    snprintf(kit_where, sizeof kit_where, "%s, operation %u fails", mode.settings, operation);
    kit_folder(flight.folder, sizeof flight.folder, "failing");
    snprintf(flight.store, sizeof flight.store, "file://%s/store", flight.folder);
    snprintf(flight.slow, sizeof flight.slow, "%s?limit=500MB&fault=fail:%u:EIO", flight.store, operation);
    if (kit_try_open(flight.slow, mode.settings, &flight.session, &error) == 0) {
        uint8_t *memory = new_memory(2 * MIB);
        flight_protect(&flight, "data", memory, 2 * MIB, 1);
        for (int i = 0; i < 4; i++) {
            struct outcome outcome = try_checkpoint(&flight);
            failed += outcome.waited != 0;
            in_background += outcome.called == 0 && outcome.waited != 0;
            struct scribble_target target = {memory, 2 * MIB};
            scribble_once(&target, i % 2 ? 1 : 20, operation);
        }
        if (failed > 1)
            fail("one operation failed, and %u checkpoints", failed);
        varve_close(flight.session);
    }
    images_clear(&flight.at_call);
    kit_folder_remove(flight.folder);
    return in_background;
}

static void any_operation(void) {
    unsigned in_background = 0;
    for (unsigned i = 1; i <= OPERATIONS; i++)
        in_background += try_operation(i);
    printf("        %u of %u failures were in the background\n", in_background, OPERATIONS);
    fflush(stdout);
    if (!in_background)
        fail("no checkpoint failed in the background: this tested nothing");
}

/* ---- running ---- */

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"wait-tells", wait_tells_fail},
    {"wait-tells-warn", wait_tells_warn},
    {"test-tells", test_tells_fail},
    {"test-tells-warn", test_tells_warn},
    {"next-call-tells", next_call_tells_later},
    {"next-call-waits-and-tells", next_call_tells_at_once},
    {"next-call-goes-on-with-warn", next_call_goes_on_with_warn},
    {"close-tells", close_tells},
    {"restart-after-failure", restart_after_failure},
    {"any-operation", any_operation},
};

static int run_case(size_t i) {
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        snprintf(kit_where, sizeof kit_where, "%s, %s", mode.settings, cases[i].name);
        alarm(60);
        cases[i].run();
        _exit(0);
    }
    waitpid(pid, &status, 0);
    printf("%s %s%s\n", status == 0 ? "ok     " : "FAILED ", cases[i].name,
           WIFSIGNALED(status) ? WTERMSIG(status) == SIGALRM ? ": it hangs" : ": it was killed" : "");
    return status != 0;
}

int main(int argc, char **argv) {
    int failed = 0;
    mode_parse(argc, argv);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (is_asked_for(cases[i].name))
            failed += run_case(i);
    printf("%s: %d failed\n", mode.settings, failed);
    return failed != 0;
}
