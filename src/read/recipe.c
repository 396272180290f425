/* The recipe of an owner: up to four manifest layers read side by side, like a merge of sorted files.
 *
 * Regions are merged by number: of the layers that have an entry for it, the highest one says what the region is,
 * and its runs say where the bytes come from; a `keep` run hands its range down to the next lower layer that has the
 * region. All readers only move forward, so memory does not depend on the number of runs.
 *
 * There are two passes. The first, in vv_recipe_open, reads every entry: digests stand behind the runs but are
 * wanted before them, and what can only be checked over all regions (names, addresses, sums) is checked before
 * anything is delivered. It costs 48 bytes per region for a moment, and keeps 16. The second delivers. */
#include "base/alloc.h"
#include "read/recipe_private.h"
#include "read/view.h"

#include <errno.h>
#include <stdlib.h>

struct vv_recipe {
    struct vv_view *view;
    uint32_t owner;
    uint32_t count; /* layers, base first */
    struct vv_layer layer[VV_LAYERS_MAX];
    struct vv_recipe_layers layers;
    struct vv_hash128 *digests; /* of the regions in effect, in order */
    uint64_t region_count;
    uint64_t next_region;
    /* the region at hand */
    uint64_t length;
    uint64_t offset;
};

static struct vv_layer *top_of(struct vv_recipe *recipe) {
    return &recipe->layer[recipe->count - 1];
}

static int corrupt_region(const struct vv_layer *layer, uint64_t number, const char *what, struct varve_error *error) {
    return vv_error(error, VARVE_CORRUPT, "%s: region %llu %s", layer->key, (unsigned long long)number, what);
}

/* ---- layers ---- */

static int unnamed(const struct vv_recipe *recipe, const struct vv_layer *layer, uint32_t dependency,
                   struct varve_error *error) {
    char text[64];
    return vv_error(error, VARVE_CORRUPT, "%s depends on %s which its record does not name (version %llu)", layer->key,
                    vv_attempt_text(&vv_layer_dependency(layer, dependency)->attempt, text),
                    (unsigned long long)recipe->view->attempt.version);
}

/* A lower layer's own list must be the entries below it in the top layer's list. */
static int check_lower(const struct vv_layer *top, const struct vv_layer *lower, uint32_t position,
                       struct varve_error *error) {
    const struct vv_manifest_head *above = vv_manifest_head(top->reader), *head = vv_manifest_head(lower->reader);
    int is_same = head->lower_count == position;
    for (uint32_t i = 0; i < position && is_same; i++) {
        const struct vv_layer_ref *a = &above->lower[i], *b = &head->lower[i];
        const struct vv_dependency *x = vv_layer_dependency(top, a->dependency),
                                   *y = vv_layer_dependency(lower, b->dependency);
        is_same = a->writer == b->writer && vv_hash128_equal(a->digest, b->digest) &&
                  vv_attempt_compare(&x->attempt, &y->attempt) == 0;
    }
    if (!is_same) {
        return vv_error(error, VARVE_CORRUPT, "%s: the layers below it are not those that %s lists", lower->key,
                        top->key);
    }
    return 0;
}

/* The home writer of the recipe's owner in that source. */
static int find_home(struct vv_recipe *recipe, uint32_t source, uint32_t *out, struct varve_error *error) {
    char text[64];
    int rc = vv_view_home(recipe->view, source, recipe->owner, out, error);
    if (rc == 0) {
        return vv_error(error, source ? VARVE_CORRUPT : -EINVAL, "there is no owner %u in %s", recipe->owner,
                        vv_attempt_text(vv_view_source(recipe->view, source), text));
    }
    return rc < 0 ? rc : 0;
}

