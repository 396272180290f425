/* A device over plain memory, made of the parts that the CPU's own way is made of (src/dedup/fine_index.h,
 * src/dedup/fine.h): what every other device is compared with. One thread, chunk by chunk in ascending order. */
#ifndef VARVE_TWIN_H
#define VARVE_TWIN_H

#include <stddef.h>
#include <stdint.h>
#include <varve/varve_device.h>

#include "dedup/fine.h"

struct twin {
    uint8_t *memory;
    uint64_t bytes;
    struct vv_hash128 *kept, *fresh; /* ids of granules */
    int has_kept;
    uint32_t chunk;
    struct vv_fine_index seen;
    struct vv_fine_index_entry *saved; /* the entries before this attempt */
    uint32_t saved_count;
    struct vv_fine_mark *marks, *saved_marks; /* of each chunk, now and before this attempt */
    uint64_t asked;
    int is_whole;
    struct vv_origins past, top; /* of the last checkpoint, and what this attempt says */
    struct varve_granule *granules;
    struct varve_run *runs;
    uint8_t *data;
    size_t granule_capacity, run_capacity, data_capacity;
};

extern const struct varve_device_ops twin_ops;
void twin_init(struct twin *twin, void *memory, uint64_t bytes);
void twin_clear(struct twin *twin);

#endif
