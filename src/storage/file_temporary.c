/* Files that are being written, by the names they have until then, and what is left of them when their writer dies.
 *
 * Most local file systems have files without a name (O_TMPFILE); then only replace() needs a name, and takes one in the
 * folder tmp. Elsewhere a file has a name from the beginning, beside the object it will become:
 * ".NAME.,HOST-PID-N-RANDOM" (file_names.c). Beside, and with this dot and this dot, because GlusterFS places such a
 * file (as rsync makes them) where it will look for NAME. From any other place, giving it its name takes two servers
 * and is not exclusive: measured with two mounts of a distributed volume, two clients that linked different files to
 * one name both succeeded in 4 of 3,200 rounds, and in 3 the name could not be opened afterwards. In the same place it
 * is one operation of one server. Other file systems gain too: links across folders are slow, or refused, on some.
 *
 * sweep() removes a file if its process is known to be gone: the same host, and no such process. Files of other hosts
 * may be alive however silent they are; they go when they have not changed for seven days by the clock that stamps
 * them. Should the writer be alive after all, its commit finds no file and fails; nothing else can happen. Whatever has
 * another kind of name is not ours and stays, also in tmp and however old it is. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/file_private.h"
#include "base/alloc.h"
#include "base/thread.h"

#define SWEEP_SECONDS (7 * 24 * 3600)

/* ---- making them ---- */

int vv_file_has_nameless(struct file_backend *file) {
    if (atomic_load(&file->nameless) == NAMELESS_UNKNOWN) {
        int fd = openat(file->root_fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
        if (fd >= 0)
            close(fd);
        if (fd >= 0 || errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)
            atomic_store(&file->nameless, fd >= 0 ? NAMELESS_YES : NAMELESS_NO);
    }
    return atomic_load(&file->nameless) != NAMELESS_NO;
}

/* The path below the root, and where its last component begins. */
static char *temporary_path(struct file_backend *file, const char *key, const char *writer, int *is_beside) {
    const char *slash = strrchr(key, '/');
    const char *name = slash ? slash + 1 : key;
    size_t capacity = strlen(key) + FILE_OWN_CAPACITY + 8;
    char *path = vv_malloc(capacity);
    *is_beside = !vv_file_has_nameless(file) && strlen(name) + strlen(writer) + 3 <= NAME_MAX;
    if (path && *is_beside)
        snprintf(path, capacity, "%.*s.%s.,%s", (int)(name - key), key, name, writer);
    else if (path)
        snprintf(path, capacity, "tmp/%s", writer);
    return path;
}

static int open_in(struct file_backend *file, int folder, const char *path) {
    const char *slash = strrchr(path, '/');
    int fd = openat(folder, slash ? slash + 1 : path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, file->file_mode);
    return fd < 0 ? -errno : fd;
}

int vv_file_temporary(struct file_backend *file, const char *key, size_t *made, char **path_out) {
    char writer[FILE_OWN_CAPACITY];
    int is_beside, result = vv_file_own_name(file, "", writer);
    if (result < 0)
        return result;
    char *path = temporary_path(file, key, writer, &is_beside);
    if (!path)
        return -ENOMEM;
    struct file_try look;
    vv_file_try_begin(file, &look);
    do {
        int folder = is_beside ? vv_file_folder_open(file, key, made) : vv_file_tmp_open(file);
        if (folder < 0) {
            result = folder;
            break;
        }
        result = open_in(file, folder, path); /* -ENOENT: somebody has removed the folder */
        close(folder);
    } while (result == -ENOENT && (result = vv_file_try_anew(file, &look)) == 0);
    if (result < 0) {
        vv_free(path);
        return result == -ENOENT ? -ESTALE : result;
    }
    *path_out = path;
    return result;
}

int vv_file_temporary_is_gone(struct file_backend *file, const char *path) {
    struct stat st;
    return vv_file_below_stat(file, path, &st) == -ENOENT;
}

void vv_file_temporary_drop(struct file_backend *file, const char *key, const char *path) {
    (void)vv_file_below_unlink(file, path, 0);
    if (strncmp(path, "tmp/", 4) != 0)
        vv_file_folder_prune(file, key);
}

/* ---- finding them ---- */

int vv_file_tmp_is_ours(struct file_backend *file) {
    struct file_maker maker;
    int is_ours = 1;
    int fd = vv_file_below(file, "tmp", O_RDONLY | O_DIRECTORY, 0);
    if (fd == -ENOTDIR || fd == -ELOOP)
        return 0;
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) {
        int result = fd < 0 ? fd : -errno;
        if (fd >= 0)
            close(fd);
        return result == -ENOENT ? 1 : result;
    }
    for (const struct dirent *entry; is_ours && (errno = 0, entry = readdir(folder));)
        is_ours = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
                  vv_file_name_parse(entry->d_name, 1, &maker);
    int result = is_ours && errno ? -errno : is_ours;
    closedir(folder);
    return result;
}

