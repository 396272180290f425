/* Everything is kept on several nodes: copies=k. What the pack of a rank that writes by itself has to do for it.
 *
 * The partners of a rank are the ranks with the same number on the next k - 1 nodes, in a ring. A partner stores what
 * the rank stores, under the rank's own addresses, in its own pack; readers find it there through the writers list. It
 * also keeps the tables of the rank's pack, as an object of their own kind, so that the pack can be done without. A
 * partner that holds the same content itself takes it from its own memory (save/replicas.c); only what it does not have
 * is sent.
 *
 * Bytes travel in rounds (comm/rounds.h). */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "store/pack_replica.h"
#include "write/output.h"

/* ---- who with whom ---- */

static uint32_t wanted(const struct vv_outputs *outputs) {
    if (outputs->job->settings.copies > 0)
        return (uint32_t)outputs->job->settings.copies;
    return vv_is_local(outputs->job) && !vv_settings_parity(&outputs->job->settings, NULL) ? 2 : 1;
}

/* Does the group know where its ranks run? Otherwise every rank counts as a node. */
static int knows_nodes(const struct varve_comm *comm) {
    return comm->nodes > 0 && comm->ops->node_size && comm->ops->rank_of;
}

static uint32_t size_of(struct varve_comm *comm, uint32_t node) {
    return knows_nodes(comm) ? comm->ops->node_size(comm, node) : 1;
}

static uint32_t rank_of(struct varve_comm *comm, uint32_t node, uint32_t local) {
    return knows_nodes(comm) ? comm->ops->rank_of(comm, node, local) : node;
}

/* Ranks that share a disk are no help to each other: where the group does not know the nodes, their stores tell.
 * Collective. */
static int is_each_alone(struct vv_outputs *outputs) {
    uint64_t is_leader = outputs->job->is_leader;
    return outputs->job->comm->ops->reduce_min(outputs->job->comm, &is_leader, 1) == 0 && is_leader;
}

/* How many partners each rank has. Collective, the same everywhere. */
static uint32_t partners_of(struct vv_outputs *outputs, uint32_t nodes) {
    const struct varve_comm *comm = outputs->job->comm;
    uint32_t more = wanted(outputs) - 1;
    const char *why =
        !comm->ops->exchange ? "the group of processes cannot exchange messages" : "there are not so many nodes";
    if (more > 0 && vv_is_local(outputs->job) && !knows_nodes(comm) && !is_each_alone(outputs)) {
        nodes = 1;
        why = "the group of processes does not say which ranks share a node";
    }
    uint32_t most = comm->ops->exchange ? nodes - 1 : 0, given = more < most ? more : most;
    if (given < more && vv_comm_is_root(comm)) /* warn if copies were requested or may be assumed */
        vv_log(&outputs->job->log, outputs->job->settings.copies > 0 || comm->ranks > 1 ? VV_LOG_WARN : VV_LOG_INFO,
               "data is kept on %u node%s, not on %u: %s", given + 1, given ? "s" : "", more + 1, why);
    return given;
}

/* The ranks on the node `back` behind ours whose partner we are. */
static int add_kept(struct vv_outputs *outputs, uint32_t nodes, uint32_t node, uint32_t local, uint32_t back) {
    struct vv_replicas *replicas = &outputs->replicas;
    uint32_t from = (node + nodes - back) % nodes, ours = size_of(outputs->job->comm, node);
    uint32_t theirs = size_of(outputs->job->comm, from);
    uint32_t *kept = vv_realloc(replicas->kept, (replicas->kept_count + theirs + 1) * sizeof *kept);
    if (!kept)
        return -ENOMEM;
    replicas->kept = kept;
    for (uint32_t i = local; i < theirs; i += ours)
        kept[replicas->kept_count++] = rank_of(outputs->job->comm, from, i);
    return 0;
}

int vv_replicas_open(struct vv_outputs *outputs, struct varve_error *error) {
    struct varve_comm *comm = outputs->job->comm;
    struct vv_replicas *replicas = &outputs->replicas;
    int is_known = knows_nodes(comm);
    uint32_t nodes = is_known ? comm->nodes : comm->ranks, node = is_known ? comm->node : comm->rank;
    uint32_t local = is_known ? comm->local : 0, more = partners_of(outputs, nodes);
    int rc = 0;
    for (uint32_t j = 1; j <= more && rc == 0; j++) {
        uint32_t to = (node + j) % nodes;
        replicas->partners[replicas->count++] = rank_of(comm, to, local % size_of(comm, to));
        rc = add_kept(outputs, nodes, node, local, j);
    }
    if (rc == 0)
        rc = vv_rounds_open(&replicas->rounds, replicas->partners, replicas->count, replicas->kept,
                            replicas->kept_count);
    return rc == 0 ? 0 : vv_error(error, -ENOMEM, "no memory for a session");
}

