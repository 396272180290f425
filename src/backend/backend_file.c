/* Objects as files below a root folder; see backend_file_private.h for the parts.
 *
 * The root is held open and everything is found relative to it. "There is no such file" becomes -ENOENT only after a
 * look at the root by its path: a root that was removed, or whose file system was unmounted, is an error, never an
 * empty store. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "backend/backend_file_private.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/thread.h"

#define BLOCK_BYTES ((2u << 20) - FILE_BLOCK_SLACK) /* with its slack one huge page */
#define IN_FLIGHT 4
#define DIRECT_READ_MIN (128u << 10)
#define SWEEP_SECONDS (7 * 24 * 3600)
#define REPLACE_TRIES 64

static int file_stat(struct varve_backend *backend, const char *key, uint64_t *size_out) {
    struct file_backend *file = (struct file_backend *)backend;
    struct stat st;
    if (fstatat(file->root_fd, key, &st, 0) < 0)
        return vv_file_missing(file, -errno);
    if (!S_ISREG(st.st_mode))
        return vv_file_missing(file, -ENOENT);
    *size_out = (uint64_t)st.st_size;
    return 0;
}

/* What an entry is. Not to find out is an error, never "nothing": an entry left out would be an object taken for absent. */
enum entry_kind { ENTRY_FILE, ENTRY_FOLDER, ENTRY_OTHER };

static int kind_of(DIR *folder, const struct dirent *entry) {
    struct stat st;
    if (entry->d_type == DT_DIR)
        return ENTRY_FOLDER;
    if (entry->d_type == DT_REG)
        return ENTRY_FILE;
    if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK)
        return ENTRY_OTHER;
    if (fstatat(dirfd(folder), entry->d_name, &st, 0) < 0)
        return errno == ENOENT ? ENTRY_OTHER : -errno;
    return S_ISDIR(st.st_mode) ? ENTRY_FOLDER : S_ISREG(st.st_mode) ? ENTRY_FILE : ENTRY_OTHER;
}

static int collect(DIR *folder, int is_root, const char *after, struct vv_name_list *names) {
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (!entry)
            return -errno;
        const char *name = entry->d_name;
        if (vv_backend_key_check(name) < 0 || (is_root && strcmp(name, "tmp") == 0))
            continue;
        int result = after && strcmp(name, after) <= 0 ? ENTRY_OTHER : kind_of(folder, entry);
        if (result == ENTRY_FILE || result == ENTRY_FOLDER)
            result = vv_name_list_add(names, name, strlen(name), result == ENTRY_FOLDER);
        if (result < 0)
            return result;
    }
}

static int file_list(struct varve_backend *backend, const char *prefix, const char *after, size_t limit,
                     varve_list_fn fn, void *arg) {
    struct file_backend *file = (struct file_backend *)backend;
    struct vv_name_list names = {0};
    int fd = openat(file->root_fd, *prefix ? prefix : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        int result = vv_file_missing(file, -errno);
        return result == -ENOENT ? 0 : result;
    }
    DIR *folder = fdopendir(fd);
    if (!folder) {
        int result = -errno;
        close(fd);
        return result;
    }
    int result = collect(folder, !*prefix, after, &names);
    closedir(folder);
    /* A folder that was removed while open reads as empty: so may a vanished root. */
    if (result == 0 && names.count == 0)
        result = vv_file_root_check(file);
    if (result == 0)
        result = vv_name_list_emit(&names, limit, fn, arg);
    vv_name_list_clear(&names);
    return result;
}

static int rename_into(struct file_backend *file, const char *path, const char *key) {
    const char *slash = strrchr(key, '/');
    size_t made = SIZE_MAX;
    for (int tries = 0; tries < REPLACE_TRIES; tries++) {
        int folder = vv_file_folder_open(file, key, &made);
        if (folder < 0)
            return folder == -ENOENT ? -ESTALE : folder;
        int result = renameat(file->root_fd, path, folder, slash ? slash + 1 : key) < 0 ? -errno : 0;
        if (result == 0)
            result = vv_file_folder_sync(file, key, folder, made);
        close(folder);
        if (result != -ENOENT)
            return result;
    }
    return -ESTALE;
}

static int file_replace(struct varve_backend *backend, const char *key, const void *data, size_t size) {
    struct file_backend *file = (struct file_backend *)backend;
    char name[96], path[128];
    int fd = vv_file_temporary(file, name);
    if (fd < 0)
        return fd;
    snprintf(path, sizeof(path), "tmp/%s", name);
    int result = vv_file_set_mode(file, fd);
    if (result == 0)
        result = vv_file_write_all(fd, data, size, 0);
    if (result == 0)
        result = vv_file_sync(fd);
    close(fd);
    if (result == 0)
        result = rename_into(file, path, key);
    if (result < 0)
        (void)unlinkat(file->root_fd, path, 0);
    vv_file_cache_drop(file, key);
    return result;
}

