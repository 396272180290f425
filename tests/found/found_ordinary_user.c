/* As an ordinary user nothing can be held where vm.unprivileged_userfaultfd is 0: what exceeds staging is frozen, or
 * with capture=held stored inside the call. That is allowed, but was said nowhere. The bytes are right, and the
 * statistics and the log say what happened and why. */
#include <errno.h>
#include <ftw.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <varve/varve.h>

#include "details.h"
#include "test.h"

#define SIZE ((size_t)16 << 20)
#define PAGE ((size_t)4096)
#define NOBODY 65534

static char folder[64];
static int is_said; /* in the log, that memory is not held */

static void listen(void *arg, int level, const char *line) {
    (void)arg, (void)level;
    is_said |= strstr(line, "memory is not held") != NULL;
}

static void fill(uint8_t *data, uint64_t seed) {
    for (size_t i = 0; i < SIZE; i += 8) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        memcpy(data + i, &seed, 8);
    }
}

static struct varve_session *open_session(void *data, const char *settings, const char *limit) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error = {0};
    char store[112];
    snprintf(store, sizeof store, "file://%s/store%s", folder, limit);
    options.settings = settings;
    options.log = listen;
    if (varve_open(store, "user", &options, &session, &error) != 0)
        fail_msg("%s", error.text);
    assert_int_equal(varve_protect(session, "data", data, SIZE), 0);
    return session;
}

/* must_freeze 2: unless this machine lets ordinary users hold. */
static void check(const char *settings, int must_freeze, const char *limit) {
    struct vv_details stats = {0};
    uint8_t *data = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *then = malloc(SIZE), *back = calloc(1, SIZE);
    is_said = 0;
    struct varve_session *session = open_session(data, settings, limit);
    for (int64_t version = 1; version <= 4; version++) {
        if (version < 3)
            fill(data, (uint64_t)version); /* all of it */
        memset(data + (size_t)version * 100 * PAGE, (int)version, 9 * PAGE);
        memcpy(then, data, SIZE);
        assert_int_equal(varve_checkpoint(session, version), 0);
        memset(data + (size_t)version * 200 * PAGE, 0x77, PAGE);
        assert_int_equal(varve_wait(session), 0);
        if (version != 2)
            continue;
        assert_int_equal(vv_details_get(session, &stats), 0);
        print_message("held %zu, frozen %zu, drained %zu, staged %zu: %s; tracker %s\n", (size_t)stats.bytes_held,
                      (size_t)stats.bytes_frozen, (size_t)stats.bytes_drained, (size_t)stats.bytes_staged,
                      stats.capture_reason, stats.tracker_reason);
        if (must_freeze == 1 || (must_freeze == 2 && stats.bytes_held == 0)) {
            assert_int_equal(stats.bytes_held, 0);
            assert_true(stats.bytes_frozen > SIZE / 2 && stats.bytes_drained == 0);
            assert_non_null(strstr(stats.capture_reason, "frozen"));
        } else if (!must_freeze && stats.bytes_held == 0) { /* else this machine lets ordinary users hold */
            assert_true(stats.bytes_drained > SIZE / 2);
            assert_non_null(strstr(stats.capture_reason, "drained"));
            assert_non_null(strstr(stats.capture_reason, "userfaultfd"));
            assert_true(is_said);
        }
    }
    assert_int_equal(varve_close(session), 0);
    session = open_session(back, settings, "");
    assert_int_equal(varve_restart(session, VARVE_LATEST, NULL), 0);
    assert_int_equal(varve_close(session), 0);
    assert_int_equal(memcmp(back, then, SIZE), 0);
    munmap(data, SIZE);
    free(then);
    free(back);
}

static void frozen(void **state) {
    (void)state;
    check("capture=frozen,staging=1M,log=info", 1, "");
}

/* As it comes, on a storage for which it pays. */
static void frozen_by_default(void **state) {
    (void)state;
    check("staging=1M,log=info", 2, "?limit=30MB");
}

static void drained_and_said(void **state) {
    (void)state;
    check("capture=held,staging=1M,log=info", 0, "");
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *at) {
    (void)stat, (void)kind, (void)at;
    return remove(path);
}

/* Nobody in particular, with /proc/self as every ordinary process has it. */
static int become_nobody(void) {
    if (geteuid() != 0)
        return 0; /* already */
    return setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0 &&
                   prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0
               ? 0
               : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(frozen), cmocka_unit_test(frozen_by_default),
                                       cmocka_unit_test(drained_and_said)};
    int status = 1;
    snprintf(folder, sizeof folder, "/tmp/found-user-XXXXXX");
    if (!mkdtemp(folder) || (geteuid() == 0 && chown(folder, NOBODY, NOBODY) != 0)) {
        printf("skipped: no folder for another user: %s\n", strerror(errno));
        return 77;
    }
    pid_t pid = fork();
    if (pid == 0)
        _exit(become_nobody() == 0 ? cmocka_run_group_tests(tests, NULL, NULL) : 77);
    waitpid(pid, &status, 0);
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
