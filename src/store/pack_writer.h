/* Writing a pack: blocks as they come, tables at the end, parts when it grows (docs/format.md 6). */
#ifndef VV_PACK_WRITER_H
#define VV_PACK_WRITER_H

#include "format/manifest.h"
#include "store/store.h"

struct vv_pack_writer;

struct vv_pack_options {
    uint32_t writer;
    uint32_t writers;
    uint32_t ranks;
    uint32_t first_owner;
    uint32_t owners;
    uint32_t partner_count;
    uint32_t partners[VV_PARTNERS_MAX];
    struct vv_attempt parent;
    uint64_t part_size;
    uint64_t size_hint; /* expected bytes, for the backend's space check */
    const char *program;
    uint64_t time_ns; /* 0: that of sealing it */
};

/* Begin the pack of this attempt. */
int vv_pack_begin(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                  const struct vv_pack_options *options, struct vv_pack_writer **out, struct varve_error *error);

/* Append a block. `block` has codec, filters, element, raw, stored, flags, owner and, with a type, range set by the
 * caller; sum and positions are filled here. extents are the raw layout of the block in order; ids (may be NULL without
 * VV_BLOCK_IDS) one per granule. One thread at a time. */
int vv_pack_block(struct vv_pack_writer *pack, struct vv_block *block, const void *stored,
                  const struct vv_extent *extents, uint32_t extent_count, const struct vv_hash128 *ids,
                  uint64_t id_count, struct varve_error *error);

/* After the last block: the dependencies (ascending), then one manifest per owner in ascending order. Lean index =
 * position
 * + 1. */
int vv_pack_dependencies(struct vv_pack_writer *pack, const struct vv_dependency *dependencies, uint32_t count,
                         struct varve_error *error);
/* Before the first manifest: extents of this writer's owners that other writers store, ascending by owner and address,
 * none that continues the one before at the same writer. */
int vv_pack_moved(struct vv_pack_writer *pack, const struct vv_moved *moved, uint64_t count, struct varve_error *error);
/* head->entries and head->runs must be right; the entries are given in pieces by calling add any number of times.
 * digest_out: of the section, for layer references of later overlays. */
int vv_pack_manifest_begin(struct vv_pack_writer *pack, const struct vv_manifest_head *head, struct varve_error *error);
int vv_pack_manifest_add(struct vv_pack_writer *pack, const void *data, size_t size, struct varve_error *error);
int vv_pack_manifest_end(struct vv_pack_writer *pack, struct vv_hash128 *digest_out, struct varve_error *error);

struct vv_pack_sums {
    uint64_t raw_bytes;      /* new data before encoding */
    uint64_t stored_bytes;   /* the same as stored */
    uint64_t metadata_bytes; /* everything else in pack and parts */
    uint64_t ids_bytes;      /* of which the ids section */
    uint64_t manifest_bytes; /* of which manifests */
};
/* Write the tables and the footer, make it durable: the writer's yes. Frees the writer in every case. sums_out may be
 * NULL. */
int vv_pack_seal(struct vv_pack_writer *pack, uint64_t protected_bytes, uint64_t regions, struct vv_pack_sums *sums_out,
                 struct varve_error *error);
void vv_pack_abort(struct vv_pack_writer *pack); /* accepts NULL; parts already written stay for vv_attempt_drop */

#endif
