/* How the exchange between ranks (src/dedup/exchange.h) grows with their number.
 *
 *     bench-scale [--scheme flat|grid|auto|top-k] [--ids N] [--top K] [--rounds N] [--most-messages N] [--least-found F]
 *
 * Every rank offers N ids: half of them are held by all ranks, a quarter by pairs, a quarter by one. No data is stored. It runs under a
 * real MPI, and, built with smpicc from the same sources, under SimGrid's simulation of MPI on thousands of ranks; see scale.sh and
 * docs/scale.md. Rank 0 prints one line of JSON:
 *
 *   seconds       the median round after the first, from the common start to the last rank's end
 *   messages      sent by the busiest rank in a round, answers included; bytes likewise
 *   reductions    and those that it sent in reductions and broadcasts, where that is known (simulated)
 *   found         share of the duplicates that nobody stores
 *   owned         the most that a rank has to store, as a multiple of the mean
 *
 * Ends with 1 when an id is stored by nobody, or twice where the scheme is exact, or a bound is not kept. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve_mpi.h>

#include "dedup/exchange.h"
#include "scale.h"

#define CHUNK 4096
#define ROUNDS_MAX 64

struct options {
    const char *scheme;
    size_t ids, top;
    int rounds;
    uint64_t most_messages;
    double least_found;
};

/* What a round came to, on all ranks. */
struct outcome {
    double seconds;
    uint64_t messages, bytes, reductions; /* of the busiest rank */
    uint64_t stored, stored_most;         /* chunks */
    uint64_t sum;                         /* of what is stored, by name */
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

static uint64_t most(uint64_t value) {
    uint64_t result;
    MPI_Allreduce(&value, &result, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    return result;
}

static uint64_t sum_of(uint64_t value) {
    uint64_t result;
    MPI_Allreduce(&value, &result, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return result;
}

static struct outcome run_round(struct vv_exchange *exchange, const struct vv_exchange_in *in,
                                struct vv_verdict *verdicts) {
    struct vv_exchange_sums sums = {0};
    struct varve_error error = {0};
    struct scale_sent before = scale_sent();
    double begin = scale_start(MPI_COMM_WORLD);
    int rc = exchange->ops->run(exchange, in, verdicts, &sums, &error);
    double seconds = MPI_Wtime() - begin, slowest;
    struct scale_sent after = scale_sent();
    if (rc)
        fail(error.text, rc);
    MPI_Allreduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    uint64_t stored = 0, sum = 0;
    for (size_t i = 0; i < in->count; i++)
        if (verdicts[i].kind == VV_MINE) {
            stored++;
            sum += in->offers[i].id.low;
        }
    return (struct outcome){.seconds = slowest,
                            .messages = most(sums.hops.messages + after.messages - before.messages),
                            .bytes = most(sums.hops.bytes + after.bytes - before.bytes),
                            .reductions = most(after.messages - before.messages),
                            .stored = sum_of(stored),
                            .stored_most = most(stored),
                            .sum = sum_of(sum)};
}

static int compare_seconds(const void *a, const void *b) {
    double x = ((const struct outcome *)a)->seconds, y = ((const struct outcome *)b)->seconds;
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
    for (int i = 0; i < options->rounds; i++)
        outcomes[i] = run_round(exchange, &in, verdicts);
    free(offers);
    free(verdicts);
    if (options->rounds == 1)
        return outcomes[0];
    qsort(outcomes + 1, (size_t)options->rounds - 1, sizeof *outcomes, compare_seconds);
    return outcomes[options->rounds / 2];
}

/* ---- what it says ---- */

static int judge(const struct outcome *outcome, const struct options *options, const struct varve_comm *comm) {
    uint64_t count, sum = sum_of(own_share(comm->rank, options->ids, &count)), distinct = sum_of(count);
    uint64_t offered = (uint64_t)comm->ranks * options->ids;
    double found = offered == distinct ? 1 : (double)(offered - outcome->stored) / (double)(offered - distinct);
    double owned = outcome->stored ? (double)outcome->stored_most * comm->ranks / (double)outcome->stored : 0;
    int is_exact = strcmp(options->scheme, "top-k") != 0, is_well = 1;
    if (comm->rank == 0)
        printf("{\"scheme\": \"%s\", \"ranks\": %u, \"nodes\": %u, \"ids\": %zu, \"top\": %zu, \"simulated\": %s, "
               "\"seconds\": %.9f, \"messages\": %llu, \"reductions\": %llu, \"bytes\": %llu, \"found\": %.6f, "
               "\"owned\": %.4f}\n",
               options->scheme, comm->ranks, comm->nodes, options->ids, is_exact ? 0 : options->top,
               scale_is_simulated ? "true" : "false", outcome->seconds, (unsigned long long)outcome->messages,
               (unsigned long long)outcome->reductions, (unsigned long long)outcome->bytes, found, owned);
    if (outcome->stored < distinct || (is_exact && (outcome->stored != distinct || outcome->sum != sum)))
        is_well = 0;
    if (!is_well && comm->rank == 0)
        fprintf(stderr, "bench-scale: an id is stored by nobody, or twice\n");
    if (outcome->messages > options->most_messages || found < options->least_found) {
        is_well = 0;
        if (comm->rank == 0)
            fprintf(stderr, "bench-scale: more messages than %llu, or less found than %.3f\n",
                    (unsigned long long)options->most_messages, options->least_found);
    }
    return is_well ? 0 : 1;
}

static struct options read_options(int argc, char **argv) {
    struct options options = {"auto", 2048, 0, 3, UINT64_MAX, 0};
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "--scheme") == 0)
            options.scheme = value;
        else if (strcmp(name, "--ids") == 0)
            options.ids = strtoull(value, NULL, 10);
        else if (strcmp(name, "--top") == 0)
            options.top = strtoull(value, NULL, 10);
        else if (strcmp(name, "--rounds") == 0)
            options.rounds = atoi(value);
        else if (strcmp(name, "--most-messages") == 0)
            options.most_messages = strtoull(value, NULL, 10);
        else if (strcmp(name, "--least-found") == 0)
            options.least_found = strtod(value, NULL);
        else
            fail(name, 2);
    }
    if (options.top == 0)
        options.top = options.ids;
    if (options.rounds < 1 || options.rounds > ROUNDS_MAX)
        fail("--rounds", 2);
    return options;
}

static struct vv_exchange *make_exchange(struct varve_comm *comm, const struct options *options) {
    static const char *const shapes[] = {[VV_HOPS_AUTO] = "auto", [VV_HOPS_FLAT] = "flat", [VV_HOPS_GRID] = "grid"};
    struct vv_exchange *exchange = NULL;
    int rc = -1;
    if (strcmp(options->scheme, "top-k") == 0)
        rc = vv_exchange_topk(comm, options->top, &exchange);
    for (int shape = 0; shape < 3 && !exchange; shape++)
        if (strcmp(options->scheme, shapes[shape]) == 0)
            rc = vv_exchange_exact(comm, shape, &exchange);
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
