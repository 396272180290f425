/* Gives out the bytes of a plan's regions, read from the files. */
#ifndef FILES_SOURCE_H
#define FILES_SOURCE_H

#include "files/plan.h"

struct files_source {
    const struct files_plan *plan;
    int folder;
    const int *fds; /* of the files, -1 where one is not open already; NULL: none is */
    int fd;         /* of the file that was read last, -1 */
    uint32_t file;
    uint64_t ahead;  /* the kernel was told to read up to here */
    int is_dropping; /* what was read need not stay in memory: there is more than fits */
    struct varve_error error;
};

void files_source_open(struct files_source *source, const struct files_plan *plan, int folder, const int *fds);
/* `size` bytes at `offset` of the region of this number. 0 or a negative code; source->error tells more: -EAGAIN when a
 * file has changed since it was found. */
int files_source_read(struct files_source *source, size_t number, uint64_t offset, void *buffer, size_t size);
/* Are all files as they were? */
int files_source_check(struct files_source *source);
void files_source_close(struct files_source *source);

#endif
