/* Copying memory that may be gone, and telling what kind it is; also where the kernel refuses the quick way. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "capture/capture.h"
#include "memory/pagemap.h"
#include "memory/pages.h"
#include "memory/peek.h"
#include "refuse.h"
#include "test.h"

#define PAGE 4096u
#define MB (1u << 20)
#define PROCMAP_QUERY _IOWR('f', 17, char[104])

static uint8_t zeros[4 * MB]; /* .bss */
static uint8_t filled[MB] = {1};

static uint8_t *map(size_t size) {
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* ---- vv_peek ---- */

static void check_peek(void) {
    static uint8_t to[3 * MB];
    uint8_t *p = map(4 * MB);
    CHECK(p != MAP_FAILED);
    for (size_t i = 0; i < 4 * MB; i++)
        p[i] = (uint8_t)(i * 2654435761u >> 13);
    CHECK(vv_peek_works());
    CHECK(vv_peek(to, p + 5, 2 * MB) == 0);
    CHECK(memcmp(to, p + 5, 2 * MB) == 0);
    CHECK(vv_peek(to, p, 0) == 0);
    /* A hole in the middle, at the beginning, at the end; and what can be mapped but not read. */
    CHECK(munmap(p + MB, PAGE) == 0);
    CHECK(vv_peek(to, p, 2 * MB) == -EFAULT);
    CHECK(vv_peek(to, p + MB, 2 * PAGE) == -EFAULT);
    CHECK(vv_peek(to, p + MB - 1, 2) == -EFAULT);
    CHECK(vv_peek(to, p + MB - 1, 1) == 0 && to[0] == p[MB - 1]);
    CHECK(vv_peek(to, p + MB + PAGE, 2 * MB) == 0);
    CHECK(vv_peek(to, NULL, 1) == -EFAULT);
    CHECK(vv_peek(to, (void *)UINTPTR_MAX, 8) == -EFAULT);
    munmap(p, 4 * MB);
}

static uint8_t *shared_name; /* the same address, other bytes in parent and child */

static void check_child_reads_its_own(void) {
    uint8_t seen = 0;
    *shared_name = 'c';
    CHECK(vv_peek(&seen, shared_name, 1) == 0 && seen == 'c');
}

static void check_peek_and_fork(void) {
    uint8_t seen = 0;
    shared_name = map(PAGE);
    *shared_name = 'p';
    CHECK(vv_peek(&seen, shared_name, 1) == 0 && seen == 'p');
    CHECK(in_child(check_child_reads_its_own));
    CHECK(vv_peek(&seen, shared_name, 1) == 0 && seen == 'p');
    munmap(shared_name, PAGE);
}

static void check_both(void) {
    check_peek();
    check_peek_and_fork();
}

static void check_without_the_call(void) {
    refuse(SYS_process_vm_readv, 0, EPERM);
    check_both();
}

static void check_nothing_works(void) {
    uint8_t from = 1, to = 0;
    refuse(SYS_process_vm_readv, 0, ENOSYS);
    refuse(SYS_openat, 0, EACCES);
    CHECK(!vv_peek_works());
    CHECK(vv_peek(&to, &from, 1) == -EFAULT && to == 0);
}

/* Each in a process of its own, as the way is found once. */
static void memory_is_read_or_refused(void **unused) {
    (void)unused;
    assert_true(in_child(check_both));
}

static void also_by_the_file(void **unused) {
    (void)unused;
    assert_true(in_child(check_without_the_call));
}

static void nothing_works(void **unused) {
    (void)unused;
    assert_true(in_child(check_nothing_works));
}

/* ---- vv_memory_is_plain ---- */

static void check_anonymous(void) {
    uint8_t *p = map(4 * MB), *heap = malloc(64 << 10);
    CHECK(vv_memory_is_plain(p, 4 * MB));
    CHECK(vv_memory_is_plain(p + 17, 4 * MB - 17));
    CHECK(vv_memory_is_plain(heap, 64 << 10));
    CHECK(vv_memory_is_plain(zeros + PAGE, sizeof zeros - 2 * PAGE));
    CHECK(!vv_memory_is_plain(filled, sizeof filled));
    CHECK(mprotect(p + MB, PAGE, PROT_READ) == 0);
    CHECK(!vv_memory_is_plain(p, 4 * MB));
    CHECK(mprotect(p + MB, PAGE, PROT_READ | PROT_WRITE) == 0);
    CHECK(madvise(p + 2 * MB, MB, MADV_DONTDUMP) == 0); /* several mappings */
    CHECK(vv_memory_is_plain(p, 4 * MB));
    CHECK(munmap(p + 3 * MB, PAGE) == 0);
    CHECK(!vv_memory_is_plain(p, 4 * MB));
    CHECK(vv_memory_is_plain(p, 3 * MB));
    CHECK(!vv_memory_is_plain(p + 3 * MB, PAGE));
    CHECK(!vv_memory_is_plain((void *)(UINTPTR_MAX - 8), 64));
    munmap(p, 4 * MB);
    free(heap);
}

static void check_of_file(int fd, int flags, size_t size) {
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (p == MAP_FAILED && (flags & MAP_HUGETLB))
        return; /* none set aside here */
    CHECK(p != MAP_FAILED);
    CHECK(!vv_memory_is_plain(p, size));
    munmap(p, size);
}

static void check_kinds(void) {
    int memfd = memfd_create("test", 0);
    FILE *file = tmpfile();
    CHECK(memfd >= 0 && file && ftruncate(memfd, MB) == 0 && ftruncate(fileno(file), MB) == 0);
    check_anonymous();
    check_of_file(memfd, MAP_PRIVATE, MB);
    check_of_file(memfd, MAP_SHARED, MB);
    check_of_file(fileno(file), MAP_PRIVATE, MB);
    check_of_file(fileno(file), MAP_SHARED, MB);
    check_of_file(-1, MAP_SHARED | MAP_ANONYMOUS, MB);
    check_of_file(-1, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, 2 * MB);
    fclose(file);
    close(memfd);
}

static int sum_touched(void *arg, uint64_t offset, uint64_t length, int is_untouched) {
    (void)offset;
    *(uint64_t *)arg += is_untouched ? 0 : length;
    return 0;
}

static void check_without_query(void) {
    refuse(SYS_ioctl, (unsigned)PROCMAP_QUERY, ENOTTY);
    check_kinds();
    uint8_t *p = map(4 * MB);
    uint64_t touched = 0;
    madvise(p, 4 * MB, MADV_NOHUGEPAGE);
    p[MB] = 1;
    CHECK(vv_pages_walk(p, 4 * MB, sum_touched, &touched) == 0 && touched == PAGE);
}

static void plain_memory_is_known(void **unused) {
    (void)unused;
    assert_true(in_child(check_kinds));
}

static void also_from_the_text(void **unused) {
    (void)unused;
    assert_true(in_child(check_without_query));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_read_or_refused),
        cmocka_unit_test(also_by_the_file),
        cmocka_unit_test(nothing_works),
        cmocka_unit_test(plain_memory_is_known),
        cmocka_unit_test(also_from_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
