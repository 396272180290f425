/* Folders below the root.
 *
 * A folder is made when an object in it is committed and removed when its last object goes, by any number of processes
 * at once. Whoever makes or uses one therefore expects it to vanish under its hands and makes it again.
 *
 * Durability: an object is durable when its file is, its folder is, and every folder from there up to the root is.
 * Another process may have made a folder a moment ago and not have synced its parent yet, so "it was there already"
 * proves nothing: each process syncs the whole way once per folder and remembers the last few it has done. Where the
 * file system has one log for all of them, the folder alone is enough (file_order.c). */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/file_private.h"
#include "base/hash.h"

int vv_file_sync(int fd) {
    int result;
    do
        result = fsync(fd) < 0 ? -errno : 0;
    while (result == -EINTR);
    return result;
}

/* Some file systems cannot sync folders, and say so. */
static int sync_folder(int fd) {
    int result = vv_file_sync(fd);
    return result == -EINVAL || result == -ENOTSUP ? 0 : result;
}

static size_t folder_size(const char *key) {
    const char *slash = strrchr(key, '/');
    return slash ? (size_t)(slash - key) : 0;
}

static void folder_path(const char *key, size_t size, char *out) {
    memcpy(out, key, size);
    out[size] = '\0';
    if (size == 0)
        strcpy(out, ".");
}

static int open_folder(struct file_backend *file, const char *key, size_t size) {
    char path[VV_BACKEND_KEY_MAX + 2];
    folder_path(key, size, path);
    return vv_file_below(file, path, O_RDONLY | O_DIRECTORY, 0);
}

/* The umask must not take away what group members need; a set-group-id bit inherited from the parent stays. By its open
 * folder: at its name there may be another one by now, or a link. */
static void open_to_group(int parent, const char *name) {
    struct stat st;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && st.st_uid == geteuid())
        (void)fchmod(fd, (st.st_mode & (mode_t)~07) | 0770);
    close(fd);
}

static int make_folder(struct file_backend *file, const char *path) {
    const char *name;
    int parent = vv_file_parent(file, path, &name);
    if (parent < 0)
        return parent;
    int result = mkdirat(parent, name, file->folder_mode) < 0 ? -errno : 1;
    if (result > 0 && file->mode == VV_MODE_GROUP)
        open_to_group(parent, name);
    close(parent);
    return result;
}

/* Make all folders of key. 0, or -ENOENT if one vanished meanwhile. */
static int make_way(struct file_backend *file, const char *key, size_t size, size_t *made) {
    for (size_t at = 0; at < size;) {
        at += strcspn(key + at, "/");
        char path[VV_BACKEND_KEY_MAX + 2];
        folder_path(key, at, path);
        int result = make_folder(file, path);
        if (result < 0 && result != -EEXIST)
            return result;
        if (result > 0 && at < *made)
            *made = at;
        at++;
    }
    return 0;
}

int vv_file_folder_open(struct file_backend *file, const char *key, size_t *made) {
    size_t size = folder_size(key);
    struct file_try look;
    int result;
    vv_file_try_begin(file, &look);
    do {
        result = open_folder(file, key, size);
        if (result != -ENOENT)
            return result;
        result = make_way(file, key, size, made);
        if (result == 0)
            result = open_folder(file, key, size);
    } while (result == -ENOENT && (result = vv_file_try_anew(file, &look)) == 0);
    return result == -ENOTDIR ? vv_file_missing(file, result, look.mark) : result;
}

static size_t size_above(const char *key, size_t size) {
    while (size > 0 && key[size - 1] != '/')
        size--;
    return size > 0 ? size - 1 : 0;
}

/* With the lock: where it is in the list, or the last place. */
static unsigned find_durable(const struct file_backend *file, uint64_t sum) {
    unsigned at = 0;
    while (at < FILE_DURABLE_KNOWN - 1 && file->durable[at] != sum)
        at++;
    return at;
}

/* What is in use stays: every checkpoint has folders of its own, and they must not drive out those above them. */
static void remember_durable(struct file_backend *file, uint64_t sum) {
    pthread_mutex_lock(&file->durable_lock);
    unsigned at = find_durable(file, sum);
    memmove(file->durable + 1, file->durable, at * sizeof(file->durable[0]));
    file->durable[0] = sum;
    pthread_mutex_unlock(&file->durable_lock);
}

static int is_known_durable(struct file_backend *file, uint64_t sum) {
    pthread_mutex_lock(&file->durable_lock);
    int found = file->durable[find_durable(file, sum)] == sum;
    pthread_mutex_unlock(&file->durable_lock);
    return found;
}

/* It was removed: whoever makes it again may not have synced its parent. */
static void forget_durable(struct file_backend *file, uint64_t sum) {
    pthread_mutex_lock(&file->durable_lock);
    unsigned at = find_durable(file, sum);
    if (file->durable[at] == sum)
        file->durable[at] = 0;
    pthread_mutex_unlock(&file->durable_lock);
}

/* The folder of key and all above it. Those nearest to the root last, so that they are the last to be forgotten. */
static void remember_way(struct file_backend *file, const char *key) {
    for (size_t size = folder_size(key); size > 0; size = size_above(key, size))
        remember_durable(file, vv_sum64(key, size));
}

static int sync_way(struct file_backend *file, const char *key, int fd, size_t made) {
    int result = sync_folder(fd);
    size_t size = folder_size(key);
    if (result < 0 || vv_file_is_ordered(file, fd))
        return result;
    while (result == 0 && size > 0) {
        if (size < made && is_known_durable(file, vv_sum64(key, size)))
            break;
        size = size_above(key, size);
        int parent = open_folder(file, key, size);
        if (parent == -ENOENT)
            return 0; /* somebody has removed the object, and its folders with it */
        if (parent < 0)
            return parent;
        result = sync_folder(parent);
        close(parent);
    }
    if (result == 0)
        remember_way(file, key);
    return result;
}

/* Where servers are missing, those that are there answer for all: then it is not known whether this is durable. */
int vv_file_folder_sync(struct file_backend *file, const char *key, int fd, size_t made, uint64_t mark) {
    int result = sync_way(file, key, fd, made);
    if (result == 0 && (result = vv_file_whole(file, mark)) == -EAGAIN)
        result = -ENOTCONN;
    return result;
}

void vv_file_folder_prune(struct file_backend *file, const char *key) {
    for (size_t size = folder_size(key); size > 0;) {
        char path[VV_BACKEND_KEY_MAX + 2];
        folder_path(key, size, path);
        if (vv_file_below_unlink(file, path, AT_REMOVEDIR) < 0)
            return;
        forget_durable(file, vv_sum64(path, size));
        size = folder_size(path);
    }
}

int vv_file_tmp_open(struct file_backend *file) {
    struct file_try look;
    int result;
    vv_file_try_begin(file, &look);
    do {
        int fd = vv_file_below(file, "tmp", O_RDONLY | O_DIRECTORY, 0);
        if (fd != -ENOENT)
            return fd;
        result = make_folder(file, "tmp");
        if (result < 0 && result != -EEXIST)
            result = vv_file_missing(file, result, look.mark);
        else
            result = vv_file_try_anew(file, &look);
    } while (result == 0);
    return result == -ENOENT ? -ESTALE : result;
}

int vv_file_set_mode(struct file_backend *file, int fd) {
    if (file->mode == VV_MODE_UMASK)
        return 0;
    return fchmod(fd, file->file_mode) < 0 ? -errno : 0;
}
