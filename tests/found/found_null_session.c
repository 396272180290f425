/* A failed open left the caller's pointer unset, and every call on a NULL session ended the program with SIGSEGV.
 * A failed open sets the pointer to NULL, and a call without a session or a store is -EINVAL. */
#include <errno.h>
#include <string.h>
#include <varve/varve_comm.h>
#include <varve/varve_device.h>
#include <varve/varve_inspect.h>

#include "test.h"

#define NOWHERE "/nonexistent/folder/store"

static struct varve_session *const none = NULL;

static void open_sets_null(void **state) {
    struct varve_session *session = (void *)(uintptr_t)0x5a5a;
    struct varve_options wrong = {.size = 1};
    struct varve_comm nobody = {0};
    (void)state;
    assert_true(varve_open(NOWHERE, "x", NULL, &session, NULL) < 0);
    assert_null(session);
    session = (void *)(uintptr_t)0x5a5a;
    assert_int_equal(varve_open(NULL, "x", NULL, &session, NULL), -EINVAL);
    assert_null(session);
    session = (void *)(uintptr_t)0x5a5a;
    assert_int_equal(varve_open("mem://null", "x", &wrong, &session, NULL), -EINVAL);
    assert_null(session);
    session = (void *)(uintptr_t)0x5a5a;
    assert_int_equal(varve_open_comm(&nobody, "mem://null", "x", NULL, &session, NULL), -EINVAL);
    assert_null(session);
    assert_int_equal(varve_open("mem://null", "x", NULL, NULL, NULL), -EINVAL);
}

static int no_memory(void *arg, struct varve_memory *out) {
    (void)arg, (void)out;
    return 0;
}

static void regions_need_a_session(void **state) {
    char byte = 0;
    struct varve_array array = {.size = sizeof array, .type = VARVE_U8, .dims = 1, .dim = {{1, 0, 1}}};
    struct varve_callbacks callbacks = {.size = sizeof callbacks};
    struct varve_device_ops ops = {.size = sizeof ops};
    (void)state;
    assert_int_equal(varve_protect(none, "r", &byte, 1), -EINVAL);
    assert_int_equal(varve_protect_flags(none, "r", &byte, 1, 0), -EINVAL);
    assert_int_equal(varve_protect_array(none, "r", &byte, &array), -EINVAL);
    assert_int_equal(varve_describe(none, "r", &array), -EINVAL);
    assert_int_equal(varve_fine(none, "r", 64), -EINVAL);
    assert_int_equal(varve_protect_callback(none, "r", &callbacks, NULL), -EINVAL);
    assert_int_equal(varve_protect_device(none, "r", 1, 0, &ops, NULL), -EINVAL);
    assert_int_equal(varve_protect_moving(none, "r", no_memory, NULL), -EINVAL);
    assert_int_equal(varve_protect_moving(none, NULL, NULL, NULL), -EINVAL);
    assert_int_equal(varve_device_error(none, -EIO, "text"), -EINVAL);
    assert_null(varve_alloc(none, "r", 1));
    varve_free(none, &byte);
    assert_int_equal(varve_unprotect(none, "r"), -EINVAL);
}

static void no_stat(void *arg, const struct varve_stat *stat) {
    (void)arg, (void)stat;
    fail();
}

static void checkpoints_need_a_session(void **state) {
    struct varve_stats stats = {.size = sizeof stats};
    int64_t version = -7;
    (void)state;
    assert_int_equal(varve_checkpoint(none, 1), -EINVAL);
    assert_int_equal(varve_release(none), -EINVAL);
    assert_int_equal(varve_wait(none), -EINVAL);
    assert_int_equal(varve_test(none), -EINVAL);
    assert_int_equal(varve_need(none), -EINVAL);
    assert_int_equal(varve_restart(none, VARVE_LATEST, &version), -EINVAL);
    assert_int_equal(varve_restart_regions(none, VARVE_LATEST, NULL, 0, 0, &version), -EINVAL);
    assert_int_equal(varve_continue(none, VARVE_LATEST, &version), -EINVAL);
    assert_int_equal(varve_reject(none, 1), -EINVAL);
    assert_int_equal(varve_stored(none, VARVE_LATEST, NULL, NULL, &version), -EINVAL);
    assert_int_equal(varve_stats_get(none, &stats), -EINVAL);
    assert_int_equal(varve_stats_each(none, no_stat, NULL), -EINVAL);
    assert_int_equal(varve_close(none), 0);
    assert_int_equal(version, -7);
}

/* A program that prints the text of a failed call must not end there. */
static void the_error_tells_it(void **state) {
    const struct varve_error *error = varve_session_error(none);
    (void)state;
    assert_non_null(error);
    assert_int_equal(error->code, -EINVAL);
    assert_non_null(strstr(error->text, "varve_open"));
}

static int no_checkpoint(void *arg, const struct varve_checkpoint_info *info) {
    (void)arg, (void)info;
    return 0;
}

