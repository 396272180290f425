/* How fast checkpoints with fine chunks are on the processor, against memcpy.
 *
 *   bench-fine [--json] [--check] [--slack FACTOR] [--size MIB] [--chunk BYTES] [--changed SHARE] [--bytes N]
 *              [--threads N] [--rounds N] [--settings TEXT] [--uri URI]
 *
 * A program of --size protected bytes gives a share of its pages, spread evenly, new random contents: --bytes of each
 * from a random place on, or all of it (0). Then it takes a checkpoint and waits until it is stored. Measured in turns
 * with that: one thread copies all protected bytes into memory that was written before. The first checkpoint, which
 * holds everything, does not count; of the others medians are told.
 *
 * speed_over_memcpy: the time of the copy over the time from varve_checkpoint until varve_wait has returned.
 * blocked_over_memcpy: the time inside varve_checkpoint over the time of the copy.
 *
 * memcpy_over_cpu: processor time of the copy over that of all threads meanwhile; least_over_least: the shortest copy
 * over the shortest checkpoint. Both for machines that others use, too.
 *
 * --chunk 1 is the same without fine chunks. Without --changed the cases with bounds are run: a tenth of the pages, and
 * everything on one thread and on two (setting threads). Stores in memory unless told otherwise; a folder is removed at
 * the end. The last checkpoint is restored and compared. With --check a bound that is not kept is a failure; --slack
 * widens them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"
#include "details.h"
#include "options.h"
#include "varve/varve.h"

#define PAGE 4096u
#define ROUNDS_MAX 99u

struct wanted {
    size_t size;
    unsigned chunk, bytes, threads, rounds;
    double changed; /* share of the pages */
    double bound;   /* on speed_over_memcpy; 0: none */
};

struct times {
    double copy[ROUNDS_MAX], stored[ROUNDS_MAX], blocked[ROUNDS_MAX], fine[ROUNDS_MAX];
    double copy_cpu[ROUNDS_MAX], cpu[ROUNDS_MAX]; /* of all threads */
    struct vv_details last;
};

static const char *more_settings = "", *uri;
static double slack = 1;
static int is_checked, is_json;

static void check(const struct varve_session *session, int rc, const char *what) {
    if (rc < 0) {
        fprintf(stderr, "bench-fine: %s: %s\n", what, varve_session_error(session)->text);
        exit(1);
    }
}

static struct varve_session *open_session(const struct wanted *wanted) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error;
    char settings[512];
    snprintf(settings, sizeof settings, "codec=none,keep=2,fine=%u,threads=%u%s%s", wanted->chunk, wanted->threads,
             *more_settings ? "," : "", more_settings);
    options.settings = settings;
    if (varve_open(uri ? uri : "mem://bench-fine", "fine", &options, &session, &error) != 0) {
        fprintf(stderr, "bench-fine: %s\n", error.text);
        exit(1);
    }
    return session;
}

/* ---- the program ---- */

static void fill(uint8_t *data, size_t size, uint64_t *state) {
    for (; size >= sizeof(uint64_t); data += sizeof(uint64_t), size -= sizeof(uint64_t)) {
        uint64_t word = bench_random(state);
        memcpy(data, &word, sizeof word);
    }
    for (; size > 0; size--)
        *data++ = (uint8_t)bench_random(state);
}

/* One page of every so many, another one each time. */
static void change(const struct wanted *wanted, uint8_t *memory, uint64_t *state) {
    double pages = (double)(wanted->size / PAGE), step = 1 / wanted->changed;
    for (double at = 0; at + step <= pages + 0.5; at += step) {
        uint64_t page = (uint64_t)at + bench_random(state) % (uint64_t)step;
        unsigned bytes = wanted->bytes ? wanted->bytes : PAGE;
        fill(memory + page * PAGE + bench_random(state) % (PAGE - bytes + 1), bytes, state);
    }
}

static double copy_all(const struct wanted *wanted, void *to, const void *from) {
    double begin = bench_now();
    memcpy(to, from, wanted->size);
    __asm__ volatile("" ::: "memory");
    return bench_now() - begin;
}

static void one_round(const struct wanted *wanted, struct varve_session *session, const uint8_t *memory, uint8_t *other,
                      int64_t version, unsigned i, struct times *times) {
    double cpu = bench_cpu();
    times->copy[i] = copy_all(wanted, other, memory);
    times->copy_cpu[i] = bench_cpu() - cpu;
    double begin = bench_now();
    cpu = bench_cpu();
    check(session, varve_checkpoint(session, version), "checkpoint");
    times->blocked[i] = bench_now() - begin;
    check(session, varve_wait(session), "wait");
    times->stored[i] = bench_now() - begin;
    times->cpu[i] = bench_cpu() - cpu;
    check(session, vv_details_get(session, &times->last), "stats");
    times->fine[i] = times->last.seconds_fine;
}

/* ---- a case ---- */

static double least(const double *list, unsigned n) {
    double found = list[0];
    for (unsigned i = 1; i < n; i++)
        found = list[i] < found ? list[i] : found;
    return found;
}