static int file_remove(struct varve_backend *backend, const char *key) {
    struct file_backend *file = (struct file_backend *)backend;
    int result = unlinkat(file->root_fd, key, 0) < 0 ? -errno : 0;
    if (result == -EISDIR || result == -EPERM) {
        struct stat st;
        if (fstatat(file->root_fd, key, &st, 0) == 0 && S_ISDIR(st.st_mode))
            result = -ENOENT;
    }
    if (result < 0)
        return vv_file_missing(file, result);
    vv_file_cache_drop(file, key);
    vv_file_folder_prune(file, key);
    return 0;
}

static int file_space(struct varve_backend *backend, uint64_t *bytes_out) {
    struct file_backend *file = (struct file_backend *)backend;
    struct statvfs st;
    if (fstatvfs(file->root_fd, &st) < 0)
        return -errno;
    uint64_t room = (uint64_t)st.f_bavail * st.f_frsize;
    *bytes_out = room > file->min_free ? room - file->min_free : 0;
    return 0;
}

static int file_sync(struct varve_backend *backend, const char *key) {
    struct file_backend *file = (struct file_backend *)backend;
    size_t made = SIZE_MAX;
    int fd = openat(file->root_fd, key, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return vv_file_missing(file, -errno);
    int result = vv_file_sync(fd);
    close(fd);
    if (result < 0)
        return result;
    int folder = vv_file_folder_open(file, key, &made);
    if (folder < 0)
        return folder;
    result = vv_file_folder_sync(file, key, folder, 0);
    close(folder);
    return result;
}

/* Is the writer that chose this temporary name known to be gone, or is the file so old that it must be? */
static int is_leftover(struct file_backend *file, const char *name, const struct stat *st) {
    char host[17];
    long pid = 0;
    uint64_t now = vv_clock_wall_ns() / 1000000000u;
    if (st->st_mtime >= 0 && (uint64_t)st->st_mtime + SWEEP_SECONDS < now)
        return 1;
    if (sscanf(name, "%16[0-9a-f]-%ld-", host, &pid) != 2 || pid <= 0 || pid > INT_MAX)
        return 0;
    return *file->host && strcmp(host, file->host) == 0 && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

static int file_sweep(struct varve_backend *backend) {
    struct file_backend *file = (struct file_backend *)backend;
    int removed = 0;
    int fd = openat(file->root_fd, "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        int result = vv_file_missing(file, -errno);
        return result == -ENOENT ? 0 : result;
    }
    DIR *folder = fdopendir(fd);
    if (!folder) {
        close(fd);
        return -ENOMEM;
    }
    for (const struct dirent *entry; (entry = readdir(folder));) {
        struct stat st;
        if (fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            is_leftover(file, entry->d_name, &st) && unlinkat(fd, entry->d_name, 0) == 0)
            removed++;
    }
    closedir(folder);
    return removed;
}

static void file_close(struct varve_backend *backend) {
    struct file_backend *file = (struct file_backend *)backend;
    if (!file)
        return;
    vv_file_writer_clear(&file->writer);
    vv_file_cache_drop(file, NULL);
    pthread_mutex_destroy(&file->cache.lock);
    pthread_mutex_destroy(&file->durable_lock);
    if (file->root_fd >= 0)
        close(file->root_fd);
    free(file->root);
    vv_free(file);
}

static const struct varve_backend_ops file_ops = {
    .size = sizeof(file_ops),
    .name = "file",
    .create = vv_file_create,
    .upload_write = vv_file_upload_write,
    .upload_commit = vv_file_upload_commit,
    .upload_abort = vv_file_upload_abort,
    .replace = file_replace,
    .get = vv_file_get,
    .stat = file_stat,
    .list = file_list,
    .remove = file_remove,
    .space = file_space,
    .sync = file_sync,
    .sweep = file_sweep,
    .close = file_close,
};

/* Process numbers mean something only within one boot of one machine and one PID namespace. */
static void host_token(char out[17]) {
    char text[128] = "";
    struct stat st;
    ssize_t size = -1;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        size = read(fd, text, 64);
        close(fd);
    }
    if (size <= 0 || stat("/proc/self/ns/pid", &st) < 0) {
        out[0] = '\0';
        return;
    }
    int length = snprintf(text + size, sizeof(text) - (size_t)size, "/%llu", (unsigned long long)st.st_ino);
    snprintf(out, 17, "%016llx", (unsigned long long)vv_sum64(text, (size_t)(size + length)));
}

/* Only the last folder of the path is made: a missing parent is more likely a file system that is not mounted. */
static int make_root(const char *path, mode_t mode, struct varve_error *error) {
    if (mkdir(path, mode) < 0 && errno != EEXIST) {
        if (errno == ENOENT)
            return vv_error(error, VARVE_NO_STORE,
                            "cannot make the folder %s: its parent folder does not exist (is the file system mounted?)",
                            path);
        return vv_error_sys(error, -errno, "cannot make the folder %s", path);
    }
    return 0;
}

/* The root itself must survive too, whoever made it. A parent that may not be read was made durable by somebody else. */
static int sync_parent(const char *path, struct varve_error *error) {
    char parent[VV_BACKEND_PATH_MAX + 4];
    snprintf(parent, sizeof(parent), "%s/..", path);
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    int result = vv_file_sync(fd);
    close(fd);
    return result < 0 ? vv_error_sys(error, result, "cannot make the folder %s durable", path) : 0;
}

static int open_root(struct file_backend *file, const char *path, int may_create, struct varve_error *error) {
    file->root_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file->root_fd < 0 && errno == ENOENT && may_create) {
        int result = make_root(path, file->folder_mode, error);
        if (result < 0)
            return result;
        file->root_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (file->root_fd < 0 && errno == ENOENT)
        return vv_error(error, VARVE_NO_STORE, "there is no folder %s", path);
    if (file->root_fd < 0 && errno == ENOTDIR)
        return vv_error(error, -ENOTDIR, "%s is not a folder", path);
    file->root = file->root_fd < 0 ? NULL : realpath(path, NULL);
    if (!file->root)
        return vv_error_sys(error, -errno, "cannot open the folder %s", path);
    return may_create ? sync_parent(path, error) : 0;
}

static int probe_direct(struct file_backend *file, struct varve_error *error) {
    int fd = open(file->root, O_TMPFILE | O_WRONLY | O_CLOEXEC | O_DIRECT, 0600);
    if (fd < 0 && errno != EINVAL)
        return 0; /* cannot tell: no O_TMPFILE, no right to write, ... */
    if (fd < 0)
        return vv_error(error, VARVE_UNSUPPORTED, "the file system of %s does not support direct writes", file->root);
    close(fd);
    return 0;
}

static void set_modes(struct file_backend *file, int mode) {
    file->mode = mode;
    file->folder_mode = mode == VV_MODE_PRIVATE ? 0700 : mode == VV_MODE_GROUP ? 0770 : 0777;
    file->file_mode = mode == VV_MODE_PRIVATE ? 0600 : mode == VV_MODE_GROUP ? 0660 : 0666;
}

static void set_tuning(struct file_backend *file, const struct vv_file_tuning *tuning) {
    if (tuning)
        file->tuning = *tuning;
    if (!file->tuning.block_bytes)
        file->tuning.block_bytes = BLOCK_BYTES;
    if (!file->tuning.in_flight)
        file->tuning.in_flight = IN_FLIGHT;
    if (!file->tuning.direct_read_min)
        file->tuning.direct_read_min = DIRECT_READ_MIN;
}

int vv_file_open(const char *path, const struct vv_backend_options *options, struct varve_backend **out,
                 struct varve_error *error) {
    struct file_backend *file = vv_calloc(1, sizeof(*file));
    if (!file)
        return vv_error_sys(error, -ENOMEM, "cannot open %s", path);
    file->base.ops = &file_ops;
    file->root_fd = -1;
    file->min_free = options->min_free;
    file->log = options->log;
    set_modes(file, options->mode);
    set_tuning(file, options->tuning);
    atomic_init(&file->may_direct, options->direct != VV_DIRECT_OFF);
    atomic_init(&file->may_tmpfile, !file->tuning.named_temporaries);
    atomic_init(&file->counter, 0);
    host_token(file->host);
    pthread_mutex_init(&file->cache.lock, NULL);
    pthread_mutex_init(&file->durable_lock, NULL);
    int result = vv_file_writer_init(&file->writer, file->tuning.block_bytes, file->tuning.in_flight);
    if (result < 0)
        vv_error_sys(error, result, "cannot open %s", path);
    if (result == 0)
        result = open_root(file, path, options->may_create, error);
    if (result == 0 && options->direct == VV_DIRECT_ON)
        result = probe_direct(file, error);
    if (result < 0) {
        file_close(&file->base);
        return result;
    }
    *out = &file->base;
    return 0;
}
