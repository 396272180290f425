/* What a store takes after hundreds of checkpoints, beside what the kept ones need.
 *
 *   mpirun -n RANKS bench-space [--json] [--check] [--pattern P,...] [--share S,...] [--size SIZE] [--checkpoints N]
 *          [--life N] [--mode NAME] [--settings TEXT] [FOLDER]
 *
 * --life N: the job ends and is restarted every N checkpoints.
 *
 * Every rank has SIZE bytes of noise (16 MiB unless told); half of it is the same on all ranks. Before each checkpoint
 * some pages get new noise:
 *
 *   random    a share of the pages, drawn at random
 *   hotcold   the same number, nine of ten among a tenth of the pages
 *   band      the same number, next to each other, going on where the last band ended
 *   lasting   a share that is the same pages each time, and one page more that then stays as it is
 *   all       every page
 *   training  replicas: half is dense and changes wholly, the rest is an embedding of which a share of the rows changes
 *
 * keep=2, so what is needed is the last state, and what the one before had in other pages: the model counts both,
 * once for all ranks. space_over_needed is the largest value after the first 20 checkpoints. bytes_over_new is what was
 * stored over what the model says is new, of the same checkpoints. restart_over_fresh is a cold restart at the end over
 * one of a store that has only this state. slowest_over_median is of the blocking times.
 *
 * --check fails when a bound is passed. Every restart is compared byte by byte. */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "details.h"
#include "options.h"
#include "ranks.h"
#include "together.h"

#define WARM 20 /* checkpoints before anything is bounded */
#define ROW 512 /* bytes of an embedding's row */
#define RESTARTS 5
#define MOST 10000 /* checkpoints */

/* With space=2. */
#define BOUND_SPACE 2.05
#define BOUND_NEW 1.30
#define BOUND_NEW_HOTCOLD 1.25
#define BOUND_PACKS 48.0
#define BOUND_RESTART 1.2
#define BOUND_SLOWEST 1.5

struct memory {
    uint8_t *bytes;
    size_t pages;
    uint64_t shared, own; /* states of chance: the same on all ranks, and this rank's */
};

struct result {
    double space_most, space_last; /* over needed */
    double stored, fresh;          /* bytes, after the first few */
    double packs;                  /* of data, at the end, per writer */
    double restart, restart_fresh;
    double blocked[MOST], waited;
    unsigned checkpoints;
};

static const char *folder = ".";
static char store[3100], store_fresh[3100];
static size_t size = 16 * BENCH_MIB;
static unsigned checkpoints = 400, life; /* life: checkpoints until it is restarted; 0: never */
static const char *patterns = "random,hotcold,band,lasting,all,training";
static struct numbers shares = {{0.05}, 1};
static const char *settings = "codec=none,dedup=exact";
static const char *mode = "exact";
static int is_json, is_check;

/* ---- memory that changes ---- */

static void fill(uint8_t *at, size_t bytes, uint64_t *state) {
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = bench_random(state);
        memcpy(at + i, &word, 8);
    }
}

/* The first half is common: chance that all ranks share decides which of its pages change, and what they become. */
static uint64_t *chance_of(struct memory *memory, size_t page) {
    return page < memory->pages / 2 ? &memory->shared : &memory->own;
}

static size_t draw(uint64_t *state, size_t below) {
    return (size_t)(bench_random(state) % below);
}

/* is_changed: per page; a page counts once, however often it is drawn. */
static void change_page(struct memory *memory, size_t page, uint8_t *is_changed) {
    fill(memory->bytes + page * CHUNK, CHUNK, chance_of(memory, page));
    is_changed[page] = 1;
}

typedef void (*step_fn)(struct memory *memory, size_t from, size_t pages, size_t count, unsigned step,
                        uint8_t *is_changed);

static void step_random(struct memory *memory, size_t from, size_t pages, size_t count, unsigned step,
                        uint8_t *is_changed) {
    (void)step;
    for (size_t i = 0; i < count; i++)
        change_page(memory, from + draw(chance_of(memory, from), pages), is_changed);
}

