#include "base/alloc.h"
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_sizes(void **state) {
    (void)state;
    void *nothing = vv_malloc(0);
    assert_non_null(nothing);
    nothing = vv_realloc(nothing, 0);
    assert_non_null(nothing);
    vv_free(nothing);
    vv_free(NULL);
    volatile size_t huge = SIZE_MAX / 2;
    assert_null(vv_calloc(huge, 3));
}

static void test_alignment(void **state) {
    (void)state;
    for (size_t alignment = 64; alignment <= 65536; alignment *= 2) {
        void *ptr = vv_aligned(100, alignment);
        assert_non_null(ptr);
        assert_int_equal((uintptr_t)ptr % alignment, 0);
        vv_free(ptr);
    }
}

static void test_strdup(void **state) {
    (void)state;
    char *copy = vv_strdup("word");
    assert_string_equal(copy, "word");
    vv_free(copy);
}

static void test_pages(void **state) {
    (void)state;
    size_t size = (size_t)1 << 36; /* far more than is there: nothing is used until touched */
    uint8_t *pages = vv_pages_map(size);
    assert_non_null(pages);
    assert_int_equal(pages[0] + pages[size - 1], 0);
    pages[size / 2] = 1;
    vv_pages_unmap(pages, size);
    vv_pages_unmap(NULL, 4096);
}

#define LARGE ((size_t)1 << 20)

/* From small to large and back, and larger in place: the bytes stay. */
static void test_resize(void **state) {
    (void)state;
    static const size_t sizes[] = {100, LARGE, 8 * LARGE, 2 * LARGE, 60, LARGE + 1, 1};
    uint8_t *ptr = NULL;
    size_t had = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ptr = vv_realloc(ptr, sizes[i]);
        assert_non_null(ptr);
        for (size_t at = 0; at < had && at < sizes[i]; at += 59)
            assert_int_equal(ptr[at], (uint8_t)(at % 251));
        had = sizes[i];
        for (size_t at = 0; at < had; at++)
            ptr[at] = (uint8_t)(at % 251);
    }
    vv_free(ptr);
}

static void test_large_alignment(void **state) {
    (void)state;
    for (size_t alignment = 64; alignment <= 2 * LARGE; alignment *= 2) {
        uint8_t *ptr = vv_aligned(3 * LARGE + 5, alignment);
        assert_non_null(ptr);
        assert_int_equal((uintptr_t)ptr % alignment, 0);
        ptr[0] = ptr[3 * LARGE + 4] = 1;
        vv_free(ptr);
    }
    uint8_t *zeros = vv_calloc(LARGE, 2);
    assert_non_null(zeros);
    for (size_t i = 0; i < 2 * LARGE; i += 512)
        assert_int_equal(zeros[i], 0);
    vv_free(zeros);
}

/* What is touched counts, and what is not, does not. */
static void test_memory(void **state) {
    (void)state;
    uint64_t before = vv_memory_note();
    void *small = vv_malloc(50000);
    uint8_t *pages = vv_pages_map(64 * LARGE);
    assert_true(small && pages);
    memset(pages + LARGE, 1, 4 * LARGE);
    uint64_t with = vv_memory_note();
    assert_in_range(with - before, 4 * LARGE + 50000, 4 * LARGE + 60000);
    assert_true(vv_memory_most() >= with);
    vv_free(small);
    vv_pages_unmap(pages, 64 * LARGE);
    assert_int_equal(vv_memory_note(), before);
    assert_true(vv_memory_most() >= with);
    void *theirs = vv_pages_map_for_program(4 * LARGE); /* what the program asked for is not ours */
    assert_non_null(theirs);
    memset(theirs, 1, 4 * LARGE);
    assert_int_equal(vv_memory_note(), before);
    vv_pages_unmap(theirs, 4 * LARGE);
}

#ifdef VARVE_FAULTS
static void *allocate(unsigned kind) {
    switch (kind) {
    case 0:
        return vv_malloc(8);
    case 1:
        return vv_calloc(1, 8);
    case 2:
        return vv_realloc(NULL, 8);
    case 3:
        return vv_aligned(8, 64);
    default:
        return vv_strdup("x");
    }
}

/* In a child, and before anything else allocates here: the environment is read once. */
static void test_environment(void **state) {
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("VARVE_FAIL_ALLOC", "2", 1);
        void *first = vv_malloc(1);
        void *second = vv_malloc(1);
        void *third = vv_malloc(1);
        int is_right = first && !second && third;
        vv_free(first);
        vv_free(third);
        _exit(is_right ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_the_kth_fails_once(void **state) {
    (void)state;
    for (unsigned kind = 0; kind < 5; kind++) {
        vv_alloc_fail_at(2);
        for (unsigned i = 1; i <= 4; i++) {
            errno = 0;
            void *ptr = allocate(kind);
            assert_int_equal(ptr == NULL, i == 2);
            assert_int_equal(errno, i == 2 ? ENOMEM : 0);
            vv_free(ptr);
        }
        assert_int_equal(vv_alloc_count(), 4);
    }
    vv_alloc_fail_at(1);
    assert_null(vv_pages_map(4096));
    vv_alloc_fail_at(0);
    assert_int_equal(vv_alloc_count(), 0);
}

static void test_failed_realloc_keeps_the_bytes(void **state) {
    (void)state;
    char *text = vv_strdup("kept");
    vv_alloc_fail_at(1);
    assert_null(vv_realloc(text, 100));
    vv_alloc_fail_at(0);
    assert_string_equal(text, "kept");
    vv_free(text);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
#ifdef VARVE_FAULTS
        cmocka_unit_test(test_environment),
#endif
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_strdup),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_resize),
        cmocka_unit_test(test_large_alignment),
        cmocka_unit_test(test_memory),
#ifdef VARVE_FAULTS
        cmocka_unit_test(test_the_kth_fails_once),
        cmocka_unit_test(test_failed_realloc_keeps_the_bytes),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
