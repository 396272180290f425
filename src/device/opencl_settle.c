/* What becomes of an attempt. A part changes what is known at once, and leaves behind how to take that back:
 * checkpoints that fail are rare. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "opencl_private.h"

void vv_cl_drop_logs(struct cl_region *region) {
    for (size_t i = 0; i < region->log_count; i++) {
        vv_cl_drop(&region->logs[i].list);
        vv_cl_drop(&region->logs[i].past);
        vv_cl_drop(&region->logs[i].moved);
    }
    free(region->logs);
    region->logs = NULL;
    region->log_count = region->log_capacity = 0;
}

void vv_cl_forget(struct cl_region *region) {
    vv_cl_drop_logs(region);
    vv_cl_drop(&region->keys);
    vv_cl_drop(&region->kept);
    vv_cl_drop(&region->fresh);
    vv_cl_drop(&region->past);
    vv_cl_table_clear(&region->table);
    vv_cl_table_clear(&region->aside);
    region->shift = 0;
    region->has_kept = 0;
}

static int add_log(struct cl_region *region) {
    if (region->log_count < region->log_capacity)
        return 0;
    size_t capacity = region->log_capacity ? region->log_capacity * 2 : 16;
    struct cl_log *logs = realloc(region->logs, capacity * sizeof *logs);
    if (!logs)
        return -ENOMEM;
    region->logs = logs;
    region->log_capacity = capacity;
    return 0;
}

int vv_cl_log(struct cl_region *region, uint32_t moved, struct cl_log **out) {
    struct cl_part *part = &region->part;
    int rc = add_log(region);
    if (rc)
        return rc;
    struct cl_log *log = &region->logs[region->log_count++];
    *log = (struct cl_log){.chunks = part->chunks, .moved_count = moved};
    rc = vv_cl_make(region, (uint64_t)moved * 16, &log->moved);
    /* What was there before the first checkpoint does not matter. */
    if (rc == 0 && region->has_kept)
        rc = vv_cl_make(region, (uint64_t)part->listed * 4, &log->list);
    if (rc == 0 && region->has_kept)
        rc = vv_cl_make(region, (uint64_t)part->chunks * 12, &log->past);
    if (rc == 0 && region->has_kept)
        rc = vv_cl_copy(region, region->shared->spaces[SPACE_LIST].memory, log->list, (uint64_t)part->listed * 4);
    *out = log;
    return rc;
}

static int undo(struct cl_region *region, const struct cl_log *log) {
    cl_uint moved = log->moved_count, chunks = log->chunks, shift = region->shift;
    int rc = RUN(region, undo_moved, moved, MEMORY(region->table.places), MEMORY(log->moved), NUMBER(moved));
    if (rc == 0 && log->past)
        rc = RUN(region, undo_past, chunks, MEMORY(region->past), MEMORY(log->list), MEMORY(log->past), NUMBER(shift),
                 NUMBER(chunks));
    return rc;
}

static void take_back(struct cl_region *region) {
    int rc = region->is_spoilt ? -EIO : 0;
    if (region->aside.slots) {
        vv_cl_table_clear(&region->table);
        region->table = region->aside;
        region->aside = (struct cl_table){0};
    }
    for (size_t i = 0; i < region->log_count && rc == 0; i++)
        rc = undo(region, &region->logs[i]);
    if (rc == 0)
        rc = vv_cl_table_forget(region);
    if (rc == 0)
        rc = TOLD(region, clFinish(region->queue), "clFinish");
    /* Whoever knows nothing reports everything: more is stored, nothing is wrong. */
    if (rc)
        vv_cl_forget(region);
}

static void make_permanent(struct cl_region *region) {
    cl_mem kept = region->kept;
    region->kept = region->fresh;
    region->fresh = kept;
    region->has_kept = 1;
    vv_cl_table_clear(&region->aside);
    region->table.settled = region->table.used;
}

int vv_cl_settle(void *arg, int is_committed) {
    struct cl_region *region = arg;
    int rc = 0;
    pthread_mutex_lock(&region->shared->lock);
    if (!is_committed) {
        take_back(region);
    } else if (region->asked == region->bytes && !region->is_spoilt) {
        make_permanent(region);
    } else if (region->asked || region->is_spoilt) {
        rc = -EINVAL; /* of a part, nobody has looked at what became permanent */
        vv_cl_forget(region);
    }
    vv_cl_drop_logs(region);
    region->asked = 0;
    region->is_spoilt = 0;
    (void)vv_cl_unmap(region);
    vv_cl_drop(&region->out.memory);
    region->out.size = 0;
    pthread_mutex_unlock(&region->shared->lock);
    return rc;
}
