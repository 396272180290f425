/* Which ranks share a writer, and whether that pays. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "write/output.h"

#define STANDARD 32            /* ranks of a team */
#define WORTH_RANKS 8          /* of a node, from which on it is tried without being asked for */
#define WORTH_BYTES (8u << 20) /* of a rank: less tells nothing about speed */
#define MUCH_BYTES (64u << 20) /* that a rank protects */
#define FIRST_GAP 16u          /* checkpoints until the slower way is tried again; then twice as many */
#define BETTER 1.1             /* writing alone must be so much faster */

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
static const char *why_not(struct vv_outputs *outputs) {
    struct varve_comm *comm = outputs->job->comm;
    int asked = outputs->job->settings.aggregate;
    if (asked == 1)
        return "aggregate=off";
    if (comm->ranks == 1)
        return "there is one rank";
    if (vv_is_local(outputs->job))
        return "on node-local storage every rank writes by itself";
    if (outputs->replicas.count > 0)
        return "copies are kept by ranks that write by themselves";
    if (comm->nodes == 0 || !comm->ops->node_size || !comm->ops->rank_of || !comm->ops->exchange)
        return "the group of processes does not say which ranks share a node";
    if (asked == 0 && comm->least_local < WORTH_RANKS)
        return "the nodes have few ranks";
    return NULL;
}

static uint32_t most_ranks(const struct vv_outputs *outputs) {
    return outputs->job->settings.aggregate ? (uint32_t)outputs->job->settings.aggregate : STANDARD;
}

static uint32_t team_of(uint32_t ranks, uint32_t teams, uint32_t local) {
    uint32_t team = 0;
    while (vv_team_begin(ranks, teams, team + 1) <= local)
        team++;
    return team;
}

uint32_t vv_team_count_of(const struct vv_outputs *outputs, uint32_t node) {
    return teams_of(outputs->job->comm->ops->node_size(outputs->job->comm, node), most_ranks(outputs));
}

uint32_t vv_team_writer_of(const struct vv_outputs *outputs, uint32_t node, uint32_t local) {
    struct varve_comm *comm = outputs->job->comm;
    uint32_t writer = 0, ranks = comm->ops->node_size(comm, node);
    for (uint32_t i = 0; i < node; i++)
        writer += vv_team_count_of(outputs, i);
    return writer + team_of(ranks, vv_team_count_of(outputs, node), local);
}

/* Numbers of teams and ranks. */
static void place(struct vv_outputs *outputs) {
    struct varve_comm *comm = outputs->job->comm;
    struct vv_team *team = &outputs->team;
    uint32_t ranks = comm->ops->node_size(comm, comm->node);
    team->teams = vv_team_count_of(outputs, comm->node);
    team->team = team_of(ranks, team->teams, comm->local);
    team->local_first = vv_team_begin(ranks, team->teams, team->team);
    team->count = vv_team_begin(ranks, team->teams, team->team + 1) - team->local_first;
    team->first = comm->rank - comm->local + team->local_first;
    for (uint32_t node = 0; node < comm->nodes; node++)
        team->writers += vv_team_count_of(outputs, node);
    team->writer = vv_team_writer_of(outputs, comm->node, comm->local);
}

static void stand_alone(struct vv_outputs *outputs, const char *reason) {
    struct varve_comm *comm = outputs->job->comm;
    outputs->team = (struct vv_team){.first = comm->rank, .count = 1, .writer = comm->rank, .writers = comm->ranks};
    snprintf(outputs->team.reason, sizeof outputs->team.reason, "%s", reason ? reason : "");
}

/* Who has asked for it shall know that it is not so. */
static void say_ignored(const struct vv_outputs *outputs) {
    if (outputs->job->settings.aggregate > 1 && vv_comm_is_root(outputs->job->comm) && outputs->job->comm->ranks > 1)
        vv_log(&outputs->job->log, VV_LOG_WARN, "aggregate=%d has no effect, every rank writes by itself: %s",
               outputs->job->settings.aggregate, outputs->team.reason);
}

/* All ranks share memory with those of their node, and every team has its writer. */
static int set_up(struct vv_outputs *outputs, struct varve_error *error) {
    struct vv_team *team = &outputs->team;
    int rc = vv_post_open(outputs->job->comm, team->teams, &team->post, error);
    if (rc)
        return rc;
    if (outputs->job->comm->rank == team->first)
        rc = vv_team_writer_start(outputs, &team->thread, error);
    return vv_comm_agree(outputs->job->comm, rc, error);
}

