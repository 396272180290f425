/* What this rank wants, and which stored parts have it. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "format/attributes.h"
#include "restart/elastic_private.h"

/* ---- what is wanted ---- */

static void part_of_list(const struct vv_elastic *elastic, struct vv_wanted *wanted) {
    struct vv_region *region = wanted->region;
    struct varve_array array;
    const struct vv_list *list = vv_elastic_list(elastic, region->name);
    wanted->total = list->total;
    vv_part_of_bytes(region->size, &wanted->part);
    if (vv_is_array(region)) {
        vv_array_tell(region->array, &array);
        memset(array.stride, 0, sizeof array.stride); /* a list has no places, only an order */
        vv_part_of_array(&array, &wanted->part);
    }
    wanted->part.dim[0].first = list->end - vv_list_count(region);
}

static int refuse_private(const struct vv_elastic *elastic, const char *name, struct varve_error *error) {
    uint32_t stored = vv_view_record(elastic->view)->ranks, ours = elastic->context->job->comm->ranks;
    return vv_error(error, VARVE_MISMATCH,
                    "region %s is no array, and the checkpoint is of %u ranks, this job has %u: run it with %u, or say "
                    "with varve_distribute what becomes of the region; a new one: VARVE_RESTART_MISSING",
                    name, stored, ours, stored);
}

/* Is it said how its bytes are spread? With as many ranks as before, what is no array stays with its rank. */
static int want_region(struct vv_elastic *elastic, struct vv_region *region, struct vv_wanted *out,
                       struct varve_error *error) {
    struct varve_array array;
    *out = (struct vv_wanted){.region = region, .how = (enum varve_distribution)region->distribution};
    if (out->how == VARVE_DROPPED)
        return 0;
    if (region->is_callback || region->device)
        return vv_error(error, VARVE_MISMATCH,
                        "region %s: on another number of ranks, or with other blocks, regions %s cannot come back",
                        region->name, region->device ? "of devices" : "with callbacks");
    if (out->how == VARVE_JOINED) {
        part_of_list(elastic, out);
        return 0;
    }
    if (out->how == VARVE_BY_DIMS && vv_is_array(region)) {
        vv_array_tell(region->array, &array);
        vv_part_of_array(&array, &out->part);
        elastic->wanted_blocks += region->size;
        return 0;
    }
    if (out->how == VARVE_BY_DIMS) {
        out->how = VARVE_BY_RANK;
        out->must_be_stored = 1;
        out->is_unsaid = vv_view_record(elastic->view)->ranks != elastic->context->job->comm->ranks;
    }
    if (out->is_unsaid && !(elastic->options->flags & VARVE_RESTART_MISSING))
        return refuse_private(elastic, region->name, error);
    vv_part_of_bytes(region->size, &out->part);
    return 0;
}

static int is_read(const void *arg, size_t slot) {
    const struct vv_elastic *elastic = arg;
    const struct vv_region *region = &elastic->context->memory->regions.list[slot];
    return vv_is_region_asked(elastic, region) && region->distribution != VARVE_DROPPED;
}

static int want_regions(struct vv_elastic *elastic, struct varve_error *error) {
    struct vv_regions *regions = &elastic->context->memory->regions;
    elastic->wanted = vv_calloc(regions->count + 1, sizeof *elastic->wanted);
    if (!elastic->wanted)
        return vv_error(error, -ENOMEM, "no memory to restart %zu regions", regions->count);
    elastic->wanted_count = regions->count;
    int rc = vv_check_asked(elastic->options, regions, error);
    for (size_t i = 0; i < regions->count && rc == 0; i++)
        if (vv_is_region_asked(elastic, &regions->list[i]))
            rc = want_region(elastic, &regions->list[i], &elastic->wanted[i], error);
    return rc ? rc : vv_regions_reachable(regions, is_read, elastic, error);
}

static struct vv_wanted *find_wanted(const struct vv_elastic *elastic, const char *name) {
    const struct vv_regions *regions = &elastic->context->memory->regions;
    const struct vv_region *region = vv_regions_find(regions, name);
    struct vv_wanted *wanted = region ? &elastic->wanted[region - regions->list] : NULL;
    return wanted && wanted->region ? wanted : NULL;
}

/* ---- what is stored ---- */

