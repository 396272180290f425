/* One cache for all that is read once and borrowed by many. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/cache.h"
#include "base/thread.h"
#include "test.h"

#define THREADS 8
#define ROUNDS 2000u
#define IDS 40u

struct thing {
    struct vv_cache_entry entry; /* first */
    uint64_t *value;
};

static atomic_uint cleared;

static void clear_thing(struct vv_cache_entry *entry) {
    free(((struct thing *)entry)->value);
    atomic_fetch_add(&cleared, 1);
}

static struct vv_hash128 id_of(uint64_t number) {
    /* half of them meet in one chain */
    return (struct vv_hash128){.low = number % 2 ? number : 7, .high = number};
}

static struct vv_cache *new_cache(size_t budget) {
    struct vv_cache *cache = calloc(1, sizeof *cache);
    assert_non_null(cache);
    vv_cache_init(cache, budget, sizeof(struct thing), clear_thing);
    atomic_store(&cleared, 0);
    return cache;
}

static struct thing *load(struct vv_cache *cache, uint64_t number, int rc) {
    struct thing *thing = vv_cache_acquire(cache, id_of(number), 10);
    if (!thing->entry.is_loading)
        return thing;
    thing->value = malloc(sizeof *thing->value);
    *thing->value = number;
    vv_cache_loaded(cache, &thing->entry, 10, rc);
    return rc < 0 ? NULL : thing;
}

static void the_oldest_goes_first(void **state) {
    struct vv_cache *cache = new_cache(20);
    (void)state;
    for (uint64_t number = 0; number < 2; number++)
        vv_cache_release(cache, &load(cache, number, 0)->entry);
    vv_cache_release(cache, &load(cache, 0, 0)->entry); /* 1 is the oldest now */
    vv_cache_release(cache, &load(cache, 2, 0)->entry);
    assert_int_equal(vv_cache_bytes(cache), 20);
    assert_int_equal(cleared, 1);
    assert_null(vv_cache_add(cache, id_of(0), 10));
    struct thing *again = vv_cache_add(cache, id_of(1), 10);
    assert_non_null(again);
    vv_cache_loaded(cache, &again->entry, 10, -EIO);
    vv_cache_clear(cache);
    free(cache);
}

static void what_is_borrowed_stays(void **state) {
    struct vv_cache *cache = new_cache(0);
    (void)state;
    struct thing *one = load(cache, 1, 0), *two = load(cache, 2, 0);
    assert_int_equal(vv_cache_bytes(cache), 20);
    assert_int_equal(*one->value + *two->value, 3);
    vv_cache_release(cache, &one->entry);
    vv_cache_release(cache, &two->entry);
    assert_int_equal(vv_cache_bytes(cache), 0);
    assert_int_equal(cleared, 2);
    vv_cache_clear(cache);
    free(cache);
}

/* Whoever waited for it tries by itself. */
static void *wait_for_one(void *arg) {
    struct thing *thing = load(arg, 1, 0);
    uint64_t value = *thing->value;
    vv_cache_release(arg, &thing->entry);
    return (void *)(uintptr_t)value;
}

static void failures_are_not_remembered(void **state) {
    struct vv_cache *cache = new_cache(100);
    pthread_t threads[2];
    (void)state;
    struct thing *failing = vv_cache_acquire(cache, id_of(1), 10);
    assert_true(failing->entry.is_loading);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_one, cache), 0);
    vv_sleep_ms(20);
    vv_cache_loaded(cache, &failing->entry, 10, -EIO);
    for (int i = 0; i < 2; i++) {
        void *value = NULL;
        assert_int_equal(pthread_join(threads[i], &value), 0);
        assert_int_equal((uintptr_t)value, 1);
    }
    assert_int_equal(vv_cache_bytes(cache), 10);
    assert_int_equal(cleared, 1);
    vv_cache_clear(cache);
    free(cache);
}

static void *borrow_many(void *arg) {
    uint64_t wrong = 0, random = (uintptr_t)&wrong;
    for (unsigned i = 0; i < ROUNDS; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        uint64_t number = (random >> 33) % IDS;
        struct thing *thing = load(arg, number, random >> 60 == 0 ? -EIO : 0);
        if (!thing)
            continue;
        wrong += *thing->value != number;
        vv_cache_release(arg, &thing->entry);
    }
    return (void *)(uintptr_t)wrong;
}

static void many_threads_borrow(void **state) {
    struct vv_cache *cache = new_cache(100);
    pthread_t threads[THREADS];
    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, borrow_many, cache), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong = NULL;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_int_equal((uintptr_t)wrong, 0);
    }
    assert_true(vv_cache_bytes(cache) <= 100);
    vv_cache_clear(cache);
    assert_int_equal(cache->bytes, 0);
    free(cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oldest_goes_first),
        cmocka_unit_test(what_is_borrowed_stays),
        cmocka_unit_test(failures_are_not_remembered),
        cmocka_unit_test(many_threads_borrow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
