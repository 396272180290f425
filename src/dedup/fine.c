/* The labels of fine chunks. Taking chunks in ascending order gives what many threads get in two passes, first
 * occurrences before the rest: the lowest of equal chunks is the one that is stored. */
#include "dedup/fine.h"
#include "base/content_id.h"

#define BATCH 8 /* chunks that are named before their slots are asked for, and looked at before their entries are */

/* ---- what was where ---- */

static struct vv_fine_mark mark_of(struct vv_hash128 id) {
    return (struct vv_fine_mark){(uint32_t)id.low, {(uint32_t)id.high, (uint32_t)(id.high >> 32)}};
}

static struct vv_fine_mark *mark_at(const struct vv_fine *fine, uint64_t offset) {
    return fine->marks ? &fine->marks[offset >> __builtin_ctz(fine->chunk)] : NULL;
}

static int is_marked(const struct vv_fine *fine, uint64_t offset, struct vv_hash128 id) {
    const struct vv_fine_mark *mark = mark_at(fine, offset), now = mark_of(id);
    return mark && mark->low == now.low && mark->high[0] == now.high[0] && mark->high[1] == now.high[1];
}

static void mark(const struct vv_fine *fine, uint64_t offset, struct vv_hash128 id) {
    if (fine->marks)
        *mark_at(fine, offset) = mark_of(id);
}

void vv_fine_forget(const struct vv_fine *fine, uint64_t offset, uint32_t size) {
    for (uint32_t at = 0; at < size && fine->marks; at += fine->chunk)
        *mark_at(fine, offset + at) = (struct vv_fine_mark){0};
}

void vv_fine_keep(const struct vv_fine *fine, uint64_t offset, const struct vv_hash128 *ids, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        mark(fine, offset + (uint64_t)i * fine->chunk, ids[i]);
}

/* ---- names ---- */

static uint32_t chunk_size(const struct vv_fine *fine, uint32_t at, uint32_t size) {
    return size - at < fine->chunk ? size - at : fine->chunk;
}

uint32_t vv_fine_name(const struct vv_fine *fine, const uint8_t *data, uint32_t size,
                      struct vv_hash128 ids[VV_FINE_MOST]) {
    uint32_t count = 0;
    for (uint32_t at = 0, step = fine->chunk * BATCH; at < size; at += step) {
        uint32_t end =
            count + vv_ids(fine->seed, data + at, size - at < step ? size - at : step, fine->chunk, ids + count);
        for (; count < end; count++)
            vv_fine_index_prefetch(fine->seen, ids[count]);
    }
    return count;
}

/* The entry of a chunk that may be referred to; VV_SEEN_NOT: it counts as never seen. *found: there is an entry all the
 * same. */
static uint32_t find_usable(const struct vv_fine *fine, struct vv_hash128 id, uint32_t *found) {
    *found = fine->is_by_place ? VV_SEEN_NOT : vv_fine_index_find(fine->seen, id);
    if (*found == VV_SEEN_NOT)
        return VV_SEEN_NOT;
    uint32_t source = vv_fine_index_place(fine->seen, *found).source;
    return source < fine->source_count && fine->is_usable[source] ? *found : VV_SEEN_NOT;
}

int vv_fine_is_new(const struct vv_fine *fine, uint64_t offset, const struct vv_hash128 *ids, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t found;
        if (vv_hash128_is_zero(ids[i]) || is_marked(fine, offset + (uint64_t)i * fine->chunk, ids[i]) ||
            find_usable(fine, ids[i], &found) != VV_SEEN_NOT)
            return 0;
    }
    return 1;
}

static void remember(const struct vv_fine *fine, struct vv_hash128 id, uint32_t found,
                     struct vv_fine_index_spot place) {
    if (fine->is_by_place)
        return;
    if (found == VV_SEEN_NOT)
        vv_fine_index_put(fine->seen, id, place);
    else
        vv_fine_index_move(fine->seen, found, place);
}

static int was_zero(const struct vv_fine *fine, uint64_t offset, uint32_t length) {
    struct vv_origin zero = {.offset = offset, .length = length, .kind = VV_ORIGIN_ZERO};
    return vv_origins_say(fine->past, &zero);
}

