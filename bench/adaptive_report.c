#include "adaptive_report.h"
#include "details.h"

#include <stddef.h>
#include <string.h>

#include "bench.h"

#define BOUND_PAPER 0.40                 /* of sync, at 55 MB/s and r = 1 */
#define BOUND_PAPER_WAIT 0.5             /* of the WAIT pages of no-pattern, there, on random and descending */
#define BOUND_OURS_SLOW 0.05             /* of sync, beyond the limit, at 55 MB/s */
#define BOUND_OURS_FAST 0.60             /* the same at 1 GB/s */
#define BOUND_MEMORY 0.065               /* staging and page state, of the protected bytes */
#define BOUND_RSS 1.12                   /* over a run without us */
#define BOUND_REGION ((size_t)256 << 20) /* in smaller ones what every session needs counts for more */

static double over(double a, double b) {
    return b > 0 ? a / b : 0;
}

/* ---- figures ---- */

static double storage_seconds(const struct adaptive_line *line) {
    return (double)line->c->region / line->c->storage;
}

/* Where every iteration was disturbed, what the program takes without us has to do. */
static double iteration_seconds(const struct adaptive_line *line) {
    return line->result->iteration > 0 ? line->result->iteration : line->without->iteration;
}

double adaptive_overhead(const struct adaptive_line *line, unsigned checkpoint) {
    const struct adaptive_checkpoint *p = &line->result->checkpoint[checkpoint];
    return p->until - p->iterations * iteration_seconds(line);
}

double adaptive_mean_overhead(const struct adaptive_line *line) {
    double sum = 0;
    for (unsigned i = 0; i < line->result->checkpoints; i++)
        sum += adaptive_overhead(line, i);
    return over(sum, line->result->checkpoints);
}

/* No order of anything can cost less with this buffer: when the program has gone through all memory once, all that does
 * not fit the buffer must have been stored. */
static double limit_over_sync(const struct adaptive_line *line) {
    double buffer = (double)line->c->staging / (double)line->c->region;
    double limit = (1 - buffer) * storage_seconds(line) - iteration_seconds(line);
    return limit > 0 ? over(limit, line->sync) : 0;
}

/* Mean of the checkpoints of a field of the statistics. */
#define MEAN(r, field) mean_of((r), offsetof(struct vv_details, field))
static double mean_of(const struct adaptive_result *r, size_t offset) {
    double sum = 0;
    for (unsigned i = 0; i < r->checkpoints; i++) {
        uint64_t value;
        memcpy(&value, (const char *)&r->checkpoint[i].stats + offset, sizeof value);
        sum += (double)value;
    }
    return over(sum, r->checkpoints);
}

double adaptive_wait_pages(const struct adaptive_result *r) {
    return MEAN(r, pages_wait);
}

static double most_memory(const struct adaptive_line *line) {
    uint64_t most = 0;
    for (unsigned i = 0; i < line->result->checkpoints; i++)
        if (line->result->checkpoint[i].stats.bytes_memory > most)
            most = line->result->checkpoint[i].stats.bytes_memory;
    return over((double)most, (double)line->c->region);
}

/* What the whole run lost per checkpoint beside a run without us, wherever it was lost. */
static double run_overhead(const struct adaptive_line *line) {
    const struct adaptive_result *r = line->result;
    return over(r->run - r->iterations * line->without->iteration, r->checkpoints);
}

/* ---- JSON ---- */

static void json_demanded(FILE *file, const struct adaptive_line *line) {
    const struct adaptive_case *c = line->c;
    const struct adaptive_result *r = line->result;
    fprintf(file, "{\"bench\":\"adaptive\",\"pattern\":\"%s\",\"mode\":\"%s\",\"r\":%g,\"storage_mb_s\":%g",
            adaptive_patterns[c->pattern], c->mode->name, c->r, c->storage / 1e6);
    fprintf(file, ",\"overhead_over_sync\":%.4f,\"limit_over_sync\":%.4f",
            over(adaptive_mean_overhead(line), line->sync), limit_over_sync(line));
    fprintf(file, ",\"wait_pages\":%.1f,\"cow_pages\":%.1f,\"avoided_pages\":%.1f,\"trapped_pages\":%.1f",
            MEAN(r, pages_wait), MEAN(r, pages_cow), MEAN(r, pages_avoided), MEAN(r, pages_trapped));
    fprintf(file, ",\"extra_memory_over_protected\":%.5f", most_memory(line));
}

static void json_lists(FILE *file, const struct adaptive_line *line) {
    const struct adaptive_result *r = line->result;
    static const char *const names[] = {"overhead_s", "call_s", "seconds_durable", "flight_iterations"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        fprintf(file, ",\"%s\":[", names[n]);
        for (unsigned i = 0; i < r->checkpoints; i++) {
            const struct adaptive_checkpoint *p = &r->checkpoint[i];
            double values[] = {adaptive_overhead(line, i), p->call, p->stats.seconds_durable, p->iterations};
            fprintf(file, "%s%.4f", i ? "," : "", values[n]);
        }
        fprintf(file, "]");
    }
}

