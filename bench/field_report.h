/* What bench-field has measured, how it says it, and the bounds. Times are those of the slowest rank, bytes are
 * sums over all ranks. */
#ifndef FIELD_REPORT_H
#define FIELD_REPORT_H

#include <stddef.h>

#define FIELD_ROUNDS_MAX 64 /* checkpoints, and restarts */
#define FIELD_LIST_MAX 128

struct field_mode {
    const char *name;
    const char *settings;
    int is_unique;
    int is_plain;     /* stored as it is: bytes can be compared with the floor */
    int is_async;     /* the program runs on beside the checkpoint */
    int is_exact;     /* what several ranks hold is stored once, whatever that costs */
    unsigned alike;   /* field.h */
    unsigned regions; /* 0: one. Several are the tensors of a training, and bare is then the file of one replica */
};

struct field_list {
    double values[FIELD_LIST_MAX];
    size_t count;
};

/* What only checkpoints have beside which the program runs on. Lists are of later checkpoints; seconds of work are from
 * when all ranks begin until all have done it. */
struct field_async {
    struct field_list undisturbed;     /* the work alone, on memory that is not protected; of the whole run */
    struct field_list undisturbed_cpu; /* sum over the ranks, like the two below */
    struct field_list flight;          /* from the call until the same work is done and the checkpoint survives */
    struct field_list asking;          /* of that, inside varve_test and varve_wait; the slowest rank's */
    struct field_list program_cpu;     /* of the threads that work, the call included */
    struct field_list helper_cpu;      /* of all other threads */
    struct field_list audit;           /* of that of the call, for the audit; the slowest rank's */
    double first_blocked, first_flight;
    double staged, drained, held, frozen;      /* bytes of all later checkpoints and ranks */
    double wait, cow, avoided, ahead, trapped; /* pages, likewise */
    double memory_most;                        /* bytes of all ranks */
    double frozen_most;                        /* bytes that frozen copies kept, of all ranks */
    char tracker[16];
    char reason[128]; /* rank 0's, of the last checkpoint */
};

/* Where a restart spends its time: sums over all threads of all ranks. */
struct field_phases {
    double needed, read, decoded; /* bytes: unique in the job; of the storage; of whole blocks, decoded */
    double reads, blocks, rounds, faults;
    double
        peak; /* memory that came with it, of the rank with most, over protected; what a node shares counts for each */
    double reading, checking, decoding, copying, waiting; /* seconds */
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
    struct field_phases phases; /* of the last restart */
    char codec[16], dedup[16];
    char dedup_reason[128]; /* rank 0's, of the last checkpoint, as dedup is */
    double protected_bytes;
    double first_metadata, first_growth, first_floor;
    double later_changed, later_growth; /* sums over later checkpoints; growth is of the whole store */
    double later_floor;                 /* of later_changed, what is left when no rank stores what another does */
    double later_metadata, later_chunks, later_runs; /* rewritten bases apart */
    double base_most;
    double peak; /* bytes of memory, of the rank that has had most since it began */
    struct field_async async;
};

void field_add(struct field_list *list, double value);
void field_print_json(const struct field_result *result);
void field_print_people(const struct field_result *result);

/* Is a bound passed? Says which on stderr, unless it is told to be quiet. */
int field_bytes_over(const struct field_result *result, int is_quiet);
int field_times_over(const struct field_result *result, double slack, int is_quiet);

#endif
