/* Fine chunks: which parts of a granule that differs are new (docs/design.md, "Fine chunks").
 *
 * A region is a tree of three levels: its digest, the ids of its granules, and the ids of the chunks of `chunk` bytes
 * in them. Who comes here has found that a granule differs, and that nothing like it is known as a whole. Each of its
 * chunks is as it was (fixed), zero, new (first), or found elsewhere (shifted); those that continue each other become
 * one run. */
#ifndef VV_FINE_H
#define VV_FINE_H

#include "dedup/origins.h"
#include "dedup/fine_index.h"

#define VV_FINE_LEAST 32u
#define VV_FINE_MOST (4096u / VV_FINE_LEAST) /* chunks in a granule */

enum vv_label { VV_LABEL_FIXED, VV_LABEL_ZERO, VV_LABEL_FIRST, VV_LABEL_SHIFTED }; /* as enum varve_label */

/* What was where: 96 bits of the id of each chunk of a region in the last checkpoint; zeros: nobody knows. (The chance
 * that two contents have the same is 2^-96 each time a chunk changes.) */
struct vv_fine_mark {
    uint32_t low, high[2];
};

/* What holds for all granules of a region in one checkpoint. */
struct vv_fine {
    struct vv_fine_index *seen;
    uint64_t seed;
    uint32_t chunk;
    uint32_t source;               /* of this checkpoint */
    uint32_t owner;                /* this rank */
    uint64_t address;              /* of the region in this checkpoint's layout */
    const struct vv_origins *past; /* where its bytes were in the last checkpoint */
    struct vv_fine_mark *marks; /* one per chunk of the region; become those of this checkpoint. NULL: there are none */
    const uint8_t *is_usable;   /* per source: may be referred to */
    uint32_t source_count;
    int is_by_place; /* nothing counts as seen elsewhere: the method `basic` */
};

struct vv_fine_run {
    uint64_t offset;
    uint32_t length;
    uint32_t label;
    struct vv_fine_index_spot place; /* of first and shifted ones */
};

struct vv_fine_counts {
    uint64_t fixed, zero, first, shifted;
};

/* The ids of a granule's chunks, zero for zeros; what is needed to look them up is on its way to the processor. Returns
 * how many there are. */
uint32_t vv_fine_name(const struct vv_fine *fine, const uint8_t *data, uint32_t size,
                      struct vv_hash128 ids[VV_FINE_MOST]);
/* Is no chunk of it known, there or elsewhere, or zero? Changes nothing. */
int vv_fine_is_new(const struct vv_fine *fine, uint64_t offset, const struct vv_hash128 *ids, uint32_t count);
/* A granule differs, and is stored somewhere as a whole: this is what is where now. */
void vv_fine_keep(const struct vv_fine *fine, uint64_t offset, const struct vv_hash128 *ids, uint32_t count);
/* A granule differs, and nobody looks at its chunks: what was where is not known any more. */
void vv_fine_forget(const struct vv_fine *fine, uint64_t offset, uint32_t size);
/* Label them. Fixed ones are in no run; new ones have been seen from now on. Returns how many runs there are. */
uint32_t vv_fine_label(const struct vv_fine *fine, uint64_t offset, uint32_t size, const struct vv_hash128 *ids,
                       struct vv_fine_run runs[VV_FINE_MOST], struct vv_fine_counts *counts);
/* The granule is stored whole, at its address: remember its chunks there. */
void vv_fine_note(const struct vv_fine *fine, uint64_t offset, const struct vv_hash128 *ids, uint32_t count);
/* After a restart: they are what was where, and those that lie in one piece where the origins say have been seen. */
void vv_fine_restore(const struct vv_fine *fine, uint64_t offset, uint32_t size, const struct vv_hash128 *ids,
                     uint32_t count);

#endif
