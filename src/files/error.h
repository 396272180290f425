/* How the calls of this folder, and the commands of the tool, tell what went wrong. */
#ifndef FILES_ERROR_H
#define FILES_ERROR_H

#include <varve/varve_error.h>

/* Both return the code. */
int files_error(struct varve_error *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* "cannot WHAT PATH: ", and what errno says. */
int files_system_error(struct varve_error *error, const char *what, const char *path);
/* A file is no longer as it was found. */
int files_changed(struct varve_error *error, const char *path);

#endif
