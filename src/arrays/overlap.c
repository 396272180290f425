#include "arrays/overlap.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"

#define LOOKS_MOST UINT64_C(200000000)
#define DIVISOR_STEPS 16 /* a common divisor takes as long as so many steps, */
#define SORT_STEPS 4     /* and the place of a part among others as so many */

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* ---- one dimension ---- */

uint64_t vv_part_index(const struct vv_part_dim *dim, uint64_t local) {
    return dim->first + local / dim->block * dim->every + local % dim->block;
}

/* The first element whose global index is at least this one; dim->local when there is none. */
static uint64_t local_from(const struct vv_part_dim *dim, uint64_t global) {
    if (global <= dim->first)
        return 0;
    uint64_t distance = global - dim->first, blocks = distance / dim->every, inside = distance % dim->every;
    uint64_t before = blocks * dim->block + least(inside, dim->block);
    return least(before, dim->local);
}

static int is_together(const struct vv_part_dim *dim) {
    return dim->block >= dim->local || dim->block == dim->every;
}

static uint64_t common_divisor(uint64_t a, uint64_t b) {
    while (b > 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Would they meet if both went on for ever in both directions? Blocks at distances a and b come as close to each other
 * as the common divisor of these allows, and no closer. */
static int can_meet(const struct vv_part_dim *there, const struct vv_part_dim *here) {
    uint64_t step = common_divisor(there->every, here->every);
    uint64_t low = there->first < here->first ? there->first : here->first;
    uint64_t shift = (here->first - low) % step + step - (there->first - low) % step;
    shift %= step;
    return shift < there->block || step - shift < here->block;
}

static int charge(uint64_t *steps, uint64_t count) {
    uint64_t left = *steps;
    *steps -= least(left, count);
    return left < count ? -E2BIG : 0;
}

/* The next elements that follow each other on both sides, from this one of `there` on: 1 and where, or 0. Each step
 * passes a block of both; -E2BIG when there are none left. */
static int find_within(const struct vv_part_dim *there, const struct vv_part_dim *here, uint64_t from, uint64_t *steps,
                       struct vv_overlap_dim *out) {
    if (!is_together(there) && !is_together(here)) {
        if (charge(steps, DIVISOR_STEPS) != 0)
            return -E2BIG;
        if (!can_meet(there, here))
            return 0;
    }
    while (from < there->local) {
        if (charge(steps, 1) != 0)
            return -E2BIG;
        uint64_t global = vv_part_index(there, from), to = local_from(here, global);
        if (to == here->local)
            return 0;
        uint64_t next = vv_part_index(here, to);
        if (next == global) {
            uint64_t length = least(there->block - from % there->block, here->block - to % here->block);
            out->from = from;
            out->to = to;
            out->length = least(length, least(there->local - from, here->local - to));
            out->at = 0;
            return 1;
        }
        from = local_from(there, next);
    }
    return 0;
}

/* One of the two is in memory, so there are not too many steps. */
static int find_common(const struct vv_part_dim *there, const struct vv_part_dim *here, uint64_t from,
                       struct vv_overlap_dim *out) {
    uint64_t steps = UINT64_MAX;
    return find_within(there, here, from, &steps, out);
}

static uint64_t count_common(const struct vv_part_dim *there, const struct vv_part_dim *here) {
    struct vv_overlap_dim common = {0};
    uint64_t count = 0;
    if (there->local == 0 || here->local == 0)
        return 0;
    if (is_together(here))
        return local_from(there, here->first + here->local) - local_from(there, here->first);
    if (is_together(there))
        return local_from(here, there->first + there->local) - local_from(here, there->first);
    for (uint64_t from = 0; find_common(there, here, from, &common); from = common.from + common.length)
        count += common.length;
    return count;
}

/* ---- all of them ---- */

static int is_whole(const struct vv_overlap_dim *dim, uint64_t there, uint64_t here) {
    return dim->from == 0 && dim->to == 0 && dim->length == there && dim->length == here;
}

/* Dimensions that both have wholly lie together: their elements become one. */
static void merge_whole(struct vv_overlap *overlap) {
    while (overlap->dims > 1) {
        unsigned last = overlap->dims - 1;
        uint64_t local = overlap->here->dim[last].local;
        if (!is_whole(&overlap->dim[last], overlap->there->dim[last].local, local))
            break;
        overlap->piece *= local;
        overlap->dims--;
    }
}

int vv_overlap_begin(struct vv_overlap *overlap, const struct vv_part *there, const struct vv_part *here) {
    uint64_t from_step = there->element, to_step = here->element;
    *overlap = (struct vv_overlap){.there = there, .here = here, .dims = here->dims, .piece = here->element};
    for (unsigned i = here->dims; i-- > 0;) {
        if (!find_common(&there->dim[i], &here->dim[i], 0, &overlap->dim[i])) {
            overlap->is_at_end = 1;
            return 0;
        }
        overlap->dim[i].from_step = from_step;
        overlap->dim[i].to_step = to_step;
        from_step *= there->dim[i].local;
        to_step *= here->dim[i].local;
    }
    merge_whole(overlap);
    return 1;
}

/* On to the next element of the dimensions before the last: those behind begin again. */
static int go_on(struct vv_overlap *overlap) {
    for (unsigned i = overlap->dims; i-- > 0;) {
        struct vv_overlap_dim *dim = &overlap->dim[i];
        int is_last = i + 1 == overlap->dims;
        if (!is_last && dim->at + 1 < dim->length) {
            dim->at++;
            return 1;
        }
        if (find_common(&overlap->there->dim[i], &overlap->here->dim[i], dim->from + dim->length, dim))
            return 1;
        (void)find_common(&overlap->there->dim[i], &overlap->here->dim[i], 0, dim);
    }
    return 0;
}

int vv_overlap_next(struct vv_overlap *overlap, struct vv_stretch *out) {
    if (overlap->is_at_end)
        return 0;
    *out = (struct vv_stretch){0};
    for (unsigned i = 0; i < overlap->dims; i++) {
        const struct vv_overlap_dim *dim = &overlap->dim[i];
        out->from += (dim->from + dim->at) * dim->from_step;
        out->to += (dim->to + dim->at) * dim->to_step;
    }
    out->length = overlap->dim[overlap->dims - 1].length * overlap->piece;
    overlap->is_at_end = !go_on(overlap);
    return 1;
}

uint64_t vv_overlap_count(const struct vv_part *there, const struct vv_part *here) {
    uint64_t count = 1;
    for (unsigned i = 0; i < here->dims && count > 0; i++)
        count *= count_common(&there->dim[i], &here->dim[i]);
    return count;
}

/* ---- parts ---- */

void vv_part_of_bytes(uint64_t bytes, struct vv_part *out) {
    *out = (struct vv_part){.element = 1, .dims = 1};
    out->dim[0] = (struct vv_part_dim){bytes, 0, bytes ? bytes : 1, bytes ? bytes : 1};
}

void vv_part_of_array(const struct varve_array *array, struct vv_part *out) {
    *out = (struct vv_part){.element = vv_type_size(array->type), .dims = array->dims};
    for (unsigned i = 0; i < array->dims; i++) {
        const struct varve_stride *stride = &array->stride[i];
        uint64_t local = array->dim[i].local, length = local ? local : 1;
        int is_apart = stride->every > stride->block && local > stride->block;
        out->dim[i] = (struct vv_part_dim){local, array->dim[i].first, is_apart ? stride->block : length,
                                           is_apart ? stride->every : length};
    }
}

uint64_t vv_part_elements(const struct vv_part *part) {
    uint64_t count = 1;
    for (unsigned i = 0; i < part->dims; i++)
        count *= part->dim[i].local;
    return count;
}

uint64_t vv_part_end(const struct vv_part_dim *dim) {
    uint64_t last = dim->local - 1;
    return dim->first + last / dim->block * dim->every + last % dim->block + 1;
}

int vv_part_dims_meet(const struct vv_part_dim *a, const struct vv_part_dim *b) {
    struct vv_overlap_dim common;
    return find_common(a, b, 0, &common);
}

int vv_part_has(const struct vv_part_dim *dim, uint64_t index, uint64_t *change) {
    uint64_t end = dim->local > 0 ? vv_part_end(dim) : 0;
    *change = UINT64_MAX;
    if (dim->local == 0 || index >= end)
        return 0;
    if (index < dim->first) {
        *change = dim->first;
        return 0;
    }
    uint64_t inside = (index - dim->first) % dim->every, begin = index - inside;
    int has = inside < dim->block;
    *change = least(has ? begin + dim->block : begin + dim->every, end);
    return has;
}

/* ---- do any of many parts meet? ----
 *
 * Two parts do not meet if they lie beside each other in one dimension: by where they begin and end there; or, of
 * blocks at equal distances, by where these lie in a period. So all are sorted by each of these in turn, and taken
 * apart wherever all before a place end in front of it. Of a grid of blocks, cyclic or not, each part is alone then.
 * What cannot be taken apart is compared by pairs. */

/* A part among others, and where it lies in what they are sorted by. */
struct sorted {
    const struct vv_part *part;
    uint64_t first, end;
    size_t number;
};

/* Some of them that follow each other in the list, and those ways that did not take them apart. */
struct range {
    size_t from, count;
    unsigned way, failed;
};

struct meeting {
    struct sorted *list;
    struct range *ranges; /* still to be looked at */
    size_t waiting;
    uint64_t steps; /* left */
    size_t *first, *second;
};

static int by_first(const void *a, const void *b) {
    const struct sorted *x = a, *y = b;
    return x->first != y->first ? (x->first < y->first ? -1 : 1) : x->number < y->number ? -1 : x->number > y->number;
}

static void place_by_ends(struct sorted *list, size_t count, unsigned dim) {
    for (size_t i = 0; i < count; i++) {
        list[i].first = list[i].part->dim[dim].first;
        list[i].end = vv_part_end(&list[i].part->dim[dim]);
    }
}

/* By where they lie in the longest period that all of them keep. 0 if there is none. */
static int place_by_period(struct sorted *list, size_t count, unsigned dim) {
    uint64_t period = 0, origin = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const struct vv_part_dim *part = &list[i].part->dim[dim];
        period = is_together(part) ? period : common_divisor(period, part->every);
        origin = least(origin, part->first);
    }
    if (period < 2)
        return 0;
    for (size_t i = 0; i < count; i++) {
        const struct vv_part_dim *part = &list[i].part->dim[dim];
        uint64_t length = is_together(part) ? part->local : part->block, first = (part->first - origin) % period;
        int is_inside = length <= period - first; /* else it goes on at the start of the next period */
        list[i].first = is_inside ? first : 0;
        list[i].end = is_inside ? first + length : period;
    }
    return 1;
}

/* The dimension in which they begin at most different indices. */
static unsigned most_spread(struct sorted *list, size_t count) {
    size_t most = 0;
    unsigned best = 0;
    for (unsigned i = 0; i < list->part->dims; i++) {
        size_t different = 0;
        place_by_ends(list, count, i);
        qsort(list, count, sizeof *list, by_first);
        for (size_t j = 1; j < count; j++)
            different += list[j].first != list[j - 1].first;
        if (different > most) {
            most = different;
            best = i;
        }
    }
    return best;
}

/* Do they have an element in common? -E2BIG after too many steps. */
static int meet(const struct vv_part *a, const struct vv_part *b, uint64_t *steps) {
    struct vv_overlap_dim common;
    int rc = 1;
    for (unsigned i = 0; i < a->dims && rc == 1; i++)
        rc = find_within(&a->dim[i], &b->dim[i], 0, steps, &common);
    return rc;
}

/* Sorted by where they begin: only those that begin before one ends can meet it. */
static int look_at_pairs(struct meeting *meeting, struct sorted *list, size_t count) {
    unsigned dim = most_spread(list, count);
    place_by_ends(list, count, dim);
    qsort(list, count, sizeof *list, by_first);
    for (size_t i = 0; i < count; i++)
        for (size_t j = i + 1; j < count && list[j].first < list[i].end; j++) {
            int rc = meet(list[i].part, list[j].part, &meeting->steps);
            if (rc > 0) {
                int is_before = list[i].number < list[j].number;
                *meeting->first = list[is_before ? i : j].number;
                *meeting->second = list[is_before ? j : i].number;
            }
            if (rc != 0)
                return rc;
        }
    return 0;
}

/* Who is alone meets nobody. */
static void put_range(struct meeting *meeting, struct range range) {
    if (range.count > 1)
        meeting->ranges[meeting->waiting++] = range;
}

/* Try the next way to take a range apart; its parts wait then, or all of it. -E2BIG after too many steps. */
static int take_apart(struct meeting *meeting, struct range range) {
    struct sorted *list = meeting->list + range.from;
    unsigned ways = 2 * list->part->dims, dim = range.way / 2;
    struct range next = {.from = range.from, .way = (range.way + 1) % ways, .failed = range.failed + 1};
    size_t begin = 0;
    uint64_t end = 0;
    int is_placed = 1;
    if (charge(&meeting->steps, SORT_STEPS * range.count) != 0)
        return -E2BIG;
    if (range.way % 2 == 0)
        place_by_ends(list, range.count, dim);
    else
        is_placed = place_by_period(list, range.count, dim);
    if (is_placed)
        qsort(list, range.count, sizeof *list, by_first);
    for (size_t i = 0; i < range.count && is_placed; i++) {
        if (i > begin && list[i].first >= end) {
            next.failed = 0;
            put_range(meeting, (struct range){range.from + begin, i - begin, next.way, 0});
            begin = i;
        }
        end = end > list[i].end ? end : list[i].end;
    }
    next.from += begin;
    next.count = range.count - begin;
    put_range(meeting, next);
    return 0;
}

static int find_meeting(struct meeting *meeting) {
    int rc = 0;
    while (meeting->waiting > 0 && rc == 0) {
        struct range range = meeting->ranges[--meeting->waiting];
        struct sorted *list = meeting->list + range.from;
        if (range.failed == 2 * list->part->dims)
            rc = look_at_pairs(meeting, list, range.count);
        else
            rc = take_apart(meeting, range);
    }
    return rc;
}

int vv_parts_meet(const struct vv_part *const *parts, size_t count, size_t *first, size_t *second) {
    struct meeting meeting = {.list = vv_calloc(count + 1, sizeof *meeting.list),
                              .ranges = vv_calloc(count / 2 + 1, sizeof *meeting.ranges),
                              .steps = LOOKS_MOST,
                              .first = first,
                              .second = second};
    int rc = meeting.list && meeting.ranges ? 0 : -ENOMEM;
    size_t used = 0;
    for (size_t i = 0; i < count && rc == 0; i++)
        if (vv_part_elements(parts[i]) > 0)
            meeting.list[used++] = (struct sorted){.part = parts[i], .number = i};
    if (rc == 0) {
        put_range(&meeting, (struct range){.count = used});
        rc = find_meeting(&meeting);
    }
    vv_free(meeting.ranges);
    vv_free(meeting.list);
    return rc;
}
