/* The storage that bench-scale-restart's simulated ranks share, as a file system would see it. */
#ifndef VARVE_BENCH_SCALE_STORAGE_H
#define VARVE_BENCH_SCALE_STORAGE_H

#include <stdint.h>

/* What a rank has asked for since it opened its store, whose address has count=1. */
struct scale_asked {
    uint64_t requests; /* of any kind */
    uint64_t reads;    /* those that read bytes, */
    uint64_t bytes;    /* and how many these got */
};
struct scale_asked scale_asked(uint32_t rank);

/* The object that was read most often, by all ranks together: how often, since the last call. Its key is in a buffer
 * that the next call writes over. */
uint64_t scale_hottest(const char **key_out);

#endif
