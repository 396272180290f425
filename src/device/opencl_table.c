/* What was seen, on the device: room for it. */
#include <string.h>

#include "opencl_private.h"

#define ENTRIES_LEAST 1024u
#define ENTRIES_MOST (UINT32_C(1) << 30)

uint32_t vv_cl_power(uint64_t least) {
    uint32_t power = 1;
    while (power < least && power < (UINT32_C(1) << 31))
        power *= 2;
    return power;
}

static uint64_t bound(const struct cl_table *table, uint64_t most) {
    most = most < ENTRIES_MOST ? most : ENTRIES_MOST;
    return table->is_full && table->capacity < most ? table->capacity : most;
}

uint32_t vv_cl_table_capacity(const struct cl_table *table, uint64_t most) {
    most = bound(table, most);
    return table->used < most ? (uint32_t)most - table->used : 0;
}

void vv_cl_table_clear(struct cl_table *table) {
    vv_cl_drop(&table->ids);
    vv_cl_drop(&table->places);
    vv_cl_drop(&table->slots);
    *table = (struct cl_table){0};
}

/* The old ones first, all of them, then those of this attempt: see forget_slots in keep.cl. */
static int enter(struct cl_region *region, const struct cl_table *table) {
    cl_uint mask = table->slot_count - 1, steps[] = {0, table->settled, table->used};
    int rc = vv_cl_fill(region, table->slots, NONE, (uint64_t)table->slot_count * sizeof(cl_uint));
    for (int i = 0; i < 2 && rc == 0; i++)
        rc = RUN(region, enter_slots, steps[i + 1] - steps[i], MEMORY(table->slots), NUMBER(mask), MEMORY(table->ids),
                 NUMBER(steps[i]), NUMBER(steps[i + 1]));
    return rc;
}

static int make_larger(struct cl_region *region, uint64_t capacity, struct cl_table *larger) {
    const struct cl_table *table = &region->table;
    *larger = (struct cl_table){.used = table->used, .settled = table->settled, .capacity = (uint32_t)capacity};
    larger->slot_count = vv_cl_power(capacity + capacity / 3 + 1); /* three quarters are taken, at the most */
    int rc = vv_cl_make(region, capacity * 16, &larger->ids);
    if (rc == 0)
        rc = vv_cl_make(region, capacity * 8, &larger->places);
    if (rc == 0)
        rc = vv_cl_make(region, (uint64_t)larger->slot_count * sizeof(cl_uint), &larger->slots);
    if (rc == 0)
        rc = vv_cl_copy(region, table->ids, larger->ids, (uint64_t)table->used * 16);
    if (rc == 0)
        rc = vv_cl_copy(region, table->places, larger->places, (uint64_t)table->used * 8);
    if (rc == 0)
        rc = enter(region, larger);
    return rc;
}

int vv_cl_table_start(struct cl_region *region) {
    struct cl_table first;
    if (region->table.slots)
        return 0;
    int rc = make_larger(region, ENTRIES_LEAST, &first);
    if (rc)
        vv_cl_table_clear(&first);
    else
        region->table = first;
    return rc;
}

int vv_cl_table_grow(struct cl_region *region, uint32_t more, uint64_t most) {
    struct cl_table *table = &region->table, larger;
    uint64_t capacity = (uint64_t)table->used + more;
    if (capacity <= table->capacity)
        return 0;
    capacity = capacity > (uint64_t)table->capacity * 2 ? capacity : (uint64_t)table->capacity * 2;
    capacity = capacity < bound(table, most) ? capacity : bound(table, most);
    int rc = make_larger(region, capacity, &larger);
    if (rc) {
        vv_cl_table_clear(&larger);
        return rc;
    }
    vv_cl_table_clear(table);
    *table = larger;
    return 0;
}

int vv_cl_table_forget(struct cl_region *region) {
    struct cl_table *table = &region->table;
    cl_uint count = table->slot_count, used = table->settled;
    if (table->used == table->settled)
        return 0;
    table->used = table->settled;
    return RUN(region, forget_slots, count, MEMORY(table->slots), NUMBER(count), NUMBER(used));
}
