/* The bytes of a candidate: into the regions, and checked. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/content_id.h"
#include "base/fault.h"
#include "read/region_reader.h"
#include "restart/reading.h"

#define BACK_MIN (64u << 10) /* smaller pieces of memory get their pages one by one */
#define CALLBACK_WINDOW (16u << 20)
#define ASKERS 8u /* threads that wait for other ranks */

/* Memory that will be filled. */
struct piece {
    uint8_t *from, *to;
};

/* ---- reading ---- */

/* More threads than for saving: while some wait for the storage, others check and copy. Answers of other ranks come in
 * rounds: the more is asked at once, the fewer there are. */
int vv_restart_threads(struct vv_restart *restart, struct varve_error *error) {
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

static void note_memory(struct vv_restart *restart, uint8_t *from, uint64_t size) {
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

static int run_batch(struct vv_restart *restart, struct varve_error *error) {
    if (restart->backer)
        vv_pool_submit(restart->backer, back_memory, &restart->backing);
    int rc = vv_fetch_run(restart->fetch, error);
    if (restart->backer)
        vv_pool_wait(restart->backer);
    restart->backing.size = 0;
    const struct vv_target *target = rc == VARVE_CORRUPT ? vv_fetch_failed(restart->fetch) : NULL;
    return target ? vv_error_in_region(error, rc, restart->context->memory->regions.list[target->slot].name) : rc;
}

/* Bytes have arrived: name the granules that are whole among them. Those in several pieces are left to the check. */
static void name_granules(void *tag, const void *data, size_t size, const struct vv_hash128 *ids) {
    const struct vv_target *target = tag;
    uint64_t from = (uint64_t)((const uint8_t *)data - target->base), to = from + size;
    if (from % VV_GRANULE)
        ids = NULL; /* they are of other granules */
    for (uint64_t at = (from + VV_GRANULE - 1) / VV_GRANULE * VV_GRANULE; at < to; at += VV_GRANULE) {
        uint64_t end = at + VV_GRANULE < target->stored_length ? at + VV_GRANULE : target->stored_length;
        if (end <= to && !vv_is_zero(target->base + at, end - at))
            target->ids[at / VV_GRANULE] =
                ids ? ids[(at - from) / VV_GRANULE] : vv_id(target->seed, target->base + at, end - at);
    }
}

/* What is wanted takes more memory to keep book of than it may. Its blocks shall be read once however its runs are
 * scattered: so not the region is cut, but the sources are, and the others are left to another pass over the manifest.
 * Only what comes from a single source is read in pieces of the region, and blocks that reach from one piece into the
 * next are then read again. */
static int postpone_sources(struct vv_restart *restart, struct varve_error *error) {
    uint32_t last = 0;
    int rc = vv_fetch_postpone(restart->fetch, &last, error);
    if (rc > 0)
        restart->last_source = last;
    return rc ? (rc < 0 ? rc : 0) : run_batch(restart, error);
}

static int want_run(struct vv_restart *restart, const struct vv_run *run, struct vv_region *region,
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

static int read_memory(struct vv_restart *restart, struct vv_recipe *recipe, const struct vv_recipe_region *stored,
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
    int returned; /* by the program */
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
    return delivery->returned = vv_peers_call(delivery->peers, deliver, delivery);
}

static int fail_load(const struct delivery *delivery, struct varve_error *error) {
    return vv_error(error, delivery->returned < 0 ? delivery->returned : -EIO,
                    "region %s: the program's load callback failed at byte %" PRIu64 " of %" PRIu64 ", with %d%s%s; "
                    "what is stored was not found damaged",
                    delivery->region->name, delivery->offset, delivery->total, delivery->returned,
                    delivery->returned < 0 ? ": " : "",
                    delivery->returned < 0 ? varve_error_text(delivery->returned) : "");
}

static int note_run(void *arg, const struct vv_run *run) {
    struct vv_origin origin = vv_origin_of(run);
    return vv_origins_add(arg, &origin);
}

static int read_region(struct vv_restart *restart, const struct vv_recipe_region *stored, struct vv_target *target,
                       struct varve_error *error) {
    struct vv_recipe *recipe = restart->recipe;
    struct vv_region *region = &restart->context->memory->regions.list[target->slot];
    struct vv_past *past = vv_history_find(&restart->history, target->number);
    target->seed = restart->context->job->store->settings.seed;
    target->base = region->ptr;
    target->ids = past->ids;
    vv_fetch_tell(restart->fetch, name_granules, target);
    if (!region->is_callback)
        return read_memory(restart, recipe, stored, region, past, error);
    struct delivery delivery = {.peers = restart->peers, .region = region};
    region->size = stored->length;
    int rc = stored->length == 0
                 ? load_bytes(&delivery, 0, "", 0, 0)
                 : vv_region_take(restart->view, recipe, stored, target->seed, CALLBACK_WINDOW, restart->pool,
                                  load_bytes, &delivery, past->ids, note_run, &past->origins, error);
    return delivery.returned ? fail_load(&delivery, error) : rc;
}

static int want_runs(struct vv_restart *restart, struct vv_recipe *recipe, struct vv_region *region,
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
static int read_postponed(struct vv_restart *restart, struct vv_target *target, struct varve_error *error) {
    struct vv_region *region = &restart->context->memory->regions.list[target->slot];
    vv_fetch_tell(restart->fetch, name_granules, target);
    return region->is_callback ? 0 : want_runs(restart, restart->recipe, region, error);
}

static size_t next_target(const struct vv_restart *restart, size_t from) {
    while (from < restart->now_to && !restart->targets[from].is_now)
        from++;
    return from;
}

/* The first pass over the manifest, or another one for the sources that were left out. It is a stream: whoever reads
 * the regions in its order goes through it once. */
static int read_pass(struct vv_restart *restart, int is_first, struct varve_error *error) {
    struct vv_recipe *recipe = restart->recipe;
    struct vv_recipe_region stored;
    size_t next = next_target(restart, restart->now_from);
    int rc = 0;
    if (next < restart->now_to && restart->targets[next].number < restart->recipe_at) {
        restart->recipe_at = UINT64_MAX;
        rc = vv_recipe_rewind(recipe, error);
    }
    while (rc == 0 && next < restart->now_to && (rc = vv_recipe_next_region(recipe, &stored, error)) > 0) {
        struct vv_target *target = &restart->targets[next];
        restart->recipe_at = stored.number + 1;
        rc = 0;
        if (stored.number != target->number)
            continue;
        rc = is_first ? read_region(restart, &stored, target, error) : read_postponed(restart, target, error);
        next = next_target(restart, next + 1);
    }
    if (rc == 0 && is_first)
        rc = VV_FAULT("engine.restart.before_fetch");
    return rc ? rc : run_batch(restart, error);
}

static int read_passes(struct vv_restart *restart, struct varve_error *error) {
    restart->first_source = 0;
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

static int check_targets(struct vv_restart *restart, struct varve_error *error) {
    struct vv_check check = {.pool = restart->pool, .seed = restart->context->job->store->settings.seed};
    int rc = 0;
    for (size_t i = restart->now_from; i < restart->now_to && rc == 0; i++) {
        const struct vv_target *target = &restart->targets[i];
        const struct vv_region *region = &restart->context->memory->regions.list[target->slot];
        struct vv_past *past = vv_history_find(&restart->history, target->number);
        if (!target->is_now || region->is_callback || region->size < target->stored_length)
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

/* ---- all of it ---- */

void vv_read_ahead(struct vv_restart *restart) {
    if (restart->others_bytes <= restart->own_bytes / 8)
        return; /* it would cost more than it gives */
    vv_load_ahead(restart->view, restart->recipe, restart->pool);
    restart->recipe_at = UINT64_MAX;
}

int vv_read_targets(struct vv_restart *restart, struct varve_error *error) {
    int rc = vv_fetch_create(restart->view, restart->pool, &restart->fetch);
    if (rc)
        return vv_error(error, -ENOMEM, "no memory to restart");
    rc = read_passes(restart, error);
    vv_memory_note();
    vv_fetch_destroy(restart->fetch); /* what it kept is memory for what follows */
    restart->fetch = NULL;
    if (rc == 0)
        rc = check_targets(restart, error);
    return rc ? vv_error_default(error, rc, "%s", varve_error_text(rc)) : 0;
}
