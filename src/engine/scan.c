/* Find what changed: chunk by chunk, by content id, against the last committed checkpoint and the table of known ids.
 * Chunks come from the capture in any order. What was never touched is not read. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "chunk/id.h"
#include "engine/engine_private.h"

#define WINDOW (1u << 20) /* of callback regions */

static uint64_t granule_end(const struct vv_scan *scan, uint64_t index) {
    uint64_t end = (index + 1) * VV_CHUNK;
    return end < scan->size ? end : scan->size;
}

static struct vv_hash128 past_id(const struct vv_scan *scan, uint64_t index) {
    struct vv_hash128 none = {0, 0};
    return index * VV_CHUNK < scan->past->length ? scan->past->ids[index] : none;
}

/* Granule `index` has a new id: keep it for the commit, and carry the digest along. */
static int change_id(struct vv_scan *scan, uint64_t index, struct vv_hash128 id) {
    struct vv_past *past = scan->past;
    struct vv_hash128 before = past_id(scan, index);
    if (vv_hash128_equal(before, id))
        return 0;
    if (!vv_hash128_is_zero(before))
        past->pending_digest = vv_hash128_subtract(past->pending_digest, vv_digest_term(index, before));
    if (!vv_hash128_is_zero(id))
        past->pending_digest = vv_hash128_add(past->pending_digest, vv_digest_term(index, id));
    return vv_past_new_id(past, index, id);
}

/* Is this unchanged granule held by a source that is nearly empty, and is there budget to store it again? */
static int wants_rewrite(struct vv_scan *scan, uint64_t index, uint32_t size) {
    struct vv_save *save = scan->save;
    const struct vv_origins *origins = &scan->past->origins;
    if (!save->is_victim)
        return 0;
    size_t at = vv_origins_find(origins, index * VV_CHUNK);
    if (at == origins->count)
        return 0;
    const struct vv_origin *origin = &origins->list[at];
    double budget = save->session->settings.rewrite_share * (double)save->sums.fresh;
    return origin->kind != VV_ORIGIN_ZERO && save->is_victim[origin->source] &&
           (double)(save->sums.rewritten + size) <= budget;
}

/* Where the bytes of a changed, non-zero granule are found: somewhere we know, or here as new data. */
static int place_chunk(struct vv_scan *scan, uint64_t index, const uint8_t *data, uint32_t size, struct vv_hash128 id,
                       int is_rewrite, struct vv_origin *origin) {
    struct vv_save *save = scan->save;
    struct vv_history *history = &save->session->history;
    const struct vv_known *known = vv_table_find(&history->table, id);
    origin->kind = VV_ORIGIN_FROM;
    if (known && history->is_alive[known->source] && !(save->is_victim && save->is_victim[known->source])) {
        origin->source = known->source;
        origin->owner = known->owner;
        origin->address = known->address;
        if (!is_rewrite)
            save->sums.known += size;
        return 0;
    }
    origin->source = save->source;
    origin->owner = save->session->comm->rank;
    origin->address = scan->past->pending_address + index * VV_CHUNK;
    *(is_rewrite ? &save->sums.rewritten : &save->sums.fresh) += size;
    save->sums.chunks_new++;
    struct vv_known fresh = {id, origin->source, origin->owner, origin->address};
    vv_table_put(&history->table, &fresh, history->is_alive);
    return vv_blocks_add(save->blocks, origin->address, data, size, id);
}

static int scan_chunk(struct vv_scan *scan, uint64_t index, const uint8_t *data) {
    struct vv_save *save = scan->save;
    uint32_t size = (uint32_t)(granule_end(scan, index) - index * VV_CHUNK);
    struct vv_hash128 id = {0, 0};
    if (!vv_is_zero(data, size))
        id = vv_id(save->session->store->settings.seed, data, size);
    int is_rewrite = 0;
    if (index < scan->comparable && vv_hash128_equal(id, scan->past->ids[index])) {
        is_rewrite = !vv_hash128_is_zero(id) && wants_rewrite(scan, index, size);
        if (!is_rewrite)
            return 0;
    } else {
        save->sums.changed += size;
    }
    struct vv_origin origin = {.offset = index * VV_CHUNK, .length = size, .kind = VV_ORIGIN_ZERO};
    int rc = 0;
    if (vv_hash128_is_zero(id))
        save->sums.zero += size;
    else
        rc = place_chunk(scan, index, data, size, id, is_rewrite, &origin);
    if (rc == 0)
        rc = change_id(scan, index, id);
    return rc ? rc : vv_origins_add(&scan->past->changed, &origin);
}

static int scan_chunks(struct vv_scan *scan, uint64_t first, uint64_t last, const uint8_t *data) {
    for (uint64_t i = first; i < last; i++) {
        int rc = scan_chunk(scan, i, data + (i - first) * VV_CHUNK);
        if (rc)
            return rc;
    }
    return 0;
}

