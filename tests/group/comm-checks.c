#include "comm-checks.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST ((size_t)3 << 20)
#define VALUES 1000

static const size_t sizes[] = {0, 1, 7, 492, 4096, 65537, LARGEST};
#define SIZES (sizeof sizes / sizeof *sizes)

static uint64_t mix(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Bytes that tell which rank they are of, and in which check. */
static void fill(uint8_t *out, size_t size, uint64_t check, uint32_t rank) {
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = mix(check << 40 ^ (uint64_t)rank << 28 ^ i);
        memcpy(out + i, &word, size - i < 8 ? size - i : 8);
    }
}

static int is_filled(const uint8_t *data, size_t size, uint64_t check, uint32_t rank) {
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = mix(check << 40 ^ (uint64_t)rank << 28 ^ i);
        if (memcmp(data + i, &word, size - i < 8 ? size - i : 8) != 0)
            return 0;
    }
    return 1;
}

/* ---- reduce_min ---- */

/* Some ranks have the extremes, each value another one. */
static uint64_t value_of(uint64_t check, uint32_t rank, uint32_t ranks, size_t i) {
    if (i % 7 == 3)
        return (i / 7) % ranks == rank ? UINT64_MAX - 1 : UINT64_MAX;
    if (i % 7 == 5)
        return (i / 7) % ranks == rank ? 0 : 1;
    return mix(check << 32 ^ (uint64_t)rank << 20 ^ i);
}

static const char *check_reduce_min(struct varve_comm *comm, uint64_t check, size_t count) {
    uint64_t values[VALUES];
    for (size_t i = 0; i < count; i++)
        values[i] = value_of(check, comm->rank, comm->ranks, i);
    if (comm->ops->reduce_min(comm, values, count) != 0)
        return "reduce_min fails";
    for (size_t i = 0; i < count; i++) {
        uint64_t wanted = UINT64_MAX;
        for (uint32_t rank = 0; rank < comm->ranks; rank++) {
            uint64_t value = value_of(check, rank, comm->ranks, i);
            wanted = value < wanted ? value : wanted;
        }
        if (values[i] != wanted)
            return "reduce_min gives another value";
    }
    return NULL;
}

/* ---- broadcast ---- */

static const char *check_broadcast(struct varve_comm *comm, uint64_t check, uint8_t *data, size_t size, uint32_t root) {
    fill(data, size + 8, check, comm->rank);
    if (comm->ops->broadcast(comm, size ? data : NULL, size, root) != 0)
        return "broadcast fails";
    if (!is_filled(data, size & ~(size_t)7, check, root)) /* the last word is shared with what comes behind */
        return "broadcast gives other bytes than root's";
    uint8_t tail[8];
    uint64_t word = mix(check << 40 ^ (uint64_t)root << 28 ^ (size & ~(size_t)7));
    memcpy(tail, &word, sizeof tail);
    if (memcmp(data + (size & ~(size_t)7), tail, size & 7) != 0)
        return "broadcast gives other bytes than root's at the end";
    uint64_t own = mix(check << 40 ^ (uint64_t)comm->rank << 28 ^ (size & ~(size_t)7));
    memcpy(tail, &own, sizeof tail);
    return memcmp(data + size, tail + (size & 7), 8 - (size & 7)) == 0 ? NULL : "broadcast writes too much";
}

/* ---- gather ---- */

struct collecting {
    const struct varve_comm *comm;
    uint64_t check;
    size_t (*size_of)(const struct varve_comm *comm, uint64_t check, uint32_t rank);
    uint32_t next;     /* rank that must come now */
    uint32_t fails_at; /* fn fails for this rank */
    const char *wrong;
};

static int take(void *arg, uint32_t rank, const void *data, size_t size) {
    struct collecting *collecting = arg;
    if (rank != collecting->next)
        collecting->wrong = "gather does not give the ranks in their order";
    else if (size != collecting->size_of(collecting->comm, collecting->check, rank))
        collecting->wrong = "gather gives another size";
    else if (!is_filled(data, size, collecting->check, rank))
        collecting->wrong = "gather gives other bytes";
    collecting->next = rank + 1;
    return rank == collecting->fails_at ? -EILSEQ : 0;
}

