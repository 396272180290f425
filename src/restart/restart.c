/* Restarting from one checkpoint: compare it with what is protected, read it, and make it the history to go on from.
 * Which one: candidates.c. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/content_id.h"
#include "base/fault.h"
#include "capture/device.h"
#include "read/region_reader.h"
#include "restart/given.h"
#include "restart/restart_private.h"
#include "restart/shared_packs.h"

#define BACK_MIN (64u << 10) /* smaller pieces of memory get their pages one by one */
#define CALLBACK_WINDOW (16u << 20)
#define ASKERS 8u /* threads that wait for other ranks */

/* A region that is both stored and wanted. */
struct target {
    uint64_t number;
    uint64_t stored_length;
    size_t slot; /* in the session's regions */
    /* while it is read: */
    uint64_t seed;
    const uint8_t *base;
    struct vv_hash128 *ids;
};

/* Memory that will be filled. */
struct piece {
    uint8_t *from, *to;
};

struct restart {
    struct vv_restart_context *context;
    const struct vv_restart_options *options;
    struct vv_peers *peers;
    uint32_t generation; /* the candidate */
    uint64_t version;
    int is_under_replicated; /* something is there fewer times than it should be */
    struct vv_shared_note spread;
    uint64_t own_bytes, others_bytes; /* of this rank's part, in its own packs and in those of others or of several */
    int needs_others;                 /* blocks shall be read once and passed on */
    struct vv_view *view;
    struct vv_recipe *recipe; /* of this rank; read several times */
    struct vv_fetch *fetch;
    uint32_t first_source, last_source; /* whose bytes are read in this pass: see make_room */
    struct vv_pool *pool;               /* reads and hashes */
    struct vv_pool *backer;             /* one thread that goes ahead and puts pages behind the memory; or NULL */
    struct vv_buf backing;              /* struct piece, of the batch that is being collected */
    struct vv_history history;          /* becomes the session's when all is well */
    struct vv_recipe_layers layers;
    struct target *targets;
    size_t target_count, target_capacity;
    struct vv_given given;
};

/* ---- which regions ---- */

static int is_wanted(const struct vv_restart_options *options, const char *name) {
    if (!options->regions)
        return 1;
    for (size_t i = 0; i < options->region_count; i++)
        if (strcmp(options->regions[i], name) == 0)
            return 1;
    return 0;
}

static int add_target(struct restart *restart, const struct vv_recipe_region *stored, struct vv_region *region,
                      struct varve_error *error) {
    int may_differ = !region->device && (region->is_callback || (restart->options->flags & VARVE_RESTART_RESIZE));
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
        (struct target){.number = stored->number, .stored_length = stored->length, .slot = slot};
    return 0;
}

static int is_target(const void *arg, size_t slot) {
    return ((const uint8_t *)arg)[slot];
}

static int check_missing(struct restart *restart, struct varve_error *error) {
    struct vv_regions *regions = &restart->context->memory->regions;
    for (size_t i = 0; i < restart->options->region_count; i++)
        if (!vv_regions_find(regions, restart->options->regions[i]))
            return vv_error(error, VARVE_MISMATCH, "region %s is asked for but not protected",
                            restart->options->regions[i]);
    uint8_t *is_found = vv_calloc(regions->count + 1, 1);
    if (!is_found)
        return vv_error(error, -ENOMEM, "no memory to compare regions");
    for (size_t i = 0; i < restart->target_count; i++)
        is_found[restart->targets[i].slot] = 1;
    int rc = 0, may_miss = (restart->options->flags & VARVE_RESTART_MISSING) != 0;
    for (size_t i = 0; i < regions->count && rc == 0 && !may_miss; i++)
        if (regions->list[i].name && !is_found[i] && is_wanted(restart->options, regions->list[i].name))
            rc = vv_error(
                error, VARVE_MISMATCH,
                "region %s is protected but version %" PRIu64
                " has none of this name: unprotect it, or restart with VARVE_RESTART_MISSING; nothing was restored",
                regions->list[i].name, vv_view_attempt(restart->view)->version);
    if (rc == 0)
        rc = vv_regions_reachable(regions, is_target, is_found, error);
    vv_free(is_found);
    return rc;
}

/* Shall the program be asked for memory? Where the size fits, there is some already. */
static int needs_memory(const struct restart *restart, const struct vv_recipe_region *stored,
                        const struct vv_region *region) {
    if (!restart->options->is_allocating)
        return 0;
    return !region || (!region->is_callback && region->size != stored->length);
}

