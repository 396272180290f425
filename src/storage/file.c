/* Objects as files below a root folder; see backend_file_private.h for the parts.
 *
 * The root is held open and everything is found relative to it. "There is no such file" becomes -ENOENT only after a
 * look at the root by its path: a root that was removed, or whose file system was unmounted, is an error, never an
 * empty store. The same goes for a file system of which a server is missing (file_whole.c). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "storage/file_private.h"

#define BLOCK_BYTES ((2u << 20) - FILE_BLOCK_SLACK) /* with its slack one huge page */
#define IN_FLIGHT 2
#define DIRECT_READ_MIN (128u << 10)

static int look_at(struct file_backend *file, const char *key, struct stat *st) {
    int result = vv_file_below_stat(file, key, st);
    return result < 0 ? result : vv_file_kind_check(st->st_mode);
}

static int file_stat(struct varve_backend *backend, const char *key, uint64_t *size_out) {
    struct file_backend *file = (struct file_backend *)backend;
    struct file_try look;
    struct stat st;
    int result;
    vv_file_try_begin(file, &look);
    do {
        result = look_at(file, key, &st);
        if (result == -ENOENT) {
            vv_file_ask_above(file, key); /* it may only be remembered that there is none */
            result = look_at(file, key, &st);
        }
        result = vv_file_missing(file, result, look.mark);
    } while (vv_file_try_again(file, &look, result));
    if (result == 0)
        *size_out = (uint64_t)st.st_size;
    return result;
}

/* What an entry is. Not to find out is an error, never "nothing": an entry left out would be an object taken for
 * absent. So links, pipes and the like are told as objects: their names are taken, and whoever reads one is told what
 * is wrong. */
enum entry_kind { ENTRY_FILE, ENTRY_FOLDER, ENTRY_OTHER };

static int kind_of(DIR *folder, const struct dirent *entry) {
    struct stat st;
    if (entry->d_type == DT_DIR)
        return ENTRY_FOLDER;
    if (entry->d_type != DT_UNKNOWN)
        return ENTRY_FILE;
    if (fstatat(dirfd(folder), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? ENTRY_OTHER : -errno;
    return S_ISDIR(st.st_mode) ? ENTRY_FOLDER : ENTRY_FILE;
}

/* The folder of temporary names is no part of the store, unless there is something in it that is not ours. */
static int is_hidden(struct file_backend *file, int is_root, const char *name) {
    return is_root && strcmp(name, "tmp") == 0 ? vv_file_tmp_is_ours(file) : 0;
}

static int collect(struct file_backend *file, DIR *folder, int is_root, const char *after, struct vv_name_list *names,
                   int *has_temporaries) {
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (!entry)
            return -errno;
        const char *name = entry->d_name;
        *has_temporaries |= vv_file_is_temporary(name);
        if (vv_backend_key_check(name) < 0)
            continue;
        int result = is_hidden(file, is_root, name);
        if (result < 0)
            return result;
        if (result)
            continue;
        result = after && strcmp(name, after) <= 0 ? ENTRY_OTHER : kind_of(folder, entry);
        if (result == ENTRY_FILE || result == ENTRY_FOLDER)
            result = vv_name_list_add(names, name, strlen(name), result == ENTRY_FOLDER);
        if (result < 0)
            return result;
    }
}

static int list_once(struct file_backend *file, const char *prefix, const char *after, uint64_t mark,
                     struct vv_name_list *names) {
    int has_temporaries = 0;
    int fd = vv_file_open_listing(file, prefix);
    if (fd < 0) {
        int result = vv_file_missing(file, fd, mark);
        return result == -ENOENT ? 0 : result;
    }
    DIR *folder = fdopendir(fd);
    if (!folder) {
        int result = vv_file_missing(file, -errno, mark); /* it looks at the folder, which may be gone */
        close(fd);
        return result == -ENOENT ? 0 : result;
    }
    int result = collect(file, folder, !*prefix, after, names, &has_temporaries);
    closedir(folder);
    if (has_temporaries)
        vv_file_note(file, prefix);
    /* A folder that was removed while open reads as empty, or, where it was remembered longer than it lived, as
     * missing: so may a vanished root. */
    if (result == -ENOENT) {
        vv_name_list_clear(names);
        result = 0;
    }
    if (result == 0 && names->count == 0)
        result = vv_file_root_check(file);
    return result < 0 ? result : vv_file_whole(file, mark);
}

static int file_list(struct varve_backend *backend, const char *prefix, const char *after, size_t limit,
                     varve_list_fn fn, void *arg) {
    struct file_backend *file = (struct file_backend *)backend;
    struct vv_name_list names = {0};
    struct file_try look;
    int result;
    vv_file_try_begin(file, &look);
    do {
        vv_name_list_clear(&names);
        result = list_once(file, prefix, after, look.mark, &names);
    } while (vv_file_try_again(file, &look, result));
    if (result == 0)
        result = vv_name_list_emit(&names, limit, fn, arg);
    vv_name_list_clear(&names);
    return result;
}

static int rename_from(struct file_backend *file, const char *path, int folder, const char *name) {
    const char *temporary;
    int from = vv_file_parent(file, path, &temporary);
    if (from < 0)
        return from;
    int result = renameat(from, temporary, folder, name) < 0 ? -errno : 0;
    close(from);
    return result;
}

/* The file at path becomes the object key, durably. made: as the folders were found when the file was created.
 * is_named: it has its name, durable or not. */
static int rename_into(struct file_backend *file, const char *path, const char *key, size_t made, int *is_named) {
    const char *slash = strrchr(key, '/');
    struct file_try look;
    uint64_t mark;
    int result = vv_file_mark_now(file, &mark);
    if (result < 0)
        return result;
    vv_file_try_begin(file, &look);
    do {
        int folder = vv_file_folder_open(file, key, &made);
        if (folder < 0)
            return folder == -ENOENT ? -ESTALE : folder;
        result = rename_from(file, path, folder, slash ? slash + 1 : key);
        *is_named = result == 0;
        if (result == 0)
            result = vv_file_folder_sync(file, key, folder, made, mark);
        close(folder);
        if (result == -ENOENT && vv_file_temporary_is_gone(file, path))
            break;
    } while (result == -ENOENT && (result = vv_file_try_anew(file, &look)) == 0);
    return result == -ENOENT ? -ESTALE : result;
}

static int replace_once(struct file_backend *file, const char *key, const void *data, size_t size, int *is_named) {
    const char *slash = strrchr(key, '/');
    char *path = NULL, folder[VV_BACKEND_KEY_MAX + 1];
    size_t made = SIZE_MAX;
    int fd = vv_file_may_write(file);
    fd = fd < 0 ? fd : vv_file_temporary(file, key, &made, &path);
    if (fd < 0)
        return fd;
    snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - key) : 0, key);
    if (!vv_file_has_nameless(file))
        vv_file_note(file, folder); /* nobody may ever list it, and find what a former process left there */
    int result = vv_file_set_mode(file, fd);
    if (result == 0)
        result = vv_file_write_all(fd, data, size, 0);
    if (result == 0)
        result = vv_file_sync(fd);
    close(fd);
    if (result == 0)
        result = rename_into(file, path, key, made, is_named);
    if (result < 0)
        vv_file_temporary_drop(file, key, path);
    vv_file_cache_drop(file, key);
    vv_free(path);
    return result;
}

