/* What was seen: fine chunks that were stored by this process, by their ids, and where they are. Bounded; when it is
 * full nothing new is remembered, and what is not remembered counts as never seen. Never stored: after a restart it is
 * filled from the restored bytes.
 *
 * Entries lie one after another in the order in which they came; slots lead from ids to them (open addressing). What a
 * checkpoint that failed has put stays, as what lies in a source that nobody may refer to: who finds it moves it. */
#ifndef VV_FINE_INDEX_H
#define VV_FINE_INDEX_H

#include "base/hash.h"

/* Where a chunk is stored, in this rank's layout. 8 bytes, since there are many: addresses are multiples of 32. */
struct vv_fine_index_spot {
    uint32_t source; /* a slot of the history */
    uint64_t address;
};

struct vv_fine_index_entry {
    struct vv_hash128 id;
    uint64_t place; /* packed */
};

struct vv_fine_index {
    struct vv_fine_index_entry *entries;
    uint32_t *slots; /* entry + 1, and bits of its id above; 0: empty */
    uint32_t count, capacity, slot_count, most;
    uint64_t dead; /* tells which sources were when it was tidied last */
};

#define VV_SEEN_NOT UINT32_MAX

/* How many fit into so much memory. */
uint64_t vv_fine_index_fit(uint64_t bytes);
/* So many at the most; nothing is forgotten when it is less than there are. */
void vv_fine_index_bound(struct vv_fine_index *seen, uint64_t most);
void vv_fine_index_clear(struct vv_fine_index *seen); /* the bound stays */
uint64_t vv_fine_index_bytes(const struct vv_fine_index *seen);
/* There are so few entries that a slot has bits left: they hold some of the id's, so that other ids are passed by
 * without a look at their entries. */
static inline uint32_t vv_fine_index_mark(const struct vv_fine_index *seen, struct vv_hash128 id) {
    return (uint32_t)id.high & ~(seen->slot_count - 1);
}
/* The slot that leads to this id, or the empty one where it would be. There is always one; there must be slots. */
static inline uint32_t vv_fine_index_slot(const struct vv_fine_index *seen, struct vv_hash128 id) {
    uint32_t mask = seen->slot_count - 1, at = (uint32_t)id.low & mask, mark = vv_fine_index_mark(seen, id), slot;
    while ((slot = seen->slots[at]) != 0 &&
           ((slot & ~mask) != mark || !vv_hash128_equal(seen->entries[(slot & mask) - 1].id, id)))
        at = (at + 1) & mask;
    return at;
}
/* The entry of this id, or VV_SEEN_NOT. Valid until something is put. */
static inline uint32_t vv_fine_index_find(const struct vv_fine_index *seen, struct vv_hash128 id) {
    uint32_t slot = seen->slot_count ? seen->slots[vv_fine_index_slot(seen, id)] : 0;
    return (slot & (seen->slot_count - 1)) - 1; /* 0 - 1 is VV_SEEN_NOT */
}
/* It will be asked for soon: first this, and when that has come, */
static inline void vv_fine_index_prefetch(const struct vv_fine_index *seen, struct vv_hash128 id) {
    if (seen->slot_count)
        __builtin_prefetch(&seen->slots[(uint32_t)id.low & (seen->slot_count - 1)]);
}
/* this. */
static inline void vv_fine_index_prefetch_entry(const struct vv_fine_index *seen, struct vv_hash128 id) {
    uint32_t mask = seen->slot_count - 1, slot = seen->slot_count ? seen->slots[(uint32_t)id.low & mask] : 0;
    if (slot != 0 && (slot & ~mask) == vv_fine_index_mark(seen, id))
        __builtin_prefetch(&seen->entries[(slot & mask) - 1]);
}
struct vv_fine_index_spot vv_fine_index_place(const struct vv_fine_index *seen, uint32_t entry);
/* Stored again, elsewhere. Places that cannot be packed are ignored: it stays where it is known to be. */
void vv_fine_index_move(struct vv_fine_index *seen, uint32_t entry, struct vv_fine_index_spot place);
/* A new id. Without room, or without memory for more, nothing happens. */
void vv_fine_index_put(struct vv_fine_index *seen, struct vv_hash128 id, struct vv_fine_index_spot place);
/* Keep only what lies in sources that are alive. Nothing may be put into one that is not. */
void vv_fine_index_tidy(struct vv_fine_index *seen, const uint8_t *is_alive, uint32_t source_count);

#endif
