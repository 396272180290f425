/* The calls that all ranks make together, out of messages between two. Each rank has at most two partners for each bit
 * of the number of ranks, whatever the root, so connections grow with its logarithm. Only exchange connects ranks as
 * its callers like. */
#include <errno.h>
#include <string.h>

#include "comm_env.h"

#define VALUES 512                /* of a reduction that travel together: no memory is needed for those of others */
#define PIECE ((size_t)256 << 10) /* of a broadcast: one is passed on while the next comes */

static struct vv_env_comm *own_of(struct varve_comm *comm) {
    return (struct vv_env_comm *)comm;
}

/* Bytes to a rank and as many from another, at the same time; UINT32_MAX: to, or from, nobody. */
static int swap(struct varve_comm *comm, enum vv_env_kind kind, uint32_t to, const void *out, uint32_t from, void *in,
                size_t size) {
    const struct varve_message message = {to, out, size};
    const struct vv_env_transfer transfer = {.kind = kind,
                                             .out = &message,
                                             .out_count = to != UINT32_MAX,
                                             .from = &from,
                                             .from_count = from != UINT32_MAX,
                                             .into = in,
                                             .into_size = size};
    return vv_env_transfer(own_of(comm), &transfer);
}

/* ---- reduce_min: recursive doubling ---- */

static void merge(uint64_t *values, const uint64_t *theirs, size_t count) {
    for (size_t i = 0; i < count; i++)
        values[i] = theirs[i] < values[i] ? theirs[i] : values[i];
}

static int reduce_some(struct varve_comm *comm, uint64_t *values, size_t count) {
    uint64_t theirs[VALUES];
    uint32_t rank = comm->rank, power = 1;
    size_t size = count * sizeof *values;
    int rc = 0;
    while (power <= comm->ranks / 2)
        power *= 2;
    if (rank >= power) { /* one of the others speaks for it, and tells it in the end */
        rc = swap(comm, VV_ENV_REDUCE, rank - power, values, UINT32_MAX, NULL, size);
        return rc ? rc : swap(comm, VV_ENV_REDUCE, UINT32_MAX, NULL, rank - power, values, size);
    }
    if (rank + power < comm->ranks) {
        rc = swap(comm, VV_ENV_REDUCE, UINT32_MAX, NULL, rank + power, theirs, size);
        if (rc == 0)
            merge(values, theirs, count);
    }
    for (uint32_t bit = 1; bit < power && rc == 0; bit *= 2) {
        rc = swap(comm, VV_ENV_REDUCE, rank ^ bit, values, rank ^ bit, theirs, size);
        if (rc == 0)
            merge(values, theirs, count);
    }
    if (rc == 0 && rank + power < comm->ranks)
        rc = swap(comm, VV_ENV_REDUCE, rank + power, values, UINT32_MAX, NULL, size);
    return rc;
}

int vv_env_reduce_min(struct varve_comm *comm, uint64_t *values, size_t count) {
    int rc = 0;
    for (size_t at = 0; at < count && rc == 0; at += VALUES)
        rc = reduce_some(comm, values + at, count - at < VALUES ? count - at : VALUES);
    return rc;
}

/* ---- broadcast: a tree below root, as of monitors below rank 0 ---- */

struct spreading {
    struct varve_comm *comm;
    uint32_t above; /* UINT32_MAX: this is root */
    uint32_t below[32];
    size_t below_count;
};

static void find_tree(struct spreading *spreading, uint32_t root) {
    uint32_t ranks = spreading->comm->ranks, own = (uint32_t)(((uint64_t)spreading->comm->rank + ranks - root) % ranks);
    uint64_t lowest = own ? own & (~own + 1) : UINT64_C(1) << 32;
    spreading->above = own ? (uint32_t)((own - lowest + root) % ranks) : UINT32_MAX;
    for (uint64_t bit = lowest / 2; bit > 0; bit /= 2) /* those that have the most below them first */
        if (own + bit < ranks)
            spreading->below[spreading->below_count++] = (uint32_t)((own + bit + root) % ranks);
}

/* Piece `at` to those below, and the next from above. */
static int spread(const struct spreading *spreading, char *data, size_t size, size_t at) {
    struct varve_message out[32];
    size_t next = at + PIECE, length = size - at < PIECE ? size - at : PIECE;
    int has_next = spreading->above != UINT32_MAX && next < size;
    for (size_t i = 0; i < spreading->below_count; i++)
        out[i] = (struct varve_message){spreading->below[i], data + at, length};
    const struct vv_env_transfer transfer = {.kind = VV_ENV_BROADCAST,
                                             .out = out,
                                             .out_count = spreading->below_count,
                                             .from = &spreading->above,
                                             .from_count = (size_t)has_next,
                                             .into = has_next ? data + next : NULL,
                                             .into_size = has_next ? (size - next < PIECE ? size - next : PIECE) : 0};
    return vv_env_transfer(own_of(spreading->comm), &transfer);
}

