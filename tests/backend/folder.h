/* A folder for one test, removed with all that is in it. */
#ifndef VARVE_TEST_FOLDER_H
#define VARVE_TEST_FOLDER_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline int folder_remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw) {
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

/* out has 512 bytes. The folder is below parent ("" for the current one). 0 or -1. */
static inline int folder_make(const char *parent, char *out) {
    snprintf(out, 512, "%s%sbackend-test-XXXXXX", parent, *parent ? "/" : "./");
    return mkdtemp(out) ? 0 : -1;
}

static inline void folder_remove(const char *path) {
    (void)nftw(path, folder_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
