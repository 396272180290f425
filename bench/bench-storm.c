/* Checkpoints of a storm (storm.h) on many ranks: how little has to be stored, and how much is.
 *
 *   mpirun -n RANKS bench-storm [--json] [--check] [--keep] [--mode full,incremental,local,exact,top-k,auto] [--steps
 * N]
 *          [--checkpoints N] [--settings TEXT] [--mpi-threads single|funneled|serialized|multiple] [FOLDER]
 *
 * 16 MiB per rank, three checkpoints, 10 steps before each of them. The modes: full (every checkpoint a first one,
 * under a name of its own, nothing deduplicated), incremental (what is the same as at the same place in the last
 * checkpoint is not stored again), local (nor what the rank has stored before or elsewhere), exact (nor what any rank
 * has). Nothing is compressed.
 *
 * The oracle is the least that can be stored: the different chunks of 4 KiB that any rank has in any checkpoint, zeros
 * apart, counted by a hash of our own (together.c). Data is what the library says it stored of them; metadata is all
 * else that the store's folder holds in the end. Afterwards the last checkpoint is restored into new memory and
 * compared, by the same hashes; and all files of the store are read by as many ranks, with nothing but read().
 *
 * max_over_mean: bytes that the busiest writer has written in all checkpoints, over the mean of the writers; a rank
 * that shares its writer with others counts with the one whose process that is. max_over_mean_worst: the same in the
 * worst checkpoint alone.
 *
 * --keep leaves the store of the last mode, to look at it. --check fails when a bound is passed; the one on
 * max_over_mean holds where ranks share writers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"
#include "cold_files.h"
#include "options.h"
#include "ranks.h"
#include "storm.h"
#include "together.h"

#define BOUND_DATA 1.01      /* of the oracle */
#define BOUND_METADATA 0.005 /* of protected bytes */
#define BOUND_OVER_MEAN 1.1  /* of writers that are shared */
#define CHUNKS (STORM_FIELDS * STORM_FIELD_BYTES / CHUNK)

static const struct mode {
    const char *name, *dedup;
    int is_fresh; /* a new name for every checkpoint */
} modes[] = {{"full", "none", 1},   {"incremental", "none", 0}, {"local", "local", 0},
             {"exact", "exact", 0}, {"top-k", "top-k", 0},      {"auto", "auto", 0}};

static const char *folder = ".";
static char store[3100];
static const char *only_modes = "full,incremental,local,exact";
static const char *more_settings = "";
static unsigned steps = 10, checkpoints = 3;
static int is_json, is_check, is_kept;

struct result {
    const struct mode *mode;
    double memory;                /* bytes of all ranks and checkpoints */
    double oracle;                /* bytes */
    double data, growth;          /* bytes */
    double own, most;             /* written by this rank, in all; then the mean of the writers, and the most */
    double writers, moved, worst; /* of the last checkpoint; bytes between writers; the most over the mean */
    double first_growth;          /* of the first checkpoint */
    double disturbed;             /* share of the columns, at the last checkpoint */
    double durable, named, exchange, messages; /* seconds of all checkpoints; the most */
    double restarted, bare, touched;
    char dedup[16], reason[128], grouping[32];
};

/* ---- a mode ---- */

static struct varve_session *open_session(const struct mode *mode, unsigned checkpoint, double *const *fields) {
    char name[32], settings[512];
    snprintf(name, sizeof name, mode->is_fresh ? "storm-%u" : "storm", checkpoint);
    snprintf(settings, sizeof settings, "codec=none,dedup=%s%s%s", mode->dedup, *more_settings ? "," : "",
             more_settings);
    struct varve_session *session = together_open(store, name, settings);
    for (size_t i = 0; i < STORM_FIELDS; i++)
        together_check(session, varve_protect(session, storm_names[i], fields[i], STORM_FIELD_BYTES), "protect");
    return session;
}

static void name_all(double *const *fields, struct chunk_name *out) {
    for (size_t i = 0; i < STORM_FIELDS; i++)
        chunks_name(fields[i], STORM_FIELD_BYTES, out + i * (CHUNKS / STORM_FIELDS));
}

