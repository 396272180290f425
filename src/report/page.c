/* The report as a page. Texts stand beside the drawings, never in them: so nothing shrinks or overlaps on a small
 * screen. Every number that is rounded for people is there exactly, too, as the value of its element. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/report.h"
#include "terminal/page.h"
#include "terminal/text.h"

#define COLUMNS 240u
#define ROWS 40u
#define EVENTS_DRAWN 200u
#define HEIGHT 100.0

static const char style[] =
    "body{max-width:1000px}figure{margin:1.2em 0}figcaption{display:flex;flex-wrap:wrap;justify-content:space-between;"
    "gap:0 1.5em;font-size:.9em}figcaption b{flex:1 0 9em}.plot{height:110px;border-bottom:1px solid var(--line)}"
    ".ends{display:flex;justify-content:space-between;color:var(--faint);font-size:.8em}"
    ".bad{fill:#c0392b}.nums{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:.6em 1.2em}"
    ".nums div{border-left:3px solid var(--across);padding-left:.6em}.nums b{display:block;font-size:1.2em}"
    "td.left,th.left{text-align:left}td.wrap{white-space:normal;min-width:11em;text-align:left}"
    ".share{width:30%;min-width:80px}.share svg{height:.8em}td svg{width:100%}\n"
    "@media(max-width:600px){figcaption b{flex:1 0 100%}}\n"
    "@media(prefers-color-scheme:dark){.bad{fill:#ff6b5e}}\n";

/* ---- numbers ---- */

static void put_bytes(FILE *out, const char *id, uint64_t bytes) {
    char text[32];
    fprintf(out, "<data%s%s%s value=\"%" PRIu64 "\">%s</data>", id ? " id=\"" : "", id ? id : "", id ? "\"" : "", bytes,
            page_size(text, bytes));
}

static void put_seconds(FILE *out, const char *id, double seconds) {
    fprintf(out, "<data%s%s%s value=\"%.6f\">%.*f s</data>", id ? " id=\"" : "", id ? id : "", id ? "\"" : "", seconds,
            seconds >= 100 ? 0 : 3, seconds);
}

static void put_count(FILE *out, const char *id, uint64_t count) {
    fprintf(out, "<data%s%s%s value=\"%" PRIu64 "\">%" PRIu64 "</data>", id ? " id=\"" : "", id ? id : "",
            id ? "\"" : "", count, count);
}

static void put_time(FILE *out, uint64_t ns) {
    char text[TIME_CAPACITY];
    text_time_local(text, ns);
    fputs(text, out);
}

/* ---- drawings ---- */

struct drawing {
    struct report_point columns[COLUMNS];
    size_t count;
};

struct series {
    const char *title, *class, *id;
    double values[COLUMNS];
    int is_seconds;
    double most; /* of one checkpoint; less than 0: of the columns */
    double sum;  /* of all */
    uint64_t sum_bytes;
};

static void put_value(FILE *out, const struct series *series, const char *id, double value) {
    if (series->is_seconds)
        put_seconds(out, id, value);
    else
        put_bytes(out, id, report_whole(value));
}

static void put_caption(FILE *out, const struct report *report, const struct series *series, double most) {
    char id[64];
    fprintf(out, "<figcaption><b>%s</b><span>mean ", series->title);
    put_value(out, series, NULL, report_mean(&report->sum, series->sum));
    fputs("</span><span>most ", out);
    put_value(out, series, NULL, series->most >= 0 ? series->most : most);
    fputs("</span><span>all ", out);
    snprintf(id, sizeof id, "%s", series->id);
    if (series->is_seconds)
        put_seconds(out, id, series->sum);
    else
        put_bytes(out, id, series->sum_bytes);
    fputs("</span></figcaption>\n", out);
}

