/* The regions of a rank in both checkpoints, and which belong together.
 *
 * Both manifests list regions by number, and mostly in the same order, so both are walked in step. Where names do not
 * agree any more, the rest of both is listed and matched by name (diff_order.c). */
#include "inspect/diff_private.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "format/attributes.h"

/* ---- one region ---- */

int vv_diff_alone(struct vv_diff *diff, uint32_t rank, int i, const char *name, uint64_t length,
                  struct varve_error *error) {
    struct varve_difference told = {.rank = rank,
                                    .region = name,
                                    .what = i == 0 ? VV_ONLY_FIRST : VV_ONLY_SECOND,
                                    .bytes_first = i == 0 ? length : 0,
                                    .bytes_second = i == 0 ? 0 : length,
                                    .bytes_changed = length};
    struct vv_diff_region *region = vv_diff_queue(diff, &told);
    int rc = region ? vv_diff_progress(diff, length, error)
                    : vv_error_sys(error, -ENOMEM, "cannot compare region \"%s\"", name);
    return rc < 0 ? rc : vv_diff_walked(diff, region, error);
}

int vv_diff_is_same(const struct vv_diff *diff, const struct vv_diff_listed *a, const struct vv_diff_listed *b) {
    return diff->has_digests && a->length == b->length && vv_hash128_equal(a->digest, b->digest);
}

static struct vv_diff_region *queue_twins(struct vv_diff *diff, uint32_t rank, const struct vv_diff_listed *a,
                                          const struct vv_diff_listed *b) {
    uint64_t common = a->length < b->length ? a->length : b->length;
    struct varve_difference told = {.rank = rank,
                                    .region = a->name,
                                    .bytes_first = a->length,
                                    .bytes_second = b->length,
                                    .bytes_changed = (a->length > b->length ? a->length : b->length) - common};
    struct vv_diff_region *region = vv_diff_queue(diff, &told);

    if (region) {
        int is_typed = !diff->options.is_quick && a->type == b->type && vv_type_size(a->type) != 0;
        region->rule = (struct vv_diff_rule){.type = is_typed ? a->type : VARVE_BYTES,
                                             .element = is_typed ? vv_type_size(a->type) : 1,
                                             .is_by_value = diff->options.is_by_value,
                                             .tolerance = diff->options.tolerance,
                                             .relative = diff->options.relative};
        region->are_digests_different = diff->has_digests && a->length == b->length && !vv_diff_is_same(diff, a, b);
    }
    return region;
}

int vv_diff_twins(struct vv_diff *diff, struct vv_diff_side *sides, const struct vv_diff_listed *a,
                  const struct vv_diff_listed *b, struct varve_error *error) {
    struct vv_diff_region *region = queue_twins(diff, sides[0].rank, a, b);
    uint64_t common = a->length < b->length ? a->length : b->length;
    int rc;

    if (!region)
        return vv_error_sys(error, -ENOMEM, "cannot compare region \"%s\"", a->name);
    if (vv_diff_is_same(diff, a, b)) {
        diff->result.bytes_digest += common;
        rc = vv_diff_progress(diff, common, error);
    } else {
        rc = vv_diff_runs(diff, sides, common, region, error);
    }
    return rc < 0 ? rc : vv_diff_walked(diff, region, error);
}

/* ---- both sides in step ---- */

int vv_diff_next_region(struct vv_diff_side *side, struct varve_error *error) {
    int rc = 0;
    if (!side->recipe && side->rank < vv_view_record(side->view)->ranks)
        rc = vv_recipe_open(side->view, side->rank, &side->recipe, error);
    do
        rc = rc >= 0 && side->recipe ? vv_recipe_next_region(side->recipe, &side->at, error) : rc;
    while (rc > 0 && (vv_is_about(side->at.name) || vv_diff_is_compared(side->diff, &side->at)));
    side->has_region = rc > 0;
    return rc < 0 ? rc : 0;
}

static int both_next(struct vv_diff_side *sides, struct varve_error *error) {
    int rc = vv_diff_next_region(&sides[0], error);
    return rc < 0 ? rc : vv_diff_next_region(&sides[1], error);
}

struct vv_diff_listed vv_diff_listed(struct vv_recipe_region *region) {
    return (struct vv_diff_listed){.name = region->name,
                                   .number = region->number,
                                   .length = region->length,
                                   .type = region->shape.type,
                                   .digest = region->digest};
}

/* Until names differ or a side ends. */
static int compare_in_step(struct vv_diff *diff, struct vv_diff_side *sides, struct varve_error *error) {
    int rc = both_next(sides, error);

    while (rc == 0 && sides[0].has_region && sides[1].has_region && strcmp(sides[0].at.name, sides[1].at.name) == 0) {
        struct vv_diff_listed a = vv_diff_listed(&sides[0].at);
        struct vv_diff_listed b = vv_diff_listed(&sides[1].at);
        rc = vv_diff_twins(diff, sides, &a, &b, error);
        rc = rc < 0 ? rc : both_next(sides, error);
    }
    return rc;
}

/* ---- the rest ---- */

static int compare_rest(struct vv_diff *diff, struct vv_diff_side *sides, struct varve_error *error) {
    int rc = 0;

    if (sides[0].has_region && sides[1].has_region)
        return vv_diff_by_name(diff, sides, error);
    for (int i = 0; i < 2; i++) {
        while (rc == 0 && sides[i].has_region) {
            rc = vv_diff_alone(diff, sides[i].rank, i, sides[i].at.name, sides[i].at.length, error);
            rc = rc < 0 ? rc : vv_diff_next_region(&sides[i], error);
        }
    }
    return rc;
}

int vv_diff_rank(struct vv_diff *diff, uint32_t rank, struct varve_error *error) {
    struct vv_diff_side *sides = vv_calloc(2, sizeof *sides);

    if (!sides)
        return vv_error_sys(error, -ENOMEM, "cannot compare rank %" PRIu32, rank);
    for (int i = 0; i < 2; i++) {
        sides[i].diff = diff;
        sides[i].view = diff->view[i];
        sides[i].rank = rank;
    }
    int rc = compare_in_step(diff, sides, error);
    rc = rc < 0 ? rc : compare_rest(diff, sides, error);
    vv_recipe_close(sides[0].recipe);
    vv_recipe_close(sides[1].recipe);
    vv_free(sides);
    return rc;
}