static void step_hotcold(struct memory *memory, size_t from, size_t pages, size_t count, unsigned step,
                         uint8_t *is_changed) {
    (void)step;
    for (size_t i = 0; i < count; i++) {
        uint64_t *chance = chance_of(memory, from);
        size_t hot = pages / 10, page = draw(chance, 10) ? draw(chance, hot) : hot + draw(chance, pages - hot);
        change_page(memory, from + page, is_changed);
    }
}

static void step_band(struct memory *memory, size_t from, size_t pages, size_t count, unsigned step,
                      uint8_t *is_changed) {
    for (size_t i = 0; i < count; i++)
        change_page(memory, from + (step * count + i) % pages, is_changed);
}

static void step_lasting(struct memory *memory, size_t from, size_t pages, size_t count, unsigned step,
                         uint8_t *is_changed) {
    for (size_t i = 0; i < count; i++)
        change_page(memory, from + i, is_changed);
    change_page(memory, from + count + step % (pages - count), is_changed);
}

static void step_all(struct memory *memory, size_t from, size_t pages, size_t count, unsigned step,
                     uint8_t *is_changed) {
    (void)count, (void)step;
    for (size_t i = 0; i < pages; i++)
        change_page(memory, from + i, is_changed);
}

static const struct pattern {
    const char *name;
    step_fn step; /* NULL: training */
} all_patterns[] = {{"random", step_random},   {"hotcold", step_hotcold}, {"band", step_band},
                    {"lasting", step_lasting}, {"all", step_all},         {"training", NULL}};
#define PATTERNS (sizeof all_patterns / sizeof *all_patterns)

/* Replicas: everything is common. Bytes that have changed. */
static double step_training(struct memory *memory, double share) {
    size_t half = memory->pages / 2 * CHUNK, rows = half / ROW, count = (size_t)(share * (double)rows) + 1;
    uint8_t *is_changed = calloc(rows, 1);
    double changed = (double)half;
    bench_check(is_changed != NULL, "memory");
    fill(memory->bytes, half, &memory->shared);
    for (size_t i = 0; i < count; i++) {
        size_t row = draw(&memory->shared, rows);
        fill(memory->bytes + half + row * ROW, ROW, &memory->shared);
        changed += is_changed[row] ? 0 : ROW;
        is_changed[row] = 1;
    }
    free(is_changed);
    return changed;
}

/* Bytes that are new now, counted once for all ranks. */
static double step(struct memory *memory, const struct pattern *pattern, double share, unsigned number) {
    if (!pattern->step)
        return step_training(memory, share);
    size_t half = memory->pages / 2, count = (size_t)(share * (double)half) + 1;
    uint8_t *is_changed = calloc(memory->pages, 1);
    double common = 0, own = 0;
    bench_check(is_changed != NULL, "memory");
    pattern->step(memory, 0, half, count, number, is_changed);
    pattern->step(memory, half, memory->pages - half, count, number, is_changed);
    for (size_t i = 0; i < memory->pages; i++)
        *(i < half ? &common : &own) += is_changed[i] ? CHUNK : 0;
    free(is_changed);
    return common + ranks_sum(own);
}

static double state_bytes(const struct memory *memory, const struct pattern *pattern) {
    double half = (double)(memory->pages / 2) * CHUNK, rest = (double)(memory->pages - memory->pages / 2) * CHUNK;
    return pattern->step ? half + ranks_sum(rest) : half + rest;
}

static void begin(struct memory *memory, const struct pattern *pattern) {
    memory->shared = 1;
    memory->own = pattern->step ? 2 + ranks_own() : 1;
    size_t half = memory->pages / 2 * CHUNK;
    fill(memory->bytes, half, &memory->shared);
    fill(memory->bytes + half, memory->pages * CHUNK - half, &memory->own);
}

/* ---- the store ---- */

static double packs;

/* data/G/V/A/W, where W is the writer's number. */
static int count_pack(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    const char *name = path + ftw->base;
    (void)st;
    packs += type == FTW_F && strstr(path, "/data/") != NULL && strspn(name, "0123456789abcdef") == strlen(name);
    return 0;
}

static double count_packs(void) {
    packs = 0;
    if (ranks_own() == 0)
        nftw(store, count_pack, 32, FTW_PHYS);
    return ranks_sum(packs);
}

