/* A benchmark with MPI: all calls of MPI are here.
 *
 * A program that was not started by mpirun does without MPI: starting it for one process takes a while, and leaves
 * variables in the environment that would confuse the children of a benchmark. */
#include <stdlib.h>
#include <time.h>
#include <varve/varve_mpi.h>

#include "bench.h"
#include "ranks.h"

#define POLL_NS 50000 /* between two looks whether the others have come */

static int is_started;
static int own, all = 1;

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
    bench_check(MPI_Init(argc, argv) == MPI_SUCCESS, "MPI_Init");
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
void ranks_meet(void) {
    MPI_Request request;
    int is_done = 0;
    if (!is_started)
        return;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
    while (!is_done) {
        nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
        MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
    }
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

int ranks_open(const char *store, const char *name, const struct varve_options *options, struct varve_session **out,
               struct varve_error *error) {
    return is_started ? varve_open_mpi(MPI_COMM_WORLD, store, name, options, out, error)
                      : varve_open(store, name, options, out, error);
}
