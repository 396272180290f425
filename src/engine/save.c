/* Saving: this rank's part of one attempt, from the plan to the sealed pack. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/match.h"
#include "engine/engine_private.h"

#define STAGING_LEAST (12u << 20)
#define MEMORY_LEAST (1u << 20) /* for copies and blocks, whatever the ceiling */
#define BESIDE (10u << 20) /* four buffers of the storage, a huge page each; an open block, samples, small pieces */
#define CHUNK_BYTES 56u /* of memory per chunk: its id, before and after, and that in the pack's table */
#define OFFER_BYTES 80u /* more where other ranks are asked for it */
#define IDS_MORE 256u /* places: in a small table chance would leave some out */
#define BLOCK_LEAST (64u << 10)
#define SPEED_LEAST (8u << 20) /* bytes stored that tell how fast checkpoints are stored */

static uint64_t round_up(uint64_t size) {
    return (size + VV_CHUNK - 1) & ~(uint64_t)(VV_CHUNK - 1);
}

/* ---- plan ---- */

static int ask_length(struct vv_region *region, struct varve_error *error) {
    if (!region->is_callback)
        return 0;
    int rc = region->callbacks.length(region->arg, &region->size);
    if (rc)
        return vv_error(error, rc < 0 ? rc : -EIO, "region %s: its length callback returned %d", region->name, rc);
    return 0;
}

static int plan_region(struct vv_save *save, struct vv_region *region, struct varve_error *error) {
    struct vv_history *history = &save->session->history;
    int rc = ask_length(region, error);
    if (rc)
        return rc;
    if (region->size >= VV_ADDRESS_END)
        return vv_error(error, -EFBIG, "region %s: %" PRIu64 " bytes are more than a region can have", region->name,
                        region->size);
    struct vv_past *past = vv_history_find(history, region->number);
    if (!past)
        past = vv_history_add(history, region->number, region->name);
    if (!past)
        return vv_error(error, -ENOMEM, "no memory for the history of region %s", region->name);
    if (past->variable == 0)
        past->variable = vv_match_name(save->session->match, region->name);
    past->is_gone = 0;
    past->pending_length = region->size;
    past->pending_address = past->address;
    past->pending_slot = past->slot;
    past->pending_digest = past->digest;
    past->pending_nameless = vv_region_is_large(region);
    if (past->is_new || past->slot < round_up(region->size)) {
        past->is_moved = !past->is_new;
        past->pending_address = save->layout_end;
        past->pending_slot = round_up(region->size);
        save->layout_end += past->pending_slot;
    }
    vv_array_drop(past->pending_array);
    int fits = region->array && vv_array_is_of(region->array, region->size);
    past->pending_array = vv_array_hold(fits ? region->array : NULL);
    past->is_retold = !past->is_new && !vv_array_equal(past->array, past->pending_array);
    save->regions++;
    save->sums.protected_bytes += region->size;
    return 0;
}

/* Of those that are there. */
static uint64_t large_bytes(const struct vv_session *session) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < session->regions.count; i++)
        if (session->regions.list[i].name && vv_region_is_large(&session->regions.list[i]))
            bytes += session->regions.list[i].size;
    return bytes;
}

/* A share of the protected memory, but never of more memory than the machine has: reserved space is not data. Chunks of
 * large regions are known from here alone, so they count twice. */
size_t vv_ids_room(const struct vv_session *session, uint64_t protected_bytes) {
    protected_bytes += large_bytes(session);
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    double bytes = (double)(protected_bytes < memory ? protected_bytes : memory);
    double room = session->settings.table_share * bytes / sizeof(struct vv_known);
    return room > 0 ? (size_t)room + IDS_MORE : 0;
}

static int plan(struct vv_save *save, struct varve_error *error) {
    struct vv_session *session = save->session;
    struct vv_history *history = &session->history;
    vv_regions_pack(&session->regions);
    for (size_t i = 0; i < history->count; i++)
        history->list[i].is_gone = 1;
    save->layout_end = history->layout_end;
    for (size_t i = 0; i < session->regions.count; i++) {
        int rc = plan_region(save, &session->regions.list[i], error);
        if (rc)
            return rc;
    }
    save->ids_room = vv_ids_room(session, save->sums.protected_bytes);
    /* A table that cannot grow only finds fewer duplicates. */
    if (vv_table_resize(&history->table, save->ids_room) != 0)
        vv_log(&session->log, VV_LOG_INFO, "no memory for a larger table of ids: some duplicates will be stored again");
    return 0;
}

