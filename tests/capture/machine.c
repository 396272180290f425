/* What the kernel lets this process do, tried here without the library's help: a test may skip only what really
 * cannot be done. */
#include <fcntl.h>
#include <grp.h>
#include <linux/ioctl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kit.h"

#define NOBODY 65534

/* Debian 12's headers are older than what is tried here. */
struct api {
    uint64_t api, features, ioctls;
};
struct area {
    uint64_t start, length;
};
struct registration {
    struct area range;
    uint64_t mode, ioctls;
};
struct protection {
    struct area range;
    uint64_t mode;
};
struct scan {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, category_inverted, category_mask,
        category_anyof_mask, return_mask;
};
struct scanned {
    uint64_t start, end, categories;
};
#define API_CALL _IOWR(0xAA, 0x3F, struct api)
#define REGISTER_CALL _IOWR(0xAA, 0x00, struct registration)
#define PROTECT_CALL _IOWR(0xAA, 0x06, struct protection)
#define SCAN_CALL _IOWR('f', 16, struct scan)
#define USER_MODE_ONLY 1
#define API_VERSION 0xAA
#define FEATURE_WP 1u
#define FEATURE_WP_ASYNC (1u << 15)
#define REGISTER_MODE_WP 2
#define PAGE_WAS_WRITTEN 2

/* A userfaultfd over the page that protects it against writes, or -1. */
static int watch_page(void *page, int flags, uint64_t features) {
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | flags);
    struct api api = {.api = API_VERSION, .features = features};
    struct area range = {(uint64_t)(uintptr_t)page, PAGE};
    struct registration registration = {.range = range, .mode = REGISTER_MODE_WP};
    struct protection protection = {.range = range, .mode = 1};
    if (fd < 0)
        return -1;
    if (ioctl(fd, API_CALL, &api) == 0 && ioctl(fd, REGISTER_CALL, &registration) == 0 &&
        ioctl(fd, PROTECT_CALL, &protection) == 0)
        return fd;
    close(fd);
    return -1;
}

static uint8_t *map_page(void) {
    uint8_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        fail("no page to try things on");
    *page = 1;
    return page;
}

int has_kernel_uffd(void) {
    uint8_t *page = map_page();
    int fd = watch_page(page, 0, FEATURE_WP);
    if (fd >= 0)
        close(fd);
    munmap(page, PAGE);
    return fd >= 0;
}

static int is_seen_written(const uint8_t *page) {
    struct scanned found = {0};
    struct scan scan = {.size = sizeof scan,
                        .start = (uint64_t)(uintptr_t)page,
                        .end = (uint64_t)(uintptr_t)page + PAGE,
                        .vec = (uint64_t)(uintptr_t)&found,
                        .vec_len = 1,
                        .category_mask = PAGE_WAS_WRITTEN,
                        .return_mask = PAGE_WAS_WRITTEN};
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    int count = fd < 0 ? -1 : ioctl(fd, SCAN_CALL, &scan);
    if (fd >= 0)
        close(fd);
    return count;
}

static int is_soft_dirty(const uint8_t *page) {
    uint64_t entry = 0;
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    off_t at = (off_t)((uintptr_t)page / PAGE * sizeof entry);
    int has_it = fd >= 0 && pread(fd, &entry, sizeof entry, at) == (ssize_t)sizeof entry;
    if (fd >= 0)
        close(fd);
    return has_it && entry >> 55 & 1;
}

int has_softdirty(void) {
    uint8_t *page = map_page();
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    int is_set = is_soft_dirty(page), is_clear = fd >= 0 && write(fd, "4", 1) == 1 && !is_soft_dirty(page);
    *page = 2;
    int is_noted = is_soft_dirty(page);
    if (fd >= 0)
        close(fd);
    munmap(page, PAGE);
    return is_set && is_clear && is_noted;
}

int has_scan(void) {
    uint8_t *page = map_page();
    int fd = watch_page(page, USER_MODE_ONLY, FEATURE_WP | FEATURE_WP_ASYNC);
    int before = fd < 0 ? -1 : is_seen_written(page);
    *page = 2;
    int after = fd < 0 ? -1 : is_seen_written(page);
    if (fd >= 0)
        close(fd);
    munmap(page, PAGE);
    return before == 0 && after == 1;
}

void become_nobody(void) {
    if (getuid() != 0)
        return;
    if (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0 ||
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0)
        skip("this process cannot become a user without privileges");
    setenv("HOME", "/", 1); /* the other user's settings are not ours to read */
}
