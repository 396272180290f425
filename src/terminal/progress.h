/* How far long work is: one line on stderr when that is a terminal, status lines in JSON, nothing otherwise. And the
 * way to stop it: the first interrupt asks the work to stop where it is safe, a second one ends the process at once. */
#ifndef TERMINAL_PROGRESS_H
#define TERMINAL_PROGRESS_H

#include <stdint.h>

#define EXIT_INTERRUPTED 130

struct progress {
    const char *what; /* "verifying" */
    int is_json;
    int is_terminal;
    int is_shown; /* a line stands on the terminal */
    uint64_t began_ns;
    uint64_t told_ns;
    uint64_t done;
    uint64_t total;
};

/* Interrupts outside of progress_begin .. progress_end end the process with 130. */
void interrupts_init(void);

void progress_begin(struct progress *progress, const char *what, int is_json);
/* Nonzero when the work should stop. */
int progress_update(struct progress *progress, uint64_t done, uint64_t total);
/* Take the line away, so that something else can be printed. */
void progress_clear(struct progress *progress);
void progress_end(struct progress *progress);
double progress_seconds(const struct progress *progress);

#endif
