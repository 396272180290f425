#include "base/alloc.h"
#include "base/bytes.h"
#include "test.h"

#include <errno.h>

#define ROUNDS 20000

static uint64_t seed = 0x9e3779b97f4a7c15u;

static uint64_t random_u64(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* All lengths equally often. */
static uint64_t random_magnitude(void) {
    return random_u64() >> (random_u64() % 64);
}

static void test_fixed_fields_are_little_endian(void **state) {
    (void)state;
    struct vv_buf buf;
    static const uint8_t expected[] = {0x01, 0x03, 0x02, 0x07, 0x06, 0x05, 0x04, 0x0f,
                                       0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0x09, 0x88, 0};
    vv_buf_init(&buf);
    vv_buf_u8(&buf, 0x01);
    vv_buf_u16(&buf, 0x0203);
    vv_buf_u32(&buf, 0x04050607);
    vv_buf_u64(&buf, 0x88090a0b0c0d0e0f);
    vv_buf_zero(&buf, 1);
    assert_int_equal(buf.failed, 0);
    assert_int_equal(buf.size, sizeof expected);
    assert_memory_equal(buf.data, expected, sizeof expected);

    struct vv_cursor cursor;
    vv_cursor_init(&cursor, buf.data, buf.size);
    assert_int_equal(vv_cursor_u8(&cursor), 0x01);
    assert_int_equal(vv_cursor_u16(&cursor), 0x0203);
    assert_int_equal(vv_cursor_u32(&cursor), 0x04050607);
    assert_true(vv_cursor_u64(&cursor) == 0x88090a0b0c0d0e0f);
    assert_int_equal(vv_cursor_left(&cursor), 1);
    assert_int_equal(cursor.failed, 0);
    vv_buf_clear(&buf);
}

static void test_varints_come_back(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t v = random_magnitude();
        int64_t w = (int64_t)random_magnitude();
        w = random_u64() & 1 ? w : (int64_t)(0 - (uint64_t)w);
        struct vv_buf buf;
        struct vv_cursor cursor;
        vv_buf_init(&buf);
        vv_buf_varint(&buf, v);
        vv_buf_svarint(&buf, w);
        vv_cursor_init(&cursor, buf.data, buf.size);
        assert_true(vv_cursor_varint(&cursor) == v);
        assert_true(vv_cursor_svarint(&cursor) == w);
        assert_int_equal(cursor.failed, 0);
        assert_int_equal(vv_cursor_left(&cursor), 0);
        vv_buf_clear(&buf);
    }
}

static void check_varint_bytes(uint64_t v, size_t size) {
    struct vv_buf buf;
    struct vv_cursor cursor;
    vv_buf_init(&buf);
    vv_buf_varint(&buf, v);
    assert_int_equal(buf.size, size);
    vv_cursor_init(&cursor, buf.data, buf.size);
    assert_true(vv_cursor_varint(&cursor) == v && !cursor.failed);
    vv_buf_clear(&buf);
}

static void test_varint_lengths(void **state) {
    (void)state;
    check_varint_bytes(0, 1);
    for (size_t size = 1; size < 10; size++) {
        check_varint_bytes(((uint64_t)1 << (7 * size)) - 1, size);
        check_varint_bytes((uint64_t)1 << (7 * size), size + 1);
    }
    check_varint_bytes(UINT64_MAX, 10);
}

static void test_svarint_extremes(void **state) {
    (void)state;
    static const int64_t values[] = {0, -1, 1, -2, INT64_MAX, INT64_MIN};
    static const uint64_t folded[] = {0, 1, 2, 3, UINT64_MAX - 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct vv_buf buf;
        struct vv_cursor cursor;
        vv_buf_init(&buf);
        vv_buf_svarint(&buf, values[i]);
        vv_cursor_init(&cursor, buf.data, buf.size);
        assert_true(vv_cursor_varint(&cursor) == folded[i]);
        vv_cursor_init(&cursor, buf.data, buf.size);
        assert_true(vv_cursor_svarint(&cursor) == values[i]);
        vv_buf_clear(&buf);
    }
}

static void refuse_varint(const uint8_t *bytes, size_t size) {
    struct vv_cursor cursor;
    vv_cursor_init(&cursor, bytes, size);
    assert_true(vv_cursor_varint(&cursor) == 0);
    assert_int_equal(cursor.failed, -1);
}

static void test_bad_varints_are_refused(void **state) {
    (void)state;
    static const uint8_t cut[] = {0x80};
    static const uint8_t long_zero[] = {0x80, 0x00};
    static const uint8_t long_one[] = {0x81, 0x80, 0x00};
    static const uint8_t bit_64[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02};
    static const uint8_t eleven[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x81, 0x00};
    refuse_varint(NULL, 0);
    refuse_varint(cut, sizeof cut);
    refuse_varint(long_zero, sizeof long_zero);
    refuse_varint(long_one, sizeof long_one);
    refuse_varint(bit_64, sizeof bit_64);
    refuse_varint(eleven, sizeof eleven);
}

