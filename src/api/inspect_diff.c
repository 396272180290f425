/* Comparing two checkpoints. Digests tell which regions differ; how much of a region differs is found from its runs:
 * the same place, or the same stored id, is the same data. Nothing is read but manifests and ids, so what cannot be
 * told apart that way counts as changed.
 *
 * Both manifests list regions by number, and numbers mostly agree, so both are walked in step; only where they do
 * not is the second one opened again. */
#include "inspect_private.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum what { SAME, CHANGED, ONLY_FIRST, ONLY_SECOND, SIZE_DIFFERS };

/* A region of one side, as little of it as the comparison needs. */
struct side_region {
    char *name;
    uint64_t number;
    uint64_t length;
    struct vv_hash128 digest;
    struct side_region *twin; /* of the same name on the other side */
};
struct side {
    struct vv_view *view;
    uint32_t rank;
    struct side_region *list; /* by number */
    struct side_region **by_name;
    size_t count;
    size_t room;
    struct vv_recipe *recipe; /* stands behind region `at` */
    int has_region;
    struct vv_recipe_region at;
};

static void clear_side(struct side *side) {
    for (size_t i = 0; i < side->count; i++) {
        vv_free(side->list[i].name);
    }
    vv_free(side->list);
    vv_free(side->by_name);
    vv_recipe_close(side->recipe);
}

static int add_region(struct side *side, const struct vv_recipe_region *region) {
    if (side->count == side->room) {
        size_t room = side->room ? side->room * 2 : 32;
        struct side_region *list = vv_realloc(side->list, room * sizeof *list);
        if (!list) {
            return -ENOMEM;
        }
        side->list = list;
        side->room = room;
    }
    char *name = vv_strdup(region->name);
    if (!name) {
        return -ENOMEM;
    }
    side->list[side->count++] = (struct side_region){
        .name = name, .number = region->number, .length = region->length, .digest = region->digest};
    return 0;
}

static int compare_names(const void *a, const void *b) {
    return strcmp((*(struct side_region *const *)a)->name, (*(struct side_region *const *)b)->name);
}

static int sort_names(struct side *side) {
    side->by_name = vv_calloc(side->count + 1, sizeof *side->by_name);
    if (!side->by_name) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < side->count; i++) {
        side->by_name[i] = &side->list[i];
    }
    qsort(side->by_name, side->count, sizeof *side->by_name, compare_names);
    return 0;
}

/* The regions of this rank; none if the checkpoint has no such rank. */
static int load_side(struct side *side, struct varve_error *error) {
    struct vv_recipe *recipe = NULL;
    struct vv_recipe_region region;
    int rc = 0;

    if (side->rank < vv_view_record(side->view)->ranks) {
        rc = vv_recipe_open(side->view, side->rank, &recipe, error);
        while (rc == 0 && (rc = vv_recipe_next_region(recipe, &region, error)) > 0) {
            rc = add_region(side, &region);
        }
        vv_recipe_close(recipe);
    }
    return rc < 0 ? rc : sort_names(side);
}

static void find_twins(struct side *first, struct side *second) {
    size_t i = 0;
    size_t j = 0;

    while (i < first->count && j < second->count) {
        int order = strcmp(first->by_name[i]->name, second->by_name[j]->name);
        if (order == 0) {
            first->by_name[i]->twin = second->by_name[j];
            second->by_name[j]->twin = first->by_name[i];
        }
        i += order <= 0;
        j += order >= 0;
    }
}

/* Put the side's recipe before the first run of a region. */
static int seek_region(struct side *side, uint64_t number, struct varve_error *error) {
    int rc = 0;

    if (side->recipe && side->has_region && side->at.number >= number) {
        vv_recipe_close(side->recipe);
        side->recipe = NULL;
    }
    if (!side->recipe) {
        rc = vv_recipe_open(side->view, side->rank, &side->recipe, error);
        side->has_region = 0;
    }
    while (rc == 0) {
        rc = vv_recipe_next_region(side->recipe, &side->at, error);
        if (rc == 0) {
            return vv_error(error, VARVE_CORRUPT, "region %" PRIu64 " of rank %" PRIu32 " is gone from its manifest",
                            number, side->rank);
        }
        if (rc > 0) {
            side->has_region = 1;
            rc = 0;
            if (side->at.number == number) {
                return 0;
            }
        }
    }
    return rc;
}

/* ---- runs ---- */

/* Where the bytes of a run at an offset of the region lie; for a repeated run, where its piece does. */
static struct vv_place place_at(const struct vv_run *run, uint64_t offset) {
    struct vv_place place = run->places[0];
    place.address += run->kind == VV_RUN_REPEATED ? 0 : offset - run->offset;
    return place;
}

