/* A checkpoint opened for reading: its record, writers lists, packs, and the merged recipe of an owner's regions.
 *
 * Everything is checked on the way in: digests, identities, sizes, that runs tile regions, that places lie in attempts
 * the record depends on. An object that is missing while the record still stands is VARVE_CORRUPT; when the record is
 * gone by then, VARVE_FORGOTTEN. May be used by several threads once opened, except that one recipe is used by one
 * thread. */
#ifndef VV_VIEW_H
#define VV_VIEW_H

#include "base/thread.h"
#include "format/manifest.h"
#include "store/records.h"

struct vv_view;

int vv_view_open(struct vv_store *store, const char *name, uint32_t generation, uint64_t version, struct vv_view **out,
                 struct varve_error *error);
/* The same for a record that is not under its key yet: an attempt is read back before it becomes the checkpoint. Its
 * writers list must be there. */
int vv_view_open_record(struct vv_store *store, const char *name, const struct vv_attempt *attempt,
                        const struct vv_record *record, struct vv_view **out, struct varve_error *error);
void vv_view_close(struct vv_view *view); /* accepts NULL */
/* Small parts of blocks will be asked for, one after another: keep the last block that was decoded. Before anything is
 * read. */
void vv_view_expect_parts(struct vv_view *view);
/* The bytes of this owner will be asked for: tables of packs that hold data of many are loaded for it alone, until
 * those of others are needed. Before anything is read. */
void vv_view_expect_owner(struct vv_view *view, uint32_t owner);
const struct vv_record *vv_view_record(const struct vv_view *view);
const struct vv_attempt *vv_view_attempt(const struct vv_view *view); /* its own */
/* Has anything been read from a copy so far, since it was missing or damaged in its own place? */
int vv_view_used_copies(const struct vv_view *view);
/* On how many other nodes what this owner stored there is kept, too: 1; 0 if that attempt has no such owner, as when it
 * is of fewer ranks; or an error. */
int vv_view_partners(struct vv_view *view, uint32_t source, uint32_t owner, uint32_t *out, struct varve_error *error);
/* How many writers stored that attempt. */
int vv_view_writer_count(struct vv_view *view, uint32_t source, uint32_t *out, struct varve_error *error);
/* The new data of its writer's pack, before encoding; where several share it, its part of that. */
int vv_view_stored(struct vv_view *view, uint32_t source, uint32_t owner, uint64_t *out, struct varve_error *error);
/* Load what tells where the bytes of this owner are, before it is needed; what goes wrong shows again then. Any thread.
 */
void vv_view_ahead(struct vv_view *view, uint32_t source, uint32_t owner);
/* Sources are the attempts it may read from: 0 is its own, i is the record's dependency i - 1. */
const struct vv_attempt *vv_view_source(const struct vv_view *view, uint32_t source);

/* ---- the recipe of one owner: regions in ascending number, runs of each tiling it; layers merged; memory bounded.
 * ---- */
struct vv_recipe;
struct vv_recipe_region {
    uint64_t number;
    uint64_t length;
    uint64_t address; /* in the layout of this checkpoint */
    char name[VV_REGION_NAME_MAX + 1];
    struct vv_region_shape shape;
    struct vv_hash128 digest;
};
/* For a session that goes on from here: the layers and the layout to continue with. */
struct vv_recipe_layers {
    uint64_t layout_bytes;
    uint64_t next_number; /* above all numbers in use in any layer */
    uint32_t count;       /* layers in all, 1 to 4, base first */
    struct {
        struct vv_attempt attempt;
        uint32_t writer;
        struct vv_hash128 digest;
        uint64_t length;
    } layer[VV_LAYERS_MAX];
};

int vv_recipe_open(struct vv_view *view, uint32_t owner, struct vv_recipe **out, struct varve_error *error);
void vv_recipe_layers(const struct vv_recipe *recipe, struct vv_recipe_layers *out);
/* 1 and the next region, 0 at the end, or an error. */
int vv_recipe_next_region(struct vv_recipe *recipe, struct vv_recipe_region *out, struct varve_error *error);
/* 1 and the next run of the region, 0 at its end. Never KEEP or HERE: `here` comes as FROM. In places, `dependency` is
 * a source of the view. Runs of a region not read are skipped by vv_recipe_next_region. */
int vv_recipe_next_run(struct vv_recipe *recipe, struct vv_run *out, struct varve_error *error);
int vv_recipe_rewind(struct vv_recipe *recipe, struct varve_error *error); /* to the first region */
void vv_recipe_close(struct vv_recipe *recipe);                            /* accepts NULL */

