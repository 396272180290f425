/* Messages between the processes of a group.
 *
 * Each pair of ranks has a ring of bytes; a message is a header and its bytes, and a long one passes through in pieces while the
 * receiver empties the ring. The header says which call it belongs to: a receiver that expects another one has found ranks
 * that do not make the same calls. The lock is robust, since its owner may be killed at any moment. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "group.h"
#include "group_private.h"

#define RING 65536u

enum call { LEAST, BROADCAST, COLLECT };
static const char *const call_names[] = {"least", "broadcast", "collect"};

struct ring {
    uint64_t put, taken; /* bytes in all */
    uint8_t data[RING];
};

struct mailboxes {
    pthread_mutex_t lock;
    pthread_cond_t changed[GROUP_RANKS_MAX]; /* something came for this rank, or was taken from it */
    int has_left[GROUP_RANKS_MAX];
    int is_broken;
    uint32_t ranks;
    struct ring rings[]; /* from * ranks + to; pages that are never used cost nothing */
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
    uint64_t number;
    uint32_t id;
    uint32_t *next_id; /* of the comm to be made next; the same in all comms of a rank */
};

static size_t boxes_size(uint32_t ranks) {
    return sizeof(struct mailboxes) + (size_t)ranks * ranks * sizeof(struct ring);
}

struct mailboxes *mailboxes_create(uint32_t ranks) {
    pthread_mutexattr_t mutex;
    pthread_condattr_t condition;
    if (ranks < 1 || ranks > GROUP_RANKS_MAX) {
        fprintf(stderr, "a group has 1 to %d ranks\n", GROUP_RANKS_MAX);
        exit(2);
    }
    struct mailboxes *boxes = group_memory(boxes_size(ranks));
    boxes->ranks = ranks;
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&boxes->lock, &mutex);
    pthread_mutexattr_destroy(&mutex);
    pthread_condattr_init(&condition);
    pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
    for (uint32_t rank = 0; rank < ranks; rank++)
        pthread_cond_init(&boxes->changed[rank], &condition);
    pthread_condattr_destroy(&condition);
    return boxes;
}

/* Nothing is destroyed one by one: ranks were killed while they waited, and destroying a condition waits for its waiters. */
void mailboxes_destroy(struct mailboxes *boxes) {
    group_memory_free(boxes, boxes_size(boxes->ranks));
}

static void settle(struct mailboxes *boxes, int rc) {
    if (rc == EOWNERDEAD)
        pthread_mutex_consistent(&boxes->lock);
}

static void lock(struct mailboxes *boxes) {
    settle(boxes, pthread_mutex_lock(&boxes->lock));
}

static void wait_for_change(struct mailboxes *boxes, uint32_t rank) {
    settle(boxes, pthread_cond_wait(&boxes->changed[rank], &boxes->lock));
}

static void wake_all(struct mailboxes *boxes) {
    for (uint32_t rank = 0; rank < boxes->ranks; rank++)
        pthread_cond_broadcast(&boxes->changed[rank]);
}

void mailboxes_leave(struct mailboxes *boxes, uint32_t rank) {
    lock(boxes);
    boxes->has_left[rank] = 1;
    wake_all(boxes);
    pthread_mutex_unlock(&boxes->lock);
}

void mailboxes_break(struct mailboxes *boxes) {
    lock(boxes);
    boxes->is_broken = 1;
    wake_all(boxes);
    pthread_mutex_unlock(&boxes->lock);
}

/* ---- bytes ---- */

static void ring_copy_in(struct ring *ring, const uint8_t *data, size_t size) {
    size_t at = ring->put % RING, first = size < RING - at ? size : RING - at;
    memcpy(ring->data + at, data, first);
    memcpy(ring->data, data + first, size - first);
    ring->put += size;
}

static void ring_copy_out(struct ring *ring, uint8_t *data, size_t size) {
    size_t at = ring->taken % RING, first = size < RING - at ? size : RING - at;
    memcpy(data, ring->data + at, first);
    memcpy(data + first, ring->data, size - first);
    ring->taken += size;
}

static int put_bytes(struct group_member *member, uint32_t to, const void *data, size_t size) {
    struct mailboxes *boxes = member->boxes;
    uint32_t from = member->comm.rank;
    struct ring *ring = &boxes->rings[from * boxes->ranks + to];
    const uint8_t *bytes = data;
    int rc = 0;
    lock(boxes);
    while (size > 0 && rc == 0) {
        size_t room = RING - (size_t)(ring->put - ring->taken), piece = size < room ? size : room;
        if (boxes->is_broken) {
            rc = -ECOMM;
        } else if (piece > 0) {
            ring_copy_in(ring, bytes, piece);
            bytes += piece;
            size -= piece;
            pthread_cond_signal(&boxes->changed[to]);
        } else {
            wait_for_change(boxes, from);
        }
    }
    pthread_mutex_unlock(&boxes->lock);
    return rc;
}

static int take_bytes(struct group_member *member, uint32_t from, void *data, size_t size) {
    struct mailboxes *boxes = member->boxes;
    uint32_t to = member->comm.rank;
    struct ring *ring = &boxes->rings[from * boxes->ranks + to];
    uint8_t *bytes = data;
    int rc = 0;
    lock(boxes);
    while (size > 0 && rc == 0) {
        size_t there = (size_t)(ring->put - ring->taken), piece = size < there ? size : there;
        if (piece > 0) {
            ring_copy_out(ring, bytes, piece);
            bytes += piece;
            size -= piece;
            pthread_cond_signal(&boxes->changed[from]);
        } else if (boxes->is_broken) {
            rc = -ECOMM;
        } else if (boxes->has_left[from]) {
            pthread_mutex_unlock(&boxes->lock);
            group_fail(&member->comm, "waits for rank %u, which has ended", from);
        } else {
            wait_for_change(boxes, to);
        }
    }
    pthread_mutex_unlock(&boxes->lock);
    return rc;
}

