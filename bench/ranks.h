/* The processes that run a benchmark together: those mpirun has started, or this one alone.
 *
 * ranks_mpi.c has all calls of MPI that benchmarks make; ranks_single.c stands in for it where there is no MPI. All
 * of this but ranks_own and ranks_all is collective: every rank calls it, in the same order. What cannot go on ends
 * the program, and mpirun then ends the others. */
#ifndef RANKS_H
#define RANKS_H

#include <varve/varve.h>

void ranks_begin(int *argc, char ***argv);
void ranks_end(void);
unsigned ranks_own(void);        /* which one this is, from 0 */
unsigned ranks_all(void);        /* how many there are */
void ranks_meet(void);           /* returns when all have come */
double ranks_most(double value); /* the largest of all ranks' values */
double ranks_sum(double value);  /* all ranks' values together */
int ranks_open(const char *store, const char *name, const struct varve_options *options, struct varve_session **out,
               struct varve_error *error);

/* Seconds of something all ranks do at the same time: from when all are ready until all have done it. The same on
 * every rank. */
double ranks_start(void);
double ranks_stop(double start);

#endif
