/* Blocks that the ranks of a node lend each other: read by one, and nobody depends on that one. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "backend/backend.h"
#include "backend/backend_parts.h"
#include "base/fault.h"
#include "base/thread.h"
#include "group.h"
#include "peers/lender.h"
#include "store/read_costs.h"
#include "test.h"
#include "unit/refuse.h"

#define RANKS 3
#define BLOCK (64u << 10)
#define KEY "n/job/data/00000001/0000000000000001/00000000/00000000"

static struct vv_read_costs costs;

static void wait_for_all(struct varve_comm *comm) {
    uint64_t value = 0;
    if (comm->ops->reduce_min(comm, &value, 1) != 0)
        group_fail(comm, "the group is broken");
}

static struct vv_lender *open_lender(struct varve_comm *comm, struct varve_backend *backend) {
    struct vv_lender_options options = {.block_size = BLOCK, .backend = backend, .costs = &costs};
    struct vv_lender *lender = NULL;
    struct varve_error error = {0};
    if (vv_lender_open(comm, &options, &lender, &error) != 0)
        group_fail(comm, "open: %s", error.text);
    return lender;
}

static struct vv_block block_of(unsigned number) {
    return (struct vv_block){.offset = 4096 + (uint64_t)number * BLOCK, .stored = BLOCK, .raw = BLOCK, .sum = number};
}

static void must_be(struct varve_comm *comm, enum vv_loan_state state, enum vv_loan_state wanted, const char *when) {
    if (state != wanted)
        group_fail(comm, "%s: state %d instead of %d", when, (int)state, (int)wanted);
}

/* Rank 0 reads, with a lead as if the block began inside a page; the others copy. */
static void share(struct varve_comm *comm, void *arg) {
    struct vv_lender *lender = open_lender(comm, NULL);
    struct vv_block block = block_of(0);
    struct vv_loan loan;
    (void)arg;
    if (comm->rank == 0) {
        must_be(comm, vv_lender_ops.take(lender, KEY, &block, NULL, 0, &loan), VV_LOAN_EMPTY, "the first");
        memset(loan.data + 100, 7, BLOCK);
        vv_lender_ops.filled(lender, &loan, 100, 0);
        vv_lender_ops.give_back(lender, &loan);
    }
    wait_for_all(comm);
    must_be(comm, vv_lender_ops.take(lender, KEY, &block, NULL, 0, &loan), VV_LOAN_FULL, "afterwards");
    if (loan.data[0] != 7 || loan.data[BLOCK - 1] != 7)
        group_fail(comm, "other bytes were lent");
    vv_lender_ops.give_back(lender, &loan);
    wait_for_all(comm);
    vv_lender_close(lender);
}

static void ranks_share_what_one_has_read(void **state) {
    (void)state;
    group_must_run(RANKS, share, NULL, NULL, NULL);
}

/* Rank 0 reads one part of a block. Whoever needs another part reads for itself, and does not wait. */
static void need_parts(struct varve_comm *comm, void *arg) {
    struct vv_lender *lender = open_lender(comm, NULL);
    struct vv_block block = block_of(0);
    struct vv_loan_parts first = {.needed = {1}, .read = {3}}, behind = {.needed = {2}, .read = {2}},
                         other = {.needed = {4}, .read = {4}};
    struct vv_loan loan, mine;
    (void)arg;
    if (comm->rank == 0)
        must_be(comm, vv_lender_ops.take(lender, KEY, &block, &first, 0, &loan), VV_LOAN_EMPTY, "the first");
    wait_for_all(comm);
    uint64_t begin = vv_clock_ns();
    must_be(comm, vv_lender_ops.take(lender, KEY, &block, &other, 1, &mine), VV_LOAN_NONE, "another part");
    if (vv_clock_ns() - begin > UINT64_C(2000000000)) /* who waits does so for five seconds */
        group_fail(comm, "it was waited for");
    wait_for_all(comm);
    if (comm->rank == 0) {
        memset(loan.data, 9, 2 * VV_GRANULE);
        vv_lender_ops.filled(lender, &loan, 0, 0);
        vv_lender_ops.give_back(lender, &loan);
    } else {
        must_be(comm, vv_lender_ops.take(lender, KEY, &block, &behind, 0, &mine), VV_LOAN_FULL, "what was read along");
        if (mine.data[VV_GRANULE] != 9)
            group_fail(comm, "other bytes were lent");
        vv_lender_ops.give_back(lender, &mine);
    }
    wait_for_all(comm);
    vv_lender_close(lender);
}

