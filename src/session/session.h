/* clang-format off: the table of stages */
/* A session runs the stages: the way of a checkpoint into the store, and the way back. No other folder knows their
 * order.
 *
 * SAVING. vv_session_checkpoint makes a request (session/request.c) and runs this rank's part of an attempt
 * (save/save.c):
 *
 *   plan     every region gets its length and its address in the layout
 *   capture  the trackers tell which chunks may have changed
 *   audit    some of those they did not tell are compared with the last checkpoint (save/audit.c)
 *   share    with many ranks: they are named, and the ranks agree who stores what several of them hold (save/offers.c,
 *            rank_dedup.c). What another rank stores is let go of
 *   capture  the rest is copied into staging, held in place, or taken at once (capture/capture.h). Here the call
 *            returns
 *   scan     piece by piece, in the order the capture gives: zero? same id as last time at this place? id known
 *            elsewhere? else new (save/scan.c); or, if the ranks have agreed, is it ours to store?
 *   copies   what is stored also goes to partners on other nodes (write/output_replicas.c), or, to balance the nodes,
 *            only there (write/output_team.c)
 *   output   new chunks go into this rank's own pack, or to the writer that it shares with others (write/output.h)
 *   blocks   gathered into blocks of about 1 MiB; full blocks go to the pool, whose threads encode them and append
 *            them to the pack (write/blocks.c, block_write.c, writing.c)
 *   manifest origins -> runs: an overlay, or a base when the overlays have grown (save/manifest_build.c)
 *   commit   the pack is sealed: our yes; then the record; then the heartbeat names the new checkpoint; then keep=N
 *            (session/request.c, job/leaders.c, maintenance.c)
 *   tiers    rank 0 copies it to further stores, if there are some, in threads of their own (tiers/tiers.h)
 *
 * Everything after the capture runs in the session's own thread (session/background.c) while the program goes on; with
 * capture=sync, on_error=retry or threads=0 it runs inside the call. One checkpoint is in flight at a time: the next
 * one, and whatever else needs the store, waits for it to land; a process alone that waits or asks is told once the
 * record is durable. Ranks talk to each other in the thread that makes a collective call, so with many ranks the
 * commit waits for the next such call; until then every part lies sealed in the store, and a later life adopts it.
 * Where the group has a second one (MPI_THREAD_MULTIPLE), or all ranks are on one node and talk through its memory
 * (gather/comm_near.h), the session's thread talks, too: it commits, sends copies and, if everything is in staging or
 * frozen, shares.
 *
 * Memory: `staging` bounds the copies (slots of the capture, and threads + 2 block buffers within a quarter of it).
 * Beside it: a block buffer for each lane that is open (one large region: one; four at the most); per thread that
 * encodes a block for the outcome, and what its codec needs (a few blocks' worth at the most); then the ids and origins
 * that changed, and the history. All of it is told by varve_stats (vv_memory_note). A scan that finds no free block
 * waits; a program that overtakes the capture is stopped at the page. The writer of several ranks has, beside a ring
 * for each, a block for each and some more. Failure: the first error of any stage stops the scan and lets the program's
 * pages go, the attempt's objects are removed, the history stays that of the last committed checkpoint
 * (dedup/history.h) and the chunks count as changed for the next one, so nothing is missing from it. Whoever asks next
 * is told: test, wait, close, or the next checkpoint, which is begun all the same.
 *
 * RESTARTING. vv_session_restart walks the records from the newest, opens a view, compares what is stored with what is
 * protected before a byte is written, fetches the runs in windows, computes the id of every granule and compares each
 * region's digest. The ids become the new history. A checkpoint that fails anywhere is named in the log with the
 * reason, and the next older one is tried. With many ranks the reading runs on the storage as the job sees it
 * (peers.h): what several ranks need is read once, and what this node does not have comes from another.
 *
 * vv_session_restart_begin does the same up to where all ranks have agreed and nothing is written. Then a thread of the
 * restart reads this rank's regions, some at a time, checks them and hands them out. It talks to nobody: where reading
 * needs other ranks it is done before. vv_session_restart_end is the last agreement; meanwhile the session does nothing
 * else (restart/begun.c).
 *
 * CONTINUING. vv_session_continue goes on from a checkpoint of which no byte is read: the ids that are stored with its
 * bytes become the table of ids, its record the sources, and the checkpoint the parent (restart/resume.c). Nothing is
 * known about regions, so all of them are new in the next checkpoint, which stores what the table does not know.
 *
 * MANY RANKS. Every function below that is not about regions is collective and returns the same code on every rank,
 * with the error of the rank where it happened. A step that a rank does alone ends in vv_comm_agree before any rank
 * acts on it. Claims, records and deletions are the business of the leaders (job/leaders.c): rank 0, or one rank per
 * node. In a checkpoint: versions compared; each rank names what changed; the ranks share it out; each rank captures;
 * agree; each rank writes and seals its own pack; agree; the leader counts the votes and creates the record; agree. In
 * a restart, per candidate: the leader names it; each rank compares regions; agree (nothing was written so far); each
 * rank reads and checks; agree; the leader goes on in the heartbeat; agree. The record decides: a rank that dies
 * anywhere leaves waste or a checkpoint that the next life finds.
 *
 * Threads: one thread at a time calls a session. Inside are its own thread, the pool's, the lease's and the guard's,
 * and on the first rank of a team its writer's with a pool of its own, which has nothing to do with the others but
 * through rings. What is in flight belongs to the session's thread (history, save, pack, capture, and the group, if it
 * may talk); the caller's thread keeps off until it has landed, and talks through the second group meanwhile. */
