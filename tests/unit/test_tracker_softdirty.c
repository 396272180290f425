/* The tracker on soft-dirty bits. Each trap of these bits has a case that fails where it is not minded. Skipped where
 * the kernel has none; tests/kernels runs it on kernels that do. */
#include <fcntl.h>

#include "tracker_cases.h"

#define HUGE (2 * MB)

static uint8_t *map_aligned(size_t size) {
    uint8_t *whole = mmap(NULL, size + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(whole, MAP_FAILED);
    uint8_t *p = (uint8_t *)(((uintptr_t)whole + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
    if (p > whole)
        munmap(whole, (size_t)(p - whole));
    munmap(p + size, (size_t)(whole + HUGE - p));
    return p;
}

static uint8_t *map_filled(size_t size, uint8_t value) {
    uint8_t *p = map_aligned(size);
    assert_int_equal(madvise(p, size, MADV_NOHUGEPAGE), 0);
    memset(p, value, size);
    return p;
}

static void move(uint8_t *from, size_t size, uint8_t *to) {
    assert_ptr_equal(mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
}

/* ---- pages ---- */

static void random_writes_match_a_model(void **unused) {
    (void)unused;
    static const uint8_t marks[] = {[ABSENT] = 2, [ZERO] = 1, [CLEAN] = 0, [DIRTY] = 1, [FRESH_ZERO] = 1};
    match_a_model(marks);
}

static void dropped_pages_are_never_missed(void **unused) {
    (void)unused;
    struct area area;
    uint8_t *p = map(16 * MB);
    volatile uint8_t *bytes = p;
    memset(p, 1, 16 * MB);
    begin(&area, p, 16 * MB);
    collect(&area);
    madvise(p + MB, PAGE, MADV_DONTNEED);
    expect(&area, 0, 1);
    madvise(p + 4 * MB, 8 * MB, MADV_DONTNEED); /* whole page tables */
    (void)bytes[5 * MB];                        /* the page of zeros, with its bit clear */
    expect(&area, 1, 8 * MB / PAGE);
    assert_int_equal(area.marks[5 * MB / PAGE], 1);
    p[5 * MB] = p[6 * MB] = 3;
    expect(&area, 2, 8 * MB / PAGE - 1);
    madvise(p + 5 * MB, PAGE, MADV_DONTNEED); /* dropped and written in one epoch */
    p[5 * MB + 1] = 4;
    expect(&area, 1, 8 * MB / PAGE - 1);
    for (size_t i = 0; i < 16 * MB; i += PAGE) /* all read back */
        (void)bytes[i];
    collect(&area);
    expect_same(&area);
    end(&area);
    munmap(p, 16 * MB);
}

/* The kernel takes them back when it likes: here at once. */
static void freed_pages(void **unused) {
    (void)unused;
    struct area area;
    uint8_t *p = map(4 * MB);
    volatile uint8_t *bytes = p;
    memset(p, 1, 4 * MB);
    begin(&area, p, 4 * MB);
    collect(&area);
    assert_int_equal(madvise(p + MB, MB, MADV_FREE), 0);
    p[MB + 5 * PAGE] = 2; /* stays */
    madvise(p + MB, MB, 21 /* MADV_PAGEOUT, Linux 5.4 */);
    for (size_t i = MB; i < 2 * MB; i += 2 * PAGE)
        (void)bytes[i];
    collect(&area);
    expect_same(&area);
    end(&area);
    munmap(p, 4 * MB);
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
    madvise(p, 4 * MB, 21 /* does nothing where there is no swap */);
    expect(&area, 2, 0);
    madvise(p, 4 * MB, 21);
    p[PAGE] = 2;
    expect(&area, 1, 0);
    expect_same(&area);
    end(&area);
    munmap(p, 4 * MB);
}

/* They count as a whole, and the huge page of zeros is one. */
static void huge_pages(void **unused) {
    (void)unused;
    struct area area;
    uint8_t *p = map_aligned(16 * MB);
    volatile uint8_t *bytes = p;
    madvise(p, 16 * MB, MADV_HUGEPAGE);
    memset(p + 4 * MB, 1, 12 * MB);
    begin(&area, p, 16 * MB);
    collect(&area);
    collect(&area);
    assert_int_equal(area.changed, 0);
    (void)bytes[2 * MB];
    collect(&area);
    for (int round = 0; round < 60; round++) {
        for (size_t i = random_below(4); i > 0; i--)
            p[4 * MB + random_below(12 * MB)]++;
        if (round % 7 == 3) {
            madvise(p + 4 * MB + random_below(6) * HUGE, HUGE, MADV_DONTNEED);
            madvise(p + 4 * MB + random_below(3000) * PAGE, 5 * PAGE, MADV_DONTNEED);
        }
        if (round % 3 == 0) /* perhaps the huge page of zeros, perhaps a small one */
            for (size_t i = 4 * MB; i < 16 * MB; i += 1 + random_below(64) * PAGE)
                (void)bytes[i];
        if (round % 20 == 5)
            p[2 * MB + 5] = (uint8_t)round;
        collect(&area);
        for (size_t i = 0; i < 16 * MB / PAGE; i++) /* absent ones stay absent */
            if (area.marks[i] != 2)
                assert_memory_equal(area.copy + i * PAGE, p + i * PAGE, PAGE);
    }
    collect(&area);
    expect_same(&area);
    end(&area);
    munmap(p, 16 * MB);
}

/* A dropped page, read again, and then a part of a huge page: not the page of zeros any more. */
static void collapsed_pages(void **unused) {
    (void)unused;
    struct area area;
    uint8_t *p = map_filled(8 * MB, 1);
    madvise(p, 8 * MB, MADV_HUGEPAGE);
    begin(&area, p, 8 * MB);
    for (int round = 0; round < 4; round++) {
        collect(&area);
        uint8_t *page = p + 2 * MB + (size_t)(5 + round) * PAGE;
        madvise(page, PAGE, MADV_DONTNEED);
        (void)*(volatile uint8_t *)page;
        madvise(p + 2 * MB, 2 * MB, 25 /* MADV_COLLAPSE, Linux 6.1 */);
    }
    collect(&area);
    expect_same(&area);
    end(&area);
    munmap(p, 8 * MB);
}

static void protection_comes_and_goes(void **unused) {
    (void)unused;
    struct area area;
    uint8_t *p = map(4 * MB);
    memset(p, 1, 4 * MB);
    begin(&area, p, 4 * MB);
    collect(&area);
    assert_int_equal(mprotect(p, 4 * MB, PROT_READ), 0);
    assert_int_equal(mprotect(p, 4 * MB, PROT_READ | PROT_WRITE), 0);
    p[3 * PAGE] = 2;
    expect(&area, 1, 0);
    assert_int_equal(mprotect(p, 4 * MB, PROT_READ), 0);
    expect(&area, 0, 0);
    assert_int_equal(mprotect(p, 4 * MB, PROT_READ | PROT_WRITE), 0);
    p[5 * PAGE] = p[6 * PAGE] = 2;
    expect(&area, 2, 0);
    expect_same(&area);
    end(&area);
    munmap(p, 4 * MB);
}

/* ---- the bits are of the whole process ---- */

static void one_clear_serves_all_watches(void **unused) {
    (void)unused;
    struct area areas[3];
    uint8_t *p = map(24 * MB);
    memset(p, 1, 24 * MB);
    for (int i = 0; i < 3; i++)
        begin(&areas[i], p + i * 8 * MB, 4 * MB);
    for (int round = 0; round < 20; round++) {
        int writes = (int)random_below(8), left = round % 3;
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < writes; k++)
                areas[i].watch.ptr[random_below(4 * MB)]++;
        for (int i = 0; i < 3; i++) {
            if (i == left && round % 2) /* a checkpoint that does not come to this one, and clears */
                continue;
            forget(&areas[i]);
            assert_int_equal(tracker->ops->collect(tracker, &areas[i].watch, apply, &areas[i]), 0);
            if (round % 2 == 0 && round > 2 && (round - 1) % 3 != i)
                assert_true(areas[i].changed <= 8 * PAGE);
            expect_same(&areas[i]);
        }
        renew();
    }
    for (int i = 0; i < 3; i++)
        end(&areas[i]);
    munmap(p, 24 * MB);
}

/* A checkpoint that fails before the bits are cleared, and one more collect. */
static void what_is_not_renewed_is_told_again(void **unused) {
    (void)unused;
    struct area area;
    uint8_t *p = map(4 * MB);
    memset(p, 1, 4 * MB);
    begin(&area, p, 4 * MB);
    collect(&area);
    p[PAGE] = 2;
    for (int i = 0; i < 3; i++) {
        forget(&area);
        assert_int_equal(tracker->ops->collect(tracker, &area.watch, apply, &area), 0);
        assert_int_equal(area.changed, PAGE);
    }
    renew();
    expect(&area, 0, 0);
    end(&area);
    munmap(p, 4 * MB);
}

static void somebody_else_clears(void **unused) {
    (void)unused;
    struct area area;
    uint8_t *p = map(4 * MB);
    memset(p, 1, 4 * MB);
    begin(&area, p, 4 * MB);
    collect(&area);
    p[7 * PAGE] = 2;
    int fd = open("/proc/self/clear_refs", O_WRONLY);
    assert_int_equal(write(fd, "4", 1), 1);
    close(fd);
    expect(&area, 4 * MB / PAGE, 0);
    expect_same(&area);
    p[8 * PAGE] = 3;
    expect(&area, 1, 0);
    expect_same(&area);
    end(&area);
    munmap(p, 4 * MB);
}

static void only_one_at_a_time(void **unused) {
    (void)unused;
    struct vv_tracker *second = NULL;
    char why[100] = "";
    assert_int_equal(vv_tracker_softdirty(1, &second, why, sizeof why), -EBUSY);
    assert_null(second);
    assert_non_null(strstr(why, "another session"));
}

/* A child of fork is another process, and may have one of its own. */
static void check_in_child(void) {
    struct vv_tracker *own = NULL, *second = NULL;
    char why[100] = "";
    CHECK(vv_tracker_softdirty(1, &own, why, sizeof why) == 0);
    tracker->ops->renew(tracker); /* does nothing to the parent */
    tracker->ops->close(tracker);
    CHECK(vv_tracker_softdirty(1, &second, why, sizeof why) == -EBUSY);
    own->ops->close(own);
    CHECK(vv_tracker_softdirty(1, &second, why, sizeof why) == 0);
    second->ops->close(second);
}

static void a_child_has_its_own(void **unused) {
    (void)unused;
    struct area area;
    uint8_t *p = map(4 * MB);
    memset(p, 1, 4 * MB);
    begin(&area, p, 4 * MB);
    collect(&area);
    p[PAGE] = 2;
    assert_true(in_child(check_in_child));
    p[2 * PAGE] = 2;
    expect(&area, 2, 0);
    expect_same(&area);
    end(&area);
    munmap(p, 4 * MB);
}

static void writes_around_fork(void **unused) {
    (void)unused;
    struct area area;
    uint8_t *p = map(4 * MB);
    int ends[2];
    char byte;
    memset(p, 1, 4 * MB);
    begin(&area, p, 4 * MB);
    collect(&area);
    p[PAGE] = 2; /* before */
    child_watch = &area.watch;
    assert_true(in_child(child_writes));
    p[2 * PAGE] = 2; /* after */
    expect(&area, 2, 0);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(read(ends[0], &byte, 1) == 1 ? 0 : 1);
    for (int i = 0; i < 3; i++) { /* while a child shares the pages */
        p[i * PAGE] = p[(i + 5) * PAGE] = (uint8_t)(3 + i);
        collect(&area);
        expect_same(&area);
    }
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(waitpid(child, NULL, 0), child);
    p[9 * PAGE] = 5;
    expect(&area, 1, 0);
    expect_same(&area);
    close(ends[0]);
    close(ends[1]);
    end(&area);
    munmap(p, 4 * MB);
}

/* ---- mappings ---- */

static void collect_both(struct area *areas) {
    for (int i = 0; i < 2; i++) {
        forget(&areas[i]);
        assert_int_equal(tracker->ops->collect(tracker, &areas[i].watch, apply, &areas[i]), 0);
    }
    renew();
}

/* Two buffers change places, as a program does that has an old and a new state. Nothing is written. */
static void buffers_swapped_by_mremap(void **unused) {
    (void)unused;
    enum { SIZE = 8 * MB };
    struct area areas[2];
    uint8_t *a = map_filled(SIZE, 1), *b = map_filled(SIZE, 2), *third = map_filled(SIZE, 3);
    uint8_t *free_place = map_aligned(SIZE);
    begin(&areas[0], a, SIZE);
    begin(&areas[1], b, SIZE);
    for (int round = 0; round < 4; round++) {
        collect_both(areas);
        collect_both(areas);
        assert_int_equal(areas[0].changed + areas[1].changed, 0);
        move(a, SIZE, free_place);
        move(round % 2 ? third : b, SIZE, a);
        move(free_place, SIZE, round % 2 ? third : b);
        collect_both(areas);
        expect_same(&areas[0]);
        expect_same(&areas[1]);
    }
    end(&areas[0]);
    end(&areas[1]);
    munmap(a, SIZE);
    munmap(b, SIZE);
    munmap(third, SIZE);
}

/* A part, whose bits were cleared elsewhere. */
static void memory_moved_into_a_region(void **unused) {
    (void)unused;
    struct area area;
    uint8_t *p = map_filled(8 * MB, 1), *other = map_filled(4 * MB, 2);
    begin(&area, p, 8 * MB);
    collect(&area);
    move(other, 4 * MB, p + 2 * MB);
    expect(&area, 4 * MB / PAGE, 0);
    expect_same(&area);
    p[3 * MB] = 3;
    expect(&area, 1, 0);
    expect_same(&area);
    end(&area);
    munmap(p, 8 * MB);
}

/* realloc moves memory away: the new place is another region, of which everything is told. */
static void reallocated_memory(void **unused) {
    (void)unused;
    struct area area;
    uint8_t *p = map_filled(4 * MB, 1);
    begin(&area, p, 4 * MB);
    collect(&area);
    end(&area);
    uint8_t *q = mremap(p, 4 * MB, 16 * MB, MREMAP_MAYMOVE);
    assert_ptr_not_equal(q, MAP_FAILED);
    begin(&area, q, 16 * MB);
    expect(&area, 4 * MB / PAGE, 12 * MB / PAGE);
    q[PAGE] = q[9 * MB] = 2;
    expect(&area, 2, 12 * MB / PAGE - 1);
    expect_same(&area);
    end(&area);
    munmap(q, 16 * MB);
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
    for (int i = 0; i < 3; i++) {
        p[3 * MB] = (uint8_t)i;
        expect(&area, 2 * MB / PAGE + 1, 0);
    }
    end(&area);
    munmap(p, 8 * MB);
    fclose(file);
    /* The bytes of a file may change under a private mapping of it. */
    file = tmpfile();
    assert_int_equal(ftruncate(fileno(file), MB), 0);
    p = mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(file), 0);
    assert_int_equal(attach(p, MB, 0), -ENOTSUP);
    munmap(p, MB);
    fclose(file);
}

/* ---- the contract ---- */

static void a_peek_begins_nothing_anew(void **unused) {
    (void)unused;
    struct area area;
    uint8_t *p = map(8 * MB);
    memset(p, 1, 4 * MB);
    begin(&area, p, 8 * MB);
    collect(&area);
    p[PAGE] = p[9 * PAGE] = p[5 * MB] = 3;
    for (int i = 0; i < 2; i++) {
        forget(&area);
        assert_int_equal(tracker->ops->peek(tracker, &area.watch, apply, &area), 0);
        assert_int_equal(area.changed, 3 * PAGE);
        assert_int_equal(area.zeros, 0);
    }
    expect(&area, 3, 4 * MB / PAGE - 1);
    expect_same(&area);
    end(&area);
    munmap(p, 8 * MB);
}

/* In a child, whose own it would be. */
static int is_reason(const char *part) {
    struct vv_tracker *none = NULL;
    char why[100] = "";
    return vv_tracker_softdirty(0, &none, why, sizeof why) == -ENOTSUP && !none && strstr(why, part);
}

/* Bits can be read, but not cleared. */
static void check_a_lying_kernel(void) {
    refuse(SYS_pwrite64, 0, 0);
    CHECK(is_reason("not reported"));
}

static void check_no_userfaultfd(void) {
    refuse(SYS_userfaultfd, 0, EPERM);
    refuse(SYS_ioctl, 0xAA00, EPERM); /* of /dev/userfaultfd */
    CHECK(is_reason("without userfaultfd"));
    struct vv_tracker *forced = NULL;
    char why[100] = "";
    CHECK(vv_tracker_softdirty(1, &forced, why, sizeof why) == 0);
    forced->ops->close(forced);
}

static void check_no_proc(void) {
    refuse(SYS_openat, 0, EACCES);
    CHECK(is_reason("cannot be opened"));
}

static void reasons_are_given(void **unused) {
    (void)unused;
    assert_true(in_child(check_a_lying_kernel));
    assert_true(in_child(check_no_userfaultfd));
    assert_true(in_child(check_no_proc));
}

/* ---- without userfaultfd: what is asked for by name ---- */

/* Pages that changed unnoticed are counted: a limit, which docs/kernels.md names. */
static void moved_memory_may_go_unnoticed(void **unused) {
    (void)unused;
    struct area area;
    size_t missed = 0;
    uint8_t *p = map_filled(8 * MB, 1), *other = map_filled(8 * MB, 2);
    begin(&area, p, 8 * MB);
    collect(&area);
    move(other, 8 * MB, p);
    collect(&area);
    for (size_t i = 0; i < 8 * MB; i += PAGE)
        missed += memcmp(area.copy + i, p + i, PAGE) != 0;
    print_message("moved by mremap: %zu of %zu pages go unnoticed without userfaultfd\n", missed, 8 * MB / PAGE);
    end(&area);
    munmap(p, 8 * MB);
}

static void run_without_userfaultfd(void) {
    char why[100] = "";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_everything_then_nothing),
        cmocka_unit_test(random_writes_match_a_model),
        cmocka_unit_test(a_region_inside_pages),
        cmocka_unit_test(dropped_pages_are_never_missed),
        cmocka_unit_test(collapsed_pages),
        cmocka_unit_test(many_small_mappings),
        cmocka_unit_test(other_kinds_of_memory_are_always_reported),
        cmocka_unit_test(writes_by_system_calls),
        cmocka_unit_test(somebody_else_clears),
        cmocka_unit_test(moved_memory_may_go_unnoticed),
    };
    refuse(SYS_userfaultfd, 0, EPERM);
    refuse(SYS_ioctl, 0xAA00, EPERM);
    CHECK(vv_tracker_softdirty(1, &tracker, why, sizeof why) == 0);
    CHECK(cmocka_run_group_tests_name("without userfaultfd", tests, NULL, NULL) == 0);
}

