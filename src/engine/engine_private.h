/* What the files of engine/ share. */
#ifndef VV_ENGINE_PRIVATE_H
#define VV_ENGINE_PRIVATE_H

#include "dedup/exchange.h"
#include "dedup/fine.h"
#include "base/processors.h"
#include "encode/choice.h"
#include "engine/engine.h"
#include "engine/read.h"
#include "engine/team.h"
#include "store/pack_writer.h"

/* Does varve_checkpoint return before everything is stored? */
static inline int vv_is_in_background(const struct vv_session *session) {
    return session->capturing != VV_CHOOSE_CAPTURE_SYNC;
}

/* May it be larger than memory? Then nothing is kept for each of its granules. */
static inline int vv_region_is_large(const struct vv_region *region) {
    return region->is_callback && (region->callbacks.flags & VARVE_LARGE);
}

/* May this be stored? A granule, or, without an id, a part of one. */
static inline int vv_is_chunk(uint64_t address, uint64_t size, struct vv_hash128 id) {
    uint64_t from = address % VV_CHUNK;
    return size > 0 && size <= VV_CHUNK - from && (from == 0 || vv_hash128_is_zero(id));
}

/* How the bytes that may lie between the program and the storage are shared out. */
struct vv_room {
    uint32_t block_size;
    unsigned blocks;
    uint64_t staging; /* bytes for copies of chunks */
};

/* ---- writing.c: what a writer does for one attempt: its pack, and the blocks on their way into it. For a rank that writes by itself, and
 * for the writer of a team ---- */
struct vv_writing_plan {
    struct vv_attempt attempt, parent;
    uint32_t writer, writers;
    uint32_t first_owner, owners;
    uint32_t block_size;
    unsigned blocks;
    struct vv_pool *pool;
    unsigned threads; /* of the pool */
    struct vv_known_order *orders; /* of the writer of a team; else NULL */
};
struct vv_writing {
    struct vv_session *session;
    struct vv_writing_plan plan;
    struct vv_pack_writer *pack;
    struct vv_blocks *blocks;
    struct vv_processors processors; /* as they were when the pack was begun */
    uint64_t looked;                 /* bytes that were hashed for it */
    char grouping[32];
};
/* When it fails, vv_writing_end is still to be called. */
int vv_writing_begin(struct vv_writing *writing, struct vv_session *session, const struct vv_writing_plan *plan,
                     struct varve_error *error);
/* All blocks are written; the first error of any. */
int vv_writing_finish(struct vv_writing *writing, struct varve_error *error);
/* The pack is sealed: its yes. stats gets what is known of it. */
int vv_writing_seal(struct vv_writing *writing, uint64_t protected_bytes, uint64_t regions, struct varve_stats *stats,
                    struct varve_error *error);
void vv_writing_end(struct vv_writing *writing); /* whatever became of it */

/* ---- encoding.c: how blocks are encoded: what the settings and this machine say about it ---- */
/* Of zstd. */
int vv_encoding_level(const struct vv_session *session);
/* A pack is begun. */
void vv_encoding_begin(struct vv_writing *writing);
/* It is sealed: what was chosen, and what that tells for the next. */
void vv_encoding_end(struct vv_writing *writing, struct varve_stats *stats);

/* ---- outlet.c: where a rank's new data goes: into the pack it writes itself, or to the writer of its team ---- */
struct vv_outlet {
    int is_begun;
    struct vv_writing writing; /* by itself */
    struct vv_client client;   /* in a team */
    struct vv_variable variable; /* of the data that comes now */
    const struct vv_past *past;
};
/* In the call, before anything else of an attempt. */
int vv_outlet_begin(struct vv_save *save, struct varve_error *error);
/* There is something to store: a rank by itself begins its pack now. */
int vv_outlet_open(struct vv_save *save, struct varve_error *error);
/* So much is about to come, as far as is known. rc: how this rank has fared so far. Collective with several nodes. */
int vv_outlet_expect(struct vv_save *save, int rc, uint64_t bytes, struct varve_error *error);
/* Data of this region follows; NULL: of another rank, and nobody knows what it holds. */
void vv_outlet_region(struct vv_save *save, const struct vv_past *past);
int vv_outlet_add(struct vv_save *save, uint32_t owner, uint64_t address, const void *data, uint32_t size,
                  struct vv_hash128 id);
