/* Which ranks run on the same node.
 *
 * A node is what MPI calls a shared-memory domain; or, when the environment variable VARVE_DOMAIN is set on all ranks,
 * all ranks with the same word: racks that fail together can be named, and one machine can stand for several nodes.
 * Nodes are numbered in the order of their lowest ranks, and the ranks of a node in their own order. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "comm_mpi.h"

/* FNV-1a. */
static uint64_t hash_word(const char *word) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *word; word++)
        hash = (hash ^ (uint8_t)*word) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 29;
}

/* A colour has 31 bits, too few for the words of many nodes: so in two steps, 62 bits. */
static int split_by_word(MPI_Comm mpi, int rank, const char *word, MPI_Comm *out) {
    uint64_t hash = hash_word(word);
    MPI_Comm half;
    if (MPI_Comm_split(mpi, (int)(hash & INT_MAX), rank, &half) != MPI_SUCCESS)
        return -ECOMM;
    int rc = MPI_Comm_split(half, (int)(hash >> 31 & INT_MAX), rank, out);
    MPI_Comm_free(&half);
    return rc == MPI_SUCCESS ? 0 : -ECOMM;
}

static int split(struct mpi_comm *own, MPI_Comm *out) {
    const char *word = secure_getenv("VARVE_DOMAIN");
    int is_named = word && *word, rank = (int)own->comm.rank;
    if (MPI_Allreduce(MPI_IN_PLACE, &is_named, 1, MPI_INT, MPI_MIN, own->mpi) != MPI_SUCCESS)
        return -ECOMM;
    if (is_named)
        return split_by_word(own->mpi, rank, word, out);
    int rc = MPI_Comm_split_type(own->mpi, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, out);
    return rc == MPI_SUCCESS ? 0 : -ECOMM;
}

/* The lowest ranks of the nodes make a group of their own, in which their numbers are those of the nodes; they tell the
 * others on their node. */
static int number_nodes(struct mpi_comm *own, MPI_Comm here) {
    int local, least, told[2] = {0, 0};
    MPI_Comm firsts;
    MPI_Comm_rank(here, &local);
    MPI_Comm_size(here, &least);
    if (MPI_Comm_split(own->mpi, local == 0 ? 0 : MPI_UNDEFINED, (int)own->comm.rank, &firsts) != MPI_SUCCESS)
        return -ECOMM;
    if (local == 0) {
        MPI_Comm_rank(firsts, &told[0]);
        MPI_Comm_size(firsts, &told[1]);
        MPI_Comm_free(&firsts);
    }
    if (MPI_Bcast(told, 2, MPI_INT, 0, here) != MPI_SUCCESS ||
        MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_INT, MPI_MIN, own->mpi) != MPI_SUCCESS)
        return -ECOMM;
    own->comm.node = (uint32_t)told[0];
    own->comm.nodes = (uint32_t)told[1];
    own->comm.local = (uint32_t)local;
    own->comm.least_local = (uint32_t)least;
    return 0;
}

/* The ranks in the order of their nodes: counted first, then put behind those that come before. */
static void sort_ranks(struct mpi_places *places, uint32_t ranks, uint32_t nodes) {
    const uint32_t *node_of = places->node_of;
    for (uint32_t rank = 0; rank < ranks; rank++)
        places->first[node_of[rank] + 1]++;
    for (uint32_t node = 0; node < nodes; node++)
        places->first[node + 1] += places->first[node];
    for (uint32_t rank = ranks; rank-- > 0;) /* from behind: the ends move down to the beginnings */
        places->by_node[--places->first[node_of[rank] + 1]] = rank;
    memmove(places->first, places->first + 1, nodes * sizeof *places->first);
    places->first[nodes] = ranks;
}

static int make_table(struct mpi_comm *own) {
    struct mpi_places *places = &own->places;
    uint32_t ranks = own->comm.ranks, nodes = own->comm.nodes;
    places->first = calloc((size_t)nodes + 1, sizeof *places->first);
    places->by_node = malloc(ranks * sizeof *places->by_node);
    places->node_of = malloc(ranks * sizeof *places->node_of);
    int has_capacity = places->first && places->by_node && places->node_of;
    if (MPI_Allreduce(MPI_IN_PLACE, &has_capacity, 1, MPI_INT, MPI_MIN, own->mpi) != MPI_SUCCESS)
        return -ECOMM;
    if (!has_capacity)
        return -ENOMEM;
    if (MPI_Allgather(&own->comm.node, 1, MPI_UINT32_T, places->node_of, 1, MPI_UINT32_T, own->mpi) != MPI_SUCCESS)
        return -ECOMM;
    sort_ranks(places, ranks, nodes);
    return 0;
}

static int find_layout(struct mpi_comm *own, MPI_Comm here) {
    const struct varve_comm *comm = &own->comm;
    int size, is_regular[2];
    MPI_Comm_size(here, &size);
    int is_same = (uint32_t)size == comm->least_local;
    is_regular[0] = is_same && comm->rank == comm->node * comm->least_local + comm->local;
    is_regular[1] = is_same && comm->rank == comm->local * comm->nodes + comm->node;
    if (MPI_Allreduce(MPI_IN_PLACE, is_regular, 2, MPI_INT, MPI_MIN, own->mpi) != MPI_SUCCESS)
        return -ECOMM;
    own->places.layout = is_regular[0] ? ROWS : is_regular[1] ? ROBIN : TABLE;
    return own->places.layout == TABLE ? make_table(own) : 0;
}

int vv_mpi_find_nodes(struct mpi_comm *own) {
    MPI_Comm here;
    int rc = split(own, &here);
    if (rc)
        return rc;
    rc = number_nodes(own, here);
    if (rc == 0)
        rc = find_layout(own, here);
    MPI_Comm_free(&here);
    if (rc)
        vv_mpi_forget_nodes(own);
    return rc;
}

void vv_mpi_forget_nodes(struct mpi_comm *own) {
    free(own->places.first);
    free(own->places.by_node);
    free(own->places.node_of);
    own->places = (struct mpi_places){.layout = ROWS};
}

uint32_t vv_mpi_node_size(struct varve_comm *comm, uint32_t node) {
    const struct mpi_places *places = &((struct mpi_comm *)comm)->places;
    return places->layout == TABLE ? places->first[node + 1] - places->first[node] : comm->least_local;
}

uint32_t vv_mpi_rank_of(struct varve_comm *comm, uint32_t node, uint32_t local) {
    const struct mpi_places *places = &((struct mpi_comm *)comm)->places;
    if (places->layout == TABLE)
        return places->by_node[places->first[node] + local];
    return places->layout == ROWS ? node * comm->least_local + local : local * comm->nodes + node;
}

void vv_mpi_place_of(struct varve_comm *comm, uint32_t rank, uint32_t *node, uint32_t *local) {
    const struct mpi_places *places = &((struct mpi_comm *)comm)->places;
    if (places->layout != TABLE) {
        *node = places->layout == ROWS ? rank / comm->least_local : rank % comm->nodes;
        *local = places->layout == ROWS ? rank % comm->least_local : rank / comm->nodes;
        return;
    }
    *node = places->node_of[rank];
    uint32_t low = places->first[*node], high = places->first[*node + 1] - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (places->by_node[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    *local = low - places->first[*node];
}
