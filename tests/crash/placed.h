/* A program's memory that belongs to the whole job: what an element must be follows from its place in the job's array
 * and the version, whatever number of ranks has saved it and whatever number gets it back.
 *
 * Regions: "field" (rows or columns, by the number of ranks, and half of it on rank 1), "cyclic" (dealt out in blocks),
 * "list" (joined; longer from version to version, and rank 0 has none), "common" (replicated, and says how many ranks
 * have saved it), "own" (by rank) and "scratch" (dropped); and an attribute. */
#ifndef VARVE_CRASH_PLACED_H
#define VARVE_CRASH_PLACED_H

#include <stddef.h>
#include <stdint.h>
#include <varve/varve.h>

enum { PLACED_FIELD, PLACED_CYCLIC, PLACED_LIST, PLACED_COMMON, PLACED_OWN, PLACED_SCRATCH, PLACED_REGIONS };

struct placed {
    uint32_t rank, ranks; /* ranks 0: there is no such memory */
    int is_fixed;         /* all sizes are the same in every version */
    uint64_t salt;        /* another world of the same shape */
    void *data[PLACED_REGIONS];
    uint64_t size[PLACED_REGIONS];
};

/* As in world.h. */
int placed_set(struct placed *placed, struct varve_session *session, int64_t version, int is_garbage);
int placed_compare(const struct placed *placed, int64_t version, char *text, size_t capacity);
void placed_clear(struct placed *placed);

/* Shall the data of the campaign be such memory, and its jobs come back on other numbers of ranks? (JOB_MOVED=1) */
int placed_is_wanted(void);

#endif
