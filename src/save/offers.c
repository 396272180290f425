/* The chunks that this rank would have to store, named before anybody stores one.
 *
 * Each id is offered to the other ranks once, however often it is here: a map from ids to offers finds what is the same
 * within the rank. Once the verdicts are there, only chunks that are stored here stay in the list. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/search.h"
#include "save/save_private.h"

#define MAP_LEAST 1024u

void vv_offers_clear(struct vv_offers *offers) {
    vv_free(offers->list);
    vv_free(offers->unique);
    vv_free(offers->dispositions);
    vv_free(offers->map);
    vv_free(offers->local_replicas);
    vv_free(offers->fine_ids);
    memset(offers, 0, sizeof *offers);
}

/* ---- ids ---- */

static size_t map_slot(const struct vv_offers *offers, struct vv_hash128 id) {
    size_t at = (size_t)id.low & (offers->map_size - 1);
    while (offers->map[at] && !vv_hash128_equal(offers->unique[offers->map[at] - 1].id, id))
        at = (at + 1) & (offers->map_size - 1);
    return at;
}

uint32_t vv_offers_find(const struct vv_offers *offers, struct vv_hash128 id) {
    return offers->map_size == 0 ? UINT32_MAX : offers->map[map_slot(offers, id)] - 1; /* 0 - 1 is UINT32_MAX */
}

static int grow_map(struct vv_offers *offers) {
    if (offers->offer_count * 2 < offers->map_size)
        return 0;
    size_t size = offers->map_size ? offers->map_size * 2 : MAP_LEAST;
    uint32_t *map = vv_calloc(size, sizeof *map);
    if (!map)
        return -ENOMEM;
    vv_free(offers->map);
    offers->map = map;
    offers->map_size = size;
    for (size_t i = 0; i < offers->offer_count; i++)
        map[map_slot(offers, offers->unique[i].id)] = (uint32_t)i + 1;
    return 0;
}

static int offer_of(struct vv_offers *offers, struct vv_hash128 id, uint64_t address, uint32_t size, uint32_t *out) {
    if (offers->offer_count == VV_NAMED_FINE)
        return -EFBIG;
    if (grow_map(offers) != 0 || VV_GROW(offers->unique, offers->offer_count, offers->offer_capacity) != 0)
        return -ENOMEM;
    size_t at = map_slot(offers, id);
    if (!offers->map[at]) {
        offers->unique[offers->offer_count++] = (struct vv_offer){id, address, size};
        offers->map[at] = (uint32_t)offers->offer_count;
    }
    *out = offers->map[at] - 1;
    return 0;
}

static uint64_t address_of(const struct vv_scan *scan, uint64_t index) {
    return scan->past->pending_address + index * VV_GRANULE;
}

static void add_named(struct vv_offers *offers, struct vv_scan *scan, uint64_t index, uint32_t offer) {
    if (scan->named_count++ == 0)
        scan->named_first = offers->count;
    offers->list[offers->count++] = (struct vv_named){index, (uint32_t)(scan - scan->save->scans.list), offer};
}

int vv_offers_add(struct vv_offers *offers, struct vv_scan *scan, uint64_t index, struct vv_hash128 id, uint32_t size) {
    uint32_t offer;
    int rc = VV_GROW(offers->list, offers->count, offers->capacity);
    if (rc == 0)
        rc = offer_of(offers, id, address_of(scan, index), size, &offer);
    if (rc == 0)
        add_named(offers, scan, index, offer);
    return rc;
}

int vv_offers_add_fine(struct vv_offers *offers, struct vv_scan *scan, uint64_t index, struct vv_hash128 id) {
    int rc = VV_GROW(offers->list, offers->count, offers->capacity);
    if (rc == 0)
        rc = VV_GROW(offers->fine_ids, offers->fine_count, offers->fine_capacity);
    if (rc == 0 && offers->fine_count == VV_NAMED_FINE)
        rc = -EFBIG;
    if (rc)
        return rc;
    add_named(offers, scan, index, VV_NAMED_FINE | (uint32_t)offers->fine_count);
    offers->fine_ids[offers->fine_count++] = id;
    return 0;
}