/* If the writer of this rank has failed: why. Returns the code to go on with, else rc. */
int vv_outlet_explain(struct vv_save *save, int rc, struct varve_error *error);
/* Take steps until there are none left; where ranks exchange data meanwhile, copies or what levels the nodes, it is collective. rc: how this rank has fared
 * so far. */
int vv_outlet_consume(struct vv_save *save, int rc, int (*step)(struct vv_save *save, struct varve_error *error),
                      struct varve_error *error);
/* All data was added, or it has failed with rc; when that was the writer's doing, its own error is told. */
int vv_outlet_finish(struct vv_save *save, int rc, struct varve_error *error);
/* What the manifest leans on. *out is the list it must be written for: the same, or that of all ranks of the team; ascending. */
int vv_outlet_leans(struct vv_save *save, const struct vv_lean *leans, uint32_t count, struct vv_buf *out,
                    struct varve_error *error);
int vv_outlet_manifest_begin(struct vv_save *save, const struct vv_manifest_head *head, struct varve_error *error);
int vv_outlet_manifest_add(struct vv_save *save, const void *data, size_t size, struct varve_error *error);
int vv_outlet_manifest_end(struct vv_save *save, struct vv_hash128 *digest_out, struct varve_error *error);
/* Our yes, or that of our team's writer. */
int vv_outlet_seal(struct vv_save *save, struct varve_error *error);
/* Whatever became of it, and more than once. */
void vv_outlet_end(struct vv_save *save);

/* ---- scan.c: one region of a save ---- */
struct vv_save;

struct vv_scan {
    struct vv_save *save;
    struct vv_past *past;
    struct vv_watch *watch; /* the region's when it began: the program may let go of it meanwhile. NULL: it has none */
    uint64_t size;       /* of the region now */
    uint64_t granules;   /* now */
    uint64_t comparable; /* granules below this have the same bounds as in the past */
    int is_blank;        /* no ids of the past are there, or none shall be: every granule is looked at */
    size_t named_first, named_count; /* its part of the naming, if there is one */
    double grid; /* its values are stored as multiples of this; 0: as they are */
    int is_full; /* every granule is stored, whatever is known of it */
    struct vv_fine fine; /* chunk 0: its granules are stored whole */
};
int vv_scan_begin(struct vv_scan *scan, struct vv_save *save, struct vv_past *past, uint64_t size);
/* Chunks [first, last) were never touched. */
int vv_scan_untouched(struct vv_scan *scan, uint64_t first, uint64_t last);
/* The id that a granule has now; once for each. 0 or -ENOMEM. */
int vv_scan_new_id(struct vv_scan *scan, uint64_t index, struct vv_hash128 id);
/* Look at chunks [first, first + count) and hand new ones to the blocks. */
int vv_scan_piece(struct vv_scan *scan, uint64_t first, uint32_t count, const uint8_t *data);
/* A window of a region that lies behind callbacks, from *at on, which moves behind it. */
int vv_scan_callback(struct vv_scan *scan, const struct vv_region *region, uint64_t *at, struct varve_error *error);
/* The same in two steps, with other ranks asked in between: give a chunk its id, and a place in the naming if it may be new (1; 0 if there is nothing
 * to store) ... */
int vv_scan_name(struct vv_scan *scan, uint64_t index, const uint8_t *data);
/* ... and hand those of these chunks to the blocks that are ours to store. */
int vv_scan_write(struct vv_scan *scan, uint64_t first, uint32_t count, const uint8_t *data, struct varve_error *error);

/* Is an unreported chunk as it was in the last checkpoint? 1 also if nobody knows. Before, with others between: lets what is
 * known of it come from memory; returns its size. */
uint32_t vv_scan_prefetch(const struct vv_scan *scan, uint64_t index);
int vv_scan_is_same(struct vv_scan *scan, uint64_t index, const uint8_t *data);

/* ---- reachable.c: -EFAULT, and the region's name, if the memory of a wanted one cannot be written ---- */
int vv_regions_reachable(const struct vv_session *session, int (*is_wanted)(const void *arg, size_t slot),
                         const void *arg, struct varve_error *error);

