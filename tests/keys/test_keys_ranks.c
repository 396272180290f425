/* Jobs in encrypted stores: all ranks have the key, or nobody opens the store; shared writers; and node-local stores,
 * one of which is lost and made anew. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <varve/varve_inspect.h>

#include "folder.h"
#include "nodes.h"
#include "test.h"

#define RIGHT_KEY "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define WRONG_KEY "00112233445566778899aabbccddeeff00112233445566778899aabbccddeefe"
#define RIGHT "encrypt=on,key=env:RIGHT_KEY"

/* Settings are those of rank 0. What the variable holds, and which folder a path begins in, is each rank's own. */
static void take_key(const struct ranks_job *job) {
    if (job->is_faulty && *job->plan->settings)
        setenv("RIGHT_KEY", WRONG_KEY, 1);
    else if (job->is_faulty)
        unsetenv("RIGHT_KEY");
}

static void open_with_one_other(struct ranks_job *job) {
    take_key(job);
    if (rank_open_as(job, NULL, NULL, RIGHT) == 0)
        rank_close(job);
}

static void open_where_one_has_no_file(struct ranks_job *job) {
    if (chdir(job->is_faulty ? "/" : job->plan->settings) != 0)
        abort();
    if (rank_open_as(job, NULL, NULL, "encrypt=on,key=file:varve-test.key") == 0)
        rank_close(job);
}

/* open, restart from plan->value if there is one, another checkpoint, close */
static void go_on(struct ranks_job *job) {
    char settings[128];
    snprintf(settings, sizeof settings, RIGHT ",%s", job->plan->settings);
    if (rank_open_as(job, NULL, NULL, settings) != 0)
        return;
    if (job->plan->value)
        rank_restart(job, VARVE_LATEST);
    rank_set(job, job->plan->value + 1);
    rank_checkpoint(job, job->plan->value + 1);
    rank_wait(job);
    rank_close(job);
}

static void verify(const char *folder) {
    struct varve_verify_options options = {.size = sizeof options};
    struct varve_verify_result result = {0};
    struct varve_store *store;
    struct varve_error error = {.text = ""};
    assert_int_equal(varve_store_open(folder, RIGHT, &store, &error), 0);
    assert_int_equal(varve_store_key_check(store, &error), 1);
    assert_int_equal(varve_store_verify(store, &options, &result, &error), 0);
    assert_int_equal(result.damaged_objects, 0);
    varve_store_close(store);
}

static void save_and_go_on(const char *settings) {
    struct plan plan = {.fn = go_on, .settings = settings, .faulty_rank = -1};
    for (plan.value = 0; plan.value < 3; plan.value++) {
        const struct board *board = ranks_run(&plan);
        ranks_expect(board, "open", 1, 0, -1, "");
        ranks_expect(board, "wait", 1, 0, -1, "");
        if (plan.value)
            assert_int_equal(ranks_answer(board, "restart", 1)->version, plan.value);
    }
    verify(ranks_folder());
}

static void alone(void **state) {
    (void)state;
    save_and_go_on("aggregate=off");
}

static void shared_writers(void **state) {
    (void)state;
    save_and_go_on("aggregate=2");
}

/* key: "wrong", or "" for none */
static void one_is_wrong(int rank, const char *key, int code, const char *word) {
    struct plan plan = {.fn = open_with_one_other, .settings = key, .faulty_rank = rank};
    ranks_expect(ranks_run(&plan), "open", 1, code, rank, word);
}

/* A rank without the key file: no reason to take the store for lost. */
static void no_file_on_one(void **state) {
    struct plan make = {.fn = go_on, .settings = "", .faulty_rank = -1};
    char folder[512], path[600];
    (void)state;
    ranks_run(&make);
    assert_int_equal(folder_make(NULL, "varve-key", folder, sizeof folder), 0);
    snprintf(path, sizeof path, "%s/varve-test.key", folder);
    mode_t before = umask(077);
    FILE *file = fopen(path, "w");
    umask(before);
    assert_non_null(file);
    fputs(RIGHT_KEY "\n", file);
    assert_int_equal(fclose(file), 0);
    struct plan plan = {.fn = open_where_one_has_no_file, .settings = folder, .faulty_rank = -1};
    ranks_expect(ranks_run(&plan), "open", 1, 0, -1, "");
    for (plan.faulty_rank = 0; plan.faulty_rank < RANKS; plan.faulty_rank++)
        ranks_expect(ranks_run(&plan), "open", 1, VARVE_SETTING, plan.faulty_rank, "no key file");
    assert_int_equal(folder_remove(folder), 0);
    verify(ranks_folder());
}

