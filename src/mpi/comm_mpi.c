/* The group of processes as MPI has it: all calls of MPI that Varve makes are in this file.
 *
 * It is a library of its own (libvarve_mpi) on the public headers, so that programs without MPI need none, and so that it can be built
 * for more than one MPI.
 *
 * MPI libraries wait by looking again and again. Here a rank often waits for others that still write, on the same processors, so it sleeps between two
 * looks once the answer does not come at once. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <varve/varve_comm.h>
#include <varve/varve_mpi.h>

#define PIECE_MAX ((size_t)1 << 30) /* MPI counts with int */
#define TAG_COLLECT 1
#define LOOKS 200            /* before the first sleep */
#define SLEEP_MAX_NS 500000L

struct mpi_comm {
    struct varve_comm comm;
    MPI_Comm mpi;  /* a duplicate: our messages meet nobody else's */
    int is_broken; /* a call has failed on this rank: the others wait for it, or will, so nothing is begun any more */
};

static int code_of(struct varve_comm *comm, int mpi_rc) {
    if (mpi_rc != MPI_SUCCESS)
        ((struct mpi_comm *)comm)->is_broken = 1;
    return mpi_rc == MPI_SUCCESS ? 0 : -ECOMM;
}

static int is_broken(const struct varve_comm *comm) {
    return ((const struct mpi_comm *)comm)->is_broken;
}

static MPI_Comm group_of(struct varve_comm *comm) {
    return ((struct mpi_comm *)comm)->mpi;
}

/* After so many looks without an answer. */
static void pause_after(unsigned looks) {
    long ns = looks < LOOKS ? 0 : (long)(looks - LOOKS + 1) * 10000;
    struct timespec time = {0, ns < SLEEP_MAX_NS ? ns : SLEEP_MAX_NS};
    if (ns > 0)
        nanosleep(&time, NULL);
}

static int finish(struct varve_comm *comm, int rc, MPI_Request *request) {
    int is_done = 0;
    if (rc == MPI_SUCCESS)
        rc = MPI_Test(request, &is_done, MPI_STATUS_IGNORE);
    for (unsigned looks = 0; rc == MPI_SUCCESS && !is_done; looks++) {
        pause_after(looks);
        rc = MPI_Test(request, &is_done, MPI_STATUS_IGNORE);
    }
    return code_of(comm, rc);
}

/* From unsigned to signed and back, in the same order. */
static void flip(uint64_t *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        values[i] ^= UINT64_C(1) << 63;
}

/* MPICH 4.0 compares unsigned numbers of 64 bits as if they were signed: so they are. */
static int mpi_least(struct varve_comm *comm, uint64_t *values, size_t count) {
    MPI_Request request;
    if (is_broken(comm))
        return -ECOMM;
    flip(values, count);
    int rc = finish(comm, MPI_Iallreduce(MPI_IN_PLACE, values, (int)count, MPI_INT64_T, MPI_MIN,
                                         group_of(comm), &request),
                    &request);
    flip(values, count);
    return rc;
}

static int mpi_broadcast(struct varve_comm *comm, void *data, size_t size, uint32_t root) {
    if (is_broken(comm))
        return -ECOMM;
    for (size_t at = 0; at < size; at += PIECE_MAX) {
        size_t piece = size - at < PIECE_MAX ? size - at : PIECE_MAX;
        MPI_Request request;
        int rc = finish(comm, MPI_Ibcast((char *)data + at, (int)piece, MPI_BYTE, (int)root, group_of(comm), &request),
                        &request);
        if (rc)
            return rc;
    }
    return 0;
}

static int receive(struct varve_comm *comm, int from, char *buffer, int *size_out) {
    MPI_Status status;
    MPI_Message message;
    int is_there = 0, rc = MPI_SUCCESS;
    for (unsigned looks = 0; rc == MPI_SUCCESS && !is_there; looks++) {
        pause_after(looks);
        rc = MPI_Improbe(from, TAG_COLLECT, group_of(comm), &is_there, &message, &status);
    }
    if (rc == MPI_SUCCESS)
        rc = MPI_Get_count(&status, MPI_BYTE, size_out);
    if (rc == MPI_SUCCESS)
        rc = MPI_Mrecv(buffer, *size_out, MPI_BYTE, &message, &status);
    return code_of(comm, rc);
}

