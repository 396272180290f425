/* How many calls of the fsync family a small checkpoint needs until varve_wait says that it survives, and which: at
 * most six. What follows it (heartbeat, tombstones, catalogue) is not waited for: such a call is held here until
 * varve_wait has returned, so that a session that waits for it fails the test. Where file_order.c knows nothing of the
 * file system, the two folders that are new with each checkpoint are synced as well. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <varve/varve.h>

#include "backend/backend.h"
#include "storage/file_private.h"
#include "test.h"

#define SIZE ((size_t)1 << 20)
#define WARM 3
#define CHECKPOINTS 40 /* more than the backend remembers folders */
#define MOST 6
#define MOST_EACH_FOLDER 8
#define HOLD_SECONDS 20

static char folder[64], store[80];

static struct {
    pthread_mutex_t lock;
    pthread_cond_t told;
    int is_counting, is_durable, is_told, is_late;
    unsigned count, after;
    char list[32][256];
} syncs = {.lock = PTHREAD_MUTEX_INITIALIZER, .told = PTHREAD_COND_INITIALIZER};

/* ---- in the place of the library's own ---- */

static void name_of(int fd, char *out, size_t capacity) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, out, capacity - 1);
    out[size < 0 ? 0 : size] = '\0';
}

static int ends_with(const char *text, const char *end) {
    size_t size = strlen(text), end_size = strlen(end);
    return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

/* With the lock. Until main was told that the checkpoint survives. */
static void hold(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += HOLD_SECONDS;
    while (!syncs.is_told && !syncs.is_late)
        syncs.is_late = pthread_cond_timedwait(&syncs.told, &syncs.lock, &until) == ETIMEDOUT;
}

static void before_sync(const char *call, int fd) {
    char name[200];
    name_of(fd, name, sizeof name);
    pthread_mutex_lock(&syncs.lock);
    if (syncs.is_counting && syncs.is_durable) {
        syncs.after++;
        hold();
    } else if (syncs.is_counting && syncs.count < 32) {
        snprintf(syncs.list[syncs.count++], sizeof syncs.list[0], "%s %s", call, name);
    }
    pthread_mutex_unlock(&syncs.lock);
}

/* The last step of a checkpoint is the name of its record. */
static void after_sync(int fd) {
    char name[200];
    name_of(fd, name, sizeof name);
    pthread_mutex_lock(&syncs.lock);
    if (ends_with(name, "/record"))
        syncs.is_durable = 1;
    pthread_mutex_unlock(&syncs.lock);
}

static int counted(const char *call, int fd, long number) {
    before_sync(call, fd);
    int result = (int)syscall(number, fd);
    after_sync(fd);
    return result;
}

int fsync(int fd) {
    return counted("fsync", fd, SYS_fsync);
}

int fdatasync(int fd) {
    return counted("fdatasync", fd, SYS_fdatasync);
}

int syncfs(int fd) {
    return counted("syncfs", fd, SYS_syncfs);
}

int sync_file_range(int fd, off_t offset, off_t size, unsigned flags) {
    before_sync("sync_file_range", fd);
    return (int)syscall(SYS_sync_file_range, fd, offset, size, flags);
}

void sync(void) {
    before_sync("sync", -1);
    syscall(SYS_sync);
}

/* ---- a session ---- */

static void change(uint8_t *data, int64_t version) {
    uint64_t state = (uint64_t)version + 1;
    for (size_t i = 0; i < SIZE; i += 8) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        uint64_t word = state ^ state >> 29;
        memcpy(data + i, &word, 8);
    }
}

static void begin_counting(void) {
    pthread_mutex_lock(&syncs.lock);
    syncs.is_counting = 1;
    syncs.is_durable = syncs.is_told = syncs.is_late = 0;
    syncs.count = syncs.after = 0;
    pthread_mutex_unlock(&syncs.lock);
}

static void end_counting(void) {
    pthread_mutex_lock(&syncs.lock);
    syncs.is_told = 1;
    pthread_cond_broadcast(&syncs.told);
    pthread_mutex_unlock(&syncs.lock);
}

static void print_list(const char *settings) {
    printf("%s: %u until it survives\n", settings, syncs.count);
    for (unsigned i = 0; i < syncs.count; i++)
        printf("  %s\n", syncs.list[i]);
}

