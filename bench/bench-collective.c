/* Deduplication between ranks: what it stores, finds and takes, beside none and beside deduplication in each rank
 * alone.
 *
 *   mpirun -n RANKS bench-collective [--json] [--check] [--slack FACTOR] [--case same,unique,mixed]
 *          [--mode full,local,top-k,exact,auto] [--top IDS] [--size SIZE] [--limit RATE] [--rounds N] [--no-restart]
 *          [--settings TEXT] [--mpi-threads single|funneled|serialized|multiple] [FOLDER]
 *
 * Every rank has 64 MiB of noise in chunks of 4 KiB, new for every round: the same on every rank (same), all different
 * (unique), or half of it on all ranks, a quarter on pairs of them and a quarter on one (mixed). In every round each
 * mode stores it in a store of its own, by turns first and last: full (dedup=none; all has changed, so all is stored),
 * local, top-k, exact, and auto if asked for. Every mode waits for its checkpoint to survive: durable is from when all
 * ranks begin until all have done that. Ratios of times are of medians over the rounds. Without --limit a first round
 * is not counted: buffers and threads are made there.
 *
 * --limit 10MB holds the storage to so many bytes a second for each rank. What repeats, and how often, is counted by a
 * hash of our own over what the ranks hold (together.c). Afterwards every mode restarts in new memory, from files that
 * are not in the page cache, and every byte is compared; restart_read_over_unique is all that the ranks have read from
 * the storage, by the library's count wrapper, over the different bytes that the last checkpoint had.
 *
 * --check fails when a bound (collective.c) is passed: bytes at once, times when three runs of the case pass it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"
#include "collective.h"
#include "counted.h"
#include "options.h"
#include "ranks.h"
#include "together.h"

static const char *const modes[] = {"full", "local", "top-k", "exact", "auto"};
#define MODES (sizeof modes / sizeof modes[0])
#define LOCAL 1

static const char *folder = ".";
static const char *only_cases = "same,unique";
static const char *only_modes = "full,local,top-k,exact";
static const char *limit;
static const char *more_settings = "";
static size_t size = 64 * BENCH_MIB;
static unsigned top = 1u << 17;
static unsigned rounds = 3;
static int has_restart = 1;
static int is_json, is_check;
static double slack = 1;

/* ---- the data ---- */

/* What the chunk is filled from: chunks with the same are the same. */
static uint64_t seed_of(enum collective_case kind, size_t chunk, unsigned round) {
    uint64_t seed = (uint64_t)round << 40 | chunk, own = ranks_own() + 1;
    if (kind == CASE_SAME || (kind == CASE_MIXED && chunk % 4 < 2))
        return seed;
    if (kind == CASE_MIXED && chunk % 4 == 2)
        return seed ^ (own + 1) / 2 << 52 ^ UINT64_C(1) << 63;
    return seed ^ own << 52;
}

static void fill_chunk(enum collective_case kind, size_t chunk, unsigned round, uint64_t *out) {
    uint64_t state = seed_of(kind, chunk, round);
    state = bench_random(&state);
    for (size_t i = 0; i < CHUNK / 8; i++)
        out[i] = bench_random(&state);
}

static void fill(enum collective_case kind, unsigned round, uint8_t *memory) {
    for (size_t i = 0; i < size / CHUNK; i++)
        fill_chunk(kind, i, round, (uint64_t *)(void *)(memory + i * CHUNK));
}

static void compare(enum collective_case kind, unsigned round, const uint8_t *memory) {
    uint64_t chunk[CHUNK / 8];
    for (size_t i = 0; i < size / CHUNK; i++) {
        fill_chunk(kind, i, round, chunk);
        if (memcmp(chunk, memory + i * CHUNK, CHUNK) != 0) {
            fprintf(stderr, "rank %u: chunk %zu is not what was saved\n", ranks_own(), i);
            exit(1);
        }
    }
}

