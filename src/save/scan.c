/* Find what changed: chunk by chunk, by content id, against the last committed checkpoint and the table of known ids.
 * Chunks come from the capture in any order. What was never touched is not read. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/content_id.h"
#include "encode/grid.h"
#include "save/save_private.h"

#define WINDOW (1u << 20) /* of callback regions */

static uint64_t granule_end(const struct vv_scan *scan, uint64_t index) {
    uint64_t end = (index + 1) * VV_GRANULE;
    return end < scan->size ? end : scan->size;
}

static struct vv_hash128 past_id(const struct vv_scan *scan, uint64_t index) {
    struct vv_hash128 none = {0, 0};
    return !scan->is_blank && index * VV_GRANULE < scan->past->length ? scan->past->ids[index] : none;
}

/* Granule `index` has a new id: keep it for the commit, and carry the digest along. */
int vv_scan_new_id(struct vv_scan *scan, uint64_t index, struct vv_hash128 id) {
    struct vv_past *past = scan->past;
    struct vv_hash128 before = past_id(scan, index);
    if (vv_hash128_equal(before, id))
        return 0;
    if (!vv_hash128_is_zero(before))
        past->pending_digest = vv_hash128_subtract(past->pending_digest, vv_digest_term(index, before));
    if (!vv_hash128_is_zero(id))
        past->pending_digest = vv_hash128_add(past->pending_digest, vv_digest_term(index, id));
    return past->pending_no_ids ? 0 : vv_past_new_id(past, index, id);
}

/* It is all zero now: what its origin says. */
static void forget_marks(const struct vv_scan *scan, uint64_t index) {
    if (scan->fine.chunk)
        vv_fine_forget(&scan->fine, index * VV_GRANULE, (uint32_t)(granule_end(scan, index) - index * VV_GRANULE));
}

/* Where some of this granule is held by a source that is being emptied; NULL: it is not. */
static const struct vv_origin *find_sparse(const struct vv_scan *scan, uint64_t index, uint32_t size) {
    const struct vv_save *save = scan->save;
    const struct vv_origins *origins = &scan->past->origins;
    if (!save->plan.is_sparse)
        return NULL;
    for (size_t at = vv_origins_find(origins, index * VV_GRANULE);
         at < origins->count && origins->list[at].offset < index * VV_GRANULE + size; at++) {
        const struct vv_origin *origin = &origins->list[at];
        if (origin->kind != VV_ORIGIN_ZERO && save->plan.is_sparse[origin->source])
            return origin;
    }
    return NULL;
}

/* An unchanged granule. Of what repeats a piece only the first is stored. */
static int wants_rewrite(struct vv_scan *scan, uint64_t index, uint32_t size) {
    const struct vv_origin *origin = find_sparse(scan, index, size);
    if (!origin)
        return 0;
    return origin->kind == VV_ORIGIN_REPEATED ? scan->save->plan.rewrite_left > 0 : vv_emptying_take(scan->save, size);
}

/* Is this content stored somewhere we know and may refer to? Without ids of the past the table alone can tell. */
enum { KNOWN = 1, KNOWN_SPARSE /* where few live bytes are left */ };
static int is_known(const struct vv_scan *scan, struct vv_hash128 id, struct vv_origin *origin) {
    const struct vv_save *save = scan->save;
    if (scan->is_full || (scan->fine.is_by_place && !save->job->lineage.is_continued))
        return 0;
    int is_asked =
        save->job->settings.dedup != VV_CHOOSE_DEDUP_NONE || scan->is_blank || save->job->lineage.is_continued;
    const struct vv_known *known = is_asked ? vv_table_find(&save->job->lineage.history.table, id) : NULL;
    if (!known || !save->job->lineage.history.is_alive[known->source])
        return 0;
    origin->source = known->source;
    origin->owner = known->owner;
    origin->address = known->address;
    return save->plan.is_sparse && save->plan.is_sparse[known->source] ? KNOWN_SPARSE : KNOWN;
}

