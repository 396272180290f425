/* Regions that the two checkpoints do not have in the same order: the rest of a rank is listed on both sides and
 * matched by name. As long as twins come in ascending order on both sides, both manifests are walked once. Those that
 * do not are left for later: then the runs of as many of them as fit into KEPT_MAX are kept in memory from one pass
 * over the second manifest, and compared in one pass over the first. */
#include "inspect/diff_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"

#define KEPT_MAX ((size_t)32 << 20)

struct listing {
    struct vv_diff_listed *list; /* by number */
    struct vv_diff_listed **by_name;
    size_t count;
    size_t capacity;
};

static void clear_listing(struct listing *listing) {
    for (size_t i = 0; i < listing->count; i++)
        vv_free(listing->list[i].name);
    vv_free(listing->list);
    vv_free(listing->by_name);
}

static int list_region(struct listing *listing, const struct vv_diff_listed *region) {
    if (VV_GROW(listing->list, listing->count, listing->capacity) != 0)
        return -ENOMEM;
    char *name = vv_strdup(region->name);
    if (!name)
        return -ENOMEM;
    listing->list[listing->count] = *region;
    listing->list[listing->count++].name = name;
    return 0;
}

static int compare_names(const void *a, const void *b) {
    return strcmp((*(struct vv_diff_listed *const *)a)->name, (*(struct vv_diff_listed *const *)b)->name);
}

/* The region at hand and all behind it. */
static int list_rest(struct vv_diff_side *side, struct listing *listing, struct varve_error *error) {
    int rc = 0;

    while (rc == 0 && side->has_region) {
        struct vv_diff_listed region = vv_diff_listed(&side->at);
        rc = list_region(listing, &region);
        rc = rc < 0 ? vv_error_sys(error, rc, "cannot list the regions of rank %" PRIu32, side->rank)
                    : vv_diff_next_region(side, error);
    }
    listing->by_name = rc < 0 ? NULL : vv_calloc(listing->count + 1, sizeof *listing->by_name);
    if (!listing->by_name)
        return rc < 0 ? rc : vv_error_sys(error, -ENOMEM, "cannot list the regions of rank %" PRIu32, side->rank);
    for (size_t i = 0; i < listing->count; i++)
        listing->by_name[i] = &listing->list[i];
    qsort(listing->by_name, listing->count, sizeof *listing->by_name, compare_names);
    vv_recipe_close(side->recipe);
    side->recipe = NULL;
    return 0;
}

static void find_twins(struct listing *first, struct listing *second) {
    size_t i = 0;
    size_t k = 0;

    while (i < first->count && k < second->count) {
        int order = strcmp(first->by_name[i]->name, second->by_name[k]->name);
        if (order == 0) {
            first->by_name[i]->twin = second->by_name[k];
            second->by_name[k]->twin = first->by_name[i];
        }
        i += order <= 0;
        k += order >= 0;
    }
}

/* Let the side stand at this region. */
static int seek_region(struct vv_diff_side *side, uint64_t number, struct varve_error *error) {
    int rc = 0;

    if (side->recipe && side->has_region && side->at.number >= number) {
        vv_recipe_close(side->recipe);
        side->recipe = NULL;
    }
    do {
        rc = vv_diff_next_region(side, error);
    } while (rc == 0 && side->has_region && side->at.number < number);
    if (rc == 0 && (!side->has_region || side->at.number != number)) {
        rc = vv_error(error, VARVE_CORRUPT, "region %" PRIu64 " of rank %" PRIu32 " is gone from its manifest", number,
                      side->rank);
    }
    return rc;
}

/* ---- what is left for later ---- */

static int compare_here(struct vv_diff *diff, struct vv_diff_side *sides, const struct vv_diff_listed *a,
                        struct varve_error *error) {
    int rc = seek_region(&sides[0], a->number, error);
    rc = rc < 0 ? rc : seek_region(&sides[1], a->twin->number, error);
    return rc < 0 ? rc : vv_diff_twins(diff, sides, a, a->twin, error);
}

/* The runs of the region that the side stands at. 1, or 0 if they do not fit. */
static int keep_runs(struct vv_diff_side *side, struct vv_buf *kept, struct varve_error *error) {
    size_t before = kept->size;
    struct vv_run run;
    int rc;

    while ((rc = vv_recipe_next_run(side->recipe, &run, error)) > 0) {
        vv_buf_append(kept, &run, offsetof(struct vv_run, places));
        vv_buf_append(kept, run.places, run.place_count * sizeof run.places[0]);
        if (kept->failed)
            return vv_error_sys(error, -ENOMEM, "cannot keep the runs of region \"%s\"", side->at.name);
        if (kept->size > KEPT_MAX) {
            kept->size = before;
            return 0;
        }
    }
    return rc < 0 ? rc : 1;
}

