/* The output of a rank that shares a writer with others: everything goes to the writer of its team (team.h).
 *
 * Nodes with more than their share of new data balance it: their ranks pass chunks on to ranks of other nodes, in
 * rounds (comm/rounds.h), which hand them to their own writers. The rank tells its own writer, which lists them as
 * moved. Ranks of different nodes can talk only inside the call, or in the background where the group has a second
 * one; elsewhere writers are balanced within their nodes only. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "write/output.h"

struct move_target {
    uint32_t writer; /* of the rank that takes it */
    struct vv_variable told;
};
struct moves {
    int is_on, is_running;
    uint32_t count; /* of targets */
    struct move_target *targets;
    struct vv_share *shares;
    uint32_t *ranks;
    struct vv_rounds rounds;
    uint64_t expected, seen;     /* of our own bytes */
    uint64_t left;               /* until it is decided anew where they go, */
    uint32_t target;             /* which is here; count: they stay */
    struct vv_variable variable; /* of what is being taken */
};

struct output_team {
    struct vv_output output; /* first */
    int is_begun;
    struct vv_client client;
    struct moves moves;
    struct vv_variable variable;      /* of the data that comes now */
    struct vv_digest_state *manifest; /* of the one that is being passed on */
    struct vv_hash128 digest;
};

static int may_move(const struct output_team *team) {
    return team->output.plan.may_talk && team->output.outputs->job->comm->nodes > 1;
}

/* ---- who with whom: every rank of a node that gives sends to the first rank of every team of a node that takes ----
 */