static int is_same_place(const struct side *first, const struct vv_run *a, const struct side *second,
                         const struct vv_run *b, uint64_t offset) {
    if (a->kind == VV_RUN_ZERO || b->kind == VV_RUN_ZERO) {
        return a->kind == b->kind;
    }
    int is_repeated = a->kind == VV_RUN_REPEATED;
    if (is_repeated != (b->kind == VV_RUN_REPEATED)) {
        return 0;
    }
    if (is_repeated && (a->piece != b->piece || a->offset % a->piece != b->offset % b->piece)) {
        return 0;
    }
    struct vv_place left = place_at(a, offset);
    struct vv_place right = place_at(b, offset);
    return left.owner == right.owner && left.address == right.address &&
           vv_attempt_compare(vv_view_source(first->view, left.lean), vv_view_source(second->view, right.lean)) == 0;
}

static int has_plain_place(const struct vv_run *run) {
    return run->kind == VV_RUN_FROM || run->kind == VV_RUN_FROM_ANY;
}

/* 1 if both sides store the granule under the same id, 0 if that is not known. */
static int is_same_id(struct side *first, const struct vv_run *a, struct side *second, const struct vv_run *b,
                      uint64_t offset, uint64_t length, struct varve_error *error) {
    struct vv_hash128 left;
    struct vv_hash128 right;
    struct vv_place place = place_at(a, offset);

    int rc = vv_view_id(first->view, &place, length, &left, error);
    if (rc > 0) {
        place = place_at(b, offset);
        rc = vv_view_id(second->view, &place, length, &right, error);
    }
    return rc > 0 ? vv_hash128_equal(left, right) : rc;
}

/* Counts granules that differ, each once, also when several pieces of it do. */
struct granule_count {
    uint64_t length; /* of the region's common part */
    uint64_t end;    /* everything before is counted */
    uint64_t bytes;
};

static void count_changed(struct granule_count *count, uint64_t offset, uint64_t length) {
    uint64_t begin = offset - offset % VV_GRANULE;
    uint64_t end = vv_granules(offset + length) * VV_GRANULE;

    begin = begin > count->end ? begin : count->end;
    end = end < count->length ? end : count->length;
    if (end > begin) {
        count->bytes += end - begin;
        count->end = end;
    }
}

/* A piece both sides have as one run: granule by granule where ids can help. */
static int compare_piece(struct side *first, const struct vv_run *a, struct side *second, const struct vv_run *b,
                         uint64_t offset, uint64_t length, struct granule_count *count, struct varve_error *error) {
    if (is_same_place(first, a, second, b, offset)) {
        return 0;
    }
    if (!has_plain_place(a) || !has_plain_place(b)) {
        count_changed(count, offset, length);
        return 0;
    }
    while (length) {
        uint64_t step = VV_GRANULE - offset % VV_GRANULE;
        step = step < length ? step : length;
        int is_whole = offset % VV_GRANULE == 0 && (step == VV_GRANULE || offset + step == count->length);
        int rc = is_whole ? is_same_id(first, a, second, b, offset, step, error) : 0;
        if (rc < 0) {
            return rc;
        }
        if (rc == 0) {
            count_changed(count, offset, step);
        }
        offset += step;
        length -= step;
    }
    return 0;
}

/* The next run if the one at hand ends at or before offset. */
static int run_at(struct side *side, struct vv_run *run, uint64_t offset, struct varve_error *error) {
    while (run->offset + run->length <= offset) {
        int rc = vv_recipe_next_run(side->recipe, run, error);
        if (rc <= 0) {
            return rc < 0 ? rc
                          : vv_error(error, VARVE_CORRUPT, "the runs of region \"%s\" end too early", side->at.name);
        }
    }
    return 0;
}

/* Both recipes stand before the first run. */
static int compare_runs(struct side *first, struct side *second, uint64_t common, uint64_t *changed_out,
                        struct varve_error *error) {
    struct granule_count count = {.length = common};
    struct vv_run a = {0};
    struct vv_run b = {0};
    int rc = 0;

    for (uint64_t offset = 0; rc == 0 && offset < common;) {
        rc = run_at(first, &a, offset, error);
        rc = rc < 0 ? rc : run_at(second, &b, offset, error);
        if (rc < 0) {
            break;
        }
        uint64_t a_end = a.offset + a.length;
        uint64_t b_end = b.offset + b.length;
        uint64_t end = a_end < b_end ? a_end : b_end;
        end = end < common ? end : common;
        rc = compare_piece(first, &a, second, &b, offset, end - offset, &count, error);
        offset = end;
    }
    *changed_out = count.bytes;
    return rc;
}

/* ---- regions ---- */

