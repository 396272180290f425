/* The log: one line per event, to a callback if the application gave one, otherwise to stderr. Control characters in
 * what is told come as \xHH: a name cannot forge another line. */
#ifndef VV_LOG_H
#define VV_LOG_H

enum vv_log_level { VV_LOG_ERROR, VV_LOG_WARN, VV_LOG_INFO, VV_LOG_DEBUG, VV_LOG_TRACE };

typedef void (*vv_log_fn)(void *arg, int level, const char *line);

/* A NULL log writes errors and warnings to stderr. */
struct vv_log {
    int level;
    int rank; /* -1 when there is none to tell */
    vv_log_fn fn;
    void *arg;
};

void vv_log(const struct vv_log *log, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* What a person should know although nothing is wrong, at most a line or two per session: shown like a warning, and
 * called a note; a callback gets it with level VV_LOG_INFO. */
void vv_log_note(const struct vv_log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *vv_log_level_name(int level);

#endif