/* One chunk, as a run of its own. */
static struct vv_fine_run label_chunk(const struct vv_fine *fine, uint64_t offset, uint32_t length,
                                      struct vv_hash128 id) {
    struct vv_fine_run run = {.offset = offset, .length = length, .label = VV_LABEL_FIXED};
    if (vv_hash128_is_zero(id)) {
        run.label = was_zero(fine, offset, length) ? VV_LABEL_FIXED : VV_LABEL_ZERO;
        return run;
    }
    if (is_marked(fine, offset, id))
        return run;
    uint32_t found, known = find_usable(fine, id, &found);
    if (known == VV_SEEN_NOT) {
        run.label = VV_LABEL_FIRST;
        run.place = (struct vv_fine_index_spot){fine->source, fine->address + offset};
        remember(fine, id, found, run.place);
        return run;
    }
    run.label = VV_LABEL_SHIFTED;
    run.place = vv_fine_index_place(fine->seen, known);
    return run;
}

static int continues(const struct vv_fine_run *last, const struct vv_fine_run *next) {
    if (last->label != next->label || last->offset + last->length != next->offset)
        return 0;
    return last->label == VV_LABEL_ZERO ||
           (last->place.source == next->place.source && last->place.address + last->length == next->place.address);
}

static void count_label(struct vv_fine_counts *counts, uint32_t label) {
    counts->fixed += label == VV_LABEL_FIXED;
    counts->zero += label == VV_LABEL_ZERO;
    counts->first += label == VV_LABEL_FIRST;
    counts->shifted += label == VV_LABEL_SHIFTED;
}

uint32_t vv_fine_label(const struct vv_fine *fine, uint64_t offset, uint32_t size, const struct vv_hash128 *ids,
                       struct vv_fine_run runs[VV_FINE_MOST], struct vv_fine_counts *counts) {
    uint32_t count = 0, i = 0, ready = 0, all = (size + fine->chunk - 1) / fine->chunk;
    for (uint32_t at = 0; at < size; at += fine->chunk, i++) {
        for (; ready < all && ready < i + BATCH; ready++)
            vv_fine_index_prefetch_entry(fine->seen, ids[ready]);
        struct vv_fine_run run = label_chunk(fine, offset + at, chunk_size(fine, at, size), ids[i]);
        mark(fine, offset + at, ids[i]);
        count_label(counts, run.label);
        if (run.label == VV_LABEL_FIXED)
            continue;
        if (count > 0 && continues(&runs[count - 1], &run))
            runs[count - 1].length += run.length;
        else
            runs[count++] = run;
    }
    return count;
}

void vv_fine_note(const struct vv_fine *fine, uint64_t offset, const struct vv_hash128 *ids, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint64_t at = offset + (uint64_t)i * fine->chunk;
        mark(fine, at, ids[i]);
        if (!vv_hash128_is_zero(ids[i]))
            remember(fine, ids[i], vv_fine_index_find(fine->seen, ids[i]),
                     (struct vv_fine_index_spot){fine->source, fine->address + at});
    }
}

void vv_fine_restore(const struct vv_fine *fine, uint64_t offset, uint32_t size, const struct vv_hash128 *ids,
                     uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint64_t from = offset + (uint64_t)i * fine->chunk;
        uint64_t to = from + chunk_size(fine, i * fine->chunk, size), at = from;
        size_t slot = vv_origins_find(fine->past, from);
        mark(fine, from, ids[i]);
        if (vv_hash128_is_zero(ids[i]) || slot == fine->past->count)
            continue;
        const struct vv_origin *origin = &fine->past->list[slot];
        if (origin->kind == VV_ORIGIN_ZERO || origin->offset > from || origin->offset + origin->length < to)
            continue;
        struct vv_origin part = vv_origin_part(origin, &at, to);
        if (at == to && part.kind == VV_ORIGIN_FROM && part.owner == fine->owner && !fine->is_by_place &&
            vv_fine_index_find(fine->seen, ids[i]) == VV_SEEN_NOT)
            vv_fine_index_put(fine->seen, ids[i], (struct vv_fine_index_spot){part.source, part.address});
    }
}
