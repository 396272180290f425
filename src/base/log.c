#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

#define LINE_BYTES 1024

static const char *const level_names[] = {"error", "warn", "info", "debug", "trace"};

const char *vv_log_level_name(int level) {
    return level >= VV_LOG_ERROR && level <= VV_LOG_TRACE ? level_names[level] : "unknown";
}

void vv_log(const struct vv_log *log, int level, const char *format, ...) {
    char line[LINE_BYTES];
    int used = 0;
    va_list args;

    if (level > (log ? log->level : VV_LOG_WARN)) {
        return;
    }
    if (log && log->rank >= 0) {
        used = snprintf(line, sizeof line, "rank %d: ", log->rank);
    }
    va_start(args, format);
    vsnprintf(line + used, sizeof line - (size_t)used, format, args);
    va_end(args);
    if (log && log->fn) {
        log->fn(log->arg, level, line);
    } else {
        fprintf(stderr, "varve: %s: %s\n", vv_log_level_name(level), line);
    }
}
