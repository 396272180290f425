/* Restarting with other parts than were stored: on another number of ranks, or with other blocks of the arrays.
 *
 * Each rank says which elements it wants, by their place in the global array. First all stored parts are compared with
 * that, and nothing is written: every wanted element must be there, once. Then the common elements are read. Blocks are
 * checked as ever, and so are the digests of regions that are read whole.
 *
 * The history that comes of it knows attempts and ids, but no regions, as after varve_continue: see resume.c. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "arrays/scatter.h"
#include "base/alloc.h"
#include "capture/device.h"
#include "format/attributes.h"
#include "memory/pages.h"
#include "read/region_reader.h"
#include "restart/elastic_private.h"

#define SPARE (1u << 20) /* bytes that a rank may read in vain, rather than ask others */

/* ---- reading ---- */

/* Allocations without a name belong to one rank and its way through the program. */
static int refuse_heap(struct vv_view *view, struct varve_error *error) {
    struct vv_recipe *recipe = NULL;
    struct vv_recipe_region region;
    int rc = vv_region_find(view, 0, VV_HEAP_ADDRESSES, &recipe, &region, error);
    vv_recipe_close(recipe);
    if (rc == 0)
        return vv_error(error, VARVE_MISMATCH,
                        "allocations without a name are stored (setting heap): they come back only on as many ranks, "
                        "with the same blocks of all arrays");
    if (rc != VARVE_MISMATCH)
        return rc;
    vv_error_clear(error);
    return 0;
}

/* Inside the work of the peers. Until here nothing was written. */
static int compare_parts(void *arg, struct vv_store *store, struct varve_error *error) {
    struct vv_elastic *elastic = arg;
    int rc = vv_elastic_open(elastic, store, error);
    if (rc == 0)
        rc = refuse_heap(elastic->view, error);
    if (rc == 0)
        rc = vv_elastic_match(elastic, error);
    if (rc == 0)
        rc = vv_candidate_sources(elastic->view, &elastic->history, error);
    return rc ? vv_error_default(error, rc, "%s", varve_error_text(rc)) : 0;
}

static int read_part(struct vv_elastic *elastic, struct vv_scatter *scatter, struct vv_recipe *recipe,
                     const struct vv_stored_part *part, struct varve_error *error) {
    const struct vv_wanted *wanted = &elastic->wanted[part->wanted];
    struct vv_overlap overlap;
    (void)vv_overlap_begin(&overlap, &part->part, &wanted->part);
    int rc = vv_scatter_region(scatter, recipe, &overlap, wanted->region->ptr, part->sharing, error);
    return rc ? vv_error_in_region(error, rc, wanted->region->name) : 0;
}

/* The parts of one owner, which are parts[from] to parts[to - 1]. */
static int read_owner(struct vv_elastic *elastic, struct vv_scatter *scatter, size_t from, size_t to,
                      struct varve_error *error) {
    struct vv_recipe *recipe = NULL;
    struct vv_recipe_region stored;
    int rc = vv_recipe_open(elastic->view, elastic->parts[from].owner, &recipe, error);
    while (rc == 0 && from < to && (rc = vv_recipe_next_region(recipe, &stored, error)) > 0) {
        rc = 0;
        if (stored.number == elastic->parts[from].number)
            rc = read_part(elastic, scatter, recipe, &elastic->parts[from++], error);
    }
    if (rc == 0 && from < to)
        rc = vv_error(error, VARVE_CORRUPT, "the manifest of rank %u has fewer regions than before",
                      elastic->parts[from].owner);
    vv_recipe_close(recipe);
    return rc;
}

/* What this rank has read of one owner: the parts that are still to come, and the stretch of the first of them. */
struct touched {
    const struct vv_elastic *elastic;
    size_t part, end;
    int has_begun, has_stretch;
    struct vv_overlap overlap;
    struct vv_stretch stretch;
};

/* Of which regions and offsets it is asked ascends; whatever comes later than it should counts as not read. */
static int was_read(void *arg, uint64_t number, uint64_t offset) {
    struct touched *touched = arg;
    const struct vv_stored_part *parts = touched->elastic->parts;
    while (touched->part < touched->end && parts[touched->part].number < number) {
        touched->part++;
        touched->has_begun = 0;
    }
    if (touched->part == touched->end || parts[touched->part].number != number)
        return 0;
    const struct vv_stored_part *part = &parts[touched->part];
    if (!touched->has_begun) {
        touched->has_begun = 1;
        touched->has_stretch =
            vv_overlap_begin(&touched->overlap, &part->part, &touched->elastic->wanted[part->wanted].part) &&
            vv_overlap_next(&touched->overlap, &touched->stretch);
    }
    while (touched->has_stretch && touched->stretch.from + touched->stretch.length <= offset)
        touched->has_stretch = vv_overlap_next(&touched->overlap, &touched->stretch);
    return touched->has_stretch && touched->stretch.from < offset + VV_GRANULE;
}

