/* What the tests of size share: a folder that goes away, seconds, peak memory, and how much of it to do. */
#ifndef SIZE_H
#define SIZE_H

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <varve/varve.h>

#include "test.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

#define PAGE 4096u

static inline unsigned scale(void) {
    const char *text = getenv("TEST_SCALE");
    unsigned percent = text ? (unsigned)strtoul(text, NULL, 10) : 100;
    return percent ? percent : 1;
}

/* Seconds mean something only in a build as it is used. */
static inline int may_time(void) {
    return !IS_SANITIZED && scale() >= 100;
}

static inline double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline double peak_mib(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)use.ru_maxrss / 1024;
}

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static inline void folder_remove(const char *path) {
    nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS);
}

/* A new folder below the current one, or TEST_FOLDER; out has 256 bytes. */
static inline void folder_make(char *out) {
    const char *root = getenv("TEST_FOLDER");
    snprintf(out, 256, "%s/size-XXXXXX", root ? root : ".");
    assert_non_null(mkdtemp(out));
}

static inline void need_session(const struct varve_session *session, int rc) {
    if (rc != 0)
        fail_msg("%s", varve_session_error(session)->text);
}

static inline struct varve_session *open_session(const char *store, const char *name) {
    struct varve_session *session = NULL;
    struct varve_error error;
    struct varve_options options = {.size = sizeof options, .settings = "keep=all"};
    if (varve_open(store, name, &options, &session, &error) != 0)
        fail_msg("%s", error.text);
    return session;
}

static inline uint64_t mix(uint64_t x) {
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

#endif
