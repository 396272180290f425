/* A region of which a part may not be read (PROT_NONE, a guard page) ended the program with SIGSEGV, and so did a
 * restart into memory that may not be written. Both are errors that name the region. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <varve/varve.h>

#include "test.h"

#define PAGE ((size_t)4096)
#define GUARD_INSTALL 102 /* MADV_GUARD_INSTALL, Linux 6.13 */

static int64_t version;

static uint8_t *new_memory(size_t size) {
    uint8_t *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    memset(memory, 3, size);
    return memory;
}

static struct varve_session *open_session(const char *settings) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    options.settings = settings;
    assert_int_equal(varve_open("mem://no-access", "no-access", &options, &session, NULL), 0);
    return session;
}

static void must_name(struct varve_session *session, int rc) {
    assert_int_equal(rc, -EFAULT);
    if (!strstr(varve_session_error(session)->text, "region arena"))
        fail_msg("it is not named: %s", varve_session_error(session)->text);
}

static void none_from_the_start(void **state) {
    static const size_t sizes[] = {2 * PAGE, 32 * PAGE, 4096 * PAGE};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint8_t *arena = mmap(NULL, sizes[i], PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        assert_int_equal(mprotect(arena, sizes[i] / 2, PROT_READ | PROT_WRITE), 0);
        memset(arena, 1, PAGE);
        struct varve_session *session = open_session(NULL);
        assert_int_equal(varve_protect(session, "arena", arena, sizes[i]), 0);
        must_name(session, varve_checkpoint(session, ++version));
        assert_int_equal(mprotect(arena, sizes[i], PROT_READ | PROT_WRITE), 0);
        assert_int_equal(varve_checkpoint(session, ++version), 0);
        assert_int_equal(varve_wait(session), 0);
        assert_int_equal(varve_close(session), 0);
        munmap(arena, sizes[i]);
    }
}

/* Of memory that is tracked already; what cannot be read is not missed silently. */
static void none_later(void **state) {
    static const char *const settings[] = {NULL, "capture=sync", "tracker=none", "capture=trap,staging=512K"};
    const size_t size = 1024 * PAGE;
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        struct varve_error error = {0};
        struct varve_options options = VARVE_OPTIONS_INIT;
        struct varve_session *session = NULL;
        options.settings = settings[i];
        int rc = varve_open("mem://no-access", "no-access", &options, &session, &error);
        if (rc == -ENOTSUP && settings[i] && strstr(settings[i], "trap")) {
            printf("not tried: %s: %s\n", settings[i], error.text);
            continue;
        }
        assert_int_equal(rc, 0); /* the others work everywhere */
        uint8_t *arena = new_memory(size);
        assert_int_equal(varve_protect(session, "arena", arena, size), 0);
        assert_int_equal(varve_checkpoint(session, ++version), 0);
        assert_int_equal(varve_wait(session), 0);
        assert_int_equal(mprotect(arena + 100 * PAGE, PAGE, PROT_NONE), 0);
        must_name(session, varve_checkpoint(session, ++version));
        assert_int_equal(mprotect(arena + 100 * PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
        assert_int_equal(varve_checkpoint(session, ++version), 0);
        assert_int_equal(varve_wait(session), 0);
        assert_int_equal(varve_close(session), 0);
        munmap(arena, size);
    }
}

static void guard_page(void **state) {
    const size_t size = 1024 * PAGE;
    uint8_t *arena = new_memory(size);
    (void)state;
    struct varve_session *session = open_session(NULL);
    assert_int_equal(varve_protect(session, "arena", arena, size), 0);
    assert_int_equal(varve_checkpoint(session, ++version), 0);
    assert_int_equal(varve_wait(session), 0);
    int is_guarded = madvise(arena + 100 * PAGE, PAGE, GUARD_INSTALL) == 0;
    if (!is_guarded)
        assert_int_equal(errno, EINVAL);
    else {
        must_name(session, varve_checkpoint(session, ++version));
        must_name(session, varve_checkpoint(session, ++version));
        assert_int_equal(varve_unprotect(session, "arena"), 0);
        assert_int_equal(varve_checkpoint(session, ++version), 0);
    }
    assert_int_equal(varve_close(session), 0);
    munmap(arena, size);
    if (!is_guarded) {
        print_message("skipped: no guard pages before Linux 6.13\n");
        skip();
    }
}

static void restart_into(void **state) {
    static const int protections[] = {PROT_NONE, PROT_READ};
    static const size_t sizes[] = {PAGE, 1024 * PAGE};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        size_t size = sizes[i / 2];
        uint8_t *arena = new_memory(size);
        struct varve_session *session = open_session(NULL);
        assert_int_equal(varve_protect(session, "arena", arena, size), 0);
        assert_int_equal(varve_checkpoint(session, ++version), 0);
        assert_int_equal(varve_wait(session), 0);
        arena[9] = 77;
        assert_int_equal(mprotect(arena + size - PAGE, PAGE, protections[i % 2]), 0);
        must_name(session, varve_restart(session, VARVE_LATEST, NULL));
        assert_int_equal(mprotect(arena, size, PROT_READ | PROT_WRITE), 0);
        assert_int_equal(arena[9], 77);
        assert_int_equal(varve_restart(session, VARVE_LATEST, NULL), 0);
        assert_int_equal(arena[9], 3);
        assert_int_equal(varve_close(session), 0);
        munmap(arena, size);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(none_from_the_start), cmocka_unit_test(none_later),
                                       cmocka_unit_test(guard_page), cmocka_unit_test(restart_into)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
