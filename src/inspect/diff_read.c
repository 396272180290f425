/* What has to be looked at: bytes of both checkpoints are collected until a window is full, then read and compared. A
 * window goes across regions and ranks, since small regions and ranks share blocks: of a window, each block is read and
 * decoded once. Regions are told in order, when their last byte has been compared. */
#include "inspect/diff_private.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"

#define WINDOW ((size_t)32 << 20) /* bytes of each checkpoint */
#define PENDING_MAX (2 * WINDOW)  /* for keeping book of them */
#define QUEUE_MAX ((size_t)1 << 14)
#define PROGRESS_STEP ((uint64_t)1 << 20)

static int no_memory(struct varve_error *error) {
    return vv_error_sys(error, -ENOMEM, "cannot compare two checkpoints");
}

/* ---- telling ---- */

struct vv_diff_region *vv_diff_queue(struct vv_diff *diff, const struct varve_difference *told) {
    size_t size = strlen(told->region) + 1;
    struct vv_diff_region *region = vv_calloc(1, sizeof *region + size);

    if (!region)
        return NULL;
    region->told = *told;
    memcpy(region->name, told->region, size);
    region->told.region = region->name;
    region->told.type = region->told.value_first = region->told.value_second = "";
    region->rule.element = 1;
    if (diff->newest)
        diff->newest->next = region;
    else
        diff->oldest = region;
    diff->newest = region;
    diff->queued++;
    return region;
}

static enum vv_diff_what judge(const struct vv_diff *diff, const struct vv_diff_region *region) {
    const struct varve_difference *told = &region->told;

    if (told->what == VV_ONLY_FIRST || told->what == VV_ONLY_SECOND)
        return (enum vv_diff_what)told->what;
    if (told->bytes_first != told->bytes_second)
        return VV_RESIZED;
    if (diff->options.is_quick)
        return region->are_digests_different ? VV_CHANGED : VV_SAME;
    return region->tally.differing ? VV_CHANGED : region->tally.changed ? VV_WITHIN : VV_SAME;
}

static void fill_elements(struct vv_diff_region *region, char text[2][VV_DIFF_TEXT_CAPACITY]) {
    struct varve_difference *told = &region->told;
    const struct vv_diff_tally *tally = &region->tally;
    uint64_t common = told->bytes_first < told->bytes_second ? told->bytes_first : told->bytes_second;

    told->type = vv_type_name(region->rule.type);
    told->elements = common / region->rule.element;
    told->elements_changed = tally->changed;
    told->elements_differing = tally->differing;
    told->elements_nan = tally->nan;
    told->largest = region->rule.type == VARVE_BYTES ? NAN : tally->largest;
    told->largest_relative = region->rule.type == VARVE_BYTES ? NAN : tally->largest_relative;
    told->largest_element = tally->largest_element;
    if (tally->changed) {
        told->first_element = tally->first;
        told->first_offset = tally->first * region->rule.element;
        for (int i = 0; i < 2; i++)
            vv_diff_value_text(region->rule.type, tally->value[i], text[i]);
        told->value_first = text[0];
        told->value_second = text[1];
    }
}

static int tell_differences(struct vv_diff *diff, struct vv_diff_region *region, struct varve_error *error) {
    struct varve_difference *told = &region->told;
    char text[2][VV_DIFF_TEXT_CAPACITY];

    told->what = judge(diff, region);
    if (told->what != VV_ONLY_FIRST && told->what != VV_ONLY_SECOND) {
        told->bytes_changed += region->tally.bytes;
        if (!diff->options.is_quick) {
            fill_elements(region, text);
            if (region->are_digests_different && region->tally.changed == 0) {
                return vv_error(error, VARVE_CORRUPT,
                                "region \"%s\" of rank %" PRIu32 ": the digests of the two differ, but no byte does",
                                region->name, told->rank);
            }
        }
    }
    diff->result.regions++;
    diff->result.regions_differing += told->what != VV_SAME && told->what != VV_WITHIN;
    diff->result.regions_within += told->what == VV_WITHIN;
    return diff->options.difference ? diff->options.difference(diff->options.arg, told) : 0;
}

