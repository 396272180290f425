/* HDF5 files (netCDF-4 files are such), through the HDF5 library. It may crash on files that mean it harm: called only
 * in a process that may die. */
#ifndef FILES_HDF5_H
#define FILES_HDF5_H

#include "files/found.h"

/* Where the file's signature lies, behind a user block perhaps; -1: it is no HDF5 file. */
int64_t files_hdf5_signature(int fd, uint64_t file_size);
int files_has_hdf5(void); /* was this program built with the library? */
/* The file is open as fd. 0, -EBADMSG when the library cannot read it, -E2BIG, -ENOMEM, -ENOSYS. */
int files_hdf5(int fd, struct files_found *found);

#endif
