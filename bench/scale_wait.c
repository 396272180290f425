/* bench-scale under SimGrid's SMPI: the waiting part of src/mpi (comm_mpi_wait.c) for a simulated MPI.
 *
 * There, looking whether a message has come takes simulated time, a tenth of a millisecond unless told otherwise, and a rank
 * that looks and sleeps would measure its own sleep. So here a rank blocks until the message is there: in the order of the
 * list, not as they arrive, which is no faster than the library itself. Sizes are not known before a message
 * is received, so it goes through a buffer of the rank's.
 *
 * SMPI's non-blocking reduction sends from every rank to every rank. Here it is recursive doubling, and a broadcast is a binomial
 * tree, as in real MPI libraries; their messages are counted.
 *
 * All ranks live in one process and take turns inside MPI calls (no privatisation of globals): what is a rank's own is in an array. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mpi/comm_mpi.h"
#include "scale.h"

#define RANKS_MAX 65536
#define BUFFER ((size_t)4 << 20) /* the largest message; of which only what is used takes memory */
#define TAG_LEAST 11
#define TAG_BROADCAST 12

const int scale_is_simulated = 1;

struct waiting {
    struct scale_sent sent;
    char *buffer;
};

static struct waiting all[RANKS_MAX];

static struct waiting *own(void) {
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank >= RANKS_MAX)
        abort();
    return &all[rank];
}

struct scale_sent scale_sent(void) {
    return own()->sent;
}

/* A barrier lets the ranks go one after another; the simulated clock is the same for all. */
double scale_start(MPI_Comm mpi) {
    double latest, now = MPI_Wtime();
    MPI_Allreduce(&now, &latest, 1, MPI_DOUBLE, MPI_MAX, mpi);
    double start = latest + 0.1, rest = start - MPI_Wtime();
    if (rest <= 0)
        abort();
    struct timespec time = {(time_t)rest, (long)((rest - (double)(time_t)rest) * 1e9)};
    nanosleep(&time, NULL);
    return start;
}

int vv_mpi_wait(MPI_Request *request, unsigned looks_max) {
    (void)looks_max;
    return MPI_Wait(request, MPI_STATUS_IGNORE);
}

static int send(MPI_Comm mpi, int tag, const void *data, int size, int to) {
    struct waiting *waiting = own();
    waiting->sent.messages++;
    waiting->sent.bytes += (uint64_t)size;
    return MPI_Send(data, size, MPI_BYTE, to, tag, mpi);
}

static int take_least(MPI_Comm mpi, int64_t *values, int count, int from) {
    int64_t theirs[16];
    if (count > 16)
        abort();
    int size = count * (int)sizeof *values;
    int rc = MPI_Recv(theirs, size, MPI_BYTE, from, TAG_LEAST, mpi, MPI_STATUS_IGNORE);
    for (int i = 0; i < count && rc == MPI_SUCCESS; i++)
        values[i] = theirs[i] < values[i] ? theirs[i] : values[i];
    return rc;
}

/* The ranks beyond the largest power of two give theirs to a partner first, and are told the result. */
int vv_mpi_least(MPI_Comm mpi, int64_t *values, int count) {
    int rank, ranks, half = 1, rc = MPI_SUCCESS, size = count * (int)sizeof *values;
    MPI_Comm_rank(mpi, &rank);
    MPI_Comm_size(mpi, &ranks);
    while (half * 2 <= ranks)
        half *= 2;
    if (rank >= half) {
        rc = send(mpi, TAG_LEAST, values, size, rank - half);
        return rc ? rc : MPI_Recv(values, size, MPI_BYTE, rank - half, TAG_LEAST, mpi, MPI_STATUS_IGNORE);
    }
    if (rank + half < ranks)
        rc = take_least(mpi, values, count, rank + half);
    for (int step = 1; step < half && rc == MPI_SUCCESS; step *= 2) {
        rc = send(mpi, TAG_LEAST, values, size, rank ^ step);
        if (rc == MPI_SUCCESS)
            rc = take_least(mpi, values, count, rank ^ step);
    }
    if (rank + half < ranks && rc == MPI_SUCCESS)
        rc = send(mpi, TAG_LEAST, values, size, rank + half);
    return rc;
}

int vv_mpi_broadcast(MPI_Comm mpi, void *data, int size, int root) {
    int rank, ranks, rc = MPI_SUCCESS, step = 1;
    MPI_Comm_rank(mpi, &rank);
    MPI_Comm_size(mpi, &ranks);
    int number = (rank - root + ranks) % ranks;
    for (; step < ranks && !(number & step); step *= 2)
        ;
    if (number)
        rc = MPI_Recv(data, size, MPI_BYTE, (number - step + root) % ranks, TAG_BROADCAST, mpi, MPI_STATUS_IGNORE);
    for (step /= 2; step > 0 && rc == MPI_SUCCESS; step /= 2)
        if (number + step < ranks)
            rc = send(mpi, TAG_BROADCAST, data, size, (number + step + root) % ranks);
    return rc;
}

int vv_mpi_next(MPI_Comm mpi, int tag, const uint32_t *pending, size_t count, size_t *which, int *size) {
    struct waiting *waiting = own();
    MPI_Status status;
    if (!waiting->buffer && !(waiting->buffer = malloc(BUFFER)))
        abort();
    *which = count - 1; /* the list shrinks at its end, so this keeps its order */
    int rc = MPI_Recv(waiting->buffer, (int)BUFFER, MPI_BYTE, (int)pending[*which], tag, mpi, &status);
    return rc == MPI_SUCCESS ? MPI_Get_count(&status, MPI_BYTE, size) : rc;
}

int vv_mpi_receive(MPI_Comm mpi, int tag, uint32_t rank, void *buffer, int size) {
    (void)mpi, (void)tag, (void)rank;
    memcpy(buffer, own()->buffer, (size_t)size);
    return MPI_SUCCESS;
}