static int run(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_everything_then_nothing),
        cmocka_unit_test(random_writes_match_a_model),
        cmocka_unit_test(more_ranges_than_one_scan_returns),
        cmocka_unit_test(a_region_inside_pages),
        cmocka_unit_test(dropped_pages_are_never_missed),
        cmocka_unit_test(freed_pages),
        cmocka_unit_test(pages_that_may_be_swapped_out),
        cmocka_unit_test(huge_pages),
        cmocka_unit_test(collapsed_pages),
        cmocka_unit_test(protection_comes_and_goes),
        cmocka_unit_test(one_clear_serves_all_watches),
        cmocka_unit_test(what_is_not_renewed_is_told_again),
        cmocka_unit_test(somebody_else_clears),
        cmocka_unit_test(only_one_at_a_time),
        cmocka_unit_test(a_child_has_its_own),
        cmocka_unit_test(writes_around_fork),
        cmocka_unit_test(buffers_swapped_by_mremap),
        cmocka_unit_test(memory_moved_into_a_region),
        cmocka_unit_test(memory_moved_away_and_back),
        cmocka_unit_test(reallocated_memory),
        cmocka_unit_test(replaced_memory_is_reported),
        cmocka_unit_test(other_kinds_of_memory_are_always_reported),
        cmocka_unit_test(many_small_mappings),
        cmocka_unit_test(writes_by_system_calls),
        cmocka_unit_test(a_stopped_collect_loses_nothing),
        cmocka_unit_test(a_peek_begins_nothing_anew),
        cmocka_unit_test(what_cannot_be_watched),
        cmocka_unit_test(there_is_a_limit_of_ranges),
        cmocka_unit_test(reasons_are_given),
    };
    char why[100] = "";
    if (vv_tracker_softdirty(0, &tracker, why, sizeof why) != 0) {
        /* It is missing here, which is no fault; or it is there and its own trial fails, which is. */
        int is_missing = strstr(why, "kernel has no") || strstr(why, "without") || strstr(why, "cannot be opened");
        printf("%s: %s\n", is_missing ? "skipped" : "the trial failed", why);
        return is_missing ? 77 : 1;
    }
    int failed = cmocka_run_group_tests_name(geteuid() == 0 ? "as root" : "as nobody special", tests, NULL, NULL);
    tracker->ops->close(tracker);
    return failed || !in_child(run_without_userfaultfd) ? 1 : 0;
}

int main(void) {
    int rc = geteuid() == 0 ? run_unprivileged(run) : 0;
    return rc == 0 ? run() : rc;
}
