/* What a checkpoint costs a program that writes all its memory all the time, while the storage is slow and the buffer
 * small.
 *
 *   bench-adaptive [--short] [--strict] [--pattern LIST] [--mode LIST] [--r LIST] [--storage LIST] [--region SIZE]
 *                  [--staging SIZE] [--iterations N] [--every N] [--sync-once] [--flags 0|2] [--settings TEXT]
 *                  [--dir FOLDER] [--json-out FILE (lines are added)]
 *
 * The program (adaptive.h): 256 MiB, 39 iterations that each touch every byte of every page, ascending, in a fixed
 * random order or descending, and a checkpoint after every tenth. The buffer is 16 MiB. The storage is a folder in
 * memory, held to 55 MB/s and 1 GB/s. F are the seconds it needs for the region, I those of one iteration: a fixed
 * count of arithmetic per page, found once at the start, makes I about r F.
 *
 * The modes: sync stores everything inside the call. no-pattern write-protects all memory, copies pages on their first
 * write while there is room in the buffer, and stores by address. paper does the same and stores in the order of the
 * writes that it has learned. varve is what a session does by default.
 *
 * The overhead of a checkpoint is the call and the iterations until it is durable, minus as many iterations as the
 * program takes when nothing is in flight: the median of these in the same run. All figures are means of the
 * checkpoints of a run, the first included, when nothing has been learned yet. Every case is a process of its own, and
 * so is a run without us, which tells the memory and the time the program takes by itself; run_overhead_over_sync
 * compares with that one, and so counts also what is lost while nothing is in flight. Afterwards every checkpoint is
 * restored and compared with what the program had at the call.
 *
 * Lists are separated by commas; the storage is in MB/s (10^6). A ratio needs a synchronous run: there is one for each
 * pattern, r and storage, or with --sync-once one for each storage, as neither of the other two matters to it. Verdicts
 * go to stderr; with --strict a bound that is not kept is a failure. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adaptive.h"
#include "adaptive_report.h"
#include "bench.h"
#include "options.h"

#define WITHOUT_ITERATIONS 4

enum { SYNC, NO_PATTERN, MODES = 4 };
static const struct adaptive_mode modes[MODES] = {
    {"sync", "capture=sync", 0},
    {"no-pattern", "capture=trap,order=address", VARVE_NO_KERNEL_WRITES},
    {"paper", "capture=trap", VARVE_NO_KERNEL_WRITES},
    {"varve", "capture=auto", 0},
};
static const struct adaptive_mode without_us = {"without", NULL, 0};

static const char *only_patterns = "ascending,random,descending", *only_modes = "sync,no-pattern,paper,varve";
static const char *flags = "-1", *place = "/dev/shm";
static struct numbers ratios = {{0.5, 1, 2}, 3};
static struct numbers storages = {{55, 1000}, 2};
static struct adaptive_case common = {
    .region = 256 * BENCH_MIB, .staging = 16 * BENCH_MIB, .iterations = 39, .every = 10, .settings = ""};
static int is_strict, is_sync_once;
static char folder[3000], store[3100];
static FILE *json_file;
static struct adaptive_speed speeds[ADAPTIVE_PATTERNS];
static volatile sig_atomic_t is_stopped;

/* ---- processes ---- */

static void stop(int signal) {
    (void)signal;
    is_stopped = 1;
}

static void fail(const char *what) {
    fprintf(stderr, "bench-adaptive: %s\n", what);
    bench_remove(folder);
    exit(1);
}

/* What a process does that writes `size` bytes of answer. Nothing of us is open and no thread runs when it is made, and
 * our own memory is small: its peak is its own. */
typedef void (*child_fn)(const struct adaptive_case *c, void *answer);

