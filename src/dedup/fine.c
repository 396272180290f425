/* The labels of fine chunks. Taking chunks in ascending order gives what many threads get in two passes, first occurrences before the rest: the lowest of
 * equal chunks is the one that is stored. */
#include "chunk/id.h"
#include "dedup/fine.h"

/* `basic` knows a chunk only where it was: then its place is a part of its name. */
static struct vv_hash128 with_place(struct vv_hash128 id, uint64_t address) {
    id.low += (address + 1) * UINT64_C(0x9E3779B97F4A7C15);
    id.high ^= (address + 1) * UINT64_C(0xC2B2AE3D27D4EB4F);
    return id;
}

static uint32_t chunk_size(const struct vv_fine *fine, uint32_t at, uint32_t size) {
    return size - at < fine->chunk ? size - at : fine->chunk;
}

uint32_t vv_fine_name(const struct vv_fine *fine, uint64_t offset, const uint8_t *data, uint32_t size,
                      struct vv_hash128 ids[VV_FINE_MOST]) {
    uint32_t count = 0;
    for (uint32_t at = 0; at < size; at += fine->chunk, count++) {
        uint32_t length = chunk_size(fine, at, size);
        ids[count] = (struct vv_hash128){0, 0};
        if (vv_is_zero(data + at, length))
            continue;
        ids[count] = vv_id(fine->seed, data + at, length);
        if (fine->is_by_place)
            ids[count] = with_place(ids[count], fine->address + offset + at);
        vv_seen_prefetch(fine->seen, ids[count]);
    }
    return count;
}

/* The entry of a chunk that may be referred to; VV_SEEN_NOT: it counts as never seen. *found: there is an entry all the same. */
static uint32_t find_usable(const struct vv_fine *fine, struct vv_hash128 id, uint32_t *found) {
    *found = vv_seen_find(fine->seen, id);
    if (*found == VV_SEEN_NOT)
        return VV_SEEN_NOT;
    uint32_t source = vv_seen_place(fine->seen, *found).source;
    return source < fine->source_count && fine->is_usable[source] ? *found : VV_SEEN_NOT;
}

int vv_fine_is_new(const struct vv_fine *fine, const struct vv_hash128 *ids, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t found;
        if (vv_hash128_is_zero(ids[i]) || find_usable(fine, ids[i], &found) != VV_SEEN_NOT)
            return 0;
    }
    return 1;
}

static void remember(const struct vv_fine *fine, struct vv_hash128 id, uint32_t found, struct vv_seen_spot place) {
    if (found == VV_SEEN_NOT)
        vv_seen_put(fine->seen, id, place);
    else
        vv_seen_move(fine->seen, found, place);
}

/* One chunk, as a run of its own. */
static struct vv_fine_run label_chunk(const struct vv_fine *fine, uint64_t offset, uint32_t length, struct vv_hash128 id) {
    struct vv_fine_run run = {.offset = offset, .length = length, .label = VV_LABEL_FIRST};
    struct vv_origin origin = {.offset = offset, .length = length, .kind = VV_ORIGIN_ZERO};
    if (vv_hash128_is_zero(id)) {
        run.label = vv_origins_say(fine->past, &origin) ? VV_LABEL_FIXED : VV_LABEL_ZERO;
        return run;
    }
    uint32_t found, known = find_usable(fine, id, &found);
    if (known == VV_SEEN_NOT) {
        run.place = (struct vv_seen_spot){fine->source, fine->address + offset};
        remember(fine, id, found, run.place);
        return run;
    }
    run.place = vv_seen_place(fine->seen, known);
    origin.kind = VV_ORIGIN_FROM;
    origin.source = run.place.source;
    origin.owner = fine->owner;
    origin.address = run.place.address;
    run.label = vv_origins_say(fine->past, &origin) ? VV_LABEL_FIXED : VV_LABEL_SHIFTED;
    return run;
}

static int continues(const struct vv_fine_run *last, const struct vv_fine_run *next) {
    if (last->label != next->label || last->offset + last->length != next->offset)
        return 0;
    return last->label == VV_LABEL_ZERO || (last->place.source == next->place.source &&
                                            last->place.address + last->length == next->place.address);
}

static void count_label(struct vv_fine_counts *counts, uint32_t label) {
    counts->fixed += label == VV_LABEL_FIXED;
    counts->zero += label == VV_LABEL_ZERO;
    counts->first += label == VV_LABEL_FIRST;
    counts->shifted += label == VV_LABEL_SHIFTED;
}

uint32_t vv_fine_label(const struct vv_fine *fine, uint64_t offset, uint32_t size, const struct vv_hash128 *ids,
                       struct vv_fine_run runs[VV_FINE_MOST], struct vv_fine_counts *counts) {
    uint32_t count = 0, i = 0;
    for (uint32_t at = 0; at < size; at += fine->chunk, i++) {
        struct vv_fine_run run = label_chunk(fine, offset + at, chunk_size(fine, at, size), ids[i]);
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
        struct vv_seen_spot place = {fine->source, fine->address + offset + (uint64_t)i * fine->chunk};
        if (!vv_hash128_is_zero(ids[i]))
            remember(fine, ids[i], vv_seen_find(fine->seen, ids[i]), place);
    }
}

void vv_fine_restore(const struct vv_fine *fine, uint64_t offset, uint32_t size, const struct vv_hash128 *ids,
                     uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint64_t from = offset + (uint64_t)i * fine->chunk;
        uint64_t to = from + chunk_size(fine, i * fine->chunk, size), at = from;
        size_t slot = vv_origins_find(fine->past, from);
        if (vv_hash128_is_zero(ids[i]) || slot == fine->past->count)
            continue;
        const struct vv_origin *origin = &fine->past->list[slot];
        if (origin->kind == VV_ORIGIN_ZERO || origin->offset > from || origin->offset + origin->length < to)
            continue;
        struct vv_origin part = vv_origin_part(origin, &at, to);
        if (at == to && part.kind == VV_ORIGIN_FROM && part.owner == fine->owner)
            vv_seen_put(fine->seen, ids[i], (struct vv_seen_spot){part.source, part.address});
    }
}
