/* Checkpoints of a running program against files written and read by hand: seconds blocked, seconds until durable,
 * bytes, restart.
 *
 *   bench-field [--json] [--check] [--slack FACTOR] [--keep] [--mode NAME] [--pattern p0|p1] [--size MIB]
 *               [--checkpoints N] [--rounds N] [FOLDER]
 *   mpirun -n RANKS bench-field ...
 *
 * The workload (field.h): 256 MiB of float64 on every rank. Five checkpoints; between two of them a stencil computes
 * and about 10 % of the pages are written anew: in runs of 64 (p0), or single ones here and there (p1). The modes
 * called unique have noise instead, new in every page for every checkpoint: nothing can be saved, so they show what
 * the way through the library costs.
 *
 * Bare is one new file per rank by 1 MiB write() calls and fsync of all the memory, in the same folder, all ranks at
 * the same time, taken by turns with ours; and, for restart, a cold read() of it into fresh memory. Whatever ranks do
 * together is timed from when all are ready until all have done it. "fastest bare" is the best of several ways past
 * the page cache. Ratios are of medians. Bytes are sums over the ranks.
 *
 * Restart means fresh memory and nothing of the store in the page cache, and all bytes are compared afterwards.
 * Alone, every restart and every cold read is a process of its own. Ranks of an MPI job stay the processes they are:
 * each closes its session, gives its memory back, drops the files from the page cache, and opens a new session in new
 * memory; the cold reads are done in the same way.
 *
 * --check fails when a bound is passed: bytes at once, times when three runs of the mode pass it. --slack widens the
 * bounds on times. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "field.h"
#include "field_report.h"
#include "ranks.h"
#include "varve/varve.h"

static const struct field_mode modes[] = {
    {"sync", "codec=auto", 0, 0},
    {"sync-none", "codec=none", 0, 1},
    {"unique", "codec=auto", 1, 1},
    {"unique-none", "codec=none", 1, 1},
};

static char folder[3000] = ".";
static char bare_path[3100]; /* this rank's */
static char store_path[3100];
static const char *only_mode;
static size_t size = 256 * BENCH_MIB;
static unsigned checkpoints = 5;
static unsigned rounds = 5;
static int is_scattered; /* pattern p1 */
static int is_json;
static int is_check;
static double slack = 1; /* bounds on time are this much wider; for machines that others use too */
static int is_kept;      /* leave the store of the last mode, to look at it or to profile --child restart */

static struct field field_of(const struct field_mode *mode) {
    return (struct field){
        .rank = ranks_own(), .is_unique = mode->is_unique, .is_scattered = is_scattered, .size = size};
}

static const char *pattern_name(void) {
    return is_scattered ? "p1" : "p0";
}

static struct varve_session *open_session(const struct field_mode *mode) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error;
    options.settings = mode->settings;
    if (ranks_open(store_path, "field", &options, &session, &error) != 0) {
        fprintf(stderr, "open: %s\n", error.text);
        exit(1);
    }
    return session;
}

static void check_session(const struct varve_session *session, int rc, const char *what) {
    if (rc) {
        fprintf(stderr, "%s: %s\n", what, varve_session_error(session)->text);
        exit(1);
    }
}

/* ---- saving ---- */

static double bare_write(const void *data) {
    unlink(bare_path); /* not what is measured */
    double begin = ranks_start();
    bench_bare_write(bare_path, data, size);
    return ranks_stop(begin);
}

static double fast_write(const void *data, const struct bench_way *way) {
    unlink(bare_path);
    double begin = ranks_start();
    bench_direct_write(bare_path, data, size, way);
    return ranks_stop(begin);
}

/* Of the whole store; while nobody writes. */
static double store_bytes(void) {
    ranks_meet();
    double bytes = ranks_own() == 0 ? (double)bench_bytes(store_path) : 0;
    return ranks_sum(bytes);
}

