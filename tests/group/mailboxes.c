/* Messages between the processes of a group.
 *
 * Each pair of ranks has a ring of bytes in each of two lanes: one for comms, one for second ones, which another thread
 * may use at the same time. A message is a header and its bytes, and a long one passes through in pieces while the
 * receiver empties the ring. The header says which call it belongs to: a receiver that expects another one has found
 * ranks that do not make the same calls. The lock is robust, since its owner may be killed at any moment. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "group.h"
#include "group_private.h"

#define FEW 16 /* as many ranks have the large rings */
#define RING_LARGE 65536u
#define RING_SMALL 16384u

static const char *const call_names[CALLS] = {"reduce_min", "broadcast", "gather", "exchange"};

static uint32_t ring_size_for(uint32_t ranks) {
    return ranks <= FEW ? RING_LARGE : RING_SMALL;
}

static size_t boxes_size(uint32_t ranks) {
    return sizeof(struct mailboxes) + (size_t)LANES * ranks * ranks * (sizeof(struct ring) + ring_size_for(ranks));
}

struct ring *box_ring(struct mailboxes *boxes, uint32_t lane, uint32_t from, uint32_t to) {
    size_t number = ((size_t)lane * boxes->ranks + from) * boxes->ranks + to;
    return (struct ring *)(void *)(boxes->rings + number * (sizeof(struct ring) + boxes->ring_size));
}

static void make_locks(struct mailboxes *boxes) {
    pthread_mutexattr_t mutex;
    pthread_condattr_t condition;
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&boxes->lock, &mutex);
    pthread_mutexattr_destroy(&mutex);
    pthread_condattr_init(&condition);
    pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
    for (uint32_t i = 0; i < LANES * boxes->ranks; i++)
        pthread_cond_init(&boxes->changed[i % LANES][i / LANES], &condition);
    pthread_condattr_destroy(&condition);
}

/* Nodes are numbered by their lowest rank, whatever words the test has for them. */
static void place(struct mailboxes *boxes, const struct group_options *options) {
    uint32_t nodes = 0;
    for (uint32_t rank = 0; rank < boxes->ranks && options; rank++) {
        uint32_t other = 0;
        if (options->node_of)
            while (options->node_of[other] != options->node_of[rank])
                other++;
        else if (options->ranks_per_node)
            other = rank - rank % options->ranks_per_node;
        boxes->node_of[rank] = other == rank ? nodes++ : boxes->node_of[other];
    }
}

struct mailboxes *mailboxes_create(uint32_t ranks, const struct group_options *options) {
    if (ranks < 1 || ranks > GROUP_RANKS_MAX) {
        fprintf(stderr, "a group has 1 to %d ranks\n", GROUP_RANKS_MAX);
        exit(2);
    }
    struct mailboxes *boxes = group_memory(boxes_size(ranks));
    boxes->ranks = ranks;
    boxes->ring_size = ring_size_for(ranks);
    boxes->has_second = options && options->has_second;
    make_locks(boxes);
    place(boxes, options);
    return boxes;
}

/* Nothing is destroyed one by one: ranks were killed while they waited, and destroying a condition waits for its
 * waiters. */
void mailboxes_destroy(struct mailboxes *boxes) {
    group_memory_free(boxes, boxes_size(boxes->ranks));
}

static void settle(struct mailboxes *boxes, int rc) {
    if (rc == EOWNERDEAD)
        pthread_mutex_consistent(&boxes->lock);
}

void box_lock(struct mailboxes *boxes) {
    settle(boxes, pthread_mutex_lock(&boxes->lock));
}

static void wait_for_change(struct group_member *member) {
    struct mailboxes *boxes = member->boxes;
    settle(boxes, pthread_cond_wait(&boxes->changed[member->lane][member->comm.rank], &boxes->lock));
}

static void wake(struct group_member *member, uint32_t rank) {
    pthread_cond_signal(&member->boxes->changed[member->lane][rank]);
}

static void wake_all(struct mailboxes *boxes) {
    for (uint32_t i = 0; i < LANES * boxes->ranks; i++)
        pthread_cond_broadcast(&boxes->changed[i % LANES][i / LANES]);
}

void mailboxes_leave(struct mailboxes *boxes, uint32_t rank) {
    box_lock(boxes);
    boxes->has_left[rank] = 1;
    wake_all(boxes);
    pthread_mutex_unlock(&boxes->lock);
}

void mailboxes_break(struct mailboxes *boxes) {
    box_lock(boxes);
    boxes->is_broken = 1;
    wake_all(boxes);
    pthread_mutex_unlock(&boxes->lock);
}