/* ---- fetching bytes: collect what is wanted, then run it; each block is read and decoded once per batch. ---- */
struct vv_fetch;
int vv_fetch_create(struct vv_view *view, struct vv_pool *pool, struct vv_fetch **out);
/* Want `run`'s bytes at out (run->length bytes, or the part [skip, skip + size) of them). Zero runs are filled at once,
 * unless is_zeroed says the memory is zero already. Nothing is looked up yet. */
int vv_fetch_add(struct vv_fetch *fetch, const struct vv_run *run, uint64_t skip, uint64_t size, void *out,
                 int is_zeroed, struct varve_error *error);
/* Call placed for every range of bytes of the wants added from now on, as soon as it is in memory and its block has
 * been checked, while it is still near the processor; from the pool's threads, in any order. Repeated bytes are told
 * once. tag comes back. ids: those of its granules, as they were computed from data; or NULL. */
typedef void (*vv_placed_fn)(void *tag, const void *data, size_t size, const struct vv_hash128 *ids);
void vv_fetch_tell(struct vv_fetch *fetch, vv_placed_fn placed, void *tag);
/* Of the wants added from now on: do other ranks want bytes of the same blocks? Then blocks are lent to those of this
 * node, where there is a lender, as those are that several ranks have stored. At first they do not. */
enum vv_sharing {
    VV_SHARING_NOTHING,
    VV_SHARING_PARTS, /* others may want what this rank does not: a block of which it wants everything is its own */
    VV_SHARING_ALL,   /* others may want the same bytes */
};
void vv_fetch_share(struct vv_fetch *fetch, enum vv_sharing sharing);
/* Read and place everything added since the last call; blocks in parallel on the pool. A place that fails is tried at
 * the run's other places and at the copies its writer's partners hold, before the error is returned. */
int vv_fetch_run(struct vv_fetch *fetch, struct varve_error *error);
/* After an error: the tag of the bytes that were nowhere, or NULL. */
void *vv_fetch_failed(const struct vv_fetch *fetch);
/* Look up everything added, without reading it, and forget it: an error when something is nowhere. */
int vv_fetch_find(struct vv_fetch *fetch, struct varve_error *error);
/* The memory that it takes to keep book of what was added, until it has been run. */
size_t vv_fetch_pending(const struct vv_fetch *fetch);
/* That has become too much: drop what comes from the higher sources, so that about half of it remains, and tell up to
 * which source everything was kept. Whoever adds the dropped ones again, in a batch of their own, has every block read
 * once. 1; 0 if all of it comes from one source, so that nothing could be dropped; or -ENOMEM. */
int vv_fetch_postpone(struct vv_fetch *fetch, uint32_t *last_out, struct varve_error *error);
void vv_fetch_destroy(struct vv_fetch *fetch); /* accepts NULL */

/* The stored id of the granule at this place, if its pack has one: 1 and the id, 0 if not, or an error. */
int vv_view_id(struct vv_view *view, const struct vv_place *place, uint64_t length, struct vv_hash128 *out,
               struct varve_error *error);
/* Granules that follow each other, in a region and where they are stored. */
struct vv_stored_granules {
    uint64_t region; /* its number */
    uint64_t offset; /* in the region */
    struct vv_place place;
    const struct vv_hash128 *ids;
    uint32_t count;
};
/* All ids that are stored for what an owner's regions hold, without reading a byte of it. In the order of the regions;
 * what is repeated or shared is told once or more often. Bytes without stored ids are passed over. A few thousand at a
 * time. */
typedef void (*vv_ids_fn)(void *arg, const struct vv_stored_granules *granules);
int vv_view_ids(struct vv_view *view, uint32_t owner, vv_ids_fn fn, void *arg, struct varve_error *error);

/* ---- the blocks that the bytes of a run lie in, without reading them ---- */
struct vv_block_piece {
    uint64_t offset, length;      /* in the run */
    const struct vv_block *block; /* its coding, lengths, and range if one is stored; lives during the call */
    /* Which block: the same three mean the same one. */
    uint32_t source;
    uint32_t writer;
    uint32_t number;
    uint32_t raw; /* where the piece begins in the decoded block */
    /* The place it was found at, and all that the block holds: addresses first to end of one owner's layout in that
     * attempt. With several owners it has is_mixed. A region that began at address - (offset of the piece in the
     * region) had the block for itself if all of first to end was its. */
    uint32_t owner;
    uint64_t address;
    uint64_t first, end;
    int is_mixed;
};
/* Return nonzero to stop with that. */
typedef int (*vv_block_piece_fn)(void *arg, const struct vv_block_piece *piece);
/* Pieces in ascending order tile the run; of a repeated run only the part that is repeated is told, of zeros nothing.
 * A place that cannot be looked up is looked for at the run's other places and in copies. Ranges are loaded at the
 * first call that needs them. */
int vv_view_blocks(struct vv_view *view, const struct vv_run *run, vv_block_piece_fn fn, void *arg,
                   struct varve_error *error);

#endif
