/* When a checkpoint is due by time: the interval, and the end of the job.
 *
 * Only arithmetic: clocks and costs are given, so that a test can run a year of it in seconds. Other reasons for a
 * checkpoint are in asked.h. */
#ifndef VV_SCHEDULE_H
#define VV_SCHEDULE_H

#include "base/settings.h"

/* Both clocks. The first never jumps, the second is that of the batch system. */
struct vv_now {
    uint64_t ns;      /* vv_clock_ns */
    uint64_t wall_ns; /* vv_clock_wall_ns */
};

struct vv_schedule {
    /* as the settings say */
    int interval; /* enum vv_interval_choice */
    double seconds, share, mtbf, slack;
    int has_end;
    int64_t end_wall_ns, end_ns; /* the end of the job by both clocks */
    /* what has happened */
    uint64_t opened_ns;
    uint64_t last_ns;       /* when the last call of varve_checkpoint ended */
    uint64_t asked_ns;      /* when varve_need was last called; 0: not since the last checkpoint */
    double gap, gap_before; /* longest time between two such calls: since the last checkpoint, and before it */
    double last_blocked;    /* seconds of the last call of varve_checkpoint */
    double seconds_spent;   /* in all of them */
    double cost;            /* what one takes of the program's time, smoothed; below 0: not known */
    int has_made;           /* one was made */
    double durable;         /* seconds until the last one was durable */
    int is_told;            /* that is of another run, */
    int is_measured;        /* or was measured in this one */
    int has_failed;         /* the last one has: nothing is measured yet */
};

/* settings->end_time: as vv_end_time gives it. */
void vv_schedule_open(struct vv_schedule *schedule, const struct vv_settings *settings, struct vv_now now);
/* The end of the job, in seconds since 1970; 0: none. setting: end_time; environment: SLURM_JOB_END_TIME, or NULL. */
double vv_end_time(double setting, const char *environment);

/* By the interval; and where the end of the job is known, but not how long a checkpoint takes, since the last one must
 * not come too late: at once if nothing tells it, and before the margin if only another run has told. */
int vv_schedule_is_due(const struct vv_schedule *schedule, struct vv_now now);
/* Seconds between two checkpoints that interval=auto keeps; 0: nothing tells what one costs. */
double vv_schedule_interval(const struct vv_schedule *schedule);

/* Seconds until the end of the job by the clock that has less left; INFINITY: there is none. A clock that jumps makes
 * the job end early, never late. */
double vv_schedule_left(const struct vv_schedule *schedule, struct vv_now now);
/* Seconds that a last checkpoint is given: twice what the last one took until it was durable, the longest time between
 * two questions, and the slack. */
double vv_schedule_margin(const struct vv_schedule *schedule);
/* Not before the first checkpoint of this run, if another run has told how long one takes: it may take less now. */
int vv_schedule_is_ending(const struct vv_schedule *schedule, struct vv_now now);
/* One is in flight: another by the interval would wait for it, and the last one of the job for both. 1 if the end is
 * too near for all three. */
int vv_schedule_is_late(const struct vv_schedule *schedule, struct vv_now now);

/* The job goes on from a checkpoint that says what those before it have cost, and how long one took until it was
 * durable; below 0: it does not say. */
void vv_schedule_resumed(struct vv_schedule *schedule, uint64_t now_ns, double cost, double durable);
/* varve_need is called. */
void vv_schedule_asked(struct vv_schedule *schedule, uint64_t now_ns);
/* A call of varve_checkpoint, of which so much was a wait for the one before. */
void vv_schedule_made(struct vv_schedule *schedule, uint64_t begin_ns, uint64_t end_ns, uint64_t waited_ns);
/* The last one has failed, so that how long one takes is as unknown as before. */
void vv_schedule_failed(struct vv_schedule *schedule);
/* Before the first: it may take so long until it is durable. */
void vv_schedule_guess(struct vv_schedule *schedule, double seconds);
/* The one in flight takes so long already. */
void vv_schedule_flying(struct vv_schedule *schedule, double seconds);
/* The last one took so long until it was durable. */
void vv_schedule_durable(struct vv_schedule *schedule, double seconds);

/* The time between two checkpoints with which a job loses least, in seconds: each takes `cost` of its time, and it
 * fails every `mtbf` on average (Daly 2006, the higher order of Young's sqrt(2 cost mtbf)). NaN for costs below 0 and
 * mtbf that is not above 0. */
double vv_interval_best(double cost, double mtbf);

#endif
