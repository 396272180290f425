/* Bytes come back: written to the buffer, then named anew, with the places the runs tell. */
#include <errno.h>
#include <string.h>

#include "opencl_private.h"

#define PIECE (UINT64_C(1) << 25) /* of the region, named at once */

static int write_closed(struct cl_region *region, uint64_t offset, const void *data, size_t size) {
    cl_mem *between = &region->shared->spaces[SPACE_BETWEEN].memory;
    int rc = vv_cl_space(region, SPACE_BETWEEN, size);
    if (rc == 0)
        rc = vv_cl_send(region, *between, data, size);
    if (rc == 0)
        rc = TOLD(region,
                  clEnqueueCopyBuffer(region->queue, *between, region->buffer, 0, (size_t)(region->base + offset), size,
                                      0, NULL, NULL),
                  "clEnqueueCopyBuffer");
    return rc ? rc : TOLD(region, clFinish(region->queue), "clFinish");
}

int vv_cl_write(void *arg, uint64_t offset, const void *data, size_t size) {
    struct cl_region *region = arg;
    int rc = 0;
    if (size == 0)
        return 0;
    if (offset > region->bytes || size > region->bytes - offset)
        return -EINVAL;
    pthread_mutex_lock(&region->shared->lock);
    if (region->given != region->queue)
        rc = TOLD(region, clFinish(region->given), "clFinish");
    if (rc == 0 && region->is_closed_to_host)
        rc = write_closed(region, offset, data, size);
    else if (rc == 0)
        rc = TOLD(region,
                  clEnqueueWriteBuffer(region->queue, region->buffer, CL_TRUE, (size_t)(region->base + offset), size,
                                       data, 0, NULL, NULL),
                  "clEnqueueWriteBuffer");
    pthread_mutex_unlock(&region->shared->lock);
    return rc;
}

static int is_tiling(const struct cl_region *region, const struct varve_run *runs, size_t count) {
    uint64_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (runs[i].offset != at || runs[i].length == 0 || runs[i].label < VARVE_ZERO || runs[i].label > VARVE_SHIFTED)
            return 0;
        at += runs[i].length;
    }
    return at == region->bytes;
}

static int remember_piece(struct cl_region *region, const struct varve_ask *ask) {
    struct cl_part *part = &region->part;
    struct cl_table *table = &region->table;
    cl_mem *marks = &region->shared->spaces[SPACE_MARKS].memory;
    uint32_t fresh = 0;
    int rc = RUN(region, find_restored, part->chunks, SPACE(region, SPACE_PART), SPACE(region, SPACE_IDS),
                 MEMORY(table->slots), MEMORY(table->ids), SPACE(region, SPACE_PLACES), SPACE(region, SPACE_HEADS),
                 SPACE(region, SPACE_ENTRIES), SPACE(region, SPACE_HOMES));
    if (rc == 0)
        rc = RUN(region, mark_restored, part->chunks, SPACE(region, SPACE_PART), SPACE(region, SPACE_HEADS),
                 SPACE(region, SPACE_HOMES), MEMORY(*marks));
    if (rc == 0)
        rc = vv_cl_sum(region, *marks, part->chunks);
    if (rc == 0)
        rc = vv_cl_fetch(region, *marks, (uint64_t)(part->chunks - 1) * 8, sizeof fresh, &fresh);
    part->capacity = vv_cl_table_capacity(table, ask->most);
    fresh = fresh < part->capacity ? fresh : part->capacity;
    if (rc == 0 && vv_cl_table_grow(region, fresh, ask->most) != 0) {
        table->is_full = 1; /* what there is no memory for is not remembered */
        part->capacity = vv_cl_table_capacity(table, ask->most);
        fresh = fresh < part->capacity ? fresh : part->capacity;
    }
    if (rc == 0)
        rc = vv_cl_remember(region, region->shared->spaces[SPACE_PART].memory); /* nothing is moved */
    table->used += rc == 0 ? fresh : 0;
    return rc;
}

/* runs: those of this piece, count of them. */
static int name_piece(struct cl_region *region, const struct varve_ask *ask, uint64_t offset,
                      const struct varve_run *runs, size_t count) {
    struct cl_part *part = &region->part;
    uint64_t length = region->bytes - offset < PIECE ? region->bytes - offset : PIECE;
    *part = (struct cl_part){.base = region->base, .total = region->bytes, .seed = ask->seed, .shift = region->shift};
    part->runs = (uint32_t)count;
    int rc = vv_cl_list(region, offset, length);
    if (rc == 0)
        rc = vv_cl_name_chunks(region);
    if (rc == 0)
        rc = vv_cl_space(region, SPACE_RUNS, count * sizeof *runs);
    if (rc == 0)
        rc = vv_cl_send(region, region->shared->spaces[SPACE_RUNS].memory, runs, count * sizeof *runs);
    if (rc == 0)
        rc = RUN(region, place_chunks, part->chunks, SPACE(region, SPACE_PART), SPACE(region, SPACE_LIST),
                 SPACE(region, SPACE_RUNS), SPACE(region, SPACE_PLACES));
    if (rc == 0)
        rc = remember_piece(region, ask);
    return rc ? rc : vv_cl_keep_past(region, NULL, 1);
}

static int name_all(struct cl_region *region, const struct varve_ask *ask, const struct varve_run *runs, size_t count) {
    size_t first = 0, end = 0;
    int rc = 0;
    for (uint64_t offset = 0; offset < region->bytes && rc == 0; offset += PIECE) {
        while (runs[first].offset + runs[first].length <= offset)
            first++;
        while (end < count && runs[end].offset < offset + PIECE)
            end++;
        rc = name_piece(region, ask, offset, runs + first, end - first);
    }
    if (rc == 0)
        rc = TOLD(region, clFinish(region->queue), "clFinish");
    return rc;
}

int vv_cl_restored(void *arg, const struct varve_ask *ask, const struct varve_run *runs, size_t count) {
    struct cl_region *region = arg;
    if (ask->offset != 0 || ask->length != region->bytes || count > UINT32_MAX || !is_tiling(region, runs, count))
        return -EINVAL;
    pthread_mutex_lock(&region->shared->lock);
    vv_cl_forget(region);
    region->asked = 0;
    region->is_spoilt = 0;
    int rc = vv_cl_prepare(region, ask);
    if (rc == 0)
        rc = name_all(region, ask, runs, count);
    if (rc == 0) {
        cl_mem kept = region->kept;
        region->kept = region->fresh;
        region->fresh = kept;
        region->has_kept = 1;
        region->table.settled = region->table.used;
    } else {
        vv_cl_forget(region);
    }
    pthread_mutex_unlock(&region->shared->lock);
    return rc;
}
