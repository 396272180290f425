/* The promises of varve_backend.h as tests, for any backend.
 *
 * A target says how to open the backend under test; the suite opens it empty, runs, and closes it.
 * docs/backend-developers.md tells how to run it on a backend of your own. */
#ifndef VARVE_CONFORMANCE_H
#define VARVE_CONFORMANCE_H

#include "backend/backend.h"

struct conformance_target {
    const char *name;
    /* Open an empty backend; 0 or a negative error. */
    int (*open)(void *arg, struct varve_backend **out);
    /* Undo what open left behind; the backend is closed already. May be NULL. */
    void (*clean)(void *arg);
    void *arg;
    /* Characters of the longest key it takes; 0: all of them. Those of a store have at most 511. */
    size_t key_max;
};

/* Number of failed tests, as cmocka counts them. */
int conformance_run(const struct conformance_target *target);

#endif
