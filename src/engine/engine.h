/* The engine runs the stages: the way of a checkpoint into the store, and the way back. No other folder knows their
 * order.
 *
 * SAVING. vv_session_checkpoint makes a request (request.c) and runs this rank's part of an attempt (save.c):
 *
 *   plan     every region gets its length and its address in the layout
 *   capture  the trackers tell which chunks may have changed
 *   audit    some of those they did not tell are compared with the last checkpoint (audit.c)
 *   share    with many ranks: they are named, and the ranks agree who stores what several of them hold (naming.c,
 *            sharing.c). What another rank stores is let go of
 *   capture  the rest is copied into staging, held in place, or taken at once (capture/capture.h). Here the call returns
 *   scan     piece by piece, in the order the capture gives: zero? same id as last time at this place? id known
 *            elsewhere? else new (scan.c); or, if the ranks have agreed, is it ours to store?
 *   copies   what is stored also goes to partners on other nodes (copies.c), or, to level the nodes, only there (moves.c)
 *   outlet   new chunks go into this rank's own pack, or to the writer that it shares with others (outlet.c, team.h)
 *   blocks   gathered into blocks of about 1 MiB; full blocks go to the pool, whose threads encode them and
 *            append them to the pack (blocks.c, block_write.c, writing.c)
 *   manifest origins -> runs: an overlay, or a base when the overlays have grown (recipe_write.c)
 *   commit   the pack is sealed: our yes; then the record; then the beat names the new checkpoint; then keep=N
 *            (request.c, keepers.c, upkeep.c)
 *
 * Everything after the capture runs in the session's own thread (flight.c) while the program goes on; with
 * capture=sync, on_error=retry or threads=0 it runs inside the call. One checkpoint is in flight at a time: the next
 * one, and whatever else needs the store, waits for it to land; a process alone that waits or asks is told once the
 * record is durable. Ranks talk to each other in the thread that makes a collective call, so with many ranks the
 * commit waits for the next such call; until then every part lies sealed in the store, and a later life adopts it.
 * Where the group has another one aside (MPI_THREAD_MULTIPLE), or all ranks are on one node and talk through its memory
 * (gather/comm_near.h), the session's thread talks, too: it commits, sends copies and, if everything is in staging or
 * frozen, shares.
 *
 * Memory: `staging` bounds the copies (slots of the capture, and threads + 2 block buffers within a quarter of it).
 * Beside it: a block buffer for each lane that is open (one large region: one; four at the most); per thread that encodes
 * a block for the outcome, and what its codec needs (a few blocks' worth at the most); then the ids and origins that
 * changed, and the history. All of it is told by varve_stats (vv_memory_note). A scan that finds no free block waits; a program that
 * overtakes the capture is stopped at the page. The writer of several ranks has, beside a ring for each, a block for each
 * and some more. Failure: the first error of any stage stops the scan and lets the
 * program's pages go, the attempt's objects are removed, the history stays that of the last committed checkpoint
 * (dedup/history.h) and the chunks count as changed for the next one, so nothing is missing from it. Whoever asks next
 * is told: test, wait, close, or the next checkpoint, which is begun all the same.
 *
 * RESTARTING. vv_session_restart walks the records from the newest, opens a view, compares what is stored with what is
 * protected before a byte is written, fetches the runs in windows, computes the id of every granule and compares each
 * region's digest. The ids become the new history. A checkpoint that fails anywhere is named in the log with the
 * reason, and the next older one is tried. With many ranks the reading runs on the storage as the job sees it (peers.h):
 * what several ranks need is read once, and what this node does not have comes from another.
 *
 * CONTINUING. vv_session_continue goes on from a checkpoint of which no byte is read: the ids that are stored with its
 * bytes become the table of ids, its record the sources, and the checkpoint the parent (continue.c). Nothing is known
 * about regions, so all of them are new in the next checkpoint, which stores what the table does not know.
 *
 * MANY RANKS. Every function below that is not about regions is collective and returns the same code on every rank,
 * with the error of the rank where it happened. A step that a rank does alone ends in vv_comm_agree before any rank
 * acts on it. Claims, records and deletions are the business of the keepers (keepers.c): rank 0, or one rank per node.
 * In a checkpoint: versions compared; each rank names what changed; the ranks share it out; each rank captures; agree;
 * each rank writes and seals its own pack; agree; the keeper counts the votes and creates the record; agree. In a restart, per candidate: the keeper names it; each rank
 * compares regions; agree (nothing was written so far); each rank reads and checks; agree; the keeper goes on in the
 * beat; agree. The record decides: a rank that dies anywhere leaves waste or a checkpoint that the next life finds.
 *
 * Threads: one thread at a time calls a session. Inside are its own thread, the pool's, the lease's and the guard's, and on the first
 * rank of a team its writer's with a pool of its own, which has nothing to do with the others but through rings. What
 * is in flight belongs to the session's thread (history, save, pack, capture, and the group, if it may talk); the
 * caller's thread keeps off until it has landed, and talks aside meanwhile. */
#ifndef VV_ENGINE_H
#define VV_ENGINE_H