static void note_bytes(struct field_result *r, const struct varve_stats *stats, unsigned checkpoint, uint64_t changed,
                       double growth) {
    double base = ranks_sum((double)stats->bytes_base), metadata = ranks_sum((double)stats->bytes_metadata);
    r->protected_bytes = ranks_sum((double)stats->bytes_protected);
    if (base > r->base_most)
        r->base_most = base;
    if (checkpoint == 0) {
        memcpy(r->codec, stats->codec, sizeof r->codec);
        r->first_metadata = metadata;
        return;
    }
    if (stats->bytes_changed != changed) {
        fprintf(stderr, "%llu bytes were changed, but the statistics say %llu\n", (unsigned long long)changed,
                (unsigned long long)stats->bytes_changed);
        exit(1);
    }
    r->later_changed += ranks_sum((double)changed);
    r->later_growth += growth;
    r->later_metadata += metadata - base;
    r->later_chunks += ranks_sum((double)stats->chunks_new);
    r->later_runs += ranks_sum((double)stats->runs_changed);
}

static void one_checkpoint(struct varve_session *session, struct field_result *r, unsigned checkpoint,
                           uint64_t changed) {
    struct varve_stats stats = {.size = sizeof stats};
    double before = store_bytes();
    double begin = ranks_start(), cpu = bench_cpu();
    check_session(session, varve_checkpoint(session, checkpoint), "checkpoint");
    double blocked = bench_now() - begin;
    check_session(session, varve_wait(session), "wait");
    double durable = ranks_stop(begin);
    cpu = ranks_sum(bench_cpu() - cpu);
    blocked = ranks_most(blocked);
    check_session(session, varve_stats_get(session, &stats), "stats");
    note_bytes(r, &stats, checkpoint, changed, store_bytes() - before);
    if (checkpoint == 0)
        r->first_durable = durable;
    if (checkpoint > 0 || r->mode->is_unique) {
        field_add(&r->blocked, blocked);
        field_add(&r->durable, durable);
        field_add(&r->cpu, cpu);
    }
}

static void measure_fast_writes(const void *data, struct field_result *r) {
    for (size_t i = 0; i < bench_way_count; i++) {
        double seconds = fast_write(data, &bench_ways[i]);
        if (r->fast_write == 0 || seconds < r->fast_write) {
            r->fast_write = seconds;
            r->fast_write_name = bench_ways[i].name;
        }
    }
}

static void measure_saving(struct field_result *r) {
    struct field field = field_of(r->mode);
    double sum = 0;
    field_init(&field, 1);
    /* Unmeasured: memory the system has not used lately can cost several times as much to get, and that would all
     * fall on the bare way. */
    bare_write(field.memory);
    struct varve_session *session = open_session(r->mode);
    check_session(session, varve_protect(session, "field", field.memory, size), "protect");
    for (unsigned i = 0; i < checkpoints; i++) {
        uint64_t changed = i ? field_advance(&field, i) : 0;
        sum += field_compute();
        if (i % 2)
            one_checkpoint(session, r, i, changed);
        field_add(&r->bare, bare_write(field.memory));
        if (i % 2 == 0)
            one_checkpoint(session, r, i, changed);
    }
    measure_fast_writes(field.memory, r);
    check_session(session, varve_close(session), "close");
    field_clear(&field);
    if (sum < 0)
        puts("");
}

/* ---- restarting and reading ---- */

struct cost {
    double seconds, cpu;
};

static void compare(const struct field_mode *mode, uint8_t *memory) {
    struct field field = field_of(mode);
    if (!field_compare(&field, checkpoints, memory))
        exit(1);
    munmap(memory, size);
}

