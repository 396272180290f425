/* interval-year [SEEDS]: does interval=auto lose as little as the best fixed interval? A simulated year of failures,
 * with the session's own decision code (session/schedule.c) and a clock that is only a number.
 *
 * The model: a program works in steps and asks after each whether a checkpoint is due. A checkpoint takes `cost` of its
 * time and is durable when it returns. Failures come without memory, every `mtbf` on average, also during checkpoints
 * and restarts. Each throws away what was done since the last checkpoint, and takes `cost` for the restart; a restarted
 * program knows nothing of what its checkpoints cost. All policies see the same failures. What counts is the work that
 * is kept at the end of the year. Fixed intervals: 49, from a quarter of the best to its fourfold. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/schedule.h"

#define YEAR (365.0 * 86400)
#define STEPS_PER_INTERVAL 40
#define FIXED 49
#define BOUND 0.05

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
    while (job->now + job->step <= end) {
        job->now += job->step;
        done += job->step;
        vv_schedule_asked(&schedule, clock_of(job->now));
        if (!vv_schedule_is_due(&schedule, clock_of(job->now)))
            continue;
        double begin = job->now;
        job->now += job->cost;
        if (job->now > end)
            break;
        vv_schedule_made(&schedule, clock_of(begin), clock_of(job->now), 0);
        vv_schedule_durable(&schedule, job->cost);
        kept += done;
        done = 0;
    }
    return kept;
}

static double run_year(double cost, double mtbf, uint64_t seed, const struct vv_settings *settings) {
    struct job job = {.cost = cost, .mtbf = mtbf, .random = seed};
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
    return kept / YEAR;
}

static double mean_of(double cost, double mtbf, int seeds, const struct vv_settings *settings) {
    double sum = 0;
    for (int i = 0; i < seeds; i++)
        sum += run_year(cost, mtbf, 1000003 * (uint64_t)(i + 1), settings);
    return sum / seeds;
}

static void set(struct vv_settings *settings, const char *text) {
    struct varve_error error = {.text = ""};
    vv_settings_init(settings);
    if (vv_settings_set_text(settings, text, "test", &error) != 0) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
}

/* 1 if auto is within the bound. */
static int compare(double cost, double mtbf, int seeds) {
    struct vv_settings settings;
    char text[80];
    double best = 0, best_interval = 0, young = sqrt(2 * cost * mtbf);
    for (int i = 0; i < FIXED; i++) {
        double interval = young * pow(2, (i - FIXED / 2) / 12.0);
        snprintf(text, sizeof text, "interval_seconds=%.6f", interval);
        set(&settings, text);
        double share = mean_of(cost, mtbf, seeds, &settings);
        if (share > best) {
            best = share;
            best_interval = interval;
        }
    }
    snprintf(text, sizeof text, "interval=auto,mtbf=%.6f", mtbf);
    set(&settings, text);
    double own = mean_of(cost, mtbf, seeds, &settings);
    int is_good = own >= best * (1 - BOUND);
    printf("%6.0f %8.0f %10.0f %9.0f %8.2f %% %8.2f %% %8.2f %%%s\n", cost, mtbf, best_interval,
           vv_interval_best(cost, mtbf), 100 * best, 100 * own, 100 * (1 - own / best), is_good ? "" : "  TOO MUCH");
    return is_good;
}

int main(int argc, char **argv) {
    int seeds = argc > 1 ? atoi(argv[1]) : 3, is_good = seeds > 0;
    printf("%d year%s of failures, seeds 1000003 i; work that is kept\n", seeds, seeds == 1 ? "" : "s");
    printf("%6s %8s %10s %9s %10s %10s %10s\n", "cost s", "mtbf s", "best fixed", "Daly", "kept", "auto", "behind");
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++)
        for (size_t j = 0; j < sizeof mtbfs / sizeof *mtbfs; j++)
            is_good &= compare(costs[i], mtbfs[j], seeds);
    return is_good ? 0 : 1;
}