static struct chunk_sums count(const uint8_t *memory) {
    struct chunks chunks = {.count = size / CHUNK};
    chunks.names = malloc(chunks.count * sizeof *chunks.names);
    bench_check(chunks.names != NULL, "memory");
    chunks_name(memory, size, chunks.names);
    struct chunk_sums sums = chunks_sum(&chunks);
    chunks_clear(&chunks);
    return sums;
}

/* ---- a case ---- */

struct run {
    enum collective_case kind;
    struct varve_session *sessions[MODES]; /* NULL: this mode is not asked for */
    struct collective_result results[MODES];
    uint8_t *memory;
    unsigned last; /* the round whose data was stored last */
};

static const char *path_of(size_t mode) {
    static char path[3100];
    snprintf(path, sizeof path, "%s/bench-collective.%s", folder, modes[mode]);
    return path;
}

static struct varve_session *open_mode(size_t mode, int is_counted) {
    char store[3200], settings[512];
    const char *dedup = strcmp(modes[mode], "full") == 0 ? "none" : modes[mode];
    snprintf(store, sizeof store, "%s?%s%s", path_of(mode),
             is_counted || !limit ? "count=1" : "limit=", is_counted || !limit ? "" : limit);
    /* The sessions of all modes are open over the same memory, which has changed everywhere: no need to find out.
     * All checkpoints stay, so that the growth of the store is what one of them stored. */
    snprintf(settings, sizeof settings, "keep=all,codec=none,capture=sync,tracker=none,dedup=%s,dedup_top=%u%s%s",
             dedup, top, *more_settings ? "," : "", more_settings);
    return together_open(store, "collective", settings);
}

static void begin_run(struct run *run) {
    run->memory = bench_pages(size);
    memset(run->memory, 1, size);
    for (size_t i = 0; i < MODES; i++) {
        if (!options_has(only_modes, modes[i]))
            continue;
        together_make_folder(path_of(i));
        run->sessions[i] = open_mode(i, 0);
        together_check(run->sessions[i], varve_protect(run->sessions[i], "noise", run->memory, size), "protect");
        run->results[i] = (struct collective_result){
            .kind = run->kind, .mode = modes[i], .ranks = ranks_all(), .size = size, .top = top, .limit = limit};
    }
}

static void note(struct collective_result *r, const struct saved *saved, struct chunk_sums sums) {
    double mean = ranks_sum(saved->own) / r->ranks;
    r->durable[r->rounds] = saved->durable;
    r->blocked[r->rounds] = saved->blocked;
    r->cpu[r->rounds] = saved->cpu;
    r->named[r->rounds] = saved->named;
    r->exchange[r->rounds] = saved->exchange;
    r->rounds++;
    r->growth += saved->growth;
    r->data += saved->data;
    r->metadata += saved->growth - saved->data;
    r->memory += (double)size * r->ranks;
    r->repeated += (sums.total - sums.unique) * CHUNK;
    r->found += sums.total * CHUNK - saved->fresh;
    if (saved->written_most / mean > r->over_mean)
        r->over_mean = saved->written_most / mean;
    r->messages = saved->messages > r->messages ? saved->messages : r->messages;
    r->sent = saved->bytes > r->sent ? saved->bytes : r->sent;
    memcpy(r->dedup, saved->stats.dedup, sizeof r->dedup);
    memcpy(r->reason, saved->stats.dedup_reason, sizeof r->reason);
}

static void one_round(struct run *run, unsigned round, int is_counted) {
    fill(run->kind, round, run->memory);
    struct chunk_sums sums = count(run->memory);
    for (size_t i = 0; i < MODES; i++) {
        size_t mode = (i + round) % MODES;
        if (!run->sessions[mode])
            continue;
        struct saved saved = together_save(run->sessions[mode], path_of(mode), round);
        run->results[mode].unique = sums.unique * CHUNK;
        if (is_counted)
            note(&run->results[mode], &saved, sums);
    }
    run->last = round;
}

