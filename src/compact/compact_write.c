/* The pack of one checkpoint that moves.
 *
 * Two passes over the runs of all owners. In the first, bytes that no pack of ours has yet are read, window by window,
 * and stored under the address of the region that is the first to refer to them: no two regions share addresses, so
 * nothing is stored twice under one, and a map tells later runs and checkpoints where the bytes are. In the second,
 * each run becomes what the map says. Every manifest is a base: nothing below it is kept. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/content_id.h"
#include "compact/compact_private.h"
#include "store/pack_writer.h"
#include "store/pieces.h"

#define WINDOW (32u << 20)
#define WANTS 65536u
#define RUN_MOST (UINT64_C(1) << 60)

/* Bytes that are read into the window, and where they go. */
struct want {
    struct vv_variable variable;
    uint64_t address;
    uint64_t region_end; /* an address */
    uint32_t size;
};

struct copying {
    struct vv_compact *compact;
    struct vv_view *view;
    struct vv_attempt attempt;
    struct vv_pack_writer *pack;
    struct vv_blocks *blocks;
    struct vv_fetch *fetch;
    uint8_t *window;
    uint32_t filled;
    struct want *wants;
    uint32_t want_count;
    struct vv_pieces pieces;
    uint64_t protected_bytes, regions;
    /* at hand */
    uint32_t owner;
    struct vv_recipe_region region;
    struct vv_variable variable;
    const struct vv_run *run;
    struct vv_manifest_writer manifest;
    struct vv_run pending; /* to be written when the next one does not continue it; length 0: none */
};

static int no_memory(const struct copying *copying) {
    return vv_error_sys(copying->compact->error, -ENOMEM, "cannot compact %s", copying->compact->name);
}

/* ---- pass one: data ---- */

/* One want goes to the blocks, granule by granule. */
static int store_want(struct copying *copying, const struct want *want, const uint8_t *data) {
    uint64_t seed = copying->compact->store->settings.seed;
    int rc = 0;
    struct vv_variable variable = want->variable;
    variable.is_large = 1; /* one process copies for all ranks: no ids in memory for all of it */
    vv_blocks_variable(copying->blocks, &variable);
    for (uint32_t at = 0, part; rc == 0 && at < want->size; at += part) {
        uint64_t address = want->address + at;
        uint32_t within = (uint32_t)(address % VV_GRANULE), left = want->size - at;
        part = left < VV_GRANULE - within ? left : VV_GRANULE - within;
        struct vv_new_chunk chunk = {.owner = want->variable.owner, .address = address, .size = part};
        int is_whole = within == 0 && (part == VV_GRANULE || address + part == want->region_end);
        if (is_whole && !vv_is_zero(data + at, part))
            chunk.id = vv_id(seed, data + at, part);
        rc = vv_blocks_add(copying->blocks, &chunk, data + at);
    }
    return rc;
}

static int flush(struct copying *copying) {
    struct varve_error *error = copying->compact->error;
    int rc = vv_fetch_run(copying->fetch, error);
    uint32_t at = 0;
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; rc == 0 && i < copying->want_count; at += copying->wants[i++].size)
        rc = store_want(copying, &copying->wants[i], copying->window + at);
    copying->want_count = copying->filled = 0;
    if (rc < 0) {
        int finished = vv_blocks_finish(copying->blocks, error); /* the block that failed knows more */
        return finished ? finished : vv_error_sys(error, rc, "cannot compact %s", copying->compact->name);
    }
    return 0;
}

/* Bytes [skip, skip + length) of the run come here; they are cut only between granules. */
static int want(struct copying *copying, const struct vv_run *run, uint64_t skip, uint64_t length, uint64_t address) {
    int rc = 0;
    while (rc == 0 && length > 0) {
        uint32_t capacity = WINDOW - copying->filled, within = (uint32_t)(address % VV_GRANULE);
        uint32_t size = length <= capacity ? (uint32_t)length : (capacity + within) / VV_GRANULE * VV_GRANULE;
        if (length > capacity)
            size = size > within ? size - within : 0;
        if (size == 0 || copying->want_count == WANTS) {
            rc = flush(copying);
            continue;
        }
        rc = vv_fetch_add(copying->fetch, run, skip, size, copying->window + copying->filled, 0,
                          copying->compact->error);
        copying->wants[copying->want_count++] =
            (struct want){copying->variable, address, copying->region.address + copying->region.length, size};
        copying->filled += size;
        skip += size;
        address += size;
        length -= size;
    }
    return rc;
}