/* ---- messages ---- */

static int send(struct group_member *member, uint32_t to, enum call call, const void *data, size_t size) {
    struct header header = {member->number, size, member->id, call};
    int rc = put_bytes(member, to, &header, sizeof header);
    return rc ? rc : put_bytes(member, to, data, size);
}

/* The header of the next message from a rank; its size is to be checked by those who know it. */
static int expect(struct group_member *member, uint32_t from, enum call call, size_t *size_out) {
    struct header header;
    int rc = take_bytes(member, from, &header, sizeof header);
    if (rc)
        return rc;
    if (header.number != member->number || header.comm != member->id || header.call != (uint32_t)call)
        group_fail(&member->comm, "is in call %llu of comm %u, %s; rank %u is in call %llu of comm %u, %s",
                   (unsigned long long)member->number, member->id, call_names[call], from,
                   (unsigned long long)header.number, header.comm, call_names[header.call % 3]);
    *size_out = header.size;
    return 0;
}

static int receive(struct group_member *member, uint32_t from, enum call call, void *data, size_t size) {
    size_t sent;
    int rc = expect(member, from, call, &sent);
    if (rc == 0 && sent != size)
        group_fail(&member->comm, "%s of %zu bytes, but rank %u has %zu", call_names[call], size, from, sent);
    return rc ? rc : take_bytes(member, from, data, size);
}

/* ---- the ops ---- */

static int group_broadcast(struct varve_comm *comm, void *data, size_t size, uint32_t root) {
    struct group_member *member = (struct group_member *)comm;
    int rc = 0;
    member->number++;
    if (comm->rank != root)
        return receive(member, root, BROADCAST, data, size);
    for (uint32_t rank = 0; rank < comm->ranks && rc == 0; rank++)
        if (rank != root)
            rc = send(member, rank, BROADCAST, data, size);
    return rc;
}

static int least_of_all(struct group_member *member, uint64_t *values, size_t count) {
    uint64_t *theirs = malloc(count * sizeof *theirs + 1);
    int rc = theirs ? 0 : -ENOMEM;
    for (uint32_t rank = 1; rank < member->comm.ranks && rc == 0; rank++) {
        rc = receive(member, rank, LEAST, theirs, count * sizeof *theirs);
        for (size_t i = 0; i < count && rc == 0; i++)
            values[i] = theirs[i] < values[i] ? theirs[i] : values[i];
    }
    free(theirs);
    for (uint32_t rank = 1; rank < member->comm.ranks && rc == 0; rank++)
        rc = send(member, rank, LEAST, values, count * sizeof *values);
    return rc;
}

static int group_least(struct varve_comm *comm, uint64_t *values, size_t count) {
    struct group_member *member = (struct group_member *)comm;
    member->number++;
    if (comm->rank == 0)
        return least_of_all(member, values, count);
    int rc = send(member, 0, LEAST, values, count * sizeof *values);
    return rc ? rc : receive(member, 0, LEAST, values, count * sizeof *values);
}

static int group_collect(struct varve_comm *comm, const void *data, size_t size, varve_collect_fn fn, void *arg) {
    struct group_member *member = (struct group_member *)comm;
    member->number++;
    if (comm->rank != 0)
        return send(member, 0, COLLECT, data, size);
    int result = fn(arg, 0, data, size), rc = 0;
    for (uint32_t rank = 1; rank < comm->ranks && rc == 0; rank++) {
        size_t theirs = 0;
        rc = expect(member, rank, COLLECT, &theirs);
        uint8_t *buffer = rc ? NULL : malloc(theirs + 1);
        if (rc == 0)
            rc = buffer ? take_bytes(member, rank, buffer, theirs) : -ENOMEM;
        if (rc == 0 && result == 0)
            result = fn(arg, rank, buffer, theirs);
        free(buffer);
    }
    return rc ? rc : result;
}

static void group_close(struct varve_comm *comm) {
    struct group_member *member = (struct group_member *)comm;
    if (member->id == 0)
        free(member->next_id);
    free(member);
}

static const struct varve_comm_ops group_ops = {
    .size = sizeof(struct varve_comm_ops),
    .name = "group",
    .least = group_least,
    .broadcast = group_broadcast,
    .collect = group_collect,
    .close = group_close,
};

struct varve_comm *mailboxes_comm(struct mailboxes *boxes, uint32_t rank, uint32_t ranks) {
    struct group_member *member = calloc(1, sizeof *member);
    uint32_t *next_id = calloc(1, sizeof *next_id);
    if (!member || !next_id)
        abort();
    *next_id = 1;
    *member = (struct group_member){.comm = {&group_ops, rank, ranks}, .boxes = boxes, .next_id = next_id};
    return &member->comm;
}

struct varve_comm *group_comm(struct varve_comm *comm) {
    const struct group_member *from = (const struct group_member *)comm;
    struct group_member *member = calloc(1, sizeof *member);
    if (!member)
        abort();
    *member = *from;
    member->number = 0;
    member->id = (*from->next_id)++;
    return &member->comm;
}
