/* Records: list and read them, commit, adopt, forget, prune (docs/format.md 10). */
#ifndef VV_COMMIT_H
#define VV_COMMIT_H

#include "store/lease.h"

/* The records of a name, newest first, tombstones included (the key does not tell). fn returns 0 to go on, positive
 * to stop. */
typedef int (*vv_record_fn)(void *arg, uint32_t generation, uint64_t version);
int vv_records_list(struct vv_store *store, const char *name, vv_record_fn fn, void *arg, struct varve_error *error);

/* Read one record. VARVE_NO_CHECKPOINT when there is none, VARVE_FORGOTTEN for a tombstone, VARVE_CORRUPT, ... */
int vv_record_load(struct vv_store *store, const char *name, uint32_t generation, uint64_t version,
                   struct vv_record *out, struct varve_error *error);

/* Is the pack of every writer there? Gathers what the footers say. Every pack's end and footer is read and checked
 * against the others. Returns 1 fully voted, 0 not (a pack is missing or a tombstone stands there), or an error. out
 * is filled when 1: the writers list, and the record as it will be (leans are the union over the footers). */
int vv_votes_read(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                  struct vv_writers *writers_out, struct vv_record *record_out, struct varve_error *error);

/* All packs of the attempt are durable: make it a checkpoint. Checks the claim and the parent's record, creates the
 * writers list and the record. metadata accounting is done by reading the footers. 0; VARVE_FENCED; VARVE_DISAGREED
 * when a pack is missing; VARVE_FORGOTTEN when the parent or this version was forgotten, or the parent's record is
 * damaged; -EEXIST when another attempt was committed; or an error after which the outcome is undecided (a later
 * adoption may find it committed). record_out may be NULL; clear it with vv_record_clear. */
int vv_commit(struct vv_store *store, struct vv_lease *lease, const char *name, const struct vv_attempt *attempt,
              struct vv_record *record_out, struct varve_error *error);

/* Give a failed attempt up and remove what it left. A tombstone in the place of its writers list makes certain that
 * it will never be a checkpoint; further attempts at this version remain possible. Returns 0; 1 when there is a
 * writers list, so that somebody may be about to create the record and nothing was removed (prune does it after the
 * next checkpoint); -EEXIST when it is a checkpoint; or an error. */
int vv_attempt_drop(struct vv_store *store, const char *name, const struct vv_attempt *attempt, uint32_t writers,
                    struct varve_error *error);

/* Adopt what dead generations below the lease's have fully voted but not recorded (docs/format.md 10). Returns how
 * many (0 or 1). Must come before the lease's first vv_lease_refer: a beat that names a checkpoint tells others that
 * this session adopts no more. */
int vv_adopt(struct vv_store *store, struct vv_lease *lease, const char *name, struct varve_error *error);

/* Turn one record into a tombstone, also a damaged one. VARVE_BUSY when a live session refers to it or to an older
 * one of that generation, or made it itself and has not yet named it. VARVE_NO_CHECKPOINT, VARVE_FORGOTTEN when it
 * is one already. Safe beside running sessions. */
int vv_forget(struct vv_store *store, const char *name, uint32_t generation, uint64_t version,
              struct varve_error *error);

struct vv_prune_options {
    int is_dry_run;
    /* Told about every object before it is removed (or would be); may be NULL. */
    void (*report)(void *arg, const char *key, uint64_t size);
    void *arg;
};
struct vv_prune_result {
    uint64_t objects;
    uint64_t bytes;
    uint64_t kept_attempts; /* uncommitted, of generations that may be alive */
};
/* Remove what no record of name reaches. Refuses when a record, or a pack of an attempt that may still be committed,
 * cannot be read. Safe beside sessions, readers, and other prunes. out may be NULL. */
int vv_prune(struct vv_store *store, const char *name, const struct vv_prune_options *options,
             struct vv_prune_result *out, struct varve_error *error);

/* keep=N after a commit: forget all but the newest `keep` (at least 2) readable records of the name, then prune.
 * Damaged records are not counted and not touched, but prune then refuses. Does nothing while there are no more than
 * `keep` keys below record/. VARVE_FENCED when a higher claim exists. Never waits. */
int vv_keep(struct vv_store *store, struct vv_lease *lease, const char *name, uint32_t keep, struct varve_error *error);

#endif
