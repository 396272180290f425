/* Messages between a rank and some others at the same time (exchange). */
#include <errno.h>
#include <stdlib.h>

#include "comm_mpi.h"

#define LOOKS_WHEN_LOST 2000 /* about a second, for each */
#ifndef EXCHANGE_PIECE       /* tests have smaller ones */
#define EXCHANGE_PIECE PIECE_MAX
#endif

/* Messages from the same rank come in the order in which they were sent, so the first one that is there is of this
 * call. One that is too long for MPI's counts goes in pieces: a full one says that another follows, an empty one if
 * need be. */
struct exchanging {
    struct varve_comm *comm;
    varve_gather_fn fn;
    void *arg;
    int result; /* of fn; or no memory */
    char *buffer;
    size_t capacity;
};

static void give(struct exchanging *exchanging, uint32_t rank, const void *data, size_t size) {
    if (exchanging->result == 0)
        exchanging->result = exchanging->fn(exchanging->arg, rank, data, size);
}

/* Room behind what has come of this message. */
static int reserve_message(struct exchanging *exchanging, size_t size) {
    char *bigger =
        size <= exchanging->capacity && exchanging->buffer ? exchanging->buffer : realloc(exchanging->buffer, size + 1);
    if (!bigger) { /* cutting it off is not safe: some MPI libraries end the process then */
        exchanging->result = -ENOMEM;
        ((struct mpi_comm *)exchanging->comm)->is_broken = 1;
        return -ENOMEM;
    }
    exchanging->buffer = bigger;
    exchanging->capacity = size > exchanging->capacity ? size : exchanging->capacity;
    return 0;
}

/* A message whose first piece, of this size, is there. */
static int receive_message(struct exchanging *exchanging, uint32_t rank, int size) {
    MPI_Comm group = vv_mpi_group_of(exchanging->comm);
    size_t had = 0, which = 0;
    int rc = MPI_SUCCESS;
    for (;;) {
        if (reserve_message(exchanging, had + (size_t)size) != 0)
            return MPI_SUCCESS;
        rc = vv_mpi_receive(group, TAG_EXCHANGE, rank, exchanging->buffer + had, size);
        had += (size_t)size;
        if (rc != MPI_SUCCESS || (size_t)size < EXCHANGE_PIECE)
            break;
        rc = vv_mpi_next(group, TAG_EXCHANGE, &rank, 1, &which, &size);
        if (rc != MPI_SUCCESS)
            return rc;
    }
    if (rc == MPI_SUCCESS)
        give(exchanging, rank, exchanging->buffer, had);
    return rc;
}

/* As they arrive. Each rank is asked for by itself: of any rank, one might get a message of its next exchange. */
static int take_all(struct exchanging *exchanging, uint32_t *pending, size_t count) {
    size_t which = count;
    int size = 0, rc = MPI_SUCCESS;
    while (count > 0 && rc == MPI_SUCCESS) {
        rc = vv_mpi_next(vv_mpi_group_of(exchanging->comm), TAG_EXCHANGE, pending, count, &which, &size);
        if (rc != MPI_SUCCESS)
            return rc;
        rc = receive_message(exchanging, pending[which], size);
        pending[which] = pending[--count];
    }
    return rc;
}

/* A rank without memory does not wait for ever: the job is lost, and others may be without memory, too. But what it has
 * sent is to be read by the others, if they can, before the caller frees it. */
static int finish_sends(struct exchanging *exchanging, int rc, MPI_Request *requests, size_t count) {
    unsigned looks_max = vv_mpi_is_broken(exchanging->comm) ? LOOKS_WHEN_LOST : FOR_EVER;
    for (size_t i = 0; i < count && rc == MPI_SUCCESS; i++)
        rc = vv_mpi_wait(&requests[i], looks_max);
    return vv_mpi_code_of(exchanging->comm, rc);
}

static size_t pieces_of(const struct varve_message *message) {
    return message->size / EXCHANGE_PIECE + 1;
}

static int send_pieces(struct varve_comm *comm, const struct varve_message *message, MPI_Request *requests,
                       size_t *sent) {
    int rc = MPI_SUCCESS;
    for (size_t i = 0; i < pieces_of(message) && rc == MPI_SUCCESS; i++) {
        size_t at = i * EXCHANGE_PIECE, left = message->size - at;
        rc = MPI_Isend(left ? (const char *)message->data + at : NULL,
                       (int)(left < EXCHANGE_PIECE ? left : EXCHANGE_PIECE), MPI_BYTE, (int)message->rank, TAG_EXCHANGE,
                       vv_mpi_group_of(comm), &requests[*sent]);
        *sent += rc == MPI_SUCCESS;
    }
    return rc;
}

/* What a rank sends to itself is given by the sender's side; requests and pending have room for all. */
static int exchange_with_others(struct exchanging *exchanging, const struct varve_message *out, size_t out_count,
                                const uint32_t *from, size_t from_count, MPI_Request *requests, uint32_t *pending) {
    struct varve_comm *comm = exchanging->comm;
    size_t sent = 0, waiting = 0;
    int rc = MPI_SUCCESS;
    for (size_t i = 0; i < out_count && rc == MPI_SUCCESS; i++)
        if (out[i].rank != comm->rank)
            rc = send_pieces(comm, &out[i], requests, &sent);
    for (size_t i = 0; i < out_count && rc == MPI_SUCCESS; i++)
        if (out[i].rank == comm->rank)
            give(exchanging, comm->rank, out[i].data, out[i].size);
    for (size_t i = 0; i < from_count; i++)
        if (from[i] != comm->rank)
            pending[waiting++] = from[i];
    if (rc == MPI_SUCCESS)
        rc = take_all(exchanging, pending, waiting);
    return finish_sends(exchanging, rc, requests, sent);
}

static int check_messages(const struct varve_comm *comm, const struct varve_message *out, size_t out_count,
                          const uint32_t *from, size_t from_count) {
    if (out_count > comm->ranks || from_count > comm->ranks)
        return -EINVAL;
    for (size_t i = 0; i < from_count; i++)
        if (from[i] >= comm->ranks)
            return -EINVAL;
    for (size_t i = 0; i < out_count; i++)
        if (out[i].rank >= comm->ranks)
            return -EINVAL;
    return 0;
}

int vv_mpi_exchange(struct varve_comm *comm, const struct varve_message *out, size_t out_count, const uint32_t *from,
                    size_t from_count, varve_gather_fn fn, void *arg) {
    struct exchanging exchanging = {.comm = comm, .fn = fn, .arg = arg};
    if (vv_mpi_is_broken(comm))
        return -ECOMM;
    int rc = check_messages(comm, out, out_count, from, from_count);
    size_t pieces = 0;
    for (size_t i = 0; i < out_count; i++)
        pieces += pieces_of(&out[i]);
    MPI_Request *requests = rc ? NULL : malloc((pieces + 1) * sizeof *requests);
    uint32_t *pending = rc ? NULL : malloc((from_count + 1) * sizeof *pending);
    if (rc == 0)
        rc = requests && pending ? 0 : -ENOMEM;
    if (rc) /* nothing was sent, and the others wait for it */
        ((struct mpi_comm *)comm)->is_broken = 1;
    else
        rc = exchange_with_others(&exchanging, out, out_count, from, from_count, requests, pending);
    free(exchanging.buffer);
    free(requests);
    free(pending);
    return rc ? rc : exchanging.result;
}