/* ---- audit.c: are the trackers right? ---- */
/* After vv_capture_begin, in the call. -EFAULT: a tracker has missed a change; the region is named, and looked at whole from then on. */
int vv_audit(struct vv_save *save, struct varve_error *error);
/* A call has taken so much of the processor. */
void vv_audit_learn(struct vv_session *session, double seconds);

/* ---- scan_fine.c: where a granule has changed, only what is new in it is stored ---- */
/* A granule that differs and that nobody knows as a whole: find what is new in it, store that, and note where everything is. */
int vv_scan_fine(struct vv_scan *scan, uint64_t index, const uint8_t *data, uint32_t size, struct vv_hash128 id,
                 const struct vv_hash128 *fine_ids /* of its chunks; NULL: they are not known yet */);
/* How long fine chunks take: every eighth granule stands for all, or the clock would take its share. */
#define VV_FINE_TIMED 8u
static inline uint64_t vv_fine_clock(uint64_t index) {
    return index % VV_FINE_TIMED == 0 ? vv_clock_thread_ns() : 0;
}
static inline uint64_t vv_fine_took(uint64_t index, uint64_t begun) {
    return index % VV_FINE_TIMED == 0 ? (vv_clock_thread_ns() - begun) * VV_FINE_TIMED : 0;
}
/* Is none of it known, so that it may as well be stored whole? */
int vv_scan_fine_is_new(struct vv_scan *scan, uint64_t index, const uint8_t *data, uint32_t size);
/* It is known or stored elsewhere, as a whole. */
void vv_scan_fine_keep(struct vv_scan *scan, uint64_t index, const uint8_t *data, uint32_t size);
/* It is stored whole. */
void vv_scan_fine_note(struct vv_scan *scan, uint64_t index, const uint8_t *data, uint32_t size);

/* ---- fine_choice.c: how finely regions are looked at, and what is remembered of them ---- */
/* The save is about to begin: how much may be remembered, and what may be referred to. 0 or -ENOMEM. */
int vv_fine_prepare(struct vv_save *save);
void vv_scan_fine_begin(struct vv_scan *scan);
/* It was committed: what the samples say for the next. */
void vv_fine_judge(struct vv_save *save);
void vv_fine_say(const struct vv_save *save, struct varve_stats *stats);
/* How many fine chunks of so much protected memory may be remembered. */
uint64_t vv_fine_room(const struct vv_session *session, uint64_t protected_bytes);
/* After a restart: what was restored has been seen. */
void vv_fine_refill(struct vv_session *session);

/* ---- device.c: regions in the memory of a device ---- */
/* A part of such a region, from *at on, which moves behind it. */
int vv_scan_device(struct vv_scan *scan, const struct vv_region *region, uint64_t *at, struct varve_error *error);
/* Devices are told how the last attempt ended. In the thread of the program; nothing is in flight. */
void vv_devices_settle(struct vv_session *session);
/* Our history is not what they remember. */
void vv_devices_lose_step(struct vv_session *session);
void vv_device_restored(struct vv_session *session, const struct vv_region *region, const struct vv_past *past);
void vv_device_leave(struct vv_region *region); /* if it is one */
/* Bytes of its chunks. */
uint32_t vv_device_chunk(const struct vv_session *session, const struct vv_region *region);

