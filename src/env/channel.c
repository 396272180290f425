/* Messages between this rank and others: each of the two comms has a channel, and connections of its own.
 *
 * A message is a head and its bytes. The head has the kind of call, and a number that counts the messages of the
 * connection: ranks that make different calls are found out, and so is a connection that lost its thread. Sending and
 * receiving never wait for one connection alone, so ranks that all send first do not block each other. One message is
 * received at a time; the others wait in the kernel, and their senders with them. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "comm_env.h"

#define AHEAD 4096                       /* bytes that are read together with a head */
#define SOME 48                          /* messages of a call that need no memory: agreeing does not fail without */
#define ASK_SECONDS 5                    /* without a word of a rank that has not connected yet */
#define MESSAGE_MOST (UINT64_C(1) << 46) /* bytes: no rank has as many, and sums with it do not overflow */

struct vv_env_inlet {
    int fd;
    int is_ready; /* there may be something to read */
    uint64_t count;
    size_t at, have; /* of ahead */
    uint8_t ahead[AHEAD];
};

struct sending {
    struct vv_env_head head;
    const struct varve_message *message;
    uint64_t done; /* bytes, with the head */
    int fd, is_ready;
};

struct run {
    struct vv_env_comm *own;
    const struct vv_env_transfer *transfer;
    struct sending *sending;
    size_t sending_count;
    uint32_t *pending; /* ranks whose message has not begun */
    size_t pending_count, asked;
    struct vv_env_inlet *coming; /* where a message is being received, of this rank and size */
    uint32_t coming_rank;
    uint64_t size, done;
    uint8_t *into; /* NULL: there is no memory for it, and it is dropped */
    uint8_t *buffer;
    uint64_t capacity;
    int result; /* fn's first error, or no memory */
};

/* ---- connections ---- */

static struct vv_env_call call_of(const struct vv_env_comm *own, uint32_t purpose, uint32_t rank) {
    const struct vv_env_plan *plan = &own->group->plan;
    struct vv_env_call call = {.purpose = purpose,
                               .from = plan->rank,
                               .to = rank,
                               .ranks = plan->ranks,
                               .key = own->group->key,
                               .peer_seconds = plan->peer_seconds};
    vv_env_address_of(own->group, rank, &call.address);
    return call;
}

static int open_outlet(struct vv_env_comm *own, uint32_t rank) {
    struct vv_env_group *group = own->group;
    const struct vv_env_plan *plan = &group->plan;
    int seconds = plan->connect_seconds > plan->peer_seconds ? plan->connect_seconds : plan->peer_seconds;
    const struct vv_env_limit limit = {vv_env_now() + seconds * VV_ENV_SECOND, &group->is_broken};
    struct vv_env_answer answer = {0};
    const struct vv_env_call call = call_of(own, VV_ENV_DATA + own->channel, rank);
    int fd = vv_env_connect_again(&call, &limit, &answer);
    if (fd < 0)
        return vv_env_break(group, "rank %u cannot connect to rank %u, port %u: %s", plan->rank, rank,
                            group->cards[rank].port, strerror(-fd));
    own->outlets[rank].fd = fd;
    return 0;
}

/* The connection from a rank, if it has come. */
static struct vv_env_inlet *inlet_of(struct vv_env_comm *own, uint32_t rank, int *rc) {
    struct vv_env_group *group = own->group;
    int *arrived = &group->arrived[own->channel][rank];
    if (own->inlets[rank])
        return own->inlets[rank];
    pthread_mutex_lock(&group->lock);
    int fd = *arrived;
    pthread_mutex_unlock(&group->lock);
    if (fd < 0)
        return NULL;
    struct vv_env_inlet *inlet = calloc(1, sizeof *inlet);
    if (!inlet) {
        *rc = vv_env_break(group, "rank %u has no memory for a connection", group->plan.rank);
        return NULL;
    }
    inlet->fd = fd;
    inlet->is_ready = 1;
    pthread_mutex_lock(&group->lock);
    *arrived = -2;
    pthread_mutex_unlock(&group->lock);
    return own->inlets[rank] = inlet;
}

/* ---- sending ---- */

