#include "base/steps.h"
#include "test.h"

struct told {
    uint64_t done, total;
    int answer;
};

static int tell(void *arg, uint64_t done, uint64_t total) {
    struct told *told = arg;
    told->done = done;
    told->total = total;
    return told->answer;
}

static void what_is_found_is_the_total(void **state) {
    struct told told = {0};
    struct vv_steps steps = {.fn = tell, .arg = &told};
    (void)state;
    vv_steps_found(&steps, 2);
    assert_int_equal(vv_steps_did(&steps), 0);
    assert_int_equal(told.done, 1);
    assert_int_equal(told.total, 2);
    vv_steps_left(&steps, 1); /* as known before */
    vv_steps_left(&steps, 5);
    assert_int_equal(vv_steps_did(&steps), 0);
    assert_int_equal(told.total, 6);
}

static void there_is_never_more_done_than_all(void **state) {
    struct told told = {0};
    struct vv_steps steps = {.fn = tell, .arg = &told};
    (void)state;
    assert_int_equal(vv_steps_did(&steps), 0);
    assert_int_equal(told.done, 1);
    assert_int_equal(told.total, 1);
}

static void parts_to_come_are_like_those_before(void **state) {
    struct told told = {0};
    struct vv_steps steps = {.fn = tell, .arg = &told, .parts = 4};
    (void)state;
    vv_steps_found(&steps, 10);
    assert_int_equal(vv_steps_did(&steps), 0);
    assert_int_equal(told.total, 40);
    steps.parts_done = 1;
    vv_steps_found(&steps, 20);
    assert_int_equal(vv_steps_did(&steps), 0);
    assert_int_equal(told.total, 60);
    steps.parts_done = 4; /* one more than there were when they were counted */
    assert_int_equal(vv_steps_did(&steps), 0);
    assert_int_equal(told.total, 30);
}

static void an_answer_stops(void **state) {
    struct told told = {.answer = 1};
    struct vv_steps steps = {.fn = tell, .arg = &told};
    (void)state;
    assert_int_equal(vv_steps_did(&steps), -EINTR);
    assert_int_equal(vv_steps_did(NULL), 0);
    vv_steps_found(NULL, 1);
    vv_steps_left(NULL, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_found_is_the_total),
        cmocka_unit_test(there_is_never_more_done_than_all),
        cmocka_unit_test(parts_to_come_are_like_those_before),
        cmocka_unit_test(an_answer_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
