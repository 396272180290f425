/* Where the rings lie in the memory of the node. */
#include "gather/post.h"
#include "base/alloc.h"

#include <errno.h>
#include <string.h>

#define UP_MOST (1u << 20) /* bytes on the way from a rank to its writer */
#define UP_LEAST (128u << 10)
#define UP_TOGETHER (16u << 20) /* from all ranks of a node, if that leaves UP_LEAST */
#define DOWN (128u << 10)
#define ACROSS_MOST (1u << 20)   /* between two writers */
#define ACROSS_LEAST (16u << 10) /* more than one chunk */
#define ACROSS_TOGETHER (64u << 20)
#define LOOK_MS 1000 /* how often who waits looks whether the other lives */

/* What a writer tells the others, or a rank; a line of the cache each. */
struct load {
    _Atomic uint64_t number; /* written last */
    _Atomic uint64_t bytes;
    uint8_t pad[48];
};

struct bell_line {
    struct vv_doorbell bell;
    uint8_t pad[64 - sizeof(struct vv_doorbell)];
};

struct vv_post {
    struct vv_node_memory *memory;
    uint32_t ranks, teams; /* on this node */
    uint32_t up_capacity, across_capacity;
    struct bell_line *rank_bells, *writer_bells;
    struct load *loads, *amounts; /* of teams, and of ranks */
    uint8_t *ups, *downs, *across;
};

static uint32_t capacity_of(uint64_t count, uint32_t least, uint32_t most, uint64_t together) {
    while (most > least && most * count > together)
        most /= 2;
    return most;
}

static size_t lay_out(struct vv_post *post, uint8_t *base) {
    size_t at = 0;
    post->up_capacity = capacity_of(post->ranks, UP_LEAST, UP_MOST, UP_TOGETHER);
    post->across_capacity =
        capacity_of((uint64_t)post->teams * post->teams, ACROSS_LEAST, ACROSS_MOST, ACROSS_TOGETHER);
    post->rank_bells = (struct bell_line *)(base + at);
    at += post->ranks * sizeof *post->rank_bells;
    post->writer_bells = (struct bell_line *)(base + at);
    at += post->teams * sizeof *post->writer_bells;
    post->loads = (struct load *)(base + at);
    at += post->teams * sizeof *post->loads;
    post->amounts = (struct load *)(base + at);
    at += post->ranks * sizeof *post->amounts;
    post->ups = base + at;
    at += post->ranks * vv_ring_bytes(post->up_capacity);
    post->downs = base + at;
    at += post->ranks * vv_ring_bytes(DOWN);
    post->across = base + at;
    return at + (size_t)post->teams * post->teams * vv_ring_bytes(post->across_capacity);
}

static void init_rings(struct vv_post *post) {
    for (uint32_t i = 0; i < post->ranks; i++) {
        vv_ring_init((struct vv_ring *)(post->ups + i * vv_ring_bytes(post->up_capacity)), post->up_capacity);
        vv_ring_init((struct vv_ring *)(post->downs + i * vv_ring_bytes(DOWN)), DOWN);
    }
    for (uint32_t i = 0; i < post->teams * post->teams; i++)
        vv_ring_init((struct vv_ring *)(post->across + i * vv_ring_bytes(post->across_capacity)),
                     post->across_capacity);
}

static size_t size_of(uint32_t ranks, uint32_t teams) {
    static uint8_t nowhere[1];
    struct vv_post post = {.ranks = ranks, .teams = teams};
    return lay_out(&post, nowhere);
}

int vv_post_open(struct varve_comm *comm, uint32_t teams, struct vv_post **out, struct varve_error *error) {
    struct vv_post *post = vv_calloc(1, sizeof *post);
    struct vv_node_memory *memory = NULL;
    uint32_t ranks = comm->nodes > 0 && comm->ops->node_size ? comm->ops->node_size(comm, comm->node) : 1;
    int rc = post ? 0 : vv_error(error, -ENOMEM, "no memory for a session");
    rc = vv_node_memory_open(comm, rc, size_of(ranks, teams), &memory, error);
    if (rc) {
        vv_free(post);
        return rc;
    }
    post->memory = memory;
    post->ranks = ranks;
    post->teams = teams;
    lay_out(post, vv_node_memory_at(post->memory));
    if (comm->local == 0)
        init_rings(post);
    rc = vv_comm_agree(comm, 0, error); /* nobody sends before the rings are made */
    if (rc) {
        vv_post_close(post);
        return rc;
    }
    *out = post;
    return 0;
}