static int file_replace(struct varve_backend *backend, const char *key, const void *data, size_t size) {
    struct file_backend *file = (struct file_backend *)backend;
    int result, is_named = 0;
    do
        result = replace_once(file, key, data, size, &is_named);
    while (vv_file_reserve_take(file, result) && !is_named); /* a folder whose sync has failed: see file_upload.c */
    if (result == 0)
        vv_file_reserve_keep(file, 0);
    return result;
}

static int file_remove(struct varve_backend *backend, const char *key) {
    struct file_backend *file = (struct file_backend *)backend;
    uint64_t mark = vv_file_mark(file);
    int result = vv_file_may_write(file);
    result = result < 0 ? result : vv_file_below_unlink(file, key, 0);
    if (result == -EISDIR || result == -EPERM) {
        struct stat st;
        if (vv_file_below_stat(file, key, &st) == 0 && S_ISDIR(st.st_mode))
            result = -ENOENT;
    }
    if (result < 0)
        return vv_file_missing(file, result, mark);
    vv_file_cache_drop(file, key);
    vv_file_folder_prune(file, key);
    return 0;
}

static int file_space(struct varve_backend *backend, uint64_t *bytes_out) {
    struct file_backend *file = (struct file_backend *)backend;
    struct statvfs st;
    if (fstatvfs(file->root_fd, &st) < 0)
        return -errno;
    uint64_t capacity = (uint64_t)st.f_bavail * st.f_frsize;
    *bytes_out = capacity > file->min_free ? capacity - file->min_free : 0;
    return 0;
}

static int sync_once(struct file_backend *file, const char *key) {
    size_t made = SIZE_MAX;
    uint64_t mark;
    int result = vv_file_mark_now(file, &mark);
    if (result < 0)
        return result;
    int fd = vv_file_below(file, key, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0)
        return vv_file_missing(file, fd, mark);
    result = vv_file_sync(fd);
    close(fd);
    if (result < 0)
        return result;
    int folder = vv_file_folder_open(file, key, &made);
    if (folder < 0)
        return folder;
    result = vv_file_folder_sync(file, key, folder, 0, mark);
    close(folder);
    return result;
}

static int file_sync(struct varve_backend *backend, const char *key) {
    struct file_backend *file = (struct file_backend *)backend;
    struct file_try look;
    int result;
    vv_file_try_begin(file, &look);
    do
        result = sync_once(file, key);
    while (vv_file_try_again(file, &look, result));
    return result;
}

