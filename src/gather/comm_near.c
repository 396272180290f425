/* Every call is made of exchanges: messages through a ring from each rank to each.
 *
 * A message is its size, and then its bytes in as many pieces as the ring needs. Between two ranks they come in the
 * order in which they were sent, and all ranks make the same calls, so nothing else has to be said. Sending never waits
 * for one ring alone: who cannot go on sleeps until anything comes for it, or anything of its own was taken. */
#include "gather/comm_near.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "gather/node_memory.h"
#include "gather/ring.h"

#define RING_MOST (64u << 10)
#define RING_LEAST (4u << 10)
#define TOGETHER (4u << 20) /* bytes of all rings, if that leaves RING_LEAST */
#define LOOK_MS 1000        /* how often who waits looks whether the others live */
#define SHORT                                                                                                          \
    (64u << 10) /* bytes of a message that needs no memory of its own: agreeing must not fail for want of it */

struct bell_line {
    struct vv_doorbell bell; /* something has come for this rank, or was taken that it has sent */
    uint8_t pad[64 - sizeof(struct vv_doorbell)];
};

/* In front of the rings. */
struct shared {
    _Atomic uint32_t is_broken; /* a rank cannot talk any more: nobody waits for it */
    uint8_t pad[60];
    struct bell_line bells[VV_NEAR_MOST];
};

struct near {
    struct varve_comm comm;
    uint32_t local_of[VV_NEAR_MOST], rank_of[VV_NEAR_MOST]; /* of a rank, its number on the node; and back */
    struct vv_node_memory *memory;
    struct shared *shared;
    uint8_t *rings;
    uint32_t capacity;
    uint8_t short_message[SHORT];
};

static struct near *near_of(struct varve_comm *comm) {
    return (struct near *)comm;
}

static struct vv_ring *ring_of(const struct near *near, uint32_t from, uint32_t to) {
    return (struct vv_ring *)(near->rings + ((size_t)from * near->comm.ranks + to) * vv_ring_bytes(near->capacity));
}

static struct vv_doorbell *bell_of(const struct near *near, uint32_t rank) {
    return &near->shared->bells[rank].bell;
}

static int give_up_near(const struct near *near) {
    atomic_store(&near->shared->is_broken, 1);
    for (uint32_t rank = 0; rank < near->comm.ranks; rank++)
        vv_doorbell_ring(bell_of(near, rank));
    return -ECOMM;
}

/* ---- one exchange ---- */

/* What a message is part of: ranks that make different calls are found out. */
enum kind { EXCHANGE = 0x7472, GATHER, BROADCAST };

/* Is sent before the bytes. */
struct head {
    uint64_t kind, size;
};

struct sending {
    const struct varve_message *message;
    struct head head;
    uint64_t done; /* bytes, after the head */
    int is_begun;
};

struct exchange {
    struct near *near;
    enum kind kind;
    struct sending sending[VV_NEAR_MOST];
    uint32_t sending_count;
    uint32_t pending[VV_NEAR_MOST]; /* ranks whose message has not begun */
    uint32_t pending_count;
    int is_coming; /* a message of `from`, */
    uint32_t from;
    uint8_t *data; /* NULL: there is no memory for it, and it is dropped */
    void *into;    /* where a message of into_size bytes is received; NULL: anywhere */
    uint64_t size, done, into_size;
    varve_gather_fn fn;
    void *arg;
    int result; /* the first error of fn, or of memory */
};

/* As much as fits now; 1 if anything was sent. */
static int push_one(const struct near *near, struct sending *one) {
    uint32_t to = one->message->rank;
    struct vv_ring *ring = ring_of(near, near->comm.rank, to);
    uint32_t longest = vv_ring_longest(ring);
    int has_moved = 0;
    while (!one->is_begun || one->done < one->head.size) {
        uint64_t left = one->head.size - one->done;
        uint32_t size = !one->is_begun ? sizeof one->head : left < longest ? (uint32_t)left : longest;
        void *capacity = vv_ring_reserve(ring, size, 0);
        if (!capacity)
            return longest == 0 ? -ECOMM : has_moved;
        memcpy(capacity, one->is_begun ? (const uint8_t *)one->message->data + one->done : (const uint8_t *)&one->head,
               size);
        vv_ring_send(ring, size, bell_of(near, to));
        one->done += one->is_begun ? size : 0;
        one->is_begun = has_moved = 1;
    }
    return has_moved;
}

