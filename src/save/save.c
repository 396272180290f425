/* Saving: this rank's part of one attempt, from the plan to the sealed pack. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/match.h"
#include "capture/device.h"
#include "save/save_private.h"

#define STAGING_LEAST (12u << 20)
#define MEMORY_LEAST (1u << 20) /* for copies and blocks, whatever the ceiling */
#define BESIDE (10u << 20) /* four buffers of the storage, a huge page each; an open block, samples, small pieces */
#define CHUNK_BYTES 56u    /* of memory per chunk: its id, before and after, and that in the pack's table */
#define OFFER_BYTES 80u    /* more where other ranks are asked for it */
#define BLOCK_LEAST (64u << 10)
#define SPEED_LEAST (8u << 20) /* bytes stored that tell how fast checkpoints are stored */

static uint64_t round_up(uint64_t size) {
    return (size + VV_GRANULE - 1) & ~(uint64_t)(VV_GRANULE - 1);
}

/* ---- plan ---- */

static int ask_length(struct vv_region *region, struct varve_error *error) {
    if (!region->is_callback)
        return 0;
    int rc = region->callbacks.length(region->arg, &region->size);
    if (rc)
        return vv_error(error, rc < 0 ? rc : -EIO,
                        "region %s: the program's length callback failed, with %d; nothing was saved, and earlier "
                        "checkpoints are as they were",
                        region->name, rc);
    return 0;
}

static int plan_region(struct vv_save *save, struct vv_region *region, struct varve_error *error) {
    struct vv_history *history = &save->job->lineage.history;
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
        past->variable = vv_match_name(save->memory->match, region->name);
    past->is_gone = 0;
    past->pending_length = region->size;
    past->pending_address = past->address;
    past->pending_slot = past->slot;
    past->pending_digest = past->digest;
    past->pending_no_ids = vv_region_is_large(region);
    if (past->is_new || past->slot < round_up(region->size)) {
        past->is_moved = !past->is_new;
        past->pending_address = save->plan.layout_end;
        past->pending_slot = round_up(region->size);
        save->plan.layout_end += past->pending_slot;
    }
    vv_array_drop(past->pending_array);
    int fits = region->array && vv_array_is_of(region->array, region->size);
    past->pending_array = vv_array_hold(fits ? region->array : NULL);
    past->pending_distribution = region->distribution;
    past->is_retold = !past->is_new && (!vv_array_equal(past->array, past->pending_array) ||
                                        past->distribution != past->pending_distribution);
    save->plan.regions++;
    save->sums.protected_bytes += region->size;
    return 0;
}

static int plan(struct vv_save *save, struct varve_error *error) {
    struct vv_history *history = &save->job->lineage.history;
    vv_regions_pack(&save->memory->regions);
    for (size_t i = 0; i < history->count; i++)
        history->list[i].is_gone = 1;
    save->plan.layout_end = history->layout_end;
    for (size_t i = 0; i < save->memory->regions.count; i++) {
        int rc = plan_region(save, &save->memory->regions.list[i], error);
        if (rc)
            return rc;
    }
    /* Chunks of large regions are known from the table alone, so they count twice. */
    save->plan.ids_capacity = vv_table_capacity(
        save->job->settings.table_share, save->sums.protected_bytes + vv_regions_large_bytes(&save->memory->regions));
    /* A table that cannot grow only finds fewer duplicates. */
    if (vv_table_resize(&history->table, save->plan.ids_capacity) != 0)
        vv_log(&save->job->log, VV_LOG_INFO,
               "no memory for a larger table of ids: some duplicates will be stored again");
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
    for (size_t i = 0; i < save->memory->regions.count; i++) {
        const struct vv_region *region = &save->memory->regions.list[i];
        if (region->watch && (save->scans.list[i].is_full || is_rounded_anew(save->scans.list[i].past)))
            vv_capture_mark(save->memory->capture, region->watch, 0, region->size);
    }
}

/* ---- room ---- */

