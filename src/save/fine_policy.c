/* How finely each region is looked at: as the program or the setting says, or as samples say; and what is remembered of
 * it. */
#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "capture/device.h"
#include "dedup/fine_sample.h"
#include "save/save_private.h"

#define USUAL_SPEED 1e9   /* bytes per second, of storage that nobody has measured yet */
#define USUAL_LOOK 0.5e-9 /* seconds per byte of changed granules, before any was looked at */

/* As the program or the setting says; 0: nobody has said it. */
static uint32_t asked_for(const struct vv_job *job, const struct vv_region *region) {
    return region->fine ? region->fine : (uint32_t)job->settings.fine;
}

uint64_t vv_fine_capacity(const struct vv_job *job, uint64_t protected_bytes) {
    return vv_fine_index_fit((uint64_t)(job->settings.fine_share * (double)protected_bytes));
}

/* ---- a save ---- */

static void choose_fine(const struct vv_save *save, const struct vv_region *region, struct vv_past *past) {
    uint32_t asked = asked_for(save->job, region);
    uint64_t granules = vv_granules(past->pending_length);
    past->fine = 0;
    if (region->device || past->has_no_ids || past->pending_no_ids ||
        save->job->settings.fine_method == VV_CHOOSE_FINE_METHOD_FULL)
        return;
    past->fine = asked > 1 ? asked : asked == 0 ? past->fine_sampled : 0;
    if (asked == 0 && vv_fine_sample_is_of(past->sample, granules))
        return;
    vv_fine_sample_free(past->sample);
    past->sample = asked == 0 ? vv_fine_sample_make(granules) : NULL;
}

/* Why a region is looked at finely, or is not. */
static const char *why(const struct vv_save *save, const struct vv_region *region) {
    if (save->job->settings.fine_method == VV_CHOOSE_FINE_METHOD_FULL)
        return "fine_method=full";
    if (region->device)
        return "a device looks for itself";
    if (region->fine)
        return region->fine > 1 ? "asked for by the program (varve_fine)" : "switched off by the program (varve_fine)";
    if (save->job->settings.fine)
        return save->job->settings.fine > 1 ? "asked for (fine)" : "switched off (fine=off)";
    return save->measured->fine_reason[0] ? save->measured->fine_reason : "not enough was sampled yet";
}

static int list_usable(struct vv_save *save) {
    const struct vv_history *history = &save->job->lineage.history;
    save->fine.is_usable = vv_malloc(history->source_count);
    if (!save->fine.is_usable)
        return -ENOMEM;
    for (uint32_t i = 0; i < history->source_count; i++)
        save->fine.is_usable[i] = history->is_alive[i] && !(save->plan.is_sparse && save->plan.is_sparse[i]);
    return 0;
}

int vv_fine_prepare(struct vv_save *save) {
    struct vv_history *history = &save->job->lineage.history;
    uint64_t most = 0, bytes = 0; /* of the regions that are looked at finely, the largest and all */
    save->outcome.stats.fine = 0;
    save->fine.why = "no region is protected";
    for (size_t i = 0; i < save->memory->regions.count; i++) {
        const struct vv_region *region = &save->memory->regions.list[i];
        struct vv_past *past = vv_history_find(history, region->number);
        choose_fine(save, region, past);
        uint32_t chunk = region->device ? vv_device_chunk(region, (uint32_t)save->job->settings.fine) : past->fine;
        bytes += chunk ? region->size : 0;
        save->fine.mark_bytes += past->fine ? region->size / past->fine * sizeof(struct vv_fine_mark) : 0;
        if (save->outcome.stats.fine == 0 || (chunk && region->size >= most))
            save->fine.why = why(save, region);
        if (chunk && region->size >= most) {
            most = region->size;
            save->outcome.stats.fine = chunk;
        }
    }
    if (bytes == 0)
        return 0;
    vv_fine_index_bound(&history->seen, vv_fine_capacity(save->job, save->sums.protected_bytes));
    if (history->seen.count >= history->seen.most)
        vv_fine_index_tidy(&history->seen, history->is_alive, history->source_count);
    return list_usable(save);
}

void vv_scan_fine_begin(struct vv_scan *scan) {
    struct vv_save *save = scan->save;
    int method = save->job->settings.fine_method;
    scan->is_full = method == VV_CHOOSE_FINE_METHOD_FULL;
    if (scan->past->fine == 0 || scan->is_full) { /* nobody will carry them along */
        vv_past_drop_marks(scan->past);
        return;
    }
    vv_past_marks(scan->past, scan->size, scan->past->fine);
    scan->past->are_marks_pending = 1;
    scan->fine = (struct vv_fine){.seen = &save->job->lineage.history.seen,
                                  .seed = save->job->store->settings.seed,
                                  .chunk = scan->past->fine,
                                  .source = save->plan.source,
                                  .owner = save->job->comm->rank,
                                  .address = scan->past->pending_address,
                                  .past = &scan->past->origins,
                                  .marks = scan->past->marks,
                                  .is_usable = save->fine.is_usable,
                                  .source_count = save->job->lineage.history.source_count,
                                  .is_by_place = method == VV_CHOOSE_FINE_METHOD_BASIC ||
                                                 save->job->settings.dedup == VV_CHOOSE_DEDUP_NONE};
}

