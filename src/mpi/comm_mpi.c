/* The group of processes as MPI has it: all calls of MPI that Varve makes are in this folder.
 *
 * They are a library of their own (libvarve_mpi) on the public headers, so that programs without MPI need none, and so
 * that it can be built for more than one MPI. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve_comm.h>
#include <varve/varve_mpi.h>

#include "comm_mpi.h"

int vv_mpi_code_of(struct varve_comm *comm, int mpi_rc) {
    if (mpi_rc != MPI_SUCCESS)
        ((struct mpi_comm *)comm)->is_broken = 1;
    return mpi_rc == MPI_SUCCESS ? 0 : -ECOMM;
}

/* From unsigned to signed and back, in the same order. */
static void flip(uint64_t *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        values[i] ^= UINT64_C(1) << 63;
}

/* MPICH 4.0 compares unsigned numbers of 64 bits as if they were signed: so they are. */
static int mpi_reduce_min(struct varve_comm *comm, uint64_t *values, size_t count) {
    if (vv_mpi_is_broken(comm))
        return -ECOMM;
    flip(values, count);
    int rc = vv_mpi_reduce_min(vv_mpi_group_of(comm), (int64_t *)values, (int)count);
    flip(values, count);
    return vv_mpi_code_of(comm, rc);
}

static int mpi_broadcast(struct varve_comm *comm, void *data, size_t size, uint32_t root) {
    int rc = vv_mpi_is_broken(comm) ? -ECOMM : 0;
    for (size_t at = 0; at < size && rc == 0; at += PIECE_MAX) {
        size_t piece = size - at < PIECE_MAX ? size - at : PIECE_MAX;
        rc = vv_mpi_code_of(comm, vv_mpi_broadcast(vv_mpi_group_of(comm), (char *)data + at, (int)piece, (int)root));
    }
    return rc;
}

static int receive(struct varve_comm *comm, uint32_t from, char *buffer, int *size_out) {
    size_t which = 0;
    int rc = vv_mpi_next(vv_mpi_group_of(comm), TAG_GATHER, &from, 1, &which, size_out);
    if (rc == MPI_SUCCESS)
        rc = vv_mpi_receive(vv_mpi_group_of(comm), TAG_GATHER, from, buffer, *size_out);
    return vv_mpi_code_of(comm, rc);
}

static int send(struct varve_comm *comm, const void *data, size_t size) {
    MPI_Request request;
    int rc = MPI_Isend(data, (int)size, MPI_BYTE, 0, TAG_GATHER, vv_mpi_group_of(comm), &request);
    return vv_mpi_code_of(comm, rc == MPI_SUCCESS ? vv_mpi_wait(&request, FOR_EVER) : rc);
}

/* Room for the largest message, before the first is sent: a rank 0 without memory must not leave messages behind that a
 * later gather would take for its own. The same answer on all ranks. */
static int reserve_buffer(struct varve_comm *comm, size_t size, char **buffer) {
    uint64_t largest = ~(uint64_t)size, has_capacity = 1;
    int rc = mpi_reduce_min(comm, &largest, 1);
    largest = ~largest;
    if (rc == 0 && comm->rank == 0) {
        *buffer = largest <= PIECE_MAX ? malloc(largest ? largest : 1) : NULL;
        has_capacity = *buffer != NULL;
    }
    if (rc == 0)
        rc = mpi_reduce_min(comm, &has_capacity, 1);
    return rc ? rc : has_capacity ? 0 : largest > PIECE_MAX ? -EMSGSIZE : -ENOMEM;
}

