/* A benchmark without MPI on many ranks: those that the environment names, in a group of their own beside the
 * session's. Without RANK in the environment it is one process. */
#include <stdlib.h>
#include <string.h>
#include <varve/varve_env.h>

#include "bench.h"
#include "ranks.h"

static struct varve_comm *comm;

int ranks_ask_threads(const char *level) {
    (void)level;
    return 0;
}

const char *ranks_threads(void) {
    return comm ? "env" : "none";
}

void ranks_begin(int *argc, char ***argv) {
    struct varve_error error;
    (void)argc, (void)argv;
    if (getenv("RANK"))
        bench_check(varve_comm_env(&comm, &error) == 0, error.text);
}

void ranks_end(void) {
    if (comm)
        comm->ops->close(comm);
}

unsigned ranks_own(void) {
    return comm ? comm->rank : 0;
}

unsigned ranks_all(void) {
    return comm ? comm->ranks : 1;
}

void ranks_meet(void) {
    uint64_t value = 0;
    if (comm)
        bench_check(comm->ops->reduce_min(comm, &value, 1) == 0, "a rank is gone");
}

struct reduction {
    double sum, most;
};

static int add(void *arg, uint32_t rank, const void *data, size_t size) {
    struct reduction *all = arg;
    double value = 0;
    memcpy(&value, data, size < sizeof value ? size : sizeof value);
    all->sum += value;
    all->most = rank == 0 || value > all->most ? value : all->most;
    return 0;
}

static struct reduction reduce(double value) {
    struct reduction all = {value, value};
    if (!comm)
        return all;
    all.sum = 0;
    bench_check(comm->ops->gather(comm, &value, sizeof value, add, &all) == 0, "a rank is gone");
    bench_check(comm->ops->broadcast(comm, &all, sizeof all, 0) == 0, "a rank is gone");
    return all;
}

double ranks_most(double value) {
    return reduce(value).most;
}

double ranks_sum(double value) {
    return reduce(value).sum;
}

struct taking {
    ranks_take_fn fn;
    void *arg;
};

static int take(void *arg, uint32_t rank, const void *data, size_t size) {
    const struct taking *taking = arg;
    taking->fn(taking->arg, rank, data, size);
    return 0;
}

void ranks_collect(const void *data, size_t size, ranks_take_fn fn, void *arg) {
    struct taking taking = {fn, arg};
    if (comm)
        bench_check(comm->ops->gather(comm, data, size, take, &taking) == 0, "a rank is gone");
    else
        fn(arg, 0, data, size);
}

struct swapping {
    void *in;
    size_t size;
};

static int keep_it(void *arg, uint32_t rank, const void *data, size_t size) {
    const struct swapping *swapping = arg;
    (void)rank;
    if (size != swapping->size)
        return -1;
    memcpy(swapping->in, data, size);
    return 0;
}

void ranks_swap(unsigned to, const void *out, unsigned from, void *in, size_t size) {
    struct swapping swapping = {in, size};
    struct varve_message message = {to, out, size};
    if (comm)
        bench_check(comm->ops->exchange(comm, &message, 1, &from, 1, keep_it, &swapping) == 0, "a rank is gone");
    else
        memcpy(in, out, size);
}

int ranks_open(const char *store, const char *name, const struct varve_options *options, struct varve_session **out,
               struct varve_error *error) {
    return comm ? varve_open_env(store, name, options, out, error) : varve_open(store, name, options, out, error);
}
