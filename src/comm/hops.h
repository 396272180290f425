/* Questions that travel to the rank that can answer them, and answers that travel back, so that no rank talks to more
 * than a few others.
 *
 * The ranks form a grid: the ranks of a node, times the nodes laid out in rows and columns (hops_grid.h). A question
 * passes at most three hops: to a rank on the same node, from there to a node in the same row, and from there to a node
 * in the same column. At every hop, questions about the same id are merged, so that what all ranks ask reaches its home
 * a few times, not once per rank. Answers go the same way back, multiplied where questions were merged. With few ranks
 * there is one hop: everybody talks to everybody (flat). Where nodes differ in size, the ranks that a node has beyond
 * the smallest node's number are homes of no ids; when they are asked by name, it is one hop more.
 *
 * Partners per rank: the ranks of a node, plus twice the square root of the nodes. Memory: the questions and answers on
 * their way; about a hundred bytes per partner; nothing else grows with the number of ranks.
 *
 * Asking is collective and needs the exchange operation of the group (varve_comm.h). */
#ifndef VV_HOPS_H
#define VV_HOPS_H

#include "base/bytes.h"
#include "base/hash.h"
#include "comm/comm.h"

struct vv_hops;

enum vv_hops_shape {
    VV_HOPS_AUTO, /* by the number of ranks and nodes and of questions last time */
    VV_HOPS_FLAT, /* one hop */
    VV_HOPS_GRID  /* node x a x b; dimensions of 1 are left out */
};

/* Made once per session, kept. -ENOTSUP when the group cannot exchange messages, which is so on all ranks; any other
 * error is of this rank alone, and the caller agrees on it. Not collective. */
int vv_hops_create(struct varve_comm *comm, int shape, struct vv_hops **out, struct varve_error *error);
void vv_hops_destroy(struct vv_hops *hops); /* accepts NULL; not collective */

/* How many ranks are homes of ids, and so see one id in so many each. */
uint32_t vv_hops_homes(const struct vv_hops *hops);

#define VV_HOME_BY_ID UINT32_MAX

struct vv_question {
    struct vv_hash128 id; /* what it is about */
    uint32_t home; /* the rank that answers, or VV_HOME_BY_ID: the id tells. The same id always has the same home */
    uint32_t size;
    const void *data;
};

struct vv_hops_ops {
    /* Questions about the same id have met, two or more: append to out one that stands for all of them. Their order
     * depends on the grid only. NULL: questions about the same id are the same, the first stands for all. */
    int (*merge)(void *arg, const struct vv_question *same, size_t count, struct vv_buf *out);
    /* At home, once, with everything that has come here, ids ascending (by low, then high) and none twice: append to
     * out the answers in the order of the questions, and put into sizes how long each is. Also called when nothing has
     * come. */
    int (*answer)(void *arg, const struct vv_question *questions, size_t count, struct vv_buf *out, uint32_t *sizes);
    /* Back at the rank that asked: the answer to its question number `index`, in any order. It counts only if
     * vv_hops_ask returns 0. */
    int (*take)(void *arg, size_t index, const void *data, uint32_t size);
};

struct vv_hops_sums {
    uint64_t messages, bytes; /* sent by this rank */
    uint64_t answered;        /* questions answered here */
};

/* Ask. A rank may ask nothing; the same id more than once is allowed. An error on one rank (of an op, or no memory)
 * still lets the others finish; then all return it. Only when the group itself can no longer talk may some return
 * something else. sums may be NULL, and is added to. */
int vv_hops_ask(struct vv_hops *hops, const struct vv_question *questions, size_t count, const struct vv_hops_ops *ops,
                void *arg, struct vv_hops_sums *sums, struct varve_error *error);

#endif
