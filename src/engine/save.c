/* Saving: one request, its attempts, and what happens when one of them fails. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "engine/engine_private.h"
#include "store/catalogue.h"

#define CATALOGUE_EVERY 65   /* checkpoints; more than the catalogue itself thinks worth writing */
#define CATALOGUE_SPARE 1000
#define SPARSE_SHARE 4 /* a source with less than 1/4 of its bytes alive is worth emptying */

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
    past->is_gone = 0;
    past->pending_length = region->size;
    past->pending_address = past->address;
    past->pending_slot = past->slot;
    past->pending_digest = past->digest;
    if (past->is_new || past->slot < round_up(region->size)) {
        past->is_moved = !past->is_new;
        past->pending_address = save->layout_end;
        past->pending_slot = round_up(region->size);
        save->layout_end += past->pending_slot;
    }
    save->regions++;
    save->sums.protected_bytes += region->size;
    return 0;
}

/* A share of the protected memory, but never of more memory than the machine has: reserved space is not data. */
size_t vv_table_entries(const struct vv_session *session, uint64_t protected_bytes) {
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    double bytes = (double)(protected_bytes < memory ? protected_bytes : memory);
    return (size_t)(session->settings.table_share * bytes / sizeof(struct vv_known));
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
    /* A table that cannot grow only finds fewer duplicates. */
    if (vv_table_resize(&history->table, vv_table_entries(session, save->sums.protected_bytes)) != 0)
        vv_log(&session->log, VV_LOG_INFO, "no memory for a larger table of ids: some duplicates will be stored again");
    return 0;
}

static int mark_victims(struct vv_save *save) {
    const struct vv_history *history = &save->session->history;
    for (uint32_t i = 0; i < history->source_count; i++) {
        const struct vv_source *source = &history->sources[i];
        if (!history->is_alive[i] || i == save->source || source->live_bytes * SPARSE_SHARE >= source->raw_bytes)
            continue;
        if (!save->is_victim)
            save->is_victim = vv_calloc(history->source_count, 1);
        if (!save->is_victim)
            return -ENOMEM;
        save->is_victim[i] = 1;
    }
    return 0;
}

/* ---- the pack ---- */

static int begin_pack(struct vv_save *save, struct varve_error *error) {
    struct vv_session *session = save->session;
    struct vv_pack_options options = {
        .writer = session->comm->rank,
        .writers = session->comm->ranks,
        .ranks = session->comm->ranks,
        .first_owner = session->comm->rank,
        .owners = 1,
        .parent = session->parent,
        .part_size = session->settings.part_size,
        .program = program_invocation_short_name,
    };
    int rc = vv_pack_begin(session->store, session->name, &save->attempt, &options, &save->pack, error);
    if (rc == 0)
        rc = vv_blocks_create(session, save->pack, &save->blocks);
    return rc ? vv_error_default(error, rc, "the pack could not be begun: %s", varve_error_text(rc)) : 0;
}

static int scan_all(struct vv_save *save, struct varve_error *error) {
    struct vv_session *session = save->session;
    for (size_t i = 0; i < session->regions.count; i++) {
        struct vv_region *region = &session->regions.list[i];
        int rc = vv_scan_region(save, region, vv_history_find(&session->history, region->number), error);
        if (rc)
            return rc;
    }
    return 0;
}

static void note_codec(struct varve_stats *stats, const struct vv_blocks_sums *sums) {
    uint8_t best = 0;
    for (uint8_t i = 1; i < 3; i++)
        if (sums->codec_bytes[i] > sums->codec_bytes[best])
            best = i;
    strncpy(stats->codec, vv_codec_by_number(best)->name, sizeof stats->codec - 1);
}

static void note_sums(const struct vv_save *save, const struct vv_pack_sums *pack, struct varve_stats *stats) {
    stats->bytes_protected = save->sums.protected_bytes;
    stats->bytes_changed = save->sums.changed;
    stats->bytes_zero = save->sums.zero;
    stats->bytes_known = save->sums.known;
    stats->bytes_new = save->sums.fresh;
    stats->bytes_rewritten = save->sums.rewritten;
    stats->chunks_new = save->sums.chunks_new;
    stats->bytes_stored = pack->stored_bytes;
    stats->bytes_metadata = pack->metadata_bytes;
    stats->bytes_base = save->is_base && save->session->layers.count > 0 ? save->base_bytes : 0;
    stats->runs_changed = 0;
    for (size_t i = 0; i < save->session->history.count; i++)
        stats->runs_changed += save->session->history.list[i].changed.count;
}

