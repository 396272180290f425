/* bench-group: what a call of a group takes, over MPI and over TCP (src/env), by the same processes one after the
 * other.
 *
 *   mpirun -n RANKS bench-group [ROUNDS]
 *
 * Both groups are those of the library, without a session. Times are microseconds of the slowest rank, the median of
 * ROUNDS calls (300 unless told), each after a barrier of MPI. Between calls nobody computes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <varve/varve_env.h>
#include <varve/varve_mpi.h>

#define RANKS_MAX 64
#define LARGEST ((size_t)64 << 10)

static struct varve_comm *made;
static uint8_t data[LARGEST];

/* Where the library would take it. */
int varve_open_comm(struct varve_comm *comm, const char *store, const char *name, const struct varve_options *options,
                    struct varve_session **out, struct varve_error *error) {
    (void)store, (void)name, (void)options, (void)error;
    *out = NULL;
    made = comm;
    return 0;
}

static void stop(const char *what, const char *why) {
    fprintf(stderr, "bench-group: %s: %s\n", what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int take(void *arg, uint32_t rank, const void *bytes, size_t size) {
    (void)arg, (void)rank, (void)bytes, (void)size;
    return 0;
}

static int reduce(struct varve_comm *comm, size_t count) {
    uint64_t values[512] = {0};
    return comm->ops->reduce_min(comm, values, count);
}

static int broadcast(struct varve_comm *comm, size_t size) {
    return comm->ops->broadcast(comm, data, size, 0);
}

static int gather(struct varve_comm *comm, size_t size) {
    return comm->ops->gather(comm, data, size, take, NULL);
}

static int exchange(struct varve_comm *comm, size_t size) {
    struct varve_message out[RANKS_MAX];
    uint32_t from[RANKS_MAX];
    for (uint32_t rank = 0; rank < comm->ranks; rank++) {
        out[rank] = (struct varve_message){rank, data, size};
        from[rank] = rank;
    }
    return comm->ops->exchange(comm, out, comm->ranks, from, comm->ranks, take, NULL);
}

static const struct {
    const char *name;
    int (*call)(struct varve_comm *comm, size_t size);
    size_t size;
} calls[] = {{"reduce_min, 1 value (a barrier)", reduce, 1},  {"reduce_min, 512 values", reduce, 512},
             {"broadcast, 64 KiB", broadcast, LARGEST},       {"gather, 1 KiB each", gather, 1024},
             {"exchange, all to all, 1 KiB", exchange, 1024}, {"exchange, all to all, 64 KiB", exchange, LARGEST}};

static int compare(const void *a, const void *b) {
    const double *left = a, *right = b;
    return *left < *right ? -1 : *left > *right;
}

/* The first calls open the connections, and do not count. */
static double measure(struct varve_comm *comm, size_t which, int rounds) {
    double *times = malloc((size_t)rounds * sizeof *times), median;
    if (!times)
        stop("memory", "none");
    for (int i = -10; i < rounds; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begun = now();
        if (calls[which].call(comm, calls[which].size) != 0)
            stop(calls[which].name, "failed");
        double time = now() - begun, most;
        MPI_Allreduce(&time, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (i >= 0)
            times[i] = most;
    }
    qsort(times, (size_t)rounds, sizeof *times, compare);
    median = times[rounds / 2];
    free(times);
    return median * 1e6;
}

static struct varve_comm *open_env(int rank, int ranks) {
    struct varve_comm *comm = NULL;
    struct varve_error error;
    char text[16];
    snprintf(text, sizeof text, "%d", rank);
    setenv("RANK", text, 1);
    snprintf(text, sizeof text, "%d", ranks);
    setenv("WORLD_SIZE", text, 1);
    setenv("MASTER_ADDR", "127.0.0.1", 0);
    setenv("MASTER_PORT", "28500", 0);
    if (varve_comm_env(&comm, &error) != 0)
        stop("varve_comm_env", error.text);
    return comm;
}

int main(int argc, char **argv) {
    struct varve_session *session;
    struct varve_error error;
    int rank, ranks, level, rounds = argc > 1 ? atoi(argv[1]) : 300;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks > RANKS_MAX || rounds < 1)
        stop("usage", "bench-group [ROUNDS], on at most 64 ranks");
    if (varve_open_mpi(MPI_COMM_WORLD, "none", "none", NULL, &session, &error) != 0)
        stop("varve_open_mpi", error.text);
    struct varve_comm *mpi = made, *env = open_env(rank, ranks);
    if (rank == 0)
        printf("%d ranks, median of %d calls, microseconds\n%-34s %10s %10s\n", ranks, rounds, "call", "MPI", "env");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        double of_mpi = measure(mpi, i, rounds), of_env = measure(env, i, rounds);
        if (rank == 0)
            printf("%-34s %10.0f %10.0f\n", calls[i].name, of_mpi, of_env);
    }
    mpi->ops->close(mpi);
    env->ops->close(env);
    MPI_Finalize();
    return 0;
}
