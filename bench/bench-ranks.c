/* Many ranks with little memory: what a checkpoint and a restart of a whole job take beside files written and read by
 * hand.
 *
 *   mpirun -n RANKS bench-ranks [--json] [--size MIB] [--rounds N] [FOLDER]
 *
 * Every rank has 4 MiB, new noise for every checkpoint. Bare is one file per rank, written and synced, and read again
 * cold, by all ranks at the same time. With so little data it is not the bytes that count but what a job has to agree
 * on and to sync: the seconds that a rank more costs. Times are from when all ranks are ready until all have done it;
 * medians of the rounds. More ranks than processors are all right, and then also show how the ranks wait for each
 * other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"
#include "options.h"
#include "ranks.h"

#define ROUNDS_MAX 64

struct times {
    double bare[ROUNDS_MAX], durable[ROUNDS_MAX], cold_read[ROUNDS_MAX], open[ROUNDS_MAX], restart[ROUNDS_MAX];
};

static const char *folder = ".";
static char bare_path[3100]; /* this rank's */
static char store_path[3100];
static size_t size = 4 * BENCH_MIB;
static unsigned rounds = 5;
static int is_json;

static void check_session(const struct varve_session *session, int rc, const char *what) {
    if (rc) {
        fprintf(stderr, "%s: %s\n", what, varve_session_error(session)->text);
        exit(1);
    }
}

static struct varve_session *open_session(uint8_t *memory) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error;
    options.settings = "codec=none,capture=sync"; /* nothing is done meanwhile, so nothing is gained by going on */
    if (ranks_open(store_path, "ranks", &options, &session, &error) != 0) {
        fprintf(stderr, "open: %s\n", error.text);
        exit(1);
    }
    check_session(session, varve_protect(session, "field", memory, size), "protect");
    return session;
}

static uint64_t noise(unsigned round) {
    return (uint64_t)ranks_own() << 32 | round;
}

static void fill(uint8_t *memory, unsigned round) {
    uint64_t state = noise(round);
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = bench_random(&state);
        memcpy(memory + i, &word, 8);
    }
}

static void compare(const uint8_t *memory, unsigned round) {
    uint64_t state = noise(round);
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = bench_random(&state);
        if (memcmp(memory + i, &word, 8) != 0) {
            fprintf(stderr, "rank %u: byte %zu is not what was saved\n", ranks_own(), i);
            exit(1);
        }
    }
}

static double bare_write(const uint8_t *memory) {
    unlink(bare_path);
    double begin = ranks_start();
    bench_bare_write(bare_path, memory, size);
    return ranks_stop(begin);
}

static double checkpoint(struct varve_session *session, unsigned round) {
    double begin = ranks_start();
    check_session(session, varve_checkpoint(session, round), "checkpoint");
    check_session(session, varve_wait(session), "wait");
    return ranks_stop(begin);
}

static void measure_saving(struct times *times) {
    uint8_t *memory = bench_pages(size);
    fill(memory, 0);
    struct varve_session *session = open_session(memory);
    bare_write(memory); /* unmeasured, like the first checkpoint: buffers, threads and folders are made here */
    checkpoint(session, 0);
    for (unsigned i = 0; i < rounds; i++) {
        fill(memory, i + 1);
        if (i % 2)
            times->durable[i] = checkpoint(session, i + 1);
        times->bare[i] = bare_write(memory);
        if (i % 2 == 0)
            times->durable[i] = checkpoint(session, i + 1);
    }
    check_session(session, varve_close(session), "close");
    munmap(memory, size);
}

static void restart(struct times *times, unsigned round) {
    uint8_t *memory = bench_pages(size);
    int64_t version = -1;
    double begin = ranks_start();
    struct varve_session *session = open_session(memory);
    times->open[round] = ranks_most(bench_now() - begin);
    check_session(session, varve_restart(session, VARVE_LATEST, &version), "restart");
    times->restart[round] = ranks_stop(begin);
    bench_check(version == (int64_t)rounds, "restart gave another version");
    check_session(session, varve_close(session), "close");
    compare(memory, rounds);
    munmap(memory, size);
}

static void read_back(struct times *times, unsigned round) {
    uint8_t *memory = bench_pages(size);
    double begin = ranks_start();
    bench_bare_read(bare_path, memory, size);
    times->cold_read[round] = ranks_stop(begin);
    compare(memory, rounds);
    munmap(memory, size);
}

/* All ranks are on one machine: they have one page cache. */
static void cool(void) {
    ranks_meet();
    bench_cool(bare_path);
    if (ranks_own() == 0)
        bench_cool(store_path);
}

static void measure_restart(struct times *times) {
    for (unsigned i = 0; i < rounds; i++) {
        cool();
        read_back(times, i);
        cool();
        restart(times, i);
    }
}

static void report(const struct times *times) {
    double bare = bench_median(times->bare, rounds), durable = bench_median(times->durable, rounds);
    double cold = bench_median(times->cold_read, rounds), all = bench_median(times->restart, rounds);
    double opened = bench_median(times->open, rounds);
    if (is_json)
        printf("{\"bench\":\"ranks\",\"ranks\":%u,\"bytes\":%zu,\"seconds_bare\":%.4f,\"seconds_durable\":%.4f,"
               "\"seconds_cold_read\":%.4f,\"seconds_open\":%.4f,\"seconds_restart\":%.4f,\"durable_over_bare\":%.4f,"
               "\"restart_over_cold_read\":%.4f}\n",
               ranks_all(), size * ranks_all(), bare, durable, cold, opened, all, durable / bare, all / cold);
    else
        printf("%u ranks of %zu MiB\n"
               "  bare write and fsync   %8.4f s\n  checkpoint, durable    %8.4f s   %5.2f of bare\n"
               "  cold read              %8.4f s\n  open and restart       %8.4f s   %5.2f of the cold read (open %.4f "
               "s)\n",
               ranks_all(), size / BENCH_MIB, bare, durable, durable / bare, cold, all, all / cold, opened);
}

static const struct bench_option command_line[] = {
    {"--json", .flag = &is_json},
    {"--size", "MIB", .size = &size, .least = BENCH_MIB, .step = BENCH_MIB},
    {"--rounds", .number = &rounds, .least = 1, .most = ROUNDS_MAX},
    {"FOLDER", .text = &folder},
    {0},
};

int main(int argc, char **argv) {
    static struct times times;
    options_read(command_line, argc, argv);
    ranks_begin(&argc, &argv);
    snprintf(bare_path, sizeof bare_path, "%s/bench-ranks.bare.%u", folder, ranks_own());
    snprintf(store_path, sizeof store_path, "%s/bench-ranks.store", folder);
    if (ranks_own() == 0) {
        bench_remove(store_path);
        bench_check(mkdir(store_path, 0700) == 0, store_path);
    }
    ranks_meet();
    measure_saving(&times);
    measure_restart(&times);
    if (ranks_own() == 0)
        report(&times);
    ranks_meet();
    bench_remove(bare_path);
    if (ranks_own() == 0)
        bench_remove(store_path);
    ranks_end();
    return 0;
}