static double bound_of(const struct vv_array *array) {
    return array ? array->bound : 0;
}

/* Chunks that were rounded in another way, or shall be now, differ from what is stored although nobody wrote them. */
static int is_rounded_anew(const struct vv_past *past) {
    double before = bound_of(past->array), now = bound_of(past->pending_array);
    return past->is_retold && (before != now || (now > 0 && past->array->type != past->pending_array->type));
}

/* These, and with fine_method=full all. */
static void look_at_rounded(struct vv_save *save) {
    const struct vv_session *session = save->session;
    for (size_t i = 0; i < session->regions.count; i++) {
        const struct vv_region *region = &session->regions.list[i];
        if (region->watch && (save->scans[i].is_full || is_rounded_anew(save->scans[i].past)))
            vv_capture_mark(session->capture, region->watch, 0, region->size);
    }
}

/* ---- room ---- */

/* What the ceiling leaves for copies and blocks when every chunk changes: the rest cannot be made smaller. */
static uint64_t below_ceiling(const struct vv_save *save, uint64_t all) {
    const struct vv_session *session = save->session;
    const struct vv_settings *settings = &session->settings;
    uint64_t large = large_bytes(session), all_bytes = save->sums.protected_bytes;
    uint64_t chunks = (all_bytes > large ? all_bytes - large : 0) / VV_CHUNK; /* of large ones nothing is kept */
    uint64_t other = BESIDE + chunks * (CHUNK_BYTES + (session->comm->ranks > 1 ? OFFER_BYTES : 0)) +
                     save->ids_room * sizeof(struct vv_known);
    uint64_t left = settings->memory > other ? settings->memory - other : 0;
    left = left < MEMORY_LEAST ? MEMORY_LEAST : left;
    return settings->memory > 0 && left < all ? left : all;
}

/* The blocks on their way to storage are copies, too: they take up to a quarter of the staging. */
static void share_out(struct vv_save *save) {
    const struct vv_settings *settings = &save->session->settings;
    struct vv_room *room = &save->room;
    uint64_t all = settings->staging;
    if (all == 0) {
        all = (uint64_t)(settings->staging_share * (double)save->sums.protected_bytes);
        all = all < STAGING_LEAST ? STAGING_LEAST : all;
    }
    all = below_ceiling(save, all);
    room->blocks = settings->queue > 0 ? (unsigned)settings->queue : (unsigned)settings->threads + 2;
    room->block_size = (uint32_t)settings->block_size;
    if (save->session->capturing == VV_CHOOSE_CAPTURE_TRAP) { /* a page is processed when it is on its way to storage */
        room->block_size = BLOCK_LEAST;
        room->blocks = 2;
    }
    int is_bounded = vv_is_in_background(save->session) || settings->memory > 0;
    while (is_bounded && room->block_size > BLOCK_LEAST &&
           (uint64_t)room->block_size * room->blocks > all / 4)
        room->block_size /= 2;
    uint64_t taken = (uint64_t)room->block_size * room->blocks;
    room->staging = all > taken ? all - taken : 0;
}

/* ---- looking ---- */

static int look_at(struct vv_save *save, const struct vv_piece *piece, struct varve_error *error) {
    struct vv_scan *scan = piece->watch->user;
    int rc = vv_outlet_open(save, error);
    if (rc == 0)
        rc = save->is_shared ? vv_scan_write(scan, piece->first, piece->count, piece->data, error)
                             : vv_scan_piece(scan, piece->first, piece->count, piece->data);
    rc = vv_outlet_explain(save, rc, error);
    return rc ? vv_error_default(error, rc, "region %s could not be scanned: %s", scan->past->name, varve_error_text(rc))
              : 0;
}

/* One piece of what was captured. */
static int take_piece(struct vv_save *save, struct varve_error *error) {
    struct vv_capture *capture = save->session->capture;
    struct vv_piece piece;
    int rc = vv_capture_next(capture, &piece, error);
    if (rc <= 0)
        return rc;
    rc = look_at(save, &piece, error);
    vv_capture_done(capture, &piece);
    return rc ? rc : 1;
}

/* The same, while the call may not return. */
static int drain_piece(struct vv_save *save, struct varve_error *error) {
    return vv_capture_must_drain(save->session->capture) ? take_piece(save, error) : 0;
}

