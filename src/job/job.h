/* A job: the processes that checkpoint together under one name, the store they use, and what they do about it together.
 *
 * The *leaders* of a job are the ranks that hold a lease: rank 0 on shared storage, one rank per node with node-local
 * stores (leaders.c). All functions here are collective and return the same code on all ranks, unless they say
 * otherwise. */
#ifndef VV_JOB_H
#define VV_JOB_H

#include "base/log.h"
#include "base/settings.h"
#include "comm/comm.h"
#include "job/lineage.h"
#include "lifecycle/commit.h"
#include "peers/peers.h"

/* May this session write? */
enum vv_may {
    VV_MAY_WRITE,      /* it has its claim */
    VV_MAY_READ,       /* it was asked not to: access=read */
    VV_MAY_WRITE_LATER /* nothing could be written when it was opened: the next checkpoint tries to claim */
};

struct vv_job {
    char name[VV_NAME_MAX + 1];
    char *address; /* of the store, as the program gave it */
    struct vv_settings settings;
    struct vv_log log;
    struct vv_store *store;
    struct vv_lineage lineage;

    struct varve_comm *comm; /* for one thread at a time: the caller's, or our own while a checkpoint is in flight */
    struct varve_comm *caller_comm; /* for the caller's, meanwhile; NULL: our own thread must not talk */
    struct varve_comm *given;       /* the program's; it is comm, or caller_comm */
    struct varve_comm *near;        /* made of it where its own threads may not talk; NULL: none. It is comm then */

    enum vv_may may;               /* the same on all ranks */
    int is_leader;                 /* lists and reads records for the others: rank 0, or one rank per node */
    struct vv_lease *lease;        /* a leader's; NULL on the others, and where nothing is claimed */
    uint32_t first_generation;     /* of this session */
    uint32_t claims_seen;          /* without a claim: the highest of all nodes when it was opened */
    uint8_t claim_tried[16];       /* the session id of the last claim that all ranks tried to make */
    struct vv_attempt newest_seen; /* and the newest record when it last looked for one to read */

    struct vv_attempt *in_doubt; /* node-local stores: commits that failed, of which some nodes may have the record */
    size_t in_doubt_count;

    int is_store_new; /* this session has made it */
    int is_first_run_told;
    int is_keep_told;             /* what will be kept was logged, and keep_from is known */
    uint32_t keep_from;           /* records of lower generations are not forgotten by keep=N; 0: they may be */
    struct vv_prune_result freed; /* by keep=N, in all */
    size_t (*spared)(void *arg, struct vv_attempt *out, size_t capacity); /* or NULL: what keep=N leaves alone now */
    void *spared_arg;
    uint64_t uncatalogued; /* checkpoints since the catalogue was written */
    uint64_t catalogued;   /* how many it has then */
};

/* One store per node? Not collective. */
static inline int vv_is_local(const struct vv_job *job) {
    return job->store->settings.layout == VV_LAYOUT_LOCAL;
}
void vv_job_clear(struct vv_job *job); /* each rank for itself; the group stays */

/* ---- open_store.c: all ranks have the store open, or none. above: no node has a higher claim. ---- */
int vv_job_open_store(struct vv_job *job, const char *uri, uint64_t *above, struct varve_error *error);

/* ---- claim.c: all leaders claim the generation above the highest, or fail ---- */
int vv_claim_together(struct vv_job *job, uint64_t above, struct varve_error *error);

/* ---- access.c ---- */
/* Claim the next generation, or go without where nothing may or can be written. */
int vv_access_open(struct vv_job *job, uint64_t above, struct varve_error *error);
/* Before a checkpoint is chosen to go on from: a session without a claim tries for one again, unless it has begun to
 * save (has_begun). */
int vv_access_choose(struct vv_job *job, int has_begun, struct varve_error *error);
/* Before checkpoints are listed: remembers the newest record, if the session may come to save later. */
void vv_access_look(struct vv_job *job);
/* The newest record of this leader's store; generation 0 if there is none. Not collective. */
int vv_newest_record(struct vv_job *job, struct vv_attempt *out, struct varve_error *error);
/* -EROFS if the session was asked to read only. */
int vv_access_refuse(struct vv_job *job, struct varve_error *error);
/* Before a checkpoint: 0 if the session has its claim, perhaps since now; else why it cannot save. */
int vv_access_write(struct vv_job *job, struct varve_error *error);

