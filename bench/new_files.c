/* Names of files in a folder, before and after. */
#include "new_files.h"

#include <ftw.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static struct new_files *looking; /* nftw has no argument for it */

static int take_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st;
    if (type != FTW_F || strchr(path + ftw->base, ',') || strstr(path, "/beat/") || strstr(path, "/.reserve,/"))
        return 0;
    if (looking->count == looking->capacity) {
        looking->capacity = looking->capacity ? 2 * looking->capacity : 256;
        looking->names = realloc(looking->names, looking->capacity * sizeof *looking->names);
        bench_check(looking->names != NULL, "memory");
    }
    looking->names[looking->count] = strdup(path);
    bench_check(looking->names[looking->count++] != NULL, "memory");
    return 0;
}

static int compare(const void *left, const void *right) {
    return strcmp(*(char *const *)left, *(char *const *)right);
}

void new_files_look(const char *folder, struct new_files *files) {
    new_files_clear(files);
    looking = files;
    bench_check(nftw(folder, take_one, 32, FTW_PHYS) == 0, folder);
    if (files->count > 0)
        qsort(files->names, files->count, sizeof *files->names, compare);
}

size_t new_files_count(const struct new_files *before, const struct new_files *now, size_t *data_out) {
    size_t count = 0;
    *data_out = 0;
    for (size_t i = 0; i < now->count; i++) {
        if (before->count > 0 &&
            bsearch(&now->names[i], before->names, before->count, sizeof *before->names, compare) != NULL)
            continue;
        count++;
        *data_out += strstr(now->names[i], "/data/") != NULL;
    }
    return count;
}

void new_files_clear(struct new_files *files) {
    for (size_t i = 0; i < files->count; i++)
        free(files->names[i]);
    free(files->names);
    *files = (struct new_files){0};
}
