/* The runs of two regions side by side, each run looked at once. What comes from the same place in both, what is zero
 * in both, and what is stored under the same id is the same. The rest is looked at; or, when nothing is to be read,
 * counts as changed. */
#include "inspect/diff_private.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"

/* Where the byte at an offset of the region lies, if it lies at place number `which` of the run. */
static struct vv_place place_at(const struct vv_run *run, uint32_t which, uint64_t offset) {
    struct vv_place place = run->places[which];
    place.address += run->kind == VV_RUN_REPEATED ? 0 : offset - run->offset;
    return place;
}

/* A run may list several places that hold the same bytes: one that both have is enough. */
static int have_same_place(const struct vv_diff_side *sides, uint64_t offset) {
    for (uint32_t i = 0; i < sides[0].run.place_count; i++) {
        struct vv_place a = place_at(&sides[0].run, i, offset);
        for (uint32_t k = 0; k < sides[1].run.place_count; k++) {
            struct vv_place b = place_at(&sides[1].run, k, offset);
            if (a.owner == b.owner && a.address == b.address &&
                vv_attempt_compare(vv_view_source(sides[0].view, a.dependency),
                                   vv_view_source(sides[1].view, b.dependency)) == 0)
                return 1;
        }
    }
    return 0;
}

static int is_repeated_alike(const struct vv_run *a, const struct vv_run *b) {
    int is_repeated = a->kind == VV_RUN_REPEATED;
    if (is_repeated != (b->kind == VV_RUN_REPEATED))
        return 0;
    return !is_repeated || (a->piece == b->piece && a->offset % a->piece == b->offset % b->piece);
}

static int has_plain_place(const struct vv_run *run) {
    return run->kind == VV_RUN_FROM || run->kind == VV_RUN_FROM_ANY;
}

/* ---- ids ---- */

/* 1 if both sides store the granule under the same id, 0 if that is not known. Ids that cannot be read are no reason to
 * fail while the bytes can. */
static int have_same_id(struct vv_diff *diff, const struct vv_diff_side *sides, uint64_t offset, uint64_t length,
                        struct varve_error *error) {
    struct vv_hash128 id[2];
    int rc = 1;

    for (int i = 0; i < 2 && rc > 0; i++) {
        struct vv_place place = place_at(&sides[i].run, 0, offset);
        rc = vv_view_id(sides[i].view, &place, length, &id[i], error);
    }
    if (rc < 0 && rc != -ENOMEM && rc != VARVE_FORGOTTEN && !diff->options.is_quick) {
        vv_error_clear(error);
        diff->has_ids = 0;
        return 0;
    }
    return rc > 0 ? vv_hash128_equal(id[0], id[1]) : rc;
}

/* ---- what is not known to be the same ---- */

struct walk {
    struct vv_diff *diff;
    struct vv_diff_side *sides;
    struct vv_diff_region *region;
    uint64_t common;
    uint64_t counted_to; /* quick: granules before are counted */
};

/* Each granule once, also when several pieces of it may have changed. */
static void count_changed(struct walk *walk, uint64_t offset, uint64_t length) {
    uint64_t begin = offset - offset % VV_GRANULE;
    uint64_t end = vv_granules(offset + length) * VV_GRANULE;

    begin = begin > walk->counted_to ? begin : walk->counted_to;
    end = end < walk->common ? end : walk->common;
    if (end > begin) {
        walk->region->tally.bytes += end - begin;
        walk->counted_to = end;
    }
}

static int look_at_run(struct walk *walk, uint64_t offset, uint64_t length, struct varve_error *error) {
    if (walk->diff->options.is_quick) {
        count_changed(walk, offset, length);
        return 0;
    }
    return vv_diff_want(walk->diff, walk->sides, walk->region, offset, length, error);
}

/* Granule by granule, neighbours looked at together. Only whole granules of the region have ids of use. */
static int compare_ids(struct walk *walk, uint64_t offset, uint64_t length, struct varve_error *error) {
    struct vv_diff *diff = walk->diff;
    uint64_t begin = offset; /* of what is to be looked at */
    uint64_t end = offset + length;
    int rc = 0;

    while (rc >= 0 && offset < end) {
        uint64_t step = VV_GRANULE - offset % VV_GRANULE;
        step = step < end - offset ? step : end - offset;
        int is_whole = offset % VV_GRANULE == 0 && (step == VV_GRANULE || offset + step == walk->common);
        rc = is_whole && diff->has_ids ? have_same_id(diff, walk->sides, offset, step, error) : 0;
        offset += step;
        if (rc > 0) {
            diff->result.bytes_id += step;
            rc = offset - step > begin ? look_at_run(walk, begin, offset - step - begin, error) : 0;
            begin = offset;
        }
    }
    return rc < 0 || begin == end ? rc : look_at_run(walk, begin, end - begin, error);
}

