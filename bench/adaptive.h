/* The program that bench-adaptive runs, and one run of it.
 *
 * Its memory is noise, another in every page. An iteration visits every page once, in an order that never changes: a
 * fixed count of arithmetic, and then every byte of the page is read, changed and written. So after every iteration a
 * page differs from all others and from what it ever was: nothing is found again, nothing can be compressed. What the
 * memory is after a number of iterations follows from that number alone. */
#ifndef ADAPTIVE_H
#define ADAPTIVE_H

#include <stddef.h>
#include <stdint.h>

#include "details.h"
#include "varve/varve.h"

#define ADAPTIVE_PAGE 4096u
#define ADAPTIVE_ITERATIONS_MAX 256u
#define ADAPTIVE_CHECKPOINTS_MAX 64u

enum adaptive_pattern { ADAPTIVE_ASCENDING, ADAPTIVE_RANDOM, ADAPTIVE_DESCENDING, ADAPTIVE_PATTERNS };
extern const char *const adaptive_patterns[ADAPTIVE_PATTERNS];

struct adaptive_mode {
    const char *name;
    const char *settings; /* NULL: without us */
    unsigned flags;       /* of the protected region */
};

struct adaptive_case {
    const struct adaptive_mode *mode;
    enum adaptive_pattern pattern;
    double r;       /* an iteration shall take this many times what the storage needs for the region */
    double storage; /* bytes per second */
    size_t region, staging;
    unsigned iterations, every; /* a checkpoint after every so many */
    uint64_t work;              /* arithmetic per page */
    int flags;                  /* instead of the mode's; -1: the mode's */
    const char *settings;       /* more of them; may be empty */
    const char *store;          /* a folder that does not exist yet */
};

/* One checkpoint: the call, and the iterations that began before it was durable. */
struct adaptive_checkpoint {
    double call;         /* seconds inside varve_checkpoint */
    double until;        /* seconds from the call until the last of these iterations was done */
    unsigned iterations; /* how many */
    struct vv_details stats;
};

struct adaptive_result {
    unsigned iterations, checkpoints;
    double seconds[ADAPTIVE_ITERATIONS_MAX];
    uint8_t is_disturbed[ADAPTIVE_ITERATIONS_MAX]; /* a checkpoint was in flight */
    struct adaptive_checkpoint checkpoint[ADAPTIVE_CHECKPOINTS_MAX];
    double run;       /* seconds of all iterations and calls */
    double rss;       /* bytes, the most there ever were */
    double iteration; /* median of the undisturbed iterations but the first; 0 if there are none */
};

/* What an iteration takes: seconds that go by the memory, and by one unit of work in every page. */
struct adaptive_speed {
    double touch, unit;
};
void adaptive_measure(size_t region, enum adaptive_pattern pattern, struct adaptive_speed *out);

/* Run it, then restart from every checkpoint and compare. Ends the program with a message when anything is not as it
 * must be. For a process of its own: the peak of its memory is part of the result. */
void adaptive_run(const struct adaptive_case *c, struct adaptive_result *out);

#endif