static const char *check_gather(struct varve_comm *comm, uint64_t check, uint8_t *data, uint32_t fails_at,
                                size_t (*size_of)(const struct varve_comm *, uint64_t, uint32_t)) {
    struct collecting collecting = {comm, check, size_of, 0, fails_at, NULL};
    size_t size = size_of(comm, check, comm->rank);
    fill(data, size, check, comm->rank);
    int rc = comm->ops->gather(comm, size ? data : NULL, size, take, &collecting);
    if (collecting.wrong)
        return collecting.wrong;
    if (comm->rank != 0)
        return rc != 0 ? "gather fails where nothing is wrong" : collecting.next ? "gather calls fn elsewhere" : NULL;
    if (rc != (fails_at < comm->ranks ? -EILSEQ : 0))
        return "gather does not return what fn does";
    if (collecting.next != (fails_at < comm->ranks ? fails_at + 1 : comm->ranks))
        return fails_at < comm->ranks ? "gather goes on calling fn after it has failed" : "gather leaves a rank out";
    return NULL;
}

static size_t same_size(const struct varve_comm *comm, uint64_t check, uint32_t rank) {
    (void)comm;
    (void)rank;
    return sizes[check % SIZES];
}

static size_t other_size(const struct varve_comm *comm, uint64_t check, uint32_t rank) {
    (void)comm;
    return sizes[(check * 3 + rank * 7) % SIZES];
}

static size_t small_size(const struct varve_comm *comm, uint64_t check, uint32_t rank) {
    (void)comm;
    return mix(check + rank) % 300;
}

/* ---- exchange ---- */

enum pattern { NOBODY, ITSELF, RING, BACK, ALL, OTHERS, SPARSE, FROM_ONE, TO_ONE, PATTERNS };

static int does_send(enum pattern pattern, uint64_t check, uint32_t from, uint32_t to, uint32_t ranks) {
    switch (pattern) {
    case ITSELF:
        return from == to;
    case RING:
        return to == (from + 1) % ranks;
    case BACK:
        return from == (to + 1) % ranks;
    case ALL:
        return 1;
    case OTHERS:
        return from != to;
    case SPARSE:
        return mix(check << 20 ^ (uint64_t)from << 10 ^ to) % 3 == 0;
    case FROM_ONE:
        return from == check % ranks;
    case TO_ONE:
        return to == check % ranks;
    default:
        return 0;
    }
}

struct exchange {
    struct varve_comm *comm;
    uint64_t check;
    size_t largest; /* sizes are up to this, and are this where it is large */
    size_t left;    /* how many messages are to be given to fn before it fails; SIZE_MAX: it does not */
    uint8_t *has_come, *is_due;
    const char *wrong;
};

static size_t exchange_size(const struct exchange *exchange, uint32_t from, uint32_t to) {
    uint64_t word = mix(exchange->check * 77 + from * 1000 + to);
    return exchange->largest > 100000 ? exchange->largest - word % 3 : word % (exchange->largest + 1);
}

/* As the number of a rank in `fill`: both ends. */
static uint32_t both(const struct exchange *exchange, uint32_t from, uint32_t to) {
    return from * exchange->comm->ranks + to;
}

static int take_exchanged(void *arg, uint32_t rank, const void *data, size_t size) {
    struct exchange *exchange = arg;
    uint32_t own = exchange->comm->rank;
    if (rank >= exchange->comm->ranks || !exchange->is_due[rank])
        exchange->wrong = "exchange gives a message of a rank that sends none";
    else if (exchange->has_come[rank]++)
        exchange->wrong = "exchange gives two messages of a rank";
    else if (size != exchange_size(exchange, rank, own))
        exchange->wrong = "exchange gives another size";
    else if (!is_filled(data, size, exchange->check, both(exchange, rank, own)))
        exchange->wrong = "exchange gives other bytes";
    if (exchange->left == 0)
        exchange->wrong = "exchange goes on calling fn after it has failed";
    if (exchange->left == SIZE_MAX)
        return 0;
    return --exchange->left == 0 ? -EILSEQ : 0;
}