/* clang-format on */
#ifndef VV_SESSION_H
#define VV_SESSION_H

#include <varve/varve_device.h>

#include "base/details.h"
#include "joblog/session_log.h"
#include "restart/restart.h"
#include "save/save.h"
#include "session/asked.h"
#include "session/schedule.h"
#include "tiers/tiers.h"

/* One checkpoint from its call to its end. */
struct vv_request {
    uint64_t version;
    int is_done;
    int result;
    int is_told;       /* its failure */
    int tells_earlier; /* its call was also the one that told of an earlier failure */
    struct varve_error error;
    struct vv_details stats;
    struct vv_tally tally; /* on rank 0, once it is committed, of all ranks */
    uint64_t begun_ns;     /* 0: none was begun yet */
    uint64_t blocked_ns, waited_ns, durable_ns;
    uint64_t idle_ns; /* of the time until durable: written, and no call came that could commit it */
    /* durable=2 and more: whether that tier has it. Known, and agreed upon, once somebody has asked */
    int is_settled;
    int tier_result;
    struct varve_error tier_error;
};

/* That it took until durable, less what it waited for a call; it is done, and nothing failed. */
static inline double vv_request_seconds(const struct vv_request *request) {
    return (double)(request->durable_ns - request->begun_ns - request->idle_ns) * 1e-9;
}

struct vv_background_thread;
struct vv_background {
    struct vv_background_thread *thread;
    int is_flying, has_landed; /* a checkpoint was begun and has not landed; one has. The caller's thread knows */
    int is_apart;              /* the same on all ranks: the caller's thread talks in a group of its own */
    struct vv_tiers *tiers;    /* on rank 0: where it goes from the first store, or NULL */
    int is_closing;            /* a tier is not waited for without a limit any more */
};

/* What the last restart took of the storage; the rest of its cost is in store/read_costs.h. */
struct vv_restarted {
    double seconds;
    uint64_t reads, bytes_read, reading_ns;
    struct vv_told_costs told; /* by the one that comes back; until it has */
};

/* Allocations that libvarve_preload knows; heap.c. */
struct vv_heap_block;
struct vv_ranges;
struct vv_pointers;
struct vv_fixed;
typedef int (*vv_heap_fn)(void *arg, const char *name, void *ptr, size_t size, const char *why);
typedef int (*vv_heap_each_fn)(vv_heap_fn fn, void *arg);
struct vv_heap {
    vv_heap_each_fn each;       /* NULL: none are protected */
    struct vv_heap_block *list; /* ascending names */
    size_t count, capacity;
    struct vv_ranges *ranges;     /* of addresses */
    struct vv_pointers *pointers; /* of static variables, as stored or to be stored */
    struct vv_fixed *fixed;       /* of address-true mode, or NULL; fixed.c */
};

/* Those that were live when varve_restart was last called: a checkpoint with others does not come back. */
struct vv_heap_past {
    struct vv_heap_block *list; /* ascending names */
    size_t count;
    int is_known; /* varve_restart was called */
    int is_told;  /* that a checkpoint has others */
};