/* ---- naming.c: the chunks that this rank would have to store, named before anybody stores one ---- */
struct vv_named {
    uint64_t index; /* granule of its region */
    uint32_t scan;  /* its region, by its slot in the save's scans */
    uint32_t offer; /* VV_NAMED_FINE and a number in fine_ids: it is not offered, but stored here, finely */
};
#define VV_NAMED_FINE (UINT32_C(1) << 31)
/* A chunk of another rank that is stored here as its copy, from our own memory. */
struct vv_stand_in {
    uint32_t offer;
    uint32_t owner;
    uint64_t address;
};
struct vv_naming {
    struct vv_named *list; /* those of a region together, ascending */
    size_t count, room;
    struct vv_offer *offers; /* each id once, with the address of the first chunk that has it */
    uint8_t *fates;          /* per offer, once it is known: enum vv_fate bits */
    size_t offer_count, offer_room;
    uint32_t *map; /* from ids to offers, + 1; open addressing */
    size_t map_size;
    struct vv_stand_in *stand_ins; /* by offer */
    size_t stand_in_count;
    struct vv_hash128 *fine_ids; /* of granules that are stored finely */
    size_t fine_count, fine_room;
    int is_copied; /* named from copies that nobody can write meanwhile, */
    int is_stable; /* and that will come again as they were */
    size_t written; /* of the list, once it is settled */
};
enum vv_fate { VV_FATE_STORE = 1, VV_FATE_STAND_IN = 2, VV_FATE_HELD_BY = 4 /* << j: partner j has it itself */ };
int vv_naming_add(struct vv_naming *naming, struct vv_scan *scan, uint64_t index, struct vv_hash128 id, uint32_t size);
/* It is stored here, whatever the others hold. */
int vv_naming_add_fine(struct vv_naming *naming, struct vv_scan *scan, uint64_t index, struct vv_hash128 id);
/* The offer with this id, or UINT32_MAX. */
uint32_t vv_naming_find(const struct vv_naming *naming, struct vv_hash128 id);
/* The verdicts are there: origins for all named chunks. What is not to be stored here leaves the list. */
int vv_naming_settle(struct vv_save *save, const struct vv_verdict *verdicts);
/* It need not be captured. */
void vv_naming_spare(struct vv_save *save, struct vv_watch *watch, uint64_t index);
/* The first named chunk of a region from this granule on; NULL: none. */
const struct vv_named *vv_naming_at(const struct vv_naming *naming, const struct vv_scan *scan, uint64_t index);
void vv_naming_clear(struct vv_naming *naming);

/* ---- sharing.c: what several ranks hold is stored once. Collective. ---- */
int vv_sharing_open(struct vv_session *session, struct varve_error *error);
void vv_sharing_close(struct vv_session *session); /* not collective */
/* Will the checkpoint that begins now be compared with other ranks? The same answer everywhere. */
int vv_sharing_is_due(struct vv_session *session);
/* Name everything that was captured, ask the other ranks, and settle who stores what. rc: how this rank has fared so far; nobody is left waiting
 * for one that has failed. */
int vv_sharing_run(struct vv_save *save, int rc, struct varve_error *error);
/* Sources have got other numbers: nothing from before counts. Not collective. */
void vv_sharing_forget(struct vv_session *session);

/* ---- rounds.c: ranks pass chunks to other ranks while they consume what they have captured ---- */
/* One step of consuming: 1 and there may be more, 0 when there is no more, or an error. */
typedef int (*vv_step_fn)(struct vv_save *save, struct varve_error *error);
/* 0 or -ENOMEM; vv_rounds_close in both cases. The lists are copied. */
int vv_rounds_open(struct vv_rounds *rounds, const uint32_t *to, uint32_t to_count, const uint32_t *from,
                   uint32_t from_count);
void vv_rounds_close(struct vv_rounds *rounds);
struct vv_taking {
    struct vv_save *save;
    struct vv_rounds *rounds;
    int rc; /* how this rank has fared so far; nothing is taken after a failure, but everybody is heard */
    struct varve_error *error;
    int (*take)(struct vv_taking *taking, uint32_t rank, const uint8_t *data, size_t size);
};
/* Take steps until there are none left, sending what they put into rounds->sending and taking what comes, until all are over. An error of the group,
 * or taking->rc. */
int vv_rounds_run(struct vv_taking *taking, vv_step_fn step);
/* One round by hand: begin, fill rounds->sending, and send and take once. An error of the group; that of a message is in taking->rc. */
void vv_rounds_begin(struct vv_rounds *rounds);
int vv_rounds_once(struct vv_taking *taking);
int vv_rounds_is_empty(const struct vv_buf *message); /* nothing was put into it yet */
void vv_rounds_clear(struct vv_rounds *rounds); /* memory of messages */
/* The number of this rank among those who send to us. */
uint32_t vv_rounds_from(const struct vv_rounds *rounds, uint32_t rank);

