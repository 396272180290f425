/* A program that never opens a session stores nothing, and says nothing of it. So one line does, at its end: not for
 * its children, for one rank only, and not with log=error. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preload_private.h"

static pid_t teller;     /* 0: nobody tells */
static struct stat told; /* standard error, as it was at the start: a program may open other files in its place */
static int is_opened;

static int is_other_rank(void) {
    static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        const char *rank = getenv(ranks[i]);
        if (rank && strcmp(rank, "0") != 0)
            return 1;
    }
    return 0;
}

void unopened_start(void) {
    const char *level = getenv("VARVE_LOG");
    if ((!level || strcmp(level, "error") != 0) && !is_other_rank() && fstat(STDERR_FILENO, &told) == 0)
        teller = getpid();
}

void unopened_session(void) {
    is_opened = 1;
}

__attribute__((destructor)) static void tell_unopened(void) {
    struct stat now;
    if (is_opened || teller != getpid() || fstat(STDERR_FILENO, &now) != 0)
        return;
    if (now.st_dev != told.st_dev || now.st_ino != told.st_ino)
        return;
    signal(SIGPIPE, SIG_IGN); /* the program has ended, and must end as it would without us */
    dprintf(STDERR_FILENO,
            "varve: warn: %s has opened no session (varve_open), so nothing was stored; `varve dump` stores programs "
            "as they are\n",
            program_invocation_short_name);
}
