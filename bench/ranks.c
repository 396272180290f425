/* Taking the time of many processes. */
#include "ranks.h"

#include "bench.h"

double ranks_start(void) {
    ranks_meet();
    return bench_now();
}

double ranks_stop(double start) {
    ranks_meet();
    return ranks_most(bench_now() - start);
}
