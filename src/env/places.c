/* Which ranks run on the same node: those with the same boot id and host name; or, when the environment variable
 * VARVE_DOMAIN is set on all ranks, those with the same word. Nodes are numbered in the order of their lowest ranks,
 * and the ranks of a node in their own order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "comm_env.h"

struct place {
    uint64_t name;
    uint32_t rank;
};

static int compare_places(const void *a, const void *b) {
    const struct place *left = a, *right = b;
    if (left->name != right->name)
        return left->name < right->name ? -1 : 1;
    return left->rank < right->rank ? -1 : left->rank > right->rank;
}

/* node_of becomes the lowest rank of the node, of each rank. */
static int find_lowest(const struct vv_env_card *cards, uint32_t ranks, uint32_t *node_of) {
    struct place *places = malloc(ranks * sizeof *places);
    int is_named = 1;
    if (!places)
        return -ENOMEM;
    for (uint32_t rank = 0; rank < ranks; rank++)
        is_named = is_named && cards[rank].has_domain;
    for (uint32_t rank = 0; rank < ranks; rank++)
        places[rank] = (struct place){is_named ? cards[rank].domain : cards[rank].host, rank};
    qsort(places, ranks, sizeof *places, compare_places);
    for (uint32_t i = 0, begin = 0; i < ranks; i++) {
        begin = places[i].name == places[begin].name ? begin : i;
        node_of[places[i].rank] = places[begin].rank;
    }
    free(places);
    return 0;
}

/* The lowest ranks get the numbers; the others take theirs from them, which come before. */
static uint32_t number_nodes(uint32_t *node_of, uint32_t ranks) {
    uint32_t nodes = 0;
    for (uint32_t rank = 0; rank < ranks; rank++)
        node_of[rank] = node_of[rank] == rank ? nodes++ : node_of[node_of[rank]];
    return nodes;
}

int vv_env_find_nodes(struct vv_env_group *group, struct varve_comm *comm) {
    uint32_t ranks = comm->ranks;
    group->node_of = malloc(ranks * sizeof *group->node_of);
    group->by_node = malloc(ranks * sizeof *group->by_node);
    int rc = group->node_of && group->by_node ? find_lowest(group->cards, ranks, group->node_of) : -ENOMEM;
    if (rc)
        return rc;
    comm->nodes = number_nodes(group->node_of, ranks);
    group->first = calloc((size_t)comm->nodes + 2, sizeof *group->first);
    if (!group->first)
        return -ENOMEM;
    for (uint32_t rank = 0; rank < ranks; rank++)
        group->first[group->node_of[rank] + 2]++;
    for (uint32_t node = 0; node < comm->nodes; node++)
        group->first[node + 2] += group->first[node + 1];
    for (uint32_t rank = 0; rank < ranks; rank++) /* the beginnings move up to the ends, which are those of the next */
        group->by_node[group->first[group->node_of[rank] + 1]++] = rank;
    comm->least_local = ranks;
    for (uint32_t node = 0; node < comm->nodes; node++) {
        uint32_t size = group->first[node + 1] - group->first[node];
        comm->least_local = size < comm->least_local ? size : comm->least_local;
    }
    return 0;
}

uint32_t vv_env_node_size(struct varve_comm *comm, uint32_t node) {
    const uint32_t *first = ((struct vv_env_comm *)comm)->group->first;
    return first[node + 1] - first[node];
}

uint32_t vv_env_rank_of(struct varve_comm *comm, uint32_t node, uint32_t local) {
    const struct vv_env_group *group = ((struct vv_env_comm *)comm)->group;
    return group->by_node[group->first[node] + local];
}

void vv_env_place_of(struct varve_comm *comm, uint32_t rank, uint32_t *node, uint32_t *local) {
    const struct vv_env_group *group = ((struct vv_env_comm *)comm)->group;
    *node = group->node_of[rank];
    uint32_t low = group->first[*node], high = group->first[*node + 1] - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (group->by_node[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    *local = low - group->first[*node];
}
