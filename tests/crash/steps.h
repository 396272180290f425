/* Points of the scenario, what crash-steps, error-steps and alloc-steps try one after another. */
#ifndef VARVE_CRASH_STEPS_H
#define VARVE_CRASH_STEPS_H

#include "scenario.h"

struct point {
    char kind[24]; /* a fault of the backend, "point" (a named one), or "alloc" */
    char what[96]; /* errno of the fault, or the name of the point */
    char on_error[16];
    int handle;
    int threads;
    uint64_t k;
};

struct points {
    struct point *list;
    size_t count, capacity;
};

void points_add(struct points *points, const struct point *point);
void points_clear(struct points *points);
/* The point as text for --replay, and back. text has 256 bytes. */
void point_print(const struct point *point, char *text);
int point_parse(const char *text, struct point *out);

/* How many operations a handle's backend does, and how many allocations and steps there are in all, when nothing goes
 * wrong. */
uint64_t count_operations(struct campaign *campaign, int handle);
void count_plain(struct campaign *campaign, uint64_t *allocations, uint64_t *steps);
/* Add every occurrence of every named fault point of the scenario; most: per name, 0 for all. */
void add_named_points(struct campaign *campaign, struct points *points, uint64_t most);

/* Put the points in the order of campaign_hash, print how many there are, and drop those that the campaign does not
 * take. */
void points_choose(struct campaign *campaign, struct points *points);
/* Try the points that the campaign chooses, or the one to be replayed. */
void points_run(struct campaign *campaign, struct points *points, int is_tolerant);

#endif