static struct varve_session *open_session(const char *path, struct memory *memory) {
    char all[1000];
    snprintf(all, sizeof all, "keep=2,%s", settings);
    struct varve_session *session = together_open(path, "space", all);
    together_check(session, varve_protect(session, "memory", memory->bytes, memory->pages * CHUNK), "protect");
    return session;
}

/* Returns what was stored, data and metadata. */
static double save(struct varve_session *session, int64_t version, double *blocked, double *waited) {
    struct vv_details stats = {0};
    double start = ranks_start();
    together_check(session, varve_checkpoint(session, version), "checkpoint");
    *blocked = ranks_most(bench_now() - start);
    together_check(session, varve_wait(session), "wait");
    together_check(session, vv_details_get(session, &stats), "stats");
    *waited += ranks_most(stats.seconds_waited);
    return ranks_sum((double)(stats.bytes_stored + stats.bytes_metadata));
}

static double restart(const char *path, const struct memory *memory) {
    struct memory back = {.bytes = bench_pages(memory->pages * CHUNK), .pages = memory->pages};
    double times[RESTARTS];
    for (int i = 0; i < RESTARTS; i++) {
        together_cool(path);
        memset(back.bytes, 0, back.pages * CHUNK);
        struct varve_session *session = open_session(path, &back);
        double start = ranks_start();
        together_check(session, varve_restart(session, VARVE_LATEST, NULL), "restart");
        times[i] = ranks_stop(start);
        together_check(session, varve_close(session), "close");
        if (memcmp(back.bytes, memory->bytes, back.pages * CHUNK) != 0) {
            fprintf(stderr, "rank %u: what is restored is not what was saved\n", ranks_own());
            exit(1);
        }
    }
    return bench_median(times, RESTARTS);
}

static struct varve_session *live_again(struct varve_session *session, struct memory *memory) {
    together_check(session, varve_close(session), "close");
    session = open_session(store, memory);
    together_check(session, varve_restart(session, VARVE_LATEST, NULL), "restart");
    return session;
}

static void save_fresh(struct memory *memory) {
    double blocked, waited = 0;
    together_make_folder(store_fresh);
    struct varve_session *session = open_session(store_fresh, memory);
    save(session, 1, &blocked, &waited);
    together_check(session, varve_close(session), "close");
}

/* ---- one pattern ---- */

static void note(struct result *r, unsigned i, double stored, double fresh, double needed) {
    if (i < WARM)
        return;
    r->space_last = together_folder_bytes(store) / needed;
    r->space_most = r->space_last > r->space_most ? r->space_last : r->space_most;
    r->stored += stored;
    r->fresh += fresh;
}

static void run(struct result *r, const struct pattern *pattern, double share) {
    struct memory memory = {.bytes = bench_pages(size), .pages = size / CHUNK};
    begin(&memory, pattern);
    together_make_folder(store);
    struct varve_session *session = open_session(store, &memory);
    double state = state_bytes(&memory, pattern), fresh = state;
    for (unsigned i = 0; i < checkpoints; i++) {
        if (life && i % life == life - 1)
            session = live_again(session, &memory);
        if (i > 0)
            fresh = step(&memory, pattern, share, i);
        double stored = save(session, i, &r->blocked[i], &r->waited);
        note(r, i, stored, fresh, i > 0 ? state + fresh : state);
    }
    together_check(session, varve_close(session), "close");
    r->checkpoints = checkpoints;
    r->packs = count_packs() / ranks_all();
    r->restart = restart(store, &memory);
    save_fresh(&memory);
    r->restart_fresh = restart(store_fresh, &memory);
    together_remove_folder(store);
    together_remove_folder(store_fresh);
}

/* Of all the time that calls blocked, what they waited for the checkpoint before, and for what it forgets. */
static double waited_share(const struct result *r) {
    double blocked = 0;
    for (unsigned i = 0; i < r->checkpoints; i++)
        blocked += r->blocked[i];
    return blocked > 0 ? r->waited / blocked : 0;
}

