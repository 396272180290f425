/* What bench-adaptive says of its runs: a line of JSON for each, and for people whether the bounds are kept. */
#ifndef ADAPTIVE_REPORT_H
#define ADAPTIVE_REPORT_H

#include <stdio.h>

#include "adaptive.h"

struct adaptive_line {
    const struct adaptive_case *c;
    const struct adaptive_result *result;
    const struct adaptive_result *without; /* the same without us */
    double sync;                           /* overhead of a synchronous checkpoint, seconds */
    char sync_from[64];                    /* of which runs */
    double no_pattern_wait; /* WAIT pages of the mode no-pattern, same pattern and storage; -1: not run */
};

/* Seconds of run time that a checkpoint cost: the call and the iterations until it was durable, minus as many that are
 * not disturbed. */
double adaptive_overhead(const struct adaptive_line *line, unsigned checkpoint);
double adaptive_mean_overhead(const struct adaptive_line *line);
double adaptive_wait_pages(const struct adaptive_result *r); /* mean of the checkpoints */

void adaptive_json(FILE *file, const struct adaptive_line *line);
/* One line per bound to stderr; how many are not kept. */
unsigned adaptive_judge(const struct adaptive_line *line);

#endif
