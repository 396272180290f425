/* Memory that the program fills in by a userfaultfd of its own, when it is first read (UMap does so): what was not
 * there yet was stored as zeros. It is read instead, which asks the program for it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <varve/varve.h>

#include "test.h"

#define PAGE ((size_t)4096)
#define PAGES 1024u

static int fault_fd;
static uint8_t *lazy;

static void pattern(uint8_t *to, size_t page) {
    for (size_t i = 0; i < PAGE; i++)
        to[i] = (uint8_t)(page * 7 + i + 1);
}

static void *fill_in(void *arg) {
    static _Alignas(PAGE) uint8_t page[PAGE];
    struct uffd_msg message;
    while (read(fault_fd, &message, sizeof message) == sizeof message) {
        uintptr_t at = (uintptr_t)message.arg.pagefault.address & ~(uintptr_t)(PAGE - 1);
        pattern(page, (at - (uintptr_t)lazy) / PAGE);
        struct uffdio_copy copy = {.dst = at, .src = (uintptr_t)page, .len = PAGE};
        ioctl(fault_fd, UFFDIO_COPY, &copy);
    }
    return arg;
}

static int open_userfault(void) {
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */);
    struct uffdio_api api = {.api = UFFD_API};
    return fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 ? fd : -1;
}

static struct varve_session *open_session(void *data, const char *settings) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    options.settings = settings;
    assert_int_equal(varve_open("mem://missing", "missing", &options, &session, NULL), 0);
    assert_int_equal(varve_protect(session, "lazy", data, PAGES * PAGE), 0);
    return session;
}

static void begin(pthread_t *thread) {
    lazy = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fault_fd = open_userfault();
    struct uffdio_register range = {.range = {(uintptr_t)lazy, PAGES * PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    assert_int_equal(ioctl(fault_fd, UFFDIO_REGISTER, &range), 0);
    assert_int_equal(pthread_create(thread, NULL, fill_in, NULL), 0);
    volatile uint8_t sink = 0;
    for (size_t i = 0; i < PAGES / 2; i++)
        sink += lazy[i * PAGE];
    (void)sink;
}

static void end(pthread_t thread) {
    munmap(lazy, PAGES * PAGE);
    pthread_cancel(thread); /* it waits in read */
    pthread_join(thread, NULL);
    close(fault_fd);
}

static void save(const char *settings, int64_t version) {
    pthread_t thread;
    uint8_t expected[PAGE];
    begin(&thread);
    struct varve_session *session = open_session(lazy, settings);
    assert_int_equal(varve_checkpoint(session, version), 0);
    assert_int_equal(varve_wait(session), 0);
    assert_int_equal(varve_close(session), 0);
    end(thread);
    uint8_t *back = calloc(PAGES, PAGE);
    session = open_session(back, NULL);
    int64_t got = -1;
    assert_int_equal(varve_restart(session, VARVE_LATEST, &got), 0);
    assert_int_equal(got, version);
    assert_int_equal(varve_close(session), 0);
    size_t wrong = 0;
    for (size_t i = 0; i < PAGES; i++) {
        pattern(expected, i);
        wrong += memcmp(expected, back + i * PAGE, PAGE) != 0;
    }
    free(back);
    assert_int_equal(wrong, 0);
}

static void what_is_not_there_yet_is_asked_for(void **state) {
    (void)state;
    save(NULL, 1);
    save("tracker=none,capture=sync", 2);
}

/* Zeros are written into it, too: otherwise it would be filled in later. */
static void zeros_come_back(void **state) {
    pthread_t thread;
    uint8_t *zeros = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)state;
    struct varve_session *session = open_session(zeros, NULL);
    assert_int_equal(varve_checkpoint(session, 10), 0);
    assert_int_equal(varve_wait(session), 0);
    assert_int_equal(varve_close(session), 0);
    begin(&thread);
    session = open_session(lazy, NULL);
    assert_int_equal(varve_restart(session, 10, NULL), 0);
    assert_int_equal(varve_close(session), 0);
    assert_int_equal(memcmp(lazy, zeros, PAGES * PAGE), 0);
    end(thread);
    munmap(zeros, PAGES * PAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_not_there_yet_is_asked_for),
                                       cmocka_unit_test(zeros_come_back)};
    int fd = open_userfault();
    if (fd < 0) {
        printf("skipped: no userfaultfd here: %s\n", strerror(errno));
        return 77;
    }
    close(fd);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
