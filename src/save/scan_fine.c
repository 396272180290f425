/* Where a granule has changed, only what is new in it is stored (dedup/fine.h). */
#include "save/save_private.h"

int vv_scan_fine_is_new(struct vv_scan *scan, uint64_t index, const uint8_t *data, uint32_t size) {
    struct vv_hash128 ids[VV_FINE_MOST];
    return vv_fine_is_new(&scan->fine, index * VV_GRANULE, ids, vv_fine_name(&scan->fine, data, size, ids));
}

void vv_scan_fine_keep(struct vv_scan *scan, uint64_t index, const uint8_t *data, uint32_t size) {
    struct vv_hash128 ids[VV_FINE_MOST];
    vv_fine_keep(&scan->fine, index * VV_GRANULE, ids, vv_fine_name(&scan->fine, data, size, ids));
}

void vv_scan_fine_note(struct vv_scan *scan, uint64_t index, const uint8_t *data, uint32_t size) {
    struct vv_hash128 ids[VV_FINE_MOST];
    vv_fine_note(&scan->fine, index * VV_GRANULE, ids, vv_fine_name(&scan->fine, data, size, ids));
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
    struct vv_history *history = &scan->save->job->lineage.history;
    struct vv_known known = {id, run->place.source, scan->fine.owner, run->place.address};
    vv_table_put(&history->table, &known, history->is_alive);
}

int vv_scan_fine(struct vv_scan *scan, uint64_t index, const uint8_t *data, uint32_t size, struct vv_hash128 id,
                 const struct vv_hash128 *fine_ids) {
    struct vv_save *save = scan->save;
    uint64_t offset = index * VV_GRANULE;
    struct vv_hash128 ids[VV_FINE_MOST], none = {0, 0};
    struct vv_fine_run runs[VV_FINE_MOST];
    uint64_t begun = vv_fine_clock(index);
    if (!fine_ids)
        vv_fine_name(&scan->fine, data, size, ids);
    uint64_t first = save->fine.counts.first;
    uint32_t changed = 0;
    uint32_t count = vv_fine_label(&scan->fine, offset, size, fine_ids ? fine_ids : ids, runs, &save->fine.counts);
    save->fine.ns += vv_fine_took(index, begun);
    int is_whole = count == 1 && runs[0].label == VV_LABEL_FIRST && runs[0].length == size, rc = 0;
    if (is_whole)
        note_whole(scan, &runs[0], id);
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        struct vv_origin origin = origin_of(scan, &runs[i]);
        changed += runs[i].length;
        count_run(&save->sums, &runs[i]);
        rc = vv_origins_add(&scan->past->changed, &origin);
        if (rc == 0 && runs[i].label == VV_LABEL_FIRST)
            rc = vv_save_store(save, runs[i].place.address, data + (runs[i].offset - offset), runs[i].length,
                               is_whole ? id : none);
    }
    save->sums.changed -= size - changed;
    save->sums.chunks_new += save->fine.counts.first - first;
    return rc;
}