static void file_close(struct varve_backend *backend) {
    struct file_backend *file = (struct file_backend *)backend;
    if (!file)
        return;
    vv_file_writer_clear(&file->writer);
    vv_file_cache_drop(file, NULL);
    vv_file_noted_clear(file);
    vv_file_watch_clear(file);
    pthread_mutex_destroy(&file->noted.lock);
    pthread_mutex_destroy(&file->reserve.lock);
    pthread_mutex_destroy(&file->cache.lock);
    pthread_mutex_destroy(&file->durable_lock);
    if (file->root_fd >= 0)
        close(file->root_fd);
    free(file->root);
    vv_free(file->given);
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
    .sweep = vv_file_sweep,
    .close = file_close,
    .probe = vv_file_probe,
    .refresh = vv_file_refresh,
};

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

/* The root itself must survive too, whoever made it. A parent that may not be read was made durable by somebody else.
 */
static int sync_parent(struct file_backend *file, const char *path, struct varve_error *error) {
    int fd = openat(file->root_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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
        return vv_error(error, VARVE_NO_STORE,
                        "there is no folder %s: check the path, and whether its file system is mounted", path);
    if (file->root_fd < 0 && errno == ENOTDIR)
        return vv_error(error, -ENOTDIR, "%s is not a folder", path);
    file->root = file->root_fd < 0 ? NULL : realpath(path, NULL);
    if (!file->root)
        return vv_error_sys(error, -errno, "cannot open the folder %s", path);
    file->given = vv_strdup(path);
    if (!file->given)
        return vv_error_sys(error, -ENOMEM, "cannot open the folder %s", path);
    return may_create ? sync_parent(file, path, error) : 0;
}

static int set_trust(struct file_backend *file, int purpose, struct varve_error *error) {
    int result = purpose == VV_FOR_WRITING ? vv_file_trust_root(file, file->given, error) : 0;
    atomic_store(&file->trust, purpose == VV_FOR_WRITING   ? TRUST_YES
                               : purpose == VV_FOR_READING ? TRUST_READ
                                                           : TRUST_UNKNOWN);
    return result;
}

static int probe_direct(struct file_backend *file, struct varve_error *error) {
    int fd = openat(file->root_fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC | O_DIRECT, 0600);
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

struct file_backend *vv_file_backend(struct varve_backend *backend) {
    return backend->ops == &file_ops ? (struct file_backend *)backend : NULL;
}

int vv_backend_shortage(struct varve_backend *backend, char *text, size_t size) {
    struct file_backend *file = vv_file_backend(vv_backend_innermost(backend));
    return file ? vv_file_shortage(file, text, size) : 0;
}

int vv_file_open(const char *path, const struct vv_backend_options *options, struct varve_backend **out,
                 struct varve_error *error) {
    struct file_backend *file = vv_calloc(1, sizeof(*file));
    if (!file)
        return vv_error_sys(error, -ENOMEM, "cannot open %s", path);
    file->base.ops = &file_ops;
    file->root_fd = -1;
    file->watch.graphs_fd = -1;
    file->min_free = options->min_free;
    file->log = options->log;
    file->owner = options->owner;
    atomic_init(&file->trust, TRUST_UNKNOWN);
    atomic_init(&file->is_link_told, 0);
    atomic_init(&file->is_open_to_all, 0);
    atomic_init(&file->is_stranger_told, 0);
    set_modes(file, options->mode);
    set_tuning(file, options->tuning);
    atomic_init(&file->may_direct, options->direct != VV_DIRECT_OFF);
    atomic_init(&file->nameless, file->tuning.named_temporaries ? NAMELESS_NO : NAMELESS_UNKNOWN);
    atomic_init(&file->counter, 0);
    vv_file_host_token(file->host);
    pthread_mutex_init(&file->noted.lock, NULL);
    pthread_mutex_init(&file->reserve.lock, NULL);
    pthread_mutex_init(&file->cache.lock, NULL);
    pthread_mutex_init(&file->durable_lock, NULL);
    int result = vv_file_writer_init(&file->writer, file->tuning.block_bytes, file->tuning.in_flight);
    if (result < 0)
        vv_error_sys(error, result, "cannot open %s", path);
    if (result == 0)
        result = open_root(file, path, options->may_create, error);
    if (result == 0)
        result = set_trust(file, options->purpose, error);
    if (result == 0) {
        vv_file_below_init(file);
        vv_file_watch_init(file);
        vv_file_order_init(file);
    }
    if (result == 0 && options->direct == VV_DIRECT_ON && options->purpose != VV_FOR_READING)
        result = probe_direct(file, error);
    if (result < 0) {
        file_close(&file->base);
        return result;
    }
    *out = &file->base;
    return 0;
}
