/* Trade between the processes of a group.
 *
 * Sending and receiving take turns, so that ranks which send long messages to each other do not wait for room in their
 * rings for ever. One message is received at a time. */
#include <errno.h>
#include <stdlib.h>

#include "group_private.h"

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
            piece = box_put_some(trading->member, to, (const uint8_t *)&one->header + one->done, head - one->done);
        else if (one->parcel->size > 0)
            piece = box_put_some(trading->member, to, (const uint8_t *)one->parcel->data + (one->done - head),
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
        struct ring *ring = box_ring(member->boxes, member->lane, from, member->comm.rank);
        if (ring->put - ring->taken < sizeof trading->header)
            continue;
        box_take_some(member, from, (uint8_t *)&trading->header, sizeof trading->header);
        box_check_header(member, from, TRADE, &trading->header);
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
    size_t piece = box_take_some(trading->member, trading->from, trading->buffer + trading->done,
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
    box_lock(boxes);
    while (rc == 0 && !has_one(trading) && (trading->buffer || trading->pending_count || trading->sending_count)) {
        int has_moved = push(trading) | pull(trading);
        if (!has_moved && !has_one(trading)) {
            uint32_t from = trading->buffer          ? trading->from
                            : trading->pending_count ? trading->pending[0]
                                                     : trading->member->comm.rank;
            rc = box_wait_for(trading->member, from);
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

int group_trade(struct varve_comm *comm, const struct varve_parcel *out, size_t out_count, const uint32_t *from,
                size_t from_count, varve_collect_fn fn, void *arg) {
    struct group_member *member = (struct group_member *)comm;
    struct sending sending[GROUP_RANKS_MAX];
    uint32_t pending[GROUP_RANKS_MAX];
    struct trading trading = {.member = member, .sending = sending, .pending = pending};
    int result = 0, rc = box_is_broken(member->boxes) ? -ECOMM : 0;
    if (rc)
        return rc; /* see begin_call */
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