static int add_part(struct vv_elastic *elastic, struct vv_wanted *wanted, uint32_t owner,
                    const struct vv_recipe_region *stored, const struct vv_part *part, struct varve_error *error) {
    uint64_t common = vv_overlap_count(part, &wanted->part);
    if (common == 0)
        return 0;
    if (VV_GROW(elastic->parts, elastic->part_count, elastic->part_capacity) != 0)
        return vv_error(error, -ENOMEM, "no memory to restart %zu parts of regions", elastic->part_count + 1);
    elastic->parts[elastic->part_count++] = (struct vv_stored_part){
        .owner = owner,
        .wanted = (uint32_t)(wanted - elastic->wanted),
        .number = stored->number,
        .part = *part,
        .sharing = wanted->how == VARVE_REPLICATED   ? VV_SHARING_ALL
                   : common < vv_part_elements(part) ? VV_SHARING_PARTS
                                                     : VV_SHARING_NOTHING,
        .is_whole = common == vv_part_elements(part) && common == vv_part_elements(&wanted->part),
        .digest = stored->digest,
    };
    wanted->found += common;
    elastic->bytes += common * part->element;
    elastic->reach += stored->length;
    return 0;
}

static int add_block(struct vv_elastic *elastic, struct vv_wanted *wanted, uint32_t owner,
                     const struct vv_recipe_region *stored, struct varve_error *error) {
    struct varve_array array;
    struct vv_part part;
    const struct vv_array *ours = wanted->region->array;
    vv_array_of(&stored->shape, &array);
    if (array.type != ours->type || array.dims != ours->dims)
        return vv_error(error, VARVE_MISMATCH,
                        "region %s: rank %u has stored %u dimensions of type %s, protected are %u of type %s; if it is "
                        "a list or the same on all ranks, say so with varve_distribute",
                        stored->name, owner, array.dims, vv_type_name(array.type), ours->dims,
                        vv_type_name(ours->type));
    for (unsigned i = 0; i < array.dims; i++)
        if (array.dim[i].global != ours->dim[i].global)
            return vv_error(error, VARVE_MISMATCH,
                            "region %s: dimension %u of the whole array has %" PRIu64 " elements in what rank %u has "
                            "stored, and %" PRIu64 " in what is protected; say where each rank's part lies, or "
                            "VARVE_JOINED if it is a list",
                            stored->name, i, (uint64_t)array.dim[i].global, owner, (uint64_t)ours->dim[i].global);
    if (vv_array_check(&array, stored->name, error) != 0 || vv_array_bytes(&array) != stored->length)
        return vv_error(error, VARVE_MISMATCH, "region %s: what rank %u has stored is not the array that it says",
                        stored->name, owner);
    vv_part_of_array(&array, &part);
    wanted->is_seen = 1;
    wanted->stored += elastic->owner_count ? 0 : vv_part_elements(&part); /* else it is known already */
    return add_part(elastic, wanted, owner, stored, &part, error);
}

/* The next part of a list. Its type, and all dimensions but the first, are those of ours. */
static int add_joined(struct vv_elastic *elastic, struct vv_wanted *wanted, uint32_t owner,
                      const struct vv_recipe_region *stored, struct varve_error *error) {
    const struct vv_array *ours = vv_is_array(wanted->region) ? wanted->region->array : NULL;
    struct vv_part part = wanted->part;
    uint64_t item = part.element, count;
    int is_same = !ours || (stored->shape.type == ours->type && stored->shape.dims == ours->dims);
    for (unsigned i = 1; i < part.dims && is_same; i++) {
        is_same = stored->shape.dim[i].local == ours->dim[i].local;
        item *= part.dim[i].local;
    }
    count = ours && is_same ? stored->shape.dim[0].local : stored->length;
    if (!is_same || (item > 0 && stored->length / item != count) || count * item != stored->length ||
        (!elastic->owner_count && wanted->joined + count < count))
        return vv_error(error, VARVE_MISMATCH,
                        "region %s: rank %u has stored a list of another type, or of rows of another length",
                        stored->name, owner);
    const struct vv_owner *known = vv_elastic_owner(elastic, owner, (uint32_t)(wanted - elastic->wanted));
    if (known && known->rows != count)
        return vv_error(error, VARVE_MISMATCH,
                        "region %s: rank %u has stored %" PRIu64 " of the list, the index says %" PRIu64, stored->name,
                        owner, count, known->rows);
    uint64_t first = elastic->owner_count ? (known ? known->first : UINT64_MAX / 2) : wanted->joined;
    part.dim[0] = (struct vv_part_dim){count, first, count ? count : 1, count ? count : 1};
    wanted->joined += elastic->owner_count ? 0 : count;
    wanted->is_seen = 1;
    return add_part(elastic, wanted, owner, stored, &part, error);
}