/* The ids of what this rank has read, as far as the table reaches; without them more is stored again. A granule of
 * which it has read some bytes was checked as a whole. Others may be damaged: a checkpoint that referred to them would
 * not come back. */
static void learn_ids(struct vv_elastic *elastic) {
    const struct vv_record *record = vv_view_record(elastic->view);
    struct vv_job *job = elastic->context->job;
    struct varve_error why = {0};
    uint32_t most = 2 * (record->ranks / job->comm->ranks + 1), count = 0;
    vv_table_resize(&elastic->history.table,
                    vv_candidate_capacity(elastic->context, record->protected_bytes / job->comm->ranks));
    for (size_t i = 0; i < elastic->part_count && count < most; i++) {
        if (i > 0 && elastic->parts[i].owner == elastic->parts[i - 1].owner)
            continue;
        count++;
        struct touched touched = {.elastic = elastic, .part = i, .end = i + 1};
        while (touched.end < elastic->part_count && elastic->parts[touched.end].owner == elastic->parts[i].owner)
            touched.end++;
        if (vv_candidate_learn_of(elastic->view, elastic->parts[i].owner, was_read, &touched, &elastic->history, &why) <
            0)
            vv_log(&job->log, VV_LOG_INFO, "some ids could not be read, what has them may be stored again: %s",
                   why.text);
    }
}

static int check_digests(const struct vv_elastic *elastic, struct varve_error *error) {
    for (size_t i = 0; i < elastic->part_count; i++) {
        const struct vv_stored_part *part = &elastic->parts[i];
        const struct vv_region *region = elastic->wanted[part->wanted].region;
        if (!part->is_whole)
            continue;
        struct vv_hash128 digest =
            vv_ids_take(elastic->context->job->store->settings.seed, 0, region->ptr, region->size, NULL);
        if (!vv_hash128_equal(digest, part->digest))
            return vv_error(error, VARVE_CORRUPT,
                            "region %s: the restored bytes do not have the digest that rank %u has stored",
                            region->name, part->owner);
    }
    return 0;
}

static int read_parts(void *arg, struct vv_store *store, struct varve_error *error) {
    struct vv_elastic *elastic = arg;
    struct vv_scatter *scatter = NULL;
    const struct vv_settings *settings = &elastic->context->job->settings;
    const struct vv_scatter_options options = {
        .threads = (unsigned)settings->threads * 2, .window = settings->restart_window, .zero = vv_pages_zero};
    (void)store;
    int rc = vv_scatter_create(elastic->view, &options, &scatter, error);
    for (size_t from = 0, to; rc == 0 && from < elastic->part_count; from = to) {
        for (to = from + 1; to < elastic->part_count && elastic->parts[to].owner == elastic->parts[from].owner;)
            to++;
        rc = read_owner(elastic, scatter, from, to, error);
    }
    if (rc == 0)
        rc = vv_scatter_run(scatter, error);
    vv_scatter_destroy(scatter);
    vv_peers_rest(elastic->peers);
    if (rc == 0)
        rc = check_digests(elastic, error);
    if (rc == 0)
        learn_ids(elastic);
    return rc ? vv_error_default(error, rc, "%s", varve_error_text(rc)) : 0;
}

/* Blocks of arrays, of some ranks. */
struct totals {
    uint64_t ranks, wanted;           /* how many ranks, and bytes that they want */
    uint64_t least_stored, all_other; /* bytes that are stored: the least, and the least of the complement */
};

static int give_totals(void *arg, struct vv_buf *out) {
    vv_buf_append(out, arg, sizeof(struct totals));
    return out->failed;
}

static int take_totals(void *arg, const void *data, size_t size) {
    struct totals *sum = arg, more;
    if (size != sizeof more)
        return VARVE_DISAGREED;
    memcpy(&more, data, size);
    sum->ranks += more.ranks;
    sum->wanted += more.wanted;
    sum->least_stored = more.least_stored < sum->least_stored ? more.least_stored : sum->least_stored;
    sum->all_other = more.all_other < sum->all_other ? more.all_other : sum->all_other;
    return 0;
}

