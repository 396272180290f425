/* When a checkpoint is due by time (schedule.h). */
#include "session/schedule.h"

#include <math.h>
#include <stdlib.h>

#define END_TIME_OFF 1   /* the word of the setting */
#define END_TIME_MAX 9e9 /* in nanoseconds it still fits into 63 bits */
#define SMOOTHING 0.5    /* how much the newest cost counts: the first checkpoint of a run is larger than the others */

static double seconds_between(uint64_t from_ns, uint64_t to_ns) {
    return (double)(int64_t)(to_ns - from_ns) * 1e-9;
}

double vv_end_time(double setting, const char *environment) {
    char *end = NULL;
    double told = environment ? strtod(environment, &end) : 0;
    if (!environment || end == environment || *end || !(told > END_TIME_OFF) || told > END_TIME_MAX)
        told = 0; /* not set, or no time */
    if (setting == END_TIME_OFF)
        return 0;
    return setting > END_TIME_OFF && (told == 0 || setting < told) ? setting : told;
}

void vv_schedule_open(struct vv_schedule *schedule, const struct vv_settings *settings, struct vv_now now) {
    *schedule = (struct vv_schedule){.interval = settings->interval,
                                     .seconds = settings->interval_seconds,
                                     .share = settings->interval_share,
                                     .mtbf = settings->mtbf,
                                     .slack = settings->end_slack,
                                     .opened_ns = now.ns,
                                     .last_ns = now.ns};
    if (settings->end_time <= END_TIME_OFF)
        return;
    schedule->has_end = 1;
    schedule->end_wall_ns = (int64_t)(settings->end_time * 1e9);
    schedule->end_ns = schedule->end_wall_ns - (int64_t)now.wall_ns + (int64_t)now.ns;
}

/* ---- the interval ---- */

double vv_interval_best(double cost, double mtbf) {
    if (!(cost >= 0) || !(mtbf > 0))
        return NAN;
    if (cost >= 2 * mtbf) /* it fails before it has saved anything, most times */
        return mtbf;
    double ratio = cost / (2 * mtbf);
    return sqrt(2 * cost * mtbf) * (1 + sqrt(ratio) / 3 + ratio / 9) - cost;
}

/* A checkpoint that begins before the last one is durable waits for it, so it is not begun. */
double vv_schedule_interval(const struct vv_schedule *schedule) {
    if (!schedule->has_cost)
        return 0;
    return fmax(vv_interval_best(schedule->cost, schedule->mtbf), schedule->durable);
}

/* One more checkpoint like the last keeps the total within its share of the run so far. */
static int is_affordable(const struct vv_schedule *schedule, uint64_t now_ns) {
    double run = seconds_between(schedule->opened_ns, now_ns);
    return schedule->seconds_spent + schedule->last_blocked <= schedule->share * run;
}

int vv_schedule_is_due(const struct vv_schedule *schedule, uint64_t now_ns) {
    double since = seconds_between(schedule->last_ns, now_ns);
    if (schedule->interval == VV_CHOOSE_INTERVAL_ASKED)
        return 0;
    if (schedule->interval == VV_CHOOSE_INTERVAL_AUTO)
        return since >= vv_schedule_interval(schedule);
    if (schedule->seconds <= 0 && schedule->share <= 0)
        return 1;
    if (schedule->seconds > 0 && since >= schedule->seconds)
        return 1;
    return schedule->share > 0 && is_affordable(schedule, now_ns);
}

/* ---- the end of the job ---- */

double vv_schedule_left(const struct vv_schedule *schedule, struct vv_now now) {
    if (!schedule->has_end)
        return INFINITY;
    return fmin(seconds_between(now.wall_ns, (uint64_t)schedule->end_wall_ns),
                seconds_between(now.ns, (uint64_t)schedule->end_ns));
}

double vv_schedule_margin(const struct vv_schedule *schedule) {
    return 2 * schedule->durable + fmax(schedule->gap, schedule->gap_before) + schedule->slack;
}

int vv_schedule_is_ending(const struct vv_schedule *schedule, struct vv_now now) {
    return vv_schedule_left(schedule, now) <= vv_schedule_margin(schedule);
}

int vv_schedule_is_late(const struct vv_schedule *schedule, struct vv_now now) {
    return vv_schedule_left(schedule, now) <= vv_schedule_margin(schedule) + schedule->durable;
}

/* ---- what has happened ---- */

void vv_schedule_asked(struct vv_schedule *schedule, uint64_t now_ns) {
    uint64_t before = schedule->asked_ns ? schedule->asked_ns : schedule->last_ns;
    if (schedule->asked_ns || schedule->has_cost) /* before the first call a program sets itself up */
        schedule->gap = fmax(schedule->gap, seconds_between(before, now_ns));
    schedule->asked_ns = now_ns;
}

void vv_schedule_made(struct vv_schedule *schedule, uint64_t begin_ns, uint64_t end_ns, uint64_t waited_ns) {
    double blocked = seconds_between(begin_ns, end_ns), own = blocked - (double)waited_ns * 1e-9;
    schedule->last_blocked = blocked;
    schedule->seconds_spent += blocked;
    schedule->cost = schedule->has_cost ? SMOOTHING * own + (1 - SMOOTHING) * schedule->cost : own;
    schedule->has_cost = 1;
    schedule->last_ns = end_ns;
    schedule->asked_ns = 0;
    schedule->gap_before = schedule->gap;
    schedule->gap = 0;
}

void vv_schedule_durable(struct vv_schedule *schedule, double seconds) {
    schedule->durable = seconds;
}