static int mpi_gather(struct varve_comm *comm, const void *data, size_t size, varve_gather_fn fn, void *arg) {
    char *buffer = NULL;
    int rc = reserve_buffer(comm, size, &buffer);
    if (rc || comm->rank != 0) {
        free(buffer);
        return rc ? rc : send(comm, data, size);
    }
    int result = fn(arg, 0, data, size), received = 0;
    for (uint32_t rank = 1; rank < comm->ranks && rc == 0; rank++) {
        rc = receive(comm, rank, buffer, &received);
        if (rc == 0 && result == 0)
            result = fn(arg, rank, buffer, (size_t)received);
    }
    free(buffer);
    return rc ? rc : result;
}

/* ---- made and closed ---- */

static void mpi_close(struct varve_comm *comm) {
    struct mpi_comm *own = (struct mpi_comm *)comm, *second = (struct mpi_comm *)comm->second;
    int is_over = 0;
    MPI_Finalized(&is_over);
    if (!is_over && second && !second->is_broken) /* to free it is collective */
        MPI_Comm_free(&second->mpi);
    if (!is_over && !own->is_broken)
        MPI_Comm_free(&own->mpi);
    free(second);
    vv_mpi_forget_nodes(own);
    free(own);
}

static const struct varve_comm_ops mpi_ops = {
    .size = sizeof(struct varve_comm_ops),
    .name = "mpi",
    .reduce_min = mpi_reduce_min,
    .broadcast = mpi_broadcast,
    .gather = mpi_gather,
    .close = mpi_close,
    .exchange = vv_mpi_exchange,
    .node_size = vv_mpi_node_size,
    .rank_of = vv_mpi_rank_of,
    .place_of = vv_mpi_place_of,
};

__attribute__((format(printf, 3, 4))) static int refuse(struct varve_error *error, int code, const char *format, ...) {
    if (error) {
        va_list words;
        memset(error, 0, sizeof *error);
        error->code = code;
        error->rank = -1;
        va_start(words, format);
        vsnprintf(error->text, sizeof error->text, format, words);
        va_end(words);
    }
    return code;
}

/* ---- the MPI of the program ---- */

static const struct varve_mpi_kind our_kind = VARVE_MPI_KIND;

static int is_our_family(const char *family) {
    return strcmp(family, our_kind.family) == 0;
}

