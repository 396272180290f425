/* Regions far larger than memory of which little was ever touched, and regions that grow past 4 GiB. */
#include "details.h"
#include "size.h"

#define TIB ((size_t)1 << 40)
#define GIB ((size_t)1 << 30)
#define TOUCHED 1000u

static size_t page_of(unsigned i) {
    return (size_t)(mix(i) % (TIB / PAGE)) * PAGE;
}

static void touch(uint8_t *memory, unsigned i, uint64_t round) {
    uint64_t words[PAGE / 8];
    for (size_t k = 0; k < PAGE / 8; k++)
        words[k] = mix(round << 32 ^ (uint64_t)i << 16 ^ k);
    memcpy(memory + page_of(i), words, PAGE);
}

static void compare(const uint8_t *memory, unsigned i, uint64_t round) {
    uint64_t words[PAGE / 8];
    for (size_t k = 0; k < PAGE / 8; k++)
        words[k] = mix(round << 32 ^ (uint64_t)i << 16 ^ k);
    assert_memory_equal(memory + page_of(i), words, PAGE);
}

static double timed_checkpoint(struct varve_session *session, int64_t version) {
    double begin = seconds();
    need_session(session, varve_checkpoint(session, version));
    need_session(session, varve_wait(session));
    return seconds() - begin;
}

static void test_tebibyte(void **state) {
    char store[256];
    double took[3];
    (void)state;
    folder_make(store);
    struct varve_session *session = open_session(store, "sparse");
    uint8_t *memory = varve_alloc(session, "field", TIB);
    assert_non_null(memory);
    for (unsigned i = 0; i < TOUCHED; i++)
        touch(memory, i, 0);
    took[0] = timed_checkpoint(session, 0);
    for (unsigned i = 0; i < TOUCHED; i += 100)
        touch(memory, i, 1);
    took[1] = timed_checkpoint(session, 1);
    struct vv_details stats = {0};
    need_session(session, vv_details_get(session, &stats));
    assert_int_equal(stats.bytes_changed, TOUCHED / 100 * PAGE);
    assert_int_equal(varve_close(session), 0);

    session = open_session(store, "sparse");
    memory = varve_alloc(session, "field", TIB);
    assert_non_null(memory);
    double begin = seconds();
    need_session(session, varve_restart(session, VARVE_LATEST, NULL));
    took[2] = seconds() - begin;
    double peak = peak_mib();
    for (unsigned i = 0; i < TOUCHED; i++)
        compare(memory, i, i % 100 == 0);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(memory[mix(i + 77777) % TIB], 0);
    assert_int_equal(varve_close(session), 0);
    folder_remove(store);
    printf("1 TiB, %u pages touched: checkpoint %.3f s, again %.3f s, restart %.3f s, peak %.0f MiB\n", TOUCHED,
           took[0], took[1], took[2], peak);
    if (may_time()) {
        assert_true(took[0] < 1);
        assert_true(took[1] < 1);
        assert_true(took[2] < 1);
        assert_true(peak < 512);
    }
}

static uint8_t *reserve(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    return memory;
}

/* The sizes a region has, one after the other; around 2^32, aligned and not. */
static const size_t sizes[] = {
    3 * GIB, 4 * GIB - 1, 4 * GIB, 4 * GIB + 1, 5 * GIB + 12345, 4 * GIB + 4096, 40 * GIB + 7, 2 * GIB + 3,
};

static void test_growth(void **state) {
    char store[256];
    size_t most = 41 * GIB;
    (void)state;
    folder_make(store);
    struct varve_session *session = open_session(store, "growth");
    uint8_t *memory = reserve(most);
    uint8_t *other = reserve(most);
    uint8_t behind[100];
    memset(behind, 5, sizeof behind);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t size = sizes[i];
        memory[0] = (uint8_t)(i + 1);
        memset(memory + size - 10, (int)i + 1, 10);
        if (size > 4 * GIB)
            memory[4 * GIB] = (uint8_t)(100 + i);
        need_session(session, varve_protect(session, "field", memory, size));
        need_session(session, varve_protect(session, "behind", behind, sizeof behind));
        timed_checkpoint(session, (int64_t)i);
        /* What lies behind the end does not belong to it, now or later. */
        memset(memory + size - 10, 0, 10);
        if (i + 1 < sizeof sizes / sizeof sizes[0] && size > 4 * GIB)
            memory[4 * GIB] = 0;
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t size = sizes[i];
        memset(behind, 0, sizeof behind);
        madvise(other, most, MADV_DONTNEED);
        need_session(session, varve_protect(session, "field", other, size));
        need_session(session, varve_restart(session, (int64_t)i, NULL));
        assert_int_equal(other[0], i + 1);
        for (size_t k = size - 10; k < size; k++)
            if (k != 4 * GIB || size <= 4 * GIB)
                assert_int_equal(other[k], k == 4 * GIB ? 100 + i : i + 1);
        if (size > 4 * GIB)
            assert_int_equal(other[4 * GIB], 100 + i);
        assert_int_equal(other[size], 0);
        assert_int_equal(other[size / 2], 0);
        assert_int_equal(behind[99], 5);
    }
    assert_int_equal(varve_close(session), 0);
    munmap(memory, most);
    munmap(other, most);
    folder_remove(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tebibyte),
        cmocka_unit_test(test_growth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
