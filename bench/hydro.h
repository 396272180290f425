/* A gas that explodes in a shear flow: a small solver with refined patches, whose state bench-codec compresses.
 *
 * The Euler equations in two dimensions (MUSCL-Hancock, HLL fluxes, double precision) on a periodic square. The square
 * is cut into tiles of 16 x 16 cells; where the flow is steep, a patch is divided into four of twice the resolution,
 * twice at the most. Every tenth step it is decided anew where: patches die, and new ones take their places in the
 * arrays, so that neighbours in memory are neighbours in space only by chance. All levels take the same time step;
 * divided patches hold the averages of their parts. Fluxes are not matched between levels: hydro_drift tells how much
 * mass that costs.
 *
 * It starts from two shear layers with ripples, and a hot disc that blows up. Nothing in it is random but by a fixed
 * seed: the same size gives the same state.
 *
 * The state is that of such a program: conserved quantities and pressure with two rows of ghost cells around each
 * patch, fluxes, coordinates, 64-bit cell numbers, flags, counters, float32 fields for pictures, the tree of patches,
 * and some hundreds of small variables of the tiles. */
#ifndef HYDRO_H
#define HYDRO_H

#include "arrays.h"

struct hydro;

struct hydro *hydro_create(size_t bytes); /* of the state, roughly; there is a least size */
void hydro_destroy(struct hydro *hydro);
void hydro_step(struct hydro *hydro);
const struct arrays *hydro_arrays(const struct hydro *hydro);
/* What one of so many ranks would have of it, each about the same: patches that lie together. A copy. */
void hydro_part(const struct hydro *hydro, unsigned which, unsigned parts, struct arrays *out);
/* Change of the mass since the start, relative. */
double hydro_drift(const struct hydro *hydro);
unsigned hydro_leaves(const struct hydro *hydro, unsigned level); /* patches that are not divided */

#endif
