#include "arrays/global_array.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrays/once.h"
#include "base/alloc.h"
#include "base/hash.h"

static void tell(struct vv_global_array *global, const char *text) {
    vv_free(global->problem);
    global->problem = vv_strdup(text); /* without memory there is none, and it counts all the same */
}

static void blame(struct vv_global_array *global, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void blame(struct vv_global_array *global, const char *format, ...) {
    char text[256];
    va_list args;
    if (global->is_ambiguous)
        return; /* the first one is told */
    global->is_ambiguous = 1;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tell(global, text);
}

/* ---- what the owners hold ---- */

/* Where the name is in the index, or belongs. */
static uint32_t *index_of(const struct vv_global_arrays *arrays, const char *name) {
    size_t at = vv_sum64(name, strlen(name)) & (arrays->index_size - 1);
    while (arrays->index[at] && strcmp(arrays->list[arrays->index[at] - 1].name, name) != 0)
        at = (at + 1) & (arrays->index_size - 1);
    return &arrays->index[at];
}

const struct vv_global_array *vv_global_arrays_find(const struct vv_global_arrays *arrays, const char *name) {
    uint32_t found = arrays->index ? *index_of(arrays, name) : 0;
    return found ? &arrays->list[found - 1] : NULL;
}

/* Half of it stays free. */
static int grow_index(struct vv_global_arrays *arrays) {
    if (arrays->count * 2 < arrays->index_size)
        return 0;
    size_t size = arrays->index_size ? arrays->index_size * 2 : 64;
    uint32_t *index = vv_calloc(size, sizeof *index);
    if (!index)
        return -ENOMEM;
    vv_free(arrays->index);
    arrays->index = index;
    arrays->index_size = size;
    for (size_t i = 0; i < arrays->count; i++)
        *index_of(arrays, arrays->list[i].name) = (uint32_t)i + 1;
    return 0;
}

static struct vv_global_array *add_array(struct vv_global_arrays *arrays, const char *name,
                                         const struct varve_array *block) {
    if (grow_index(arrays) != 0 || VV_GROW(arrays->list, arrays->count, arrays->capacity) != 0)
        return NULL;
    uint32_t *entry = index_of(arrays, name);
    struct vv_global_array *global = &arrays->list[arrays->count++];
    *entry = (uint32_t)arrays->count;
    *global = (struct vv_global_array){.array = *block};
    snprintf(global->name, sizeof global->name, "%s", name);
    for (unsigned i = 0; i < block->dims; i++) {
        uint64_t size = block->dim[i].global;
        global->array.dim[i] = (struct varve_dim){.local = size, .first = 0, .global = size};
        global->array.stride[i] = (struct varve_stride){0, 0};
    }
    return global;
}

static int is_same_array(const struct vv_global_array *global, const struct varve_array *block) {
    if (global->array.type != block->type || global->array.dims != block->dims)
        return 0;
    for (unsigned i = 0; i < block->dims; i++)
        if (global->array.dim[i].global != block->dim[i].global)
            return 0;
    return 1;
}

static int is_all_of_it(const struct varve_array *block) {
    for (unsigned i = 0; i < block->dims; i++)
        if (block->dim[i].first != 0 || block->dim[i].local != block->dim[i].global)
            return 0;
    return 1;
}

/* What says something else than the array is not looked at any more, but has its place. */
static void add_box(struct vv_global_array *global, const struct varve_array *block) {
    struct vv_part_dim *box = global->boxes + global->count * global->array.dims;
    struct vv_part part;
    vv_part_of_array(block, &part);
    for (unsigned i = 0; i < global->array.dims; i++)
        box[i] = i < block->dims ? part.dim[i] : (struct vv_part_dim){0, 0, 1, 1};
}

void vv_array_block_part(const struct vv_global_array *global, size_t block, struct vv_part *out) {
    *out = (struct vv_part){.element = vv_type_size(global->array.type), .dims = global->array.dims};
    memcpy(out->dim, global->boxes + block * global->array.dims, out->dims * sizeof *out->dim);
}

static int has_room(struct vv_global_array *global) {
    if (VV_GROW_FROM(global->blocks, global->count, global->capacity, 2) != 0)
        return 0;
    return vv_grow(&global->boxes, &global->box_capacity, global->count, global->array.dims * sizeof *global->boxes,
                   2) == 0;
}

/* A part of a list has its place behind those of the owners before, whatever its dimensions say. */
static void append_part(struct vv_global_array *global, struct varve_array *block) {
    struct varve_dim *whole = &global->array.dim[0], *part = &block->dim[0];
    uint64_t end;
    if (global->count == 0)
        *whole = (struct varve_dim){0, 0, 0};
    part->first = whole->global;
    if (__builtin_add_overflow(whole->global, part->local, &end))
        blame(global, "it would have more elements than an array can have");
    else
        *whole = (struct varve_dim){end, 0, end};
    part->global = whole->global;
    memset(block->stride, 0, sizeof block->stride);
}

int vv_global_arrays_describe(struct vv_global_arrays *arrays, uint32_t owner, const struct vv_recipe_region *region,
                              struct varve_error *error) {
    struct varve_error why = {0};
    struct varve_array block;
    vv_array_of(&region->shape, &block);
    for (unsigned i = 0; i < block.dims; i++)
        block.dim[i].global = block.dim[i].global ? block.dim[i].global : block.dim[i].local;
    uint32_t known = arrays->index ? *index_of(arrays, region->name) : 0;
    if (!known && arrays->count == VV_ARRAYS_MOST)
        return vv_error(error, -E2BIG, "there are more than %u arrays", VV_ARRAYS_MOST);
    struct vv_global_array *global = known ? &arrays->list[known - 1] : add_array(arrays, region->name, &block);
    if (!global || !has_room(global))
        return vv_error(error, -ENOMEM, "no memory for the arrays of a checkpoint");
    global->joined += region->shape.distribution == VARVE_JOINED;
    if (region->shape.distribution == VARVE_JOINED && global->array.dims == block.dims)
        append_part(global, &block);
    if (vv_array_check(&block, region->name, &why) != 0 || vv_array_bytes(&block) != region->length)
        blame(global, "what rank %u has stored is not the array that it says", owner);
    else if (vv_array_check(&global->array, region->name, &why) != 0)
        blame(global, "it would have more bytes than an array can have");
    else if (!is_same_array(global, &block) && global->uneven == 0)
        global->uneven = owner + 1;
    global->wholes += (size_t)is_all_of_it(&block);
    add_box(global, &block);
    global->blocks[global->count++] = (struct vv_array_block){.owner = owner, .digest = region->digest};
    return 0;
}

int vv_global_arrays_add(struct vv_global_arrays *arrays, struct vv_view *view, uint32_t owner, const char *name,
                         struct varve_error *error) {
    struct vv_recipe *recipe = NULL;
    struct vv_recipe_region region;
    int rc = vv_recipe_open(view, owner, &recipe, error);
    while (rc == 0 && (rc = vv_recipe_next_region(recipe, &region, error)) > 0) {
        int is_wanted = region.shape.dims > 0 && (!name || strcmp(region.name, name) == 0);
        rc = is_wanted ? vv_global_arrays_describe(arrays, owner, &region, error) : 0;
    }
    vv_recipe_close(recipe);
    return rc;
}

void vv_global_arrays_clear(struct vv_global_arrays *arrays) {
    for (size_t i = 0; i < arrays->count; i++) {
        vv_free(arrays->list[i].blocks);
        vv_free(arrays->list[i].boxes);
        vv_free(arrays->list[i].problem);
    }
    vv_free(arrays->index);
    vv_free(arrays->list);
    *arrays = (struct vv_global_arrays){0};
}

/* ---- is every element there, once? ---- */

/* The blocks of one array, while they are compared. */
struct comparing {
    struct vv_global_array *global;
    struct vv_owned *owned;       /* each block */
    const struct vv_part **parts; /* of those that count */
    size_t count;
};

static void blame_twice(struct vv_global_array *global, const struct vv_twice *twice) {
    char indices[VV_BOX_TEXT];
    blame(global, "ranks %u and %u have %s %s; a restart on other ranks refuses it", twice->owner[0], twice->owner[1],
          twice->is_other ? "stored different bytes of" : "both stored", vv_box_text(&twice->box, indices));
}

/* Are they blocks of one array? */
static int can_compare(struct vv_global_array *global) {
    if (global->joined > 0 && global->joined < global->count)
        blame(global, "some ranks have stored it as part of a list, and others not");
    if (global->is_ambiguous)
        return 0;
    if (global->uneven && global->wholes == global->count)
        global->is_private = 1; /* as lists are, of which each rank has some */
    else if (global->uneven)
        blame(global, "ranks %u and %u have stored blocks of arrays of different sizes or types",
              global->blocks[0].owner, global->uneven - 1);
    return !global->uneven;
}

/* 0 or -ENOMEM. */
static int compare_blocks(struct comparing *comparing) {
    struct vv_global_array *global = comparing->global;
    struct vv_twice twice;
    if (!can_compare(global))
        return 0;
    for (size_t i = 0; i < global->count; i++) {
        const struct vv_array_block *block = &global->blocks[i];
        comparing->owned[i] = (struct vv_owned){.digest = block->digest, .owner = block->owner, .number = i};
        vv_array_block_part(global, i, &comparing->owned[i].part);
    }
    int rc = vv_parts_once(comparing->owned, global->count, comparing->parts, &comparing->count, &twice);
    for (size_t i = 0; i < global->count; i++)
        global->blocks[comparing->owned[i].number].is_again = comparing->owned[i].is_again;
    if (rc == -E2BIG)
        blame(global, "its %zu blocks lie so that they cannot be compared in a reasonable time", comparing->count);
    else if (rc > 0 && twice.is_other && global->wholes == global->count)
        global->is_private = 1;
    else if (rc > 0)
        blame_twice(global, &twice);
    return rc == -ENOMEM ? rc : 0;
}

static void tell_hole(struct vv_global_array *global, const struct vv_box *box) {
    char out[256], indices[VV_BOX_TEXT];
    snprintf(out, sizeof out, "%" PRIu64 " of its elements are stored by no rank%s%s%s", global->missing,
             global->has_others ? " on this node" : "", box ? "; the first are " : "",
             box ? vv_box_text(box, indices) : "");
    tell(global, out);
}

static int check_array(struct comparing *comparing) {
    struct vv_global_array *global = comparing->global;
    struct vv_part whole;
    struct vv_box box;
    uint64_t found = 0;
    vv_part_of_array(&global->array, &whole);
    int rc = compare_blocks(comparing);
    if (rc < 0 || global->is_ambiguous || global->is_private)
        return rc;
    for (size_t i = 0; i < comparing->count; i++)
        found += vv_part_elements(comparing->parts[i]);
    global->missing = vv_part_elements(&whole) - found;
    if (global->missing == 0)
        return 0;
    rc = vv_parts_hole(&whole, comparing->parts, comparing->count, &box);
    if (rc == -ENOMEM)
        return rc;
    tell_hole(global, rc > 0 ? &box : NULL);
    return 0;
}

int vv_global_arrays_check(struct vv_global_arrays *arrays, int has_others, struct varve_error *error) {
    int rc = 0;
    for (size_t i = 0; i < arrays->count && rc == 0; i++) {
        struct vv_global_array *global = &arrays->list[i];
        if (global->is_ambiguous)
            continue;
        global->has_others = has_others;
        struct comparing comparing = {.global = global,
                                      .owned = vv_calloc(global->count + 1, sizeof(struct vv_owned)),
                                      .parts = vv_calloc(global->count + 1, sizeof(const struct vv_part *))};
        rc = comparing.owned && comparing.parts ? check_array(&comparing) : -ENOMEM;
        vv_free(comparing.parts);
        vv_free(comparing.owned);
        if (has_others && !global->is_private && global->missing == 0) /* there may be more, and others */
            blame(global, "some ranks are not on this node, so it is not known whether it is whole");
    }
    return rc ? vv_error(error, rc, "no memory to compare the blocks of arrays") : 0;
}
