/* How a restart grows with the number of ranks, on ranks that SimGrid simulates; see scale.sh and docs/scale.md.
 *
 *     bench-scale-restart [--size BYTES] [--array] [--to RANKS] [--settings TEXT] [--seed N] [--most-messages N]
 *                         [--most-requests N] [--most-read BYTES]
 *
 * Every rank protects two regions of half the size: one is the same on all ranks, the other its own. With --array it
 * protects its block of an array in two dimensions instead. A checkpoint is made, and another session of all ranks
 * restarts from it, with varve_open_mpi and varve_restart as a program would, and makes the next checkpoint, which is
 * new but for the region that is the same on all. With --to the second session is of fewer ranks, which divide the
 * array among them. Rank 0 prints one line of JSON. Of varve_restart alone:
 *
 *   seconds       from the common start to the last rank's end
 *   rounds        in which all ranks ask and answer
 *   reductions    messages of reductions and broadcasts, sent by the busiest rank
 *   messages      sent by the busiest rank; messages_mean, by all, over their number; bytes likewise
 *   requests      of any kind to the storage, by the busiest rank; requests_mean; requests_all, by all ranks together
 *   read          bytes read from the storage, by the busiest rank; read_mean; read_all
 *   protected_all bytes that all ranks get back
 *   hottest       how often the object was read that was read most often, by all ranks; hottest_key names it
 *   opening_...   the same of varve_open_mpi
 *   saving_...    the same of varve_checkpoint, which commits before it returns
 *
 * The placement of chunks, and with it the rounds, depends on random numbers of the store: --seed gives others.
 *
 * Ends with 1 when a byte came back wrong, or a bound is not kept. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <varve/varve_mpi.h>

#include "details.h"
#include "options.h"
#include "scale.h"
#include "scale_state.h"
#include "scale_storage.h"

#define ADDRESS "mem://scale"
#define SLOW "?latency=1ms&count=1"
#define LEAST "capture=sync,tracker=none,nice=0,codec=none,dedup=exact"

struct options {
    size_t size;
    const char *settings;
    int is_array;
    unsigned to; /* ranks that restart; 0: all */
    unsigned seed, most_messages, most_requests;
    size_t most_read; /* by all ranks */
};

/* On this rank. */
enum { NANOSECONDS, ROUNDS, REDUCTIONS, MESSAGES, MESSAGE_BYTES, REQUESTS, READS, READ_BYTES, PROTECTED, COUNTS };
struct costs {
    uint64_t count[COUNTS];
};

/* Of all ranks. */
struct totals {
    struct costs most, sum;
    uint64_t hottest;
    const char *hottest_key;
};

struct rank {
    uint32_t number, ranks;
    MPI_Comm mpi;       /* of the ranks that are there, and numbered */
    uint32_t all_ranks; /* that have made the checkpoint */
    struct scale_state state;
    const struct options *options;
};

static void fail(const char *what, const struct varve_error *error) __attribute__((noreturn));
static void fail(const char *what, const struct varve_error *error) {
    fprintf(stderr, "bench-scale-restart: %s: %d: %s\n", what, error->code, error->text);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

/* ---- what is restored ---- */

/* As many elements as --size has for each rank that saves: twice as many columns as rows, or as many. */
static void make_state(struct rank *rank) {
    int grid[2] = {0, 0};
    uint64_t elements = rank->options->size / sizeof(uint64_t), rows = 1;
    if (!rank->options->is_array) {
        scale_state_regions(&rank->state, rank->number, rank->options->size);
        return;
    }
    while (rows * rows * 4 <= elements)
        rows *= 2;
    MPI_Dims_create((int)rank->all_ranks, 2, grid);
    scale_state_array(&rank->state, rank->number, rank->ranks, rows * (unsigned)grid[0],
                      elements / rows * (unsigned)grid[1]);
}

/* ---- sessions ---- */

static struct varve_session *open_session(const struct rank *rank, const char *address) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error = {0};
    char settings[512];
    snprintf(settings, sizeof settings, "%s%s%s", LEAST, *rank->options->settings ? "," : "", rank->options->settings);
    options.settings = settings;
    if (varve_open_mpi(rank->mpi, address, "scale", &options, &session, &error) != 0)
        fail("open", &error);
    return session;
}

