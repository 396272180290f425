/* Which names hold the same variable. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/match.h"
#include "test.h"

#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct varve_error error;

static struct vv_match *must_open(const char *pattern) {
    struct vv_match *match = NULL;
    vv_error_clear(&error);
    assert_int_equal(vv_match_open(pattern, &match, &error), 0);
    assert_non_null(match);
    return match;
}

static uint64_t number_of(const char *text) {
    return vv_sum64(text, strlen(text));
}

static void test_whole_names(void **state) {
    (void)state;
    struct vv_match *match = must_open("");
    assert_true(vv_match_name(match, "density") == number_of("density"));
    assert_true(vv_match_name(match, "density") != vv_match_name(match, "densities"));
    assert_true(vv_match_name(match, "") == number_of(""));
    vv_match_close(match);
    vv_match_close(NULL);
}

static void test_what_is_found(void **state) {
    (void)state;
    static const struct {
        const char *pattern;
        const char *name;
        const char *key;
    } cases[] = {
        {"^[a-z]+", "rho_17", "rho"},              /* no group: all that was found */
        {"^([a-z]+)_[0-9]+$", "rho_17", "rho"},    /* the group only */
        {"^([a-z]+)_[0-9]+$", "rho-17", "rho-17"}, /* nothing found: the whole name */
        {"_(.*)_(.*)", "a_b_c", "b"},              /* the first of two groups */
        {"(x)|y[0-9]", "y5", "y5"},                /* a group that had no part in it */
        {"^[^:]*:(.*)", "out/0001.h5:/rho:old", "/rho:old"},
        {"rank[0-9]{1,4}/(.*)", "rank0012/u", "u"},
        {"[.](.*)", "part.\xc3\xa4\xff", "\xc3\xa4\xff"}, /* bytes, whatever they mean */
        {"a*", "bbb", ""},
        {"[]()[:alpha:]+{]+", "((ab+{]x", "((ab+{]x"},
        {"a)", "xa)y", "a)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct vv_match *match = must_open(cases[i].pattern);
        if (vv_match_name(match, cases[i].name) != number_of(cases[i].key))
            fail_msg("%s in %s is not %s", cases[i].pattern, cases[i].name, cases[i].key);
        vv_match_close(match);
    }
}

static void test_what_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *pattern;
        const char *message;
    } cases[] = {
        {"(a", "Unmatched"},
        {"[a", "Unmatched"},
        {"*", "preceding"},
        {"a{2", "{"},
        {"[[:nothing:]]", "character class"},
        {"(a)\\1", "\\1 is not known here"},
        {"(((a{99}){99}){99})", "more than 200 elements"},
        {"(((a{,99}){9,99}){99})", "more than 200 elements"},
        {"((([[:alpha:])]bbbbbbbbb){,99}){2})", "more than 200 elements"},
        {"a\\b", "\\b is not known"},
        {"a++", "+ directly behind another"},
        {"()?{9}{3}+", "{ directly behind another"},
        {"((((((((((a+)+)+)+)+)+)+)+)+)+)+", "more than 200 elements"},
        {"a{201}", "more than 200 elements"},
        {"a{99999999999999999999999}", "more than 200 elements"},
        {"((((((((((((((((((((a))))))))))))))))))))", "more than 15 groups"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct vv_match *match = NULL;
        vv_error_clear(&error);
        assert_int_equal(vv_match_open(cases[i].pattern, &match, &error), -EINVAL);
        assert_null(match);
        assert_int_equal(error.code, -EINVAL);
        if (!strstr(error.text, cases[i].message))
            fail_msg("%s: %s", cases[i].pattern, error.text);
    }
}

/* What repeats, but not inside each other, is cheap. */
static void test_repeats(void **state) {
    (void)state;
    struct vv_match *match = must_open("a+b+c+d+e+f+g+h+i+j+k+l+m+n+([0-9]+)");
    assert_true(vv_match_name(match, "aabcdefghijklmnn42x") == number_of("42"));
    vv_match_close(match);
    match = must_open("x{1,100}(y)");
    assert_true(vv_match_name(match, "xxxy") == number_of("y"));
    vv_match_close(match);
}

/* The same number in a program with another language. */
static void test_language(void **state) {
    (void)state;
    const char *found = setlocale(LC_ALL, "C.UTF-8");
    if (!found)
        skip();
    struct vv_match *match = must_open("^(.)");
    assert_true(vv_match_name(match, "\xc3\xa4") == number_of("\xc3"));
    setlocale(LC_ALL, "C");
    assert_true(vv_match_name(match, "\xc3\xa4") == number_of("\xc3"));
    vv_match_close(match);
}

static void test_no_memory(void **state) {
    (void)state;
    struct vv_match *match = NULL;
    vv_alloc_fail_at(1);
    int rc = vv_match_open("a(b)", &match, &error);
    vv_alloc_fail_at(0);
    if (rc == 0) { /* a build without failing allocations */
        vv_match_close(match);
        skip();
    }
    assert_int_equal(rc, -ENOMEM);
    assert_null(match);
}

struct worker {
    pthread_t thread;
    const struct vv_match *match;
    unsigned number;
    unsigned wrong;
};

static void *work(void *arg) {
    struct worker *worker = arg;
    for (unsigned i = 0; i < 2000; i++) {
        char name[64], key[32];
        snprintf(key, sizeof key, "v%u", (i + worker->number) % 7);
        snprintf(name, sizeof name, "file%u:%s", i, key);
        worker->wrong += vv_match_name(worker->match, name) != number_of(key);
    }
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    struct worker workers[4];
    struct vv_match *match = must_open("^[^:]*:(.*)");
    for (unsigned i = 0; i < 4; i++) {
        workers[i] = (struct worker){.match = match, .number = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].wrong, 0);
    }
    vv_match_close(match);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_names),     cmocka_unit_test(test_what_is_found),
        cmocka_unit_test(test_what_is_refused), cmocka_unit_test(test_repeats),
        cmocka_unit_test(test_language),        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
