#include "adaptive.h"
#include "details.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "bench.h"

const char *const adaptive_patterns[ADAPTIVE_PATTERNS] = {"ascending", "random", "descending"};

/* ---- the program ---- */

struct program {
    size_t pages;
    uint8_t *memory;
    uint32_t *order;
    uint64_t work;
    unsigned done; /* iterations */
};

static volatile uint64_t sink; /* where the arithmetic ends, so that no compiler leaves it out */

/* Steps that wait for each other: a count of them takes the same time wherever the compiler puts it. */
static uint64_t compute(uint64_t x, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        x = (x ^ (x >> 29)) * UINT64_C(0xBF58476D1CE4E5B9) + 1;
    return x;
}

/* What an iteration changes in each word of a page. No byte of it is zero: every byte of the page changes. */
static uint64_t key_of(size_t page, unsigned iteration) {
    uint64_t state = (uint64_t)page << 20 | iteration, key = bench_random(&state);
    for (unsigned i = 0; i < 64; i += 8)
        if ((key >> i & 0xFF) == 0)
            key |= UINT64_C(0x5A) << i;
    return key;
}

static uint64_t noise_of(size_t page) {
    return UINT64_C(0xADA97) << 40 | page;
}

static void fill_page(uint64_t *words, size_t page, uint64_t key) {
    uint64_t state = noise_of(page);
    for (size_t i = 0; i < ADAPTIVE_PAGE / 8; i++)
        words[i] = bench_random(&state) ^ key;
}

/* Fisher and Yates, always with the same dice. */
static void shuffle(uint32_t *order, size_t pages) {
    uint64_t state = 2013;
    for (size_t i = pages - 1; i > 0; i--) {
        size_t j = bench_random(&state) % (i + 1);
        uint32_t other = order[j];
        order[j] = order[i];
        order[i] = other;
    }
}

static void program_start(struct program *program, size_t region, enum adaptive_pattern pattern) {
    size_t pages = region / ADAPTIVE_PAGE;
    *program = (struct program){.pages = pages, .memory = bench_pages(region)};
    program->order = malloc(pages * sizeof *program->order);
    bench_check(program->order != NULL, "malloc");
    for (size_t i = 0; i < pages; i++) {
        program->order[i] = (uint32_t)(pattern == ADAPTIVE_DESCENDING ? pages - 1 - i : i);
        fill_page((uint64_t *)(void *)(program->memory + i * ADAPTIVE_PAGE), i, 0);
    }
    if (pattern == ADAPTIVE_RANDOM)
        shuffle(program->order, pages);
}

static void iterate(struct program *program) {
    uint64_t sum = 0;
    program->done++;
    for (size_t i = 0; i < program->pages; i++) {
        size_t page = program->order[i];
        uint64_t *words = (uint64_t *)(void *)(program->memory + page * ADAPTIVE_PAGE);
        uint64_t key = key_of(page, program->done);
        sum += compute(key, program->work);
        for (size_t j = 0; j < ADAPTIVE_PAGE / 8; j++)
            words[j] ^= key;
    }
    sink = sum;
}

/* Is it the program's memory after so many iterations? */
static int is_memory_after(const uint8_t *memory, size_t pages, unsigned iterations) {
    uint64_t words[ADAPTIVE_PAGE / 8];
    for (size_t page = 0; page < pages; page++) {
        uint64_t key = 0;
        for (unsigned i = 1; i <= iterations; i++)
            key ^= key_of(page, i);
        fill_page(words, page, key);
        if (memcmp(memory + page * ADAPTIVE_PAGE, words, ADAPTIVE_PAGE) != 0) {
            fprintf(stderr, "bench-adaptive: page %zu is not what it was at checkpoint %u\n", page, iterations);
            return 0;
        }
    }
    return 1;
}

static double usual_iteration(struct program *program) {
    double seconds[5];
    for (int i = 0; i < 5; i++) {
        double begin = bench_now();
        iterate(program);
        seconds[i] = bench_now() - begin;
    }
    return bench_median(seconds, 5);
}

/* With memory that is touched for the first time, and a unit of work that hides behind it, it would be another figure:
 * hence the difference of two counts that are both well above what the memory takes. */
void adaptive_measure(size_t region, enum adaptive_pattern pattern, struct adaptive_speed *out) {
    struct program program;
    program_start(&program, region, pattern);
    program.work = 1000;
    double some = usual_iteration(&program);
    program.work = 3000;
    double more = usual_iteration(&program);
    out->unit = (more - some) / 2000;
    out->touch = some - out->unit * 1000;
    munmap(program.memory, region);
    free(program.order);
}

/* ---- a run ---- */

