/* What the checkpoints of a name need of the space they keep (varve_store_usage), of a store that was made wasteful:
 * nothing is emptied, so that a few old chunks keep whole attempts alive. */
#include <ftw.h>
#include <stdlib.h>

#include "test.h"
#include "wasteful.h"

static char folder[64], store[80];
static uint64_t bytes;

static int add_file(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)ftw;
    bytes += type == FTW_F && strstr(path, "/data/") ? (uint64_t)st->st_size : 0;
    return 0;
}

static struct varve_usage usage_of(struct varve_store *tool) {
    struct varve_usage usage = {.size = sizeof usage};
    struct varve_error error;
    if (varve_store_usage(tool, "job", NULL, NULL, &usage, &error) != 0)
        fail_msg("usage: %s", error.text);
    return usage;
}

/* The newest checkpoint is the whole memory, and the one before differs from it by what changed: no more is live. */
static void count_live(const struct wasteful *way) {
    struct varve_prune_result pruned;
    make_wasteful(way, store);
    struct varve_store *tool = open_tool(store);
    struct varve_usage usage = usage_of(tool);
    bytes = 0;
    nftw(store, add_file, 16, FTW_PHYS);
    double needed = wasteful_needs(way), live = (double)usage.bytes_live;
    print_message("%u ranks: live %.2f, kept %.2f of what is needed; %d attempts, %d packs\n", way->ranks,
                  live / needed, (double)usage.bytes_kept / needed, (int)usage.newest_attempts,
                  (int)usage.newest_packs);
    assert_int_equal(usage.checkpoints, 2);
    assert_true(live > needed * 0.95 && live < needed * 1.15);
    assert_true((double)usage.bytes_kept > 2 * live);
    assert_true(usage.newest_attempts > 10 && usage.newest_attempts <= usage.attempts);
    assert_true(usage.newest_packs >= usage.newest_attempts);
    assert_true(usage.bytes_kept + usage.bytes_free == bytes);
    assert_int_equal(varve_store_prune(tool, "job", 1, NULL, NULL, &pruned, NULL), 0);
    assert_int_equal(pruned.bytes, usage.bytes_free);
    varve_store_close(tool);
    folder_remove(store);
}

static void test_one_rank(void **state) {
    (void)state;
    count_live(&(struct wasteful){.ranks = 1, .settings = ""});
    count_live(&(struct wasteful){.ranks = 1, .settings = "fine=64"});
}

static void test_ranks(void **state) {
    (void)state;
    count_live(&(struct wasteful){.ranks = 4, .settings = "dedup=exact"});
    count_live(&(struct wasteful){.ranks = 4, .settings = "dedup=exact,aggregate=4"});
}

/* What was forgotten is free, and no longer live. */
static void test_forgotten_is_free(void **state) {
    struct varve_which which = {.name = "job", .version = WASTEFUL_CHECKPOINTS - 2};
    (void)state;
    make_wasteful(&(struct wasteful){.ranks = 1, .settings = ""}, store);
    struct varve_store *tool = open_tool(store);
    struct varve_usage before = usage_of(tool);
    assert_int_equal(varve_store_forget(tool, &which, NULL), 0);
    struct varve_usage after = usage_of(tool);
    assert_int_equal(after.checkpoints, 1);
    assert_true(after.bytes_live < before.bytes_live);
    assert_true(after.bytes_kept + after.bytes_free == before.bytes_kept + before.bytes_free);
    varve_store_close(tool);
    folder_remove(store);
}

static int stop(void *arg, uint64_t done, uint64_t total) {
    (void)arg;
    return done <= total;
}

static void test_arguments(void **state) {
    struct varve_usage usage = {.size = sizeof usage};
    struct varve_error error;
    (void)state;
    make_wasteful(&(struct wasteful){.ranks = 1, .settings = ""}, store);
    struct varve_store *tool = open_tool(store);
    assert_int_equal(varve_store_usage(NULL, "job", NULL, NULL, &usage, NULL), -EINVAL);
    assert_int_equal(varve_store_usage(tool, NULL, NULL, NULL, &usage, NULL), -EINVAL);
    assert_int_equal(varve_store_usage(tool, "nobody", NULL, NULL, &usage, NULL), VARVE_NO_CHECKPOINT);
    assert_int_equal(varve_store_usage(tool, "job", stop, NULL, &usage, &error), -EINTR);
    varve_store_close(tool);
    folder_remove(store);
}

static int setup(void **state) {
    (void)state;
    return make_folder(folder, store);
}

static int teardown(void **state) {
    (void)state;
    return folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_rank), cmocka_unit_test(test_ranks),
                                       cmocka_unit_test(test_forgotten_is_free), cmocka_unit_test(test_arguments)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
