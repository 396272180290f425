/* Kernels before Linux 6.7 have no PAGEMAP_SCAN. There a page that was given back (MADV_DONTNEED) and written anew
 * between two checkpoints was not noticed by trackers that trap, and a restart gave its old bytes. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <varve/varve.h>

#include "test.h"

#define SIZE ((size_t)8 << 20)
#define PAGE ((size_t)4096)

/* An older kernel: neither PAGEMAP_SCAN (16) nor PROCMAP_QUERY (17). The library is linked into this program, and finds
 * this one. */
int ioctl(int fd, unsigned long request, ...) {
    va_list args;
    va_start(args, request);
    void *arg = va_arg(args, void *);
    va_end(args);
    if (_IOC_TYPE(request) == 'f' && (_IOC_NR(request) == 16 || _IOC_NR(request) == 17)) {
        errno = ENOTTY;
        return -1;
    }
    return (int)syscall(SYS_ioctl, fd, request, arg);
}

static void fill(uint8_t *data, size_t size, uint64_t seed) {
    for (size_t i = 0; i < size; i += 8) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        memcpy(data + i, &seed, 8);
    }
}

static int traps_tried; /* ways to trap that work here: the others never had the fault */

static struct varve_session *open_session(const char *settings, uint8_t *data, struct varve_error *error) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    options.settings = settings;
    if (varve_open("mem://dropped", "dropped", &options, &session, error) != 0)
        return NULL;
    assert_int_equal(varve_protect_flags(session, "data", data, SIZE, VARVE_NO_KERNEL_WRITES), 0);
    return session;
}

static void drop(uint8_t *data, int version) {
    uint8_t *at = data + SIZE - 100 * PAGE;
    volatile uint8_t sink = 0;
    assert_int_equal(madvise(at, 4 * PAGE, MADV_DONTNEED), 0);
    memset(at, 0xA0 + version, PAGE);
    sink = at[PAGE]; /* read only: the page of zeros */
    at[2 * PAGE] = (uint8_t)version;
    (void)sink; /* the fourth is left alone */
    if (version % 2)
        fill(data, 8 * PAGE, (uint64_t)version);
}

static void compare(const char *settings, const uint8_t *data, int64_t version) {
    struct varve_error error = {0};
    uint8_t *back = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct varve_session *session = open_session(settings, back, &error);
    int64_t got = -1;
    assert_non_null(session);
    assert_int_equal(varve_restart(session, VARVE_LATEST, &got), 0);
    assert_int_equal(got, version);
    assert_int_equal(varve_close(session), 0);
    for (size_t at = 0; at < SIZE; at += PAGE)
        if (memcmp(back + at, data + at, PAGE) != 0)
            fail_msg("%s: page %zu is not what it was: %02x for %02x", settings, at / PAGE, back[at], data[at]);
    munmap(back, SIZE);
}

static void run(const char *settings) {
    static int64_t version;
    struct varve_error error = {0};
    uint8_t *data = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(data, MAP_FAILED);
    madvise(data, SIZE, MADV_NOHUGEPAGE);
    fill(data, SIZE, 7);
    struct varve_session *session = open_session(settings, data, &error);
    if (!session) {
        printf("not tried: %s: %s\n", settings, error.text);
        assert_int_equal(error.code, -ENOTSUP);
        munmap(data, SIZE);
        return;
    }
    traps_tried += strstr(settings, "trap") != NULL;
    for (int round = 0; round < 6; round++) {
        assert_int_equal(varve_checkpoint(session, ++version), 0);
        assert_int_equal(varve_wait(session), 0);
        if (round < 5)
            drop(data, round);
    }
    assert_int_equal(varve_close(session), 0);
    compare(settings, data, version);
    munmap(data, SIZE);
}

static void all(void **state) {
    static const char *const settings[] = {"tracker=trap-uffd",
                                           "tracker=trap-mprotect",
                                           "capture=trap,staging=512K",
                                           "capture=trap,tracker=trap-mprotect,staging=512K",
                                           "staging=512K",
                                           "tracker=none"};
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        run(settings[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (failed == 0 && traps_tried == 0)
        printf("skipped: no writes can be trapped here\n");
    return failed ? failed : traps_tried ? 0 : 77;
}
