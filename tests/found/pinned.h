/* A program with a buffer that is registered with io_uring: the kernel fills it without touching the page table. */
#ifndef FOUND_PINNED_H
#define FOUND_PINNED_H

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>
#include <varve/varve.h>

#include "capture/uring.h"
#include "test.h"

struct pinned {
    char folder[64], store[80];
    struct uring uring;
    uint8_t *data; /* `registered` bytes of it are registered */
    size_t size, registered;
    int file;
};

static inline int pinned_remove(const char *path, const struct stat *stat, int kind, struct FTW *at) {
    (void)stat, (void)kind, (void)at;
    return remove(path);
}

static inline void pinned_fill(uint8_t *data, size_t size, uint64_t seed) {
    for (size_t i = 0; i + 8 <= size; i += 8) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        memcpy(data + i, &seed, 8);
    }
}

/* Exits with 77 where io_uring cannot be used. */
static inline void pinned_register(struct pinned *pinned, size_t size) {
    pinned->registered = size;
    if (uring_open(&pinned->uring) == 0 && uring_register(&pinned->uring, pinned->data, size) == 0)
        return;
    printf("skipped: no io_uring with registered buffers here: %s\n", strerror(errno));
    nftw(pinned->folder, pinned_remove, 16, FTW_DEPTH | FTW_PHYS);
    exit(77);
}

/* How often sessions of pinned_session have said what pinned memory costs, since pinned_open. */
static int pinned_told;

/* registered 0: nothing yet. */
static inline void pinned_open(struct pinned *pinned, size_t size, size_t registered) {
    memset(pinned, 0, sizeof *pinned);
    pinned_told = 0;
    snprintf(pinned->folder, sizeof pinned->folder, "/dev/shm/found-pinned-XXXXXX");
    if (!mkdtemp(pinned->folder)) {
        snprintf(pinned->folder, sizeof pinned->folder, "/tmp/found-pinned-XXXXXX");
        assert_non_null(mkdtemp(pinned->folder));
    }
    snprintf(pinned->store, sizeof pinned->store, "%s/store", pinned->folder);
    pinned->size = size;
    pinned->data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(pinned->data, MAP_FAILED);
    madvise(pinned->data, size, MADV_NOHUGEPAGE);
    pinned_fill(pinned->data, size, 1);
    if (registered)
        pinned_register(pinned, registered);
    FILE *file = tmpfile();
    assert_non_null(file);
    pinned->file = dup(fileno(file));
    fclose(file);
}

/* The kernel fills the registered part with other bytes. */
static inline void pinned_receive(struct pinned *pinned, uint64_t seed) {
    uint8_t *bytes = malloc(pinned->registered);
    assert_non_null(bytes);
    pinned_fill(bytes, pinned->registered, seed);
    assert_int_equal(pwrite(pinned->file, bytes, pinned->registered, 0), pinned->registered);
    assert_int_equal(uring_read(&pinned->uring, pinned->file, pinned->data, pinned->registered, 0, 0),
                     pinned->registered);
    assert_memory_equal(bytes, pinned->data, pinned->registered);
    free(bytes);
}

static inline void pinned_line(void *arg, int level, const char *line) {
    (void)arg, (void)level;
    fprintf(stderr, "%s\n", line);
    pinned_told += strstr(line, "pinned for devices (VmPin), and devices write where no tracker sees it") != NULL;
}

static inline struct varve_session *pinned_session(const struct pinned *pinned, const char *settings) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error = {0};
    options.settings = settings;
    options.log = pinned_line;
    if (varve_open(pinned->store, "pinned", &options, &session, &error) != 0)
        fail_msg("%s", error.text);
    return session;
}

static inline int pinned_save(struct varve_session *session, int64_t version) {
    int rc = varve_checkpoint(session, version);
    return rc ? rc : varve_wait(session);
}

/* The store's newest checkpoint has what the memory holds now. */
static inline void pinned_check(const struct pinned *pinned, int64_t version) {
    uint8_t *back = calloc(1, pinned->size);
    struct varve_session *session = pinned_session(pinned, NULL);
    int64_t got = -1;
    assert_non_null(back);
    assert_int_equal(varve_protect(session, "data", back, pinned->size), 0);
    assert_int_equal(varve_restart(session, VARVE_LATEST, &got), 0);
    assert_int_equal(got, version);
    assert_int_equal(varve_close(session), 0);
    assert_int_equal(memcmp(back, pinned->data, pinned->size), 0);
    free(back);
}

static inline void pinned_close(struct pinned *pinned) {
    if (pinned->registered)
        uring_close(&pinned->uring);
    close(pinned->file);
    munmap(pinned->data, pinned->size);
    nftw(pinned->folder, pinned_remove, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
