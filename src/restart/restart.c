/* Restarting from one checkpoint: compare it with what is protected, read it (reading.c), and make it the history to go
 * on from. Which one: candidates.c. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "capture/device.h"
#include "format/attributes.h"
#include "restart/elastic_private.h"
#include "restart/reading.h"
#include "restart/unnamed.h"

/* ---- which regions ---- */

static int add_target(struct vv_restart *restart, const struct vv_recipe_region *stored, struct vv_region *region,
                      struct varve_error *error) {
    int may_differ = !region->device && (region->is_callback || (restart->options->flags & VARVE_RESTART_RESIZE));
    if (region->size != stored->length && vv_is_heap(stored->name))
        return vv_refuse_unnamed(restart->view, stored, region, error);
    if (region->size != stored->length && !may_differ)
        return vv_error(error, VARVE_MISMATCH,
                        "region %s of version %" PRIu64 ": %" PRIu64 " bytes are stored but %" PRIu64
                        " are protected; protect the stored size%s",
                        stored->name, vv_view_attempt(restart->view)->version, stored->length, region->size,
                        region->device ? " (regions of devices cannot be resized)"
                                       : ", or restart with varve_restart_alloc, or with"
                                         " varve_restart_regions and VARVE_RESTART_RESIZE");
    if (VV_GROW(restart->targets, restart->target_count, restart->target_capacity) != 0)
        return vv_error(error, -ENOMEM, "no memory to restart %zu regions", restart->target_count + 1);
    size_t slot = (size_t)(region - restart->context->memory->regions.list);
    restart->targets[restart->target_count++] =
        (struct vv_target){.number = stored->number, .stored_length = stored->length, .slot = slot};
    return 0;
}

static int is_target(const void *arg, size_t slot) {
    return ((const uint8_t *)arg)[slot];
}

/* Elements are put where they belong unless bytes are wanted as they are. */
static int may_be_elastic(const struct vv_restart *restart) {
    return !(restart->options->flags & VARVE_RESTART_RESIZE);
}

/* This rank has stored none of it, but others may have: then its elements are put where they belong. */
static int may_be_elsewhere(const struct vv_restart *restart, const struct vv_region *region) {
    int is_filled = region->size == 0 && (restart->options->flags & VARVE_RESTART_MISSING);
    return !is_filled && !region->is_callback && !region->device && !vv_is_heap(region->name);
}

static int look_elsewhere(const struct vv_restart *restart, const uint8_t *is_found, struct varve_error *error) {
    const struct vv_regions *regions = &restart->context->memory->regions;
    uint8_t *is_missing = vv_calloc(regions->count + 1, 1);
    const struct vv_missing missing = {regions, is_missing};
    if (!is_missing)
        return vv_error(error, -ENOMEM, "no memory to compare regions");
    for (size_t i = 0; i < regions->count; i++) {
        const struct vv_region *region = &regions->list[i];
        is_missing[i] = region->name && !is_found[i] && vv_is_asked(restart->options, region->name) &&
                        may_be_elsewhere(restart, region);
    }
    int rc = vv_elastic_may_have(restart->view, &missing) ? VV_OTHER_PARTS : 0;
    vv_free(is_missing);
    return rc;
}

static int refuse_missing(const struct vv_restart *restart, const struct vv_region *region, struct varve_error *error) {
    if (vv_is_heap(region->name))
        return vv_refuse_unnamed(restart->view, NULL, region, error);
    if (restart->options->flags & VARVE_RESTART_MISSING)
        return 0;
    return vv_error(error, VARVE_MISMATCH,
                    "region %s is protected but version %" PRIu64
                    " has none of this name: unprotect it, or restart with VARVE_RESTART_MISSING; nothing was restored",
                    region->name, vv_view_attempt(restart->view)->version);
}

