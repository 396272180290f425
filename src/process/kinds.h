/* What a mapping of a process holds, and which elements a compressor may look for in it: docs/processes.md has the
 * measurement. */
#ifndef PROCESS_KINDS_H
#define PROCESS_KINDS_H

struct process_kind {
    const char *name;
    int type; /* enum varve_type */
};

const struct process_kind *process_kind_of(int is_heap, int is_stack, int is_file, int is_code);

#endif