/* ---- moves.c: levelling between nodes ---- */
struct vv_move_target {
    uint32_t writer; /* of the rank that takes it */
    struct vv_variable told;
};
struct vv_moves {
    int is_on, is_running;
    uint32_t count; /* of targets */
    struct vv_move_target *targets;
    struct vv_share *shares;
    uint32_t *ranks;
    struct vv_rounds rounds;
    uint64_t expected, seen; /* of our own bytes */
    uint64_t left;           /* until it is decided anew where they go, */
    uint32_t target;         /* which is here; count: they stay */
    struct vv_variable variable; /* of what is being taken */
};
/* How much goes where. amount: what this rank has; becomes what its writer will get from it. rc: how this rank has fared so far. Collective where ranks may move data, the same
 * code everywhere then. */
int vv_moves_plan(struct vv_save *save, int rc, uint64_t *amount, struct varve_error *error);
/* Take steps, and pass chunks on and take some meanwhile. Collective. */
int vv_moves_consume(struct vv_save *save, int rc, vv_step_fn step, struct varve_error *error);
/* Is this chunk passed on? 1 then, 0, or an error. */
int vv_moves_take(struct vv_save *save, const struct vv_variable *variable, const struct vv_say_chunk *chunk,
                  const void *data, struct varve_error *error);
void vv_moves_end(struct vv_save *save);

/* ---- copies.c: everything is kept on several nodes. Collective where it says so. ---- */
/* Who keeps copies for whom. 0 or -ENOMEM, which the ranks must yet agree upon; collective all the same. */
int vv_copies_open(struct vv_session *session, struct varve_error *error);
void vv_copies_close(struct vv_session *session);
/* Take steps, and exchange copies meanwhile. Collective. */
int vv_copies_consume(struct vv_save *save, int rc, vv_step_fn step, struct varve_error *error);
/* Store a chunk of ours, and let the partners have it. */
int vv_copies_store(struct vv_save *save, uint64_t address, const void *data, uint32_t size, struct vv_hash128 id);
/* Store the chunk of offer `number`, as ours or as another rank's copy. */
int vv_copies_write(struct vv_save *save, uint32_t number, const void *data);
/* The partners say which of our chunks they hold themselves. Collective; the same code everywhere. */
int vv_copies_agree(struct vv_save *save, int rc, struct varve_error *error);
/* Our pack is sealed: the partners keep its tables, too. Collective if there are copies. */
int vv_copies_tables(struct vv_save *save, int rc, struct varve_error *error);

/* ---- emptying.c: old attempts are emptied ---- */
/* Which, and how much of them. rc: how this rank has fared so far, and what is returned unless that was 0. Collective. */
int vv_emptying_plan(struct vv_save *save, int rc, struct varve_error *error);
/* Chunks that have not changed are not looked at, but for those of the victims. */
void vv_emptying_look(struct vv_save *save);
/* May so many bytes be stored again? They are taken off the budget. */
int vv_emptying_take(struct vv_save *save, uint32_t size);
/* Before a commit is accepted: what will die with it. */
void vv_emptying_note(struct vv_save *save);

