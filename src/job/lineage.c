#include "job/lineage.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

void vv_lineage_request(struct vv_lineage *lineage, uint64_t version) {
    if (lineage->tried_version != version)
        lineage->tries = 0;
    lineage->tried_version = version;
}

uint32_t vv_lineage_try(struct vv_lineage *lineage) {
    return lineage->tries++;
}

void vv_lineage_doubt(struct vv_lineage *lineage) {
    lineage->must_begin_anew = 1;
}

void vv_lineage_reset(struct vv_lineage *lineage) {
    lineage->must_begin_anew = lineage->is_continued = 0;
    vv_history_clear(&lineage->history);
    memset(&lineage->layers, 0, sizeof lineage->layers);
    memset(&lineage->parent, 0, sizeof lineage->parent);
}

void vv_lineage_accept(struct vv_lineage *lineage, const struct vv_committed *committed) {
    vv_history_accept(&lineage->history, committed->live);
    lineage->history.layout_end = committed->layout_end;
    lineage->layers = *committed->layers;
    lineage->parent = committed->attempt;
    lineage->parent_writers = committed->writers_digest;
    lineage->next_version = committed->attempt.version + 1;
    lineage->has_saved = 1;
    lineage->is_continued = 0;
    lineage->is_settled_well = 1;
}

void vv_lineage_drop(struct vv_lineage *lineage, uint32_t source) {
    vv_history_drop(&lineage->history, source);
    lineage->is_settled_well = 0;
}

void vv_lineage_replace(struct vv_lineage *lineage, struct vv_view *view, struct vv_history *history,
                        const struct vv_recipe_layers *layers) {
    vv_history_clear(&lineage->history);
    lineage->history = *history;
    memset(history, 0, sizeof *history);
    lineage->layers = layers ? *layers : (struct vv_recipe_layers){0};
    lineage->parent = lineage->origin = *vv_view_attempt(view);
    lineage->parent_writers = vv_view_record(view)->writers_digest;
    lineage->has_saved = 0;
    lineage->is_continued = !layers;
    lineage->tries = 0;
}

int vv_lineage_reserve_rejected(struct vv_lineage *lineage) {
    size_t size = (lineage->rejected_count + 1) * 2 * sizeof *lineage->rejected;
    uint64_t *rejected = vv_realloc(lineage->rejected, size);
    if (!rejected)
        return -ENOMEM;
    lineage->rejected = rejected;
    return 0;
}

void vv_lineage_reject(struct vv_lineage *lineage, uint32_t generation, uint64_t version) {
    lineage->rejected[2 * lineage->rejected_count] = generation;
    lineage->rejected[2 * lineage->rejected_count + 1] = version;
    lineage->rejected_count++;
}

int vv_lineage_is_rejected(const struct vv_lineage *lineage, uint32_t generation, uint64_t version) {
    for (size_t i = 0; i < lineage->rejected_count; i++)
        if (lineage->rejected[2 * i] == generation && lineage->rejected[2 * i + 1] == version)
            return 1;
    return 0;
}

void vv_lineage_note_restart(struct vv_lineage *lineage, int has_failed) {
    lineage->has_failed_restart = has_failed;
}

void vv_lineage_note_dying(struct vv_lineage *lineage, uint64_t bytes, size_t kept) {
    for (size_t i = VV_DYING - 1; i > 0; i--)
        lineage->dying[i] = i < kept ? lineage->dying[i - 1] : 0;
    lineage->dying[0] = kept > 0 ? bytes : 0;
}

void vv_lineage_clear(struct vv_lineage *lineage) {
    vv_history_clear(&lineage->history);
    vv_free(lineage->rejected);
}
