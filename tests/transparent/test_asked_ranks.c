/* One rank that was asked is enough, in a group of four. Nothing is sent for it: what varve_need tells the others goes
 * with the one message that it always sends. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <varve/varve_inspect.h>

#include "folder.h"
#include "group.h"
#include "test.h"

#define RANKS 4
#define SIZE 65536

static char folder[256];
static unsigned reductions, others; /* calls of the group, in this rank */
static int is_counted;              /* not where ranks of one node talk through its memory */
static const struct varve_comm_ops *real;
static struct varve_comm_ops counting;

static int count_reduce(struct varve_comm *comm, uint64_t *values, size_t count) {
    reductions++;
    return real->reduce_min(comm, values, count);
}

static int count_broadcast(struct varve_comm *comm, void *data, size_t size, uint32_t root) {
    others++;
    return real->broadcast(comm, data, size, root);
}

static struct varve_session *open_session(struct varve_comm *comm, unsigned char *data, const char *settings) {
    struct varve_session *s;
    struct varve_error error = {.text = ""};
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_comm *own = group_comm(comm);
    real = own->ops;
    counting = *real;
    counting.reduce_min = count_reduce;
    counting.broadcast = count_broadcast;
    own->ops = &counting;
    options.settings = settings;
    if (varve_open_comm(own, folder, "asked", &options, &s, &error) != 0)
        group_fail(comm, "open: %s", error.text);
    memset(data, (int)comm->rank + 1, SIZE);
    if (varve_protect(s, "data", data, SIZE) != 0)
        group_fail(comm, "protect");
    return s;
}

static void expect(const struct varve_comm *comm, const char *what, int is, int expected) {
    if (is != expected)
        group_fail(comm, "%s: %d, not %d", what, is, expected);
}

static int need(const struct varve_comm *comm, struct varve_session *s) {
    unsigned reductions_before = reductions, others_before = others;
    int rc = varve_need(s);
    if (is_counted)
        expect(comm, "messages of varve_need", (int)(reductions - reductions_before), 1);
    expect(comm, "other messages of varve_need", (int)(others - others_before), 0);
    return rc;
}

static void each_signal(struct varve_comm *comm, void *arg) {
    static unsigned char data[SIZE];
    int64_t version = 0;
    (void)arg;
    struct varve_session *s = open_session(comm, data, "interval=asked,signal=USR1,exit_signal=TERM");
    expect(comm, "need before", need(comm, s), 0);
    for (uint32_t asked = 0; asked < RANKS; asked++) {
        if (comm->rank == asked)
            raise(SIGUSR1);
        expect(comm, "need", need(comm, s), 1);
        expect(comm, "need again", need(comm, s), 1);
        data[version]++;
        expect(comm, "checkpoint", varve_checkpoint(s, ++version), 0);
        expect(comm, "need afterwards", need(comm, s), 0); /* while it is in flight */
        expect(comm, "exit", varve_should_exit(s), 0);
    }
    if (comm->rank == 3)
        raise(SIGTERM);
    expect(comm, "need", need(comm, s), 1);
    expect(comm, "exit before", varve_should_exit(s), 0);
    data[version]++;
    expect(comm, "checkpoint", varve_checkpoint(s, ++version), 0);
    expect(comm, "exit", varve_should_exit(s), 1);
    expect(comm, "stored", varve_stored(s, version, NULL, NULL, NULL), 0);
    expect(comm, "close", varve_close(s), 0);
}

/* Another process than rank 0 asks, through the store. */
static void through_the_store(struct varve_comm *comm, void *arg) {
    static unsigned char data[SIZE];
    struct varve_error error = {.text = ""};
    struct varve_store *store;
    int count = 0, is_exit = 0;
    (void)arg;
    struct varve_session *s = open_session(comm, data, "interval=asked");
    if (comm->rank == 2) {
        expect(comm, "store", varve_store_open(folder, NULL, &store, &error), 0);
        expect(comm, "trigger", varve_store_trigger(store, "asked", VARVE_TRIGGER_EXIT, &error), 0);
        varve_store_close(store);
    }
    for (int i = 0; i < 100 && !is_exit; i++) {
        usleep(50000);
        if (need(comm, s) == 1) {
            count++;
            expect(comm, "checkpoint", varve_checkpoint(s, i), 0);
        }
        is_exit = varve_should_exit(s);
    }
    expect(comm, "exit", is_exit, 1);
    expect(comm, "checkpoints", count, 1);
    expect(comm, "close", varve_close(s), 0);
}

