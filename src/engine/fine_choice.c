/* How finely each region is looked at: as the program or the setting says, or as samples say; and what is remembered of it. */
#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "dedup/fine_sample.h"
#include "engine/engine_private.h"

#define USUAL_SPEED 1e9  /* bytes per second, of storage that nobody has measured yet */
#define USUAL_LOOK 0.5e-9 /* seconds per byte of changed granules, before any was looked at */

/* As the program or the setting says; 0: nobody has said it. */
static uint32_t asked_for(const struct vv_session *session, const struct vv_region *region) {
    return region->fine ? region->fine : (uint32_t)session->settings.fine;
}

uint64_t vv_fine_room(const struct vv_session *session, uint64_t protected_bytes) {
    return vv_seen_fit((uint64_t)(session->settings.fine_share * (double)protected_bytes));
}

/* ---- a save ---- */

static void choose(const struct vv_session *session, const struct vv_region *region, struct vv_past *past) {
    uint32_t asked = asked_for(session, region);
    uint64_t granules = vv_granules(past->pending_length);
    past->fine = 0;
    if (region->device || past->is_nameless || past->pending_nameless ||
        session->settings.fine_method == VV_CHOOSE_FINE_METHOD_FULL)
        return;
    past->fine = asked > 1 ? asked : asked == 0 ? past->fine_sampled : 0;
    if (asked == 0 && vv_fine_sample_is_of(past->sample, granules))
        return;
    vv_fine_sample_free(past->sample);
    past->sample = asked == 0 ? vv_fine_sample_make(granules) : NULL;
}

/* Why a region is looked at finely, or is not. */
static const char *why(const struct vv_session *session, const struct vv_region *region) {
    if (session->settings.fine_method == VV_CHOOSE_FINE_METHOD_FULL)
        return "fine_method=full";
    if (region->device)
        return "a device looks for itself";
    if (region->fine)
        return region->fine > 1 ? "asked for by the program (varve_fine)" : "switched off by the program (varve_fine)";
    if (session->settings.fine)
        return session->settings.fine > 1 ? "asked for (fine)" : "switched off (fine=1)";
    return session->fine_reason[0] ? session->fine_reason : "not enough was sampled yet";
}

static int list_usable(struct vv_save *save) {
    const struct vv_history *history = &save->session->history;
    save->is_usable = vv_malloc(history->source_count);
    if (!save->is_usable)
        return -ENOMEM;
    for (uint32_t i = 0; i < history->source_count; i++)
        save->is_usable[i] = history->is_alive[i] && !(save->is_victim && save->is_victim[i]);
    return 0;
}

int vv_fine_prepare(struct vv_save *save) {
    struct vv_session *session = save->session;
    struct vv_history *history = &session->history;
    uint64_t most = 0, bytes = 0; /* of the regions that are looked at finely, the largest and all */
    save->stats.fine = 0;
    save->fine_why = "no region is protected";
    for (size_t i = 0; i < session->regions.count; i++) {
        const struct vv_region *region = &session->regions.list[i];
        struct vv_past *past = vv_history_find(history, region->number);
        choose(session, region, past);
        uint32_t chunk = region->device ? vv_device_chunk(session, region) : past->fine;
        bytes += chunk ? region->size : 0;
        save->mark_bytes += past->fine ? region->size / past->fine * sizeof(struct vv_fine_mark) : 0;
        if (save->stats.fine == 0 || (chunk && region->size >= most))
            save->fine_why = why(session, region);
        if (chunk && region->size >= most) {
            most = region->size;
            save->stats.fine = chunk;
        }
    }
    if (bytes == 0)
        return 0;
    vv_seen_bound(&history->seen, vv_fine_room(session, save->sums.protected_bytes));
    if (history->seen.count >= history->seen.most)
        vv_seen_tidy(&history->seen, history->is_alive, history->source_count);
    return list_usable(save);
}

void vv_scan_fine_begin(struct vv_scan *scan) {
    struct vv_save *save = scan->save;
    struct vv_session *session = save->session;
    int method = session->settings.fine_method;
    scan->is_full = method == VV_CHOOSE_FINE_METHOD_FULL;
    if (scan->past->fine == 0 || scan->is_full) { /* nobody will carry them along */
        vv_past_drop_marks(scan->past);
        return;
    }
    vv_past_marks(scan->past, scan->size, scan->past->fine);
    scan->past->are_marks_pending = 1;
    scan->fine = (struct vv_fine){
        .seen = &session->history.seen,
        .seed = session->store->settings.seed,
        .chunk = scan->past->fine,
        .source = save->source,
        .owner = session->comm->rank,
        .address = scan->past->pending_address,
        .past = &scan->past->origins,
        .marks = scan->past->marks,
        .is_usable = save->is_usable,
        .source_count = session->history.source_count,
        .is_by_place = method == VV_CHOOSE_FINE_METHOD_BASIC || session->settings.dedup == VV_CHOOSE_DEDUP_NONE};
}

