/* A group whose ranks are threads of this process, laid out over nodes as a test likes: for code that must work with
 * many ranks and knows its group only through struct varve_comm. */
#ifndef VARVE_THREAD_GROUP_H
#define VARVE_THREAD_GROUP_H

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve_comm.h>

#define THREAD_RANKS_MAX 512

struct thread_letter {
    struct thread_letter *next;
    uint32_t from;
    size_t size;
    uint8_t bytes[];
};

struct thread_group {
    uint32_t ranks, nodes, least_local;
    uint32_t node_of[THREAD_RANKS_MAX], local_of[THREAD_RANKS_MAX];
    uint32_t node_sizes[THREAD_RANKS_MAX];
    uint32_t rank_of[THREAD_RANKS_MAX][THREAD_RANKS_MAX];
    pthread_mutex_t mutex;
    pthread_cond_t has_come[THREAD_RANKS_MAX];
    struct thread_letter *boxes[THREAD_RANKS_MAX], **ends[THREAD_RANKS_MAX];
    /* one reduction or broadcast at a time */
    pthread_cond_t is_over;
    uint64_t values[8], result[8], round;
    uint8_t *shared;
    uint32_t arrived;
};

struct thread_comm {
    struct varve_comm comm;
    struct thread_group *group;
};

static struct thread_group *thread_group_of(struct varve_comm *comm) {
    return ((struct thread_comm *)comm)->group;
}

/* Called with the mutex held; the last one to come calls last. */
static void thread_meet(struct thread_group *group) {
    uint64_t round = group->round;
    if (++group->arrived == group->ranks) {
        group->arrived = 0;
        group->round++;
        memcpy(group->result, group->values, sizeof group->values);
        memset(group->values, 0xff, sizeof group->values);
        pthread_cond_broadcast(&group->is_over);
    }
    while (group->round == round)
        pthread_cond_wait(&group->is_over, &group->mutex);
}

static int thread_reduce_min(struct varve_comm *comm, uint64_t *values, size_t count) {
    struct thread_group *group = thread_group_of(comm);
    if (count > 8)
        return -EINVAL;
    pthread_mutex_lock(&group->mutex);
    for (size_t i = 0; i < count; i++)
        if (values[i] < group->values[i])
            group->values[i] = values[i];
    thread_meet(group);
    memcpy(values, group->result, count * sizeof *values);
    pthread_mutex_unlock(&group->mutex);
    return 0;
}

static int thread_broadcast(struct varve_comm *comm, void *data, size_t size, uint32_t root) {
    struct thread_group *group = thread_group_of(comm);
    pthread_mutex_lock(&group->mutex);
    if (comm->rank == root) {
        group->shared = malloc(size + 1);
        if (size)
            memcpy(group->shared, data, size);
    }
    thread_meet(group);
    if (comm->rank != root && size)
        memcpy(data, group->shared, size);
    thread_meet(group);
    if (comm->rank == root)
        free(group->shared);
    pthread_mutex_unlock(&group->mutex);
    return 0;
}

static void thread_send(struct thread_group *group, uint32_t from, const struct varve_message *message) {
    struct thread_letter *letter = malloc(sizeof *letter + message->size);
    letter->next = NULL;
    letter->from = from;
    letter->size = message->size;
    if (message->size)
        memcpy(letter->bytes, message->data, message->size);
    pthread_mutex_lock(&group->mutex);
    *group->ends[message->rank] = letter;
    group->ends[message->rank] = &letter->next;
    pthread_cond_signal(&group->has_come[message->rank]);
    pthread_mutex_unlock(&group->mutex);
}

/* The first letter from one of these ranks that has not come yet. */
static struct thread_letter *thread_receive(struct thread_group *group, uint32_t rank, const uint32_t *from,
                                            uint8_t *has_come, size_t count) {
    pthread_mutex_lock(&group->mutex);
    for (;;) {
        for (struct thread_letter **at = &group->boxes[rank]; *at; at = &(*at)->next)
            for (size_t i = 0; i < count; i++)
                if (!has_come[i] && from[i] == (*at)->from) {
                    struct thread_letter *letter = *at;
                    *at = letter->next;
                    if (!*at)
                        group->ends[rank] = at;
                    has_come[i] = 1;
                    pthread_mutex_unlock(&group->mutex);
                    return letter;
                }
        pthread_cond_wait(&group->has_come[rank], &group->mutex);
    }
}

