/* For tests of small stores: a folder of our own, a program with one region, and what lies in a folder, as text to
 * compare. */
#ifndef FOUND_SMALL_H
#define FOUND_SMALL_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <varve/varve.h>
#include <varve/varve_inspect.h>

#include "test.h"

#define SIZE (512u << 10)

static char folder[64];     /* made by make_folder, below /tmp: other users can go there */
static char store_path[80]; /* folder/ck */
static char logged[8192];   /* all lines of all sessions */
static uint8_t region[SIZE];

static inline void shell(const char *command) {
    char line[1000];
    snprintf(line, sizeof line, "D=%s; %s", folder, command);
    if (system(line) != 0)
        fail_msg("%s", line);
}

static inline int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/varve-found-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chmod(folder, 0755), 0);
    snprintf(store_path, sizeof store_path, "%s/ck", folder);
    logged[0] = '\0';
    return 0;
}

static inline int remove_folder(void **state) {
    (void)state;
    shell("while umount -l $D/ck 2>/dev/null || umount -l $D 2>/dev/null; do :; done; rm -rf $D");
    return 0;
}

/* Mounts that nobody else sees; 0 if that is not allowed here. */
static inline int can_mount(void) {
    static int is_private;
    if (!is_private)
        is_private =
            geteuid() == 0 && unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    if (!is_private)
        print_message("skipped: only root can mount here\n");
    return is_private;
}

static inline void take_line(void *arg, int level, const char *line) {
    size_t used = strlen(logged);
    (void)arg, (void)level;
    snprintf(logged + used, sizeof logged - used, "%s\n", line);
}

static inline void fill_region(int64_t version) {
    uint64_t x = (uint64_t)version + 77;
    for (size_t i = 0; i < SIZE; i += 8) {
        x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
        memcpy(region + i, &x, 8);
    }
}

static inline void check_region(int64_t version) {
    static uint8_t got[SIZE];
    memcpy(got, region, SIZE);
    fill_region(version);
    assert_memory_equal(got, region, SIZE);
}

static inline int try_open(const char *name, const char *settings, struct varve_session **out,
                           struct varve_error *error) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    char all[256];
    snprintf(all, sizeof all, "keep=0,codec=none,takeover_seconds=0,min_free=0%s%s", *settings ? "," : "", settings);
    options.settings = all;
    options.log = take_line;
    return varve_open(store_path, name, &options, out, error);
}

static inline struct varve_session *open_name(const char *name, const char *settings) {
    struct varve_session *session = NULL;
    struct varve_error error;
    int rc = try_open(name, settings, &session, &error);
    if (rc)
        fail_msg("open: %d %s", rc, error.text);
    assert_int_equal(varve_protect(session, "data", region, SIZE), 0);
    return session;
}

static inline void expect(struct varve_session *session, int rc, int wanted) {
    if (rc != wanted)
        fail_msg("%d instead of %d: %s", rc, wanted, varve_session_error(session)->text);
}

static inline int save(struct varve_session *session, int64_t version) {
    fill_region(version);
    int rc = varve_checkpoint(session, version);
    return rc ? rc : varve_wait(session);
}

static inline void restart(struct varve_session *session, int64_t version) {
    int64_t got = -1;
    memset(region, 0, SIZE);
    expect(session, varve_restart(session, VARVE_LATEST, &got), 0);
    assert_int_equal(got, version);
    check_region(version);
}

/* Versions 1 to last of a name, in a session of its own. */
static inline void make_versions(const char *name, const char *settings, int64_t last) {
    struct varve_session *session = open_name(name, settings);
    for (int64_t version = 1; version <= last; version++)
        expect(session, save(session, version), 0);
    assert_int_equal(varve_close(session), 0);
}

/* Everything below the folder: names, sizes, modes, times of change. To be freed. */
static inline char *snapshot(void) {
    char command[200], *text = calloc(1, 1 << 20);
    snprintf(command, sizeof command, "find %s -printf '%%p %%s %%m %%T@ %%C@\\n' | sort", folder);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_true(fread(text, 1, (1 << 20) - 1, pipe) > 0);
    pclose(pipe);
    return text;
}

static inline void expect_unchanged(char *before) {
    char *after = snapshot();
    assert_string_equal(before, after);
    free(before);
    free(after);
}

#endif
