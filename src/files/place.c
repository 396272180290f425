#include "files/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define PARTIAL_CAPACITY 64
#define PACKED_CAPACITY (PARTIAL_CAPACITY + 8)

static int failed(struct varve_error *error, const char *what, const char *path) {
    if (errno == ELOOP || errno == ENOTDIR)
        return files_error(error, -errno, "cannot %s %s: a folder on the way is a link or a file", what, path);
    return files_system_error(error, what, path);
}

static int taken(struct varve_error *error, const char *path) {
    return files_error(error, -EEXIST, "%s is there already; choose another folder with -C, or --force to replace it",
                       path);
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

/* Nobody can guess the tag: neither the files of the set nor those of the user are called so. */
static void partial_name(const struct files_place *place, uint32_t number, char out[PARTIAL_CAPACITY]) {
    snprintf(out, PARTIAL_CAPACITY, ".varve-%016llx-%u.partial", (unsigned long long)place->tag, (unsigned)number);
}

static void packed_name(const struct files_place *place, uint32_t number, char out[PACKED_CAPACITY]) {
    char partial[PARTIAL_CAPACITY];
    partial_name(place, number, partial);
    snprintf(out, PACKED_CAPACITY, "%s.packed", partial);
}

static int is_ours(const struct files_made *made, const struct stat *there) {
    return made->is_there && made->device == there->st_dev && made->inode == there->st_ino;
}

static int replaced(struct varve_error *error, const char *path) {
    return files_error(error, -ESTALE, "cannot write %s: somebody has put another file in the place of ours", path);
}

static void close_file(struct files_place *place) {
    if (place->fd >= 0)
        close(place->fd);
    place->fd = -1;
}

int files_place_open(struct files_place *place, const struct files_list *files, struct varve_error *error) {
    struct stat folder;
    place->fd = -1;
    place->files = files;
    place->made = calloc(files->count + 1, sizeof *place->made);
    if (!place->made) {
        errno = ENOMEM;
        return failed(error, "write", "files");
    }
    if (fstat(place->folder, &folder) < 0)
        return failed(error, "look at", "the folder");
    place->device = folder.st_dev;
    if (getrandom(&place->tag, sizeof place->tag, 0) != sizeof place->tag)
        return failed(error, "write", "files");
    return 0;
}

void files_place_close(struct files_place *place) {
    close_file(place);
    free(place->made);
    place->made = NULL;
}

/* What is there already is found out before anything is written. */
static int check_free(const struct files_place *place, int parent, const char *name, const char *path,
                      struct varve_error *error) {
    struct stat there;
    if (fstatat(parent, name, &there, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (!place->is_forced)
        return taken(error, path);
    errno = EISDIR;
    return S_ISDIR(there.st_mode) ? failed(error, "replace", path) : 0;
}

/* It gets its time here: there is nothing to write to it. */
static int make_link(struct files_place *place, int parent, uint32_t number, const char *partial,
                     struct varve_error *error) {
    const struct files_file *file = &place->files->list[number];
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = file->mtime, .tv_nsec = file->mtime_ns}};
    struct stat there;
    if (symlinkat(file->target, parent, partial) < 0)
        return failed(error, "make", file->path);
    if (utimensat(parent, partial, times, AT_SYMLINK_NOFOLLOW) < 0 ||
        fstatat(parent, partial, &there, AT_SYMLINK_NOFOLLOW) < 0) {
        int rc = failed(error, "make", file->path);
        unlinkat(parent, partial, 0);
        return rc;
    }
    place->made[number] = (struct files_made){.device = there.st_dev, .inode = there.st_ino, .is_there = 1};
    return 0;
}

static int make_partial(struct files_place *place, int parent, uint32_t number, struct varve_error *error) {
    const struct files_file *file = &place->files->list[number];
    struct files_made *made = &place->made[number];
    char partial[PARTIAL_CAPACITY];
    struct stat there;
    partial_name(place, number, partial);
    if (file->target)
        return make_link(place, parent, number, partial, error);
    int fd = openat(parent, partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return failed(error, "make", file->path);
    int rc = fstat(fd, &there) < 0 || ftruncate(fd, (off_t)file->size) < 0 ? failed(error, "make", file->path) : 0;
    if (rc < 0)
        unlinkat(parent, partial, 0);
    else
        *made = (struct files_made){.device = there.st_dev, .inode = there.st_ino, .is_there = 1};
    close(fd);
    return rc;
}

int files_place_begin(struct files_place *place, uint32_t number, struct varve_error *error) {
    const char *path = place->files->list[number].path, *name;
    int parent = open_parent(place, path, 1, &name);
    if (parent < 0)
        return failed(error, "make", path);
    int rc = check_free(place, parent, name, path, error);
    rc = rc ? rc : make_partial(place, parent, number, error);
    close(parent);
    return rc;
}

static int open_partial(struct files_place *place, uint32_t number, struct varve_error *error) {
    const char *path = place->files->list[number].path, *name;
    char partial[PARTIAL_CAPACITY];
    struct stat there;
    if (place->fd >= 0 && place->file == number)
        return 0;
    close_file(place);
    int parent = open_parent(place, path, 0, &name);
    if (parent < 0)
        return failed(error, "open", path);
    partial_name(place, number, partial);
    int fd = openat(parent, partial, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int rc = fd < 0 || fstat(fd, &there) < 0 ? failed(error, "open", path) : 0;
    close(parent);
    if (rc == 0 && !is_ours(&place->made[number], &there))
        rc = replaced(error, path);
    if (rc < 0 && fd >= 0)
        close(fd);
    place->fd = rc < 0 ? -1 : fd;
    place->file = number;
    return rc;
}

static int is_zero(const char *data, size_t size) {
    return size > 0 && data[0] == 0 && memcmp(data, data + 1, size - 1) == 0;
}

int files_place_write(struct files_place *place, uint32_t number, uint64_t offset, const void *data, size_t size,
                      struct varve_error *error) {
    const char *at = data;
    int rc = open_partial(place, number, error);
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
            return failed(error, "write", place->files->list[number].path);
        written = written < 0 ? 0 : written;
        at += written;
        offset += (uint64_t)written;
        size -= (size_t)written;
    }
    return rc;
}

/* Without force this must not replace a file that has appeared meanwhile. */
static int give_name(const struct files_place *place, int parent, const char *partial, const char *name) {
    if (place->is_forced)
        return renameat(parent, partial, parent, name);
    int rc = renameat2(parent, partial, parent, name, RENAME_NOREPLACE);
    /* On a file system that cannot do it: a link never replaces either. */
    if (rc < 0 && (errno == EINVAL || errno == ENOSYS)) {
        rc = linkat(parent, partial, parent, name, 0);
        if (rc == 0)
            unlinkat(parent, partial, 0);
    }
    return rc;
}

static int publish(struct files_place *place, int parent, uint32_t number, const char *name,
                   struct varve_error *error) {
    const char *path = place->files->list[number].path;
    char partial[PARTIAL_CAPACITY];
    struct stat there;
    partial_name(place, number, partial);
    if (fstatat(parent, partial, &there, AT_SYMLINK_NOFOLLOW) < 0)
        return failed(error, "make", path);
    if (!is_ours(&place->made[number], &there))
        return replaced(error, path);
    if (give_name(place, parent, partial, name) < 0)
        return errno == EEXIST && !place->is_forced ? taken(error, path) : failed(error, "make", path);
    place->made[number].is_there = 0;
    if (place->named)
        place->named(place->arg, number);
    /* What is mounted below the folder is not part of the wait for all. */
    return there.st_dev != place->device && fsync(parent) < 0 ? failed(error, "write", path) : 0;
}

static int wait_for_storage(struct files_place *place, struct varve_error *error) {
    return syncfs(place->folder) < 0 ? failed(error, "write", "the files") : 0;
}

/* First the data, then the names: whatever has its name is whole, also after a crash. */
static int name_waiting(struct files_place *place, struct varve_error *error) {
    int rc = place->waiting_count ? wait_for_storage(place, error) : 0;
    for (uint32_t i = 0; i < place->waiting_count && rc == 0; i++) {
        const char *path = place->files->list[place->waiting[i]].path, *name;
        int parent = open_parent(place, path, 0, &name);
        if (parent < 0)
            return failed(error, "open", path);
        rc = publish(place, parent, place->waiting[i], name, error);
        close(parent);
    }
    place->waiting_count = 0;
    place->waiting_bytes = 0;
    return rc;
}

/* Our partial file, to be read. */
static int open_written(struct files_place *place, int parent, uint32_t number, struct varve_error *error) {
    const char *path = place->files->list[number].path;
    char partial[PARTIAL_CAPACITY];
    struct stat there;
    partial_name(place, number, partial);
    int fd = openat(parent, partial, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int rc = fd < 0 || fstat(fd, &there) < 0 ? failed(error, "open", path) : 0;
    if (rc == 0 && !is_ours(&place->made[number], &there))
        rc = replaced(error, path);
    if (rc < 0 && fd >= 0)
        close(fd);
    return rc ? rc : fd;
}

/* The new file takes the place of the one that was written, and its temporary name. */
static int put_packed(struct files_place *place, int parent, uint32_t number, int to, struct varve_error *error) {
    char partial[PARTIAL_CAPACITY], packed[PACKED_CAPACITY];
    struct stat there;
    partial_name(place, number, partial);
    packed_name(place, number, packed);
    if (fstat(to, &there) < 0 || renameat(parent, packed, parent, partial) < 0)
        return failed(error, "make", place->files->list[number].path);
    place->made[number] = (struct files_made){.device = there.st_dev, .inode = there.st_ino, .is_there = 1};
    return 0;
}

int files_place_pack(struct files_place *place, uint32_t number, files_pack_fn fn, void *arg,
                     struct varve_error *error) {
    const char *path = place->files->list[number].path, *name;
    char packed[PACKED_CAPACITY];
    int parent = open_parent(place, path, 0, &name), to = -1;
    if (parent < 0)
        return failed(error, "open", path);
    close_file(place);
    int from = open_written(place, parent, number, error), rc = from < 0 ? from : 0;
    packed_name(place, number, packed);
    if (rc == 0) {
        to = openat(parent, packed, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        rc = to < 0 ? failed(error, "make", path) : fn(arg, from, to, error);
        rc = rc ? rc : put_packed(place, parent, number, to, error);
        close(from);
    }
    if (to >= 0)
        close(to);
    if (to >= 0 && rc < 0)
        unlinkat(parent, packed, 0);
    close(parent);
    return rc;
}

int files_place_finish(struct files_place *place, uint32_t number, struct varve_error *error) {
    const struct files_file *file = &place->files->list[number];
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = file->mtime, .tv_nsec = file->mtime_ns}};
    int rc = file->target ? 0 : open_partial(place, number, error);
    if (rc < 0)
        return rc;
    /* Set-id bits are not given back: they would make somebody else's program ours. */
    if (!file->target && (fchmod(place->fd, file->mode & 0777) < 0 || futimens(place->fd, times) < 0 ||
                          (place->made[number].device != place->device && fsync(place->fd) < 0)))
        rc = failed(error, "write", file->path);
    close_file(place);
    if (rc < 0)
        return rc;
    place->waiting[place->waiting_count++] = number;
    place->waiting_bytes += file->size;
    return place->waiting_count == FILES_WAITING_MOST || place->waiting_bytes >= FILES_WAITING_BYTES
               ? name_waiting(place, error)
               : 0;
}

int files_place_settle(struct files_place *place, struct varve_error *error) {
    int rc = name_waiting(place, error);
    return rc ? rc : wait_for_storage(place, error);
}

void files_place_drop(struct files_place *place, uint32_t number) {
    struct files_made *made = &place->made[number];
    char partial[PARTIAL_CAPACITY];
    const char *name;
    struct stat there;
    close_file(place);
    int parent = made->is_there ? open_parent(place, place->files->list[number].path, 0, &name) : -1;
    if (parent < 0)
        return;
    partial_name(place, number, partial);
    if (fstatat(parent, partial, &there, AT_SYMLINK_NOFOLLOW) == 0 && is_ours(made, &there))
        unlinkat(parent, partial, 0);
    made->is_there = 0;
    close(parent);
}