/* ---- save.c: this rank's part of one attempt, up to its yes ---- */
struct vv_save {
    struct vv_session *session;
    struct vv_attempt attempt;
    uint32_t source; /* our slot in the history */
    uint8_t *is_victim; /* per source: its live bytes are stored again, as far as */
    uint64_t rewrite_left; /* this goes */
    struct vv_room room;
    struct vv_scan *scans; /* one per region */
    size_t asked;            /* regions whose callbacks have been asked, */
    uint64_t asked_at;       /* and up to where in the next */
    int is_shared;           /* it is compared with other ranks */
    int is_shared_behind;    /* in the background */
    struct vv_naming naming; /* if it is */
    uint64_t fixed_bytes;    /* stored whatever the others say; */
    uint64_t fixed_rewritten; /* stored again */
    uint8_t *is_usable;      /* per source: fine chunks may be referred to there; NULL: no region is looked at finely */
    struct vv_fine_counts fine_counts;
    uint64_t fine_ns;
    uint64_t mark_bytes;
    int has_devices; /* some were asked */
    const char *fine_why; /* of the largest region that is looked at finely, if there is one */
    uint8_t rounded[VV_CHUNK]; /* a chunk of a region with a grid, as it is stored; or a copy of one that is named */
    int is_gathered;         /* our team's writer writes it */
    struct vv_moves moves;
    struct vv_outlet outlet;
    struct vv_digest_state *manifest; /* of the one that is being passed on */
    struct vv_hash128 manifest_digest;
    struct vv_stats_sums {
        uint64_t protected_bytes, looked, changed, zero, known, fresh, rewritten, chunks_new, elsewhere, copied;
    } sums;
    uint64_t layout_end; /* becomes the history's when committed */
    uint64_t regions;
    int is_base;
    uint64_t base_bytes;     /* of the manifest, if it is one, */
    uint64_t manifest_bytes; /* and as it is stored */
    size_t ids_room;         /* places in the table of ids */
    struct vv_recipe_layers layers; /* those of the manifest written */
    uint64_t *live;                 /* bytes each source holds after the commit */
    uint64_t begun_ns, sealed_ns;
    struct varve_stats stats; /* what this part knows of them */
    int result; /* of this rank, and why */
    struct varve_error error;
};
/* In the call: what there is to save is captured when it returns 0; with capture=sync it is stored, too. */
int vv_save_prepare(struct vv_save *save, struct varve_error *error);
/* The rest, in the background: save->result and error tell how it went. */
void vv_save_write(struct vv_save *save);
/* The attempt was committed, or it was not; frees what the save holds. */
void vv_save_accept(struct vv_save *save, struct vv_hash128 writers_digest);
void vv_save_drop(struct vv_save *save);
/* What our history refers to may be gone: begin with a whole checkpoint. */
void vv_begin_anew(struct vv_session *session);

/* How many ids the table may remember. */
size_t vv_ids_room(const struct vv_session *session, uint64_t protected_bytes);

/* ---- request.c ---- */
/* All ranks have written their parts: the record, or the end of the attempt. Collective. */
void vv_request_finish(struct vv_session *session);

/* ---- flight.c: the thread that writes while the program goes on ---- */
int vv_flight_open(struct vv_session *session, struct varve_error *error);
void vv_flight_close(struct vv_session *session); /* what is in flight has landed; accepts a session without */
void vv_flight_start(struct vv_session *session); /* session->save is prepared */
/* The capture belongs to the caller's thread alone, until it starts a flight or gives it back. */
void vv_flight_occupy(struct vv_session *session);
void vv_flight_rest(struct vv_session *session);
/* Nothing is in flight afterwards. Collective when something was. */
void vv_flight_land(struct vv_session *session);
/* The request's outcome is known afterwards. Its upkeep may still be in flight: what touches more than the request lands first. Collective
 * like land. */
void vv_flight_wait(struct vv_session *session);
/* With the lock: the outcome is known. */
void vv_flight_tell(struct vv_session *session);
/* For what the caller's thread says to the others, also while something is in flight. */
struct varve_comm *vv_comm_of_caller(const struct vv_session *session);
/* 1 if wait would not wait, on any rank, or an error of the group. Collective. */
int vv_flight_test(struct vv_session *session);
/* The background thread keeps off the capture between these. */
void vv_flight_lock(struct vv_session *session);
void vv_flight_unlock(struct vv_session *session);
/* With the lock: there is something to watch. */
void vv_flight_sample(struct vv_session *session);

/* ---- protect.c ---- */
/* Regions have watches, and watches of regions that are gone are gone. Nothing is in flight. 0 or -ENOMEM. */
int vv_watch_regions(struct vv_session *session);
/* Forget all watches: the memory will be written by us, or the history does not fit them any more. Nothing is in flight. */
void vv_unwatch_regions(struct vv_session *session);
/* Regions that move are asked where they are. In the caller's thread; nothing is in flight. 0, or why not. */
int vv_ask_regions(struct vv_session *session, struct varve_error *error);

/* ---- upkeep.c: after a commit; nothing here can fail the checkpoint. Collective. ---- */
void vv_upkeep(struct vv_session *session);

/* recipe_write.c: leans and manifest. */
int vv_recipe_write(struct vv_save *save, const uint64_t *live, struct varve_error *error);

