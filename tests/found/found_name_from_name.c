/* There was no way to begin the series of one name with a checkpoint of another: it took a claim on the name that is
 * only read, which a running job holds. Now a session with access=read restores it, and a second session saves it under
 * its own name. */
#include "found/small.h"

static void test_start_b_from_a(void **state) {
    (void)state;
    struct varve_session *a = open_name("a", ""); /* it runs all the time */
    expect(a, save(a, 1), 0);
    expect(a, save(a, 2), 0);
    struct varve_session *reader = open_name("a", "access=read");
    restart(reader, 2);
    assert_int_equal(varve_close(reader), 0);
    struct varve_session *b = open_name("b", "");
    expect(b, varve_checkpoint(b, 100), 0);
    assert_int_equal(varve_close(b), 0);
    memset(region, 0, SIZE);
    int64_t got;
    b = open_name("b", "");
    expect(b, varve_restart(b, VARVE_LATEST, &got), 0);
    assert_int_equal(got, 100);
    check_region(2);
    assert_int_equal(varve_close(b), 0);
    expect(a, save(a, 3), 0);
    assert_int_equal(varve_close(a), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_start_b_from_a, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
