/* Parts of many arrays straight into memory: each description is read once, and all data is fetched together. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "arrays/global_array.h"
#include "arrays/scatter.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/search.h"
#include "inspect/inspect_private.h"
#include "read/region_reader.h"

#define WINDOW_BYTES ((uint64_t)64 << 20)

struct wanted {
    const struct vv_global_array *global;
    struct vv_part slice;
    void *to;
};

struct parts {
    struct vv_view *view;
    struct vv_scatter *scatter;
    struct vv_global_arrays arrays;
    struct wanted *wanted; /* by array */
    size_t count;
    uint8_t *is_needed; /* of each rank */
};

static int zero(void *ptr, uint64_t size) {
    memset(ptr, 0, size);
    return 0;
}

static int choose(const struct parts *parts, const struct varve_part *part, struct wanted *out,
                  struct varve_error *error) {
    struct vv_array_reading reading = {.view = parts->view};
    reading.global = part->array ? vv_global_arrays_find(&parts->arrays, part->array) : NULL;
    if (!reading.global)
        return vv_error(error, VARVE_MISMATCH, "there is no array \"%s\"; `varve show` tells what there is",
                        part->array ? part->array : "");
    int rc = vv_array_reading_choose(&reading, &part->slice, error);
    if (rc)
        return rc;
    uint64_t bytes = vv_part_elements(&reading.slice) * reading.slice.element;
    if (bytes != part->bytes || (bytes > 0 && !part->to))
        return vv_error(error, -EINVAL, "array %s: the slice has %" PRIu64 " bytes, and there is memory for %" PRIu64,
                        part->array, bytes, part->to ? part->bytes : 0);
    *out = (struct wanted){reading.global, reading.slice, part->to};
    return 0;
}

static int by_array(const void *a, const void *b) {
    const struct wanted *x = a, *y = b;
    return x->global < y->global ? -1 : x->global > y->global;
}

/* Which ranks have something of it. */
static void mark_owners(struct parts *parts, const struct wanted *wanted) {
    struct vv_overlap overlap;
    struct vv_part part;
    for (size_t i = 0; i < wanted->global->count; i++) {
        vv_array_block_part(wanted->global, i, &part);
        if (!wanted->global->blocks[i].is_again && vv_overlap_begin(&overlap, &part, &wanted->slice))
            parts->is_needed[wanted->global->blocks[i].owner] = 1;
    }
}

static int choose_all(struct parts *parts, const struct varve_part *from, size_t count, struct varve_error *error) {
    parts->wanted = vv_calloc(count + 1, sizeof *parts->wanted);
    parts->is_needed = vv_calloc(vv_view_record(parts->view)->ranks, 1);
    if (!parts->wanted || !parts->is_needed)
        return vv_error(error, -ENOMEM, "no memory to read %zu parts of arrays", count);
    for (size_t i = 0; i < count; i++) {
        int rc = choose(parts, &from[i], &parts->wanted[i], error);
        if (rc)
            return rc;
        mark_owners(parts, &parts->wanted[i]);
    }
    parts->count = count;
    qsort(parts->wanted, count, sizeof *parts->wanted, by_array);
    return 0;
}

/* The first part of an array that is wanted; count: there is none. */
static size_t first_of(const struct parts *parts, const struct vv_global_array *global) {
    size_t at;
    VV_SEARCH(at, 0, parts->count, parts->wanted[at].global < global);
    return at;
}

/* The block of a rank, or NULL if it has none that counts. */
static const struct vv_array_block *block_of(const struct vv_global_array *global, uint32_t owner) {
    const struct vv_array_block *blocks = global->blocks;
    size_t at;
    VV_SEARCH(at, 0, global->count, blocks[at].owner < owner);
    return at < global->count && blocks[at].owner == owner && !blocks[at].is_again ? &blocks[at] : NULL;
}

