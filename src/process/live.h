/* The memory of a running process, read while it runs: neither stopped nor changed. Pages may be written meanwhile, so
 * what is read is good for counting, not for going on from. */
#ifndef PROCESS_LIVE_H
#define PROCESS_LIVE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <varve/varve_error.h>

#include "process/kinds.h"

struct process_run {
    uint64_t address, length;
    uint64_t before; /* bytes of the part that come before it */
};

/* The pages of a mapping that only this process has: what an image of it would hold. */
struct process_part {
    char name[64]; /* as segments.h names it */
    const struct process_kind *kind;
    uint64_t start, length;
    size_t first, count; /* runs */
};

struct process_live {
    pid_t pid;
    struct process_part *parts;
    size_t part_count, part_capacity;
    struct process_run *runs;
    size_t run_count, run_capacity;
    uint64_t bytes; /* of all parts */
    uint64_t lost;  /* bytes that were gone when they were to be read; they come as zeros */
};

/* What the process has now; it must belong to the caller. 0 or a negative code, told in error. */
int process_live_open(struct process_live *live, pid_t pid, struct varve_error *error);
void process_live_close(struct process_live *live);
/* Whole pages of a part. -ESRCH, told, when the process has ended. */
int process_live_read(struct process_live *live, size_t part, uint64_t offset, void *buffer, size_t size,
                      struct varve_error *error);
/* Where in its mapping a byte of the part lies. */
uint64_t process_live_place(const struct process_live *live, size_t part, uint64_t offset);

#endif
