/* Running sums of all ranks, in a group with exchange and in one without. */
#include <inttypes.h>
#include <varve/varve_comm.h>

#include "comm/comm.h"
#include "group.h"
#include "test.h"

struct plan {
    int has_exchange;
};

/* Different on each rank, and large enough that a lost carry shows. */
static uint64_t value_of(uint32_t rank, size_t i) {
    return ((uint64_t)rank + 1) * (i == 0 ? 1 : UINT64_C(0x100000001));
}

static void add_up(struct varve_comm *comm, void *arg) {
    const struct plan *plan = arg;
    const struct varve_comm_ops *own = comm->ops;
    struct varve_comm_ops ops = *own;
    uint64_t values[2], total[2], here[2] = {0}, all[2] = {0};
    if (!plan->has_exchange)
        ops.exchange = NULL;
    comm->ops = &ops;
    for (size_t i = 0; i < 2; i++) {
        values[i] = value_of(comm->rank, i);
        for (uint32_t rank = 0; rank < comm->ranks; rank++) {
            here[i] += rank <= comm->rank ? value_of(rank, i) : 0;
            all[i] += value_of(rank, i);
        }
    }
    int rc = vv_comm_sums(comm, values, 2, total);
    comm->ops = own;
    if (rc)
        group_fail(comm, "sums: %d", rc);
    for (size_t i = 0; i < 2; i++)
        if (values[i] != here[i] || total[i] != all[i])
            group_fail(comm, "WRONG: %" PRIu64 " of %" PRIu64, values[i], total[i]);
}

static void run(int has_exchange) {
    const struct plan plan = {has_exchange};
    const uint32_t ranks[] = {1, 2, 3, 4, 5, 8, 13};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        group_must_run(ranks[i], add_up, &plan, NULL, has_exchange ? "with exchange" : "without");
}

static void sums_by_doubling(void **state) {
    (void)state;
    run(1);
}

static void sums_in_turn(void **state) {
    (void)state;
    run(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_by_doubling), cmocka_unit_test(sums_in_turn)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