static void restart(struct run *run, size_t mode) {
    struct collective_result *r = &run->results[mode];
    int64_t version = -1;
    uint8_t *memory = bench_pages(size);
    together_cool(path_of(mode));
    counted_reset();
    double begin = ranks_start();
    struct varve_session *session = open_mode(mode, 1);
    together_check(session, varve_protect(session, "noise", memory, size), "protect");
    together_check(session, varve_restart(session, VARVE_LATEST, &version), "restart");
    r->restart_seconds = ranks_stop(begin);
    r->restart_read = ranks_sum((double)counted_read());
    bench_check(version == (int64_t)run->last, "restart gave another version");
    compare(run->kind, run->last, memory);
    together_check(session, varve_close(session), "close");
    munmap(memory, size);
}

static void end_run(struct run *run) {
    for (size_t i = 0; i < MODES; i++)
        if (run->sessions[i])
            together_check(run->sessions[i], varve_close(run->sessions[i]), "close");
    munmap(run->memory, size);
    for (size_t i = 0; i < MODES; i++) {
        if (!run->sessions[i])
            continue;
        if (has_restart)
            restart(run, i);
        together_remove_folder(path_of(i));
    }
}

static void measure(struct run *run) {
    unsigned unmeasured = limit ? 0 : 1;
    begin_run(run);
    for (unsigned i = 0; i < rounds + unmeasured; i++)
        one_round(run, i, i >= unmeasured);
    end_run(run);
}

static void report(const struct run *run, const struct collective_result *local) {
    int is_first = 1;
    for (size_t i = 0; i < MODES; i++) {
        if (!run->sessions[i])
            continue;
        if (is_first && !is_json)
            collective_print_head(&run->results[i]);
        is_first = 0;
        (is_json ? collective_print_json : collective_print_people)(&run->results[i], local);
    }
}

/* All ranks know the same figures, so they come to the same end; one of them says it. */
static int run_case(enum collective_case kind) {
    int is_quiet = ranks_own() != 0, failed = 0;
    for (int tries = 0; tries < (is_check ? 3 : 1); tries++) {
        struct run run = {.kind = kind};
        measure(&run);
        const struct collective_result *local = run.sessions[LOCAL] ? &run.results[LOCAL] : NULL;
        if (!is_quiet)
            report(&run, local);
        failed = 0;
        for (size_t i = 0; i < MODES && is_check; i++) {
            if (!run.sessions[i])
                continue;
            if (collective_bytes_over(&run.results[i], is_quiet))
                return 1;
            failed |= collective_times_over(&run.results[i], local, slack, is_quiet);
        }
        if (!failed)
            return 0;
    }
    return failed;
}

/* ---- the command line ---- */

static void have_no_restart(void) {
    has_restart = 0;
}

static const struct bench_option command_line[] = {
    {"--json", .flag = &is_json},
    {"--check", .flag = &is_check},
    {"--slack", "FACTOR", .real = &slack, .least = 0.001},
    {"--case", "same,unique,mixed", .list = &only_cases},
    {"--mode", "full,local,top-k,exact,auto", .list = &only_modes},
    {"--top", "IDS", .number = &top, .least = 1},
    {"--size", "SIZE", .size = &size, .least = CHUNK, .step = CHUNK},
    {"--limit", "RATE", .text = &limit},
    {"--rounds", .number = &rounds, .least = 1, .most = COLLECTIVE_ROUNDS_MAX},
    {"--no-restart", .act = have_no_restart},
    {"--settings", "TEXT", .text = &more_settings},
    {"--mpi-threads", "single|funneled|serialized|multiple", .take = ranks_ask_threads},
    {"FOLDER", .text = &folder},
    {0},
};

int main(int argc, char **argv) {
    int failed = 0;
    options_read(command_line, argc, argv);
    ranks_begin(&argc, &argv);
    together_lock(folder);
    for (size_t i = 0; i < CASE_COUNT; i++)
        if (options_has(only_cases, collective_cases[i]))
            failed |= run_case((enum collective_case)i);
    ranks_end();
    return failed;
}
