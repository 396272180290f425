/* varve_store_compact on all kinds of regions, and on two lives of a job that made the same versions: the store is
 * compared with a copy made before, checkpoint by checkpoint, and the job goes on from it. */
#include <stdlib.h>

#include "details.h"
#include "test.h"
#include "wasteful.h"

#define LIFE 20
#define MOST 16 /* checkpoints that are left */

static char folder[64], store[80], copy[80];

static struct regions {
    struct wasteful_memory memory;
    double lossy[64][100];
    float field[32][33];
    uint8_t small[13], short_end[10001], zeros[65536], pattern[40000];
} now;

static void change_regions(int step) {
    wasteful_change(&now.memory);
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 100; j++)
            now.lossy[i][j] = step * 0.25 + i * 0.5 + j / 7.0;
    now.field[step % 32][step % 33] = (float)step;
    now.small[step % 13]++;
    now.short_end[10000 - step % 7] = (uint8_t)step;
    now.zeros[(step * 4099) % 65536] = (uint8_t)step;
    for (size_t i = 0; i < sizeof now.pattern; i++) /* all of it the same 64 bytes again and again */
        now.pattern[i] = (uint8_t)((i % 64) * 3 + (size_t)(step / 5));
}

static struct varve_session *open_session(const char *settings) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error;
    struct varve_array lossy = {.size = sizeof lossy,
                                .type = VARVE_F64,
                                .dims = 2,
                                .dim = {{64, 0, 64}, {100, 0, 100}},
                                .lossy = "zfp",
                                .bound = 1e-3};
    struct varve_array field = {.size = sizeof field, .type = VARVE_F32, .dims = 2, .dim = {{32, 32, 64}, {33, 0, 33}}};
    options.settings = settings;
    if (varve_open(store, "job", &options, &session, &error) != 0)
        fail_msg("open: %s", error.text);
    assert_int_equal(varve_protect(session, "memory", now.memory.bytes, sizeof now.memory.bytes), 0);
    assert_int_equal(varve_protect_array(session, "lossy", now.lossy, &lossy), 0);
    assert_int_equal(varve_protect_array(session, "field", now.field, &field), 0);
    assert_int_equal(varve_protect(session, "small", now.small, sizeof now.small), 0);
    assert_int_equal(varve_protect(session, "short", now.short_end, sizeof now.short_end), 0);
    assert_int_equal(varve_protect(session, "zeros", now.zeros, sizeof now.zeros), 0);
    assert_int_equal(varve_protect(session, "pattern", now.pattern, sizeof now.pattern), 0);
    return session;
}

static void checkpoint(struct varve_session *session, int version) {
    change_regions(version);
    if (varve_checkpoint(session, version) != 0 || varve_wait(session) != 0)
        fail_msg("checkpoint %d: %s", version, varve_session_error(session)->text);
}

/* The second life goes back by two, and makes these versions anew. */
static void live_twice(const char *settings) {
    struct varve_session *session = open_session(settings);
    for (int i = 0; i < LIFE; i++)
        checkpoint(session, i);
    varve_close(session);
    session = open_session(settings);
    assert_int_equal(varve_restart(session, LIFE - 3, NULL), 0);
    checkpoint(session, LIFE - 2);
    checkpoint(session, LIFE - 1);
    varve_close(session);
}

struct list {
    struct varve_checkpoint_info info[MOST];
    size_t count;
};

static int take(void *arg, const struct varve_checkpoint_info *info) {
    struct list *list = arg;
    assert_true(list->count < MOST);
    list->info[list->count++] = *info;
    return 0;
}

/* Bytes by digest, place or looking at them: all that a program would get, and what `varve show` tells of it. */
static void check_same(struct varve_store *tool, struct varve_store *before) {
    struct list list = {.count = 0}, old = {.count = 0};
    struct varve_error error = {.text = ""};
    assert_int_equal(varve_store_list(tool, "job", take, &list, &error), 0);
    assert_int_equal(varve_store_list(before, "job", take, &old, &error), 0);
    assert_int_equal(list.count, old.count);
    for (size_t i = 0; i < list.count; i++) {
        const struct varve_checkpoint_info *a = &list.info[i], *b = &old.info[i];
        struct varve_which which = {.name = "job", .version = a->version, .generation = a->generation};
        struct varve_which was = {.name = "job", .version = b->version, .generation = b->generation};
        struct varve_compare_options options = {.size = sizeof options, .second = before};
        assert_true(a->version == b->version && a->generation > b->generation && a->time_ns == b->time_ns);
        assert_true(a->regions == b->regions && a->bytes_protected == b->bytes_protected);
        int rc = varve_store_compare(tool, &which, &was, &options, NULL, &error);
        if (rc != 0)
            fail_msg("version %d of generation %u: %d %s", (int)a->version, a->generation, rc, error.text);
    }
}

