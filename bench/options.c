/* The command line of a benchmark. Nothing here is kept between calls: simulated ranks are threads (bench-scale). */
#include "options.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 110    /* of a usage line */
#define HIGHEST 1e18 /* that a size_t can hold, too */

/* ---- what is said ---- */

/* What stands for the value. */
static void describe(const struct bench_option *option, char *out, size_t capacity) {
    if (option->help)
        snprintf(out, capacity, "%s", option->help);
    else if (option->most > 0)
        snprintf(out, capacity, "%.10g..%.10g", option->least, option->most);
    else
        snprintf(out, capacity, "N");
}

static void print_usage(const struct bench_option *table) {
    int indent = fprintf(stderr, "usage: %s", program_invocation_short_name), column = indent;
    for (; table->name; table++) {
        char value[200], part[300];
        if (table->text && !table->help && table->name[0] == '-')
            continue;
        describe(table, value, sizeof value);
        int is_alone = table->name[0] != '-' || table->flag || table->act;
        int length = snprintf(part, sizeof part, is_alone ? " [%s]" : " [%s %s]", table->name, value);
        if (column + length > WIDTH)
            column = fprintf(stderr, "\n%*s", indent, "") - 1;
        column += fprintf(stderr, "%s", part);
    }
    fputc('\n', stderr);
}

static void refuse(const struct bench_option *table, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
static void refuse(const struct bench_option *table, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    print_usage(table);
    exit(2);
}

static void refuse_value(const struct bench_option *table, const struct bench_option *option, const char *value) {
    char wanted[200], bounds[100] = "", steps[60] = "";
    describe(option, wanted, sizeof wanted);
    if (option->help && option->most > 0)
        snprintf(bounds, sizeof bounds, ", %.10g to %.10g", option->least, option->most);
    else if (option->least > 0 && option->most <= 0)
        snprintf(bounds, sizeof bounds, ", from %.10g on", option->least);
    if (option->step > 0)
        snprintf(steps, sizeof steps, ", in steps of %zu", option->step);
    refuse(table, "%s takes %s%s%s; '%s' is none of these", option->name, wanted, bounds, steps, value);
}

void options_demand(const struct bench_option *table, int ok, const char *what) {
    if (!ok)
        refuse(table, "%s", what);
}

/* ---- values ---- */

/* These read from the beginning of a text, and return where the number ends, or NULL. */
typedef const char *(*scan_fn)(const char *text, double *out);

static const char *scan_real(const char *text, double *out) {
    char *end = NULL;
    *out = strtod(text, &end);
    return end == text ? NULL : end;
}

static const char *scan_whole(const char *text, double *out) {
    size_t digits = strspn(text, "0123456789");
    const char *end = digits ? scan_real(text, out) : NULL;
    return end == text + digits ? end : NULL;
}

static const char *scan_scaled(const char *text, double *out, double unit) {
    static const char letters[] = "KMG";
    const char *end = scan_whole(text, out), *letter = end && *end ? strchr(letters, *end) : NULL;
    for (const char *at = letters; letter && at <= letter; at++)
        *out *= 1024;
    *out *= letter ? 1 : unit;
    return letter ? end + 1 : end;
}

static const char *scan_size(const char *text, double *out) {
    return scan_scaled(text, out, 1 << 20);
}

static const char *scan_bytes(const char *text, double *out) {
    return scan_scaled(text, out, 1);
}

static int take_numbers(const struct bench_option *option, scan_fn scan, const char *text, struct numbers *out) {
    out->count = 0;
    while (out->count < OPTIONS_NUMBERS) {
        double value = 0;
        text = scan(text, &value);
        if (!text || !(value >= option->least) || value > (option->most > 0 ? option->most : HIGHEST) ||
            (option->step > 0 && (size_t)value % option->step != 0))
            return -1;
        out->value[out->count++] = value;
        if (*text != ',')
            return *text ? -1 : 0;
        text++;
    }
    return -1;
}

static int take_number(const struct bench_option *option, const char *text) {
    scan_fn scan = option->number ? scan_whole : option->size ? scan_size : option->bytes ? scan_bytes : scan_real;
    struct numbers one;
    if (take_numbers(option, scan, text, &one) != 0 || one.count != 1 || (option->number && one.value[0] > UINT_MAX))
        return -1;
    if (option->number)
        *option->number = (unsigned)one.value[0];
    else if (option->real)
        *option->real = one.value[0];
    else
        *(option->size ? option->size : option->bytes) = (size_t)one.value[0];
    return 0;
}

/* Is what begins here one of the words, as far as the next comma? */
static int begins_with_one(const char *text, const char *words) {
    size_t length = strcspn(text, ",");
    for (const char *at = words; *at; at += strcspn(at, ",|"), at += *at != '\0')
        if (strcspn(at, ",|") == length && strncmp(at, text, length) == 0)
            return 1;
    return 0;
}

int options_has(const char *list, const char *word) {
    return begins_with_one(word, list);
}

static int take_words(const char *text, const char *words, const char **out) {
    *out = text;
    for (; *text; text += strcspn(text, ","), text += *text == ',')
        if (!begins_with_one(text, words))
            return -1;
    return 0;
}

static int take_value(const struct bench_option *option, const char *text) {
    if (option->text)
        return *option->text = text, 0;
    if (option->choice)
        return !*text || strchr(text, ',') ? -1 : take_words(text, option->help, option->choice);
    if (option->list)
        return take_words(text, option->help, option->list);
    if (option->numbers)
        return take_numbers(option, scan_real, text, option->numbers);
    if (option->sizes)
        return take_numbers(option, scan_size, text, option->sizes);
    return option->take ? option->take(text) : take_number(option, text);
}

/* ---- the command line ---- */

/* An option by its name, or the next argument of those that have been taken already. */
static const struct bench_option *find(const struct bench_option *table, const char *word, unsigned *arguments) {
    unsigned left = *word == '-' ? 0 : (*arguments)++;
    for (; table->name; table++)
        if (*word == '-' ? strcmp(table->name, word) == 0 : table->name[0] != '-' && left-- == 0)
            return table;
    return NULL;
}

void options_read(const struct bench_option *table, int argc, char **argv) {
    unsigned arguments = 0;
    for (int i = 1; i < argc; i++) {
        const struct bench_option *option = find(table, argv[i], &arguments);
        if (!option)
            refuse(table, *argv[i] == '-' ? "there is no option %s" : "%s is one argument too many", argv[i]);
        if (option->flag)
            *option->flag = 1;
        if (option->act)
            option->act();
        if (option->flag || option->act)
            continue;
        const char *value = option->name[0] == '-' ? argv[++i] : argv[i];
        if (!value || strncmp(value, "--", 2) == 0)
            refuse(table, "%s has no value", option->name);
        if (strlen(value) >= OPTIONS_LONGEST)
            refuse(table, "%s is too long", option->name);
        if (take_value(option, value) != 0)
            refuse_value(table, option, value);
    }
}
