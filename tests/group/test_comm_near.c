/* Ranks of one node that talk through the memory they share: the promises of a comm, whoever dies meanwhile. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "comm-checks.h"
#include "gather/comm_near.h"
#include "group.h"
#include "test.h"

#define LONG (3u << 20) /* bytes: many times a ring */

static struct varve_comm *open_near(struct varve_comm *comm) {
    struct varve_comm *near = NULL;
    struct varve_error error = {0};
    if (vv_comm_near_open(comm, &near, &error) != 0)
        group_fail(comm, "open: %s", error.text);
    return near;
}

static void check_promises(struct varve_comm *comm, void *arg) {
    (void)arg;
    struct varve_comm *near = open_near(comm);
    const char *wrong = comm_checks(near);
    if (!wrong)
        wrong = comm_checks_again(near);
    if (wrong)
        group_fail(comm, "%s", wrong);
    near->ops->close(near);
}

static void keeps_the_promises_of_a_comm(void **state) {
    static const uint32_t ranks[] = {2, 3, 5, 16};
    (void)state;
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(group_run(ranks[i], check_promises, NULL, NULL, NULL), 0);
}

/* ---- long messages, all at once ---- */

static uint8_t byte_of(uint32_t from, uint32_t to, size_t at) {
    return (uint8_t)(from * 31 + to * 7 + at + at / 251);
}

static int check_long(void *arg, uint32_t rank, const void *data, size_t size) {
    const struct varve_comm *comm = arg;
    const uint8_t *bytes = data;
    if (size != LONG + rank)
        return -EPROTO;
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != byte_of(rank, comm->rank, i))
            return -EPROTO;
    return 0;
}

static void exchange_long(struct varve_comm *comm, void *arg) {
    (void)arg;
    struct varve_comm *near = open_near(comm);
    struct varve_message out[GROUP_RANKS_MAX];
    uint32_t from[GROUP_RANKS_MAX];
    for (uint32_t rank = 0; rank < comm->ranks; rank++) {
        uint8_t *data = malloc(LONG + comm->rank);
        for (size_t i = 0; i < LONG + comm->rank; i++)
            data[i] = byte_of(comm->rank, rank, i);
        out[rank] = (struct varve_message){rank, data, LONG + comm->rank};
        from[rank] = rank;
    }
    int rc = near->ops->exchange(near, out, comm->ranks, from, comm->ranks, check_long, near);
    if (rc)
        group_fail(comm, "exchange: %d", rc);
    for (uint32_t rank = 0; rank < comm->ranks; rank++)
        free((void *)out[rank].data);
    near->ops->close(near);
}

static void passes_long_messages(void **state) {
    (void)state;
    assert_int_equal(group_run(4, exchange_long, NULL, NULL, NULL), 0);
}

/* ---- trouble ---- */

/* Rank 2 dies while the others wait for it, or while one sends more than the ring holds. */
static void lose_one(struct varve_comm *comm, void *arg) {
    struct varve_comm *near = open_near(comm);
    uint64_t value = comm->rank;
    static uint8_t data[LONG];
    if (comm->rank == 2) {
        usleep(20000);
        _exit(0);
    }
    int rc = *(int *)arg ? near->ops->broadcast(near, data, LONG, 0) : near->ops->reduce_min(near, &value, 1);
    if (rc == 0 && *(int *)arg) /* who got all of it does not know */
        rc = near->ops->reduce_min(near, &value, 1);
    if (rc != -ECOMM || near->ops->reduce_min(near, &value, 1) != -ECOMM)
        group_fail(comm, "talked to the dead: %d", rc);
    near->ops->close(near);
}

static void whoever_waits_for_the_dead_is_told(void **state) {
    struct group_options options = {.seconds = 30};
    (void)state;
    for (int is_long = 0; is_long < 2; is_long++)
        assert_int_equal(group_run(4, lose_one, &is_long, &options, NULL), 0);
}

static int take_it(void *arg, uint32_t rank, const void *data, size_t size) {
    (void)rank, (void)data;
    *(size_t *)arg = size;
    return 0;
}

/* One broadcasts, the other exchanges: both are told, and so is the third. */
static void differ(struct varve_comm *comm, void *arg) {
    (void)arg;
    struct varve_comm *near = open_near(comm);
    uint64_t value = 0;
    uint32_t other = 0;
    struct varve_message out = {other, &value, sizeof value};
    int rc = comm->rank == 1 ? near->ops->exchange(near, &out, 1, &other, 1, check_long, near)
                             : near->ops->broadcast(near, &value, sizeof value, 0);
    if (rc == 0) /* rank 0 has only sent */
        rc = near->ops->reduce_min(near, &value, 1);
    if (rc != -ECOMM)
        group_fail(comm, "different calls met: %d", rc);
    near->ops->close(near);
}

static void different_calls_are_found_out(void **state) {
    struct group_options options = {.seconds = 30};
    (void)state;
    assert_int_equal(group_run(3, differ, NULL, &options, NULL), 0);
}

/* A long message needs memory: only its receiver fails, and all go on. */
static void miss_memory(struct varve_comm *comm, void *arg) {
    (void)arg;
    struct varve_comm *near = open_near(comm);
    uint64_t values[1000] = {0};
    size_t got = 0;
    static uint8_t data[LONG];
    uint32_t other = comm->rank ^ 1;
    struct varve_message out = {other, data, comm->rank == 1 ? 10 : LONG};
    vv_alloc_fail_at(comm->rank == 1 ? 1 : 0);
    int rc = near->ops->reduce_min(near, values, 1000);
    if (rc == 0)
        rc = near->ops->broadcast(near, values, sizeof values, 0);
    if (rc)
        group_fail(comm, "agreeing failed: %d", rc);
    rc = near->ops->exchange(near, &out, 1, &other, 1, take_it, &got);
    if (rc != (comm->rank == 1 ? -ENOMEM : 0) || got != (comm->rank == 1 ? 0 : 10))
        group_fail(comm, "exchange: %d, %zu bytes", rc, got);
    if (near->ops->reduce_min(near, values, 1) != 0)
        group_fail(comm, "nothing works afterwards");
    near->ops->close(near);
}

static void agreeing_needs_no_memory(void **state) {
    (void)state;
    assert_int_equal(group_run(2, miss_memory, NULL, NULL, NULL), 0);
}

static void refuse_nodes(struct varve_comm *comm, void *arg) {
    (void)arg;
    struct varve_comm *near = NULL;
    struct varve_error error = {0};
    if (vv_comm_near_open(comm, &near, &error) != -ENOTSUP || near || !error.text[0])
        group_fail(comm, "ranks of two nodes cannot share memory");
}

static void several_nodes_are_refused(void **state) {
    struct group_options options = {.ranks_per_node = 2};
    (void)state;
    assert_int_equal(group_run(4, refuse_nodes, NULL, &options, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_the_promises_of_a_comm),       cmocka_unit_test(passes_long_messages),
        cmocka_unit_test(whoever_waits_for_the_dead_is_told), cmocka_unit_test(agreeing_needs_no_memory),
        cmocka_unit_test(several_nodes_are_refused),          cmocka_unit_test(different_calls_are_found_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