/* Whatever bytes are accepted are exactly the bytes that the writer makes of the value. */
static void test_one_form_only(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        uint8_t bytes[12];
        for (size_t j = 0; j < sizeof bytes; j++) {
            uint8_t r = (uint8_t)random_u64();
            bytes[j] = r % 8 == 0 ? 0x80 : r % 8 == 1 ? 0x00 : (uint8_t)random_u64();
        }
        struct vv_cursor cursor;
        vv_cursor_init(&cursor, bytes, sizeof bytes);
        uint64_t v = vv_cursor_varint(&cursor);
        if (cursor.failed)
            continue;
        struct vv_buf buf;
        vv_buf_init(&buf);
        vv_buf_varint(&buf, v);
        assert_int_equal(buf.size, (size_t)(cursor.at - bytes));
        assert_memory_equal(buf.data, bytes, buf.size);
        vv_buf_clear(&buf);
    }
}

static void test_text16(void **state) {
    (void)state;
    struct vv_buf buf;
    struct vv_cursor cursor;
    char out[6];
    vv_buf_init(&buf);
    vv_buf_text16(&buf, "hello");
    assert_int_equal(buf.size, 7);

    vv_cursor_init(&cursor, buf.data, buf.size);
    vv_cursor_text16(&cursor, out, sizeof out);
    assert_int_equal(cursor.failed, 0);
    assert_string_equal(out, "hello");

    vv_cursor_init(&cursor, buf.data, buf.size);
    vv_cursor_text16(&cursor, out, sizeof out - 1);
    assert_int_equal(cursor.failed, -1);
    assert_string_equal(out, "");

    buf.data[4] = 0; /* a NUL inside */
    vv_cursor_init(&cursor, buf.data, buf.size);
    vv_cursor_text16(&cursor, out, sizeof out);
    assert_int_equal(cursor.failed, -1);

    vv_cursor_init(&cursor, buf.data, 4); /* cut off */
    vv_cursor_text16(&cursor, out, sizeof out);
    assert_int_equal(cursor.failed, -1);
    vv_buf_clear(&buf);
}

static void test_text16_is_cut_at_its_limit(void **state) {
    (void)state;
    struct vv_buf buf;
    char *text = vv_malloc(70001);
    memset(text, 'x', 70000);
    text[70000] = '\0';
    vv_buf_init(&buf);
    vv_buf_text16(&buf, text);
    assert_int_equal(buf.size, 2 + 65535);
    assert_int_equal(vv_get16(buf.data), 65535);
    vv_buf_clear(&buf);
    vv_free(text);
}

static void test_cursor_stays_failed(void **state) {
    (void)state;
    static const uint8_t bytes[] = {1, 2, 3};
    struct vv_cursor cursor;
    vv_cursor_init(&cursor, bytes, sizeof bytes);
    assert_null(vv_cursor_take(&cursor, 4));
    assert_int_equal(cursor.failed, -1);
    assert_null(vv_cursor_take(&cursor, 1));
    assert_int_equal(vv_cursor_u8(&cursor), 0);
    assert_true(vv_cursor_u64(&cursor) == 0);
    assert_int_equal(vv_cursor_left(&cursor), 3);

    vv_cursor_init(&cursor, bytes, sizeof bytes);
    assert_null(vv_cursor_take(&cursor, SIZE_MAX));
}

static void test_empty_cursor(void **state) {
    (void)state;
    struct vv_cursor cursor;
    vv_cursor_init(&cursor, NULL, 0);
    assert_non_null(vv_cursor_take(&cursor, 0));
    assert_int_equal(cursor.failed, 0);
    assert_int_equal(vv_cursor_u8(&cursor), 0);
    assert_int_equal(cursor.failed, -1);
}

static void test_buffer_remembers_failure(void **state) {
    (void)state;
#ifndef VARVE_FAULTS
    skip();
#endif
    struct vv_buf buf;
    vv_buf_init(&buf);
    vv_buf_zero(&buf, 100);
    vv_alloc_fail_at(1);
    vv_buf_zero(&buf, 1000);
    assert_int_equal(buf.failed, -ENOMEM);
    vv_buf_u8(&buf, 1);
    assert_null(vv_buf_extend(&buf, 1));
    assert_int_equal(buf.size, 100);
    vv_alloc_fail_at(0);
    vv_buf_clear(&buf);
    assert_int_equal(buf.failed, 0);
}

static void test_buffer_refuses_what_cannot_be(void **state) {
    (void)state;
    struct vv_buf buf;
    vv_buf_init(&buf);
    vv_buf_u8(&buf, 1);
    assert_null(vv_buf_extend(&buf, SIZE_MAX));
    assert_int_equal(buf.failed, -ENOMEM);
    vv_buf_clear(&buf);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixed_fields_are_little_endian),
        cmocka_unit_test(test_varints_come_back),
        cmocka_unit_test(test_varint_lengths),
        cmocka_unit_test(test_svarint_extremes),
        cmocka_unit_test(test_bad_varints_are_refused),
        cmocka_unit_test(test_one_form_only),
        cmocka_unit_test(test_text16),
        cmocka_unit_test(test_text16_is_cut_at_its_limit),
        cmocka_unit_test(test_cursor_stays_failed),
        cmocka_unit_test(test_empty_cursor),
        cmocka_unit_test(test_buffer_remembers_failure),
        cmocka_unit_test(test_buffer_refuses_what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
