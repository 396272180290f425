/* A benchmark without MPI: one process. */
#include "ranks.h"

#include <string.h>

int ranks_ask_threads(const char *level) {
    (void)level;
    return 0;
}

const char *ranks_threads(void) {
    return "none";
}

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

void ranks_collect(const void *data, size_t size, ranks_take_fn fn, void *arg) {
    fn(arg, 0, data, size);
}

void ranks_swap(unsigned to, const void *out, unsigned from, void *in, size_t size) {
    (void)to, (void)from;
    memcpy(in, out, size);
}

int ranks_open(const char *store, const char *name, const struct varve_options *options, struct varve_session **out,
               struct varve_error *error) {
    return varve_open(store, name, options, out, error);
}