static void note(struct result *r, const struct saved *saved, unsigned checkpoint) {
    r->data += saved->data;
    r->growth += saved->growth;
    r->own += saved->own;
    r->memory += (double)(STORM_FIELDS * STORM_FIELD_BYTES) * ranks_all();
    r->durable += saved->durable;
    r->named += saved->named;
    r->exchange += saved->exchange;
    r->messages = saved->messages > r->messages ? saved->messages : r->messages;
    r->writers = saved->writers;
    r->worst = saved->over_mean > r->worst ? saved->over_mean : r->worst;
    r->moved += ranks_sum((double)saved->stats.bytes_moved);
    memcpy(r->grouping, saved->stats.grouping, sizeof r->grouping);
    memcpy(r->dedup, saved->stats.dedup, sizeof r->dedup);
    memcpy(r->reason, saved->stats.dedup_reason, sizeof r->reason);
    if (checkpoint == 0)
        r->first_growth = saved->growth;
}

/* last: the names of all chunks of the last checkpoint. */
static void save_all(struct result *r, struct chunk_name *last) {
    struct chunks seen = {0};
    struct storm *storm = storm_create();
    struct varve_session *session = NULL;
    double *fields[STORM_FIELDS];
    for (size_t i = 0; i < STORM_FIELDS; i++)
        fields[i] = storm_field(storm, i);
    for (unsigned i = 0; i < checkpoints; i++) {
        for (unsigned step = 0; step < steps; step++)
            storm_step(storm);
        if (!session || r->mode->is_fresh) {
            together_check(session, varve_close(session), "close");
            session = open_session(r->mode, i, fields);
        }
        name_all(fields, last);
        chunks_add(&seen, last, CHUNKS);
        struct saved saved = together_save(session, store, i);
        note(r, &saved, i);
    }
    together_check(session, varve_close(session), "close");
    r->most = ranks_most(r->own);
    r->own = ranks_sum(r->own) / r->writers;
    r->disturbed = ranks_sum((double)storm_disturbed(storm)) / ((double)STORM_X * STORM_Y * ranks_all());
    r->oracle = chunks_sum(&seen).unique * CHUNK;
    chunks_clear(&seen);
    storm_destroy(storm);
}

static void restart(struct result *r, const struct chunk_name *last) {
    struct chunk_name *now = malloc(CHUNKS * sizeof *now);
    double *fields[STORM_FIELDS];
    int64_t version = -1;
    bench_check(now != NULL, "memory");
    for (size_t i = 0; i < STORM_FIELDS; i++)
        fields[i] = bench_pages(STORM_FIELD_BYTES);
    together_cool(store);
    double begin = ranks_start();
    struct varve_session *session = open_session(r->mode, checkpoints - 1, fields);
    together_check(session, varve_restart(session, VARVE_LATEST, &version), "restart");
    r->restarted = ranks_stop(begin);
    bench_check(version == (int64_t)checkpoints - 1, "restart gave another version");
    name_all(fields, now);
    for (size_t i = 0; i < CHUNKS; i++)
        if (memcmp(&now[i], &last[i], sizeof now[i]) != 0) {
            fprintf(stderr, "rank %u: chunk %zu is not what was saved\n", ranks_own(), i);
            exit(1);
        }
    together_check(session, varve_close(session), "close");
    for (size_t i = 0; i < STORM_FIELDS; i++)
        munmap(fields[i], STORM_FIELD_BYTES);
    free(now);
}

/* What a restart is compared with: as many ranks that read the same files, and ranks that fill as much memory. */
static void measure_bare(struct result *r) {
    r->bare = cold_files_read(store);
    double begin = ranks_start();
    for (size_t i = 0; i < STORM_FIELDS; i++) {
        uint8_t *field = bench_pages(STORM_FIELD_BYTES);
        memset(field, 1, STORM_FIELD_BYTES);
        munmap(field, STORM_FIELD_BYTES);
    }
    r->touched = ranks_stop(begin);
}

/* ---- how it is said ---- */