/* What the ceiling leaves for copies and blocks when every chunk changes: the rest cannot be made smaller. */
static uint64_t below_ceiling(const struct vv_save *save, uint64_t all) {
    const struct vv_settings *settings = &save->job->settings;
    uint64_t large = vv_regions_large_bytes(&save->memory->regions), all_bytes = save->sums.protected_bytes;
    uint64_t chunks = (all_bytes > large ? all_bytes - large : 0) / VV_GRANULE; /* of large ones nothing is kept */
    uint64_t other = BESIDE + chunks * (CHUNK_BYTES + (save->job->comm->ranks > 1 ? OFFER_BYTES : 0)) +
                     save->plan.ids_capacity * sizeof(struct vv_known);
    uint64_t left = settings->memory > other ? settings->memory - other : 0;
    left = left < MEMORY_LEAST ? MEMORY_LEAST : left;
    return settings->memory > 0 && left < all ? left : all;
}

/* The blocks on their way to storage are copies, too: they take up to a quarter of the staging. */
static void share_out(struct vv_save *save) {
    const struct vv_settings *settings = &save->job->settings;
    struct vv_budget *budget = &save->plan.budget;
    uint64_t all = settings->staging;
    if (all == 0) {
        all = (uint64_t)(settings->staging_share * (double)save->sums.protected_bytes);
        all = all < STAGING_LEAST ? STAGING_LEAST : all;
    }
    all = below_ceiling(save, all);
    budget->blocks = settings->queue > 0 ? (unsigned)settings->queue : (unsigned)settings->threads + 2;
    budget->block_size = (uint32_t)settings->block_size;
    if (save->memory->capturing == VV_CHOOSE_CAPTURE_TRAP) { /* a page is processed when it is on its way to storage */
        budget->block_size = BLOCK_LEAST;
        budget->blocks = 2;
    }
    int is_bounded = vv_is_in_background(save->memory) || settings->memory > 0;
    while (is_bounded && budget->block_size > BLOCK_LEAST && (uint64_t)budget->block_size * budget->blocks > all / 4)
        budget->block_size /= 2;
    uint64_t taken = (uint64_t)budget->block_size * budget->blocks;
    budget->staging = all > taken ? all - taken : 0;
}

/* ---- looking ---- */

/* A piece, while the call may not return. */
static int drain_piece(void *arg, struct varve_error *error) {
    struct vv_save *save = arg;
    return vv_capture_must_drain(save->memory->capture) ? vv_scan_next(save, error) : 0;
}

static int note_untouched(void *arg, struct vv_watch *watch, uint64_t first, uint64_t last) {
    (void)arg;
    return vv_scan_untouched(watch->user, first, last);
}

static int begin_scans(struct vv_save *save, struct varve_error *error) {
    save->scans.list = vv_calloc(save->memory->regions.count + 1, sizeof *save->scans.list);
    int rc = save->scans.list ? 0 : -ENOMEM;
    for (size_t i = 0; i < save->memory->regions.count && rc == 0; i++) {
        const struct vv_region *region = &save->memory->regions.list[i];
        struct vv_scan *scan = &save->scans.list[i];
        rc = vv_scan_begin(scan, save, vv_history_find(&save->job->lineage.history, region->number), region->size);
        vv_scan_fine_begin(scan);
        scan->watch = region->watch;
        if (scan->watch)
            scan->watch->user = scan;
    }
    return rc ? vv_error(error, rc, "no memory to begin a checkpoint") : 0;
}

/* A window of a region behind callbacks, which answer in the calling thread only. Their chunks are not offered to other
 * ranks: they cannot be asked for twice. */
static int ask_callback(void *arg, struct varve_error *error) {
    struct vv_save *save = arg;
    const struct vv_regions *regions = &save->memory->regions;
    const struct vv_region *region = NULL;
    while (!region && save->scans.asked < regions->count) {
        region = &regions->list[save->scans.asked];
        if (region->is_callback && save->scans.asked_at < save->scans.list[save->scans.asked].size)
            break;
        region = NULL;
        save->scans.asked++;
        save->scans.asked_at = 0;
    }
    if (!region)
        return 0;
    int rc = save->output->ops->open(save->output, error);
    if (rc == 0)
        rc = (region->device ? vv_scan_device : vv_scan_callback)(&save->scans.list[save->scans.asked], region,
                                                                  &save->scans.asked_at, error);
    rc = save->output->ops->explain(save->output, rc, error);
    return rc ? vv_error_default(error, rc, "region %s could not be scanned: %s", region->name, varve_error_text(rc))
              : 1;
}