/* read.c: say in which region it was. Returns rc. */
int vv_error_in_region(struct varve_error *error, int rc, const char *region);
/* read.c: like vv_region_stream, and gives the ids of the granules (ids may be NULL) and the region's origins (may be
 * NULL) as a history wants them. */
int vv_region_take(struct vv_view *view, struct vv_recipe *recipe, const struct vv_recipe_region *region,
                   uint64_t seed, size_t window, struct vv_pool *pool, vv_bytes_fn fn, void *arg,
                   struct vv_hash128 *ids, struct vv_origins *origins, struct varve_error *error);
/* The origin a run stands for; sources of the view are slots of the history. */
struct vv_origin vv_origin_of(const struct vv_run *run);
/* Ids of granules [first, ...) of `size` bytes at data, and what they add to the digest. */
struct vv_hash128 vv_ids_take(uint64_t seed, uint64_t first, const uint8_t *data, uint64_t size,
                              struct vv_hash128 *ids);

/* ---- session.c: looking for what another rank has made: some file systems show a new file to other hosts a little
 * late ---- */
#define VV_LOOKS 12
/* Before look 0, 1, ...: not at all, then 10 ms, each time twice as long, up to a second. */
void vv_wait_before(int look);
/* The name of this host, "?" if it has none. */
void vv_read_host(char *out, size_t room);

/* ---- first_run.c ---- */
/* No checkpoint was found: rank 0's log tells once what was looked for, and what is there instead. Not collective. */
void vv_tell_first_run(struct vv_session *session);

/* ---- choose.c ---- */
/* Open a checkpoint whose record a keeper has read. Not to find it here is an error, never "there is none". */
int vv_open_named(struct vv_session *session, struct vv_store *store, uint32_t generation, uint64_t version,
                  struct vv_view **out, struct varve_error *error);

struct vv_peers;
/* The storage as the job sees it. Collective; nothing is in flight. */
int vv_open_peers(struct vv_session *session, struct vv_peers **out, struct varve_error *error);

/* ---- keepers.c: what the ranks that hold a lease do for all. Collective, the same answer on all ranks. ---- */
/* One store per node? */
int vv_is_local(const struct vv_session *session);
/* All packs are durable: make the attempt a checkpoint. Codes as vv_commit. */
int vv_keepers_commit(struct vv_session *session, const struct vv_attempt *attempt, struct vv_hash128 *digest_out,
                      struct varve_error *error);
/* access.c: claim the next generation, or go without where nothing may or can be written; the same on all ranks. */
int vv_access_open(struct vv_session *session, uint64_t above, struct varve_error *error);
/* Before a checkpoint is chosen to go on from: a session without a claim tries for one again. Collective. */
int vv_access_choose(struct vv_session *session, struct varve_error *error);
/* Before checkpoints are listed: remembers the newest record, if the session may come to save later. Collective. */
void vv_access_look(struct vv_session *session);
/* The newest record of this keeper's store; generation 0 if there is none. */
int vv_newest_record(struct vv_session *session, struct vv_attempt *out, struct varve_error *error);
/* -EROFS if the session was asked to read only. The same on all ranks. */
int vv_access_refuse(struct vv_session *session, struct varve_error *error);
/* Before a checkpoint: 0 if the session has its claim, perhaps since now; else why it cannot save. Collective. */
int vv_access_write(struct vv_session *session, struct varve_error *error);
/* session.c: all keepers claim the generation above the highest, or fail. */
int vv_claim_together(struct vv_session *session, uint64_t above, struct varve_error *error);
/* Finish what a dead session had fully written. */
int vv_keepers_adopt(struct vv_session *session, struct varve_error *error);
/* Everybody's buf becomes root's. */
int vv_share_bytes(struct varve_comm *comm, struct vv_buf *buf, uint32_t root, struct varve_error *error);

/* ---- unsettled.c: commits that failed half-way on node-local stores. Each rank for itself; nothing here can fail.
 * ---- */
void vv_unsettled_add(struct vv_session *session, const struct vv_attempt *attempt);
/* The parent is a checkpoint on all nodes. */
void vv_unsettled_drop(struct vv_session *session);
/* A newer checkpoint is on all nodes: a keeper forgets the records of those that failed. */
void vv_unsettled_forget(struct vv_session *session);