int vv_team_open(struct vv_outputs *outputs, struct varve_error *error) {
    struct varve_comm *comm = outputs->job->comm;
    const char *reason = why_not(outputs);
    stand_alone(outputs, reason);
    if (reason) {
        say_ignored(outputs);
        return 0;
    }
    uint64_t is_possible = (uint64_t)is_in_order(comm, comm->ops->node_size(comm, comm->node));
    int rc = comm->ops->reduce_min(comm, &is_possible, 1);
    if (rc)
        return vv_error(error, rc, "the ranks could not agree: %s", varve_error_text(rc));
    if (!is_possible) {
        stand_alone(outputs, "the ranks of a node do not follow one another");
        say_ignored(outputs);
        return 0;
    }
    outputs->team = (struct vv_team){.first = 0};
    strcpy(outputs->team.reason, outputs->job->settings.aggregate ? "as asked for" : "not measured yet");
    place(outputs);
    rc = set_up(outputs, error);
    int is_for_want_of_memory = rc == -ENOTSUP || rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE;
    if (is_for_want_of_memory && !outputs->team.post) { /* the same on all ranks */
        if (vv_comm_is_root(comm))
            vv_log(&outputs->job->log, outputs->job->settings.aggregate ? VV_LOG_WARN : VV_LOG_INFO,
                   "every rank writes by itself: %s", error->text);
        vv_error_clear(error);
        stand_alone(outputs, "the ranks of a node cannot share memory");
        return 0;
    }
    outputs->team.is_measured = outputs->job->settings.aggregate == 0;
    outputs->team.trial_gap = FIRST_GAP;
    return rc;
}

void vv_team_close(struct vv_outputs *outputs) {
    vv_team_writer_stop(outputs->team.thread);
    vv_post_close(outputs->team.post);
    outputs->team.thread = NULL;
    outputs->team.post = NULL;
}

/* The first two checkpoints are shared, the third is not; then the better way is kept, and the other tried now and
 * then. Ranks with much data begin alone, and share for a trial only later: files are long then, whoever writes them,
 * and one writer for all may be the slower way by far. */
int vv_team_wants(struct vv_outputs *outputs, uint64_t protected_bytes) {
    struct vv_team *team = &outputs->team;
    int is_much = protected_bytes >= MUCH_BYTES;
    if (!team->post)
        return 0;
    if (!team->is_measured)
        return 1;
    if (team->ns_shared <= 0 && team->ns_alone <= 0) {
        team->next_trial = is_much ? FIRST_GAP : 0;
        return !is_much;
    }
    int is_better_alone = team->ns_shared <= 0 || (team->ns_alone > 0 && team->ns_alone * BETTER < team->ns_shared);
    if (team->checkpoints++ < team->next_trial)
        return !is_better_alone;
    team->checkpoints = 0;
    team->next_trial = team->trial_gap;
    team->trial_gap *= 2;
    return is_better_alone;
}

/* The slowest rank counts, and the one with most new data: checkpoints of the same job are compared with each other, no
 * more. */
int vv_team_learn(struct vv_outputs *outputs, int is_shared, uint64_t took_ns, uint64_t fresh,
                  struct varve_error *error) {
    struct vv_team *team = &outputs->team;
    uint64_t least[2] = {~took_ns, ~fresh};
    if (!team->is_measured)
        return 0;
    int rc = outputs->job->comm->ops->reduce_min(outputs->job->comm, least, 2);
    if (rc)
        return vv_error(error, rc, "the ranks could not agree: %s", varve_error_text(rc));
    uint64_t took = ~least[0], bytes = ~least[1];
    if (bytes < WORTH_BYTES)
        snprintf(team->reason, sizeof team->reason, "%s, too little new data to measure (below 8 MiB on every rank)",
                 is_shared ? "shared" : "not shared");
    else if (team->is_warm) /* the first one is like no other */
        *(is_shared ? &team->ns_shared : &team->ns_alone) = (double)took / (double)bytes;
    team->is_warm |= bytes >= WORTH_BYTES;
    if (bytes >= WORTH_BYTES && team->ns_alone > 0 && team->ns_shared > 0)
        snprintf(team->reason, sizeof team->reason, "as measured: 1 MiB of a rank takes %.2f ms shared, %.2f ms alone",
                 team->ns_shared * 1048576e-6, team->ns_alone * 1048576e-6);
    return 0;
}
