/* How far long work is: one line on stderr when that is a terminal, status lines in JSON, nothing otherwise. And the
 * way to stop it: the first interrupt asks the work to stop where it is safe, a second one ends the process at once. */
#ifndef TERMINAL_PROGRESS_H
#define TERMINAL_PROGRESS_H

#include <stdint.h>

#define EXIT_INTERRUPTED 130

/* Interrupts outside of progress_begin .. progress_end end the process with 130. */
void interrupts_init(void);

/* A command does one long work at a time: what is "verifying", say. NULL: nothing is told but an interrupt. */
void progress_begin(const char *what, int is_json);
/* Nonzero when the work should stop. */
int progress_update(uint64_t done, uint64_t total);
/* The same for things that are counted; total is 0 when nobody knows how many there are. Only on a terminal. */
int progress_count(uint64_t done, uint64_t total, const char *things);
/* Both as callbacks of the library, for any arg: of bytes, and of steps. */
int progress_callback(void *arg, uint64_t done, uint64_t total);
int progress_steps(void *arg, uint64_t done, uint64_t total);
/* Take the line away, so that something else can be printed. */
void progress_clear(void);
void progress_end(void);
double progress_seconds(void);

#endif
