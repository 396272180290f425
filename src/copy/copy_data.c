/* The bytes of a copy: read region by region, named as the other store names them, and put into packs unless they are
 * there.
 *
 * All bytes of all ranks, one after another, are cut into stretches; what is new of a stretch becomes one pack. A pack
 * is complete in itself, so whatever ends the copy, only the stretch at hand is lost. A later try reads everything
 * once more, since the digests of regions are over all their bytes, and finds the packs. */
#include <errno.h>

#include "base/alloc.h"
#include "base/content_id.h"
#include "copy/copy_private.h"
#include "read/region_reader.h"

struct copying {
    struct vv_copy *copy;
    uint32_t unit;               /* the stretch at hand */
    uint64_t position;           /* bytes before */
    struct vv_pack_writer *pack; /* NULL: an earlier try has it, or nothing is written */
    struct vv_blocks *blocks;
    struct vv_earlier earlier;
    int is_open;
    /* at hand */
    uint32_t owner;
    struct vv_recipe_region region;
    struct vv_variable variable;
    int is_told; /* to the blocks */
    size_t first_run;
    struct vv_hash128 digest;
};

/* ---- stretches ---- */

static uint32_t writer_of(const struct copying *copying) {
    return copying->copy->plan.homes + copying->unit;
}

static int open_pack(struct copying *copying) {
    struct vv_copy *copy = copying->copy;
    struct vv_pack_options options = vv_copy_pack_options(copy, writer_of(copying));
    int rc = vv_pack_begin(copy->to, copy->name, &copy->attempt, &options, &copying->pack, copy->error);
    if (rc == 0 && vv_offline_blocks(&copy->offline, copying->pack, options.ranks, &copying->blocks) < 0)
        rc = vv_copy_no_memory(copy);
    return rc;
}

static int open_unit(struct copying *copying) {
    struct vv_copy *copy = copying->copy;
    copying->is_open = 1;
    copying->is_told = 0;
    if (copy->is_read_only)
        return 0;
    int rc = vv_lease_check(copy->lease, copy->error);
    if (rc == 0 && copy->is_resumed)
        rc = vv_earlier_load(copy, writer_of(copying), &copying->earlier);
    return rc < 0 || copying->earlier.is_there ? rc : open_pack(copying);
}

static int seal_unit(struct copying *copying) {
    struct vv_copy *copy = copying->copy;
    struct vv_pack_sums sums = {0};
    int rc = vv_blocks_finish(copying->blocks, copy->error);
    vv_blocks_destroy(copying->blocks);
    copying->blocks = NULL;
    if (rc == 0)
        rc = vv_pack_dependencies(copying->pack, NULL, 0, copy->error);
    if (rc == 0)
        rc = vv_pack_seal(copying->pack, 0, 0, &sums, copy->error);
    else
        vv_pack_abort(copying->pack);
    copying->pack = NULL;
    copy->result->written += sums.stored_bytes + sums.metadata_bytes;
    return rc < 0 ? vv_error_default(copy->error, rc, "a pack could not be written: %s", varve_error_text(rc)) : 0;
}

static int close_unit(struct copying *copying) {
    int rc = copying->pack ? seal_unit(copying) : 0;
    vv_earlier_clear(&copying->earlier);
    copying->is_open = 0;
    copying->unit++;
    return rc;
}

/* The stretch that the next byte belongs to is open. */
static int reach_unit(struct copying *copying) {
    const struct vv_copy_plan *plan = &copying->copy->plan;
    int rc = 0;
    while (rc == 0 && copying->unit + 1 < plan->units && copying->position / plan->unit_bytes > copying->unit)
        rc = copying->is_open ? close_unit(copying) : open_unit(copying);
    return rc == 0 && !copying->is_open ? open_unit(copying) : rc;
}

/* ---- granules ---- */

static int add_run(struct copying *copying, const struct vv_copied_run *run) {
    struct vv_copy *copy = copying->copy;
    struct vv_copied_run *last = copy->run_count > copying->first_run ? &copy->runs[copy->run_count - 1] : NULL;
    int is_zero = run->source == VV_COPY_ZERO;
    if (last && last->source == run->source &&
        (is_zero || (last->owner == run->owner && last->address + last->length == run->address))) {
        last->length += run->length;
        return 0;
    }
    if (VV_GROW(copy->runs, copy->run_count, copy->run_capacity) != 0)
        return vv_copy_no_memory(copy);
    copy->runs[copy->run_count++] = *run;
    return 0;
}

static int add_moved(struct copying *copying, uint64_t address, uint32_t size) {
    struct vv_copy *copy = copying->copy;
    struct vv_moved *last = copy->moved_count ? &copy->moved[copy->moved_count - 1] : NULL;
    if (last && last->writer == writer_of(copying) && last->extent.owner == copying->owner &&
        last->extent.address + last->length == address) {
        last->length += size;
        return 0;
    }
    if (VV_GROW(copy->moved, copy->moved_count, copy->moved_capacity) != 0)
        return vv_copy_no_memory(copy);
    copy->moved[copy->moved_count++] = (struct vv_moved){
        .extent = {.owner = copying->owner, .address = address}, .length = size, .writer = writer_of(copying)};
    return 0;
}

