/* How attempts become checkpoints and stop being some: commit, adopt, forget, prune (docs/format.md 10). */
#ifndef VV_COMMIT_H
#define VV_COMMIT_H

#include "base/steps.h"
#include "lifecycle/lease.h"
#include "store/records.h"

/* vv_records_list with everything that was there when it began, also where hosts remember listings: the newest
 * checkpoints that heartbeats name must be among them. -ESTALE if they are not. To be used before anything is concluded
 * from what is not listed. */
int vv_records_list_whole(struct vv_store *store, const char *name, vv_record_fn fn, void *arg,
                          struct varve_error *error);

/* The yes of one writer: what its footer says that the writers list and the record need. */
struct vv_vote {
    struct vv_writer entry;
    struct vv_settings_store settings;
    uint32_t ranks, writers;
    struct vv_attempt parent;
    uint64_t protected_bytes, raw_bytes, stored_bytes, regions, time_ns;
    char program[VV_TEXT_CAPACITY];
    uint32_t dependency_count;
    struct vv_dependency *dependencies;
};
/* 1 and its vote if its pack and all parts are in this store, 0 if not, or an error. Clear it when 1. */
int vv_vote_read(struct vv_store *store, const char *name, const struct vv_attempt *attempt, uint32_t writer,
                 struct vv_vote *out, struct varve_error *error);
void vv_vote_clear(struct vv_vote *vote);

/* Count the votes of an attempt, in any order; several ranks may each count some, and put them together. */
struct vv_count;
int vv_count_begin(struct vv_store *store, const char *name, const struct vv_attempt *attempt, struct vv_count **out);
void vv_count_clear(struct vv_count *count); /* NULL is allowed */
/* Reads one and adds it: 1, 0 when the pack is not there, or an error. */
int vv_count_read(struct vv_count *count, uint32_t writer, struct varve_error *error);
/* How many there should be, after the first; before it 0. */
uint32_t vv_count_writers(const struct vv_count *count);
/* For another rank of the job, which adds all of them to its own. */
int vv_count_put(const struct vv_count *count, struct vv_buf *out);
int vv_count_merge(struct vv_count *count, const void *data, size_t size, struct varve_error *error);
/* 1 when all are there: then both are filled, as by vv_votes_read. 0 when not, or an error. */
int vv_count_end(struct vv_count *count, struct vv_writers *writers_out, struct vv_record *record_out,
                 struct varve_error *error);

/* Is the pack of every writer there? Gathers what the footers say. Every pack's end and footer is read and checked
 * against the others. Returns 1 fully voted, 0 not (a pack is missing or a tombstone stands there), or an error. out
 * is filled when 1: the writers list, and the record as it will be (dependencies are the union over the footers). */
int vv_votes_read(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                  struct vv_writers *writers_out, struct vv_record *record_out, struct varve_error *error);

/* From full votes to a record: checks the claim and the parent's record, creates the writers list and the record. 0;
 * VARVE_FENCED; VARVE_FORGOTTEN when the parent or this version was forgotten, or the parent's record is damaged;
 * -EEXIST when another attempt was committed; or an error after which the outcome is undecided (a later adoption may
 * find it committed). */
int vv_votes_commit(struct vv_store *store, struct vv_lease *lease, const char *name, const struct vv_attempt *attempt,
                    const struct vv_writers *writers, struct vv_record *record, struct varve_error *error);

/* Its three steps, for stores that each keep the writers list and the record. Each is done in every store before the
 * next is begun in any: check claim, parent, and that no other attempt has the record; create the list; create the
 * record. Codes as vv_votes_commit. */
int vv_commit_check(struct vv_store *store, struct vv_lease *lease, const char *name, const struct vv_attempt *attempt,
                    const struct vv_record *record, struct varve_error *error);
int vv_commit_list(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                   const struct vv_writers *writers, struct varve_error *error);
int vv_commit_record(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                     const struct vv_record *record, struct varve_error *error);

/* This attempt was not committed, and never is: a tombstone takes the place of its record. 1, and 0 if something stands
 * there already: then it may be a checkpoint. */
int vv_commit_refuse(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                     struct varve_error *error);

/* The bytes of a commit (both objects are whole and belong together; what_out says which attempt with which writers
 * list), and taking it over from another node's store: the writers list and the record are created here, or mended
 * when they are damaged. The caller holds the claim. VARVE_FORGOTTEN when a tombstone stands in the way. */
int vv_commit_read(struct vv_store *store, const char *name, uint32_t generation, uint64_t version,
                   struct vv_buf *writers_out, struct vv_buf *record_out, struct vv_dependency *what_out,
                   struct varve_error *error);
int vv_commit_copy(struct vv_store *store, const char *name, uint32_t generation, uint64_t version,
                   const struct vv_buf *writers_bytes, const struct vv_buf *record_bytes, struct varve_error *error);