static struct vv_spot_of spot_of(const struct copying *copying, const struct vv_run *run) {
    const struct vv_place *place = &run->places[0]; /* of several, all hold the same */
    return (struct vv_spot_of){*vv_view_source(copying->view, place->dependency), place->owner, place->address};
}

static uint64_t address_of(const struct copying *copying, const struct vv_run *run) {
    return copying->region.address + run->offset;
}

static int map_add(struct copying *copying, struct vv_spot_of from, uint64_t skip, uint64_t length, uint64_t address) {
    struct vv_spot_of to = {copying->attempt, copying->owner, address};
    from.address += skip;
    return vv_place_map_add(&copying->compact->map, &from, length, &to) < 0 ? no_memory(copying) : 0;
}

static struct vv_compacted *find_done(const struct copying *copying, const struct vv_attempt *attempt) {
    struct vv_compact *compact = copying->compact;
    size_t low = 0, high = compact->done_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = vv_attempt_compare(&compact->done[middle].dependency.attempt, attempt);
        if (order == 0)
            return &compact->done[middle];
        *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
    }
    return NULL; /* the attempt at hand */
}

static int copy_piece(void *arg, uint64_t offset, uint64_t length, const struct vv_spot_of *to) {
    struct copying *copying = arg;
    const struct vv_run *run = copying->run;
    if (to)
        return 0;
    int rc = want(copying, run, offset, length, address_of(copying, run) + offset);
    return rc == 0 ? map_add(copying, spot_of(copying, run), offset, length, address_of(copying, run) + offset) : rc;
}

/* Where the piece of a repeated run is. */
struct whole {
    struct vv_spot_of to;
    uint64_t known, length; /* bytes of it that are in the map, one after another from `to` on; and all */
    int is_torn;            /* they do not follow each other there */
};

static int add_known(void *arg, uint64_t offset, uint64_t length, const struct vv_spot_of *to) {
    struct whole *whole = arg;
    struct vv_spot_of next = whole->to;
    next.address += whole->known;
    if (!to)
        return 0;
    if (whole->known == 0)
        whole->to = *to;
    else if (vv_attempt_compare(&next.attempt, &to->attempt) != 0 || next.owner != to->owner ||
             next.address != to->address)
        whole->is_torn = 1;
    (void)offset;
    whole->known += length;
    return 0;
}

/* 1 all of it lies in one place; 0 none of it is there; 2 it must be stored once more, to lie in one place. */
static int find_whole(struct copying *copying, const struct vv_run *run, struct whole *out) {
    struct vv_spot_of from = spot_of(copying, run);
    *out = (struct whole){.length = run->piece};
    vv_place_map_look(&copying->compact->map, &from, run->piece, add_known, out);
    if (out->known == 0)
        return 0;
    return out->known == out->length && !out->is_torn ? 1 : 2;
}

static int copy_repeated(struct copying *copying, const struct vv_run *run) {
    struct vv_run piece = {.kind = VV_RUN_FROM, .length = run->piece, .place_count = 1};
    struct whole whole;
    int found = find_whole(copying, run, &whole);
    if (found == 1)
        return 0;
    piece.places[0] = run->places[0];
    int rc = want(copying, &piece, 0, run->piece, address_of(copying, run));
    return rc == 0 && found == 0 ? map_add(copying, spot_of(copying, run), 0, run->piece, address_of(copying, run))
                                 : rc;
}

static int copy_run(struct copying *copying, const struct vv_run *run) {
    copying->run = run;
    if (run->kind == VV_RUN_ZERO)
        return 0;
    if (run->kind == VV_RUN_REPEATED)
        return copy_repeated(copying, run);
    struct vv_spot_of from = spot_of(copying, run);
    return vv_place_map_look(&copying->compact->map, &from, run->length, copy_piece, copying);
}

static void describe(struct copying *copying) {
    const struct vv_recipe_region *region = &copying->region;
    vv_offline_variable(&copying->compact->offline, copying->owner, region->name, region->number, region->length,
                        &region->shape, &copying->variable);
}

static int copy_owner(struct copying *copying) {
    struct varve_error *error = copying->compact->error;
    struct vv_recipe *recipe = NULL;
    struct vv_run run;
    int rc = vv_recipe_open(copying->view, copying->owner, &recipe, error);
    while (rc == 0 && (rc = vv_recipe_next_region(recipe, &copying->region, error)) == 1) {
        describe(copying);
        while ((rc = vv_recipe_next_run(recipe, &run, error)) == 1)
            if ((rc = copy_run(copying, &run)) < 0)
                break;
        if (rc == 0)
            rc = vv_compact_progress(copying->compact, copying->region.length);
    }
    copying->run = NULL;
    vv_recipe_close(recipe);
    return rc;
}

