/* Mailboxes in shared memory, one for each pair of ranks, and the ops of struct varve_comm on top of them. */
#ifndef VARVE_GROUP_PRIVATE_H
#define VARVE_GROUP_PRIVATE_H

#include <pthread.h>
#include <varve/varve_comm.h>

#include "group.h"

#define LANES 2 /* one for comms, one for second ones */

enum call { REDUCE_MIN, BROADCAST, GATHER, EXCHANGE, CALLS };

struct ring {
    uint64_t put, taken; /* bytes in all */
    uint8_t data[];
};

struct mailboxes {
    pthread_mutex_t lock;
    pthread_cond_t changed[LANES][GROUP_RANKS_MAX]; /* something came for this rank, or was taken from it */
    int has_left[GROUP_RANKS_MAX];
    int is_broken;
    int has_second;
    uint32_t node_of[GROUP_RANKS_MAX];
    uint32_t ranks;
    uint32_t ring_size;
    _Alignas(struct ring) uint8_t rings[]; /* see ring_of; pages that are never used cost nothing */
};

struct header {
    uint64_t number; /* of the call on its comm */
    uint64_t size;
    uint32_t comm;
    uint32_t call;
};

struct group_member {
    struct varve_comm comm;
    struct mailboxes *boxes;
    uint64_t number; /* of the collective call that it is in, or was in last */
    uint32_t id;
    uint32_t lane;
    uint32_t *next_id; /* of the comm to be made next; the same in all comms of a rank */
};

struct mailboxes *mailboxes_create(uint32_t ranks, const struct group_options *options); /* options may be NULL */
void mailboxes_destroy(struct mailboxes *boxes);

/* A comm of this rank; frees itself when closed. */
struct varve_comm *mailboxes_comm(struct mailboxes *boxes, uint32_t rank, uint32_t ranks);
/* The rank sends nothing any more: who waits for it is told that the ranks differ in what they do. */
void mailboxes_leave(struct mailboxes *boxes, uint32_t rank);
/* Somebody has died: calls fail from now on. */
void mailboxes_break(struct mailboxes *boxes);
int box_is_broken(struct mailboxes *boxes);

/* ---- bytes: the lock is held ---- */

void box_lock(struct mailboxes *boxes); /* unlocked as any other */
struct ring *box_ring(struct mailboxes *boxes, uint32_t lane, uint32_t from, uint32_t to);
/* As many of the bytes as there is room for now, or as are there now. */
size_t box_put_some(struct group_member *member, uint32_t to, const uint8_t *data, size_t size);
size_t box_take_some(struct group_member *member, uint32_t from, uint8_t *data, size_t size);
/* Nothing has come from this rank: wait, unless it is in vain. */
int box_wait_for(struct group_member *member, uint32_t from);

/* ---- whole messages; the lock is not held ---- */

int box_send(struct group_member *member, uint32_t to, enum call call, const void *data, size_t size);
/* The header of the next message from a rank; its size is to be checked by those who know it. */
int box_expect(struct group_member *member, uint32_t from, enum call call, size_t *size_out);
int box_take_bytes(struct group_member *member, uint32_t from, void *data, size_t size);
int box_receive(struct group_member *member, uint32_t from, enum call call, void *data, size_t size);
/* Fails the rank if the message is of another call. */
void box_check_header(struct group_member *member, uint32_t from, enum call call, const struct header *header);

/* The op (group_exchange.c). */
int group_exchange(struct varve_comm *comm, const struct varve_message *out, size_t out_count, const uint32_t *from,
                   size_t from_count, varve_gather_fn fn, void *arg);

#endif