void vv_post_close(struct vv_post *post) {
    if (!post)
        return;
    vv_node_memory_close(post->memory);
    vv_free(post);
}

struct vv_channel vv_post_up(struct vv_post *post, uint32_t local, uint32_t team, uint32_t first) {
    return (struct vv_channel){post, (struct vv_ring *)(post->ups + local * vv_ring_bytes(post->up_capacity)),
                               &post->writer_bells[team].bell, first};
}

struct vv_channel vv_post_down(struct vv_post *post, uint32_t local) {
    return (struct vv_channel){post, (struct vv_ring *)(post->downs + local * vv_ring_bytes(DOWN)),
                               &post->rank_bells[local].bell, local};
}

struct vv_channel vv_post_across(struct vv_post *post, uint32_t from, uint32_t to, uint32_t first) {
    size_t number = (size_t)from * post->teams + to;
    return (struct vv_channel){post, (struct vv_ring *)(post->across + number * vv_ring_bytes(post->across_capacity)),
                               &post->writer_bells[to].bell, first};
}

size_t vv_post_longest(const struct vv_post *post) {
    uint32_t up = vv_ring_longest((const struct vv_ring *)post->ups);
    uint32_t down = vv_ring_longest((const struct vv_ring *)post->downs);
    return up < down ? up : down;
}

int vv_post_is_alive(const struct vv_post *post, uint32_t local) {
    return vv_node_memory_is_alive(post->memory, local);
}

int vv_post_send(const struct vv_channel *way, const void *head, size_t head_size, const void *data, size_t size) {
    if (head_size + size == 0 || head_size + size > vv_ring_longest(way->ring))
        return -EMSGSIZE;
    uint32_t all = (uint32_t)(head_size + size);
    uint8_t *capacity;
    while (!(capacity = vv_ring_reserve(way->ring, all, LOOK_MS)))
        if (!vv_post_is_alive(way->post, way->receiver))
            return -ECOMM;
    memcpy(capacity, head, head_size);
    if (size)
        memcpy(capacity + head_size, data, size);
    vv_ring_send(way->ring, all, way->bell);
    return 0;
}

static void tell_load(struct load *load, uint64_t number, uint64_t bytes) {
    atomic_store_explicit(&load->bytes, bytes, memory_order_relaxed);
    atomic_store_explicit(&load->number, number, memory_order_release);
}

static int ask_load(const struct load *load, uint64_t number, uint64_t *bytes_out) {
    if (atomic_load_explicit(&load->number, memory_order_acquire) != number)
        return 0;
    *bytes_out = atomic_load_explicit(&load->bytes, memory_order_relaxed);
    return 1;
}

void vv_post_tell_load(struct vv_post *post, uint32_t team, uint64_t number, uint64_t bytes) {
    tell_load(&post->loads[team], number, bytes);
}

int vv_post_ask_load(const struct vv_post *post, uint32_t team, uint64_t number, uint64_t *bytes_out) {
    return ask_load(&post->loads[team], number, bytes_out);
}

void vv_post_tell_amount(struct vv_post *post, uint32_t local, uint64_t number, uint64_t bytes) {
    tell_load(&post->amounts[local], number, bytes);
}

int vv_post_ask_amount(const struct vv_post *post, uint32_t local, uint64_t number, uint64_t *bytes_out) {
    return ask_load(&post->amounts[local], number, bytes_out);
}

void vv_post_ring_all(struct vv_post *post) {
    for (uint32_t i = 0; i < post->teams; i++)
        vv_doorbell_ring(&post->writer_bells[i].bell);
}