/* Give a failed attempt up and remove what it left. A tombstone in the place of its writers list makes certain that
 * it will never be a checkpoint; further attempts at this version remain possible. Returns 0; 1 when there is a
 * writers list, so that somebody may be about to create the record and nothing was removed (prune does it after the
 * next checkpoint); -EEXIST when it is a checkpoint; or an error. */
int vv_attempt_drop(struct vv_store *store, const char *name, const struct vv_attempt *attempt, uint32_t writers,
                    struct varve_error *error);

/* Adopt what dead generations below the lease's have fully voted but not recorded (docs/format.md 10). Returns how
 * many (0 or 1). Must come before the lease's first vv_lease_refer: a heartbeat that names a checkpoint tells others
 * that this session adopts no more. */
int vv_adopt(struct vv_store *store, struct vv_lease *lease, const char *name, struct varve_error *error);
/* The same with another way to finish an attempt, which returns 1 when it did, 0 when the attempt is not fully voted
 * or not fit, or an error. */
typedef int (*vv_finish_fn)(void *arg, const struct vv_attempt *attempt, struct varve_error *error);
int vv_adopt_with(struct vv_store *store, struct vv_lease *lease, const char *name, vv_finish_fn finish, void *arg,
                  struct varve_error *error);
/* Does this code make one attempt unfit for adoption, and not the storage unusable? */
int vv_adopt_is_unfit(int rc);

/* Turn one record into a tombstone, also a damaged one. VARVE_BUSY when it is pinned, or a live session refers to it or
 * to an older one of that generation, or made it itself and has not yet named it. VARVE_NO_CHECKPOINT, VARVE_FORGOTTEN
 * when it is one already. Safe beside running sessions. */
int vv_forget(struct vv_store *store, const char *name, uint32_t generation, uint64_t version,
              struct varve_error *error);

struct vv_prune_options {
    int is_dry_run;
    /* Told about every object before it is removed (or would be); may be NULL. */
    void (*report)(void *arg, const char *key, uint64_t size);
    void *arg;
    /* Records that the caller itself has just replaced by tombstones: those are durable. */
    const struct vv_attempt *buried;
    size_t buried_count;
    struct vv_steps *steps; /* or NULL. Stopped between two of them, it ends with -EINTR */
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

/* Which checkpoints keep=N keeps. */
struct vv_keep_options {
    uint32_t keep; /* so many at least, and never fewer than 2; 0: all */
    /* What the session went on from when it last restarted; generation 0: it has not. Records of earlier generations
     * that are newer were passed over by that restart, damaged or refused: they take nobody's place. */
    struct vv_attempt origin;
    const uint64_t *rejected; /* pairs generation, version: those the program has refused take nobody's place either */
    size_t rejected_count;
    const struct vv_attempt *cut;    /* or NULL: nothing that is not older than this is forgotten */
    uint32_t from;                   /* nothing of generations below this is forgotten, whatever the count */
    const struct vv_attempt *spared; /* these stay, too: somebody is reading them. They count as all others do */
    size_t spared_count;
    struct vv_prune_result *freed; /* or NULL: what was removed is added */
};

/* keep=N after a commit: forget all but the newest `keep` readable records of the name that count, then prune. What
 * does not count stays as long as what is next to it. Pinned ones stay; they count as if they were not pinned. Damaged
 * records are not counted and not touched, but prune then refuses. Does nothing while there are no more than `keep`
 * keys below record/. VARVE_FENCED when a higher claim exists. Never waits. */
int vv_keep(struct vv_store *store, struct vv_lease *lease, const char *name, const struct vv_keep_options *options,
            struct varve_error *error);
/* Its steps, for stores that each have the records of a job. Begin chooses what goes here, by options->cut, and lets
 * nobody pin it any more; then what any of the stores has pinned is spared in all of them; then the rest is forgotten.
 */
struct vv_keeping;
int vv_keep_begin(struct vv_store *store, struct vv_lease *lease, const char *name,
                  const struct vv_keep_options *options, struct vv_keeping **out, struct varve_error *error);
/* The oldest that is pinned here and newer than `after`: 1, or 0 when there is none. */
int vv_keep_next_pinned(const struct vv_keeping *keeping, const struct vv_attempt *after, struct vv_attempt *out);
void vv_keep_spare(struct vv_keeping *keeping, const struct vv_attempt *at);
int vv_keep_forget(struct vv_keeping *keeping, struct varve_error *error);
void vv_keep_end(struct vv_keeping *keeping); /* accepts NULL */
/* How many readable records there are of generations below `below`, without the pinned ones. */
int vv_keep_count(struct vv_store *store, const char *name, uint32_t below, uint64_t *out, struct varve_error *error);
/* The oldest that keep=N would keep here: 1, 0 when there are fewer, or an error. With several stores of one job the
 * oldest of all their answers is the cut for all of them: what a node has of a commit that failed must not push out,
 * there, what was reported. */
int vv_keep_cut(struct vv_store *store, struct vv_lease *lease, const char *name, const struct vv_keep_options *options,
                struct vv_attempt *cut_out, struct varve_error *error);

#endif