static void nobody_waits_for_parts_that_do_not_come(void **state) {
    (void)state;
    group_must_run(RANKS, need_parts, NULL, NULL, NULL);
}

static void must_be_lent(struct varve_comm *comm, struct vv_lender *lender, const struct vv_loan_parts *parts) {
    struct vv_block block = block_of(1);
    struct vv_loan loan;
    must_be(comm, vv_lender_ops.take(lender, KEY, &block, parts, 0, &loan), VV_LOAN_FULL, "what rank 1 has read");
    if (loan.data[2 * VV_GRANULE] != 7)
        group_fail(comm, "other bytes were lent");
    vv_lender_ops.give_back(lender, &loan);
}

/* Rank 0 reads one part of a block. Rank 1, which needs all of it, does not wait, and reads it for everybody. */
static void need_all(struct varve_comm *comm, void *arg) {
    struct vv_lender *lender = open_lender(comm, NULL);
    struct vv_block block = block_of(1);
    struct vv_loan_parts first = {.needed = {1}, .read = {3}}, other = {.needed = {4}, .read = {4}};
    struct vv_loan loan, all;
    (void)arg;
    if (comm->rank == 0)
        must_be(comm, vv_lender_ops.take(lender, KEY, &block, &first, 0, &loan), VV_LOAN_EMPTY, "the first");
    wait_for_all(comm);
    if (comm->rank == 1) {
        uint64_t begin = vv_clock_ns();
        must_be(comm, vv_lender_ops.take(lender, KEY, &block, NULL, 0, &all), VV_LOAN_EMPTY, "all of it");
        if (vv_clock_ns() - begin > UINT64_C(2000000000))
            group_fail(comm, "it was waited for");
        memset(all.data, 7, BLOCK);
        vv_lender_ops.filled(lender, &all, 0, 0);
        vv_lender_ops.give_back(lender, &all);
    }
    wait_for_all(comm);
    must_be_lent(comm, lender, &other);
    must_be_lent(comm, lender, NULL);
    if (comm->rank == 0) {
        vv_lender_ops.filled(lender, &loan, 0, 0);
        vv_lender_ops.give_back(lender, &loan);
    }
    must_be_lent(comm, lender, NULL);
    wait_for_all(comm);
    vv_lender_close(lender);
}

static void all_of_a_block_replaces_its_parts(void **state) {
    (void)state;
    group_must_run(RANKS, need_all, NULL, NULL, NULL);
}