static void report_json(const struct result *r) {
    double count = (double)checkpoints * ranks_all();
    printf("{\"bench\":\"storm\",\"mode\":\"%s\",\"ranks\":%u,\"bytes\":%.0f,\"checkpoints\":%u,\"steps\":%u",
           r->mode->name, ranks_all(), r->memory / checkpoints, checkpoints, steps);
    printf(",\"threads\":\"%s\",\"dedup\":\"%s\",\"dedup_reason\":\"%s\"", ranks_threads(), r->dedup, r->reason);
    printf(",\"stored_over_memory\":%.6f,\"stored_over_oracle\":%.6f,\"metadata_over_raw\":%.6f", r->growth / r->memory,
           r->data / r->oracle, (r->growth - r->data) / r->memory);
    printf(",\"oracle_over_memory\":%.6f,\"disturbed\":%.4f,\"first_over_memory\":%.6f", r->oracle / r->memory,
           r->disturbed, r->first_growth / (r->memory / checkpoints));
    printf(",\"writers\":%.0f,\"grouping\":\"%s\",\"moved_bytes\":%.0f,\"mean_bytes\":%.0f,\"max_bytes\":%.0f",
           r->writers, r->grouping, r->moved, r->own / checkpoints, r->most / checkpoints);
    printf(",\"max_over_mean\":%.4f,\"max_over_mean_worst\":%.4f", r->most / r->own, r->worst);
    printf(",\"bytes_per_rank_and_checkpoint\":%.0f,\"messages_most\":%.0f", r->growth / count, r->messages);
    printf(",\"seconds_durable\":%.4f,\"seconds_named\":%.4f,\"seconds_exchange\":%.4f,\"seconds_restart\":%.4f",
           r->durable, r->named, r->exchange, r->restarted);
    printf(",\"seconds_cold_read\":%.4f,\"seconds_filled\":%.4f,\"restart_over_cold_read\":%.4f}\n", r->bare,
           r->touched, r->restarted / r->bare);
    fflush(stdout);
}

static void report_people(const struct result *r) {
    printf(
        "%-12s %5u ranks  stored %9.5f of memory  data %8.4f of the oracle (%.5f of memory)  metadata %7.4f %% of "
        "memory  busiest of %.0f writers %.3f of the mean  storm over %.1f %%  %.2f s, restart %.2f s, bare %.2f s\n",
        r->mode->name, ranks_all(), r->growth / r->memory, r->data / r->oracle, r->oracle / r->memory,
        100 * (r->growth - r->data) / r->memory, r->writers, r->most / r->own, 100 * r->disturbed, r->durable,
        r->restarted, r->bare);
    fflush(stdout);
}

static int passes(const struct result *r, const char *what, double value, double bound) {
    if (value > bound && ranks_own() == 0)
        fprintf(stderr, "storm, %s, %u ranks: %s is %.5f, which is over %.5f\n", r->mode->name, ranks_all(), what,
                value, bound);
    return value > bound;
}

static int is_over(const struct result *r) {
    int over = 0;
    if (r->data < r->oracle) {
        fprintf(stderr, "less was stored than there are different chunks\n");
        return 1;
    }
    if (strcmp(r->mode->name, "exact") == 0) {
        over |= passes(r, "stored_over_oracle", r->data / r->oracle, BOUND_DATA);
        over |= passes(r, "metadata_over_raw", (r->growth - r->data) / r->memory, BOUND_METADATA);
    }
    if (r->writers < ranks_all())
        over |= passes(r, "max_over_mean", r->most / r->own, BOUND_OVER_MEAN);
    return over;
}

static int run_mode(const struct mode *mode) {
    struct result result = {.mode = mode};
    struct chunk_name *last = malloc(CHUNKS * sizeof *last);
    bench_check(last != NULL, "memory");
    together_make_folder(store);
    save_all(&result, last);
    restart(&result, last);
    measure_bare(&result);
    if (!is_kept)
        together_remove_folder(store);
    free(last);
    if (ranks_own() == 0)
        (is_json ? report_json : report_people)(&result);
    return is_check && is_over(&result);
}

/* ---- the command line ---- */

static const struct bench_option command_line[] = {
    {"--json", .flag = &is_json},
    {"--check", .flag = &is_check},
    {"--keep", .flag = &is_kept},
    {"--mode", "full,incremental,local,exact,top-k,auto", .list = &only_modes},
    {"--steps", .number = &steps, .least = 1},
    {"--checkpoints", .number = &checkpoints, .least = 1},
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
    snprintf(store, sizeof store, "%s/bench-storm.store", folder);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (options_has(only_modes, modes[i].name))
            failed |= run_mode(&modes[i]);
    ranks_end();
    return failed;
}