#include "base/settings.h"
#include "base/thread.h"
#include "comm/comm.h"
#include "dedup/history.h"
#include "capture/capture.h"
#include "memory/regions.h"
#include "engine/team.h"
#include "store/view.h"

#include <varve/varve_device.h>

struct vv_exchange;
struct vv_match;
struct vv_chooser;
struct vv_flight;
struct vv_save;

/* Deduplication between ranks (sharing.c). */
struct vv_sharing {
    struct vv_exchange *exchange; /* NULL: there is none */
    int is_exact;
    unsigned rest;   /* checkpoints for which it is left out, since it did not pay */
    unsigned resting; /* so long the last time */
    unsigned losses;  /* how often in a row it did not pay */
    const char *name, *reason;
};

/* One checkpoint from its call to its end. */
struct vv_request {
    uint64_t version;
    int is_done;
    int result;
    int is_told;       /* its failure */
    int tells_earlier; /* its call was also the one that told of an earlier failure */
    struct varve_error error;
    struct varve_stats stats;
    uint64_t begun_ns; /* 0: none was begun yet */
    uint64_t blocked_ns, waited_ns, durable_ns;
};

/* With whom chunks are exchanged while they are consumed (rounds.c). */
struct vv_rounds {
    uint32_t *to, to_count;     /* ranks that get some of ours, */
    struct vv_buf *sending;     /* what is on its way to each, */
    struct varve_parcel *out;   /* and the same as messages */
    uint32_t *from, from_count; /* ranks who send to us; */
    uint32_t *waiting;          /* of them, those who have more to send */
    uint8_t *is_over;           /* per rank in from */
};

/* Who keeps copies for whom (copies.c). */
struct vv_copies {
    uint32_t count;                     /* of partners: they keep copies of what we store */
    uint32_t partners[VV_PARTNERS_MAX];
    uint32_t *kept;                     /* ranks whose partner we are */
    uint32_t kept_count;
    struct vv_rounds rounds;
};

/* How much is audited (audit.c). */
struct vv_audit_state {
    uint64_t random;      /* of the generator; 0: not begun */
    double chunk_seconds; /* that one chunk takes; 0: not measured yet */
    double call_seconds;  /* of the processor, that the last calls have taken */
};

/* May this session write? */
enum vv_may {
    VV_MAY_WRITE,      /* it has its claim */
    VV_MAY_READ,       /* it was asked not to: access=read */
    VV_MAY_WRITE_LATER /* nothing could be written when it was opened: the next checkpoint tries to claim */
};

#define VV_DYING 16 /* checkpoints whose dead attempts are counted */

struct vv_session {
    char name[VV_NAME_MAX + 1];
    char *address;        /* of the store, as the program gave it */
    int is_store_new;     /* this session has made it */
    int is_first_run_told;
    struct vv_settings settings;
    struct vv_log log;
    struct vv_store *store;
    enum vv_may may;        /* the same on all ranks */
    int is_keeper;          /* lists and reads records for the others (keepers.c): rank 0, or one rank per node */
    struct vv_lease *lease; /* a keeper's; NULL on the others, and where nothing is claimed */
    uint32_t claims_seen;   /* without a claim: the highest of all nodes when it was opened; the same on all ranks */
    uint8_t claim_tried[16]; /* the session id of the last claim that all ranks tried to make */
    struct vv_attempt newest_seen; /* and the newest record when it last looked for one to read; likewise */
    struct varve_comm *comm;  /* for one thread at a time: the caller's, or our own while a checkpoint is in flight */
    struct varve_comm *aside; /* for the caller's, meanwhile; NULL: our own thread must not talk */
    struct varve_comm *given; /* the program's; it is comm, or aside */
    struct varve_comm *near;  /* made of it where its own threads may not talk; NULL: none. It is comm then */
    struct vv_sharing sharing;
    struct vv_copies copies;
    struct vv_team team;
    struct vv_match *match; /* which regions hold the same variable */
    struct vv_pool *pool;
    struct vv_placement where; /* our threads */
    struct vv_regions regions;
    struct vv_capture *capture;
    int capturing;         /* enum vv_capture_choice, as it is done */
    struct vv_watch *left; /* watches over memory that the program took back while a checkpoint was in flight */
    struct vv_audit_state audit;
    struct vv_history history;
    struct vv_flight *flight;
    int is_flying;        /* a checkpoint was begun and has not landed; the caller's thread knows */
    int has_landed;       /* one has */
    struct vv_save *save; /* the one under way */

    struct vv_attempt parent;        /* the checkpoint our history is of; generation 0: none */
    struct vv_hash128 parent_writers; /* digest of its writers list */
    struct vv_recipe_layers layers;  /* of its manifest; count 0: none */
    uint64_t next_version;           /* versions of this generation must be at least this */
    int has_saved;                   /* in this generation */
    uint64_t tried_version;           /* the last version tried in this generation */
    uint32_t tries;                   /* how often; 0: nothing was tried in this generation */

    struct vv_attempt *unsettled; /* node-local stores: commits that failed, of which some nodes may have the record */
    size_t unsettled_count;

