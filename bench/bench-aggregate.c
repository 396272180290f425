/* Few writers beside one for every rank: how soon a checkpoint is durable, how soon it is back, and how many files it
 * makes.
 *
 *   mpirun -n RANKS bench-aggregate [--json] [--check] [--slack FACTOR] [--limit 100MB] [--ways 1:none,16:auto]
 *          [--size MIB] [--checkpoints N] [--rounds N] [--settings TEXT]
 *          [--mpi-threads single|funneled|serialized|multiple] [FOLDER]
 *
 * Each way is a value of the setting aggregate and one of codec; the first is the one that the others are compared
 * with. 8 MiB on every rank: the state of a solver with refined patches (hydro.h) as it is after other numbers of steps
 * on every rank, and with coordinates and cell numbers of the rank's own. Each way has a new store and a session, and
 * five checkpoints that are waited for. Between two of them all arrays move by a few elements, so that all of it is
 * new. Then the last one is restored into new memory, with nothing of the store in the page cache, in a new session,
 * and compared: one wrong byte ends the program. Ways take turns, round by round; medians count. In the first
 * checkpoint nothing is known yet of the data and the storage: its seconds are told apart.
 *
 * --limit holds the storage at that speed, written and read together, for all ranks together (limit_file in
 * docs/backends.md): a file system that many share. In JSON, a line for each way:
 *   durable, restart       seconds, from when all ranks begin until all are done; cpu and restart_cpu: of processor
 * time, of all ranks together, with what ranks spend waiting for each other ratio                  data as the first
 * way stores it, over data as this one does durable_over_plain, restart_over_plain   of the first way's; bound and
 * restart_bound are what --check holds them to, where there is a limit: 1.15 and 1.25 over the ratio files, files_bound
 * made by a checkpoint in all, heartbeats apart; files_data: below data. --check allows one for every writer (32 ranks
 * share one with aggregate=0), two more, and one for every GiB max_over_mean          bytes written by the busiest
 * writer over the mean of the writers, in the worst checkpoint
 *
 * Unless --settings says otherwise no duplicates are looked for between ranks, so that all ways store the same.
 * --slack widens the bounds on times. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arrays.h"
#include "bench.h"
#include "details.h"
#include "hydro.h"
#include "new_files.h"
#include "options.h"
#include "ranks.h"
#include "together.h"

#define WAYS_MAX 8
#define CHECKPOINTS_MAX 32
#define ROUNDS_MAX 16
#define BOUND_DURABLE 1.15 /* over the ratio */
#define BOUND_RESTART 1.25
#define AUTO_GROUP 32u
#define STEPS_FIRST 40u /* of rank 0 */
#define STEPS_MORE 3u   /* of every next one */
#define STEPS_APART 32u /* ranks from which it begins again, elsewhere */

struct list {
    double values[CHECKPOINTS_MAX * ROUNDS_MAX];
    size_t count;
};

struct way {
    unsigned aggregate;
    char codec[24];
    struct list first, durable, blocked, cpu, restart, restart_cpu;
    double data, growth; /* bytes of a checkpoint; the mean of all but the first, of the last round */
    double files, files_data;
    double over_mean, writers;
    struct vv_details stats; /* of rank 0, of the last checkpoint */
};

static struct way ways[WAYS_MAX];
static size_t way_count;
static char store[3000], address[6200];
static const char *folder = ".", *limit = "", *more_settings = "dedup=local";
static size_t size = 8 * BENCH_MIB;
static unsigned checkpoints = 5, rounds = 3;
static double slack = 1;
static int is_json, is_check;

static void add(struct list *list, double value) {
    list->values[list->count++] = value;
}

static double median(const struct list *list) {
    return bench_median(list->values, list->count);
}

/* ---- the state ---- */

