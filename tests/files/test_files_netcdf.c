/* The parser of classic netCDF headers, on files made here byte by byte. */
#include "../test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "files/netcdf.h"

struct bytes {
    uint8_t data[65536];
    size_t size;
    uint64_t file_size; /* the file may be longer: nothing behind the header is read */
};

static void put(struct bytes *bytes, uint64_t value, size_t width) {
    for (size_t i = 0; i < width; i++)
        bytes->data[bytes->size++] = (uint8_t)(value >> 8 * (width - 1 - i));
}

static void put_name(struct bytes *bytes, const char *name, size_t width) {
    size_t length = strlen(name);
    put(bytes, length, width);
    memcpy(bytes->data + bytes->size, name, length);
    bytes->size += length;
    while (bytes->size % 4)
        bytes->data[bytes->size++] = 0;
}

static int read_at(void *arg, uint64_t offset, void *buffer, size_t size) {
    const struct bytes *bytes = arg;
    memset(buffer, 0, size);
    if (offset + size > bytes->file_size)
        fail_msg("read beyond the end");
    if (offset < bytes->size)
        memcpy(buffer, bytes->data + offset, offset + size < bytes->size ? size : bytes->size - (size_t)offset);
    return 0;
}

static int parse(struct bytes *bytes, struct files_found *found) {
    return files_netcdf(read_at, bytes, bytes->file_size, found);
}

static void put_variable(struct bytes *bytes, const char *name, const uint64_t *dims, size_t count, uint64_t type,
                         uint64_t begin) {
    size_t wide = bytes->data[3] == 5 ? 8 : 4;
    put_name(bytes, name, wide);
    put(bytes, count, wide);
    for (size_t i = 0; i < count; i++)
        put(bytes, dims[i], wide);
    put(bytes, 12, 4); /* one attribute: 3 shorts */
    put(bytes, 1, wide);
    put_name(bytes, "valid", wide);
    put(bytes, 3, 4);
    put(bytes, 3, wide);
    put(bytes, 0, 8);
    put(bytes, type, 4);
    put(bytes, 0xbadbad, wide); /* vsize: never used */
    put(bytes, begin, bytes->data[3] == 1 ? 4 : 8);
}

/* time is unlimited, y = 10, x = 1001. still(y, x) double, text(y, x) char, then records: a(time, x) short, b(time, x)
 * double. */
static void make(struct bytes *bytes, uint8_t version, uint64_t records, int is_single) {
    static const uint64_t yx[] = {1, 2}, tx[] = {0, 2};
    size_t wide = version == 5 ? 8 : 4;
    memset(bytes, 0, sizeof *bytes);
    put(bytes, 0x43444600 | version, 4);
    put(bytes, records, wide);
    put(bytes, 10, 4);
    put(bytes, 3, wide);
    put_name(bytes, "time", wide);
    put(bytes, 0, wide);
    put_name(bytes, "y", wide);
    put(bytes, 10, wide);
    put_name(bytes, "x", wide);
    put(bytes, 1001, wide);
    put(bytes, 0, 4);
    put(bytes, 0, wide); /* no attributes */
    put(bytes, 11, 4);
    put(bytes, is_single ? 3 : 4, wide);
    put_variable(bytes, "still", yx, 2, 6, 2000);
    put_variable(bytes, "text", yx, 2, 2, 90000);
    put_variable(bytes, "a", tx, 2, 3, 200000);
    if (!is_single)
        put_variable(bytes, "b", tx, 2, 6, 200000 + 2004);
    bytes->file_size = 300000;
}

static void test_versions(void **state) {
    (void)state;
    static struct bytes bytes;
    static const uint8_t versions[] = {1, 2, 5};
    for (size_t i = 0; i < 3; i++) {
        struct files_found found = {.count = 0};
        make(&bytes, versions[i], 5, 0);
        assert_int_equal(parse(&bytes, &found), 0);
        assert_int_equal(found.count, 4);
        assert_string_equal(found.variables[0].name, "still");
        assert_int_equal(found.extents[0].offset, 2000);
        assert_int_equal(found.extents[0].length, 80080);
        assert_int_equal(found.variables[3].count, 5);
        assert_int_equal(found.extents[found.variables[3].first + 4].offset, 202004 + 4 * (2004 + 8008));
        assert_int_equal(found.extents[found.variables[2].first + 4].length, 2002);
        assert_int_equal(files_found_check(&found, bytes.file_size), 0);
        assert_int_equal(found.count, 4);
        files_found_clear(&found);
    }
}

/* One record variable alone is not padded: its records follow each other. */
static void test_single_record_variable(void **state) {
    (void)state;
    static struct bytes bytes;
    struct files_found found = {.count = 0};
    make(&bytes, 2, 40, 1);
    assert_int_equal(parse(&bytes, &found), 0);
    assert_int_equal(found.variables[2].count, 1);
    assert_int_equal(found.extents[found.variables[2].first].length, 40 * 2002);
    files_found_clear(&found);
}

/* Written as a stream: the number of records is not known, and follows from the size. */
static void test_streamed(void **state) {
    (void)state;
    static struct bytes bytes;
    struct files_found found = {.count = 0};
    make(&bytes, 1, UINT32_MAX, 0);
    bytes.file_size = 200000 + 7 * 10012 + 100;
    assert_int_equal(parse(&bytes, &found), 0);
    assert_int_equal(found.variables[3].count, 7);
    files_found_clear(&found);
}

static void test_refuses(void **state) {
    (void)state;
    static struct bytes bytes;
    struct files_found found = {.count = 0};
    make(&bytes, 2, 500, 0);
    assert_int_equal(parse(&bytes, &found), -EBADMSG); /* records beyond the end */
    files_found_clear(&found);
    make(&bytes, 3, 5, 0);
    assert_int_equal(parse(&bytes, &found), -EBADMSG);
    files_found_clear(&found);
    make(&bytes, 5, UINT64_MAX - 1, 0);
    assert_true(parse(&bytes, &found) < 0);
    files_found_clear(&found);
}

/* Cut anywhere, changed anywhere: an answer or an error, and nothing read that is not there. */
static void test_damage(void **state) {
    (void)state;
    static struct bytes bytes;
    make(&bytes, 5, 5, 0);
    size_t size = bytes.size;
    for (size_t i = 0; i < size; i++) {
        static const uint8_t values[] = {0x00, 0x7f, 0x80, 0xff};
        struct files_found found = {.count = 0};
        bytes.file_size = i;
        assert_true(parse(&bytes, &found) < 0);
        files_found_clear(&found);
        bytes.file_size = 300000;
        for (size_t j = 0; j < sizeof values; j++) {
            uint8_t kept = bytes.data[i];
            bytes.data[i] = values[j];
            if (parse(&bytes, &found) == 0)
                files_found_check(&found, bytes.file_size);
            files_found_clear(&found);
            bytes.data[i] = kept;
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions), cmocka_unit_test(test_single_record_variable),
        cmocka_unit_test(test_streamed), cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
