/* Two checkpoints of other numbers of ranks, or of which ranks hold other blocks: an array that both have as a whole is
 * compared by places in it, whichever ranks hold them. Other regions are compared rank by rank. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "inspect/diff_private.h"

/* ---- does any rank have another part? ---- */

/* The next region that is part of an array. */
static int next_part(struct vv_recipe *recipe, struct vv_recipe_region *out, struct varve_error *error) {
    int rc;
    do
        rc = vv_recipe_next_region(recipe, out, error);
    while (rc > 0 && out->shape.dims == 0);
    return rc;
}

static int is_same_part(const struct vv_recipe_region *a, const struct vv_recipe_region *b) {
    return a->shape.type == b->shape.type && a->shape.dims == b->shape.dims &&
           a->shape.distribution == b->shape.distribution &&
           memcmp(a->shape.dim, b->shape.dim, a->shape.dims * sizeof *a->shape.dim) == 0 &&
           strcmp(a->name, b->name) == 0;
}

/* 0 if this rank has the same parts in both, in the same order; 1 if not. */
static int has_other_parts(const struct vv_diff *diff, uint32_t rank, struct varve_error *error) {
    struct vv_recipe *recipe[2] = {NULL, NULL};
    struct vv_recipe_region part[2];
    int more[2] = {1, 1}, is_same = 1, rc = vv_recipe_open(diff->view[0], rank, &recipe[0], error);
    rc = rc ? rc : vv_recipe_open(diff->view[1], rank, &recipe[1], error);
    while (rc == 0 && is_same && more[0]) {
        for (int i = 0; i < 2 && rc == 0; i++) {
            more[i] = next_part(recipe[i], &part[i], error);
            rc = more[i] < 0 ? more[i] : 0;
        }
        is_same = rc == 0 && more[0] == more[1] && (!more[0] || is_same_part(&part[0], &part[1]));
    }
    vv_recipe_close(recipe[0]);
    vv_recipe_close(recipe[1]);
    return rc ? rc : !is_same;
}

static int is_elsewhere(struct vv_diff *diff, int i, uint32_t rank, struct varve_error *error) {
    return vv_inspect_is_elsewhere(diff->store[i], &diff->which[i], diff->view[i], rank, &diff->residents[i], error);
}

/* Could some array be in other blocks? 1, 0, or an error. Keeps nothing in memory. */
static int may_differ(struct vv_diff *diff, struct varve_error *error) {
    uint32_t ranks = vv_view_record(diff->view[0])->ranks;
    int rc = ranks != vv_view_record(diff->view[1])->ranks;
    for (uint32_t rank = 0; rank < ranks && rc == 0; rank++) {
        for (int i = 0; i < 2 && rc == 0; i++)
            rc = is_elsewhere(diff, i, rank, error);
        if (rc > 0)
            return 0; /* then nothing is known to be whole */
        rc = rc ? rc : has_other_parts(diff, rank, error);
    }
    return rc;
}

/* ---- arrays as a whole ---- */

/* 1 if some rank is on another node: then nothing is known to be whole. */
static int gather(struct vv_diff *diff, int i, struct varve_error *error) {
    uint32_t ranks = vv_view_record(diff->view[i])->ranks;
    int rc = 0;
    for (uint32_t rank = 0; rank < ranks && rc == 0; rank++) {
        rc = is_elsewhere(diff, i, rank, error);
        rc = rc ? rc : vv_global_arrays_add(&diff->arrays[i], diff->view[i], rank, NULL, error);
    }
    return rc ? rc : vv_global_arrays_check(&diff->arrays[i], 0, error);
}

/* 1 if there is something to compare, 0 if the ranks are to be compared one by one. What is on other nodes in part, or
 * damaged, or too many, is no reason to fail: the comparison of that rank leaves it out, or says why it cannot be. */
static int find_arrays(struct vv_diff *diff, struct varve_error *error) {
    int rc = may_differ(diff, error);
    if (rc <= 0 && rc != VARVE_CORRUPT)
        return rc;
    for (int i = 0; i < 2 && rc == 1; i++) {
        rc = gather(diff, i, error);
        rc = rc == 0 ? 1 : rc > 0 ? 0 : rc;
    }
    if (rc == VARVE_CORRUPT || rc == -E2BIG) {
        vv_error_clear(error);
        rc = 0;
    }
    if (rc == 0)
        vv_diff_arrays_clear(diff);
    return rc;
}

static int is_whole(const struct vv_global_array *global) {
    return !global->is_private && !global->is_ambiguous && global->missing == 0;
}

