/* The forked group itself: its messages, its kills, and what it finds out about ranks that differ. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "comm-checks.h"
#include "group.h"
#include "test.h"

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void run_checks(struct varve_comm *comm, void *arg) {
    (void)arg;
    const char *wrong = comm_checks(comm);
    if (wrong)
        group_fail(comm, "%s", wrong);
    struct varve_comm *other = group_comm(comm);
    wrong = comm_checks(other);
    other->ops->close(other);
    if (wrong)
        group_fail(comm, "%s (second comm)", wrong);
}

static void keeps_the_promises_of_a_comm(void **state) {
    static const uint32_t ranks[] = {1, 2, 3, 5};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct group_end end;
        assert_int_equal(group_run(ranks[i], run_checks, NULL, NULL, &end), 0);
        assert_int_equal(end.ranks, ranks[i]);
        assert_int_equal(end.first, -1);
    }
}

static int wait_for_all(struct varve_comm *comm) {
    uint64_t value = comm->rank;
    return comm->ops->least(comm, &value, 1);
}

static void die_alone(struct varve_comm *comm, void *arg) {
    wait_for_all(comm);
    if (comm->rank == 2)
        raise(SIGKILL);
    if (wait_for_all(comm) == -ECOMM && arg)
        ((int *)arg)[comm->rank] = 1;
    pause();
}

static void kills_all_when_one_dies(void **state) {
    struct group_end end;
    char text[256];
    (void)state;
    double begin = now();
    assert_int_equal(group_run(4, die_alone, NULL, NULL, &end), -1);
    assert_true(now() - begin < 5);
    assert_int_equal(end.first, 2);
    for (int rank = 0; rank < 4; rank++) {
        assert_true(WIFSIGNALED(end.status[rank]));
        assert_int_equal(WTERMSIG(end.status[rank]), SIGKILL);
    }
    group_describe(&end, text, sizeof text);
    assert_int_equal(strncmp(text, "rank 2 was killed by signal 9, rank 0 was", 41), 0);
}

static void tells_the_others_before_it_kills_them(void **state) {
    struct group_options options = {.grace_ms = 100, .is_noticed = 1};
    int *has_noticed = group_memory(4 * sizeof *has_noticed);
    struct group_end end;
    (void)state;
    assert_int_equal(group_run(4, die_alone, has_noticed, &options, &end), -1);
    for (int rank = 0; rank < 4; rank++)
        assert_int_equal(has_noticed[rank], rank != 2);
    group_memory_free(has_noticed, 4 * sizeof *has_noticed);
}

static void call_another(struct varve_comm *comm, void *arg) {
    uint64_t value = 1;
    (void)arg;
    if (comm->rank == 1)
        comm->ops->broadcast(comm, &value, sizeof value, 1);
    else
        wait_for_all(comm);
    pause();
}

static void give_another_size(struct varve_comm *comm, void *arg) {
    uint64_t values[2] = {0};
    (void)arg;
    comm->ops->broadcast(comm, values, comm->rank == 2 ? 16 : 8, 0);
    wait_for_all(comm);
}

static void leave_early(struct varve_comm *comm, void *arg) {
    (void)arg;
    if (comm->rank != 1)
        wait_for_all(comm);
}

static void mix_two_comms(struct varve_comm *comm, void *arg) {
    struct varve_comm *other = group_comm(comm);
    (void)arg;
    wait_for_all(comm->rank == 1 ? comm : other);
    wait_for_all(comm->rank == 1 ? other : comm);
}

/* What they say about it goes to /dev/null. */
static int run_quietly(group_fn fn, struct group_end *end) {
    int saved = dup(STDERR_FILENO);
    assert_non_null(freopen("/dev/null", "w", stderr));
    int rc = group_run(3, fn, NULL, NULL, end);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    return rc;
}

static void finds_ranks_that_differ(void **state) {
    static const group_fn wrong[] = {call_another, give_another_size, leave_early, mix_two_comms};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct group_end end;
        double begin = now();
        assert_int_equal(run_quietly(wrong[i], &end), -1);
        assert_true(end.first >= 0 && WIFEXITED(end.status[end.first]));
        assert_int_equal(WEXITSTATUS(end.status[end.first]), 1);
        assert_true(now() - begin < 5);
    }
}

struct place {
    char folder[128];
};

static void save_once(struct varve_comm *comm, void *arg) {
    struct place *place = arg;
    struct varve_session *session = NULL;
    struct varve_error error = {0};
    static uint8_t data[65536];
    memset(data, 1 + (int)comm->rank, sizeof data);
    if (varve_open_comm(group_comm(comm), place->folder, "quick", NULL, &session, &error) != 0)
        group_fail(comm, "open: %s", error.text);
    if (varve_protect(session, "data", data, sizeof data) != 0 || varve_checkpoint(session, 1) != 0 ||
        varve_close(session) != 0)
        group_fail(comm, "save");
}

static void is_fast(void **state) {
    struct place place;
    double least = 1e9;
    char command[256];
    (void)state;
    for (int i = 0; i < 5; i++) {
        snprintf(place.folder, sizeof place.folder, "%s/varve-group-XXXXXX",
                 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
        assert_non_null(mkdtemp(place.folder));
        double begin = now();
        assert_int_equal(group_run(4, save_once, &place, NULL, NULL), 0);
        double seconds = now() - begin;
        least = seconds < least ? seconds : least;
        snprintf(command, sizeof command, "rm -rf '%s'", place.folder);
        assert_int_equal(system(command), 0);
    }
    printf("4 ranks open, save and close in %.1f ms\n", least * 1e3);
    assert_true(least < 5); /* a machine may be busy; campaigns of thousands of points would notice */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_the_promises_of_a_comm),
        cmocka_unit_test(kills_all_when_one_dies),
        cmocka_unit_test(tells_the_others_before_it_kills_them),
        cmocka_unit_test(finds_ranks_that_differ),
        cmocka_unit_test(is_fast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