/* ---- tally.c: what the ranks have done for a checkpoint, added up on the way to rank 0. Not collective. ---- */
enum vv_tally_sum {
    VV_TALLY_PROTECTED,
    VV_TALLY_CHANGED,
    VV_TALLY_ZERO,
    VV_TALLY_KNOWN,
    VV_TALLY_ELSEWHERE,
    VV_TALLY_NEW,
    VV_TALLY_REWRITTEN,
    VV_TALLY_STORED,
    VV_TALLY_METADATA,
    VV_TALLY_SUMS
};
struct vv_spread {
    uint64_t least, most, sum;
    uint32_t most_rank;
};
struct vv_tally {
    uint64_t sums[VV_TALLY_SUMS]; /* bytes */
    struct vv_spread changed;     /* bytes of a rank */
    struct vv_spread took;        /* nanoseconds of a rank until its part was stored */
    struct vv_spread written;     /* bytes of a pack with its parts; filled on rank 0, of all writers */
    uint64_t written_median;
    uint32_t writers;
};
struct vv_spread vv_spread_of(uint64_t value, uint32_t rank);
void vv_spread_add(struct vv_spread *to, const struct vv_spread *other);
void vv_tally_add(struct vv_tally *to, const struct vv_tally *other);
void vv_tally_writers(struct vv_tally *to, const struct vv_writers *writers);

/* ---- leaders.c: what the leaders do for all ---- */
/* Who wrote an attempt. */
struct vv_writers_map {
    uint32_t writers;
    uint32_t (*writer_of)(void *arg, uint32_t node, uint32_t local); /* NULL: each rank is a writer, or nobody knows */
    void *arg;
};
/* All packs of these writers are durable: make the attempt a checkpoint. Codes as vv_votes_commit, and
 * VARVE_DISAGREED when a pack is missing. tally: of this rank; rank 0 then has that of all. */
int vv_leaders_commit(struct vv_job *job, const struct vv_attempt *attempt, const struct vv_writers_map *map,
                      struct vv_tally *tally, struct vv_hash128 *digest_out, struct varve_error *error);
/* Finish what a dead session had fully written. */
int vv_leaders_adopt(struct vv_job *job, struct varve_error *error);

/* ---- lost_regions.c: what is reported when regions are lost. Not collective. ---- */
struct vv_lost {
    size_t count;
    char names[256]; /* the first of them */
};
void vv_lost_add(struct vv_lost *lost, const char *region);
/* VARVE_CORRUPT; also into this rank's log. */
/* owner: whose regions they are; none of them: all. */
int vv_lost_report(const struct vv_job *job, const struct vv_lost *lost, uint32_t owner, uint64_t version,
                   struct varve_error *error);

/* ---- node_check.c: may this checkpoint be read from node-local stores? ---- */
/* It must be the same one on all nodes, and every rank's part must be on some node, or copies of it: otherwise
 * VARVE_CORRUPT. Then its record is copied to the nodes that have missed it. VARVE_FORGOTTEN when one node has
 * forgotten it; the others do so, too. Does nothing on shared storage. is_under_replicated_out: something that belongs
 * to it is there fewer times than it should be. */
struct vv_completeness {
    uint32_t replicas;         /* that this session keeps */
    uint32_t parity;           /* lost nodes that this session makes up for by parity */
    const struct vv_lost *all; /* what is lost if the part of this rank is */
};
int vv_leaders_complete(struct vv_job *job, struct vv_peers *peers, const struct vv_completeness *wanted,
                        uint32_t generation, uint64_t version, int *is_under_replicated_out, struct varve_error *error);

/* ---- in_doubt.c: commits that failed half-way on node-local stores. Each rank for itself; nothing here can fail. ----
 */
void vv_in_doubt_add(struct vv_job *job, const struct vv_attempt *attempt);
/* The parent is a checkpoint on all nodes. */
void vv_in_doubt_drop(struct vv_job *job);
/* A newer checkpoint is on all nodes: a leader forgets the records of those that failed. */
void vv_in_doubt_forget(struct vv_job *job);

/* ---- maintenance.c: after a commit; nothing here can fail the checkpoint ---- */
void vv_maintain(struct vv_job *job);

/* ---- first_run.c ---- */
/* No checkpoint was found: rank 0's log tells once what was looked for, and what is there instead. Not collective. */
void vv_tell_first_run(struct vv_job *job);

#endif