static int check_missing(struct vv_restart *restart, struct varve_error *error) {
    struct vv_regions *regions = &restart->context->memory->regions;
    int rc = vv_check_asked(restart->options, regions, error);
    if (rc)
        return rc;
    uint8_t *is_found = vv_calloc(regions->count + 1, 1);
    if (!is_found)
        return vv_error(error, -ENOMEM, "no memory to compare regions");
    for (size_t i = 0; i < restart->target_count; i++)
        is_found[restart->targets[i].slot] = 1;
    if (may_be_elastic(restart) && !restart->options->is_allocating && vv_view_record(restart->view)->ranks > 1)
        rc = look_elsewhere(restart, is_found, error);
    for (size_t i = 0; i < regions->count && rc == 0; i++) {
        const struct vv_region *region = &regions->list[i];
        if (region->name && !is_found[i] && vv_is_asked(restart->options, region->name))
            rc = refuse_missing(restart, region, error);
    }
    if (rc == 0)
        rc = vv_regions_reachable(regions, is_target, is_found, error);
    vv_free(is_found);
    return rc;
}

/* Are both described as arrays, whose elements have places? */
static int are_arrays(const struct vv_recipe_region *stored, const struct vv_region *region) {
    return region->distribution == VARVE_BY_DIMS && !region->is_callback && !region->device && vv_is_array(region) &&
           stored->shape.dims > 0 && (stored->length > 0 || region->size > 0);
}

/* Is it another array: of another type, or other sizes in all? */
static int is_other_array(const struct vv_recipe_region *stored, const struct vv_region *region) {
    const struct vv_array *ours = region->array;
    int is_other = stored->shape.type != ours->type || stored->shape.dims != ours->dims;
    for (unsigned i = 0; i < ours->dims && !is_other; i++)
        is_other = stored->shape.dim[i].global != ours->dim[i].global;
    return is_other;
}

static int refuse_other_array(const struct vv_recipe_region *stored, const struct vv_region *region,
                              struct varve_error *error) {
    const struct vv_array *ours = region->array;
    unsigned i = 0;
    if (stored->shape.type != ours->type || stored->shape.dims != ours->dims)
        return vv_error(error, VARVE_MISMATCH,
                        "region %s: stored is a %u-dimensional array of type %s, protected a %u-dimensional one of %s; "
                        "to take its bytes as they are, restart with VARVE_RESTART_RESIZE",
                        stored->name, stored->shape.dims, vv_type_name(stored->shape.type), ours->dims,
                        vv_type_name(ours->type));
    while (i + 1 < ours->dims && stored->shape.dim[i].global == ours->dim[i].global)
        i++;
    return vv_error(error, VARVE_MISMATCH,
                    "region %s: dimension %u of the whole array has %" PRIu64
                    " elements in what is stored, and %" PRIu64
                    " in what is protected; to take its bytes as they are, restart with VARVE_RESTART_RESIZE",
                    stored->name, i, (uint64_t)stored->shape.dim[i].global, (uint64_t)ours->dim[i].global);
}

/* Is it another block of the same array than this rank has? */
static int is_other_block(const struct vv_recipe_region *stored, const struct vv_region *region) {
    const struct vv_array *ours = region->array;
    int is_other = 0;
    for (unsigned i = 0; i < ours->dims; i++)
        is_other |= stored->shape.dim[i].first != ours->dim[i].first ||
                    stored->shape.dim[i].local != ours->dim[i].local ||
                    stored->shape.dim[i].stride.block != ours->dim[i].stride.block ||
                    stored->shape.dim[i].stride.every != ours->dim[i].stride.every;
    return is_other;
}

/* Shall the program be asked for memory? Where size and place fit, there is some already. */
static int needs_memory(const struct vv_restart *restart, const struct vv_recipe_region *stored,
                        const struct vv_region *region) {
    if (!restart->options->is_allocating || vv_is_ours(stored->name))
        return 0;
    if (!region || region->is_ended || (!region->is_callback && region->size != stored->length))
        return 1;
    return are_arrays(stored, region) && (is_other_array(stored, region) || is_other_block(stored, region));
}