static void child(child_fn fn, const struct adaptive_case *c, void *answer, size_t size, int out, unsigned seconds) {
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(seconds); /* a run that hangs is a failure, not a long night */
    fn(c, answer);
    for (size_t at = 0; at < size;) {
        ssize_t done = write(out, (char *)answer + at, size - at);
        bench_check(done > 0, "pipe");
        at += (size_t)done;
    }
    _exit(0);
}

static int read_answer(int in, void *answer, size_t size) {
    size_t at = 0;
    while (at < size) {
        ssize_t done = read(in, (char *)answer + at, size - at);
        if (done < 0 && errno == EINTR && !is_stopped)
            continue;
        if (done <= 0)
            break;
        at += (size_t)done;
    }
    return at == size;
}

static void in_new_process(child_fn fn, const struct adaptive_case *c, void *answer, size_t size, unsigned seconds) {
    int pipes[2], status = 0;
    fflush(NULL);
    bench_check(pipe(pipes) == 0, "pipe");
    pid_t pid = fork();
    bench_check(pid >= 0, "fork");
    if (pid == 0) {
        close(pipes[0]);
        child(fn, c, answer, size, pipes[1], seconds);
    }
    close(pipes[1]);
    int is_whole = read_answer(pipes[0], answer, size);
    close(pipes[0]);
    if (is_stopped)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (is_stopped)
        fail("stopped");
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        fail("a run took far longer than it can");
    if (status != 0 || !is_whole)
        fail("a run failed");
}

static void measure_child(const struct adaptive_case *c, void *answer) {
    adaptive_measure(c->region, c->pattern, answer);
}

static void run_child(const struct adaptive_case *c, void *answer) {
    adaptive_run(c, answer);
}

/* ---- cases ---- */

static void measure_speeds(void) {
    for (int i = 0; i < ADAPTIVE_PATTERNS; i++) {
        struct adaptive_case c = common;
        c.pattern = (enum adaptive_pattern)i;
        if (options_has(only_patterns, adaptive_patterns[i]))
            in_new_process(measure_child, &c, &speeds[i], sizeof speeds[i], 600);
    }
}

static uint64_t work_of(const struct adaptive_case *c) {
    double seconds = c->r * (double)c->region / c->storage - speeds[c->pattern].touch;
    if (seconds < 0)
        fprintf(stderr, "note the memory alone takes longer than r F: r is more than %g here\n", c->r);
    return seconds > 0 && speeds[c->pattern].unit > 0 ? (uint64_t)(seconds / speeds[c->pattern].unit) : 0;
}

static void run_case(struct adaptive_case *c, const struct adaptive_mode *mode, struct adaptive_result *result) {
    double storing = (double)c->region / c->storage, iteration = c->r * storing + speeds[c->pattern].touch;
    unsigned checkpoints = c->iterations / c->every;
    double seconds = c->iterations * iteration + checkpoints * storing;
    c->mode = mode;
    bench_remove(store);
    bench_check(mkdir(store, 0700) == 0, store);
    in_new_process(run_child, c, result, sizeof *result, (unsigned)(120 + 5 * seconds));
    bench_remove(store);
}

static void run_without(const struct adaptive_case *like, struct adaptive_result *result) {
    struct adaptive_case c = *like;
    if (c.iterations > WITHOUT_ITERATIONS)
        c.iterations = WITHOUT_ITERATIONS;
    run_case(&c, &without_us, result);
}

static unsigned report(const struct adaptive_line *line) {
    adaptive_json(stdout, line);
    if (json_file)
        adaptive_json(json_file, line);
    return adaptive_judge(line);
}