/* What is wanted of the region that the recipe stands before. */
static int read_region(struct parts *parts, struct vv_recipe *recipe, uint32_t owner, const char *name,
                       struct varve_error *error) {
    const struct vv_global_array *global = vv_global_arrays_find(&parts->arrays, name);
    const struct vv_array_block *block = global ? block_of(global, owner) : NULL;
    struct vv_part there;
    int is_used = 0, rc = 0;
    if (!block)
        return 0;
    vv_array_block_part(global, (size_t)(block - global->blocks), &there);
    for (size_t i = first_of(parts, global); rc == 0 && i < parts->count && parts->wanted[i].global == global; i++) {
        struct vv_recipe *again = NULL;
        struct vv_recipe_region region;
        struct vv_overlap overlap;
        if (!vv_overlap_begin(&overlap, &there, &parts->wanted[i].slice))
            continue;
        if (is_used) /* its runs were read to their end */
            rc = vv_region_find(parts->view, owner, name, &again, &region, error);
        if (rc == 0)
            rc = vv_scatter_region(parts->scatter, is_used ? again : recipe, &overlap, parts->wanted[i].to,
                                   VV_SHARING_NOTHING, error);
        is_used = 1;
        vv_recipe_close(again);
    }
    return rc ? vv_error_in_region(error, rc, name) : 0;
}

static int read_owner(struct parts *parts, uint32_t owner, struct varve_error *error) {
    struct vv_recipe *recipe = NULL;
    struct vv_recipe_region region;
    int rc = vv_recipe_open(parts->view, owner, &recipe, error);
    while (rc == 0 && (rc = vv_recipe_next_region(recipe, &region, error)) > 0)
        rc = region.shape.dims > 0 ? read_region(parts, recipe, owner, region.name, error) : 0;
    vv_recipe_close(recipe);
    return rc;
}

static int read_all(struct parts *parts, const struct varve_store *store, struct varve_error *error) {
    const struct vv_scatter_options options = {
        .threads = (unsigned)store->settings.threads, .window = WINDOW_BYTES, .zero = zero};
    uint32_t ranks = vv_view_record(parts->view)->ranks;
    int rc = vv_scatter_create(parts->view, &options, &parts->scatter, error);
    for (uint32_t owner = 0; rc == 0 && owner < ranks; owner++)
        rc = parts->is_needed[owner] ? read_owner(parts, owner, error) : 0;
    return rc ? rc : vv_scatter_run(parts->scatter, error);
}

int varve_store_read_parts(struct varve_store *store, const struct varve_which *which, const struct varve_part *parts,
                           size_t count, struct varve_error *error) {
    struct varve_which found = which ? *which : (struct varve_which){0};
    struct parts reading = {0};

    vv_error_clear(error);
    if (count > 0 && !parts)
        return vv_error(error, -EINVAL, "varve_store_read_parts needs to be told what to read, and where to");
    int rc = vv_inspect_open_view(store, &found, &reading.view, error);
    if (rc < 0)
        return rc;
    vv_view_expect_parts(reading.view);
    rc = vv_inspect_arrays(store, &found, reading.view, NULL, &reading.arrays, error);
    rc = rc ? rc : choose_all(&reading, parts, count, error);
    rc = rc ? rc : read_all(&reading, store, error);
    vv_scatter_destroy(reading.scatter);
    vv_free(reading.wanted);
    vv_free(reading.is_needed);
    vv_global_arrays_clear(&reading.arrays);
    vv_view_close(reading.view);
    return rc < 0 ? vv_error_default(error, rc, "cannot read parts of %s@%" PRId64 ": %s", found.name, found.version,
                                     varve_error_text(rc))
                  : 0;
}

/* Who looks at a store pays for counting only after it was asked for. */
int vv_inspect_read_so_far(struct varve_store *store, uint64_t *out, struct varve_error *error) {
    struct vv_backend_counts counts;
    struct varve_backend **backend = &store->store->backend;

    int rc = vv_count_get(*backend, &counts);
    if (rc == VARVE_UNSUPPORTED) {
        rc = vv_count_backend_wrap(*backend, backend);
        rc = rc < 0 ? rc : vv_count_get(*backend, &counts);
    }
    *out = rc < 0 ? 0 : counts.bytes_read;
    return rc < 0 ? vv_error_sys(error, rc, "cannot count what is read") : 0;
}

int varve_store_bytes_read(struct varve_store *store, uint64_t *out, struct varve_error *error) {
    vv_error_clear(error);
    if (!store || !out)
        return vv_error(error, -EINVAL, "varve_store_bytes_read needs a store, and a place for the number");
    return vv_inspect_read_so_far(store, out, error);
}