/* The node has no memory when slots are first used: everybody reads for himself, at once. What has memory is lent. */
static void run_short(struct varve_comm *comm, void *arg) {
    struct varve_backend *backend = NULL;
    if (vv_mem_open("short", 1, &backend, NULL) != 0)
        group_fail(comm, "no memory store");
    struct vv_lender *lender = open_lender(comm, backend);
    struct vv_block block = block_of(0), next = block_of(1);
    struct vv_loan loan;
    uint8_t bytes[4] = "abc";
    (void)arg;
    if (comm->rank == 0) {
        must_be(comm, vv_lender_ops.take(lender, KEY, &block, NULL, 1, &loan), VV_LOAN_EMPTY, "the first");
        memset(loan.data, 7, BLOCK);
        vv_lender_ops.filled(lender, &loan, 0, 0);
        vv_lender_ops.give_back(lender, &loan);
    }
    wait_for_all(comm);
    refuse(SYS_fallocate, 0, ENOSPC);
    uint64_t begin = vv_clock_ns();
    for (unsigned i = 1; i < 20; i++) {
        next = block_of(comm->rank * 100 + i);
        enum vv_loan_state state = vv_lender_ops.take(lender, KEY, &next, NULL, 1, &loan);
        if (state == VV_LOAN_FULL || state == VV_LOAN_LATER)
            group_fail(comm, "block %u: state %d", i, (int)state);
        if (state == VV_LOAN_EMPTY) { /* the slot that has memory */
            memset(loan.data, 8, BLOCK);
            vv_lender_ops.filled(lender, &loan, 0, 0);
            vv_lender_ops.give_back(lender, &loan);
        }
    }
    if (vv_clock_ns() - begin > UINT64_C(2000000000))
        group_fail(comm, "it was waited for");
    if (vv_lender_ops.get(lender, "nowhere", 0, bytes, sizeof bytes) != -ENOENT)
        group_fail(comm, "bytes came from nowhere");
    wait_for_all(comm);
    vv_lender_close(lender);
    vv_backend_close(backend);
}

static void a_node_without_memory_reads_on(void **state) {
    (void)state;
    group_must_run(RANKS, run_short, NULL, NULL, NULL);
}

/* Who cannot take all of a block at once borrows it again, and it is kept for the others all the same. */
static void take_again(struct varve_comm *comm, void *arg) {
    struct vv_lender *lender = open_lender(comm, NULL);
    struct vv_block block = block_of(0), next = block_of(1);
    struct vv_loan loan;
    (void)arg;
    for (uint32_t i = 0; comm->rank == 0 && i < 2 * RANKS; i++) {
        must_be(comm, vv_lender_ops.take(lender, KEY, &block, NULL, 0, &loan), i ? VV_LOAN_FULL : VV_LOAN_EMPTY, "it");
        if (i == 0)
            vv_lender_ops.filled(lender, &loan, 0, 0);
        vv_lender_ops.give_back(lender, &loan);
    }
    if (comm->rank == 0) {
        must_be(comm, vv_lender_ops.take(lender, KEY, &next, NULL, 0, &loan), VV_LOAN_EMPTY, "the next one");
        vv_lender_ops.filled(lender, &loan, 0, 0);
        vv_lender_ops.give_back(lender, &loan);
    }
    wait_for_all(comm);
    must_be(comm, vv_lender_ops.take(lender, KEY, &block, NULL, 0, &loan), VV_LOAN_FULL, "afterwards");
    vv_lender_ops.give_back(lender, &loan);
    wait_for_all(comm);
    vv_lender_close(lender);
}

static void a_rank_that_comes_again_counts_once(void **state) {
    (void)state;
    group_must_run(RANKS, take_again, NULL, NULL, NULL);
}

/* Who reads it fails: the others read for themselves, and the next one may try. */
static void fail_to_read(struct varve_comm *comm, void *arg) {
    struct vv_lender *lender = open_lender(comm, NULL);
    struct vv_block block = block_of(0);
    struct vv_loan loan;
    (void)arg;
    if (comm->rank == 0)
        must_be(comm, vv_lender_ops.take(lender, KEY, &block, NULL, 0, &loan), VV_LOAN_EMPTY, "the first");
    wait_for_all(comm);
    if (comm->rank == 0) {
        vv_sleep_ms(50); /* the others wait by now */
        vv_lender_ops.filled(lender, &loan, 0, -5);
        vv_lender_ops.give_back(lender, &loan);
    } else
        must_be(comm, vv_lender_ops.take(lender, KEY, &block, NULL, 0, &loan), VV_LOAN_NONE, "while it fails");
    wait_for_all(comm);
    if (comm->rank == 1)
        must_be(comm, vv_lender_ops.take(lender, KEY, &block, NULL, 0, &loan), VV_LOAN_EMPTY, "again");
    wait_for_all(comm);
    vv_lender_close(lender);
}