static int match_region(struct restart *restart, const struct vv_recipe_region *stored, struct varve_error *error) {
    struct vv_regions *regions = &restart->context->memory->regions;
    struct vv_region *region = vv_regions_find(regions, stored->name);
    if (needs_memory(restart, stored, region)) {
        int rc = vv_given_take(&restart->given, restart->peers, stored, error);
        if (rc < 0)
            return rc;
        region = vv_regions_find(regions, stored->name);
    }
    if (region)
        return is_wanted(restart->options, stored->name) ? add_target(restart, stored, region, error) : 0;
    vv_log(&restart->context->job->log, VV_LOG_INFO, "region %s is stored but not protected", stored->name);
    return 0;
}

/* Before a byte is written: does what is stored fit what is protected? */
static int match_regions(struct restart *restart, struct varve_error *error) {
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
    return rc ? rc : check_missing(restart, error);
}

/* ---- who has it ---- */

/* Can the bytes of the region be looked up, at their own place or as a copy? VARVE_CORRUPT if not. Nothing is read. */
static int find_bytes(struct restart *restart, struct vv_recipe *recipe, struct varve_error *error) {
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
static int count_bytes(struct restart *restart, struct vv_recipe *recipe, struct varve_error *error) {
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
static int look_for_lost(struct restart *restart, const struct vv_recipe_region *stored, struct vv_recipe *recipe,
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
static int survey(struct restart *restart, struct varve_error *error) {
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
        return vv_lost_report(job, &lost, restart->version, error);
    return rc < 0 ? rc : 0;
}

/* ---- reading ---- */

/* More threads than for saving: while some wait for the storage, others check and copy. Answers of other ranks come in
 * rounds: the more is asked at once, the fewer there are. */
static int start_threads(struct restart *restart, struct varve_error *error) {
    unsigned threads = (unsigned)restart->context->job->settings.threads, readers = threads * 2;
    if (threads > 0 && restart->needs_others && readers < ASKERS)
        readers = ASKERS;
    int rc = vv_pool_create(readers, readers + 2, NULL, &restart->pool);
    if (rc)
        return vv_error(error, rc, "the threads of a restart could not be started: %s", varve_error_text(rc));
    if (threads > 0)
        vv_pool_create(1, 1, NULL, &restart->backer); /* without it everything works, slower */
    return 0;
}

static void note_memory(struct restart *restart, uint8_t *from, uint64_t size) {
    struct piece piece = {from, from + size};
    size_t count = restart->backing.size / sizeof piece;
    struct piece *last = count ? (struct piece *)restart->backing.data + count - 1 : NULL;
    if (!restart->backer)
        return;
    if (last && last->to == from)
        last->to = piece.to;
    else
        vv_buf_append(&restart->backing, &piece, sizeof piece);
}

static int back_memory(void *arg) {
    const struct vv_buf *backing = arg;
    const struct piece *pieces = (const struct piece *)backing->data;
    for (size_t i = 0; i < backing->size / sizeof *pieces; i++)
        if (pieces[i].to - pieces[i].from >= BACK_MIN)
            vv_pages_back(pieces[i].from, (uint64_t)(pieces[i].to - pieces[i].from));
    return 0;
}

static int run_batch(struct restart *restart, struct varve_error *error) {
    if (restart->backer)
        vv_pool_submit(restart->backer, back_memory, &restart->backing);
    int rc = vv_fetch_run(restart->fetch, error);
    if (restart->backer)
        vv_pool_wait(restart->backer);
    restart->backing.size = 0;
    const struct target *target = rc == VARVE_CORRUPT ? vv_fetch_failed(restart->fetch) : NULL;
    return target ? vv_error_in_region(error, rc, restart->context->memory->regions.list[target->slot].name) : rc;
}

/* Bytes have arrived: name the granules that are whole among them. Those in several pieces are left to the check. */
static void name_granules(void *tag, const void *data, size_t size) {
    const struct target *target = tag;
    uint64_t from = (uint64_t)((const uint8_t *)data - target->base), to = from + size;
    for (uint64_t at = (from + VV_GRANULE - 1) / VV_GRANULE * VV_GRANULE; at < to; at += VV_GRANULE) {
        uint64_t end = at + VV_GRANULE < target->stored_length ? at + VV_GRANULE : target->stored_length;
        if (end <= to && !vv_is_zero(target->base + at, end - at))
            target->ids[at / VV_GRANULE] = vv_id(target->seed, target->base + at, end - at);
    }
}

/* What is wanted takes more memory to keep book of than it may. Its blocks shall be read once however its runs are
 * scattered: so not the region is cut, but the sources are, and the others are left to another pass over the manifest.
 * Only what comes from a single source is read in pieces of the region, and blocks that reach from one piece into the
 * next are then read again. */
static int postpone_sources(struct restart *restart, struct varve_error *error) {
    uint32_t last = 0;
    int rc = vv_fetch_postpone(restart->fetch, &last, error);
    if (rc > 0)
        restart->last_source = last;
    return rc ? (rc < 0 ? rc : 0) : run_batch(restart, error);
}

static int want_run(struct restart *restart, const struct vv_run *run, struct vv_region *region,
                    struct varve_error *error) {
    uint32_t source = run->places[0].dependency;
    if (source < restart->first_source || source > restart->last_source)
        return 0;
    uint64_t size = region->size - run->offset < run->length ? region->size - run->offset : run->length;
    int rc = vv_fetch_add(restart->fetch, run, 0, size, (uint8_t *)region->ptr + run->offset, 0, error);
    if (rc == 0 && vv_fetch_pending(restart->fetch) > restart->context->job->settings.restart_window)
        rc = postpone_sources(restart, error);
    return rc;
}

static int fail_zero(const struct vv_recipe_region *stored, struct varve_error *error) {
    return vv_error(error, -EFAULT,
                    "region %s: a page of it cannot be written: a guard page, or memory that has failed", stored->name);
}

static int read_memory(struct restart *restart, struct vv_recipe *recipe, const struct vv_recipe_region *stored,
                       struct vv_region *region, struct vv_past *past, struct varve_error *error) {
    struct vv_run run;
    uint8_t *base = region->ptr;
    int rc;
    while ((rc = vv_recipe_next_run(recipe, &run, error)) > 0) {
        struct vv_origin origin = vv_origin_of(&run);
        if (vv_origins_add(&past->origins, &origin) != 0)
            return vv_error(error, -ENOMEM, "no memory for the runs of region %s", stored->name);
        if (run.offset >= region->size)
            continue;
        uint64_t size = region->size - run.offset < run.length ? region->size - run.offset : run.length;
        if (run.kind == VV_RUN_ZERO) {
            if (vv_pages_zero(base + run.offset, size) != 0)
                return fail_zero(stored, error);
            continue;
        }
        note_memory(restart, base + run.offset, size);
        rc = want_run(restart, &run, region, error);
        if (rc)
            return rc;
    }
    if (rc == 0 && region->size > stored->length &&
        vv_pages_zero(base + stored->length, region->size - stored->length) != 0)
        return fail_zero(stored, error);
    return rc;
}

/* Bytes for a callback of the program, which is called by the program's own thread. */
struct delivery {
    struct vv_peers *peers;
    struct vv_region *region;
    uint64_t offset, total;
    const void *data;
    size_t size;
};

static int deliver(void *arg) {
    const struct delivery *delivery = arg;
    const struct vv_region *region = delivery->region;
    return region->callbacks.load(region->arg, delivery->offset, delivery->data, delivery->size, delivery->total);
}

static int load_bytes(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    struct delivery *delivery = arg;
    delivery->offset = offset;
    delivery->data = data;
    delivery->size = size;
    delivery->total = total;
    return vv_peers_call(delivery->peers, deliver, delivery);
}

static int note_run(void *arg, const struct vv_run *run) {
    struct vv_origin origin = vv_origin_of(run);
    return vv_origins_add(arg, &origin);
}

static int read_region(struct restart *restart, struct vv_recipe *recipe, const struct vv_recipe_region *stored,
                       struct target *target, struct varve_error *error) {
    uint64_t seed = restart->context->job->store->settings.seed;
    struct vv_region *region = target ? &restart->context->memory->regions.list[target->slot] : NULL;
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
    struct varve_array array;
    vv_array_of(&stored->shape, &array);
    if (array.type != VARVE_BYTES || array.dims > 0) {
        past->array = vv_array_make(&array);
        if (!past->array)
            return vv_error(error, -ENOMEM, "no memory for the history of region %s", stored->name);
    }
    if (!region)
        return 0;
    target->seed = seed;
    target->base = region->ptr;
    target->ids = past->ids;
    vv_fetch_tell(restart->fetch, name_granules, target);
    if (!region->is_callback)
        return read_memory(restart, recipe, stored, region, past, error);
    struct delivery delivery = {.peers = restart->peers, .region = region};
    region->size = stored->length;
    if (stored->length == 0)
        return load_bytes(&delivery, 0, "", 0, 0) == 0
                   ? 0
                   : vv_error(error, -EIO, "region %s: its load callback failed", stored->name);
    return vv_region_take(restart->view, recipe, stored, seed, CALLBACK_WINDOW, restart->pool, load_bytes, &delivery,
                          past->ids, note_run, &past->origins, error);
}

static int want_runs(struct restart *restart, struct vv_recipe *recipe, struct vv_region *region,
                     struct varve_error *error) {
    struct vv_run run;
    int rc;
    while ((rc = vv_recipe_next_run(recipe, &run, error)) > 0) {
        if (run.kind == VV_RUN_ZERO || run.offset >= region->size)
            continue;
        rc = want_run(restart, &run, region, error);
        if (rc)
            return rc;
    }
    return rc;
}

/* The runs of a region in memory again, for the sources of another pass. */
static int read_postponed(struct restart *restart, struct target *target, struct varve_error *error) {
    struct vv_region *region = &restart->context->memory->regions.list[target->slot];
    vv_fetch_tell(restart->fetch, name_granules, target);
    return region->is_callback ? 0 : want_runs(restart, restart->recipe, region, error);
}

/* The first pass needs all regions of the recipe, another one those that have a target. */
static int read_pass(struct restart *restart, int is_first, struct varve_error *error) {
    struct vv_recipe *recipe = restart->recipe;
    struct vv_recipe_region stored;
    size_t next = 0;
    int rc = vv_recipe_rewind(recipe, error);
    if (rc)
        return rc;
    while ((is_first || next < restart->target_count) && (rc = vv_recipe_next_region(recipe, &stored, error)) > 0) {
        struct target *target = NULL;
        if (next < restart->target_count && restart->targets[next].number == stored.number)
            target = &restart->targets[next++];
        rc = 0;
        if (is_first)
            rc = read_region(restart, recipe, &stored, target, error);
        else if (target)
            rc = read_postponed(restart, target, error);
        if (rc)
            break;
    }
    if (rc == 0 && is_first)
        rc = VV_FAULT("engine.restart.before_fetch");
    return rc ? rc : run_batch(restart, error);
}

static int read_regions(struct restart *restart, struct varve_error *error) {
    restart->last_source = UINT32_MAX;
    int rc = read_pass(restart, 1, error);
    while (rc == 0 && restart->last_source != UINT32_MAX) {
        restart->first_source = restart->last_source + 1;
        restart->last_source = UINT32_MAX;
        rc = read_pass(restart, 0, error);
    }
    return rc;
}

/* ---- checking ---- */

static int check_regions(struct restart *restart, struct varve_error *error) {
    struct vv_check check = {.pool = restart->pool, .seed = restart->context->job->store->settings.seed};
    int rc = 0;
    for (size_t i = 0; i < restart->target_count && rc == 0; i++) {
        const struct target *target = &restart->targets[i];
        const struct vv_region *region = &restart->context->memory->regions.list[target->slot];
        struct vv_past *past = vv_history_find(&restart->history, target->number);
        if (region->is_callback || region->size < target->stored_length)
            continue; /* checked while it was read; or cut: then the blocks' sums must do */
        rc = vv_check_region(&check, past, region->ptr);
        if (rc)
            vv_error(error, rc, "no memory to check region %s", past->name);
    }
    if (rc == 0)
        rc = vv_check_run(&check, error);
    vv_check_clear(&check);
    return rc;
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

static void renumber_regions(struct restart *restart) {
    struct vv_regions *regions = &restart->context->memory->regions;
    regions->next_number = restart->layers.next_number;
    size_t next = 0;
    for (size_t i = 0; i < regions->count; i++)
        regions->list[i].number = UINT64_MAX;
    for (next = 0; next < restart->target_count; next++) {
        const struct target *target = &restart->targets[next];
        struct vv_region *region = &regions->list[target->slot];
        if (region->is_callback || region->size == target->stored_length)
            region->number = target->number;
    }
    for (size_t i = 0; i < regions->count; i++)
        if (regions->list[i].number == UINT64_MAX)
            regions->list[i].number = regions->next_number++;
}

/* What cannot be told counts as full. */
static void find_waste(struct restart *restart, const uint64_t *live) {
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

/* The history as it will be, while this can still fail. */
static int prepare_history(struct restart *restart, struct varve_error *error) {
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
    if (has_any_without_ids && vv_candidate_learn(restart->context, restart->view, history, &ignored) != 0)
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
static void go_on(struct restart *restart) {
    renumber_regions(restart);
    vv_candidate_take(restart->context->job, restart->view, &restart->history, &restart->layers);
}

/* ---- one candidate ---- */

/* Everything that can be compared before a byte is written. */
static int compare_stored(void *arg, struct vv_store *store, struct varve_error *error) {
    struct restart *restart = arg;
    struct vv_job *job = restart->context->job;
    int rc = vv_candidate_open(job, store, restart->generation, restart->version, &restart->view, error);
    if (rc == 0)
        rc = match_regions(restart, error);
    if (rc == 0)
        rc = survey(restart, error);
    if (rc == 0)
        rc = vv_candidate_sources(restart->view, &restart->history, error);
    if (rc == 0)
        rc = start_threads(restart, error);
    if (rc == 0 && vv_fetch_create(restart->view, restart->pool, &restart->fetch) != 0)
        rc = vv_error(error, -ENOMEM, "no memory to restart");
    return rc;
}

static int read_checked(void *arg, struct vv_store *store, struct varve_error *error) {
    struct restart *restart = arg;
    (void)store;
    if (restart->others_bytes > restart->own_bytes / 8) /* for less it costs more than it gives */
        vv_load_ahead(restart->view, restart->context->job->comm->rank, restart->pool);
    int rc = read_regions(restart, error);
    vv_memory_note();
    vv_fetch_destroy(restart->fetch); /* what it kept is memory for what follows */
    restart->fetch = NULL;
    if (rc == 0)
        rc = check_regions(restart, error);
    if (rc == 0)
        rc = prepare_history(restart, error);
    return rc ? vv_error_default(error, rc, "%s", varve_error_text(rc)) : 0;
}

static int try_together(struct restart *restart, struct varve_error *error) {
    struct vv_job *job = restart->context->job;
    uint32_t generation = restart->generation;
    int rc = vv_candidate_complete(restart->context, restart->peers, generation, restart->version,
                                   &restart->is_under_replicated, error);
    if (rc == 0)
        rc = vv_candidate_name(job, generation, restart->version, error);
    vv_unwatch_regions(restart->context->memory); /* guarded memory may be read-only until then */
    if (rc == 0)
        rc = vv_peers_run(restart->peers, compare_stored, restart, error);
    if (rc == 0)
        rc = vv_peers_need(restart->peers, restart->needs_others, error);
    if (rc)
        return rc;
    restart->context->memory->is_overwritten = 1;
    vv_unwatch_regions(restart->context->memory); /* also what the program has allocated meanwhile: we write it now */
    vv_devices_settle(&restart->context->memory->regions, job->lineage.is_settled_well);
    rc = vv_peers_run(restart->peers, read_checked, restart, error);
    if (rc == 0)
        rc = vv_candidate_evaluate(restart->context, restart->view, restart->is_under_replicated, error);
    if (rc == 0)
        rc = vv_candidate_begin(job, restart->view, error);
    if (rc == 0)
        go_on(restart);
    return rc;
}

int vv_try_restart(struct vv_restart_context *context, const void *arg, uint32_t generation, uint64_t version,
                   struct varve_error *error) {
    struct restart restart = {.context = context,
                              .options = arg,
                              .generation = generation,
                              .version = version,
                              .given = {.regions = &context->memory->regions, .options = arg}};
    int rc = vv_open_peers(context, &restart.peers, error);
    if (rc == 0)
        rc = try_together(&restart, error);
    vv_fetch_destroy(restart.fetch);
    vv_pool_destroy(restart.pool);
    vv_pool_destroy(restart.backer);
    vv_buf_clear(&restart.backing);
    vv_history_clear(&restart.history);
    vv_recipe_close(restart.recipe);
    vv_view_close(restart.view);
    vv_peers_close(restart.peers);
    vv_free(restart.targets);
    vv_given_end(&restart.given, rc == 0);
    if (rc)
        vv_candidate_leave(context->job);
    return rc;
}
