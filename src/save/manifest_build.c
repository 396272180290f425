/* From origins to a manifest: the attempts it depends on, and its runs as an overlay or as a base. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "save/save_private.h"
#include "store/pieces.h"

#define FLUSH (1u << 20)

struct recipe {
    struct vv_save *save;
    struct vv_dependency *dependencies;
    uint32_t dependency_count;
    uint32_t *index_of; /* per source: its dependency index */
    struct vv_buf buf;
    struct vv_manifest_writer writer;
    int is_packed;
    struct vv_pieces pieces; /* if it is */
    struct varve_error *error;
};

static struct vv_attempt attempt_of(const struct vv_source *source) {
    return (struct vv_attempt){source->generation, source->attempt, source->version};
}

static int holds_layer(const struct vv_recipe_layers *layers, const struct vv_attempt *attempt) {
    for (uint32_t i = 0; i < layers->count; i++)
        if (vv_attempt_compare(&layers->layer[i].attempt, attempt) == 0)
            return 1;
    return 0;
}

static uint32_t dependency_index(const struct recipe *recipe, const struct vv_attempt *attempt) {
    struct vv_dependency key = {.attempt = *attempt};
    const struct vv_dependency *found = bsearch(&key, recipe->dependencies, recipe->dependency_count,
                                                sizeof *recipe->dependencies, vv_dependency_compare);
    return found ? (uint32_t)(found - recipe->dependencies) + 1 : 0;
}

static void number_sources(struct recipe *recipe) {
    const struct vv_history *history = &recipe->save->job->lineage.history;
    for (uint32_t i = 0; i < history->source_count; i++) {
        struct vv_attempt attempt = attempt_of(&history->sources[i]);
        recipe->index_of[i] = i == recipe->save->plan.source ? 0 : dependency_index(recipe, &attempt);
    }
}

/* Everything that holds live bytes of ours, and everything that holds a layer we build on. */
static int collect_dependencies(struct recipe *recipe, const uint64_t *live, const struct vv_recipe_layers *layers) {
    const struct vv_history *history = &recipe->save->job->lineage.history;
    recipe->dependencies = vv_calloc(history->source_count + 1, sizeof *recipe->dependencies);
    recipe->index_of = vv_calloc(history->source_count + 1, sizeof *recipe->index_of);
    if (!recipe->dependencies || !recipe->index_of)
        return -ENOMEM;
    for (uint32_t i = 0; i < history->source_count; i++) {
        struct vv_attempt attempt = attempt_of(&history->sources[i]);
        if (i == recipe->save->plan.source || (live[i] == 0 && !holds_layer(layers, &attempt)))
            continue;
        recipe->dependencies[recipe->dependency_count++] =
            (struct vv_dependency){attempt, history->sources[i].writers_digest};
    }
    qsort(recipe->dependencies, recipe->dependency_count, sizeof *recipe->dependencies, vv_dependency_compare);
    uint32_t kept = 0; /* a restart may have given an attempt two slots */
    for (uint32_t i = 0; i < recipe->dependency_count; i++)
        if (kept == 0 || vv_dependency_compare(&recipe->dependencies[kept - 1], &recipe->dependencies[i]) != 0)
            recipe->dependencies[kept++] = recipe->dependencies[i];
    recipe->dependency_count = kept;
    number_sources(recipe);
    return 0;
}

static void put_origin(struct recipe *recipe, const struct vv_past *past, const struct vv_origin *origin) {
    uint32_t rank = recipe->save->job->comm->rank;
    struct vv_run run = {.offset = origin->offset, .length = origin->length, .piece = origin->piece};
    if (origin->kind == VV_ORIGIN_ZERO) {
        run.kind = VV_RUN_ZERO;
    } else {
        run.kind = origin->kind == VV_ORIGIN_REPEATED ? VV_RUN_REPEATED : VV_RUN_FROM;
        run.place_count = 1;
        run.places[0] = (struct vv_place){recipe->index_of[origin->source], origin->owner, origin->address, 0};
        if (run.kind == VV_RUN_FROM && origin->source == recipe->save->plan.source && origin->owner == rank &&
            origin->address == past->pending_address + origin->offset)
            run.kind = VV_RUN_HERE;
    }
    vv_manifest_run(&recipe->writer, &run);
}

