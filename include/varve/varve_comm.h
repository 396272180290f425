/* The group of processes that checkpoint together, behind one ops struct.
 *
 * varve_open_mpi (varve_mpi.h) makes one from an MPI communicator, and varve_open_env (varve_env.h) one from the
 * environment that torchrun gives its processes; that is what most programs use. Any other job brings its own
 * implementation and opens its sessions with varve_open_comm.
 *
 * reduce_min, broadcast, gather and close are collective: every rank makes the same ones in the same order. The others
 * are not. One thread at a time uses a group. A session calls them inside calls of its own that are collective, in the
 * thread that makes the call; and, if `second` is given, also in a thread of its own while the program goes on. They
 * return 0, or a negative code when the group can no longer talk: the session's call then fails with it, perhaps not on
 * every rank.
 *
 * Older names: the types varve_collect_fn and varve_parcel stay as macros for one release. The members least
 * (reduce_min), collect (gather), trade (exchange) and aside (second) do not: macros for such common words would change
 * other code of the program. Their order is the same, so only the names need to be changed. */
#ifndef VARVE_COMM_H
#define VARVE_COMM_H

#include <stdint.h>
#include <varve/varve.h>

#ifdef __cplusplus
extern "C" {
#endif

struct varve_comm;

/* Takes the bytes that a rank has sent; they live during the call. Nonzero is an error, which gather returns. */
typedef int (*varve_gather_fn)(void *arg, uint32_t rank, const void *data, size_t size);

/* A message to a rank. */
struct varve_message {
    uint32_t rank;
    const void *data;
    size_t size;
};

/* Old names, for one release. */
#define varve_collect_fn varve_gather_fn
#define varve_parcel varve_message

struct varve_comm_ops {
    size_t size; /* sizeof(struct varve_comm_ops) */
    const char *name;
    /* Each of the values becomes the minimum of all ranks'; the same result everywhere. */
    int (*reduce_min)(struct varve_comm *comm, uint64_t *values, size_t count);
    /* Everybody gets root's bytes. All give the same size and root. */
    int (*broadcast)(struct varve_comm *comm, void *data, size_t size, uint32_t root);
    /* Rank 0's fn takes everybody's bytes, its own too, in the order of the ranks, one rank at a time: memory does not
     * grow with the number of ranks. Sizes may differ. If fn fails, the bytes of the remaining ranks are still
     * received, and not given to it. fn counts on rank 0 only. */
    int (*gather)(struct varve_comm *comm, const void *data, size_t size, varve_gather_fn fn, void *arg);
    /* Free it, and the second one. Also called when the session could not be opened. */
    void (*close)(struct varve_comm *comm);

    /* The rest may be NULL; then there is no deduplication between ranks, and no copies on other nodes.
     *
     * Send one message to each rank in out, and take one from each rank in from, in any order: fn gets the bytes, which
     * live during the call. Not collective, but every message that is sent is taken in the receiver's own call of
     * exchange, and between two ranks the messages of one call never meet those of another. A rank may send to itself,
     * and to nobody. Memory: one message at a time. If fn fails, the remaining messages are still received, and not
     * given to it. */
    int (*exchange)(struct varve_comm *comm, const struct varve_message *out, size_t out_count, const uint32_t *from,
                    size_t from_count, varve_gather_fn fn, void *arg);
    /* How many ranks a node has, and which rank is number `local` (from 0) there. Not collective. */
    uint32_t (*node_size)(struct varve_comm *comm, uint32_t node);
    uint32_t (*rank_of)(struct varve_comm *comm, uint32_t node, uint32_t local);
    /* The reverse of rank_of. Without it, questions between ranks take no notice of nodes. Not collective. */
    void (*place_of)(struct varve_comm *comm, uint32_t rank, uint32_t *node, uint32_t *local);
};

/* An implementation begins its own struct with this one. */
struct varve_comm {
    const struct varve_comm_ops *ops;
    uint32_t rank;
    uint32_t ranks;
    /* Where the ranks run. A node is what fails together: a host, unless somebody knows better. All 0 where nothing is
     * known: then every rank counts as a node of its own. */
    uint32_t nodes;
    uint32_t node;        /* of this rank */
    uint32_t local;       /* its number there */
    uint32_t least_local; /* ranks of the smallest node */
    /* The same group once more, for the caller's thread while another thread of the session uses this one; NULL where
     * two threads may not communicate at the same time. With it, many ranks deduplicate and commit in the background.
     */
    struct varve_comm *second;
};

/* varve_open for a group: collective. The comm belongs to the session from now on, and is closed when this fails, too.
 * Only a comm that is itself refused is left alone: an operation is missing, ops->size is too small, or rank is not
 * below ranks. */
VARVE_API int varve_open_comm(struct varve_comm *comm, const char *store, const char *name,
                              const struct varve_options *options, struct varve_session **out,
                              struct varve_error *error);

#ifdef __cplusplus
}
#endif
#endif