static void a_failure_is_nobody_elses(void **state) {
    (void)state;
    group_must_run(RANKS, fail_to_read, NULL, NULL, NULL);
}

/* Who reads it was stopped, for ever: the others have waited for one block, and not for the next one. */
static void stop_reading(struct varve_comm *comm, void *arg) {
    struct vv_lender *lender = open_lender(comm, NULL);
    struct vv_block block = block_of(0);
    struct vv_loan loan;
    uint64_t begin;
    (void)arg;
    if (comm->rank == 0)
        must_be(comm, vv_lender_ops.take(lender, KEY, &block, NULL, 0, &loan), VV_LOAN_EMPTY, "the first");
    wait_for_all(comm);
    if (comm->rank != 0) {
        begin = vv_clock_ns();
        must_be(comm, vv_lender_ops.take(lender, KEY, &block, NULL, 0, &loan), VV_LOAN_NONE, "in vain");
        if (vv_clock_ns() - begin > UINT64_C(20000000000))
            group_fail(comm, "it took too long");
        enum vv_loan_state next = vv_lender_ops.take(lender, KEY, &block, NULL, 0, &loan);
        if (next != VV_LOAN_EMPTY && next != VV_LOAN_FULL)
            group_fail(comm, "again: state %d", (int)next);
        if (next == VV_LOAN_EMPTY)
            vv_lender_ops.filled(lender, &loan, 0, 0);
        vv_lender_ops.give_back(lender, &loan);
    }
    wait_for_all(comm);
    vv_lender_close(lender);
}

static void a_rank_that_stops_holds_up_nobody_for_long(void **state) {
    (void)state;
    group_must_run(RANKS, stop_reading, NULL, NULL, NULL);
}

/* ---- ranks that are apart ---- */

#define APART 200u /* blocks: many times the slots there are */

/* Take this block, read it if nobody has; is it read now? */
static int read_block(struct varve_comm *comm, struct vv_lender *lender, unsigned number) {
    struct vv_block block = block_of(number);
    struct vv_loan loan;
    enum vv_loan_state state = vv_lender_ops.take(lender, KEY, &block, NULL, 1, &loan);
    if (state != VV_LOAN_EMPTY && state != VV_LOAN_FULL)
        group_fail(comm, "block %u: state %d", number, (int)state);
    if (state == VV_LOAN_EMPTY)
        vv_lender_ops.filled(lender, &loan, 0, 0);
    vv_lender_ops.give_back(lender, &loan);
    return state == VV_LOAN_EMPTY;
}

struct apart {
    int is_slow;    /* rank 1 does nothing for half a second, and then reads what all read; else it rests at once */
    int is_passing; /* rank 1 reads other blocks than the others */
    int is_mixed;   /* all read every tenth block together, and those between in an order of their own */
    _Atomic uint32_t reads;
    _Atomic uint64_t longest_ns; /* that rank 0 took */
};
static struct apart *apart;

static void come_apart(struct varve_comm *comm, void *arg) {
    struct vv_lender *lender = open_lender(comm, NULL);
    uint64_t begin = vv_clock_ns();
    unsigned first = comm->rank == 1 && apart->is_passing ? APART : 0;
    unsigned step = 2 * comm->rank + 7;
    (void)arg;
    if (comm->rank == 1 && apart->is_slow)
        vv_sleep_ms(500);
    int is_reading = comm->rank != 1 || apart->is_slow || apart->is_passing || apart->is_mixed;
    for (unsigned i = 0; i < APART && is_reading; i++) {
        int is_apart = apart->is_mixed && i % 10;
        apart->reads += (uint32_t)read_block(comm, lender, first + (is_apart ? i * step % APART : i));
        if (apart->is_mixed && i % 10 == 0)
            wait_for_all(comm);
    }
    vv_lender_rest(lender);
    if (comm->rank == 0)
        apart->longest_ns = vv_clock_ns() - begin;
    wait_for_all(comm);
    vv_lender_close(lender);
}

