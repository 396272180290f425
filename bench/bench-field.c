/* Checkpoints of a running program against one file written and read by hand: seconds blocked, seconds until durable, bytes, restart.
 *
 *   bench-field [--json] [--check] [--slack FACTOR] [--keep] [--mode NAME] [--pattern p0|p1] [--size MIB]
 *               [--checkpoints N] [--rounds N] [FOLDER]
 *
 * The workload: 256 MiB of float64, a smooth wave in every page of 4 KiB. Even pages would be the same on all ranks of a job, odd ones
 * are the rank's own. Five checkpoints; between two of them a stencil computes and about 10 % of the pages are written anew: in runs of 64 (p0), or
 * single ones here and there (p1). The modes called unique have noise instead, new in every page for every checkpoint:
 * nothing can be saved, so they show what the way through the library costs.
 *
 * Bare is one new file by 1 MiB write() calls and fsync of all the memory, in the same folder, taken by turns with ours; and,
 * for restart, a cold read() of it into fresh memory. Every restart is a process of its own, and compares all bytes afterwards.
 * "fastest bare" is the best of several ways past the page cache. Ratios are of medians.
 *
 * --check fails when a bound is passed: bytes at once, times when three runs of the mode pass it. --slack widens the bounds on
 * times. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "varve/varve.h"

#define PAGE 4096u
#define DOUBLES (PAGE / sizeof(double))
#define RUN_PAGES 64u
#define LIST_MAX 64
#define STENCIL (1u << 19)

#define BOUND_DURABLE 1.25   /* of bare, unique data */
#define BOUND_RESTART 1.3    /* of a cold read */
#define BOUND_LATER 1.05     /* of the changed chunks' bytes, codec none */
#define BOUND_METADATA 0.005 /* of protected bytes: the first checkpoint's, and any manifest written as a whole again */
#define BOUND_CHUNK 17.0     /* metadata bytes per new chunk of a later checkpoint */
#define BOUND_RUN 64.0       /* and per changed run */

struct mode {
    const char *name;
    const char *settings;
    int is_unique;
    int is_plain; /* stored as it is: bytes can be compared with the floor */
};

static const struct mode modes[] = {
    {"sync", "codec=auto", 0, 0},
    {"sync-none", "codec=none", 0, 1},
    {"unique", "codec=auto", 1, 1},
    {"unique-none", "codec=none", 1, 1},
};

static char folder[3000] = ".";
static char bare_path[3100];
static char store_path[3100];
static const char *self;
static const char *only_mode;
static size_t size = 256 * BENCH_MIB;
static unsigned checkpoints = 5;
static unsigned rounds = 5;
static int is_scattered; /* pattern p1 */
static int is_json;
static int is_check;
static double slack = 1; /* bounds on time are this much wider; for machines that others use too */
static int is_kept;      /* leave the store of the last mode, to look at it or to profile --child restart */

/* ---- the memory of one rank ---- */

struct field {
    unsigned rank;
    int is_unique;
    size_t pages;
    uint8_t *memory;
    uint32_t *age; /* per page: the checkpoint before which it was last written */
};

static void field_page(const struct field *field, size_t page, uint8_t *out) {
    uint64_t owner = page % 2 && !field->is_unique ? field->rank + 1 : 0;
    uint64_t state = (uint64_t)page << 32 ^ (uint64_t)field->age[page] << 8 ^ owner;
    if (field->is_unique) {
        state ^= (uint64_t)field->rank << 56;
        uint64_t words[PAGE / 8];
        for (size_t i = 0; i < PAGE / 8; i++)
            words[i] = bench_random(&state);
        memcpy(out, words, PAGE);
        return;
    }
    /* sin(phase + i * step) by turning a pair; a page is too short for the error to matter. */
    double phase = (double)(bench_random(&state) >> 11) * 0x1p-53 * 6.28;
    double step = 0.001 + (double)(bench_random(&state) >> 11) * 0x1p-53 * 0.01;
    double s = sin(phase), c = cos(phase), turn_s = sin(step), turn_c = cos(step);
    double values[DOUBLES];
    for (size_t i = 0; i < DOUBLES; i++) {
        values[i] = s;
        double next = s * turn_c + c * turn_s;
        c = c * turn_c - s * turn_s;
        s = next;
    }
    memcpy(out, values, PAGE);
}

