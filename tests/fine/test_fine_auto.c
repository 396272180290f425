/* fine=auto: samples decide whether fine chunks are used, and of which size. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>

#include "dedup/fine_sample.h"
#include "details.h"
#include "test.h"

#define SIZE (8u << 20)
#define PAGE 4096u

static uint64_t seed = 88172645463325252u;
static uint32_t next_random(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 16);
}

static void fill(uint8_t *data, size_t size) {
    for (size_t i = 0; i + 4 <= size; i += 4) {
        uint32_t value = next_random();
        memcpy(data + i, &value, 4);
    }
}

/* What a program does between two checkpoints. */
static void change_words(uint8_t *data) { /* one word in each page */
    for (size_t at = 0; at < SIZE; at += PAGE)
        fill(data + at + next_random() % (PAGE / 4) * 4, 4);
}
static void change_all(uint8_t *data) {
    fill(data, SIZE);
}
static void change_pages(uint8_t *data) { /* every fourth page, all of it */
    for (size_t at = 0; at < SIZE; at += 4 * PAGE)
        fill(data + at, PAGE);
}

static struct vv_details run(void (*change)(uint8_t *data), const char *settings, unsigned checkpoints) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session;
    struct vv_details stats = {0};
    uint8_t *data = malloc(SIZE), *expected = malloc(SIZE);
    options.settings = settings;
    assert_non_null(data);
    assert_non_null(expected);
    fill(data, SIZE);
    assert_int_equal(varve_open("mem://auto?limit=30MB", "t", &options, &session, NULL), 0);
    assert_int_equal(varve_protect(session, "data", data, SIZE), 0);
    for (unsigned i = 0; i < checkpoints; i++) {
        if (i > 0)
            change(data);
        assert_int_equal(varve_checkpoint(session, i), 0);
        assert_int_equal(varve_wait(session), 0);
    }
    assert_int_equal(vv_details_get(session, &stats), 0);
    memcpy(expected, data, SIZE);
    memset(data, 0, SIZE);
    assert_int_equal(varve_restart(session, VARVE_LATEST, NULL), 0);
    assert_memory_equal(data, expected, SIZE);
    assert_int_equal(varve_close(session), 0);
    free(data);
    free(expected);
    return stats;
}

static void few_bytes_in_each_page(void **state) {
    (void)state;
    struct vv_details stats = run(change_words, "codec=none", 6);
    assert_true(stats.fine >= 64 && stats.fine <= 512);
    assert_true(stats.bytes_new < SIZE / 4);
    assert_true(stats.chunks_fixed > stats.chunks_first);
    assert_non_null(strstr(stats.fine_reason, "samples"));
}

static void everything_changes(void **state) {
    (void)state;
    struct vv_details stats = run(change_all, "codec=none", 5);
    assert_int_equal(stats.fine, 0);
    assert_int_equal(stats.bytes_new, SIZE);
}

static void whole_pages_change(void **state) {
    (void)state;
    struct vv_details stats = run(change_pages, "codec=none", 5);
    assert_int_equal(stats.fine, 0);
    assert_int_equal(stats.bytes_new, SIZE / 4);
}

static void never_when_told_so(void **state) {
    (void)state;
    struct vv_details stats = run(change_words, "codec=none,fine=1", 5);
    assert_int_equal(stats.fine, 0);
    assert_int_equal(stats.bytes_new, SIZE);
}

/* ---- the sample by itself ---- */

#define GRANULES 4096u

static uint32_t judge(void (*change)(uint8_t *data), struct vv_fine_costs costs) {
    struct vv_fine_sample *sample = vv_fine_sample_make(GRANULES);
    struct vv_fine_set set = {NULL};
    uint8_t *data = malloc(SIZE);
    char reason[64] = "";
    assert_non_null(sample);
    assert_non_null(data);
    fill(data, SIZE);
    for (int round = 0; round < 3; round++) {
        if (round > 0)
            change(data);
        for (uint64_t i = 0; i < SIZE / PAGE; i++)
            vv_fine_sample_look(sample, &set, i, data + i * PAGE, PAGE);
    }
    uint32_t chunk = vv_fine_sample_evaluate(sample, &costs, 7, reason);
    assert_true(reason[0]);
    assert_int_equal(vv_fine_sample_evaluate(sample, &costs, 7, reason), 7); /* nothing new was sampled */
    vv_fine_sample_free(sample);
    vv_fine_set_clear(&set);
    free(data);
    return chunk;
}

static void speeds_and_memory_count(void **state) {
    (void)state;
    struct vv_fine_costs slow_storage = {1e-8, 1e-9, 0.5}, fast_storage = {1e-10, 1e-9, 0.5},
                         no_memory = {1e-8, 1e-9, 0.01};
    assert_int_equal(judge(change_words, slow_storage), 64);
    assert_int_equal(judge(change_words, fast_storage), 0);
    assert_int_equal(judge(change_words, no_memory), 0);
    assert_int_equal(judge(change_all, slow_storage), 0);
}

static void small_regions_have_none(void **state) {
    (void)state;
    assert_null(vv_fine_sample_make(0));
    assert_null(vv_fine_sample_make(63));
    struct vv_fine_sample *sample = vv_fine_sample_make(64);
    assert_non_null(sample);
    assert_true(vv_fine_sample_is_of(sample, 64));
    assert_false(vv_fine_sample_is_of(sample, 65));
    vv_fine_sample_free(sample);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_bytes_in_each_page),  cmocka_unit_test(everything_changes),
        cmocka_unit_test(whole_pages_change),      cmocka_unit_test(never_when_told_so),
        cmocka_unit_test(speeds_and_memory_count), cmocka_unit_test(small_regions_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
