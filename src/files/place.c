#include "files/place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX ".partial"
#define PARTIAL_ROOM (NAME_MAX + 1)

static int failed(struct varve_error *error, const char *what, const char *path) {
    int code = -errno;
    if (code == -ELOOP || code == -ENOTDIR)
        snprintf(error->text, sizeof error->text, "cannot %s %s: a folder on the way is a link or a file", what, path);
    else
        snprintf(error->text, sizeof error->text, "cannot %s %s: %s", what, path, strerror(-code));
    return code;
}

static int taken(struct varve_error *error, const char *path) {
    snprintf(error->text, sizeof error->text,
             "%s is there already; choose another folder with -C, or --force to replace it", path);
    return -EEXIST;
}

/* Open the folder that the file lies in, step by step, without following links. *name_out is the file's own name. */
static int open_parent(const struct files_place *place, const char *path, int makes, const char **name_out) {
    int fd = fcntl(place->folder, F_DUPFD_CLOEXEC, 0);
    const char *slash;
    while (fd >= 0 && (slash = strchr(path, '/')) != NULL) {
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)(slash - path), path);
        if (makes && mkdirat(fd, name, 0777) < 0 && errno != EEXIST) {
            int code = errno;
            close(fd);
            errno = code;
            return -1;
        }
        int next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), code = errno;
        close(fd);
        errno = code;
        fd = next;
        path = slash + 1;
    }
    *name_out = path;
    return fd;
}

/* A name that leaves no room for the suffix is cut, and told apart from others by a number made from all of it. */
static void partial_name(char out[PARTIAL_ROOM], const char *name) {
    uint64_t sum = 0;
    for (const char *at = name; *at; at++)
        sum = sum * 1099511628211u + (uint8_t)*at;
    if (strlen(name) <= NAME_MAX - strlen(SUFFIX))
        snprintf(out, PARTIAL_ROOM, "%s" SUFFIX, name);
    else
        snprintf(out, PARTIAL_ROOM, "%.200s~%016llx" SUFFIX, name, (unsigned long long)sum);
}

void files_place_close(struct files_place *place) {
    if (place->fd >= 0)
        close(place->fd);
    place->fd = -1;
}

static int make_partial(const struct files_place *place, int parent, const struct files_file *file, const char *name,
                        struct varve_error *error) {
    char partial[PARTIAL_ROOM];
    struct stat there;
    partial_name(partial, name);
    if (!place->is_forced && fstatat(parent, name, &there, AT_SYMLINK_NOFOLLOW) == 0)
        return taken(error, file->path);
    if (place->is_forced)
        unlinkat(parent, partial, 0);
    int fd = openat(parent, partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST) {
        snprintf(error->text, sizeof error->text,
                 "%s" SUFFIX " is there already, from an export that runs or was stopped; remove it, or --force",
                 file->path);
        return -EEXIST;
    }
    if (fd < 0)
        return failed(error, "make", file->path);
    int rc = ftruncate(fd, (off_t)file->size) < 0 ? failed(error, "make", file->path) : 0;
    if (rc < 0)
        unlinkat(parent, partial, 0);
    close(fd);
    return rc;
}

int files_place_begin(struct files_place *place, const struct files_file *file, struct varve_error *error) {
    const char *name;
    int parent = open_parent(place, file->path, 1, &name);
    if (parent < 0)
        return failed(error, "make", file->path);
    int rc = make_partial(place, parent, file, name, error);
    close(parent);
    return rc;
}

static int open_partial(struct files_place *place, const struct files_file *file, uint32_t number,
                        struct varve_error *error) {
    char partial[PARTIAL_ROOM];
    const char *name;
    if (place->fd >= 0 && place->file == number)
        return 0;
    files_place_close(place);
    int parent = open_parent(place, file->path, 0, &name);
    if (parent < 0)
        return failed(error, "open", file->path);
    partial_name(partial, name);
    place->fd = openat(parent, partial, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    place->file = number;
    int rc = place->fd < 0 ? failed(error, "open", file->path) : 0;
    close(parent);
    return rc;
}

static int is_zero(const char *data, size_t size) {
    return size > 0 && data[0] == 0 && memcmp(data, data + 1, size - 1) == 0;
}

int files_place_write(struct files_place *place, const struct files_file *file, uint32_t number, uint64_t offset,
                      const void *data, size_t size, struct varve_error *error) {
    const char *at = data;
    int rc = open_partial(place, file, number, error);
    while (rc == 0 && size) {
        size_t part = size < FILES_GRANULE ? size : FILES_GRANULE;
        size_t length = 0;
        if (is_zero(at, part)) { /* stays a hole */
            at += part;
            offset += part;
            size -= part;
            continue;
        }
        while (length < size && !is_zero(at + length, size - length < FILES_GRANULE ? size - length : FILES_GRANULE))
            length += size - length < FILES_GRANULE ? size - length : FILES_GRANULE;
        ssize_t written = pwrite(place->fd, at, length, (off_t)offset);
        if (written < 0 && errno != EINTR)
            return failed(error, "write", file->path);
        written = written < 0 ? 0 : written;
        at += written;
        offset += (uint64_t)written;
        size -= (size_t)written;
    }
    return rc;
}

/* Without force the last step must not replace a file that has appeared meanwhile. */
static int publish(const struct files_place *place, int parent, const struct files_file *file, const char *name,
                   struct varve_error *error) {
    char partial[PARTIAL_ROOM];
    struct stat there;
    partial_name(partial, name);
    if (place->is_forced) {
        if (fstatat(parent, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(there.st_mode)) {
            errno = EISDIR;
            return failed(error, "replace", file->path);
        }
        return renameat(parent, partial, parent, name) < 0 ? failed(error, "make", file->path) : 0;
    }
    if (renameat2(parent, partial, parent, name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno == EINVAL || errno == ENOSYS) { /* a file system that cannot do it: a link never replaces either */
        if (linkat(parent, partial, parent, name, 0) == 0) {
            unlinkat(parent, partial, 0);
            return 0;
        }
    }
    return errno == EEXIST ? taken(error, file->path) : failed(error, "make", file->path);
}

int files_place_finish(struct files_place *place, const struct files_file *file, uint32_t number,
                       struct varve_error *error) {
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = file->mtime, .tv_nsec = file->mtime_ns}};
    const char *name;
    int rc = open_partial(place, file, number, error);
    if (rc < 0)
        return rc;
    /* Set-id bits are not given back: they would make somebody else's program ours. */
    if (fchmod(place->fd, file->mode & 0777) < 0 || futimens(place->fd, times) < 0)
        rc = failed(error, "write", file->path);
    files_place_close(place);
    int parent = rc == 0 ? open_parent(place, file->path, 0, &name) : -1;
    if (rc == 0 && parent < 0)
        rc = failed(error, "open", file->path);
    rc = rc ? rc : publish(place, parent, file, name, error);
    if (parent >= 0)
        close(parent);
    return rc;
}

int files_place_sync(struct files_place *place, struct varve_error *error) {
    return syncfs(place->folder) < 0 ? failed(error, "write", "the files") : 0;
}

void files_place_drop(struct files_place *place, const struct files_file *file) {
    char partial[PARTIAL_ROOM];
    const char *name;
    files_place_close(place);
    int parent = open_parent(place, file->path, 0, &name);
    if (parent < 0)
        return;
    partial_name(partial, name);
    unlinkat(parent, partial, 0);
    close(parent);
}
