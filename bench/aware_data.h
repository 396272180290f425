/* States of many ranks at several times: the dumps that bench-aware checkpoints.
 *
 * They lie in files, FOLDER/NAME/TIME.RANK: all arrays of a rank one after another, as a program would write its
 * memory; FOLDER/NAME/TIME.RANK.list says what they are, a line each: "NAME TYPE DIMENSION...". aware-data.sh makes
 * such files of real programs. The states of bench-codec are made here, for as many ranks as there are, as parts of one
 * problem:
 *
 *   hydro     a solver with refined patches (hydro.h), 1.5 MiB a rank, after 50, 100, 150 and 200 steps; patches are
 *             dealt out along a curve, so that each rank has its part of the square
 *   storm     bench-storm's fields (storm.h), four of them: 4 MiB a rank, after 10, 20, 30 and 40 steps
 *   float32   smooth fields in two dimensions with noise: waves that travel; the ranks are tiles of the plane
 *   counters  integers, most of them 0; more of them are not as time goes on
 *   text      a heap of each rank: strings of the same words, lengths, pointers
 *   random    doubles with random bits */
#ifndef AWARE_DATA_H
#define AWARE_DATA_H

#include "arrays.h"

#define AWARE_TIMES 4u

extern const char *const aware_names[]; /* of those that are made here; ends with NULL */

/* Make the dumps of this name, unless they are there. Collective. 0, or -1 for a name that is none of these. */
int aware_make(const char *folder, const char *name);
/* This rank's part. Ends the program if it is not there. */
void aware_read(const char *folder, const char *name, unsigned time, struct arrays *out);
/* Is it there, for exactly as many ranks as there are? */
int aware_is_there(const char *folder, const char *name);
/* Bytes of the dumps of all ranks one after another, and what gzip -6 makes of that stream. 0 if there is no gzip. Not
 * collective. */
double aware_gzip(const char *folder, const char *name, unsigned time, double *bytes_out);

#endif