/* As wide as it has checkpoints. */
static void put_column(FILE *out, const struct series *series, const struct report_point *point, size_t i, uint64_t x,
                       double most) {
    char text[32];
    double height = most > 0 ? HEIGHT * series->values[i] / most : 0;
    const char *several = point->count + point->failed > 1 ? "up to version" : "version";

    fprintf(out,
            "<rect class=\"%s\" x=\"%" PRIu64 "\" y=\"%.2f\" width=\"%" PRIu64 "\" height=\"%.2f\"><title>%s %" PRIu64
            ": ",
            series->class, x, HEIGHT - height, report_width(point), height, several, point->version);
    if (series->is_seconds)
        fprintf(out, "%.4f s", series->values[i]);
    else
        fputs(page_size(text, report_whole(series->values[i])), out);
    fputs("</title></rect>", out);
    if (point->failed)
        fprintf(out,
                "<rect class=\"bad\" x=\"%" PRIu64 "\" y=\"0\" width=\"%" PRIu64 "\" height=\"4\"><title>%s %" PRIu64
                ": %" PRIu64 " failed</title></rect>",
                x, report_width(point), several, point->version, point->failed);
}

static void put_series(FILE *out, const struct report *report, const struct drawing *drawing,
                       const struct series *series) {
    double most = 0;
    uint64_t x = 0;

    for (size_t i = 0; i < drawing->count; i++)
        most = fmax(most, series->values[i]);
    fputs("<figure>", out);
    put_caption(out, report, series, most);
    fprintf(out,
            "<svg class=\"plot\" viewBox=\"0 0 %" PRIu64 " %.0f\" preserveAspectRatio=\"none\" "
            "shape-rendering=\"crispEdges\" role=\"img\">",
            report_width(&report->sum), HEIGHT);
    for (size_t i = 0; i < drawing->count; x += report_width(&drawing->columns[i]), i++)
        put_column(out, series, &drawing->columns[i], i, x, most);
    fputs("</svg>", out);
    if (drawing->count)
        fprintf(out, "<div class=\"ends\"><span>version %" PRIu64 "</span><span>version %" PRIu64 "</span></div>",
                drawing->columns[0].version, drawing->columns[drawing->count - 1].version);
    fputs("</figure>\n", out);
}

static void draw_bytes(FILE *out, const struct report *report, const struct drawing *drawing, const char *title,
                       const char *class, enum report_bytes which) {
    struct series series = {.title = title,
                            .class = class,
                            .id = report_bytes_keys[which],
                            .most = -1,
                            .sum = (double)report->sum.bytes[which],
                            .sum_bytes = report->sum.bytes[which]};
    for (size_t i = 0; i < drawing->count; i++)
        series.values[i] = report_mean(&drawing->columns[i], (double)drawing->columns[i].bytes[which]);
    put_series(out, report, drawing, &series);
}

static void draw_seconds(FILE *out, const struct report *report, const struct drawing *drawing, const char *title,
                         const char *class, enum report_seconds which, double most) {
    struct series series = {.title = title,
                            .class = class,
                            .id = report_seconds_keys[which],
                            .is_seconds = 1,
                            .most = most,
                            .sum = report->sum.seconds[which]};
    for (size_t i = 0; i < drawing->count; i++)
        series.values[i] = report_mean(&drawing->columns[i], drawing->columns[i].seconds[which]);
    put_series(out, report, drawing, &series);
}

/* ---- sections ---- */

static void put_fact(FILE *out, const char *name, const char *id, uint64_t value) {
    fputs("<div><b>", out);
    put_count(out, id, value);
    fprintf(out, "</b>%s</div>", name);
}

static void put_facts(FILE *out, const struct report *report) {
    fputs("<div class=\"nums\">", out);
    put_fact(out, "checkpoints", "checkpoints", report->checkpoints);
    put_fact(out, "failed", "failed", report->failed);
    put_fact(out, "runs", "runs", report->life_count);
    put_fact(out, "restarts", "restarts", report->restarts);
    put_fact(out, "ranks", "ranks", report->ranks_most);
    fputs("</div>\n", out);
}