static void field_init(struct field *field, unsigned rank, int is_unique, int has_memory) {
    *field = (struct field){.rank = rank, .is_unique = is_unique, .pages = size / PAGE};
    field->age = calloc(field->pages, sizeof *field->age);
    bench_check(field->age != NULL, "memory");
    if (!has_memory)
        return;
    field->memory = bench_pages(size);
    for (size_t i = 0; i < field->pages; i++)
        field_page(field, i, field->memory + i * PAGE);
}

static void field_clear(struct field *field) {
    free(field->age);
    if (field->memory)
        munmap(field->memory, size);
}

static int is_rewritten(const struct field *field, size_t page, unsigned checkpoint) {
    uint64_t state = (is_scattered ? page : page / RUN_PAGES) << 16 ^ checkpoint;
    return field->is_unique || bench_random(&state) % 10 == 0;
}

/* What the program writes before a checkpoint that is not the first. */
static uint64_t field_advance(struct field *field, unsigned checkpoint) {
    uint64_t changed = 0;
    for (size_t i = 0; i < field->pages; i++) {
        if (!is_rewritten(field, i, checkpoint))
            continue;
        field->age[i] = checkpoint;
        if (field->memory)
            field_page(field, i, field->memory + i * PAGE);
        changed += PAGE;
    }
    return changed;
}

/* The computing between checkpoints, on memory of its own. */
static double compute(void) {
    static double *grid, *next;
    if (!grid) {
        grid = calloc(STENCIL, sizeof *grid);
        next = calloc(STENCIL, sizeof *next);
        bench_check(grid && next, "memory");
        grid[STENCIL / 2] = 1;
    }
    for (int sweep = 0; sweep < 8; sweep++) {
        for (size_t i = 1; i + 1 < STENCIL; i++)
            next[i] = 0.25 * grid[i - 1] + 0.5 * grid[i] + 0.25 * grid[i + 1];
        double *swap = grid;
        grid = next;
        next = swap;
    }
    return grid[STENCIL / 2];
}

/* ---- what was measured ---- */

struct list {
    double values[LIST_MAX];
    size_t count;
};

static void add(struct list *list, double value) {
    if (list->count < LIST_MAX)
        list->values[list->count++] = value;
}

static double median(const struct list *list) {
    return bench_median(list->values, list->count);
}

struct result {
    struct list bare, blocked, durable, cpu; /* of checkpoints that count: later ones, or all when unique */
    double first_durable;
    double fast_write, fast_read;
    const char *fast_write_name, *fast_read_name;
    struct list restart, cold_read, restart_cpu, cold_cpu;
    char codec[16];
    double protected_bytes;
    double first_metadata;
    double later_changed, later_growth;              /* sums over later checkpoints; growth is of the whole store */
    double later_metadata, later_chunks, later_runs; /* rewritten bases apart */
    double base_most;
};

static double over(double a, double b) {
    return b > 0 ? a / b : 0;
}

/* Metadata of later checkpoints against what it may be; 1 is the bound. */
static double later_metadata_share(const struct result *r) {
    return over(r->later_metadata, BOUND_CHUNK * r->later_chunks + BOUND_RUN * r->later_runs);
}

/* ---- children: restart and read in a fresh process ---- */

static int open_session(const struct mode *mode, struct varve_session **out) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_error error;
    options.settings = mode->settings;
    int rc = varve_open(store_path, "field", &options, out, &error);
    if (rc)
        fprintf(stderr, "open: %s\n", error.text);
    return rc;
}

