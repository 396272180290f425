/* The packs that make a copy complete: for some ranks each, which bytes their regions have and where those are. They
 * are written when all data is stored and all digests were right, so an attempt with all packs is a whole copy. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "copy/copy_private.h"
#include "store/pack_writer.h"
#include "store/pieces.h"

struct putting {
    struct vv_copy *copy;
    struct vv_pack_writer *pack;
    struct vv_dependency *dependencies;
    uint32_t dependency_count;
    struct vv_pieces pieces;
    size_t run, region, moved; /* the next ones */
    uint64_t protected_bytes, regions;
};

/* ---- what the copy depends on ---- */

static int compare_dependencies(const void *a, const void *b) {
    const struct vv_dependency *x = a, *y = b;
    return vv_attempt_compare(&x->attempt, &y->attempt);
}

/* Only what is used: others need not be kept for it. */
static int list_dependencies(struct putting *putting) {
    struct vv_copy *copy = putting->copy;
    putting->dependencies = vv_calloc(copy->source_count + 1, sizeof *putting->dependencies);
    if (!putting->dependencies)
        return vv_copy_no_memory(copy);
    for (size_t i = 0; i < copy->run_count; i++)
        if (copy->runs[i].source != 0 && copy->runs[i].source != VV_COPY_ZERO)
            copy->indices[copy->runs[i].source - 1] = 1;
    for (uint32_t i = 0; i < copy->source_count; i++)
        if (copy->indices[i])
            putting->dependencies[putting->dependency_count++] = copy->sources[i];
    qsort(putting->dependencies, putting->dependency_count, sizeof *putting->dependencies, compare_dependencies);
    for (uint32_t i = 0; i < copy->source_count; i++)
        for (uint32_t j = 0; copy->indices[i] && j < putting->dependency_count; j++)
            if (vv_attempt_compare(&copy->sources[i].attempt, &putting->dependencies[j].attempt) == 0)
                copy->indices[i] = j + 1;
    return 0;
}

/* ---- who stores what ---- */

