/* Replicas: every rank holds the same arrays, as the processes of data-parallel training do.
 *
 *   mpirun -n RANKS bench-replicas [--json] [--check] [--size SIZE] [--checkpoints N] [--settings TEXT]
 *          [--mpi-threads single|funneled|serialized|multiple] [FOLDER]
 *
 * 200 MB of arrays on every rank: the weights of some layers, and for each the two moments of the optimiser. Their
 * sizes are odd numbers of float32, they come from malloc, and lie at other alignments on every rank. Between two
 * checkpoints 80 % stay as they are: only the last layers are trained. Stored bytes are what the store's folder grows
 * by, everything included; they are compared with what one rank holds, and later with what one rank has changed. Then
 * all is restored into new arrays, at other alignments again, and compared.
 *
 * Unless --settings says otherwise nothing is compressed, and duplicates are looked for whatever that costs.
 *
 * --check fails when a bound is passed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "options.h"
#include "ranks.h"
#include "together.h"

#define BOUND_FIRST 1.02 /* of one copy */
#define BOUND_LATER 1.05 /* of what has changed in one copy */
#define LAYERS 24
#define KINDS 3 /* of arrays per layer */
#define TRAINED_SHARE 0.2
#define SHIFT_MOST 8192

static const char *const kinds[KINDS] = {"weights", "first", "second"};

struct array {
    char name[32];
    float *values;
    void *block; /* what malloc gave */
    size_t count;
    unsigned age; /* the checkpoint before which it was last written */
    int is_trained;
};

static struct array arrays[LAYERS * KINDS];
#define ARRAYS (sizeof arrays / sizeof arrays[0])

static const char *folder = ".";
static char store[3100];
static size_t size = 200 * 1000 * 1000;
static unsigned checkpoints = 4;
static const char *settings = "codec=none,dedup=exact";
static int is_json, is_check;

/* ---- the arrays ---- */

static size_t bytes_of(const struct array *array) {
    return array->count * sizeof *array->values;
}

/* The values follow from the array and the checkpoint, not from the rank. */
static uint64_t seed_of(const struct array *array) {
    return (uint64_t)(array - arrays) << 32 | array->age;
}

static float next_value(uint64_t *state) {
    return (float)(bench_random(state) >> 40) * 0x1p-24f - 0.5f;
}

static void fill(struct array *array) {
    uint64_t state = seed_of(array);
    for (size_t i = 0; i < array->count; i++)
        array->values[i] = next_value(&state);
}

static void compare(const struct array *array) {
    uint64_t state = seed_of(array);
    for (size_t i = 0; i < array->count; i++) {
        float value = next_value(&state);
        if (memcmp(&value, &array->values[i], sizeof value) != 0) {
            fprintf(stderr, "rank %u: %s: value %zu is not what was saved\n", ranks_own(), array->name, i);
            exit(1);
        }
    }
}

/* Each array somewhere else than on the other ranks, in bytes within a page, too. */
static void place(struct array *array, unsigned life) {
    uint64_t state = (uint64_t)(array - arrays) << 32 | ranks_own() << 8 | life;
    size_t shift = bench_random(&state) % SHIFT_MOST / sizeof(float) * sizeof(float);
    free(array->block);
    array->block = malloc(bytes_of(array) + shift);
    bench_check(array->block != NULL, "memory");
    array->values = (float *)(void *)((char *)array->block + shift);
}

/* Layers of about three sizes. The last ones are trained: as many as make up their share. */
static void make_arrays(void) {
    static const double weights[3] = {0.5, 1, 1.5};
    double all = (double)size / sizeof(float) / KINDS / LAYERS, trained = 0;
    for (size_t i = ARRAYS; i-- > 0;) {
        struct array *array = &arrays[i];
        size_t layer = i / KINDS;
        snprintf(array->name, sizeof array->name, "layer%zu.%s", layer, kinds[i % KINDS]);
        array->count = (size_t)(all * weights[layer % 3]) | 1;
        array->is_trained = trained + (double)bytes_of(array) <= TRAINED_SHARE * (double)size;
        if (array->is_trained)
            trained += (double)bytes_of(array);
        place(array, 0);
        fill(array);
    }
}

static double sum_of(int only_trained) {
    double bytes = 0;
    for (size_t i = 0; i < ARRAYS; i++)
        if (!only_trained || arrays[i].is_trained)
            bytes += (double)bytes_of(&arrays[i]);
    return bytes;
}

static void train(unsigned checkpoint) {
    for (size_t i = 0; i < ARRAYS; i++)
        if (arrays[i].is_trained) {
            arrays[i].age = checkpoint;
            fill(&arrays[i]);
        }
}

/* ---- what is measured ---- */

struct result {
    double first, later; /* bytes that the store grew by; later: the mean */
    double first_data, later_data;
    double first_durable, first_blocked;
    double durable[64], blocked[64];
    double over_mean; /* written by the busiest rank over the mean, in the first */
    double messages;
    char dedup[16], reason[128];
};

static struct varve_session *open_session(void) {
    struct varve_session *session = together_open(store, "replicas", settings);
    for (size_t i = 0; i < ARRAYS; i++)
        together_check(session, varve_protect(session, arrays[i].name, arrays[i].values, bytes_of(&arrays[i])),
                       "protect");
    return session;
}