/* 1 if anything was sent, 0 if not, or -ECOMM. */
static int push(struct exchange *exchange) {
    int has_moved = 0;
    for (uint32_t i = 0; i < exchange->sending_count;) {
        struct sending *one = &exchange->sending[i];
        int moved = push_one(exchange->near, one);
        if (moved < 0)
            return moved;
        has_moved |= moved;
        if (one->is_begun && one->done == one->head.size)
            *one = exchange->sending[--exchange->sending_count];
        else
            i++;
    }
    return has_moved;
}

/* The next piece from a rank, into `to` unless that is NULL; its size, 0 if there is none yet, or -ECOMM. */
static int64_t take_piece(const struct near *near, uint32_t from, void *to, uint64_t capacity) {
    struct vv_ring *ring = ring_of(near, from, near->comm.rank);
    uint32_t size;
    int is_broken;
    const void *piece = vv_ring_peek(ring, &size, &is_broken);
    if (is_broken || (piece && size > capacity))
        return -ECOMM;
    if (!piece)
        return 0;
    if (to)
        memcpy(to, piece, size);
    vv_ring_drop(ring);
    vv_doorbell_ring(bell_of(near, from));
    return size;
}

static uint8_t *find_buffer(const struct exchange *exchange, uint64_t size) {
    if (exchange->into && size == exchange->into_size)
        return exchange->into;
    if (size <= SHORT)
        return exchange->near->short_message;
    return size < SIZE_MAX ? vv_malloc((size_t)size) : NULL;
}

static void leave_capacity(struct exchange *exchange) {
    if (exchange->data != exchange->into && exchange->data != exchange->near->short_message)
        vv_free(exchange->data);
    exchange->data = NULL;
}

/* 1 if a message has begun to come. */
static int begin_one(struct exchange *exchange) {
    for (uint32_t i = 0; i < exchange->pending_count; i++) {
        struct head head = {0};
        int64_t got = take_piece(exchange->near, exchange->pending[i], &head, sizeof head);
        if (got == 0)
            continue;
        if (got != sizeof head || head.kind != exchange->kind)
            return -ECOMM;
        exchange->is_coming = 1;
        exchange->from = exchange->pending[i];
        exchange->pending[i] = exchange->pending[--exchange->pending_count];
        exchange->size = head.size;
        exchange->done = 0;
        exchange->data = find_buffer(exchange, head.size);
        if (!exchange->data && exchange->result == 0)
            exchange->result = -ENOMEM;
        return 1;
    }
    return 0;
}

/* 1 if anything came, 0 if not, or -ECOMM. */
static int pull(struct exchange *exchange) {
    int has_moved = 0;
    if (!exchange->is_coming)
        return begin_one(exchange);
    while (exchange->done < exchange->size) {
        int64_t got =
            take_piece(exchange->near, exchange->from, exchange->data ? exchange->data + exchange->done : NULL,
                       exchange->size - exchange->done);
        if (got <= 0)
            return got < 0 ? (int)got : has_moved;
        exchange->done += (uint64_t)got;
        has_moved = 1;
    }
    if (exchange->result == 0)
        exchange->result = exchange->fn(exchange->arg, exchange->from, exchange->data, (size_t)exchange->size);
    leave_capacity(exchange);
    exchange->is_coming = 0;
    return 1;
}

static int is_alive(const struct near *near, uint32_t rank) {
    return vv_node_memory_is_alive(near->memory, near->local_of[rank]);
}

/* Are all there that this one waits for? */
static int are_alive(const struct exchange *exchange) {
    int alive = !exchange->is_coming || is_alive(exchange->near, exchange->from);
    for (uint32_t i = 0; i < exchange->pending_count && alive; i++)
        alive = is_alive(exchange->near, exchange->pending[i]);
    for (uint32_t i = 0; i < exchange->sending_count && alive; i++)
        alive = is_alive(exchange->near, exchange->sending[i].message->rank);
    return alive;
}

/* Until nothing is left to do, or nothing can be done now. 1, 0 or -ECOMM. */
static int move(struct exchange *exchange) {
    for (;;) {
        if (!exchange->sending_count && !exchange->pending_count && !exchange->is_coming)
            return 1;
        if (atomic_load(&exchange->near->shared->is_broken))
            return -ECOMM;
        int sent = push(exchange), came = sent < 0 ? sent : pull(exchange);
        if (came < 0 || (!sent && !came))
            return came;
    }
}

