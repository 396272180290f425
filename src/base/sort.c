/* Ids are hashes, so their first bits put nearly everything into its place at once. Ids that are not (somebody's own
 * numbers) are sorted the ordinary way. */
#include "base/sort.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"

#define SMALL 24 /* entries that are sorted by insertion */

struct things {
    const uint8_t *first;
    size_t stride;
};

struct key {
    uint64_t low;
    uint32_t at;
};

static struct vv_hash128 id_of(const struct things *things, size_t at) {
    return *(const struct vv_hash128 *)(const void *)(things->first + at * things->stride);
}

static int is_before(const struct key *a, const struct key *b, const struct things *things) {
    if (a->low != b->low)
        return a->low < b->low;
    uint64_t x = id_of(things, a->at).high, y = id_of(things, b->at).high;
    return x != y ? x < y : a->at < b->at;
}

static int compare_keys(const void *a, const void *b, void *arg) {
    return is_before(a, b, arg) ? -1 : 1;
}

static void sort_few(struct key *keys, size_t count, const struct things *things) {
    for (size_t i = 1; i < count; i++) {
        struct key key = keys[i];
        size_t to = i;
        for (; to > 0 && is_before(&key, &keys[to - 1], things); to--)
            keys[to] = keys[to - 1];
        keys[to] = key;
    }
}

static void sort_bucket(struct key *keys, size_t count, struct things *things) {
    if (count <= SMALL)
        sort_few(keys, count, things);
    else
        qsort_r(keys, count, sizeof *keys, compare_keys, things);
}

/* One bucket for two to four. */
static unsigned bits_for(size_t count) {
    unsigned bits = 1;
    while (bits < 24 && (size_t)4 << bits <= count)
        bits++;
    return bits;
}

/* ends: room for 2^bits, all 0. */
static void sort_keys(struct things *things, size_t count, struct key *keys, uint32_t *ends, unsigned bits) {
    unsigned shift = 64 - bits;
    uint32_t sum = 0;
    for (size_t i = 0; i < count; i++)
        ends[id_of(things, i).low >> shift]++;
    for (size_t i = 0; i < (size_t)1 << bits; i++) {
        uint32_t here = ends[i];
        ends[i] = sum;
        sum += here;
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t low = id_of(things, i).low;
        keys[ends[low >> shift]++] = (struct key){low, (uint32_t)i};
    }
    for (size_t i = 0, begin = 0; i < (size_t)1 << bits; begin = ends[i++])
        if (ends[i] - begin > 1)
            sort_bucket(keys + begin, ends[i] - begin, things);
}

int vv_order_by_id(const struct vv_hash128 *first, size_t stride, size_t count, uint32_t *order) {
    struct things things = {(const uint8_t *)first, stride};
    unsigned bits = bits_for(count);
    uint32_t *ends = vv_calloc((size_t)1 << bits, sizeof *ends);
    struct key *keys = vv_malloc((count + 1) * sizeof *keys);
    int rc = ends && keys ? 0 : -ENOMEM;
    if (rc == 0)
        sort_keys(&things, count, keys, ends, bits);
    for (size_t i = 0; i < count && rc == 0; i++)
        order[i] = keys[i].at;
    vv_free(keys);
    vv_free(ends);
    return rc;
}
