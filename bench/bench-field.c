/* Checkpoints of a running program against files written and read by hand: seconds blocked, seconds of run time lost,
 * seconds until durable, bytes, restart.
 *
 *   bench-field [--json] [--check] [--slack FACTOR] [--keep] [--mode NAME,...] [--pattern p0|p1] [--size MIB]
 *               [--checkpoints N] [--rounds N] [--iterations N] [--settings TEXT]
 *               [--mpi-threads single|funneled|serialized|multiple] [FOLDER]
 *   mpirun -n RANKS bench-field ...
 *
 * The workload (field.h): 256 MiB of float64 on every rank. Five checkpoints; between two of them a stencil computes
 * and about 10 % of the pages are written anew: in runs of 64 (p0), or single ones here and there (p1). The modes
 * called unique have noise instead, new in every page for every checkpoint: nothing can be saved, so they show what
 * the way through the library costs.
 *
 * The modes called train have 300 regions of such noise, as tensors: all of it, or half, is the same on all ranks. They
 * run only if they are asked for, and bare is the file of one replica.
 *
 * In the modes called async, with the library's defaults, the program runs on beside its checkpoints and writes its
 * memory meanwhile: field_async.c says what is timed. In the others it waits for each of them, and they are stored
 * inside the call.
 *
 * Half of the memory is the same on all ranks. The floor is what has to be stored when nothing is stored by two ranks:
 * what is the same once, the rest of every rank; the mode async-exact is held to it.
 *
 * Bare is one new file per rank by 1 MiB write() calls and fsync of all the memory, in the same folder, all ranks at
 * the same time, taken by turns with ours; and, for restart, a cold read() of it into fresh memory. Whatever ranks do
 * together is timed from when all are ready until all have done it. "fastest bare" is the best of several ways past
 * the page cache. Ratios are of medians. Bytes are sums over the ranks.
 * Every checkpoint is kept (keep=all), so old data is never stored again to bound space: bench-space counts that.
 *
 * Restart means fresh memory and nothing of the store in the page cache, and all bytes are compared afterwards.
 * Alone, every restart and every cold read is a process of its own. Ranks of an MPI job stay the processes they are:
 * each closes its session, gives its memory back, drops the files from the page cache, and opens a new session in new
 * memory; the cold reads are done in the same way.
 *
 * --check fails when a bound is passed: bytes at once, times when three runs of the mode pass it. --slack widens the
 * bounds on times. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "bench.h"
#include "field_run.h"
#include "options.h"
#include "ranks.h"

static const struct field_mode modes[] = {
    {"sync", "codec=auto,capture=sync", 0, 0, 0, 0, 0, 0},
    {"sync-none", "codec=none,capture=sync", 0, 1, 0, 0, 0, 0},
    {"unique", "codec=auto,capture=sync", 1, 1, 0, 0, 0, 0},
    {"unique-none", "codec=none,capture=sync", 1, 1, 0, 0, 0, 0},
    {"async", "", 0, 0, 1, 0, 0, 0},
    {"async-unique", "", 1, 1, 1, 0, 0, 0},
    {"async-exact", "codec=none,dedup=exact", 0, 1, 1, 1, 0, 0},
    {"train", "codec=none,dedup=exact", 1, 1, 1, 1, 2, 300},
    {"train-half", "codec=none,dedup=exact", 1, 1, 1, 1, 1, 300},
};

static struct field_setup setup = {
    .folder = ".", .size = 256 * BENCH_MIB, .checkpoints = 5, .rounds = 5, .iterations = 64, .settings = ""};
static const char *only_mode, *pattern = "p0";
static const char *child; /* what a process of our own shall bring back */
static int is_json;
static int is_check;
static double slack = 1; /* bounds on time are this much wider; for machines that others use too */
static int is_kept;      /* leave the store of the last mode, to look at it or to profile --child restart */

/* ---- a mode ---- */

static void make_store(void) {
    if (ranks_own() == 0) {
        bench_remove(setup.store_path);
        bench_check(mkdir(setup.store_path, 0700) == 0, setup.store_path);
    }
    ranks_meet();
}

