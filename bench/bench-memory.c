/* What the library adds to the memory of a process, at the peak.
 *
 *   bench-memory [--json] [--check] [--size SIZE,...] [--life NAME,...] [--checkpoints N] [--settings TEXT]
 *          [--ceiling SIZE] [FOLDER]
 *
 * Every life is a process of its own with SIZE bytes of noise:
 *
 *   bare     has them and writes all of them as often as the others; no session
 *   all      a checkpoint after each time
 *   tenth    the same, but a tenth of the pages is written each time
 *   again    all; then the session ends, another restarts in the same process, and goes on like all
 *   restart  a new process restarts from what again has left, and goes on like all
 *
 * peak is VmHWM; added is peak without that of bare. told is bytes_memory of varve_stats(3), the most of all
 * checkpoints.
 *
 * --ceiling SIZE: with the setting memory=SIZE, and a bound on what is told.
 *
 * --check fails when a bound is passed. Every restart is compared with what was stored. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <varve/varve.h>

#include "bench.h"
#include "details.h"
#include "options.h"

#define PAGE 4096u
#define MIB ((double)BENCH_MIB)
#define TOLD_OFF 0.2   /* of what was added, the most that is not told or told too much */
#define TOLD_SMALL 5.0 /* MiB, or so much: code, stacks of threads and rests of the allocator take 2 to 4.1 */
#define MOST 50u       /* checkpoints */

struct life {
    const char *name;
    int has_session, is_restarted, goes_on;
    unsigned every; /* page in so many is written each time */
};
static const struct life lives[] = {
    {"bare", 0, 0, 0, 1}, {"all", 1, 0, 0, 1}, {"tenth", 1, 0, 0, 10}, {"again", 1, 0, 1, 1}, {"restart", 1, 1, 0, 1}};
#define LIVES (sizeof lives / sizeof *lives)

struct result {
    uint64_t peak, told; /* bytes */
    double blocked;      /* seconds, the median */
};

static char store[3100];
static struct numbers sizes = {{16 * MIB}, 1};
static const char *folder = ".", *chosen = "bare,all,tenth,again,restart", *settings = "codec=auto";
static unsigned checkpoints = 5;
static size_t ceiling;
static int is_json, is_check;

/* ---- one life ---- */

static void fill_page(uint8_t *page, size_t number, uint64_t seed) {
    uint64_t state = (seed + 1) << 32 | number;
    for (size_t i = 0; i < PAGE; i += 8) {
        uint64_t word = bench_random(&state);
        memcpy(page + i, &word, 8);
    }
}

static void fill(uint8_t *memory, size_t size, unsigned every, uint64_t seed) {
    for (size_t page = 0; page * PAGE < size; page += every)
        fill_page(memory + page * PAGE, page, seed);
}

static void check(struct varve_session *session, int rc, const char *what) {
    if (rc < 0) {
        fprintf(stderr, "%s: %s\n", what, varve_session_error(session)->text);
        exit(1);
    }
}

static struct varve_session *open_session(uint8_t *memory, size_t size) {
    char all[1000];
    snprintf(all, sizeof all, "%s,memory=%zu", settings, ceiling);
    struct varve_options options = {.size = sizeof options, .settings = all};
    struct varve_session *session = NULL;
    struct varve_error error;
    if (varve_open(store, "memory", &options, &session, &error) != 0)
        fprintf(stderr, "open: %s\n", error.text), exit(1);
    check(session, varve_protect(session, "memory", memory, size), "protect");
    return session;
}

static void save(struct varve_session *session, int64_t version, struct result *r, double *blocked) {
    struct vv_details stats = {0};
    double start = bench_now();
    check(session, varve_checkpoint(session, version), "checkpoint");
    *blocked = bench_now() - start;
    check(session, varve_wait(session), "wait");
    check(session, vv_details_get(session, &stats), "stats");
    r->told = stats.bytes_memory > r->told ? stats.bytes_memory : r->told;
}

/* Every page must be as the newest checkpoint had it. */
static void restart(struct varve_session *session, uint8_t *memory, size_t size) {
    int64_t version = -1;
    uint8_t page[PAGE];
    memset(memory, 0, size);
    check(session, varve_restart(session, VARVE_LATEST, &version), "restart");
    for (size_t i = 0; i < size / PAGE; i++) {
        fill_page(page, i, (uint64_t)version);
        if (memcmp(page, memory + i * PAGE, PAGE) != 0)
            fprintf(stderr, "what is restored is not what was saved\n"), exit(1);
    }
}

/* Versions go on from the one given. */
static void go_on(const struct life *life, struct varve_session *session, uint8_t *memory, size_t size,
                  uint64_t version, struct result *r) {
    double blocked[MOST] = {0};
    for (unsigned i = 0; i < checkpoints; i++) {
        fill(memory, size, i ? life->every : 1, version + i);
        if (session)
            save(session, (int64_t)(version + i), r, &blocked[i]);
    }
    r->blocked = bench_median(blocked, checkpoints);
}