static int note_untouched(void *arg, struct vv_watch *watch, uint64_t first, uint64_t last) {
    (void)arg;
    return vv_scan_untouched(watch->user, first, last);
}

static int begin_scans(struct vv_save *save, struct varve_error *error) {
    struct vv_session *session = save->session;
    save->scans = vv_calloc(session->regions.count + 1, sizeof *save->scans);
    int rc = save->scans ? 0 : -ENOMEM;
    for (size_t i = 0; i < session->regions.count && rc == 0; i++) {
        const struct vv_region *region = &session->regions.list[i];
        struct vv_scan *scan = &save->scans[i];
        rc = vv_scan_begin(scan, save, vv_history_find(&session->history, region->number), region->size);
        vv_scan_fine_begin(scan);
        scan->watch = region->watch;
        if (scan->watch)
            scan->watch->user = scan;
    }
    return rc ? vv_error(error, rc, "no memory to begin a checkpoint") : 0;
}

/* A window of a region behind callbacks, which answer in the calling thread only. Their chunks are not offered to other ranks: they cannot be asked for
 * twice. */
static int ask_callback(struct vv_save *save, struct varve_error *error) {
    const struct vv_regions *regions = &save->session->regions;
    const struct vv_region *region = NULL;
    while (!region && save->asked < regions->count) {
        region = &regions->list[save->asked];
        if (region->is_callback && save->asked_at < save->scans[save->asked].size)
            break;
        region = NULL;
        save->asked++;
        save->asked_at = 0;
    }
    if (!region)
        return 0;
    int rc = vv_outlet_open(save, error);
    if (rc == 0)
        rc = (region->device ? vv_scan_device : vv_scan_callback)(&save->scans[save->asked], region, &save->asked_at,
                                                                  error);
    rc = vv_outlet_explain(save, rc, error);
    return rc ? vv_error_default(error, rc, "region %s could not be scanned: %s", region->name, varve_error_text(rc)) : 1;
}

static int begin_save(struct vv_save *save, struct varve_error *error) {
    struct vv_session *session = save->session;
    struct vv_source source = {.generation = save->attempt.generation,
                               .attempt = save->attempt.attempt,
                               .version = save->attempt.version};
    if (session->must_begin_anew)
        vv_begin_anew(session);
    int64_t slot = vv_history_source(&session->history, &source);
    if (slot < 0)
        return vv_error(error, (int)slot, "no memory to begin a checkpoint");
    save->source = (uint32_t)slot;
    int rc = plan(save, error);
    if (rc == 0 && vv_watch_regions(session) != 0)
        rc = vv_error(error, -ENOMEM, "no memory to begin a checkpoint");
    return rc;
}

/* When it is known what is emptied. */
static int begin_looking(struct vv_save *save, struct varve_error *error) {
    int rc = vv_fine_prepare(save) ? vv_error(error, -ENOMEM, "no memory to begin a checkpoint") : begin_scans(save, error);
    if (rc)
        return rc;
    share_out(save);
    vv_emptying_look(save);
    look_at_rounded(save);
    return 0;
}

/* What changed, and who of the ranks stores it: now, or later in the background, if it will be where nobody can write it by then. */
static int name_changes(struct vv_save *save, int rc, struct varve_error *error) {
    struct vv_session *session = save->session;
    struct varve_comm *comm = session->comm;
    int may = rc == 0 && session->aside && vv_is_in_background(session);
    uint64_t later = may ? vv_capture_later(session->capture) : VV_LATER_NOT;
    enum vv_later own = (enum vv_later)later;
    int broken = comm->ops->least(comm, &later, 1);
    if (broken == 0 && later == VV_LATER_FROZEN) { /* all ranks freeze, or none */
        later = own == VV_LATER_STAGED || vv_capture_freeze(session->capture);
        broken = comm->ops->least(comm, &later, 1);
    }
    if (broken)
        return vv_error(error, broken, "the ranks could not agree: %s", varve_error_text(broken));
    save->is_shared_behind = later != VV_LATER_NOT;
    if (save->is_shared_behind)
        return 0;
    vv_capture_unfreeze(session->capture);
    return vv_sharing_run(save, rc, error);
}

/* Of what was new last time, the part that this rank has stored. */
static double own_share(const struct vv_session *session) {
    uint64_t all = session->last_fresh + session->last_elsewhere;
    return session->has_saved && all > 0 ? (double)session->last_fresh / (double)all : 1;
}

