/* Verify: look at every object of a store and at every checkpoint; repair what can be rebuilt (docs/format.md 12). */
#ifndef VV_VERIFY_H
#define VV_VERIFY_H

#include "base/steps.h"
#include "read/view.h"

enum vv_finding_level { VV_FINDING_DAMAGE, VV_FINDING_LOST_CHECKPOINT, VV_FINDING_NOTE };

struct vv_verify_options {
    const char *name; /* NULL: all names */
    int is_quick;     /* tables and footers only; blocks are not read */
    struct vv_pool *pool;
    /* One call per finding: key may be "" ; text says what and what to do. */
    void (*finding)(void *arg, int level, const char *key, const char *text);
    /* Progress: bytes done and in all. May be NULL. Returns nonzero to stop (verify then returns -EINTR). */
    int (*progress)(void *arg, uint64_t done, uint64_t total);
    void *arg;
};
struct vv_verify_result {
    uint64_t objects;
    uint64_t bytes;
    uint64_t checkpoints;
    uint64_t damaged_objects;
    uint64_t lost_checkpoints;
};
/* 0 also when damage was found: see the result. Every byte of every object is covered: heads, digests, blocks, ids
 * against decoded blocks, and for each checkpoint that its runs resolve and its region digests follow from the ids (or,
 * where runs are finer than granules, from the bytes). A fully voted attempt without record or tombstone is reported as
 * a lost record, unless it may be the trace of a session that lives or has just died: its generation is the highest,
 * has no newer record, and its heartbeat names nothing so new. Where its generation has a newer record, it is reported
 * as lost only if a record, a heartbeat or the catalogue names it, and else with a note: its commit may have failed. Of
 * a node-local store only what is on this node is looked at, and a note says how many packs are not. */
int vv_verify(struct vv_store *store, const struct vv_verify_options *options, struct vv_verify_result *out,
              struct varve_error *error);

/* ---- one node's share of node-local stores ---- */
struct vv_residents;
int vv_residents_create(struct vv_store *store, const char *name, struct vv_residents **out); /* 0 or -ENOMEM */
void vv_residents_destroy(struct vv_residents *residents);                                    /* accepts NULL */
/* Is this pack not here, and as far as can be told from here on another node? 1; 0 when it is here or should be (always
 * on shared storage); or an error. */
int vv_pack_is_elsewhere(struct vv_residents *residents, const struct vv_attempt *attempt, uint32_t writer,
                         struct varve_error *error);
/* The same for what this rank stored in the checkpoint. */
int vv_owner_is_elsewhere(struct vv_residents *residents, struct vv_view *view, uint32_t owner,
                          struct varve_error *error);

/* Is any of what this rank needs to be read on another node? 1, 0 (always on shared storage), or an error. */
int vv_owner_needs_others(struct vv_residents *residents, struct vv_view *view, uint32_t owner,
                          struct varve_error *error);

struct vv_repair_options {
    int is_dry_run;
    void (*report)(void *arg, const char *key, const char *text);
    void *arg;
    struct vv_steps *steps; /* or NULL. Stopped between two of them, it ends with -EINTR */
};
/* Rebuild store object, catalogues, writers lists and records of fully voted attempts; remove damaged mutable objects.
 * A damaged object that is rebuilt is replaced in one step. To rebuild a record it claims the name, and leaves it when
 * that is in use. A record below a newer one of its generation is made only if something names it (see vv_verify).
 * Packs and what cannot be rebuilt are left alone and reported. Returns the number of repairs. */
int vv_repair(struct vv_store *store, const struct vv_repair_options *options, struct varve_error *error);

#endif
