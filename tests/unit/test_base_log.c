#include "base/log.h"
#include "test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct heard {
    int count;
    int level;
    char line[2048];
};

static void hear(void *arg, int level, const char *line) {
    struct heard *heard = arg;
    heard->count++;
    heard->level = level;
    snprintf(heard->line, sizeof heard->line, "%s", line);
}

static void test_levels(void **state) {
    (void)state;
    struct heard heard = {0};
    struct vv_log log = {.level = VV_LOG_INFO, .rank = -1, .fn = hear, .arg = &heard};
    vv_log(&log, VV_LOG_DEBUG, "too much");
    assert_int_equal(heard.count, 0);
    vv_log(&log, VV_LOG_INFO, "%d of %d", 3, 4);
    assert_int_equal(heard.count, 1);
    assert_int_equal(heard.level, VV_LOG_INFO);
    assert_string_equal(heard.line, "3 of 4");
}

static void test_rank_is_told(void **state) {
    (void)state;
    struct heard heard = {0};
    struct vv_log log = {.level = VV_LOG_WARN, .rank = 7, .fn = hear, .arg = &heard};
    vv_log(&log, VV_LOG_ERROR, "no");
    assert_string_equal(heard.line, "rank 7: no");
}

static void test_long_line_is_cut(void **state) {
    (void)state;
    char text[5000];
    struct heard heard = {0};
    struct vv_log log = {.level = VV_LOG_WARN, .rank = 0, .fn = hear, .arg = &heard};
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    vv_log(&log, VV_LOG_ERROR, "%s", text);
    assert_int_equal(strlen(heard.line), 1023);
}

/* What two calls without a log leave on stderr. */
static void test_stderr_without_a_log(void **state) {
    (void)state;
    char text[200] = {0};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    int before = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    vv_log(NULL, VV_LOG_INFO, "not said");
    vv_log(NULL, VV_LOG_WARN, "said");
    dup2(before, STDERR_FILENO);
    assert_true(read(ends[0], text, sizeof text - 1) > 0);
    assert_string_equal(text, "varve: warn: said\n");
    close(ends[0]);
    close(ends[1]);
    close(before);
}

static void test_names(void **state) {
    (void)state;
    assert_string_equal(vv_log_level_name(VV_LOG_ERROR), "error");
    assert_string_equal(vv_log_level_name(VV_LOG_TRACE), "trace");
    assert_string_equal(vv_log_level_name(5), "unknown");
    assert_string_equal(vv_log_level_name(-1), "unknown");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_rank_is_told),
        cmocka_unit_test(test_long_line_is_cut),
        cmocka_unit_test(test_stderr_without_a_log),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