/* All modes of one pattern, r and storage. sync: what is known of it, 0 if nothing; filled. */
static unsigned run_modes(struct adaptive_case *c, double *sync, char *sync_from, size_t capacity) {
    struct adaptive_result without, result;
    struct adaptive_line line = {.c = c, .result = &result, .without = &without, .no_pattern_wait = -1};
    unsigned failed = 0;
    c->work = work_of(c);
    run_without(c, &without);
    for (int i = 0; i < MODES; i++) {
        if (i == SYNC ? *sync > 0 : !options_has(only_modes, modes[i].name))
            continue;
        run_case(c, &modes[i], &result);
        if (i == SYNC) {
            *sync = adaptive_mean_overhead(&line);
            snprintf(sync_from, capacity, "%s, r = %g", adaptive_patterns[c->pattern], c->r);
        }
        line.sync = *sync;
        snprintf(line.sync_from, sizeof line.sync_from, "%s", sync_from);
        if (i == NO_PATTERN)
            line.no_pattern_wait = adaptive_wait_pages(&result);
        failed += report(&line);
    }
    return failed;
}

static unsigned run_storage(double storage) {
    char sync_from[64] = "";
    double sync = 0;
    unsigned failed = 0;
    for (size_t i = 0; i < ratios.count; i++)
        for (int p = 0; p < ADAPTIVE_PATTERNS; p++) {
            struct adaptive_case c = common;
            c.storage = storage;
            c.r = ratios.value[i];
            c.pattern = (enum adaptive_pattern)p;
            if (!options_has(only_patterns, adaptive_patterns[p]))
                continue;
            if (!is_sync_once)
                sync = 0;
            failed += run_modes(&c, &sync, sync_from, sizeof sync_from);
        }
    return failed;
}

/* ---- the command line ---- */

static void be_short(void) {
    is_sync_once = 1;
    common.region = 16 * BENCH_MIB;
    common.staging = BENCH_MIB;
    common.iterations = 13;
    common.every = 3;
    ratios = (struct numbers){{1}, 1};
    storages = (struct numbers){{55}, 1};
}

static int open_json(const char *path) {
    json_file = fopen(path, "ae");
    return json_file ? 0 : -1;
}

static const struct bench_option command_line[] = {
    {"--short", .act = be_short},
    {"--strict", .flag = &is_strict},
    {"--pattern", "ascending,random,descending", .list = &only_patterns},
    {"--mode", "sync,no-pattern,paper,varve", .list = &only_modes},
    {"--r", "0.5,1,2", .numbers = &ratios, .least = 1e-6},
    {"--storage", "55,1000 (MB/s)", .numbers = &storages, .least = 1e-6},
    {"--region", "256M", .bytes = &common.region, .least = ADAPTIVE_PAGE * 16, .step = ADAPTIVE_PAGE},
    {"--staging", "16M", .bytes = &common.staging},
    {"--iterations", .number = &common.iterations, .least = 1, .most = ADAPTIVE_ITERATIONS_MAX / 2},
    {"--every", .number = &common.every, .least = 1, .most = ADAPTIVE_ITERATIONS_MAX / 2},
    {"--sync-once", .flag = &is_sync_once},
    {"--flags", "0|2", .choice = &flags},
    {"--settings", "TEXT", .text = &common.settings},
    {"--dir", "FOLDER", .text = &place},
    {"--json-out", "FILE", .take = open_json},
    {0},
};

int main(int argc, char **argv) {
    struct sigaction action = {.sa_handler = stop};
    unsigned failed = 0;
    options_read(command_line, argc, argv);
    options_demand(command_line,
                   common.iterations >= common.every && common.iterations / common.every <= ADAPTIVE_CHECKPOINTS_MAX,
                   "--iterations and --every make no checkpoint, or too many");
    common.flags = atoi(flags);
    snprintf(folder, sizeof folder, "%s/bench-adaptive.%ld", place, (long)getpid());
    snprintf(store, sizeof store, "%s/store", folder);
    common.store = store;
    bench_check(mkdir(folder, 0700) == 0, folder);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    measure_speeds();
    for (size_t i = 0; i < storages.count; i++)
        failed += run_storage(storages.value[i] * 1e6);
    bench_remove(folder);
    if (failed)
        fprintf(stderr, "bench-adaptive: %u bounds are not kept\n", failed);
    return is_strict && failed;
}
