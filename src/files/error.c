#include "files/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int files_error(struct varve_error *error, int code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return code;
}

int files_system_error(struct varve_error *error, const char *what, const char *path) {
    int code = -errno;
    return files_error(error, code, "cannot %s %s: %s", what, path, strerror(-code));
}

int files_changed(struct varve_error *error, const char *path) {
    return files_error(error, -EAGAIN,
                       "%s changed while it was read: nothing was stored; try again when nobody writes it", path);
}
