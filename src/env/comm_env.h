/* The group over TCP, between the files of this folder.
 *
 * A rank has one thread, the monitor, and two channels: the comm and its second one. The monitor accepts connections
 * and watches that the other ranks live; a channel sends and receives, in the thread that uses it. A connection of a
 * channel has one direction: the sender opens it when it first has something to send, so two ranks never open the same
 * one. */
#ifndef VARVE_COMM_ENV_H
#define VARVE_COMM_ENV_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <varve/varve_comm.h>
#include <varve/varve_env.h>

#include "door.h"
#include "wire.h"

#define VV_ENV_CHANNELS 2
#define VV_ENV_TREE_MOST 33 /* neighbours in the tree: those below rank 0 of 2^32 ranks, and one above */

/* What the environment says. */
struct vv_env_plan {
    uint32_t rank, ranks;
    char host[256];
    uint16_t port;
    int is_loopback; /* MASTER_ADDR is an address of this host that no other host reaches */
    int connect_seconds, peer_seconds;
    uint8_t key[VV_ENV_KEY]; /* all ranks have it; strangers have not, if there is a secret */
};

/* A neighbour in the tree that the monitors make. */
struct vv_env_neighbour {
    uint32_t rank;
    int fd;            /* -1: not there yet, or not any more */
    int has_left;      /* it has closed the group */
    int64_t heard;     /* when, last */
    uint32_t put, got; /* notes */
    uint8_t note[sizeof(struct vv_env_note)];
    size_t note_bytes; /* of one that has not come whole */
};

struct vv_env_group {
    struct vv_env_plan plan;
    uint8_t key[VV_ENV_KEY];      /* of this group alone: rank 0 has drawn it by lot */
    struct vv_env_card *cards;    /* of all ranks: where each listens, and on which node it is */
    int was_answered;             /* something at rank 0's port has refused this rank */
    struct sockaddr_storage root; /* where rank 0 was reached; on rank 0, where it listens */
    uint8_t proof[VV_ENV_KEY];    /* of this rank, to rank 0 */
    struct vv_env_door door;      /* the monitor's */
    pthread_t monitor;
    int has_monitor;
    int wake;                  /* eventfd of the monitor */
    int bell[VV_ENV_CHANNELS]; /* eventfd of each channel: something has come, or broken */
    atomic_int is_broken, is_leaving;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    char reason[256];              /* why it is broken */
    int *arrived[VV_ENV_CHANNELS]; /* connections for a channel, by rank; -1: none yet, -2: it has taken it */
    uint32_t missing;              /* neighbours that have not come */
    struct vv_env_neighbour neighbours[VV_ENV_TREE_MOST]; /* the monitor's, once it runs */
    uint32_t neighbour_count;
    uint32_t *first, *by_node, *node_of; /* places: the ranks node by node, where each begins, and the reverse */
    varve_log_fn log;
    void *log_arg;
    unsigned forks; /* as it was when the group was made */
};

/* ---- settings.c ---- */
int vv_env_read_plan(struct vv_env_plan *plan, struct varve_error *error);
/* The same, as the program tells it. */
int vv_env_take_plan(const struct varve_env *self, struct vv_env_plan *plan, struct varve_error *error);
int vv_env_refuse(struct varve_error *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- meet.c: all ranks know all others, or an error with its reason ---- */
int vv_env_meet(struct vv_env_group *group, struct varve_error *error);

/* ---- monitor.c ---- */
/* Connects to the one above in the tree. */
int vv_env_monitor_start(struct vv_env_group *group, const struct vv_env_limit *limit, struct varve_error *error);
/* Until those below have connected. */
int vv_env_monitor_await(struct vv_env_group *group, const struct vv_env_limit *limit, struct varve_error *error);
void vv_env_monitor_stop(struct vv_env_group *group);
/* From any thread: the group cannot talk any more. The first reason counts; it is logged, and the others are told.
 * Returns -ECOMM. */
int vv_env_break(struct vv_env_group *group, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Where a rank listens. */
void vv_env_address_of(const struct vv_env_group *group, uint32_t rank, struct sockaddr_storage *out);

/* ---- channel.c ---- */
struct vv_env_inlet;
struct vv_env_outlet {
    int fd; /* -1: none yet */
    uint64_t count;
};
struct vv_env_comm {
    struct varve_comm comm;
    struct vv_env_group *group;
    uint32_t channel;
    struct vv_env_outlet *outlets; /* by rank */
    struct vv_env_inlet **inlets;  /* by rank; NULL: none yet */
    struct pollfd *polled;
    size_t polled_capacity;
};

enum vv_env_kind { VV_ENV_REDUCE = 0x7661, VV_ENV_BROADCAST, VV_ENV_GATHER, VV_ENV_EXCHANGE };

/* Messages to some ranks, and one from each of some others, all at the same time; this rank itself is left out. */
struct vv_env_transfer {
    enum vv_env_kind kind;
    const struct varve_message *out;
    size_t out_count;
    const uint32_t *from;
    size_t from_count;
    void *into; /* where the only message, of into_size bytes exactly, is received; NULL: fn takes them */
    size_t into_size;
    varve_gather_fn fn;
    void *arg;
};
int vv_env_channel_init(struct vv_env_comm *own, struct vv_env_group *group, uint32_t channel);
void vv_env_channel_clear(struct vv_env_comm *own);
/* 0, fn's first error, or -ECOMM: then the group is broken. */
int vv_env_transfer(struct vv_env_comm *own, const struct vv_env_transfer *transfer);

/* ---- collectives.c, places.c ---- */
int vv_env_reduce_min(struct varve_comm *comm, uint64_t *values, size_t count);
int vv_env_broadcast(struct varve_comm *comm, void *data, size_t size, uint32_t root);
int vv_env_gather(struct varve_comm *comm, const void *data, size_t size, varve_gather_fn fn, void *arg);
int vv_env_exchange(struct varve_comm *comm, const struct varve_message *out, size_t out_count, const uint32_t *from,
                    size_t from_count, varve_gather_fn fn, void *arg);
int vv_env_find_nodes(struct vv_env_group *group, struct varve_comm *comm);
uint32_t vv_env_node_size(struct varve_comm *comm, uint32_t node);
uint32_t vv_env_rank_of(struct varve_comm *comm, uint32_t node, uint32_t local);
void vv_env_place_of(struct varve_comm *comm, uint32_t rank, uint32_t *node, uint32_t *local);

#endif