static int is_alike(const struct varve_array *a, const struct varve_array *b) {
    if (a->type != b->type || a->dims != b->dims)
        return 0;
    for (unsigned i = 0; i < a->dims; i++)
        if (a->dim[i].global != b->dim[i].global)
            return 0;
    return 1;
}

/* Do the same ranks hold the same blocks? Then they are compared rank by rank, which reads less. */
static int has_same_blocks(const struct vv_global_array *a, const struct vv_global_array *b) {
    if (a->count != b->count)
        return 0;
    for (size_t i = 0; i < a->count; i++)
        if (a->blocks[i].owner != b->blocks[i].owner)
            return 0;
    return memcmp(a->boxes, b->boxes, a->count * a->array.dims * sizeof *a->boxes) == 0;
}

/* Both in the same slabs, since they have the same sizes. */
static int compare_slabs(struct vv_diff *diff, struct vv_array_reading *readings, struct vv_diff_region *region,
                         struct varve_error *error) {
    struct vv_part slab;
    uint64_t total = vv_array_slab_first(&readings[0], &slab), done = 0;
    int rc = 0, more = total > 0;
    while (more && rc == 0) {
        uint64_t bytes = slab.dim[readings[0].dim].local * readings[0].inner;
        rc = vv_array_slab_read(&readings[0], &slab, error);
        rc = rc ? rc : vv_array_slab_read(&readings[1], &slab, error);
        if (rc == 0)
            vv_diff_elements(&region->rule, done / region->rule.element, readings[0].window, readings[1].window, bytes,
                             &region->tally);
        done += bytes;
        diff->result.bytes_compared += bytes;
        rc = rc ? rc : vv_diff_progress(diff, bytes, error);
        more = vv_array_slab_next(&readings[0], &slab);
    }
    return rc;
}

static int compare_array(struct vv_diff *diff, const struct vv_global_array *a, const struct vv_global_array *b,
                         struct varve_error *error) {
    uint64_t bytes = vv_array_bytes(&a->array);
    struct varve_difference told = {.region = a->name, .bytes_first = bytes, .bytes_second = bytes, .is_array = 1};
    struct vv_array_reading readings[2] = {{.view = diff->view[0], .global = a}, {.view = diff->view[1], .global = b}};
    struct vv_diff_region *region = vv_diff_queue(diff, &told);
    if (!region)
        return vv_error_sys(error, -ENOMEM, "cannot compare array \"%s\"", a->name);
    region->rule = (struct vv_diff_rule){.type = (uint8_t)a->array.type,
                                         .element = vv_type_size(a->array.type),
                                         .is_by_value = diff->options.is_by_value,
                                         .tolerance = diff->options.tolerance,
                                         .relative = diff->options.relative};
    int rc = vv_array_reading_open(&readings[0], diff->store[0], NULL, error);
    rc = rc ? rc : vv_array_reading_open(&readings[1], diff->store[1], NULL, error);
    rc = rc ? rc : compare_slabs(diff, readings, region, error);
    vv_array_reading_close(&readings[0]);
    vv_array_reading_close(&readings[1]);
    return rc < 0 ? rc : vv_diff_walked(diff, region, error);
}

int vv_diff_arrays(struct vv_diff *diff, struct varve_error *error) {
    int rc = diff->options.is_quick ? 0 : find_arrays(diff, error);
    if (rc <= 0)
        return rc;
    diff->is_compared = vv_calloc(diff->arrays[0].count + 1, 1);
    rc = diff->is_compared ? 0 : vv_error_sys(error, -ENOMEM, "cannot compare arrays");
    for (size_t i = 0; i < diff->arrays[0].count && rc == 0; i++) {
        const struct vv_global_array *a = &diff->arrays[0].list[i];
        const struct vv_global_array *b = vv_global_arrays_find(&diff->arrays[1], a->name);
        if (!b || !is_whole(a) || !is_whole(b) || !is_alike(&a->array, &b->array) || has_same_blocks(a, b))
            continue;
        diff->is_compared[i] = 1;
        rc = compare_array(diff, a, b, error);
    }
    return rc;
}

int vv_diff_is_compared(const struct vv_diff *diff, const struct vv_recipe_region *region) {
    const struct vv_global_array *found = NULL;
    if (diff->is_compared && region->shape.dims > 0) /* else it is no part of an array, whatever its name is */
        found = vv_global_arrays_find(&diff->arrays[0], region->name);
    return found && diff->is_compared[found - diff->arrays[0].list];
}

void vv_diff_arrays_clear(struct vv_diff *diff) {
    vv_global_arrays_clear(&diff->arrays[0]);
    vv_global_arrays_clear(&diff->arrays[1]);
    vv_free(diff->is_compared);
    diff->is_compared = NULL;
}
