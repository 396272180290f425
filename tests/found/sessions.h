/* For tests of what sessions leave in a store: a folder of its own, sessions with one region, and what restart gives.
 */
#ifndef VARVE_TEST_FOUND_SESSIONS_H
#define VARVE_TEST_FOUND_SESSIONS_H

#include "test.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <varve/varve.h>

#define REGION_BYTES (256 * 1024)

static char folder[256], store_path[300];
static uint8_t region[REGION_BYTES];

static inline int make_folder(void **state) {
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/varve-found-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(folder));
    snprintf(store_path, sizeof store_path, "%s/ck", folder);
    return 0;
}

static inline int remove_folder(void **state) {
    char command[320];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* What the region holds at a version: nothing of it repeats. */
static inline void fill(int64_t version) {
    uint64_t x = (uint64_t)version * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < sizeof region; i += 8) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        memcpy(region + i, &x, 8);
    }
}

static inline int is_filled(int64_t version) {
    static uint8_t seen[REGION_BYTES];
    memcpy(seen, region, sizeof seen);
    fill(version);
    int is_same = memcmp(seen, region, sizeof seen) == 0;
    memcpy(region, seen, sizeof seen);
    return is_same;
}

static inline struct varve_session *open_session(const char *settings) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error = {0};
    options.settings = settings;
    if (varve_open(store_path, "job", &options, &session, &error) != 0)
        fail_msg("open: %s", error.text);
    assert_int_equal(varve_protect(session, "r", region, sizeof region), 0);
    return session;
}

static inline void save(struct varve_session *session, int64_t version) {
    fill(version);
    if (varve_checkpoint(session, version) != 0 || varve_wait(session) != 0)
        fail_msg("checkpoint %" PRId64 ": %s", version, varve_session_error(session)->text);
}

/* The version that a restart from the latest takes; its bytes are right. */
static inline int64_t restart(struct varve_session *session) {
    int64_t version = -1;
    int rc = varve_restart(session, VARVE_LATEST, &version);
    if (rc != 0)
        fail_msg("restart: %d %s", rc, varve_session_error(session)->text);
    assert_true(is_filled(version));
    return version;
}

/* What lies at a path below the name in the store. */
static inline void path_of(const char *key, char out[512]) {
    snprintf(out, 512, "%s/n/job/%s", store_path, key);
}

static inline void record_of(uint32_t generation, uint64_t version, char out[512]) {
    char key[64];
    snprintf(key, sizeof key, "record/%08x%016" PRIx64, ~generation, ~version);
    path_of(key, out);
}

static inline void pack_of(uint32_t generation, uint64_t version, char out[512]) {
    char key[96];
    snprintf(key, sizeof key, "data/%08x/%016" PRIx64 "/00000000/00000000", generation, version);
    path_of(key, out);
}

static inline int is_there(const char *path) {
    return access(path, F_OK) == 0;
}

static inline void flip_byte(const char *path, long offset) {
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    int byte = fgetc(file);
    assert_true(byte != EOF);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    assert_int_equal(fputc(byte ^ 0x40, file), byte ^ 0x40);
    assert_int_equal(fclose(file), 0);
}

#endif