/* ---- pass two: manifests ---- */

static void put_pending(struct copying *copying) {
    struct vv_run *run = &copying->pending;
    const struct vv_place *place = &run->places[0];
    if (run->length == 0)
        return;
    if (run->kind == VV_RUN_FROM && place->dependency == 0 && place->owner == copying->owner &&
        place->address == address_of(copying, run))
        run->kind = VV_RUN_HERE;
    vv_manifest_run(&copying->manifest, run);
    run->length = 0;
}

/* Runs that continue each other become one. */
static void put_run(struct copying *copying, const struct vv_run *run) {
    struct vv_run *last = &copying->pending;
    const struct vv_place *place = &run->places[0], *before = &last->places[0];
    int is_alike = last->length > 0 && last->kind == run->kind && run->kind != VV_RUN_REPEATED &&
                   run->length <= RUN_MOST - last->length;
    if (is_alike &&
        (run->kind == VV_RUN_ZERO || (before->dependency == place->dependency && before->owner == place->owner &&
                                      before->address + last->length == place->address))) {
        last->length += run->length;
        return;
    }
    put_pending(copying);
    *last = *run;
}

static struct vv_run run_to(const struct copying *copying, int kind, uint64_t offset, uint64_t length,
                            const struct vv_spot_of *to) {
    const struct vv_compacted *done = find_done(copying, &to->attempt);
    struct vv_run run = {.kind = kind, .offset = offset, .length = length, .place_count = 1};
    run.places[0] = (struct vv_place){done ? done->index : 0, to->owner, to->address, 0};
    return run;
}

static int put_piece(void *arg, uint64_t offset, uint64_t length, const struct vv_spot_of *to) {
    struct copying *copying = arg;
    if (!to)
        return vv_error(copying->compact->error, -EPROTO, "bytes of region %s were not copied", copying->region.name);
    struct vv_run run = run_to(copying, VV_RUN_FROM, copying->run->offset + offset, length, to);
    put_run(copying, &run);
    return 0;
}

static void put_repeated(struct copying *copying, const struct vv_run *run) {
    struct vv_spot_of own = {copying->attempt, copying->owner, address_of(copying, run)};
    struct whole whole;
    int is_there = find_whole(copying, run, &whole) == 1;
    struct vv_run out = run_to(copying, VV_RUN_REPEATED, run->offset, run->length, is_there ? &whole.to : &own);
    out.piece = run->piece;
    put_run(copying, &out);
}

static int put_one(struct copying *copying, const struct vv_run *run) {
    copying->run = run;
    if (run->kind == VV_RUN_ZERO) {
        put_run(copying, run);
        return 0;
    }
    if (run->kind == VV_RUN_REPEATED) {
        put_repeated(copying, run);
        return 0;
    }
    struct vv_spot_of from = spot_of(copying, run);
    return vv_place_map_look(&copying->compact->map, &from, run->length, put_piece, copying);
}

static int put_region(struct copying *copying, struct vv_recipe *recipe) {
    const struct vv_recipe_region *region = &copying->region;
    struct vv_region_entry entry = {.number = region->number,
                                    .flags = VV_REGION_DESCRIBED,
                                    .length = region->length,
                                    .address = region->address,
                                    .shape = region->shape};
    struct vv_run run;
    int rc = 0;
    memcpy(entry.name, region->name, sizeof entry.name);
    vv_manifest_region(&copying->manifest, &entry, region->address);
    while (rc == 0 && (rc = vv_recipe_next_run(recipe, &run, copying->compact->error)) == 1)
        rc = put_one(copying, &run);
    copying->run = NULL;
    if (rc == 0) {
        put_pending(copying);
        vv_manifest_region_end(&copying->manifest, region->digest);
    }
    return rc;
}

static int add_bytes(void *arg, const void *data, size_t size) {
    struct copying *copying = arg;
    return vv_pack_manifest_add(copying->pack, data, size, copying->compact->error);
}

static int write_manifest(struct copying *copying, struct vv_manifest_head *head, const struct vv_buf *buf) {
    struct varve_error *error = copying->compact->error;
    struct vv_hash128 digest;
    head->owner = copying->owner;
    head->regions = head->entries = copying->manifest.entries;
    head->runs = copying->manifest.runs;
    head->is_packed = head->runs >= VV_PACK_FROM;
    int rc = buf->failed ? no_memory(copying) : vv_pack_manifest_begin(copying->pack, head, error);
    if (rc == 0 && buf->size)
        rc = head->is_packed ? vv_pieces_pack(&copying->pieces, buf->data, buf->size, add_bytes, copying)
                             : add_bytes(copying, buf->data, buf->size);
    if (rc == 0)
        rc = vv_pack_manifest_end(copying->pack, &digest, error);
    return rc < 0 ? vv_error_default(error, rc, "a manifest could not be written: %s", varve_error_text(rc)) : 0;
}

