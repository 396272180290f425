/* When a checkpoint is due by time: only arithmetic, with clocks that the test moves. */
#include <math.h>

#include "session/schedule.h"
#include "test.h"

#define SECOND UINT64_C(1000000000)
#define START_NS (50 * SECOND)
#define START_WALL (UINT64_C(1800000000) * SECOND)

static struct vv_settings settings;
static struct vv_schedule schedule;

static struct vv_now at(double seconds, double wall_seconds) {
    return (struct vv_now){START_NS + (uint64_t)(seconds * 1e9), START_WALL + (uint64_t)(int64_t)(wall_seconds * 1e9)};
}

static uint64_t ns(double seconds) {
    return at(seconds, 0).ns;
}

/* Seconds from nanoseconds are rounded. */
static void assert_about(double is, double expected) {
    if (!(fabs(is - expected) < 1e-6))
        fail_msg("%.9f is not %.9f", is, expected);
}

static void open_schedule(const char *text) {
    struct varve_error error = {.text = ""};
    vv_settings_init(&settings);
    if (vv_settings_set_text(&settings, text, "test", &error) != 0)
        fail_msg("%s", error.text);
    vv_schedule_open(&schedule, &settings, at(0, 0));
}

static void intervals(void **unused) {
    (void)unused;
    open_schedule("keep=3");
    assert_true(vv_schedule_is_due(&schedule, ns(0)));
    open_schedule("interval=asked");
    assert_false(vv_schedule_is_due(&schedule, ns(1e6)));
    open_schedule("interval_seconds=60");
    assert_false(vv_schedule_is_due(&schedule, ns(59.9)));
    assert_true(vv_schedule_is_due(&schedule, ns(60)));
    vv_schedule_made(&schedule, ns(60), ns(70), 0);
    assert_false(vv_schedule_is_due(&schedule, ns(129.9)));
    assert_true(vv_schedule_is_due(&schedule, ns(130)));
    open_schedule("interval_share=0.1");
    vv_schedule_made(&schedule, ns(0), ns(10), 0);
    assert_false(vv_schedule_is_due(&schedule, ns(199)));
    assert_true(vv_schedule_is_due(&schedule, ns(200)));
}

/* Daly's own form, and what the formula comes to where it is known otherwise. */
static void best_interval(void **unused) {
    (void)unused;
    assert_true(fabs(vv_interval_best(30, 86400) - 2256.8) < 1);
    assert_true(fabs(vv_interval_best(1e-6, 1e6) / sqrt(2) - 1) < 1e-5);
    assert_true(vv_interval_best(0, 100) == 0);
    assert_true(vv_interval_best(200, 100) == 100);
    assert_true(vv_interval_best(199.9, 100) > 0);
    assert_true(isnan(vv_interval_best(-1, 100)) && isnan(vv_interval_best(1, 0)) && isnan(vv_interval_best(NAN, 1)));
}

static void auto_follows_the_cost(void **unused) {
    (void)unused;
    open_schedule("interval=auto,mtbf=86400,interval_seconds=1");
    assert_true(vv_schedule_is_due(&schedule, ns(0))); /* its cost is not known yet */
    vv_schedule_made(&schedule, ns(0), ns(30), 0);
    assert_false(vv_schedule_is_due(&schedule, ns(30 + 2256)));
    assert_true(vv_schedule_is_due(&schedule, ns(30 + 2258)));
    /* Cheaper ones: sooner. The wait for the one before is no cost of this one. */
    for (int i = 0; i < 20; i++)
        vv_schedule_made(&schedule, ns(3000 + i), ns(3000.9 + i), 900000000 - 1000);
    assert_true(vv_schedule_interval(&schedule) < 20);
    vv_schedule_durable(&schedule, 45); /* but not before the last one is durable */
    assert_true(vv_schedule_interval(&schedule) == 45);
}

static void ends(void **unused) {
    (void)unused;
    assert_true(vv_end_time(0, NULL) == 0);
    assert_true(vv_end_time(0, "1800000000") == 1800000000);
    assert_true(vv_end_time(1, "1800000000") == 0);                   /* off */
    assert_true(vv_end_time(1700000000, "1800000000") == 1700000000); /* the earlier */
    assert_true(vv_end_time(1900000000, "1800000000") == 1800000000);
    assert_true(vv_end_time(1900000000, NULL) == 1900000000);
    static const char *const wrong[] = {"", "x", "1800000000x", "-5", "0", "nan", "inf", "1e99", "NONE"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_true(vv_end_time(0, wrong[i]) == 0);
}

static void margins(void **unused) {
    (void)unused;
    open_schedule("interval=asked,end_time=1800001000,end_slack=20");
    assert_about(vv_schedule_margin(&schedule), 20);
    vv_schedule_asked(&schedule, ns(300)); /* until here the program set itself up */
    assert_about(vv_schedule_margin(&schedule), 20);
    vv_schedule_asked(&schedule, ns(307));
    vv_schedule_asked(&schedule, ns(309));
    assert_about(vv_schedule_margin(&schedule), 27);
    vv_schedule_made(&schedule, ns(310), ns(330), 0); /* its time is no time between questions */
    vv_schedule_durable(&schedule, 40);
    assert_about(vv_schedule_margin(&schedule), 2 * 40 + 7 + 20);
    vv_schedule_asked(&schedule, ns(333));
    assert_about(vv_schedule_margin(&schedule), 107);
    assert_false(vv_schedule_is_ending(&schedule, at(892, 892)));
    assert_true(vv_schedule_is_ending(&schedule, at(893, 893)));
    assert_false(vv_schedule_is_late(&schedule, at(852, 852))); /* another 40 s for one that would wait */
    assert_true(vv_schedule_is_late(&schedule, at(853, 853)));
    vv_schedule_made(&schedule, ns(340), ns(341), 0); /* the 7 s are two checkpoints ago */
    vv_schedule_asked(&schedule, ns(342));
    assert_about(vv_schedule_margin(&schedule), 2 * 40 + 3 + 20);
    open_schedule("end_time=off");
    assert_false(vv_schedule_is_ending(&schedule, at(1e6, 1e9)));
    assert_false(vv_schedule_is_late(&schedule, at(1e6, 1e9)));
    assert_true(isinf(vv_schedule_left(&schedule, at(1, 1))));
}

/* Whatever a clock does, what is left never grows. */
static void jumps(void **unused) {
    (void)unused;
    open_schedule("end_time=1800001000");
    assert_about(vv_schedule_left(&schedule, at(0, 0)), 1000);
    assert_about(vv_schedule_left(&schedule, at(100, 100)), 900);
    assert_about(vv_schedule_left(&schedule, at(100, -1e6)), 900); /* set back: the other clock still counts */
    assert_about(vv_schedule_left(&schedule, at(100, 700)), 300);  /* set forward, or asleep meanwhile */
    assert_about(vv_schedule_left(&schedule, at(100, 4000)), -3000);
    open_schedule("end_time=1700000000"); /* over before it began */
    assert_true(vv_schedule_is_ending(&schedule, at(0, 0)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intervals), cmocka_unit_test(best_interval), cmocka_unit_test(auto_follows_the_cost),
        cmocka_unit_test(ends),      cmocka_unit_test(margins),       cmocka_unit_test(jumps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