/* What is stored beside the regions that the program names; all but heap is of rank 0. */
struct vv_about {
    int is_told;              /* that nothing is protected, or what is without a name */
    struct vv_buf attributes; /* pairs of texts */
    struct vv_buf index;      /* of the arrays of all ranks */
    struct vv_buf said;       /* what this rank says of its own, */
    struct vv_hash128 told;   /* and the digest of it when the index was made */
    struct vv_heap heap;
    struct vv_heap_past heap_past;
    struct vv_session_log *log; /* session_log.c */
};

/* A restart that was begun. */
struct vv_under_way {
    struct vv_begun *begun;     /* NULL: none is */
    struct vv_restarted before; /* what was counted when it was */
    uint64_t begun_ns;
};

struct vv_session {
    struct vv_job job;               /* job/ */
    struct vv_protected memory;      /* protect.c */
    struct vv_outputs outputs;       /* write/ */
    struct vv_rank_dedup rank_dedup; /* save/rank_dedup.c */
    struct vv_measured measured;     /* save/ and write/ */
    struct vv_audit_state audit;     /* save/audit.c */
    struct vv_background background; /* background.c */
    struct vv_schedule schedule;     /* schedule.c */
    struct vv_asked asked;           /* asked.c, need.c */
    struct vv_save *save;            /* request.c: the one under way */
    struct vv_request request;       /* request.c */
    struct vv_restarted restarted;   /* restart.c */
    struct vv_under_way under_way;   /* restart.c */
    struct vv_about about;           /* attributes.c, array_index.c, heap.c */
};

/* heap=auto becomes data where libvarve_preload is loaded: rank 0 decides for all. */
void vv_heap_settle(struct vv_settings *settings);
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
int vv_session_distribute(struct vv_session *session, const char *name, enum varve_distribution how);
int vv_session_attribute(struct vv_session *session, const char *name, const char *value, struct varve_error *error);
int vv_session_unprotect(struct vv_session *session, const char *name);
/* Memory from vv_regions_map. */
void vv_session_free(struct vv_session *session, void *ptr);

/* error: not NULL, and clear. */
int vv_session_checkpoint(struct vv_session *session, int64_t version, struct varve_error *error);
/* The outcome of the last checkpoint that was begun, when it has one. */
int vv_session_wait(struct vv_session *session, struct varve_error *error);
/* Wait until the checkpoint in flight needs nothing of the program's memory any more. Another thread may be in
 * vv_session_wait or vv_session_test. */
void vv_background_release(struct vv_session *session);
/* 1 when it is known and good, 0 when it is not known yet, or the error. */
int vv_session_test(struct vv_session *session, struct varve_error *error);
/* Of this rank; not collective. */
void vv_session_stats(struct vv_session *session, struct vv_details *out);

int vv_session_restart(struct vv_session *session, const struct vv_restart_options *options, int64_t *version_out,
                       struct varve_error *error);
/* The same in three steps: the ranks agree on a checkpoint, and reading goes on; a region is there (not collective);
 * all go on from it, or none. Nothing else may be called in between but this: */
int vv_session_restart_begin(struct vv_session *session, const struct vv_restart_options *options, int64_t *version_out,
                             struct varve_error *error);
int vv_session_restart_wait(struct vv_session *session, const char *name, struct varve_error *error);
int vv_session_restart_end(struct vv_session *session, struct varve_error *error);
/* None is under way any more. Not collective. */
void vv_session_restart_abandon(struct vv_session *session);
/* Only before the first checkpoint, and not after a restart. */
int vv_session_continue(struct vv_session *session, int64_t version, int64_t *version_out, struct varve_error *error);
int vv_session_reject(struct vv_session *session, int64_t version, struct varve_error *error);
/* Walk the regions of our rank in a checkpoint. */
int vv_session_stored(struct vv_session *session, int64_t version, varve_region_fn fn, void *arg, int64_t *version_out,
                      struct varve_error *error);
/* 1, 0, or an error of the group. */
int vv_session_is_due(struct vv_session *session, struct varve_error *error);
/* 1: somebody wants the job to end, and the checkpoint that was begun since is durable. */
int vv_session_should_exit(struct vv_session *session);
/* With interval=auto or an end of the job: the next checkpoint tells what checkpoints have cost. Not collective. */
void vv_session_note_cost(struct vv_session *session);
/* Seconds until the end of the job; INFINITY: nobody has said when. Of this rank; not collective. */
double vv_session_time_left(const struct vv_session *session);

#endif