/* All read the same one, which a node reads once. With an index each compares its share with that of rank 0. */
static int add_replica(struct vv_elastic *elastic, struct vv_wanted *wanted, uint32_t owner,
                       const struct vv_recipe_region *stored, struct varve_error *error) {
    int is_first = !wanted->is_seen;
    if (is_first && elastic->owner_count && owner != 0) /* others would compare theirs with that of another rank */
        return vv_error(error, VARVE_MISMATCH,
                        "region %s is the same on all ranks, and rank 0 has not stored it; nothing was restored",
                        stored->name);
    if (is_first) {
        wanted->is_seen = 1;
        wanted->first_owner = owner;
        wanted->digest = stored->digest;
    }
    if (stored->length != wanted->region->size)
        return vv_error(error, VARVE_MISMATCH,
                        "region %s: rank %u has stored %" PRIu64 " bytes but %" PRIu64 " are protected", stored->name,
                        owner, stored->length, wanted->region->size);
    if (memcmp(&stored->digest, &wanted->digest, sizeof stored->digest) != 0)
        return vv_error(
            error, VARVE_MISMATCH,
            "region %s is said to be the same on all ranks, but ranks %u and %u have stored different bytes",
            stored->name, wanted->first_owner, owner);
    return is_first ? add_part(elastic, wanted, owner, stored, &wanted->part, error) : 0;
}

static int add_own(struct vv_elastic *elastic, struct vv_wanted *wanted, uint32_t owner,
                   const struct vv_recipe_region *stored, struct varve_error *error) {
    wanted->is_seen = 1; /* a name that nobody has stored is a mistake */
    if (owner != elastic->context->job->comm->rank)
        return 0;
    if (stored->length != wanted->region->size)
        return vv_error(error, VARVE_MISMATCH,
                        "region %s: %" PRIu64 " bytes are stored but %" PRIu64
                        " are protected; protect the stored size",
                        stored->name, stored->length, wanted->region->size);
    return add_part(elastic, wanted, owner, stored, &wanted->part, error);
}

static int compare_region(struct vv_elastic *elastic, uint32_t owner, const struct vv_recipe_region *stored,
                          struct varve_error *error) {
    struct vv_wanted *wanted = find_wanted(elastic, stored->name);
    const struct vv_job *job = elastic->context->job;
    if (!wanted && vv_comm_is_root(job->comm) && !vv_is_about(stored->name))
        vv_log(&job->log, VV_LOG_INFO, "region %s of rank %u is stored but not protected here", stored->name, owner);
    if (!wanted)
        return 0;
    switch (wanted->how) {
    case VARVE_BY_DIMS:
        return add_block(elastic, wanted, owner, stored, error);
    case VARVE_JOINED:
        return add_joined(elastic, wanted, owner, stored, error);
    case VARVE_REPLICATED:
        return add_replica(elastic, wanted, owner, stored, error);
    case VARVE_BY_RANK:
        return add_own(elastic, wanted, owner, stored, error);
    default:
        return 0;
    }
}

static int compare_owner(struct vv_elastic *elastic, uint32_t owner, struct varve_error *error) {
    struct vv_recipe *recipe = NULL;
    struct vv_recipe_region stored;
    int rc = vv_recipe_open(elastic->view, owner, &recipe, error);
    while (rc == 0 && (rc = vv_recipe_next_region(recipe, &stored, error)) > 0)
        rc = compare_region(elastic, owner, &stored, error);
    vv_recipe_close(recipe);
    return rc;
}

/* ---- is every element there, once? ---- */

static int by_wanted(const void *a, const void *b) {
    const struct vv_stored_part *x = *(const struct vv_stored_part *const *)a,
                                *y = *(const struct vv_stored_part *const *)b;
    return x->wanted != y->wanted ? (x->wanted < y->wanted ? -1 : 1) : (x < y ? -1 : x > y);
}

/* Parts are compared one array after the other; there is room for those of all. */
struct comparing {
    struct vv_stored_part **sorted;
    struct vv_owned *owned;
    const struct vv_part **parts;
};

