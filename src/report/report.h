/* What the logs of a name tell (docs/format.md 5), for `varve report` and `varve top`: as text, as JSON lines, and as a
 * page. A log was written by somebody else: every line is bounded, and one that cannot be understood is skipped. */
#ifndef REPORT_H
#define REPORT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <varve/varve_inspect.h>

#define REPORT_TEXT 256u
#define REPORT_WORD 32u
#define REPORT_LIVES 64u
#define REPORT_CODECS 16u
#define REPORT_POINTS 32768u
#define REPORT_EVENTS 4096u
#define REPORT_REAL 1e18 /* no number with a point is larger, so that sums stay finite */

enum report_bytes {
    REPORT_PROTECTED,
    REPORT_CHANGED,
    REPORT_ZERO,
    REPORT_KNOWN,
    REPORT_ELSEWHERE,
    REPORT_NEW,
    REPORT_REWRITTEN,
    REPORT_STORED,
    REPORT_METADATA,
    REPORT_FREED,
    REPORT_BYTES
};
enum report_seconds {
    REPORT_BLOCKED,
    REPORT_WAITED,
    REPORT_DURABLE,
    REPORT_IDLE,
    REPORT_NAMED,
    REPORT_EXCHANGE,
    REPORT_FINE,
    REPORT_AUDIT,
    REPORT_ENCODE,
    REPORT_SAMPLED,
    REPORT_SECONDS
};
extern const char *const report_bytes_keys[REPORT_BYTES]; /* as in the log, and in JSON */
extern const char *const report_seconds_keys[REPORT_SECONDS];

/* The least, the middle and the most of a rank. */
struct report_balance {
    double least, middle, most;
    uint64_t rank; /* of the most */
};

/* One checkpoint, or several that the log has added up. */
struct report_point {
    uint64_t version, generation, time;
    uint64_t count, failed;
    uint64_t bytes[REPORT_BYTES]; /* sums */
    double seconds[REPORT_SECONDS];
    double blocked_most, durable_most;
    struct report_balance took, written;
    double took_sum;
    uint64_t writers; /* 0: nothing is told of several ranks */
    size_t life;
    char codec[REPORT_WORD];
};

struct report_event {
    uint64_t time, generation, bytes;
    int64_t version;
    double seconds;
    size_t life;
    char what[REPORT_WORD], text[REPORT_TEXT];
};

struct report_codec {
    char name[REPORT_WORD];
    uint64_t checkpoints, bytes_new, bytes_stored;
};

/* A session. */
struct report_life {
    uint64_t generation, ranks, pid, opened, written, ended;
    uint64_t checkpoints, failed, restarts, freed_bytes, freed_objects, bytes_memory, events_lost;
    double storage_speed;
    int is_running; /* the newest one, and a session may have the name open */
    char program[REPORT_WORD], host[REPORT_TEXT], why[REPORT_TEXT];
    char capture[REPORT_WORD], tracker[REPORT_WORD], dedup[REPORT_WORD];
    char damage[REPORT_TEXT]; /* it cannot be read: why; or "" */
};

struct report {
    char name[REPORT_TEXT];
    struct report_life lives[REPORT_LIVES];
    size_t life_count;
    struct report_point *points;
    size_t point_count, point_capacity;
    struct report_event *events;
    size_t event_count, event_capacity;
    struct report_codec codecs[REPORT_CODECS];
    size_t codec_count;
    uint64_t lines_skipped;
    /* in all */
    uint64_t checkpoints, failed, restarts, freed_objects;
    struct report_point sum; /* of all points */
    uint64_t ranks_most;
};

/* The logs of the newest sessions, `most` of them. 0 or a negative code, told in error: VARVE_NO_CHECKPOINT when
 * nothing was logged. Clear in every case. */
int report_load(struct report *report, struct varve_store *store, const char *name, size_t most,
                struct varve_error *error);
void report_clear(struct report *report);
/* Lines of one log. */
int report_add(struct report *report, uint64_t generation, const char *text, size_t length);
/* When everything is there: sums. */
void report_finish(struct report *report);

/* So many columns at the most, each with the next checkpoints, about as many in each as the log allows; how many. */
size_t report_columns(const struct report *report, struct report_point *out, size_t most);
/* So many cells at the most, each with the column that is in its middle, if every checkpoint is as wide; the last has
 * the newest. */
size_t report_cells(const struct report *report, struct report_point *out, size_t most);
/* Checkpoints of a column, and tries. */
uint64_t report_width(const struct report_point *point);
/* Of one checkpoint, in the middle. */
double report_mean(const struct report_point *point, double sum);
/* Its whole bytes; the largest number where it is beyond all. */
uint64_t report_whole(double value);
/* Where the time of rank 0 went: a name, and the seconds of these checkpoints. */
struct report_time {
    const char *name;
    double seconds;
    int is_processor; /* of threads, beside the others */
};
#define REPORT_TIMES 10u
void report_times(const struct report_point *point, struct report_time out[REPORT_TIMES]);
/* How a session ended, in words; may write into buffer. */
const char *report_end_of(const struct report_life *life);

void report_text(const struct report *report);
void report_json(const struct report *report);
void report_page(FILE *out, const struct report *report, const char *address);
/* Bars of text, from 0 to the most of the values; needs no more than 4 bytes for each and one. */
void report_spark(char *out, const double *values, size_t count);

/* ---- lines.c: one JSON object without others in it ---- */
struct report_member {
    char key[REPORT_WORD];
    int is_text;
    char text[REPORT_TEXT];
    double number;
    uint64_t whole; /* a number without a sign, point or exponent, exactly; else 0 */
};
typedef void (*report_member_fn)(void *arg, const struct report_member *member);
/* 0, or -EINVAL: this is none, and fn was perhaps called for some of it. */
int report_line(const char *text, size_t length, report_member_fn fn, void *arg);

#endif