static void check_session(const struct varve_session *session, int rc, const char *what) {
    if (rc) {
        fprintf(stderr, "%s: %s\n", what, varve_session_error(session)->text);
        exit(1);
    }
}

static int compare_memory(const struct mode *mode, const uint8_t *memory) {
    struct field field;
    uint8_t page[PAGE];
    field_init(&field, 0, mode->is_unique, 0);
    for (unsigned i = 1; i < checkpoints; i++)
        field_advance(&field, i);
    for (size_t i = 0; i < field.pages; i++) {
        field_page(&field, i, page);
        if (memcmp(page, memory + i * PAGE, PAGE) != 0) {
            fprintf(stderr, "page %zu is not what was saved\n", i);
            return 1;
        }
    }
    field_clear(&field);
    return 0;
}

static int child_restart(const struct mode *mode) {
    struct varve_session *session;
    int64_t version = -1;
    uint8_t *memory = bench_pages(size);
    double cpu = bench_cpu(), begin = bench_now();
    if (open_session(mode, &session))
        return 1;
    check_session(session, varve_protect(session, "field", memory, size), "protect");
    check_session(session, varve_restart(session, VARVE_LATEST, &version), "restart");
    double seconds = bench_now() - begin;
    printf("%.9f %.6f\n", seconds, bench_cpu() - cpu);
    check_session(session, version == (int64_t)checkpoints - 1 ? 0 : -EINVAL, "version");
    varve_close(session);
    return compare_memory(mode, memory);
}

/* way: -1 for the bare one */
static int child_read(const struct mode *mode, int way) {
    uint8_t *memory = bench_pages(size);
    double cpu = bench_cpu();
    double seconds = way < 0 ? bench_bare_read(bare_path, memory, size)
                             : bench_direct_read(bare_path, memory, size, &bench_ways[way]);
    printf("%.9f %.6f\n", seconds, bench_cpu() - cpu);
    return compare_memory(mode, memory);
}

/* Seconds; processor seconds to cpu_list, if any. */
static double run_child(const struct mode *mode, const char *what, struct list *cpu_list) {
    char command[2][32], line[64] = "";
    int pipes[2];
    snprintf(command[0], sizeof command[0], "%zu", size / BENCH_MIB);
    snprintf(command[1], sizeof command[1], "%u", checkpoints);
    bench_check(pipe(pipes) == 0, "pipe");
    pid_t pid = fork();
    bench_check(pid >= 0, "fork");
    if (pid == 0) {
        dup2(pipes[1], STDOUT_FILENO);
        close(pipes[0]);
        close(pipes[1]);
        execl(self, self, "--child", what, "--mode", mode->name, "--pattern", is_scattered ? "p1" : "p0", "--size",
              command[0], "--checkpoints", command[1], folder, (char *)NULL);
        _exit(127);
    }
    close(pipes[1]);
    size_t fill = 0;
    ssize_t got;
    while (fill < sizeof line - 1 && (got = read(pipes[0], line + fill, sizeof line - 1 - fill)) > 0)
        fill += (size_t)got;
    close(pipes[0]);
    int status = 0;
    waitpid(pid, &status, 0);
    if (status != 0) {
        fprintf(stderr, "bench-field: the child that shall %s failed\n", what);
        exit(1);
    }
    char *end;
    double seconds = strtod(line, &end);
    if (cpu_list)
        add(cpu_list, strtod(end, NULL));
    return seconds;
}

/* ---- a mode ---- */