/* What the session will know of a stored region when it goes on from here. Its origins and ids come with its bytes. */
static int add_past(struct vv_restart *restart, const struct vv_recipe_region *stored, const struct vv_region *region,
                    struct varve_error *error) {
    struct vv_past *past = vv_history_add(&restart->history, stored->number, stored->name);
    int has_no_ids = region && vv_region_is_large(region);
    if (!past || (!has_no_ids && vv_past_reserve_ids(past, vv_granules(stored->length)) != 0))
        return vv_error(error, -ENOMEM, "no memory for the history of region %s", stored->name);
    past->is_new = 0;
    past->has_no_ids = has_no_ids;
    past->length = past->pending_length = stored->length;
    past->address = past->pending_address = stored->address;
    past->slot = past->pending_slot = vv_granules(stored->length) * VV_GRANULE;
    past->digest = past->pending_digest = stored->digest;
    past->distribution = past->pending_distribution = stored->shape.distribution;
    struct varve_array array;
    vv_array_of(&stored->shape, &array);
    if (array.type == VARVE_BYTES && array.dims == 0)
        return 0;
    past->array = vv_array_make(&array);
    return past->array ? 0 : vv_error(error, -ENOMEM, "no memory for the history of region %s", stored->name);
}

/* Does this rank want other elements than it has stored? */
static int wants_others(const struct vv_recipe_region *stored, const struct vv_region *region) {
    if (region->is_callback || region->device)
        return 0;
    return (are_arrays(stored, region) && is_other_block(stored, region)) ||
           (region->distribution == VARVE_JOINED && region->size != stored->length);
}

/* A program that was asked for memory, or has chosen regions, knows of those it leaves. Others may have a name wrong.
 */
static void note_unprotected(struct vv_restart *restart, const char *name, int is_declined) {
    vv_log(&restart->context->job->log, VV_LOG_INFO, "region %s is stored but not protected", name);
    if (is_declined || restart->options->regions)
        return;
    if (restart->unprotected_count++ == 0)
        snprintf(restart->unprotected, sizeof restart->unprotected, "%s", name);
}

static void tell_unprotected(const struct vv_restart *restart) {
    char more[48] = "";
    if (restart->unprotected_count == 0 || !vv_comm_is_root(restart->context->job->comm))
        return;
    if (restart->unprotected_count > 1)
        snprintf(more, sizeof more, " and %" PRIu64 " more", restart->unprotected_count - 1);
    vv_log(&restart->context->job->log, VV_LOG_WARN,
           "version %" PRIu64 " has region %s%s, not protected here: not restored, and not part of later checkpoints; "
           "protect what is needed before varve_restart",
           restart->version, restart->unprotected, more);
}

static int match_region(struct vv_restart *restart, const struct vv_recipe_region *stored, struct varve_error *error) {
    struct vv_regions *regions = &restart->context->memory->regions;
    struct vv_region *region = vv_regions_find(regions, stored->name);
    int is_declined = 0;
    if (needs_memory(restart, stored, region)) {
        struct varve_array array;
        vv_array_of(&stored->shape, &array);
        const struct vv_given_want want = {
            stored->name, stored->length, &array,
            (enum varve_distribution)(region ? region->distribution : stored->shape.distribution)};
        int rc = vv_given_take(&restart->given, restart->peers, &want, error);
        if (rc < 0)
            return rc;
        is_declined = rc == 0;
        region = vv_regions_find(regions, stored->name);
    }
    if (region && !restart->options->regions && vv_resize_unnamed(region, stored) != 0)
        return vv_error(error, -ENOMEM, "no memory for the %" PRIu64 " bytes of %s; nothing was restored",
                        stored->length, stored->name);
    if (!region && vv_is_heap(stored->name) && !restart->options->regions)
        return vv_refuse_unnamed(restart->view, stored, NULL, error);
    int is_read = region && vv_is_asked(restart->options, stored->name);
    int may_differ = restart->options->flags & VARVE_RESTART_RESIZE;
    if (is_read && !may_differ && are_arrays(stored, region) && is_other_array(stored, region))
        return refuse_other_array(stored, region, error);
    if (is_read && !may_differ && wants_others(stored, region))
        return vv_error(error, restart->options->is_allocating ? VARVE_MISMATCH : VV_OTHER_PARTS,
                        "region %s: this rank protects another block of it than it has stored, and wants no memory for "
                        "that",
                        stored->name);
    int rc = is_read ? add_target(restart, stored, region, error) : 0;
    if (rc == 0)
        rc = add_past(restart, stored, is_read ? region : NULL, error);
    if (!region && !vv_is_about(stored->name))
        note_unprotected(restart, stored->name, is_declined);
    return rc;
}

