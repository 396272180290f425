/* A file that appears under its name when all of it is right.
 *
 * The folder stays open, and nobody can guess the name until then: a link or a file that somebody has put beside it is
 * never followed or overwritten, and a folder on the way that is exchanged meanwhile leads nowhere. */
#ifndef FILES_OUTPUT_H
#define FILES_OUTPUT_H

#include <sys/stat.h>

#include "files/error.h"

struct files_output {
    const char *path; /* as the user gave it */
    int is_forced;    /* replace what is there */
    int fd;           /* -1: it could not be made */
    int folder;
    const char *name; /* in the folder */
    char partial[48]; /* until all of it is right */
    struct stat made;
};

/* 0, or an error, with a text; then it is closed all the same. path lives as long as it. */
int files_output_open(struct files_output *output, const char *path, int is_forced, struct varve_error *error);
/* rc 0: all of it was written; it is made durable and gets its name. Else it is removed. Returns rc, or what failed. */
int files_output_close(struct files_output *output, int rc, struct varve_error *error);

#endif
