#include "files/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static int taken(struct varve_error *error, const char *path) {
    return files_error(error, -EEXIST, "%s is there already; choose another file, or --force to replace it", path);
}

static int open_folder(struct files_output *output, struct varve_error *error) {
    const char *slash = strrchr(output->path, '/');
    char *folder =
        slash ? strndup(output->path, slash == output->path ? 1 : (size_t)(slash - output->path)) : strdup(".");

    output->name = slash ? slash + 1 : output->path;
    output->folder = folder ? open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    free(folder);
    if (output->folder >= 0 && !*output->name) {
        close(output->folder);
        errno = EISDIR;
        output->folder = -1;
    }
    return output->folder < 0 ? files_system_error(error, "make", output->path) : 0;
}

static int open_partial(struct files_output *output, struct varve_error *error) {
    unsigned long long random = 0;

    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return files_system_error(error, "make", output->path);
    snprintf(output->partial, sizeof output->partial, ".varve-%016llx.partial", random);
    output->fd = openat(output->folder, output->partial, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (output->fd < 0)
        return files_system_error(error, "make", output->path);
    return fstat(output->fd, &output->made) < 0 ? files_system_error(error, "look at", output->path) : 0;
}

static int is_ours(const struct files_output *output) {
    struct stat there;
    return fstatat(output->folder, output->partial, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           there.st_dev == output->made.st_dev && there.st_ino == output->made.st_ino;
}

/* Without --force the last step must not replace a file that has appeared meanwhile. */
static int name_new(const struct files_output *output, struct varve_error *error) {
    int folder = output->folder;

    if (renameat2(folder, output->partial, folder, output->name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno == EINVAL || errno == ENOSYS) {
        if (linkat(folder, output->partial, folder, output->name, 0) == 0) {
            unlinkat(folder, output->partial, 0);
            return 0;
        }
    }
    return errno == EEXIST ? taken(error, output->path)
                           : files_system_error(error, "rename the result to", output->path);
}

static int publish(const struct files_output *output, struct varve_error *error) {
    struct stat there;

    if (!is_ours(output))
        return files_error(error, -ESTALE, "cannot make %s: somebody has put another file in the place of ours",
                           output->path);
    if (!output->is_forced)
        return name_new(output, error);
    if (fstatat(output->folder, output->name, &there, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(there.st_mode))
        return files_error(error, -EEXIST, "%s is no plain file and is not replaced; -o - writes to standard output",
                           output->path);
    return renameat(output->folder, output->partial, output->folder, output->name) < 0
               ? files_system_error(error, "rename the result to", output->path)
               : 0;
}

int files_output_open(struct files_output *output, const char *path, int is_forced, struct varve_error *error) {
    struct stat there;

    *output = (struct files_output){.path = path, .is_forced = is_forced, .fd = -1, .folder = -1};
    int rc = open_folder(output, error);
    if (rc < 0)
        return rc;
    if (!is_forced && fstatat(output->folder, output->name, &there, AT_SYMLINK_NOFOLLOW) == 0)
        return taken(error, path);
    return open_partial(output, error);
}

int files_output_close(struct files_output *output, int rc, struct varve_error *error) {
    if (rc == 0 && fsync(output->fd) < 0 && errno != EINVAL && errno != ENOTSUP)
        rc = files_system_error(error, "write", output->path);
    rc = rc ? rc : publish(output, error);
    if (rc < 0 && output->fd >= 0 && is_ours(output))
        unlinkat(output->folder, output->partial, 0);
    if (output->fd >= 0)
        close(output->fd);
    if (output->folder >= 0)
        close(output->folder);
    return rc;
}