static int by_place(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)(*(struct vv_region *const *)a)->ptr, y = (uintptr_t)(*(struct vv_region *const *)b)->ptr;
    return (x > y) - (x < y);
}

/* The program may have given an allocation that has no name for a region: one of the two would be overwritten. */
static int check_places(struct vv_restart *restart, struct varve_error *error) {
    const struct vv_region **list = vv_malloc((restart->target_count + 1) * sizeof *list), *furthest = NULL;
    size_t count = 0;
    int rc = list ? 0 : vv_error(error, -ENOMEM, "no memory to compare regions");
    for (size_t i = 0; i < restart->target_count && rc == 0; i++) {
        const struct vv_region *region = &restart->context->memory->regions.list[restart->targets[i].slot];
        if (!region->is_callback && region->size > 0)
            list[count++] = region;
    }
    if (count > 1)
        qsort(list, count, sizeof *list, by_place);
    for (size_t i = 0; i < count && rc == 0; i++) {
        uintptr_t begin = (uintptr_t)list[i]->ptr, reached = furthest ? (uintptr_t)furthest->ptr + furthest->size : 0;
        if (begin < reached && (vv_is_heap(list[i]->name) || vv_is_heap(furthest->name)))
            rc = vv_error(error, VARVE_MISMATCH,
                          "%s and %s lie in the same memory, and both are stored; give other memory for the one that "
                          "has a name; nothing was restored",
                          furthest->name, list[i]->name);
        if (begin + list[i]->size > reached)
            furthest = list[i];
    }
    vv_free(list);
    return rc;
}

/* Before a byte is written: does what is stored fit what is protected? */
static int match_regions(struct vv_restart *restart, struct varve_error *error) {
    struct vv_recipe_region stored;
    int rc = vv_recipe_open(restart->view, restart->context->job->comm->rank, &restart->recipe, error);
    if (rc)
        return rc;
    while ((rc = vv_recipe_next_region(restart->recipe, &stored, error)) > 0) {
        rc = match_region(restart, &stored, error);
        if (rc)
            break;
    }
    if (rc == 0)
        vv_recipe_layers(restart->recipe, &restart->layers);
    if (rc == 0)
        rc = check_missing(restart, error);
    return rc || !restart->options->is_allocating ? rc : check_places(restart, error);
}

/* ---- who has it ---- */

/* Can the bytes of the region be looked up, at their own place or as a copy? VARVE_CORRUPT if not. Nothing is read. */
static int find_bytes(struct vv_restart *restart, struct vv_recipe *recipe, struct varve_error *error) {
    static uint8_t nowhere;
    struct vv_fetch *fetch = NULL;
    struct vv_run run;
    int more = 0, rc = vv_fetch_create(restart->view, NULL, &fetch);
    if (rc)
        return vv_error(error, -ENOMEM, "no memory to restart");
    while (rc == 0 && (more = vv_recipe_next_run(recipe, &run, error)) > 0) {
        if (run.kind == VV_RUN_ZERO)
            continue;
        rc = vv_fetch_add(fetch, &run, 0, run.length, &nowhere, 0, error);
        if (rc == 0 && vv_fetch_pending(fetch) > restart->context->job->settings.restart_window)
            rc = vv_fetch_find(fetch, error);
    }
    if (rc == 0 && more == 0)
        rc = vv_fetch_find(fetch, error);
    vv_fetch_destroy(fetch);
    return rc ? rc : more;
}

