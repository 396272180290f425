/* The files that are asked for, found below a folder: plain files and symbolic links, each once, their paths relative
 * to the folder and without "..", so that they can be given back anywhere. */
#ifndef FILES_WALK_H
#define FILES_WALK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "files/error.h"

#define FILES_MOST 500000u /* of one import */
#define FILES_PATH_MOST 4095u

struct files_file {
    char *path;
    char *target; /* of a symbolic link, which has no bytes; NULL: a plain file */
    uint64_t size;
    uint32_t mode; /* permission bits */
    int64_t mtime;
    uint32_t mtime_ns;
    uint64_t device, inode; /* to see whether it is still the same file, */
    int64_t ctime;          /* and nobody has written it and set the time back */
    uint32_t ctime_ns;
};

struct files_list {
    struct files_file *list;
    size_t count, capacity;
    uint64_t bytes;
    const char *const *excludes; /* patterns of what a walk leaves out */
    size_t exclude_count;
};

/* Is this a path that may be stored and made again? Relative, no empty, "." or ".." component, no NUL, not too long. */
int files_is_path(const char *path);
/* Add a file, or all files below a directory; folder is an open directory. 0 or a negative code, told in error. */
int files_walk(struct files_list *files, int folder, const char *argument, struct varve_error *error);
/* Add a file by what is known of it. */
int files_add(struct files_list *files, const char *path, const struct stat *stat, struct varve_error *error);
/* Sort by path and drop what was given twice. */
void files_settle(struct files_list *files);
void files_list_clear(struct files_list *files);
/* Room for one more of `size` bytes in a list of any kind that has `count`. 0 or -ENOMEM. */
int files_grow(void **list, size_t *capacity, size_t count, size_t size);
/* Is the file still as it was found? */
int files_is_same(const struct files_file *file, const struct stat *now);

#endif