static int tell_all(struct vv_diff *diff, struct varve_error *error) {
    int rc = 0;

    while (rc == 0 && diff->oldest && diff->oldest->is_walked && diff->oldest->waiting == 0) {
        struct vv_diff_region *region = diff->oldest;
        rc = tell_differences(diff, region, error);
        diff->oldest = region->next;
        diff->newest = diff->oldest ? diff->newest : NULL;
        diff->queued--;
        vv_free(region);
    }
    diff->stopped = rc > 0 ? rc : diff->stopped;
    return rc > 0 ? -ECANCELED : rc;
}

int vv_diff_walked(struct vv_diff *diff, struct vv_diff_region *region, struct varve_error *error) {
    region->is_walked = 1;
    return diff->queued > QUEUE_MAX ? vv_diff_flush(diff, error) : tell_all(diff, error);
}

int vv_diff_progress(struct vv_diff *diff, uint64_t more, struct varve_error *error) {
    diff->done += more;
    if (diff->done > diff->total)
        diff->total = diff->done;
    if (!diff->options.progress || diff->done < diff->told_at)
        return 0;
    diff->told_at = diff->done + PROGRESS_STEP;
    if (diff->options.progress(diff->options.arg, diff->done, diff->total) == 0)
        return 0;
    return vv_error(error, -EINTR, "the comparison was stopped");
}

/* ---- the batch ---- */

static int begin_batch(struct vv_diff *diff, struct varve_error *error) {
    for (int i = 0; i < 2; i++) {
        if (!diff->buffer[i] && !(diff->buffer[i] = vv_malloc(WINDOW)))
            return no_memory(error);
        if (!diff->fetch[i] && vv_fetch_create(diff->view[i], diff->store[i]->pool, &diff->fetch[i]) < 0)
            return no_memory(error);
    }
    return 0;
}

void vv_diff_batch_clear(struct vv_diff *diff) {
    while (diff->oldest) {
        struct vv_diff_region *region = diff->oldest;
        diff->oldest = region->next;
        vv_free(region);
    }
    diff->newest = NULL;
    for (int i = 0; i < 2; i++) {
        vv_fetch_destroy(diff->fetch[i]);
        vv_free(diff->buffer[i]);
    }
    vv_free(diff->items);
    vv_free(diff->map);
}

int vv_diff_flush(struct vv_diff *diff, struct varve_error *error) {
    int rc = 0;

    for (int i = 0; i < 2 && rc == 0 && diff->item_count; i++)
        rc = vv_fetch_run(diff->fetch[i], error);
    for (size_t i = 0; i < diff->item_count && rc == 0; i++) {
        struct vv_diff_item *item = &diff->items[i];
        const struct vv_diff_rule *rule = &item->region->rule;
        vv_diff_elements(rule, item->offset / rule->element, diff->buffer[0] + item->at, diff->buffer[1] + item->at,
                         item->size, &item->region->tally);
        item->region->waiting--;
        if (i % 1024 == 0) {
            diff->told_at = 0;
            rc = vv_diff_progress(diff, 0, error);
        }
    }
    diff->item_count = 0;
    diff->used = 0;
    return rc < 0 ? rc : tell_all(diff, error);
}

/* Room for so many bytes at least, in whole elements. */
static int reserve_elements(struct vv_diff *diff, uint32_t element, size_t *capacity_out, struct varve_error *error) {
    int rc = begin_batch(diff, error);
    int is_full = rc == 0 && (WINDOW - diff->used < element || vv_fetch_pending(diff->fetch[0]) > PENDING_MAX ||
                              vv_fetch_pending(diff->fetch[1]) > PENDING_MAX);
    rc = is_full ? vv_diff_flush(diff, error) : rc;
    *capacity_out = (WINDOW - diff->used) / element * element;
    return rc;
}

/* ---- wants ---- */

/* Where the attempts that one checkpoint reads from are among those of the other. */
static int make_map(struct vv_diff *diff, int from, struct varve_error *error) {
    const struct vv_record *record = vv_view_record(diff->view[!from]);
    uint32_t count = vv_view_record(diff->view[from])->dependency_count + 1;

    diff->map = vv_malloc(count * sizeof *diff->map);
    if (!diff->map)
        return no_memory(error);
    for (uint32_t i = 0; i < count; i++) {
        struct vv_dependency key = {.attempt = *vv_view_source(diff->view[from], i)};
        const struct vv_dependency *found =
            record->dependency_count
                ? bsearch(&key, record->dependencies, record->dependency_count, sizeof key, vv_dependency_compare)
                : NULL;
        int is_own = vv_attempt_compare(&key.attempt, vv_view_attempt(diff->view[!from])) == 0;
        diff->map[i] = found ? (uint32_t)(found - record->dependencies) + 1 : is_own ? 0 : UINT32_MAX;
    }
    diff->mapped = from;
    return 0;
}

