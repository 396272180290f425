/* interval-year [YEARS]: does interval=auto lose as little as the best fixed interval? Simulated years of failures,
 * with the session's own decision code (session/schedule.c) and a clock that is only a number.
 *
 * The model: a program works in steps and asks after each whether a checkpoint is due. A checkpoint takes `cost` of its
 * time and is durable when it returns. Failures come without memory, every `mtbf` on average, also during checkpoints
 * and restarts. Each throws away what was done since the last checkpoint, and takes `cost` for the restart. A
 * checkpoint that comes back tells what those before it have cost. All policies see the same failures. What counts is
 * the time that is lost: all of the year that is not work which is kept at its end. Fixed intervals: 49, from a quarter
 * of the best to its fourfold. Where failures are rare there are more years, since else the best of 49 is that by
 * chance. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/schedule.h"

#define YEAR (365.0 * 86400)
#define STEPS_PER_INTERVAL 40
#define FIXED 49
#define BOUND 0.05 /* so much more time may be lost than with the best fixed interval */

static const double costs[] = {5, 60, 600}, mtbfs[] = {6 * 3600.0, 86400, 7 * 86400.0};

static uint64_t random_next(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static double time_to_failure(uint64_t *state, double mtbf) {
    double uniform = ((double)(random_next(state) >> 11) + 0.5) / 9007199254740992.0;
    return -mtbf * log(uniform);
}

struct job {
    double cost, mtbf, step;
    double now, failure; /* seconds */
    double told;         /* by the newest checkpoint: what those before it have cost; below 0: nothing */
    uint64_t random;
};

static uint64_t clock_of(double seconds) {
    return (uint64_t)(seconds * 1e9);
}

/* One life of the job, from now to its next failure or the end of the year: the work that was kept. */
static double live(struct job *job, const struct vv_settings *settings) {
    struct vv_schedule schedule;
    double kept = 0, done = 0, end = fmin(job->failure, YEAR);
    vv_schedule_open(&schedule, settings, (struct vv_now){clock_of(job->now), clock_of(job->now)});
    if (settings->interval == VV_CHOOSE_INTERVAL_AUTO)
        vv_schedule_resumed(&schedule, clock_of(job->now), job->told, job->told);
    while (job->now + job->step <= end) {
        job->now += job->step;
        done += job->step;
        vv_schedule_asked(&schedule, clock_of(job->now));
        if (!vv_schedule_is_due(&schedule, (struct vv_now){clock_of(job->now), clock_of(job->now)}))
            continue;
        double begin = job->now, told = schedule.cost;
        job->now += job->cost;
        if (job->now > end)
            break;
        vv_schedule_made(&schedule, clock_of(begin), clock_of(job->now), 0);
        vv_schedule_durable(&schedule, job->cost);
        job->told = told;
        kept += done;
        done = 0;
    }
    return kept;
}

/* The share of the year that is lost. */
static double run_year(double cost, double mtbf, uint64_t seed, const struct vv_settings *settings) {
    struct job job = {.cost = cost, .mtbf = mtbf, .told = -1, .random = seed};
    double kept = 0;
    job.step = sqrt(2 * cost * mtbf) / STEPS_PER_INTERVAL;
    job.failure = time_to_failure(&job.random, mtbf);
    while (job.now < YEAR) {
        kept += live(&job, settings);
        job.now = job.failure;
        job.failure = job.now + time_to_failure(&job.random, mtbf);
        job.now += cost;
        while (job.failure < job.now) { /* it failed while it restarted */
            job.now = job.failure + cost;
            job.failure += time_to_failure(&job.random, mtbf);
        }
    }
    return 1 - kept / YEAR;
}

static double mean_of(double cost, double mtbf, int years, const struct vv_settings *settings) {
    double sum = 0;
    for (int i = 0; i < years; i++)
        sum += run_year(cost, mtbf, 1000003 * (uint64_t)(i + 1), settings);
    return sum / years;
}

static void set(struct vv_settings *settings, const char *text) {
    struct varve_error error = {.text = ""};
    vv_settings_init(settings);
    if (vv_settings_set_text(settings, text, "test", &error) != 0) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
}

static int years_of(double mtbf, int years) {
    return mtbf > 86400 ? years * (int)(mtbf / 86400) : years;
}

/* 1 if auto is within the bound. */
static int compare(double cost, double mtbf, int years) {
    struct vv_settings settings;
    char text[80];
    double best = 1, best_interval = 0, young = sqrt(2 * cost * mtbf);
    for (int i = 0; i < FIXED; i++) {
        double interval = young * pow(2, (i - FIXED / 2) / 12.0);
        snprintf(text, sizeof text, "interval_seconds=%.6f", interval);
        set(&settings, text);
        double share = mean_of(cost, mtbf, years, &settings);
        if (share < best) {
            best = share;
            best_interval = interval;
        }
    }
    snprintf(text, sizeof text, "interval=auto,mtbf=%.6f", mtbf);
    set(&settings, text);
    double own = mean_of(cost, mtbf, years, &settings);
    int is_good = own <= best * (1 + BOUND);
    printf("%6.0f %8.0f %10.0f %9.0f %8.2f %% %8.2f %% %8.2f %%%s\n", cost, mtbf, best_interval,
           vv_interval_best(cost, mtbf), 100 * best, 100 * own, 100 * (own / best - 1), is_good ? "" : "  TOO MUCH");
    return is_good;
}

int main(int argc, char **argv) {
    int years = argc > 1 ? atoi(argv[1]) : 3, points = 0, is_good = years > 0;
    printf("seeds 1000003 i; time that is lost. more: by auto than by the best\n");
    printf("%6s %8s %10s %9s %10s %10s %10s\n", "cost s", "mtbf s", "best fixed", "Daly", "lost", "auto", "more");
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++)
        for (size_t j = 0; j < sizeof mtbfs / sizeof *mtbfs; j++) {
            is_good &= compare(costs[i], mtbfs[j], years_of(mtbfs[j], years));
            points += years_of(mtbfs[j], years);
        }
    printf("interval-year: %d points, years of failures\n", points);
    return is_good ? 0 : 1;
}
