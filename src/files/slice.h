/* Which part of an array: "10:20,:,5", an item for each dimension. */
#ifndef FILES_SLICE_H
#define FILES_SLICE_H

#include <varve/varve_inspect.h>

/* text NULL: all of the array. shape becomes what comes out: dimensions of which a single index was asked for are not
 * in it, as in NumPy. -EINVAL and what is wrong. */
int files_slice_parse(const char *text, const struct varve_array *whole, struct varve_slice *out,
                      struct varve_array *shape, struct varve_error *error);

#endif
