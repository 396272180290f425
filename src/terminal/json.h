/* JSON lines on stdout: one object per line, each with "message_type". */
#ifndef TERMINAL_JSON_H
#define TERMINAL_JSON_H

#include <stddef.h>
#include <stdint.h>

void json_begin(const char *message_type);
void json_text(const char *key, const char *value); /* bytes that are no UTF-8 become U+FFFD */
void json_u64(const char *key, uint64_t value);
void json_i64(const char *key, int64_t value);
void json_bool(const char *key, int value);
void json_number(const char *key, double value); /* null when it is not finite */
void json_value(const char *key, double value);  /* every digit; "inf", "-inf", or null when it is no number */
void json_array(const char *key, const uint64_t *values, size_t count);
void json_time(const char *key, uint64_t ns);                                 /* since 1970; null for 0 */
void json_checkpoint(const char *name, int64_t version, uint32_t generation); /* these three */
/* A line of its own: what a program has attached to this checkpoint. */
void json_attribute(const char *name, int64_t version, uint32_t generation, const char *attribute, const char *value);
void json_end(void); /* ends the line and flushes it */

#endif
