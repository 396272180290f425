/* Filling struct varve_error, which every folder may do. */
#ifndef VV_ERROR_H
#define VV_ERROR_H

#include <varve/varve_error.h>

/* Write code and text into error (NULL is allowed) and return code, so that a failing function can say
 * `return vv_error(error, VARVE_CORRUPT, "...", ...)`. Rank stays -1 until the session fills it. */
int vv_error(struct varve_error *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same, with ": " and the sentence of the code appended; for failed system and backend calls. */
int vv_error_sys(struct varve_error *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Only if nobody deeper has filled it. */
int vv_error_default(struct varve_error *error, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns code. If that is an error, its text gets the address of the store (without parameters) at the end, unless it
 * names it already. */
int vv_error_store(struct varve_error *error, int code, const char *address);

void vv_error_clear(struct varve_error *error); /* accepts NULL */

#endif
