/* What it costs to read a checkpoint: counted where it happens, by any thread, and told by varve_stats_each. Times are
 * sums over all threads. What the storage takes is counted by its wrapper (vv_count_get). */
#ifndef VV_READ_COSTS_H
#define VV_READ_COSTS_H

#include "base/thread.h"

struct vv_read_costs {
    _Atomic uint64_t blocks;        /* that were checked and, if need be, decoded */
    _Atomic uint64_t bytes_raw;     /* in these */
    _Atomic uint64_t rounds;        /* of questions to other ranks */
    _Atomic uint64_t bytes_rebuilt; /* from parity */
    _Atomic uint64_t checking_ns;   /* sums of blocks, ids of chunks */
    _Atomic uint64_t decoding_ns;
    _Atomic uint64_t copying_ns;
    _Atomic uint64_t waiting_ns; /* for other ranks */
};

/* Time has passed since then. Returns now. */
static inline uint64_t vv_cost(_Atomic uint64_t *sum, uint64_t since_ns) {
    uint64_t now = vv_clock_ns();
    *sum += now - since_ns;
    return now;
}

#endif