/* This rank's part lies beside the others' parts. */
static void move_coordinates(struct arrays *state) {
    for (size_t i = 0; i < state->count; i++) {
        struct array *array = &state->list[i];
        double *x = array->data;
        int64_t *cell = array->data;
        if (strcmp(array->name, "x") == 0)
            for (size_t at = 0; at < array->bytes / sizeof *x; at++)
                x[at] += ranks_own();
        if (strcmp(array->name, "cell") == 0)
            for (size_t at = 0; at < array->bytes / sizeof *cell; at++)
                cell[at] += (int64_t)ranks_own() << 24;
    }
}

static void make_state(struct arrays *state) {
    struct hydro *hydro = hydro_create(size);
    unsigned steps = STEPS_FIRST + STEPS_MORE * (ranks_own() % STEPS_APART) + ranks_own() / STEPS_APART;
    for (unsigned i = 0; i < steps; i++)
        hydro_step(hydro);
    const struct arrays *from = hydro_arrays(hydro);
    arrays_alike(from, state);
    for (size_t i = 0; i < from->count; i++)
        memcpy(state->list[i].data, from->list[i].data, from->list[i].bytes);
    hydro_destroy(hydro);
    move_coordinates(state);
}

static void compare(const struct arrays *state, const struct arrays *other) {
    for (size_t i = 0; i < state->count; i++)
        if (memcmp(state->list[i].data, other->list[i].data, state->list[i].bytes) != 0) {
            fprintf(stderr, "rank %u: %s is not what was saved\n", ranks_own(), state->list[i].name);
            exit(1);
        }
}

/* ---- a way ---- */

static struct varve_session *open_session(const struct way *way, const struct arrays *state) {
    char settings[1024];
    snprintf(settings, sizeof settings, "keep=all,aggregate=%u,codec=%s%s%s", way->aggregate, way->codec,
             *more_settings ? "," : "", more_settings);
    struct varve_session *session = together_open(address, "aggregate", settings);
    for (size_t i = 0; i < state->count; i++) {
        const struct array *from = &state->list[i];
        struct varve_array array = {.size = sizeof array, .type = from->type, .dims = from->dims};
        for (unsigned d = 0; d < from->dims; d++)
            array.dim[d].local = from->dim[d];
        together_check(session, varve_protect_array(session, from->name, from->data, &array), "protect");
    }
    return session;
}

static void note(struct way *way, const struct saved *saved, unsigned checkpoint) {
    add(checkpoint == 0 ? &way->first : &way->durable, saved->durable);
    way->stats = saved->stats;
    way->writers = saved->writers;
    if (saved->over_mean > way->over_mean)
        way->over_mean = saved->over_mean;
    if (checkpoint == 0) {
        way->data = way->growth = 0;
        return;
    }
    add(&way->blocked, saved->blocked);
    add(&way->cpu, saved->cpu);
    way->data += saved->data / (checkpoints - 1);
    way->growth += saved->growth / (checkpoints - 1);
}

/* By rank 0, while nobody writes; the largest numbers are kept. */
static void note_files(struct way *way, struct new_files *before) {
    struct new_files now = {0};
    size_t data = 0;
    if (ranks_own() != 0)
        return;
    new_files_look(store, &now);
    size_t count = new_files_count(before, &now, &data);
    way->files = (double)count > way->files ? (double)count : way->files;
    way->files_data = (double)data > way->files_data ? (double)data : way->files_data;
    new_files_clear(before);
    *before = now;
}

static void save_all(struct way *way, struct arrays *state) {
    struct new_files before = {0};
    struct varve_session *session = open_session(way, state);
    ranks_meet();
    if (ranks_own() == 0)
        new_files_look(store, &before);
    for (unsigned i = 0; i < checkpoints; i++) {
        struct saved saved = together_save(session, store, i);
        note(way, &saved, i);
        note_files(way, &before);
        if (i + 1 < checkpoints)
            arrays_turn(state);
    }
    together_check(session, varve_close(session), "close");
    new_files_clear(&before);
}

