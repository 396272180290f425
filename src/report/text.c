/* The report in a terminal: sparklines and tables. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"
#include "terminal/text.h"

#define COLUMNS 48u
#define EVENTS_TOLD 20u

static int is_utf8(void) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return 0;
}

void report_spark(char *out, const double *values, size_t count) {
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const plain[] = {" ", ".", ":", "-", "=", "+", "*", "#", "@"};
    const char *const *levels = is_utf8() ? blocks : plain;
    double most = 0;

    for (size_t i = 0; i < count; i++)
        most = fmax(most, values[i]);
    *out = '\0';
    for (size_t i = 0; i < count; i++) {
        unsigned level = most > 0 && values[i] > 0 ? (unsigned)ceil(8 * values[i] / most) : 0;
        out = stpcpy(out, levels[level > 8 ? 8 : level]);
    }
}

struct drawing {
    const struct report *report;
    struct report_point columns[COLUMNS];
    size_t count;
};

static void put_spark(const struct drawing *drawing, const double *values) {
    char spark[4 * COLUMNS + 1];
    report_spark(spark, values, drawing->count);
    fputs(spark, stdout);
}

static void tell_bytes(const struct drawing *drawing, const char *what, enum report_bytes which,
                       const struct report_point *sum) {
    double values[COLUMNS] = {0}, most = 0;
    char last[SIZE_CAPACITY], mean[SIZE_CAPACITY], peak[SIZE_CAPACITY], all[SIZE_CAPACITY];

    for (size_t i = 0; i < drawing->count; i++)
        values[i] = report_mean(&drawing->columns[i], (double)drawing->columns[i].bytes[which]);
    for (size_t i = 0; i < drawing->report->point_count; i++) {
        const struct report_point *point = &drawing->report->points[i];
        most = fmax(most, report_mean(point, (double)point->bytes[which]));
    }
    text_size(last, drawing->count ? report_whole(values[drawing->count - 1]) : 0);
    text_size(mean, report_whole(report_mean(sum, (double)sum->bytes[which])));
    text_size(peak, report_whole(most));
    text_size(all, sum->bytes[which]);
    printf("%-10s last %9s  mean %9s  most %9s  all %9s  ", what, last, mean, peak, all);
    put_spark(drawing, values);
    putchar('\n');
}

static void tell_seconds(const struct drawing *drawing, const char *what, enum report_seconds which,
                         const struct report_point *sum, double most) {
    double values[COLUMNS] = {0};

    for (size_t i = 0; i < drawing->count; i++)
        values[i] = report_mean(&drawing->columns[i], drawing->columns[i].seconds[which]);
    printf("%-10s last %7.3f s  mean %7.3f s  most %7.3f s  all %7.4g s  ", what,
           drawing->count ? values[drawing->count - 1] : 0, report_mean(sum, sum->seconds[which]), most,
           sum->seconds[which]);
    put_spark(drawing, values);
    putchar('\n');
}

static void tell_times(const struct report *report) {
    struct report_time times[REPORT_TIMES];
    double all = 0;

    report_times(&report->sum, times);
    for (unsigned i = 0; i < REPORT_TIMES; i++)
        all += times[i].is_processor ? 0 : times[i].seconds;
    printf("\nwhere the time went (rank 0)\n");
    for (unsigned i = 0; i < REPORT_TIMES; i++) {
        if (times[i].seconds <= 0)
            continue;
        printf("  %-46s %11.3f s", times[i].name, times[i].seconds);
        if (times[i].is_processor)
            printf("  of processors\n");
        else
            printf("  %3.0f %%\n", all > 0 ? 100 * times[i].seconds / all : 0);
    }
}

static void tell_balance(const struct report *report) {
    const struct report_point *sum = &report->sum;
    char least[SIZE_CAPACITY], middle[SIZE_CAPACITY], most[SIZE_CAPACITY];

    if (sum->writers == 0)
        return;
    text_size(least, report_whole(sum->written.least));
    text_size(middle, report_whole(sum->written.middle));
    text_size(most, report_whole(sum->written.most));
    printf("\nbalance over %" PRIu64
           " ranks\n  a rank's part was stored after %.3f s at the least, %.3f s in the mean, "
           "%.3f s at the most (rank %" PRIu64 ")\n",
           report->ranks_most, sum->took.least,
           report->ranks_most ? report_mean(sum, sum->took_sum) / (double)report->ranks_most : 0, sum->took.most,
           sum->took.rank);
    printf("  a writer stored %s at the least, %s in the middle (of the last one), %s at the most (rank %" PRIu64
           "); writers: %" PRIu64 "\n",
           least, middle, most, sum->written.rank, sum->writers);
}

static int tell_codecs(const struct report *report) {
    static const char *const titles[] = {"<CODEC", "CHECKPOINTS", "NEW", "STORED", "RATIO"};
    struct table *table = table_create(titles, 5);
    if (!table)
        return -ENOMEM;
    for (size_t i = 0; i < report->codec_count; i++) {
        const struct report_codec *codec = &report->codecs[i];
        char ratio[32];
        snprintf(ratio, sizeof ratio, "%.2f",
                 codec->bytes_stored ? (double)codec->bytes_new / (double)codec->bytes_stored : 0);
        table_text(table, codec->name[0] ? codec->name : "none");
        table_number(table, codec->checkpoints);
        table_size(table, codec->bytes_new);
        table_size(table, codec->bytes_stored);
        table_text(table, ratio);
    }
    putchar('\n');
    int rc = table_print(table);
    table_destroy(table);
    return rc < 0 ? -ENOMEM : 0;
}

static void tell_space(const struct report *report) {
    const struct report_point *sum = &report->sum;
    char stored[SIZE_CAPACITY], metadata[SIZE_CAPACITY], rewritten[SIZE_CAPACITY], freed[SIZE_CAPACITY];

    text_size(stored, sum->bytes[REPORT_STORED]);
    text_size(metadata, sum->bytes[REPORT_METADATA]);
    text_size(rewritten, sum->bytes[REPORT_REWRITTEN]);
    text_size(freed, sum->bytes[REPORT_FREED]);
    printf("\nspace: %s of data and %s of metadata stored; %s stored again so that old packs could go; keep=N removed "
           "%s in %" PRIu64 " object%s\n",
           stored, metadata, rewritten, freed, report->freed_objects, plural(report->freed_objects));
}

static int tell_runs(const struct report *report) {
    static const char *const titles[] = {"<RUN",        "<PROGRAM", "<HOST",    "RANKS", "<FROM",
                                         "CHECKPOINTS", "FAILED",   "<CAPTURE", "<END"};
    struct table *table = table_create(titles, 9);
    if (!table)
        return -ENOMEM;
    for (size_t i = 0; i < report->life_count; i++) {
        const struct report_life *life = &report->lives[i];
        char from[TIME_CAPACITY];
        text_time_local(from, life->opened);
        table_number(table, life->generation);
        table_text(table, life->program);
        table_text(table, life->host);
        table_number(table, life->ranks);
        table_text(table, from);
        table_number(table, life->checkpoints);
        table_number(table, life->failed);
        table_text(table, life->capture);
        table_text(table, report_end_of(life));
    }
    putchar('\n');
    int rc = table_print(table);
    table_destroy(table);
    return rc < 0 ? -ENOMEM : 0;
}

static void tell_event(const struct report_event *event) {
    char time[TIME_CAPACITY];

    text_time_local(time, event->time);
    printf("  %s  ", time);
    text_put(event->what);
    if (event->version >= 0)
        printf(", version %" PRId64, event->version);
    if (event->seconds > 0)
        printf(", %.3f s", event->seconds);
    if (event->text[0]) {
        fputs(": ", stdout);
        text_put(event->text);
    }
    putchar('\n');
}

static void tell_events(const struct report *report) {
    size_t first = report->event_count > EVENTS_TOLD ? report->event_count - EVENTS_TOLD : 0;

    if (report->event_count == 0)
        return;
    printf("\nrestarts and failures%s\n", first ? " (the last ones)" : "");
    for (size_t i = first; i < report->event_count; i++)
        tell_event(&report->events[i]);
}

/* A job may come back with other numbers of ranks. */
static void tell_headline(const struct report *report) {
    uint64_t least = report->ranks_most;

    for (size_t i = 0; i < report->life_count; i++)
        if (report->lives[i].ranks > 0 && report->lives[i].ranks < least)
            least = report->lives[i].ranks;
    text_put(report->name);
    printf(": %" PRIu64 " checkpoint%s", report->checkpoints, plural(report->checkpoints));
    if (least > 0 && least < report->ranks_most)
        printf(" by %" PRIu64 " to %" PRIu64 " ranks", least, report->ranks_most);
    else if (least > 0)
        printf(" by %" PRIu64 " rank%s", least, plural(least));
    printf(" in %zu run%s, %" PRIu64 " failed, %" PRIu64 " restart%s\n\n", report->life_count,
           plural(report->life_count), report->failed, report->restarts, plural(report->restarts));
}

void report_text(const struct report *report) {
    static struct drawing drawing; /* too large for a stack */
    const struct report_point *sum = &report->sum;

    drawing.report = report;
    drawing.count = report_cells(report, drawing.columns, COLUMNS);
    tell_headline(report);
    puts("each checkpoint, all ranks together (seconds: those of rank 0)");
    tell_bytes(&drawing, "protected", REPORT_PROTECTED, sum);
    tell_bytes(&drawing, "changed", REPORT_CHANGED, sum);
    tell_bytes(&drawing, "stored", REPORT_STORED, sum);
    tell_seconds(&drawing, "blocked", REPORT_BLOCKED, sum, sum->blocked_most);
    tell_seconds(&drawing, "durable", REPORT_DURABLE, sum, sum->durable_most);
    tell_times(report);
    tell_balance(report);
    tell_codecs(report);
    tell_space(report);
    tell_runs(report);
    tell_events(report);
    if (report->lines_skipped)
        printf("\n%" PRIu64 " line%s of the logs could not be read\n", report->lines_skipped,
               plural(report->lines_skipped));
}