static const char *make_exchange(struct exchange *exchange, enum pattern pattern, struct varve_message *out,
                                 uint32_t *from, uint8_t *data) {
    struct varve_comm *comm = exchange->comm;
    size_t out_count = 0, from_count = 0, fails_after = exchange->left;
    for (uint32_t i = 0; i < comm->ranks; i++) {
        uint32_t rank = (uint32_t)(i + exchange->check) % comm->ranks;
        if (does_send(pattern, exchange->check, comm->rank, rank, comm->ranks)) {
            size_t size = exchange_size(exchange, comm->rank, rank);
            fill(data, size, exchange->check, both(exchange, comm->rank, rank));
            out[out_count++] = (struct varve_message){rank, size ? data : NULL, size};
            data += size;
        }
        if (does_send(pattern, exchange->check, rank, comm->rank, comm->ranks)) {
            from[from_count++] = rank;
            exchange->is_due[rank] = 1;
        }
    }
    int rc = comm->ops->exchange(comm, out, out_count, from, from_count, take_exchanged, exchange);
    if (exchange->wrong)
        return exchange->wrong;
    if (rc != (fails_after <= from_count ? -EILSEQ : 0))
        return rc == 0 || rc == -EILSEQ ? "exchange does not return what fn does" : "exchange fails";
    for (uint32_t rank = 0; rank < comm->ranks && rc == 0; rank++)
        if (exchange->is_due[rank] != exchange->has_come[rank])
            return "exchange leaves a rank out";
    return NULL;
}

static const char *check_exchange(struct varve_comm *comm, uint64_t check, enum pattern pattern, size_t largest,
                                  size_t fails_after) {
    struct exchange exchange = {.comm = comm, .check = check, .largest = largest, .left = fails_after};
    struct varve_message *out = calloc(comm->ranks, sizeof *out);
    uint32_t *from = calloc(comm->ranks, sizeof *from);
    uint8_t *data = malloc(comm->ranks * largest + 1);
    exchange.is_due = calloc(2, comm->ranks);
    if (!out || !from || !data || !exchange.is_due)
        abort();
    exchange.has_come = exchange.is_due + comm->ranks;
    const char *wrong = make_exchange(&exchange, pattern, out, from, data);
    free(out);
    free(from);
    free(data);
    free(exchange.is_due);
    return wrong;
}

static const char *check_exchanges(struct varve_comm *comm) {
    static const enum pattern large[] = {RING, ALL, SPARSE, TO_ONE};
    static const size_t at_most[] = {0, 1, 300, 70000};
    const char *wrong = NULL;
    uint64_t check = 5000;
    for (int pattern = 0; pattern < PATTERNS && !wrong; pattern++)
        for (size_t i = 0; i < sizeof at_most / sizeof *at_most && !wrong; i++)
            wrong = check_exchange(comm, check++, (enum pattern)pattern, at_most[i], SIZE_MAX);
    for (size_t i = 0; i < sizeof large / sizeof *large && !wrong; i++) /* all send before anybody has received */
        wrong = check_exchange(comm, check++, large[i], ((size_t)1 << 20) + 2, SIZE_MAX);
    for (size_t i = 1; i < 4 && !wrong; i++) {
        wrong = check_exchange(comm, check++, OTHERS, i == 2 ? 200000 : 50, i);
        if (!wrong) /* what was not given to fn must not turn up here */
            wrong = check_exchange(comm, check++, ALL, 50, SIZE_MAX);
    }
    return wrong;
}

