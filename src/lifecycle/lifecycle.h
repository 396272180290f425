/* What this folder and check/ share about the life of checkpoints: fresh listings, objects of an attempt, processes. */
#ifndef VV_LIFECYCLE_H
#define VV_LIFECYCLE_H

#include "lifecycle/commit.h"
#include "store/listing.h"

/* ---- listings ---- */

/* Let a listing of the records show all that is there now; see vv_backend_refresh. */
int vv_records_refresh(struct vv_store *store, const char *name, struct varve_error *error);
/* Does a listing of records lack what a heartbeat names, although it is there? 1 and the first such, 0, or an error. It
 * must have been read before this. A session may have committed since: then it must be there in the next listing. */
typedef int (*vv_listed_fn)(const void *arg, uint32_t generation, uint64_t version);
int vv_listing_lacks(struct vv_store *store, const char *name, vv_listed_fn is_listed, const void *arg,
                     struct vv_attempt *lacking_out, struct varve_error *error);
/* Before the next listing: waits a little if the last one should have had it. 0, or -ESTALE when that goes on too long.
 * Begins as zeros. */
struct vv_patience {
    struct vv_attempt lacking;
    uint64_t since_ns;
};
int vv_listing_wait(const char *name, struct vv_patience *patience, const struct vv_attempt *lacking,
                    struct varve_error *error);

/* The claims of a name above `after`, ascending, with those that a listing does not show yet. Clear in every case. */
int vv_claims_list(struct vv_store *store, const char *name, uint32_t after, struct vv_numbers *out,
                   struct varve_error *error);

/* ---- what was committed ---- */

/* Add what this shows to have been committed; 0 or -ENOMEM. */
int vv_committed_by_record(struct vv_attempts *set, const struct vv_record *record);
int vv_committed_by_heartbeat(struct vv_attempts *set, const struct vv_heartbeat *heartbeat);
int vv_committed_by_catalogue(struct vv_attempts *set, const struct vv_catalogue *catalogue);

/* ---- objects ---- */

/* The key of a claim or a heartbeat. */
struct vv_key vv_generation_key(const char *name, uint32_t generation, int kind);
int vv_claim_load(struct vv_store *store, const char *name, uint32_t generation, struct vv_claim *out,
                  struct varve_error *error);
int vv_heartbeat_load(struct vv_store *store, const char *name, uint32_t generation, struct vv_heartbeat *out,
                      struct varve_error *error);
/* rc of these two: missing, damaged or newer than this program; nothing is known, but nothing went wrong either. */
int vv_says_nothing(int rc);

/* ---- the objects of one attempt ---- */

/* Remove packs, copies, parts, and at last the writers list; is_writers_kept leaves what is under its key. What
 * cannot be interpreted is logged and left. Counts into result when it is not NULL. */
int vv_attempt_remove(struct vv_store *store, const char *name, const struct vv_attempt *attempt, int is_writers_kept,
                      const struct vv_prune_options *options, struct vv_prune_result *result,
                      struct varve_error *error);

/* Remove one object of a prune, or only tell of it: options and result may be NULL. What is not there is no error. */
int vv_prune_object(struct vv_store *store, const char *key, const struct vv_prune_options *options,
                    struct vv_prune_result *result, struct varve_error *error);
/* Does a tombstone stand in the place of its writers list? 1, 0, or an error. */
int vv_attempt_is_closed(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                         struct varve_error *error);

/* ---- adoption ---- */

/* The newest version of the name that is a checkpoint, or was one until it was forgotten; generation 0: there is none.
 */
int vv_settled_newest(struct vv_store *store, const char *name, struct vv_attempt *out, struct varve_error *error);
/* Would the next session adopt this attempt if all its votes are there? Only what is newer than all that was ever a
 * checkpoint: an older one was passed over or given up. Adopt and prune ask alike. */
int vv_is_adoptable(const struct vv_attempt *settled, const struct vv_attempt *attempt);

/* ---- commit ---- */

/* The last two steps of vv_votes_commit: writers list, record. The caller knows that all it depends on is there. */
int vv_votes_record(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                    const struct vv_writers *writers, struct vv_record *record, struct varve_error *error);
/* Does the parent's record exist, and does it depend on all that this one depends on? VARVE_FORGOTTEN if it is gone. */
int vv_parent_check(struct vv_store *store, const char *name, const struct vv_record *record,
                    struct varve_error *error);

/* Replace a record by a tombstone without asking anybody. */
int vv_record_bury(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                   struct varve_error *error);
/* The catalogue as it is stored, which may be old. Clear it in every case. */
int vv_catalogue_read(struct vv_store *store, const char *name, struct vv_catalogue *out, struct varve_error *error);
/* Mark these as tombstones in the catalogue if there is one; list is newest first. Best effort. */
void vv_catalogue_bury(struct vv_store *store, const char *name, const struct vv_attempt *list, size_t count);

/* Wait until the owner of this generation is dead: 0. VARVE_BUSY when it may be alive at the deadline (vv_clock_ns).
 * dead_seconds counts when its claim cannot be read. -EINTR when options->stop says so. */
struct vv_lease_options;
int vv_watch(struct vv_store *store, const char *name, uint32_t generation, uint32_t dead_seconds, uint64_t deadline_ns,
             const struct vv_lease_options *options, struct varve_error *error);
/* The same for exactly this many seconds, without looking at the process, and with word of how far it is (nonzero:
 * stop). 0: nothing has changed; VARVE_BUSY: it is alive. */
typedef int (*vv_watch_fn)(void *arg, uint64_t done_ms, uint64_t total_ms);
int vv_watch_shown(struct vv_store *store, const char *name, uint32_t generation, uint32_t seconds,
                   vv_watch_fn progress, void *arg, struct varve_error *error);

/* Is this the session of a lease that this process has open? */
int vv_lease_is_open_here(const uint8_t session_id[16]);
/* The checkpoint the lease's heartbeat names. */
void vv_lease_refers(struct vv_lease *lease, struct vv_attempt *out);

/* The last step of a prune: of these versions, which have tombstones, those go that stop nobody any more. */
int vv_tombstones_prune(struct vv_store *store, const char *name, const struct vv_attempts *closed,
                        const struct vv_prune_options *options, struct vv_prune_result *result,
                        struct varve_error *error);

/* ---- processes ---- */

/* Who we are: host, boot id, PID namespace, process id and start. What cannot be told reliably is left 0. */
void vv_process_self(struct vv_claim *claim);
enum vv_process { VV_PROCESS_GONE, VV_PROCESS_THERE, VV_PROCESS_UNKNOWN };
int vv_process_look(const struct vv_claim *claim);

#endif
