/* A benchmark without MPI: one process. */
#include "ranks.h"

void ranks_begin(int *argc, char ***argv) {
    (void)argc, (void)argv;
}

void ranks_end(void) {
}

unsigned ranks_own(void) {
    return 0;
}

unsigned ranks_all(void) {
    return 1;
}

void ranks_meet(void) {
}

double ranks_most(double value) {
    return value;
}

double ranks_sum(double value) {
    return value;
}

int ranks_open(const char *store, const char *name, const struct varve_options *options, struct varve_session **out,
               struct varve_error *error) {
    return varve_open(store, name, options, out, error);
}