/* Everything up to our yes. */
static int write_pack(struct vv_save *save, uint64_t **live_out, struct varve_stats *stats, struct varve_error *error) {
    struct vv_session *session = save->session;
    struct vv_blocks_sums block_sums;
    struct vv_pack_sums pack_sums;
    int rc = scan_all(save, error);
    struct varve_error why = {0};
    int finished = vv_blocks_finish(save->blocks, &block_sums, &why);
    if (finished) { /* a scan that stops because a block failed knows only that */
        rc = finished;
        if (error)
            *error = why;
    }
    if (rc == 0)
        rc = VV_FAULT("engine.save.after_blocks");
    if (rc == 0)
        rc = vv_history_merge(&session->history);
    uint64_t *live = rc ? NULL : vv_calloc(session->history.source_count, sizeof *live);
    if (rc == 0 && !live)
        rc = -ENOMEM;
    if (rc) {
        vv_free(live);
        return vv_error_default(error, rc, "the checkpoint could not be written: %s", varve_error_text(rc));
    }
    vv_history_live(&session->history, live);
    *live_out = live;
    rc = vv_recipe_write(save, live, error);
    if (rc == 0)
        rc = VV_FAULT("engine.save.before_seal");
    if (rc)
        return vv_error_default(error, rc, "the checkpoint could not be written: %s", varve_error_text(rc));
    struct vv_pack_writer *pack = save->pack;
    save->pack = NULL; /* sealing frees it in every case */
    rc = vv_pack_seal(pack, save->sums.protected_bytes, save->regions, &pack_sums, error);
    if (rc == 0) {
        note_codec(stats, &block_sums);
        note_sums(save, &pack_sums, stats);
    }
    return rc;
}

/* ---- the outcome ---- */

static void accept(struct vv_save *save, const uint64_t *live, struct vv_hash128 writers_digest) {
    struct vv_session *session = save->session;
    struct vv_source *source = &session->history.sources[save->source];
    source->writers_digest = writers_digest;
    source->raw_bytes = save->sums.fresh + save->sums.rewritten;
    vv_history_accept(&session->history, live);
    session->history.layout_end = save->layout_end;
    session->layers = save->layers;
    session->parent = save->attempt;
    session->parent_writers = writers_digest;
    session->next_version = save->attempt.version + 1;
    session->has_saved = 1;
    if (session->tracker->ops->settle)
        session->tracker->ops->settle(session->tracker, 1);
}

/* A keeper: 1 if it is certain that the attempt is none and never will be a checkpoint; then it may be tried again. */
static uint64_t drop_attempt(struct vv_session *session, const struct vv_attempt *attempt) {
    struct varve_error why = {0};
    int rc = vv_attempt_drop(session->store, session->name, attempt, session->comm->ranks, &why);
    if (rc < 0)
        vv_log(&session->log, VV_LOG_INFO, "what the failed attempt at version %" PRIu64 " left could not be removed: %s",
               attempt->version, why.text);
    return rc == 0;
}

/* Everybody has sealed or given up its pack by now. 1 if the attempt may be tried again. */
static int fail(struct vv_save *save) {
    struct vv_session *session = save->session;
    uint64_t is_dropped = 1;
    vv_history_drop(&session->history, save->source);
    if (session->tracker->ops->settle)
        session->tracker->ops->settle(session->tracker, 0);
    if (session->lease)
        is_dropped = drop_attempt(session, &save->attempt);
    return session->comm->ops->least(session->comm, &is_dropped, 1) == 0 && is_dropped;
}

/* What our history refers to may be gone: begin with a whole checkpoint. */
static void begin_anew(struct vv_session *session) {
    vv_history_clear(&session->history);
    memset(&session->layers, 0, sizeof session->layers);
    memset(&session->parent, 0, sizeof session->parent);
    for (size_t i = 0; i < session->regions.count; i++) /* numbers ascend in a new history */
        session->regions.list[i].number = i;
    session->regions.next_number = session->regions.count;
}

static int begin_save(struct vv_save *save, struct varve_error *error) {
    struct vv_source source = {.generation = save->attempt.generation,
                               .attempt = save->attempt.attempt,
                               .version = save->attempt.version};
    int64_t slot = vv_history_source(&save->session->history, &source);
    if (slot < 0)
        return vv_error(error, (int)slot, "no memory to begin a checkpoint");
    save->source = (uint32_t)slot;
    int rc = plan(save, error);
    if (rc == 0 && mark_victims(save) != 0)
        rc = vv_error(error, -ENOMEM, "no memory to begin a checkpoint");
    return rc ? rc : begin_pack(save, error);
}

