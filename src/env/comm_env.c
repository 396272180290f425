/* The group of processes that the environment names, over TCP: made and closed.
 *
 * A library of its own (libvarve_env) on the public headers, as that for MPI: programs that do not need it need neither
 * its connections nor libcrypto. */
#include "comm_env.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

static void close_group(struct vv_env_group *group) {
    vv_env_monitor_stop(group);
    vv_env_close_fd(group->wake);
    for (int i = 0; i < VV_ENV_CHANNELS; i++) {
        vv_env_close_fd(group->bell[i]);
        for (uint32_t rank = 0; group->arrived[i] && rank < group->plan.ranks; rank++)
            vv_env_close_fd(group->arrived[i][rank]);
        free(group->arrived[i]);
    }
    pthread_cond_destroy(&group->changed);
    pthread_mutex_destroy(&group->lock);
    free(group->first);
    free(group->by_node);
    free(group->node_of);
    free(group->cards);
    explicit_bzero(group, sizeof *group); /* it has keys */
    free(group);
}

/* The neighbours are told before the connections of the channels close, so that nobody takes it for a death. */
static void env_close(struct varve_comm *comm) {
    struct vv_env_comm *own = (struct vv_env_comm *)comm, *second = (struct vv_env_comm *)comm->second;
    struct vv_env_group *group = own->group;
    if (group)
        vv_env_monitor_stop(group);
    if (second)
        vv_env_channel_clear(second);
    vv_env_channel_clear(own);
    if (group)
        close_group(group);
    free(second);
    free(own);
}

static const struct varve_comm_ops env_ops = {
    .size = sizeof(struct varve_comm_ops),
    .name = "env",
    .reduce_min = vv_env_reduce_min,
    .broadcast = vv_env_broadcast,
    .gather = vv_env_gather,
    .close = env_close,
    .exchange = vv_env_exchange,
    .node_size = vv_env_node_size,
    .rank_of = vv_env_rank_of,
    .place_of = vv_env_place_of,
};

static struct vv_env_group *create_group(const struct vv_env_plan *plan) {
    struct vv_env_group *group = calloc(1, sizeof *group);
    if (!group)
        return NULL;
    group->plan = *plan;
    group->forks = vv_env_forks();
    group->door.listener = -1;
    pthread_mutex_init(&group->lock, NULL);
    pthread_cond_init(&group->changed, NULL);
    group->wake = vv_env_keep_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    int is_good = group->wake >= 0;
    for (int i = 0; i < VV_ENV_CHANNELS; i++) {
        group->bell[i] = vv_env_keep_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        group->arrived[i] = malloc(plan->ranks * sizeof *group->arrived[i]);
        is_good = is_good && group->bell[i] >= 0 && group->arrived[i];
        for (uint32_t rank = 0; group->arrived[i] && rank < plan->ranks; rank++)
            group->arrived[i][rank] = -1;
    }
    group->cards = calloc(plan->ranks, sizeof *group->cards);
    if (is_good && group->cards)
        return group;
    close_group(group);
    return NULL;
}

static int fill_comms(struct vv_env_comm *own, struct vv_env_comm *second, struct vv_env_group *group) {
    own->comm = (struct varve_comm){.ops = &env_ops, .rank = group->plan.rank, .ranks = group->plan.ranks};
    int rc = vv_env_find_nodes(group, &own->comm);
    if (rc)
        return rc;
    vv_env_place_of(&own->comm, own->comm.rank, &own->comm.node, &own->comm.local);
    second->comm = own->comm;
    own->comm.second = &second->comm;
    return 0;
}

/* Memory first: a rank that has none does not even join. */
static int open_comm(const struct varve_env *self, varve_log_fn log, void *log_arg, struct varve_comm **out,
                     struct varve_error *error) {
    struct vv_env_plan plan;
    int rc = self ? vv_env_take_plan(self, &plan, error) : vv_env_read_plan(&plan, error);
    if (rc)
        return rc;
    struct vv_env_comm *own = calloc(1, sizeof *own), *second = calloc(1, sizeof *second);
    struct vv_env_group *group = create_group(&plan);
    explicit_bzero(plan.key, sizeof plan.key);
    if (!own || !second || !group || vv_env_channel_init(own, group, 0) || vv_env_channel_init(second, group, 1)) {
        rc = vv_env_refuse(error, -ENOMEM, "rank %u has no memory, or no more open files, for its group", plan.rank);
    } else {
        group->log = log;
        group->log_arg = log_arg;
        rc = plan.ranks > 1 ? vv_env_meet(group, error) : 0;
    }
    if (rc == 0 && (rc = fill_comms(own, second, group)) != 0)
        vv_env_refuse(error, rc, "rank %u has no memory for the table of nodes", plan.rank);
    if (rc == 0) {
        *out = &own->comm;
        return 0;
    }
    if (group) { /* the others need not wait, and need no second message from here */
        atomic_store(&group->is_leaving, 1);
        vv_env_break(group, "rank %u could not start", plan.rank);
    }
    if (second)
        vv_env_channel_clear(second);
    if (own)
        vv_env_channel_clear(own);
    free(second);
    free(own);
    if (group)
        close_group(group);
    return rc;
}

int varve_comm_env(struct varve_comm **out, struct varve_error *error) {
    if (!out)
        return vv_env_refuse(error, -EINVAL, "varve_comm_env needs a place for the group");
    *out = NULL;
    return open_comm(NULL, NULL, NULL, out, error);
}

static int open_session(const struct varve_env *self, const char *store, const char *name,
                        const struct varve_options *options, struct varve_session **out, struct varve_error *error) {
    struct varve_comm *comm = NULL;
    if (out)
        *out = NULL;
    int has_log = options && options->size >= offsetof(struct varve_options, log_arg) + sizeof options->log_arg;
    int rc = open_comm(self, has_log ? options->log : NULL, has_log ? options->log_arg : NULL, &comm, error);
    return rc ? rc : varve_open_comm(comm, store, name, options, out, error);
}

int varve_open_env(const char *store, const char *name, const struct varve_options *options, struct varve_session **out,
                   struct varve_error *error) {
    return open_session(NULL, store, name, options, out, error);
}

int varve_open_env_as(const struct varve_env *self, const char *store, const char *name,
                      const struct varve_options *options, struct varve_session **out, struct varve_error *error) {
    if (self)
        return open_session(self, store, name, options, out, error);
    if (out)
        *out = NULL;
    return vv_env_refuse(error, -EINVAL, "varve_open_env_as needs to be told which rank this is");
}
