/* Puts files below a folder, and never outside of it: no component of a path is followed if it is a symbolic link. A
 * file is written as PATH.partial and becomes PATH when it is complete. */
#ifndef FILES_PLACE_H
#define FILES_PLACE_H

#include "files/plan.h"

struct files_place {
    int folder;
    int is_forced; /* replace files that are there */
    int fd;        /* of the file that was written last, -1 */
    uint32_t file;
};

/* Make PATH.partial with its size, all zeros. Makes the folders on the way. */
int files_place_begin(struct files_place *place, const struct files_file *file, struct varve_error *error);
/* Write into PATH.partial of this number. Zeros may be left out where nothing was written yet. */
int files_place_write(struct files_place *place, const struct files_file *file, uint32_t number, uint64_t offset,
                      const void *data, size_t size, struct varve_error *error);
/* All was written: permissions, time, and the name. */
int files_place_finish(struct files_place *place, const struct files_file *file, uint32_t number,
                       struct varve_error *error);
/* All files that were finished are on storage: one wait for all of them, as there may be very many. */
int files_place_sync(struct files_place *place, struct varve_error *error);
/* Take PATH.partial away again. */
void files_place_drop(struct files_place *place, const struct files_file *file);
void files_place_close(struct files_place *place);

#endif