static unsigned report(const struct wanted *wanted, const struct times *times) {
    unsigned n = wanted->rounds;
    double copy = bench_median(times->copy, n), stored = bench_median(times->stored, n);
    double blocked = bench_median(times->blocked, n), speed = copy / stored;
    const struct vv_details *last = &times->last;
    if (is_json) {
        printf("{\"bench\":\"fine\",\"size\":%zu,\"chunk\":%u,\"changed\":%g,\"bytes_per_page\":%u,\"threads\":%u",
               wanted->size, wanted->chunk, wanted->changed, wanted->bytes, wanted->threads);
        printf(",\"speed_over_memcpy\":%.4f,\"blocked_over_memcpy\":%.4f,\"memcpy_gb_s\":%.2f,\"seconds\":%.5f", speed,
               blocked / copy, (double)wanted->size / copy * 1e-9, stored);
        printf(",\"seconds_blocked\":%.5f,\"seconds_fine\":%.5f", blocked, bench_median(times->fine, n));
        printf(",\"seconds_cpu\":%.5f,\"memcpy_over_cpu\":%.4f,\"least_over_least\":%.4f", bench_median(times->cpu, n),
               bench_median(times->copy_cpu, n) / bench_median(times->cpu, n),
               least(times->copy, n) / least(times->stored, n));
        printf(",\"bytes_new\":%llu,\"bytes_stored\":%llu,\"bytes_metadata\":%llu,\"bytes_seen\":%llu",
               (unsigned long long)last->bytes_new, (unsigned long long)last->bytes_stored,
               (unsigned long long)last->bytes_metadata, (unsigned long long)last->bytes_seen);
        printf(",\"chunks_fixed\":%llu,\"chunks_first\":%llu,\"chunks_shifted\":%llu,\"runs\":%llu,\"rounds\":%u",
               (unsigned long long)last->chunks_fixed, (unsigned long long)last->chunks_first,
               (unsigned long long)last->chunks_shifted, (unsigned long long)last->runs_changed, n);
        printf(",\"tracker\":\"%s\",\"store\":\"%s\"}\n", last->tracker, uri ? uri : "mem");
    } else
        printf("chunk %u, %g of the pages, %u threads: %.3f of memcpy (%.2f GB/s), blocked %.3f of its time\n",
               wanted->chunk, wanted->changed, wanted->threads, speed, (double)wanted->size / copy * 1e-9,
               blocked / copy);
    fflush(stdout);
    int is_kept = speed * slack >= wanted->bound;
    if (!is_kept)
        fprintf(stderr, "bench-fine: %g of the pages, %u threads: %.4f of memcpy, bound %.4f\n", wanted->changed,
                wanted->threads, speed, wanted->bound);
    return !is_kept;
}

static void compare(const struct wanted *wanted, struct varve_session *session, uint8_t *memory, uint8_t *other) {
    copy_all(wanted, other, memory);
    memset(memory, 0, wanted->size);
    check(session, varve_restart(session, VARVE_LATEST, NULL), "restart");
    if (memcmp(memory, other, wanted->size) != 0) {
        fprintf(stderr, "bench-fine: what was restored is not what the program had\n");
        exit(1);
    }
}

static unsigned run(const struct wanted *wanted) {
    static struct times times;
    uint64_t state = 7;
    uint8_t *memory = bench_pages(wanted->size), *other = bench_pages(wanted->size);
    fill(memory, wanted->size, &state);
    memset(other, 1, wanted->size);
    struct varve_session *session = open_session(wanted);
    check(session, varve_protect(session, "data", memory, wanted->size), "protect");
    one_round(wanted, session, memory, other, 0, 0, &times);
    for (unsigned i = 0; i < wanted->rounds; i++) {
        change(wanted, memory, &state);
        one_round(wanted, session, memory, other, i + 1, i, &times);
    }
    compare(wanted, session, memory, other);
    check(session, varve_close(session), "close");
    munmap(memory, wanted->size);
    munmap(other, wanted->size);
    if (uri && !strstr(uri, "://"))
        bench_remove(uri);
    return report(wanted, &times);
}

/* ---- the command line ---- */

static unsigned run_bounded(const struct wanted *base) {
    struct wanted sparse = *base, alone = *base, two = *base;
    sparse.changed = 0.1;
    sparse.bound = 0.5;
    alone.changed = two.changed = 1;
    alone.bytes = two.bytes = 0;
    alone.bound = 0.1;
    two.bound = 0.15;
    sparse.threads = alone.threads = 1;
    two.threads = 2;
    return run(&sparse) + run(&alone) + run(&two);
}

int main(int argc, char **argv) {
    struct wanted wanted = {.size = 256 * BENCH_MIB, .chunk = 128, .threads = 2, .rounds = 9};
    const struct bench_option command_line[] = {
        {"--json", .flag = &is_json},
        {"--check", .flag = &is_checked},
        {"--slack", "FACTOR", .real = &slack, .least = 0.001},
        {"--size", "MIB", .size = &wanted.size, .least = PAGE},
        {"--chunk", "BYTES", .number = &wanted.chunk},
        {"--changed", "SHARE", .real = &wanted.changed, .most = 1},
        {"--bytes", .number = &wanted.bytes, .most = PAGE},
        {"--threads", .number = &wanted.threads},
        {"--rounds", .number = &wanted.rounds, .least = 1, .most = ROUNDS_MAX},
        {"--settings", "TEXT", .text = &more_settings},
        {"--uri", "URI", .text = &uri},
        {0},
    };
    options_read(command_line, argc, argv);
    unsigned failed = wanted.changed > 0 ? run(&wanted) : run_bounded(&wanted);
    return is_checked && failed;
}
