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

/* ---- reading it ---- */

struct reading {
    struct vv_view *view;
    struct vv_scatter *scatter;
};

static int set_zero(void *ptr, uint64_t size) {
    memset(ptr, 0, size);
    return 0;
}

/* Only the blocks in which these bytes lie are read. */
static int read_bytes(void *arg, uint64_t offset, void *data, size_t size, struct varve_error *error) {
    struct reading *reading = arg;
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
        rc = vv_index_open(index, read_bytes, reading, region.length, vv_view_record(reading->view)->ranks, error);
    return rc ? rc : 1;
}

/* ---- who has what is wanted ---- */

struct choosing {
    struct vv_elastic *elastic;
    uint32_t wanted;
};

static int add_owner(struct vv_elastic *elastic, uint32_t owner, uint32_t wanted, uint64_t first) {
    if (VV_GROW(elastic->owners, elastic->owner_count, elastic->owner_capacity) != 0)
        return -ENOMEM;
    elastic->owners[elastic->owner_count++] = (struct vv_owner){owner, wanted, first};
    return 0;
}

static int on_owner(void *arg, uint32_t owner, const struct vv_part *part) {
    const struct choosing *choosing = arg;
    return add_owner(choosing->elastic, owner, choosing->wanted, part->dim[0].first);
}

/* All of them compare what is said to be the same on all ranks with that of rank 0, each a share. */
static int add_share(struct vv_elastic *elastic, uint32_t wanted) {
    const struct varve_comm *comm = elastic->context->job->comm;
    uint64_t ranks = vv_view_record(elastic->view)->ranks;
    int rc = 0;
    for (uint64_t owner = comm->rank; owner < ranks && rc == 0; owner += comm->ranks)
        rc = add_owner(elastic, (uint32_t)owner, wanted, 0);
    return rc;
}

/* 1 if the owners of this region are known. */
static int choose_region(struct vv_elastic *elastic, const struct vv_index *index, uint32_t number,
                         struct varve_error *error) {
    struct vv_wanted *wanted = &elastic->wanted[number];
    struct choosing choosing = {elastic, number};
    int rc;
    switch (wanted->how) {
    case VARVE_BY_DIMS:
        rc = vv_index_owners(index, wanted->region->name, &wanted->part, on_owner, &choosing, error);
        elastic->stored_blocks += rc == 1 ? vv_array_bytes_in_all(wanted->region->array) : 0;
        return rc;
    case VARVE_JOINED:
        rc = vv_index_owners(index, wanted->region->name, &wanted->part, on_owner, &choosing, error);
        return rc == 1 ? vv_index_rows(index, wanted->region->name, &wanted->joined) : rc;
    case VARVE_REPLICATED:
        rc = add_share(elastic, number);
        return rc ? rc : 1;
    case VARVE_BY_RANK:
        rc = elastic->context->job->comm->rank < vv_view_record(elastic->view)->ranks
                 ? add_owner(elastic, elastic->context->job->comm->rank, number, 0)
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
    int rc = add_owner(elastic, 0, UINT32_MAX, 0); /* names that nobody has stored are found out with any rank */
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

int vv_elastic_owners(struct vv_elastic *elastic, struct varve_error *error) {
    struct reading reading = {.view = elastic->view};
    struct vv_index index = {0};
    int rc = open_index(&reading, &index, error);
    if (rc == 1)
        rc = choose(elastic, &index, error);
    vv_index_close(&index);
    vv_scatter_destroy(reading.scatter);
    return rc;
}

const struct vv_owner *vv_elastic_owner(const struct vv_elastic *elastic, uint32_t owner, uint32_t wanted) {
    const struct vv_owner key = {owner, wanted, 0};
    return elastic->owner_count
               ? bsearch(&key, elastic->owners, elastic->owner_count, sizeof *elastic->owners, by_owner)
               : NULL;
}