static void protect(struct varve_session *session, const struct rank *rank) {
    if (scale_state_protect(&rank->state, session) != 0)
        fail("protect", varve_session_error(session));
}

static void save(struct rank *rank) {
    make_state(rank);
    scale_state_fill(&rank->state, 1);
    struct varve_session *session = open_session(rank, ADDRESS);
    protect(session, rank);
    if (varve_checkpoint(session, 1) != 0)
        fail("checkpoint", varve_session_error(session));
    if (varve_close(session) != 0)
        fail("close", varve_session_error(NULL));
    scale_state_clear(&rank->state);
}

/* ---- counting ---- */

static struct costs begin_counting(const struct rank *rank, int has_store) {
    struct scale_asked asked = {0};
    double begin = scale_start(rank->mpi, 1);
    struct scale_sent sent = scale_sent(), exchanged = scale_exchanged();
    if (has_store)
        asked = scale_asked(rank->number);
    return (struct costs){{(uint64_t)(begin * 1e9), 0, sent.messages, sent.messages + exchanged.messages,
                           sent.bytes + exchanged.bytes, asked.requests, asked.reads, asked.bytes, 0}};
}

static struct costs end_counting(const struct rank *rank, const struct costs *before) {
    scale_stop();
    struct scale_sent sent = scale_sent(), exchanged = scale_exchanged();
    struct scale_asked asked = scale_asked(rank->number);
    struct costs costs = {{(uint64_t)(MPI_Wtime() * 1e9), 0, sent.messages, sent.messages + exchanged.messages,
                           sent.bytes + exchanged.bytes, asked.requests, asked.reads, asked.bytes, 0}};
    for (int i = 0; i < COUNTS; i++)
        costs.count[i] -= before->count[i];
    return costs;
}

static struct totals total(const struct rank *rank, const struct costs *costs) {
    struct totals totals = {*costs, *costs, 0, ""};
    MPI_Allreduce(MPI_IN_PLACE, totals.most.count, COUNTS, MPI_UINT64_T, MPI_MAX, rank->mpi);
    MPI_Allreduce(MPI_IN_PLACE, totals.sum.count, COUNTS, MPI_UINT64_T, MPI_SUM, rank->mpi);
    return totals;
}

/* ---- what it says ---- */

static void print_totals(const char *prefix, const struct totals *totals, uint32_t ranks) {
    static const char *const names[] = {
        [ROUNDS] = "rounds",     [REDUCTIONS] = "reductions", [MESSAGES] = "messages", [MESSAGE_BYTES] = "bytes",
        [REQUESTS] = "requests", [READS] = "reads",           [READ_BYTES] = "read",   [PROTECTED] = "protected"};
    printf(", \"%sseconds\": %.9f", prefix, (double)totals->most.count[NANOSECONDS] * 1e-9);
    for (int i = ROUNDS; i < COUNTS; i++)
        printf(", \"%s%s\": %" PRIu64 ", \"%s%s_mean\": %.3f, \"%s%s_all\": %" PRIu64, prefix, names[i],
               totals->most.count[i], prefix, names[i], (double)totals->sum.count[i] / ranks, prefix, names[i],
               totals->sum.count[i]);
}

struct story {
    struct totals opening, restart, saving;
    int is_right;
};

static int judge(const struct rank *rank, const struct story *story) {
    const struct options *options = rank->options;
    const char *computing = getenv("SCALE_COMPUTE"); /* see scale_wait.c */
    const struct totals *restart = &story->restart;
    int is_right = story->is_right;
    int is_within = restart->most.count[MESSAGES] <= options->most_messages &&
                    restart->most.count[REQUESTS] <= options->most_requests &&
                    restart->sum.count[READ_BYTES] <= options->most_read;
    MPI_Allreduce(MPI_IN_PLACE, &is_right, 1, MPI_INT, MPI_MIN, rank->mpi);
    if (rank->number == 0) {
        printf("{\"restart\": true, \"from\": %u, \"ranks\": %u, \"array\": %s, \"size\": %zu, \"settings\": \"%s\", "
               "\"seed\": %u, \"computing\": \"%s\"",
               rank->all_ranks, rank->ranks, options->is_array ? "true" : "false", options->size, options->settings,
               options->seed, computing ? computing : "none");
        print_totals("", restart, rank->ranks);
        printf(", \"hottest\": %" PRIu64 ", \"hottest_key\": \"%s\"", restart->hottest, restart->hottest_key);
        print_totals("opening_", &story->opening, rank->ranks);
        print_totals("saving_", &story->saving, rank->ranks);
        printf("}\n");
        if (!is_right)
            fprintf(stderr, "bench-scale-restart: a byte came back wrong\n");
        if (!is_within)
            fprintf(stderr, "bench-scale-restart: more messages than %u, requests than %u or bytes read than %zu\n",
                    options->most_messages, options->most_requests, options->most_read);
    }
    return is_right && is_within ? 0 : 1;
}