static void run_apart(struct apart plan) {
    apart = group_memory(sizeof *apart);
    apart->is_slow = plan.is_slow;
    apart->is_passing = plan.is_passing;
    apart->is_mixed = plan.is_mixed;
    group_must_run(RANKS, come_apart, NULL, NULL, NULL);
}

static void a_slow_rank_is_waited_for(void **state) {
    (void)state;
    run_apart((struct apart){.is_slow = 1});
    assert_int_equal(apart->reads, APART);
    group_memory_free(apart, sizeof *apart);
}

/* Nobody comes, and it is known soon: not at each block anew. */
static void nobody_waits_for_ranks_that_will_not_come(void **state) {
    (void)state;
    for (int is_passing = 0; is_passing < 2; is_passing++) {
        run_apart((struct apart){.is_passing = is_passing});
        assert_true(apart->longest_ns < UINT64_C(1500000000));
        group_memory_free(apart, sizeof *apart);
    }
}

/* Slots fill with blocks that are kept for somebody, while all want others. They do not wait for each other each time.
 */
static void ranks_that_all_want_something_else_go_on(void **state) {
    (void)state;
    run_apart((struct apart){.is_mixed = 1});
    print_message("%u reads of %u blocks by %u ranks, %.2f s\n", apart->reads, APART, RANKS,
                  (double)apart->longest_ns * 1e-9);
    assert_true(apart->longest_ns < UINT64_C(20000000000));
    group_memory_free(apart, sizeof *apart);
}

/* All slots are in use by a rank that never gives them back. */
static void take_all(struct varve_comm *comm, void *arg) {
    struct vv_lender *lender = open_lender(comm, NULL);
    struct vv_loan loan;
    struct vv_block block;
    unsigned count = 0;
    (void)arg;
    for (enum vv_loan_state state = VV_LOAN_EMPTY; comm->rank == 0 && state == VV_LOAN_EMPTY; count++) {
        block = block_of(count);
        state = vv_lender_ops.take(lender, KEY, &block, NULL, 0, &loan);
    }
    if (comm->rank == 0 && count < 8)
        group_fail(comm, "only %u blocks are lent", count);
    wait_for_all(comm);
    if (comm->rank == 1) {
        block = block_of(10000);
        must_be(comm, vv_lender_ops.take(lender, KEY, &block, NULL, 0, &loan), VV_LOAN_LATER, "all are in use");
        must_be(comm, vv_lender_ops.take(lender, KEY, &block, NULL, 1, &loan), VV_LOAN_NONE, "at last");
        uint64_t begin = vv_clock_ns();
        must_be(comm, vv_lender_ops.take(lender, KEY, &block, NULL, 1, &loan), VV_LOAN_NONE, "the next one");
        if (vv_clock_ns() - begin > UINT64_C(2000000000))
            group_fail(comm, "every block takes as long");
    }
    wait_for_all(comm);
    vv_lender_close(lender);
}

static void slots_that_are_left_behind_cost_time_once(void **state) {
    (void)state;
    group_must_run(RANKS, take_all, NULL, NULL, NULL);
}

/* ---- ranks that die ---- */

/* What the others see after rank 0 was killed by SIGKILL, at the moment `when`. */
enum when { WITH_THE_LOCK, WHILE_FILLING };
struct deaths {
    _Atomic int is_dying;
    _Atomic int answers; /* of the others */
    enum when when;
};
static struct deaths *deaths;

