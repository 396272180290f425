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
    assert_true(vv_schedule_is_due(&schedule, at(0, 0)));
    open_schedule("interval=asked");
    assert_false(vv_schedule_is_due(&schedule, at(1e6, 1e6)));
    open_schedule("interval_seconds=60");
    assert_false(vv_schedule_is_due(&schedule, at(59.9, 59.9)));
    assert_true(vv_schedule_is_due(&schedule, at(60, 60)));
    vv_schedule_made(&schedule, ns(60), ns(70), 0);
    assert_false(vv_schedule_is_due(&schedule, at(129.9, 129.9)));
    assert_true(vv_schedule_is_due(&schedule, at(130, 130)));
    open_schedule("interval_share=0.1");
    vv_schedule_made(&schedule, ns(0), ns(10), 0);
    assert_false(vv_schedule_is_due(&schedule, at(199, 199)));
    assert_true(vv_schedule_is_due(&schedule, at(200, 200)));
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
    assert_true(vv_schedule_is_due(&schedule, at(0, 0))); /* its cost is not known yet */
    vv_schedule_made(&schedule, ns(0), ns(30), 0);
    assert_false(vv_schedule_is_due(&schedule, at(30 + 2256, 30 + 2256)));
    assert_true(vv_schedule_is_due(&schedule, at(30 + 2258, 30 + 2258)));
    /* Cheaper ones: sooner. The wait for the one before is no cost of this one. */
    for (int i = 0; i < 20; i++)
        vv_schedule_made(&schedule, ns(3000 + i), ns(3000.9 + i), 900000000 - 1000);
    assert_true(vv_schedule_interval(&schedule) < 20);
    vv_schedule_durable(&schedule, 45); /* but not before the last one is durable */
    assert_true(vv_schedule_interval(&schedule) == 45);
}

static void a_restart_tells_the_cost(void **unused) {
    static const double nothing[] = {-1, NAN, INFINITY, 1e10};
    (void)unused;
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
        open_schedule("interval=auto,mtbf=86400");
        vv_schedule_resumed(&schedule, ns(5), nothing[i], nothing[i]);
        assert_true(vv_schedule_is_due(&schedule, at(5, 5)));
    }
    open_schedule("interval=auto,mtbf=86400");
    vv_schedule_resumed(&schedule, ns(5), 30, 40); /* the restart is no work that could be lost */
    assert_false(vv_schedule_is_due(&schedule, at(5 + 2256, 5 + 2256)));
    assert_true(vv_schedule_is_due(&schedule, at(5 + 2258, 5 + 2258)));
    vv_schedule_made(&schedule, ns(0), ns(10), 0);
    assert_about(schedule.cost, 20);
    vv_schedule_resumed(&schedule, ns(11), 1, 1); /* what was measured here counts */
    assert_about(schedule.cost, 20);
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
    assert_true(vv_schedule_is_due(&schedule, at(0, 0))); /* how long one takes is not known */
    vv_schedule_resumed(&schedule, ns(0), -1, 100);
    vv_schedule_guess(&schedule, 50);
    assert_about(vv_schedule_margin(&schedule), 220);
    assert_false(vv_schedule_is_due(&schedule, at(579, 579)));
    assert_true(vv_schedule_is_due(&schedule, at(580, 580)));     /* it may be slower now, or faster: */
    assert_false(vv_schedule_is_ending(&schedule, at(990, 990))); /* one is made to know it */
    vv_schedule_made(&schedule, ns(580), ns(581), 0);
    vv_schedule_flying(&schedule, 30); /* what another run has told does not count any more */
    assert_about(vv_schedule_margin(&schedule), 80);
    vv_schedule_durable(&schedule, 35);
    vv_schedule_flying(&schedule, 1);
    assert_about(vv_schedule_margin(&schedule), 90);
    assert_false(vv_schedule_is_due(&schedule, at(580, 580)));
    assert_true(vv_schedule_is_ending(&schedule, at(910, 910)));
    open_schedule("interval=asked,end_time=1800001000,end_slack=20");
    vv_schedule_guess(&schedule, 5); /* what a restart took tells less */
    assert_true(vv_schedule_is_due(&schedule, at(0, 0)));
    assert_about(vv_schedule_margin(&schedule), 30);
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
    open_schedule("interval=asked,end_time=1800001000,end_slack=20");
    vv_schedule_made(&schedule, ns(0), ns(1), 0);
    assert_false(vv_schedule_is_due(&schedule, at(900, 900)));
    vv_schedule_failed(&schedule); /* how long one takes is still not known */
    assert_false(vv_schedule_is_due(&schedule, at(60, 60)));
    assert_true(vv_schedule_is_due(&schedule, at(61, 61)));
    vv_schedule_made(&schedule, ns(900), ns(980), 0);
    vv_schedule_failed(&schedule);
    assert_true(vv_schedule_is_due(&schedule, at(982, 982))); /* a tenth of what is left */
    vv_schedule_durable(&schedule, 8);
    assert_false(vv_schedule_is_due(&schedule, at(983, 983)));
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
        cmocka_unit_test(intervals),
        cmocka_unit_test(best_interval),
        cmocka_unit_test(auto_follows_the_cost),
        cmocka_unit_test(ends),
        cmocka_unit_test(margins),
        cmocka_unit_test(jumps),
        cmocka_unit_test(a_restart_tells_the_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