static void restart(struct way *way, const struct arrays *state) {
    struct arrays other;
    int64_t version = -1;
    arrays_alike(state, &other);
    together_cool(store);
    double begin = ranks_start(), cpu = bench_cpu();
    struct varve_session *session = open_session(way, &other);
    together_check(session, varve_restart(session, VARVE_LATEST, &version), "restart");
    add(&way->restart, ranks_stop(begin));
    add(&way->restart_cpu, ranks_sum(bench_cpu() - cpu));
    bench_check(version == (int64_t)checkpoints - 1, "restart gave another version");
    compare(state, &other);
    together_check(session, varve_close(session), "close");
    arrays_clear(&other);
}

static void run_way(struct way *way, struct arrays *state) {
    together_make_folder(store);
    save_all(way, state);
    restart(way, state);
    together_remove_folder(store);
    arrays_turn(state);
}

/* ---- how it is said ---- */

static double ratio_of(const struct way *way) {
    return way->data > 0 ? ways[0].data / way->data : 1;
}

static double files_bound(const struct way *way) {
    unsigned group = way->aggregate ? way->aggregate : AUTO_GROUP, writers = (ranks_all() + group - 1) / group;
    return writers + 2 + floor((double)size * ranks_all() / (1u << 30));
}

static void report_json(const struct way *way) {
    const struct vv_details *stats = &way->stats;
    printf("{\"bench\":\"aggregate\",\"ranks\":%u,\"bytes\":%.0f,\"limit\":\"%s\",\"aggregate\":%u,\"codec\":\"%s\"",
           ranks_all(), (double)size * ranks_all(), limit, way->aggregate, way->codec);
    printf(
        ",\"writers\":%.0f,\"group\":%u,\"grouping\":\"%s\",\"reason\":\"%s\",\"codec_used\":\"%s\",\"dedup\":\"%s\"",
        way->writers, stats->group, stats->grouping, stats->aggregate_reason, stats->codec, stats->dedup);
    printf(",\"first\":%.4f,\"durable\":%.4f,\"blocked\":%.4f,\"cpu\":%.4f,\"restart\":%.4f,\"restart_cpu\":%.4f",
           median(&way->first), median(&way->durable), median(&way->blocked), median(&way->cpu), median(&way->restart),
           median(&way->restart_cpu));
    printf(",\"data\":%.0f,\"stored\":%.0f,\"ratio\":%.4f,\"files\":%.0f,\"files_data\":%.0f,\"files_bound\":%.0f",
           way->data, way->growth, ratio_of(way), way->files, way->files_data, files_bound(way));
    printf(",\"max_over_mean\":%.4f", way->over_mean);
    if (way != ways)
        printf(",\"durable_over_plain\":%.4f,\"bound\":%.4f,\"restart_over_plain\":%.4f,\"restart_bound\":%.4f"
               ",\"first_over_plain\":%.4f",
               median(&way->durable) / median(&ways[0].durable), BOUND_DURABLE / ratio_of(way),
               median(&way->restart) / median(&ways[0].restart), BOUND_RESTART / ratio_of(way),
               median(&way->first) / median(&ways[0].first));
    printf("}\n");
    fflush(stdout);
}

static void report_people(const struct way *way) {
    printf("aggregate %2u, codec %-5s %3.0f writers of %u ranks  durable %7.3f s (first %.3f)  restart %7.3f s  ratio "
           "%.3f  %3.0f files (%.0f data)  busiest writer %.3f of the mean\n",
           way->aggregate, way->codec, way->writers, ranks_all(), median(&way->durable), median(&way->first),
           median(&way->restart), ratio_of(way), way->files, way->files_data, way->over_mean);
    if (way != ways)
        printf("    of the first way's: durable %.3f (%.3f over the ratio), restart %.3f (%.3f over the ratio)\n",
               median(&way->durable) / median(&ways[0].durable),
               median(&way->durable) / median(&ways[0].durable) * ratio_of(way),
               median(&way->restart) / median(&ways[0].restart),
               median(&way->restart) / median(&ways[0].restart) * ratio_of(way));
    fflush(stdout);
}

