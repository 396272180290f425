/* A bounded table from content ids to places. It may forget; it never lies: whoever uses an answer checks that its
 * source is still one the checkpoint may refer to. */
#ifndef VV_TABLE_H
#define VV_TABLE_H

#include "base/hash.h"

struct vv_known {
    struct vv_hash128 id;
    uint32_t source; /* a slot of the history */
    uint32_t owner;
    uint64_t address;
};

#define VV_TABLE_WAYS 4

struct vv_table {
    struct vv_known *list; /* buckets of VV_TABLE_WAYS; an all-zero id is an empty entry */
    size_t buckets;        /* 0: remembers nothing */
};

/* Room for about `entries` ids; keeps what it knows when it grows. 0 or -ENOMEM (the old table stays). */
int vv_table_resize(struct vv_table *table, size_t entries);
void vv_table_clear(struct vv_table *table);
static inline size_t vv_table_entries(const struct vv_table *table) {
    return table->buckets * VV_TABLE_WAYS;
}
static inline size_t vv_table_bytes(const struct vv_table *table) {
    return vv_table_entries(table) * sizeof *table->list;
}
/* It will be asked for soon. */
static inline void vv_table_prefetch(const struct vv_table *table, struct vv_hash128 id) {
    if (table->buckets == 0)
        return;
    const struct vv_known *bucket = &table->list[(size_t)((id.low >> 32) * table->buckets >> 32) * VV_TABLE_WAYS];
    __builtin_prefetch(bucket);
    __builtin_prefetch(bucket + VV_TABLE_WAYS / 2);
}
const struct vv_known *vv_table_find(const struct vv_table *table, struct vv_hash128 id);
/* It was met again, and counts as new: others are forgotten before. */
void vv_table_touch(struct vv_table *table, struct vv_hash128 id);
/* Remember; is_alive tells which sources may be overwritten first (0: dead). When there is no place left, the oldest
 * entry of the id's bucket is given up. */
void vv_table_put(struct vv_table *table, const struct vv_known *known, const uint8_t *is_alive);

/* How many ids a table may remember: a share of the protected memory, but never of more memory than the machine has,
 * since reserved space is not data. */
size_t vv_table_capacity(double share, uint64_t protected_bytes);

#endif