/* ---- what samples say ---- */

void vv_fine_judge(struct vv_save *save) {
    struct vv_session *session = save->session;
    double looked = (double)(save->fine_counts.fixed + save->fine_counts.zero + save->fine_counts.first +
                             save->fine_counts.shifted) * save->stats.fine;
    if (looked > 0 && !save->has_devices) /* which take other times, and may have compiled something first */
        session->fine_look = (double)save->fine_ns * 1e-9 / looked;
    struct vv_fine_costs costs = {
        .write = 1 / (session->storage_speed > 0 ? session->storage_speed : USUAL_SPEED),
        .look = session->fine_look > 0 ? session->fine_look : USUAL_LOOK,
        .remember = session->settings.fine_share,
    };
    for (size_t i = 0; i < session->history.count; i++) {
        struct vv_past *past = &session->history.list[i];
        past->fine_sampled = vv_fine_sample_judge(past->sample, &costs, past->fine_sampled, session->fine_reason);
    }
}

void vv_fine_say(const struct vv_save *save, struct varve_stats *stats) {
    const struct vv_session *session = save->session;
    stats->chunks_fixed = save->fine_counts.fixed;
    stats->chunks_zero = save->fine_counts.zero;
    stats->chunks_first = save->fine_counts.first;
    stats->chunks_shifted = save->fine_counts.shifted;
    stats->bytes_seen = vv_seen_bytes(&session->history.seen) + save->mark_bytes;
    stats->seconds_fine = (double)save->fine_ns * 1e-9;
    snprintf(stats->fine_reason, sizeof stats->fine_reason, "%s", save->fine_why ? save->fine_why : "");
}

/* ---- after a restart ---- */

static void refill_granule(const struct vv_fine *fine, const uint8_t *memory, uint64_t length, uint64_t at) {
    struct vv_hash128 ids[VV_FINE_MOST];
    uint32_t size = length - at < VV_CHUNK ? (uint32_t)(length - at) : VV_CHUNK;
    vv_fine_restore(fine, at, size, ids, vv_fine_name(fine, memory + at, size, ids));
}

static void refill_region(struct vv_session *session, struct vv_history *history, const struct vv_region *region,
                          struct vv_past *past) {
    vv_past_marks(past, past->length, asked_for(session, region));
    struct vv_fine fine = {.seen = &history->seen,
                           .seed = session->store->settings.seed,
                           .chunk = past->marks_chunk,
                           .owner = session->comm->rank,
                           .past = &past->origins,
                           .marks = past->marks,
                           .is_by_place = session->settings.fine_method == VV_CHOOSE_FINE_METHOD_BASIC ||
                                          session->settings.dedup == VV_CHOOSE_DEDUP_NONE};
    uint64_t done = 0;
    for (size_t i = 0; i < past->origins.count; i++) {
        const struct vv_origin *origin = &past->origins.list[i];
        uint64_t from = origin->offset / VV_CHUNK * VV_CHUNK, to = origin->offset + origin->length;
        if (origin->kind == VV_ORIGIN_ZERO)
            continue;
        done = from > done ? from : done;
        for (; done < to; done += VV_CHUNK)
            refill_granule(&fine, (const uint8_t *)region->ptr, past->length, done);
    }
}

void vv_fine_refill(struct vv_session *session) {
    struct vv_history *history = &session->history;
    uint64_t protected_bytes = 0;
    for (size_t i = 0; i < session->regions.count; i++)
        protected_bytes += session->regions.list[i].size;
    vv_seen_bound(&history->seen, vv_fine_room(session, protected_bytes));
    vv_devices_lose_step(session);
    for (size_t i = 0; i < session->regions.count; i++) {
        const struct vv_region *region = &session->regions.list[i];
        struct vv_past *past = region->name ? vv_history_find(history, region->number) : NULL;
        if (past && region->device)
            vv_device_restored(session, region, past);
        if (past && region->ptr && !past->is_nameless && past->length == region->size && asked_for(session, region) > 1)
            refill_region(session, history, region, past);
    }
}