/* Where the bytes of a changed, non-zero granule are found: somewhere we know, or here as new data. */
static int place_chunk(struct vv_scan *scan, uint64_t index, const uint8_t *data, uint32_t size, struct vv_hash128 id,
                       int is_rewrite, struct vv_origin *origin) {
    struct vv_save *save = scan->save;
    struct vv_history *history = &save->job->lineage.history;
    origin->kind = VV_ORIGIN_FROM;
    int known = is_known(scan, id, origin);
    int is_sparse = known == KNOWN_SPARSE && scan->is_blank; /* it may have been there all the time */
    if (known == KNOWN || (is_sparse && !vv_emptying_take(save, size))) {
        if (scan->is_blank) /* nothing else will remember it */
            vv_table_touch(&history->table, id);
        if (!is_rewrite)
            save->sums.known += size;
        return 0;
    }
    is_rewrite |= is_sparse;
    origin->source = save->plan.source;
    origin->owner = save->job->comm->rank;
    origin->address = scan->past->pending_address + index * VV_GRANULE;
    *(is_rewrite ? &save->sums.rewritten : &save->sums.fresh) += size;
    save->sums.chunks_new++;
    struct vv_known fresh = {id, origin->source, origin->owner, origin->address};
    vv_table_put(&history->table, &fresh, history->is_alive);
    if (scan->fine.chunk)
        vv_scan_fine_note(scan, index, data, size);
    return vv_save_store(save, origin->address, data, size, id);
}

/* A region may be stored with a bound: then everything from here on, ids too, is of the rounded values. */
static const uint8_t *as_stored(const struct vv_scan *scan, const uint8_t *data, uint64_t size) {
    if (scan->grid == 0)
        return data;
    vv_grid_round(scan->past->pending_array->type, scan->grid, data, scan->save->scans.rounded, size);
    return scan->save->scans.rounded;
}

/* A granule that was looked at. */
struct looked {
    uint32_t size;
    struct vv_hash128 id; /* zero for zeros */
    int is_same;          /* as in the last checkpoint, and it may stay where it is */
    int is_rewrite;
    int is_moved; /* it has changed, and what is left of it in an attempt that is emptied is stored with it */
};

static struct vv_hash128 id_of(const struct vv_scan *scan, const uint8_t *data, uint32_t size) {
    struct vv_hash128 none = {0, 0};
    return vv_is_zero(data, size) ? none : vv_id(scan->save->job->store->settings.seed, data, size);
}

static uint32_t size_of(const struct vv_scan *scan, uint64_t index) {
    return (uint32_t)(granule_end(scan, index) - index * VV_GRANULE);
}

static struct looked look_at_granule(struct vv_scan *scan, uint64_t index, const uint8_t *data, struct vv_hash128 id) {
    struct vv_save *save = scan->save;
    struct looked looked = {.size = size_of(scan, index), .id = id};
    if (index < scan->comparable && !scan->is_full && vv_hash128_equal(looked.id, scan->past->ids[index])) {
        looked.is_rewrite = !vv_hash128_is_zero(looked.id) && wants_rewrite(scan, index, looked.size);
        looked.is_same = !looked.is_rewrite;
        return looked;
    }
    save->sums.changed += looked.size;
    if (vv_hash128_is_zero(looked.id))
        save->sums.zero += looked.size;
    else
        looked.is_moved = scan->fine.chunk > 0 && wants_rewrite(scan, index, looked.size);
    vv_fine_sample_look(scan->past->sample, &save->job->lineage.history.met, index, data, looked.size);
    return looked;
}

/* No id says what a granule was, but its origin may say that it is the same. */
static int is_where_it_was(const struct vv_scan *scan, const struct vv_origin *origin) {
    return scan->is_blank && vv_origins_say(&scan->past->origins, origin);
}

/* Nothing like it is known as a whole, but parts of it may be. */
static int is_finely_stored(const struct vv_scan *scan, const struct looked *looked) {
    struct vv_origin origin;
    return scan->fine.chunk > 0 && !looked->is_rewrite && !looked->is_moved && !vv_hash128_is_zero(looked->id) &&
           is_known(scan, looked->id, &origin) != KNOWN;
}

/* It is not stored finely, but may be another time. What is only stored again is as it was. */
static void keep_marks(struct vv_scan *scan, uint64_t index, const uint8_t *data, const struct looked *looked) {
    if (vv_hash128_is_zero(looked->id))
        forget_marks(scan, index);
    else if (scan->fine.chunk && !looked->is_rewrite)
        vv_scan_fine_keep(scan, index, data, looked->size);
}

/* The names of a granule, and of its chunks if they are likely to be asked for. What they lead to is on its way to the
 * processor. */
struct names {
    struct vv_hash128 id;
    int has_fine;
    struct vv_hash128 fine[VV_FINE_MOST];
};

