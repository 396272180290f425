/* A benchmark with MPI: all calls of MPI are here.
 *
 * A program that was not started by mpirun does without MPI: starting it for one process takes a while, and leaves
 * variables in the environment that would confuse the children of a benchmark. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <varve/varve_mpi.h>

#include "bench.h"
#include "ranks.h"

#define TAG_COLLECT 1
#define TAG_SWAP 2
#define POLL_NS 50000 /* between two looks whether the others have come */

static int is_started;
static int own, all = 1;

/* In the order of MPI's levels. */
static const struct {
    const char *name;
    int level;
} levels[] = {{"single", MPI_THREAD_SINGLE},
              {"funneled", MPI_THREAD_FUNNELED},
              {"serialized", MPI_THREAD_SERIALIZED},
              {"multiple", MPI_THREAD_MULTIPLE}};
#define LEVELS (sizeof levels / sizeof levels[0])
static int asked = MPI_THREAD_MULTIPLE, given = MPI_THREAD_SINGLE;

int ranks_ask_threads(const char *level) {
    for (size_t i = 0; i < LEVELS; i++)
        if (strcmp(level, levels[i].name) == 0) {
            asked = levels[i].level;
            return 0;
        }
    return -1;
}

const char *ranks_threads(void) {
    for (size_t i = 0; i < LEVELS && is_started; i++)
        if (levels[i].level == given)
            return levels[i].name;
    return "none";
}

/* What Open MPI, MPICH and the launchers that speak PMI or PMIx tell their processes. */
static int is_launched(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (getenv(names[i]))
            return 1;
    return 0;
}

void ranks_begin(int *argc, char ***argv) {
    if (!is_launched())
        return;
    bench_check(MPI_Init_thread(argc, argv, asked, &given) == MPI_SUCCESS, "MPI_Init_thread");
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    MPI_Comm_size(MPI_COMM_WORLD, &all);
    is_started = 1;
}

void ranks_end(void) {
    if (is_started)
        MPI_Finalize();
}

unsigned ranks_own(void) {
    return (unsigned)own;
}

unsigned ranks_all(void) {
    return (unsigned)all;
}

/* Waiting asleep: a rank that is done must not take the processor from those that are measured. */
static void finish(MPI_Request *requests, int count) {
    int is_done = 0;
    MPI_Testall(count, requests, &is_done, MPI_STATUSES_IGNORE);
    while (!is_done) {
        nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
        MPI_Testall(count, requests, &is_done, MPI_STATUSES_IGNORE);
    }
}

void ranks_meet(void) {
    MPI_Request request;
    if (!is_started)
        return;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    finish(&request, 1);
}

static double reduce(double value, MPI_Op op) {
    if (is_started)
        MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, op, MPI_COMM_WORLD);
    return value;
}

double ranks_most(double value) {
    return reduce(value, MPI_MAX);
}

double ranks_sum(double value) {
    return reduce(value, MPI_SUM);
}

/* Rank 0 takes them one by one, so that it needs memory for one of them. */
void ranks_collect(const void *data, size_t size, ranks_take_fn fn, void *arg) {
    MPI_Request request;
    bench_check(size <= INT_MAX, "more bytes than MPI can count");
    if (own != 0) {
        MPI_Isend(data, (int)size, MPI_BYTE, 0, TAG_COLLECT, MPI_COMM_WORLD, &request);
        finish(&request, 1);
        return;
    }
    fn(arg, 0, data, size);
    for (int rank = 1; rank < all; rank++) {
        MPI_Status status;
        int count = 0;
        MPI_Probe(rank, TAG_COLLECT, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        void *bytes = malloc(count ? (size_t)count : 1);
        bench_check(bytes != NULL, "memory");
        MPI_Recv(bytes, count, MPI_BYTE, rank, TAG_COLLECT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        fn(arg, (unsigned)rank, bytes, (size_t)count);
        free(bytes);
    }
}

void ranks_swap(unsigned to, const void *out, unsigned from, void *in, size_t size) {
    MPI_Request requests[2];
    if (to == (unsigned)own && from == to) {
        memcpy(in, out, size);
        return;
    }
    bench_check(size <= INT_MAX, "more bytes than MPI can count");
    MPI_Irecv(in, (int)size, MPI_BYTE, (int)from, TAG_SWAP, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, (int)size, MPI_BYTE, (int)to, TAG_SWAP, MPI_COMM_WORLD, &requests[1]);
    finish(requests, 2);
}

int ranks_open(const char *store, const char *name, const struct varve_options *options, struct varve_session **out,
               struct varve_error *error) {
    return is_started ? varve_open_mpi(MPI_COMM_WORLD, store, name, options, out, error)
                      : varve_open(store, name, options, out, error);
}