/* As much as the kernel takes now. */
static int push_one(struct run *run, struct sending *one) {
    const size_t head = sizeof one->head;
    while (one->done < head + one->head.size) {
        struct iovec parts[2];
        struct msghdr message = {.msg_iov = parts};
        if (one->done < head)
            parts[message.msg_iovlen++] = (struct iovec){(char *)&one->head + one->done, head - one->done};
        uint64_t from = one->done < head ? 0 : one->done - head;
        if (one->head.size > from)
            parts[message.msg_iovlen++] =
                (struct iovec){(char *)(uintptr_t)one->message->data + from, one->head.size - from};
        ssize_t sent = sendmsg(one->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0)
            one->done += (uint64_t)sent;
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            return one->is_ready = 0;
        else if (errno != EINTR)
            return vv_env_break(run->own->group, "rank %u does not take messages any more: %s", one->message->rank,
                                strerror(errno));
    }
    return 0;
}

static int push(struct run *run) {
    for (size_t i = 0; i < run->sending_count;) {
        struct sending *one = &run->sending[i];
        int rc = one->is_ready ? push_one(run, one) : 0;
        if (rc)
            return rc;
        if (one->done == sizeof one->head + one->head.size)
            *one = run->sending[--run->sending_count];
        else
            i++;
    }
    return 0;
}

/* ---- receiving ---- */