/* The family as a library names itself; NULL: we cannot tell. Some are of a family and say only their own name. */
static const char *family_of(const char *text) {
    static const char *const names[][2] = {
        {"Open MPI", "Open MPI"}, {"MPICH", "MPICH"}, {"Intel(R) MPI", "MPICH"}, {"MVAPICH", "MPICH"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strstr(text, names[i][0]))
            return names[i][1];
    return NULL;
}

/* Two MPIs in one process: the functions are of that which was loaded first, the handles compiled into us may be of the
 * other. Nothing that takes a handle may be called before this has returned 0. */
static int check_kind(const struct varve_mpi_kind *kind, const void *mpi, struct varve_error *error) {
    char loaded[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length;
    if (!kind || !kind->family || !kind->version || !mpi)
        return refuse(error, -EINVAL, "varve_open_mpi_of needs a communicator, and the kind of its MPI");
    if (!is_our_family(kind->family) || kind->comm_size != our_kind.comm_size)
        return refuse(
            error, VARVE_UNSUPPORTED,
            "this program is compiled with %s %s, and its libvarve_mpi is built for %s %s: build Varve with the "
            "mpicc of the program, or the program with that of Varve",
            kind->family, kind->version, our_kind.family, our_kind.version);
    MPI_Get_library_version(loaded, &length);
    loaded[strcspn(loaded, ",\n")] = '\0'; /* the rest is how it was built */
    const char *family = family_of(loaded);
    if (family && family_of(our_kind.family) && !is_our_family(family))
        return refuse(
            error, VARVE_UNSUPPORTED,
            "the MPI that this process has loaded is \"%s\", and libvarve_mpi is built for %s %s: look at what "
            "the program and its libraries are linked with (ldd)",
            loaded, our_kind.family, our_kind.version);
    return 0;
}

static int duplicate(MPI_Comm mpi, MPI_Comm *out) {
    if (MPI_Comm_dup(mpi, out) != MPI_SUCCESS)
        return -ECOMM;
    MPI_Comm_set_errhandler(*out, MPI_ERRORS_RETURN);
    MPI_Comm_set_name(*out, "varve");
    return 0;
}

/* The levels of the ranks may differ. */
static int may_use_threads(struct mpi_comm *own, int *may_out) {
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    *may_out = level == MPI_THREAD_MULTIPLE;
    return MPI_Allreduce(MPI_IN_PLACE, may_out, 1, MPI_INT, MPI_MIN, own->mpi) == MPI_SUCCESS ? 0 : -ECOMM;
}

static int make_second(struct mpi_comm *own) {
    int may = 0, rc = may_use_threads(own, &may);
    if (rc || !may)
        return rc;
    struct mpi_comm *second = calloc(1, sizeof *second);
    int has_capacity = second != NULL;
    if (MPI_Allreduce(MPI_IN_PLACE, &has_capacity, 1, MPI_INT, MPI_MIN, own->mpi) != MPI_SUCCESS)
        rc = -ECOMM;
    if (rc == 0 && has_capacity) {
        *second = *own;
        rc = duplicate(own->mpi, &second->mpi);
    }
    if (rc || !has_capacity) /* without memory for it, one thread at a time will do */
        free(second);
    else
        own->comm.second = &second->comm;
    return rc;
}

static int set_up(MPI_Comm mpi, struct mpi_comm *own) {
    int rank, ranks, rc = duplicate(mpi, &own->mpi);
    if (rc)
        return rc;
    MPI_Comm_rank(own->mpi, &rank);
    MPI_Comm_size(own->mpi, &ranks);
    own->comm.ops = &mpi_ops;
    own->comm.rank = (uint32_t)rank;
    own->comm.ranks = (uint32_t)ranks;
    rc = vv_mpi_find_nodes(own);
    if (rc == 0 && (rc = make_second(own)) != 0)
        vv_mpi_forget_nodes(own);
    if (rc == -ENOMEM) /* on all ranks; after other errors nothing that is collective works any more */
        MPI_Comm_free(&own->mpi);
    return rc;
}

static int check_comm(MPI_Comm mpi, struct varve_error *error) {
    int is_ready = 0, is_over = 0, is_inter = 0;
    MPI_Initialized(&is_ready);
    MPI_Finalized(&is_over);
    if (!is_ready || is_over)
        return refuse(error, -EINVAL, "varve_open_mpi must be called between MPI_Init and MPI_Finalize");
    if (mpi == MPI_COMM_NULL)
        return refuse(error, -EINVAL, "varve_open_mpi needs a communicator, and got MPI_COMM_NULL");
    MPI_Comm_test_inter(mpi, &is_inter);
    if (is_inter)
        return refuse(error, -EINVAL, "varve_open_mpi needs an ordinary communicator, and got an intercommunicator");
    return 0;
}

int varve_open_mpi_of(const struct varve_mpi_kind *kind, const void *mpi, const char *store, const char *name,
                      const struct varve_options *options, struct varve_session **out, struct varve_error *error) {
    MPI_Comm of_program;
    if (out)
        *out = NULL;
    int rc = check_kind(kind, mpi, error);
    if (rc)
        return rc;
    memcpy(&of_program, mpi, sizeof of_program);
    rc = check_comm(of_program, error);
    if (rc)
        return rc;
    struct mpi_comm *own = calloc(1, sizeof *own);
    if (!own) /* a rank without so little memory cannot even tell the others */
        return refuse(error, -ENOMEM, "no memory for a session");
    rc = set_up(of_program, own);
    if (rc) {
        free(own);
        return refuse(error, rc, "%s",
                      rc == -ENOMEM ? "no memory for the table of nodes"
                                    : "MPI could not make a communicator for the session");
    }
    return varve_open_comm(&own->comm, store, name, options, out, error);
}
