/* Classic netCDF files: CDF-1, CDF-2 (64-bit offsets) and CDF-5 (64-bit data). */
#ifndef FILES_NETCDF_H
#define FILES_NETCDF_H

#include "files/found.h"

/* Read `size` bytes at `offset`; 0 or negative. Never asked beyond the file's end. */
typedef int (*files_read_fn)(void *arg, uint64_t offset, void *buffer, size_t size);

int files_is_netcdf(const void *start, size_t size); /* the first bytes of a file */
/* 0, -EBADMSG when the file is damaged, -E2BIG when it has more than we want to know, or what fn returned. */
int files_netcdf(files_read_fn fn, void *arg, uint64_t file_size, struct files_found *found);

#endif