/* What a person needs to know who meets this in the middle of the night. */
static void explain_full(const struct vv_session *session, uint64_t version, struct varve_error *error) {
    struct varve_error cause = *error;
    vv_error(error, cause.code,
             "version %" PRIu64 " of %s was not saved: the storage is full, or less than min_free (%" PRIu64
             " bytes) would remain; earlier checkpoints are as they were, `varve forget` and `varve prune` free space (%.200s)",
             version, session->name, session->settings.min_free, cause.text);
    error->rank = cause.rank;
}

/* This rank's part, up to its yes. */
static int write_part(struct vv_save *save, uint64_t **live_out, struct varve_stats *stats, struct varve_error *error) {
    int rc = begin_save(save, error);
    if (rc == 0)
        rc = write_pack(save, live_out, stats, error);
    vv_blocks_destroy(save->blocks);
    vv_pack_abort(save->pack);
    if (rc == 0)
        rc = VV_FAULT("engine.save.before_commit");
    return rc ? vv_error_default(error, rc, "the checkpoint could not be written: %s", varve_error_text(rc)) : 0;
}

/* One attempt. Afterwards either everything of it counts, or nothing. *may_retry is told when it fails. */
static int run_attempt(struct vv_session *session, const struct vv_attempt *attempt, struct varve_stats *stats,
                       int *may_retry, struct varve_error *error) {
    struct vv_save save = {.session = session, .attempt = *attempt, .source = UINT32_MAX};
    struct vv_hash128 writers_digest;
    uint64_t *live = NULL;
    int rc = write_part(&save, &live, stats, error);
    rc = vv_comm_agree(session->comm, rc, error);
    if (rc == 0) /* all ranks have said yes */
        rc = vv_keepers_commit(session, attempt, &writers_digest, error);
    if (rc == 0)
        accept(&save, live, writers_digest);
    else {
        *may_retry = fail(&save) && rc != VARVE_FENCED && rc != -ENOMEM && rc != -EINVAL;
        vv_unsettled_add(session, attempt);
    }
    if (rc == VARVE_FORGOTTEN)
        begin_anew(session);
    vv_free(live);
    vv_free(save.is_victim);
    if (rc == -ENOSPC || rc == -EDQUOT)
        explain_full(session, attempt->version, error);
    return rc ? vv_error_default(error, rc, "the checkpoint failed: %s", varve_error_text(rc)) : 0;
}

/* Keep listing fast: now and then what the records say goes into the catalogue. The more there is in it, the less often it
 * is written, but never so seldom that a listing has thousands of records to read. */
static void catalogue(struct vv_session *session) {
    struct vv_catalogue all = {0};
    struct varve_error error = {0};
    uint64_t spare = session->catalogued / 8 < CATALOGUE_SPARE ? session->catalogued / 8 : CATALOGUE_SPARE;
    if (++session->uncatalogued <= CATALOGUE_EVERY + spare)
        return;
    session->uncatalogued = 0;
    if (vv_catalogue_load(session->store, session->name, 1, NULL, NULL, &all, &error) == 0)
        session->catalogued = all.count;
    else
        vv_log(&session->log, VV_LOG_INFO, "the catalogue could not be renewed: %s", error.text);
    vv_catalogue_clear(&all);
}

/* Up to which checkpoint all keepers keep: 1, 0 when one of them has not enough, or cannot tell. Collective. */
static int agree_on_cut(struct vv_session *session, struct vv_attempt *cut) {
    uint32_t keep = (uint32_t)session->settings.keep;
    struct varve_error error = {0};
    uint64_t generation = UINT64_MAX, version = UINT64_MAX;
    if (session->lease) {
        int is_found = vv_keep_cut(session->store, session->name, keep, cut, &error) == 1;
        generation = is_found ? cut->generation : 0;
        version = is_found ? cut->version : 0;
    }
    uint64_t oldest = generation;
    if (session->comm->ops->least(session->comm, &oldest, 1) != 0)
        return 0;
    version = generation == oldest ? version : UINT64_MAX;
    if (session->comm->ops->least(session->comm, &version, 1) != 0)
        return 0;
    *cut = (struct vv_attempt){.generation = (uint32_t)oldest, .version = version};
    return oldest > 0;
}

static void keep_newest(struct vv_session *session) {
    struct varve_error error = {0};
    struct vv_attempt cut = {0};
    if (session->settings.keep == 0 || (vv_is_local(session) && !agree_on_cut(session, &cut)) || !session->lease)
        return;
    if (vv_keep(session->store, session->lease, session->name, (uint32_t)session->settings.keep,
                vv_is_local(session) ? &cut : NULL, &error) < 0)
        vv_log(&session->log, VV_LOG_WARN, "older checkpoints could not be removed: %s", error.text);
}