/* first: the number of the node's first writer. */
static int add_targets(struct moves *moves, struct vv_outputs *outputs, uint32_t node, uint32_t first, uint64_t share) {
    struct varve_comm *comm = outputs->job->comm;
    uint32_t ranks = comm->ops->node_size(comm, node), teams = vv_team_count_of(outputs, node);
    struct move_target *targets = vv_realloc(moves->targets, (moves->count + teams) * sizeof *targets);
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
        struct move_target target = {.writer = first + i};
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
static int make_plan(struct output_team *team, uint64_t *loads, uint64_t *amount) {
    struct vv_outputs *outputs = team->output.outputs;
    struct varve_comm *comm = outputs->job->comm;
    struct moves *moves = &team->moves;
    uint64_t *gives = loads + comm->nodes, *takes = gives + comm->nodes, own = loads[comm->node];
    uint64_t incoming = 0, outgoing = 0;
    uint32_t writers = 0; /* of the nodes before */
    int is_first = comm->rank == outputs->team.first, rc = 0;
    struct vv_buf from;
    vv_buf_init(&from);
    vv_balance(loads, comm->nodes, comm->node, gives, takes);
    for (uint32_t i = 0; i < comm->nodes && rc == 0; i++) {
        uint64_t share = gives[i] && own ? (uint64_t)((double)gives[i] / (double)own * (double)*amount) : 0;
        if (gives[i])
            rc = add_targets(moves, outputs, i, writers, share);
        else if (takes[i] && is_first)
            rc = add_sources(&from, comm, i);
        writers += vv_team_count_of(outputs, i);
        outgoing += share;
        incoming += is_first ? takes[i] / outputs->team.teams : 0;
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
static int share_loads(struct vv_outputs *outputs, uint64_t *loads, struct varve_error *error) {
    struct varve_comm *comm = outputs->job->comm;
    struct vv_team *team = &outputs->team;
    uint64_t load = 0, bytes;
    for (uint32_t i = 0; i < comm->ops->node_size(comm, comm->node); i++)
        if (vv_post_ask_amount(team->post, i, team->attempts, &bytes))
            load += bytes;
    for (uint32_t i = 0; i < comm->nodes; i++)
        loads[i] = UINT64_MAX;
    loads[comm->node] = load;
    int rc = comm->ops->reduce_min(comm, loads, comm->nodes);
    return rc ? vv_error(error, rc, "the ranks could not agree: %s", varve_error_text(rc)) : 0;
}

static int plan_moves(struct output_team *output, int rc, uint64_t *amount, struct varve_error *error) {
    struct varve_comm *comm = output->output.outputs->job->comm;
    struct vv_team *team = &output->output.outputs->team;
    if (!may_move(output))
        return rc;
    uint64_t *loads = vv_malloc(3 * comm->nodes * sizeof *loads);
    if (rc == 0 && !loads)
        rc = vv_error(error, -ENOMEM, "no memory to level the writers");
    vv_post_tell_amount(team->post, comm->local, team->attempts, *amount);
    rc = vv_comm_agree(comm, rc, error); /* all amounts are told */
    if (rc == 0)
        rc = share_loads(output->output.outputs, loads, error);
    if (rc == 0 && (rc = make_plan(output, loads, amount)) != 0)
        vv_error(error, rc, "no memory to level the writers");
    vv_free(loads);
    rc = vv_comm_agree(comm, rc, error); /* nobody sends to a rank that does not take */
    output->moves.is_on = rc == 0;
    return rc;
}

static void end_moves(struct moves *moves) {
    vv_rounds_close(&moves->rounds);
    vv_free(moves->targets);
    vv_free(moves->ranks);
    vv_free(moves->shares);
    *moves = (struct moves){0};
}

/* ---- giving ---- */

/* Is this chunk passed on? 1 then, 0, or an error. */
static int pass_on(struct output_team *team, const struct vv_say_chunk *chunk, const void *data,
                   struct varve_error *error) {
    struct moves *moves = &team->moves;
    const struct vv_variable *variable = &team->variable;
    if (!moves->is_on || !moves->is_running || moves->count == 0)
        return 0;
    moves->seen += chunk->size;
    if (moves->left < chunk->size) {
        moves->target = vv_balance_target(moves->shares, moves->count, moves->seen, moves->expected);
        moves->left = VV_BALANCE_STRETCH;
    }
    moves->left -= chunk->size;
    if (moves->target == moves->count)
        return 0;
    struct move_target *target = &moves->targets[moves->target];
    struct vv_buf *buf = &moves->rounds.sending[moves->target];
    if (vv_rounds_is_empty(buf) || target->told.owner != variable->owner || target->told.region != variable->region) {
        struct vv_say_variable say = {VV_SAY_VARIABLE, *variable};
        vv_buf_append(buf, &say, sizeof say);
        target->told = *variable;
    }
    vv_buf_append(buf, chunk, sizeof *chunk);
    vv_buf_append(buf, data, chunk->size);
    moves->shares[moves->target].sent += chunk->size;
    int rc = vv_client_moved(&team->client, chunk, target->writer, error);
    return rc ? rc : 1;
}

/* ---- taking ---- */

static int nonsense(uint32_t rank, struct varve_error *error) {
    return vv_error(error, -EPROTO, "rank %u passed on data that makes no sense", rank);
}

static int take_chunks(struct vv_taking *taking, uint32_t rank, const uint8_t *data, size_t size) {
    struct output_team *team = taking->arg;
    struct vv_client *client = &team->client;
    int rc = 0;
    team->output.told = NULL;                                         /* our own data is described anew, */
    team->moves.variable = (struct vv_variable){.owner = UINT32_MAX}; /* and so is that of every message */
    while (size > 0 && rc == 0) {
        struct vv_say_variable variable;
        struct vv_say_chunk chunk;
        uint64_t kind = 0;
        size_t taken = 0;
        memcpy(&kind, data, size < sizeof kind ? size : sizeof kind);
        if (kind == VV_SAY_VARIABLE && size >= sizeof variable) {
            memcpy(&variable, data, sizeof variable);
            team->moves.variable = variable.variable;
            taken = sizeof variable;
        } else if (kind == VV_SAY_CHUNK && size >= sizeof chunk) {
            memcpy(&chunk, data, sizeof chunk);
            if (!vv_is_chunk(chunk.address, chunk.size, chunk.id) || chunk.size > size - sizeof chunk ||
                chunk.owner != rank || team->moves.variable.owner != rank)
                return nonsense(rank, taking->error);
            vv_client_variable(client, &team->moves.variable);
            rc = vv_client_add(client, &chunk, data + sizeof chunk, taking->error);
            taken = sizeof chunk + chunk.size;
        } else
            return nonsense(rank, taking->error);
        data += taken;
        size -= taken;
    }
    return rc;
}

/* ---- the output ---- */

static int team_begin(struct vv_output *output, struct varve_error *error) {
    struct output_team *team = (struct output_team *)output;
    struct vv_outputs *outputs = output->outputs;
    output->writer = outputs->team.writer;
    output->writers = outputs->team.writers;
    output->group = outputs->team.count;
    outputs->team.attempts++;
    vv_client_open(&team->client, &outputs->team, outputs->job->comm->local);
    team->is_begun = 1;
    struct vv_say_begin begin = {.kind = VV_SAY_BEGIN,
                                 .number = team->client.number,
                                 .attempt = output->plan.attempt,
                                 .parent = output->plan.parent,
                                 .block_size = outputs->job->settings.block_size};
    return vv_client_begin(&team->client, &begin, error);
}

static int team_open(struct vv_output *output, struct varve_error *error) {
    (void)output, (void)error;
    return 0;
}

static int team_expect(struct vv_output *output, int rc, uint64_t bytes, struct varve_error *error) {
    struct output_team *team = (struct output_team *)output;
    rc = plan_moves(team, rc, &bytes, error);
    struct varve_error ignored = {.rank = -1};
    int told = vv_client_amount(&team->client, rc ? 0 : bytes, rc ? &ignored : error); /* writers wait for it */
    return rc ? rc : told;
}

static void team_region(struct vv_output *output, const struct vv_variable *variable) {
    struct output_team *team = (struct output_team *)output;
    team->variable = *variable;
    vv_client_variable(&team->client, &team->variable);
}

static int team_add(struct vv_output *output, const struct vv_new_chunk *new, const void *data) {
    struct output_team *team = (struct output_team *)output;
    struct varve_error why = {.rank = -1}; /* if it was the writer, it is asked again in the end */
    struct vv_say_chunk chunk = {VV_SAY_CHUNK, new->address, new->id, new->owner, new->size, new->is_shared != 0};
    int moved = pass_on(team, &chunk, data, &why);
    return moved ? (moved > 0 ? 0 : moved) : vv_client_add(&team->client, &chunk, data, &why);
}

static int team_explain(struct vv_output *output, int rc, struct varve_error *error) {
    const struct varve_error *why = &((struct output_team *)output)->client.result.error;
    if (!why->code)
        return rc;
    *error = *why;
    return why->code;
}

static int team_consume(struct vv_output *output, int rc, vv_step_fn step, void *arg, struct varve_error *error) {
    struct output_team *team = (struct output_team *)output;
    if (!team->moves.is_on)
        return vv_output_consume_alone(rc, step, arg, error);
    struct vv_taking taking = {output->outputs->job->comm, &team->moves.rounds, rc, error, take_chunks, team};
    team->moves.is_running = 1;
    rc = vv_rounds_run(&taking, step, arg);
    team->moves.is_running = 0;
    return rc;
}

static int team_finish(struct vv_output *output, int rc, struct varve_error *error) {
    vv_memory_note(); /* the writer's blocks are another's */
    if (rc == 0)
        rc = vv_client_data_end(&((struct output_team *)output)->client, error);
    return team_explain(output, rc, error);
}

static int team_dependencies(struct vv_output *output, const struct vv_dependency *dependencies, uint32_t count,
                             struct vv_buf *out, struct varve_error *error) {
    return vv_client_dependencies(&((struct output_team *)output)->client, dependencies, count, out, error);
}

/* The digest of a manifest that goes to the writer is computed on both sides, and compared there. */
static int begin_digest(struct output_team *team, const struct vv_manifest_head *head) {
    struct vv_buf buf;
    vv_buf_init(&buf);
    vv_manifest_head_encode(&buf, head);
    int rc = buf.failed ? buf.failed : vv_digest_begin(&team->manifest);
    if (rc == 0)
        vv_digest_add(team->manifest, buf.data, buf.size);
    vv_buf_clear(&buf);
    return rc;
}

static int team_manifest_begin(struct vv_output *output, const struct vv_manifest_head *head,
                               struct varve_error *error) {
    struct output_team *team = (struct output_team *)output;
    int rc = begin_digest(team, head);
    return rc ? rc : vv_client_manifest(&team->client, head, error);
}

static int team_manifest_add(struct vv_output *output, const void *data, size_t size, struct varve_error *error) {
    struct output_team *team = (struct output_team *)output;
    if (size)
        vv_digest_add(team->manifest, data, size);
    return vv_client_bytes(&team->client, data, size, error);
}

static int team_manifest_end(struct vv_output *output, struct vv_hash128 *digest_out, struct varve_error *error) {
    struct output_team *team = (struct output_team *)output;
    (void)error;
    *digest_out = team->digest = vv_digest_end(team->manifest);
    team->manifest = NULL;
    return 0;
}

static int team_seal(struct vv_output *output, const struct vv_output_sums *sums, struct vv_details *stats,
                     struct varve_error *error) {
    struct output_team *team = (struct output_team *)output;
    struct vv_say_end end = {VV_SAY_MANIFEST_END, sums->protected_bytes, sums->regions, sums->looked, team->digest};
    int rc = vv_client_end(&team->client, &end, error);
    if (rc)
        return rc;
    const struct vv_details *told = &team->client.result.stats;
    stats->bytes_stored = told->bytes_stored;
    stats->bytes_metadata = told->bytes_metadata;
    stats->bytes_moved = told->bytes_moved;
    stats->seconds_encode = told->seconds_encode;
    stats->seconds_sampled = told->seconds_sampled;
    stats->storage_speed = told->storage_speed;
    memcpy(stats->codec, told->codec, sizeof stats->codec);
    memcpy(stats->codec_reason, told->codec_reason, sizeof stats->codec_reason);
    memcpy(stats->grouping, told->grouping, sizeof stats->grouping);
    return 0;
}

static void team_end(struct vv_output *output, const struct varve_error *error) {
    struct output_team *team = (struct output_team *)output;
    vv_digest_drop(team->manifest);
    team->manifest = NULL;
    end_moves(&team->moves);
    if (!team->is_begun)
        return;
    team->is_begun = 0;
    struct varve_error why = *error;
    if (!why.code)
        vv_error(&why, -ECANCELED, "rank %u has given the checkpoint up", output->outputs->job->comm->rank);
    vv_client_close(&team->client, &why);
}

static const struct vv_output_ops team_ops = {
    .begin = team_begin,
    .open = team_open,
    .expect = team_expect,
    .region = team_region,
    .add = team_add,
    .explain = team_explain,
    .consume = team_consume,
    .finish = team_finish,
    .dependencies = team_dependencies,
    .manifest_begin = team_manifest_begin,
    .manifest_add = team_manifest_add,
    .manifest_end = team_manifest_end,
    .seal = team_seal,
    .settle = vv_output_adds_nothing,
    .end = team_end,
};

struct vv_output *vv_output_team_create(void) {
    struct output_team *team = vv_calloc(1, sizeof *team);
    if (team)
        team->output.ops = &team_ops;
    return team ? &team->output : NULL;
}
