#include "base/log.h"

#include "base/printable.h"

#include <stdarg.h>
#include <stdio.h>

#define LINE_BYTES 1024

static const char *const level_names[] = {"error", "warn", "info", "debug", "trace"};

const char *vv_log_level_name(int level) {
    return level >= VV_LOG_ERROR && level <= VV_LOG_TRACE ? level_names[level] : "unknown";
}

static int is_heard(const struct vv_log *log, int level) {
    return level <= (log ? log->level : VV_LOG_WARN);
}

static void put_line(const struct vv_log *log, int level, const char *name, const char *format, va_list args) {
    char raw[LINE_BYTES], line[LINE_BYTES];
    int used = 0;

    if (log && log->rank >= 0)
        used = snprintf(raw, sizeof raw, "rank %d: ", log->rank);
    vsnprintf(raw + used, sizeof raw - (size_t)used, format, args);
    vv_printable(raw, line, sizeof line); /* names in it are the choice of somebody else */
    if (log && log->fn)
        log->fn(log->arg, level, line);
    else
        fprintf(stderr, "varve: %s: %s\n", name, line);
}

void vv_log(const struct vv_log *log, int level, const char *format, ...) {
    va_list args;

    if (is_heard(log, level)) {
        va_start(args, format);
        put_line(log, level, vv_log_level_name(level), format, args);
        va_end(args);
    }
}

void vv_log_note(const struct vv_log *log, const char *format, ...) {
    va_list args;

    if (is_heard(log, VV_LOG_WARN)) {
        va_start(args, format);
        put_line(log, VV_LOG_INFO, "note", format, args);
        va_end(args);
    }
}
