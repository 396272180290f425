/* Slots of four bytes lead to entries of 24: at most three quarters of the slots are taken. Entries are never removed
 * one by one, so probing needs no marks for what was there. */
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "dedup/fine_index.h"

#define SLOTS_LEAST 1024u
#define SLOTS_MOST (UINT32_C(1) << 31)
#define ENTRIES_MOST (SLOTS_MOST / 4 * 3)
#define LARGE_PAGE (2u << 20)
#define AHEAD 16 /* slots are asked for before they are needed */

/* A place in 8 bytes: 24 bits of source, 40 of the address in units of 32 bytes. */
#define UNIT 32u
#define SOURCE_END (UINT32_C(1) << 24)
#define ADDRESS_END (UINT64_C(1) << 45)

static int is_packable(struct vv_fine_index_spot place) {
    return place.source < SOURCE_END && place.address < ADDRESS_END && place.address % UNIT == 0;
}

static uint64_t pack(struct vv_fine_index_spot place) {
    return (uint64_t)place.source << 40 | place.address / UNIT;
}

static struct vv_fine_index_spot unpack(uint64_t packed) {
    return (struct vv_fine_index_spot){(uint32_t)(packed >> 40), (packed & ((UINT64_C(1) << 40) - 1)) * UNIT};
}

void vv_fine_index_bound(struct vv_fine_index *seen, uint64_t most) {
    seen->most = (uint32_t)(most < ENTRIES_MOST ? most : ENTRIES_MOST);
}

uint64_t vv_fine_index_fit(uint64_t bytes) {
    uint64_t most = 0;
    for (uint64_t slots = SLOTS_LEAST; slots <= SLOTS_MOST && slots * sizeof(uint32_t) < bytes; slots *= 2) {
        uint64_t fits = (bytes - slots * sizeof(uint32_t)) / sizeof(struct vv_fine_index_entry), led_to = slots / 4 * 3;
        fits = fits < led_to ? fits : led_to;
        most = most > fits ? most : fits;
    }
    return most;
}

void vv_fine_index_clear(struct vv_fine_index *seen) {
    vv_pages_unmap(seen->entries, (size_t)seen->capacity * sizeof *seen->entries);
    vv_pages_unmap(seen->slots, (size_t)seen->slot_count * sizeof *seen->slots);
    *seen = (struct vv_fine_index){.most = seen->most};
}

uint64_t vv_fine_index_bytes(const struct vv_fine_index *seen) {
    return (uint64_t)seen->count * sizeof *seen->entries + (uint64_t)seen->slot_count * sizeof *seen->slots;
}

struct vv_fine_index_spot vv_fine_index_place(const struct vv_fine_index *seen, uint32_t entry) {
    return unpack(seen->entries[entry].place);
}

/* ---- putting ---- */

/* Slots are looked at all over the place: with small pages most of the time would go into finding these. */
static void *map_large(size_t size) {
    void *pages = vv_pages_map(size);
    if (pages && size >= LARGE_PAGE)
        (void)madvise(pages, size, MADV_HUGEPAGE);
    return pages;
}

static int grow_entries(struct vv_fine_index *seen) {
    uint64_t capacity = seen->capacity ? (uint64_t)seen->capacity * 2 : SLOTS_LEAST;
    capacity = capacity < seen->most ? capacity : seen->most;
    struct vv_fine_index_entry *entries = map_large(capacity * sizeof *entries);
    if (!entries)
        return 0;
    if (seen->count)
        memcpy(entries, seen->entries, seen->count * sizeof *entries);
    vv_pages_unmap(seen->entries, (size_t)seen->capacity * sizeof *entries);
    seen->entries = entries;
    seen->capacity = (uint32_t)capacity;
    return 1;
}

static void fill_slots(struct vv_fine_index *seen) {
    for (uint32_t i = 0; i < seen->count; i++) {
        if (i + AHEAD < seen->count)
            vv_fine_index_prefetch(seen, seen->entries[i + AHEAD].id);
        seen->slots[vv_fine_index_slot(seen, seen->entries[i].id)] =
            vv_fine_index_mark(seen, seen->entries[i].id) | (i + 1);
    }
}

static int grow_slots(struct vv_fine_index *seen) {
    uint32_t count = seen->slot_count ? seen->slot_count * 2 : SLOTS_LEAST;
    uint32_t *slots = map_large((size_t)count * sizeof *slots);
    if (!slots)
        return 0;
    vv_pages_unmap(seen->slots, (size_t)seen->slot_count * sizeof *slots);
    seen->slots = slots;
    seen->slot_count = count;
    fill_slots(seen);
    return 1;
}

static int has_capacity(struct vv_fine_index *seen) {
    if (seen->count >= seen->most || (seen->count == seen->capacity && !grow_entries(seen)))
        return 0;
    return seen->count < seen->slot_count / 4 * 3 || grow_slots(seen);
}

void vv_fine_index_move(struct vv_fine_index *seen, uint32_t entry, struct vv_fine_index_spot place) {
    if (is_packable(place))
        seen->entries[entry].place = pack(place);
}

void vv_fine_index_put(struct vv_fine_index *seen, struct vv_hash128 id, struct vv_fine_index_spot place) {
    if (!is_packable(place) || !has_capacity(seen))
        return;
    uint32_t slot = vv_fine_index_slot(seen, id);
    if (seen->slots[slot] == 0) {
        seen->entries[seen->count++].id = id;
        seen->slots[slot] = vv_fine_index_mark(seen, id) | seen->count;
    }
    seen->entries[(seen->slots[slot] & (seen->slot_count - 1)) - 1].place = pack(place);
}

void vv_fine_index_tidy(struct vv_fine_index *seen, const uint8_t *is_alive, uint32_t source_count) {
    uint64_t dead = 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < source_count; i++)
        dead += is_alive[i] ? 0 : (i + 1) * UINT64_C(0x9E3779B97F4A7C15) ^ i;
    if (dead == seen->dead) /* what lay in them is gone */
        return;
    seen->dead = dead;
    for (uint32_t i = 0; i < seen->count; i++) {
        uint32_t source = unpack(seen->entries[i].place).source;
        if (source < source_count && is_alive[source])
            seen->entries[kept++] = seen->entries[i];
    }
    if (kept == seen->count)
        return;
    seen->count = kept;
    memset(seen->slots, 0, (size_t)seen->slot_count * sizeof *seen->slots);
    fill_slots(seen);
}