static int thread_exchange(struct varve_comm *comm, const struct varve_message *out, size_t out_count,
                           const uint32_t *from, size_t from_count, varve_gather_fn fn, void *arg) {
    struct thread_group *group = thread_group_of(comm);
    uint8_t has_come[THREAD_RANKS_MAX] = {0};
    int rc = 0;
    for (size_t i = 0; i < out_count; i++)
        thread_send(group, comm->rank, &out[i]);
    for (size_t i = 0; i < from_count; i++) {
        struct thread_letter *letter = thread_receive(group, comm->rank, from, has_come, from_count);
        if (rc == 0)
            rc = fn(arg, letter->from, letter->bytes, letter->size);
        free(letter);
    }
    return rc;
}

static uint32_t thread_node_size(struct varve_comm *comm, uint32_t node) {
    return thread_group_of(comm)->node_sizes[node];
}

static uint32_t thread_rank_of(struct varve_comm *comm, uint32_t node, uint32_t local) {
    return thread_group_of(comm)->rank_of[node][local];
}

static void thread_place_of(struct varve_comm *comm, uint32_t rank, uint32_t *node, uint32_t *local) {
    *node = thread_group_of(comm)->node_of[rank];
    *local = thread_group_of(comm)->local_of[rank];
}

static const struct varve_comm_ops thread_ops = {
    .size = sizeof(struct varve_comm_ops),
    .name = "threads",
    .reduce_min = thread_reduce_min,
    .broadcast = thread_broadcast,
    .exchange = thread_exchange,
    .node_size = thread_node_size,
    .rank_of = thread_rank_of,
    .place_of = thread_place_of,
};

/* node_of: per rank, from 0 without gaps; NULL: nothing is known about nodes. */
static inline struct thread_group *thread_group_create(uint32_t ranks, const uint32_t *node_of) {
    struct thread_group *group = calloc(1, sizeof *group);
    group->ranks = ranks;
    pthread_mutex_init(&group->mutex, NULL);
    pthread_cond_init(&group->is_over, NULL);
    memset(group->values, 0xff, sizeof group->values);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        pthread_cond_init(&group->has_come[rank], NULL);
        group->ends[rank] = &group->boxes[rank];
        if (!node_of)
            continue;
        uint32_t node = node_of[rank];
        group->node_of[rank] = node;
        group->local_of[rank] = group->node_sizes[node];
        group->rank_of[node][group->node_sizes[node]++] = rank;
        if (node >= group->nodes)
            group->nodes = node + 1;
    }
    for (uint32_t node = 0; node < group->nodes; node++)
        if (node == 0 || group->node_sizes[node] < group->least_local)
            group->least_local = group->node_sizes[node];
    return group;
}

static inline void thread_group_destroy(struct thread_group *group) {
    free(group);
}

static inline struct thread_comm thread_comm_of(struct thread_group *group, uint32_t rank) {
    return (struct thread_comm){{&thread_ops, rank, group->ranks, group->nodes, group->node_of[rank],
                                 group->local_of[rank], group->least_local, NULL},
                                group};
}

typedef void (*thread_rank_fn)(struct varve_comm *comm, void *arg);

struct thread_rank {
    struct thread_comm comm;
    thread_rank_fn fn;
    void *arg;
};

static void *thread_rank_run(void *arg) {
    struct thread_rank *rank = arg;
    rank->fn(&rank->comm.comm, rank->arg);
    return NULL;
}

static inline void thread_group_run(struct thread_group *group, thread_rank_fn fn, void *arg) {
    pthread_t threads[THREAD_RANKS_MAX];
    struct thread_rank *ranks = calloc(group->ranks, sizeof *ranks);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    for (uint32_t i = 0; i < group->ranks; i++) {
        ranks[i] = (struct thread_rank){thread_comm_of(group, i), fn, arg};
        if (pthread_create(&threads[i], &attributes, thread_rank_run, &ranks[i]) != 0)
            abort();
    }
    for (uint32_t i = 0; i < group->ranks; i++)
        pthread_join(threads[i], NULL);
    pthread_attr_destroy(&attributes);
    free(ranks);
}

#endif
