/* The tracker on userfaultfd with WP_ASYNC and PAGEMAP_SCAN. */
#include <sys/ioctl.h>

#include "tracker_cases.h"

#define PAGEMAP_SCAN _IOWR('f', 16, char[96])

/* ---- plain memory ---- */

static void random_writes_match_a_model(void **unused) {
    (void)unused;
    static const uint8_t marks[] = {[ABSENT] = 2, [ZERO] = 0, [CLEAN] = 0, [DIRTY] = 1, [FRESH_ZERO] = 2};
    match_a_model(marks);
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

int main(void) {
    int rc = geteuid() == 0 ? run_unprivileged(run) : 0;
    return rc == 0 ? run() : rc;
}