static double slowest(const struct result *r) {
    double most = 0;
    for (unsigned i = WARM; i < r->checkpoints; i++)
        most = r->blocked[i] > most ? r->blocked[i] : most;
    return most / bench_median(r->blocked + WARM, r->checkpoints - WARM);
}

/* ---- how it is said ---- */

static void report(const struct result *r, const char *pattern, double share) {
    if (ranks_own() != 0)
        return;
    if (is_json)
        printf("{\"bench\":\"space\",\"pattern\":\"%s\",\"share\":%.3f,\"ranks\":%u,\"mode\":\"%s\",\"bytes\":%zu,"
               "\"checkpoints\":%u,\"space_over_needed\":%.4f,\"space_over_needed_last\":%.4f,\"bytes_over_new\":%.4f,"
               "\"packs\":%.1f,\"restart_over_fresh\":%.3f,\"slowest_over_median\":%.3f,\"waited_over_blocked\":%.3f,"
               "\"seconds_restart\":%.4f}\n",
               pattern, share, ranks_all(), mode, size, checkpoints, r->space_most, r->space_last, r->stored / r->fresh,
               r->packs, r->restart / r->restart_fresh, slowest(r), waited_share(r), r->restart);
    else
        printf("%-9s %4.1f %%  %u ranks, %s: space %.2f of needed (at the end %.2f), stored %.3f of new, %.0f packs, "
               "restart "
               "%.2f of fresh, slowest %.2f of the median\n",
               pattern, 100 * share, ranks_all(), mode, r->space_most, r->space_last, r->stored / r->fresh, r->packs,
               r->restart / r->restart_fresh, slowest(r));
    fflush(stdout);
}

static int passes(const char *pattern, const char *what, double value, double bound) {
    if (value > bound && ranks_own() == 0)
        fprintf(stderr, "space, %s, %u ranks, %s: %s is %.4f, which is over %.4f\n", pattern, ranks_all(), mode, what,
                value, bound);
    return value > bound;
}

static int is_over(const struct result *r, const char *pattern) {
    double most = strcmp(pattern, "hotcold") == 0 ? BOUND_NEW_HOTCOLD : BOUND_NEW;
    int failed = passes(pattern, "space_over_needed", r->space_most, BOUND_SPACE);
    failed |= passes(pattern, "bytes_over_new", r->stored / r->fresh, most);
    failed |= passes(pattern, "packs", r->packs, BOUND_PACKS);
    failed |= passes(pattern, "restart_over_fresh", r->restart / r->restart_fresh, BOUND_RESTART);
    return failed | passes(pattern, "slowest_over_median", slowest(r), BOUND_SLOWEST);
}

static int run_pattern(const struct pattern *pattern) {
    static struct result result;
    int failed = 0;
    for (size_t i = 0; i < shares.count; i++) {
        double share = shares.value[i];
        memset(&result, 0, sizeof result);
        run(&result, pattern, share);
        report(&result, pattern->name, share);
        failed |= is_check && is_over(&result, pattern->name);
    }
    return failed;
}

/* ---- the command line ---- */

static const struct bench_option command_line[] = {
    {"--json", .flag = &is_json},
    {"--check", .flag = &is_check},
    {"--pattern", "random,hotcold,band,lasting,all,training", .list = &patterns},
    {"--share", "0.05,...", .numbers = &shares},
    {"--size", "SIZE", .size = &size, .least = 64 * CHUNK},
    {"--checkpoints", .number = &checkpoints, .least = WARM + 10, .most = MOST},
    {"--life", .number = &life},
    {"--mode", "NAME", .text = &mode},
    {"--settings", "TEXT", .text = &settings},
    {"FOLDER", .text = &folder},
    {0},
};

int main(int argc, char **argv) {
    int failed = 0;
    options_read(command_line, argc, argv);
    ranks_begin(&argc, &argv);
    together_lock(folder);
    snprintf(store, sizeof store, "%s/bench-space.store", folder);
    snprintf(store_fresh, sizeof store_fresh, "%s/bench-space.fresh", folder);
    for (size_t i = 0; i < PATTERNS; i++)
        if (options_has(patterns, all_patterns[i].name))
            failed |= run_pattern(&all_patterns[i]);
    ranks_end();
    return failed;
}
