/* When a checkpoint is due by time (schedule.h). */
#include "session/schedule.h"

#include <math.h>
#include <stdlib.h>

#define END_TIME_OFF 1      /* the word of the setting */
#define END_TIME_MAX 9e9    /* in nanoseconds it still fits into 63 bits */
#define TOLD_MAX 1e9        /* nobody measures more; what is stored is not trusted */
#define FAILED_SECONDS 60.0 /* after one that has failed, */
#define FAILED_TIMES 10.0   /* or so many times as long as its call took */
#define SMOOTHING 0.5 /* how much the newest cost counts: the first checkpoint of a run is larger than the others */

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
                                     .cost = -1,
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
    if (schedule->cost < 0)
        return 0;
    return fmax(vv_interval_best(schedule->cost, schedule->mtbf), schedule->has_made ? schedule->durable : 0);
}

/* One more checkpoint like the last keeps the total within its share of the run so far. */
static int is_affordable(const struct vv_schedule *schedule, uint64_t now_ns) {
    double run = seconds_between(schedule->opened_ns, now_ns);
    return schedule->seconds_spent + schedule->last_blocked <= schedule->share * run;
}

/* Seconds from one that has failed to the next try. The end of the job does not wait. */
static double pause_after_failure(const struct vv_schedule *schedule, struct vv_now now) {
    return fmin(fmax(FAILED_SECONDS, FAILED_TIMES * schedule->last_blocked), vv_schedule_left(schedule, now) / 10);
}

static int must_measure(const struct vv_schedule *schedule, struct vv_now now) {
    if (!schedule->has_end)
        return 0;
    if (schedule->has_failed && !schedule->is_measured && !schedule->is_told)
        return seconds_between(schedule->last_ns, now.ns) >= pause_after_failure(schedule, now);
    if (schedule->has_made)
        return 0;
    return !schedule->is_told ||
           vv_schedule_left(schedule, now) <= vv_schedule_margin(schedule) + 2 * schedule->durable;
}

int vv_schedule_is_due(const struct vv_schedule *schedule, struct vv_now now) {
    double since = seconds_between(schedule->last_ns, now.ns);
    if (must_measure(schedule, now))
        return 1;
    if (schedule->interval == VV_CHOOSE_INTERVAL_ASKED)
        return 0;
    if (schedule->interval == VV_CHOOSE_INTERVAL_AUTO)
        return since >= vv_schedule_interval(schedule);
    if (schedule->seconds <= 0 && schedule->share <= 0)
        return 1;
    if (schedule->seconds > 0 && since >= schedule->seconds)
        return 1;
    return schedule->share > 0 && is_affordable(schedule, now.ns);
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
    if (schedule->is_told && !schedule->has_made)
        return 0;
    return vv_schedule_left(schedule, now) <= vv_schedule_margin(schedule);
}

int vv_schedule_is_late(const struct vv_schedule *schedule, struct vv_now now) {
    return vv_schedule_left(schedule, now) <= vv_schedule_margin(schedule) + schedule->durable;
}

/* ---- what has happened ---- */

static int is_told(double seconds) {
    return seconds >= 0 && seconds <= TOLD_MAX;
}

void vv_schedule_resumed(struct vv_schedule *schedule, uint64_t now_ns, double cost, double durable) {
    if (schedule->has_made) /* what was measured in this run counts more */
        return;
    if (is_told(cost)) {
        schedule->cost = cost;
        schedule->last_ns = now_ns;
    }
    schedule->is_told = is_told(durable);
    schedule->durable = schedule->is_told ? durable : 0;
}

void vv_schedule_asked(struct vv_schedule *schedule, uint64_t now_ns) {
    uint64_t before = schedule->asked_ns ? schedule->asked_ns : schedule->last_ns;
    if (schedule->asked_ns || schedule->has_made) /* before the first call a program sets itself up */
        schedule->gap = fmax(schedule->gap, seconds_between(before, now_ns));
    schedule->asked_ns = now_ns;
}

void vv_schedule_made(struct vv_schedule *schedule, uint64_t begin_ns, uint64_t end_ns, uint64_t waited_ns) {
    double blocked = seconds_between(begin_ns, end_ns), own = fmax(blocked - (double)waited_ns * 1e-9, 0);
    schedule->last_blocked = blocked;
    schedule->seconds_spent += blocked;
    schedule->cost = schedule->cost >= 0 ? SMOOTHING * own + (1 - SMOOTHING) * schedule->cost : own;
    schedule->has_made = 1;
    schedule->has_failed = 0;
    schedule->last_ns = end_ns;
    schedule->asked_ns = 0;
    schedule->gap_before = schedule->gap;
    schedule->gap = 0;
}

void vv_schedule_failed(struct vv_schedule *schedule) {
    schedule->has_failed = 1;
}

void vv_schedule_guess(struct vv_schedule *schedule, double seconds) {
    schedule->durable = fmax(schedule->durable, seconds);
}

void vv_schedule_flying(struct vv_schedule *schedule, double seconds) {
    schedule->durable = fmax(schedule->is_measured ? schedule->durable : 0, seconds);
}

void vv_schedule_durable(struct vv_schedule *schedule, double seconds) {
    schedule->durable = seconds;
    schedule->is_measured = 1;
    schedule->has_failed = 0;
}
