/* aggregate=auto: when the ranks of a node share a writer, by what was measured. */
#include "comm/comm.h"
#include "test.h"
#include "write/output.h"

#define MIB ((uint64_t)1 << 20)

struct told {
    struct vv_job job;
    struct vv_outputs outputs;
};

static void begin(struct told *told) {
    *told = (struct told){0};
    told->job.comm = &vv_comm_single;
    told->outputs.job = &told->job;
    told->outputs.team.post = (struct vv_post *)told; /* that there is one is all that counts here */
    told->outputs.team.is_measured = 1;
    told->outputs.team.trial_gap = 16;
}

/* A checkpoint in the way that was chosen, which takes so long for 64 MiB. Returns whether it was shared. */
static int next(struct told *told, uint64_t protected_bytes, uint64_t shared_ms, uint64_t alone_ms) {
    struct varve_error error = {0};
    int is_shared = vv_team_wants(&told->outputs, protected_bytes);
    uint64_t took = (is_shared ? shared_ms : alone_ms) * 1000000;
    assert_int_equal(vv_team_learn(&told->outputs, is_shared, took, 64 * MIB, &error), 0);
    return is_shared;
}

/* Which of n checkpoints were shared, as a text. */
static const char *play(uint64_t protected_bytes, uint64_t shared_ms, uint64_t alone_ms, unsigned n) {
    static char text[100];
    struct told told;
    begin(&told);
    for (unsigned i = 0; i < n; i++)
        text[i] = next(&told, protected_bytes, shared_ms, alone_ms) ? 's' : '-';
    text[n] = 0;
    return text;
}

static void test_little_data_begins_shared(void **state) {
    (void)state;
    assert_string_equal(play(16 * MIB, 100, 200, 24), "ss-ssssssssssssssss-ssss");
    assert_string_equal(play(16 * MIB, 200, 100, 24), "ss-----------------s----");
    assert_string_equal(play(16 * MIB, 105, 100, 6), "ss-sss"); /* not so much faster */
}

static void test_much_data_begins_alone(void **state) {
    (void)state;
    assert_string_equal(play(64 * MIB, 200, 100, 24), "------------------s-----");
    assert_string_equal(play(64 * MIB, 100, 200, 24), "------------------ssssss");
}

static void test_too_little_to_measure(void **state) {
    struct told told;
    struct varve_error error = {0};
    (void)state;
    begin(&told);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(vv_team_wants(&told.outputs, MIB), 1);
        assert_int_equal(vv_team_learn(&told.outputs, 1, 1000000, MIB, &error), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_little_data_begins_shared),
        cmocka_unit_test(test_much_data_begins_alone),
        cmocka_unit_test(test_too_little_to_measure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
