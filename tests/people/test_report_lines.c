/* What a report makes of the lines of a log: it distrusts them. */
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"

static unsigned members;
static struct report_member last;

static void take(void *arg, const struct report_member *member) {
    (void)arg;
    members++;
    last = *member;
}

static int read_line(const char *text) {
    members = 0;
    memset(&last, 0, sizeof last);
    return report_line(text, strlen(text), take, NULL);
}

static void test_good(void **state) {
    (void)state;
    assert_int_equal(read_line("{}"), 0);
    assert_int_equal(read_line("{\"a\":1,\"b\" : \"x\\\"\\u0041\\n\"}"), 0);
    assert_int_equal(members, 2);
    assert_string_equal(last.text, "x\"A\n");
    assert_int_equal(read_line("{\"a\":18446744073709551615}"), 0);
    assert_true(last.whole == UINT64_MAX);
    assert_int_equal(read_line("{\"a\":-1.5e3}"), 0);
    assert_true(last.number == -1500 && last.whole == 0);
    assert_int_equal(read_line("{\"a\":99999999999999999999}"), 0);
    assert_true(last.whole == 0);
}

static void test_bad(void **state) {
    static const char *const bad[] = {
        "",           "{",          "x",           "{\"a\"}",           "{\"a\":}",    "{\"a\":1",
        "{\"a\":1,}", "{\"a\":1}x", "{\"a\":\"x}", "{\"a\":\"\\u12\"}", "{\"a\":\"\\", "{\"a\":[1]}",
        "{\"a\":{}}", "{\"a\":1e}", "{\"a\":nan}", "{\"a\":inf}",       "{\"a\":--1}"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(read_line(bad[i]), -EINVAL);
}

/* Every cut of a line is refused, and read no further than its end. */
static void test_cut(void **state) {
    static const char line[] = "{\"type\":\"checkpoint\",\"version\":12,\"codec\":\"a\\\\b\\u0041\",\"x\":1.5e-3}";
    (void)state;
    for (size_t size = 0; size < sizeof line - 1; size++) {
        char *copy = malloc(size ? size : 1);
        assert_non_null(copy);
        memcpy(copy, line, size);
        assert_int_equal(report_line(copy, size, take, NULL), -EINVAL);
        free(copy);
    }
    assert_int_equal(read_line(line), 0);
}

static void test_long(void **state) {
    static char line[100000];
    (void)state;
    int at = snprintf(line, sizeof line, "{\"");
    memset(line + at, 'k', 40000);
    snprintf(line + at + 40000, 100, "\":\"");
    at = (int)strlen(line);
    memset(line + at, 't', 40000);
    snprintf(line + at + 40000, 100, "\"}");
    assert_int_equal(read_line(line), 0);
    assert_int_equal(strlen(last.key), REPORT_WORD - 1);
    assert_int_equal(strlen(last.text), REPORT_TEXT - 1);
}

static void test_log(void **state) {
    static const char text[] =
        "{\"type\":\"job\",\"ranks\":2,\"checkpoints\":2,\"generation\":77}\n"
        "nonsense\n"
        "{\"type\":\"checkpoint\",\"version\":1,\"count\":1,\"bytes_stored\":5}\n"
        "{\"type\":\"of the future\",\"version\":9}\n"
        "{\"type\":\"checkpoint\",\"version\":\"two\",\"count\":1,\"bytes_stored\":7,\"new\":1}\n"
        "{\"type\":\"event\",\"what\":\"restarted\",\"version\":-1}\n"
        "{\"type\":\"checkpoint\",\"version\":3,\"cou";
    struct report *report = calloc(1, sizeof *report);
    (void)state;
    assert_non_null(report);
    assert_int_equal(report_add(report, 3, text, sizeof text - 1), 0);
    report_finish(report);
    assert_int_equal(report->lines_skipped, 2);
    assert_int_equal(report->point_count, 2);
    assert_int_equal(report->sum.bytes[REPORT_STORED], 12);
    assert_int_equal(report->checkpoints, 2);
    assert_int_equal(report->lives[0].generation, 3); /* by its key */
    assert_int_equal(report->events[0].version, -1);
    report_clear(report);
    free(report);
}

/* More of everything than there is room for. */
static void test_bounds(void **state) {
    struct report *report = calloc(1, sizeof *report);
    char text[16384] = "";
    (void)state;
    assert_non_null(report);
    for (unsigned i = 0; i < 100; i++) {
        size_t used = strlen(text);
        snprintf(
            text + used, sizeof text - used,
            "{\"type\":\"codec\",\"codec\":\"c%u\",\"checkpoints\":1}\n{\"type\":\"event\"}\n{\"type\":\"checkpoint\","
            "\"count\":1}\n",
            i);
    }
    for (unsigned i = 0; i < 2 * REPORT_LIVES; i++)
        assert_int_equal(report_add(report, i + 1, text, strlen(text)), 0);
    report_finish(report);
    assert_int_equal(report->life_count, REPORT_LIVES);
    assert_int_equal(report->codec_count, REPORT_CODECS);
    assert_int_equal(report->event_count, REPORT_EVENTS);
    assert_int_equal(report->point_count, 100 * REPORT_LIVES);
    static struct report_point columns[50];
    size_t count = report_columns(report, columns, 50);
    uint64_t sum = 0;
    assert_in_range(count, 1, 50);
    for (size_t i = 0; i < count; i++)
        sum += columns[i].count;
    assert_int_equal(sum, 100 * REPORT_LIVES);
    assert_int_equal(report_cells(report, columns, 50), 50);
    report_clear(report);
    free(report);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_good), cmocka_unit_test(test_bad),
                                       cmocka_unit_test(test_cut),  cmocka_unit_test(test_long),
                                       cmocka_unit_test(test_log),  cmocka_unit_test(test_bounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
