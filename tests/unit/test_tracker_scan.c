/* The tracker that lets the kernel note writes. What it reports keeps a copy of the region up to date: whatever it
 * misses makes the copy differ. Where only exact answers are right, pages are counted, too. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <varve/varve.h>

#include "memory/pagemap.h"
#include "memory/tracker.h"
#include "refuse.h"
#include "test.h"

#define PAGE 4096u
#define MB ((size_t)1 << 20)
#define PAGEMAP_SCAN _IOWR('f', 16, char[96])

static struct vv_tracker *tracker;

struct area {
    struct vv_watch watch;
    uint8_t *copy;           /* what the reports made of it; NULL: not wanted */
    uint8_t *marks;          /* per page of the region, counted from its start: 1 changed, 2 untouched, 3 both */
    uint64_t changed, zeros; /* bytes */
    uint64_t ranges;
    uint64_t end; /* of the last range */
};

static uint8_t *map(size_t size) {
    uint8_t *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    assert_int_equal(madvise(p, size, MADV_NOHUGEPAGE), 0);
    return p;
}

static void begin(struct area *area, uint8_t *ptr, size_t size) {
    *area = (struct area){.watch = {.ptr = ptr, .size = size, .tracker = tracker}};
    area->copy = calloc(1, size);
    area->marks = calloc(1, size / PAGE + 2);
    assert_true(area->copy && area->marks);
    assert_int_equal(tracker->ops->attach(tracker, &area->watch), 0);
}

static void end(struct area *area) {
    tracker->ops->detach(tracker, &area->watch);
    free(area->copy);
    free(area->marks);
}

/* Only what is reported is looked at: reading a page would change its state. */
static int apply(void *arg, uint64_t offset, uint64_t length, int is_untouched) {
    struct area *area = arg;
    assert_true(length > 0 && offset >= area->end && offset + length <= area->watch.size);
    area->end = offset + length;
    area->ranges++;
    *(is_untouched ? &area->zeros : &area->changed) += length;
    for (uint64_t page = offset / PAGE; page <= (offset + length - 1) / PAGE; page++)
        area->marks[page] |= is_untouched ? 2 : 1;
    if (area->copy && is_untouched)
        memset(area->copy + offset, 0, length);
    else if (area->copy)
        memcpy(area->copy + offset, area->watch.ptr + offset, length);
    return 0;
}

static void forget(struct area *area) {
    area->changed = area->zeros = area->ranges = area->end = 0;
    memset(area->marks, 0, area->watch.size / PAGE + 2);
}

static void collect(struct area *area) {
    forget(area);
    assert_int_equal(tracker->ops->collect(tracker, &area->watch, apply, area), 0);
}

static void expect_same(const struct area *area) {
    assert_memory_equal(area->copy, area->watch.ptr, area->watch.size);
}

static void expect(struct area *area, uint64_t changed_pages, uint64_t zero_pages) {
    collect(area);
    assert_int_equal(area->changed, changed_pages * PAGE);
    assert_int_equal(area->zeros, zero_pages * PAGE);
}

static uint64_t random_below(uint64_t limit) {
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) % limit;
}

/* ---- plain memory ---- */

static void first_everything_then_nothing(void **unused) {
    (void)unused;
    struct area area;
    uint8_t *p = map(4 * MB);
    memset(p, 7, MB);
    memset(p + 3 * MB, 8, PAGE);
    begin(&area, p, 4 * MB);
    expect(&area, MB / PAGE + 1, 3 * MB / PAGE - 1);
    expect(&area, 0, 3 * MB / PAGE - 1);
    p[5] = 1;
    p[2 * MB] = 2; /* becomes present after arming */
    expect(&area, 2, 3 * MB / PAGE - 2);
    expect(&area, 0, 3 * MB / PAGE - 2);
    expect_same(&area);
    end(&area);
    /* A new attachment knows nothing of the old one's state. */
    begin(&area, p, MB);
    expect(&area, MB / PAGE, 0);
    end(&area);
    munmap(p, 4 * MB);
}

enum { ABSENT, ZERO, CLEAN, DIRTY, FRESH_ZERO }; /* of a page in the model */

