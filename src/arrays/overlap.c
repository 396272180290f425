#include "arrays/overlap.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"

#define LOOKS_MOST UINT64_C(200000000)

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* ---- one dimension ---- */

static uint64_t global_of(const struct vv_part_dim *dim, uint64_t local) {
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

/* The next elements that follow each other on both sides, from this one of `there` on: 1 and where, or 0. Each step
 * passes a block of both; -E2BIG when there are none left. */
static int find_within(const struct vv_part_dim *there, const struct vv_part_dim *here, uint64_t from, uint64_t *steps,
                       struct vv_overlap_dim *out) {
    if (!is_together(there) && !is_together(here) && !can_meet(there, here))
        return 0;
    while (from < there->local) {
        if ((*steps)-- == 0)
            return -E2BIG;
        uint64_t global = global_of(there, from), to = local_from(here, global);
        if (to == here->local)
            return 0;
        uint64_t next = global_of(here, to);
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

/* A part among others, and where it lies in the dimension that they are sorted by. */
struct sorted {
    const struct vv_part *part;
    uint64_t first, end;
    size_t number;
};

static int by_first(const void *a, const void *b) {
    const struct sorted *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

static int by_number(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The dimension in which they begin at most different indices; -ENOMEM. */
static int most_spread(const struct vv_part *const *parts, size_t count) {
    uint64_t *firsts = vv_calloc(count + 1, sizeof *firsts);
    size_t most = 0;
    int best = 0;
    if (!firsts)
        return -ENOMEM;
    for (unsigned i = 0; count > 0 && i < parts[0]->dims; i++) {
        size_t different = 0;
        for (size_t j = 0; j < count; j++)
            firsts[j] = parts[j]->dim[i].first;
        qsort(firsts, count, sizeof *firsts, by_number);
        for (size_t j = 1; j < count; j++)
            different += firsts[j] != firsts[j - 1];
        if (different > most) {
            most = different;
            best = (int)i;
        }
    }
    vv_free(firsts);
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
static int find_meeting(const struct sorted *list, size_t count, size_t *first, size_t *second) {
    uint64_t steps = LOOKS_MOST;
    for (size_t i = 0; i < count; i++)
        for (size_t j = i + 1; j < count && list[j].first < list[i].end; j++) {
            int rc = meet(list[i].part, list[j].part, &steps);
            if (rc < 0)
                return rc;
            if (rc > 0) {
                *first = list[i].number < list[j].number ? list[i].number : list[j].number;
                *second = list[i].number < list[j].number ? list[j].number : list[i].number;
                return 1;
            }
        }
    return 0;
}

int vv_parts_meet(const struct vv_part *const *parts, size_t count, size_t *first, size_t *second) {
    struct sorted *list = vv_calloc(count + 1, sizeof *list);
    int dim = list ? most_spread(parts, count) : -ENOMEM;
    size_t used = 0;
    for (size_t i = 0; i < count && dim >= 0; i++)
        if (vv_part_elements(parts[i]) > 0)
            list[used++] = (struct sorted){parts[i], parts[i]->dim[dim].first, vv_part_end(&parts[i]->dim[dim]), i};
    if (dim >= 0)
        qsort(list, used, sizeof *list, by_first);
    int rc = dim < 0 ? dim : find_meeting(list, used, first, second);
    vv_free(list);
    return rc;
}