static int add_zero(struct vv_scan *scan, uint64_t first, uint64_t last) {
    uint64_t from = first * VV_CHUNK, to = granule_end(scan, last - 1);
    struct vv_origin origin = {.offset = from, .length = to - from, .kind = VV_ORIGIN_ZERO};
    scan->save->sums.changed += to - from;
    scan->save->sums.zero += to - from;
    return vv_origins_add(&scan->past->changed, &origin);
}

static int clear_ids(struct vv_scan *scan, uint64_t first, uint64_t last) {
    struct vv_hash128 zero = {0, 0};
    for (uint64_t i = first; i < last; i++) {
        int rc = change_id(scan, i, zero);
        if (rc)
            return rc;
    }
    return 0;
}

/* Granules [first, last) were never touched. Only where the past was not zero is there anything to do, and its origins tell where. */
static int zero_chunks(struct vv_scan *scan, uint64_t first, uint64_t last) {
    const struct vv_origins *origins = &scan->past->origins;
    uint64_t known = last < scan->comparable ? last : scan->comparable;
    uint64_t done = first;
    for (size_t i = vv_origins_find(origins, first * VV_CHUNK); i < origins->count && done < known; i++) {
        const struct vv_origin *origin = &origins->list[i];
        uint64_t from = origin->offset / VV_CHUNK, to = vv_granules(origin->offset + origin->length);
        if (from >= known)
            break;
        if (origin->kind == VV_ORIGIN_ZERO)
            continue;
        from = from > done ? from : done;
        to = to < known ? to : known;
        if (from >= to)
            continue;
        int rc = clear_ids(scan, from, to);
        if (rc == 0)
            rc = add_zero(scan, from, to);
        if (rc)
            return rc;
        done = to;
    }
    if (last <= scan->comparable)
        return 0;
    first = first > scan->comparable ? first : scan->comparable;
    /* One granule at most lies in the past with another end: the last one. */
    int rc = first * VV_CHUNK < scan->past->length ? clear_ids(scan, first, first + 1) : 0;
    return rc ? rc : add_zero(scan, first, last);
}

int vv_scan_untouched(struct vv_scan *scan, uint64_t first, uint64_t last) {
    return first < last ? zero_chunks(scan, first, last) : 0;
}

int vv_scan_piece(struct vv_scan *scan, uint64_t first, uint32_t count, const uint8_t *data) {
    uint64_t last = first + count < scan->granules ? first + count : scan->granules;
    vv_blocks_region(scan->save->blocks, scan->past->number);
    scan->save->sums.looked += granule_end(scan, last - 1) - first * VV_CHUNK;
    return scan_chunks(scan, first, last, data);
}

int vv_scan_callback(struct vv_scan *scan, const struct vv_region *region, struct varve_error *error) {
    uint8_t *window = vv_malloc(WINDOW);
    int rc = window ? 0 : -ENOMEM;
    for (uint64_t at = 0; at < scan->size && rc == 0; at += WINDOW) {
        uint64_t size = scan->size - at < WINDOW ? scan->size - at : WINDOW;
        rc = region->callbacks.save(region->arg, at, window, size);
        if (rc) {
            rc = vv_error(error, rc < 0 ? rc : -EIO, "region %s: its save callback returned %d at offset %llu",
                          region->name, rc, (unsigned long long)at);
            break;
        }
        rc = vv_scan_piece(scan, at / VV_CHUNK, (uint32_t)vv_granules(size), window);
    }
    vv_free(window);
    return rc;
}

/* The region is shorter than it was: the digest loses what lay behind the new end. */
static void forget_tail(struct vv_scan *scan) {
    struct vv_past *past = scan->past;
    uint64_t done = scan->granules; /* a granule may have several origins, but one id */
    for (size_t i = vv_origins_find(&past->origins, scan->granules * VV_CHUNK); i < past->origins.count; i++) {
        const struct vv_origin *origin = &past->origins.list[i];
        if (origin->kind == VV_ORIGIN_ZERO)
            continue;
        uint64_t from = origin->offset / VV_CHUNK;
        uint64_t to = vv_granules(origin->offset + origin->length);
        for (done = from > done ? from : done; done < to; done++)
            if (!vv_hash128_is_zero(past->ids[done]))
                past->pending_digest =
                    vv_hash128_subtract(past->pending_digest, vv_digest_term(done, past->ids[done]));
    }
}

int vv_scan_begin(struct vv_scan *scan, struct vv_save *save, struct vv_past *past, uint64_t size) {
    *scan = (struct vv_scan){.save = save, .past = past, .size = size, .granules = vv_granules(size)};
    uint64_t shorter = past->length < size ? past->length : size;
    scan->comparable = past->length == size ? scan->granules : shorter / VV_CHUNK;
    if (past->is_new)
        scan->comparable = 0;
    past->pending_digest = past->digest;
    int rc = vv_past_room(past, scan->granules);
    if (rc == 0 && past->length > size)
        forget_tail(scan);
    return rc;
}