/* Room for the largest message, before the first is sent: a rank 0 without memory must not leave messages behind that a later collect
 * would take for its own. The same answer on all ranks. */
static int make_room(struct varve_comm *comm, size_t size, char **buffer) {
    uint64_t largest = ~(uint64_t)size, has_room = 1;
    int rc = mpi_least(comm, &largest, 1);
    largest = ~largest;
    if (rc == 0 && comm->rank == 0) {
        *buffer = largest <= PIECE_MAX ? malloc(largest ? largest : 1) : NULL;
        has_room = *buffer != NULL;
    }
    if (rc == 0)
        rc = mpi_least(comm, &has_room, 1);
    return rc ? rc : has_room ? 0 : largest > PIECE_MAX ? -EMSGSIZE : -ENOMEM;
}

static int mpi_collect(struct varve_comm *comm, const void *data, size_t size, varve_collect_fn fn, void *arg) {
    char *buffer = NULL;
    int rc = make_room(comm, size, &buffer);
    if (rc || comm->rank != 0) {
        MPI_Request request;
        free(buffer);
        return rc ? rc
                  : finish(comm, MPI_Isend(data, (int)size, MPI_BYTE, 0, TAG_COLLECT, group_of(comm), &request), &request);
    }
    int result = fn(arg, 0, data, size), received = 0;
    for (uint32_t rank = 1; rank < comm->ranks && rc == 0; rank++) {
        rc = receive(comm, (int)rank, buffer, &received);
        if (rc == 0 && result == 0)
            result = fn(arg, rank, buffer, (size_t)received);
    }
    free(buffer);
    return rc ? rc : result;
}

static void mpi_close(struct varve_comm *comm) {
    struct mpi_comm *own = (struct mpi_comm *)comm;
    int is_over = 0;
    MPI_Finalized(&is_over);
    if (!is_over && !own->is_broken) /* to free it is collective */
        MPI_Comm_free(&own->mpi);
    free(own);
}

static const struct varve_comm_ops mpi_ops = {
    .size = sizeof(struct varve_comm_ops),
    .name = "mpi",
    .least = mpi_least,
    .broadcast = mpi_broadcast,
    .collect = mpi_collect,
    .close = mpi_close,
};

static int refuse(struct varve_error *error, int code, const char *text) {
    if (error) {
        memset(error, 0, sizeof *error);
        error->code = code;
        error->rank = -1;
        strncpy(error->text, text, sizeof error->text - 1);
    }
    return code;
}

static int duplicate(MPI_Comm mpi, struct mpi_comm *own) {
    int rank, ranks;
    if (MPI_Comm_dup(mpi, &own->mpi) != MPI_SUCCESS)
        return -ECOMM;
    MPI_Comm_set_errhandler(own->mpi, MPI_ERRORS_RETURN);
    MPI_Comm_set_name(own->mpi, "varve");
    MPI_Comm_rank(own->mpi, &rank);
    MPI_Comm_size(own->mpi, &ranks);
    own->comm.ops = &mpi_ops;
    own->comm.rank = (uint32_t)rank;
    own->comm.ranks = (uint32_t)ranks;
    return 0;
}

int varve_open_mpi(MPI_Comm mpi, const char *store, const char *name, const struct varve_options *options,
                   struct varve_session **out, struct varve_error *error) {
    int is_ready = 0, is_over = 0;
    MPI_Initialized(&is_ready);
    MPI_Finalized(&is_over);
    if (!is_ready || is_over)
        return refuse(error, -EINVAL, "varve_open_mpi must be called between MPI_Init and MPI_Finalize");
    if (mpi == MPI_COMM_NULL)
        return refuse(error, -EINVAL, "varve_open_mpi needs a communicator, and got MPI_COMM_NULL");
    int is_inter = 0;
    MPI_Comm_test_inter(mpi, &is_inter);
    if (is_inter)
        return refuse(error, -EINVAL, "varve_open_mpi needs an ordinary communicator, and got an intercommunicator");
    struct mpi_comm *own = calloc(1, sizeof *own);
    if (!own) /* a rank without so little memory cannot even tell the others */
        return refuse(error, -ENOMEM, "no memory for a session");
    int rc = duplicate(mpi, own);
    if (rc) {
        free(own);
        return refuse(error, rc, "MPI could not duplicate the communicator");
    }
    return varve_open_comm(&own->comm, store, name, options, out, error);
}
