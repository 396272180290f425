#include "base/error.h"
#include "test.h"

#include <errno.h>
#include <string.h>

static void test_names_and_texts(void **state) {
    (void)state;
    assert_string_equal(varve_error_name(0), "OK");
    assert_string_equal(varve_error_name(VARVE_CORRUPT), "CORRUPT");
    assert_string_equal(varve_error_name(VARVE_DISAGREED), "DISAGREED");
    assert_string_equal(varve_error_name(-ENOSPC), "ENOSPC");
    assert_string_equal(varve_error_name(-EIO), "EIO");
    assert_string_equal(varve_error_text(VARVE_CORRUPT), "stored data is damaged");
    assert_string_equal(varve_error_text(-ENOSPC), "No space left on device");
}

static void test_codes_that_do_not_exist(void **state) {
    (void)state;
    const int codes[] = {1, 28, -4094, -20000, -20999, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        assert_string_equal(varve_error_name(codes[i]), "UNKNOWN");
        assert_string_equal(varve_error_text(codes[i]), "unknown error");
    }
}

/* The numbers are a promise; they are written out here a second time on purpose. */
static void test_numbers_never_change(void **state) {
    (void)state;
    assert_int_equal(VARVE_NO_CHECKPOINT, -20001);
    assert_int_equal(VARVE_CORRUPT, -20002);
    assert_int_equal(VARVE_UNKNOWN_FORMAT, -20003);
    assert_int_equal(VARVE_BUSY, -20004);
    assert_int_equal(VARVE_FENCED, -20005);
    assert_int_equal(VARVE_MISMATCH, -20006);
    assert_int_equal(VARVE_NO_STORE, -20007);
    assert_int_equal(VARVE_FORGOTTEN, -20008);
    assert_int_equal(VARVE_SETTING, -20009);
    assert_int_equal(VARVE_UNSUPPORTED, -20010);
    assert_int_equal(VARVE_DISAGREED, -20011);
    assert_int_equal(VARVE_EARLIER_FAILED, -20012);
    assert_int_equal(VARVE_KEY, -20013);
}

static void test_fill(void **state) {
    (void)state;
    struct varve_error error;
    vv_error_clear(&error);
    assert_int_equal(error.code, 0);
    assert_int_equal(error.rank, -1);
    assert_string_equal(error.text, "");

    assert_int_equal(vv_error(&error, VARVE_BUSY, "name %s", "x"), VARVE_BUSY);
    assert_int_equal(error.code, VARVE_BUSY);
    assert_string_equal(error.text, "name x");

    assert_int_equal(vv_error_sys(&error, -ENOENT, "open %s", "f"), -ENOENT);
    assert_string_equal(error.text, "open f: No such file or directory");
}

static void test_default_keeps_the_deeper_cause(void **state) {
    (void)state;
    struct varve_error error;
    vv_error_clear(&error);
    assert_int_equal(vv_error_default(&error, -EIO, "first"), -EIO);
    assert_int_equal(vv_error_default(&error, VARVE_CORRUPT, "second"), VARVE_CORRUPT);
    assert_int_equal(error.code, -EIO);
    assert_string_equal(error.text, "first");
}

static void test_no_error_wanted(void **state) {
    (void)state;
    assert_int_equal(vv_error(NULL, -EIO, "x"), -EIO);
    assert_int_equal(vv_error_sys(NULL, -EIO, "x"), -EIO);
    assert_int_equal(vv_error_default(NULL, -EIO, "x"), -EIO);
    vv_error_clear(NULL);
}

static void test_long_text_is_cut(void **state) {
    (void)state;
    char text[2000];
    struct varve_error error;
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    vv_error(&error, -EIO, "%s", text);
    assert_int_equal(strlen(error.text), sizeof error.text - 1);
    vv_error_sys(&error, -EIO, "%s", text);
    assert_int_equal(strlen(error.text), sizeof error.text - 1);
}

static void test_store_is_named_once(void **state) {
    (void)state;
    struct varve_error error;
    vv_error(&error, VARVE_KEY, "it is encrypted");
    assert_int_equal(vv_error_store(&error, VARVE_KEY, "s3://bucket/a?endpoint=http://x"), VARVE_KEY);
    assert_string_equal(error.text, "it is encrypted (store s3://bucket/a)");
    assert_int_equal(vv_error_store(&error, VARVE_KEY, "s3://bucket/a"), VARVE_KEY);
    assert_string_equal(error.text, "it is encrypted (store s3://bucket/a)");
    vv_error(&error, -ENOTDIR, "/ck is not a folder");
    vv_error_store(&error, -ENOTDIR, "file:///ck?retry=3");
    assert_string_equal(error.text, "/ck is not a folder");
    vv_error(&error, -EIO, "damaged");
    vv_error_store(&error, -EIO, "a");
    assert_string_equal(error.text, "damaged (store a)");
    vv_error(&error, -EIO, "cannot");
    vv_error_store(&error, -EIO, "a\nb");
    assert_string_equal(error.text, "cannot (store a\\x0ab)");
    assert_int_equal(vv_error_store(&error, 0, "elsewhere"), 0);
    assert_null(strstr(error.text, "elsewhere"));
    assert_int_equal(vv_error_store(NULL, -EIO, "elsewhere"), -EIO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_texts),
        cmocka_unit_test(test_codes_that_do_not_exist),
        cmocka_unit_test(test_numbers_never_change),
        cmocka_unit_test(test_fill),
        cmocka_unit_test(test_default_keeps_the_deeper_cause),
        cmocka_unit_test(test_no_error_wanted),
        cmocka_unit_test(test_long_text_is_cut),
        cmocka_unit_test(test_store_is_named_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