static int open_lower(struct vv_recipe *recipe, uint32_t position, struct varve_error *error) {
    const struct vv_layer *top = top_of(recipe);
    const struct vv_layer_ref *ref = &vv_manifest_head(top->reader)->lower[position];
    struct vv_layer *layer = &recipe->layer[position];
    uint32_t source = top->sources[ref->dependency], home = 0;
    if (source == VV_NO_SOURCE)
        return unnamed(recipe, top, ref->dependency, error);
    int rc = find_home(recipe, source, &home, error);
    if (rc < 0)
        return rc;
    if (ref->writer != home) {
        return vv_error(error, VARVE_CORRUPT, "%s: lower layer %u names writer %u, but owner %u is at home with %u",
                        top->key, position, ref->writer, recipe->owner, home);
    }
    rc = vv_layer_open(layer, recipe->view, source, ref->writer, recipe->owner, error);
    if (rc == 0 && !vv_hash128_equal(layer->section.digest, ref->digest)) {
        rc = vv_error(error, VARVE_CORRUPT, "%s: the manifest of owner %u is not the one that %s was laid over",
                      layer->key, recipe->owner, top->key);
    }
    return rc < 0 ? rc : check_lower(top, layer, position, error);
}

/* The top layer says how many there are and comes last; it is opened in the first slot and moved up. */
static int open_layers(struct vv_recipe *recipe, struct varve_error *error) {
    uint32_t home = 0;
    int rc = find_home(recipe, 0, &home, error);
    if (rc < 0)
        return rc;
    struct vv_layer *top = &recipe->layer[VV_LAYERS_MAX - 1];
    rc = vv_layer_open(top, recipe->view, 0, home, recipe->owner, error);
    if (rc < 0)
        return rc;
    uint32_t lower = vv_manifest_head(top->reader)->lower_count;
    recipe->count = lower + 1;
    if (lower != VV_LAYERS_MAX - 1) {
        recipe->layer[lower] = *top;
        *top = (struct vv_layer){0};
        rc = vv_layer_rewind(&recipe->layer[lower], recipe->owner, error); /* the reader points at the layer */
    }
    for (uint32_t i = 0; i < lower && rc == 0; i++)
        rc = open_lower(recipe, i, error);
    return rc;
}

static void describe_layers(struct vv_recipe *recipe) {
    struct vv_recipe_layers *out = &recipe->layers;
    out->count = recipe->count;
    out->layout_bytes = vv_manifest_head(top_of(recipe)->reader)->layout_bytes;
    for (uint32_t i = 0; i < recipe->count; i++) {
        const struct vv_layer *layer = &recipe->layer[i];
        out->layer[i].attempt = *vv_view_source(recipe->view, layer->source);
        out->layer[i].writer = layer->writer;
        out->layer[i].digest = layer->section.digest;
        out->layer[i].length = layer->length;
    }
}

/* ---- regions ---- */

/* Every layer that is not at its end stands at its next entry. Gives the lowest number, or 0 when all have ended. */
static int gather(struct vv_recipe *recipe, uint64_t *number_out, struct varve_error *error) {
    int found = 0;
    for (uint32_t i = 0; i < recipe->count; i++) {
        struct vv_layer *layer = &recipe->layer[i];
        if (layer->is_in)
            layer->is_in = layer->has_entry = layer->has_run = 0;
        if (!layer->has_entry && !layer->is_at_end) {
            int rc = vv_manifest_next_region(layer->reader, &layer->entry, error);
            if (rc < 0)
                return vv_layer_error(layer, rc, error);
            layer->has_entry = rc;
            layer->is_at_end = !rc;
            if (rc && layer->entry.number >= recipe->layers.next_number)
                recipe->layers.next_number = layer->entry.number + 1;
        }
        if (layer->has_entry && (!found || layer->entry.number < *number_out)) {
            *number_out = layer->entry.number;
            found = 1;
        }
    }
    return found;
}

enum region_state { REGION_UNKNOWN, REGION_KNOWN, REGION_REMOVED };