static int refuse_twice(const char *name, const struct vv_twice *twice, struct varve_error *error) {
    char indices[VV_BOX_TEXT];
    vv_box_text(&twice->box, indices);
    if (twice->is_other)
        return vv_error(error, VARVE_MISMATCH,
                        "region %s: ranks %u and %u have stored different bytes of %s: say with varve_distribute what "
                        "it is",
                        name, twice->owner[0], twice->owner[1], indices);
    return vv_error(error, VARVE_MISMATCH,
                    "region %s: ranks %u and %u have both stored %s: each rank protects only what it owns, without the "
                    "rows of its neighbours",
                    name, twice->owner[0], twice->owner[1], indices);
}

/* The parts of one array, which are `stored`. */
static int check_array(const struct vv_elastic *elastic, const struct comparing *comparing,
                       struct vv_stored_part **stored, size_t count, struct varve_error *error) {
    const char *name = elastic->wanted[stored[0]->wanted].region->name;
    struct vv_twice twice;
    size_t used;
    for (size_t i = 0; i < count; i++)
        comparing->owned[i] = (struct vv_owned){stored[i]->part, stored[i]->digest, stored[i]->owner, i, 0};
    int rc = vv_parts_once(comparing->owned, count, comparing->parts, &used, &twice);
    for (size_t i = 0; i < count; i++)
        stored[comparing->owned[i].number]->is_again = comparing->owned[i].is_again;
    if (rc < 0)
        return vv_error(error, rc, "region %s: %zu stored parts %s", name, count,
                        rc == -ENOMEM ? "could not be compared: no memory"
                                      : "lie so that they cannot be compared in a reasonable time");
    return rc > 0 ? refuse_twice(name, &twice, error) : 0;
}

/* What is there again counts no more, and is not read. */
static void drop_again(struct vv_elastic *elastic) {
    size_t kept = 0;
    for (size_t i = 0; i < elastic->part_count; i++) {
        const struct vv_stored_part *part = &elastic->parts[i];
        struct vv_wanted *wanted = &elastic->wanted[part->wanted];
        if (!part->is_again) {
            elastic->parts[kept++] = *part;
            continue;
        }
        uint64_t common = vv_overlap_count(&part->part, &wanted->part);
        wanted->found -= common;
        elastic->bytes -= common * part->part.element;
        elastic->reach -= vv_part_elements(&part->part) * part->part.element;
    }
    elastic->part_count = kept;
}

static int check_overlaps(struct vv_elastic *elastic, struct varve_error *error) {
    size_t count = elastic->part_count, next;
    const struct comparing comparing = {vv_calloc(count + 1, sizeof(struct vv_stored_part *)),
                                        vv_calloc(count + 1, sizeof(struct vv_owned)),
                                        vv_calloc(count + 1, sizeof(const struct vv_part *))};
    struct vv_stored_part **sorted = comparing.sorted;
    int rc = sorted && comparing.owned && comparing.parts
                 ? 0
                 : vv_error(error, -ENOMEM, "no memory to compare %zu parts", count);
    for (size_t i = 0; i < count && rc == 0; i++)
        sorted[i] = &elastic->parts[i];
    if (rc == 0)
        qsort(sorted, count, sizeof *sorted, by_wanted);
    for (size_t i = 0; i < count && rc == 0; i = next) {
        for (next = i + 1; next < count && sorted[next]->wanted == sorted[i]->wanted;)
            next++;
        rc = check_array(elastic, &comparing, sorted + i, next - i, error);
    }
    if (rc == 0)
        drop_again(elastic);
    vv_free(comparing.parts);
    vv_free(comparing.owned);
    vv_free(comparing.sorted);
    return rc;
}

/* The first elements that this rank wants and no rank has stored. */
static int refuse_hole(const struct vv_elastic *elastic, const struct vv_wanted *wanted, struct varve_error *error) {
    const struct vv_part **parts = vv_calloc(elastic->part_count + 1, sizeof(const struct vv_part *));
    uint64_t size = vv_part_elements(&wanted->part);
    char indices[VV_BOX_TEXT] = "them all";
    struct vv_box box;
    size_t count = 0;
    for (size_t i = 0; parts && i < elastic->part_count; i++)
        if (&elastic->wanted[elastic->parts[i].wanted] == wanted)
            parts[count++] = &elastic->parts[i].part;
    if (parts && vv_parts_hole(&wanted->part, parts, count, &box) > 0)
        vv_box_text(&box, indices);
    vv_free(parts);
    return vv_error(error, VARVE_MISMATCH,
                    "region %s: no rank has stored %s, which rank %u wants: %" PRIu64 " of its %" PRIu64
                    " elements are missing",
                    wanted->region->name, indices, elastic->context->job->comm->rank, size - wanted->found, size);
}

