#include "base/alloc.h"
#include "base/thread.h"
#include "test.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

static atomic_int done;

static int count_one(void *arg) {
    (void)arg;
    atomic_fetch_add(&done, 1);
    return 0;
}

static int give(void *arg) {
    return *(int *)arg;
}

static int nap(void *arg) {
    vv_sleep_ms(20);
    return count_one(arg);
}

static void test_all_jobs_run(void **state) {
    (void)state;
    static const unsigned threads[] = {0, 1, 4};
    static const unsigned queues[] = {0, 1, 100};
    for (size_t i = 0; i < 3; i++) {
        struct vv_pool *pool;
        assert_int_equal(vv_pool_create(threads[i], queues[i], NULL, &pool), 0);
        for (int round = 1; round <= 3; round++) {
            atomic_store(&done, 0);
            for (int job = 0; job < 1000; job++)
                assert_int_equal(vv_pool_submit(pool, count_one, NULL), 0);
            assert_int_equal(vv_pool_wait(pool), 0);
            assert_int_equal(atomic_load(&done), 1000);
        }
        vv_pool_destroy(pool);
    }
}

static void test_no_threads_means_the_caller(void **state) {
    (void)state;
    struct vv_pool *pool;
    assert_int_equal(vv_pool_create(0, 4, NULL, &pool), 0);
    atomic_store(&done, 0);
    vv_pool_submit(pool, count_one, NULL);
    assert_int_equal(atomic_load(&done), 1);
    vv_pool_destroy(pool);
}

static void test_first_error_ends_the_round(void **state) {
    (void)state;
    int io = -EIO, space = -ENOSPC;
    for (unsigned threads = 0; threads <= 1; threads++) {
        struct vv_pool *pool;
        assert_int_equal(vv_pool_create(threads, 1, NULL, &pool), 0);
        atomic_store(&done, 0);
        vv_pool_submit(pool, give, &io);
        vv_pool_submit(pool, give, &space);
        int rc = 0;
        for (int i = 0; i < 100; i++)
            rc = vv_pool_submit(pool, count_one, NULL);
        assert_int_equal(rc, -EIO);
        assert_int_equal(vv_pool_wait(pool), -EIO);
        assert_int_equal(atomic_load(&done), 0);

        assert_int_equal(vv_pool_submit(pool, count_one, NULL), 0);
        assert_int_equal(vv_pool_wait(pool), 0);
        assert_int_equal(atomic_load(&done), 1);
        vv_pool_destroy(pool);
    }
}

/* One running and one waiting is all that fits: the third submit has to wait for the first job's end. */
static void test_a_full_queue_blocks(void **state) {
    (void)state;
    struct vv_pool *pool;
    assert_int_equal(vv_pool_create(1, 1, NULL, &pool), 0);
    atomic_store(&done, 0);
    for (int i = 0; i < 3; i++)
        vv_pool_submit(pool, nap, NULL);
    assert_true(atomic_load(&done) >= 1);
    vv_pool_destroy(pool);
    assert_int_equal(atomic_load(&done), 3);
}

static void test_wait_is_for_running_jobs_too(void **state) {
    (void)state;
    struct vv_pool *pool;
    assert_int_equal(vv_pool_create(2, 4, NULL, &pool), 0);
    atomic_store(&done, 0);
    vv_pool_submit(pool, nap, NULL);
    vv_sleep_ms(5); /* so that it has been taken from the queue */
    assert_int_equal(vv_pool_wait(pool), 0);
    assert_int_equal(atomic_load(&done), 1);
    vv_pool_destroy(pool);
}

static atomic_int is_second_running;

static int fail_first(void *arg) {
    while (!atomic_load(&is_second_running))
        vv_sleep_ms(1);
    return *(int *)arg;
}

static int fail_later(void *arg) {
    atomic_store(&is_second_running, 1);
    vv_sleep_ms(100);
    return *(int *)arg;
}

/* Both were running when the first failed; its error is the cause, the other's may be a consequence. */
static void test_first_error_is_kept(void **state) {
    (void)state;
    int io = -EIO, space = -ENOSPC;
    struct vv_pool *pool;
    assert_int_equal(vv_pool_create(2, 4, NULL, &pool), 0);
    vv_pool_submit(pool, fail_first, &io);
    vv_pool_submit(pool, fail_later, &space);
    assert_int_equal(vv_pool_wait(pool), -EIO);
    vv_pool_destroy(pool);
}

static void test_destroy_nothing(void **state) {
    (void)state;
    vv_pool_destroy(NULL);
}

static void test_no_memory(void **state) {
    (void)state;
#ifndef VARVE_FAULTS
    skip();
#endif
    for (uint64_t k = 1; k <= 2; k++) {
        struct vv_pool *pool = NULL;
        vv_alloc_fail_at(k);
        assert_int_equal(vv_pool_create(2, 2, NULL, &pool), -ENOMEM);
        assert_null(pool);
    }
    vv_alloc_fail_at(0);
}

static void test_clocks(void **state) {
    (void)state;
    uint64_t before = vv_clock_ns();
    vv_sleep_ms(5);
    assert_true(vv_clock_ns() - before >= 5000000);
    assert_true(vv_clock_wall_ns() > (uint64_t)1600000000 * 1000000000);
}

static void test_random(void **state) {
    (void)state;
    uint8_t a[1000] = {0}, b[1000] = {0};
    assert_int_equal(vv_random(a, sizeof a), 0);
    assert_int_equal(vv_random(b, sizeof b), 0);
    assert_true(memcmp(a, b, sizeof a) != 0);
    assert_true(memcmp(a + 900, b + 900, 100) != 0);
    assert_int_equal(vv_random(NULL, 0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_jobs_run),
        cmocka_unit_test(test_no_threads_means_the_caller),
        cmocka_unit_test(test_first_error_ends_the_round),
        cmocka_unit_test(test_a_full_queue_blocks),
        cmocka_unit_test(test_wait_is_for_running_jobs_too),
        cmocka_unit_test(test_first_error_is_kept),
        cmocka_unit_test(test_destroy_nothing),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_clocks),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