/* How much of a region is in packs of our own, and how much in those of others or of several. */
static int count_bytes(struct vv_restart *restart, struct vv_recipe *recipe, struct varve_error *error) {
    struct vv_run run;
    int rc;
    while ((rc = vv_recipe_next_run(recipe, &run, error)) > 0) {
        if (run.place_count == 0)
            continue;
        rc = vv_learn_shared_pack(&restart->spread, restart->view, restart->peers, run.places[0].dependency, error);
        if (rc < 0)
            return rc;
        int is_own = !restart->spread.is_shared_pack && run.places[0].owner == restart->context->job->comm->rank;
        *(is_own ? &restart->own_bytes : &restart->others_bytes) +=
            run.kind == VV_RUN_REPEATED ? run.piece : run.length;
    }
    return rc;
}

/* Regions whose bytes are nowhere. */
static int look_for_lost(struct vv_restart *restart, const struct vv_recipe_region *stored, struct vv_recipe *recipe,
                         struct vv_lost *lost, struct varve_error *error) {
    int rc = find_bytes(restart, recipe, error);
    if (rc == VARVE_CORRUPT) {
        vv_lost_add(lost, stored->name);
        rc = 0;
    }
    return rc;
}

/* Before a byte is written: if something is known to be missing, what is lost? And on shared storage, is anything of
 * this rank in packs of others, or in packs that several share? Node-local stores may need each other at any moment: a
 * block may turn out damaged. */
static int survey(struct vv_restart *restart, struct varve_error *error) {
    struct vv_job *job = restart->context->job;
    struct vv_recipe *recipe = restart->recipe;
    struct vv_recipe_region stored;
    struct vv_lost lost = {0};
    size_t next = 0;
    if (!vv_peers_can_ask(restart->peers) || (vv_is_local(job) && !restart->is_under_replicated))
        return 0;
    int rc = vv_recipe_rewind(recipe, error);
    if (rc)
        return rc;
    while ((rc = vv_recipe_next_region(recipe, &stored, error)) > 0) {
        if (next == restart->target_count || restart->targets[next].number != stored.number)
            continue;
        next++;
        rc = restart->is_under_replicated ? look_for_lost(restart, &stored, recipe, &lost, error)
                                          : count_bytes(restart, recipe, error);
        if (rc < 0)
            break;
    }
    /* Passing on costs time, too: it pays when less than half would be read without it. */
    restart->needs_others = restart->others_bytes > 0 && restart->others_bytes >= restart->own_bytes;
    if (rc >= 0 && lost.count)
        return vv_lost_report(job, &lost, job->comm->rank, restart->version, error);
    return rc < 0 ? rc : 0;
}

/* ---- going on from here ---- */

/* Remember where the granules are, so that data that moves is found again. */
static void fill_table(struct vv_history *history, const struct vv_past *past) {
    for (size_t i = 0; i < past->origins.count; i++) {
        const struct vv_origin *origin = &past->origins.list[i];
        if (origin->kind != VV_ORIGIN_FROM)
            continue;
        uint64_t end = origin->offset + origin->length;
        for (uint64_t at = (origin->offset + VV_GRANULE - 1) / VV_GRANULE * VV_GRANULE; at < end; at += VV_GRANULE) {
            uint64_t next = at + VV_GRANULE < past->length ? at + VV_GRANULE : past->length;
            struct vv_known known = {past->ids[at / VV_GRANULE], origin->source, origin->owner,
                                     origin->address + (at - origin->offset)};
            if (next <= end && !vv_hash128_is_zero(known.id))
                vv_table_put(&history->table, &known, history->is_alive);
        }
    }
}

static void renumber_regions(struct vv_restart *restart) {
    struct vv_regions *regions = &restart->context->memory->regions;
    regions->next_number = restart->layers.next_number;
    size_t next = 0;
    for (size_t i = 0; i < regions->count; i++)
        regions->list[i].number = UINT64_MAX;
    for (next = 0; next < restart->target_count; next++) {
        const struct vv_target *target = &restart->targets[next];
        struct vv_region *region = &regions->list[target->slot];
        if (region->is_callback || region->size == target->stored_length)
            region->number = target->number;
    }
    for (size_t i = 0; i < regions->count; i++)
        if (regions->list[i].number == UINT64_MAX)
            regions->list[i].number = regions->next_number++;
}