void vv_replicas_close(struct vv_outputs *outputs) {
    vv_free(outputs->replicas.kept);
    vv_rounds_close(&outputs->replicas.rounds);
    memset(&outputs->replicas, 0, sizeof outputs->replicas);
}

/* ---- the output ---- */

/* All ranks run the same program, so structs travel as they are. The bytes follow. */
struct chunk_head {
    struct vv_hash128 id;
    uint64_t address;
    uint64_t size;
};

static int nonsense(uint32_t rank, struct varve_error *error) {
    return vv_error(error, -EPROTO, "rank %u sent copies that make no sense", rank);
}

void vv_replicas_send(struct vv_output *output, const struct vv_new_chunk *chunk, const void *data) {
    struct vv_replicas *replicas = &output->outputs->replicas;
    struct chunk_head head = {chunk->id, chunk->address, chunk->size};
    for (uint32_t j = 0; chunk->owner == output->outputs->job->comm->rank && j < replicas->count; j++) {
        if (chunk->held & 1u << j)
            continue;
        vv_buf_append(&replicas->rounds.sending[j], &head, sizeof head);
        vv_buf_append(&replicas->rounds.sending[j], data, chunk->size);
    }
}

static int take_chunks(struct vv_taking *taking, uint32_t rank, const uint8_t *data, size_t size) {
    struct vv_output *output = taking->arg;
    const struct vv_variable unknown = {
        .region = UINT64_MAX, .owner = output->outputs->job->comm->rank, .content = {.type = VARVE_BYTES}};
    int rc = output->ops->open(output, taking->error);
    if (rc == 0)
        output->ops->region(output, &unknown);
    output->told = NULL;
    while (size > 0 && rc == 0) {
        struct chunk_head head;
        if (size < sizeof head)
            return nonsense(rank, taking->error);
        memcpy(&head, data, sizeof head);
        if (!vv_is_chunk(head.address, head.size, head.id) || head.size > size - sizeof head)
            return nonsense(rank, taking->error);
        struct vv_new_chunk chunk = {
            .owner = rank, .address = head.address, .size = (uint32_t)head.size, .id = head.id};
        rc = output->ops->add(output, &chunk, data + sizeof head);
        output->bytes_copied += head.size;
        data += sizeof head + head.size;
        size -= sizeof head + (size_t)head.size;
    }
    return rc;
}

int vv_replicas_consume(struct vv_output *output, int rc, vv_step_fn step, void *arg, struct varve_error *error) {
    struct vv_taking taking = {
        output->outputs->job->comm, &output->outputs->replicas.rounds, rc, error, take_chunks, output};
    return vv_rounds_run(&taking, step, arg);
}

static int keep_tables(struct vv_taking *taking, uint32_t rank, const uint8_t *data, size_t size) {
    const struct vv_output *output = taking->arg;
    const struct vv_job *job = output->outputs->job;
    return vv_pack_replica_create(job->store, job->name, &output->plan.attempt, rank, data, size, taking->error);
}

int vv_replicas_settle(struct vv_output *output, int rc, struct varve_error *error) {
    const struct vv_job *job = output->outputs->job;
    struct vv_replicas *replicas = &output->outputs->replicas;
    struct vv_taking taking = {job->comm, &replicas->rounds, rc, error, keep_tables, output};
    struct vv_buf tables;
    vv_buf_init(&tables);
    if (taking.rc == 0)
        taking.rc = vv_pack_replica_read(job->store, job->name, &output->plan.attempt, job->comm->rank, &tables, error);
    vv_rounds_begin(&replicas->rounds);
    for (uint32_t j = 0; taking.rc == 0 && j < replicas->count; j++)
        vv_buf_append(&replicas->rounds.sending[j], tables.data, tables.size);
    vv_buf_clear(&tables);
    rc = vv_rounds_once(&taking);
    vv_rounds_clear(&replicas->rounds);
    return rc ? rc : taking.rc;
}
