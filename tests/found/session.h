/* What tests with a store in a folder share: a folder of their own, a small session, another user. */
#ifndef FOUND_SESSION_H
#define FOUND_SESSION_H

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <varve/varve.h>

#include "test.h"

#define STRANGER 65534 /* any user that is neither us nor the superuser */

static char found_folder[256];
static char found_bytes[20000];
static struct varve_error found_error;
static varve_log_fn found_log; /* NULL: stderr */

static inline char *found_path(const char *name) {
    static char paths[4][600];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", found_folder, name);
    return path;
}

static inline int found_setup(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(found_folder, sizeof found_folder, "%s/varve-found-XXXXXX", base ? base : "/tmp");
    return mkdtemp(found_folder) ? 0 : -1;
}

static inline int found_remove_one(const char *path, const struct stat *st, int flag, struct FTW *walk) {
    (void)st;
    (void)flag;
    (void)walk;
    return remove(path);
}

static inline int found_teardown(void **state) {
    (void)state;
    return nftw(found_folder, found_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void found_write(const char *path, const char *text, mode_t mode) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static inline void found_make_old(const char *path) {
    struct timespec times[2] = {{.tv_sec = time(NULL) - 31 * 24 * 3600}, {.tv_sec = time(NULL) - 31 * 24 * 3600}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

static inline int found_open(const char *store, const char *settings, struct varve_session **out) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    options.settings = settings;
    options.log = found_log;
    int rc = varve_open(store, "x", &options, out, &found_error);
    if (rc == 0 && (rc = varve_protect(*out, "r", found_bytes, sizeof found_bytes)) < 0)
        varve_close(*out);
    return rc;
}

/* A session that makes the checkpoints from first to last; 0, or the first error, told in found_error. */
static inline int found_save(const char *store, const char *settings, int first, int last) {
    struct varve_session *session = NULL;
    int rc = found_open(store, settings, &session);
    if (rc < 0)
        return rc;
    for (int version = first; version <= last && rc == 0; version++) {
        memset(found_bytes, version, sizeof found_bytes);
        rc = varve_checkpoint(session, version);
        rc = rc ? rc : varve_wait(session);
    }
    if (rc < 0)
        found_error = *varve_session_error(session);
    int closed = varve_close(session);
    return rc ? rc : closed;
}

static inline int found_is_there(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0;
}

/* Is there a second user to play? */
static inline int found_skip_unless_root(void) {
    if (geteuid() == 0)
        return 0;
    fprintf(stderr, "skipped: only root can play two users\n");
    return 77;
}

#endif