/* Round after round, where some ranks have nobody to wait for and run ahead. */
static const char *check_exchange_rounds(struct varve_comm *comm, unsigned rounds) {
    static const enum pattern kinds[] = {SPARSE, RING, BACK, FROM_ONE, SPARSE, TO_ONE, OTHERS};
    const char *wrong = NULL;
    for (uint64_t i = 0; i < rounds && !wrong; i++)
        wrong = check_exchange(comm, 9000 + i, kinds[i % 7], i % 16 == 9 ? 3000 : 40, SIZE_MAX);
    return wrong;
}

/* ---- places ---- */

struct visit {
    struct varve_comm *comm;
    const char *wrong;
};

/* Everybody says where it is. */
static int check_place_of(void *arg, uint32_t rank, const void *data, size_t size) {
    struct visit *visit = arg;
    struct varve_comm *comm = visit->comm;
    uint32_t theirs[4];
    if (size != sizeof theirs)
        return -EPROTO;
    memcpy(theirs, data, sizeof theirs);
    if (theirs[2] != comm->nodes || theirs[3] != comm->least_local)
        visit->wrong = "ranks do not agree about the nodes";
    else if (theirs[0] >= comm->nodes || theirs[1] >= comm->ops->node_size(comm, theirs[0]))
        visit->wrong = "a rank is on no node";
    else if (comm->ops->rank_of(comm, theirs[0], theirs[1]) != rank)
        visit->wrong = "rank_of names another rank than the one that is there";
    uint32_t node = UINT32_MAX, local = UINT32_MAX;
    comm->ops->place_of(comm, rank, &node, &local);
    if (node != theirs[0] || local != theirs[1])
        visit->wrong = "place_of names another place than where the rank is";
    return 0;
}

static const char *check_nodes(struct varve_comm *comm) {
    uint32_t ranks = 0, least = UINT32_MAX, first = 0;
    for (uint32_t node = 0; node < comm->nodes; node++) {
        uint32_t size = comm->ops->node_size(comm, node), last = comm->ops->rank_of(comm, node, 0);
        if (node ? last <= first : last != 0)
            return "nodes are not in the order of their lowest ranks";
        first = last;
        for (uint32_t local = 1; local < size; local++, last = comm->ops->rank_of(comm, node, local - 1))
            if (comm->ops->rank_of(comm, node, local) <= last)
                return "the ranks of a node are not in their order";
        ranks += size;
        least = size < least ? size : least;
    }
    if (ranks != comm->ranks || least != comm->least_local)
        return "the nodes have another number of ranks";
    return NULL;
}

static const char *check_places(struct varve_comm *comm) {
    uint32_t own[4] = {comm->node, comm->local, comm->nodes, comm->least_local};
    struct visit visit = {comm, NULL};
    struct varve_message *out = calloc(comm->ranks, sizeof *out);
    uint32_t *from = calloc(comm->ranks, sizeof *from);
    if (!out || !from)
        abort();
    if (comm->nodes == 0)
        visit.wrong = "no nodes are known";
    for (uint32_t rank = 0; rank < comm->ranks; rank++) {
        out[rank] = (struct varve_message){rank, own, sizeof own};
        from[rank] = rank;
    }
    if (!visit.wrong && comm->ops->exchange(comm, out, comm->ranks, from, comm->ranks, check_place_of, &visit) != 0)
        visit.wrong = "exchange fails";
    free(out);
    free(from);
    return visit.wrong ? visit.wrong : check_nodes(comm);
}

/* ---- one after another ---- */

