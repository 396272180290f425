/* Whose descriptions this rank has to read: those that the index of arrays names, and a few more. Without an index, or
 * where it does not have an array, those of all ranks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arrays/array_index.h"
#include "arrays/scatter.h"
#include "base/alloc.h"
#include "read/region_reader.h"
#include "restart/elastic_private.h"

#define WINDOW (1u << 20)
#define FIRST (64u << 10) /* bytes that are read at once: nearly all of them are shorter */

/* ---- reading it ---- */

struct reading {
    struct vv_view *view;
    struct vv_scatter *scatter;
    uint8_t *first;
    size_t first_size;
};

static int set_zero(void *ptr, uint64_t size) {
    memset(ptr, 0, size);
    return 0;
}

/* Only the blocks in which these bytes lie are read. */
static int read_bytes(struct reading *reading, uint64_t offset, void *data, size_t size, struct varve_error *error) {
    struct vv_recipe *recipe = NULL;
    struct vv_recipe_region region;
    struct vv_overlap overlap;
    struct vv_part there, here;
    if (size == 0)
        return 0;
    int rc = vv_region_find(reading->view, 0, VV_INDEX, &recipe, &region, error);
    vv_part_of_bytes(rc ? 0 : region.length, &there);
    vv_part_of_bytes(size, &here);
    here.dim[0].first = offset;
    if (rc == 0 && vv_overlap_count(&there, &here) != size)
        rc = vv_error(error, VARVE_CORRUPT, "the index of arrays is shorter than it says");
    if (rc == 0) {
        (void)vv_overlap_begin(&overlap, &there, &here);
        rc = vv_scatter_region(reading->scatter, recipe, &overlap, data, VV_SHARING_NOTHING, error);
    }
    if (rc == 0)
        rc = vv_scatter_run(reading->scatter, error);
    vv_recipe_close(recipe);
    return rc;
}

static int take_index_bytes(void *arg, uint64_t offset, void *data, size_t size, struct varve_error *error) {
    struct reading *reading = arg;
    if (size > reading->first_size || offset > reading->first_size - size)
        return read_bytes(reading, offset, data, size, error);
    memcpy(data, reading->first + offset, size);
    return 0;
}

static int read_first(struct reading *reading, uint64_t length, struct varve_error *error) {
    size_t size = length < FIRST ? (size_t)length : FIRST;
    reading->first = vv_malloc(size + 1);
    if (!reading->first)
        return vv_error(error, -ENOMEM, "no memory for the index of arrays");
    int rc = read_bytes(reading, 0, reading->first, size, error);
    reading->first_size = rc ? 0 : size;
    return rc;
}

/* 1 if there is one, 0 if not. */
static int open_index(struct reading *reading, struct vv_index *index, struct varve_error *error) {
    const struct vv_scatter_options options = {.threads = 1, .window = WINDOW, .zero = set_zero};
    struct vv_recipe *recipe = NULL;
    struct vv_recipe_region region;
    int rc = vv_region_find(reading->view, 0, VV_INDEX, &recipe, &region, error);
    vv_recipe_close(recipe);
    if (rc == VARVE_MISMATCH) {
        vv_error_clear(error);
        return 0;
    }
    if (rc == 0)
        rc = vv_scatter_create(reading->view, &options, &reading->scatter, error);
    if (rc == 0)
        rc = read_first(reading, region.length, error);
    if (rc == 0)
        rc =
            vv_index_open(index, take_index_bytes, reading, region.length, vv_view_record(reading->view)->ranks, error);
    return rc ? rc : 1;
}

/* ---- who has what is wanted ---- */

struct choosing {
    struct vv_elastic *elastic;
    uint32_t wanted;
};

static int add_owner(struct vv_elastic *elastic, uint32_t owner, uint32_t wanted, const struct vv_part_dim *rows) {
    if (VV_GROW(elastic->owners, elastic->owner_count, elastic->owner_capacity) != 0)
        return -ENOMEM;
    elastic->owners[elastic->owner_count++] =
        (struct vv_owner){owner, wanted, rows ? rows->first : 0, rows ? rows->local : 0};
    return 0;
}

static int on_owner(void *arg, uint32_t owner, const struct vv_part *part) {
    const struct choosing *choosing = arg;
    return add_owner(choosing->elastic, owner, choosing->wanted, &part->dim[0]);
}

/* All of them compare what is said to be the same on all ranks with that of rank 0, each a share. */
static int add_share(struct vv_elastic *elastic, uint32_t wanted) {
    const struct varve_comm *comm = elastic->context->job->comm;
    uint64_t ranks = vv_view_record(elastic->view)->ranks;
    int rc = 0;
    for (uint64_t owner = comm->rank; owner < ranks && rc == 0; owner += comm->ranks)
        rc = add_owner(elastic, (uint32_t)owner, wanted, NULL);
    return rc;
}

/* Of a list, how many rows are stored; of arrays, how many elements. 1 if it can be told. */
static int count_elements(const struct vv_index *index, struct vv_wanted *wanted) {
    uint64_t elements, row = 1;
    if (!vv_index_elements(index, wanted->region->name, &elements))
        return 0;
    for (unsigned i = 1; i < wanted->part.dims; i++)
        row *= wanted->part.dim[i].local;
    if (wanted->how == VARVE_JOINED && row == 0)
        return 0;
    if (wanted->how == VARVE_JOINED)
        wanted->joined = elements / row;
    else
        wanted->stored = elements;
    return 1;
}