static const struct page_part parts[] = {
    {"zero", "unchanged"},
    {"within", "zeros"},
    {"across", "known here"},
    {"earlier", "stored by another rank"},
    {"saved", "new, saved by compression"},
    {"stored", "new, stored"},
};
#define PARTS (sizeof parts / sizeof *parts)

static uint64_t less(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

static void put_parts(FILE *out, const struct report *report) {
    const uint64_t *b = report->sum.bytes;
    uint64_t stored = b[REPORT_STORED] < b[REPORT_NEW] ? b[REPORT_STORED] : b[REPORT_NEW];
    const uint64_t values[PARTS] = {less(b[REPORT_PROTECTED], b[REPORT_CHANGED]),
                                    b[REPORT_ZERO],
                                    b[REPORT_KNOWN],
                                    b[REPORT_ELSEWHERE],
                                    b[REPORT_NEW] - stored,
                                    stored};
    uint64_t most = 0;

    for (size_t i = 0; i < PARTS; i++)
        most += values[i];
    fputs("<h2>What became of the protected bytes</h2>\n", out);
    page_key(out, parts, PARTS);
    page_bar(out, parts, values, PARTS, most);
}

static void put_times(FILE *out, const struct report *report) {
    struct report_time times[REPORT_TIMES];
    double most = 0;

    report_times(&report->sum, times);
    for (unsigned i = 0; i < REPORT_TIMES; i++)
        most = fmax(most, times[i].seconds);
    fputs("<h2>Where the time went, on rank 0</h2>\n<table><tr><th>what</th><th>seconds</th><th class=\"share\"></th>"
          "</tr>\n",
          out);
    for (unsigned i = 0; i < REPORT_TIMES; i++) {
        if (times[i].seconds <= 0)
            continue;
        fprintf(out, "<tr><td class=\"wrap\">%s%s</td><td>", times[i].name,
                times[i].is_processor ? " (processor time)" : "");
        put_seconds(out, NULL, times[i].seconds);
        fprintf(out,
                "</td><td class=\"share\"><svg viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\"><rect class=\"%s\" "
                "width=\"%.2f\" height=\"10\"/></svg></td></tr>\n",
                times[i].is_processor ? "zero" : "across", most > 0 ? 100 * times[i].seconds / most : 0);
    }
    fputs("</table>\n", out);
}

static void put_balance(FILE *out, const struct report *report) {
    const struct report_point *sum = &report->sum;

    if (sum->writers == 0)
        return;
    fprintf(out,
            "<h2>Balance over %" PRIu64 " ranks</h2>\n<table><tr><th>of one rank</th><th>least</th><th>middle</th>"
            "<th>most</th><th>rank</th></tr>\n<tr><td class=\"wrap\">until its part was stored</td><td>",
            report->ranks_most);
    put_seconds(out, "took_least", sum->took.least);
    fputs("</td><td>", out);
    put_seconds(out, NULL, report->ranks_most ? report_mean(sum, sum->took_sum) / (double)report->ranks_most : 0);
    fputs("</td><td>", out);
    put_seconds(out, "took_most", sum->took.most);
    fprintf(out,
            "</td><td>%" PRIu64 "</td></tr>\n<tr><td class=\"wrap\">a writer's pack, of %" PRIu64 " writers</td><td>",
            sum->took.rank, sum->writers);
    put_bytes(out, "written_least", report_whole(sum->written.least));
    fputs("</td><td>", out);
    put_bytes(out, "written_median", report_whole(sum->written.middle));
    fputs("</td><td>", out);
    put_bytes(out, "written_most", report_whole(sum->written.most));
    fprintf(out,
            "</td><td>%" PRIu64 "</td></tr>\n</table>\n<p class=\"faint\">The middle of a writer's packs is the "
            "median of the last checkpoint; the other numbers are of all.</p>\n",
            sum->written.rank);
}

static void put_codecs(FILE *out, const struct report *report) {
    fputs("<h2>Codecs</h2>\n<table><tr><th>most bytes by</th><th>checkpoints</th><th>new</th><th>stored</th>"
          "<th>ratio</th></tr>\n",
          out);
    for (size_t i = 0; i < report->codec_count; i++) {
        const struct report_codec *codec = &report->codecs[i];
        fputs("<tr><td>", out);
        page_put(out, codec->name[0] ? codec->name : "none");
        fputs("</td><td>", out);
        put_count(out, NULL, codec->checkpoints);
        fputs("</td><td>", out);
        put_bytes(out, NULL, codec->bytes_new);
        fputs("</td><td>", out);
        put_bytes(out, NULL, codec->bytes_stored);
        fprintf(out, "</td><td>%.2f</td></tr>\n",
                codec->bytes_stored ? (double)codec->bytes_new / (double)codec->bytes_stored : 0);
    }
    fputs("</table>\n", out);
}

static void put_space(FILE *out, const struct report *report) {
    const uint64_t *b = report->sum.bytes;
    fputs("<h2>Space</h2>\n<table><tr><th>what</th><th>bytes</th></tr>\n<tr><td class=\"wrap\">data, stored</td><td>",
          out);
    put_bytes(out, NULL, b[REPORT_STORED]);
    fputs("</td></tr>\n<tr><td class=\"wrap\">tables and manifests beside it</td><td>", out);
    put_bytes(out, "bytes_metadata", b[REPORT_METADATA]);
    fputs("</td></tr>\n<tr><td class=\"wrap\">of the data, stored again so that old packs could go</td><td>", out);
    put_bytes(out, "bytes_rewritten", b[REPORT_REWRITTEN]);
    fprintf(out, "</td></tr>\n<tr><td class=\"wrap\">removed by keep=N, in %" PRIu64 " objects</td><td>",
            report->freed_objects);
    put_bytes(out, "freed_bytes", b[REPORT_FREED]);
    fputs("</td></tr>\n</table>\n", out);
}

static void put_run(FILE *out, const struct report_life *life) {
    fprintf(out, "<tr><td>%" PRIu64 "</td><td class=\"left\">", life->generation);
    page_put(out, life->program);
    fputs("</td><td class=\"left\">", out);
    page_put(out, life->host);
    fprintf(out, "</td><td>%" PRIu64 "</td><td>", life->ranks);
    put_time(out, life->opened);
    fputs("</td><td>", out);
    put_time(out, life->ended ? life->ended : life->written);
    fprintf(out, "</td><td>%" PRIu64 "</td><td>%" PRIu64 "</td><td>", life->checkpoints, life->failed);
    put_bytes(out, NULL, life->bytes_memory);
    fputs("</td><td class=\"left\">", out);
    page_put(out, life->capture);
    fputs("</td><td class=\"wrap\">", out);
    page_put(out, report_end_of(life));
    fputs("</td></tr>\n", out);
}

static void put_runs(FILE *out, const struct report *report) {
    fputs("<h2>Runs</h2>\n<table><tr><th>run</th><th class=\"left\">program</th><th class=\"left\">host</th>"
          "<th>ranks</th><th>from</th><th>to</th><th>checkpoints</th><th>failed</th><th>memory</th>"
          "<th class=\"left\">capture</th><th class=\"left\">end</th></tr>\n",
          out);
    for (size_t i = 0; i < report->life_count; i++)
        put_run(out, &report->lives[i]);
    fputs("</table>\n", out);
}

static void put_event(FILE *out, const struct report_event *event) {
    fputs("<tr><td>", out);
    put_time(out, event->time);
    fputs("</td><td class=\"left\">", out);
    page_put(out, event->what);
    fputs("</td><td>", out);
    if (event->version >= 0)
        fprintf(out, "%" PRId64, event->version);
    fputs("</td><td>", out);
    if (event->seconds > 0)
        put_seconds(out, NULL, event->seconds);
    fputs("</td><td>", out);
    if (event->bytes)
        put_bytes(out, NULL, event->bytes);
    fputs("</td><td class=\"wrap\">", out);
    page_put(out, event->text);
    fputs("</td></tr>\n", out);
}

static void put_events(FILE *out, const struct report *report) {
    size_t first = report->event_count > EVENTS_DRAWN ? report->event_count - EVENTS_DRAWN : 0;

    fputs("<h2>Restarts and failures</h2>\n", out);
    if (report->event_count == 0) {
        fputs("<p class=\"faint\">There were none.</p>\n", out);
        return;
    }
    fputs("<table><tr><th>time</th><th class=\"left\">what</th><th>version</th><th>took</th><th>read</th>"
          "<th class=\"left\">why</th></tr>\n",
          out);
    for (size_t i = first; i < report->event_count; i++)
        put_event(out, &report->events[i]);
    fputs("</table>\n", out);
    if (first)
        fprintf(out, "<p class=\"faint\">%zu before these are not told.</p>\n", first);
}

static void put_point(FILE *out, const struct report_point *point) {
    fputs("<tr><td>", out);
    if (point->count + point->failed > 1)
        fputs("up to ", out);
    fprintf(out, "%" PRIu64 "</td><td>%" PRIu64 "</td><td>%" PRIu64 "</td><td>", point->version, point->count,
            point->failed);
    put_bytes(out, NULL, report_whole(report_mean(point, (double)point->bytes[REPORT_PROTECTED])));
    fputs("</td><td>", out);
    put_bytes(out, NULL, report_whole(report_mean(point, (double)point->bytes[REPORT_CHANGED])));
    fputs("</td><td>", out);
    put_bytes(out, NULL, report_whole(report_mean(point, (double)point->bytes[REPORT_STORED])));
    fputs("</td><td>", out);
    put_seconds(out, NULL, report_mean(point, point->seconds[REPORT_BLOCKED]));
    fputs("</td><td>", out);
    put_seconds(out, NULL, report_mean(point, point->seconds[REPORT_DURABLE]));
    fputs("</td><td class=\"left\">", out);
    page_put(out, point->codec);
    fputs("</td></tr>\n", out);
}

static void put_points(FILE *out, const struct report *report) {
    size_t first = report->point_count > ROWS ? report->point_count - ROWS : 0;

    fputs("<h2>The last checkpoints</h2>\n<table id=\"points\"><tr><th>version</th><th>checkpoints</th><th>failed</th>"
          "<th>protected</th><th>changed</th><th>stored</th><th>blocked</th><th>durable</th><th class=\"left\">codec"
          "</th></tr>\n",
          out);
    for (size_t i = first; i < report->point_count; i++)
        put_point(out, &report->points[i]);
    fputs("</table>\n", out);
}

void report_page(FILE *out, const struct report *report, const char *address) {
    static struct drawing drawing; /* too large for a stack */

    drawing.count = report_columns(report, drawing.columns, COLUMNS);
    page_begin(out, report->name, style);
    fputs("<h1>", out);
    page_put(out, report->name);
    fputs("</h1>\n<p class=\"faint\">varve report of ", out);
    page_put(out, address);
    fputs("</p>\n", out);
    put_facts(out, report);
    fputs("<h2>Of each checkpoint, all ranks together</h2>\n", out);
    draw_bytes(out, report, &drawing, "protected", "within", REPORT_PROTECTED);
    draw_bytes(out, report, &drawing, "changed", "across", REPORT_CHANGED);
    draw_bytes(out, report, &drawing, "stored", "stored", REPORT_STORED);
    draw_seconds(out, report, &drawing, "blocked", "saved", REPORT_BLOCKED, report->sum.blocked_most);
    draw_seconds(out, report, &drawing, "until durable", "earlier", REPORT_DURABLE, report->sum.durable_most);
    put_parts(out, report);
    put_times(out, report);
    put_balance(out, report);
    put_codecs(out, report);
    put_space(out, report);
    put_runs(out, report);
    put_events(out, report);
    put_points(out, report);
    if (report->lines_skipped)
        fprintf(out, "<p class=\"faint\">%" PRIu64 " lines of the logs could not be read.</p>\n",
                report->lines_skipped);
    page_end(out);
}
