/* A folder for one test, removed with all that is in it. */
#ifndef VARVE_TEST_FOLDER_H
#define VARVE_TEST_FOLDER_H

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A new one below parent, or, if that is NULL, in memory where there is such a place. 0 or -1. */
static inline int folder_make(const char *parent, const char *name, char *out, size_t capacity) {
    if (!parent)
        parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(out, capacity, "%s/%s-XXXXXX", parent, name);
    return mkdtemp(out) ? 0 : -1;
}

static inline int folder_remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw) {
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

/* It need not be there. 0 or -1. */
static inline int folder_remove(const char *path) {
    return nftw(path, folder_remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT ? 0 : -1;
}

#endif
