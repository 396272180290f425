/* Which ranks share a writer, and whether that pays. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/engine_private.h"

#define STANDARD 32      /* ranks of a team */
#define WORTH_RANKS 8    /* of a node, from which on it is tried without being asked for */
#define WORTH_BYTES (8u << 20) /* of a rank: less tells nothing about speed */
#define FIRST_GAP 16u    /* checkpoints until the slower way is tried again; then twice as many */
#define BETTER 1.1       /* writing alone must be so much faster */

uint32_t vv_team_begin(uint32_t ranks, uint32_t teams, uint32_t team) {
    return (uint32_t)((uint64_t)ranks * team / teams);
}

static uint32_t teams_of(uint32_t ranks, uint32_t most) {
    return (ranks + most - 1) / most;
}

/* Do the ranks of this node follow one another? */
static int is_in_order(struct varve_comm *comm, uint32_t ranks) {
    uint32_t first = comm->ops->rank_of(comm, comm->node, 0);
    for (uint32_t i = 1; i < ranks; i++)
        if (comm->ops->rank_of(comm, comm->node, i) != first + i)
            return 0;
    return 1;
}

/* Why this job has no teams, or NULL. The same on all ranks but for what the last one says, which they agree upon. */
static const char *why_not(struct vv_session *session) {
    struct varve_comm *comm = session->comm;
    int asked = session->settings.aggregate;
    if (asked == 1)
        return "aggregate=1";
    if (comm->ranks == 1)
        return "there is one rank";
    if (vv_is_local(session))
        return "on node-local storage every rank writes by itself";
    if (session->copies.count > 0)
        return "copies are kept by ranks that write by themselves";
    if (comm->nodes == 0 || !comm->ops->node_size || !comm->ops->rank_of || !comm->ops->trade)
        return "the group of processes does not say which ranks share a node";
    if (asked == 0 && comm->least_local < WORTH_RANKS)
        return "the nodes have few ranks";
    return NULL;
}

static uint32_t most_ranks(const struct vv_session *session) {
    return session->settings.aggregate ? (uint32_t)session->settings.aggregate : STANDARD;
}

static uint32_t team_of(uint32_t ranks, uint32_t teams, uint32_t local) {
    uint32_t team = 0;
    while (vv_team_begin(ranks, teams, team + 1) <= local)
        team++;
    return team;
}

uint32_t vv_team_count_of(const struct vv_session *session, uint32_t node) {
    return teams_of(session->comm->ops->node_size(session->comm, node), most_ranks(session));
}

uint32_t vv_team_writer_of(const struct vv_session *session, uint32_t node, uint32_t local) {
    struct varve_comm *comm = session->comm;
    uint32_t writer = 0, ranks = comm->ops->node_size(comm, node);
    for (uint32_t i = 0; i < node; i++)
        writer += vv_team_count_of(session, i);
    return writer + team_of(ranks, vv_team_count_of(session, node), local);
}

/* Numbers of teams and ranks. */
static void place(struct vv_session *session) {
    struct varve_comm *comm = session->comm;
    struct vv_team *team = &session->team;
    uint32_t ranks = comm->ops->node_size(comm, comm->node);
    team->teams = vv_team_count_of(session, comm->node);
    team->team = team_of(ranks, team->teams, comm->local);
    team->local_first = vv_team_begin(ranks, team->teams, team->team);
    team->count = vv_team_begin(ranks, team->teams, team->team + 1) - team->local_first;
    team->first = comm->rank - comm->local + team->local_first;
    for (uint32_t node = 0; node < comm->nodes; node++)
        team->writers += vv_team_count_of(session, node);
    team->writer = vv_team_writer_of(session, comm->node, comm->local);
}

static void stand_alone(struct vv_session *session, const char *reason) {
    struct varve_comm *comm = session->comm;
    session->team = (struct vv_team){.first = comm->rank, .count = 1, .writer = comm->rank, .writers = comm->ranks};
    snprintf(session->team.reason, sizeof session->team.reason, "%s", reason ? reason : "");
}

/* Who has asked for it shall know that it is not so. */
static void say_ignored(const struct vv_session *session) {
    if (session->settings.aggregate > 1 && vv_comm_is_root(session->comm) && session->comm->ranks > 1)
        vv_log(&session->log, VV_LOG_WARN, "aggregate=%d has no effect, every rank writes by itself: %s",
               session->settings.aggregate, session->team.reason);
}