static int compare_twins(struct side *first, const struct side_region *a, struct side *second,
                         const struct side_region *b, struct varve_difference *out, struct varve_error *error) {
    uint64_t common = a->length < b->length ? a->length : b->length;
    uint64_t more = (a->length > b->length ? a->length : b->length) - common;
    uint64_t changed = 0;

    out->bytes_first = a->length;
    out->bytes_second = b->length;
    if (more == 0 && vv_hash128_equal(a->digest, b->digest)) {
        out->what = SAME;
        return 0;
    }
    int rc = seek_region(first, a->number, error);
    rc = rc < 0 ? rc : seek_region(second, b->number, error);
    rc = rc < 0 ? rc : compare_runs(first, second, common, &changed, error);
    out->what = more ? SIZE_DIFFERS : CHANGED;
    out->bytes_changed = changed + more;
    return rc;
}

struct report {
    varve_difference_fn fn;
    void *arg;
    int differing;
};

static int tell(struct report *report, const struct varve_difference *difference) {
    report->differing += difference->what != SAME && report->differing < INT_MAX;
    return report->fn ? report->fn(report->arg, difference) : 0;
}

static int compare_sides(struct side *first, struct side *second, struct report *report, struct varve_error *error) {
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < first->count; i++) {
        const struct side_region *a = &first->list[i];
        struct varve_difference difference = {
            .rank = first->rank,
            .region = a->name,
            .what = ONLY_FIRST,
            .bytes_first = a->length,
            .bytes_changed = a->length,
        };
        if (a->twin) {
            difference.bytes_changed = 0;
            rc = compare_twins(first, a, second, a->twin, &difference, error);
        }
        rc = rc < 0 ? rc : tell(report, &difference);
    }
    for (size_t i = 0; rc == 0 && i < second->count; i++) {
        const struct side_region *b = &second->list[i];
        struct varve_difference difference = {
            .rank = second->rank,
            .region = b->name,
            .what = ONLY_SECOND,
            .bytes_second = b->length,
            .bytes_changed = b->length,
        };
        rc = b->twin ? 0 : tell(report, &difference);
    }
    return rc;
}

static int compare_rank(struct vv_view *first_view, struct vv_view *second_view, uint32_t rank, struct report *report,
                        struct varve_error *error) {
    struct side first = {.view = first_view, .rank = rank};
    struct side second = {.view = second_view, .rank = rank};

    int rc = load_side(&first, error);
    rc = rc < 0 ? rc : load_side(&second, error);
    if (rc == 0) {
        find_twins(&first, &second);
        rc = compare_sides(&first, &second, report, error);
    }
    clear_side(&first);
    clear_side(&second);
    return rc;
}

/* One of the two is on another node, or a part of it: there is nothing to compare it with. */
static int is_left_out(struct varve_store *store, const struct varve_which *which, struct vv_view **views, uint32_t rank,
                       struct vv_residents **residents, struct varve_error *error) {
    int rc = 0;
    for (int i = 0; i < 2 && rc == 0; i++) {
        if (rank < vv_view_record(views[i])->ranks) {
            rc = vv_inspect_is_elsewhere(store, &which[i], views[i], rank, &residents[i], error);
            rc = rc != 0 ? rc : vv_owner_needs_others(residents[i], views[i], rank, error);
        }
    }
    return rc;
}

int varve_store_diff(struct varve_store *store, const struct varve_which *first, const struct varve_which *second,
                     varve_difference_fn fn, void *arg, struct varve_error *error) {
    struct report report = {.fn = fn, .arg = arg};
    struct varve_which which[2];
    struct vv_view *views[2] = {NULL, NULL};
    struct vv_residents *residents[2] = {NULL, NULL};
    struct vv_left_out left_out = {0};

    vv_error_clear(error);
    if (!first || !second) {
        return vv_error(error, -EINVAL, "two checkpoints are needed to compare");
    }
    which[0] = *first;
    which[1] = *second;
    int rc = vv_inspect_open_view(store, &which[0], &views[0], error);
    rc = rc < 0 ? rc : vv_inspect_open_view(store, &which[1], &views[1], error);
    if (rc == 0) {
        uint32_t a = vv_view_record(views[0])->ranks;
        uint32_t b = vv_view_record(views[1])->ranks;
        for (uint32_t rank = 0; rc == 0 && rank < (a > b ? a : b); rank++) {
            rc = is_left_out(store, which, views, rank, residents, error);
            if (rc > 0) {
                vv_inspect_leave_out(&left_out, rank);
                rc = 0;
            } else if (rc == 0) {
                rc = compare_rank(views[0], views[1], rank, &report, error);
            }
        }
        vv_inspect_tell_left_out(store, &which[1], &left_out);
    }
    vv_residents_destroy(residents[0]);
    vv_residents_destroy(residents[1]);
    vv_view_close(views[0]);
    vv_view_close(views[1]);
    return rc < 0 ? vv_error_default(error, rc, "cannot compare %s@%" PRId64 " with %s@%" PRId64 ": %s", which[0].name,
                                     which[0].version, which[1].name, which[1].version, varve_error_text(rc))
                  : report.differing;
}