static int passes(const struct way *way, const char *what, double value, double bound) {
    if (value > bound)
        fprintf(stderr, "aggregate=%u, codec=%s, %u ranks: %s is %.4f, which is over %.4f\n", way->aggregate,
                way->codec, ranks_all(), what, value, bound);
    return value > bound;
}

static int is_over(const struct way *way) {
    int over = 0;
    if (way->aggregate != 1)
        over |= passes(way, "files", way->files, files_bound(way));
    if (way == ways || !*limit)
        return over;
    over |= passes(way, "durable_over_plain", median(&way->durable) / median(&ways[0].durable),
                   slack * BOUND_DURABLE / ratio_of(way));
    over |= passes(way, "restart_over_plain", median(&way->restart) / median(&ways[0].restart),
                   slack * BOUND_RESTART / ratio_of(way));
    return over;
}

/* Rank 0 has counted the files, so it judges for all. */
static int report_all(void) {
    int over = 0;
    for (size_t i = 0; i < way_count && ranks_own() == 0; i++) {
        (is_json ? report_json : report_people)(&ways[i]);
        over |= is_check && is_over(&ways[i]);
    }
    return ranks_most(over) > 0;
}

/* ---- the command line ---- */

static int take_ways(const char *text) {
    for (way_count = 0; *text && way_count < WAYS_MAX; text += strcspn(text, ","), text += *text == ',') {
        struct way *way = &ways[way_count++];
        if (sscanf(text, "%u:%23[^,]", &way->aggregate, way->codec) != 2)
            return -1;
    }
    return way_count > 0 && !*text ? 0 : -1;
}

static const struct bench_option command_line[] = {
    {"--json", .flag = &is_json},
    {"--check", .flag = &is_check},
    {"--slack", "FACTOR", .real = &slack, .least = 0.001},
    {"--limit", "100MB", .text = &limit},
    {"--ways", "1:none,16:auto", .take = take_ways},
    {"--size", "MIB", .size = &size, .least = 1},
    {"--checkpoints", .number = &checkpoints, .least = 2, .most = CHECKPOINTS_MAX},
    {"--rounds", .number = &rounds, .least = 1, .most = ROUNDS_MAX},
    {"--settings", "TEXT", .text = &more_settings},
    {"--mpi-threads", "single|funneled|serialized|multiple", .take = ranks_ask_threads},
    {"FOLDER", .text = &folder},
    {0},
};

static void name_store(char line[3100]) {
    char *whole = realpath(folder, NULL);
    bench_check(whole != NULL && strlen(whole) < OPTIONS_LONGEST, folder);
    snprintf(store, sizeof store, "%s/bench-aggregate.store", whole);
    snprintf(line, 3100, "%s/bench-aggregate.limit", whole);
    if (*limit)
        snprintf(address, sizeof address, "%s?limit=%s&limit_file=%s", store, limit, line);
    else
        snprintf(address, sizeof address, "%s", store);
    free(whole);
}

int main(int argc, char **argv) {
    struct arrays state;
    char line[3100];
    take_ways("1:none,16:auto");
    options_read(command_line, argc, argv);
    /* What the environment says would win over what is compared here. */
    unsetenv("VARVE_CODEC");
    unsetenv("VARVE_AGGREGATE");
    ranks_begin(&argc, &argv);
    together_lock(folder);
    name_store(line);
    make_state(&state);
    size = state.bytes;
    for (unsigned round = 0; round < rounds; round++)
        for (size_t i = 0; i < way_count; i++)
            run_way(&ways[round % 2 ? way_count - 1 - i : i], &state);
    int failed = report_all();
    if (ranks_own() == 0)
        unlink(line);
    arrays_clear(&state);
    ranks_end();
    return failed;
}
