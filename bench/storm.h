/* A storm in the air at rest: the program that bench-storm checkpoints.
 *
 * Sixteen fields of float64 over a domain that is cut into ranks in x and y. Far from the storm every field is its base
 * state, which depends on the height only: the same number in every column. Eleven of the base states drift with time,
 * everywhere alike, as radiation would make them; five stay as they are. The storm is a moving source; what it stirs up
 * is carried on by a steady wind, spreads, and dies away, and what is too weak to matter is taken for the base state
 * again, exactly. It covers about 2 % of the columns.
 *
 * x runs fastest. A rank has 32 x 128 columns of 32 points: 1 MiB per field, and 4 KiB are sixteen rows at one height,
 * so that at rest a rank has the same 4 KiB eight times for each field and height, and all ranks have the same. The
 * columns around a rank's part are received from its neighbours before every step, into memory of their own that nobody
 * needs to save. The domain is periodic. */
#ifndef STORM_H
#define STORM_H

#include <stddef.h>

#define STORM_FIELDS 16
#define STORM_X 32u /* points of a rank */
#define STORM_Y 128u
#define STORM_Z 32u
#define STORM_POINTS ((size_t)STORM_X * STORM_Y * STORM_Z)
#define STORM_FIELD_BYTES (STORM_POINTS * sizeof(double))

extern const char *const storm_names[STORM_FIELDS];

struct storm;

/* Collective, as is storm_step. */
struct storm *storm_create(void);
void storm_destroy(struct storm *storm); /* the fields' memory too */
void storm_step(struct storm *storm);
double *storm_field(struct storm *storm, size_t number); /* page-aligned, always at the same place */
/* Columns of this rank where any field is not at rest. */
size_t storm_disturbed(const struct storm *storm);

#endif
