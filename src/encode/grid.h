/* Rounding to multiples of a power of two: the only lossy step there is, done before ids and digests are taken. */
#ifndef VV_GRID_H
#define VV_GRID_H

#include <stddef.h>
#include <stdint.h>

/* The largest power of two that rounding to its multiples changes no value by more than bound; 0 if bound is not a
 * positive, finite, normal number. */
double vv_grid_of(double bound);
/* Round the whole values in size bytes (type VARVE_F32 or VARVE_F64) to the nearest multiple of grid, a power of two;
 * ties to the even one. What rounds to -0, and -0, becomes 0. As they are stay: what is not finite; what is so large
 * that all such numbers are multiples; what would round to infinity; the bytes behind the last whole value. in and out
 * may be the same, and have any alignment. */
void vv_grid_round(uint8_t type, double grid, const void *in, void *out, size_t size);

#endif