int vv_diff_share(struct vv_diff *diff, struct varve_error *error) {
    int rc = make_map(diff, 0, error);
    if (rc == 0 && diff->map[0] == UINT32_MAX) { /* the second does not depend on the first; the reverse, maybe */
        vv_free(diff->map);
        diff->map = NULL;
        rc = make_map(diff, 1, error);
    }
    return rc;
}

/* The run with those of its places that the other checkpoint knows, too: 0 if there are none. */
static int map_run(const struct vv_diff *diff, const struct vv_run *run, struct vv_run *out) {
    *out = *run;
    out->place_count = 0;
    for (uint32_t i = 0; i < run->place_count; i++) {
        struct vv_place place = run->places[i];
        place.dependency = diff->map[place.dependency];
        if (place.dependency != UINT32_MAX)
            out->places[out->place_count++] = place;
    }
    return out->place_count != 0;
}

/* Bytes of side i into its buffer, `at` behind those that are there. Where both checkpoints can be read through one of
 * them, they are: a block that both need is read once. */
static int fetch_side(struct vv_diff *diff, int i, const struct vv_run *run, uint64_t skip, uint64_t size, size_t at,
                      struct varve_error *error) {
    uint8_t *out = diff->buffer[i] + diff->used + at;
    struct vv_run mapped;

    if (diff->map && diff->mapped == i && run->kind != VV_RUN_ZERO && map_run(diff, run, &mapped))
        return vv_fetch_add(diff->fetch[!i], &mapped, skip, size, out, 0, error);
    return vv_fetch_add(diff->fetch[i], run, skip, size, out, 0, error);
}

/* Neighbours in the region, which are neighbours in the buffers too, are one item. */
static int add_item(struct vv_diff *diff, struct vv_diff_region *region, uint64_t offset, size_t size,
                    struct varve_error *error) {
    struct vv_diff_item *last = diff->item_count ? &diff->items[diff->item_count - 1] : NULL;

    if (last && last->region == region && last->offset + last->size == offset && last->at + last->size == diff->used) {
        last->size += size;
    } else {
        if (VV_GROW(diff->items, diff->item_count, diff->item_capacity) != 0)
            return no_memory(error);
        diff->items[diff->item_count++] =
            (struct vv_diff_item){.region = region, .offset = offset, .at = diff->used, .size = size};
        region->waiting++;
    }
    diff->used += size;
    diff->result.bytes_compared += size;
    return 0;
}

int vv_diff_want(struct vv_diff *diff, struct vv_diff_side *sides, struct vv_diff_region *region, uint64_t offset,
                 uint64_t size, struct varve_error *error) {
    int rc = 0;

    while (rc == 0 && size) {
        size_t capacity = 0;
        rc = reserve_elements(diff, region->rule.element, &capacity, error);
        size_t step = size < capacity ? (size_t)size : capacity;
        for (int i = 0; i < 2 && rc == 0; i++)
            rc = fetch_side(diff, i, &sides[i].run, offset - sides[i].run.offset, step, 0, error);
        rc = rc < 0 ? rc : add_item(diff, region, offset, step, error);
        offset += step;
        size -= step;
    }
    return rc;
}

int vv_diff_want_across(struct vv_diff *diff, struct vv_diff_side *sides, struct vv_diff_region *region,
                        uint64_t offset, uint32_t size, struct varve_error *error) {
    size_t capacity = 0;
    int rc = reserve_elements(diff, region->rule.element, &capacity, error);

    for (int i = 0; i < 2; i++) {
        for (uint64_t done = 0; rc == 0 && done < size;) {
            const struct vv_run *run = &sides[i].run;
            rc = vv_diff_run_at(&sides[i], offset + done, error);
            if (rc == 0) {
                uint64_t skip = offset + done - run->offset;
                uint64_t step = run->length - skip < size - done ? run->length - skip : size - done;
                rc = fetch_side(diff, i, run, skip, step, (size_t)done, error);
                done += step;
            }
        }
    }
    return rc < 0 ? rc : add_item(diff, region, offset, size, error);
}
