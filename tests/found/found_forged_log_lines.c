/* Names of regions reached the log and error texts as they were: one with an end of line forged a line of the log, one
 * with an escape sequence commanded the terminal of whoever looked at it. Both come escaped, and what is no UTF-8, too.
 */
#include "session.h"

#include "base/log.h"
#include "base/printable.h"

#define EVIL                                                                                                           \
    "evil\033]0;owned\007\nvarve: error: the disk is destroyed\xc2\x9b"                                                \
    "31m\xe2\x80\xae\xff"

static int lines, told;

static void check_text(const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
        assert_true(*at >= 0x20 && *at < 0x7f); /* nothing else has a place in these messages */
    told += strstr(text, "evil\\x1b]0;owned\\x07\\x0avarve: error") != NULL &&
            strstr(text, "\\xc2\\x9b31m\\xe2\\x80\\xae\\xff") != NULL;
}

static void hear(void *arg, int level, const char *line) {
    (void)arg;
    (void)level;
    lines++;
    check_text(line);
}

static void open_session(struct varve_session **out) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    options.settings = "min_free=0,log=trace";
    options.log = hear;
    assert_int_equal(varve_open(found_path("ck"), "x", &options, out, &found_error), 0);
}

static void test_names_from_the_store(void **state) {
    (void)state;
    struct varve_session *session;
    char bytes[64] = "x";
    int64_t version;
    open_session(&session);
    assert_int_equal(varve_protect(session, EVIL, bytes, sizeof bytes), 0);
    assert_int_equal(varve_checkpoint(session, 1), 0);
    assert_int_equal(varve_close(session), 0);
    open_session(&session); /* regions of the store that the program does not have are told in the log */
    lines = told = 0;
    (void)varve_restart_regions(session, VARVE_LATEST, NULL, 0, VARVE_RESTART_MISSING, &version);
    assert_true(lines > 0);
    assert_true(told > 0);
    assert_int_equal(varve_protect(session, EVIL, bytes, 1), 0);
    told = 0;
    assert_int_equal(varve_restart(session, VARVE_LATEST, &version), VARVE_MISMATCH);
    check_text(varve_session_error(session)->text);
    assert_true(told > 0);
    varve_close(session);
}

static void assert_printed(const char *text, size_t capacity, const char *expected) {
    char out[64];
    memset(out, 'z', sizeof out);
    vv_printable(text, out, capacity);
    assert_string_equal(out, expected);
    assert_int_equal(out[capacity], 'z');
}

static void test_escaping(void **state) {
    (void)state;
    assert_printed("plain \\ text", 40, "plain \\ text");
    assert_printed("\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\x80", 40, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\x80");
    assert_printed("a\nb\tc\x7f", 40, "a\\x0ab\\x09c\\x7f");
    assert_printed("\xc2\x85\xc2\xa0", 40, "\\xc2\\x85\xc2\xa0");            /* a control; a blank */
    assert_printed("\xe2\x80\xa8", 40, "\\xe2\\x80\\xa8");                   /* line separator */
    assert_printed("\xc0\xaf\xed\xa0\x80", 40, "\\xc0\\xaf\\xed\\xa0\\x80"); /* too long; a surrogate */
    assert_printed("\xe2\x82", 40, "\\xe2\\x82");                            /* cut short */
    assert_printed("ab\xe2\x82\xac", 5, "ab");                               /* no half characters */
    assert_printed("ab\n", 6, "ab");                                         /* nor half escapes */
    assert_printed("abc", 1, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_names_from_the_store, found_setup, found_teardown),
        cmocka_unit_test(test_escaping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