int box_is_broken(struct mailboxes *boxes) {
    box_lock(boxes);
    int is_broken = boxes->is_broken;
    pthread_mutex_unlock(&boxes->lock);
    return is_broken;
}

/* ---- bytes ---- */

/* As many of the bytes as there is room for now. The lock is held. */
size_t box_put_some(struct group_member *member, uint32_t to, const uint8_t *data, size_t size) {
    struct ring *ring = box_ring(member->boxes, member->lane, member->comm.rank, to);
    size_t whole = member->boxes->ring_size, capacity = whole - (size_t)(ring->put - ring->taken),
           at = ring->put % whole;
    size = size < capacity ? size : capacity;
    if (size == 0)
        return 0;
    size_t first = size < whole - at ? size : whole - at;
    memcpy(ring->data + at, data, first);
    memcpy(ring->data, data + first, size - first);
    ring->put += size;
    wake(member, to);
    return size;
}

/* As many of the bytes as are there now. The lock is held. */
size_t box_take_some(struct group_member *member, uint32_t from, uint8_t *data, size_t size) {
    struct ring *ring = box_ring(member->boxes, member->lane, from, member->comm.rank);
    size_t whole = member->boxes->ring_size, there = (size_t)(ring->put - ring->taken), at = ring->taken % whole;
    size = size < there ? size : there;
    if (size == 0)
        return 0;
    size_t first = size < whole - at ? size : whole - at;
    memcpy(data, ring->data + at, first);
    memcpy(data + first, ring->data, size - first);
    ring->taken += size;
    wake(member, from);
    return size;
}

static int put_bytes(struct group_member *member, uint32_t to, const void *data, size_t size) {
    struct mailboxes *boxes = member->boxes;
    size_t done = 0;
    int rc = 0;
    box_lock(boxes);
    while (done < size && rc == 0) {
        size_t piece = boxes->is_broken ? 0 : box_put_some(member, to, (const uint8_t *)data + done, size - done);
        done += piece;
        if (boxes->is_broken)
            rc = -ECOMM;
        else if (piece == 0)
            wait_for_change(member);
    }
    pthread_mutex_unlock(&boxes->lock);
    return rc;
}

/* Nothing has come from this rank: wait, unless it is in vain. The lock is held. */
int box_wait_for(struct group_member *member, uint32_t from) {
    struct mailboxes *boxes = member->boxes;
    if (boxes->is_broken)
        return -ECOMM;
    if (boxes->has_left[from]) {
        pthread_mutex_unlock(&boxes->lock);
        group_fail(&member->comm, "waits for rank %u, which has ended", from);
    }
    wait_for_change(member);
    return 0;
}

int box_take_bytes(struct group_member *member, uint32_t from, void *data, size_t size) {
    struct mailboxes *boxes = member->boxes;
    size_t done = 0;
    int rc = 0;
    box_lock(boxes);
    while (done < size && rc == 0) {
        size_t piece = box_take_some(member, from, (uint8_t *)data + done, size - done);
        done += piece;
        if (piece == 0)
            rc = box_wait_for(member, from);
    }
    pthread_mutex_unlock(&boxes->lock);
    return rc;
}

/* ---- messages ---- */

int box_send(struct group_member *member, uint32_t to, enum call call, const void *data, size_t size) {
    struct header header = {member->number, size, member->id, call};
    int rc = put_bytes(member, to, &header, sizeof header);
    return rc ? rc : put_bytes(member, to, data, size);
}

void box_check_header(struct group_member *member, uint32_t from, enum call call, const struct header *header) {
    if (header->number != member->number || header->comm != member->id || header->call != (uint32_t)call)
        group_fail(&member->comm, "is in call %llu of comm %u, %s; rank %u is in call %llu of comm %u, %s",
                   (unsigned long long)member->number, member->id, call_names[call], from,
                   (unsigned long long)header->number, header->comm, call_names[header->call % CALLS]);
}

/* The header of the next message from a rank; its size is to be checked by those who know it. */
int box_expect(struct group_member *member, uint32_t from, enum call call, size_t *size_out) {
    struct header header;
    int rc = box_take_bytes(member, from, &header, sizeof header);
    if (rc)
        return rc;
    box_check_header(member, from, call, &header);
    *size_out = header.size;
    return 0;
}

int box_receive(struct group_member *member, uint32_t from, enum call call, void *data, size_t size) {
    size_t sent;
    int rc = box_expect(member, from, call, &sent);
    if (rc == 0 && sent != size)
        group_fail(&member->comm, "%s of %zu bytes, but rank %u has %zu", call_names[call], size, from, sent);
    return rc ? rc : box_take_bytes(member, from, data, size);
}