/* ---- complete.c: may this checkpoint be read from node-local stores? Collective, the same answer on all ranks. ---- */
/* It must be the same one on all nodes, and every rank's part must be on some node, or copies of it: otherwise
 * VARVE_CORRUPT. Then its record is copied to the nodes that have missed it. VARVE_FORGOTTEN when one node has
 * forgotten it; the others do so, too. Does nothing on shared storage. is_thin_out: something that
 * belongs to it is there fewer times than it should be. */
int vv_keepers_complete(struct vv_session *session, struct vv_peers *peers, uint32_t generation, uint64_t version,
                        int *is_thin_out, struct varve_error *error);

/* ---- lost.c: what is told when regions are lost ---- */
struct vv_lost {
    size_t count;
    char names[256]; /* the first of them */
};
void vv_lost_add(struct vv_lost *lost, const char *region);
/* All regions that are protected. */
void vv_lost_add_all(struct vv_lost *lost, const struct vv_session *session);
/* VARVE_CORRUPT; also into this rank's log. */
int vv_lost_say(const struct vv_session *session, const struct vv_lost *lost, uint64_t version,
                struct varve_error *error);

/* ---- restart.c: from one candidate; arg is a struct vv_restart_options. Collective, the same answer on all ranks.
 * ---- */
int vv_try_restart(struct vv_session *session, const void *arg, uint32_t generation, uint64_t version,
                   struct varve_error *error);

/* ---- continue.c: the same without reading; arg is not used ---- */
int vv_try_continue(struct vv_session *session, const void *arg, uint32_t generation, uint64_t version,
                    struct varve_error *error);

/* ---- candidate.c: what restarting and continuing have in common ---- */
/* A keeper names the checkpoint in its beat before anybody reads it: from now on nobody forgets it. Whoever was
 * faster shows when the view is opened. Collective. */
int vv_candidate_name(struct vv_session *session, uint32_t generation, uint64_t version, struct varve_error *error);
/* Open it, if it is of as many ranks as this job has. */
int vv_candidate_open(struct vv_session *session, struct vv_store *store, uint32_t generation, uint64_t version,
                      struct vv_view **out, struct varve_error *error);
/* What it may lean on becomes the sources of an empty history; slots are the view's numbers of sources. */
int vv_candidate_sources(struct vv_view *view, struct vv_history *history, struct varve_error *error);
/* Put the ids that are stored for this rank's regions into the table; has room for as many as these bytes may take. */
int vv_candidate_learn(const struct vv_session *session, struct vv_view *view, struct vv_history *history,
                       struct varve_error *error);
/* Where something is kept fewer times than it should be, the next checkpoint shall stand on its own, with all copies.
 * Collective. */
int vv_candidate_judge(struct vv_session *session, struct vv_view *view, int is_thin, struct varve_error *error);
/* The beats name it, in a generation where nothing was tried yet. Collective. */
int vv_candidate_begin(struct vv_session *session, struct vv_view *view, struct varve_error *error);
/* All ranks agree: the session goes on from it. The history is taken, and empty afterwards. */
void vv_candidate_take(struct vv_session *session, struct vv_view *view, struct vv_history *history);
/* It did not work out: the beats name the former parent again. */
void vv_candidate_leave(struct vv_session *session);

/* ---- ahead.c: load the tables that a rank's regions need, many at a time; nothing here can fail ---- */
void vv_load_ahead(struct vv_view *view, uint32_t rank, struct vv_pool *pool);

/* ---- check.c: what a restart has read must have the digests that were stored ---- */
struct vv_check {
    struct vv_pool *pool;
    uint64_t seed;
    struct vv_buf strips, pasts; /* begin as zeros */
};
/* Plan to hash a region, whose past has its origins, length and digest; its ids are filled in. 0 or -ENOMEM. The past
 * must stay where it is. */
int vv_check_region(struct vv_check *check, struct vv_past *past, const void *memory);
/* Hash all planned; VARVE_CORRUPT when a digest differs. */
int vv_check_run(struct vv_check *check, struct varve_error *error);
void vv_check_clear(struct vv_check *check);

#endif