static void note_bytes(struct result *r, const struct varve_stats *stats, unsigned checkpoint, uint64_t changed,
                       uint64_t growth) {
    r->protected_bytes = (double)stats->bytes_protected;
    if ((double)stats->bytes_base > r->base_most)
        r->base_most = (double)stats->bytes_base;
    if (checkpoint == 0) {
        memcpy(r->codec, stats->codec, sizeof r->codec);
        r->first_metadata = (double)stats->bytes_metadata;
        return;
    }
    if (stats->bytes_changed != changed) {
        fprintf(stderr, "%llu bytes were changed, but the statistics say %llu\n", (unsigned long long)changed,
                (unsigned long long)stats->bytes_changed);
        exit(1);
    }
    r->later_changed += (double)changed;
    r->later_growth += (double)growth;
    r->later_metadata += (double)(stats->bytes_metadata - stats->bytes_base);
    r->later_chunks += (double)stats->chunks_new;
    r->later_runs += (double)stats->runs_changed;
}

static void one_checkpoint(struct varve_session *session, const struct mode *mode, struct result *r,
                           unsigned checkpoint, uint64_t changed) {
    struct varve_stats stats = {.size = sizeof stats};
    uint64_t before = bench_bytes(store_path);
    double cpu = bench_cpu(), begin = bench_now();
    check_session(session, varve_checkpoint(session, checkpoint), "checkpoint");
    double blocked = bench_now() - begin;
    check_session(session, varve_wait(session), "wait");
    double durable = bench_now() - begin;
    cpu = bench_cpu() - cpu;
    check_session(session, varve_stats_get(session, &stats), "stats");
    note_bytes(r, &stats, checkpoint, changed, bench_bytes(store_path) - before);
    if (checkpoint == 0)
        r->first_durable = durable;
    if (checkpoint > 0 || mode->is_unique) {
        add(&r->blocked, blocked);
        add(&r->durable, durable);
        add(&r->cpu, cpu);
    }
}

static void measure_saving(const struct mode *mode, struct result *r) {
    struct field field;
    struct varve_session *session;
    double sum = 0;
    field_init(&field, 0, mode->is_unique, 1);
    /* Unmeasured: memory the system has not used lately can cost several times as much to get, and that would all fall on the bare way. */
    bench_bare_write(bare_path, field.memory, size);
    if (open_session(mode, &session))
        exit(1);
    check_session(session, varve_protect(session, "field", field.memory, size), "protect");
    for (unsigned i = 0; i < checkpoints; i++) {
        uint64_t changed = i ? field_advance(&field, i) : 0;
        sum += compute();
        if (i % 2)
            one_checkpoint(session, mode, r, i, changed);
        add(&r->bare, bench_bare_write(bare_path, field.memory, size));
        if (i % 2 == 0)
            one_checkpoint(session, mode, r, i, changed);
    }
    for (size_t i = 0; i < bench_way_count; i++) {
        double seconds = bench_direct_write(bare_path, field.memory, size, &bench_ways[i]);
        if (r->fast_write == 0 || seconds < r->fast_write) {
            r->fast_write = seconds;
            r->fast_write_name = bench_ways[i].name;
        }
    }
    check_session(session, varve_close(session), "close");
    field_clear(&field);
    if (sum < 0)
        puts("");
}

static void measure_restart(const struct mode *mode, struct result *r) {
    for (unsigned i = 0; i < rounds; i++) {
        bench_cool(store_path);
        bench_cool(bare_path);
        if (i % 2)
            add(&r->restart, run_child(mode, "restart", &r->restart_cpu));
        add(&r->cold_read, run_child(mode, "read", &r->cold_cpu));
        if (i % 2 == 0)
            add(&r->restart, run_child(mode, "restart", &r->restart_cpu));
    }
    for (size_t i = 0; i < bench_way_count; i++) {
        char what[32];
        snprintf(what, sizeof what, "read%zu", i);
        bench_cool(bare_path);
        double seconds = run_child(mode, what, NULL);
        if (r->fast_read == 0 || seconds < r->fast_read) {
            r->fast_read = seconds;
            r->fast_read_name = bench_ways[i].name;
        }
    }
}

static void measure(const struct mode *mode, struct result *r) {
    memset(r, 0, sizeof *r);
    bench_remove(store_path);
    bench_check(mkdir(store_path, 0700) == 0, store_path);
    measure_saving(mode, r);
    measure_restart(mode, r);
    if (is_kept)
        return;
    bench_remove(store_path);
    bench_remove(bare_path);
}