static const char *check_each(struct varve_comm *comm, uint8_t *data) {
    static const size_t counts[] = {0, 1, 3, VALUES};
    const char *wrong = NULL;
    uint64_t check = 1000;
    for (size_t i = 0; i < sizeof counts / sizeof *counts && !wrong; i++)
        wrong = check_reduce_min(comm, check++, counts[i]);
    for (size_t i = 0; i < SIZES && !wrong; i++)
        wrong = check_broadcast(comm, check++, data, sizes[i], (uint32_t)i % comm->ranks);
    for (uint32_t root = 0; root < comm->ranks && !wrong; root++)
        wrong = check_broadcast(comm, check++, data, 100, root);
    for (size_t i = 0; i < SIZES && !wrong; i++)
        wrong = check_gather(comm, i, data, UINT32_MAX, same_size);
    for (size_t i = 0; i < SIZES && !wrong; i++)
        wrong = check_gather(comm, i, data, UINT32_MAX, other_size);
    for (uint32_t rank = 0; rank < comm->ranks && !wrong; rank++) {
        wrong = check_gather(comm, check++, data, rank, rank % 2 ? other_size : small_size);
        if (!wrong) /* what the ranks behind it sent must not turn up here */
            wrong = check_gather(comm, check++, data, UINT32_MAX, small_size);
    }
    if (!wrong)
        wrong = check_exchanges(comm);
    if (!wrong)
        wrong = check_exchange_rounds(comm, 150);
    return wrong ? wrong : check_places(comm);
}

/* Calls of all kinds one after another, with nothing between them that would keep the ranks together. */
static const char *check_series(struct varve_comm *comm, uint8_t *data, uint64_t begin, unsigned count) {
    const char *wrong = NULL;
    for (uint64_t i = begin; i < begin + count && !wrong; i++) {
        uint64_t what = mix(i * 31);
        switch (what % 5) {
        case 0:
            wrong = check_reduce_min(comm, i, 1 + (what >> 8) % 5);
            break;
        case 1:
            wrong = check_broadcast(comm, i, data, (what >> 8) % 600, (uint32_t)(what >> 32) % comm->ranks);
            break;
        case 2:
            wrong = check_exchange(comm, i, (enum pattern)((what >> 8) % PATTERNS), 400, SIZE_MAX);
            break;
        case 3:
            wrong = check_exchange(comm, i, SPARSE, (what >> 8) % 8 ? 2000 : 100000, SIZE_MAX);
            break;
        default:
            wrong = check_gather(comm, i, data, (what >> 8) % 4 ? UINT32_MAX : (uint32_t)(what >> 32) % comm->ranks,
                                 small_size);
        }
    }
    return wrong;
}

/* ---- two threads ---- */

struct series {
    struct varve_comm *comm;
    uint64_t begin;
    unsigned count;
    const char *wrong;
};

static void *run_series(void *arg) {
    struct series *series = arg;
    uint8_t *data = malloc(LARGEST + 16);
    if (!data)
        abort();
    series->wrong = check_series(series->comm, data, series->begin, series->count);
    free(data);
    return NULL;
}

/* The two are used at the same time, with other messages. */
static const char *check_second(struct varve_comm *comm, unsigned count) {
    struct varve_comm *second = comm->second;
    struct series theirs = {comm, 20000, count, NULL}, ours = {second, 30000, count + 7, NULL};
    pthread_t thread;
    if (second == comm || second->second || second->rank != comm->rank || second->ranks != comm->ranks ||
        second->nodes != comm->nodes || second->node != comm->node || second->local != comm->local ||
        second->least_local != comm->least_local)
        return "the second comm is another group";
    if (pthread_create(&thread, NULL, run_series, &theirs) != 0)
        abort();
    run_series(&ours);
    pthread_join(thread, NULL);
    return theirs.wrong ? theirs.wrong : ours.wrong ? ours.wrong : check_places(second);
}

/* ---- all of it ---- */

static const char *check_any(struct varve_comm *comm, int is_all, unsigned count) {
    uint8_t *data = malloc(LARGEST + 16);
    if (!data)
        return "no memory";
    const char *wrong = is_all ? check_each(comm, data) : NULL;
    if (!wrong)
        wrong = check_series(comm, data, 0, count);
    free(data);
    if (!wrong && comm->second)
        wrong = check_second(comm, count);
    return wrong;
}

const char *comm_checks(struct varve_comm *comm) {
    if (comm->ops->size != sizeof *comm->ops || !comm->ops->name || !*comm->ops->name)
        return "the ops have no size or no name";
    return check_any(comm, 1, 60);
}

const char *comm_checks_again(struct varve_comm *comm) {
    return check_any(comm, 0, 15);
}
