#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/content_id.h"
#include "base/hash.h"
#include "dedup/fine_sample.h"

#define GRANULE 4096u
#define PIECE 32u
#define PIECES (GRANULE / PIECE)
#define ONE_IN 64u /* granules of a region is sampled, */
#define SAMPLED_MOST 256u
#define ENOUGH 8u /* and so many must have changed before anything is said */
#define SET_SLOTS 65536u
#define SEEN_BYTES 28.0 /* to remember one chunk that may turn up elsewhere, */
#define MARK_BYTES 12.0 /* and what was where */
#define RUN_BYTES 9.0   /* metadata of a run, its extent included: as measured */
#define WORTH 0.9       /* stored bytes must fall below this share */

/* Sizes that are compared. */
enum { SIZES = 4 };
static const uint32_t sizes[SIZES] = {64, 128, 256, 512};

struct sum {
    double first, shifted; /* bytes */
    double distinct, runs, chunks;
};

struct vv_fine_sample {
    uint64_t granules, step; /* every step-th is sampled */
    uint32_t looked;         /* granules of which both states are known */
    double bytes;            /* of them */
    struct sum sums[SIZES];
    uint8_t *has; /* per sampled granule: its pieces are there */
    uint64_t *pieces;
};

void vv_fine_set_clear(struct vv_fine_set *set) {
    vv_free(set->slots);
    set->slots = NULL;
}

struct vv_fine_sample *vv_fine_sample_make(uint64_t granules) {
    uint64_t count = granules / ONE_IN < SAMPLED_MOST ? granules / ONE_IN : SAMPLED_MOST;
    struct vv_fine_sample *sample = count ? vv_calloc(1, sizeof *sample) : NULL;
    if (!sample)
        return NULL;
    sample->granules = granules;
    sample->step = granules / count;
    count = granules / sample->step + 1;
    sample->has = vv_calloc(count, 1);
    sample->pieces = vv_calloc(count, PIECES * sizeof *sample->pieces);
    if (sample->has && sample->pieces)
        return sample;
    vv_fine_sample_free(sample);
    return NULL;
}

void vv_fine_sample_free(struct vv_fine_sample *sample) {
    if (!sample)
        return;
    vv_free(sample->has);
    vv_free(sample->pieces);
    vv_free(sample);
}

int vv_fine_sample_is_of(const struct vv_fine_sample *sample, uint64_t granules) {
    return sample && sample->granules == granules;
}

/* ---- looking ---- */

/* 1 if this chunk was met before; it was from now on. Zeros count as met: they are never stored. */
static int meet(struct vv_fine_set *set, const uint64_t *pieces, uint32_t count) {
    uint64_t all = 0, any = 0;
    for (uint32_t i = 0; i < count; i++) {
        any |= pieces[i];
        all = (all ^ pieces[i]) * UINT64_C(0x9E3779B97F4A7C15);
        all ^= all >> 29;
    }
    if (any == 0)
        return 1;
    uint64_t *slot = &set->slots[(all >> 20) % SET_SLOTS];
    int is_met = *slot == all;
    *slot = all;
    return is_met;
}

/* before NULL: nothing is known of how it was, so the chunks are only met. */
static void look_in(struct sum *sum, struct vv_fine_set *set, uint32_t size, const uint64_t *before,
                    const uint64_t *now) {
    uint32_t count = size / PIECE;
    int last = 0; /* 0 fixed, 1 new, 2 elsewhere */
    for (uint32_t at = 0; at < PIECES; at += count) {
        int is_fixed = before && memcmp(before + at, now + at, count * sizeof *now) == 0;
        int is_met = meet(set, now + at, count);
        int label = is_fixed ? 0 : is_met ? 2 : 1;
        if (before) {
            sum->first += label == 1 ? size : 0;
            sum->shifted += label == 2 ? size : 0;
            sum->runs += label != 0 && label != last;
        }
        sum->distinct += !is_met;
        sum->chunks++;
        last = label;
    }
}

static void name_pieces(const uint8_t *data, uint64_t *out) {
    for (uint32_t i = 0; i < PIECES; i++, data += PIECE)
        out[i] = vv_is_zero(data, PIECE) ? 0 : vv_sum64(data, PIECE);
}

void vv_fine_sample_look(struct vv_fine_sample *sample, struct vv_fine_set *set, uint64_t index, const uint8_t *data,
                         uint32_t size) {
    if (!sample || index % sample->step != 0 || size != GRANULE || index >= sample->granules)
        return;
    if (!set->slots)
        set->slots = vv_calloc(SET_SLOTS, sizeof *set->slots);
    if (!set->slots)
        return;
    uint64_t now[PIECES], slot = index / sample->step, *kept = sample->pieces + slot * PIECES;
    name_pieces(data, now);
    for (int i = 0; i < SIZES; i++)
        look_in(&sample->sums[i], set, sizes[i], sample->has[slot] ? kept : NULL, now);
    sample->looked += sample->has[slot];
    sample->bytes += sample->has[slot] ? GRANULE : 0;
    sample->has[slot] = 1;
    memcpy(kept, now, sizeof now);
}

/* ---- judging ---- */

/* Bytes that would be stored with chunks of this size. What cannot be remembered counts as new. */
static double stored(const struct vv_fine_sample *sample, int i, double remember) {
    const struct sum *sum = &sample->sums[i];
    double left = remember - MARK_BYTES / sizes[i];
    double needed = sum->chunks > 0 ? SEEN_BYTES / sizes[i] * sum->distinct / sum->chunks : 0;
    if (left < 0)
        return sample->bytes;
    double known = needed > left ? left / needed : 1;
    return sum->first + (1 - known) * sum->shifted + RUN_BYTES * sum->runs;
}

uint32_t vv_fine_sample_evaluate(struct vv_fine_sample *sample, const struct vv_fine_costs *costs, uint32_t now,
                                 char reason[64]) {
    if (!sample || sample->looked < ENOUGH)
        return now;
    double whole = sample->bytes, best = whole * costs->write, share = 1;
    uint32_t chosen = 0;
    for (int i = 0; i < SIZES; i++) {
        double bytes = stored(sample, i, costs->remember);
        double seconds = bytes * costs->write + whole * costs->look;
        if (bytes < WORTH * whole && seconds < best) {
            best = seconds;
            chosen = sizes[i];
        }
        share = bytes / whole < share ? bytes / whole : share;
    }
    snprintf(reason, 64, "samples: %.0f %% of what changed is new%s", share * 100,
             chosen || share >= WORTH ? "" : ", but looking takes longer");
    sample->looked = 0;
    sample->bytes = 0;
    memset(sample->sums, 0, sizeof sample->sums);
    return chosen;
}
