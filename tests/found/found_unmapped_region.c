/* A region whose memory was unmapped before the next checkpoint, or before a restart: small ones ended the program with
 * SIGSEGV. It is an error that names the region. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <varve/varve.h>

#include "test.h"

#define PAGE ((size_t)4096)

static uint8_t *new_memory(size_t size) {
    uint8_t *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    memset(memory, 3, size);
    return memory;
}

static struct varve_session *open_session(const char *name, const char *settings) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    options.settings = settings;
    assert_int_equal(varve_open("mem://unmapped", name, &options, &session, NULL), 0);
    return session;
}

static void must_name(struct varve_session *session, int rc, const char *region) {
    assert_int_equal(rc, -EFAULT);
    if (!strstr(varve_session_error(session)->text, region))
        fail_msg("%s is not named: %s", region, varve_session_error(session)->text);
}

/* All of it, its end, and its middle. */
static void run(const char *settings, size_t size, size_t gone_from, size_t gone) {
    uint8_t *before = new_memory(PAGE), *memory = new_memory(size);
    static int64_t version;
    struct varve_session *session = open_session("save", settings);
    assert_int_equal(varve_protect(session, "before", before, PAGE), 0);
    assert_int_equal(varve_protect(session, "leaving", memory + 8, size - 8), 0);
    assert_int_equal(varve_checkpoint(session, ++version), 0);
    assert_int_equal(varve_wait(session), 0);
    munmap(memory + gone_from, gone);
    must_name(session, varve_checkpoint(session, ++version), "leaving");
    /* Without it everything goes on. */
    assert_int_equal(varve_unprotect(session, "leaving"), 0);
    before[7]++;
    assert_int_equal(varve_checkpoint(session, ++version), 0);
    assert_int_equal(varve_wait(session), 0);
    assert_int_equal(varve_close(session), 0);
    munmap(before, PAGE);
    munmap(memory, gone_from); /* the hole may be somebody else's by now */
    munmap(memory + gone_from + gone, size - gone_from - gone);
}

static void checkpoints(void **state) {
    static const char *const settings[] = {NULL, "capture=sync", "tracker=none", "tracker=trap-uffd"};
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        run(settings[i], PAGE, 0, PAGE);
        run(settings[i], 8 * PAGE, 7 * PAGE, PAGE);
        run(settings[i], 40 * PAGE, 20 * PAGE, PAGE);
        run(settings[i], 400 * PAGE, 0, 400 * PAGE);
        run(settings[i], 4000 * PAGE, 2000 * PAGE, PAGE);
    }
}

static void restarts(void **state) {
    static const size_t sizes[] = {PAGE, 40 * PAGE, 400 * PAGE};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint8_t *memory = new_memory(sizes[i]), *kept = new_memory(PAGE);
        struct varve_session *session = open_session("restart", NULL);
        assert_int_equal(varve_protect(session, "kept", kept, PAGE), 0);
        assert_int_equal(varve_protect(session, "gone", memory, sizes[i]), 0);
        assert_int_equal(varve_checkpoint(session, (int64_t)i + 1), 0);
        assert_int_equal(varve_wait(session), 0);
        munmap(memory, sizes[i]);
        memset(kept, 9, PAGE);
        must_name(session, varve_restart(session, VARVE_LATEST, NULL), "gone");
        assert_int_equal(kept[0], 9); /* nothing was written */
        memory = new_memory(sizes[i]);
        memory[5] = 1;
        assert_int_equal(varve_protect(session, "gone", memory, sizes[i]), 0);
        assert_int_equal(varve_restart(session, VARVE_LATEST, NULL), 0);
        assert_int_equal(memory[5], 3);
        assert_int_equal(kept[0], 3);
        assert_int_equal(varve_close(session), 0);
        munmap(memory, sizes[i]);
        munmap(kept, PAGE);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(checkpoints), cmocka_unit_test(restarts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
