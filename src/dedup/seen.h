/* What was seen: fine chunks that were stored by this process, by their ids, and where they are. Bounded; when it is full nothing new is
 * remembered, and what is not remembered counts as never seen. Never stored: after a restart it is filled from the restored bytes.
 *
 * Entries lie one after another in the order in which they came; slots lead from ids to them (open addressing). What a checkpoint that failed has put stays,
 * as what lies in a source that nobody may refer to: who finds it moves it. */
#ifndef VV_SEEN_H
#define VV_SEEN_H

#include "base/hash.h"

/* Where a chunk is stored, in this rank's layout. 8 bytes, since there are many: addresses are multiples of 32. */
struct vv_seen_spot {
    uint32_t source; /* a slot of the history */
    uint64_t address;
};

struct vv_seen_entry {
    struct vv_hash128 id;
    uint64_t place; /* packed */
};

struct vv_seen {
    struct vv_seen_entry *entries;
    uint32_t *slots; /* entry + 1; 0: empty */
    uint32_t count, room, slot_count, most;
};

#define VV_SEEN_NOT UINT32_MAX

/* How many fit into so much memory. */
uint64_t vv_seen_fit(uint64_t bytes);
/* So many at the most; nothing is forgotten when it is less than there are. */
void vv_seen_bound(struct vv_seen *seen, uint64_t most);
void vv_seen_clear(struct vv_seen *seen); /* the bound stays */
uint64_t vv_seen_bytes(const struct vv_seen *seen);
/* The entry of this id, or VV_SEEN_NOT. Valid until something is put. */
uint32_t vv_seen_find(const struct vv_seen *seen, struct vv_hash128 id);
/* It will be asked for soon. */
void vv_seen_prefetch(const struct vv_seen *seen, struct vv_hash128 id);
struct vv_seen_spot vv_seen_place(const struct vv_seen *seen, uint32_t entry);
/* Stored again, elsewhere. Places that cannot be packed are ignored: it stays where it is known to be. */
void vv_seen_move(struct vv_seen *seen, uint32_t entry, struct vv_seen_spot place);
/* A new id. Without room, or without memory for more, nothing happens. */
void vv_seen_put(struct vv_seen *seen, struct vv_hash128 id, struct vv_seen_spot place);
/* Keep only what lies in sources that are alive. */
void vv_seen_tidy(struct vv_seen *seen, const uint8_t *is_alive, uint32_t source_count);

#endif
