/* Names that come from a store, a file or another process, made fit for a terminal and a line of a log. */
#ifndef VV_PRINTABLE_H
#define VV_PRINTABLE_H

#include <stddef.h>

/* Copy text into room bytes. Control characters (also those above 127, ends of lines and what changes the direction of
 * writing) and bytes that are no UTF-8 come as \xHH: nothing in it can command a terminal or begin another line. What
 * does not fit is left out; no character is cut in two. */
void vv_printable(const char *text, char *out, size_t capacity);

#endif