/* All ranks share memory with those of their node, and every team has its writer. */
static int set_up(struct vv_session *session, struct varve_error *error) {
    struct vv_team *team = &session->team;
    int rc = vv_post_open(session->comm, team->teams, &team->post, error);
    if (rc)
        return rc;
    if (session->comm->rank == team->first)
        rc = vv_team_writer_start(session, &team->thread, error);
    return vv_comm_agree(session->comm, rc, error);
}

int vv_team_open(struct vv_session *session, struct varve_error *error) {
    struct varve_comm *comm = session->comm;
    const char *reason = why_not(session);
    stand_alone(session, reason);
    if (reason) {
        say_ignored(session);
        return 0;
    }
    uint64_t is_possible = (uint64_t)is_in_order(comm, comm->ops->node_size(comm, comm->node));
    int rc = comm->ops->least(comm, &is_possible, 1);
    if (rc)
        return vv_error(error, rc, "the ranks could not agree: %s", varve_error_text(rc));
    if (!is_possible) {
        stand_alone(session, "the ranks of a node do not follow one another");
        say_ignored(session);
        return 0;
    }
    session->team = (struct vv_team){.first = 0};
    strcpy(session->team.reason, session->settings.aggregate ? "as asked for" : "not measured yet");
    place(session);
    rc = set_up(session, error);
    int is_for_want_of_memory = rc == -ENOTSUP || rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE;
    if (is_for_want_of_memory && !session->team.post) { /* the same on all ranks */
        if (vv_comm_is_root(comm))
            vv_log(&session->log, session->settings.aggregate ? VV_LOG_WARN : VV_LOG_INFO,
                   "every rank writes by itself: %s", error->text);
        vv_error_clear(error);
        stand_alone(session, "the ranks of a node cannot share memory");
        return 0;
    }
    session->team.is_measured = session->settings.aggregate == 0;
    session->team.trial_gap = FIRST_GAP;
    return rc;
}

void vv_team_close(struct vv_session *session) {
    vv_team_writer_stop(session->team.thread);
    vv_post_close(session->team.post);
    session->team.thread = NULL;
    session->team.post = NULL;
}

/* The first two checkpoints are shared, the third is not; then the better way is kept, and the other tried now and then. */
int vv_team_wants(struct vv_session *session) {
    struct vv_team *team = &session->team;
    if (!team->post)
        return 0;
    if (!team->is_measured)
        return 1;
    if (team->ns_shared <= 0)
        return 1;
    int is_better_alone = team->ns_alone > 0 && team->ns_alone * BETTER < team->ns_shared;
    if (team->checkpoints++ < team->next_trial)
        return !is_better_alone;
    team->checkpoints = 0;
    team->next_trial = team->trial_gap;
    team->trial_gap *= 2;
    return is_better_alone;
}

/* The slowest rank counts, and the one with most new data: checkpoints of the same job are compared with each other, no more. */
int vv_team_learn(struct vv_session *session, const struct vv_save *save, struct varve_error *error) {
    struct vv_team *team = &session->team;
    uint64_t least[2] = {~(save->sealed_ns - save->begun_ns), ~(save->sums.fresh + save->sums.rewritten)};
    if (!team->is_measured)
        return 0;
    int rc = session->comm->ops->least(session->comm, least, 2);
    if (rc)
        return vv_error(error, rc, "the ranks could not agree: %s", varve_error_text(rc));
    uint64_t took = ~least[0], bytes = ~least[1];
    if (bytes < WORTH_BYTES)
        snprintf(team->reason, sizeof team->reason, "%s, too little new data to measure (below 8 MiB on every rank)",
                 save->is_gathered ? "shared" : "not shared");
    else if (team->is_warm) /* the first one is like no other */
        *(save->is_gathered ? &team->ns_shared : &team->ns_alone) = (double)took / (double)bytes;
    team->is_warm |= bytes >= WORTH_BYTES;
    if (bytes >= WORTH_BYTES && team->ns_alone > 0 && team->ns_shared > 0)
        snprintf(team->reason, sizeof team->reason, "as measured: 1 MiB of a rank takes %.2f ms shared, %.2f ms alone",
                 team->ns_shared * 1048576e-6, team->ns_alone * 1048576e-6);
    return 0;
}