static void name_granule(struct vv_scan *scan, uint64_t index, const uint8_t *data, struct names *names) {
    uint32_t size = size_of(scan, index);
    names->id = id_of(scan, data, size);
    int is_same = index < scan->comparable && vv_hash128_equal(names->id, scan->past->ids[index]);
    names->has_fine = scan->fine.chunk > 0 && !is_same && !vv_hash128_is_zero(names->id);
    if (!names->has_fine)
        return;
    vv_table_prefetch(&scan->save->job->lineage.history.table, names->id);
    uint64_t begun = vv_fine_clock(index);
    vv_fine_name(&scan->fine, data, size, names->fine);
    scan->save->fine.ns += vv_fine_took(index, begun);
}

static int scan_chunk(struct vv_scan *scan, uint64_t index, const uint8_t *data, const struct names *names) {
    struct vv_stats_sums *sums = &scan->save->sums;
    struct looked looked = look_at_granule(scan, index, data, names->id);
    struct vv_origin origin = {.offset = index * VV_GRANULE, .length = looked.size, .kind = VV_ORIGIN_ZERO};
    int rc = 0;
    if (looked.is_same)
        return 0;
    if (is_finely_stored(scan, &looked)) {
        rc = vv_scan_new_id(scan, index, looked.id);
        return rc ? rc : vv_scan_fine(scan, index, data, looked.size, looked.id, names->fine);
    }
    keep_marks(scan, index, data, &looked);
    if (!vv_hash128_is_zero(looked.id))
        rc = place_chunk(scan, index, data, looked.size, looked.id, looked.is_rewrite || looked.is_moved, &origin);
    if (rc == 0)
        rc = vv_scan_new_id(scan, index, looked.id);
    if (rc == 0 && is_where_it_was(scan, &origin)) { /* it was counted as changed, and as zero or known */
        sums->changed -= looked.size;
        *(origin.kind == VV_ORIGIN_ZERO ? &sums->zero : &sums->known) -= looked.size;
        return 0;
    }
    return rc ? rc : vv_origins_add(&scan->past->changed, &origin);
}

uint32_t vv_scan_prefetch(const struct vv_scan *scan, uint64_t index) {
    if (index < scan->comparable)
        __builtin_prefetch(&scan->past->ids[index]);
    return size_of(scan, index);
}

int vv_scan_is_same(struct vv_scan *scan, uint64_t index, const uint8_t *data) {
    if (index >= scan->comparable || scan->is_full)
        return 1;
    uint32_t size = size_of(scan, index);
    return vv_hash128_equal(id_of(scan, as_stored(scan, data, size), size), scan->past->ids[index]);
}

int vv_scan_name(struct vv_scan *scan, uint64_t index, const uint8_t *data) {
    struct vv_save *save = scan->save;
    data = as_stored(scan, data, size_of(scan, index));
    if (data != save->scans.rounded &&
        !save->offers.is_copied) /* it is read several times, and must be the same each time */
        data = memcpy(save->scans.rounded, data, size_of(scan, index));
    struct looked looked = look_at_granule(scan, index, data, id_of(scan, data, size_of(scan, index)));
    struct vv_origin origin = {.offset = index * VV_GRANULE, .length = looked.size, .kind = VV_ORIGIN_ZERO};
    save->sums.looked += looked.size;
    if (looked.is_same)
        return 0;
    int rc = vv_scan_new_id(scan, index, looked.id);
    if (rc)
        return rc;
    if (is_finely_stored(scan, &looked) && !vv_scan_fine_is_new(scan, index, data, looked.size)) {
        rc = vv_offers_add_fine(&save->offers, scan, index, looked.id);
        return rc ? rc : 1;
    }
    keep_marks(scan, index, data, &looked);
    if (vv_hash128_is_zero(looked.id))
        return vv_origins_add(&scan->past->changed, &origin);
    origin.kind = VV_ORIGIN_FROM;
    int known = is_known(scan, looked.id, &origin);
    int is_sparse = known == KNOWN_SPARSE && scan->is_blank; /* as in place_chunk */
    if (known == KNOWN || (is_sparse && !vv_emptying_take(save, looked.size))) {
        save->sums.known += looked.is_rewrite ? 0 : looked.size;
        return vv_origins_add(&scan->past->changed, &origin);
    }
    *(looked.is_rewrite || looked.is_moved || is_sparse ? &save->sums.rewritten : &save->sums.fresh) += looked.size;
    rc = vv_offers_add(&save->offers, scan, index, looked.id, looked.size);
    return rc ? rc : 1;
}

/* The id was computed from the program's memory, or from a frozen copy of it: the same bytes must come again. Memory is
 * written by somebody who may not; a copy loses pages that the program had given up (MADV_FREE). Then others may refer
 * to what is not there any more. */