/* Bytes that both sides have in the run at hand. */
static int compare_piece(struct walk *walk, uint64_t offset, uint64_t length, struct varve_error *error) {
    struct vv_diff *diff = walk->diff;
    const struct vv_run *a = &walk->sides[0].run;
    const struct vv_run *b = &walk->sides[1].run;

    if (a->kind == VV_RUN_ZERO && b->kind == VV_RUN_ZERO) {
        diff->result.bytes_zero += length;
        return 0;
    }
    if (a->kind == VV_RUN_ZERO || b->kind == VV_RUN_ZERO)
        return look_at_run(walk, offset, length, error);
    if (diff->has_places && is_repeated_alike(a, b) && have_same_place(walk->sides, offset)) {
        diff->result.bytes_place += length;
        return 0;
    }
    int ask = diff->has_ids && diff->result.bytes_compared >= diff->ids_from;
    return ask && has_plain_place(a) && has_plain_place(b) ? compare_ids(walk, offset, length, error)
                                                           : look_at_run(walk, offset, length, error);
}

/* As diff_order.c keeps them: a run without its places, then so many places. */
static int next_kept(struct vv_diff_side *side) {
    size_t head = offsetof(struct vv_run, places);

    if (side->kept == side->kept_end)
        return 0;
    memcpy(&side->run, side->kept, head);
    memcpy(side->run.places, side->kept + head, side->run.place_count * sizeof side->run.places[0]);
    side->kept += head + side->run.place_count * sizeof side->run.places[0];
    return 1;
}

int vv_diff_run_at(struct vv_diff_side *side, uint64_t offset, struct varve_error *error) {
    while (side->run.offset + side->run.length <= offset) {
        int rc = side->kept ? next_kept(side) : vv_recipe_next_run(side->recipe, &side->run, error);
        if (rc <= 0) {
            return rc < 0 ? rc
                          : vv_error(error, VARVE_CORRUPT, "the runs of region \"%s\" end too early", side->at.name);
        }
    }
    return 0;
}

static uint64_t run_end(const struct vv_run *run) {
    return run->offset + run->length;
}

/* From offset on, as far as both runs go. Returns the bytes done, or an error. */
static int64_t compare_from(struct walk *walk, uint64_t offset, struct varve_error *error) {
    struct vv_diff_side *sides = walk->sides;
    uint32_t element = walk->region->rule.element;
    uint64_t end = run_end(&sides[0].run) < run_end(&sides[1].run) ? run_end(&sides[0].run) : run_end(&sides[1].run);

    end = end < walk->common ? end : walk->common;
    if (end < walk->common)
        end -= (end - offset) % element;
    if (end > offset) {
        int rc = compare_piece(walk, offset, end - offset, error);
        return rc < 0 ? rc : (int64_t)(end - offset);
    }
    /* Runs of ours never cut an element, but others' may. */
    uint32_t size = walk->common - offset < element ? (uint32_t)(walk->common - offset) : element;
    int rc = vv_diff_want_across(walk->diff, sides, walk->region, offset, size, error);
    return rc < 0 ? rc : (int64_t)size;
}

int vv_diff_runs(struct vv_diff *diff, struct vv_diff_side *sides, uint64_t common, struct vv_diff_region *region,
                 struct varve_error *error) {
    struct walk walk = {.diff = diff, .sides = sides, .region = region, .common = common};
    int rc = 0;

    sides[0].run = sides[1].run = (struct vv_run){0};
    for (uint64_t offset = 0; rc >= 0 && offset < common;) {
        rc = vv_diff_run_at(&sides[0], offset, error);
        rc = rc < 0 ? rc : vv_diff_run_at(&sides[1], offset, error);
        int64_t done = rc < 0 ? rc : compare_from(&walk, offset, error);
        rc = done < 0 ? (int)done : vv_diff_progress(diff, (uint64_t)done, error);
        offset += done > 0 ? (uint64_t)done : 0;
    }
    return rc;
}
