/* The engine runs the stages: the way of a checkpoint into the store, and the way back. No other folder knows their
 * order.
 *
 * SAVING. vv_session_checkpoint makes a request and runs it to its end in the calling thread; what can move to the
 * background later is behind the request already. A request tries one or more attempts (on_error=retry:n); each
 * attempt is:
 *
 *   plan     every region gets its length and its address in the layout (save.c)
 *   scan     ranges the tracker reports -> chunks of 4 KiB -> zero? same id as last time at this place? id known
 *            elsewhere? else new (scan.c)
 *   blocks   new chunks gathered into blocks of about 1 MiB; full blocks go to the pool, whose threads encode them and
 *            append them to the pack (blocks.c)
 *   manifest origins -> runs: an overlay, or a base when the overlays have grown (recipe_write.c)
 *   commit   the pack is sealed: our yes; then the record; then the beat names the new checkpoint; then keep=N
 *
 * Ordered: the scan is one thread in ascending region number and offset; blocks are appended in any order, since
 * places do not depend on it. Overlapping: encoding and writing of earlier blocks with scanning of later ones. Memory:
 * threads + 2 block buffers (raw and encoded), the ids and origins that changed, and the history; a scan that finds no
 * free buffer waits. Failure: the first error of any stage stops the scan, the attempt's objects are removed, and the
 * history stays that of the last committed checkpoint (dedup/history.h), so nothing is missing from the next one.
 *
 * RESTARTING. vv_session_restart walks the records from the newest, opens a view, compares what is stored with what is
 * protected before a byte is written, fetches the runs in windows, computes the id of every granule and compares each
 * region's digest. The ids become the new history. A checkpoint that fails anywhere is named in the log with the
 * reason, and the next older one is tried.
 *
 * MANY RANKS. Every function below is collective and returns the same code on every rank, with the error of the rank
 * where it happened. A step that a rank does alone ends in vv_comm_agree before any rank acts on it. Claims, records
 * and deletions are the business of the keepers (keepers.c): rank 0, or one rank per node. In a checkpoint: versions
 * compared; each rank writes and seals its own pack; agree; the keeper counts the votes and creates the record; agree.
 * In a restart, per candidate: the keeper names it; each rank compares regions; agree (nothing was written so far);
 * each rank reads and checks; agree; the keeper goes on in the beat; agree. The record decides: a rank that dies
 * anywhere leaves waste or a checkpoint that the next life finds.
 *
 * Threads: one thread at a time per session; the pool's and the lease's threads are inside. Only the calling thread
 * talks to the group. */
#ifndef VV_ENGINE_H
#define VV_ENGINE_H

#include "base/settings.h"
#include "base/thread.h"
#include "comm/comm.h"
#include "dedup/history.h"
#include "memory/tracker.h"
#include "store/view.h"

/* One checkpoint from its call to its end. */
struct vv_request {
    uint64_t version;
    int is_done;
    int result;
    struct varve_error error;
    struct varve_stats stats;
};

struct vv_session {
    char name[VV_NAME_MAX + 1];
    struct vv_settings settings;
    struct vv_log log;
    struct vv_store *store;
    struct vv_lease *lease; /* a keeper's (keepers.c): rank 0 is one; NULL on the others */
    struct varve_comm *comm;
    struct vv_pool *pool;
    struct vv_tracker *tracker;
    struct vv_regions regions;
    struct vv_history history;

    struct vv_attempt parent;        /* the checkpoint our history is of; generation 0: none */
    struct vv_hash128 parent_writers; /* digest of its writers list */
    struct vv_recipe_layers layers;  /* of its manifest; count 0: none */
    uint64_t next_version;           /* versions of this generation must be at least this */
    int has_saved;                   /* in this generation */
    uint64_t tried_version;           /* the last version tried in this generation */
    uint32_t tries;                   /* how often; 0: nothing was tried in this generation */

    struct vv_attempt *unsettled; /* node-local stores: commits that failed, of which some nodes may have the record */
    size_t unsettled_count;

    uint64_t *rejected; /* pairs generation, version */
    size_t rejected_count;
    int is_overwritten; /* the restart under way has begun to write regions */

    uint64_t uncatalogued; /* checkpoints since the catalogue was written */
    uint64_t catalogued;   /* how many it has then */

    double storage_speed; /* bytes per second seen by the commits; 0 before the first */
    uint64_t opened_ns;
    uint64_t last_ns;     /* when the last checkpoint ended */
    double seconds_spent; /* in checkpoints */
    struct vv_request request;
};

int vv_session_open(const char *uri, const char *name, const struct vv_settings *settings, const struct vv_log *log,
                    struct varve_comm *comm, struct vv_session **out, struct varve_error *error);
/* Frees everything but the group; the outcome of the last request was the caller's to ask for. Accepts NULL. */
void vv_session_close(struct vv_session *session);

int vv_session_checkpoint(struct vv_session *session, int64_t version, struct varve_error *error);

struct vv_restart_options {
    int64_t version;            /* or VARVE_LATEST */
    const char *const *regions; /* NULL: all protected */
    size_t region_count;
    unsigned flags; /* VARVE_RESTART_* */
};
int vv_session_restart(struct vv_session *session, const struct vv_restart_options *options, int64_t *version_out,
                       struct varve_error *error);
int vv_session_reject(struct vv_session *session, int64_t version, struct varve_error *error);
/* Walk the regions of our rank in a checkpoint. */
int vv_session_stored(struct vv_session *session, int64_t version, varve_region_fn fn, void *arg, int64_t *version_out,
                      struct varve_error *error);
/* 1, 0, or an error of the group. */
int vv_session_is_due(struct vv_session *session, struct varve_error *error);

#endif