/* What our history refers to may be gone: begin with a whole checkpoint. */
static void begin_anew(struct vv_save *save) {
    struct vv_regions *regions = &save->memory->regions;
    vv_unwatch_regions(save->memory);
    vv_rank_dedup_forget(save->rank_dedup);
    vv_devices_lose_step(regions, save->job->lineage.is_settled_well);
    vv_lineage_reset(&save->job->lineage);
    vv_regions_renumber(regions);
}

static int begin_save(struct vv_save *save, struct varve_error *error) {
    struct vv_source source = {.generation = save->plan.attempt.generation,
                               .attempt = save->plan.attempt.attempt,
                               .version = save->plan.attempt.version};
    int64_t slot = vv_history_source(&save->job->lineage.history, &source);
    if (slot < 0)
        return vv_error(error, (int)slot, "no memory to begin a checkpoint");
    save->plan.source = (uint32_t)slot;
    int rc = plan(save, error);
    if (rc == 0 && vv_watch_regions(save->memory) != 0)
        rc = vv_error(error, -ENOMEM, "no memory to begin a checkpoint");
    return rc;
}

/* When it is known what is emptied. */
static int begin_looking(struct vv_save *save, struct varve_error *error) {
    int rc =
        vv_fine_prepare(save) ? vv_error(error, -ENOMEM, "no memory to begin a checkpoint") : begin_scans(save, error);
    if (rc)
        return rc;
    share_out(save);
    save->output->block_size = save->plan.budget.block_size;
    save->output->blocks = save->plan.budget.blocks;
    vv_emptying_look(save);
    look_at_rounded(save);
    return 0;
}

/* What changed, and who of the ranks stores it: now, or later in the background, if it will be where nobody can write
 * it by then. */
static int name_changes(struct vv_save *save, int rc, struct varve_error *error) {
    struct varve_comm *comm = save->job->comm;
    int may = rc == 0 && save->job->caller_comm && vv_is_in_background(save->memory);
    uint64_t later = may ? vv_capture_later(save->memory->capture) : VV_LATER_NOT;
    enum vv_later own = (enum vv_later)later;
    int broken = comm->ops->reduce_min(comm, &later, 1);
    if (broken == 0 && later == VV_LATER_FROZEN) { /* all ranks freeze, or none */
        later = own == VV_LATER_STAGED || vv_capture_freeze(save->memory->capture);
        broken = comm->ops->reduce_min(comm, &later, 1);
    }
    if (broken)
        return vv_error(error, broken, "the ranks could not agree: %s", varve_error_text(broken));
    save->plan.is_shared_behind = later != VV_LATER_NOT;
    if (save->plan.is_shared_behind)
        return 0;
    vv_capture_unfreeze(save->memory->capture);
    uint64_t begun = vv_clock_ns();
    rc = vv_rank_dedup_run(save, rc, error);
    if (rc == 0)
        vv_capture_named(save->memory->capture, (double)(vv_clock_ns() - begun) * 1e-9);
    return rc;
}

/* Of what was new last time, the part that this rank has stored. */
static double own_share(const struct vv_save *save) {
    uint64_t all = save->measured->last_fresh + save->measured->last_elsewhere;
    return save->job->lineage.has_saved && all > 0 ? (double)save->measured->last_fresh / (double)all : 1;
}

/* Ranks that share this one's memory. */
static unsigned ranks_beside(const struct vv_save *save) {
    struct varve_comm *comm = save->job->comm;
    return comm->nodes > 0 && comm->ops->node_size ? comm->ops->node_size(comm, comm->node) : 1;
}

/* What this rank will store: the offers knows; without one it is as much as last time. */
static uint64_t expected_bytes(const struct vv_save *save) {
    if (save->plan.is_shared)
        return save->offers.count * VV_GRANULE;
    return save->job->lineage.has_saved ? save->measured->last_fresh : save->sums.protected_bytes;
}