/* More than there is room for are found by a later listing. */
void vv_file_note(struct file_backend *file, const char *folder) {
    struct file_noted *noted = &file->noted;
    pthread_mutex_lock(&noted->lock);
    int is_known = noted->count == FILE_NOTED;
    for (unsigned i = 0; i < noted->count && !is_known; i++)
        is_known = strcmp(noted->folders[i], folder) == 0;
    if (!is_known && (noted->folders[noted->count] = vv_strdup(folder)))
        noted->count++;
    pthread_mutex_unlock(&noted->lock);
}

static char *take_noted(struct file_backend *file) {
    struct file_noted *noted = &file->noted;
    pthread_mutex_lock(&noted->lock);
    char *folder = noted->count ? noted->folders[--noted->count] : NULL;
    pthread_mutex_unlock(&noted->lock);
    return folder;
}

void vv_file_noted_clear(struct file_backend *file) {
    for (char *folder; (folder = take_noted(file));)
        vv_free(folder);
}

/* ---- removing them ---- */

/* One folder being swept. */
struct sweep {
    struct file_backend *file;
    int fd;
    int is_tmp;
    time_t now; /* by the clock that stamps files here; 0: not asked yet */
    int removed;
};

/* Our own clock may be wrong, or the server's: what counts is how old a file is in its own time. */
static time_t storage_now(struct sweep *sweep) {
    char name[FILE_OWN_CAPACITY];
    struct stat st;
    if (sweep->now || vv_file_own_name(sweep->file, sweep->is_tmp ? "" : ".clock.,", name) < 0)
        return sweep->now;
    int fd = openat(sweep->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, sweep->file->file_mode);
    if (fd < 0)
        return 0;
    if (fstat(fd, &st) == 0)
        sweep->now = st.st_mtime;
    close(fd);
    (void)unlinkat(sweep->fd, name, 0);
    return sweep->now;
}

static int is_old(struct sweep *sweep, const struct stat *st) {
    uint64_t now = vv_clock_wall_ns() / 1000000000u;
    if (st->st_mtime < 0 || (uint64_t)st->st_mtime + SWEEP_SECONDS >= now)
        return 0;
    return st->st_mtime + SWEEP_SECONDS < storage_now(sweep);
}

/* Is the writer that chose this name known to be gone, or is the file so old that it must be? */
static int is_leftover(struct sweep *sweep, const char *name) {
    struct file_maker maker;
    struct stat st;
    if (!vv_file_name_parse(name, sweep->is_tmp, &maker) || fstatat(sweep->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISREG(st.st_mode))
        return 0;
    if (*sweep->file->host && strcmp(maker.host, sweep->file->host) == 0)
        return (kill((pid_t)maker.pid, 0) < 0 && errno == ESRCH) || is_old(sweep, &st);
    return is_old(sweep, &st);
}

/* How many went, or an error. */
static int sweep_folder(struct file_backend *file, const char *path) {
    struct sweep sweep = {.file = file, .is_tmp = strcmp(path, "tmp") == 0};
    uint64_t mark = vv_file_mark(file);
    sweep.fd = vv_file_below(file, path, O_RDONLY | O_DIRECTORY, 0);
    if (sweep.fd < 0) {
        int result = vv_file_missing(file, sweep.fd, mark);
        return result == -ENOENT ? 0 : result;
    }
    DIR *folder = fdopendir(sweep.fd);
    if (!folder) {
        close(sweep.fd);
        return -ENOMEM;
    }
    for (const struct dirent *entry; (entry = readdir(folder));)
        if (is_leftover(&sweep, entry->d_name) && unlinkat(sweep.fd, entry->d_name, 0) == 0)
            sweep.removed++;
    closedir(folder);
    return sweep.removed;
}

int vv_file_sweep(struct varve_backend *backend) {
    struct file_backend *file = (struct file_backend *)backend;
    int removed = vv_file_may_write(file);
    if (removed < 0)
        return removed;
    removed = sweep_folder(file, "tmp");
    for (char *path; removed >= 0 && (path = take_noted(file));) {
        char key[VV_BACKEND_KEY_MAX + 3];
        int result = sweep_folder(file, path);
        snprintf(key, sizeof(key), "%s%sx", path, *path ? "/" : "");
        if (result > 0)
            vv_file_folder_prune(file, key);
        removed = result < 0 ? result : removed + result;
        vv_free(path);
    }
    vv_file_reserve_keep(file, 1);
    return removed;
}