/* What cannot be told counts as full. */
static void find_waste(struct vv_restart *restart, const uint64_t *live) {
    struct vv_history *history = &restart->history;
    for (uint32_t i = 0; i < history->source_count; i++) {
        struct varve_error ignored = {0};
        uint64_t stored = 0;
        if (live[i] > 0)
            (void)vv_view_stored(restart->view, i, restart->context->job->comm->rank, &stored, &ignored);
        history->sources[i].live_bytes = live[i];
        history->sources[i].raw_bytes = stored;
    }
    vv_history_own(history, restart->context->job->comm->rank);
}

/* Of regions that are too large for ids in memory, those that were read. */
static int was_read(void *arg, uint64_t number, uint64_t offset) {
    const struct vv_past *past = vv_history_find(arg, number);
    (void)offset; /* they are read whole */
    return past && past->has_no_ids;
}

int vv_restart_remember(struct vv_restart *restart, struct varve_error *error) {
    struct vv_history *history = &restart->history;
    const struct vv_record *record = vv_view_record(restart->view);
    uint64_t share = record->protected_bytes / record->ranks;
    vv_table_resize(&history->table, vv_candidate_capacity(restart->context, share)); /* may fail: then it finds less */
    int has_any_without_ids = 0;
    for (size_t i = 0; i < history->count; i++) {
        has_any_without_ids |= history->list[i].has_no_ids;
        if (!history->list[i].has_no_ids)
            fill_table(history, &history->list[i]);
    }
    struct varve_error ignored = {0};
    if (has_any_without_ids &&
        vv_candidate_learn(restart->context, restart->view, was_read, history, history, &ignored) != 0)
        vv_log(&restart->context->job->log, VV_LOG_INFO,
               "some ids could not be read, what has them may be stored again: %s", ignored.text);
    uint64_t *live = vv_calloc(history->source_count, sizeof *live);
    if (!live)
        return vv_error(error, -ENOMEM, "no memory to restart");
    vv_history_live(history, live);
    find_waste(restart, live);
    vv_free(live);
    history->layout_end = restart->layers.layout_bytes;
    return 0;
}

/* All ranks have it in memory: from now on it is what we go on from. */
static void go_on(struct vv_restart *restart) {
    renumber_regions(restart);
    vv_candidate_take(restart->context, restart->view, &restart->history, &restart->layers);
}

/* ---- one candidate ---- */

/* Everything that can be compared before a byte is written. */
static int compare_stored(void *arg, struct vv_store *store, struct varve_error *error) {
    struct vv_restart *restart = arg;
    struct vv_job *job = restart->context->job;
    int rc = vv_candidate_open(job, store, restart->generation, restart->version, &restart->view, error);
    if (rc == VARVE_MISMATCH && may_be_elastic(restart))
        return VV_OTHER_PARTS;
    if (rc == 0)
        rc = match_regions(restart, error);
    if (rc == 0)
        rc = survey(restart, error);
    if (rc == 0)
        rc = vv_candidate_sources(restart->view, &restart->history, error);
    if (rc == 0)
        rc = vv_restart_threads(restart, error);
    restart->recipe_at = UINT64_MAX; /* it was read through */
    return rc;
}

static int read_checked(void *arg, struct vv_store *store, struct varve_error *error) {
    struct vv_restart *restart = arg;
    (void)store;
    vv_read_ahead(restart);
    restart->now_to = restart->target_count;
    for (size_t i = 0; i < restart->target_count; i++)
        restart->targets[i].is_now = 1;
    int rc = vv_read_targets(restart, error);
    return rc ? rc : vv_restart_remember(restart, error);
}

static int need_others(struct vv_restart *restart, int rc, struct varve_error *error) {
    const struct vv_peers_needs needs = {.is_needed = restart->needs_others,
                                         .shared = restart->others_bytes,
                                         .bytes = restart->own_bytes + restart->others_bytes,
                                         .block_size = (uint32_t)restart->context->job->settings.block_size};
    return vv_peers_need(restart->peers, rc, &needs, error);
}