int vv_env_broadcast(struct varve_comm *comm, void *data, size_t size, uint32_t root) {
    struct spreading spreading = {.comm = comm};
    int rc = 0;
    if (root >= comm->ranks)
        return -EINVAL;
    if (size == 0 || comm->ranks == 1)
        return 0;
    find_tree(&spreading, root);
    if (spreading.above != UINT32_MAX)
        rc = swap(comm, VV_ENV_BROADCAST, UINT32_MAX, NULL, spreading.above, data, size < PIECE ? size : PIECE);
    for (size_t at = 0; at < size && rc == 0; at += PIECE)
        rc = spread(&spreading, data, size, at);
    return rc;
}

/* ---- gather: along the same tree, whose branches are ranks in their order ---- */

struct gathering {
    struct varve_comm *comm;
    uint32_t above; /* UINT32_MAX: this is rank 0, and fn takes it */
    uint32_t rank;  /* whose message comes now */
    varve_gather_fn fn;
    void *arg;
    int result;
};

static int give(struct gathering *gathering, const void *data, size_t size) {
    if (gathering->above != UINT32_MAX)
        return swap(gathering->comm, VV_ENV_GATHER, gathering->above, data, UINT32_MAX, NULL, size);
    if (gathering->result == 0)
        gathering->result = gathering->fn(gathering->arg, gathering->rank, data, size);
    return 0;
}

static int take_gathered(void *arg, uint32_t from, const void *data, size_t size) {
    (void)from;
    return give(arg, data, size);
}

/* Of a branch, one message after another. Only rank 0 may drop one that it has no memory for. */
static int take_branch(struct gathering *gathering, uint32_t branch, uint32_t ranks) {
    const struct vv_env_transfer transfer = {
        .kind = VV_ENV_GATHER, .from = &branch, .from_count = 1, .fn = take_gathered, .arg = gathering};
    for (uint32_t i = 0; i < ranks; i++) {
        gathering->rank = branch + i;
        int rc = vv_env_transfer(own_of(gathering->comm), &transfer);
        if (rc == -ENOMEM && gathering->above == UINT32_MAX)
            gathering->result = gathering->result ? gathering->result : rc;
        else if (rc == -ENOMEM)
            return vv_env_break(own_of(gathering->comm)->group, "rank %u has no memory to pass a message on",
                                gathering->comm->rank);
        else if (rc)
            return rc;
    }
    return 0;
}

int vv_env_gather(struct varve_comm *comm, const void *data, size_t size, varve_gather_fn fn, void *arg) {
    uint32_t rank = comm->rank;
    uint64_t lowest = rank ? rank & (~rank + 1) : UINT64_C(1) << 32;
    struct gathering gathering = {.comm = comm, .rank = rank, .fn = fn, .arg = arg, .above = UINT32_MAX};
    if (rank > 0)
        gathering.above = rank - (uint32_t)lowest;
    int rc = give(&gathering, data, size);
    for (uint64_t bit = 1; bit < lowest && rank + bit < comm->ranks && rc == 0; bit *= 2) {
        uint64_t left = comm->ranks - (rank + bit);
        rc = take_branch(&gathering, rank + (uint32_t)bit, (uint32_t)(bit < left ? bit : left));
    }
    return rc ? rc : gathering.result;
}

/* ---- exchange ---- */

struct exchanging {
    varve_gather_fn fn;
    void *arg;
    int result;
};

static int take_exchanged(void *arg, uint32_t rank, const void *data, size_t size) {
    struct exchanging *exchanging = arg;
    if (exchanging->result == 0)
        exchanging->result = exchanging->fn(exchanging->arg, rank, data, size);
    return exchanging->result;
}

static int check_ranks(const struct varve_comm *comm, const struct varve_message *out, size_t out_count,
                       const uint32_t *from, size_t from_count) {
    int is_good = out_count <= comm->ranks && from_count <= comm->ranks;
    for (size_t i = 0; is_good && i < from_count; i++)
        is_good = from[i] < comm->ranks;
    for (size_t i = 0; is_good && i < out_count; i++)
        is_good = out[i].rank < comm->ranks;
    return is_good ? 0 : -EINVAL;
}

int vv_env_exchange(struct varve_comm *comm, const struct varve_message *out, size_t out_count, const uint32_t *from,
                    size_t from_count, varve_gather_fn fn, void *arg) {
    struct exchanging exchanging = {fn, arg, 0};
    const struct vv_env_transfer transfer = {.kind = VV_ENV_EXCHANGE,
                                             .out = out,
                                             .out_count = out_count,
                                             .from = from,
                                             .from_count = from_count,
                                             .fn = take_exchanged,
                                             .arg = &exchanging};
    int rc = check_ranks(comm, out, out_count, from, from_count);
    if (rc) { /* nothing was sent, and the others wait for it */
        vv_env_break(own_of(comm)->group, "rank %u wants to talk to a rank that there is not", comm->rank);
        return rc;
    }
    for (size_t i = 0; i < out_count; i++)
        if (out[i].rank == comm->rank)
            take_exchanged(&exchanging, comm->rank, out[i].data, out[i].size);
    rc = vv_env_transfer(own_of(comm), &transfer);
    return rc ? rc : exchanging.result;
}
