/* What it costs a program to be watched: a stencil that writes a tenth of its pages between two checkpoints.
 *
 *   bench-stencil [--short] [--strict] [--slack FACTOR] [--variant same|moving] [--region MIB] [--epochs N]
 *                 [--seconds S] [--settings TEXT] [--dir FOLDER]
 *
 * Two grids of float64, one protected, one not. An epoch is a fixed count of sweeps over a band of a tenth of the rows:
 * always the same band, or one that moves on by its height. Before an epoch of the protected grid a checkpoint is taken
 * and waited for, so that nothing is in flight and the tracker, if there is one, is armed. The epochs of the two grids
 * are taken by turns, and the band is read through before each, so that both find the caches alike.
 *
 * slowdown_armed is the median time of an epoch of the protected grid over that of the other; us_per_first_write the
 * difference of their first sweeps per page, in microseconds. Epochs count from the third on: the first checkpoint
 * holds everything. The last checkpoint is restored and compared.
 *
 * One line of JSON per variant on stdout, verdicts on stderr; with --strict a bound that is not kept is a failure.
 * --slack widens the bounds on times. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"
#include "details.h"
#include "options.h"
#include "varve/varve.h"

#define COLUMNS 2048u
#define ROW_BYTES (COLUMNS * sizeof(double))
#define PAGE 4096u
#define EPOCHS_MAX 64u
#define LEARNT 2u /* epochs that do not count */

#define BOUND_SLOWDOWN 0.02 /* for epochs of a second */
#define BOUND_FIRST_WRITE 3 /* microseconds per page */

struct grid {
    double *cells;
    double epoch[EPOCHS_MAX], first[EPOCHS_MAX]; /* seconds: all sweeps, and the first of them */
};

static size_t region = 256 * BENCH_MIB, rows;
static unsigned epochs = 8;
static double seconds = 1, slack = 1;
static const char *only_variant, *more_settings = "", *place = "/dev/shm";
static int is_strict;
static char folder[3000];

static struct varve_session *open_session(const char *settings) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error;
    options.settings = settings;
    if (varve_open(folder, "stencil", &options, &session, &error) != 0) {
        fprintf(stderr, "open: %s\n", error.text);
        exit(1);
    }
    return session;
}

static void check_session(const struct varve_session *session, int rc, const char *what) {
    if (rc < 0) {
        fprintf(stderr, "%s: %s\n", what, varve_session_error(session)->text);
        exit(1);
    }
}

static void remove_folder(void) {
    bench_remove(folder);
}

/* ---- the program ---- */

static size_t band_rows(void) {
    return rows / 10;
}

static size_t band_start(int is_moving, unsigned epoch) {
    size_t places = (rows - 2) / band_rows();
    return 1 + (is_moving ? epoch % places : 3) * band_rows();
}

/* In place, with something coming in at every step, so that it never comes to rest. */
static void sweep(double *cells, size_t from, unsigned step) {
    for (size_t i = from; i < from + band_rows(); i++) {
        double *row = cells + i * COLUMNS;
        const double *above = row - COLUMNS, *below = row + COLUMNS;
        for (size_t j = 1; j < COLUMNS - 1; j++)
            row[j] = 0.25 * (above[j] + below[j] + row[j - 1] + row[j + 1]) + 1e-3 * (double)(step % 7);
    }
}

static void warm(const double *cells, size_t from) {
    static volatile double sink;
    double sum = 0;
    for (size_t i = (from - 1) * COLUMNS; i < (from + band_rows() + 1) * COLUMNS; i += 8)
        sum += cells[i];
    sink = sum;
    (void)sink;
}

static void one_epoch(struct grid *grid, size_t from, unsigned epoch, unsigned sweeps) {
    warm(grid->cells, from);
    double begin = bench_now();
    sweep(grid->cells, from, epoch);
    grid->first[epoch] = bench_now() - begin;
    for (unsigned i = 1; i < sweeps; i++)
        sweep(grid->cells, from, epoch + i);
    grid->epoch[epoch] = bench_now() - begin;
}

