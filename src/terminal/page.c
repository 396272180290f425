#include "terminal/page.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "terminal/text.h"

#define WIDTH 720.0 /* of a bar */

static const char style_of_all[] =
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
    "height:.8em;margin-right:.4em}.faint{color:var(--faint);font-size:.9em;overflow-wrap:anywhere}\n";

void page_begin(FILE *out, const char *title, const char *style) {
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>",
          out);
    page_put(out, title);
    fprintf(out, "</title>\n<style>\n%s%s</style></head><body>\n", style_of_all, style);
}

void page_end(FILE *out) {
    fputs("</body></html>\n", out);
}

void page_put(FILE *out, const char *text) {
    char *safe = text_safe(text);

    for (const char *at = safe ? safe : "?"; *at; at++)
        if (strchr("<>&\"", *at))
            fprintf(out, "&#%d;", *at);
        else
            fputc(*at, out);
    free(safe);
}

const char *page_size(char text[32], uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    unsigned unit = 0;

    for (; value >= 999.5 && unit < 6; unit++)
        value /= 1024;
    snprintf(text, 32, "%.*f %s", unit && value < 9.95 ? 2 : unit && value < 99.5 ? 1 : 0, value, units[unit]);
    return text;
}

void page_key(FILE *out, const struct page_part *parts, size_t count) {
    fputs("<p class=\"key\">", out);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "<span><svg viewBox=\"0 0 10 10\"><rect class=\"%s\" width=\"10\" height=\"10\"/></svg>%s</span>",
                parts[i].class, parts[i].name);
    fputs("</p>\n", out);
}

void page_bar(FILE *out, const struct page_part *parts, const uint64_t *values, size_t count, uint64_t most) {
    char text[32];
    double at = 0;

    fprintf(out, "<svg viewBox=\"0 0 %.0f 22\" role=\"img\">", WIDTH);
    for (size_t i = 0; i < count; i++) {
        double width = most ? WIDTH * (double)values[i] / (double)most : 0;
        if (values[i] == 0)
            continue;
        fprintf(out, "<rect class=\"%s\" x=\"%.2f\" y=\"2\" width=\"%.2f\" height=\"18\"><title>%s: %s</title></rect>",
                parts[i].class, at, width, parts[i].name, page_size(text, values[i]));
        at += width;
    }
    fputs("</svg>\n", out);
}

FILE *page_create(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

    if (fd >= 0 && !file)
        close(fd);
    return file;
}
