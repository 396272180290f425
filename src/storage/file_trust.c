/* Whose root is it, and may we write there?
 *
 * Whoever can put files into the root of a store can put anything there: other people's checkpoints, or what makes us
 * remove ours. So a root is written to if it belongs to us or to the superuser and others may not write there, unless
 * the user has said that this is meant (owner=any). With mode=group the store is shared on purpose: then a root that
 * its group may write to can belong to anybody. Reading is free: what is read is checked, byte by byte.
 *
 * Where everybody may make files but only remove their own (the sticky bit: /tmp, a fresh tmpfs), a store is possible:
 * what lies directly in the root must then be ours, each time it is opened (file_below.c).
 *
 * A parent folder may be open to others, as /tmp is. What they can do there is to put a root of theirs in the place of
 * a missing one, which is found out here, or a link to another folder of ours, which is, too.
 *
 * All of it is asked of the folder that is open, never of its path. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/file_private.h"
#include "base/error.h"
#include "base/log.h"

#define REMEDY                                                                                                         \
    "give a folder of your own, access=read to restart from it only, or owner=any if you trust all who can write "     \
    "there"

int vv_file_is_trusted_owner(uid_t owner) {
    return owner == geteuid() || owner == 0;
}

/* Some file systems give everything of ours to another user (a server that maps users, a mount with a fixed owner).
 * Then a file that we make there belongs to whom the root belongs to; elsewhere it never does. */
static int is_ours_there(struct file_backend *file, uid_t owner) {
    struct stat st;
    char name[FILE_OWN_CAPACITY];
    int fd = openat(file->root_fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    int is_named = fd < 0 && vv_file_own_name(file, ".owner.,", name) == 0;
    if (is_named)
        fd = openat(file->root_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return 0;
    int is_ours = fstat(fd, &st) == 0 && st.st_uid == owner;
    close(fd);
    if (is_named)
        (void)unlinkat(file->root_fd, name, 0);
    return is_ours;
}

/* A link at the end of the path, put there by somebody else, would choose for us among our own folders. */
static int check_link(const char *path, struct varve_error *error) {
    char own[VV_BACKEND_PATH_MAX + 1];
    struct stat st;
    size_t size = strlen(path);
    while (size > 1 && path[size - 1] == '/')
        size--;
    snprintf(own, sizeof(own), "%.*s", (int)size, path);
    if (lstat(own, &st) < 0 || !S_ISLNK(st.st_mode) || vv_file_is_trusted_owner(st.st_uid))
        return 0;
    return vv_error(error, -EPERM, "%s is a link that user %u has made: " REMEDY, own, (unsigned)st.st_uid);
}

int vv_file_trust_root(struct file_backend *file, const char *path, struct varve_error *error) {
    struct stat st;
    if (file->owner == VV_OWNER_ANY)
        return 0;
    if (fstat(file->root_fd, &st) < 0)
        return vv_error_sys(error, -errno, "cannot look at the folder %s", path);
    if ((st.st_mode & S_IWOTH) && (st.st_mode & S_ISVTX))
        atomic_store(&file->is_open_to_all, 1);
    else if (st.st_mode & S_IWOTH)
        return vv_error(error, -EPERM, "everybody may write to the folder %s: chmod o-w it, " REMEDY, path);
    int is_shared = file->mode == VV_MODE_GROUP && (st.st_mode & S_IWGRP);
    if (!vv_file_is_trusted_owner(st.st_uid) && !is_shared && !is_ours_there(file, st.st_uid))
        return vv_error(error, -EPERM, "the folder %s belongs to user %u: " REMEDY, path, (unsigned)st.st_uid);
    return check_link(path, error);
}

int vv_file_may_write(struct file_backend *file) {
    struct varve_error why;
    int state = atomic_load(&file->trust);
    if (state == TRUST_UNKNOWN) {
        state = vv_file_trust_root(file, file->given, &why) < 0 ? TRUST_NO : TRUST_YES;
        if (atomic_exchange(&file->trust, state) == TRUST_UNKNOWN && state == TRUST_NO)
            vv_log(file->log, VV_LOG_ERROR, "nothing is written to this store: %s", why.text);
    }
    return state == TRUST_YES ? 0 : state == TRUST_READ ? -EROFS : -EPERM;
}
