/* Levelling between nodes: ranks of a node with more than its share of new data pass chunks on to ranks of others, in rounds (rounds.c), who hand them to
 * their own writers. The rank tells its own writer, which lists them as moved.
 *
 * Ranks of different nodes can talk only inside the call, or in the background where the group has another one aside; elsewhere writers are levelled
 * within their nodes only. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/engine_private.h"

static int may_move(const struct vv_save *save) {
    const struct vv_session *session = save->session;
    return save->is_gathered && session->comm->nodes > 1 && (session->aside || !vv_is_in_background(session));
}

/* ---- who with whom: every rank of a node that gives sends to the first rank of every team of a node that takes ---- */

/* first: the number of the node's first writer. */
static int add_targets(struct vv_moves *moves, struct vv_session *session, uint32_t node, uint32_t first, uint64_t share) {
    struct varve_comm *comm = session->comm;
    uint32_t ranks = comm->ops->node_size(comm, node), teams = vv_team_count_of(session, node);
    struct vv_move_target *targets = vv_realloc(moves->targets, (moves->count + teams) * sizeof *targets);
    if (targets)
        moves->targets = targets;
    uint32_t *list = vv_realloc(moves->ranks, (moves->count + teams) * sizeof *list);
    if (list)
        moves->ranks = list;
    struct vv_share *shares = vv_realloc(moves->shares, (moves->count + teams) * sizeof *shares);
    if (shares)
        moves->shares = shares;
    if (!targets || !list || !shares)
        return -ENOMEM;
    for (uint32_t i = 0; i < teams; i++) {
        uint32_t local = vv_team_begin(ranks, teams, i);
        struct vv_move_target target = {.writer = first + i};
        list[moves->count] = comm->ops->rank_of(comm, node, local);
        shares[moves->count] = (struct vv_share){share / teams, 0};
        targets[moves->count++] = target;
    }
    return 0;
}

static int add_sources(struct vv_buf *from, struct varve_comm *comm, uint32_t node) {
    for (uint32_t i = 0; i < comm->ops->node_size(comm, node); i++) {
        uint32_t rank = comm->ops->rank_of(comm, node, i);
        vv_buf_append(from, &rank, sizeof rank);
    }
    return from->failed;
}

/* loads: of the nodes, then room for twice as many. amount becomes what will come through this rank. */
static int make_plan(struct vv_save *save, uint64_t *loads, uint64_t *amount) {
    struct varve_comm *comm = save->session->comm;
    struct vv_moves *moves = &save->moves;
    uint64_t *gives = loads + comm->nodes, *takes = gives + comm->nodes, own = loads[comm->node];
    uint64_t incoming = 0, outgoing = 0;
    uint32_t writers = 0; /* of the nodes before */
    int is_first = comm->rank == save->session->team.first, rc = 0;
    struct vv_buf from;
    vv_buf_init(&from);
    vv_level(loads, comm->nodes, comm->node, gives, takes);
    for (uint32_t i = 0; i < comm->nodes && rc == 0; i++) {
        uint64_t share = gives[i] && own ? (uint64_t)((double)gives[i] / (double)own * (double)*amount) : 0;
        if (gives[i])
            rc = add_targets(moves, save->session, i, writers, share);
        else if (takes[i] && is_first)
            rc = add_sources(&from, comm, i);
        writers += vv_team_count_of(save->session, i);
        outgoing += share;
        incoming += is_first ? takes[i] / save->session->team.teams : 0;
    }
    if (rc == 0)
        rc = vv_rounds_open(&moves->rounds, moves->ranks, moves->count, (const uint32_t *)from.data,
                            (uint32_t)(from.size / sizeof(uint32_t)));
    vv_buf_clear(&from);
    moves->expected = *amount;
    *amount = *amount - (outgoing < *amount ? outgoing : *amount) + incoming;
    return rc;
}

/* What the nodes have; the same everywhere. */
static int share_loads(struct vv_save *save, uint64_t *loads, struct varve_error *error) {
    struct varve_comm *comm = save->session->comm;
    struct vv_team *team = &save->session->team;
    uint64_t load = 0, bytes;
    for (uint32_t i = 0; i < comm->ops->node_size(comm, comm->node); i++)
        if (vv_post_ask_amount(team->post, i, team->attempts, &bytes))
            load += bytes;
    for (uint32_t i = 0; i < comm->nodes; i++)
        loads[i] = UINT64_MAX;
    loads[comm->node] = load;
    int rc = comm->ops->least(comm, loads, comm->nodes);
    return rc ? vv_error(error, rc, "the ranks could not agree: %s", varve_error_text(rc)) : 0;
}