/* Of the arrays that this rank protects; what is there several times counts once. */
static uint64_t stored_bytes(const struct vv_elastic *elastic) {
    uint64_t sum = 0;
    for (size_t i = 0; i < elastic->wanted_count; i++) {
        const struct vv_wanted *wanted = &elastic->wanted[i];
        if (!wanted->region || wanted->how != VARVE_BY_DIMS)
            continue;
        uint64_t whole = 1;
        for (unsigned j = 0; j < wanted->part.dims; j++)
            whole *= wanted->region->array->dim[j].global;
        sum += (wanted->stored < whole ? wanted->stored : whole) * wanted->part.element;
    }
    return sum;
}

/* Do the blocks of all ranks make the arrays that are stored? Fewer or more are let through, as ranks may leave
 * elements out or have some twice; but nobody shall find that out later. Told where all ranks protect the same arrays.
 * A rank that cannot add up costs the warning, and nothing else. Collective. */
static void compare_totals(struct vv_elastic *elastic) {
    struct vv_job *job = elastic->context->job;
    uint64_t of_arrays = stored_bytes(elastic);
    struct totals all = {1, elastic->wanted_blocks, of_arrays, ~of_arrays};
    const struct vv_merging merging = {take_totals, give_totals, &all};
    int rc = vv_comm_merge(job->comm, &merging);
    uint64_t stored = all.least_stored;
    if (rc || !vv_comm_is_root(job->comm) || all.ranks != job->comm->ranks || stored != ~all.all_other)
        return;
    if (all.wanted < stored)
        vv_log(&job->log, VV_LOG_WARN,
               "%" PRIu64 " bytes of arrays are stored that no rank protects now: later checkpoints are without them",
               stored - all.wanted);
    if (all.wanted > stored)
        vv_log(&job->log, VV_LOG_WARN,
               "some elements of arrays are protected by several ranks: if these are not whole blocks with the same "
               "bytes, checkpoints with these ranks come back only on as many");
}

/* Each rank has compared, or has failed with rc: the ranks agree, and say what they need of each other. */
static int need_others(struct vv_elastic *elastic, int rc, struct varve_error *error) {
    /* A round costs each rank a hundred messages where there are thousands: it must save some bytes. */
    const struct vv_peers_needs needs = {.is_needed = elastic->reach > elastic->bytes + elastic->bytes / 10 + SPARE,
                                         .shared = elastic->bytes,
                                         .bytes = elastic->bytes * VV_LENT_MORE,
                                         .block_size = (uint32_t)elastic->context->job->settings.block_size};
    return vv_peers_need(elastic->peers, rc, &needs, error);
}

int vv_elastic_prepare(struct vv_elastic *elastic, struct varve_error *error) {
    int rc = vv_elastic_ask(elastic, error);
    if (rc == 0)
        rc = vv_elastic_lists(elastic, error);
    if (rc == 0) {
        rc = vv_peers_work(elastic->peers, compare_parts, elastic, error);
        rc = need_others(elastic, rc, error);
    }
    if (rc == 0)
        compare_totals(elastic);
    return rc;
}

int vv_elastic_read(struct vv_elastic *elastic, struct varve_error *error) {
    struct vv_restart_context *context = elastic->context;
    context->memory->is_overwritten = 1;
    vv_unwatch_regions(context->memory);
    vv_devices_settle(&context->memory->regions, context->job->lineage.is_settled_well);
    return vv_peers_work(elastic->peers, read_parts, elastic, error);
}

int vv_elastic_take(struct vv_elastic *elastic, int rc, struct varve_error *error) {
    struct vv_restart_context *context = elastic->context;
    rc = vv_candidate_begin(context, rc, elastic->view, elastic->is_under_replicated, error);
    if (rc)
        return rc;
    vv_candidate_take(context, elastic->view, &elastic->history, NULL);
    vv_regions_renumber(&context->memory->regions);
    return 0;
}

/* What was said when it was stored stays so once that has come back. */
static void end_heeding(struct vv_regions *regions, int is_kept) {
    for (size_t i = 0; i < regions->count; i++) {
        struct vv_region *region = &regions->list[i];
        if (region->is_heeded && !is_kept)
            region->distribution = VARVE_BY_DIMS;
        region->is_heeded = 0;
    }
}

void vv_elastic_clear(struct vv_elastic *elastic, int rc) {
    vv_history_clear(&elastic->history);
    vv_view_close(elastic->view);
    vv_peers_close(elastic->peers);
    vv_free(elastic->lists);
    vv_free(elastic->list_sums);
    vv_free(elastic->wanted);
    vv_free(elastic->owners);
    vv_free(elastic->parts);
    vv_free(elastic->protected_bytes);
    vv_names_clear(&elastic->names);
    end_heeding(&elastic->context->memory->regions, rc == 0);
    vv_given_end(&elastic->given, rc == 0);
    if (rc)
        vv_candidate_leave(elastic->context->job);
}
