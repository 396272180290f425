/* Counting what is alive: every run of every checkpoint, each stored byte once. A block is stored as a whole, so of a
 * block that is used in part the same part of its stored bytes counts. Tables are not measured by what is alive in
 * them: those of a checkpoint's own packs are needed, those of older packs would go if their data did. */
#include "check/usage.h"

#include <errno.h>

#include "lifecycle/lifecycle.h"
#include "read/place_map.h"
#include "read/view.h"

struct count {
    struct vv_store *store;
    const char *name;
    const struct vv_usage_options *options;
    struct varve_error *error;
    struct vv_usage usage;
    struct vv_attempts records; /* newest first; attempt is 0 */
    struct vv_attempts kept;
    struct vv_place_map met;
    double live_data;
    uint64_t done, total; /* protected bytes */
    /* of the run at hand */
    struct vv_view *view;
    const struct vv_run *run;
    struct vv_spot_of from;
};

static int add_block(void *arg, const struct vv_block_piece *piece) {
    struct count *count = arg;
    count->live_data += (double)piece->length * piece->block->stored / piece->block->raw;
    return 0;
}

static int add_piece(void *arg, uint64_t offset, uint64_t length, const struct vv_spot_of *to) {
    struct count *count = arg;
    struct vv_run part = {.kind = VV_RUN_FROM, .length = length, .place_count = 1};
    struct vv_spot_of from = count->from;
    if (to)
        return 0;
    part.places[0] = count->run->places[0];
    part.places[0].address += offset;
    from.address += offset;
    int rc = vv_view_blocks(count->view, &part, add_block, count, count->error);
    if (rc == 0 && vv_place_map_add(&count->met, &from, length, &from) < 0)
        rc = vv_error_sys(count->error, -ENOMEM, "cannot count what %s uses", count->name);
    return rc;
}

/* Of a run with several places the first counts: the others are copies of it. */
static int add_run(struct count *count, const struct vv_run *run) {
    if (run->kind == VV_RUN_ZERO)
        return 0;
    const struct vv_place *place = &run->places[0];
    count->run = run;
    count->from = (struct vv_spot_of){*vv_view_source(count->view, place->dependency), place->owner, place->address};
    return vv_place_map_look(&count->met, &count->from, run->kind == VV_RUN_REPEATED ? run->piece : run->length,
                             add_piece, count);
}

static int add_owner(struct count *count, uint32_t owner) {
    struct vv_recipe *recipe = NULL;
    struct vv_recipe_region region;
    struct vv_run run;
    int rc = vv_recipe_open(count->view, owner, &recipe, count->error);
    while (rc >= 0 && (rc = vv_recipe_next_region(recipe, &region, count->error)) == 1) {
        while ((rc = vv_recipe_next_run(recipe, &run, count->error)) == 1)
            if ((rc = add_run(count, &run)) < 0)
                break;
        count->done += region.length;
        if (rc >= 0 && count->options->progress &&
            count->options->progress(count->options->arg, count->done, count->total))
            rc = vv_error_sys(count->error, -EINTR, "stopped");
    }
    count->run = NULL;
    vv_recipe_close(recipe);
    return rc;
}

static int note_attempts(struct count *count, const struct vv_record *record) {
    int is_newest = count->usage.checkpoints++ == 0;
    int rc = vv_attempts_add(&count->kept, vv_view_attempt(count->view));
    for (uint32_t i = 0; rc == 0 && i < record->dependency_count; i++)
        rc = vv_attempts_add(&count->kept, &record->dependencies[i].attempt);
    if (rc < 0)
        return vv_error_sys(count->error, rc, "cannot count what %s uses", count->name);
    for (uint32_t i = 0; rc == 0 && is_newest && i <= record->dependency_count; i++) {
        uint32_t writers = 0;
        rc = vv_view_writer_count(count->view, i, &writers, count->error);
        count->usage.newest_packs += writers;
    }
    if (is_newest)
        count->usage.newest_attempts = record->dependency_count + UINT64_C(1);
    return rc;
}

static int add_checkpoint(struct count *count, const struct vv_attempt *at) {
    int rc = vv_view_open(count->store, count->name, at->generation, at->version, &count->view, count->error);
    if (rc < 0)
        return rc;
    const struct vv_record *record = vv_view_record(count->view);
    rc = note_attempts(count, record);
    for (uint32_t owner = 0; rc == 0 && owner < record->ranks; owner++)
        rc = add_owner(count, owner);
    count->live_data += (double)(record->metadata_bytes + record->writers_length);
    vv_view_close(count->view);
    count->view = NULL;
    return rc;
}

static int take_record(void *arg, uint32_t generation, uint64_t version) {
    struct count *count = arg;
    struct vv_attempt at = {.generation = generation, .version = version};
    struct vv_record record;
    int rc = vv_record_load(count->store, count->name, generation, version, &record, count->error);
    if (rc == VARVE_FORGOTTEN || rc == VARVE_NO_CHECKPOINT)
        return 0;
    if (rc < 0)
        return rc;
    uint64_t bytes = record.protected_bytes;
    vv_record_clear(&record);
    if (count->options->newest && count->records.count == count->options->newest)
        return 0;
    count->total += bytes;
    return vv_attempts_add(&count->records, &at);
}

/* What prune would remove of these attempts if nothing needed them. */
static int measure_kept(struct count *count) {
    struct vv_prune_options dry = {.is_dry_run = 1};
    struct vv_prune_result result = {0};
    int rc = 0;
    vv_attempts_sort(&count->kept);
    for (size_t i = 0; rc == 0 && i < count->kept.count; i++)
        rc = vv_attempt_remove(count->store, count->name, &count->kept.list[i], 0, &dry, &result, count->error);
    count->usage.attempts = count->kept.count;
    count->usage.kept_bytes = result.bytes;
    return rc < 0 ? rc : vv_prune(count->store, count->name, &dry, &count->usage.free, count->error);
}

int vv_usage_count(struct vv_store *store, const char *name, const struct vv_usage_options *options,
                   struct vv_usage *out, struct varve_error *error) {
    struct count count = {.store = store, .name = name, .options = options, .error = error};
    if (store->settings.layout == VV_LAYOUT_LOCAL)
        return vv_error(error, VARVE_UNSUPPORTED,
                        "this is the store of one node, and what the others have is not seen");
    int rc = vv_records_list(store, name, take_record, &count, error);
    for (size_t i = 0; rc == 0 && i < count.records.count; i++) {
        rc = add_checkpoint(&count, &count.records.list[i]);
        if (rc == VARVE_FORGOTTEN || rc == VARVE_NO_CHECKPOINT)
            rc = 0; /* by a running program, since it was listed */
    }
    if (rc == 0)
        rc = measure_kept(&count);
    vv_place_map_clear(&count.met);
    vv_attempts_clear(&count.records);
    vv_attempts_clear(&count.kept);
    if (rc < 0)
        return rc;
    vv_error_clear(error);
    count.usage.live_bytes = (uint64_t)count.live_data;
    if (count.usage.live_bytes > count.usage.kept_bytes)
        count.usage.live_bytes = count.usage.kept_bytes;
    *out = count.usage;
    return 0;
}