static int prepare_save(struct vv_save *save, struct varve_error *error) {
    save->plan.begun_ns = vv_clock_ns();
    save->plan.is_shared = vv_rank_dedup_is_due(save->rank_dedup);
    vv_devices_settle(&save->memory->regions,
                      save->job->lineage.is_settled_well); /* of the last one, before anything of this one can fail */
    if (save->job->lineage.must_begin_anew)
        begin_anew(save);
    save->output->plan.parent = save->job->lineage.parent;
    int rc = save->output->ops->begin(save->output, error);
    if (rc == 0)
        rc = begin_save(save, error);
    rc = vv_emptying_plan(save, rc, error);
    if (rc == 0)
        rc = begin_looking(save, error);
    struct vv_capture_plan plan = {save->plan.budget.staging,
                                   save->measured->storage_speed,
                                   save->measured->changed_share,
                                   save->outputs->replicas.count > 0,
                                   ranks_beside(save),
                                   own_share(save),
                                   save->measured->stream_speed};
    rc = save->output->ops->consume(save->output, rc, ask_callback, save,
                                    error); /* first: they may write protected memory, too */
    if (rc == 0)
        rc = vv_capture_begin(save->memory->capture, &plan, note_untouched, NULL, error);
    if (rc == 0)
        rc = vv_audit(save, error);
    if (save->plan.is_shared)
        rc = name_changes(save, rc, error);
    if (!save->plan.is_shared_behind)
        rc = save->output->ops->expect(save->output, rc, expected_bytes(save), error);
    if (rc == 0)
        rc = vv_capture_decide(save->memory->capture, error);
    rc = save->output->ops->consume(save->output, rc, drain_piece, save, error);
    if (rc == 0)
        rc = vv_capture_go(save->memory->capture, error);
    return rc ? vv_error_default(error, rc, "the state could not be captured: %s", varve_error_text(rc)) : 0;
}

int vv_save_prepare(struct vv_save *save, struct varve_error *error) {
    uint64_t begin = vv_clock_thread_ns();
    int rc = prepare_save(save, error);
    vv_audit_learn(save, (double)(vv_clock_thread_ns() - begin) * 1e-9);
    return rc;
}

/* ---- writing ---- */

static void note_sums(const struct vv_save *save, struct vv_details *stats) {
    stats->bytes_protected = save->sums.protected_bytes;
    stats->bytes_changed = save->sums.changed;
    stats->bytes_zero = save->sums.zero;
    stats->bytes_known = save->sums.known;
    stats->bytes_new = save->sums.fresh;
    stats->bytes_rewritten = save->sums.rewritten;
    stats->bytes_elsewhere = save->sums.elsewhere;
    stats->bytes_copied = save->sums.copied + save->output->bytes_copied;
    stats->chunks_new = save->sums.chunks_new;
    stats->writers = save->output->writers;
    stats->group = save->output->group;
    stats->bytes_base = save->manifest.is_base && save->job->lineage.layers.count > 0 ? save->manifest.bytes : 0;
    vv_fine_report(save, stats);
    stats->runs_changed = 0;
    for (size_t i = 0; i < save->job->lineage.history.count; i++)
        stats->runs_changed += save->job->lineage.history.list[i].changed.count;
}

/* Other ranks refer to what was settled as ours: nothing of it may be missing. */
static int check_written(const struct vv_save *save, struct varve_error *error) {
    const struct vv_offers *offers = &save->offers;
    if (!save->plan.is_shared || offers->written == offers->count)
        return 0;
    return vv_error(error, -EIO, "%zu chunks are ours to store, but %zu were captured", offers->count, offers->written);
}