static int compare_moved(const void *a, const void *b) {
    const struct vv_extent *x = &((const struct vv_moved *)a)->extent, *y = &((const struct vv_moved *)b)->extent;
    if (x->owner != y->owner)
        return x->owner < y->owner ? -1 : 1;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* In the order of addresses, none that continues the one before. */
static void order_moved(struct vv_copy *copy) {
    size_t count = 0;
    if (copy->moved_count)
        qsort(copy->moved, copy->moved_count, sizeof *copy->moved, compare_moved);
    for (size_t i = 0; i < copy->moved_count; i++) {
        struct vv_moved *at = &copy->moved[i], *last = count ? &copy->moved[count - 1] : NULL;
        if (last && last->writer == at->writer && last->extent.owner == at->extent.owner &&
            last->extent.address + last->length == at->extent.address)
            last->length += at->length;
        else
            copy->moved[count++] = *at;
    }
    copy->moved_count = count;
    for (size_t i = 0; i < count; i++)
        copy->moved[i].extent.length =
            copy->moved[i].length < UINT32_MAX ? (uint32_t)copy->moved[i].length : UINT32_MAX;
}

static int put_moved(struct putting *putting, const struct vv_pack_options *options) {
    struct vv_copy *copy = putting->copy;
    size_t first = putting->moved;
    while (putting->moved < copy->moved_count &&
           copy->moved[putting->moved].extent.owner - options->first_owner < options->owners)
        putting->moved++;
    if (!putting->pack || putting->moved == first)
        return 0;
    return vv_pack_moved(putting->pack, copy->moved + first, putting->moved - first, copy->error);
}

/* ---- manifests ---- */

static void put_run(const struct putting *putting, struct vv_manifest_writer *manifest, uint32_t owner,
                    uint64_t region_address, uint64_t offset, const struct vv_copied_run *from) {
    struct vv_run run = {.kind = VV_RUN_ZERO, .offset = offset, .length = from->length};
    if (from->source != VV_COPY_ZERO) {
        uint32_t index = from->source ? putting->copy->indices[from->source - 1] : 0;
        run.place_count = 1;
        run.places[0] = (struct vv_place){index, from->owner, from->address, 0};
        int is_here = from->source == 0 && from->owner == owner && from->address == region_address + offset;
        run.kind = is_here ? VV_RUN_HERE : VV_RUN_FROM;
    }
    vv_manifest_run(manifest, &run);
}

static void put_region(struct putting *putting, struct vv_manifest_writer *manifest, uint32_t owner,
                       const struct vv_recipe_region *region) {
    const struct vv_copied_region *copied = &putting->copy->regions[putting->region++];
    struct vv_region_entry entry = {.number = region->number,
                                    .flags = VV_REGION_DESCRIBED,
                                    .length = region->length,
                                    .address = region->address,
                                    .shape = region->shape};
    uint64_t offset = 0;
    memcpy(entry.name, region->name, sizeof entry.name);
    vv_manifest_region(manifest, &entry, region->address);
    for (size_t i = 0; i < copied->runs; i++) {
        const struct vv_copied_run *run = &putting->copy->runs[putting->run++];
        put_run(putting, manifest, owner, region->address, offset, run);
        offset += run->length;
    }
    vv_manifest_region_end(manifest, copied->digest);
}

static int add_bytes(void *arg, const void *data, size_t size) {
    struct putting *putting = arg;
    return vv_pack_manifest_add(putting->pack, data, size, putting->copy->error);
}

static int write_manifest(struct putting *putting, const struct vv_manifest_head *head, const struct vv_buf *buf) {
    struct varve_error *error = putting->copy->error;
    struct vv_hash128 digest;
    int rc = buf->failed ? vv_copy_no_memory(putting->copy) : vv_pack_manifest_begin(putting->pack, head, error);
    if (rc == 0 && buf->size)
        rc = head->is_packed ? vv_pieces_pack(&putting->pieces, buf->data, buf->size, add_bytes, putting)
                             : add_bytes(putting, buf->data, buf->size);
    if (rc == 0)
        rc = vv_pack_manifest_end(putting->pack, &digest, error);
    return rc < 0 ? vv_error_default(error, rc, "a manifest could not be written: %s", varve_error_text(rc)) : 0;
}

static int put_owner(struct putting *putting, uint32_t owner) {
    struct vv_copy *copy = putting->copy;
    struct vv_manifest_head head = {.owner = owner};
    struct vv_manifest_writer manifest;
    struct vv_recipe_region region;
    struct vv_recipe_layers layers;
    struct vv_recipe *recipe = NULL;
    struct vv_buf buf;
    vv_buf_init(&buf);
    vv_manifest_begin(&manifest, &buf, owner);
    int rc = vv_recipe_open(copy->view, owner, &recipe, copy->error);
    while (rc == 0 && (rc = vv_recipe_next_region(recipe, &region, copy->error)) == 1) {
        head.protected_bytes += region.length;
        put_region(putting, &manifest, owner, &region);
        rc = 0;
    }
    if (rc == 0) {
        vv_recipe_layers(recipe, &layers);
        head.layout_bytes = layers.layout_bytes;
        head.regions = head.entries = manifest.entries;
        head.runs = manifest.runs;
        head.is_packed = head.runs >= VV_PACK_FROM;
        putting->protected_bytes += head.protected_bytes;
        putting->regions += head.regions;
        rc = putting->pack ? write_manifest(putting, &head, &buf) : 0;
    }
    vv_recipe_close(recipe);
    vv_buf_clear(&buf);
    return rc;
}

/* ---- packs ---- */

static int seal_home(struct putting *putting) {
    struct vv_copy *copy = putting->copy;
    struct vv_pack_sums sums = {0};
    struct vv_pack_writer *pack = putting->pack;
    putting->pack = NULL;
    int rc = pack ? vv_pack_seal(pack, putting->protected_bytes, putting->regions, &sums, copy->error) : 0;
    copy->result->written += sums.stored_bytes + sums.metadata_bytes;
    return rc;
}

/* One that an earlier try has sealed stays: what it says is compared when all is read back. */
static int put_home(struct putting *putting, uint32_t writer) {
    struct vv_copy *copy = putting->copy;
    struct vv_pack_options options = vv_copy_pack_options(copy, writer);
    struct vv_footer footer;
    int rc = vv_lease_check(copy->lease, copy->error);
    if (rc == 0 && copy->is_resumed)
        rc = vv_copy_has_pack(copy, writer, &footer);
    if (rc == 1)
        vv_footer_clear(&footer);
    else if (rc == 0)
        rc = vv_pack_begin(copy->to, copy->name, &copy->attempt, &options, &putting->pack, copy->error);
    putting->protected_bytes = putting->regions = 0;
    if (putting->pack)
        rc = vv_pack_dependencies(putting->pack, putting->dependencies, putting->dependency_count, copy->error);
    rc = rc < 0 ? rc : put_moved(putting, &options);
    for (uint32_t i = 0; rc == 0 && i < options.owners; i++)
        rc = put_owner(putting, options.first_owner + i);
    return rc == 0 ? seal_home(putting) : rc;
}

int vv_copy_manifests(struct vv_copy *copy) {
    struct putting putting = {.copy = copy};
    int rc = list_dependencies(&putting);
    order_moved(copy);
    for (uint32_t writer = 0; rc == 0 && writer < copy->plan.homes; writer++) {
        rc = vv_copy_progress(copy, 0);
        rc = rc < 0 ? rc : put_home(&putting, writer);
    }
    vv_pack_abort(putting.pack);
    vv_pieces_clear(&putting.pieces);
    vv_free(putting.dependencies);
    return rc;
}
