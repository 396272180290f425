/* Arrays as an HDF5 file that is a netCDF-4 file as well: each array is a dataset, and each of its dimensions has a
 * name. */
#ifndef FILES_HDF5_WRITE_H
#define FILES_HDF5_WRITE_H

#include <stddef.h>
#include <stdint.h>
#include <varve/varve.h>

struct files_h5;

/* Into this file, which is empty. VARVE_UNSUPPORTED where the tool was built without HDF5. */
int files_h5_create(int fd, struct files_h5 **out, struct varve_error *error);
/* A text that belongs to the whole file. */
int files_h5_text(struct files_h5 *file, const char *name, const char *value, struct varve_error *error);
#define FILES_H5_NAME 1100

/* A new array: of each dimension, local counts. A slash in its name leads into a group. Where the name is taken, or can
 * be none, it gets another one: called says which. */
int files_h5_array(struct files_h5 *file, const char *name, const struct varve_array *array, char called[FILES_H5_NAME],
                   struct varve_error *error);
/* Its next bytes, whole elements in the order of C, from this offset on. */
int files_h5_write(struct files_h5 *file, uint64_t offset, const void *data, size_t size, struct varve_error *error);
/* Everything is in the file, or the error. Accepts NULL. */
int files_h5_close(struct files_h5 *file, struct varve_error *error);

#endif