static int is_as_named(const struct vv_scan *scan, struct vv_hash128 id, const uint8_t *data, uint32_t size) {
    const struct vv_save *save = scan->save;
    return save->offers.is_stable || vv_hash128_equal(vv_id(save->job->store->settings.seed, data, size), id);
}

static int write_chunk(struct vv_scan *scan, const struct vv_named *named, const uint8_t *data,
                       struct varve_error *error) {
    struct vv_save *save = scan->save;
    uint32_t size = (uint32_t)(granule_end(scan, named->index) - named->index * VV_GRANULE);
    uint32_t number = named->offer & ~VV_NAMED_FINE;
    int is_fine = (named->offer & VV_NAMED_FINE) != 0;
    struct vv_hash128 id = is_fine ? save->offers.fine_ids[number] : save->offers.unique[number].id;
    data = as_stored(scan, data, size);
    if (!is_as_named(scan, id, data, size))
        return vv_error(error, -EFAULT, "region %s %s", scan->past->name,
                        save->plan.is_shared_behind
                            ? "was given up in parts (MADV_FREE) by the program, and is gone"
                            : "was written while varve_checkpoint looked at it: no thread may write"
                              " protected memory during the call");
    save->offers.written++;
    if (is_fine)
        return vv_scan_fine(scan, named->index, data, size, id, NULL);
    if (scan->fine.chunk && (save->offers.dispositions[number] & VV_DISPOSITION_STORE))
        vv_scan_fine_note(scan, named->index, data, size);
    return vv_replicas_write(save, number, data);
}

int vv_scan_write(struct vv_scan *scan, uint64_t first, uint32_t count, const uint8_t *data,
                  struct varve_error *error) {
    struct vv_save *save = scan->save;
    const struct vv_named *named = vv_offers_at(&save->offers, scan, first);
    int rc = 0;
    if (!named)
        return 0;
    const struct vv_named *end = save->offers.list + scan->named_first + scan->named_count;
    vv_save_region(save, scan->past);
    for (; named < end && named->index < first + count && rc == 0; named++)
        rc = write_chunk(scan, named, data + (named->index - first) * VV_GRANULE, error);
    return rc;
}

/* The next granule is named before this one is looked up, so that what its names lead to has come by then. Not where
 * values are rounded: there is room for one granule of them. */
static int scan_chunks(struct vv_scan *scan, uint64_t first, uint64_t last, const uint8_t *data) {
    struct names names[2];
    int is_ahead = scan->grid == 0, rc = 0;
    if (is_ahead && first < last)
        name_granule(scan, first, data, &names[first % 2]);
    for (uint64_t i = first; i < last && rc == 0; i++, data += VV_GRANULE) {
        const uint8_t *stored = as_stored(scan, data, size_of(scan, i));
        if (!is_ahead)
            name_granule(scan, i, stored, &names[i % 2]);
        else if (i + 1 < last)
            name_granule(scan, i + 1, data + VV_GRANULE, &names[(i + 1) % 2]);
        rc = scan_chunk(scan, i, stored, &names[i % 2]);
    }
    return rc;
}

static int add_zero(struct vv_scan *scan, uint64_t first, uint64_t last) {
    uint64_t from = first * VV_GRANULE, to = granule_end(scan, last - 1);
    struct vv_origin origin = {.offset = from, .length = to - from, .kind = VV_ORIGIN_ZERO};
    scan->save->sums.changed += to - from;
    scan->save->sums.zero += to - from;
    return vv_origins_add(&scan->past->changed, &origin);
}

static int clear_ids(struct vv_scan *scan, uint64_t first, uint64_t last) {
    struct vv_hash128 zero = {0, 0};
    for (uint64_t i = first; i < last; i++) {
        forget_marks(scan, i);
        int rc = vv_scan_new_id(scan, i, zero);
        if (rc)
            return rc;
    }
    return 0;
}

/* Granules [first, last) were never touched. Only where the past was not zero is there anything to do, and its origins
 * tell where. */