/* ---- the whole ---- */

static struct costs read_back(const struct rank *rank, struct varve_session *session, struct story *story) {
    int64_t version = -1;
    struct vv_details details;
    struct costs before = begin_counting(rank, 1);
    if (rank->number == 0) /* nobody has read anything yet: a request takes a millisecond */
        scale_hottest(&story->restart.hottest_key);
    if (varve_restart(session, VARVE_LATEST, &version) != 0)
        fail("restart", varve_session_error(session));
    struct costs costs = end_counting(rank, &before);
    if (vv_details_get(session, &details) != 0)
        fail("stats", varve_session_error(session));
    costs.count[ROUNDS] = details.restart_rounds;
    costs.count[PROTECTED] = rank->state.block_bytes + 2 * rank->state.half;
    story->is_right = version == 1 && scale_state_is_right(&rank->state, 1);
    return costs;
}

static struct costs save_next(const struct rank *rank, struct varve_session *session) {
    scale_state_fill(&rank->state, 2);
    struct costs before = begin_counting(rank, 1);
    if (varve_checkpoint(session, 2) != 0)
        fail("checkpoint", varve_session_error(session));
    return end_counting(rank, &before);
}

static int go_on(struct rank *rank) {
    struct story story = {0};
    make_state(rank);
    struct costs before = begin_counting(rank, 0);
    struct varve_session *session = open_session(rank, ADDRESS SLOW);
    struct costs opening = end_counting(rank, &before);
    protect(session, rank);
    struct costs reading = read_back(rank, session, &story);
    story.opening = total(rank, &opening);
    story.restart = total(rank, &reading);
    if (rank->number == 0)
        story.restart.hottest = scale_hottest(&story.restart.hottest_key);
    struct costs saving = save_next(rank, session);
    story.saving = total(rank, &saving);
    int rc = judge(rank, &story);
    varve_close(session);
    scale_state_clear(&rank->state);
    return rc;
}

/* Not in variables of the file: simulated ranks share them. */
static struct options read_options(int argc, char **argv) {
    struct options options = {256u << 10, "", 0, 0, 1, UINT_MAX, UINT_MAX, SIZE_MAX};
    const struct bench_option command_line[] = {
        {"--size", "BYTES", .bytes = &options.size, .least = 8192, .step = 8192},
        {"--array", .flag = &options.is_array},
        {"--to", .number = &options.to},
        {"--settings", "SETTINGS", .text = &options.settings},
        {"--seed", .number = &options.seed},
        {"--most-messages", .number = &options.most_messages},
        {"--most-requests", .number = &options.most_requests},
        {"--most-read", "BYTES", .bytes = &options.most_read},
        {0},
    };
    options_read(command_line, argc, argv);
    return options;
}

int main(int argc, char **argv) {
    int number, ranks;
    MPI_Init(&argc, &argv);
    struct options options = read_options(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &number);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (number == 0)
        scale_seed = options.seed;
    struct rank rank = {(uint32_t)number, (uint32_t)ranks, MPI_COMM_WORLD, (uint32_t)ranks, {0}, &options};
    save(&rank);
    rank.ranks = options.to ? options.to : rank.ranks;
    if (options.to)
        MPI_Comm_split(MPI_COMM_WORLD, rank.number < rank.ranks ? 0 : MPI_UNDEFINED, number, &rank.mpi);
    int rc = rank.number < rank.ranks ? go_on(&rank) : 0;
    MPI_Finalize();
    return rc;
}