static void change_something(uint8_t *p, uint8_t *model, size_t pages) {
    size_t page = random_below(pages), count = 1 + random_below(4);
    volatile uint8_t *bytes = p;
    switch (random_below(8)) {
    case 0:
        if (page + count > pages)
            count = pages - page;
        assert_int_equal(madvise(p + page * PAGE, count * PAGE, MADV_DONTNEED), 0);
        memset(model + page, ABSENT, count);
        break;
    case 1:
        (void)bytes[page * PAGE];
        if (model[page] == ABSENT)
            model[page] = FRESH_ZERO;
        break;
    default:
        bytes[page * PAGE + random_below(PAGE)] = (uint8_t)random_below(256);
        model[page] = DIRTY;
    }
}

static void random_writes_match_a_model(void **unused) {
    (void)unused;
    enum { PAGES = 1024 };
    static uint8_t model[PAGES];
    struct area area;
    uint8_t *p = map(PAGES * PAGE);
    memset(p, 1, PAGES * PAGE / 2);
    memset(model, DIRTY, PAGES / 2);
    begin(&area, p, PAGES * PAGE);
    for (int round = 0; round < 400; round++) {
        collect(&area);
        for (size_t i = 0; i < PAGES; i++) {
            static const uint8_t marks[] = {[ABSENT] = 2, [ZERO] = 0, [CLEAN] = 0, [DIRTY] = 1, [FRESH_ZERO] = 2};
            assert_int_equal(area.marks[i], marks[model[i]]);
            model[i] = model[i] == DIRTY ? CLEAN : model[i] == FRESH_ZERO ? ZERO : model[i];
            if (model[i] != ABSENT)
                assert_memory_equal(area.copy + i * PAGE, p + i * PAGE, PAGE);
        }
        for (size_t n = random_below(round % 10 == 0 ? 2000 : 30); n > 0; n--)
            change_something(p, model, PAGES);
    }
    end(&area);
    munmap(p, PAGES * PAGE);
}

static void more_ranges_than_one_scan_returns(void **unused) {
    (void)unused;
    struct area area;
    uint8_t *p = map(64 * MB);
    memset(p, 1, 64 * MB);
    begin(&area, p, 64 * MB);
    expect(&area, 64 * MB / PAGE, 0);
    for (size_t i = 0; i < 64 * MB / PAGE; i += 2) /* 8192 ranges */
        p[i * PAGE] = (uint8_t)(2 + i);
    expect(&area, 64 * MB / PAGE / 2, 0);
    for (size_t i = 1; i < 2048; i += 2) /* changed and dropped ones in turn; exactly full vectors */
        madvise(p + i * PAGE, PAGE, MADV_DONTNEED);
    for (size_t i = 0; i < 2048; i += 2)
        p[i * PAGE + 1]++;
    expect(&area, 1024, 1024);
    expect(&area, 0, 1024);
    expect_same(&area);
    end(&area);
    munmap(p, 64 * MB);
}

static void a_region_inside_pages(void **unused) {
    (void)unused;
    struct area area;
    uint8_t *p = map(4 * MB);
    memset(p, 1, 4 * MB);
    begin(&area, p + 16, 4 * MB - 4096);
    collect(&area);
    assert_int_equal(area.changed, area.watch.size);
    collect(&area); /* the partial pages at the ends, and nothing else */
    assert_int_equal(area.ranges, 2);
    assert_int_equal(area.changed, 4096);
    p[3 * PAGE] = 9; /* chunks 2 and 3, counted from the start of the region */
    collect(&area);
    assert_int_equal(area.ranges, 3);
    assert_int_equal(area.changed, 2 * 4096);
    expect_same(&area);
    end(&area);
    munmap(p, 4 * MB);
}

/* ---- what the program does to its memory ---- */

static void dropped_pages_are_never_missed(void **unused) {
    (void)unused;
    struct area area;
    uint8_t *p = map(16 * MB);
    memset(p, 1, 16 * MB);
    begin(&area, p, 16 * MB);
    collect(&area);
    madvise(p + MB, PAGE, MADV_DONTNEED);
    expect(&area, 0, 1);
    madvise(p + 4 * MB, 8 * MB, MADV_DONTNEED); /* whole page tables */
    volatile uint8_t *read_only = p;
    (void)read_only[5 * MB]; /* brought back by reading: the page of zeros */
    expect(&area, 0, 1 + 8 * MB / PAGE);
    expect(&area, 0, 8 * MB / PAGE);
    p[5 * MB] = 3; /* the page of zeros, armed, is written */
    p[6 * MB] = 3;
    expect(&area, 2, 8 * MB / PAGE - 1);
    madvise(p + 5 * MB, PAGE, MADV_DONTNEED); /* dropped and written in one epoch */
    p[5 * MB + 1] = 4;
    expect(&area, 1, 8 * MB / PAGE - 1);
    expect_same(&area);
    end(&area);
    munmap(p, 16 * MB);
}