static int put_owner(struct copying *copying) {
    struct varve_error *error = copying->compact->error;
    struct vv_manifest_head head = {0};
    struct vv_recipe_layers layers;
    struct vv_recipe *recipe = NULL;
    struct vv_buf buf;
    vv_buf_init(&buf);
    vv_manifest_begin(&copying->manifest, &buf, copying->owner);
    int rc = vv_recipe_open(copying->view, copying->owner, &recipe, error);
    while (rc == 0 && (rc = vv_recipe_next_region(recipe, &copying->region, error)) == 1) {
        head.protected_bytes += copying->region.length;
        rc = put_region(copying, recipe);
    }
    if (rc == 0) {
        vv_recipe_layers(recipe, &layers);
        head.layout_bytes = layers.layout_bytes;
        rc = write_manifest(copying, &head, &buf);
    }
    copying->protected_bytes += head.protected_bytes;
    copying->regions += head.regions;
    vv_recipe_close(recipe);
    vv_buf_clear(&buf);
    return rc;
}

/* All of them, used or not: the next copy may dependency only on what its parent depends on. */
static int put_dependencies(struct copying *copying) {
    struct vv_compact *compact = copying->compact;
    struct vv_dependency *dependencies = vv_calloc(compact->done_count + 1, sizeof *dependencies);
    if (!dependencies)
        return no_memory(copying);
    for (uint32_t i = 0; i < compact->done_count; i++) {
        dependencies[i] = compact->done[i].dependency;
        compact->done[i].index = i + 1;
    }
    int rc = vv_pack_dependencies(copying->pack, dependencies, (uint32_t)compact->done_count, compact->error);
    vv_free(dependencies);
    return rc;
}

/* ---- all of it ---- */

static int begin(struct copying *copying) {
    struct vv_compact *compact = copying->compact;
    const struct vv_record *record = vv_view_record(copying->view);
    struct vv_pack_options options = {
        .writers = 1,
        .ranks = record->ranks,
        .owners = record->ranks,
        .parent = compact->done_count ? compact->done[0].dependency.attempt : (struct vv_attempt){0},
        .part_size = compact->options->settings->part_size,
        .program = record->program,
        .time_ns = record->time_ns,
    };
    int rc = vv_pack_begin(compact->store, compact->name, &copying->attempt, &options, &copying->pack, compact->error);
    if (rc < 0)
        return rc;
    copying->window = vv_malloc(WINDOW);
    copying->wants = vv_calloc(WANTS, sizeof *copying->wants);
    rc = copying->window && copying->wants
             ? vv_offline_blocks(&compact->offline, copying->pack, record->ranks, &copying->blocks)
             : -ENOMEM;
    if (rc == 0)
        rc = vv_fetch_create(copying->view, compact->options->pool, &copying->fetch);
    return rc < 0 ? no_memory(copying) : 0;
}

static int write_all(struct copying *copying) {
    struct vv_compact *compact = copying->compact;
    uint32_t ranks = vv_view_record(copying->view)->ranks;
    int rc = begin(copying);
    for (copying->owner = 0; rc == 0 && copying->owner < ranks; copying->owner++)
        rc = copy_owner(copying);
    if (rc == 0)
        rc = flush(copying);
    if (rc == 0)
        rc = vv_blocks_finish(copying->blocks, compact->error);
    if (rc == 0)
        rc = put_dependencies(copying);
    for (copying->owner = 0; rc == 0 && copying->owner < ranks; copying->owner++)
        rc = put_owner(copying);
    return rc;
}

int vv_compact_write(struct vv_compact *compact, struct vv_view *view, const struct vv_attempt *attempt) {
    struct copying copying = {.compact = compact, .view = view, .attempt = *attempt};
    struct vv_pack_sums sums = {0};
    int rc = write_all(&copying);
    vv_blocks_destroy(copying.blocks);
    vv_fetch_destroy(copying.fetch);
    vv_pieces_clear(&copying.pieces);
    vv_free(copying.window);
    vv_free(copying.wants);
    if (rc == 0)
        rc = vv_pack_seal(copying.pack, copying.protected_bytes, copying.regions, &sums, compact->error);
    else
        vv_pack_abort(copying.pack);
    compact->result->written += sums.stored_bytes + sums.metadata_bytes;
    return rc;
}
