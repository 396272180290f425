#include "files/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/entry.h"

#define DEPTH_MOST 128

int files_grow(void **list, size_t *capacity, size_t count, size_t size) {
    if (count < *capacity)
        return 0;
    size_t wanted = *capacity ? *capacity + *capacity / 2 : 64;
    void *grown = realloc(*list, wanted * size);
    if (!grown)
        return -ENOMEM;
    *list = grown;
    *capacity = wanted;
    return 0;
}

int files_is_path(const char *path) {
    size_t length = strlen(path);
    if (length == 0 || length > FILES_PATH_MOST)
        return 0;
    while (*path) {
        size_t part = strcspn(path, "/");
        if (part == 0 || part > 255 || (part == 1 && path[0] == '.') || (part == 2 && path[0] == '.' && path[1] == '.'))
            return 0;
        path += part;
        if (*path == '/' && !*++path)
            return 0;
    }
    return 1;
}

/* As it will be stored: without "./" and doubled or trailing slashes. "" is the folder itself. */
static char *tidy(const char *argument) {
    char *out = malloc(strlen(argument) + 1);
    size_t size = 0;
    while (out && *argument) {
        size_t part = strcspn(argument, "/");
        if (part > 0 && !(part == 1 && argument[0] == '.')) {
            if (size)
                out[size++] = '/';
            memcpy(out + size, argument, part);
            size += part;
        }
        argument += part + (argument[part] == '/');
    }
    if (out)
        out[size] = '\0';
    return out;
}

int files_add(struct files_list *files, const char *path, const struct stat *stat, struct varve_error *error) {
    if (files->count >= FILES_MOST)
        return files_error(error, -E2BIG, "more than %u files; import them in several parts, under different names",
                           FILES_MOST);
    if (!files_is_path(path))
        return files_error(error, -EINVAL, "%s: this path cannot be stored: it is longer than %u bytes", path,
                           FILES_PATH_MOST);
    if (files_grow((void **)&files->list, &files->capacity, files->count, sizeof *files->list) < 0)
        return files_error(error, -ENOMEM, "no memory for a list of files");
    struct files_file *file = &files->list[files->count];
    *file = (struct files_file){.path = strdup(path),
                                .size = (uint64_t)stat->st_size,
                                .mode = stat->st_mode & 07777,
                                .mtime = stat->st_mtim.tv_sec,
                                .mtime_ns = (uint32_t)stat->st_mtim.tv_nsec,
                                .device = stat->st_dev,
                                .inode = stat->st_ino,
                                .ctime = stat->st_ctim.tv_sec,
                                .ctime_ns = (uint32_t)stat->st_ctim.tv_nsec};
    if (!file->path)
        return files_error(error, -ENOMEM, "no memory for a list of files");
    files->count++;
    files->bytes += file->size;
    return 0;
}

static const char *kind_of(mode_t mode) {
    return S_ISFIFO(mode) ? "a named pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
}

static int walk_entry(struct files_list *files, int folder, const char *name, const char *path, int depth,
                      struct varve_error *error);

/* A store that lies among the files would be imported into itself. */
static int is_store(int folder) {
    static const char magic[8] = "\x89Varve\r\n";
    char head[sizeof magic];
    int fd = openat(folder, "varve", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, head, sizeof head);
    if (fd >= 0)
        close(fd);
    return got == (ssize_t)sizeof head && memcmp(head, magic, sizeof head) == 0;
}

static int walk_folder(struct files_list *files, int fd, const char *path, int depth, struct varve_error *error) {
    struct dirent **names = NULL;
    int rc = 0;
    if (depth > DEPTH_MOST)
        return files_error(error, -ELOOP, "%s: folders are nested too deeply", path);
    int count = scandirat(fd, ".", &names, NULL, alphasort);
    if (count < 0)
        return files_system_error(error, "list", *path ? path : "the folder");
    for (int i = 0; i < count; i++) {
        const char *name = names[i]->d_name;
        char *below = NULL;
        if (rc == 0 && strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            if (asprintf(&below, "%s%s%s", path, *path ? "/" : "", name) < 0)
                rc = files_error(error, -ENOMEM, "no memory for a list of files");
            else
                rc = walk_entry(files, fd, name, below, depth, error);
            free(below);
        }
        free(names[i]);
    }
    free(names);
    return rc;
}

static int walk_entry(struct files_list *files, int folder, const char *name, const char *path, int depth,
                      struct varve_error *error) {
    struct stat stat;
    if (*path && files_is_excluded(files, path, strrchr(path, '/') ? strrchr(path, '/') + 1 : path))
        return 0;
    if (fstatat(folder, name, &stat, AT_SYMLINK_NOFOLLOW) < 0)
        return files_system_error(error, "look at", path);
    if (S_ISREG(stat.st_mode))
        return files_add(files, path, &stat, error);
    if (S_ISLNK(stat.st_mode))
        return files_add_link(files, folder, name, path, &stat, error);
    if (!S_ISDIR(stat.st_mode))
        return files_error(error, -EINVAL,
                           "%s is %s; only plain files, links and folders can be imported: leave it out with --exclude",
                           path, kind_of(stat.st_mode));
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return files_system_error(error, "open", path);
    int rc = is_store(fd)
                 ? files_error(error, -EINVAL,
                               "%s is a Varve store, which is not imported; name the files beside it instead, or"
                               " move the store",
                               *path ? path : "the folder")
                 : walk_folder(files, fd, path, depth + 1, error);
    close(fd);
    return rc;
}

int files_walk(struct files_list *files, int folder, const char *argument, struct varve_error *error) {
    char *path = tidy(argument);
    int rc = 0;
    if (!path)
        rc = files_error(error, -ENOMEM, "no memory for a list of files");
    else if (argument[0] == '/' || (*path && !files_is_path(path)))
        rc = files_error(error, -EINVAL,
                         "%s: paths are stored as they are given, so they cannot begin with / or contain ..; "
                         "give the folder with -C and paths relative to it",
                         argument);
    else
        rc = files_check_way(folder, path, error);
    if (rc == 0)
        rc = walk_entry(files, folder, *path ? path : ".", path, 0, error);
    free(path);
    return rc;
}

static int compare_paths(const void *a, const void *b) {
    return strcmp(((const struct files_file *)a)->path, ((const struct files_file *)b)->path);
}

void files_settle(struct files_list *files) {
    size_t kept = 0;
    if (files->count)
        qsort(files->list, files->count, sizeof *files->list, compare_paths);
    files->bytes = 0;
    for (size_t i = 0; i < files->count; i++) {
        if (kept && !strcmp(files->list[kept - 1].path, files->list[i].path)) {
            free(files->list[i].path);
            free(files->list[i].target);
            continue;
        }
        files->list[kept++] = files->list[i];
        files->bytes += files->list[kept - 1].size;
    }
    files->count = kept;
}

void files_list_clear(struct files_list *files) {
    for (size_t i = 0; i < files->count; i++) {
        free(files->list[i].path);
        free(files->list[i].target);
    }
    free(files->list);
    memset(files, 0, sizeof *files);
}

int files_is_same(const struct files_file *file, const struct stat *now) {
    int is_kind = file->target ? S_ISLNK(now->st_mode) : S_ISREG(now->st_mode) && file->size == (uint64_t)now->st_size;
    return is_kind && file->device == now->st_dev && file->inode == now->st_ino && file->mtime == now->st_mtim.tv_sec &&
           file->mtime_ns == (uint32_t)now->st_mtim.tv_nsec && file->ctime == now->st_ctim.tv_sec &&
           file->ctime_ns == (uint32_t)now->st_ctim.tv_nsec;
}