static int no_bytes(void *arg, uint64_t offset, const void *data, size_t size, uint64_t total) {
    (void)arg, (void)offset, (void)data, (void)size, (void)total;
    return 0;
}

static int no_block(void *arg, const struct varve_block_range *block) {
    (void)arg, (void)block;
    return 0;
}

static int no_difference(void *arg, const struct varve_difference *difference) {
    (void)arg, (void)difference;
    return 0;
}

static void inspection_needs_a_store(void **state) {
    struct varve_store *store = (void *)(uintptr_t)0x5a5a;
    struct varve_which which = {.name = "x", .version = -1};
    struct varve_checkpoint_detail detail;
    struct varve_range range;
    struct varve_compare_options compare = {.size = sizeof compare};
    struct varve_compare_result compared = {.size = sizeof compared};
    struct varve_store_totals totals;
    struct varve_verify_options verify = {.size = sizeof verify};
    struct varve_verify_result verified;
    struct varve_prune_result pruned;
    struct varve_holder holder = {.size = sizeof holder};
    (void)state;
    assert_true(varve_store_open(NOWHERE, NULL, &store, NULL) < 0);
    assert_null(store);
    assert_int_equal(varve_store_list(NULL, NULL, no_checkpoint, NULL, NULL), -EINVAL);
    assert_int_equal(varve_store_resolve(NULL, &which, NULL), -EINVAL);
    assert_int_equal(varve_store_show(NULL, &which, &detail, NULL, NULL, NULL), -EINVAL);
    assert_int_equal(varve_store_range(NULL, &which, 0, "r", &range, NULL), -EINVAL);
    assert_int_equal(varve_store_ranges(NULL, &which, 0, "r", no_block, NULL, NULL), -EINVAL);
    assert_int_equal(varve_store_read(NULL, &which, 0, "r", 0, no_bytes, NULL, NULL), -EINVAL);
    assert_int_equal(varve_store_diff(NULL, &which, &which, no_difference, NULL, NULL), -EINVAL);
    assert_int_equal(varve_store_compare(NULL, &which, &which, &compare, &compared, NULL), -EINVAL);
    assert_int_equal(varve_store_stats(NULL, NULL, &totals, NULL), -EINVAL);
    assert_int_equal(varve_store_verify(NULL, &verify, &verified, NULL), -EINVAL);
    assert_int_equal(varve_store_forget(NULL, &which, NULL), -EINVAL);
    assert_int_equal(varve_store_prune(NULL, NULL, 1, NULL, NULL, &pruned, NULL), -EINVAL);
    assert_int_equal(varve_store_compact(NULL, "x", NULL, NULL, NULL), -EINVAL);
    assert_int_equal(varve_store_copy(NULL, &which, "x", "x", NULL, NULL, NULL), -EINVAL);
    assert_int_equal(varve_store_repair(NULL, 1, NULL, NULL, NULL), -EINVAL);
    assert_int_equal(varve_store_holder(NULL, "x", &holder, NULL), -EINVAL);
    assert_int_equal(varve_store_unlock(NULL, "x", 1, NULL, NULL, &holder, NULL), -EINVAL);
    assert_int_equal(varve_store_unlock(NULL, "x", 1, NULL, NULL, NULL, NULL), -EINVAL);
    varve_store_progress(NULL, NULL, NULL);
    varve_store_close(NULL);
}

static void inspection_needs_a_name(void **state) {
    struct varve_session *session;
    struct varve_store *store;
    struct varve_checkpoint_detail detail;
    struct varve_holder holder = {.size = sizeof holder};
    (void)state;
    assert_int_equal(varve_open("mem://null", "x", NULL, &session, NULL), 0);
    assert_int_equal(varve_store_open("mem://null", NULL, &store, NULL), 0);
    assert_int_equal(varve_store_resolve(store, NULL, NULL), -EINVAL);
    assert_int_equal(varve_store_show(store, NULL, &detail, NULL, NULL, NULL), -EINVAL);
    assert_int_equal(varve_store_read(store, NULL, 0, "r", 0, no_bytes, NULL, NULL), -EINVAL);
    assert_int_equal(varve_store_forget(store, NULL, NULL), -EINVAL);
    assert_int_equal(varve_store_holder(store, NULL, &holder, NULL), -EINVAL);
    assert_int_equal(varve_store_holder(store, "x", NULL, NULL), -EINVAL);
    assert_int_equal(varve_store_unlock(store, NULL, 1, NULL, NULL, &holder, NULL), -EINVAL);
    varve_store_close(store);
    assert_int_equal(varve_close(session), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_sets_null),
        cmocka_unit_test(regions_need_a_session),
        cmocka_unit_test(checkpoints_need_a_session),
        cmocka_unit_test(the_error_tells_it),
        cmocka_unit_test(inspection_needs_a_store),
        cmocka_unit_test(inspection_needs_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
