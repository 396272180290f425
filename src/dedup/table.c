/* Buckets of four entries, 128 bytes: one or two cache lines per look-up. An id whose bucket is full lies in another,
 * which the other half of the id tells; so nearly all places are used before anything is forgotten. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "dedup/table.h"

#define WAYS VV_TABLE_WAYS
#define CAPACITY_MORE 256u /* places: in a small table chance would leave some out */
#define GROWTH 8           /* by less than an eighth it does not grow */

/* By the first bits: who looks up ids in ascending order walks through the table. */
static struct vv_known *bucket(const struct vv_table *table, struct vv_hash128 id) {
    return &table->list[(size_t)((id.low >> 32) * table->buckets >> 32) * WAYS];
}

static struct vv_known *other_bucket(const struct vv_table *table, struct vv_hash128 id) {
    return &table->list[(size_t)((id.high >> 32) * table->buckets >> 32) * WAYS];
}

/* Places are taken from the front and are never empty again: an id is in its other bucket only if this is true of the
 * first. */
static int is_full(const struct vv_known *entry) {
    return !vv_hash128_is_zero(entry[WAYS - 1].id);
}

void vv_table_clear(struct vv_table *table) {
    vv_pages_unmap(table->list, table->buckets * WAYS * sizeof *table->list);
    table->list = NULL;
    table->buckets = 0;
}

int vv_table_resize(struct vv_table *table, size_t entries) {
    size_t buckets = (entries + WAYS - 1) / WAYS; /* not more: what it may take is a setting */
    if (entries == 0 || buckets <= table->buckets + table->buckets / GROWTH)
        return 0; /* to move all of it costs time, so a little more memory is no reason */
    struct vv_table grown = {vv_pages_map(buckets * WAYS * sizeof *grown.list), buckets};
    if (!grown.list)
        return -ENOMEM;
    for (size_t i = 0; i < table->buckets * WAYS; i++) {
        const struct vv_known *known = &table->list[i ^ (WAYS - 1)]; /* the oldest of a bucket first */
        if (!vv_hash128_is_zero(known->id))
            vv_table_put(&grown, known, NULL);
    }
    vv_table_clear(table);
    *table = grown;
    return 0;
}

/* The newest is in front: what lay before this place moves up by one. */
static void put_first(struct vv_known *entry, struct vv_known *place, const struct vv_known *known) {
    struct vv_known first = *known; /* it may lie among them */
    memmove(entry + 1, entry, (size_t)(place - entry) * sizeof *entry);
    *entry = first;
}

static struct vv_known *bucket_of(const struct vv_table *table, const struct vv_known *place) {
    return &table->list[(size_t)(place - table->list) / WAYS * WAYS];
}

static struct vv_known *find_in(struct vv_known *entry, struct vv_hash128 id) {
    for (int i = 0; i < WAYS; i++)
        if (vv_hash128_equal(entry[i].id, id))
            return &entry[i];
    return NULL;
}

static struct vv_known *find_known(const struct vv_table *table, struct vv_hash128 id) {
    struct vv_known *first = bucket(table, id), *found = find_in(first, id);
    return found || !is_full(first) ? found : find_in(other_bucket(table, id), id);
}

const struct vv_known *vv_table_find(const struct vv_table *table, struct vv_hash128 id) {
    return table->buckets == 0 ? NULL : find_known(table, id);
}

void vv_table_touch(struct vv_table *table, struct vv_hash128 id) {
    struct vv_known *place = table->buckets == 0 ? NULL : find_known(table, id);
    if (place)
        put_first(bucket_of(table, place), place, place);
}

static struct vv_known *find_place(struct vv_known *entry, const uint8_t *is_alive) {
    for (int i = 0; i < WAYS; i++)
        if (vv_hash128_is_zero(entry[i].id) || (is_alive && !is_alive[entry[i].source]))
            return &entry[i];
    return NULL;
}

/* The bucket is full: one of its entries may have a place elsewhere. */
static struct vv_known *make_place(const struct vv_table *table, struct vv_known *entry, const uint8_t *is_alive) {
    for (int i = WAYS - 1; i >= 0; i--) {
        struct vv_known *first = bucket(table, entry[i].id);
        struct vv_known *place = find_place(first == entry ? other_bucket(table, entry[i].id) : first, is_alive);
        if (place) {
            *place = entry[i];
            return &entry[i];
        }
    }
    return NULL;
}

void vv_table_put(struct vv_table *table, const struct vv_known *known, const uint8_t *is_alive) {
    if (table->buckets == 0)
        return;
    struct vv_known *entry = bucket(table, known->id);
    struct vv_known *place = find_known(table, known->id);
    if (!place)
        place = find_place(entry, is_alive);
    if (!place)
        place = find_place(other_bucket(table, known->id), is_alive);
    if (!place)
        place = make_place(table, entry, is_alive);
    if (!place)
        place = make_place(table, other_bucket(table, known->id), is_alive);
    if (!place)
        place = &entry[WAYS - 1]; /* the oldest */
    put_first(bucket_of(table, place), place, known);
}

size_t vv_table_capacity(double share, uint64_t protected_bytes) {
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    double bytes = (double)(protected_bytes < memory ? protected_bytes : memory);
    double capacity = share * bytes / sizeof(struct vv_known);
    return capacity > 0 ? (size_t)capacity + CAPACITY_MORE : 0;
}