static void live(const struct life *life, size_t size, struct result *r) {
    uint8_t *memory = bench_pages(size);
    struct varve_session *session = life->has_session ? open_session(memory, size) : NULL;
    if (life->is_restarted)
        restart(session, memory, size);
    go_on(life, session, memory, size, life->is_restarted ? 2 * MOST : 0, r);
    if (life->goes_on) {
        check(session, varve_close(session), "close");
        session = open_session(memory, size);
        restart(session, memory, size);
        go_on(life, session, memory, size, MOST, r);
    }
    r->peak = bench_peak();
    if (session)
        check(session, varve_close(session), "close");
}

/* In a process of its own: a peak is one of all its life. */
static void run(const struct life *life, size_t size, struct result *out) {
    int ends[2], status;
    bench_check(pipe(ends) == 0, "pipe");
    if (!life->is_restarted)
        bench_remove(store);
    fflush(stdout);
    pid_t child = fork();
    bench_check(child >= 0, "fork");
    if (child == 0) {
        struct result result = {0};
        live(life, size, &result);
        _exit(write(ends[1], &result, sizeof result) != sizeof result);
    }
    close(ends[1]);
    ssize_t got = read(ends[0], out, sizeof *out);
    close(ends[0]);
    waitpid(child, &status, 0);
    if (got != sizeof *out || status != 0)
        fprintf(stderr, "%s has failed\n", life->name), exit(1);
}

/* ---- how it is said ---- */

/* Bytes that may be added: 24 MiB are measured, and vary by 2. */
static double bound_of(size_t size) {
    return 26 * MIB + 0.075 * (double)(size > 64 * BENCH_MIB ? size - 64 * BENCH_MIB : 0);
}

static int report(const struct life *life, size_t size, const struct result *r, const struct result *bare) {
    double added = (double)r->peak - (double)bare->peak;
    if (is_json)
        printf("{\"bench\":\"memory\",\"life\":\"%s\",\"bytes\":%zu,\"settings\":\"%s\",\"peak\":%llu,"
               "\"peak_over_protected\":%.4f,\"added\":%.0f,\"told\":%llu,\"seconds_blocked\":%.4f}\n",
               life->name, size, settings, (unsigned long long)r->peak, (double)r->peak / (double)size, added,
               (unsigned long long)r->told, r->blocked);
    else
        printf("%-8s %6zu MiB: peak %.3f of protected, %6.1f MiB added, %6.1f told, %.1f ms blocked\n", life->name,
               size / BENCH_MIB, (double)r->peak / (double)size, added / MIB, (double)r->told / MIB, r->blocked * 1e3);
    if (!is_check || !life->has_session)
        return 0;
    if (added > bound_of(size))
        fprintf(stderr, "memory, %s, %zu bytes: added %.1f MiB, which is over %.1f\n", life->name, size, added / MIB,
                bound_of(size) / MIB);
    double off = added - (double)r->told;
    int is_true = -off < TOLD_OFF * added && (off < TOLD_OFF * added || off < TOLD_SMALL * MIB);
    if (!is_true)
        fprintf(stderr, "memory, %s, %zu bytes: added %.1f MiB, but told are %.1f\n", life->name, size, added / MIB,
                (double)r->told / MIB);
    int is_below = ceiling == 0 || r->told <= ceiling;
    if (!is_below)
        fprintf(stderr, "memory, %s, %zu bytes: told are %.1f MiB, over the ceiling\n", life->name, size,
                (double)r->told / MIB);
    return added > bound_of(size) || !is_true || !is_below;
}

static int run_size(size_t size) {
    struct result bare = {0}, result;
    int failed = 0;
    for (size_t i = 0; i < LIVES; i++) {
        if (i > 0 && !options_has(chosen, lives[i].name))
            continue;
        run(&lives[i], size, &result);
        if (i == 0)
            bare = result;
        failed |= report(&lives[i], size, &result, &bare);
    }
    bench_remove(store);
    return failed;
}

/* ---- the command line ---- */

static const struct bench_option command_line[] = {
    {"--json", .flag = &is_json},
    {"--check", .flag = &is_check},
    {"--size", "SIZE,...", .sizes = &sizes, .least = 1},
    {"--life", "bare,all,tenth,again,restart", .list = &chosen},
    {"--checkpoints", .number = &checkpoints, .least = 2, .most = MOST},
    {"--settings", "TEXT", .text = &settings},
    {"--ceiling", "SIZE", .size = &ceiling},
    {"FOLDER", .text = &folder},
    {0},
};

int main(int argc, char **argv) {
    int failed = 0;
    options_read(command_line, argc, argv);
    snprintf(store, sizeof store, "%s/bench-memory.store", folder);
    for (size_t i = 0; i < sizes.count; i++)
        failed |= run_size((size_t)sizes.value[i]);
    return failed;
}
