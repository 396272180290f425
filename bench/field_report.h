/* What bench-field has measured, how it says it, and the bounds. Times are those of the slowest rank, bytes are
 * sums over all ranks. */
#ifndef FIELD_REPORT_H
#define FIELD_REPORT_H

#include <stddef.h>

#define FIELD_LIST_MAX 64

struct field_mode {
    const char *name;
    const char *settings;
    int is_unique;
    int is_plain; /* stored as it is: bytes can be compared with the floor */
};

struct field_list {
    double values[FIELD_LIST_MAX];
    size_t count;
};

struct field_result {
    const struct field_mode *mode;
    unsigned ranks;
    const char *pattern;
    struct field_list bare, blocked, durable, cpu; /* of checkpoints that count: later ones, or all when unique */
    double first_durable;
    double fast_write, fast_read;
    const char *fast_write_name, *fast_read_name;
    struct field_list restart, cold_read, restart_cpu, cold_cpu;
    char codec[16];
    double protected_bytes;
    double first_metadata;
    double later_changed, later_growth;              /* sums over later checkpoints; growth is of the whole store */
    double later_metadata, later_chunks, later_runs; /* rewritten bases apart */
    double base_most;
};

void field_add(struct field_list *list, double value);
void field_print_json(const struct field_result *result);
void field_print_people(const struct field_result *result);

/* Is a bound passed? Says which on stderr, unless it is told to be quiet. */
int field_bytes_over(const struct field_result *result, int is_quiet);
int field_times_over(const struct field_result *result, double slack, int is_quiet);

#endif
