/* What is believed of what a parser says about a file. */
#include "../test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/found.h"

static void add(struct files_found *found, const char *name, int type, uint64_t offset, uint64_t length) {
    struct files_variable like = {.type = type};
    assert_int_equal(files_found_variable(found, name, &like), 0);
    assert_int_equal(files_found_extent(found, offset, length), 0);
}

static void test_keeps_what_is_possible(void **state) {
    (void)state;
    struct files_found found = {.count = 0};
    add(&found, "a", VARVE_F64, 0, 8000);
    add(&found, "b", VARVE_I32, 8000, 4100);
    assert_int_equal(files_found_check(&found, 12100), 0);
    assert_int_equal(found.count, 2);
    assert_int_equal(found.variables[0].dims, 1);
    assert_int_equal(found.variables[0].dim[0], 1000);
    files_found_clear(&found);
}

static void test_outside(void **state) {
    (void)state;
    struct files_found found = {.count = 0};
    add(&found, "ends behind", VARVE_F64, 1, 8000);
    add(&found, "begins behind", VARVE_F64, 9000, 8000);
    add(&found, "wraps", VARVE_F64, UINT64_MAX - 100, 8000);
    add(&found, "whole", VARVE_F64, 0, 8000);
    assert_int_equal(files_found_check(&found, 8000), 3);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.variables[0].name, "whole");
    files_found_clear(&found);
}

static void test_overlaps(void **state) {
    (void)state;
    struct files_found found = {.count = 0};
    add(&found, "first", VARVE_F64, 4096, 8192);
    add(&found, "inside the first", VARVE_F64, 8192, 4096);
    add(&found, "apart", VARVE_F64, 20480, 4096);
    add(&found, "meets itself", VARVE_F64, 40960, 8192);
    assert_int_equal(files_found_extent(&found, 45056, 8192), 0);
    add(&found, "around all", VARVE_F64, 0, 100000);
    assert_int_equal(files_found_check(&found, 100000), 3);
    assert_int_equal(found.count, 2);
    assert_string_equal(found.variables[0].name, "first");
    assert_string_equal(found.variables[1].name, "apart");
    files_found_clear(&found);
}

static void test_small_ones_are_left(void **state) {
    (void)state;
    struct files_found found = {.count = 0};
    add(&found, "small", VARVE_F64, 0, 4095);
    struct files_variable like = {.type = VARVE_F64, .is_filtered = 1};
    assert_int_equal(files_found_variable(&found, "crumbs", &like), 0);
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(files_found_extent(&found, 10000 + i * 1000, 100), 0);
    assert_int_equal(files_found_check(&found, 1000000), 0);
    assert_int_equal(found.count, 0);
    files_found_clear(&found);
}

static void test_shape(void **state) {
    (void)state;
    struct files_found found = {.count = 0};
    struct files_variable like = {.type = VARVE_F64, .dims = 2, .dim = {10, 100}};
    files_found_variable(&found, "fits", &like);
    files_found_extent(&found, 0, 8000);
    like.dim[1] = UINT64_MAX / 8;
    files_found_variable(&found, "overflows", &like);
    files_found_extent(&found, 8000, 8000);
    files_found_variable(&found, "odd", &like);
    files_found_extent(&found, 16000, 8001);
    like.is_filtered = 1;
    files_found_variable(&found, "packed", &like);
    files_found_extent(&found, 30000, 8000);
    assert_int_equal(files_found_check(&found, 100000), 0);
    assert_int_equal(found.variables[0].dims, 2);
    assert_int_equal(found.variables[1].dims, 1);
    assert_int_equal(found.variables[1].dim[0], 1000);
    assert_int_equal(found.variables[2].type, VARVE_BYTES);
    assert_int_equal(found.variables[3].type, VARVE_BYTES);
    files_found_clear(&found);
}

/* Through the pipe, and back from every shorter or changed message. */
static void test_message(void **state) {
    (void)state;
    struct files_found found = {.count = 0}, again = {.count = 0};
    char message[4096];
    int ends[2];
    add(&found, "a", VARVE_F64, 0, 8000);
    add(&found, "b", VARVE_I32, 8000, 4100);
    files_found_extent(&found, 20000, 4100);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(files_found_write(&found, ends[1]), 0);
    ssize_t size = read(ends[0], message, sizeof message);
    close(ends[0]);
    close(ends[1]);
    assert_true(size > 0);
    assert_int_equal(files_found_read(&again, message, (size_t)size), 0);
    assert_int_equal(again.count, 2);
    assert_int_equal(again.variables[1].count, 2);
    assert_int_equal(again.extents[2].offset, 20000);
    files_found_clear(&again);
    for (ssize_t i = 0; i < size; i++) {
        assert_int_equal(files_found_read(&again, message, (size_t)i), -EBADMSG);
        char kept = message[i];
        message[i] = (char)0xff;
        if (files_found_read(&again, message, (size_t)size) == 0)
            files_found_check(&again, 30000);
        files_found_clear(&again);
        message[i] = kept;
    }
    files_found_clear(&found);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keeps_what_is_possible), cmocka_unit_test(test_outside), cmocka_unit_test(test_overlaps),
        cmocka_unit_test(test_small_ones_are_left),    cmocka_unit_test(test_shape),   cmocka_unit_test(test_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
