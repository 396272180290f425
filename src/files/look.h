/* Looks into a file, in a child process that may crash, hang or talk nonsense. */
#ifndef FILES_LOOK_H
#define FILES_LOOK_H

#include "files/found.h"

#define FILES_NOTE_CAPACITY 160

/* The last three are those of archive/look.h. */
enum files_kind { FILES_PLAIN, FILES_HDF5, FILES_NETCDF, FILES_TAR, FILES_DMTCP, FILES_CRIU };

enum files_kind files_kind_of(int fd, uint64_t size);

/* Fill found with what the file holds, checked. What cannot be known is not there, and note says why ("" otherwise).
 * Call it before there are threads. 0 or -errno when no child can be started. */
int files_look(int fd, uint64_t size, enum files_kind kind, struct files_found *found, char note[FILES_NOTE_CAPACITY]);

/* The same with any function in the place of what looks: it runs in the child and writes what it finds
 * (files_found_write). It ends by returning what it came to: 0, or a negative code. */
typedef int (*files_look_fn)(void *arg, int answer);
int files_look_by(files_look_fn fn, void *arg, uint64_t size, enum files_kind kind, int seconds,
                  struct files_found *found, char note[FILES_NOTE_CAPACITY]);

#endif