/* What is left, and then everything up to our yes. */
static int write_pack(struct vv_save *save, struct varve_error *error) {
    int rc = save->plan.is_shared && save->plan.is_shared_behind ? vv_rank_dedup_run(save, 0, error) : 0;
    if (save->plan.is_shared_behind)
        rc = save->output->ops->expect(save->output, rc, expected_bytes(save), error);
    rc = save->output->ops->consume(save->output, rc, vv_scan_next, save, error);
    vv_capture_stop(save->memory->capture); /* nobody is stopped while ranks wait for each other */
    if (rc == 0)
        rc = check_written(save, error);
    if (rc == 0)
        rc = save->output->ops->open(save->output, error);
    rc = save->output->ops->finish(save->output, rc, error);
    if (rc == 0)
        rc = VV_FAULT("engine.save.after_blocks");
    if (rc == 0)
        rc = vv_history_merge(&save->job->lineage.history);
    save->manifest.live = rc ? NULL : vv_calloc(save->job->lineage.history.source_count, sizeof *save->manifest.live);
    if (rc == 0 && !save->manifest.live)
        rc = -ENOMEM;
    if (rc)
        return rc;
    vv_history_live(&save->job->lineage.history, save->manifest.live);
    rc = vv_recipe_write(save, save->manifest.live, error);
    if (rc == 0)
        rc = VV_FAULT("engine.save.before_seal");
    if (rc)
        return rc;
    const struct vv_output_sums sums = {save->sums.protected_bytes, save->plan.regions, save->sums.looked};
    rc = save->output->ops->seal(save->output, &sums, &save->outcome.stats, error);
    if (rc == 0)
        note_sums(save, &save->outcome.stats);
    return rc;
}

/* After it nothing of the program's memory is needed or held. */
static void end_writing(struct vv_save *save) {
    vv_capture_stop(save->memory->capture);
    save->output->ops->end(save->output, &save->outcome.error);
    vv_free(save->scans.list);
    save->scans.list = NULL;
}

void vv_save_write(struct vv_save *save) {
    int rc = write_pack(save, &save->outcome.error);
    rc = save->output->ops->settle(save->output, rc, &save->outcome.error);
    save->outcome.stats.bytes_parity = save->output->bytes_parity;
    if (rc) /* before the others are told */
        vv_error_default(&save->outcome.error, rc, "the checkpoint could not be written: %s", varve_error_text(rc));
    end_writing(save);
    save->outcome.sealed_ns = vv_clock_ns();
    if (rc == 0)
        rc = VV_FAULT("engine.save.before_commit");
    save->outcome.result =
        rc ? vv_error_default(&save->outcome.error, rc, "the checkpoint could not be written: %s", varve_error_text(rc))
           : 0;
}

/* ---- the outcome ---- */

static void clear(struct vv_save *save) {
    vv_free(save->manifest.live);
    vv_free(save->plan.is_sparse);
    vv_free(save->fine.is_usable);
    vv_offers_clear(&save->offers);
    save->manifest.live = NULL;
    save->plan.is_sparse = NULL;
    save->fine.is_usable = NULL;
}

static void learn(struct vv_save *save) {
    double seconds = (double)(save->outcome.sealed_ns - save->plan.begun_ns) * 1e-9;
    save->measured->last_fresh = save->sums.fresh;
    save->measured->last_elsewhere = save->sums.elsewhere;
    save->measured->changed_share = save->sums.looked ? (double)save->sums.changed / (double)save->sums.looked : 1;
    uint64_t stored = save->output->bytes_stored ? save->output->bytes_stored : save->sums.fresh + save->sums.rewritten;
    if (stored >= SPEED_LEAST)
        vv_learn(&save->measured->storage_speed, (double)stored / seconds);
}

void vv_save_accept(struct vv_save *save, struct vv_hash128 writers_digest) {
    struct vv_lineage *lineage = &save->job->lineage;
    struct vv_source *source = &lineage->history.sources[save->plan.source];
    source->writers_digest = writers_digest;
    source->raw_bytes = save->sums.fresh + save->sums.rewritten;
    vv_emptying_note(save);
    struct vv_committed committed = {save->plan.attempt, writers_digest, &save->manifest.layers, save->manifest.live,
                                     save->plan.layout_end};
    vv_lineage_accept(lineage, &committed);
    vv_capture_settle(save->memory->capture, 1);
    learn(save);
    vv_fine_evaluate(save);
    clear(save);
}

void vv_save_drop(struct vv_save *save) {
    end_writing(save);
    vv_lineage_drop(&save->job->lineage, save->plan.source);
    vv_capture_settle(save->memory->capture, 0);
    clear(save);
}