/* Rank 0 alone would make the file. */
static void nowhere_to_leave_word(struct varve_comm *comm, void *arg) {
    struct varve_session *s;
    struct varve_error error = {.text = ""};
    struct varve_options options = VARVE_OPTIONS_INIT;
    options.settings = arg;
    expect(comm, "open", varve_open_comm(group_comm(comm), folder, "asked", &options, &s, &error), -ENOENT);
    expect(comm, "the rank with the error", error.rank, 0);
}

static double until_needed(const struct varve_comm *comm, struct varve_session *s) {
    int i = 0;
    while (need(comm, s) == 0 && i++ < 500)
        usleep(20000);
    return i * 0.02;
}

/* Its own calls commit nothing here: what is written must not look as if it took longer and longer. */
static void interval_by_itself(struct varve_comm *comm, void *arg) {
    static unsigned char data[SIZE];
    (void)arg;
    struct varve_session *s = open_session(comm, data, "interval=auto,mtbf=1");
    for (int64_t version = 1; version <= 3; version++) {
        if (until_needed(comm, s) > 9)
            group_fail(comm, "no checkpoint is due after version %d", (int)version - 1);
        data[version]++;
        expect(comm, "checkpoint", varve_checkpoint(s, version), 0);
    }
    expect(comm, "close", varve_close(s), 0);
}

/* The last call commits, and so late that twice the time until then would mean the end of the job. */
static void end_is_far(struct varve_comm *comm, void *arg) {
    static unsigned char data[SIZE];
    struct varve_session *s = open_session(comm, data, arg);
    expect(comm, "checkpoint", varve_checkpoint(s, 1), 0);
    usleep(3000000);
    expect(comm, "need", need(comm, s), 0);
    expect(comm, "wait", varve_wait(s), 0);
    expect(comm, "need when it is committed", need(comm, s), 0);
    expect(comm, "close", varve_close(s), 0);
}

static void words(void **unused) {
    (void)unused;
    char settings[400];
    snprintf(settings, sizeof settings, "exit_file=%s.none/left", folder);
    group_must_run(RANKS, nowhere_to_leave_word, settings, NULL, "exit_file in no folder");
}

static void on_one_node(void **unused) {
    (void)unused;
    is_counted = 0;
    group_must_run(RANKS, each_signal, NULL, NULL, "signals, one node");
}

/* The last step of a checkpoint waits for the next call of all ranks there: varve_should_exit is one. */
static void on_two_nodes(void **unused) {
    (void)unused;
    struct group_options options = {.ranks_per_node = 2};
    is_counted = 1;
    group_must_run(RANKS, each_signal, NULL, &options, "signals, two nodes");
}

static void commits_wait_for_calls(void **unused) {
    (void)unused;
    struct group_options options = {.ranks_per_node = 2};
    is_counted = 1;
    char settings[100];
    group_must_run(RANKS, interval_by_itself, NULL, &options, "interval, two nodes");
    snprintf(settings, sizeof settings, "interval=asked,end_slack=1,end_time=%.3f", (double)time(NULL) + 12.5);
    group_must_run(RANKS, end_is_far, settings, &options, "end of the job, two nodes");
}

static void with_a_second_group(void **unused) {
    (void)unused;
    struct group_options options = {.ranks_per_node = 2, .has_second = 1};
    is_counted = 0;
    group_must_run(RANKS, through_the_store, NULL, &options, "trigger, two nodes");
}

static int setup(void **unused) {
    (void)unused;
    return folder_make(getenv("TMPDIR"), "varve-asked-ranks", folder, sizeof folder);
}

static int teardown(void **unused) {
    (void)unused;
    return folder_remove(folder);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {TEST(words), TEST(on_one_node), TEST(on_two_nodes), TEST(commits_wait_for_calls),
                                       TEST(with_a_second_group)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
