/* How the exchange between ranks (src/dedup/exchange.h) grows with their number.
 *
 *     bench-scale [--scheme flat|grid|auto|top-k] [--ids N] [--top K] [--rounds N] [--most-messages N] [--least-found
 * F]
 *
 * Every rank offers N ids: half of them are held by all ranks, a quarter by pairs, a quarter by one. No data is stored.
 * It runs under a real MPI, and, built with smpicc from the same sources, under SimGrid's simulation of MPI on
 * thousands of ranks; see scale.sh and docs/scale.md. Rank 0 prints one line of JSON:
 *
 *   seconds       from the common start to the last rank's end: the median round after the first; simulated, the last
 *   network_seconds  simulated: the same if computing took no time
 *   computed      simulated: seconds that a rank computes on the average
 *   messages      sent by the busiest rank in a round, answers included; bytes likewise
 *   reductions    and those that it sent in reductions and broadcasts, where that is known (simulated)
 *   found         share of the duplicates that nobody stores
 *   owned         the most that a rank has to store, as a multiple of the mean
 *
 * Ends with 1 when an id is stored by nobody, or twice where the scheme is exact, or a bound is not kept. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve_mpi.h>

#include "dedup/exchange.h"
#include "options.h"
#include "scale.h"

static _Thread_local struct varve_error ignored; /* ranks are threads */

#define CHUNK 4096
#define ROUNDS_MAX 64

struct options {
    const char *scheme;
    unsigned ids, top, rounds, most_messages;
    double least_found;
};

/* What a round came to: on this rank, and then, on all ranks, of the rank that has most, or of all together. */
enum { NANOSECONDS, MESSAGES, BYTES, REDUCTIONS, STORED_MOST, MOSTS };
enum { STORED, SUM, COMPUTED, SUMS }; /* chunks; the sum of their names; ns */
struct outcome {
    uint64_t most[MOSTS], sum[SUMS];
    double network_seconds; /* simulated: without computing */
};

