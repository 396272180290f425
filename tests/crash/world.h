/* A program's memory whose contents follow from the version alone: what a checkpoint must give back can be computed for
 * any version at any time, by any process.
 *
 * Regions: "grow" (longer with each version, ends within a page), "move" (another place in memory each time, data that
 * moves within it), "sparse" (from varve_alloc, mostly never touched), "bulk" (more than a part holds, a page of it
 * changes), "zero" (zeros in every other version), "calls" (behind callbacks), and "visitor" (protected in some
 * versions only). "grow", "move" and "bulk" are arrays of i16, f32 and f64. In all of them there are pages of which
 * only pieces change, or move. Or, if placed.ranks is not 0, those of placed.h. */
#ifndef VARVE_CRASH_WORLD_H
#define VARVE_CRASH_WORLD_H

#include "details.h"
#include "placed.h"
#include <stddef.h>
#include <stdint.h>
#include <varve/varve.h>

enum { WORLD_GROW, WORLD_MOVE, WORLD_SPARSE, WORLD_BULK, WORLD_ZERO, WORLD_CALLS, WORLD_VISITOR, WORLD_REGIONS };

struct world_bytes {
    uint8_t *data;
    uint64_t size;
};

struct world {
    struct varve_session *session;
    struct world_bytes regions[WORLD_REGIONS];
    uint64_t salt;   /* another world of the same shape */
    uint64_t common; /* salt of what several worlds have in common; 0: nothing */
    int is_fixed;    /* all regions always there, always of one size */
    int is_small;    /* without the bulk of data that fills parts */
    struct placed placed;
};

const char *world_name(int region);
/* Size of a region in a version; -1 if it is not protected then. */
int64_t world_size(const struct world *world, int region, int64_t version);
/* What a region holds in a version. out has world_size bytes. */
void world_fill(const struct world *world, int region, int64_t version, uint8_t *out);

/* Protect what a version holds, with the right contents, or with garbage to be overwritten by a restart. 0, or the
 * error of the library. */
int world_set(struct world *world, int64_t version);
int world_garbage(struct world *world, int64_t version);
/* 0 if the memory is what it is in this version, else -1 and the first difference in text. */
int world_compare(const struct world *world, int64_t version, char *text, size_t capacity);
/* Forget the memory: before the session is closed, or after. */
void world_clear(struct world *world);

/* What happened while nothing went wrong: a campaign with VARVE_FINE must meet all kinds of fine chunks, one with
 * VARVE_SPACE attempts that are emptied. */
struct world_shown {
    uint64_t fixed, zero, first, shifted; /* chunks */
    uint64_t rewritten;                   /* bytes */
};
void world_shown_add(struct world_shown *shown, const struct vv_details *stats);
/* What is missing although the environment asks for it; NULL: nothing. */
const char *world_shown_missing(const struct world_shown *shown);

#endif