/* The same answer on all ranks, with the rank that has the wrong key; and the store is as good as before. */
static void wrong_on_one(void **state) {
    struct plan make = {.fn = go_on, .settings = "", .faulty_rank = -1};
    (void)state;
    ranks_run(&make);
    for (int rank = 0; rank < RANKS; rank++) {
        one_is_wrong(rank, "wrong", VARVE_KEY, "another key");
        one_is_wrong(rank, "", VARVE_SETTING, "RIGHT_KEY, which is not set");
    }
    make.value = 1;
    ranks_expect(ranks_run(&make), "restart", 1, 0, -1, "");
    verify(ranks_folder());
}

static void local_life(struct ranks_job *job) {
    if (node_open(job, RIGHT) != 0)
        return;
    if (job->plan->value)
        rank_restart(job, VARVE_LATEST);
    rank_set(job, job->plan->value + 1);
    rank_checkpoint(job, job->plan->value + 1);
    rank_wait(job);
    rank_close(job);
}

/* A node's disk is new: its store gets the key of the others, and their copies come back to it. */
static void local_stores(void **state) {
    struct plan plan = {.fn = local_life, .settings = "copies=2", .faulty_rank = -1};
    char folder[512];
    (void)state;
    nodes_place(0, 0, 1, 1);
    ranks_run(&plan);
    for (int node = 0; node < 2; node++) {
        plan.value++;
        node_lose(node);
        const struct board *board = ranks_run(&plan);
        ranks_expect(board, "open", 1, 0, -1, "");
        ranks_expect(board, "restart", 1, 0, -1, "");
        ranks_expect(board, "wait", 1, 0, -1, "");
        assert_int_equal(ranks_answer(board, "restart", 1)->version, plan.value);
        for (int each = 0; each < 2; each++) {
            node_folder(each, folder, sizeof folder);
            verify(folder);
        }
    }
}

/* The first copy of the store that is left is damaged: a new node gets the key from the second. */
static void local_damaged_copy(void **state) {
    struct plan plan = {.fn = local_life, .settings = "copies=2", .faulty_rank = -1};
    char folder[512], path[600];
    (void)state;
    nodes_place(0, 0, 1, 1);
    ranks_run(&plan);
    node_lose(1);
    node_folder(0, folder, sizeof folder);
    snprintf(path, sizeof path, "%s/keys/0", folder);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, 120, SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, 120, SEEK_SET), 0);
    fputc(byte ^ 1, file);
    assert_int_equal(fclose(file), 0);
    plan.value = 1;
    const struct board *board = ranks_run(&plan);
    ranks_expect(board, "open", 1, 0, -1, "");
    ranks_expect(board, "restart", 1, 0, -1, "");
    node_folder(1, folder, sizeof folder);
    verify(folder);
}

static void local_wrong(struct ranks_job *job) {
    take_key(job);
    struct plan plan = *job->plan;
    plan.settings = "";
    job->plan = &plan;
    if (node_open(job, RIGHT) == 0)
        rank_close(job);
}

/* A node that is new makes no store with another key. */
static void local_wrong_key(void **state) {
    struct plan plan = {.fn = local_life, .settings = "", .faulty_rank = -1};
    char folder[512], keys[600];
    (void)state;
    nodes_place(0, 1, 2, 3);
    ranks_run(&plan);
    node_lose(2);
    plan = (struct plan){.fn = local_wrong, .settings = "wrong", .faulty_rank = 2};
    ranks_expect(ranks_run(&plan), "open", 1, VARVE_KEY, 2, "another key");
    node_folder(2, folder, sizeof folder);
    snprintf(keys, sizeof keys, "%s/keys", folder);
    assert_false(is_there(keys));
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define ONE(name) cmocka_unit_test_setup_teardown(name, ranks_setup, ranks_teardown)
        ONE(alone),        ONE(shared_writers),     ONE(wrong_on_one),    ONE(no_file_on_one),
        ONE(local_stores), ONE(local_damaged_copy), ONE(local_wrong_key),
    };
    setenv("RIGHT_KEY", RIGHT_KEY, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