static void remove_all(void) {
    ranks_meet();
    bench_remove(setup.bare_path);
    if (ranks_own() == 0)
        bench_remove(setup.store_path);
}

static void measure(const struct field_mode *mode, struct field_result *r) {
    *r = (struct field_result){.mode = mode, .ranks = ranks_all(), .pattern = field_pattern(&setup)};
    make_store();
    (mode->is_async ? field_measure_async : field_measure_saving)(&setup, r);
    field_measure_restart(&setup, r);
    r->peak = ranks_most((double)bench_peak());
    if (!is_kept)
        remove_all();
}

/* All ranks know the same figures, so they come to the same end; one of them says it. */
static int run_mode(const struct field_mode *mode) {
    struct field_result result;
    int is_quiet = ranks_own() != 0, failed = 0;
    for (int tries = 0; tries < (is_check ? 3 : 1); tries++) {
        measure(mode, &result);
        if (!is_quiet)
            (is_json ? field_print_json : field_print_people)(&result);
        if (!is_check)
            return 0;
        if (field_bytes_over(&result, is_quiet))
            return 1;
        failed = field_times_over(&result, slack, is_quiet);
        if (!failed)
            return 0;
    }
    return failed;
}

/* ---- the command line ---- */

/* Two of us in one folder would remove each other's files. Held until the program ends. */
static void lock_folder(void) {
    if (ranks_own() == 0) {
        int fd = open(setup.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        bench_check(fd >= 0, setup.folder);
        bench_check(flock(fd, LOCK_EX | LOCK_NB) == 0, "another bench-field works in this folder");
    }
    ranks_meet();
}

static const struct bench_option command_line[] = {
    {"--json", .flag = &is_json},
    {"--check", .flag = &is_check},
    {"--slack", "FACTOR", .real = &slack},
    {"--keep", .flag = &is_kept},
    {"--mode", "sync,sync-none,unique,unique-none,async,async-unique,async-exact,train,train-half", .list = &only_mode},
    {"--pattern", "p0|p1", .choice = &pattern},
    {"--mpi-threads", "single|funneled|serialized|multiple", .take = ranks_ask_threads},
    {"--size", "MIB", .size = &setup.size, .least = BENCH_MIB, .step = BENCH_MIB},
    {"--checkpoints", .number = &setup.checkpoints, .least = 2, .most = FIELD_ROUNDS_MAX},
    {"--rounds", .number = &setup.rounds, .least = 1, .most = FIELD_ROUNDS_MAX},
    {"--iterations", .number = &setup.iterations, .least = 1},
    {"--settings", "TEXT", .text = &setup.settings},
    {"--child", .text = &child},
    {"FOLDER", .text = &setup.folder},
    {0},
};

static void name_paths(void) {
    snprintf(setup.store_path, sizeof setup.store_path, "%s/bench-field.store", setup.folder);
    if (ranks_all() == 1)
        snprintf(setup.bare_path, sizeof setup.bare_path, "%s/bench-field.bare", setup.folder);
    else
        snprintf(setup.bare_path, sizeof setup.bare_path, "%s/bench-field.bare.%u", setup.folder, ranks_own());
}

int main(int argc, char **argv) {
    int failed = 0;
    options_read(command_line, argc, argv);
    options_demand(command_line, !only_mode || *only_mode, "--mode names none");
    setup.is_scattered = strcmp(pattern, "p1") == 0;
    if (!child)
        ranks_begin(&argc, &argv); /* a child is alone, whatever its parent was started by */
    name_paths();
    if (!child)
        lock_folder();
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (only_mode ? !options_has(only_mode, modes[i].name) : modes[i].regions > 0)
            continue;
        if (child) {
            struct field_cost cost = field_bring_back(&setup, &modes[i], child);
            return fwrite(&cost, sizeof cost, 1, stdout) != 1; /* for the parent */
        }
        failed |= run_mode(&modes[i]);
    }
    ranks_end();
    return failed;
}
