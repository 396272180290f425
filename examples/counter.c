/* A program that survives being killed: it counts in a large array and takes a checkpoint every 100 steps.
 *
 *     counter STORE [STEPS]
 *
 * Kill it at any time and start it again: it goes on from the last checkpoint. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <varve/varve.h>

#define CELLS (1 << 20)

static double cells[CELLS];

/* One step touches a tenth of the array: only that is written by the next checkpoint. */
static void compute(int64_t step) {
    for (int i = 0; i < CELLS / 10; i++)
        cells[(step * 1000 + i) % CELLS] += 1.0 / (double)(step + 1);
}

static int fail(struct varve_session *session) {
    fprintf(stderr, "counter: %s\n", varve_session_error(session)->text);
    varve_close(session);
    return 1;
}

int main(int argc, char **argv) {
    struct varve_session *session;
    struct varve_error error;
    int64_t step = -1;
    int64_t last = argc > 2 ? atoll(argv[2]) : 20000;
    if (argc < 2 || argv[1][0] == '-') {
        fprintf(stderr, "usage: counter STORE [STEPS]\n");
        return 1;
    }
    if (varve_open(argv[1], "counter", NULL, &session, &error) != 0) {
        fprintf(stderr, "counter: %s\n", error.text);
        return 1;
    }
    int rc = varve_protect(session, "cells", cells, sizeof cells);
    if (rc == 0)
        rc = varve_restart(session, VARVE_LATEST, &step);
    if (rc != 0 && rc != VARVE_NO_CHECKPOINT)
        return fail(session);
    printf(rc == 0 ? "restarted from step %" PRId64 "\n" : "first run\n", step);
    fflush(stdout);
    for (step++; step < last; step++) {
        compute(step);
        if (step % 100 == 0 && varve_checkpoint(session, step) != 0)
            return fail(session);
    }
    double sum = 0;
    for (int i = 0; i < CELLS; i++)
        sum += cells[i];
    printf("done after step %" PRId64 ", sum %.17g\n", step - 1, sum);
    return varve_close(session) == 0 ? 0 : 1;
}