/* Some bytes of a connection: their number, 0 for none now, or -ECOMM. */
static int64_t draw(struct run *run, struct vv_env_inlet *inlet, uint32_t rank, void *to, uint64_t size) {
    ssize_t got;
    if (size == 0)
        return 0;
    if (inlet->at < inlet->have) {
        size_t some = inlet->have - inlet->at < size ? inlet->have - inlet->at : size;
        if (to)
            memcpy(to, inlet->ahead + inlet->at, some);
        inlet->at += some;
        return (int64_t)some;
    }
    int is_direct = to && size >= AHEAD;
    do
        got = recv(inlet->fd, is_direct ? to : inlet->ahead, is_direct ? size : AHEAD, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return inlet->is_ready = 0;
    if (got <= 0)
        return vv_env_break(run->own->group, "rank %u %s", rank,
                            got == 0 ? "has ended: its connection is closed" : "has gone: its connection is lost");
    if (is_direct)
        return got;
    inlet->is_ready = got == AHEAD; /* less: poll says when there is more */
    inlet->at = 0;
    inlet->have = (size_t)got;
    return draw(run, inlet, rank, to, size);
}

static void reserve(struct run *run) {
    run->into = run->transfer->into;
    if (run->into || run->result)
        return;
    if (run->size >= run->capacity) {
        free(run->buffer);
        run->capacity = run->size + 1;
        run->buffer = run->capacity <= SIZE_MAX / 2 ? malloc(run->capacity) : NULL;
        if (!run->buffer) {
            run->capacity = 0;
            run->result = -ENOMEM;
        }
    }
    run->into = run->buffer;
}

/* The head has come whole. */
static int begin_message(struct run *run, struct vv_env_inlet *inlet, uint32_t rank) {
    const struct vv_env_transfer *transfer = run->transfer;
    struct vv_env_head head;
    memcpy(&head, inlet->ahead + inlet->at, sizeof head);
    inlet->at += sizeof head;
    if (head.number != inlet->count++ || head.channel != run->own->channel)
        return vv_env_break(run->own->group, "a message of rank %u came out of turn", rank);
    if (head.kind != (uint32_t)transfer->kind || (transfer->into && head.size != transfer->into_size))
        return vv_env_break(run->own->group, "ranks %u and %u do not make the same call", rank,
                            run->own->group->plan.rank);
    if (head.size > MESSAGE_MOST)
        return vv_env_break(run->own->group, "a message of rank %u claims to have %llu bytes", rank,
                            (unsigned long long)head.size);
    run->coming = inlet;
    run->coming_rank = rank;
    run->size = head.size;
    run->done = 0;
    reserve(run);
    return 0;
}

/* A head is read into `ahead`, where there may be a part of it. */
static int read_head(struct run *run, struct vv_env_inlet *inlet, uint32_t rank) {
    ssize_t got;
    if (inlet->have - inlet->at >= sizeof(struct vv_env_head))
        return begin_message(run, inlet, rank);
    memmove(inlet->ahead, inlet->ahead + inlet->at, inlet->have - inlet->at);
    inlet->have -= inlet->at;
    inlet->at = 0;
    do
        got = recv(inlet->fd, inlet->ahead + inlet->have, AHEAD - inlet->have, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return inlet->is_ready = 0;
    if (got <= 0)
        return vv_env_break(run->own->group, "rank %u %s", rank,
                            got == 0 ? "has ended: its connection is closed" : "has gone: its connection is lost");
    inlet->have += (size_t)got;
    inlet->is_ready = inlet->have == AHEAD; /* less: poll says when there is more */
    return inlet->have >= sizeof(struct vv_env_head) ? begin_message(run, inlet, rank) : 0;
}

static int finish_message(struct run *run) {
    const struct vv_env_transfer *transfer = run->transfer;
    if (run->into && !transfer->into && run->result == 0)
        run->result = transfer->fn(transfer->arg, run->coming_rank, run->into, run->size);
    run->coming = NULL;
    return 0;
}

static int read_message(struct run *run) {
    while (run->done < run->size) {
        int64_t got =
            draw(run, run->coming, run->coming_rank, run->into ? run->into + run->done : NULL, run->size - run->done);
        if (got <= 0)
            return (int)got;
        run->done += (uint64_t)got;
    }
    return finish_message(run);
}

/* What can be received without waiting. */
static int pull(struct run *run) {
    int rc = run->coming && run->coming->is_ready ? read_message(run) : 0;
    for (size_t i = 0; i < run->pending_count && rc == 0 && !run->coming;) {
        uint32_t rank = run->pending[i];
        struct vv_env_inlet *inlet = inlet_of(run->own, rank, &rc);
        if (inlet && (inlet->is_ready || inlet->at < inlet->have))
            rc = read_head(run, inlet, rank);
        if (run->coming) {
            run->pending[i] = run->pending[--run->pending_count];
            rc = rc ? rc : read_message(run);
        } else {
            i++;
        }
    }
    return rc;
}

/* ---- waiting ---- */

static int ask_seconds(const struct vv_env_comm *own) {
    int seconds = own->group->plan.peer_seconds;
    return seconds < ASK_SECONDS ? seconds : ASK_SECONDS;
}

/* A rank that has closed the group opens no connection any more: one that waits for its first message would do so for
 * ever. Nobody listens for it then, or somebody else does. Ranks that do not answer are the monitors' matter. */
static int ask(struct vv_env_comm *own, uint32_t rank) {
    const struct vv_env_limit limit = {vv_env_now() + ask_seconds(own) * VV_ENV_SECOND, &own->group->is_broken};
    const struct vv_env_call call = call_of(own, VV_ENV_ASK, rank);
    struct vv_env_answer answer = {0};
    int rc = vv_env_connect(&call, &limit, &answer), none = 0;
    if ((rc != -ECONNREFUSED && rc != -EACCES && rc != -EPROTO) || inlet_of(own, rank, &none)) /* it came meanwhile */
        return none;
    return vv_env_break(own->group, "rank %u has left the group, and rank %u waits for a message of it", rank,
                        own->group->plan.rank);
}

static int is_any_absent(const struct run *run) {
    for (size_t i = 0; i < run->pending_count && !run->coming; i++)
        if (!run->own->inlets[run->pending[i]])
            return 1;
    return 0;
}

/* One at a time, in turn. */
static int ask_absent(struct run *run) {
    for (size_t i = 0; i < run->pending_count; i++) {
        uint32_t rank = run->pending[run->asked++ % run->pending_count];
        if (!run->own->inlets[rank])
            return ask(run->own, rank);
    }
    return 0;
}

static size_t list_polled(struct run *run) {
    struct vv_env_comm *own = run->own;
    struct pollfd *polled = own->polled;
    size_t count = 0;
    polled[count++] = (struct pollfd){.fd = own->group->bell[own->channel], .events = POLLIN};
    for (size_t i = 0; i < run->sending_count; i++)
        polled[count++] = (struct pollfd){.fd = run->sending[i].fd, .events = POLLOUT};
    if (run->coming)
        polled[count++] = (struct pollfd){.fd = run->coming->fd, .events = POLLIN};
    for (size_t i = 0; i < run->pending_count && !run->coming; i++) {
        const struct vv_env_inlet *inlet = own->inlets[run->pending[i]];
        polled[count++] = (struct pollfd){.fd = inlet ? inlet->fd : -1, .events = POLLIN};
    }
    return count;
}

static int wait_for_any(struct run *run) {
    struct vv_env_comm *own = run->own;
    struct pollfd *polled = own->polled;
    uint64_t rung;
    size_t count = list_polled(run), at = 1;
    /* The monitor rings when there is nothing to wait for any more. */
    int rc = poll(polled, count, is_any_absent(run) ? ask_seconds(own) * 1000 : -1);
    if (rc < 0)
        return errno == EINTR ? 0 : vv_env_break(own->group, "poll: %s", strerror(errno));
    if (rc == 0)
        return ask_absent(run);
    if (polled[0].revents && read(polled[0].fd, &rung, sizeof rung) < 0)
        rung = 0;
    for (size_t i = 0; i < run->sending_count; i++, at++)
        run->sending[i].is_ready = polled[at].revents != 0;
    if (run->coming)
        run->coming->is_ready = polled[at].revents != 0;
    for (size_t i = 0; i < run->pending_count && !run->coming; i++, at++)
        if (polled[at].revents)
            own->inlets[run->pending[i]]->is_ready = 1;
    return 0;
}

/* ---- a call ---- */

static int begin_sends(struct run *run) {
    struct vv_env_comm *own = run->own;
    const struct vv_env_transfer *transfer = run->transfer;
    for (size_t i = 0; i < transfer->out_count; i++) {
        const struct varve_message *message = &transfer->out[i];
        struct vv_env_outlet *outlet = &own->outlets[message->rank];
        if (message->rank == own->comm.rank)
            continue;
        int rc = outlet->fd < 0 ? open_outlet(own, message->rank) : 0;
        if (rc)
            return rc;
        run->sending[run->sending_count++] =
            (struct sending){.head = {(uint32_t)transfer->kind, own->channel, outlet->count++, message->size},
                             .message = message,
                             .fd = outlet->fd,
                             .is_ready = 1};
    }
    return 0;
}

static int move_all(struct run *run) {
    int rc = begin_sends(run);
    while (rc == 0) {
        rc = push(run);
        if (rc == 0)
            rc = pull(run);
        if (rc == 0 && run->sending_count == 0 && run->pending_count == 0 && !run->coming)
            return 0;
        if (rc == 0 && atomic_load(&run->own->group->is_broken))
            return -ECOMM;
        if (rc == 0)
            rc = wait_for_any(run);
    }
    return rc;
}

static int reserve_polled(struct vv_env_comm *own, size_t count) {
    if (count <= own->polled_capacity)
        return 0;
    struct pollfd *more = realloc(own->polled, count * sizeof *more);
    if (!more)
        return -ENOMEM;
    own->polled = more;
    own->polled_capacity = count;
    return 0;
}

int vv_env_transfer(struct vv_env_comm *own, const struct vv_env_transfer *transfer) {
    struct sending some_sending[SOME];
    uint32_t some_pending[SOME];
    struct run run = {.own = own, .transfer = transfer, .sending = some_sending, .pending = some_pending};
    if (atomic_load(&own->group->is_broken) || own->group->forks != vv_env_forks())
        return -ECOMM;
    if (transfer->out_count > SOME)
        run.sending = malloc(transfer->out_count * sizeof *run.sending);
    if (transfer->from_count > SOME)
        run.pending = malloc(transfer->from_count * sizeof *run.pending);
    int rc = run.sending && run.pending ? reserve_polled(own, transfer->out_count + transfer->from_count + 2) : -ENOMEM;
    if (rc == 0) {
        for (size_t i = 0; i < transfer->from_count; i++)
            if (transfer->from[i] != own->comm.rank)
                run.pending[run.pending_count++] = transfer->from[i];
        rc = move_all(&run);
    } else { /* nothing was sent, and the others wait for it */
        vv_env_break(own->group, "rank %u has no memory for the messages of a call", own->group->plan.rank);
    }
    free(run.buffer);
    if (run.sending != some_sending)
        free(run.sending);
    if (run.pending != some_pending)
        free(run.pending);
    return rc ? rc : run.result;
}

int vv_env_channel_init(struct vv_env_comm *own, struct vv_env_group *group, uint32_t channel) {
    uint32_t ranks = group->plan.ranks;
    own->group = group;
    own->channel = channel;
    own->outlets = malloc(ranks * sizeof *own->outlets);
    own->inlets = calloc(ranks, sizeof *own->inlets);
    for (uint32_t rank = 0; own->outlets && rank < ranks; rank++)
        own->outlets[rank] = (struct vv_env_outlet){.fd = -1};
    return own->outlets && own->inlets ? reserve_polled(own, 2 * SOME + 2) : -ENOMEM;
}

void vv_env_channel_clear(struct vv_env_comm *own) {
    for (uint32_t rank = 0; own->group && rank < own->group->plan.ranks; rank++) {
        if (own->outlets)
            vv_env_close_fd(own->outlets[rank].fd);
        if (own->inlets && own->inlets[rank]) {
            vv_env_close_fd(own->inlets[rank]->fd);
            free(own->inlets[rank]);
        }
    }
    free(own->outlets);
    free(own->inlets);
    free(own->polled);
}