static int run_exchange(struct exchange *exchange) {
    struct vv_doorbell *bell = bell_of(exchange->near, exchange->near->comm.rank);
    for (;;) {
        uint32_t seen = vv_doorbell_look(bell);
        int done = move(exchange);
        if (done != 0)
            return done < 0 ? done : 0;
        vv_doorbell_wait(bell, seen, LOOK_MS);
        if (vv_doorbell_look(bell) != seen || are_alive(exchange))
            continue;
        done = move(exchange); /* what the dead have sent before */
        return done == 1 ? 0 : -ECOMM;
    }
}

/* The rest of what exchange says was told. */
static int exchange_all(struct exchange *exchange, const struct varve_message *out, size_t out_count,
                        const uint32_t *from, size_t from_count) {
    uint32_t own = exchange->near->comm.rank, ranks = exchange->near->comm.ranks;
    if (out_count > ranks || from_count > ranks)
        return -EINVAL;
    for (size_t i = 0; i < out_count; i++)
        if (out[i].rank == own)
            exchange->result = exchange->fn(exchange->arg, own, out[i].data, out[i].size);
        else
            exchange->sending[exchange->sending_count++] =
                (struct sending){.message = &out[i], .head = {exchange->kind, out[i].size}};
    for (size_t i = 0; i < from_count; i++)
        if (from[i] != own)
            exchange->pending[exchange->pending_count++] = from[i];
    int rc = run_exchange(exchange);
    leave_capacity(exchange);
    return rc ? give_up_near(exchange->near) : exchange->result;
}

static int near_exchange(struct varve_comm *comm, const struct varve_message *out, size_t out_count,
                         const uint32_t *from, size_t from_count, varve_gather_fn fn, void *arg) {
    struct exchange exchange = {.near = near_of(comm), .kind = EXCHANGE, .fn = fn, .arg = arg};
    return exchange_all(&exchange, out, out_count, from, from_count);
}

/* ---- what is made of it ---- */

static int near_gather(struct varve_comm *comm, const void *data, size_t size, varve_gather_fn fn, void *arg) {
    struct varve_message message = {VV_COMM_ROOT, data, size};
    struct exchange exchange = {.near = near_of(comm), .kind = GATHER, .fn = fn, .arg = arg};
    int rc = 0;
    if (!vv_comm_is_root(comm))
        return exchange_all(&exchange, &message, 1, NULL, 0);
    exchange.result = fn(arg, comm->rank, data, size);
    for (uint32_t rank = 1; rank < comm->ranks && rc != -ECOMM; rank++)
        rc = exchange_all(&exchange, NULL, 0, &rank, 1) == -ECOMM && atomic_load(&exchange.near->shared->is_broken)
                 ? -ECOMM
                 : 0;
    return rc ? rc : exchange.result;
}

struct place {
    void *data;
    size_t size;
};

/* It was received where it belongs. */
static int is_in_place(void *arg, uint32_t rank, const void *data, size_t size) {
    const struct place *place = arg;
    (void)rank;
    return size == place->size && (size == 0 || data == place->data) ? 0 : -EPROTO;
}

static int near_broadcast(struct varve_comm *comm, void *data, size_t size, uint32_t root) {
    struct varve_message out[VV_NEAR_MOST];
    struct place place = {data, size};
    uint32_t count = 0;
    struct exchange exchange = {
        .near = near_of(comm), .kind = BROADCAST, .fn = is_in_place, .arg = &place, .into = data, .into_size = size};
    if (comm->rank != root)
        return exchange_all(&exchange, NULL, 0, &root, 1);
    for (uint32_t rank = 0; rank < comm->ranks; rank++)
        if (rank != root)
            out[count++] = (struct varve_message){rank, data, size};
    return exchange_all(&exchange, out, count, NULL, 0);
}

static int keep_least(void *arg, uint32_t rank, const void *data, size_t size) {
    const struct place *place = arg;
    uint64_t *values = place->data, value;
    (void)rank;
    if (size != place->size)
        return -EPROTO;
    for (size_t i = 0; i < size / sizeof value; i++) {
        memcpy(&value, (const uint8_t *)data + i * sizeof value, sizeof value);
        values[i] = value < values[i] ? value : values[i];
    }
    return 0;
}

