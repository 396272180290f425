/* A prune that should only tell what it would do made a file in the folder of the records for a moment; in the store of
 * somebody else it complained that it may not. What only looks must not write. */
#include "found/small.h"

static void look(struct varve_store *tool) {
    struct varve_error error = {0};
    struct varve_holder holder = {.size = sizeof holder};
    if (varve_store_prune(tool, NULL, 1, NULL, NULL, NULL, &error) < 0 ||
        varve_store_repair(tool, 1, NULL, NULL, &error) < 0 || varve_store_holder(tool, "job", &holder, &error) < 0)
        fail_msg("%s", error.text);
}

static void test_nothing_changes(void **state) {
    struct varve_store *tool = NULL;
    struct varve_error error = {0};
    (void)state;
    make_versions("job", "", 3);
    char *before = snapshot();
    assert_int_equal(varve_store_open(store_path, NULL, &tool, &error), 0);
    look(tool);
    varve_store_close(tool);
    expect_unchanged(before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_changes, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