/* What one layer's entry makes of the region as the layers below left it. */
static int fold(struct vv_layer *layer, enum region_state *state, struct vv_recipe_region *region,
                struct varve_error *error) {
    const struct vv_region_entry *entry = &layer->entry;
    layer->is_in = 1;
    if (*state == REGION_REMOVED)
        return corrupt_region(layer, entry->number, "was removed below, numbers are not used again", error);
    if (entry->flags & VV_REGION_REMOVED) {
        if (*state != REGION_KNOWN)
            return corrupt_region(layer, entry->number, "is removed, but no layer below has it", error);
        *state = REGION_REMOVED;
        return 0;
    }
    if (entry->flags & VV_REGION_DESCRIBED) {
        memcpy(region->name, entry->name, sizeof region->name);
        region->address = entry->address;
        region->shape = entry->shape;
    } else if (*state != REGION_KNOWN) {
        return corrupt_region(layer, entry->number, "is not described in any layer", error);
    } else {
        vv_manifest_set_address(layer->reader, region->address);
    }
    *state = REGION_KNOWN;
    layer->address = region->address;
    region->length = entry->length;
    return 0;
}

/* The next region in effect: 1, 0 at the end, or an error. The digest is not set. */
static int merge_region(struct vv_recipe *recipe, struct vv_recipe_region *region, struct varve_error *error) {
    for (;;) {
        enum region_state state = REGION_UNKNOWN;
        uint64_t number = 0;
        int rc = gather(recipe, &number, error);
        if (rc <= 0)
            return rc;
        region->number = number;
        for (uint32_t i = 0; i < recipe->count; i++) {
            struct vv_layer *layer = &recipe->layer[i];
            if (layer->has_entry && layer->entry.number == number) {
                rc = fold(layer, &state, region, error);
                if (rc < 0)
                    return rc;
            }
        }
        if (state == REGION_KNOWN) {
            recipe->length = region->length;
            recipe->offset = 0;
            return 1;
        }
    }
}

/* The layer that has the region's entry at or below position, or -1. */
static int layer_with_entry(const struct vv_recipe *recipe, int position) {
    while (position >= 0 && !recipe->layer[position].is_in)
        position--;
    return position;
}

/* ---- the first pass ---- */

struct span {
    uint64_t address;
    uint64_t length;
    uint64_t number;
};

struct survey {
    struct vv_buf digests;
    struct vv_buf names; /* their digests */
    struct vv_buf spans;
    uint64_t bytes;
    uint64_t count;
};

static int compare_spans(const void *a, const void *b) {
    const struct span *x = a, *y = b;
    return x->address == y->address ? 0 : x->address < y->address ? -1 : 1;
}

static int compare_hashes(const void *a, const void *b) {
    const struct vv_hash128 *x = a, *y = b;
    if (x->high != y->high)
        return x->high < y->high ? -1 : 1;
    return x->low == y->low ? 0 : x->low < y->low ? -1 : 1;
}

static int check_spans(const struct vv_recipe *recipe, struct survey *survey, struct varve_error *error) {
    struct span *list = (struct span *)survey->spans.data;
    size_t count = survey->spans.size / sizeof *list;
    if (count)
        qsort(list, count, sizeof *list, compare_spans);
    for (size_t i = 1; i < count; i++) {
        if (list[i - 1].address + list[i - 1].length > list[i].address) {
            return vv_error(error, VARVE_CORRUPT, "owner %u: regions %llu and %llu overlap at address %llu",
                            recipe->owner, (unsigned long long)list[i - 1].number, (unsigned long long)list[i].number,
                            (unsigned long long)list[i].address);
        }
    }
    return 0;
}

static int check_names(const struct vv_recipe *recipe, struct survey *survey, struct varve_error *error) {
    struct vv_hash128 *list = (struct vv_hash128 *)survey->names.data;
    size_t count = survey->names.size / sizeof *list;
    if (count)
        qsort(list, count, sizeof *list, compare_hashes);
    for (size_t i = 1; i < count; i++)
        if (vv_hash128_equal(list[i - 1], list[i]))
            return vv_error(error, VARVE_CORRUPT, "owner %u: two regions have the same name", recipe->owner);
    return 0;
}

static int check_totals(struct vv_recipe *recipe, const struct survey *survey, struct varve_error *error) {
    const struct vv_manifest_head *head = vv_manifest_head(top_of(recipe)->reader);
    if (survey->count != head->regions || survey->bytes != head->protected_bytes) {
        return vv_error(
            error, VARVE_CORRUPT, "%s: owner %u has %llu regions with %llu bytes, but its head says %llu and %llu",
            top_of(recipe)->key, recipe->owner, (unsigned long long)survey->count, (unsigned long long)survey->bytes,
            (unsigned long long)head->regions, (unsigned long long)head->protected_bytes);
    }
    return 0;
}