static int near_reduce_min(struct varve_comm *comm, uint64_t *values, size_t count) {
    struct place place = {values, count * sizeof *values};
    int rc = near_gather(comm, values, place.size, keep_least, &place);
    if (rc) /* the others wait for the answer */
        return give_up_near(near_of(comm));
    return near_broadcast(comm, values, place.size, VV_COMM_ROOT);
}

/* Not asked of the group, which is the caller's thread's while this one is ours. */
static uint32_t near_node_size(struct varve_comm *comm, uint32_t node) {
    return node == 0 ? comm->ranks : 0;
}

static uint32_t near_rank_of(struct varve_comm *comm, uint32_t node, uint32_t local) {
    (void)node;
    return near_of(comm)->rank_of[local];
}

static void near_place_of(struct varve_comm *comm, uint32_t rank, uint32_t *node, uint32_t *local) {
    *node = 0;
    *local = near_of(comm)->local_of[rank];
}

static void near_close(struct varve_comm *comm) {
    vv_node_memory_close(near_of(comm)->memory);
    vv_free(comm);
}

static const struct varve_comm_ops near_ops = {
    .size = sizeof(struct varve_comm_ops),
    .name = "shared memory",
    .reduce_min = near_reduce_min,
    .broadcast = near_broadcast,
    .gather = near_gather,
    .close = near_close,
    .exchange = near_exchange,
    .node_size = near_node_size,
    .rank_of = near_rank_of,
    .place_of = near_place_of,
};

/* ---- made ---- */

static uint32_t capacity_for(uint32_t ranks) {
    uint32_t capacity = RING_MOST;
    while (capacity > RING_LEAST && (uint64_t)capacity * ranks * ranks > TOGETHER)
        capacity /= 2;
    return capacity;
}

static int is_possible(const struct varve_comm *group) {
    const struct varve_comm_ops *ops = group->ops;
    return group->nodes == 1 && group->ranks > 1 && group->ranks <= VV_NEAR_MOST && ops->size >= sizeof *ops &&
           ops->exchange && ops->node_size && ops->rank_of;
}

static struct near *create(struct varve_comm *group) {
    struct near *near = vv_calloc(1, sizeof *near);
    if (!near)
        return NULL;
    near->comm = *group;
    near->comm.ops = &near_ops;
    near->comm.second = NULL;
    near->capacity = capacity_for(group->ranks);
    for (uint32_t local = 0; local < group->ranks; local++) {
        uint32_t rank = group->ops->rank_of(group, 0, local);
        near->rank_of[local] = rank;
        if (rank < group->ranks)
            near->local_of[rank] = local;
    }
    return near;
}

/* Collective; near is NULL where there is no memory for it. */
static int set_up(struct near *near, struct varve_comm *group, struct varve_error *error) {
    uint32_t ranks = group->ranks;
    size_t rings = (size_t)ranks * ranks * vv_ring_bytes(capacity_for(ranks));
    struct vv_node_memory *memory = NULL;
    int rc = near ? 0 : vv_error(error, -ENOMEM, "no memory for a session");
    rc = vv_node_memory_open(group, rc, sizeof *near->shared + rings, &memory, error);
    if (rc)
        return rc;
    near->memory = memory;
    near->shared = vv_node_memory_at(near->memory);
    near->rings = (uint8_t *)(near->shared + 1);
    for (uint32_t from = 0; near->comm.local == 0 && from < ranks; from++)
        for (uint32_t to = 0; to < ranks; to++)
            vv_ring_init(ring_of(near, from, to), near->capacity);
    return vv_comm_agree(group, 0, error); /* nobody sends before the rings are made */
}

int vv_comm_near_open(struct varve_comm *group, struct varve_comm **out, struct varve_error *error) {
    *out = NULL;
    if (!is_possible(group)) /* alike on all ranks */
        return vv_comm_all_say(error, -ENOTSUP, "they are on several nodes, are too many, or cannot exchange messages");
    struct near *near = create(group);
    int rc = set_up(near, group, error);
    if (rc) {
        if (near)
            vv_node_memory_close(near->memory);
        vv_free(near);
        return rc;
    }
    *out = &near->comm;
    return 0;
}