static struct cost restart(const struct field_mode *mode) {
    struct cost cost;
    int64_t version = -1;
    uint8_t *memory = bench_pages(size);
    double begin = ranks_start(), cpu = bench_cpu();
    struct varve_session *session = open_session(mode);
    check_session(session, varve_protect(session, "field", memory, size), "protect");
    check_session(session, varve_restart(session, VARVE_LATEST, &version), "restart");
    cost.seconds = ranks_stop(begin);
    cost.cpu = ranks_sum(bench_cpu() - cpu);
    if (version != (int64_t)checkpoints - 1) {
        fprintf(stderr, "restart gave version %lld instead of %u\n", (long long)version, checkpoints - 1);
        exit(1);
    }
    check_session(session, varve_close(session), "close");
    compare(mode, memory);
    return cost;
}

/* way: NULL for the bare one */
static struct cost read_back(const struct field_mode *mode, const struct bench_way *way) {
    struct cost cost;
    uint8_t *memory = bench_pages(size);
    double begin = ranks_start(), cpu = bench_cpu();
    if (way)
        bench_direct_read(bare_path, memory, size, way);
    else
        bench_bare_read(bare_path, memory, size);
    cost.seconds = ranks_stop(begin);
    cost.cpu = ranks_sum(bench_cpu() - cpu);
    compare(mode, memory);
    return cost;
}

/* what: "restart", "read", or "readN" for the N-th fast way */
static struct cost bring_back(const struct field_mode *mode, const char *what) {
    if (strcmp(what, "restart") == 0)
        return restart(mode);
    return read_back(mode, what[4] ? &bench_ways[what[4] - '0'] : NULL);
}

static void run_child(const struct field_mode *mode, const char *what, int out) {
    static const char self[] = "/proc/self/exe";
    char mib[32], count[32];
    snprintf(mib, sizeof mib, "%zu", size / BENCH_MIB);
    snprintf(count, sizeof count, "%u", checkpoints);
    dup2(out, STDOUT_FILENO);
    execl(self, self, "--child", what, "--mode", mode->name, "--pattern", pattern_name(), "--size", mib,
          "--checkpoints", count, folder, (char *)NULL);
    _exit(127);
}

static struct cost in_new_process(const struct field_mode *mode, const char *what) {
    struct cost cost = {0, 0};
    int pipes[2], status = 0;
    bench_check(pipe(pipes) == 0, "pipe");
    pid_t pid = fork();
    bench_check(pid >= 0, "fork");
    if (pid == 0) {
        close(pipes[0]);
        run_child(mode, what, pipes[1]);
    }
    close(pipes[1]);
    FILE *answer = fdopen(pipes[0], "r");
    bench_check(answer != NULL, "fdopen");
    int got = fscanf(answer, "%lf %lf", &cost.seconds, &cost.cpu);
    fclose(answer);
    waitpid(pid, &status, 0);
    if (status != 0 || got != 2) {
        fprintf(stderr, "bench-field: the child that shall %s failed\n", what);
        exit(1);
    }
    return cost;
}

/* Every rank drops all files: they may be on several machines, each with its page cache. */
static struct cost bring_back_cold(const struct field_mode *mode, const char *what) {
    ranks_meet();
    bench_cool(bare_path);
    bench_cool(store_path);
    return ranks_all() == 1 ? in_new_process(mode, what) : bring_back(mode, what);
}

static void measure_fast_reads(struct field_result *r) {
    for (size_t i = 0; i < bench_way_count; i++) {
        char what[32];
        snprintf(what, sizeof what, "read%zu", i);
        struct cost cost = bring_back_cold(r->mode, what);
        if (r->fast_read == 0 || cost.seconds < r->fast_read) {
            r->fast_read = cost.seconds;
            r->fast_read_name = bench_ways[i].name;
        }
    }
}

static void measure_restart(struct field_result *r) {
    for (unsigned i = 0; i < rounds * 2; i++) {
        int is_ours = i % 4 == 0 || i % 4 == 3; /* the first of a pair by turns */
        struct cost cost = bring_back_cold(r->mode, is_ours ? "restart" : "read");
        field_add(is_ours ? &r->restart : &r->cold_read, cost.seconds);
        field_add(is_ours ? &r->restart_cpu : &r->cold_cpu, cost.cpu);
    }
    measure_fast_reads(r);
}

