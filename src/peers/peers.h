/* The storage as the job sees it, while a checkpoint is read by many ranks.
 *
 * The work of a rank runs in a thread of its own, with a store that looks like its own. What it reads there may
 * come from another rank:
 *
 *   shared storage     packs of other writers come from rank (writer % ranks), which reads each slice of them once,
 *                      keeps it for a while, and passes it on to all that ask. Packs that hold data of several ranks
 * are read by all of these, each a part of it. Blocks of which others want only a part are also decoded there, once,
 * and the wanted parts passed on node-local stores  what this node does not have comes from a rank on a node that has
 * it
 *
 * Meanwhile the calling thread asks and answers for it, in rounds that all ranks take part in (comm/hops.h), until the
 * work of all is done. Each round moves a bounded number of bytes per rank. So whoever reads through a view need not
 * know where things are, and no two threads talk to the group.
 *
 * Where the group cannot exchange messages, or nobody needs anything of others, the work runs in the calling thread, on
 * the rank's own store. */
#ifndef VV_PEERS_H
#define VV_PEERS_H

#include "comm/comm.h"
#include "read/view.h"

struct vv_peers;

struct vv_peers_options {
    struct varve_comm *comm;
    struct vv_store *store; /* of this rank */
    const char *name;       /* of the checkpoints; lives as long as the peers */
    int is_local;           /* one store per node */
    int is_leader;          /* this rank answers for its node's store */
    unsigned threads;       /* that read for others */
    uint64_t window;        /* memory that may be used, bytes */
};
/* Not collective, but all ranks must have opened theirs before one is used: the caller agrees on that. */
int vv_peers_open(const struct vv_peers_options *options, struct vv_peers **out, struct varve_error *error);
void vv_peers_close(struct vv_peers *peers); /* not collective; accepts NULL */

/* The store to open views on. It lives as long as the peers, and may also be read while no work runs: then only what
 * this rank finds by itself is there. */
struct vv_store *vv_peers_store(struct vv_peers *peers);

/* Run the work of all ranks, which must not talk to the group. Collective: returns when all are done, with the worst of
 * their codes. */
typedef int (*vv_work_fn)(void *arg, struct vv_store *store, struct varve_error *error);
int vv_peers_run(struct vv_peers *peers, vv_work_fn work, void *arg, struct varve_error *error);
/* The same, but it returns the code of this rank, for the caller to agree upon together with something else. */
int vv_peers_work(struct vv_peers *peers, vv_work_fn work, void *arg, struct varve_error *error);

/* Inside the work: let the thread that called vv_peers_run call fn, since the program expects its callbacks there. */
int vv_peers_call(struct vv_peers *peers, int (*fn)(void *arg), void *arg);

/* Shared storage: what this rank needs of packs that others read, too. */
struct vv_peers_needs {
    int is_needed;       /* it pays to have them read once for the whole job */
    uint64_t shared;     /* bytes; with 0 on all ranks, nothing is shared on a node, either */
    uint64_t bytes;      /* that this rank will read: with more of them, more blocks can be lent at a time */
    uint32_t block_size; /* that is expected */
};
/* Until this is called, each rank reads by itself. If any rank needs it, what follows goes by rounds, or on a single
 * node through the memory that its ranks share; else straight to the storage. code: of the work that has found out what
 * is needed (vv_peers_work). If it is not 0 on all ranks, nothing changes. Collective; agrees on the code. */
int vv_peers_need(struct vv_peers *peers, int code, const struct vv_peers_needs *needs, struct varve_error *error);

/* Shared storage: from now on, not only from vv_peers_need on, ranks of a node lend each other what they read. bytes:
 * that this rank will read; the others are the least of all ranks. Collective; where it cannot be, each rank reads for
 * itself. */
void vv_peers_lend(struct vv_peers *peers, uint64_t bytes, uint64_t least_bytes, uint32_t block_size);

/* What this rank does outside vv_peers_run is done: nobody on its node keeps anything for it. */
void vv_peers_rest(struct vv_peers *peers);

/* Does the work of each rank go without the others, so that any thread may do it at any time? The same on all ranks. */
int vv_peers_is_direct(const struct vv_peers *peers);

/* Shared storage: packs of this attempt, which has so many writers, may hold data of several ranks each. A rank that is
 * told this asks accordingly, so all that read from it should be told; those that are not get everything, too, later.
 * While no work runs, or in the work before vv_peers_need. 0 or -ENOMEM. */
int vv_peers_shared_pack(struct vv_peers *peers, const struct vv_attempt *attempt, uint32_t writers);
/* How many blocks this rank has decoded for all. */
uint64_t vv_peers_decoded(const struct vv_peers *peers);

/* Node-local stores: find out which nodes have which packs, copies and writers lists of these attempts. Collective. A
 * group that cannot exchange messages finds nothing. */
int vv_peers_look(struct vv_peers *peers, const struct vv_attempt *attempts, size_t count, struct varve_error *error);
/* Is it on any node? 1, 0, or an error. Inside the work. */
int vv_peers_have(struct vv_peers *peers, const struct vv_key *key, struct varve_error *error);
/* No node has this pack: can it be rebuilt from parity? 1, 0, or an error. Inside the work. */
int vv_peers_can_rebuild(struct vv_peers *peers, const struct vv_key *key, struct varve_error *error);
/* How many lost nodes the parity of this pack makes up for, 0 if there is none or not all of it, or an error. Inside
 * the work. */
int vv_peers_parity(struct vv_peers *peers, const struct vv_key *key, struct varve_error *error);
/* On how many nodes it is, at most 16 (not yet known of: 0), or an error. Inside the work. */
int vv_peers_count(struct vv_peers *peers, const struct vv_key *key, struct varve_error *error);
/* Can ranks read what is on other nodes? The same on all. */
int vv_peers_can_ask(const struct vv_peers *peers);

#endif