static void die(struct varve_comm *comm, struct vv_lender *lender) {
    struct vv_block block = block_of(0);
    struct vv_loan loan;
    if (deaths->when == WITH_THE_LOCK) {
#ifdef VARVE_FAULTS
        vv_fault_set("peers.lender.locked=kill");
#endif
        deaths->is_dying = 1;
        vv_lender_ops.take(lender, KEY, &block, NULL, 0, &loan);
        group_fail(comm, "it lives");
    }
    must_be(comm, vv_lender_ops.take(lender, KEY, &block, NULL, 0, &loan), VV_LOAN_EMPTY, "the first");
    deaths->is_dying = 1;
    vv_sleep_ms(50); /* the others wait by now */
    raise(SIGKILL);
}

/* One answer in time; the next one costs nothing. */
static void live_on(struct varve_comm *comm, struct vv_lender *lender) {
    struct vv_block block = block_of(0), next = block_of(1);
    struct vv_loan loan;
    while (!deaths->is_dying)
        vv_sleep_ms(1);
    if (deaths->when == WITH_THE_LOCK)
        vv_sleep_ms(100);
    uint64_t begin = vv_clock_ns();
    must_be(comm, vv_lender_ops.take(lender, KEY, &block, NULL, 1, &loan), VV_LOAN_NONE, "after a death");
    enum vv_loan_state state = vv_lender_ops.take(lender, KEY, &next, NULL, 1, &loan);
    if (state == VV_LOAN_EMPTY) {
        vv_lender_ops.filled(lender, &loan, 0, 0);
        vv_lender_ops.give_back(lender, &loan);
    } else if (state != (deaths->when == WITH_THE_LOCK ? VV_LOAN_NONE : VV_LOAN_FULL))
        group_fail(comm, "another block: state %d", (int)state);
    if (vv_clock_ns() - begin > UINT64_C(3000000000))
        group_fail(comm, "it took too long");
    deaths->answers++;
}

static void outlive(struct varve_comm *comm, void *arg) {
    struct vv_lender *lender = open_lender(comm, NULL);
    (void)arg;
    if (comm->rank == 0)
        die(comm, lender);
    live_on(comm, lender);
    vv_lender_close(lender);
}

static void one_dies(enum when when) {
    const struct group_options options = {.grace_ms = 4000};
    struct group_end end;
    deaths = group_memory(sizeof *deaths);
    deaths->when = when;
    group_run(RANKS, outlive, NULL, &options, &end);
    assert_int_equal(end.first, 0);
    assert_true(WIFSIGNALED(end.status[0]) && WTERMSIG(end.status[0]) == SIGKILL);
    assert_int_equal(deaths->answers, RANKS - 1);
    group_memory_free(deaths, sizeof *deaths);
}

static void a_rank_that_dies_with_the_lock_holds_up_nobody(void **state) {
    (void)state;
#ifndef VARVE_FAULTS
    skip();
#endif
    one_dies(WITH_THE_LOCK);
}

static void a_rank_that_dies_while_it_reads_holds_up_nobody(void **state) {
    (void)state;
    one_dies(WHILE_FILLING);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_share_what_one_has_read),
        cmocka_unit_test(nobody_waits_for_parts_that_do_not_come),
        cmocka_unit_test(all_of_a_block_replaces_its_parts),
        cmocka_unit_test(a_node_without_memory_reads_on),
        cmocka_unit_test(a_rank_that_comes_again_counts_once),
        cmocka_unit_test(a_failure_is_nobody_elses),
        cmocka_unit_test(a_rank_that_stops_holds_up_nobody_for_long),
        cmocka_unit_test(a_slow_rank_is_waited_for),
        cmocka_unit_test(nobody_waits_for_ranks_that_will_not_come),
        cmocka_unit_test(ranks_that_all_want_something_else_go_on),
        cmocka_unit_test(slots_that_are_left_behind_cost_time_once),
        cmocka_unit_test(a_rank_that_dies_with_the_lock_holds_up_nobody),
        cmocka_unit_test(a_rank_that_dies_while_it_reads_holds_up_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
