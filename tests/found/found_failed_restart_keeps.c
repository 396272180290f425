/* A program that ignored the error of its restart began anew, and keep=N forgot every checkpoint of the earlier run.
 * They must stay, whether keep was set or not, until a restart has succeeded. */
#include <errno.h>
#include <stdio.h>
#include <varve/varve.h>

#include "test.h"

#define SIZE 65536u

static uint8_t memory[SIZE];
static const char *store;

static struct varve_session *open_session(const char *settings) {
    struct varve_options options = {.size = sizeof options, .settings = settings};
    struct varve_session *session = NULL;
    assert_int_equal(varve_open(store, "job", &options, &session, NULL), 0);
    return session;
}

static void save(struct varve_session *session, int64_t from, int64_t to) {
    for (int64_t version = from; version <= to; version++) {
        memory[version] = (uint8_t)version;
        assert_int_equal(varve_checkpoint(session, version), 0);
        assert_int_equal(varve_wait(session), 0);
    }
}

/* What a program may have asked for in vain before it began anew. */
static int restart_in_vain(struct varve_session *session) {
    assert_int_equal(varve_protect(session, "state", memory, SIZE / 2), 0);
    return varve_restart(session, VARVE_LATEST, NULL);
}

static int tell_nothing_once(void *arg, struct varve_memory *out) {
    (void)out;
    return (*(int *)arg)-- > 0 ? -ENOMEM : 0;
}

/* The program cannot tell where its memory is, at first. */
static int restart_of_nothing(struct varve_session *session) {
    static int failures;
    failures = 1;
    assert_int_equal(varve_protect_moving(session, "moving", tell_nothing_once, &failures), 0);
    return varve_restart(session, VARVE_LATEST, NULL);
}

static void test_with(const char *settings, int (*restart_badly)(struct varve_session *), int wanted) {
    struct varve_session *session = open_session(settings);
    assert_int_equal(varve_protect(session, "state", memory, SIZE), 0);
    save(session, 1, 2);
    assert_int_equal(varve_close(session), 0);

    session = open_session(settings);
    assert_int_equal(restart_badly(session), wanted);
    save(session, 11, 15); /* as if nothing had happened */
    assert_int_equal(varve_close(session), 0);

    session = open_session(settings);
    assert_int_equal(varve_protect(session, "state", memory, SIZE), 0);
    assert_int_equal(varve_restart(session, 2, NULL), 0);
    assert_int_equal(memory[2], 2);
    assert_int_equal(varve_close(session), 0);
}

static void test_set(void **state) {
    (void)state;
    store = "mem://failed-restart-set";
    test_with("keep=2,log=error", restart_in_vain, VARVE_MISMATCH);
}

static void test_default(void **state) {
    (void)state;
    store = "mem://failed-restart-default";
    test_with("log=error", restart_in_vain, VARVE_MISMATCH);
}

static void test_not_begun(void **state) {
    (void)state;
    store = "mem://failed-restart-not-begun";
    test_with("log=error", restart_of_nothing, -ENOMEM);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_set), cmocka_unit_test(test_default),
                                       cmocka_unit_test(test_not_begun)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