static void put_keep(struct recipe *recipe, uint64_t from, uint64_t to) {
    struct vv_run run = {.kind = VV_RUN_KEEP, .offset = from, .length = to - from};
    if (to > from)
        vv_manifest_run(&recipe->writer, &run);
}

static void put_entry(struct recipe *recipe, const struct vv_past *past, int is_described) {
    struct vv_region_entry entry = {.number = past->number, .length = past->pending_length};
    if (is_described) {
        entry.flags = VV_REGION_DESCRIBED;
        strncpy(entry.name, past->name, sizeof entry.name - 1);
        entry.address = past->pending_address;
        struct varve_array array;
        vv_array_tell(past->pending_array, &array);
        vv_shape_of_array(&array, &entry.shape);
        entry.shape.distribution = past->pending_distribution;
    }
    vv_manifest_region(&recipe->writer, &entry, past->pending_address);
}

static void put_whole(struct recipe *recipe, const struct vv_past *past) {
    const struct vv_origins *origins = vv_past_after(past);
    put_entry(recipe, past, 1);
    for (size_t i = 0; i < origins->count; i++)
        put_origin(recipe, past, &origins->list[i]);
    vv_manifest_region_end(&recipe->writer, past->pending_digest);
}

static void put_changes(struct recipe *recipe, const struct vv_past *past) {
    uint64_t done = 0;
    put_entry(recipe, past, past->is_moved || past->is_retold);
    for (size_t i = 0; i < past->changed.count; i++) {
        put_keep(recipe, done, past->changed.list[i].offset);
        put_origin(recipe, past, &past->changed.list[i]);
        done = past->changed.list[i].offset + past->changed.list[i].length;
    }
    put_keep(recipe, done, past->pending_length);
    vv_manifest_region_end(&recipe->writer, past->pending_digest);
}

static void put_overlay(struct recipe *recipe) {
    const struct vv_history *history = &recipe->save->job->lineage.history;
    for (size_t i = 0; i < history->count; i++) {
        const struct vv_past *past = &history->list[i];
        if (past->is_new) {
            if (!past->is_gone)
                put_whole(recipe, past);
        } else if (past->is_gone) {
            struct vv_region_entry entry = {.number = past->number, .flags = VV_REGION_REMOVED};
            vv_manifest_region(&recipe->writer, &entry, 0);
        } else if (past->changed.count > 0 || past->pending_length != past->length || past->is_moved ||
                   past->is_retold) {
            put_changes(recipe, past);
        }
    }
}

/* Is everything that we depend on in the list? Otherwise places would be somewhere else. */
static int holds_all(const struct vv_buf *all, const struct vv_dependency *dependencies, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const struct vv_dependency *found = all->size
                                                ? bsearch(&dependencies[i], all->data, all->size / sizeof *dependencies,
                                                          sizeof *dependencies, vv_dependency_compare)
                                                : NULL;
        if (!found || !vv_hash128_equal(found->writers_digest, dependencies[i].writers_digest))
            return 0;
    }
    return 1;
}

/* What the ranks of a team depend on is one list: an overlay that was tried with our own numbers is made again with
 * those of the list. */