static void check_whole(struct varve_store *tool) {
    struct varve_verify_options options = {.size = sizeof options};
    struct varve_verify_result result;
    assert_int_equal(varve_store_verify(tool, &options, &result, NULL), 0);
    assert_int_equal(result.damaged_objects + result.lost_checkpoints, 0);
}

/* With all that is stored known by its ids, a session that has its data stores nothing again. */
static void go_on(const char *settings, int is_continued) {
    static struct regions then;
    struct vv_details stats = {0};
    struct varve_session *session = open_session(settings);
    int64_t version = 0;
    then = now;
    if (is_continued) {
        assert_int_equal(varve_continue(session, VARVE_LATEST, &version), 0);
    } else {
        memset(now.memory.bytes, 0, sizeof now.memory.bytes);
        memset(now.small, 0, sizeof now.small);
        assert_int_equal(varve_restart(session, VARVE_LATEST, &version), 0);
        assert_memory_equal(now.memory.bytes, then.memory.bytes, sizeof now.memory.bytes);
        assert_memory_equal(now.small, then.small, sizeof now.small);
    }
    if (varve_checkpoint(session, version + 1) != 0 || varve_wait(session) != 0)
        fail_msg("checkpoint: %s", varve_session_error(session)->text);
    assert_int_equal(vv_details_get(session, &stats), 0);
    assert_true(stats.bytes_new < 300000);
    varve_close(session);
}

/* Both lives are kept, with the same versions: the older ones have to go first. */
static void forget_first_life(struct varve_store *tool) {
    struct varve_error error = {.text = ""};
    assert_int_equal(varve_store_compact(tool, "job", NULL, NULL, &error), VARVE_UNSUPPORTED);
    assert_non_null(strstr(error.text, "job@19:1"));
    for (int version = LIFE - 2; version < LIFE; version++) {
        struct varve_which which = {.name = "job", .version = version, .generation = 1};
        if (varve_store_forget(tool, &which, &error) != 0)
            fail_msg("forget: %s", error.text);
    }
}

static void run(const char *settings) {
    struct varve_compact_result result = {.size = sizeof result};
    struct varve_usage usage = {.size = sizeof usage};
    struct varve_error error = {.text = ""};
    char command[256];
    memset(&now, 0, sizeof now);
    wasteful_begin(&now.memory, 0);
    live_twice(settings);
    struct varve_store *tool = open_tool(store);
    forget_first_life(tool);
    snprintf(command, sizeof command, "cp -a %s %s", store, copy);
    assert_int_equal(system(command), 0);
    struct varve_store *before = open_tool(copy);
    assert_int_equal(varve_store_usage(tool, "job", NULL, NULL, &usage, &error), 0);
    if (varve_store_compact(tool, "job", NULL, &result, &error) != 0)
        fail_msg("compact: %s", error.text);
    print_message("%s: %d checkpoints, %.2f of what is needed before, %.3f after\n", settings, (int)result.moved,
                  (double)result.bytes_before / (double)result.bytes_live,
                  (double)result.bytes_after / (double)result.bytes_live);
    assert_true(result.moved >= 2);
    assert_true((double)result.bytes_after <= 1.05 * (double)result.bytes_live);
    assert_true((double)result.bytes_after <= 1.05 * (double)usage.bytes_live); /* and compressed as well as before */
    check_same(tool, before);
    check_whole(tool);
    go_on(settings, 1);
    go_on(settings, 0);
    check_whole(tool);
    varve_store_close(before);
    varve_store_close(tool);
    folder_remove(store);
    folder_remove(copy);
}

static void test_kinds(void **state) {
    (void)state;
    run("keep=4,space=0,log=error");
    run("keep=4,space=0,log=error,fine=64");
    run("keep=4,space=0,log=error,codec=none,block_size=64K");
    run("keep=4,space=0,log=error,codec=size,part_size=1M");
}

static int setup(void **state) {
    (void)state;
    if (make_folder(folder, store) != 0)
        return -1;
    snprintf(copy, sizeof copy, "%.64s/copy", folder);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    return folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kinds)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