static int survey_region(struct vv_recipe *recipe, const struct vv_recipe_region *region, struct survey *survey,
                         struct varve_error *error) {
    struct vv_layer *layer = &recipe->layer[layer_with_entry(recipe, (int)recipe->count - 1)];
    uint64_t layout = recipe->layers.layout_bytes;
    if (region->length && (region->address > layout || region->length > layout - region->address))
        return corrupt_region(layer, region->number, "lies outside the layout", error);
    struct vv_hash128 digest, name = vv_digest(region->name, strlen(region->name));
    struct span span = {.address = region->address, .length = region->length, .number = region->number};
    int rc;
    do {
        rc = vv_manifest_next_run(layer->reader, &layer->run, &digest, error);
    } while (rc > 0);
    if (rc < 0)
        return vv_layer_error(layer, rc, error);
    vv_buf_append(&survey->digests, &digest, sizeof digest);
    vv_buf_append(&survey->names, &name, sizeof name);
    if (region->length)
        vv_buf_append(&survey->spans, &span, sizeof span);
    survey->bytes += region->length;
    survey->count++;
    int is_full = survey->digests.failed | survey->names.failed | survey->spans.failed;
    return is_full ? vv_error_sys(error, -ENOMEM, "%llu regions", (unsigned long long)survey->count) : 0;
}

static int survey_all(struct vv_recipe *recipe, struct survey *survey, struct varve_error *error) {
    struct vv_recipe_region region;
    int rc;
    while ((rc = merge_region(recipe, &region, error)) > 0) {
        rc = survey_region(recipe, &region, survey, error);
        if (rc < 0)
            return rc;
    }
    if (rc == 0)
        rc = check_totals(recipe, survey, error);
    if (rc == 0)
        rc = check_names(recipe, survey, error);
    return rc < 0 ? rc : check_spans(recipe, survey, error);
}

static int first_pass(struct vv_recipe *recipe, struct varve_error *error) {
    struct survey survey = {0};
    describe_layers(recipe);
    int rc = survey_all(recipe, &survey, error);
    if (rc == 0)
        rc = vv_recipe_rewind(recipe, error);
    recipe->digests = (struct vv_hash128 *)survey.digests.data;
    recipe->region_count = survey.count;
    vv_buf_clear(&survey.names);
    vv_buf_clear(&survey.spans);
    return rc;
}

int vv_recipe_open(struct vv_view *view, uint32_t owner, struct vv_recipe **out, struct varve_error *error) {
    struct vv_recipe *recipe = vv_calloc(1, sizeof *recipe);
    if (!recipe)
        return vv_error_sys(error, -ENOMEM, "open a recipe");
    recipe->view = view;
    recipe->owner = owner;
    int rc = open_layers(recipe, error);
    if (rc == 0)
        rc = first_pass(recipe, error);
    if (rc < 0) {
        vv_recipe_close(recipe);
        return rc;
    }
    *out = recipe;
    return 0;
}

int vv_recipe_rewind(struct vv_recipe *recipe, struct varve_error *error) {
    int rc = 0;
    for (uint32_t i = 0; i < recipe->count && rc == 0; i++)
        rc = vv_layer_rewind(&recipe->layer[i], recipe->owner, error);
    recipe->next_region = recipe->length = recipe->offset = 0;
    return rc;
}

void vv_recipe_layers(const struct vv_recipe *recipe, struct vv_recipe_layers *out) {
    *out = recipe->layers;
}

void vv_recipe_close(struct vv_recipe *recipe) {
    if (!recipe)
        return;
    for (uint32_t i = 0; i < VV_LAYERS_MAX; i++)
        vv_layer_clear(&recipe->layer[i]);
    vv_free(recipe->digests);
    vv_free(recipe);
}

/* ---- the second pass ---- */