static struct varve_session *open_session(const char *store, const char *settings) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error;
    options.settings = settings;
    if (varve_open(store, "adaptive", &options, &session, &error) != 0) {
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

struct run {
    const struct adaptive_case *c;
    struct program program;
    struct varve_session *session; /* NULL: without us */
    struct adaptive_result *result;
    struct adaptive_checkpoint *flight; /* the one that is not known to be durable; NULL: none */
    double flight_begin;
};

static void run_open(struct run *run) {
    const struct adaptive_case *c = run->c;
    unsigned flags = c->flags < 0 ? c->mode->flags : (unsigned)c->flags;
    char address[4096], settings[1024];
    snprintf(address, sizeof address, "%s?limit=%.0f", c->store, c->storage);
    snprintf(settings, sizeof settings, "codec=none,keep=all,staging=%zu,%s%s%s", c->staging, c->mode->settings,
             *c->settings ? "," : "", c->settings);
    run->session = open_session(address, settings);
    check_session(run->session,
                  flags ? varve_protect_flags(run->session, "memory", run->program.memory, c->region, flags)
                        : varve_protect(run->session, "memory", run->program.memory, c->region),
                  "protect");
}

/* It is durable now: what follows is not disturbed by it any more. */
static void end_flight(struct run *run) {
    run->flight->until = bench_now() - run->flight_begin;
    run->flight = NULL;
}

/* The statistics of a checkpoint are complete just before the next: they count traps until then. */
static void take_stats(struct run *run) {
    struct adaptive_result *r = run->result;
    if (r->checkpoints == 0)
        return;
    struct vv_details *stats = &r->checkpoint[r->checkpoints - 1].stats;
    check_session(run->session, vv_details_get(run->session, stats), "stats");
}

static void begin_checkpoint(struct run *run) {
    struct adaptive_result *r = run->result;
    if (run->flight) { /* it would wait inside the call: that is a cost of the one before */
        check_session(run->session, varve_wait(run->session), "wait");
        end_flight(run);
    }
    take_stats(run);
    run->flight = &r->checkpoint[r->checkpoints++];
    run->flight_begin = bench_now();
    check_session(run->session, varve_checkpoint(run->session, run->program.done), "checkpoint");
    run->flight->call = bench_now() - run->flight_begin;
}

static void look_at_flight(struct run *run) {
    int rc = varve_test(run->session);
    check_session(run->session, rc, "test");
    if (rc == 1)
        end_flight(run);
}

static void one_iteration(struct run *run) {
    struct adaptive_result *r = run->result;
    double begin = bench_now();
    iterate(&run->program);
    r->seconds[r->iterations] = bench_now() - begin;
    r->is_disturbed[r->iterations++] = run->flight != NULL;
    if (run->flight) {
        run->flight->iterations++;
        look_at_flight(run);
    }
}

/* After the last iteration the program goes on for as long as a checkpoint is in flight: what that costs is only known
 * when it is durable. */
static void run_all(struct run *run) {
    const struct adaptive_case *c = run->c;
    double begin = bench_now();
    for (unsigned i = 1; i <= c->iterations || (run->flight && i <= ADAPTIVE_ITERATIONS_MAX); i++) {
        one_iteration(run);
        if (run->session && i <= c->iterations && i % c->every == 0) {
            begin_checkpoint(run);
            look_at_flight(run); /* captured and stored inside the call: no iteration is disturbed */
        }
    }
    run->result->run = bench_now() - begin;
    if (run->session) {
        check_session(run->session, varve_wait(run->session), "wait");
        take_stats(run);
    }
}

static double undisturbed(const struct adaptive_result *r) {
    double list[ADAPTIVE_ITERATIONS_MAX];
    size_t n = 0;
    for (unsigned i = 1; i < r->iterations; i++)
        if (!r->is_disturbed[i])
            list[n++] = r->seconds[i];
    return bench_median(list, n);
}

/* Past the limit, and into other memory. */
static void compare_all(const struct adaptive_case *c, const struct adaptive_result *r) {
    uint8_t *memory = bench_pages(c->region);
    struct varve_session *session = open_session(c->store, "capture=sync");
    check_session(session, varve_protect(session, "memory", memory, c->region), "protect");
    for (unsigned i = 0; i < r->checkpoints; i++) {
        const struct vv_details *stats = &r->checkpoint[i].stats;
        check_session(session, varve_restart(session, stats->version, NULL), "restart");
        if (!is_memory_after(memory, c->region / ADAPTIVE_PAGE, (unsigned)stats->version))
            exit(1);
        if (stats->bytes_new != c->region) {
            fprintf(stderr, "bench-adaptive: all pages were new, but %llu bytes were stored as new\n",
                    (unsigned long long)stats->bytes_new);
            exit(1);
        }
    }
    check_session(session, varve_close(session), "close");
    munmap(memory, c->region);
}

void adaptive_run(const struct adaptive_case *c, struct adaptive_result *out) {
    struct run run = {.c = c, .result = out};
    struct rusage use;
    memset(out, 0, sizeof *out);
    program_start(&run.program, c->region, c->pattern);
    run.program.work = c->work;
    if (c->mode->settings)
        run_open(&run);
    run_all(&run);
    getrusage(RUSAGE_SELF, &use);
    out->rss = (double)use.ru_maxrss * 1024;
    out->iteration = undisturbed(out);
    if (run.session) {
        check_session(run.session, varve_close(run.session), "close");
        compare_all(c, out);
    }
    munmap(run.program.memory, c->region);
    free(run.program.order);
}