static int settle_dependencies(struct recipe *recipe, int is_overlay) {
    struct vv_buf all;
    vv_buf_init(&all);
    int rc = recipe->save->output->ops->dependencies(recipe->save->output, recipe->dependencies,
                                                     recipe->dependency_count, &all, recipe->error);
    uint32_t count = (uint32_t)(all.size / sizeof *recipe->dependencies);
    if (rc == 0 && !holds_all(&all, recipe->dependencies, recipe->dependency_count))
        rc = vv_error(recipe->error, -EPROTO, "the list of what the ranks depend on lacks what this rank does");
    if (rc == 0 && count != recipe->dependency_count) {
        vv_free(recipe->dependencies);
        recipe->dependencies = (struct vv_dependency *)all.data;
        recipe->dependency_count = count;
        vv_buf_init(&all);
        number_sources(recipe);
        recipe->buf.size = 0;
        vv_manifest_begin(&recipe->writer, &recipe->buf, recipe->save->job->comm->rank);
        if (is_overlay)
            put_overlay(recipe);
        rc = recipe->buf.failed;
    }
    vv_buf_clear(&all);
    return rc;
}

static void fill_head(struct recipe *recipe, uint64_t runs, struct vv_manifest_head *head) {
    const struct vv_save *save = recipe->save;
    memset(head, 0, sizeof *head);
    head->runs = runs;
    head->is_packed = recipe->is_packed = runs >= VV_PACK_FROM;
    head->owner = save->job->comm->rank;
    head->regions = save->plan.regions;
    head->protected_bytes = save->sums.protected_bytes;
    head->layout_bytes = save->plan.layout_end;
}

/* To the pack, or to the writer of the team. */
static int add_bytes(void *arg, const void *data, size_t size) {
    struct recipe *recipe = arg;
    recipe->save->manifest.bytes += size;
    return recipe->save->output->ops->manifest_add(recipe->save->output, data, size, recipe->error);
}

/* What was encoded so far goes on its way. */
static int pass_on(struct recipe *recipe) {
    int rc = recipe->buf.failed;
    if (rc == 0 && recipe->buf.size && !recipe->is_packed)
        rc = add_bytes(recipe, recipe->buf.data, recipe->buf.size);
    if (rc == 0 && recipe->is_packed)
        rc = vv_pieces_pack(&recipe->pieces, recipe->buf.data, recipe->buf.size, add_bytes, recipe);
    return rc;
}

/* Bytes of attempts that nothing but a layer of the manifest would keep alive. */
static uint64_t bytes_held(const struct vv_save *save, const uint64_t *live) {
    const struct vv_history *history = &save->job->lineage.history;
    uint64_t bytes = 0;
    if (save->job->settings.space == 0 || save->job->settings.keep == 0)
        return 0;
    for (uint32_t i = 0; i < history->source_count; i++) {
        struct vv_attempt attempt = attempt_of(&history->sources[i]);
        if (live[i] == 0 && i != save->plan.source && holds_layer(&save->job->lineage.layers, &attempt))
            bytes += history->sources[i].raw_bytes;
    }
    return bytes;
}

/* Encode an overlay; 1 if it is worth writing, 0 if a base is. */
static int try_overlay(struct recipe *recipe, const uint64_t *live) {
    const struct vv_recipe_layers *layers = &recipe->save->job->lineage.layers;
    if (layers->count == 0 || layers->count == VV_LAYERS_MAX ||
        bytes_held(recipe->save, live) > layers->layer[0].length)
        return 0;
    put_overlay(recipe);
    return recipe->buf.size <= layers->layer[0].length / 4;
}

static int write_overlay(struct recipe *recipe) {
    struct vv_save *save = recipe->save;
    const struct vv_recipe_layers *below = &save->job->lineage.layers;
    struct vv_manifest_head head;
    fill_head(recipe, recipe->writer.runs, &head);
    head.entries = recipe->writer.entries;
    head.lower_count = below->count;
    for (uint32_t i = 0; i < below->count; i++)
        head.lower[i] = (struct vv_layer_ref){dependency_index(recipe, &below->layer[i].attempt),
                                              below->layer[i].writer, below->layer[i].digest};
    int rc = save->output->ops->manifest_begin(save->output, &head, recipe->error);
    if (rc == 0)
        rc = pass_on(recipe);
    save->manifest.layers = *below;
    return rc;
}

