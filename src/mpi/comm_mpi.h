/* The group as MPI has it, between the files of this folder. */
#ifndef VARVE_COMM_MPI_H
#define VARVE_COMM_MPI_H

#include <limits.h>
#include <mpi.h>
#include <varve/varve_comm.h>

/* Where the ranks run. Regular placements need no memory; any other takes 8 bytes per rank and 4 per node, on every
 * rank. */
enum mpi_layout {
    ROWS,  /* node 0 has the first ranks, node 1 the next, all equally many */
    ROBIN, /* rank 0 is on node 0, rank 1 on node 1, and so on, round and round */
    TABLE
};

struct mpi_places {
    enum mpi_layout layout;
    uint32_t *first;   /* TABLE: of each node, where its ranks begin in by_node; one more at the end */
    uint32_t *by_node; /* TABLE: the ranks, node by node */
    uint32_t *node_of; /* TABLE: the node of each rank */
};

struct mpi_comm {
    struct varve_comm comm;
    MPI_Comm mpi;  /* a duplicate: our messages meet nobody else's */
    int is_broken; /* a call has failed on this rank: the others wait for it, or will, so nothing is begun any more */
    struct mpi_places places; /* of the second comm: the same memory */
};

#define PIECE_MAX ((size_t)1 << 30) /* MPI counts with int */
enum { TAG_GATHER = 1, TAG_EXCHANGE };

static inline int vv_mpi_is_broken(const struct varve_comm *comm) {
    return ((const struct mpi_comm *)comm)->is_broken;
}

static inline MPI_Comm vv_mpi_group_of(struct varve_comm *comm) {
    return ((struct mpi_comm *)comm)->mpi;
}

/* 0, or -ECOMM: then the comm is broken. */
int vv_mpi_code_of(struct varve_comm *comm, int mpi_rc);

/* Waiting (comm_mpi_wait.c): these return what MPI does. */
#define FOR_EVER UINT_MAX
int vv_mpi_wait(MPI_Request *request, unsigned looks_max);
int vv_mpi_reduce_min(MPI_Comm mpi, int64_t *values, int count);
int vv_mpi_broadcast(MPI_Comm mpi, void *data, int size, int root);
/* Until a message of one of these ranks is there, and how large it is. Begins to look behind *which. Nobody else
 * receives on this communicator at the same time, so it is still there when it is received, next. */
int vv_mpi_next(MPI_Comm mpi, int tag, const uint32_t *pending, size_t count, size_t *which, int *size);
int vv_mpi_receive(MPI_Comm mpi, int tag, uint32_t rank, void *buffer, int size);

int vv_mpi_exchange(struct varve_comm *comm, const struct varve_message *out, size_t out_count, const uint32_t *from,
                    size_t from_count, varve_gather_fn fn, void *arg);

/* Fill nodes, node, local, least_local and places; collective, and the same code on all ranks unless MPI fails. */
int vv_mpi_find_nodes(struct mpi_comm *own);
void vv_mpi_forget_nodes(struct mpi_comm *own);

uint32_t vv_mpi_node_size(struct varve_comm *comm, uint32_t node);
uint32_t vv_mpi_rank_of(struct varve_comm *comm, uint32_t node, uint32_t local);
void vv_mpi_place_of(struct varve_comm *comm, uint32_t rank, uint32_t *node, uint32_t *local);

#endif