static void replaced_memory_is_reported(void **unused) {
    (void)unused;
    struct area area;
    uint8_t *p = map(8 * MB);
    memset(p, 1, 8 * MB);
    begin(&area, p, 8 * MB);
    collect(&area);
    assert_ptr_equal(mmap(p + MB, 2 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                     p + MB);
    madvise(p + MB, 2 * MB, MADV_NOHUGEPAGE);
    memset(p + 2 * MB, 5, PAGE);
    p[7 * MB] = 2;
    expect(&area, 2, 2 * MB / PAGE - 1);
    p[2 * MB] = 6; /* the new mapping is watched like the old one */
    expect(&area, 1, 2 * MB / PAGE - 1);
    expect_same(&area);
    /* All of it. */
    munmap(p, 8 * MB);
    assert_ptr_equal(mmap(p, 8 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), p);
    memset(p, 9, 8 * MB);
    collect(&area);
    assert_int_equal(area.changed, 8 * MB);
    p[0] = 1;
    collect(&area);
    expect_same(&area);
    end(&area);
    munmap(p, 8 * MB);
}

static void other_kinds_of_memory_are_always_reported(void **unused) {
    (void)unused;
    struct area area;
    FILE *file = tmpfile();
    assert_int_equal(ftruncate(fileno(file), MB), 0);
    uint8_t *p = map(8 * MB);
    memset(p, 1, 8 * MB);
    begin(&area, p, 8 * MB);
    collect(&area);
    free(area.copy);
    area.copy = NULL; /* there will be holes */
    void *shared = mmap(p + MB, MB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fileno(file), 0);
    assert_ptr_equal(shared, p + MB);
    assert_int_equal(munmap(p + 4 * MB, MB), 0);
    assert_int_equal(munmap(p + 8 * MB - PAGE, PAGE), 0);
    for (int i = 0; i < 3; i++) {
        p[3 * MB] = (uint8_t)i;
        expect(&area, 2 * MB / PAGE + 1 + 1, 0);
        for (size_t page = 0; page < MB / PAGE; page++)
            assert_true(area.marks[MB / PAGE + page] == 1 && area.marks[4 * MB / PAGE + page] == 1);
    }
    end(&area);
    /* Nothing is left registered: another tracker may have it. */
    struct vv_tracker *second;
    char why[100];
    assert_int_equal(vv_tracker_scan(&second, why, sizeof why), 0);
    struct vv_watch watch = {.ptr = p + 2 * MB, .size = 2 * MB};
    assert_int_equal(second->ops->attach(second, &watch), 0);
    assert_int_equal(tracker->ops->attach(tracker, &watch), -EBUSY);
    second->ops->detach(second, &watch);
    second->ops->close(second);
    munmap(p, 8 * MB);
    fclose(file);
}

static void memory_moved_away_and_back(void **unused) {
    (void)unused;
    struct area area;
    uint8_t *p = map(4 * MB), *other = map(4 * MB);
    memset(p, 1, 4 * MB);
    begin(&area, p, 4 * MB);
    collect(&area);
    assert_ptr_equal(mremap(p, 4 * MB, 4 * MB, MREMAP_MAYMOVE | MREMAP_FIXED, other), other);
    other[PAGE] = 2;
    uint8_t *copy = area.copy;
    area.copy = NULL;
    expect(&area, 4 * MB / PAGE, 0); /* a hole */
    area.copy = copy;
    assert_ptr_equal(mremap(other, 4 * MB, 4 * MB, MREMAP_MAYMOVE | MREMAP_FIXED, p), p);
    expect(&area, 4 * MB / PAGE, 0);
    expect(&area, 0, 0);
    p[2 * PAGE] = 3;
    expect(&area, 1, 0);
    expect_same(&area);
    /* A part, with no collect in between. */
    other = map(MB);
    assert_ptr_equal(mremap(p + MB, MB, MB, MREMAP_MAYMOVE | MREMAP_FIXED, other), other);
    other[5 * PAGE] = 4;
    assert_ptr_equal(mremap(other, MB, MB, MREMAP_MAYMOVE | MREMAP_FIXED, p + MB), p + MB);
    p[MB + 6 * PAGE] = 4;
    expect(&area, MB / PAGE, 0);
    expect_same(&area);
    end(&area);
    munmap(p, 4 * MB);
}

static void many_small_mappings(void **unused) {
    (void)unused;
    struct area area;
    uint8_t *p = map(16 * MB);
    memset(p, 1, 16 * MB);
    begin(&area, p, 16 * MB);
    collect(&area);
    for (size_t i = 0; i < 4096; i += 2)
        assert_int_equal(mprotect(p + i * PAGE, PAGE, PROT_READ), 0);
    for (size_t i = 1; i < 4096; i += 4)
        p[i * PAGE] = 2;
    expect(&area, 1024, 0);
    expect(&area, 0, 0);
    assert_int_equal(mprotect(p, 16 * MB, PROT_READ | PROT_WRITE), 0);
    p[0] = p[2 * PAGE] = 5;
    expect(&area, 2, 0);
    end(&area);
    /* Attached when it is in pieces already. */
    for (size_t i = 0; i < 4096; i += 2)
        assert_int_equal(madvise(p + i * PAGE, PAGE, MADV_DONTDUMP), 0);
    begin(&area, p, 16 * MB);
    expect(&area, 4096, 0);
    p[7 * PAGE] = p[8 * PAGE] = 1;
    expect(&area, 2, 0);
    expect_same(&area);
    end(&area);
    munmap(p, 16 * MB);
}

/* arg: changed bytes, untouched bytes. */
static int sum_bytes(void *arg, uint64_t offset, uint64_t length, int is_untouched) {
    (void)offset;
    ((uint64_t *)arg)[is_untouched] += length;
    return 0;
}

static struct vv_watch *child_watch;

static void child_writes(void) {
    uint64_t bytes[2] = {0};
    memset(child_watch->ptr, 99, child_watch->size);
    /* The descriptors speak of the parent's memory: here everything counts as changed. */
    CHECK(tracker->ops->collect(tracker, child_watch, sum_bytes, bytes) == 0);
    CHECK(bytes[0] == child_watch->size);
    CHECK(tracker->ops->attach(tracker, child_watch) == -ENOTSUP);
    tracker->ops->detach(tracker, child_watch);
}

static void writes_around_fork(void **unused) {
    (void)unused;
    struct area area;
    uint8_t *p = map(4 * MB);
    memset(p, 1, 4 * MB);
    begin(&area, p, 4 * MB);
    collect(&area);
    p[PAGE] = 2; /* before */
    child_watch = &area.watch;
    assert_true(in_child(child_writes));
    p[2 * PAGE] = 2; /* after */
    expect(&area, 2, 0);
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(read(ends[0], &byte, 1) == 1 ? 0 : 1);
    p[PAGE] = p[3 * PAGE] = 3; /* while a child shares the pages */
    expect(&area, 2, 0);
    p[3 * PAGE] = p[4 * PAGE] = 4;
    expect(&area, 2, 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(waitpid(child, NULL, 0), child);
    p[5 * PAGE] = 5;
    expect(&area, 1, 0);
    expect_same(&area);
    close(ends[0]);
    close(ends[1]);
    end(&area);
    munmap(p, 4 * MB);
}

/* ---- pages of other kinds ---- */

static void huge_pages(void **unused) {
    (void)unused;
    struct area area;
    uint8_t *whole = mmap(NULL, 18 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(whole, MAP_FAILED);
    uint8_t *p = (uint8_t *)(((uintptr_t)whole + 2 * MB - 1) & ~(uintptr_t)(2 * MB - 1));
    madvise(p, 16 * MB, MADV_HUGEPAGE);
    volatile uint8_t *bytes = p;
    (void)bytes[2 * MB]; /* perhaps a huge page of zeros */
    memset(p + 4 * MB, 1, 12 * MB);
    begin(&area, p, 16 * MB);
    collect(&area);
    assert_true(area.changed >= 12 * MB);
    collect(&area);
    assert_int_equal(area.changed, 0);
    for (int round = 0; round < 50; round++) {
        size_t count = 1 + random_below(20);
        for (size_t i = 0; i < count; i++)
            p[4 * MB + random_below(12 * MB)]++;
        collect(&area);
        assert_true(area.changed > 0);
        if (round <= 30) /* later, a first write to the dropped memory may bring a huge page there */
            assert_true(area.changed <= count * PAGE);
        if (round == 20)
            p[2 * MB + 5] = 1; /* the huge page of zeros */
        if (round == 30)
            madvise(p + 6 * MB, 2 * MB, MADV_DONTNEED);
        if (round == 40)
            memset(p + 6 * MB, 3, 2 * MB);
        if (round % 10 == 0)
            collect(&area);
    }
    expect_same(&area);
    end(&area);
    /* A region that begins and ends inside huge pages. */
    memset(p, 4, 16 * MB);
    begin(&area, p + MB, 13 * MB);
    collect(&area);
    assert_int_equal(area.changed, 13 * MB);
    p[MB] = p[14 * MB - 1] = 5;
    p[14 * MB] = p[MB - 1] = 6;
    expect(&area, 2, 0);
    expect_same(&area);
    end(&area);
    munmap(whole, 18 * MB);
}

static void pages_that_may_be_swapped_out(void **unused) {
    (void)unused;
    struct area area;
    uint8_t *p = map(4 * MB);
    for (size_t i = 0; i < 4 * MB; i++)
        p[i] = (uint8_t)random_below(256);
    begin(&area, p, 4 * MB);
    collect(&area);
    p[0] = p[PAGE] = 1;
    madvise(p, 4 * MB, 21 /* MADV_PAGEOUT; does nothing where there is no swap */);
    expect(&area, 2, 0);
    madvise(p, 4 * MB, 21);
    expect(&area, 0, 0);
    p[PAGE] = 2;
    expect(&area, 1, 0);
    expect_same(&area);
    end(&area);
    munmap(p, 4 * MB);
}

static void writes_by_system_calls(void **unused) {
    (void)unused;
    struct area area;
    uint8_t *p = map(4 * MB);
    int ends[2];
    FILE *file = tmpfile();
    static uint8_t data[3 * PAGE] = {1, 2, 3};
    assert_int_equal(fwrite(data, 1, sizeof data, file), sizeof data);
    fflush(file);
    memset(p, 1, 4 * MB);
    begin(&area, p, 4 * MB);
    collect(&area);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(send(ends[0], data, 100, 0), 100);
    assert_int_equal(recv(ends[1], p + 10 * PAGE - 50, 100, 0), 100);
    expect(&area, 2, 0);
    assert_int_equal(pread(fileno(file), p + 20 * PAGE, 3 * PAGE, 0), 3 * PAGE);
    expect(&area, 3, 0);
    assert_int_equal(lseek(fileno(file), 0, SEEK_SET), 0);
    assert_int_equal(read(fileno(file), p + 30 * PAGE, 16), 16);
    expect(&area, 1, 0);
    struct timespec *now = (struct timespec *)(void *)(p + 40 * PAGE);
    assert_int_equal(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, now), 0);
    expect(&area, 1, 0);
    expect_same(&area);
    end(&area);
    close(ends[0]);
    close(ends[1]);
    fclose(file);
    munmap(p, 4 * MB);
}

static uint64_t page_table_kib(void) {
    char line[200];
    unsigned long kib = 0;
    FILE *status = fopen("/proc/self/status", "re");
    assert_non_null(status);
    while (fgets(line, sizeof line, status))
        if (sscanf(line, "VmPTE: %lu", &kib) == 1)
            break;
    fclose(status);
    return kib;
}

static void a_sparse_tebibyte(void **unused) {
    (void)unused;
    const uint64_t size = UINT64_C(1) << 40;
    void *probe = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (probe == MAP_FAILED) {
        print_message("skipped: there is no tebibyte of address space (ThreadSanitizer leaves less)\n");
        skip();
    }
    munmap(probe, size);
    uint8_t *p = map(size);
    struct vv_watch watch = {.ptr = p, .size = size, .tracker = tracker};
    struct timespec start, stop;
    p[0] = p[size / 2] = p[size - 1] = 1;
    uint64_t before = page_table_kib();
    clock_gettime(CLOCK_MONOTONIC, &start);
    assert_int_equal(tracker->ops->attach(tracker, &watch), 0);
    for (int i = 0; i < 10; i++) {
        uint64_t bytes[2] = {0};
        assert_int_equal(tracker->ops->collect(tracker, &watch, sum_bytes, bytes), 0);
        assert_int_equal(bytes[0], i % 2 ? 0 : 3 * PAGE);
        assert_int_equal(bytes[1], size - 3 * PAGE);
        if (i % 2)
            p[0] = p[size / 2] = p[size - 1] = (uint8_t)i;
    }
    clock_gettime(CLOCK_MONOTONIC, &stop);
    assert_int_equal(page_table_kib(), before);
    assert_true((double)(stop.tv_sec - start.tv_sec) + 1e-9 * (double)(stop.tv_nsec - start.tv_nsec) < 2);
    tracker->ops->detach(tracker, &watch);
    munmap(p, size);
}

/* ---- the contract ---- */

static int stop_later(void *arg, uint64_t offset, uint64_t length, int is_untouched) {
    (void)offset, (void)length, (void)is_untouched;
    return --*(int *)arg ? 0 : -ENOSPC;
}

static void a_stopped_collect_loses_nothing(void **unused) {
    (void)unused;
    struct area area;
    uint8_t *p = map(4 * MB);
    memset(p, 1, 4 * MB);
    begin(&area, p + 16, 4 * MB - PAGE);
    collect(&area);
    for (int calls = 1; calls <= 5; calls++) { /* the partial page, ranges, the other partial page */
        int left = calls;
        p[10 * PAGE] = p[20 * PAGE] = p[30 * PAGE] = (uint8_t)calls;
        assert_int_equal(tracker->ops->collect(tracker, &area.watch, stop_later, &left), -ENOSPC);
        collect(&area);
        assert_int_equal(area.changed, area.watch.size);
        expect_same(&area);
    }
    end(&area);
    munmap(p, 4 * MB);
}

static void a_peek_begins_nothing_anew(void **unused) {
    (void)unused;
    struct area area;
    uint8_t *p = map(8 * MB);
    memset(p, 1, 4 * MB);
    begin(&area, p, 8 * MB);
    collect(&area);
    volatile uint8_t *bytes = p;
    p[PAGE] = p[9 * PAGE] = p[5 * MB] = 3;
    (void)bytes[6 * MB];
    for (int i = 0; i < 2; i++) {
        forget(&area);
        assert_int_equal(tracker->ops->peek(tracker, &area.watch, apply, &area), 0);
        assert_int_equal(area.changed, 3 * PAGE);
        assert_int_equal(area.zeros, 0);
    }
    expect(&area, 3, 4 * MB / PAGE - 1);
    forget(&area);
    assert_int_equal(tracker->ops->peek(tracker, &area.watch, apply, &area), 0);
    assert_int_equal(area.ranges, 0);
    expect_same(&area);
    end(&area);
    munmap(p, 8 * MB);
}

static int attach(uint8_t *ptr, size_t size, unsigned flags) {
    struct vv_watch watch = {.ptr = ptr, .size = size, .flags = flags};
    int rc = tracker->ops->attach(tracker, &watch);
    if (rc == 0)
        tracker->ops->detach(tracker, &watch);
    return rc;
}

static void what_cannot_be_watched(void **unused) {
    (void)unused;
    uint8_t *p = map(4 * MB);
    uint8_t *shared = mmap(NULL, 4 * MB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(attach(p, 256 << 10, 0), 0);
    assert_int_equal(attach(p, (256 << 10) - 1, 0), -ERANGE);
    assert_int_equal(attach(p + 1, 256 << 10, 0), -ERANGE);
    assert_int_equal(attach(p, 4 * MB, VARVE_DEVICE_WRITES), -ENOTSUP);
    assert_int_equal(attach(p, 4 * MB, VARVE_NO_KERNEL_WRITES), 0);
    assert_int_equal(attach(shared, 4 * MB, 0), -ENOTSUP);
    munmap(p + 2 * MB, PAGE);
    assert_int_equal(attach(p, 4 * MB, 0), -ENOTSUP);
    assert_int_equal(attach(p, 2 * MB, 0), 0);
    munmap(p, 4 * MB);
    munmap(shared, 4 * MB);
}

static void there_is_a_limit_of_ranges(void **unused) {
    (void)unused;
    enum { MOST = 4096, STEP = 512 << 10 };
    static struct vv_watch watches[MOST];
    uint8_t *p = map((MOST + 1) * (size_t)STEP);
    for (size_t i = 0; i < MOST; i++) {
        watches[i] = (struct vv_watch){.ptr = p + i * STEP, .size = STEP / 2};
        assert_int_equal(tracker->ops->attach(tracker, &watches[i]), 0);
    }
    assert_int_equal(attach(p + MOST * (size_t)STEP, STEP / 2, 0), -ENOSPC);
    for (size_t i = 0; i < MOST; i++)
        tracker->ops->detach(tracker, &watches[i]);
    assert_int_equal(attach(p + MOST * (size_t)STEP, STEP / 2, 0), 0);
    munmap(p, (MOST + 1) * (size_t)STEP);
}

static void check_no_scan(void) {
    struct vv_tracker *none = NULL;
    char why[100] = "";
    refuse(SYS_ioctl, (unsigned)PAGEMAP_SCAN, ENOTTY);
    CHECK(vv_tracker_scan(&none, why, sizeof why) == -ENOTSUP && !none && strstr(why, "PAGEMAP_SCAN"));
}

static void check_no_userfaultfd(void) {
    struct vv_tracker *none = NULL;
    char why[100] = "";
    refuse(SYS_userfaultfd, 0, EPERM);
    refuse(SYS_ioctl, 0xAA00, EPERM); /* of /dev/userfaultfd */
    CHECK(vv_tracker_scan(&none, why, sizeof why) == -ENOTSUP && !none && strstr(why, "not allowed"));
}

/* Protecting says it succeeds and does nothing: only a trial finds that out. */
static void check_a_lying_kernel(void) {
    struct vv_tracker *none = NULL;
    char why[100] = "";
    refuse(SYS_ioctl, (unsigned)PAGEMAP_SCAN, 0);
    CHECK(vv_tracker_scan(&none, why, sizeof why) == -ENOTSUP && !none && strstr(why, "not reported"));
}

static void reasons_are_given(void **unused) {
    (void)unused;
    assert_true(in_child(check_no_scan));
    assert_true(in_child(check_no_userfaultfd));
    assert_true(in_child(check_a_lying_kernel));
}

static int run(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_everything_then_nothing),
        cmocka_unit_test(random_writes_match_a_model),
        cmocka_unit_test(more_ranges_than_one_scan_returns),
        cmocka_unit_test(a_region_inside_pages),
        cmocka_unit_test(dropped_pages_are_never_missed),
        cmocka_unit_test(replaced_memory_is_reported),
        cmocka_unit_test(other_kinds_of_memory_are_always_reported),
        cmocka_unit_test(memory_moved_away_and_back),
        cmocka_unit_test(many_small_mappings),
        cmocka_unit_test(writes_around_fork),
        cmocka_unit_test(huge_pages),
        cmocka_unit_test(pages_that_may_be_swapped_out),
        cmocka_unit_test(writes_by_system_calls),
        cmocka_unit_test(a_sparse_tebibyte),
        cmocka_unit_test(a_stopped_collect_loses_nothing),
        cmocka_unit_test(a_peek_begins_nothing_anew),
        cmocka_unit_test(what_cannot_be_watched),
        cmocka_unit_test(there_is_a_limit_of_ranges),
        cmocka_unit_test(reasons_are_given),
    };
    char why[100] = "";
    if (vv_tracker_scan(&tracker, why, sizeof why) != 0) {
        /* It is missing here, which is no fault; or it is there and its own trial fails, which is. */
        int is_missing = strstr(why, "kernel has no") || strstr(why, "not allowed") || strstr(why, "cannot be opened");
        printf("%s: %s\n", is_missing ? "skipped" : "the trial failed", why);
        return is_missing ? 77 : 1;
    }
    int failed = cmocka_run_group_tests_name(geteuid() == 0 ? "as root" : "as nobody special", tests, NULL, NULL);
    tracker->ops->close(tracker);
    return failed ? 1 : 0;
}

/* Root may do more than others: everything is tried as somebody else, too. */
static int run_unprivileged(void) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (setgid(65534) != 0 || setuid(65534) != 0 || prctl(PR_SET_DUMPABLE, 1) != 0)
            _exit(2);
        int rc = run();
        fflush(NULL);
        _exit(rc);
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(void) {
    int rc = geteuid() == 0 ? run_unprivileged() : 0;
    return rc == 0 ? run() : rc;
}
