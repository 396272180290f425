/* What bench-scale needs of the MPI that it runs under: a real one, or a simulated one. */
#ifndef VARVE_BENCH_SCALE_H
#define VARVE_BENCH_SCALE_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

extern const int scale_is_simulated;

/* All ranks return at the same time, and that is what it returns; as nearly as this MPI can. Collective. A round
 * begins, the last one or another; scale_stop ends it, and tells how many seconds of it this rank has computed, where
 * that is known (simulated). */
double scale_start(MPI_Comm mpi, int is_last);
double scale_stop(void);

/* Messages that this rank has sent in reductions and broadcasts so far; 0 where MPI does not tell. */
struct scale_sent {
    uint64_t messages, bytes;
};
struct scale_sent scale_sent(void);
/* Simulated: all others. */
struct scale_sent scale_exchanged(void);
/* bench-scale-restart: where random numbers begin, which all ranks draw from. */
extern uint64_t scale_seed;

#endif