/* 1 if the owners of this region are known. */
static int choose_region(struct vv_elastic *elastic, const struct vv_index *index, uint32_t number,
                         struct varve_error *error) {
    struct vv_wanted *wanted = &elastic->wanted[number];
    struct choosing choosing = {elastic, number};
    int rc;
    switch (wanted->how) {
    case VARVE_BY_DIMS:
    case VARVE_JOINED:
        rc = vv_index_owners(index, wanted->region->name, wanted->how == VARVE_JOINED, &wanted->part, on_owner,
                             &choosing, error);
        return rc == 1 ? count_elements(index, wanted) : rc;
    case VARVE_REPLICATED:
        rc = elastic->has_same_replicas ? add_share(elastic, number) : 0;
        return rc ? rc : elastic->has_same_replicas;
    case VARVE_BY_RANK:
        rc = elastic->context->job->comm->rank < vv_view_record(elastic->view)->ranks
                 ? add_owner(elastic, elastic->context->job->comm->rank, number, NULL)
                 : 0;
        return rc ? rc : 1;
    default:
        return 1;
    }
}

static int by_owner(const void *a, const void *b) {
    const struct vv_owner *x = a, *y = b;
    return x->owner != y->owner ? (x->owner < y->owner ? -1 : 1) : x->wanted < y->wanted ? -1 : x->wanted > y->wanted;
}

static int choose(struct vv_elastic *elastic, struct vv_index *index, struct varve_error *error) {
    int rc = add_owner(elastic, 0, UINT32_MAX, NULL); /* names that nobody has stored are found out with any rank */
    for (size_t i = 0; i < elastic->wanted_count && rc == 0; i++) {
        rc = elastic->wanted[i].region ? choose_region(elastic, index, (uint32_t)i, error) : 1;
        if (rc == 0)
            return 0;
        rc = rc == 1 ? 0 : rc;
    }
    if (rc)
        return vv_error_default(error, rc, "no memory to restart with other parts");
    qsort(elastic->owners, elastic->owner_count, sizeof *elastic->owners, by_owner);
    return 1;
}

/* ---- has anybody stored it? ---- */

static int has_parts(const struct vv_region *region) {
    return region->distribution == VARVE_JOINED || (region->distribution == VARVE_BY_DIMS && vv_is_array(region));
}

/* Is one of them in the index? 1, 0 or an error, as below. */
static int find_parts(struct vv_view *view, const struct vv_missing *missing, struct varve_error *error) {
    struct reading reading = {.view = view};
    struct vv_index index = {0};
    uint64_t elements;
    int rc = open_index(&reading, &index, error), found = 0;
    for (size_t i = 0; rc == 1 && i < missing->regions->count && !found; i++)
        if (missing->is_missing[i] && has_parts(&missing->regions->list[i]))
            found = vv_index_elements(&index, missing->regions->list[i].name, &elements);
    vv_index_close(&index);
    vv_scatter_destroy(reading.scatter);
    vv_free(reading.first);
    return rc < 0 ? rc : found;
}

/* Is one of them a copy that rank 0 has? */
static int find_copies(struct vv_view *view, const struct vv_missing *missing, struct varve_error *error) {
    struct vv_recipe *recipe = NULL;
    struct vv_recipe_region stored;
    int rc = vv_recipe_open(view, 0, &recipe, error), found = 0;
    while (rc == 0 && !found && (rc = vv_recipe_next_region(recipe, &stored, error)) > 0) {
        const struct vv_region *region = vv_regions_find(missing->regions, stored.name);
        found =
            region && missing->is_missing[region - missing->regions->list] && region->distribution == VARVE_REPLICATED;
        rc = 0;
    }
    vv_recipe_close(recipe);
    return rc < 0 ? rc : found;
}

int vv_elastic_may_have(struct vv_view *view, const struct vv_missing *missing) {
    struct varve_error ignored = {0};
    size_t parts = 0, copies = 0;
    for (size_t i = 0; i < missing->regions->count; i++) {
        const struct vv_region *region = &missing->regions->list[i];
        if (!missing->is_missing[i])
            continue;
        parts += (size_t)has_parts(region);
        copies += region->distribution == VARVE_REPLICATED;
    }
    return (parts && find_parts(view, missing, &ignored) != 0) || (copies && find_copies(view, missing, &ignored) != 0);
}

int vv_elastic_owners(struct vv_elastic *elastic, struct varve_error *error) {
    struct reading reading = {.view = elastic->view};
    struct vv_index index = {0};
    int rc = open_index(&reading, &index, error);
    if (rc == 1)
        rc = choose(elastic, &index, error);
    vv_index_close(&index);
    vv_scatter_destroy(reading.scatter);
    vv_free(reading.first);
    return rc;
}

const struct vv_owner *vv_elastic_owner(const struct vv_elastic *elastic, uint32_t owner, uint32_t wanted) {
    const struct vv_owner key = {.owner = owner, .wanted = wanted};
    return elastic->owner_count
               ? bsearch(&key, elastic->owners, elastic->owner_count, sizeof *elastic->owners, by_owner)
               : NULL;
}
