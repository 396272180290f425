#include <inttypes.h>
#include <stdio.h>

#include "analyze/analyze_private.h"

#define WIDTH 720.0   /* of a bar */
#define BARS_MOST 64u /* more looks than that: the last ones are drawn */

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>varve analyze</title>\n<style>\n"
    ":root{--paper:#fff;--ink:#1b1f24;--faint:#6a737d;--line:#d8dee4;--zero:#c8ccd1;--within:#7fb3d5;--across:#2e86c1;"
    "--earlier:#1b4f72;--saved:#f5c26b;--stored:#d35400}\n"
    "@media(prefers-color-scheme:dark){:root{--paper:#15181c;--ink:#e6e9ec;--faint:#9aa4ae;--line:#343a41;"
    "--zero:#4a5159;--within:#3d6e8f;--across:#4aa3df;--earlier:#9ad0f5;--saved:#a97b24;--stored:#f0883e}}\n"
    "body{background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif;max-width:760px;margin:2em auto;"
    "padding:0 16px}\nh1{font-size:1.3em}h2{font-size:1.05em;margin-top:2em}p.end{font-size:1.15em}\n"
    "table{border-collapse:collapse;width:100%;font-size:.85em;display:block;overflow-x:auto}"
    "td,th{padding:.25em .6em;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}"
    "td:first-child,th:first-child{text-align:left}th{color:var(--faint);font-weight:600}\n"
    "svg{width:100%;height:auto;display:block}.zero{fill:var(--zero)}.within{fill:var(--within)}"
    ".across{fill:var(--across)}.earlier{fill:var(--earlier)}.saved{fill:var(--saved)}.stored{fill:var(--stored)}\n"
    ".key span{display:inline-block;margin-right:1.2em;font-size:.85em}.key svg{display:inline;width:.8em;"
    "height:.8em;margin-right:.4em}.faint{color:var(--faint);font-size:.9em;overflow-wrap:anywhere}\n"
    "</style></head><body>\n";

/* What somebody else has named stays text; what commands a terminal or is no UTF-8 does no harm here. */
static void put(FILE *out, const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '<' || c == '>' || c == '&' || c == '"' || c < 32)
            fprintf(out, "&#%u;", c < 32 ? 0xFFFDu : c);
        else
            fputc(c, out);
    }
}

static const char *size_text(char text[32], uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    unsigned unit = 0;

    for (; value >= 999.5 && unit < 6; unit++)
        value /= 1024;
    snprintf(text, 32, "%.*f %s", unit && value < 9.95 ? 2 : unit && value < 99.5 ? 1 : 0, value, units[unit]);
    return text;
}

/* ---- bars ---- */

/* The parts of the data, in the order of the key. */
struct part {
    const char *class, *name;
};
static const struct part parts[] = {
    {"zero", "zeros"},
    {"within", "equal within a file"},
    {"across", "equal across files"},
    {"earlier", "as in the look before"},
    {"saved", "new, saved by compression"},
    {"stored", "new, stored"},
};
#define PARTS (sizeof parts / sizeof *parts)

static void parts_of(const struct analyze_counts *counts, uint64_t out[PARTS]) {
    uint64_t stored = counts->stored < counts->fresh ? counts->stored : counts->fresh;
    const uint64_t values[PARTS] = {counts->zero,    counts->within,         counts->across,
                                    counts->earlier, counts->fresh - stored, stored};

    for (size_t i = 0; i < PARTS; i++)
        out[i] = values[i];
}

static void put_bar(FILE *out, const struct analyze_counts *counts, uint64_t most) {
    uint64_t values[PARTS];
    char text[32];
    double at = 0;

    parts_of(counts, values);
    fprintf(out, "<svg viewBox=\"0 0 %.0f 22\" role=\"img\">", WIDTH);
    for (size_t i = 0; i < PARTS; i++) {
        double width = most ? WIDTH * (double)values[i] / (double)most : 0;
        if (values[i] == 0)
            continue;
        fprintf(out, "<rect class=\"%s\" x=\"%.2f\" y=\"2\" width=\"%.2f\" height=\"18\"><title>%s: %s</title></rect>",
                parts[i].class, at, width, parts[i].name, size_text(text, values[i]));
        at += width;
    }
    fputs("</svg>\n", out);
}