int vv_recipe_next_region(struct vv_recipe *recipe, struct vv_recipe_region *out, struct varve_error *error) {
    int rc = merge_region(recipe, out, error);
    if (rc > 0) {
        if (recipe->next_region == recipe->region_count)
            return vv_error(error, VARVE_CORRUPT, "%s changed while it was read", top_of(recipe)->key);
        out->digest = recipe->digests[recipe->next_region++];
    }
    return rc;
}

/* Let the layer's run be the one that covers offset. */
static int advance(struct vv_layer *layer, uint64_t offset, struct varve_error *error) {
    while (!layer->has_run || layer->run.offset + layer->run.length <= offset) {
        struct vv_hash128 digest;
        int rc = vv_manifest_next_run(layer->reader, &layer->run, &digest, error);
        if (rc < 0)
            return vv_layer_error(layer, rc, error);
        if (rc == 0)
            return corrupt_region(layer, layer->entry.number, "ends before its length", error);
        layer->has_run = 1;
    }
    return 0;
}

/* Where do the bytes at the recipe's offset come from, and up to where? Follows `keep` down. */
static int find_run(struct vv_recipe *recipe, struct vv_layer **layer_out, uint64_t *end_out,
                    struct varve_error *error) {
    int position = layer_with_entry(recipe, (int)recipe->count - 1);
    uint64_t end = recipe->length;
    for (;;) {
        struct vv_layer *layer = &recipe->layer[position];
        int rc = advance(layer, recipe->offset, error);
        if (rc < 0)
            return rc;
        uint64_t run_end = layer->run.offset + layer->run.length;
        end = run_end < end ? run_end : end;
        if (layer->run.kind != VV_RUN_KEEP) {
            *layer_out = layer;
            *end_out = end;
            return 0;
        }
        position = layer_with_entry(recipe, position - 1);
        if (position < 0)
            return corrupt_region(layer, layer->entry.number, "keeps bytes, but no layer below has it", error);
        if (run_end > recipe->layer[position].entry.length) {
            return corrupt_region(layer, layer->entry.number, "keeps bytes beyond its length in the layer below",
                                  error);
        }
    }
}

/* The part of a run that begins at delta. A repeated run entered inside its piece gives the rest of that piece
 * first, as `from`; what follows begins at the piece's start again. */
static void clip(struct vv_run *run, uint64_t delta, uint64_t length) {
    if (run->kind == VV_RUN_REPEATED) {
        delta %= run->piece;
        uint64_t rest = run->piece - delta;
        if (delta || length <= run->piece) {
            length = rest < length ? rest : length;
            run->kind = VV_RUN_FROM;
            run->piece = 0;
        } else {
            delta = 0;
        }
    }
    for (uint32_t i = 0; i < run->place_count; i++)
        run->places[i].address += delta;
    run->length = length;
}

static int map_places(const struct vv_recipe *recipe, const struct vv_layer *layer, struct vv_run *run,
                      struct varve_error *error) {
    for (uint32_t i = 0; i < run->place_count; i++) {
        uint32_t dependency = run->places[i].dependency;
        run->places[i].dependency = layer->sources[dependency];
        if (run->places[i].dependency == VV_NO_SOURCE)
            return unnamed(recipe, layer, dependency, error);
    }
    return 0;
}

int vv_recipe_next_run(struct vv_recipe *recipe, struct vv_run *out, struct varve_error *error) {
    struct vv_layer *layer = NULL;
    uint64_t end = 0;
    if (recipe->offset >= recipe->length)
        return 0;
    int rc = find_run(recipe, &layer, &end, error);
    if (rc < 0)
        return rc;
    const struct vv_run *run = &layer->run;
    out->kind = run->kind == VV_RUN_HERE ? VV_RUN_FROM : run->kind;
    out->offset = recipe->offset;
    out->piece = run->piece;
    out->place_count = run->place_count;
    memcpy(out->places, run->places, run->place_count * sizeof run->places[0]);
    clip(out, recipe->offset - run->offset, end - recipe->offset);
    recipe->offset += out->length;
    rc = map_places(recipe, layer, out, error);
    return rc < 0 ? rc : 1;
}