/* ---- what samples say ---- */

void vv_fine_evaluate(struct vv_save *save) {
    double looked = (double)(save->fine.counts.fixed + save->fine.counts.zero + save->fine.counts.first +
                             save->fine.counts.shifted) *
                    save->outcome.stats.fine;
    if (looked > 0 && !save->plan.has_devices) /* which take other times, and may have compiled something first */
        save->measured->fine_look = (double)save->fine.ns * 1e-9 / looked;
    struct vv_fine_costs costs = {
        .write = 1 / vv_known_or(save->measured->storage_speed, USUAL_SPEED),
        .look = vv_known_or(save->measured->fine_look, USUAL_LOOK),
        .remember = save->job->settings.fine_share,
    };
    for (size_t i = 0; i < save->job->lineage.history.count; i++) {
        struct vv_past *past = &save->job->lineage.history.list[i];
        past->fine_sampled =
            vv_fine_sample_evaluate(past->sample, &costs, past->fine_sampled, save->measured->fine_reason);
    }
}

void vv_fine_report(const struct vv_save *save, struct vv_details *stats) {
    stats->chunks_fixed = save->fine.counts.fixed;
    stats->chunks_zero = save->fine.counts.zero;
    stats->chunks_first = save->fine.counts.first;
    stats->chunks_shifted = save->fine.counts.shifted;
    stats->bytes_seen = vv_fine_index_bytes(&save->job->lineage.history.seen) + save->fine.mark_bytes;
    stats->seconds_fine = (double)save->fine.ns * 1e-9;
    snprintf(stats->fine_reason, sizeof stats->fine_reason, "%s", save->fine.why ? save->fine.why : "");
}

/* ---- after a restart ---- */

static void refill_granule(const struct vv_fine *fine, const uint8_t *memory, uint64_t length, uint64_t at) {
    struct vv_hash128 ids[VV_FINE_MOST];
    uint32_t size = length - at < VV_GRANULE ? (uint32_t)(length - at) : VV_GRANULE;
    vv_fine_restore(fine, at, size, ids, vv_fine_name(fine, memory + at, size, ids));
}

static void refill_region(struct vv_job *job, struct vv_history *history, const struct vv_region *region,
                          struct vv_past *past) {
    vv_past_marks(past, past->length, asked_for(job, region));
    struct vv_fine fine = {.seen = &history->seen,
                           .seed = job->store->settings.seed,
                           .chunk = past->marks_chunk,
                           .owner = job->comm->rank,
                           .past = &past->origins,
                           .marks = past->marks,
                           .is_by_place = job->settings.fine_method == VV_CHOOSE_FINE_METHOD_BASIC ||
                                          job->settings.dedup == VV_CHOOSE_DEDUP_NONE};
    uint64_t done = 0;
    for (size_t i = 0; i < past->origins.count; i++) {
        const struct vv_origin *origin = &past->origins.list[i];
        uint64_t from = origin->offset / VV_GRANULE * VV_GRANULE, to = origin->offset + origin->length;
        if (origin->kind == VV_ORIGIN_ZERO)
            continue;
        done = from > done ? from : done;
        for (; done < to; done += VV_GRANULE)
            refill_granule(&fine, (const uint8_t *)region->ptr, past->length, done);
    }
}

void vv_fine_refill(struct vv_job *job, struct vv_protected *memory, int is_as_restored) {
    struct vv_history *history = &job->lineage.history;
    uint64_t protected_bytes = 0;
    for (size_t i = 0; i < memory->regions.count; i++)
        protected_bytes += memory->regions.list[i].size;
    vv_fine_index_bound(&history->seen, vv_fine_capacity(job, protected_bytes));
    vv_devices_lose_step(&memory->regions, job->lineage.is_settled_well);
    for (size_t i = 0; i < memory->regions.count && is_as_restored; i++) {
        const struct vv_region *region = &memory->regions.list[i];
        struct vv_past *past = region->name ? vv_history_find(history, region->number) : NULL;
        if (past && region->device)
            vv_device_restored(job, region, past);
        if (past && region->ptr && !past->has_no_ids && past->length == region->size && asked_for(job, region) > 1)
            refill_region(job, history, region, past);
    }
}
