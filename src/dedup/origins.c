/* Lists of origins: append with joining, search, overlay. */
#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/search.h"
#include "dedup/origins.h"

void vv_origins_clear(struct vv_origins *origins) {
    vv_free(origins->list);
    origins->list = NULL;
    origins->count = origins->capacity = 0;
}

/* Can `next` be joined to `last`, which ends where it begins? */
static int join(struct vv_origin *last, const struct vv_origin *next) {
    if (last->offset + last->length != next->offset)
        return 0;
    if (last->kind == VV_ORIGIN_ZERO && next->kind == VV_ORIGIN_ZERO) {
        last->length += next->length;
        return 1;
    }
    if (last->kind == VV_ORIGIN_ZERO || next->kind == VV_ORIGIN_ZERO || last->source != next->source ||
        last->owner != next->owner)
        return 0;
    if (last->kind == VV_ORIGIN_FROM && next->kind == VV_ORIGIN_FROM) {
        if (last->address + last->length == next->address) {
            last->length += next->length;
            return 1;
        }
        if (last->address != next->address || next->length > last->length || last->length > UINT32_MAX)
            return 0;
        last->kind = VV_ORIGIN_REPEATED;
        last->piece = (uint32_t)last->length;
        last->length += next->length;
        return 1;
    }
    if (last->kind != VV_ORIGIN_REPEATED)
        return 0;
    /* More of the same: it goes on in the middle of a piece, or with whole ones. */
    uint64_t phase = last->length % last->piece;
    int goes_on = next->kind == VV_ORIGIN_FROM
                      ? next->address == last->address + phase && next->length <= last->piece - phase
                      : phase == 0 && next->address == last->address && next->piece == last->piece;
    last->length += goes_on ? next->length : 0;
    return goes_on;
}

int vv_origins_add(struct vv_origins *origins, const struct vv_origin *origin) {
    if (origin->length == 0)
        return 0;
    if (origins->count > 0 && join(&origins->list[origins->count - 1], origin))
        return 0;
    if (VV_GROW_FROM(origins->list, origins->count, origins->capacity, 1) != 0) /* most regions have one */
        return -ENOMEM;
    origins->list[origins->count++] = *origin;
    return 0;
}

static int compare_offsets(const void *a, const void *b) {
    const struct vv_origin *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

void vv_origins_sort(struct vv_origins *origins) {
    size_t at = 1, kept = 0;
    while (at < origins->count && origins->list[at - 1].offset < origins->list[at].offset)
        at++;
    if (at >= origins->count)
        return;
    qsort(origins->list, origins->count, sizeof *origins->list, compare_offsets);
    for (at = 1; at < origins->count; at++)
        if (!join(&origins->list[kept], &origins->list[at]))
            origins->list[++kept] = origins->list[at];
    origins->count = kept + 1;
}

size_t vv_origins_find(const struct vv_origins *origins, uint64_t offset) {
    size_t at;
    VV_SEARCH(at, 0, origins->count, origins->list[at].offset + origins->list[at].length <= offset);
    return at;
}

int vv_origins_say(const struct vv_origins *origins, const struct vv_origin *origin) {
    size_t at = vv_origins_find(origins, origin->offset);
    if (at == origins->count)
        return 0;
    const struct vv_origin *own = &origins->list[at];
    if (own->offset > origin->offset || own->offset + own->length < origin->offset + origin->length)
        return 0;
    if (origin->kind == VV_ORIGIN_ZERO || own->kind == VV_ORIGIN_ZERO)
        return origin->kind == own->kind;
    uint64_t delta = origin->offset - own->offset;
    if (own->kind == VV_ORIGIN_REPEATED) {
        delta %= own->piece;
        if (delta + origin->length > own->piece)
            return 0;
    }
    return own->source == origin->source && own->owner == origin->owner && own->address + delta == origin->address;
}

struct vv_origin vv_origin_part(const struct vv_origin *origin, uint64_t *from, uint64_t to) {
    struct vv_origin part = *origin;
    uint64_t skip = *from - origin->offset;
    part.offset = *from;
    part.length = to - *from;
    if (origin->kind == VV_ORIGIN_FROM) {
        part.address += skip;
    } else if (origin->kind == VV_ORIGIN_REPEATED) {
        uint64_t phase = skip % origin->piece;
        uint64_t rest = origin->piece - phase;
        if (phase != 0 || part.length <= rest) { /* one piece or the end of one: no longer repeated */
            part.kind = VV_ORIGIN_FROM;
            part.piece = 0;
            part.address += phase;
            if (part.length > rest)
                part.length = rest;
        }
    }
    *from += part.length;
    return part;
}

/* Append what below says about [from, to). */
static int add_below(const struct vv_origins *below, size_t *at, uint64_t from, uint64_t to, struct vv_origins *out) {
    while (from < to) {
        while (*at < below->count && below->list[*at].offset + below->list[*at].length <= from)
            (*at)++;
        if (*at == below->count || below->list[*at].offset > from)
            return -EINVAL; /* a hole: a mistake of the caller's */
        const struct vv_origin *origin = &below->list[*at];
        uint64_t end = origin->offset + origin->length < to ? origin->offset + origin->length : to;
        while (from < end) {
            struct vv_origin part = vv_origin_part(origin, &from, end);
            int rc = vv_origins_add(out, &part);
            if (rc)
                return rc;
        }
    }
    return 0;
}

int vv_origins_merge(const struct vv_origins *below, const struct vv_origins *top, uint64_t length,
                     struct vv_origins *out) {
    uint64_t done = 0;
    size_t at = 0;
    for (size_t i = 0; i < top->count; i++) {
        int rc = add_below(below, &at, done, top->list[i].offset, out);
        if (rc == 0)
            rc = vv_origins_add(out, &top->list[i]);
        if (rc)
            return rc;
        done = top->list[i].offset + top->list[i].length;
    }
    return done < length ? add_below(below, &at, done, length, out) : 0;
}
