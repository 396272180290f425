#include <inttypes.h>
#include <stdio.h>

#include "analyze/analyze_private.h"
#include "terminal/page.h"

#define BARS_MOST 64u /* more looks than that: the last ones are drawn */

/* ---- bars ---- */

/* The parts of the data, in the order of the key. */
static const struct page_part parts[] = {
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

static void put_bars(FILE *out, const struct analyze *analyze) {
    unsigned first = analyze->count > BARS_MOST ? analyze->count - BARS_MOST : 0;
    uint64_t most = 0;

    page_key(out, parts, PARTS);
    for (unsigned i = first; i < analyze->count; i++)
        most = analyze->list[i].all.bytes > most ? analyze->list[i].all.bytes : most;
    for (unsigned i = first; i < analyze->count; i++) {
        uint64_t values[PARTS];
        char text[32];
        fputs("<p class=\"faint\">", out);
        page_put(out, analyze->list[i].label);
        fprintf(out, ", %s</p>\n", page_size(text, analyze->list[i].all.bytes));
        parts_of(&analyze->list[i].all, values);
        page_bar(out, parts, values, PARTS, most);
    }
    if (first)
        fprintf(out, "<p class=\"faint\">%u looks before these are not drawn.</p>\n", first);
}

/* ---- tables ---- */

static void put_cell(FILE *out, uint64_t bytes) {
    char text[32];
    fprintf(out, "<td>%s</td>", page_size(text, bytes));
}

static void put_row(FILE *out, const char *name, const struct analyze_counts *counts) {
    fputs("<tr><td>", out);
    page_put(out, name);
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
        page_put(out, look->label);
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

    page_begin(out, "varve analyze", "");
    fputs("<h1>varve analyze</h1>\n", out);
    fprintf(out, "<p class=\"end\">With Varve this would be <b>%s of %s</b>, blocked about %.3g s.</p>\n",
            page_size(stored, advice->stored), page_size(bytes, advice->bytes), advice->seconds_blocked);
    fputs("<p>Settings: <code>", out);
    page_put(out, advice->settings[0] ? advice->settings : "the defaults");
    fputs("</code>. ", out);
    page_put(out, advice->why);
    fputs("</p>\n", out);
    put_bars(out, analyze);
    put_tables(out, analyze);
    page_end(out);
}
