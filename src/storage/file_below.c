/* Finding things below the root without following a link.
 *
 * A store has no symbolic links. One that lies in it was put there by somebody, and leads to files that are no part of
 * the store: to read, replace or remove through it would be done to them. So each path is resolved with links refused,
 * in one step by openat2 (Linux 5.6), else folder by folder. -ELOOP says that a link is in the way; it never means "not
 * there". What has no such flag (unlink, rename, link, mkdir, stat) is done in the opened folder, by the last name
 * alone, which these calls do not follow. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "storage/file_private.h"
#include "base/log.h"

/* As in linux/openat2.h, which older systems do not have. */
struct open_how_here {
    uint64_t flags, mode, resolve;
};
#define NO_LINKS 0x04u
#define BENEATH 0x08u
#ifdef SYS_openat2
#define OPENAT2_NUMBER SYS_openat2
#else
#define OPENAT2_NUMBER 437
#endif

static int open_at_once(int folder, const char *path, int flags, mode_t mode) {
    int makes = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
    struct open_how_here how = {
        .flags = (uint64_t)(unsigned)flags, .mode = makes ? mode : 0, .resolve = NO_LINKS | BENEATH};
    long fd = syscall(OPENAT2_NUMBER, folder, path, &how, sizeof(how));
    return fd < 0 ? -errno : (int)fd;
}

/* Containers may refuse the call with an error that would mean something else later: it is tried once, where it must
 * work. */
void vv_file_below_init(struct file_backend *file) {
    int fd =
        file->tuning.step_by_step ? -ENOSYS : open_at_once(file->root_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    file->has_openat2 = fd >= 0;
    if (fd >= 0)
        close(fd);
}

/* With O_DIRECTORY the kernel calls a link "not a folder". */
static int tell_link(int folder, const char *name, int result) {
    struct stat st;
    if (result == -ENOTDIR && fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
        return -ELOOP;
    return result;
}

/* In a root where everybody may make files, as in /tmp, somebody may have been there before us: what lies directly in
 * it must be ours. Whatever is below that is in folders where only we make files. */
static int check_first(struct file_backend *file, int fd, const char *name) {
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (vv_file_is_trusted_owner(st.st_uid))
        return 0;
    if (!atomic_exchange(&file->is_stranger_told, 1))
        vv_log(file->log, VV_LOG_ERROR,
               "%s/%s belongs to user %u: in a folder where everybody may make files it is not taken for a part of the "
               "store",
               file->root, name, (unsigned)st.st_uid);
    return -EPERM;
}

static int open_step(struct file_backend *file, int folder, const char *name, int flags, mode_t mode) {
    int fd = openat(folder, name, flags | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0)
        return tell_link(folder, name, -errno);
    int result = folder == file->root_fd && atomic_load(&file->is_open_to_all) ? check_first(file, fd, name) : 0;
    if (result < 0)
        close(fd);
    return result < 0 ? result : fd;
}

static int open_stepwise(struct file_backend *file, const char *path, int flags, mode_t mode) {
    int root = file->root_fd, folder = root, result = 0;
    for (const char *slash; result >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
        char name[NAME_MAX + 1];
        if ((size_t)(slash - path) > NAME_MAX) {
            result = -ENAMETOOLONG;
            break;
        }
        snprintf(name, sizeof(name), "%.*s", (int)(slash - path), path);
        result = open_step(file, folder, name, O_PATH | O_DIRECTORY, 0);
        if (folder != root)
            close(folder);
        folder = result >= 0 ? result : root;
    }
    if (result >= 0)
        result = open_step(file, folder, path, flags, mode);
    if (folder != root)
        close(folder);
    return result;
}

int vv_file_below(struct file_backend *file, const char *path, int flags, mode_t mode) {
    int result;
    flags |= O_CLOEXEC;
    path = *path ? path : ".";
    do
        result = file->has_openat2 && !atomic_load(&file->is_open_to_all)
                     ? open_at_once(file->root_fd, path, flags, mode)
                     : open_stepwise(file, path, flags, mode);
    while (result == -EINTR);
    if (result == -ELOOP && !atomic_exchange(&file->is_link_told, 1))
        vv_log(file->log, VV_LOG_WARN,
               "%s/%s is, or leads through, a symbolic link, which is not followed inside a store: remove the link, or "
               "mount "
               "the other place there",
               file->root, path);
    return result;
}

int vv_file_parent(struct file_backend *file, const char *path, const char **name_out) {
    const char *slash = strrchr(path, '/');
    char folder[VV_BACKEND_KEY_MAX + 2];
    *name_out = slash ? slash + 1 : path;
    if (slash && (size_t)(slash - path) >= sizeof(folder))
        return -ENAMETOOLONG;
    snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) : 0, path);
    return vv_file_below(file, folder, O_PATH | O_DIRECTORY, 0);
}

int vv_file_below_stat(struct file_backend *file, const char *path, struct stat *st) {
    const char *name;
    int folder = vv_file_parent(file, path, &name);
    if (folder < 0)
        return folder;
    int result = fstatat(folder, name, st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
    close(folder);
    return result;
}

int vv_file_below_unlink(struct file_backend *file, const char *path, int flags) {
    const char *name;
    int folder = vv_file_parent(file, path, &name);
    if (folder < 0)
        return folder;
    int result = unlinkat(folder, name, flags) < 0 ? -errno : 0;
    close(folder);
    return result;
}

/* A folder in the place of an object has objects below it: the key itself has none. Anything else is there, and cannot
 * be read as an object. */
int vv_file_kind_check(mode_t mode) {
    if (S_ISREG(mode))
        return 0;
    return S_ISDIR(mode) ? -ENOENT : S_ISLNK(mode) ? -ELOOP : VARVE_CORRUPT;
}