static void grid_start(struct grid *grid) {
    uint64_t state = 7;
    memset(grid, 0, sizeof *grid);
    grid->cells = bench_pages(region);
    for (size_t i = 0; i < rows * COLUMNS; i++)
        grid->cells[i] = (double)(bench_random(&state) >> 11) * 0x1p-53;
}

static unsigned sweeps_per_epoch(double *cells) {
    double list[5];
    for (unsigned i = 0; i < 5; i++) {
        double begin = bench_now();
        sweep(cells, 1, i);
        list[i] = bench_now() - begin;
    }
    double sweeps = seconds / bench_median(list, 5);
    return sweeps < 2 ? 2 : (unsigned)sweeps;
}

/* ---- a run ---- */

struct sums {
    uint64_t traps;      /* of all epochs */
    uint64_t late_traps; /* after the second epoch */
    uint64_t bytes_held; /* after the second epoch, all together */
    uint64_t changed;    /* bytes, of the last checkpoint */
    uint64_t looked_at;  /* the same: those that were captured, and those of the audit */
    struct vv_details last;
};

/* The statistics of a checkpoint, when its epoch is over. */
static void add_stats(struct varve_session *session, unsigned epoch, struct sums *sums) {
    struct vv_details *stats = &sums->last;
    check_session(session, vv_details_get(session, stats), "stats");
    sums->traps += stats->pages_trapped;
    if (epoch >= LEARNT) {
        sums->late_traps += stats->pages_trapped;
        sums->bytes_held += stats->bytes_held;
    }
    sums->changed = stats->bytes_changed;
    sums->looked_at = stats->bytes_staged + stats->bytes_drained + stats->bytes_held + stats->bytes_frozen +
                      stats->chunks_audited * PAGE;
}

static void run_epochs(struct varve_session *session, int is_moving, struct grid *ours, struct grid *bare,
                       unsigned sweeps, struct sums *sums) {
    for (unsigned epoch = 0; epoch < epochs; epoch++) {
        size_t from = band_start(is_moving, epoch);
        check_session(session, varve_checkpoint(session, epoch), "checkpoint");
        check_session(session, varve_wait(session), "wait");
        if (epoch % 2)
            one_epoch(bare, from, epoch, sweeps);
        one_epoch(ours, from, epoch, sweeps);
        if (epoch % 2 == 0)
            one_epoch(bare, from, epoch, sweeps);
        add_stats(session, epoch, sums);
    }
    check_session(session, varve_checkpoint(session, epochs), "checkpoint");
    check_session(session, varve_wait(session), "wait");
}

/* Both grids are the same at the end, and so is what comes back. */
static void compare(const struct grid *ours, const struct grid *bare) {
    double *cells = bench_pages(region);
    struct varve_session *session = open_session("capture=sync");
    int64_t version = -1;
    check_session(session, varve_protect(session, "grid", cells, region), "protect");
    check_session(session, varve_restart(session, VARVE_LATEST, &version), "restart");
    check_session(session, varve_close(session), "close");
    if (version != (int64_t)epochs || memcmp(cells, bare->cells, region) != 0 ||
        memcmp(ours->cells, bare->cells, region) != 0) {
        fprintf(stderr, "bench-stencil: what was restored is not what the program had\n");
        exit(1);
    }
    munmap(cells, region);
}

static unsigned judge(const char *variant, const char *what, double value, double bound) {
    fprintf(stderr, "%s %s: %s %.4f, bound %.4f\n", value > bound ? "FAIL" : "pass", variant, what, value, bound);
    return value > bound;
}

