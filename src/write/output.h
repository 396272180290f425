/* Where a rank's new data goes.
 *
 * An output takes the new chunks of one attempt and its manifest, and ends with a sealed pack. There are two: the rank
 * writes a pack by itself (output_pack.c), or it hands everything to the writer that it shares with other ranks
 * (output_team.c). The first may keep replicas: what is stored also goes to partners on other nodes
 * (output_replicas.c).
 *
 * rc, as an argument, is how this rank has fared so far: where ranks exchange data, a rank that has failed takes part,
 * so that no rank waits for it. */
#ifndef VV_OUTPUT_H
#define VV_OUTPUT_H

#include "base/details.h"
#include "base/thread.h"
#include "comm/rounds.h"
#include "format/parity.h"
#include "job/job.h"
#include "job/measured.h"
#include "write/team.h"

struct vv_chooser;

/* Who keeps replicas for whom (output_replicas.c). */
struct vv_replicas {
    uint32_t count; /* of partners: they keep replicas of what we store */
    uint32_t partners[VV_PARTNERS_MAX];
    uint32_t *kept; /* ranks whose partner we are */
    uint32_t kept_count;
    struct vv_rounds rounds;
};

/* Whose packs this rank makes parity with, and with whom (output_parity.c). */
struct vv_parity_group {
    uint32_t data, parity; /* the code; parity 0: nothing is made */
    uint32_t member;       /* of these: */
    uint32_t ranks[VV_PARITY_MEMBERS_MAX];
    uint32_t *covered; /* ranks of this node whose packs make up our stream */
    uint32_t covered_count;
    struct vv_rounds rounds;
};

/* What the outputs of all checkpoints of a session share. */
struct vv_outputs {
    struct vv_job *job;
    struct vv_measured *measured;
    struct vv_team team;
    struct vv_replicas replicas;
    struct vv_parity_group group;
    uint32_t lost_most; /* nodes that parity makes up for; the same on all ranks, 0: there is none */
    struct vv_pool *pool;
    struct vv_placement where;  /* our threads */
    struct vv_chooser *chooser; /* how blocks are encoded */
};

struct vv_output_plan {
    struct vv_attempt attempt, parent;
    int is_gathered; /* the writer of our team writes it; the same on all ranks */
    int may_talk;    /* ranks of different nodes may talk to each other while data is consumed */
};
struct vv_output_sums {
    uint64_t protected_bytes, regions, looked;
};

struct vv_output;
struct vv_output_ops {
    /* In the call, before anything else of an attempt. */
    int (*begin)(struct vv_output *output, struct varve_error *error);
    /* There is something to store. Any number of times. */
    int (*open)(struct vv_output *output, struct varve_error *error);
    /* So much is about to come, as far as is known. Collective with several nodes. */
    int (*expect)(struct vv_output *output, int rc, uint64_t bytes, struct varve_error *error);
    /* Data of this region follows. */
    void (*region)(struct vv_output *output, const struct vv_variable *variable);
    int (*add)(struct vv_output *output, const struct vv_new_chunk *chunk, const void *data);
    /* If the writer of this rank has failed: why. Returns the code to go on with, else rc. */
    int (*explain)(struct vv_output *output, int rc, struct varve_error *error);
    /* Take steps until there are none left. Collective where ranks exchange data meanwhile. */
    int (*consume)(struct vv_output *output, int rc, vv_step_fn step, void *arg, struct varve_error *error);
    /* All data was added, or it has failed with rc; when that was the writer's doing, its own error is reported. */
    int (*finish)(struct vv_output *output, int rc, struct varve_error *error);
    /* What the manifest depends on. *out is the list it must be written for: the same, or that of all ranks of the
     * team; ascending. */
    int (*dependencies)(struct vv_output *output, const struct vv_dependency *dependencies, uint32_t count,
                        struct vv_buf *out, struct varve_error *error);
    int (*manifest_begin)(struct vv_output *output, const struct vv_manifest_head *head, struct varve_error *error);
    int (*manifest_add)(struct vv_output *output, const void *data, size_t size, struct varve_error *error);
    int (*manifest_end)(struct vv_output *output, struct vv_hash128 *digest_out, struct varve_error *error);
    /* Our vote, or that of our team's writer. */
    int (*seal)(struct vv_output *output, const struct vv_output_sums *sums, struct vv_details *stats,
                struct varve_error *error);
    /* All ranks have sealed, or failed. Collective where ranks keep replicas. */
    int (*settle)(struct vv_output *output, int rc, struct varve_error *error);
    /* Whatever became of it, and more than once. why: the error of this rank; its code is 0 if there was none. */
    void (*end)(struct vv_output *output, const struct varve_error *why);
};

struct vv_output {
    const struct vv_output_ops *ops;
    struct vv_outputs *outputs;
    struct vv_output_plan plan;
    uint32_t block_size; /* these two are set before the output is opened */
    unsigned blocks;
    uint32_t writer, writers, group; /* who writes it, how many there are in the job, and how many ranks share one */
    const void *told;      /* the region that follows, as its user knows it; NULL: it must be described anew */
    uint64_t bytes_copied; /* of other ranks, stored here */
    uint64_t bytes_parity; /* in the parity object of this rank */
    uint64_t bytes_stored; /* in the pack; 0: it is not known which part of it is ours */
};

/* NULL: no memory. */
struct vv_output *vv_output_create(struct vv_outputs *outputs, const struct vv_output_plan *plan);
struct vv_output *vv_output_pack_create(void);
struct vv_output *vv_output_team_create(void);

/* It has ended. Accepts NULL. */
void vv_output_destroy(struct vv_output *output);

/* explain() and settle() of an output that has nothing to say or to do: rc. */
int vv_output_adds_nothing(struct vv_output *output, int rc, struct varve_error *error);

/* consume() of a rank that exchanges nothing meanwhile. */
static inline int vv_output_consume_alone(int rc, vv_step_fn step, void *arg, struct varve_error *error) {
    int more = 1;
    while (rc == 0 && more > 0)
        rc = (more = step(arg, error)) < 0 ? more : 0;
    return rc;
}

/* May this be stored? A granule, or, without an id, a part of one. */
static inline int vv_is_chunk(uint64_t address, uint64_t size, struct vv_hash128 id) {
    uint64_t from = address % VV_GRANULE;
    return size > 0 && size <= VV_GRANULE - from && (from == 0 || vv_hash128_is_zero(id));
}

/* Who keeps replicas for whom. 0 or -ENOMEM, which the ranks must yet agree upon; collective all the same. */
int vv_replicas_open(struct vv_outputs *outputs, struct varve_error *error);
void vv_replicas_close(struct vv_outputs *outputs);
/* What is ours goes to the partners that do not hold it themselves. */
void vv_replicas_send(struct vv_output *output, const struct vv_new_chunk *chunk, const void *data);
/* consume() of a rank that has partners: they send each other what they store. */
int vv_replicas_consume(struct vv_output *output, int rc, vv_step_fn step, void *arg, struct varve_error *error);
/* Our pack is sealed: the partners keep its tables, too. */
int vv_replicas_settle(struct vv_output *output, int rc, struct varve_error *error);

/* Which groups there are. 0 or an error, which the ranks must yet agree upon; collective all the same. */
int vv_parity_group_open(struct vv_outputs *outputs, struct varve_error *error);
void vv_parity_group_close(struct vv_outputs *outputs);
/* All packs are sealed, or some rank has failed: make the parity objects. */
int vv_parity_settle(struct vv_output *output, int rc, struct varve_error *error);

#endif
