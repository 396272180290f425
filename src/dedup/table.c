/* Buckets of four entries, 128 bytes: one or two cache lines per look-up. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "dedup/table.h"

#define WAYS VV_TABLE_WAYS

/* By the first bits: who looks up ids in ascending order walks through the table. */
static struct vv_known *bucket(const struct vv_table *table, struct vv_hash128 id) {
    return &table->list[(size_t)((id.low >> 32) * table->buckets >> 32) * WAYS];
}

void vv_table_clear(struct vv_table *table) {
    vv_pages_unmap(table->list, table->buckets * WAYS * sizeof *table->list);
    table->list = NULL;
    table->buckets = 0;
}

int vv_table_resize(struct vv_table *table, size_t entries) {
    size_t buckets = 1;
    while (buckets * WAYS < entries)
        buckets *= 2;
    if (entries == 0 || buckets <= table->buckets)
        return 0;
    struct vv_table grown = {vv_pages_map(buckets * WAYS * sizeof *grown.list), buckets};
    if (!grown.list)
        return -ENOMEM;
    for (size_t i = 0; i < table->buckets * WAYS; i++)
        if (!vv_hash128_is_zero(table->list[i].id))
            vv_table_put(&grown, &table->list[i], NULL);
    vv_table_clear(table);
    *table = grown;
    return 0;
}

const struct vv_known *vv_table_find(const struct vv_table *table, struct vv_hash128 id) {
    if (table->buckets == 0)
        return NULL;
    const struct vv_known *entry = bucket(table, id);
    for (int i = 0; i < WAYS; i++)
        if (vv_hash128_equal(entry[i].id, id))
            return &entry[i];
    return NULL;
}

void vv_table_put(struct vv_table *table, const struct vv_known *known, const uint8_t *is_alive) {
    if (table->buckets == 0)
        return;
    struct vv_known *entry = bucket(table, known->id);
    int at = -1;
    for (int i = 0; i < WAYS && at < 0; i++)
        if (vv_hash128_equal(entry[i].id, known->id))
            at = i;
    for (int i = 0; i < WAYS && at < 0; i++)
        if (vv_hash128_is_zero(entry[i].id) || (is_alive && !is_alive[entry[i].source]))
            at = i;
    if (at < 0) { /* full: the entry at the end is the oldest, the newest goes to the front */
        memmove(entry + 1, entry, (WAYS - 1) * sizeof *entry);
        at = 0;
    }
    entry[at] = *known;
}