static unsigned report(const char *variant, const struct grid *ours, const struct grid *bare, unsigned sweeps,
                       const struct sums *sums) {
    unsigned n = epochs - LEARNT, failed = 0;
    size_t pages = band_rows() * ROW_BYTES / PAGE;
    double epoch = bench_median(ours->epoch + LEARNT, n), epoch_bare = bench_median(bare->epoch + LEARNT, n);
    double first = bench_median(ours->first + LEARNT, n), first_bare = bench_median(bare->first + LEARNT, n);
    double slowdown = epoch / epoch_bare, per_write = (first - first_bare) * 1e6 / (double)pages;
    printf("{\"bench\":\"stencil\",\"variant\":\"%s\",\"region_bytes\":%zu,\"pages_written\":%zu,\"epochs\":%u",
           variant, region, pages, epochs);
    printf(",\"sweeps\":%u,\"slowdown_armed\":%.4f,\"us_per_first_write\":%.3f", sweeps, slowdown, per_write);
    printf(",\"traps_after_second_epoch\":%llu,\"traps\":%llu,\"bytes_held\":%llu,\"bytes_changed\":%llu",
           (unsigned long long)sums->late_traps, (unsigned long long)sums->traps, (unsigned long long)sums->bytes_held,
           (unsigned long long)sums->changed);
    printf(",\"bytes_looked_at\":%llu", (unsigned long long)sums->looked_at);
    printf(",\"epoch_s\":%.4f,\"epoch_bare_s\":%.4f,\"first_sweep_s\":%.5f,\"first_sweep_bare_s\":%.5f", epoch,
           epoch_bare, first, first_bare);
    printf(",\"seconds_blocked\":%.4f,\"bytes_memory\":%llu,\"tracker\":\"%s\",\"capture\":\"%s\"}\n",
           sums->last.seconds_blocked, (unsigned long long)sums->last.bytes_memory, sums->last.tracker,
           sums->last.capture);
    fflush(stdout);
    failed += judge(variant, "traps after the second epoch", (double)sums->late_traps, 0);
    failed += judge(variant, "slowdown of an armed epoch", slowdown, 1 + BOUND_SLOWDOWN * slack);
    failed += judge(variant, "microseconds per first write", per_write, BOUND_FIRST_WRITE * slack);
    return failed;
}

static unsigned run_variant(const char *variant, int is_moving) {
    static struct grid ours, bare;
    struct sums sums = {0};
    bench_check(mkdir(folder, 0700) == 0, folder);
    grid_start(&ours);
    grid_start(&bare);
    unsigned sweeps = sweeps_per_epoch(bare.cells);
    sweeps_per_epoch(ours.cells); /* the same start for both */
    struct varve_session *session = open_session(more_settings);
    check_session(session, varve_protect(session, "grid", ours.cells, region), "protect");
    run_epochs(session, is_moving, &ours, &bare, sweeps, &sums);
    check_session(session, varve_close(session), "close");
    compare(&ours, &bare);
    munmap(ours.cells, region);
    munmap(bare.cells, region);
    bench_remove(folder);
    return report(variant, &ours, &bare, sweeps, &sums);
}

/* ---- the command line ---- */

/* A quarter of the memory and of the time: the share of the first writes stays as it is. */
static void be_short(void) {
    region = 64 * BENCH_MIB;
    epochs = 7;
    seconds = 0.25;
}

static const struct bench_option command_line[] = {
    {"--short", .act = be_short},
    {"--strict", .flag = &is_strict},
    {"--slack", "FACTOR", .real = &slack, .least = 0.001},
    {"--variant", "same|moving", .choice = &only_variant},
    {"--region", "MIB", .size = &region, .least = BENCH_MIB, .step = BENCH_MIB},
    {"--epochs", .number = &epochs, .least = LEARNT + 2, .most = EPOCHS_MAX},
    {"--seconds", "S", .real = &seconds, .least = 0.001},
    {"--settings", "TEXT", .text = &more_settings},
    {"--dir", "FOLDER", .text = &place},
    {0},
};

int main(int argc, char **argv) {
    unsigned failed = 0;
    options_read(command_line, argc, argv);
    snprintf(folder, sizeof folder, "%s/bench-stencil.%ld", place, (long)getpid());
    atexit(remove_folder);
    rows = region / ROW_BYTES;
    if (!only_variant || strcmp(only_variant, "same") == 0)
        failed += run_variant("same", 0);
    if (!only_variant || strcmp(only_variant, "moving") == 0)
        failed += run_variant("moving", 1);
    if (failed)
        fprintf(stderr, "bench-stencil: %u bounds are not kept\n", failed);
    return is_strict && failed;
}