/* Texts of the library hold quotes now and then. */
static void json_text(FILE *file, const char *name, const char *text) {
    fprintf(file, ",\"%s\":\"", name);
    for (; *text; text++)
        fputc(*text == '"' || *text == '\\' || (unsigned char)*text < ' ' ? '\'' : *text, file);
    fputc('"', file);
}

void adaptive_json(FILE *file, const struct adaptive_line *line) {
    const struct adaptive_case *c = line->c;
    const struct adaptive_result *r = line->result;
    const struct vv_details *last = &r->checkpoint[r->checkpoints - 1].stats;
    json_demanded(file, line);
    fprintf(file, ",\"region_bytes\":%zu,\"staging_bytes\":%zu,\"iterations\":%u,\"checkpoints\":%u", c->region,
            c->staging, r->iterations, r->checkpoints);
    fprintf(file, ",\"F\":%.4f,\"iteration_s\":%.4f,\"r_real\":%.4f,\"iteration_from\":\"%s\"", storage_seconds(line),
            iteration_seconds(line), iteration_seconds(line) / storage_seconds(line),
            r->iteration > 0 ? "undisturbed" : "without us");
    fprintf(file, ",\"iteration_over_without\":%.4f,\"sync_s\":%.4f,\"sync_from\":\"%s\"",
            over(iteration_seconds(line), line->without->iteration), line->sync, line->sync_from);
    fprintf(file, ",\"run_overhead_over_sync\":%.4f", over(run_overhead(line), line->sync));
    json_lists(file, line);
    fprintf(file, ",\"ahead_pages\":%.1f,\"bytes_staged\":%.0f,\"bytes_drained\":%.0f,\"bytes_held\":%.0f",
            MEAN(r, pages_ahead), MEAN(r, bytes_staged), MEAN(r, bytes_drained), MEAN(r, bytes_held));
    fprintf(file, ",\"bytes_frozen\":%.0f,\"bytes_frozen_most\":%.0f", MEAN(r, bytes_frozen),
            MEAN(r, bytes_frozen_most));
    json_text(file, "tracker", last->tracker);
    json_text(file, "tracker_reason", last->tracker_reason);
    json_text(file, "capture", last->capture);
    json_text(file, "capture_reason", last->capture_reason);
    fprintf(file, ",\"rss_over_without\":%.4f,\"rss_bytes\":%.0f}\n", over(r->rss, line->without->rss), r->rss);
    fflush(file);
}

/* ---- bounds ---- */

/* A bound that is not meant for a case like this is only noted. */
static unsigned judge(const struct adaptive_line *line, int is_bound, const char *what, double value, double bound) {
    const struct adaptive_case *c = line->c;
    int is_over = value > bound;
    fprintf(stderr, "%-4s %s, %s, r = %g, %g MB/s: %s %.4f, bound %.4f\n",
            !is_bound ? "note"
            : is_over ? "FAIL"
                      : "pass",
            c->mode->name, adaptive_patterns[c->pattern], c->r, c->storage / 1e6, what, value, bound);
    return is_bound && is_over;
}

static unsigned judge_paper(const struct adaptive_line *line) {
    const struct adaptive_case *c = line->c;
    int is_bound = c->storage == 55e6 && c->r == 1;
    unsigned failed =
        judge(line, is_bound, "overhead of sync", over(adaptive_mean_overhead(line), line->sync), BOUND_PAPER);
    if (c->pattern != ADAPTIVE_ASCENDING && line->no_pattern_wait >= 0)
        failed += judge(line, is_bound, "WAIT pages", adaptive_wait_pages(line->result),
                        BOUND_PAPER_WAIT * line->no_pattern_wait);
    return failed;
}

static unsigned judge_ours(const struct adaptive_line *line) {
    double storage = line->c->storage, extra = storage < 500e6 ? BOUND_OURS_SLOW : BOUND_OURS_FAST;
    int is_bound = storage == 55e6 || storage == 1e9;
    return judge(line, is_bound, "overhead of sync", over(adaptive_mean_overhead(line), line->sync),
                 limit_over_sync(line) + extra);
}

unsigned adaptive_judge(const struct adaptive_line *line) {
    const char *mode = line->c->mode->name;
    int is_large = line->c->region >= BOUND_REGION;
    unsigned failed = 0;
    if (strcmp(mode, "sync") == 0)
        return 0;
    if (strcmp(mode, "paper") == 0)
        failed += judge_paper(line);
    if (strcmp(mode, "varve") == 0)
        failed += judge_ours(line);
    failed += judge(line, is_large, "memory of protected", most_memory(line), BOUND_MEMORY);
    failed += judge(line, is_large, "peak RSS of without", over(line->result->rss, line->without->rss), BOUND_RSS);
    return failed;
}
