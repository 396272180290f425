/* The processes that run a benchmark together: those mpirun has started, or this one alone.
 *
 * ranks_mpi.c has all calls of MPI that benchmarks make; ranks_single.c stands in for it where there is no MPI. All
 * of this but ranks_own, ranks_all and what is about threads is collective: every rank calls it, in the same order.
 * What cannot go on ends the program, and mpirun then ends the others. */
#ifndef RANKS_H
#define RANKS_H

#include <stddef.h>
#include <varve/varve.h>

/* What is asked of MPI for threads, before ranks_begin: single, funneled, serialized or multiple, which it is unless
 * told: with less the library works inside the calls only. -1 for another word. */
int ranks_ask_threads(const char *level);
const char *ranks_threads(void); /* and what was given */
void ranks_begin(int *argc, char ***argv);
void ranks_end(void);
unsigned ranks_own(void);        /* which one this is, from 0 */
unsigned ranks_all(void);        /* how many there are */
void ranks_meet(void);           /* returns when all have come */
double ranks_most(double value); /* the largest of all ranks' values */
double ranks_sum(double value);  /* all ranks' values together */
int ranks_open(const char *store, const char *name, const struct varve_options *options, struct varve_session **out,
               struct varve_error *error);

/* Rank 0 takes everybody's bytes, its own too, in the order of the ranks. Sizes may differ; data lives during the call.
 */
typedef void (*ranks_take_fn)(void *arg, unsigned rank, const void *data, size_t size);
void ranks_collect(const void *data, size_t size, ranks_take_fn fn, void *arg);
/* Send size bytes to a rank, and take as many from another. Both may be this one. */
void ranks_swap(unsigned to, const void *out, unsigned from, void *in, size_t size);

/* Seconds of something all ranks do at the same time: from when all are ready until all have done it. The same on
 * every rank. */
double ranks_start(void);
double ranks_stop(double start);

#endif