static int flush(struct recipe *recipe, size_t at_least) {
    if (recipe->buf.failed)
        return recipe->buf.failed;
    if (recipe->buf.size < at_least || recipe->buf.size == 0)
        return 0;
    int rc = pass_on(recipe);
    recipe->save->manifest.base_bytes += recipe->buf.size;
    recipe->buf.size = 0;
    return rc;
}

static int write_base(struct recipe *recipe) {
    struct vv_save *save = recipe->save;
    const struct vv_history *history = &save->job->lineage.history;
    struct vv_manifest_head head;
    uint64_t runs = 0;
    for (size_t i = 0; i < history->count; i++)
        if (!history->list[i].is_gone)
            runs += vv_past_after(&history->list[i])->count;
    fill_head(recipe, runs, &head);
    head.entries = save->plan.regions;
    recipe->buf.size = 0;
    vv_manifest_begin(&recipe->writer, &recipe->buf, save->job->comm->rank);
    int rc = save->output->ops->manifest_begin(save->output, &head, recipe->error);
    for (size_t i = 0; i < history->count && rc == 0; i++) {
        if (history->list[i].is_gone)
            continue;
        put_whole(recipe, &history->list[i]);
        rc = flush(recipe, FLUSH);
    }
    if (rc == 0)
        rc = flush(recipe, 0);
    save->manifest.is_base = 1;
    save->manifest.base_bytes += VV_MANIFEST_HEAD_SIZE;
    memset(&save->manifest.layers, 0, sizeof save->manifest.layers);
    return rc;
}

static int write_manifest(struct recipe *recipe, int is_overlay) {
    struct vv_save *save = recipe->save;
    struct vv_hash128 digest;
    int rc = settle_dependencies(recipe, is_overlay);
    save->manifest.bytes = VV_MANIFEST_HEAD_SIZE;
    uint64_t length = VV_MANIFEST_HEAD_SIZE + recipe->buf.size;
    if (rc == 0)
        rc = is_overlay ? write_overlay(recipe) : write_base(recipe);
    if (rc == 0)
        rc = save->output->ops->manifest_end(save->output, &digest, recipe->error);
    if (rc)
        return rc;
    uint32_t at = save->manifest.layers.count++;
    save->manifest.layers.layer[at].attempt = save->plan.attempt;
    save->manifest.layers.layer[at].writer = save->output->writer;
    save->manifest.layers.layer[at].digest = digest;
    save->manifest.layers.layer[at].length = is_overlay ? length : save->manifest.base_bytes;
    save->manifest.layers.layout_bytes = save->plan.layout_end;
    return 0;
}

int vv_recipe_write(struct vv_save *save, const uint64_t *live, struct varve_error *error) {
    static const struct vv_recipe_layers no_layers;
    struct recipe recipe = {.save = save, .error = error};
    vv_buf_init(&recipe.buf);
    /* With all layers' attempts in the list an overlay can be tried; a base then needs fewer of them. */
    int rc = collect_dependencies(&recipe, live, &save->job->lineage.layers);
    vv_manifest_begin(&recipe.writer, &recipe.buf, save->job->comm->rank);
    int is_overlay = rc == 0 && try_overlay(&recipe, live);
    if (rc == 0 && recipe.buf.failed)
        rc = recipe.buf.failed;
    if (rc == 0 && !is_overlay) {
        vv_free(recipe.dependencies);
        vv_free(recipe.index_of);
        recipe.dependency_count = 0;
        rc = collect_dependencies(&recipe, live, &no_layers);
    }
    if (rc == 0)
        rc = write_manifest(&recipe, is_overlay);
    vv_free(recipe.dependencies);
    vv_free(recipe.index_of);
    vv_buf_clear(&recipe.buf);
    vv_pieces_clear(&recipe.pieces);
    return rc ? vv_error_default(error, rc, "the manifest could not be written: %s", varve_error_text(rc)) : 0;
}
