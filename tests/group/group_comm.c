/* The ops of struct varve_comm between the processes of a group, on their mailboxes. */
#include <errno.h>
#include <stdlib.h>

#include "group_private.h"

/* ---- the ops ---- */

/* A rank that was told of a death may call again while cleaning up. As over MPI, it then reads nothing that was left
 * for an earlier call. */
static int begin_call(struct group_member *member) {
    member->number++;
    return box_is_broken(member->boxes) ? -ECOMM : 0;
}

static int group_broadcast(struct varve_comm *comm, void *data, size_t size, uint32_t root) {
    struct group_member *member = (struct group_member *)comm;
    int rc = begin_call(member);
    if (comm->rank != root)
        return rc ? rc : box_receive(member, root, BROADCAST, data, size);
    for (uint32_t rank = 0; rank < comm->ranks && rc == 0; rank++)
        if (rank != root)
            rc = box_send(member, rank, BROADCAST, data, size);
    return rc;
}

static int least_of_all(struct group_member *member, uint64_t *values, size_t count) {
    uint64_t *theirs = malloc(count * sizeof *theirs + 1);
    int rc = theirs ? 0 : -ENOMEM;
    for (uint32_t rank = 1; rank < member->comm.ranks && rc == 0; rank++) {
        rc = box_receive(member, rank, REDUCE_MIN, theirs, count * sizeof *theirs);
        for (size_t i = 0; i < count && rc == 0; i++)
            values[i] = theirs[i] < values[i] ? theirs[i] : values[i];
    }
    free(theirs);
    for (uint32_t rank = 1; rank < member->comm.ranks && rc == 0; rank++)
        rc = box_send(member, rank, REDUCE_MIN, values, count * sizeof *values);
    return rc;
}

static int group_reduce_min(struct varve_comm *comm, uint64_t *values, size_t count) {
    struct group_member *member = (struct group_member *)comm;
    int rc = begin_call(member);
    if (rc)
        return rc;
    if (comm->rank == 0)
        return least_of_all(member, values, count);
    rc = box_send(member, 0, REDUCE_MIN, values, count * sizeof *values);
    return rc ? rc : box_receive(member, 0, REDUCE_MIN, values, count * sizeof *values);
}

static int group_gather(struct varve_comm *comm, const void *data, size_t size, varve_gather_fn fn, void *arg) {
    struct group_member *member = (struct group_member *)comm;
    int rc = begin_call(member);
    if (rc)
        return rc;
    if (comm->rank != 0)
        return box_send(member, 0, GATHER, data, size);
    int result = fn(arg, 0, data, size);
    for (uint32_t rank = 1; rank < comm->ranks && rc == 0; rank++) {
        size_t theirs = 0;
        rc = box_expect(member, rank, GATHER, &theirs);
        uint8_t *buffer = rc ? NULL : malloc(theirs + 1);
        if (rc == 0)
            rc = buffer ? box_take_bytes(member, rank, buffer, theirs) : -ENOMEM;
        if (rc == 0 && result == 0)
            result = fn(arg, rank, buffer, theirs);
        free(buffer);
    }
    return rc ? rc : result;
}

/* ---- places ---- */

static uint32_t group_node_size(struct varve_comm *comm, uint32_t node) {
    const struct mailboxes *boxes = ((struct group_member *)comm)->boxes;
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < comm->ranks; rank++)
        count += boxes->node_of[rank] == node;
    if (node >= comm->nodes)
        group_fail(comm, "asks for node %u of %u", node, comm->nodes);
    return count;
}

static uint32_t group_rank_of(struct varve_comm *comm, uint32_t node, uint32_t local) {
    const struct mailboxes *boxes = ((struct group_member *)comm)->boxes;
    for (uint32_t rank = 0, count = 0; rank < comm->ranks; rank++)
        if (boxes->node_of[rank] == node && count++ == local)
            return rank;
    group_fail(comm, "asks for rank %u of node %u, which there is not", local, node);
}

static void group_place_of(struct varve_comm *comm, uint32_t rank, uint32_t *node, uint32_t *local) {
    const struct mailboxes *boxes = ((struct group_member *)comm)->boxes;
    if (rank >= comm->ranks)
        group_fail(comm, "asks for the place of rank %u of %u", rank, comm->ranks);
    *node = boxes->node_of[rank];
    *local = 0;
    for (uint32_t other = 0; other < rank; other++)
        *local += boxes->node_of[other] == *node;
}

static void find_place(struct varve_comm *comm, const struct mailboxes *boxes) {
    group_place_of(comm, comm->rank, &comm->node, &comm->local);
    for (uint32_t rank = 0; rank < comm->ranks; rank++)
        comm->nodes = boxes->node_of[rank] >= comm->nodes ? boxes->node_of[rank] + 1 : comm->nodes;
    comm->least_local = comm->ranks;
    for (uint32_t node = 0; node < comm->nodes; node++) {
        uint32_t size = group_node_size(comm, node);
        comm->least_local = size < comm->least_local ? size : comm->least_local;
    }
}

/* ---- made and closed ---- */

static void group_close(struct varve_comm *comm) {
    struct group_member *member = (struct group_member *)comm;
    if (comm->second)
        group_close(comm->second);
    if (member->id == 0)
        free(member->next_id);
    free(member);
}

static const struct varve_comm_ops group_ops = {
    .size = sizeof(struct varve_comm_ops),
    .name = "group",
    .reduce_min = group_reduce_min,
    .broadcast = group_broadcast,
    .gather = group_gather,
    .close = group_close,
    .exchange = group_exchange,
    .node_size = group_node_size,
    .rank_of = group_rank_of,
    .place_of = group_place_of,
};

static struct varve_comm *make_member(const struct group_member *like, uint32_t lane) {
    struct group_member *member = calloc(1, sizeof *member);
    if (!member)
        abort();
    *member = *like;
    member->comm.second = NULL;
    member->number = 0;
    member->lane = lane;
    member->id = (*like->next_id)++;
    return &member->comm;
}

struct varve_comm *mailboxes_comm(struct mailboxes *boxes, uint32_t rank, uint32_t ranks) {
    struct group_member first = {.comm = {.ops = &group_ops, .rank = rank, .ranks = ranks}, .boxes = boxes};
    first.next_id = calloc(1, sizeof *first.next_id);
    if (!first.next_id)
        abort();
    find_place(&first.comm, boxes);
    return group_comm(&first.comm);
}

struct varve_comm *group_comm(struct varve_comm *comm) {
    const struct group_member *like = (const struct group_member *)comm;
    struct varve_comm *made = make_member(like, 0);
    if (like->boxes->has_second)
        made->second = make_member(like, 1);
    return made;
}