static int check_found(const struct vv_elastic *elastic, struct varve_error *error) {
    for (size_t i = 0; i < elastic->wanted_count; i++) {
        const struct vv_wanted *wanted = &elastic->wanted[i];
        if (!wanted->region)
            continue;
        uint64_t size = vv_part_elements(&wanted->part);
        if (!wanted->is_seen && !elastic->owner_count && (elastic->options->flags & VARVE_RESTART_MISSING))
            continue; /* nobody has stored it */
        if (wanted->is_unsaid)
            return refuse_private(elastic, wanted->region->name, error);
        if (wanted->how == VARVE_JOINED && wanted->joined != wanted->total)
            return vv_error(error, VARVE_MISMATCH,
                            "region %s: the ranks together want %" PRIu64 " elements of the list, but %" PRIu64
                            " are stored",
                            wanted->region->name, wanted->total, wanted->joined);
        int may_miss = wanted->how == VARVE_DROPPED || (wanted->how == VARVE_BY_RANK && !wanted->must_be_stored);
        if (wanted->how != VARVE_DROPPED && !wanted->is_seen)
            return vv_error(error, VARVE_MISMATCH,
                            "region %s is protected but version %" PRIu64
                            " has none of this name; nothing was restored",
                            wanted->region->name, elastic->version);
        if (!may_miss && wanted->found < size && wanted->how == VARVE_BY_RANK)
            return vv_error(error, VARVE_MISMATCH,
                            "region %s: rank %u gets what it has stored itself, and has stored none",
                            wanted->region->name, elastic->context->job->comm->rank);
        if (!may_miss && wanted->found < size)
            return refuse_hole(elastic, wanted, error);
    }
    return 0;
}

static int compare_all(struct vv_elastic *elastic, struct varve_error *error) {
    int rc = 0;
    for (uint32_t owner = 0; rc == 0 && owner < vv_view_record(elastic->view)->ranks; owner++)
        rc = compare_owner(elastic, owner, error);
    return rc;
}

static int compare_chosen(struct vv_elastic *elastic, struct varve_error *error) {
    uint32_t count = 0;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < elastic->owner_count; i++) {
        if (i > 0 && elastic->owners[i].owner == elastic->owners[i - 1].owner)
            continue;
        rc = compare_owner(elastic, elastic->owners[i].owner, error);
        count++;
    }
    vv_log(&elastic->context->job->log, VV_LOG_INFO, "looked at the descriptions of %u of %u ranks", count,
           vv_view_record(elastic->view)->ranks);
    return rc;
}

static int match(struct vv_elastic *elastic, int rc, struct varve_error *error) {
    if (rc == 0)
        rc = elastic->owner_count ? compare_chosen(elastic, error) : compare_all(elastic, error);
    if (rc == 0)
        rc = check_overlaps(elastic, error);
    return rc ? rc : check_found(elastic, error);
}

/* Forget what was found with the help of the index. */
static void begin_again(struct vv_elastic *elastic) {
    vv_free(elastic->wanted);
    elastic->wanted = NULL;
    elastic->owner_count = elastic->part_count = 0;
    elastic->bytes = elastic->reach = elastic->wanted_blocks = 0;
}

/* What the index leads to decides only if it fits: otherwise all descriptions do, and name what is wrong. */
int vv_elastic_match(struct vv_elastic *elastic, struct varve_error *error) {
    struct varve_error why = {0};
    int rc = want_regions(elastic, error);
    if (rc)
        return rc;
    int chosen = vv_elastic_owners(elastic, &why);
    if (chosen == 1 && match(elastic, 0, &why) == 0)
        return 0;
    if (chosen < 0)
        vv_log(&elastic->context->job->log, VV_LOG_WARN, "all descriptions are read: %s", why.text);
    begin_again(elastic);
    rc = want_regions(elastic, error);
    return match(elastic, rc, error);
}
