/* A thread that writes protected memory during varve_checkpoint breaks the rules. But what was drained was read twice,
 * once for its id and once to be stored: the checkpoint was reported and could never be read back. Whatever is stored
 * must be readable, or the checkpoint must fail. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>
#include <varve/varve_inspect.h>

#include "test.h"

#define SIZE ((size_t)8 << 20)
#define ROUNDS 12

static uint8_t *data;
static atomic_int is_over;

static void *scribble(void *arg) {
    uint64_t x = 88172645463325252u;
    while (!atomic_load(&is_over)) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        __atomic_store_n((uint64_t *)(void *)data + x % (SIZE / 8), x, __ATOMIC_RELAXED);
    }
    return arg;
}

static void run(const char *settings) {
    static int64_t version;
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    pthread_t thread;
    int64_t last = -1;
    options.settings = settings;
    atomic_store(&is_over, 0);
    assert_int_equal(varve_open("mem://two-reads", "two", &options, &session, NULL), 0);
    assert_int_equal(varve_protect(session, "data", data, SIZE), 0);
    assert_int_equal(pthread_create(&thread, NULL, scribble, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        int rc = varve_checkpoint(session, ++version);
        last = rc == 0 && varve_wait(session) == 0 ? version : last;
    }
    atomic_store(&is_over, 1);
    pthread_join(thread, NULL);
    varve_close(session);
    assert_true(last > 0);
    assert_int_equal(varve_open("mem://two-reads", "two", NULL, &session, NULL), 0);
    assert_int_equal(varve_protect(session, "data", data, SIZE), 0);
    for (int64_t v = last; v > last - ROUNDS / 2 && v > 0; v--) {
        int rc = varve_restart(session, v, NULL);
        if (rc != 0 && rc != -ENOENT)
            fail_msg("%s: version %d: %s", settings, (int)v, varve_session_error(session)->text);
    }
    varve_close(session);
}

static void whatever_is_stored_can_be_read(void **state) {
    (void)state;
    data = calloc(1, SIZE);
    assert_non_null(data);
    run("capture=sync,tracker=none,fine=1,keep=0");
    run("capture=sync,tracker=none,fine=64,keep=0");
    run("staging=512K,tracker=none,keep=0");
    free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(whatever_is_stored_can_be_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
