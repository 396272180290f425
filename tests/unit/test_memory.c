/* Regions by name, and pages that were never touched. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/pages.h"
#include "memory/regions.h"
#include "test.h"

#define MB (1u << 20)

struct seen {
    uint64_t end;
    uint64_t touched;
    uint64_t ranges;
};

/* Ranges tile the memory. (To read what is called untouched would touch it; test_api and the model restore such
 * memory.) */
static int see(void *arg, uint64_t offset, uint64_t length, int is_untouched) {
    struct seen *seen = arg;
    assert_int_equal(offset, seen->end);
    seen->end = offset + length;
    seen->ranges++;
    if (!is_untouched)
        seen->touched += length;
    return 0;
}

static struct seen walk(const void *ptr, uint64_t size) {
    struct seen seen = {0};
    assert_int_equal(vv_pages_walk(ptr, size, see, &seen), 0);
    assert_int_equal(seen.end, size);
    return seen;
}

static void untouched_pages_are_found(void **unused) {
    (void)unused;
    uint8_t *p = mmap(NULL, 64 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    madvise(p, 64 * MB, MADV_NOHUGEPAGE);
    assert_int_equal(walk(p, 64 * MB).touched, 0);
    p[0] = 1;
    p[20 * MB + 5] = 2;
    p[64 * MB - 1] = 3;
    assert_int_equal(walk(p, 64 * MB).touched, 3 * 4096);
    /* Not at a page boundary: parts of the first and last page. */
    assert_int_equal(walk(p + 16, 64 * MB - 32).touched, 4096 - 16 + 4096 + 4096 - 16);
    for (uint64_t i = 0; i < 2000; i++) /* more ranges than one scan returns */
        p[i * 8192] = 1;
    struct seen seen = walk(p, 64 * MB);
    assert_int_equal(seen.touched, 2002 * 4096);
    madvise(p, 8 * MB, MADV_DONTNEED);
    assert_int_equal(walk(p, 8 * MB).touched, 0);
    munmap(p, 64 * MB);
}

static void other_mappings_count_as_touched(void **unused) {
    (void)unused;
    uint8_t *shared = mmap(NULL, 4 * MB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(walk(shared, 4 * MB).touched, 4 * MB);
    munmap(shared, 4 * MB);
    FILE *file = tmpfile();
    assert_int_equal(ftruncate(fileno(file), 4 * MB), 0);
    uint8_t *mapped = mmap(NULL, 4 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(file), 0);
    assert_int_equal(walk(mapped, 4 * MB).touched, 4 * MB);
    munmap(mapped, 4 * MB);
    fclose(file);
}

static int stop_at_once(void *arg, uint64_t offset, uint64_t length, int is_untouched) {
    (void)offset, (void)length, (void)is_untouched;
    ++*(int *)arg;
    return -28;
}

static void a_walk_can_be_stopped(void **unused) {
    (void)unused;
    int calls = 0;
    uint8_t *p = calloc(1, 4 * MB);
    assert_int_equal(vv_pages_walk(p, 4 * MB, stop_at_once, &calls), -28);
    assert_int_equal(calls, 1);
    free(p);
}

static void zeroing_touches_only_what_it_must(void **unused) {
    (void)unused;
    uint64_t size = UINT64_C(1) << 36;
    uint8_t *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    p[5] = p[size - 1] = 7;
    vv_pages_zero(p, size);
    assert_int_equal(p[5] | p[size - 1], 0);
    assert_true(walk(p, size).touched <= 4 * MB);
    munmap(p, size);
}

static void regions_by_name(void **unused) {
    (void)unused;
    struct vv_regions regions;
    char name[32];
    vv_regions_init(&regions);
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "r%d", i);
        struct vv_region *region = vv_regions_add(&regions, name);
        assert_non_null(region);
        assert_int_equal(region->number, i);
        region->size = (uint64_t)i;
    }
    assert_ptr_equal(vv_regions_add(&regions, "r7"), vv_regions_find(&regions, "r7"));
    for (int i = 0; i < 1000; i += 2) {
        snprintf(name, sizeof name, "r%d", i);
        vv_regions_remove(&regions, vv_regions_find(&regions, name));
        assert_null(vv_regions_find(&regions, name));
    }
    vv_regions_pack(&regions);
    assert_int_equal(regions.count, 500);
    for (int i = 1; i < 1000; i += 2) {
        snprintf(name, sizeof name, "r%d", i);
        assert_int_equal(vv_regions_find(&regions, name)->size, i);
    }
    assert_int_equal(vv_regions_add(&regions, "r2")->number, 1000); /* a new life, a new number */
    vv_regions_clear(&regions);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(untouched_pages_are_found), cmocka_unit_test(other_mappings_count_as_touched),
        cmocka_unit_test(a_walk_can_be_stopped),     cmocka_unit_test(zeroing_touches_only_what_it_must),
        cmocka_unit_test(regions_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
