#include "archive/packed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int compare_file(const void *a, const void *b) {
    return strcmp(((const struct files_file *)a)->path, ((const struct files_file *)b)->path);
}

static const struct files_file *find_path(const struct files_list *files, const char *path) {
    struct files_file wanted = {.path = (char *)path};
    return files->count ? bsearch(&wanted, files->list, files->count, sizeof wanted, compare_file) : NULL;
}

void archive_packed_clear(struct archive_packed *packed) {
    for (size_t i = 0; i < packed->count; i++)
        archive_recipe_clear(&packed->list[i]);
    for (size_t i = 0; packed->fds && i < packed->file_count; i++)
        if (packed->fds[i] >= 0)
            close(packed->fds[i]);
    free(packed->list);
    free(packed->fds);
    *packed = (struct archive_packed){.count = 0};
}

/* ---- unpacking ---- */

/* A file that was unpacked; it keeps its place in the list until all are. */
struct fresh {
    size_t file;
    char *path; /* its new one */
    struct archive_unpacked unpacked;
};

struct unpacking {
    struct files_list *files;
    int folder;
    archive_tick_fn tick;
    struct fresh *list;
    size_t count, capacity;
};

/* The name that it gets, or NULL where it cannot be had. */
static char *new_path(const struct files_list *files, const char *path) {
    size_t size = strlen(path) + sizeof ARCHIVE_SUFFIX;
    char *out = malloc(size);
    if (out)
        snprintf(out, size, "%s" ARCHIVE_SUFFIX, path);
    if (out && files_is_path(out) && !find_path(files, out))
        return out;
    free(out);
    return NULL;
}

static int add_fresh(struct unpacking *unpacking, size_t number, struct archive_unpacked *unpacked) {
    char *path = new_path(unpacking->files, unpacking->files->list[number].path);
    int rc = files_grow((void **)&unpacking->list, &unpacking->capacity, unpacking->count, sizeof *unpacking->list);
    if (rc < 0 || !path) {
        free(path);
        archive_unpacked_clear(unpacked);
        return rc;
    }
    unpacking->list[unpacking->count++] = (struct fresh){number, path, *unpacked};
    return 0;
}

/* The content must be that of the file as it was found. */
static int unpack_file(struct unpacking *unpacking, size_t number, char note[FILES_NOTE_CAPACITY],
                       struct varve_error *error) {
    const struct files_file *file = &unpacking->files->list[number];
    struct archive_unpacked unpacked;
    struct stat now;
    int fd = openat(unpacking->folder, file->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno == ELOOP ? 0 : files_system_error(error, "open", file->path); /* a link is no archive */
    int rc = archive_unpack(fd, file->size, unpacking->tick, &unpacked, note);
    if (rc > 0 && (fstat(fd, &now) < 0 || !files_is_same(file, &now))) {
        archive_unpacked_clear(&unpacked);
        rc = files_error(error, -EAGAIN, "%s changed while it was read: nothing was stored", file->path);
    }
    close(fd);
    return rc > 0 ? add_fresh(unpacking, number, &unpacked) : rc;
}

/* It takes the place of the packed file in the list, with its permissions and its time. */
static int replace(struct files_file *file, const struct fresh *fresh) {
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = file->mtime, .tv_nsec = file->mtime_ns}};
    struct stat stat;
    if (futimens(fresh->unpacked.fd, times) < 0 || fstat(fresh->unpacked.fd, &stat) < 0)
        return -errno;
    free(file->path);
    file->path = strdup(fresh->path);
    file->size = fresh->unpacked.size;
    file->mtime = stat.st_mtim.tv_sec; /* as this file system can keep it */
    file->mtime_ns = (uint32_t)stat.st_mtim.tv_nsec;
    file->device = stat.st_dev;
    file->inode = stat.st_ino;
    file->ctime = stat.st_ctim.tv_sec;
    file->ctime_ns = (uint32_t)stat.st_ctim.tv_nsec;
    return file->path ? 0 : -ENOMEM;
}

