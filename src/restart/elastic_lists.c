/* Lists that all ranks have a part of: each rank wants what follows after the ranks before it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "restart/elastic_private.h"

static int is_named(const void *name, const void *list) {
    return strcmp(name, ((const struct vv_list *)list)->region->name);
}

const struct vv_list *vv_elastic_list(const struct vv_elastic *elastic, const char *name) {
    return bsearch(name, elastic->lists, elastic->list_count, sizeof *elastic->lists, is_named);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct vv_list *)a)->region->name, ((const struct vv_list *)b)->region->name);
}

static int find_lists(struct vv_elastic *elastic, struct varve_error *error) {
    struct vv_regions *regions = &elastic->context->memory->regions;
    elastic->lists = vv_calloc(regions->count + 1, sizeof *elastic->lists);
    elastic->list_sums = vv_calloc(2 * regions->count + 1, sizeof *elastic->list_sums);
    if (!elastic->lists || !elastic->list_sums)
        return vv_error(error, -ENOMEM, "no memory to restart %zu regions", regions->count);
    for (size_t i = 0; i < regions->count; i++)
        if (vv_is_region_asked(elastic, &regions->list[i]) && regions->list[i].distribution == VARVE_JOINED)
            elastic->lists[elastic->list_count++].region = &regions->list[i];
    qsort(elastic->lists, elastic->list_count, sizeof *elastic->lists, by_name);
    return 0;
}

/* Of the names of all regions that are spread like this, in whatever order they were protected. */
static uint64_t sum_of_names(const struct vv_elastic *elastic, enum varve_distribution how) {
    const struct vv_regions *regions = &elastic->context->memory->regions;
    uint64_t sum = 0;
    for (size_t i = 0; i < regions->count; i++)
        if (vv_is_region_asked(elastic, &regions->list[i]) && regions->list[i].distribution == how)
            sum += vv_digest(regions->list[i].name, strlen(regions->list[i].name)).low;
    return sum;
}

/* Bytes that this rank wants. */
static uint64_t wanted_bytes(const struct vv_elastic *elastic) {
    const struct vv_regions *regions = &elastic->context->memory->regions;
    uint64_t bytes = 0;
    for (size_t i = 0; i < regions->count; i++)
        if (vv_is_region_asked(elastic, &regions->list[i]) && regions->list[i].distribution != VARVE_DROPPED)
            bytes += regions->list[i].size;
    return bytes;
}

/* Do all ranks have the same lists? And the same regions of which all have a copy? Then what they read alike, as the
 * index and the tables of packs, can be lent on a node already while they compare. Collective. */
static int agree_on_names(struct vv_elastic *elastic, int rc, struct varve_error *error) {
    struct varve_comm *comm = elastic->context->job->comm;
    uint64_t lists = sum_of_names(elastic, VARVE_JOINED), copies = sum_of_names(elastic, VARVE_REPLICATED);
    uint64_t least[] = {
        lists, ~lists, copies, ~copies, wanted_bytes(elastic), (uint64_t)elastic->context->job->settings.block_size};
    rc = vv_comm_agree_values(comm, rc, least, 6, error);
    if (rc)
        return rc;
    elastic->has_same_replicas = least[2] == ~least[3];
    if (least[0] == ~least[1])
        vv_peers_lend(elastic->peers, wanted_bytes(elastic) * VV_LENT_MORE, least[4] * VV_LENT_MORE,
                      (uint32_t)least[5]);
    return least[0] == ~least[1]
               ? 0
               : vv_comm_all_say(error, VARVE_MISMATCH, "not all ranks want a part of the same lists (VARVE_JOINED)");
}

static int add_up_lists(struct vv_elastic *elastic, struct varve_error *error) {
    struct varve_comm *comm = elastic->context->job->comm;
    size_t count = elastic->list_count;
    uint64_t *sums = elastic->list_sums;
    for (size_t i = 0; i < count; i++)
        sums[i] = vv_list_count(elastic->lists[i].region);
    int rc = vv_comm_sums(comm, sums, count, sums + count);
    if (rc)
        vv_error(error, rc, "the ranks could not add up their lists: %s", varve_error_text(rc));
    rc = vv_comm_agree(comm, rc, error);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        elastic->lists[i].end = sums[i];
        elastic->lists[i].total = sums[count + i];
    }
    return rc;
}

int vv_elastic_lists(struct vv_elastic *elastic, struct varve_error *error) {
    int rc = agree_on_names(elastic, find_lists(elastic, error), error);
    return rc || elastic->list_count == 0 ? rc : add_up_lists(elastic, error);
}