/* ---- saying it ---- */

static void print_json(const struct mode *mode, const struct result *r) {
    double bare = median(&r->bare), cold = median(&r->cold_read);
    printf("{\"bench\":\"field\",\"mode\":\"%s\",\"ranks\":1,\"pattern\":\"%s\",\"codec\":\"%s\",\"bytes\":%.0f",
           mode->name, is_scattered ? "p1" : "p0", r->codec, r->protected_bytes);
    printf(",\"blocking_over_bare\":%.4f,\"durable_over_bare\":%.4f", over(median(&r->blocked), bare),
           over(median(&r->durable), bare));
    printf(",\"later_bytes_over_floor\":%.4f,\"restart_over_cold_read\":%.4f,\"metadata_over_raw\":%.6f",
           over(r->later_growth, r->later_changed), over(median(&r->restart), cold),
           over(r->first_metadata, r->protected_bytes));
    printf(",\"first_durable_over_bare\":%.4f,\"later_metadata_over_bound\":%.4f", over(r->first_durable, bare),
           later_metadata_share(r));
    printf(",\"later_metadata_bytes\":%.0f,\"later_chunks\":%.0f,\"later_runs\":%.0f,\"base_bytes\":%.0f",
           r->later_metadata, r->later_chunks, r->later_runs, r->base_most);
    printf(",\"seconds_bare\":%.4f,\"seconds_blocked\":%.4f,\"seconds_durable\":%.4f,\"seconds_first\":%.4f,"
           "\"seconds_cpu\":%.4f",
           bare, median(&r->blocked), median(&r->durable), r->first_durable, median(&r->cpu));
    printf(",\"seconds_fastest_bare\":%.4f,\"fastest_bare\":\"%s\"", r->fast_write, r->fast_write_name);
    printf(",\"seconds_restart_cpu\":%.4f,\"seconds_cold_read_cpu\":%.4f", median(&r->restart_cpu),
           median(&r->cold_cpu));
    printf(
        ",\"seconds_restart\":%.4f,\"seconds_cold_read\":%.4f,\"seconds_fastest_read\":%.4f,\"fastest_read\":\"%s\"}\n",
        median(&r->restart), cold, r->fast_read, r->fast_read_name);
    fflush(stdout);
}

static void print_people(const struct mode *mode, const struct result *r) {
    double bare = median(&r->bare), cold = median(&r->cold_read);
    printf("%s, %.0f MiB, pattern %s, codec %s\n", mode->name, r->protected_bytes / BENCH_MIB,
           mode->is_unique ? "all"
           : is_scattered  ? "p1"
                           : "p0",
           r->codec);
    printf("  %-42s %8.3f s\n", "bare write and fsync", bare);
    printf("  %-42s %8.3f s   %5.2f of bare (%s)\n", "fastest bare write", r->fast_write, over(r->fast_write, bare),
           r->fast_write_name);
    printf("  %-42s %8.3f s   %5.2f of bare\n", "first checkpoint, durable", r->first_durable,
           over(r->first_durable, bare));
    printf("  %-42s %8.3f s   %5.2f of bare\n",
           mode->is_unique ? "checkpoints, blocking" : "later checkpoints, blocking", median(&r->blocked),
           over(median(&r->blocked), bare));
    printf("  %-42s %8.3f s   %5.2f of bare, %.3f s of processor\n",
           mode->is_unique ? "checkpoints, durable" : "later checkpoints, durable", median(&r->durable),
           over(median(&r->durable), bare), median(&r->cpu));
    printf("  %-42s %8.3f s                 %.3f s of processor\n", "cold read", cold, median(&r->cold_cpu));
    printf("  %-42s %8.3f s   %5.2f of the cold read (%s)\n", "fastest bare cold read", r->fast_read,
           over(r->fast_read, cold), r->fast_read_name);
    printf("  %-42s %8.3f s   %5.2f of the cold read, %.3f s of processor\n", "restart, every byte checked",
           median(&r->restart), over(median(&r->restart), cold), median(&r->restart_cpu));
    printf("  %-42s %8.4f     of the bytes changed\n", "later checkpoints, all bytes in the store",
           over(r->later_growth, r->later_changed));
    printf("  %-42s %8.3f %%\n", "first checkpoint, metadata of protected",
           100 * over(r->first_metadata, r->protected_bytes));
    printf("  %-42s %8.3f     of the bound: %.0f bytes for %.0f chunks in %.0f runs\n", "later checkpoints, metadata",
           later_metadata_share(r), r->later_metadata, r->later_chunks, r->later_runs);
    printf("  %-42s %8.3f %%\n\n", "largest rewritten base, of protected",
           100 * over(r->base_most, r->protected_bytes));
    fflush(stdout);
}

