/* Exchange of messages between the processes of a group.
 *
 * Sending and receiving take turns, so that ranks which send long messages to each other do not wait for room in their
 * rings for ever. One message is received at a time. */
#include <errno.h>
#include <stdlib.h>

#include "group_private.h"

struct sending {
    const struct varve_message *message;
    struct header header;
    size_t done; /* bytes of header and data */
};

struct exchanging {
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

static int push(struct exchanging *exchanging) {
    int has_moved = 0;
    for (size_t i = 0; i < exchanging->sending_count && !exchanging->member->boxes->is_broken;) {
        struct sending *one = &exchanging->sending[i];
        size_t head = sizeof one->header, piece = 0;
        uint32_t to = one->message->rank;
        if (one->done < head)
            piece = box_put_some(exchanging->member, to, (const uint8_t *)&one->header + one->done, head - one->done);
        else if (one->message->size > 0)
            piece = box_put_some(exchanging->member, to, (const uint8_t *)one->message->data + (one->done - head),
                                 head + one->message->size - one->done);
        one->done += piece;
        has_moved |= piece > 0;
        if (one->done == head + one->message->size)
            *one = exchanging->sending[--exchanging->sending_count];
        else if (piece == 0)
            i++;
    }
    return has_moved;
}

/* The next message that has begun to come, if any. */
static int begin_one(struct exchanging *exchanging) {
    struct group_member *member = exchanging->member;
    for (size_t i = 0; i < exchanging->pending_count; i++) {
        uint32_t from = exchanging->pending[i];
        struct ring *ring = box_ring(member->boxes, member->lane, from, member->comm.rank);
        if (ring->put - ring->taken < sizeof exchanging->header)
            continue;
        box_take_some(member, from, (uint8_t *)&exchanging->header, sizeof exchanging->header);
        box_check_header(member, from, EXCHANGE, &exchanging->header);
        exchanging->pending[i] = exchanging->pending[--exchanging->pending_count];
        exchanging->from = from;
        exchanging->done = 0;
        exchanging->buffer = malloc(exchanging->header.size + 1);
        if (!exchanging->buffer)
            abort();
        return 1;
    }
    return 0;
}

static int pull(struct exchanging *exchanging) {
    if (!exchanging->buffer)
        return begin_one(exchanging);
    size_t piece = box_take_some(exchanging->member, exchanging->from, exchanging->buffer + exchanging->done,
                                 exchanging->header.size - exchanging->done);
    exchanging->done += piece;
    return piece > 0;
}

static int has_one(const struct exchanging *exchanging) {
    return exchanging->buffer && exchanging->done == exchanging->header.size;
}

/* Until a message is whole, or nothing is left to do. */
static int move(struct exchanging *exchanging) {
    struct mailboxes *boxes = exchanging->member->boxes;
    int rc = 0;
    box_lock(boxes);
    while (rc == 0 && !has_one(exchanging) &&
           (exchanging->buffer || exchanging->pending_count || exchanging->sending_count)) {
        int has_moved = push(exchanging) | pull(exchanging);
        if (!has_moved && !has_one(exchanging)) {
            uint32_t from = exchanging->buffer          ? exchanging->from
                            : exchanging->pending_count ? exchanging->pending[0]
                                                        : exchanging->member->comm.rank;
            rc = box_wait_for(exchanging->member, from);
        }
    }
    pthread_mutex_unlock(&boxes->lock);
    return rc;
}

static void check_partners(const struct varve_comm *comm, const struct varve_message *out, size_t out_count,
                           const uint32_t *from, size_t from_count) {
    uint8_t is_in[GROUP_RANKS_MAX] = {0};
    for (size_t i = 0; i < out_count; i++)
        if (out[i].rank >= comm->ranks || (is_in[out[i].rank] & 1))
            group_fail(comm, "exchanges with rank %u, which is none, or twice", out[i].rank);
        else
            is_in[out[i].rank] |= 1;
    for (size_t i = 0; i < from_count; i++)
        if (from[i] >= comm->ranks || (is_in[from[i]] & 2))
            group_fail(comm, "waits for a message of rank %u, which is none, or twice", from[i]);
        else
            is_in[from[i]] |= 2;
    if (is_in[comm->rank] == 1 || is_in[comm->rank] == 2)
        group_fail(comm, "exchanges with itself, one way only");
}

int group_exchange(struct varve_comm *comm, const struct varve_message *out, size_t out_count, const uint32_t *from,
                   size_t from_count, varve_gather_fn fn, void *arg) {
    struct group_member *member = (struct group_member *)comm;
    struct sending sending[GROUP_RANKS_MAX];
    uint32_t pending[GROUP_RANKS_MAX];
    struct exchanging exchanging = {.member = member, .sending = sending, .pending = pending};
    int result = 0, rc = box_is_broken(member->boxes) ? -ECOMM : 0;
    if (rc)
        return rc; /* see begin_call */
    check_partners(comm, out, out_count, from, from_count);
    for (size_t i = 0; i < out_count; i++)
        if (out[i].rank == comm->rank)
            result = fn(arg, comm->rank, out[i].data, out[i].size);
        else
            sending[exchanging.sending_count++] =
                (struct sending){&out[i], {member->number, out[i].size, member->id, EXCHANGE}, 0};
    for (size_t i = 0; i < from_count; i++)
        if (from[i] != comm->rank)
            pending[exchanging.pending_count++] = from[i];
    while (rc == 0 && (exchanging.pending_count || exchanging.sending_count)) {
        rc = move(&exchanging);
        if (rc == 0 && has_one(&exchanging) && result == 0)
            result = fn(arg, exchanging.from, exchanging.buffer, exchanging.header.size);
        free(exchanging.buffer);
        exchanging.buffer = NULL;
    }
    return rc ? rc : result;
}
