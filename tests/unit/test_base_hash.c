#include "base/alloc.h"
#include "base/content_id.h"
#include "base/hash_wide.h"
#include "test.h"

#include <errno.h>

static void test_known_values(void **state) {
    (void)state;
    assert_true(vv_sum64("", 0) == 0x2d06800538d394c2u);
    struct vv_hash128 empty = vv_digest("", 0);
    assert_true(empty.low == 0x6001c324468d497fu);
    assert_true(empty.high == 0x99aa06d3014798d8u);
}

static void test_pieces_equal_the_whole(void **state) {
    (void)state;
    uint8_t data[5000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * i >> 3);
    for (size_t size = 0; size <= sizeof data; size += 613) {
        for (size_t step = 1; step <= sizeof data; step = step * 7 + 1) {
            struct vv_digest_state *digest;
            assert_int_equal(vv_digest_begin(&digest), 0);
            for (size_t at = 0; at < size; at += step)
                vv_digest_add(digest, data + at, size - at < step ? size - at : step);
            vv_digest_add(digest, NULL, 0);
            assert_true(vv_hash128_equal(vv_digest_end(digest), vv_digest(data, size)));
        }
    }
}

/* What this processor's widest vectors give is what those of all processors give. */
static void test_all_widths_are_equal(void **state) {
    static uint8_t data[70000];
    const uint64_t seed = 0x9e3779b97f4a7c15u;
    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * i * 31 >> 5);
    for (size_t size = 1; size < sizeof data; size += size < 1100 ? 1 : 4093)
        for (size_t at = 0; at < 4 && at + size <= sizeof data; at++) {
            assert_true(vv_sum64(data + at, size) == vv_hash_plain.sum64(data + at, size));
            assert_true(vv_hash128_equal(vv_digest(data + at, size), vv_hash_plain.digest(data + at, size)));
            assert_true(vv_hash128_equal(vv_id(seed, data + at, size), vv_hash_plain.id(seed, data + at, size)));
        }
}

#ifdef __x86_64__
/* Whether the upper halves of vector registers hold something, as far as this processor tells (XGETBV with ECX = 1). */
static int is_wide_in_use(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
    return (low >> 2) & 1;
}

static void use_wide(void) {
    __asm__ volatile("vpcmpeqd %%ymm0, %%ymm0, %%ymm0" ::: "xmm0");
}

static void leave_wide(void) {
    __asm__ volatile("vzeroupper" :::);
}

/* Wherever they stay in use, the program's own vector code goes on at half its speed. */
static void test_wide_vectors_are_left(void **state) {
    static uint8_t data[70000];
    struct vv_digest_state *digest;
    uint32_t a = 0xd, b, c = 1, d;
    (void)state;
    if (!__builtin_cpu_supports("avx2"))
        skip();
    __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    if (!(a >> 2 & 1)) /* XGETBV knows no 1 */
        skip();
    leave_wide();
    int before = is_wide_in_use();
    use_wide();
    int within = is_wide_in_use();
    leave_wide();
    if (before || !within) /* not told */
        skip();

    vv_sum64(data, sizeof data);
    assert_false(is_wide_in_use());
    vv_digest(data, sizeof data);
    assert_false(is_wide_in_use());
    vv_id(1, data, sizeof data);
    assert_false(is_wide_in_use());
    assert_int_equal(vv_digest_begin(&digest), 0);
    vv_digest_add(digest, data, sizeof data);
    assert_false(is_wide_in_use());
    vv_digest_drop(digest);
}
#else
static void test_wide_vectors_are_left(void **state) {
    (void)state;
    skip();
}
#endif

static void test_bytes_of_a_hash(void **state) {
    (void)state;
    struct vv_hash128 hash = {.low = 0x0706050403020100, .high = 0x0f0e0d0c0b0a0908};
    uint8_t bytes[16];
    vv_hash128_put(bytes, hash);
    for (unsigned i = 0; i < sizeof bytes; i++)
        assert_int_equal(bytes[i], i);
    assert_true(vv_hash128_equal(vv_hash128_get(bytes), hash));
    assert_false(vv_hash128_is_zero(hash));
    assert_true(vv_hash128_is_zero((struct vv_hash128){0}));
}

static void test_drop_and_no_memory(void **state) {
    (void)state;
    struct vv_digest_state *digest;
    vv_digest_drop(NULL);
    assert_int_equal(vv_digest_begin(&digest), 0);
    vv_digest_drop(digest);
#ifdef VARVE_FAULTS
    vv_alloc_fail_at(1);
    assert_int_equal(vv_digest_begin(&digest), -ENOMEM);
    vv_alloc_fail_at(0);
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_pieces_equal_the_whole),
        cmocka_unit_test(test_all_widths_are_equal),
        cmocka_unit_test(test_wide_vectors_are_left),
        cmocka_unit_test(test_bytes_of_a_hash),
        cmocka_unit_test(test_drop_and_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
