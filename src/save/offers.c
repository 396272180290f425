/* The chunks that this rank would have to store, named before anybody stores one.
 *
 * Each id is offered to the other ranks once, however often it is here: a map from ids to offers finds what is the same
 * within the rank. Once the verdicts are there, only chunks that are stored here stay in the list. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "save/save_private.h"

#define MAP_LEAST 1024u

void vv_naming_clear(struct vv_naming *naming) {
    vv_free(naming->list);
    vv_free(naming->offers);
    vv_free(naming->fates);
    vv_free(naming->map);
    vv_free(naming->stand_ins);
    vv_free(naming->fine_ids);
    memset(naming, 0, sizeof *naming);
}

/* ---- ids ---- */

static size_t map_slot(const struct vv_naming *naming, struct vv_hash128 id) {
    size_t at = (size_t)id.low & (naming->map_size - 1);
    while (naming->map[at] && !vv_hash128_equal(naming->offers[naming->map[at] - 1].id, id))
        at = (at + 1) & (naming->map_size - 1);
    return at;
}

uint32_t vv_naming_find(const struct vv_naming *naming, struct vv_hash128 id) {
    return naming->map_size == 0 ? UINT32_MAX : naming->map[map_slot(naming, id)] - 1; /* 0 - 1 is UINT32_MAX */
}

static int grow_map(struct vv_naming *naming) {
    if (naming->offer_count * 2 < naming->map_size)
        return 0;
    size_t size = naming->map_size ? naming->map_size * 2 : MAP_LEAST;
    uint32_t *map = vv_calloc(size, sizeof *map);
    if (!map)
        return -ENOMEM;
    vv_free(naming->map);
    naming->map = map;
    naming->map_size = size;
    for (size_t i = 0; i < naming->offer_count; i++)
        map[map_slot(naming, naming->offers[i].id)] = (uint32_t)i + 1;
    return 0;
}

static int offer_of(struct vv_naming *naming, struct vv_hash128 id, uint64_t address, uint32_t size, uint32_t *out) {
    if (naming->offer_count == VV_NAMED_FINE)
        return -EFBIG;
    if (grow_map(naming) != 0 || VV_GROW(naming->offers, naming->offer_count, naming->offer_room) != 0)
        return -ENOMEM;
    size_t at = map_slot(naming, id);
    if (!naming->map[at]) {
        naming->offers[naming->offer_count++] = (struct vv_offer){id, address, size};
        naming->map[at] = (uint32_t)naming->offer_count;
    }
    *out = naming->map[at] - 1;
    return 0;
}

static uint64_t address_of(const struct vv_scan *scan, uint64_t index) {
    return scan->past->pending_address + index * VV_CHUNK;
}

static void add_named(struct vv_naming *naming, struct vv_scan *scan, uint64_t index, uint32_t offer) {
    if (scan->named_count++ == 0)
        scan->named_first = naming->count;
    naming->list[naming->count++] = (struct vv_named){index, (uint32_t)(scan - scan->save->scans.list), offer};
}

int vv_naming_add(struct vv_naming *naming, struct vv_scan *scan, uint64_t index, struct vv_hash128 id, uint32_t size) {
    uint32_t offer;
    int rc = VV_GROW(naming->list, naming->count, naming->room);
    if (rc == 0)
        rc = offer_of(naming, id, address_of(scan, index), size, &offer);
    if (rc == 0)
        add_named(naming, scan, index, offer);
    return rc;
}

int vv_naming_add_fine(struct vv_naming *naming, struct vv_scan *scan, uint64_t index, struct vv_hash128 id) {
    int rc = VV_GROW(naming->list, naming->count, naming->room);
    if (rc == 0)
        rc = VV_GROW(naming->fine_ids, naming->fine_count, naming->fine_room);
    if (rc == 0 && naming->fine_count == VV_NAMED_FINE)
        rc = -EFBIG;
    if (rc)
        return rc;
    add_named(naming, scan, index, VV_NAMED_FINE | (uint32_t)naming->fine_count);
    naming->fine_ids[naming->fine_count++] = id;
    return 0;
}

const struct vv_named *vv_naming_at(const struct vv_naming *naming, const struct vv_scan *scan, uint64_t index) {
    size_t low = scan->named_first, high = low + scan->named_count, end = high;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (naming->list[middle].index < index)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end ? &naming->list[low] : NULL;
}

void vv_naming_spare(struct vv_save *save, struct vv_watch *watch, uint64_t index) {
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
    const struct vv_naming *naming = &save->offers;
    uint64_t stored = 0;
    for (size_t i = 0; i < naming->offer_count; i++) {
        struct vv_known known = place_of(save, &naming->offers[i], &verdicts[i]);
        if (verdicts[i].kind == VV_MINE) {
            stored += naming->offers[i].size;
            save->sums.chunks_new++;
        } else {
            save->sums.elsewhere += naming->offers[i].size;
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
    const struct vv_offer *offer = &save->offers.offers[named->offer];
    struct vv_known known = place_of(save, offer, &verdicts[named->offer]);
    struct vv_origin origin = {.offset = named->index * VV_CHUNK,
                               .length = offer->size,
                               .kind = VV_ORIGIN_FROM,
                               .address = known.address,
                               .source = known.source,
                               .owner = known.owner};
    return vv_origins_add(&scan->past->changed, &origin);
}

/* The others need not be captured. */
static int is_stored_here(struct vv_save *save, const struct vv_named *named) {
    const struct vv_naming *naming = &save->offers;
    struct vv_scan *scan = &save->scans.list[named->scan];
    if (named->offer & VV_NAMED_FINE)
        return 1;
    int is_first = naming->offers[named->offer].address == address_of(scan, named->index);
    if (is_first && (naming->fates[named->offer] & (VV_FATE_STORE | VV_FATE_STAND_IN)))
        return 1;
    if (!is_first)
        save->sums.known += naming->offers[named->offer].size;
    vv_naming_spare(save, scan->watch, named->index);
    return 0;
}

int vv_naming_settle(struct vv_save *save, const struct vv_verdict *verdicts) {
    struct vv_naming *naming = &save->offers;
    size_t kept = 0;
    settle_offers(save, verdicts);
    for (size_t i = 0; i < naming->count; i++) {
        const struct vv_named named = naming->list[i];
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
        naming->list[kept++] = named;
    }
    naming->count = kept;
    return 0;
}
