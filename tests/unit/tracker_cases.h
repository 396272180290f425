/* What trackers that let the kernel note writes have to do, whichever they are. What they report keeps a copy of the
 * region up to date: whatever they miss makes the copy differ. Where only exact answers are right, pages are counted.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <varve/varve.h>

#include "memory/tracker.h"
#include "refuse.h"
#include "test.h"

#define PAGE 4096u
#define MB ((size_t)1 << 20)

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

static void renew(void) {
    if (tracker->ops->renew)
        tracker->ops->renew(tracker);
}

static void collect(struct area *area) {
    forget(area);
    assert_int_equal(tracker->ops->collect(tracker, &area->watch, apply, area), 0);
    renew();
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

/* marks: what is reported of a page in each state. */
static void match_a_model(const uint8_t marks[5]) {
    enum { PAGES = 1024 };
    static uint8_t model[PAGES];
    struct area area;
    uint8_t *p = map(PAGES * PAGE);
    memset(p, 1, PAGES * PAGE / 2);
    memset(model, ABSENT, PAGES);
    memset(model, DIRTY, PAGES / 2);
    begin(&area, p, PAGES * PAGE);
    for (int round = 0; round < 400; round++) {
        collect(&area);
        for (size_t i = 0; i < PAGES; i++) {
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

/* ---- the kernel writes ---- */

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

/* Root may do more than others: everything is tried as somebody else, too. */
static int run_unprivileged(int (*run)(void)) {
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
