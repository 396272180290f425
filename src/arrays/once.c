#include "arrays/once.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define LOOKS_MOST UINT64_C(100000000)

const char *vv_box_text(const struct vv_box *box, char out[VV_BOX_TEXT]) {
    size_t used = 0;
    for (unsigned i = 0; i < box->dims; i++) {
        char range[64];
        size_t length = (size_t)snprintf(range, sizeof range, "%s%" PRIu64 ":%" PRIu64, i ? ", " : "[", box->first[i],
                                         box->end[i]);
        if (used + length + sizeof ", ...]" > VV_BOX_TEXT) {
            used += (size_t)snprintf(out + used, VV_BOX_TEXT - used, ", ...");
            break;
        }
        memcpy(out + used, range, length);
        used += length;
    }
    snprintf(out + used, VV_BOX_TEXT - used, "]");
    return out;
}

/* ---- elements that several have ---- */

static int by_place(const void *a, const void *b) {
    const struct vv_owned *x = a, *y = b;
    int order = memcmp(&x->part, &y->part, sizeof x->part);
    return order ? order : x->owner < y->owner ? -1 : x->owner > y->owner;
}

/* The first one that has the elements of *first, with other bits; or NULL. */
static const struct vv_owned *mark_again(struct vv_owned *list, size_t count, const struct vv_owned **first) {
    *first = list;
    for (size_t i = 1; i < count; i++) {
        if (memcmp(&(*first)->part, &list[i].part, sizeof list[i].part) != 0) {
            *first = &list[i];
            continue;
        }
        list[i].is_again = vv_hash128_equal((*first)->digest, list[i].digest);
        if (!list[i].is_again)
            return &list[i];
    }
    return NULL;
}

static const struct vv_owned *owned_of(const struct vv_part *part) {
    return (const struct vv_owned *)(const void *)((const char *)part - offsetof(struct vv_owned, part));
}

static void tell_twice(const struct vv_owned *a, const struct vv_owned *b, int is_other, struct vv_twice *out) {
    struct vv_overlap overlap;
    *out = (struct vv_twice){.owner = {a->owner, b->owner}, .box.dims = a->part.dims, .is_other = is_other};
    if (a->owner > b->owner) {
        out->owner[0] = b->owner;
        out->owner[1] = a->owner;
    }
    (void)vv_overlap_begin(&overlap, &a->part, &b->part);
    for (unsigned i = 0; i < a->part.dims; i++) {
        out->box.first[i] = vv_part_index(&a->part.dim[i], overlap.dim[i].from);
        out->box.end[i] = out->box.first[i] + overlap.dim[i].length;
    }
}

int vv_parts_once(struct vv_owned *list, size_t count, const struct vv_part **parts, size_t *used,
                  struct vv_twice *twice) {
    const struct vv_owned *first, *other;
    size_t met[2];
    *used = 0;
    if (count > 1)
        qsort(list, count, sizeof *list, by_place);
    other = mark_again(list, count, &first);
    if (other) {
        tell_twice(first, other, 1, twice);
        return 1;
    }
    for (size_t i = 0; i < count; i++)
        if (!list[i].is_again && vv_part_elements(&list[i].part) > 0)
            parts[(*used)++] = &list[i].part;
    int rc = vv_parts_meet(parts, *used, &met[0], &met[1]);
    if (rc > 0)
        tell_twice(owned_of(parts[met[0]]), owned_of(parts[met[1]]), 0, twice);
    return rc;
}

/* ---- elements that nobody has ---- */

static int by_first_index(const void *a, const void *b, void *arg) {
    const struct vv_part *x = *(const struct vv_part *const *)a, *y = *(const struct vv_part *const *)b;
    const unsigned *dim = arg;
    uint64_t left = x->dim[*dim].first, right = y->dim[*dim].first;
    return left < right ? -1 : left > right;
}

/* Looking for the first indices that no part has. */
struct search {
    const struct vv_part *wanted;
    uint64_t looks; /* left: blocks that somebody invented could take years */
    struct vv_box *box;
};

static int find_hole(struct search *search, const struct vv_part **parts, size_t count, unsigned dim);

/* Between two indices at which some part begins or ends, all have the same parts: is there a hole in what is behind?
 * Looks from `at` on, and takes *next nearer, to where such a stretch ends. */
static int look_behind(struct search *search, const struct vv_part *const *parts, size_t count, unsigned dim,
                       uint64_t at, uint64_t *next) {
    const struct vv_part **behind = vv_calloc(count + 1, sizeof(const struct vv_part *));
    size_t used = 0;
    if (!behind)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        uint64_t change;
        if (vv_part_has(&parts[i]->dim[dim], at, &change))
            behind[used++] = parts[i];
        if (change < *next)
            *next = change;
        if (parts[i]->dim[dim].first > at)
            break; /* they ascend */
    }
    int rc = find_hole(search, behind, used, dim + 1);
    vv_free(behind);
    return rc;
}

/* Of what is wanted, the indices that follow each other from at on: its end, or 0 if `at` is behind all of it. */
static uint64_t wanted_from(const struct vv_part_dim *wanted, uint64_t *at) {
    uint64_t change;
    while (!vv_part_has(wanted, *at, &change)) {
        if (change == UINT64_MAX)
            return 0;
        *at = change;
    }
    return change;
}

/* These parts have the indices before this dimension. 1 and the rest of the first box of indices that none of them
 * has; 0 if there is none; -ENOMEM, or -E2BIG after too many looks. */
static int find_hole(struct search *search, const struct vv_part **parts, size_t count, unsigned dim) {
    if (dim == search->wanted->dims)
        return count == 0;
    if (count > 1)
        qsort_r(parts, count, sizeof(const struct vv_part *), by_first_index, &dim);
    uint64_t at = 0, next = 0;
    for (; (next = wanted_from(&search->wanted->dim[dim], &at)) > 0; at = next) {
        if (search->looks <= count)
            return -E2BIG;
        search->looks -= count;
        int rc = look_behind(search, parts, count, dim, at, &next);
        search->box->first[dim] = at;
        search->box->end[dim] = next;
        if (rc)
            return rc;
    }
    return 0;
}

int vv_parts_hole(const struct vv_part *wanted, const struct vv_part **parts, size_t count, struct vv_box *box) {
    struct search search = {.wanted = wanted, .looks = LOOKS_MOST, .box = box};
    box->dims = wanted->dims;
    return find_hole(&search, parts, count, 0);
}
