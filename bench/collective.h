/* What bench-collective has measured of one case and mode, how it says it, and the bounds. */
#ifndef COLLECTIVE_H
#define COLLECTIVE_H

#include <stddef.h>

#define COLLECTIVE_ROUNDS_MAX 64

enum collective_case {
    CASE_SAME,   /* every rank the same: what there is to gain */
    CASE_UNIQUE, /* every chunk of every rank different: what it costs */
    CASE_MIXED,  /* half held by all, a quarter by pairs, a quarter by one */
    CASE_COUNT
};
extern const char *const collective_cases[CASE_COUNT];

struct collective_result {
    enum collective_case kind;
    const char *mode;
    char dedup[16]; /* what the library says it did, and why; rank 0's, of the last round */
    char reason[128];
    unsigned ranks, rounds;
    size_t size;       /* of a rank */
    size_t top;        /* what top-k keeps */
    const char *limit; /* of the storage, per rank; NULL: none */
    double durable[COLLECTIVE_ROUNDS_MAX], blocked[COLLECTIVE_ROUNDS_MAX], cpu[COLLECTIVE_ROUNDS_MAX];
    double named[COLLECTIVE_ROUNDS_MAX], exchange[COLLECTIVE_ROUNDS_MAX]; /* seconds, the slowest rank's */
    double growth, data, metadata;                                        /* bytes, sums over the rounds */
    double memory;                                                        /* of all ranks and rounds */
    double repeated, found; /* bytes that were there already in the same round: by our count, and not stored */
    double over_mean;       /* written by the busiest rank over the mean; the worst round */
    double messages, sent;  /* to find duplicates, by the busiest rank, per checkpoint */
    double unique;          /* bytes of the last round */
    double restart_read;    /* bytes from storage, all ranks; 0: not measured */
    double restart_seconds;
};

/* local: the result of that mode, or NULL if it was not measured. */
void collective_print_head(const struct collective_result *result); /* for people, before the first of a case */
void collective_print_people(const struct collective_result *result, const struct collective_result *local);
void collective_print_json(const struct collective_result *result, const struct collective_result *local);
/* Is a bound passed? Says which on stderr, unless it is told to be quiet. */
int collective_bytes_over(const struct collective_result *result, int is_quiet);
int collective_times_over(const struct collective_result *result, const struct collective_result *local, double slack,
                          int is_quiet);

#endif
