/* A group of one: agrees with itself. */
#include <errno.h>

#include "comm/comm.h"

static int single_reduce_min(struct varve_comm *comm, uint64_t *values, size_t count) {
    (void)comm, (void)values, (void)count;
    return 0;
}

static int single_broadcast(struct varve_comm *comm, void *data, size_t size, uint32_t root) {
    (void)comm, (void)data, (void)size, (void)root;
    return 0;
}

static int single_gather(struct varve_comm *comm, const void *data, size_t size, varve_gather_fn fn, void *arg) {
    return fn(arg, comm->rank, data, size);
}

static int single_exchange(struct varve_comm *comm, const struct varve_message *out, size_t out_count,
                           const uint32_t *from, size_t from_count, varve_gather_fn fn, void *arg) {
    int rc = out_count == from_count ? 0 : -EINVAL;
    (void)from;
    for (size_t i = 0; i < out_count && rc == 0; i++)
        rc = out[i].rank == comm->rank ? fn(arg, comm->rank, out[i].data, out[i].size) : -EINVAL;
    return rc;
}

static uint32_t single_node_size(struct varve_comm *comm, uint32_t node) {
    (void)node;
    return comm->ranks;
}

static uint32_t single_rank_of(struct varve_comm *comm, uint32_t node, uint32_t local) {
    (void)node, (void)local;
    return comm->rank;
}

static void single_place_of(struct varve_comm *comm, uint32_t rank, uint32_t *node, uint32_t *local) {
    (void)comm, (void)rank;
    *node = *local = 0;
}

static void single_close(struct varve_comm *comm) {
    (void)comm;
}

static const struct varve_comm_ops single_ops = {
    .size = sizeof(struct varve_comm_ops),
    .name = "single",
    .reduce_min = single_reduce_min,
    .broadcast = single_broadcast,
    .gather = single_gather,
    .close = single_close,
    .exchange = single_exchange,
    .node_size = single_node_size,
    .rank_of = single_rank_of,
    .place_of = single_place_of,
};

struct varve_comm vv_comm_single = {.ops = &single_ops, .ranks = 1, .nodes = 1, .least_local = 1};