static uint64_t mix(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* ---- what is offered ---- */

/* Who holds the id number `index` of a rank: the same holder, the same id. */
static uint64_t holder_of(uint32_t rank, size_t index, size_t ids) {
    if (index < ids / 2)
        return UINT64_C(1) << 40;
    return index < ids * 3 / 4 ? UINT64_C(1) << 41 | rank / 2 : UINT64_C(1) << 42 | rank;
}

static struct vv_hash128 id_of(uint32_t rank, size_t index, size_t ids) {
    uint64_t name = mix(holder_of(rank, index, ids)) + index;
    return (struct vv_hash128){.low = mix(name), .high = mix(name ^ UINT64_C(0x5bd1e995))};
}

static struct vv_offer *make_offers(uint32_t rank, size_t ids) {
    struct vv_offer *offers = calloc(ids + 1, sizeof *offers);
    if (!offers)
        abort();
    for (size_t i = 0; i < ids; i++)
        offers[i] = (struct vv_offer){id_of(rank, i, ids), (uint64_t)i * CHUNK, CHUNK};
    return offers;
}

/* Each id once: by the lowest rank that holds it. */
static uint64_t own_share(uint32_t rank, size_t ids, uint64_t *count) {
    uint64_t sum = 0;
    *count = 0;
    for (size_t i = 0; i < ids; i++) {
        uint32_t first = i < ids / 2 ? 0 : i < ids * 3 / 4 ? rank / 2 * 2 : rank;
        if (first == rank) {
            sum += id_of(rank, i, ids).low;
            ++*count;
        }
    }
    return sum;
}

/* ---- rounds ---- */

static void fail(const char *what, int code) __attribute__((noreturn));
static void fail(const char *what, int code) {
    fprintf(stderr, "bench-scale: %s: %d\n", what, code);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

static struct outcome run_round(struct vv_exchange *exchange, const struct vv_exchange_in *in,
                                struct vv_verdict *verdicts, int is_last) {
    struct vv_exchange_sums sums = {0};
    struct varve_error error = {0};
    struct outcome outcome = {0};
    struct scale_sent before = scale_sent();
    double begin = scale_start(MPI_COMM_WORLD, is_last);
    int rc = exchange->ops->run(exchange, in, verdicts, &sums, &error);
    outcome.sum[COMPUTED] = (uint64_t)(scale_stop() * 1e9);
    double seconds = MPI_Wtime() - begin;
    struct scale_sent after = scale_sent();
    if (rc)
        fail(error.text, rc);
    for (size_t i = 0; i < in->count; i++)
        if (verdicts[i].kind == VV_MINE) {
            outcome.sum[STORED]++;
            outcome.sum[SUM] += in->offers[i].id.low;
        }
    outcome.most[NANOSECONDS] = (uint64_t)(seconds * 1e9);
    outcome.most[MESSAGES] = sums.hops.messages + after.messages - before.messages;
    outcome.most[BYTES] = sums.hops.bytes + after.bytes - before.bytes;
    outcome.most[REDUCTIONS] = after.messages - before.messages;
    outcome.most[STORED_MOST] = outcome.sum[STORED];
    return outcome;
}

static void combine(struct outcome *outcome) {
    MPI_Allreduce(MPI_IN_PLACE, outcome->most, MOSTS, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, outcome->sum, SUMS, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
}

static int compare_seconds(const void *a, const void *b) {
    uint64_t x = ((const struct outcome *)a)->most[NANOSECONDS], y = ((const struct outcome *)b)->most[NANOSECONDS];
    return (x > y) - (x < y);
}

/* The first round finds out who talks to whom, and memory is new. */
static struct outcome run_rounds(struct vv_exchange *exchange, uint32_t rank, const struct options *options) {
    struct outcome outcomes[ROUNDS_MAX];
    struct vv_offer *offers = make_offers(rank, options->ids);
    struct vv_verdict *verdicts = calloc(options->ids + 1, sizeof *verdicts);
    struct vv_exchange_in in = {.offers = offers, .count = options->ids};
    if (!verdicts)
        abort();
    for (unsigned i = 0; i < options->rounds; i++)
        outcomes[i] = run_round(exchange, &in, verdicts, i + 1 == options->rounds);
    for (unsigned i = 0; i < options->rounds; i++)
        combine(&outcomes[i]);
    free(offers);
    free(verdicts);
    struct outcome *last = &outcomes[options->rounds - 1], *before = options->rounds > 1 ? last - 1 : last;
    last->network_seconds = (double)before->most[NANOSECONDS] * 1e-9;
    if (options->rounds == 1 || scale_is_simulated)
        return *last;
    qsort(outcomes + 1, options->rounds - 1, sizeof *outcomes, compare_seconds);
    return outcomes[options->rounds / 2];
}

/* ---- what it says ---- */

static int judge(const struct outcome *outcome, const struct options *options, const struct varve_comm *comm) {
    uint64_t wanted[COMPUTED], stored = outcome->sum[STORED], offered = (uint64_t)comm->ranks * options->ids;
    wanted[SUM] = own_share(comm->rank, options->ids, &wanted[STORED]);
    MPI_Allreduce(MPI_IN_PLACE, wanted, COMPUTED, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    uint64_t duplicates = offered - wanted[STORED];
    double found = duplicates ? (double)(offered - stored) / (double)duplicates : 1;
    double owned = stored ? (double)outcome->most[STORED_MOST] * comm->ranks / (double)stored : 0;
    const char *computing = scale_is_simulated ? getenv("SCALE_COMPUTE") : NULL; /* see scale_wait.c */
    int is_exact = strcmp(options->scheme, "top-k") != 0;
    int is_right = is_exact ? memcmp(outcome->sum, wanted, sizeof wanted) == 0 : stored >= wanted[STORED];
    int is_within = outcome->most[MESSAGES] <= options->most_messages && found >= options->least_found;
    if (comm->rank != 0)
        return is_right && is_within ? 0 : 1;
    printf("{\"scheme\": \"%s\", \"ranks\": %u, \"nodes\": %u, \"ids\": %u, \"top\": %u, \"simulated\": %s, "
           "\"computing\": \"%s\", "
           "\"seconds\": %.9f, \"network_seconds\": %.9f, \"computed\": %.9f, \"messages\": %" PRIu64
           ", \"reductions\": %" PRIu64 ", \"bytes\": %" PRIu64 ", "
           "\"found\": %.6f, \"owned\": %.4f}\n",
           options->scheme, comm->ranks, comm->nodes, options->ids, is_exact ? 0 : options->top,
           scale_is_simulated ? "true" : "false",
           computing            ? computing
           : scale_is_simulated ? "none"
                                : "real",
           (double)outcome->most[NANOSECONDS] * 1e-9, scale_is_simulated ? outcome->network_seconds : 0.0,
           (double)outcome->sum[COMPUTED] * 1e-9 / comm->ranks, outcome->most[MESSAGES], outcome->most[REDUCTIONS],
           outcome->most[BYTES], found, owned);
    if (!is_right)
        fprintf(stderr, "bench-scale: an id is stored by nobody, or twice\n");
    if (!is_within)
        fprintf(stderr, "bench-scale: more messages than %u, or less found than %.3f\n", options->most_messages,
                options->least_found);
    return is_right && is_within ? 0 : 1;
}

/* Not in variables of the file: simulated ranks share them. */
static struct options read_options(int argc, char **argv) {
    struct options options = {"auto", 2048, 0, 3, UINT_MAX, 0};
    const struct bench_option command_line[] = {
        {"--scheme", "flat|grid|auto|top-k", .choice = &options.scheme},
        {"--ids", .number = &options.ids},
        {"--top", .number = &options.top},
        {"--rounds", .number = &options.rounds, .least = 1, .most = ROUNDS_MAX},
        {"--most-messages", .number = &options.most_messages},
        {"--least-found", "SHARE", .real = &options.least_found},
        {0},
    };
    options_read(command_line, argc, argv);
    if (options.top == 0)
        options.top = options.ids;
    return options;
}

static struct vv_exchange *make_exchange(struct varve_comm *comm, const struct options *options) {
    static const char *const shapes[] = {[VV_HOPS_AUTO] = "auto", [VV_HOPS_FLAT] = "flat", [VV_HOPS_GRID] = "grid"};
    struct vv_exchange *exchange = NULL;
    int rc = -1;
    if (strcmp(options->scheme, "top-k") == 0)
        rc = vv_exchange_topk(comm, options->top, &exchange, &ignored);
    for (int shape = 0; shape < 3 && !exchange; shape++)
        if (strcmp(options->scheme, shapes[shape]) == 0)
            rc = vv_exchange_exact(comm, shape, &exchange, &ignored);
    if (rc)
        fail(options->scheme, rc);
    return exchange;
}

/* src/mpi is linked in; what it makes ends up here, where the library would take it. */
int varve_open_comm(struct varve_comm *comm, const char *store, const char *name, const struct varve_options *options,
                    struct varve_session **out, struct varve_error *error) {
    (void)store, (void)name, (void)options, (void)error;
    *(struct varve_comm **)(void *)out = comm;
    return 0;
}

int main(int argc, char **argv) {
    struct varve_comm *comm = NULL;
    struct varve_error error = {0};
    MPI_Init(&argc, &argv);
    struct options options = read_options(argc, argv);
    int rc = varve_open_mpi(MPI_COMM_WORLD, "none", "none", NULL, (struct varve_session **)(void *)&comm, &error);
    if (rc)
        fail(error.text, rc);
    struct vv_exchange *exchange = make_exchange(comm, &options);
    struct outcome outcome = run_rounds(exchange, comm->rank, &options);
    rc = judge(&outcome, &options, comm);
    vv_exchange_close(exchange);
    comm->ops->close(comm);
    MPI_Finalize();
    return rc;
}