static unsigned most_here(void) {
    struct varve_backend *backend;
    struct varve_error error;
    assert_int_equal(vv_backend_open(folder, NULL, &backend, &error), 0);
    unsigned most = vv_file_backend(backend)->is_ordered ? MOST : MOST_EACH_FOLDER;
    vv_backend_close(backend);
    return most;
}

static void save(struct varve_session *session, int64_t version, int is_counted) {
    assert_int_equal(varve_reject(session, -1), -EINVAL); /* such a call waits for the upkeep, and does nothing else */
    if (is_counted)
        begin_counting();
    assert_int_equal(varve_checkpoint(session, version), 0);
    assert_int_equal(varve_wait(session), 0);
    end_counting();
}

static void check_saves(const char *settings) {
    static uint8_t data[SIZE];
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session;
    struct varve_error error;
    unsigned most = most_here();
    options.settings = settings;
    snprintf(store, sizeof store, "%s/store", folder);
    assert_int_equal(varve_open(store, "job", &options, &session, &error), 0);
    assert_int_equal(varve_protect(session, "data", data, SIZE), 0);
    for (int64_t version = 0; version < CHECKPOINTS; version++) {
        change(data, version);
        save(session, version, version >= WARM);
        pthread_mutex_lock(&syncs.lock);
        int is_bad = version >= WARM && (syncs.count != most || syncs.is_late || !syncs.is_durable);
        if (is_bad || version == WARM)
            print_list(settings);
        pthread_mutex_unlock(&syncs.lock);
        assert_false(is_bad);
    }
    assert_int_equal(varve_close(session), 0);
    assert_true(syncs.after > 0); /* the heartbeat, at least: the interposer sees what follows */
    syncs.is_counting = 0;
}

static void remove_all(void) {
    char command[160];
    snprintf(command, sizeof command, "rm -rf '%s'/*", folder);
    assert_int_equal(system(command), 0);
}

static void test_keep_two(void **state) {
    (void)state;
    check_saves("keep=2,codec=none,log=error,beat_seconds=600,dead_seconds=3600");
    remove_all();
}

static void test_keep_all(void **state) {
    (void)state;
    check_saves("keep=all,codec=none,log=error,beat_seconds=600,dead_seconds=3600");
    remove_all();
}

/* ---- the backend, where every folder counts ---- */

static unsigned syncs_of_put(struct varve_backend *backend, const char *key) {
    begin_counting();
    assert_int_equal(vv_backend_put(backend, key, "x", 1), 0);
    syncs.is_counting = 0;
    return syncs.count;
}

static void test_each_folder(void **state) {
    (void)state;
    const struct vv_file_tuning tuning = {.each_folder = 1};
    const struct vv_backend_options options = {.tuning = &tuning, .may_create = 1};
    struct varve_backend *backend;
    struct varve_error error;
    char key[64];
    snprintf(store, sizeof store, "%s/plain", folder);
    assert_int_equal(vv_backend_open(store, &options, &backend, &error), 0);
    assert_int_equal(syncs_of_put(backend, "n/data/1/0/a/pack"), 1 + 6); /* the file, and every folder up to the root */
    assert_int_equal(syncs_of_put(backend, "n/data/1/0/a/writers"), 1 + 1);
    for (int i = 1; i < CHECKPOINTS; i++) {
        snprintf(key, sizeof key, "n/data/1/%d/a/pack", i);
        assert_int_equal(syncs_of_put(backend, key), 1 + 3); /* a, and the two that have a new folder */
    }
    for (int i = 0; i < CHECKPOINTS; i++) { /* all folders go with their last object, and must be made durable again */
        snprintf(key, sizeof key, "n/data/1/%d/a/pack", i);
        assert_int_equal(vv_backend_remove(backend, key), 0);
    }
    assert_int_equal(vv_backend_remove(backend, "n/data/1/0/a/writers"), 0);
    assert_int_equal(syncs_of_put(backend, "n/data/1/0/a/pack"), 1 + 6);
    vv_backend_close(backend);
    remove_all();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_folder),
        cmocka_unit_test(test_keep_two),
        cmocka_unit_test(test_keep_all),
    };
    snprintf(folder, sizeof folder, "syncs-XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
