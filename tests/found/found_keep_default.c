/* By default every checkpoint was kept, until the disk was full and the store locked. By default the newest three must
 * be kept, this must be said once, and the default must not remove what an earlier run has kept on purpose. */
#include "test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>
#include <varve/varve_inspect.h>

#define URI "mem://keep"

static char heard[4096];
static unsigned notes; /* lines that were heard */
static char memory[8192];

static void hear(void *arg, int level, const char *line) {
    (void)arg, (void)level;
    if (!strstr(line, "keep"))
        return; /* that it is a first run, for example */
    notes++;
    snprintf(heard + strlen(heard), sizeof heard - strlen(heard), "%s\n", line);
}

/* One life of a program: versions first to last, and what is heard of it. */
static void live(const char *name, const char *settings, int64_t first, int64_t last) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session;
    struct varve_error error = {0};
    options.settings = settings;
    options.log = hear;
    heard[0] = '\0';
    notes = 0;
    assert_int_equal(varve_open(URI, name, &options, &session, &error), 0);
    assert_int_equal(varve_protect(session, "memory", memory, sizeof memory), 0);
    for (int64_t version = first; version <= last; version++) {
        snprintf(memory, sizeof memory, "%s, version %" PRId64, name, version);
        assert_int_equal(varve_checkpoint(session, version), 0);
        assert_int_equal(varve_wait(session), 0);
    }
    assert_int_equal(varve_close(session), 0);
}

struct listed {
    unsigned count;
    int64_t oldest, newest;
};

static int on_checkpoint(void *arg, const struct varve_checkpoint_info *info) {
    struct listed *listed = arg;
    listed->oldest = listed->count == 0 || info->version < listed->oldest ? info->version : listed->oldest;
    listed->newest = listed->count == 0 || info->version > listed->newest ? info->version : listed->newest;
    listed->count++;
    return 0;
}

static void expect(const char *name, unsigned count, int64_t oldest, int64_t newest) {
    struct listed listed = {0};
    struct varve_store *store;
    struct varve_error error = {0};
    assert_int_equal(varve_store_open(URI, NULL, &store, &error), 0);
    assert_int_equal(varve_store_list(store, name, on_checkpoint, &listed, &error), 0);
    varve_store_close(store);
    assert_int_equal(listed.count, count);
    assert_int_equal(listed.oldest, oldest);
    assert_int_equal(listed.newest, newest);
}

static void three_are_kept_and_it_is_said_once(void **state) {
    (void)state;
    live("beside", NULL, 1, 2);
    live("heat", NULL, 1, 7);
    expect("heat", 3, 5, 7);
    expect("beside", 2, 1, 2); /* another name is not touched */
    assert_string_equal(heard,
                        "keeping the newest 3 checkpoints of heat in " URI " (keep=3); keep=all keeps every one\n");
    live("heat", NULL, 8, 8);
    expect("heat", 3, 6, 8);
    assert_int_equal(notes, 1);
    live("heat", "log=error", 9, 9);
    assert_int_equal(notes, 0);
}

static void who_sets_it_gets_it(void **state) {
    (void)state;
    live("all", "keep=all", 1, 6);
    assert_int_equal(notes, 0);
    live("all", "keep=0", 7, 8);
    expect("all", 8, 1, 8);
    live("all", "keep=4", 9, 9);
    expect("all", 4, 6, 9);
    assert_int_equal(notes, 0); /* whoever has set it knows */
    live("all", "keep=4,log=info", 10, 10);
    assert_non_null(strstr(heard, "keeping the newest 4 checkpoints of all in " URI " (keep=4, from program)"));
}

/* A run without the setting that the others had, or the first one with this library, must not empty an archive. */
static void what_others_kept_stays(void **state) {
    (void)state;
    live("archive", "keep=all", 1, 10);
    live("archive", NULL, 11, 15);
    expect("archive", 13, 1, 15);
    assert_int_equal(notes, 1);
    assert_non_null(strstr(heard, "and the 10 of earlier runs"));
    live("archive", "keep=3", 16, 16);
    expect("archive", 3, 14, 16);
}

static int set_up(void **state) {
    (void)state;
    unsetenv("VARVE_KEEP");
    return setenv("VARVE_CONFIG", "/dev/null", 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_are_kept_and_it_is_said_once),
        cmocka_unit_test(who_sets_it_gets_it),
        cmocka_unit_test(what_others_kept_stays),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
