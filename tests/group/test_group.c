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
#include "folder.h"
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
        struct group_options options = {.has_second = i % 2 == 1};
        struct group_end end;
        assert_int_equal(group_run(ranks[i], run_checks, NULL, &options, &end), 0);
        assert_int_equal(end.ranks, ranks[i]);
        assert_int_equal(end.first, -1);
    }
}

/* Where rank r of the options' group must be. */
struct place_wanted {
    uint32_t nodes, least_local;
    uint32_t node[8], local[8];
};

static void check_place(struct varve_comm *comm, void *arg) {
    const struct place_wanted *wanted = arg;
    if (comm->nodes != wanted->nodes || comm->least_local != wanted->least_local ||
        comm->node != wanted->node[comm->rank] || comm->local != wanted->local[comm->rank])
        group_fail(comm, "is number %u of node %u of %u", comm->local, comm->node, comm->nodes);
    run_checks(comm, NULL);
}

static void places_ranks_as_told(void **state) {
    static const uint32_t words[] = {7, 7, 1, 7, 0, 1, 7};
    struct place_wanted one = {1, 3, {0, 0, 0}, {0, 1, 2}}, rows = {3, 1, {0, 0, 1, 1, 2}, {0, 1, 0, 1, 0}},
                        uneven = {3, 1, {0, 0, 1, 0, 2, 1, 0}, {0, 1, 0, 2, 0, 1, 3}};
    struct group_options in_rows = {.ranks_per_node = 2}, by_words = {.node_of = words, .has_second = 1};
    (void)state;
    assert_int_equal(group_run(3, check_place, &one, NULL, NULL), 0);
    assert_int_equal(group_run(5, check_place, &rows, &in_rows, NULL), 0);
    assert_int_equal(group_run(7, check_place, &uneven, &by_words, NULL), 0);
}

static void exchange_in_rounds(struct varve_comm *comm, void *arg) {
    (void)arg;
    const char *wrong = comm_checks_again(comm);
    if (wrong)
        group_fail(comm, "%s", wrong);
}

static void has_many_ranks(void **state) {
    struct group_options options = {.ranks_per_node = 8, .has_second = 1};
    (void)state;
    assert_int_equal(group_run(GROUP_RANKS_MAX, exchange_in_rounds, NULL, &options, NULL), 0);
}

static int take_byte(void *arg, uint32_t rank, const void *data, size_t size) {
    *(char *)arg = size == 1 ? *(const char *)data : (char)('0' + rank);
    return 0;
}

static void exchange_by_old_names(struct varve_comm *comm, void *arg) {
    struct varve_parcel message = {.rank = comm->rank, .data = "x", .size = 1};
    struct varve_message *same = &message;
    varve_collect_fn fn = take_byte;
    char got = 0;
    (void)arg;
    if (comm->ops->exchange(comm, same, 1, &comm->rank, 1, fn, &got) != 0 || got != 'x')
        group_fail(comm, "the old names of types mean something else");
}

static void has_the_old_names_of_types(void **state) {
    (void)state;
    assert_int_equal(group_run(2, exchange_by_old_names, NULL, NULL, NULL), 0);
}

static int wait_for_all(struct varve_comm *comm) {
    uint64_t value = comm->rank;
    return comm->ops->reduce_min(comm, &value, 1);
}

static int take_nothing(void *arg, uint32_t rank, const void *data, size_t size) {
    (void)arg, (void)rank, (void)data, (void)size;
    return 0;
}

/* Rank 3's message for the call that failed still waits for rank 0 when this one calls again. */
static int exchange_after_all(struct varve_comm *comm) {
    uint32_t other = 3 - comm->rank;
    struct varve_message message = {.rank = other, .data = "", .size = 0};
    return comm->ops->exchange(comm, &message, 1, &other, 1, take_nothing, NULL);
}

static void die_alone(struct varve_comm *comm, void *arg) {
    wait_for_all(comm);
    if (comm->rank == 2) {
        usleep(20000); /* the others have called */
        raise(SIGKILL);
    }
    if (wait_for_all(comm) == -ECOMM && exchange_after_all(comm) == -ECOMM && arg)
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

static int ignore(void *arg, uint32_t rank, const void *data, size_t size) {
    (void)arg, (void)rank, (void)data, (void)size;
    return 0;
}

/* Rank 1 waits for a message of rank 0, which goes on to another call. */
static void exchange_one_way(struct varve_comm *comm, void *arg) {
    uint32_t from = 0;
    uint64_t value = 1;
    (void)arg;
    if (comm->rank == 1)
        comm->ops->exchange(comm, NULL, 0, &from, 1, ignore, NULL);
    else
        comm->ops->broadcast(comm, &value, sizeof value, 0);
    wait_for_all(comm);
}

/* Rank 0 sends what nobody waits for. */
static void exchange_for_nobody(struct varve_comm *comm, void *arg) {
    struct varve_message message = {1, "x", 1};
    (void)arg;
    if (comm->rank == 0)
        comm->ops->exchange(comm, &message, 1, NULL, 0, ignore, NULL);
    wait_for_all(comm);
}

static void exchange_twice(struct varve_comm *comm, void *arg) {
    struct varve_message messages[2] = {{1, "x", 1}, {1, "y", 1}};
    uint32_t from = 0;
    (void)arg;
    comm->ops->exchange(comm, messages, comm->rank == 0 ? 2 : 0, &from, comm->rank == 1, ignore, NULL);
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
    static const group_fn wrong[] = {call_another,     give_another_size,   leave_early,   mix_two_comms,
                                     exchange_one_way, exchange_for_nobody, exchange_twice};
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
    (void)state;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(folder_make(NULL, "varve-group", place.folder, sizeof place.folder), 0);
        double begin = now();
        assert_int_equal(group_run(4, save_once, &place, NULL, NULL), 0);
        double seconds = now() - begin;
        least = seconds < least ? seconds : least;
        assert_int_equal(folder_remove(place.folder), 0);
    }
    printf("4 ranks open, save and close in %.1f ms\n", least * 1e3);
    assert_true(least < 5); /* a machine may be busy; campaigns of thousands of points would notice */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_the_promises_of_a_comm),
        cmocka_unit_test(places_ranks_as_told),
        cmocka_unit_test(has_many_ranks),
        cmocka_unit_test(has_the_old_names_of_types),
        cmocka_unit_test(kills_all_when_one_dies),
        cmocka_unit_test(tells_the_others_before_it_kills_them),
        cmocka_unit_test(finds_ranks_that_differ),
        cmocka_unit_test(is_fast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