static int compare_recipes(const void *a, const void *b) {
    const struct archive_recipe *x = a, *y = b;
    return x->file < y->file ? -1 : x->file > y->file;
}

/* All have their names: put the list in order, and recipes and contents where they belong. */
static int settle(struct archive_packed *packed, struct unpacking *unpacking) {
    struct files_list *files = unpacking->files;
    int rc = 0;
    packed->fds = malloc((files->count + 1) * sizeof *packed->fds);
    packed->list = calloc(unpacking->count + 1, sizeof *packed->list);
    if (!packed->fds || !packed->list)
        return -ENOMEM;
    memset(packed->fds, 0xff, (files->count + 1) * sizeof *packed->fds);
    packed->file_count = files->count;
    for (size_t i = 0; i < unpacking->count && rc == 0; i++)
        rc = replace(&files->list[unpacking->list[i].file], &unpacking->list[i]);
    if (rc < 0)
        return rc;
    files_settle(files);
    for (size_t i = 0; i < unpacking->count; i++) {
        struct fresh *fresh = &unpacking->list[i];
        uint32_t number = (uint32_t)(find_path(files, fresh->path) - files->list);
        packed->fds[number] = fresh->unpacked.fd;
        packed->grown += fresh->unpacked.size - fresh->unpacked.recipe.size;
        fresh->unpacked.recipe.file = number;
        packed->list[packed->count++] = fresh->unpacked.recipe;
        fresh->unpacked = (struct archive_unpacked){.fd = -1}; /* handed over */
    }
    qsort(packed->list, packed->count, sizeof *packed->list, compare_recipes);
    return 0;
}

int archive_unpack_files(struct archive_packed *packed, struct files_list *files, int folder, archive_tick_fn tick,
                         void (*tell)(void *arg, const char *path, const char *note), void *arg,
                         struct varve_error *error) {
    struct unpacking unpacking = {.files = files, .folder = folder, .tick = tick};
    int rc = 0;
    for (size_t i = 0; i < files->count && rc == 0 && unpacking.count < ARCHIVE_PACKED_MOST; i++) {
        char note[FILES_NOTE_CAPACITY] = "";
        rc = unpack_file(&unpacking, i, note, error);
        if (note[0])
            tell(arg, files->list[i].path, note);
    }
    if (rc == 0 && unpacking.count)
        rc = settle(packed, &unpacking);
    for (size_t i = 0; i < unpacking.count; i++) {
        free(unpacking.list[i].path);
        archive_unpacked_clear(&unpacking.list[i].unpacked);
    }
    free(unpacking.list);
    return rc;
}

/* ---- giving back ---- */

#define ASKED_UNPACKED UINT32_MAX /* in place of a number: this recipe is not used */

void archive_name_packed(struct archive_packed *packed, struct files_list *files, char *const asked[], int count) {
    for (size_t i = 0; i < packed->count; i++) {
        char *path = files->list[packed->list[i].file].path;
        int is_asked = 0;
        for (int j = 0; j < count; j++)
            is_asked |= strcmp(asked[j], path) == 0;
        if (is_asked)
            packed->list[i].file = ASKED_UNPACKED;
        else
            path[strlen(path) - strlen(ARCHIVE_SUFFIX)] = '\0';
    }
}

struct placing {
    const struct archive_recipe *recipe;
    uint64_t size;
    archive_tick_fn tick;
};

static int on_pack(void *arg, int from, int to, struct varve_error *error) {
    const struct placing *placing = arg;
    return archive_repack(placing->recipe, from, placing->size, to, placing->tick, error);
}

int archive_place(const struct archive_packed *packed, struct files_place *place, struct files_file *file,
                  uint32_t number, archive_tick_fn tick, struct varve_error *error) {
    struct placing placing = {NULL, file->size, tick};
    for (size_t i = 0; i < packed->count; i++)
        placing.recipe = packed->list[i].file == number ? &packed->list[i] : placing.recipe;
    if (!placing.recipe)
        return 0;
    int rc = files_place_pack(place, number, on_pack, &placing, error);
    if (rc == 0)
        file->size = placing.recipe->size;
    return rc;
}