static int zero_chunks(struct vv_scan *scan, uint64_t first, uint64_t last) {
    const struct vv_origins *origins = &scan->past->origins;
    uint64_t known = last < scan->comparable ? last : scan->comparable;
    uint64_t done = first;
    for (size_t i = vv_origins_find(origins, first * VV_GRANULE); i < origins->count && done < known; i++) {
        const struct vv_origin *origin = &origins->list[i];
        uint64_t from = origin->offset / VV_GRANULE, to = vv_granules(origin->offset + origin->length);
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
    int rc = first * VV_GRANULE < scan->past->length ? clear_ids(scan, first, first + 1) : 0;
    return rc ? rc : add_zero(scan, first, last);
}

int vv_scan_untouched(struct vv_scan *scan, uint64_t first, uint64_t last) {
    return first < last ? zero_chunks(scan, first, last) : 0;
}

int vv_scan_piece(struct vv_scan *scan, uint64_t first, uint32_t count, const uint8_t *data) {
    uint64_t last = first + count < scan->granules ? first + count : scan->granules;
    vv_save_region(scan->save, scan->past);
    scan->save->sums.looked += granule_end(scan, last - 1) - first * VV_GRANULE;
    return scan_chunks(scan, first, last, data);
}

static int look_at_piece(struct vv_save *save, const struct vv_piece *piece, struct varve_error *error) {
    struct vv_scan *scan = piece->watch->user;
    int rc = save->output->ops->open(save->output, error);
    if (rc == 0)
        rc = save->plan.is_shared ? vv_scan_write(scan, piece->first, piece->count, piece->data, error)
                                  : vv_scan_piece(scan, piece->first, piece->count, piece->data);
    rc = save->output->ops->explain(save->output, rc, error);
    return rc ? vv_error_default(error, rc, "region %s could not be scanned: %s", scan->past->name,
                                 varve_error_text(rc))
              : 0;
}

int vv_scan_next(void *arg, struct varve_error *error) {
    struct vv_save *save = arg;
    struct vv_capture *capture = save->memory->capture;
    struct vv_piece piece;
    int rc = vv_capture_next(capture, &piece, error);
    if (rc <= 0)
        return rc;
    rc = look_at_piece(save, &piece, error);
    vv_capture_done(capture, &piece);
    return rc ? rc : 1;
}

int vv_scan_callback(struct vv_scan *scan, const struct vv_region *region, uint64_t *at, struct varve_error *error) {
    uint64_t size = scan->size - *at < WINDOW ? scan->size - *at : WINDOW;
    uint8_t *window = vv_malloc(WINDOW);
    int rc = window ? region->callbacks.save(region->arg, *at, window, size) : -ENOMEM;
    if (window && rc)
        rc = vv_error(error, rc < 0 ? rc : -EIO,
                      "region %s: the program's save callback failed at byte %llu, with %d; nothing was saved, and "
                      "earlier checkpoints are as they were",
                      region->name, (unsigned long long)*at, rc);
    if (rc == 0)
        rc = vv_scan_piece(scan, *at / VV_GRANULE, (uint32_t)vv_granules(size), window);
    vv_free(window);
    *at += size;
    return rc;
}

/* The region is shorter than it was: the digest loses what lay behind the new end. */
static void forget_tail(struct vv_scan *scan) {
    struct vv_past *past = scan->past;
    uint64_t done = scan->granules; /* a granule may have several origins, but one id */
    for (size_t i = vv_origins_find(&past->origins, scan->granules * VV_GRANULE); i < past->origins.count; i++) {
        const struct vv_origin *origin = &past->origins.list[i];
        if (origin->kind == VV_ORIGIN_ZERO)
            continue;
        uint64_t from = origin->offset / VV_GRANULE;
        uint64_t to = vv_granules(origin->offset + origin->length);
        for (done = from > done ? from : done; done < to; done++)
            if (!vv_hash128_is_zero(past->ids[done]))
                past->pending_digest = vv_hash128_subtract(past->pending_digest, vv_digest_term(done, past->ids[done]));
    }
}

int vv_scan_begin(struct vv_scan *scan, struct vv_save *save, struct vv_past *past, uint64_t size) {
    *scan = (struct vv_scan){.save = save, .past = past, .size = size, .granules = vv_granules(size)};
    uint64_t shorter = past->length < size ? past->length : size;
    scan->comparable = past->length == size ? scan->granules : shorter / VV_GRANULE;
    scan->is_blank = past->has_no_ids || past->pending_no_ids;
    if (past->is_new || scan->is_blank)
        scan->comparable = 0;
    if (past->pending_array && past->pending_array->bound > 0)
        scan->grid = vv_grid_of(past->pending_array->bound);
    past->pending_digest = scan->is_blank ? (struct vv_hash128){0, 0} : past->digest;
    int rc = past->pending_no_ids ? 0 : vv_past_reserve_ids(past, scan->granules);
    if (rc == 0 && past->length > size && !scan->is_blank)
        forget_tail(scan);
    return rc;
}
