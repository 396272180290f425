/* The steps that comparing a part and coming back have in common. */
#include <errno.h>
#include <string.h>

#include "opencl_private.h"

static uint64_t granules_of(uint64_t bytes) {
    return (bytes + VARVE_GRANULE - 1) / VARVE_GRANULE;
}

static uint32_t shift_of(uint32_t chunk) {
    uint32_t shift = 0;
    while ((UINT32_C(1) << shift) < chunk)
        shift++;
    return shift;
}

static int check(const struct cl_region *region, const struct varve_ask *ask) {
    if (ask->size < sizeof *ask || ask->total != region->bytes || ask->chunk < 32 || ask->chunk > VARVE_GRANULE ||
        (ask->chunk & (ask->chunk - 1)) != 0)
        return -EINVAL;
    if (ask->offset % VARVE_GRANULE != 0 || ask->offset > ask->total || ask->length > ask->total - ask->offset)
        return -EINVAL;
    return ask->length % VARVE_GRANULE == 0 || ask->offset + ask->length == ask->total ? 0 : -EINVAL;
}

/* Memory for what is known of a region: 16 bytes twice per granule, 12 per chunk, and what was seen. */
static int make_state(struct cl_region *region, const struct varve_ask *ask) {
    uint64_t granules = granules_of(region->bytes), keys[KEY_WORDS];
    uint32_t shift = shift_of(ask->chunk);
    vv_cl_keys(ask->seed, keys);
    int rc = vv_cl_make(region, sizeof keys, &region->keys);
    if (rc == 0)
        rc = vv_cl_send(region, region->keys, keys, sizeof keys);
    if (rc == 0)
        rc = vv_cl_make(region, granules * 16, &region->kept);
    if (rc == 0)
        rc = vv_cl_make(region, granules * 16, &region->fresh);
    if (rc == 0)
        rc = vv_cl_make(region, (granules * VARVE_GRANULE >> shift) * 12, &region->past);
    if (rc == 0)
        rc = vv_cl_table_start(region);
    if (rc) {
        vv_cl_forget(region);
        return rc;
    }
    region->seed = ask->seed;
    region->shift = shift;
    return 0;
}

int vv_cl_prepare(struct cl_region *region, const struct varve_ask *ask) {
    int rc = check(region, ask);
    if (rc)
        return rc;
    if (region->shift && (region->shift != shift_of(ask->chunk) || region->seed != ask->seed))
        vv_cl_forget(region);
    if (region->shift == 0)
        rc = make_state(region, ask);
    /* What the program has queued is what is saved, or overwritten. */
    return rc ? rc : TOLD(region, clFinish(region->given), "clFinish");
}

int vv_cl_list(struct cl_region *region, uint64_t offset, uint64_t length) {
    struct cl_part *part = &region->part;
    cl_mem *marks = &region->shared->spaces[SPACE_MARKS].memory;
    uint32_t counts[2] = {0, 0}, per = VARVE_GRANULE >> part->shift, tail = (uint32_t)(part->total % VARVE_GRANULE);
    part->granule = (uint32_t)(offset / VARVE_GRANULE);
    part->granules = (uint32_t)granules_of(length);
    int rc = vv_cl_space(region, SPACE_MARKS, (uint64_t)part->granules * 8);
    if (rc == 0)
        rc = vv_cl_space(region, SPACE_LIST, (uint64_t)part->granules * 4);
    if (rc == 0)
        rc = vv_cl_send_part(region);
    if (rc == 0)
        rc = RUN(region, name_granules, part->granules, SPACE(region, SPACE_PART), MEMORY(region->keys),
                 MEMORY(region->buffer), MEMORY(region->kept), MEMORY(region->fresh), MEMORY(*marks));
    if (rc == 0)
        rc = vv_cl_sum(region, *marks, part->granules);
    if (rc == 0)
        rc = RUN(region, list_granules, part->granules, SPACE(region, SPACE_PART), MEMORY(*marks),
                 SPACE(region, SPACE_LIST));
    if (rc == 0)
        rc = vv_cl_fetch(region, *marks, (uint64_t)(part->granules - 1) * 8, sizeof counts, counts);
    part->listed = counts[0];
    part->chunks = (counts[0] - counts[1]) * per + counts[1] * ((tail + (1u << part->shift) - 1) >> part->shift);
    return rc;
}

int vv_cl_name_chunks(struct cl_region *region) {
    struct cl_part *part = &region->part;
    const struct {
        enum cl_space_name name;
        uint64_t bytes;
    } needs[] = {{SPACE_IDS, 16}, {SPACE_ENTRIES, 4}, {SPACE_HOMES, 4}, {SPACE_PLACES, 8}, {SPACE_MARKS, 8}};
    int rc = 0;
    for (size_t i = 0; i < sizeof needs / sizeof *needs && rc == 0; i++)
        rc = vv_cl_space(region, needs[i].name, part->chunks * needs[i].bytes);
    part->heads = vv_cl_power((uint64_t)part->chunks * 2);
    if (rc == 0)
        rc = vv_cl_space(region, SPACE_HEADS, (uint64_t)part->heads * 4);
    if (rc == 0)
        rc = vv_cl_fill(region, region->shared->spaces[SPACE_HEADS].memory, NONE, (uint64_t)part->heads * 4);
    part->used = region->table.used;
    part->slots = region->table.slot_count;
    if (rc == 0)
        rc = vv_cl_send_part(region);
    if (rc == 0)
        rc = RUN(region, name_chunks, part->chunks, SPACE(region, SPACE_PART), MEMORY(region->keys),
                 MEMORY(region->buffer), SPACE(region, SPACE_LIST), SPACE(region, SPACE_IDS));
    return rc;
}

int vv_cl_remember(struct cl_region *region, cl_mem moved) {
    struct cl_table *table = &region->table;
    region->part.slots = table->slot_count; /* it may have grown */
    int rc = vv_cl_send_part(region);
    return rc ? rc
              : RUN(region, remember, region->part.chunks, SPACE(region, SPACE_PART), SPACE(region, SPACE_IDS),
                    SPACE(region, SPACE_ENTRIES), SPACE(region, SPACE_MARKS), SPACE(region, SPACE_PLACES),
                    MEMORY(table->ids), MEMORY(table->places), MEMORY(table->slots), MEMORY(moved));
}

int vv_cl_keep_past(struct cl_region *region, cl_mem log, int is_restored) {
    cl_uint has_log = log != NULL, is_back = is_restored != 0;
    if (!log)
        log = region->shared->spaces[SPACE_PART].memory; /* something: it is not looked at */
    return RUN(region, keep_past, region->part.chunks, SPACE(region, SPACE_PART), SPACE(region, SPACE_LIST),
               SPACE(region, SPACE_IDS), SPACE(region, SPACE_PLACES), MEMORY(region->past), MEMORY(log),
               NUMBER(has_log), NUMBER(is_back));
}