static void note(struct result *r, const struct saved *saved, unsigned checkpoint) {
    memcpy(r->dedup, saved->stats.dedup, sizeof r->dedup);
    memcpy(r->reason, saved->stats.dedup_reason, sizeof r->reason);
    if (checkpoint > 0) {
        r->later += saved->growth / (checkpoints - 1);
        r->later_data += saved->data / (checkpoints - 1);
        r->durable[checkpoint - 1] = saved->durable;
        r->blocked[checkpoint - 1] = saved->blocked;
        return;
    }
    r->first = saved->growth;
    r->first_data = saved->data;
    r->first_durable = saved->durable;
    r->first_blocked = saved->blocked;
    r->over_mean = saved->written_most / (ranks_sum(saved->own) / ranks_all());
    r->messages = saved->messages;
}

static void save_all(struct result *r) {
    struct varve_session *session = open_session();
    for (unsigned i = 0; i < checkpoints; i++) {
        if (i > 0)
            train(i);
        struct saved saved = together_save(session, store, i);
        note(r, &saved, i);
    }
    together_check(session, varve_close(session), "close");
}

static double restart(void) {
    int64_t version = -1;
    for (size_t i = 0; i < ARRAYS; i++) {
        place(&arrays[i], 1);
        memset(arrays[i].values, 0, bytes_of(&arrays[i]));
    }
    together_cool(store);
    double begin = ranks_start();
    struct varve_session *session = open_session();
    together_check(session, varve_restart(session, VARVE_LATEST, &version), "restart");
    double seconds = ranks_stop(begin);
    bench_check(version == (int64_t)checkpoints - 1, "restart gave another version");
    for (size_t i = 0; i < ARRAYS; i++)
        compare(&arrays[i]);
    together_check(session, varve_close(session), "close");
    return seconds;
}

/* ---- how it is said ---- */

static void report_json(const struct result *r, double restarted) {
    double one = sum_of(0), changed = sum_of(1);
    printf("{\"bench\":\"replicas\",\"ranks\":%u,\"bytes\":%.0f,\"arrays\":%zu,\"threads\":\"%s\",\"dedup\":\"%s\","
           "\"dedup_reason\":\"%s\"",
           ranks_all(), one, ARRAYS, ranks_threads(), r->dedup, r->reason);
    printf(",\"changed_share\":%.4f,\"first_over_copy\":%.4f,\"later_over_changed\":%.4f", changed / one,
           r->first / one, r->later / changed);
    printf(",\"first_data_over_copy\":%.4f,\"later_data_over_changed\":%.4f,\"max_over_mean\":%.4f",
           r->first_data / one, r->later_data / changed, r->over_mean);
    printf(",\"seconds_first\":%.4f,\"seconds_first_blocked\":%.4f,\"seconds_durable\":%.4f,\"seconds_blocked\":%.4f,"
           "\"seconds_restart\":%.4f,\"messages_most\":%.0f}\n",
           r->first_durable, r->first_blocked, bench_median(r->durable, checkpoints - 1),
           bench_median(r->blocked, checkpoints - 1), restarted, r->messages);
}

static void report_people(const struct result *r, double restarted) {
    double one = sum_of(0), changed = sum_of(1);
    printf("%u ranks with the same %.1f MB in %zu arrays; %.1f %% of it changed between checkpoints; dedup %s (%s)\n",
           ranks_all(), one / 1e6, ARRAYS, 100 * changed / one, r->dedup, r->reason);
    printf("  first checkpoint    %8.4f of one copy (data alone %.4f), busiest rank %.4f of the mean; %.3f s, blocked "
           "%.3f s\n",
           r->first / one, r->first_data / one, r->over_mean, r->first_durable, r->first_blocked);
    printf("  later checkpoints   %8.4f of what changed in one copy (data alone %.4f); %.3f s, blocked %.3f s\n",
           r->later / changed, r->later_data / changed, bench_median(r->durable, checkpoints - 1),
           bench_median(r->blocked, checkpoints - 1));
    printf("  restart             %8.3f s, all bytes compared\n", restarted);
}

static int passes(const char *what, double value, double bound) {
    if (value > bound && ranks_own() == 0)
        fprintf(stderr, "replicas, %u ranks: %s is %.4f, which is over %.4f\n", ranks_all(), what, value, bound);
    return value > bound;
}

/* ---- the command line ---- */

static const struct bench_option command_line[] = {
    {"--json", .flag = &is_json},
    {"--check", .flag = &is_check},
    {"--size", "SIZE", .size = &size, .least = LAYERS * KINDS * CHUNK},
    {"--checkpoints", .number = &checkpoints, .least = 2, .most = 64},
    {"--settings", "TEXT", .text = &settings},
    {"--mpi-threads", "single|funneled|serialized|multiple", .take = ranks_ask_threads},
    {"FOLDER", .text = &folder},
    {0},
};

int main(int argc, char **argv) {
    struct result result = {0};
    int failed = 0;
    options_read(command_line, argc, argv);
    ranks_begin(&argc, &argv);
    together_lock(folder);
    snprintf(store, sizeof store, "%s/bench-replicas.store", folder);
    together_make_folder(store);
    make_arrays();
    save_all(&result);
    double restarted = restart();
    if (ranks_own() == 0)
        (is_json ? report_json : report_people)(&result, restarted);
    if (is_check) {
        failed |= passes("first_over_copy", result.first / sum_of(0), BOUND_FIRST);
        failed |= passes("later_over_changed", result.later / sum_of(1), BOUND_LATER);
    }
    together_remove_folder(store);
    ranks_end();
    return failed;
}
