/* A random sample of what the trackers have said nothing about. */
#include <errno.h>

#include "base/alloc.h"
#include "base/search.h"
#include "capture/capture_private.h"

#define TRIES 8u /* per chunk wanted: drawing is quick where most chunks are candidates */

struct told {
    struct vv_watched *watched;
    uint64_t before; /* chunks of those before it */
};

struct sample {
    struct told *told; /* watches whose trackers have told */
    size_t count;
    uint64_t chunks;     /* of all of them */
    uint64_t candidates; /* of which nothing was said */
    uint64_t *random;
    vv_unreported_fn fn;
    void *arg;
};

/* SplitMix64. */
static uint64_t draw(uint64_t *state, uint64_t below) {
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return below ? (x ^ x >> 31) % below : 0;
}

static int find_told(const struct vv_capture *c, struct sample *sample) {
    for (size_t i = 0; i < c->sorted_count; i++)
        sample->count += c->sorted[i]->told_by != NULL;
    if (sample->count == 0)
        return 0;
    sample->told = vv_calloc(sample->count, sizeof *sample->told);
    if (!sample->told)
        return -ENOMEM;
    sample->count = 0;
    for (size_t i = 0; i < c->sorted_count; i++) {
        struct vv_watched *w = c->sorted[i];
        if (!w->told_by)
            continue;
        sample->told[sample->count++] = (struct told){w, sample->chunks};
        sample->chunks += w->base.chunks;
        sample->candidates += w->base.chunks - w->scheduled;
        for (size_t k = 0; k < w->hole_count; k++)
            sample->candidates -= w->holes[k].last - w->holes[k].first;
    }
    return 0;
}

static int is_in_hole(const struct vv_watched *w, uint64_t chunk) {
    size_t at;
    VV_SEARCH(at, 0, w->hole_count, w->holes[at].last <= chunk);
    return at < w->hole_count && w->holes[at].first <= chunk;
}

static int show(const struct sample *sample, struct vv_watched *w, uint64_t chunk) {
    return sample->fn(sample->arg, &w->base, chunk, w->base.ptr + chunk * VV_PAGE);
}

/* Any chunk, with equal chances. 1: it was a candidate, and is shown. */
static int try_one(const struct sample *sample) {
    uint64_t number = draw(sample->random, sample->chunks);
    size_t above; /* the first has none before it */
    VV_SEARCH(above, 1, sample->count, sample->told[above].before <= number);
    struct vv_watched *w = sample->told[above - 1].watched;
    uint64_t chunk = number - sample->told[above - 1].before;
    if (vv_state(w, chunk) != VV_IDLE || is_in_hole(w, chunk))
        return 0;
    int rc = show(sample, w, chunk);
    return rc ? rc : 1;
}

/* Where candidates are rare: each of those left is taken with the chance that gives as many as are wanted. */
static int walk(const struct sample *sample, uint64_t wanted) {
    uint64_t left = sample->candidates;
    for (size_t i = 0; i < sample->count && wanted > 0; i++) {
        struct vv_watched *w = sample->told[i].watched;
        size_t hole = 0;
        for (uint64_t chunk = 0; chunk < w->base.chunks && wanted > 0; chunk++) {
            if (hole < w->hole_count && chunk >= w->holes[hole].first) {
                chunk = (uint64_t)w->holes[hole++].last - 1;
                continue;
            }
            if (vv_state(w, chunk) != VV_IDLE)
                continue;
            int is_taken = draw(sample->random, left) < wanted;
            int rc = is_taken ? show(sample, w, chunk) : 0;
            if (rc)
                return rc;
            wanted -= is_taken ? 1 : 0;
            left -= left > 1;
        }
    }
    return 0;
}

int vv_capture_unreported(struct vv_capture *c, uint64_t most, uint64_t *random, vv_unreported_fn fn, void *arg) {
    struct sample sample = {.random = random, .fn = fn, .arg = arg};
    uint64_t shown = 0;
    int rc = find_told(c, &sample);
    for (uint64_t i = 0; rc == 0 && sample.candidates > most && shown < most && i < most * TRIES; i++) {
        int one = try_one(&sample);
        shown += one == 1;
        rc = one < 0 ? one : 0;
    }
    if (rc == 0 && shown < most && sample.candidates > 0)
        rc = walk(&sample, most - shown);
    vv_free(sample.told);
    return rc;
}
