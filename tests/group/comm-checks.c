#include "comm-checks.h"

#include <errno.h>
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

/* ---- least ---- */

/* Some ranks have the extremes, each value another one. */
static uint64_t value_of(uint64_t check, uint32_t rank, uint32_t ranks, size_t i) {
    if (i % 7 == 3)
        return (i / 7) % ranks == rank ? UINT64_MAX - 1 : UINT64_MAX;
    if (i % 7 == 5)
        return (i / 7) % ranks == rank ? 0 : 1;
    return mix(check << 32 ^ (uint64_t)rank << 20 ^ i);
}

static const char *check_least(struct varve_comm *comm, uint64_t check, size_t count) {
    static uint64_t values[VALUES];
    for (size_t i = 0; i < count; i++)
        values[i] = value_of(check, comm->rank, comm->ranks, i);
    if (comm->ops->least(comm, values, count) != 0)
        return "least fails";
    for (size_t i = 0; i < count; i++) {
        uint64_t wanted = UINT64_MAX;
        for (uint32_t rank = 0; rank < comm->ranks; rank++) {
            uint64_t value = value_of(check, rank, comm->ranks, i);
            wanted = value < wanted ? value : wanted;
        }
        if (values[i] != wanted)
            return "least gives another value";
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

/* ---- collect ---- */

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
        collecting->wrong = "collect does not give the ranks in their order";
    else if (size != collecting->size_of(collecting->comm, collecting->check, rank))
        collecting->wrong = "collect gives another size";
    else if (!is_filled(data, size, collecting->check, rank))
        collecting->wrong = "collect gives other bytes";
    collecting->next = rank + 1;
    return rank == collecting->fails_at ? -EILSEQ : 0;
}

static const char *check_collect(struct varve_comm *comm, uint64_t check, uint8_t *data, uint32_t fails_at,
                                 size_t (*size_of)(const struct varve_comm *, uint64_t, uint32_t)) {
    struct collecting collecting = {comm, check, size_of, 0, fails_at, NULL};
    size_t size = size_of(comm, check, comm->rank);
    fill(data, size, check, comm->rank);
    int rc = comm->ops->collect(comm, size ? data : NULL, size, take, &collecting);
    if (collecting.wrong)
        return collecting.wrong;
    if (comm->rank != 0)
        return rc != 0 ? "collect fails where nothing is wrong" : collecting.next ? "collect calls fn elsewhere" : NULL;
    if (rc != (fails_at < comm->ranks ? -EILSEQ : 0))
        return "collect does not return what fn does";
    if (collecting.next != (fails_at < comm->ranks ? fails_at + 1 : comm->ranks))
        return fails_at < comm->ranks ? "collect goes on calling fn after it has failed" : "collect leaves a rank out";
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

/* ---- all of it ---- */

static const char *check_each(struct varve_comm *comm, uint8_t *data) {
    static const size_t counts[] = {0, 1, 3, VALUES};
    const char *wrong = NULL;
    uint64_t check = 1000;
    for (size_t i = 0; i < sizeof counts / sizeof *counts && !wrong; i++)
        wrong = check_least(comm, check++, counts[i]);
    for (size_t i = 0; i < SIZES && !wrong; i++)
        wrong = check_broadcast(comm, check++, data, sizes[i], (uint32_t)i % comm->ranks);
    for (uint32_t root = 0; root < comm->ranks && !wrong; root++)
        wrong = check_broadcast(comm, check++, data, 100, root);
    for (size_t i = 0; i < SIZES && !wrong; i++)
        wrong = check_collect(comm, i, data, UINT32_MAX, same_size);
    for (size_t i = 0; i < SIZES && !wrong; i++)
        wrong = check_collect(comm, i, data, UINT32_MAX, other_size);
    for (uint32_t rank = 0; rank < comm->ranks && !wrong; rank++) {
        wrong = check_collect(comm, check++, data, rank, rank % 2 ? other_size : small_size);
        if (!wrong) /* what the ranks behind it sent must not turn up here */
            wrong = check_collect(comm, check++, data, UINT32_MAX, small_size);
    }
    return wrong;
}

/* Calls of all kinds one after another, with nothing between them that would keep the ranks together. */
static const char *check_series(struct varve_comm *comm, uint8_t *data, unsigned count) {
    const char *wrong = NULL;
    for (uint64_t i = 0; i < count && !wrong; i++) {
        uint64_t what = mix(i * 31);
        switch (what % 3) {
        case 0:
            wrong = check_least(comm, i, 1 + (what >> 8) % 5);
            break;
        case 1:
            wrong = check_broadcast(comm, i, data, (what >> 8) % 600, (uint32_t)(what >> 32) % comm->ranks);
            break;
        default:
            wrong = check_collect(comm, i, data, (what >> 8) % 4 ? UINT32_MAX : (uint32_t)(what >> 32) % comm->ranks,
                                  small_size);
        }
    }
    return wrong;
}

static const char *check_any(struct varve_comm *comm, int is_all, unsigned count) {
    uint8_t *data = malloc(LARGEST + 16);
    if (!data)
        return "no memory";
    const char *wrong = is_all ? check_each(comm, data) : NULL;
    if (!wrong)
        wrong = check_series(comm, data, count);
    free(data);
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