/* Ranks that share this one's memory. */
static unsigned ranks_beside(const struct vv_session *session) {
    struct varve_comm *comm = session->comm;
    return comm->nodes > 0 && comm->ops->node_size ? comm->ops->node_size(comm, comm->node) : 1;
}

/* What this rank will store: the naming knows; without one it is as much as last time. */
static uint64_t expected_bytes(const struct vv_save *save) {
    const struct vv_session *session = save->session;
    if (save->is_shared)
        return save->naming.count * VV_CHUNK;
    return session->has_saved ? session->last_fresh : save->sums.protected_bytes;
}

static int prepare(struct vv_save *save, struct varve_error *error) {
    struct vv_session *session = save->session;
    save->begun_ns = vv_clock_ns();
    save->is_shared = vv_sharing_is_due(session);
    vv_devices_settle(session); /* of the last one, before anything of this one can fail */
    int rc = vv_outlet_begin(save, error);
    if (rc == 0)
        rc = begin_save(save, error);
    rc = vv_emptying_plan(save, rc, error);
    if (rc == 0)
        rc = begin_looking(save, error);
    struct vv_capture_plan plan = {save->room.staging, session->storage_speed, session->changed_share,
                                   session->copies.count > 0, ranks_beside(session),  own_share(session),
                                   session->stream_speed};
    rc = vv_outlet_consume(save, rc, ask_callback, error); /* first: they may write protected memory, too */
    if (rc == 0)
        rc = vv_capture_begin(session->capture, &plan, note_untouched, NULL, error);
    if (rc == 0)
        rc = vv_audit(save, error);
    if (save->is_shared)
        rc = name_changes(save, rc, error);
    if (!save->is_shared_behind)
        rc = vv_outlet_expect(save, rc, expected_bytes(save), error);
    if (rc == 0)
        rc = vv_capture_decide(session->capture, error);
    rc = vv_outlet_consume(save, rc, drain_piece, error);
    if (rc == 0)
        rc = vv_capture_go(session->capture, error);
    return rc ? vv_error_default(error, rc, "the state could not be captured: %s", varve_error_text(rc)) : 0;
}

int vv_save_prepare(struct vv_save *save, struct varve_error *error) {
    uint64_t begin = vv_clock_thread_ns();
    int rc = prepare(save, error);
    vv_audit_learn(save->session, (double)(vv_clock_thread_ns() - begin) * 1e-9);
    return rc;
}

/* ---- writing ---- */

static void note_sums(const struct vv_save *save, struct varve_stats *stats) {
    stats->bytes_protected = save->sums.protected_bytes;
    stats->bytes_changed = save->sums.changed;
    stats->bytes_zero = save->sums.zero;
    stats->bytes_known = save->sums.known;
    stats->bytes_new = save->sums.fresh;
    stats->bytes_rewritten = save->sums.rewritten;
    stats->bytes_elsewhere = save->sums.elsewhere;
    stats->bytes_copied = save->sums.copied;
    stats->chunks_new = save->sums.chunks_new;
    stats->writers = save->is_gathered ? save->session->team.writers : save->session->comm->ranks;
    stats->group = save->is_gathered ? save->session->team.count : 1;
    stats->bytes_base = save->is_base && save->session->layers.count > 0 ? save->manifest_bytes : 0;
    vv_fine_say(save, stats);
    stats->runs_changed = 0;
    for (size_t i = 0; i < save->session->history.count; i++)
        stats->runs_changed += save->session->history.list[i].changed.count;
}

/* Other ranks refer to what was settled as ours: nothing of it may be missing. */
static int check_written(const struct vv_save *save, struct varve_error *error) {
    const struct vv_naming *naming = &save->naming;
    if (!save->is_shared || naming->written == naming->count)
        return 0;
    return vv_error(error, -EIO, "%zu chunks are ours to store, but %zu were captured", naming->count, naming->written);
}