int vv_moves_plan(struct vv_save *save, int rc, uint64_t *amount, struct varve_error *error) {
    struct varve_comm *comm = save->session->comm;
    struct vv_team *team = &save->session->team;
    if (!may_move(save))
        return rc;
    uint64_t *loads = vv_malloc(3 * comm->nodes * sizeof *loads);
    if (rc == 0 && !loads)
        rc = vv_error(error, -ENOMEM, "no memory to level the writers");
    vv_post_tell_amount(team->post, comm->local, team->attempts, *amount);
    rc = vv_comm_agree(comm, rc, error); /* all amounts are told */
    if (rc == 0)
        rc = share_loads(save, loads, error);
    if (rc == 0 && (rc = make_plan(save, loads, amount)) != 0)
        vv_error(error, rc, "no memory to level the writers");
    vv_free(loads);
    rc = vv_comm_agree(comm, rc, error); /* nobody sends to a rank that does not take */
    save->moves.is_on = rc == 0;
    return rc;
}

void vv_moves_end(struct vv_save *save) {
    vv_rounds_close(&save->moves.rounds);
    vv_free(save->moves.targets);
    vv_free(save->moves.ranks);
    vv_free(save->moves.shares);
    save->moves = (struct vv_moves){0};
}

/* ---- giving ---- */

int vv_moves_take(struct vv_save *save, const struct vv_variable *variable, const struct vv_say_chunk *chunk,
                  const void *data, struct varve_error *error) {
    struct vv_moves *moves = &save->moves;
    if (!moves->is_on || !moves->is_running || moves->count == 0)
        return 0;
    moves->seen += chunk->size;
    if (moves->left < chunk->size) {
        moves->target = vv_level_target(moves->shares, moves->count, moves->seen, moves->expected);
        moves->left = VV_LEVEL_STRETCH;
    }
    moves->left -= chunk->size;
    if (moves->target == moves->count)
        return 0;
    struct vv_move_target *target = &moves->targets[moves->target];
    struct vv_buf *buf = &moves->rounds.sending[moves->target];
    if (vv_rounds_is_empty(buf) || target->told.owner != variable->owner || target->told.region != variable->region) {
        struct vv_say_variable say = {VV_SAY_VARIABLE, *variable};
        vv_buf_append(buf, &say, sizeof say);
        target->told = *variable;
    }
    vv_buf_append(buf, chunk, sizeof *chunk);
    vv_buf_append(buf, data, chunk->size);
    moves->shares[moves->target].sent += chunk->size;
    int rc = vv_client_moved(&save->outlet.client, chunk, target->writer, error);
    return rc ? rc : 1;
}

/* ---- taking ---- */

static int nonsense(uint32_t rank, struct varve_error *error) {
    return vv_error(error, -EPROTO, "rank %u passed on data that makes no sense", rank);
}

static int take_chunks(struct vv_taking *taking, uint32_t rank, const uint8_t *data, size_t size) {
    struct vv_save *save = taking->save;
    struct vv_client *client = &save->outlet.client;
    int rc = 0;
    save->outlet.past = NULL;                      /* our own data is told anew, */
    save->moves.variable = (struct vv_variable){.owner = UINT32_MAX}; /* and every message tells what it is about */
    while (size > 0 && rc == 0) {
        struct vv_say_variable variable;
        struct vv_say_chunk chunk;
        uint64_t kind = 0;
        size_t taken = 0;
        memcpy(&kind, data, size < sizeof kind ? size : sizeof kind);
        if (kind == VV_SAY_VARIABLE && size >= sizeof variable) {
            memcpy(&variable, data, sizeof variable);
            save->moves.variable = variable.variable;
            taken = sizeof variable;
        } else if (kind == VV_SAY_CHUNK && size >= sizeof chunk) {
            memcpy(&chunk, data, sizeof chunk);
            if (!vv_is_chunk(chunk.address, chunk.size, chunk.id) || chunk.size > size - sizeof chunk || chunk.owner != rank ||
                save->moves.variable.owner != rank)
                return nonsense(rank, taking->error);
            vv_client_variable(client, &save->moves.variable);
            rc = vv_client_add(client, chunk.address, data + sizeof chunk, chunk.size, chunk.id, taking->error);
            taken = sizeof chunk + chunk.size;
        } else
            return nonsense(rank, taking->error);
        data += taken;
        size -= taken;
    }
    return rc;
}

int vv_moves_consume(struct vv_save *save, int rc, vv_step_fn step, struct varve_error *error) {
    struct vv_taking taking = {save, &save->moves.rounds, rc, error, take_chunks};
    save->moves.is_running = 1;
    rc = vv_rounds_run(&taking, step);
    save->moves.is_running = 0;
    return rc;
}
