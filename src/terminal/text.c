#include "terminal/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void text_size(char out[SIZE_CAPACITY], uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    int unit = 0;

    while (value >= 999.5 && unit < 6) {
        value /= 1024;
        unit++;
    }
    snprintf(out, SIZE_CAPACITY, unit == 0 || value >= 99.95 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

void text_time_local(char out[TIME_CAPACITY], uint64_t ns) {
    time_t seconds = (time_t)(ns / 1000000000u);
    struct tm tm;

    if (ns == 0 || !localtime_r(&seconds, &tm)) {
        snprintf(out, TIME_CAPACITY, "-");
        return;
    }
    strftime(out, TIME_CAPACITY, "%Y-%m-%d %H:%M:%S", &tm);
}

void text_time_utc(char out[TIME_CAPACITY], uint64_t ns) {
    time_t seconds = (time_t)(ns / 1000000000u);
    struct tm tm;

    gmtime_r(&seconds, &tm);
    size_t used = strftime(out, TIME_CAPACITY, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + used, TIME_CAPACITY - used, ".%09uZ", (unsigned)(ns % 1000000000u));
}

size_t utf8_length(const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = at[0] == 0 ? 0 : at[0] < 0x80 ? 1 : at[0] < 0xc0 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;

    if (length < 2)
        return length;
    if (at[0] > 0xf4)
        return 0;
    uint32_t point = at[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (at[i] & 0x3f);
    }
    if (point < least[length] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff))
        return 0;
    return length;
}

uint32_t utf8_point(const char *text, size_t length) {
    const unsigned char *at = (const unsigned char *)text;
    uint32_t point = length < 2 ? at[0] : at[0] & (0x7fu >> length);

    for (size_t i = 1; i < length; i++)
        point = point << 6 | (at[i] & 0x3f);
    return point;
}

/* U+0080 to U+009F are controls too; the others begin a line, or turn the order around in which it is read. */
int is_control_point(uint32_t point) {
    return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x061c || point == 0x200e || point == 0x200f ||
           (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
}

char *text_safe(const char *text) {
    char *out = malloc(strlen(text) * 4 + 1);
    char *end = out;

    while (out && *text) {
        size_t length = utf8_length(text);
        size_t step = length ? length : 1;
        if (length == 0 || is_control_point(utf8_point(text, length))) {
            for (size_t i = 0; i < step; i++)
                end += sprintf(end, "\\x%02x", (unsigned char)text[i]);
        } else {
            memcpy(end, text, length);
            end += length;
        }
        text += step;
    }
    if (out)
        *end = '\0';
    return out;
}

static void put_safe(FILE *file, const char *text) {
    char *safe = text_safe(text);
    fputs(safe ? safe : "?", file);
    free(safe);
}

void text_put(const char *text) {
    put_safe(stdout, text);
}

void text_put_error(const char *text) {
    put_safe(stderr, text);
}

const char *plural(uint64_t count) {
    return count == 1 ? "" : "s";
}

int text_has_colours(void) {
    const char *none = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return isatty(STDOUT_FILENO) && !(none && *none) && terminal && *terminal && strcmp(terminal, "dumb") != 0;
}

#define BOLD "\033[1m"
#define RED "\033[31m"
#define PLAIN "\033[0m"

void text_bold(const char *text) {
    int has_colours = text_has_colours();
    fputs(has_colours ? BOLD : "", stdout);
    text_put(text);
    fputs(has_colours ? PLAIN : "", stdout);
}

struct table {
    const char *const *titles;
    int columns;
    char **cells; /* those of table_alarm begin with ALARM, which text of others cannot have */
    size_t count;
    size_t capacity;
    int has_failed;
};

#define ALARM '\a'

struct table *table_create(const char *const *titles, int columns) {
    struct table *table = calloc(1, sizeof *table);
    if (table) {
        table->titles = titles;
        table->columns = columns;
    }
    return table;
}

static void add_cell(struct table *table, char *safe) {
    if (safe && table->count == table->capacity) {
        size_t capacity = table->capacity ? table->capacity * 2 : 64;
        char **cells = realloc(table->cells, capacity * sizeof *cells);
        if (!cells) {
            free(safe);
            table->has_failed = 1;
            return;
        }
        table->cells = cells;
        table->capacity = capacity;
    }
    if (safe)
        table->cells[table->count++] = safe;
    else
        table->has_failed = 1;
}

void table_text(struct table *table, const char *text) {
    add_cell(table, text_safe(text));
}

void table_alarm(struct table *table, const char *text) {
    char *safe = text_safe(text), *marked = NULL;
    if (safe && asprintf(&marked, "%c%s", ALARM, safe) < 0)
        marked = NULL;
    free(safe);
    add_cell(table, marked);
}

void table_number(struct table *table, uint64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    table_text(table, text);
}

void table_size(struct table *table, uint64_t bytes) {
    char text[SIZE_CAPACITY];
    text_size(text, bytes);
    table_text(table, text);
}

/* How wide it stands on a terminal, taking each character for one column. */
static int width_of(const char *text) {
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

/* The widest text of each column, titles included; 0 for columns in which nobody has a text. */
static void measure_columns(const struct table *table, int *widths) {
    for (size_t i = 0; i < table->count; i++) {
        int *width = &widths[i % (size_t)table->columns];
        int own = width_of(table->cells[i] + (table->cells[i][0] == ALARM));
        *width = own > *width ? own : *width;
    }
    for (int c = 0; c < table->columns; c++) {
        int title = width_of(table->titles[c] + (table->titles[c][0] == '<'));
        widths[c] = widths[c] && title > widths[c] ? title : widths[c];
    }
}

/* Blanks come only before a text, never at the end of a line. */
static void print_row(const struct table *table, const int *widths, const char *const *cells, int is_title) {
    int has_colours = text_has_colours();
    int blanks = 0;

    for (int c = 0; c < table->columns; c++) {
        int is_left = table->titles[c][0] == '<';
        int is_alarm = cells[c][0] == ALARM;
        const char *colour = !has_colours ? "" : is_title ? BOLD : is_alarm ? RED : "";
        const char *text = cells[c] + ((is_title && is_left) || is_alarm);
        int padding = widths[c] - width_of(text);
        if (!widths[c])
            continue;
        if (*text) {
            printf("%*s%s%s%s", blanks + (is_left ? 0 : padding), "", colour, text, *colour ? PLAIN : "");
            blanks = is_left ? padding : 0;
        } else {
            blanks += widths[c];
        }
        blanks += 2;
    }
    putchar('\n');
}

int table_print(const struct table *table) {
    if (table->has_failed)
        return -1;
    if (table->count == 0)
        return 0;
    int *widths = calloc((size_t)table->columns, sizeof *widths);
    if (!widths)
        return -1;
    measure_columns(table, widths);
    print_row(table, widths, table->titles, 1);
    for (size_t i = 0; i + (size_t)table->columns <= table->count; i += (size_t)table->columns)
        print_row(table, widths, (const char *const *)&table->cells[i], 0);
    free(widths);
    return 0;
}

void table_destroy(struct table *table) {
    if (table) {
        for (size_t i = 0; i < table->count; i++)
            free(table->cells[i]);
        free(table->cells);
        free(table);
    }
}