int vv_restart_prepare(struct vv_restart *restart, struct varve_error *error) {
    struct vv_job *job = restart->context->job;
    uint32_t generation = restart->generation;
    struct vv_made_by *named = &restart->named;
    *named = (struct vv_made_by){.may = may_be_elastic(restart), .is_asking = restart->options->is_allocating};
    int rc = vv_candidate_peers(restart->context, generation, restart->version, &restart->peers,
                                &restart->is_under_replicated, error);
    rc = vv_candidate_name(job, rc, generation, restart->version, named, error);
    vv_unwatch_regions(restart->context->memory); /* guarded memory may be read-only until then */
    if (rc)
        return rc;
    if (named->may && named->ranks != job->comm->ranks && named->ranks != UINT64_MAX)
        return VV_OTHER_PARTS;
    rc = vv_peers_work(restart->peers, compare_stored, restart, error);
    rc = need_others(restart, rc, error);
    if (rc)
        return rc;
    restart->context->memory->is_overwritten = 1;
    vv_unwatch_regions(restart->context->memory); /* also what the program has allocated meanwhile: we write it now */
    vv_devices_settle(&restart->context->memory->regions, job->lineage.is_settled_well);
    return 0;
}

int vv_restart_take(struct vv_restart *restart, int rc, struct varve_error *error) {
    rc = vv_candidate_begin(restart->context, rc, restart->view, restart->is_under_replicated, error);
    if (rc == 0) {
        go_on(restart);
        tell_unprotected(restart);
    }
    return rc;
}

void vv_restart_clear(struct vv_restart *restart, int rc) {
    vv_fetch_destroy(restart->fetch);
    vv_pool_destroy(restart->pool);
    vv_pool_destroy(restart->backer);
    vv_buf_clear(&restart->backing);
    vv_history_clear(&restart->history);
    vv_recipe_close(restart->recipe);
    vv_view_close(restart->view);
    vv_peers_close(restart->peers);
    vv_free(restart->targets);
    vv_given_end(&restart->given, rc == 0);
    if (rc && rc != VV_OTHER_PARTS)
        vv_candidate_leave(restart->context->job);
}

int vv_restart_elsewhere(struct vv_restart *restart, struct vv_elastic *elastic, struct varve_error *error) {
    *elastic =
        (struct vv_elastic){.context = restart->context,
                            .options = restart->options,
                            .generation = restart->generation,
                            .version = restart->version,
                            .peers = restart->peers,
                            .is_under_replicated = restart->is_under_replicated,
                            .is_asking = restart->named.is_asking,
                            .given = {.regions = &restart->context->memory->regions, .options = restart->options}};
    restart->peers = NULL; /* nobody has said yet what it needs: they serve once more */
    vv_restart_clear(restart, VV_OTHER_PARTS);
    vv_error_clear(error);
    if (!restart->named.may)
        return vv_comm_all_say(error, VARVE_MISMATCH,
                               "this job has other ranks or blocks than the checkpoint: elements are put where they "
                               "belong, and VARVE_RESTART_RESIZE has no meaning then");
    return vv_elastic_prepare(elastic, error);
}

/* A rank has found other parts than it has stored. */
static int read_elsewhere(struct vv_restart *restart, struct varve_error *error) {
    struct vv_elastic elastic;
    int rc = vv_restart_elsewhere(restart, &elastic, error);
    if (rc == 0) {
        rc = vv_elastic_read(&elastic, error);
        rc = vv_elastic_take(&elastic, rc, error);
    }
    vv_elastic_clear(&elastic, rc);
    return rc;
}

int vv_try_restart(struct vv_restart_context *context, const void *arg, uint32_t generation, uint64_t version,
                   struct varve_error *error) {
    struct vv_restart restart = {.context = context,
                                 .options = arg,
                                 .generation = generation,
                                 .version = version,
                                 .given = {.regions = &context->memory->regions, .options = arg}};
    int rc = vv_restart_prepare(&restart, error);
    if (rc == VV_OTHER_PARTS)
        return read_elsewhere(&restart, error);
    if (rc == 0) {
        rc = vv_peers_work(restart.peers, read_checked, &restart, error);
        rc = vv_restart_take(&restart, rc, error);
    }
    vv_restart_clear(&restart, rc);
    return rc;
}