/* After the commit nothing can fail the checkpoint any more; what goes wrong is said and tried again next time. */
static void after_commit(struct vv_session *session) {
    struct varve_error error = {0};
    if (session->lease && vv_lease_refer(session->lease, &session->parent, &error) != 0)
        vv_log(&session->log, VV_LOG_WARN, "the heartbeat could not be renewed: %s", error.text);
    vv_unsettled_forget(session);
    keep_newest(session);
    if (session->lease)
        catalogue(session);
}

static void note_time(struct vv_session *session, struct vv_request *request, uint64_t begin) {
    uint64_t end = vv_clock_ns();
    double seconds = (double)(end - begin) * 1e-9;
    request->stats.seconds_blocked = request->stats.seconds_durable = seconds;
    session->seconds_spent += seconds;
    session->last_ns = end;
    if (request->result == 0 && request->stats.bytes_stored >= (8u << 20)) {
        double speed = (double)request->stats.bytes_stored / seconds;
        session->storage_speed = session->storage_speed > 0 ? (session->storage_speed + speed) / 2 : speed;
    }
}

/* A version that was tried and failed may yet be adopted by a later session: going below it would put older memory first. */
static int check_version(struct vv_session *session, int64_t given, struct varve_error *error) {
    uint64_t least = session->has_saved ? session->next_version : 0, version = (uint64_t)given;
    if (given < 0)
        return vv_error(error, -EINVAL, "version %" PRId64 " is below 0", given);
    if (session->tries > 0 && session->tried_version > least)
        least = session->tried_version;
    if (version < least)
        return vv_error(error, -EINVAL,
                        "version %" PRIu64 " is too low, %" PRIu64
                        " is the next: versions rise; restart from an older one to go back",
                        version, least);
    return 0;
}

static void begin_request(struct vv_session *session, uint64_t version) {
    struct vv_request *request = &session->request;
    memset(request, 0, sizeof *request);
    request->version = version;
    request->stats.version = (int64_t)version;
    strncpy(request->stats.tracker, session->tracker->ops->name, sizeof request->stats.tracker - 1);
    if (session->tried_version != version)
        session->tries = 0;
    session->tried_version = version;
}

/* The generation may have changed since the last attempt; the keeper knows. */
static int begin_attempt(struct vv_session *session, uint64_t version, struct vv_attempt *out,
                         struct varve_error *error) {
    *out = (struct vv_attempt){0, session->tries++, version};
    if (session->lease)
        out->generation = vv_lease_generation(session->lease);
    int rc = vv_comm_follow(session->comm, 0, out, sizeof *out, VV_COMM_ROOT, error);
    if (rc || !vv_is_local(session))
        return rc;
    if (session->lease && vv_lease_generation(session->lease) != out->generation)
        rc = vv_error(error, VARVE_DISAGREED, "this node's store is in generation %u, rank 0's in %u: restart to go on",
                      vv_lease_generation(session->lease), out->generation);
    return vv_comm_agree(session->comm, rc, error);
}

static void run_request(struct vv_session *session, struct vv_request *request) {
    unsigned retries = 0;
    int is_anew = 0;
    vv_settings_on_error(&session->settings, &retries);
    for (unsigned i = 0; i <= retries; i++) {
        struct vv_attempt attempt;
        int may_retry = 0;
        vv_error_clear(&request->error);
        request->stats.attempts = i + 1;
        request->result = begin_attempt(session, request->version, &attempt, &request->error);
        if (request->result == 0)
            request->result = run_attempt(session, &attempt, &request->stats, &may_retry, &request->error);
        if (request->result == 0 || !may_retry)
            return;
        if (request->result == VARVE_FORGOTTEN && !is_anew) { /* a whole checkpoint needs nobody's record */
            is_anew = 1;
            retries++;
        }
        if (i < retries && vv_comm_is_root(session->comm))
            vv_log(&session->log, VV_LOG_WARN, "checkpoint %" PRIu64 ", attempt %u failed: %s", request->version, i + 1,
                   request->error.text);
    }
}

int vv_session_checkpoint(struct vv_session *session, int64_t version, struct varve_error *error) {
    struct vv_request *request = &session->request;
    struct varve_error why = {0};
    uint64_t begin = vv_clock_ns();
    int rc = check_version(session, version, &why);
    rc = vv_comm_agree_call(session->comm, rc, VV_CALL_CHECKPOINT, (uint64_t)version, &why);
    if (rc == 0) {
        begin_request(session, (uint64_t)version);
        run_request(session, request);
        note_time(session, request, begin);
        request->stats.result = request->result;
        request->is_done = 1;
    } else { /* it was not begun: wait, close and the statistics speak of the last one that was */
        if (error)
            *error = why;
        return rc;
    }
    if (request->result == 0)
        after_commit(session);
    else if (error)
        *error = request->error;
    return request->result;
}