/* From the second side, in its order, as much as fits. A region with more runs than ever fit is left to be compared by
 * itself. */
static int keep_some(struct vv_diff_side *side, struct listing *second, struct vv_buf *kept,
                     struct varve_error *error) {
    int rc = 1;

    kept->size = 0;
    for (size_t i = 0; rc > 0 && i < second->count; i++) {
        struct vv_diff_listed *b = &second->list[i];
        if (b->late != VV_DIFF_LATE)
            continue;
        b->kept = kept->size;
        rc = seek_region(side, b->number, error);
        rc = rc < 0 ? rc : keep_runs(side, kept, error);
        if (rc > 0) {
            b->kept_size = kept->size - b->kept;
            b->late = VV_DIFF_KEPT;
        } else if (rc == 0 && kept->size == 0) {
            b->late = VV_DIFF_HUGE;
            rc = 1;
        }
    }
    return rc < 0 ? rc : 0;
}

static int compare_kept(struct vv_diff *diff, struct vv_diff_side *sides, const struct listing *first,
                        const struct vv_buf *kept, struct varve_error *error) {
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < first->count; i++) {
        const struct vv_diff_listed *a = &first->list[i];
        struct vv_diff_listed *b = a->twin;
        if (!b || b->late != VV_DIFF_KEPT)
            continue;
        b->late = VV_DIFF_DONE;
        rc = seek_region(&sides[0], a->number, error);
        sides[1].kept = b->kept_size ? kept->data + b->kept : NULL;
        sides[1].kept_end = b->kept_size ? sides[1].kept + b->kept_size : NULL;
        rc = rc < 0 ? rc : vv_diff_twins(diff, sides, a, b, error);
        sides[1].kept = sides[1].kept_end = NULL;
    }
    return rc;
}

static int compare_late(struct vv_diff *diff, struct vv_diff_side *sides, struct listing *listings, size_t late,
                        struct varve_error *error) {
    struct vv_buf kept;
    int rc = 0;

    vv_buf_init(&kept);
    while (rc == 0 && late) {
        rc = keep_some(&sides[1], &listings[1], &kept, error);
        rc = rc < 0 ? rc : compare_kept(diff, sides, &listings[0], &kept, error);
        late = 0;
        for (size_t i = 0; i < listings[1].count; i++)
            late += listings[1].list[i].late == VV_DIFF_LATE;
    }
    vv_buf_clear(&kept);
    for (size_t i = 0; rc == 0 && i < listings[0].count; i++) {
        const struct vv_diff_listed *a = &listings[0].list[i];
        rc = a->twin && a->twin->late == VV_DIFF_HUGE ? compare_here(diff, sides, a, error) : 0;
    }
    return rc;
}

static int compare_listings(struct vv_diff *diff, struct vv_diff_side *sides, struct listing *listings,
                            struct varve_error *error) {
    uint64_t reached = 0; /* numbers of the second side below are passed */
    size_t late = 0;
    int rc = 0;

    find_twins(&listings[0], &listings[1]);
    for (size_t i = 0; rc == 0 && i < listings[0].count; i++) {
        const struct vv_diff_listed *a = &listings[0].list[i];
        if (!a->twin) {
            rc = vv_diff_alone(diff, sides[0].rank, 0, a->name, a->length, error);
        } else if (vv_diff_is_same(diff, a, a->twin)) {
            rc = vv_diff_twins(diff, sides, a, a->twin, error);
        } else if (a->twin->number >= reached) {
            reached = a->twin->number + 1;
            rc = compare_here(diff, sides, a, error);
        } else {
            a->twin->late = VV_DIFF_LATE;
            late++;
        }
    }
    rc = rc < 0 ? rc : compare_late(diff, sides, listings, late, error);
    for (size_t i = 0; rc == 0 && i < listings[1].count; i++) {
        const struct vv_diff_listed *b = &listings[1].list[i];
        rc = b->twin ? 0 : vv_diff_alone(diff, sides[1].rank, 1, b->name, b->length, error);
    }
    return rc;
}

int vv_diff_by_name(struct vv_diff *diff, struct vv_diff_side *sides, struct varve_error *error) {
    struct listing listings[2] = {{0}, {0}};

    int rc = list_rest(&sides[0], &listings[0], error);
    rc = rc < 0 ? rc : list_rest(&sides[1], &listings[1], error);
    rc = rc < 0 ? rc : compare_listings(diff, sides, listings, error);
    clear_listing(&listings[0]);
    clear_listing(&listings[1]);
    return rc;
}
