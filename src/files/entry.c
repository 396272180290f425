#include "files/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int files_is_excluded(const struct files_list *files, const char *path, const char *name) {
    for (size_t i = 0; i < files->exclude_count; i++) {
        const char *pattern = files->excludes[i];
        int is_path = strchr(pattern, '/') != NULL;
        if (fnmatch(pattern, is_path ? path : name, is_path ? FNM_PATHNAME : 0) == 0)
            return 1;
    }
    return 0;
}

int files_add_link(struct files_list *files, int folder, const char *name, const char *path, const struct stat *stat,
                   struct varve_error *error) {
    char target[FILES_PATH_MOST + 2];
    struct stat empty = *stat;

    ssize_t size = readlinkat(folder, name, target, sizeof target);
    if (size < 0)
        return files_system_error(error, "read the link", path);
    if (size == 0 || size > (ssize_t)FILES_PATH_MOST)
        return files_error(error, -EINVAL, "%s: this link cannot be stored: it is empty or longer than %u bytes", path,
                           FILES_PATH_MOST);
    empty.st_size = 0; /* it has no bytes of its own */
    int rc = files_add(files, path, &empty, error);
    if (rc < 0)
        return rc;
    struct files_file *file = &files->list[files->count - 1];
    file->target = strndup(target, (size_t)size);
    return file->target ? 0 : files_error(error, -ENOMEM, "no memory for a list of files");
}

int files_check_way(int folder, const char *path, struct varve_error *error) {
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        char way[FILES_PATH_MOST + 1];
        struct stat stat;
        size_t length = (size_t)(slash - path);
        memcpy(way, path, length);
        way[length] = '\0';
        if (fstatat(folder, way, &stat, AT_SYMLINK_NOFOLLOW) < 0)
            return files_system_error(error, "look at", way);
        if (S_ISLNK(stat.st_mode))
            return files_error(error, -ELOOP,
                               "%s is a symbolic link, and what is behind it would be stored as if it were a folder; "
                               "give the folder with -C",
                               way);
    }
    return 0;
}
