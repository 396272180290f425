/* Sizes, times and names for people, and tables with aligned columns. */
#ifndef TERMINAL_TEXT_H
#define TERMINAL_TEXT_H

#include <stddef.h>
#include <stdint.h>

#define SIZE_CAPACITY 16
#define TIME_CAPACITY 40

/* "0 B", "999 B", "1.5 KiB", "123 GiB": three digits and a unit. */
void text_size(char out[SIZE_CAPACITY], uint64_t bytes);
/* "2026-04-01 13:05:59" where the reader lives; "-" for 0. */
void text_time_local(char out[TIME_CAPACITY], uint64_t ns);
/* "2026-04-01T11:05:59.123456789Z". */
void text_time_utc(char out[TIME_CAPACITY], uint64_t ns);
/* Bytes of the UTF-8 character at text, 1 to 4; 0 if it is none (or at the end). */
size_t utf8_length(const char *text);
/* The number of the character of so many bytes; and whether it commands a terminal instead of being seen. */
uint32_t utf8_point(const char *text, size_t length);
int is_control_point(uint32_t point);
/* What somebody else named, in new memory (NULL without): control characters, and bytes that are no UTF-8, come as
 * \xHH, so that a name cannot command the terminal. */
char *text_safe(const char *text);
/* Print it to stdout. */
void text_put(const char *text);
/* The same for messages, on stderr. */
void text_put_error(const char *text);
/* Whether stdout is a terminal that may show colours: not with NO_COLOR, nor with TERM=dumb. */
int text_has_colours(void);
/* Print to stdout, in bold where there are colours: what a person looks for first. */
void text_bold(const char *text);
/* "s" unless there is one. */
const char *plural(uint64_t count);

/* A table that is printed when all rows are known. Columns are right-aligned unless their title begins with '<'.
 * Titles are bold where there are colours. */
struct table;
struct table *table_create(const char *const *titles, int columns); /* NULL without memory */
/* The next cell, row by row. */
void table_text(struct table *table, const char *text);
/* The same in red where there are colours. */
void table_alarm(struct table *table, const char *text);
void table_number(struct table *table, uint64_t value);
void table_size(struct table *table, uint64_t bytes);
/* Print the table, titles first (nothing if it has no row); columns without any text are left out. -1 if memory ran out
 * meanwhile. */
int table_print(const struct table *table);
void table_destroy(struct table *table); /* accepts NULL */

#endif