/* What is left, and then everything up to our yes. */
static int write_pack(struct vv_save *save, struct varve_error *error) {
    struct vv_session *session = save->session;
    int rc = save->is_shared && save->is_shared_behind ? vv_sharing_run(save, 0, error) : 0;
    if (save->is_shared_behind)
        rc = vv_outlet_expect(save, rc, expected_bytes(save), error);
    rc = vv_outlet_consume(save, rc, take_piece, error);
    vv_capture_stop(session->capture); /* nobody is stopped while ranks wait for each other */
    if (rc == 0)
        rc = check_written(save, error);
    if (rc == 0)
        rc = vv_outlet_open(save, error);
    rc = vv_outlet_finish(save, rc, error);
    if (rc == 0)
        rc = VV_FAULT("engine.save.after_blocks");
    if (rc == 0)
        rc = vv_history_merge(&session->history);
    save->live = rc ? NULL : vv_calloc(session->history.source_count, sizeof *save->live);
    if (rc == 0 && !save->live)
        rc = -ENOMEM;
    if (rc)
        return rc;
    vv_history_live(&session->history, save->live);
    rc = vv_recipe_write(save, save->live, error);
    if (rc == 0)
        rc = VV_FAULT("engine.save.before_seal");
    if (rc)
        return rc;
    rc = vv_outlet_seal(save, error);
    if (rc == 0)
        note_sums(save, &save->stats);
    return rc;
}

/* After it nothing of the program's memory is needed or held. */
static void end_writing(struct vv_save *save) {
    vv_capture_stop(save->session->capture);
    vv_outlet_end(save);
    vv_free(save->scans);
    save->scans = NULL;
}

void vv_save_write(struct vv_save *save) {
    int rc = vv_copies_tables(save, write_pack(save, &save->error), &save->error);
    if (rc) /* before the others are told */
        vv_error_default(&save->error, rc, "the checkpoint could not be written: %s", varve_error_text(rc));
    end_writing(save);
    save->sealed_ns = vv_clock_ns();
    if (rc == 0)
        rc = VV_FAULT("engine.save.before_commit");
    save->result = rc ? vv_error_default(&save->error, rc, "the checkpoint could not be written: %s", varve_error_text(rc))
                      : 0;
}

/* ---- the outcome ---- */

static void clear(struct vv_save *save) {
    vv_free(save->live);
    vv_free(save->is_victim);
    vv_free(save->is_usable);
    vv_naming_clear(&save->naming);
    save->live = NULL;
    save->is_victim = NULL;
    save->is_usable = NULL;
}

static void learn(struct vv_save *save) {
    struct vv_session *session = save->session;
    double seconds = (double)(save->sealed_ns - save->begun_ns) * 1e-9;
    session->last_fresh = save->sums.fresh;
    session->last_elsewhere = save->sums.elsewhere;
    session->changed_share = save->sums.looked ? (double)save->sums.changed / (double)save->sums.looked : 1;
    uint64_t stored = save->is_gathered ? save->sums.fresh + save->sums.rewritten : save->stats.bytes_stored;
    if (stored >= SPEED_LEAST) {
        double speed = (double)stored / seconds;
        session->storage_speed = session->storage_speed > 0 ? (session->storage_speed + speed) / 2 : speed;
    }
}

void vv_save_accept(struct vv_save *save, struct vv_hash128 writers_digest) {
    struct vv_session *session = save->session;
    struct vv_source *source = &session->history.sources[save->source];
    source->writers_digest = writers_digest;
    source->raw_bytes = save->sums.fresh + save->sums.rewritten;
    vv_emptying_note(save);
    vv_history_accept(&session->history, save->live);
    session->history.layout_end = save->layout_end;
    session->layers = save->layers;
    session->parent = save->attempt;
    session->parent_writers = writers_digest;
    session->next_version = save->attempt.version + 1;
    session->has_saved = 1;
    session->is_continued = 0;
    session->is_settled_well = 1;
    vv_capture_settle(session->capture, 1);
    learn(save);
    vv_fine_judge(save);
    clear(save);
}

void vv_save_drop(struct vv_save *save) {
    end_writing(save);
    vv_history_drop(&save->session->history, save->source);
    vv_capture_settle(save->session->capture, 0);
    save->session->is_settled_well = 0;
    clear(save);
}

/* What our history refers to may be gone: begin with a whole checkpoint. */
void vv_begin_anew(struct vv_session *session) {
    session->must_begin_anew = session->is_continued = 0;
    vv_unwatch_regions(session);
    vv_sharing_forget(session);
    vv_devices_lose_step(session);
    vv_history_clear(&session->history);
    memset(&session->layers, 0, sizeof session->layers);
    memset(&session->parent, 0, sizeof session->parent);
    for (size_t i = 0; i < session->regions.count; i++) /* numbers ascend in a new history */
        session->regions.list[i].number = i;
    session->regions.next_number = session->regions.count;
}
