/* Where a granule has changed, only what is new in it is stored (dedup/fine.h). */
#include <errno.h>

#include "base/alloc.h"
#include "engine/engine_private.h"

static uint32_t name(const struct vv_scan *scan, uint64_t index, const uint8_t *data, uint32_t size,
                     struct vv_hash128 ids[VV_FINE_MOST]) {
    return vv_fine_name(&scan->fine, index * VV_CHUNK, data, size, ids);
}

int vv_scan_fine_is_new(struct vv_scan *scan, uint64_t index, const uint8_t *data, uint32_t size) {
    struct vv_hash128 ids[VV_FINE_MOST];
    return vv_fine_is_new(&scan->fine, ids, name(scan, index, data, size, ids));
}

void vv_scan_fine_note(struct vv_scan *scan, uint64_t index, const uint8_t *data, uint32_t size) {
    struct vv_hash128 ids[VV_FINE_MOST];
    vv_fine_note(&scan->fine, index * VV_CHUNK, ids, name(scan, index, data, size, ids));
}

/* ---- a granule ---- */

static struct vv_origin origin_of(const struct vv_scan *scan, const struct vv_fine_run *run) {
    return (struct vv_origin){.offset = run->offset,
                              .length = run->length,
                              .kind = run->label == VV_LABEL_ZERO ? VV_ORIGIN_ZERO : VV_ORIGIN_FROM,
                              .source = run->place.source,
                              .owner = scan->fine.owner,
                              .address = run->place.address};
}

static void count_run(struct vv_stats_sums *sums, const struct vv_fine_run *run) {
    *(run->label == VV_LABEL_ZERO    ? &sums->zero
      : run->label == VV_LABEL_FIRST ? &sums->fresh
                                     : &sums->known) += run->length;
}

/* All of it is new: it can be found as a whole, too. */
static void note_whole(struct vv_scan *scan, const struct vv_fine_run *run, struct vv_hash128 id) {
    struct vv_history *history = &scan->save->session->history;
    struct vv_known known = {id, run->place.source, scan->fine.owner, run->place.address};
    vv_table_put(&history->table, &known, history->is_alive);
}

int vv_scan_fine(struct vv_scan *scan, uint64_t index, const uint8_t *data, uint32_t size, struct vv_hash128 id) {
    struct vv_save *save = scan->save;
    uint64_t offset = index * VV_CHUNK;
    struct vv_hash128 ids[VV_FINE_MOST], none = {0, 0};
    struct vv_fine_run runs[VV_FINE_MOST];
    name(scan, index, data, size, ids);
    uint64_t first = save->fine_counts.first;
    uint32_t count = vv_fine_label(&scan->fine, offset, size, ids, runs, &save->fine_counts), changed = 0;
    int is_whole = count == 1 && runs[0].label == VV_LABEL_FIRST && runs[0].length == size, rc = 0;
    if (is_whole)
        note_whole(scan, &runs[0], id);
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        struct vv_origin origin = origin_of(scan, &runs[i]);
        changed += runs[i].length;
        count_run(&save->sums, &runs[i]);
        rc = vv_origins_add(&scan->past->changed, &origin);
        if (rc == 0 && runs[i].label == VV_LABEL_FIRST)
            rc = vv_copies_store(save, runs[i].place.address, data + (runs[i].offset - offset), runs[i].length,
                                 is_whole ? id : none);
    }
    save->sums.changed -= size - changed;
    save->sums.chunks_new += save->fine_counts.first - first;
    return rc;
}

/* ---- a save ---- */

/* As the program or the setting says; 0: nobody has said it. */
static uint32_t asked_for(const struct vv_session *session, const struct vv_region *region) {
    return region->fine ? region->fine : (uint32_t)session->settings.fine;
}

static uint64_t room_for(const struct vv_session *session, uint64_t protected_bytes) {
    return vv_seen_fit((uint64_t)(session->settings.fine_share * (double)protected_bytes));
}

int vv_fine_prepare(struct vv_save *save) {
    struct vv_session *session = save->session;
    struct vv_history *history = &session->history;
    int is_any = 0;
    for (size_t i = 0; i < session->regions.count; i++) {
        const struct vv_region *region = &session->regions.list[i];
        struct vv_past *past = vv_history_find(history, region->number);
        uint32_t asked = asked_for(session, region);
        past->fine = asked > 1 && !past->is_nameless && !past->pending_nameless ? asked : 0;
        is_any |= past->fine > 0;
    }
    if (!is_any)
        return 0;
    vv_seen_bound(&history->seen, room_for(session, save->sums.protected_bytes));
    if (history->seen.count >= history->seen.most)
        vv_seen_tidy(&history->seen, history->is_alive, history->source_count);
    save->is_usable = vv_malloc(history->source_count);
    if (!save->is_usable)
        return -ENOMEM;
    for (uint32_t i = 0; i < history->source_count; i++)
        save->is_usable[i] = history->is_alive[i] && !(save->is_victim && save->is_victim[i]);
    return 0;
}

void vv_scan_fine_begin(struct vv_scan *scan) {
    struct vv_save *save = scan->save;
    struct vv_session *session = save->session;
    int method = session->settings.fine_method;
    scan->is_full = method == VV_CHOOSE_FINE_METHOD_FULL;
    if (scan->past->fine == 0 || scan->is_full)
        return;
    scan->fine = (struct vv_fine){
        .seen = &session->history.seen,
        .seed = session->store->settings.seed,
        .chunk = scan->past->fine,
        .source = save->source,
        .owner = session->comm->rank,
        .address = scan->past->pending_address,
        .past = &scan->past->origins,
        .is_usable = save->is_usable,
        .source_count = session->history.source_count,
        .is_by_place = method == VV_CHOOSE_FINE_METHOD_BASIC || session->settings.dedup == VV_CHOOSE_DEDUP_NONE};
}

/* ---- after a restart ---- */

static void refill_region(struct vv_session *session, struct vv_history *history, const struct vv_region *region,
                          struct vv_past *past) {
    struct vv_fine fine = {.seen = &history->seen,
                           .seed = session->store->settings.seed,
                           .chunk = asked_for(session, region),
                           .owner = session->comm->rank,
                           .address = past->address,
                           .past = &past->origins,
                           .is_by_place = session->settings.fine_method == VV_CHOOSE_FINE_METHOD_BASIC ||
                                          session->settings.dedup == VV_CHOOSE_DEDUP_NONE};
    const uint8_t *memory = region->ptr;
    struct vv_hash128 ids[VV_FINE_MOST];
    for (uint64_t at = 0; at < past->length; at += VV_CHUNK) {
        uint32_t size = past->length - at < VV_CHUNK ? (uint32_t)(past->length - at) : VV_CHUNK;
        if (vv_hash128_is_zero(past->ids[at / VV_CHUNK]))
            continue;
        vv_fine_restore(&fine, at, size, ids, vv_fine_name(&fine, at, memory + at, size, ids));
    }
}

void vv_fine_refill(struct vv_session *session) {
    struct vv_history *history = &session->history;
    uint64_t protected_bytes = 0;
    for (size_t i = 0; i < session->regions.count; i++)
        protected_bytes += session->regions.list[i].size;
    vv_seen_bound(&history->seen, room_for(session, protected_bytes));
    for (size_t i = 0; i < session->regions.count; i++) {
        const struct vv_region *region = &session->regions.list[i];
        struct vv_past *past = region->name ? vv_history_find(history, region->number) : NULL;
        if (past && region->ptr && !past->is_nameless && past->length == region->size && asked_for(session, region) > 1)
            refill_region(session, history, region, past);
    }
}
