/* Folders as they are now, where a host remembers what it has seen of them.
 *
 * Clients of network file systems answer from memory for some seconds: what a folder lists, and that a name does not
 * exist. Two things are done about it.
 *
 * Before every listing, and before "there is none" is believed, the folder itself is asked for with
 * AT_STATX_FORCE_SYNC. NFS then asks the server; if the folder has changed, what was remembered of it is dropped, the
 * names that did not exist, too. Lustre, GPFS, CephFS and local file systems know anyway. With FUSE the question
 * reaches the file system's process, which may have a memory of its own: sshfs answers from it.
 *
 * So before something is deleted because it is not listed, a file with a name of its own is made in the folder, and the
 * listing must show it: a client that changes a folder itself drops what it remembers of it. A listing that does not
 * show it is not believed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/file_private.h"
#include "base/thread.h"

#define SHOWN_NS UINT64_C(2000000000) /* how long a listing may take to show it */

static void ask(int fd) {
    struct statx st;
    (void)statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_MTIME, &st);
}

/* The nearest folder above the key that exists, so that a name below it that did not is looked up anew. */
void vv_file_ask_above(struct file_backend *file, const char *key) {
    char path[VV_BACKEND_KEY_MAX + 2];
    snprintf(path, sizeof(path), "%s", key);
    for (char *slash; (slash = strrchr(path, '/'));) {
        *slash = '\0';
        int fd = vv_file_below(file, path, O_PATH | O_DIRECTORY, 0);
        if (fd < 0)
            continue;
        ask(fd);
        close(fd);
        return;
    }
    ask(file->root_fd);
}

int vv_file_open_listing(struct file_backend *file, const char *prefix) {
    int fd = vv_file_below(file, prefix, O_RDONLY | O_DIRECTORY, 0);
    if (fd == -ENOENT) {
        vv_file_ask_above(file, prefix);
        fd = vv_file_below(file, prefix, O_RDONLY | O_DIRECTORY, 0);
    }
    if (fd >= 0)
        ask(fd);
    return fd;
}

/* ---- a mark that a listing must show ---- */

/* Errors that say nothing about listings: no right to write, no room. Then there is only what the client tells. */
static int says_nothing(int result) {
    return result == -EACCES || result == -EPERM || result == -EROFS || result == -ENOSPC || result == -EDQUOT ||
           result == -ENOENT;
}

/* 1 the folder's listing has the name, 0 it has not, or an error. */
static int is_shown(struct file_backend *file, const char *prefix, const char *name) {
    int fd = vv_file_open_listing(file, prefix);
    if (fd < 0)
        return fd;
    DIR *folder = fdopendir(fd);
    if (!folder) {
        int result = -errno;
        close(fd);
        return result;
    }
    int is_found = 0;
    for (const struct dirent *entry; !is_found && (entry = readdir(folder));)
        is_found = strcmp(entry->d_name, name) == 0;
    closedir(folder);
    return is_found;
}

static int wait_until_shown(struct file_backend *file, const char *prefix, const char *name) {
    uint64_t since = vv_clock_ns();
    int result = 0;
    for (unsigned looks = 0; (result = is_shown(file, prefix, name)) == 0; looks++) {
        if (vv_clock_ns() - since > SHOWN_NS)
            return -ESTALE;
        vv_sleep_ms(looks < 6 ? 1u << looks : 64);
    }
    return result < 0 ? result : 0;
}

int vv_file_refresh(struct varve_backend *backend, const char *prefix) {
    struct file_backend *file = (struct file_backend *)backend;
    char name[FILE_OWN_CAPACITY]; /* as of a temporary file: listings leave it out, and sweep removes it if we die here
                                   */
    int result = vv_file_own_name(file, ".fresh.,", name);
    int folder = result < 0 ? result : vv_file_open_listing(file, prefix);
    if (folder < 0) /* nothing lies below it; the listing will tell whether the root is there */
        return folder == -ENOENT || folder == -ENOTDIR ? 0 : folder;
    result = vv_file_may_write(file);
    int fd =
        result < 0 ? -1 : openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, file->file_mode);
    if (result == 0 && fd < 0)
        result = -errno;
    if (fd >= 0) {
        close(fd);
        result = wait_until_shown(file, prefix, name);
        (void)unlinkat(folder, name, 0);
    }
    close(folder);
    return says_nothing(result) ? 0 : result;
}
