/* Tables, JSON lines and bounds of bench-collective. */
#include "collective.h"

#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "ranks.h"

#define BOUND_SAME_16 0.15   /* of local, all ranks the same, the storage slow: 16 ranks */
#define BOUND_SAME_FEW 1.25  /* the same, 2 to 8 ranks, over the number of ranks */
#define BOUND_UNIQUE 1.15    /* of local, nothing the same, the storage as fast as it is */
#define BOUND_OVER_MEAN 1.02 /* written by the busiest rank */
#define BOUND_RESTART 1.1    /* read from storage, of the unique bytes */
#define FEW_RANKS 8
#define MANY_RANKS 16

const char *const collective_cases[CASE_COUNT] = {"same", "unique", "mixed"};

static double over(double a, double b) {
    return b > 0 ? a / b : 0;
}

static double durable_over_local(const struct collective_result *r, const struct collective_result *local) {
    return local ? over(bench_median(r->durable, r->rounds), bench_median(local->durable, local->rounds)) : 0;
}

static double exchange_over_hash(const struct collective_result *r) {
    return over(bench_median(r->exchange, r->rounds), bench_median(r->named, r->rounds));
}

/* Where nothing repeats, everything that does was found. */
static double found(const struct collective_result *r) {
    return r->repeated > 0 ? r->found / r->repeated : 1;
}

static double restart_read_over_unique(const struct collective_result *r) {
    return over(r->restart_read, r->unique);
}

/* ---- for people ---- */

void collective_print_head(const struct collective_result *r) {
    printf("%s, %u ranks of %.1f MiB, storage %s%s, %u rounds, threads of MPI: %s\n", collective_cases[r->kind],
           r->ranks, (double)r->size / (double)BENCH_MIB, r->limit ? r->limit : "as fast as it is",
           r->limit ? " a second and rank" : "", r->rounds, ranks_threads());
    printf("  %-8s %9s %9s %8s %8s %9s %9s %9s %9s %10s %9s %9s\n", "mode", "stored/", "max/mean", "found", "durable",
           "of local", "blocked", "cpu", "named", "exchange", "messages", "restart");
    printf("  %-8s %9s %9s %8s %8s %9s %9s %9s %9s %10s %9s %9s\n", "", "memory", "", "", "s", "", "s", "s", "s", "s",
           "", "/ unique");
}

void collective_print_people(const struct collective_result *r, const struct collective_result *local) {
    printf("  %-8s %9.4f %9.4f %8.4f %8.3f %9.3f %9.3f %9.3f %9.4f %10.4f %9.0f %9.3f\n", r->mode,
           over(r->growth, r->memory), r->over_mean, found(r), bench_median(r->durable, r->rounds),
           durable_over_local(r, local), bench_median(r->blocked, r->rounds), bench_median(r->cpu, r->rounds),
           bench_median(r->named, r->rounds), bench_median(r->exchange, r->rounds), r->messages,
           restart_read_over_unique(r));
    fflush(stdout);
}

/* ---- JSON ---- */

void collective_print_json(const struct collective_result *r, const struct collective_result *local) {
    printf("{\"bench\":\"collective\",\"case\":\"%s\",\"mode\":\"%s\",\"ranks\":%u,\"bytes\":%.0f,\"rounds\":%u",
           collective_cases[r->kind], r->mode, r->ranks, (double)r->size * r->ranks, r->rounds);
    printf(",\"top\":%zu,\"limit\":\"%s\",\"threads\":\"%s\",\"dedup\":\"%s\",\"dedup_reason\":\"%s\"", r->top,
           r->limit ? r->limit : "", ranks_threads(), r->dedup, r->reason);
    printf(",\"stored_over_memory\":%.6f,\"data_over_memory\":%.6f,\"metadata_over_memory\":%.6f",
           over(r->growth, r->memory), over(r->data, r->memory), over(r->metadata, r->memory));
    printf(",\"max_over_mean\":%.4f,\"found\":%.6f,\"exchange_over_hash\":%.4f", r->over_mean, found(r),
           exchange_over_hash(r));
    if (local)
        printf(",\"durable_over_local\":%.4f", durable_over_local(r, local));
    printf(",\"seconds_durable\":%.4f,\"seconds_blocked\":%.4f,\"seconds_named\":%.4f,\"seconds_exchange\":%.4f",
           bench_median(r->durable, r->rounds), bench_median(r->blocked, r->rounds), bench_median(r->named, r->rounds),
           bench_median(r->exchange, r->rounds));
    printf(",\"seconds_cpu\":%.4f,\"messages_most\":%.0f,\"bytes_sent_most\":%.0f", bench_median(r->cpu, r->rounds),
           r->messages, r->sent);
    if (r->restart_read > 0)
        printf(",\"restart_read_over_unique\":%.4f,\"seconds_restart\":%.4f", restart_read_over_unique(r),
               r->restart_seconds);
    printf("}\n");
    fflush(stdout);
}

/* ---- bounds ---- */

static int passes(const struct collective_result *r, int is_quiet, const char *what, double value, double bound) {
    if (value > bound && !is_quiet)
        fprintf(stderr, "%s, %s, %u ranks: %s is %.4f, which is over %.4f\n", collective_cases[r->kind], r->mode,
                r->ranks, what, value, bound);
    return value > bound;
}

int collective_bytes_over(const struct collective_result *r, int is_quiet) {
    if (strcmp(r->mode, "exact") != 0)
        return 0;
    int is_over = passes(r, is_quiet, "1 - found", 1 - found(r), 0);
    is_over |= passes(r, is_quiet, "max_over_mean", r->over_mean, BOUND_OVER_MEAN);
    is_over |= passes(r, is_quiet, "restart_read_over_unique", restart_read_over_unique(r), BOUND_RESTART);
    return is_over;
}

/* 0: none for so many ranks. */
static double bound_of_same(unsigned ranks) {
    return ranks <= FEW_RANKS ? BOUND_SAME_FEW / ranks : ranks == MANY_RANKS ? BOUND_SAME_16 : 0;
}

int collective_times_over(const struct collective_result *r, const struct collective_result *local, double slack,
                          int is_quiet) {
    double bound = 0;
    if (!local || strcmp(r->mode, "exact") != 0)
        return 0;
    if (r->kind == CASE_SAME && r->limit)
        bound = bound_of_same(r->ranks);
    if (r->kind == CASE_UNIQUE && !r->limit && r->ranks <= MANY_RANKS)
        bound = BOUND_UNIQUE;
    return bound > 0 && passes(r, is_quiet, "durable_over_local", durable_over_local(r, local), bound * slack);
}
