/* A program that ignored the error of its restart began anew, and keep=N forgot every checkpoint of the earlier run. They must stay, whether
 * keep was set or not, until a restart has succeeded. */
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

static void test_with(const char *settings) {
    struct varve_session *session = open_session(settings);
    assert_int_equal(varve_protect(session, "state", memory, SIZE), 0);
    save(session, 1, 2);
    assert_int_equal(varve_close(session), 0);

    session = open_session(settings);
    assert_int_equal(varve_protect(session, "state", memory, SIZE / 2), 0);
    assert_int_equal(varve_restart(session, VARVE_LATEST, NULL), VARVE_MISMATCH);
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
    test_with("keep=2,log=error");
}

static void test_default(void **state) {
    (void)state;
    store = "mem://failed-restart-default";
    test_with("log=error");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_set), cmocka_unit_test(test_default)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