static int store_granule(struct copying *copying, uint64_t address, const uint8_t *data, uint32_t size,
                         struct vv_hash128 id) {
    struct vv_copy *copy = copying->copy;
    struct vv_new_chunk chunk = {.owner = copying->owner, .address = address, .size = size, .id = id};
    if (!copying->is_told)
        vv_blocks_variable(copying->blocks, &copying->variable);
    copying->is_told = 1;
    int rc = vv_blocks_add(copying->blocks, &chunk, data);
    if (rc == 0)
        return 0;
    int finished = vv_blocks_finish(copying->blocks, copy->error); /* the block that failed knows more */
    return finished ? finished : vv_error_sys(copy->error, rc, "cannot copy %s", copy->from->name);
}

/* It is not there, but perhaps an earlier try has stored it. */
static int add_new(struct copying *copying, uint64_t address, const uint8_t *data, uint32_t size,
                   struct vv_hash128 id) {
    struct vv_copy *copy = copying->copy;
    struct vv_known known = {.id = id, .source = 0, .owner = copying->owner, .address = address};
    int rc = 0;
    copy->result->new_bytes += size;
    if (copying->earlier.is_there) {
        rc = vv_earlier_has(copy, &copying->earlier, copying->owner, address, size, id);
        copy->result->resumed_bytes += rc == 0 ? size : 0;
    } else if (copying->blocks) {
        rc = store_granule(copying, address, data, size, id);
    }
    vv_table_put(&copy->table, &known, copy->is_alive);
    return rc == 0 ? add_moved(copying, address, size) : rc;
}

static int add_granule(struct copying *copying, uint64_t offset, const uint8_t *data, uint32_t size) {
    struct vv_copy *copy = copying->copy;
    uint64_t address = copying->region.address + offset;
    struct vv_copied_run run = {.length = size, .source = VV_COPY_ZERO};
    int rc = reach_unit(copying);
    copying->position += size;
    if (rc < 0 || vv_is_zero(data, size))
        return rc < 0 ? rc : add_run(copying, &run);
    struct vv_hash128 id = vv_id(vv_copy_seed(copy), data, size);
    copying->digest = vv_hash128_add(copying->digest, vv_digest_term(offset / VV_GRANULE, id));
    const struct vv_known *known = vv_table_find(&copy->table, id);
    if (known) {
        run = (struct vv_copied_run){size, known->address, known->owner, known->source};
    } else {
        run = (struct vv_copied_run){size, address, copying->owner, 0};
        rc = add_new(copying, address, data, size, id);
    }
    return rc == 0 ? add_run(copying, &run) : rc;
}

static int take_window(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    struct copying *copying = arg;
    const uint8_t *bytes = data;
    int rc = 0;
    (void)total;
    for (size_t at = 0; rc == 0 && at < size; at += VV_GRANULE) {
        size_t left = size - at;
        rc = add_granule(copying, offset + at, bytes + at, (uint32_t)(left < VV_GRANULE ? left : VV_GRANULE));
    }
    return rc == 0 ? vv_copy_progress(copying->copy, size) : rc;
}

/* ---- regions ---- */

static void begin_region(struct copying *copying) {
    const struct vv_recipe_region *region = &copying->region;
    vv_offline_variable(&copying->copy->offline, copying->owner, region->name, region->number, region->length,
                        &region->shape, &copying->variable);
    copying->first_run = copying->copy->run_count;
    copying->digest = (struct vv_hash128){0, 0};
    copying->is_told = 0;
}

static int end_region(struct copying *copying) {
    struct vv_copy *copy = copying->copy;
    if (VV_GROW(copy->regions, copy->region_count, copy->region_capacity) != 0)
        return vv_copy_no_memory(copy);
    copy->regions[copy->region_count++] =
        (struct vv_copied_region){copy->run_count - copying->first_run, copying->digest};
    return 0;
}

static int copy_owner(struct copying *copying) {
    struct vv_copy *copy = copying->copy;
    struct vv_recipe *recipe = NULL;
    int rc = vv_recipe_open(copy->view, copying->owner, &recipe, copy->error);
    while (rc == 0 && (rc = vv_recipe_next_region(recipe, &copying->region, copy->error)) == 1) {
        begin_region(copying);
        rc = vv_region_stream(copy->view, recipe, &copying->region, copy->from->store->settings.seed, VV_COPY_WINDOW,
                              copy->options->pool, take_window, copying, copy->error);
        if (rc == 0)
            rc = end_region(copying);
    }
    vv_recipe_close(recipe);
    return rc == VARVE_CORRUPT ? vv_copy_error_at(copy, rc, copy->from->name, copying->owner) : rc;
}

/* Packs of stretches without a byte are made as well: all that the plan names must be there. */
static int finish_units(struct copying *copying) {
    int rc = 0;
    while (rc == 0 && (copying->is_open || copying->unit < copying->copy->plan.units))
        rc = copying->is_open ? close_unit(copying) : open_unit(copying);
    return rc;
}

int vv_copy_data(struct vv_copy *copy) {
    struct copying copying = {.copy = copy};
    uint32_t ranks = vv_view_record(copy->view)->ranks;
    int rc = 0;
    for (copying.owner = 0; rc == 0 && copying.owner < ranks; copying.owner++)
        rc = copy_owner(&copying);
    if (rc == 0)
        rc = finish_units(&copying);
    vv_blocks_destroy(copying.blocks);
    vv_pack_abort(copying.pack);
    vv_earlier_clear(&copying.earlier);
    return rc;
}