/* ---- bounds ---- */

static int passes(const char *mode, const char *what, double value, double bound) {
    if (value > bound)
        fprintf(stderr, "%s: %s is %.4f, which is over %.4f\n", mode, what, value, bound);
    return value > bound;
}

static int bytes_over(const struct mode *mode, const struct result *r) {
    int over_bound =
        passes(mode->name, "metadata_over_raw", over(r->first_metadata, r->protected_bytes), BOUND_METADATA);
    over_bound |=
        passes(mode->name, "base over protected bytes", over(r->base_most, r->protected_bytes), BOUND_METADATA);
    over_bound |= passes(mode->name, "later_metadata_over_bound", later_metadata_share(r), 1);
    if (mode->is_plain)
        over_bound |=
            passes(mode->name, "later_bytes_over_floor", over(r->later_growth, r->later_changed), BOUND_LATER);
    return over_bound;
}

static int times_over(const struct mode *mode, const struct result *r) {
    int over_bound = passes(mode->name, "restart_over_cold_read", over(median(&r->restart), median(&r->cold_read)),
                            BOUND_RESTART * slack);
    if (mode->is_unique)
        over_bound |=
            passes(mode->name, "durable_over_bare", over(median(&r->durable), median(&r->bare)), BOUND_DURABLE * slack);
    return over_bound;
}

static int run_mode(const struct mode *mode) {
    struct result result;
    int failed = 0;
    for (int tries = 0; tries < (is_check ? 3 : 1); tries++) {
        measure(mode, &result);
        (is_json ? print_json : print_people)(mode, &result);
        if (!is_check)
            return 0;
        if (bytes_over(mode, &result))
            return 1;
        failed = times_over(mode, &result);
        if (!failed)
            return 0;
    }
    return failed;
}

/* ---- the command line ---- */

/* Two of us in one folder would remove each other's files. Held until the program ends. */
static void lock_folder(void) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bench_check(fd >= 0, folder);
    bench_check(flock(fd, LOCK_EX | LOCK_NB) == 0, "another bench-field works in this folder");
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
    return size == 0 || checkpoints < 2 || checkpoints > LIST_MAX || rounds < 1 || rounds > LIST_MAX ? -1 : 0;
}

int main(int argc, char **argv) {
    const char *child = NULL;
    int failed = 0, found = 0;
    if (parse(argc, argv, &child) != 0)
        return usage();
    self = "/proc/self/exe";
    snprintf(bare_path, sizeof bare_path, "%s/bench-field.bare", folder);
    snprintf(store_path, sizeof store_path, "%s/bench-field.store", folder);
    if (!child)
        lock_folder();
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (only_mode && strcmp(only_mode, modes[i].name) != 0)
            continue;
        found = 1;
        if (child && strcmp(child, "restart") == 0)
            return child_restart(&modes[i]);
        if (child)
            return child_read(&modes[i], child[4] ? child[4] - '0' : -1);
        failed |= run_mode(&modes[i]);
    }
    return found ? failed : usage();
}