/* ---- a mode ---- */

static void make_store(void) {
    if (ranks_own() == 0) {
        bench_remove(store_path);
        bench_check(mkdir(store_path, 0700) == 0, store_path);
    }
    ranks_meet();
}

static void remove_all(void) {
    ranks_meet();
    bench_remove(bare_path);
    if (ranks_own() == 0)
        bench_remove(store_path);
}

static void measure(const struct field_mode *mode, struct field_result *r) {
    *r = (struct field_result){.mode = mode, .ranks = ranks_all(), .pattern = pattern_name()};
    make_store();
    measure_saving(r);
    measure_restart(r);
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
        int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        bench_check(fd >= 0, folder);
        bench_check(flock(fd, LOCK_EX | LOCK_NB) == 0, "another bench-field works in this folder");
    }
    ranks_meet();
}

static int usage(void) {
    fprintf(stderr, "usage: bench-field [--json] [--check] [--slack FACTOR] [--keep] [--mode "
                    "sync|sync-none|unique|unique-none] [--pattern p0|p1]\n"
                    "                   [--size MIB] [--checkpoints 2..64] [--rounds 1..64] [FOLDER]\n");
    return 2;
}

static int parse(int argc, char **argv, const char **child) {
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        int is_pair = 1;
        if (strcmp(argv[i], "--json") == 0)
            is_json = 1, is_pair = 0;
        else if (strcmp(argv[i], "--check") == 0)
            is_check = 1, is_pair = 0;
        else if (strcmp(argv[i], "--keep") == 0)
            is_kept = 1, is_pair = 0;
        else if (strcmp(argv[i], "--mode") == 0)
            only_mode = value;
        else if (strcmp(argv[i], "--pattern") == 0)
            is_scattered = strcmp(value, "p1") == 0;
        else if (strcmp(argv[i], "--size") == 0)
            size = (size_t)strtoul(value, NULL, 10) * BENCH_MIB;
        else if (strcmp(argv[i], "--checkpoints") == 0)
            checkpoints = (unsigned)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--rounds") == 0)
            rounds = (unsigned)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--slack") == 0)
            slack = strtod(value, NULL);
        else if (strcmp(argv[i], "--child") == 0)
            *child = value;
        else if (argv[i][0] != '-' && strlen(argv[i]) < sizeof folder)
            strcpy(folder, argv[i]), is_pair = 0;
        else
            return -1;
        i += is_pair;
    }
    return size == 0 || checkpoints < 2 || checkpoints > FIELD_LIST_MAX || rounds < 1 || rounds > FIELD_LIST_MAX ? -1
                                                                                                                 : 0;
}

static void name_paths(void) {
    snprintf(store_path, sizeof store_path, "%s/bench-field.store", folder);
    if (ranks_all() == 1)
        snprintf(bare_path, sizeof bare_path, "%s/bench-field.bare", folder);
    else
        snprintf(bare_path, sizeof bare_path, "%s/bench-field.bare.%u", folder, ranks_own());
}

int main(int argc, char **argv) {
    const char *child = NULL;
    int failed = 0, found = 0;
    if (parse(argc, argv, &child) != 0)
        return usage();
    if (!child)
        ranks_begin(&argc, &argv); /* a child is alone, whatever its parent was started by */
    name_paths();
    if (!child)
        lock_folder();
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (only_mode && strcmp(only_mode, modes[i].name) != 0)
            continue;
        found = 1;
        if (child) {
            struct cost cost = bring_back(&modes[i], child);
            printf("%.9f %.6f\n", cost.seconds, cost.cpu);
            return 0;
        }
        failed |= run_mode(&modes[i]);
    }
    ranks_end();
    return found ? failed : usage();
}
