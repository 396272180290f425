/* Messages between the processes of a group.
 *
 * Each pair of ranks has a ring of bytes in each of two lanes: one for comms, one for those aside, which another thread may use at the
 * same time. A message is a header and its bytes, and a long one passes through in pieces while the receiver empties the
 * ring. The header says which call it belongs to: a receiver that expects another one has found ranks that do not make
 * the same calls. The lock is robust, since its owner may be killed at any moment. */
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
#define LANES 2

enum call { LEAST, BROADCAST, COLLECT, TRADE, CALLS };
static const char *const call_names[CALLS] = {"least", "broadcast", "collect", "trade"};

struct ring {
    uint64_t put, taken; /* bytes in all */
    uint8_t data[];
};

struct mailboxes {
    pthread_mutex_t lock;
    pthread_cond_t changed[LANES][GROUP_RANKS_MAX]; /* something came for this rank, or was taken from it */
    int has_left[GROUP_RANKS_MAX];
    int is_broken;
    int has_aside;
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

static uint32_t ring_size_for(uint32_t ranks) {
    return ranks <= FEW ? RING_LARGE : RING_SMALL;
}

static size_t boxes_size(uint32_t ranks) {
    return sizeof(struct mailboxes) + (size_t)LANES * ranks * ranks * (sizeof(struct ring) + ring_size_for(ranks));
}

static struct ring *ring_of(struct mailboxes *boxes, uint32_t lane, uint32_t from, uint32_t to) {
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
    boxes->has_aside = options && options->has_aside;
    make_locks(boxes);
    place(boxes, options);
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

/* As many of the bytes as there is room for now. The lock is held. */
static size_t put_some(struct group_member *member, uint32_t to, const uint8_t *data, size_t size) {
    struct ring *ring = ring_of(member->boxes, member->lane, member->comm.rank, to);
    size_t whole = member->boxes->ring_size, room = whole - (size_t)(ring->put - ring->taken), at = ring->put % whole;
    size = size < room ? size : room;
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
static size_t take_some(struct group_member *member, uint32_t from, uint8_t *data, size_t size) {
    struct ring *ring = ring_of(member->boxes, member->lane, from, member->comm.rank);
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
    lock(boxes);
    while (done < size && rc == 0) {
        size_t piece = boxes->is_broken ? 0 : put_some(member, to, (const uint8_t *)data + done, size - done);
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
static int wait_for(struct group_member *member, uint32_t from) {
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

static int take_bytes(struct group_member *member, uint32_t from, void *data, size_t size) {
    struct mailboxes *boxes = member->boxes;
    size_t done = 0;
    int rc = 0;
    lock(boxes);
    while (done < size && rc == 0) {
        size_t piece = take_some(member, from, (uint8_t *)data + done, size - done);
        done += piece;
        if (piece == 0)
            rc = wait_for(member, from);
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

static void check_header(struct group_member *member, uint32_t from, enum call call, const struct header *header) {
    if (header->number != member->number || header->comm != member->id || header->call != (uint32_t)call)
        group_fail(&member->comm, "is in call %llu of comm %u, %s; rank %u is in call %llu of comm %u, %s",
                   (unsigned long long)member->number, member->id, call_names[call], from,
                   (unsigned long long)header->number, header->comm, call_names[header->call % CALLS]);
}

/* The header of the next message from a rank; its size is to be checked by those who know it. */
static int expect(struct group_member *member, uint32_t from, enum call call, size_t *size_out) {
    struct header header;
    int rc = take_bytes(member, from, &header, sizeof header);
    if (rc)
        return rc;
    check_header(member, from, call, &header);
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

/* ---- trade ----
 *
 * Sending and receiving take turns, so that ranks which send long messages to each other do not wait for room in their rings
 * for ever. One message is received at a time. */

struct sending {
    const struct varve_parcel *parcel;
    struct header header;
    size_t done; /* bytes of header and data */
};

struct trading {
    struct group_member *member;
    struct sending *sending;
    size_t sending_count;
    uint32_t *pending; /* the ranks whose messages have not come; the one that comes now is none of them */
    size_t pending_count;
    uint32_t from; /* the rank whose message comes now */
    struct header header;
    uint8_t *buffer;
    size_t done; /* bytes of the data that have come */
};

static int push(struct trading *trading) {
    int has_moved = 0;
    for (size_t i = 0; i < trading->sending_count && !trading->member->boxes->is_broken;) {
        struct sending *one = &trading->sending[i];
        size_t head = sizeof one->header, piece = 0;
        uint32_t to = one->parcel->rank;
        if (one->done < head)
            piece = put_some(trading->member, to, (const uint8_t *)&one->header + one->done, head - one->done);
        else if (one->parcel->size > 0)
            piece = put_some(trading->member, to, (const uint8_t *)one->parcel->data + (one->done - head),
                             head + one->parcel->size - one->done);
        one->done += piece;
        has_moved |= piece > 0;
        if (one->done == head + one->parcel->size)
            *one = trading->sending[--trading->sending_count];
        else if (piece == 0)
            i++;
    }
    return has_moved;
}

/* The next message that has begun to come, if any. */
static int begin_one(struct trading *trading) {
    struct group_member *member = trading->member;
    for (size_t i = 0; i < trading->pending_count; i++) {
        uint32_t from = trading->pending[i];
        struct ring *ring = ring_of(member->boxes, member->lane, from, member->comm.rank);
        if (ring->put - ring->taken < sizeof trading->header)
            continue;
        take_some(member, from, (uint8_t *)&trading->header, sizeof trading->header);
        check_header(member, from, TRADE, &trading->header);
        trading->pending[i] = trading->pending[--trading->pending_count];
        trading->from = from;
        trading->done = 0;
        trading->buffer = malloc(trading->header.size + 1);
        if (!trading->buffer)
            abort();
        return 1;
    }
    return 0;
}

static int pull(struct trading *trading) {
    if (!trading->buffer)
        return begin_one(trading);
    size_t piece = take_some(trading->member, trading->from, trading->buffer + trading->done,
                             trading->header.size - trading->done);
    trading->done += piece;
    return piece > 0;
}

static int has_one(const struct trading *trading) {
    return trading->buffer && trading->done == trading->header.size;
}

/* Until a message is whole, or nothing is left to do. */
static int move(struct trading *trading) {
    struct mailboxes *boxes = trading->member->boxes;
    int rc = 0;
    lock(boxes);
    while (rc == 0 && !has_one(trading) && (trading->buffer || trading->pending_count || trading->sending_count)) {
        int has_moved = push(trading) | pull(trading);
        if (!has_moved && !has_one(trading)) {
            uint32_t from = trading->buffer          ? trading->from
                            : trading->pending_count ? trading->pending[0]
                                                     : trading->member->comm.rank;
            rc = wait_for(trading->member, from);
        }
    }
    pthread_mutex_unlock(&boxes->lock);
    return rc;
}

static void check_partners(const struct varve_comm *comm, const struct varve_parcel *out, size_t out_count,
                           const uint32_t *from, size_t from_count) {
    uint8_t is_in[GROUP_RANKS_MAX] = {0};
    for (size_t i = 0; i < out_count; i++)
        if (out[i].rank >= comm->ranks || (is_in[out[i].rank] & 1))
            group_fail(comm, "trades with rank %u, which is none, or twice", out[i].rank);
        else
            is_in[out[i].rank] |= 1;
    for (size_t i = 0; i < from_count; i++)
        if (from[i] >= comm->ranks || (is_in[from[i]] & 2))
            group_fail(comm, "waits for a message of rank %u, which is none, or twice", from[i]);
        else
            is_in[from[i]] |= 2;
    if (is_in[comm->rank] == 1 || is_in[comm->rank] == 2)
        group_fail(comm, "trades with itself, one way only");
}

static int group_trade(struct varve_comm *comm, const struct varve_parcel *out, size_t out_count, const uint32_t *from,
                       size_t from_count, varve_collect_fn fn, void *arg) {
    struct group_member *member = (struct group_member *)comm;
    struct sending sending[GROUP_RANKS_MAX];
    uint32_t pending[GROUP_RANKS_MAX];
    struct trading trading = {.member = member, .sending = sending, .pending = pending};
    int result = 0, rc = 0;
    check_partners(comm, out, out_count, from, from_count);
    for (size_t i = 0; i < out_count; i++)
        if (out[i].rank == comm->rank)
            result = fn(arg, comm->rank, out[i].data, out[i].size);
        else
            sending[trading.sending_count++] =
                (struct sending){&out[i], {member->number, out[i].size, member->id, TRADE}, 0};
    for (size_t i = 0; i < from_count; i++)
        if (from[i] != comm->rank)
            pending[trading.pending_count++] = from[i];
    while (rc == 0 && (trading.pending_count || trading.sending_count)) {
        rc = move(&trading);
        if (rc == 0 && has_one(&trading) && result == 0)
            result = fn(arg, trading.from, trading.buffer, trading.header.size);
        free(trading.buffer);
        trading.buffer = NULL;
    }
    return rc ? rc : result;
}

/* ---- places ---- */

static uint32_t group_node_size(struct varve_comm *comm, uint32_t node) {
    const struct mailboxes *boxes = ((struct group_member *)comm)->boxes;
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < comm->ranks; rank++)
        count += boxes->node_of[rank] == node;
    if (node >= comm->nodes)
        group_fail(comm, "asks for node %u of %u", node, comm->nodes);
    return count;
}

static uint32_t group_rank_of(struct varve_comm *comm, uint32_t node, uint32_t local) {
    const struct mailboxes *boxes = ((struct group_member *)comm)->boxes;
    for (uint32_t rank = 0, count = 0; rank < comm->ranks; rank++)
        if (boxes->node_of[rank] == node && count++ == local)
            return rank;
    group_fail(comm, "asks for rank %u of node %u, which there is not", local, node);
}

static void group_place_of(struct varve_comm *comm, uint32_t rank, uint32_t *node, uint32_t *local) {
    const struct mailboxes *boxes = ((struct group_member *)comm)->boxes;
    if (rank >= comm->ranks)
        group_fail(comm, "asks for the place of rank %u of %u", rank, comm->ranks);
    *node = boxes->node_of[rank];
    *local = 0;
    for (uint32_t other = 0; other < rank; other++)
        *local += boxes->node_of[other] == *node;
}

static void find_place(struct varve_comm *comm, const struct mailboxes *boxes) {
    group_place_of(comm, comm->rank, &comm->node, &comm->local);
    for (uint32_t rank = 0; rank < comm->ranks; rank++)
        comm->nodes = boxes->node_of[rank] >= comm->nodes ? boxes->node_of[rank] + 1 : comm->nodes;
    comm->least_local = comm->ranks;
    for (uint32_t node = 0; node < comm->nodes; node++) {
        uint32_t size = group_node_size(comm, node);
        comm->least_local = size < comm->least_local ? size : comm->least_local;
    }
}

/* ---- made and closed ---- */

static void group_close(struct varve_comm *comm) {
    struct group_member *member = (struct group_member *)comm;
    if (comm->aside)
        group_close(comm->aside);
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
    .trade = group_trade,
    .node_size = group_node_size,
    .rank_of = group_rank_of,
    .place_of = group_place_of,
};

static struct varve_comm *make_member(const struct group_member *like, uint32_t lane) {
    struct group_member *member = calloc(1, sizeof *member);
    if (!member)
        abort();
    *member = *like;
    member->comm.aside = NULL;
    member->number = 0;
    member->lane = lane;
    member->id = (*like->next_id)++;
    return &member->comm;
}

struct varve_comm *mailboxes_comm(struct mailboxes *boxes, uint32_t rank, uint32_t ranks) {
    struct group_member first = {.comm = {.ops = &group_ops, .rank = rank, .ranks = ranks}, .boxes = boxes};
    first.next_id = calloc(1, sizeof *first.next_id);
    if (!first.next_id)
        abort();
    find_place(&first.comm, boxes);
    return group_comm(&first.comm);
}

struct varve_comm *group_comm(struct varve_comm *comm) {
    const struct group_member *like = (const struct group_member *)comm;
    struct varve_comm *made = make_member(like, 0);
    if (like->boxes->has_aside)
        made->aside = make_member(like, 1);
    return made;
}