static void put_bars(FILE *out, const struct analyze *analyze) {
    unsigned first = analyze->count > BARS_MOST ? analyze->count - BARS_MOST : 0;
    uint64_t most = 0;

    fputs("<p class=\"key\">", out);
    for (size_t i = 0; i < PARTS; i++) {
        fprintf(out, "<span><svg viewBox=\"0 0 10 10\"><rect class=\"%s\" width=\"10\" height=\"10\"/></svg>%s</span>",
                parts[i].class, parts[i].name);
    }
    fputs("</p>\n", out);
    for (unsigned i = first; i < analyze->count; i++)
        most = analyze->list[i].all.bytes > most ? analyze->list[i].all.bytes : most;
    for (unsigned i = first; i < analyze->count; i++) {
        char text[32];
        fputs("<p class=\"faint\">", out);
        put(out, analyze->list[i].label);
        fprintf(out, ", %s</p>\n", size_text(text, analyze->list[i].all.bytes));
        put_bar(out, &analyze->list[i].all, most);
    }
    if (first)
        fprintf(out, "<p class=\"faint\">%u looks before these are not drawn.</p>\n", first);
}

/* ---- tables ---- */

static void put_cell(FILE *out, uint64_t bytes) {
    char text[32];
    fprintf(out, "<td>%s</td>", size_text(text, bytes));
}

static void put_row(FILE *out, const char *name, const struct analyze_counts *counts) {
    fputs("<tr><td>", out);
    put(out, name);
    fputs("</td>", out);
    put_cell(out, counts->bytes);
    put_cell(out, counts->zero);
    put_cell(out, counts->within);
    put_cell(out, counts->across);
    put_cell(out, counts->earlier);
    put_cell(out, counts->fresh);
    put_cell(out, counts->fine_zero + counts->fine_known);
    put_cell(out, counts->stored + counts->metadata);
    fputs("</tr>\n", out);
}

static void put_tables(FILE *out, const struct analyze *analyze) {
    unsigned first = analyze->count > BARS_MOST ? analyze->count - BARS_MOST : 0;

    for (unsigned i = first; i < analyze->count; i++) {
        const struct analyze_look *look = &analyze->list[i];
        fputs("<h2>", out);
        put(out, look->label);
        fputs("</h2>\n<table><tr><th>type</th><th>bytes</th><th>zero</th><th>within</th><th>across</th><th>earlier</th>"
              "<th>new</th><th>of these fine</th><th>stored</th></tr>\n",
              out);
        for (size_t j = 0; j < look->kind_count; j++)
            put_row(out, look->kinds[j].name, &look->kinds[j].counts);
        put_row(out, "all", &look->all);
        fputs("</table>\n", out);
        if (i > 0 && look->compared)
            fprintf(out, "<p class=\"faint\">%.1f %% of the pages changed; in chunks of %u bytes %.1f %%.</p>\n",
                    100.0 * (double)look->changed / (double)look->compared, ANALYZE_FINE,
                    100.0 * (double)look->fine_changed / (double)look->compared);
    }
}

void analyze_page(FILE *out, const struct analyze *analyze, const struct analyze_advice *advice) {
    char stored[32], bytes[32];

    fputs(head, out);
    fputs("<h1>varve analyze</h1>\n", out);
    fprintf(out, "<p class=\"end\">With Varve this would be <b>%s of %s</b>, blocked about %.3g s.</p>\n",
            size_text(stored, advice->stored), size_text(bytes, advice->bytes), advice->seconds_blocked);
    fputs("<p>Settings: <code>", out);
    put(out, advice->settings[0] ? advice->settings : "the defaults");
    fputs("</code>. ", out);
    put(out, advice->why);
    fputs("</p>\n", out);
    put_bars(out, analyze);
    put_tables(out, analyze);
    fputs("</body></html>\n", out);
}