    struct vv_attempt origin; /* what the last restart has gone on from; generation 0: there was none */
    uint64_t *rejected; /* pairs generation, version */
    size_t rejected_count;
    int is_overwritten; /* the restart under way has begun to write regions */

    uint32_t first_generation; /* of this session */
    int is_keep_told;      /* what will be kept was said, and keep_from is known */
    uint32_t keep_from;    /* records of lower generations are not forgotten by keep=N; 0: they may be */
    uint64_t dying[VV_DYING]; /* bytes of attempts that only older kept checkpoints lean on, the latest first */
    int has_failed_restart; /* the last restart found checkpoints and returned an error; the same on all ranks */

    uint64_t uncatalogued; /* checkpoints since the catalogue was written */
    uint64_t catalogued;   /* how many it has then */

    int is_continued;      /* no checkpoint since: only the table tells what is stored */
    int is_settled_well;   /* the last attempt has become a checkpoint */
    int must_begin_anew;   /* what the history refers to may be gone */
    double storage_speed;  /* bytes per second from the call until all is stored, hashing and compressing included; 0 before the first */
    double stream_speed;   /* that the storage takes by itself, as the blocks' stream has shown; 0: it has not yet */
    struct vv_chooser *chooser; /* how blocks are encoded */
    double spare;          /* processors that were free for us during the last checkpoint; 0 before the first */
    double changed_share;  /* of what was looked at in the last checkpoint, what was different; 1 before the first */
    double fine_look;      /* seconds per byte of granules that were looked at finely; 0 before the first */
    char fine_reason[64];  /* what the last sample has said */
    uint64_t last_fresh;   /* new bytes in the last checkpoint that this rank has stored, */
    uint64_t last_elsewhere; /* and that others have stored */
    double last_blocked;   /* seconds of the last call */
    uint64_t opened_ns;
    uint64_t last_ns;     /* when the last checkpoint ended */
    double seconds_spent; /* in checkpoints */
    struct vv_request request;
};

int vv_session_open(const char *uri, const char *name, const struct vv_settings *settings, const struct vv_log *log,
                    struct varve_comm *comm, struct vv_session **out, struct varve_error *error);
/* Frees everything but the group; the outcome of the last request was the caller's to ask for. Accepts NULL. */
void vv_session_close(struct vv_session *session);

/* ---- regions: each rank for itself. 0, -ENOMEM or -ENOENT ---- */
int vv_session_protect(struct vv_session *session, const char *name, void *ptr, uint64_t size, unsigned flags);
int vv_session_protect_callback(struct vv_session *session, const char *name, const struct varve_callbacks *callbacks,
                                void *arg);
/* fn tells where it is, at each checkpoint and restart. */
int vv_session_protect_moving(struct vv_session *session, const char *name, varve_memory_fn fn, void *arg);
int vv_session_protect_device(struct vv_session *session, const char *name, uint64_t bytes, uint32_t chunk,
                              const struct varve_device_ops *ops, void *arg);
/* What it holds; NULL: bytes. array has been checked. */
int vv_session_describe(struct vv_session *session, const char *name, const struct varve_array *array);
/* Bytes of its fine chunks; 1: none, 0: as the setting says. */
int vv_session_fine(struct vv_session *session, const char *name, uint32_t chunk);
int vv_session_unprotect(struct vv_session *session, const char *name);
/* Memory from vv_regions_map. */
void vv_session_free(struct vv_session *session, void *ptr);

/* error: not NULL, and clear. */
int vv_session_checkpoint(struct vv_session *session, int64_t version, struct varve_error *error);
/* The outcome of the last checkpoint that was begun, when it has one. */
int vv_session_wait(struct vv_session *session, struct varve_error *error);
/* Wait until the checkpoint in flight needs nothing of the program's memory any more. Another thread may be in
 * vv_session_wait or vv_session_test. */
void vv_flight_release(struct vv_session *session);
/* 1 when it is known and good, 0 when it is not known yet, or the error. */
int vv_session_test(struct vv_session *session, struct varve_error *error);
/* Of this rank; not collective. */
void vv_session_stats(struct vv_session *session, struct varve_stats *out);

struct vv_restart_options {
    int64_t version;            /* or VARVE_LATEST */
    const char *const *regions; /* NULL: all protected */
    size_t region_count;
    unsigned flags; /* VARVE_RESTART_* */
    int is_allocating; /* what is not protected, or with another size, gets memory from the program */
    const struct varve_allocator *allocator;
    void *arg;
};
int vv_session_restart(struct vv_session *session, const struct vv_restart_options *options, int64_t *version_out,
                       struct varve_error *error);
/* Only before the first checkpoint, and not after a restart. */
int vv_session_continue(struct vv_session *session, int64_t version, int64_t *version_out, struct varve_error *error);
int vv_session_reject(struct vv_session *session, int64_t version, struct varve_error *error);
/* Walk the regions of our rank in a checkpoint. */
int vv_session_stored(struct vv_session *session, int64_t version, varve_region_fn fn, void *arg, int64_t *version_out,
                      struct varve_error *error);
/* 1, 0, or an error of the group. */
int vv_session_is_due(struct vv_session *session, struct varve_error *error);

#endif