const struct vv_named *vv_offers_at(const struct vv_offers *offers, const struct vv_scan *scan, uint64_t index) {
    size_t at, end = scan->named_first + scan->named_count;
    VV_SEARCH(at, scan->named_first, end, offers->list[at].index < index);
    return at < end ? &offers->list[at] : NULL;
}

void vv_offers_spare(struct vv_save *save, struct vv_watch *watch, uint64_t index) {
    if (save->plan.is_shared_behind)
        vv_capture_skip(save->memory->capture, watch, index);
    else
        vv_capture_drop(watch, index);
}

/* ---- verdicts ---- */

static struct vv_known place_of(const struct vv_save *save, const struct vv_offer *offer,
                                const struct vv_verdict *verdict) {
    if (verdict->kind == VV_MINE)
        return (struct vv_known){offer->id, save->plan.source, save->job->comm->rank, offer->address};
    uint32_t source = verdict->kind == VV_KNOWN ? verdict->source : save->plan.source;
    return (struct vv_known){offer->id, source, verdict->owner, verdict->address};
}

/* Everything with this id refers to one place from now on. */
static void settle_offers(struct vv_save *save, const struct vv_verdict *verdicts) {
    struct vv_history *history = &save->job->lineage.history;
    const struct vv_offers *offers = &save->offers;
    uint64_t stored = 0;
    for (size_t i = 0; i < offers->offer_count; i++) {
        struct vv_known known = place_of(save, &offers->unique[i], &verdicts[i]);
        if (verdicts[i].kind == VV_MINE) {
            stored += offers->unique[i].size;
            save->sums.chunks_new++;
        } else {
            save->sums.elsewhere += offers->unique[i].size;
            history->is_alive[known.source] = 1; /* for the job it was all the time */
        }
        vv_table_put(&history->table, &known, history->is_alive);
    }
    uint64_t rewritten = save->sums.rewritten - save->sums.fixed_rewritten;
    rewritten = rewritten < stored ? rewritten : stored; /* the rest was stored by others */
    save->sums.rewritten = save->sums.fixed_rewritten + rewritten;
    save->sums.fresh = save->sums.fixed + stored - rewritten;
}

/* Of granules that are stored finely, writing tells where their parts are. */
static int settle_chunk(struct vv_save *save, const struct vv_named *named, const struct vv_verdict *verdicts) {
    struct vv_scan *scan = &save->scans.list[named->scan];
    if (named->offer & VV_NAMED_FINE)
        return 0;
    const struct vv_offer *offer = &save->offers.unique[named->offer];
    struct vv_known known = place_of(save, offer, &verdicts[named->offer]);
    struct vv_origin origin = {.offset = named->index * VV_GRANULE,
                               .length = offer->size,
                               .kind = VV_ORIGIN_FROM,
                               .address = known.address,
                               .source = known.source,
                               .owner = known.owner};
    return vv_origins_add(&scan->past->changed, &origin);
}

/* The others need not be captured. */
static int is_stored_here(struct vv_save *save, const struct vv_named *named) {
    const struct vv_offers *offers = &save->offers;
    struct vv_scan *scan = &save->scans.list[named->scan];
    if (named->offer & VV_NAMED_FINE)
        return 1;
    int is_first = offers->unique[named->offer].address == address_of(scan, named->index);
    if (is_first && (offers->dispositions[named->offer] & (VV_DISPOSITION_STORE | VV_DISPOSITION_LOCAL_REPLICA)))
        return 1;
    if (!is_first)
        save->sums.known += offers->unique[named->offer].size;
    vv_offers_spare(save, scan->watch, named->index);
    return 0;
}

int vv_offers_settle(struct vv_save *save, const struct vv_verdict *verdicts) {
    struct vv_offers *offers = &save->offers;
    size_t kept = 0;
    settle_offers(save, verdicts);
    for (size_t i = 0; i < offers->count; i++) {
        const struct vv_named named = offers->list[i];
        struct vv_scan *scan = &save->scans.list[named.scan];
        int rc = settle_chunk(save, &named, verdicts);
        if (rc)
            return rc;
        if (i == scan->named_first) { /* those of a region lie together, so it is counted anew */
            scan->named_first = kept;
            scan->named_count = 0;
        }
        if (!is_stored_here(save, &named))
            continue;
        scan->named_count++;
        offers->list[kept++] = named;
    }
    offers->count = kept;
    return 0;
}
