/* Ways to save the state of the graphlet program. */
#include "merkle.h"
#include "details.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <zstd.h>

#include "bench.h"
#include "paper_tree.h"
#include "varve/varve.h"

#define PAGE 4096u

/* ---- the program ---- */

static void keep_page(struct program *program, size_t offset, size_t bytes, const uint8_t *data) {
    if (program->page_count == program->page_capacity) {
        program->page_capacity = program->page_capacity ? 2 * program->page_capacity : 4096;
        program->pages = realloc(program->pages, program->page_capacity * sizeof *program->pages);
        bench_check(program->pages != NULL, "memory");
    }
    struct page page = {offset, bytes, malloc(bytes)};
    bench_check(page.data != NULL, "memory");
    memcpy(page.data, data, bytes);
    program->pages[program->page_count++] = page;
}

/* Pages that are not as in `last`, which becomes as the vectors are. */
static void keep_changes(struct program *program, uint8_t *last) {
    const uint8_t *now = (const uint8_t *)program->vectors;
    for (size_t at = 0; at < program->bytes; at += PAGE) {
        size_t bytes = program->bytes - at < PAGE ? program->bytes - at : PAGE;
        if (memcmp(last + at, now + at, bytes) != 0) {
            keep_page(program, at, bytes, now + at);
            memcpy(last + at, now + at, bytes);
        }
    }
}

void program_record(struct program *program) {
    const unsigned steps = program->checkpoints - 1;
    uint8_t *last = bench_pages(program->bytes);
    struct graphlets run;
    uint32_t from = 0;
    memset(program->vectors, 0, program->bytes);
    graphlets_init(&run, program->graph, program->most, program->layout, program->vectors);
    program->ends[0] = 0;
    for (unsigned i = 1; i <= steps; i++) {
        uint32_t to = (uint32_t)((uint64_t)program->graph->vertices * i / steps);
        graphlets_count(&run, from, to);
        keep_changes(program, last);
        program->ends[i] = program->page_count;
        from = to;
    }
    graphlets_clear(&run);
    munmap(last, program->bytes);
}

void program_forget(struct program *program) {
    for (size_t i = 0; i < program->page_count; i++)
        free(program->pages[i].data);
    free(program->pages);
    program->pages = NULL;
    program->page_count = program->page_capacity = 0;
}

void program_run(const struct program *program, program_save_fn save, void *arg) {
    memset(program->vectors, 0, program->bytes);
    save(arg, 0);
    for (unsigned i = 1; i < program->checkpoints; i++) {
        for (size_t j = program->ends[i - 1]; j < program->ends[i]; j++)
            memcpy((uint8_t *)program->vectors + program->pages[j].offset, program->pages[j].data,
                   program->pages[j].bytes);
        save(arg, i);
    }
}

/* ---- time ---- */

/* Copies in turns with what is measured, so that both meet the same machine. */
struct clock {
    uint8_t *copy; /* of the state, written before it is timed */
    double copying[CHECKPOINTS_MAX], saving;
    unsigned count;
};

static void clock_init(struct clock *clock, const struct program *program) {
    *clock = (struct clock){.copy = bench_pages(program->bytes)};
    memcpy(clock->copy, program->vectors, program->bytes);
}

static void clock_add(struct clock *clock, const struct program *program, double seconds) {
    double begin = bench_now();
    memcpy(clock->copy, program->vectors, program->bytes);
    clock->copying[clock->count++] = bench_now() - begin;
    clock->saving += seconds;
}

static double over_memcpy(const struct clock *clock) {
    return clock->count * bench_median(clock->copying, clock->count) / clock->saving;
}

/* ---- the library ---- */

struct varve_run {
    const struct program *program;
    struct varve_session *session;
    struct clock clock;
    struct outcome *out;
};

static void check(const struct varve_session *session, int rc, const char *what) {
    if (rc < 0) {
        fprintf(stderr, "bench-merkle: %s: %s\n", what, varve_session_error(session)->text);
        exit(1);
    }
}

static struct varve_session *open_session(const char *settings) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error;
    options.settings = settings;
    if (varve_open("mem://", "merkle", &options, &session, &error) != 0) {
        fprintf(stderr, "bench-merkle: open: %s\n", error.text);
        exit(1);
    }
    return session;
}

static void add_stats(struct varve_run *run) {
    struct vv_details stats = {0};
    check(run->session, vv_details_get(run->session, &stats), "stats");
    run->out->stored += (double)(stats.bytes_stored + stats.bytes_metadata);
    run->out->metadata += (double)stats.bytes_metadata;
    run->out->base += (double)stats.bytes_base;
    run->out->runs += (double)stats.runs_changed;
    run->out->first += (double)stats.chunks_first;
    run->out->shifted += (double)stats.chunks_shifted;
    snprintf(run->out->tracker, sizeof run->out->tracker, "%s", stats.tracker);
}

static void save_varve(void *arg, unsigned checkpoint) {
    struct varve_run *run = arg;
    double begin = bench_now();
    check(run->session, varve_checkpoint(run->session, (int64_t)checkpoint), "checkpoint");
    check(run->session, varve_wait(run->session), "wait");
    double seconds = bench_now() - begin;
    if (checkpoint > 0) {
        clock_add(&run->clock, run->program, seconds);
        add_stats(run);
    }
}

static void compare_restored(struct varve_run *run) {
    const struct program *program = run->program;
    memcpy(run->clock.copy, program->vectors, program->bytes);
    memset(program->vectors, 0xFF, program->bytes);
    check(run->session, varve_restart(run->session, VARVE_LATEST, NULL), "restart");
    if (memcmp(run->clock.copy, program->vectors, program->bytes) != 0) {
        fprintf(stderr, "bench-merkle: what was restored is not what was saved\n");
        exit(1);
    }
}

void save_with_varve(const struct program *program, const char *method, const char *codec, unsigned chunk,
                     const char *settings, struct outcome *out) {
    struct varve_run run = {.program = program, .out = out};
    char text[512];
    snprintf(text, sizeof text, "fine=%u,fine_method=%s,dedup=local,codec=%s,space=0,keep=0%s%s", chunk, method, codec,
             *settings ? "," : "", settings);
    *out = (struct outcome){0};
    run.session = open_session(text);
    check(run.session, varve_protect(run.session, "vectors", program->vectors, program->bytes), "protect");
    clock_init(&run.clock, program);
    program_run(program, save_varve, &run);
    out->over_memcpy = over_memcpy(&run.clock);
    compare_restored(&run);
    check(run.session, varve_close(run.session), "close");
    munmap(run.clock.copy, program->bytes);
}

/* ---- zstd ---- */

struct zstd_run {
    const struct program *program;
    struct clock clock;
    void *packed;
    size_t capacity;
    struct outcome *out;
};

static void save_zstd(void *arg, unsigned checkpoint) {
    struct zstd_run *run = arg;
    if (checkpoint == 0)
        return;
    double begin = bench_now();
    size_t size = ZSTD_compress(run->packed, run->capacity, run->program->vectors, run->program->bytes, 3);
    clock_add(&run->clock, run->program, bench_now() - begin);
    bench_check(!ZSTD_isError(size), "zstd");
    run->out->stored += (double)size;
}

void save_with_zstd(const struct program *program, struct outcome *out) {
    struct zstd_run run = {.program = program, .capacity = ZSTD_compressBound(program->bytes), .out = out};
    run.packed = bench_pages(run.capacity);
    *out = (struct outcome){0};
    clock_init(&run.clock, program);
    program_run(program, save_zstd, &run);
    out->over_memcpy = over_memcpy(&run.clock);
    munmap(run.packed, run.capacity);
    munmap(run.clock.copy, program->bytes);
}

/* ---- the oracle ---- */

struct oracle_run {
    struct labels labels;
    struct paper_tree tree;
};

static void save_oracle(void *arg, unsigned checkpoint) {
    struct oracle_run *run = arg;
    labels_checkpoint(&run->labels);
    if (checkpoint == 0) {
        run->labels.counts = (struct label_counts){0};
        return;
    }
    paper_tree_checkpoint(&run->tree, run->labels.changed, run->labels.changed_count);
}

void ask_oracle(const struct program *program, unsigned chunk, struct oracle *out) {
    struct oracle_run run = {0};
    labels_init(&run.labels, program->vectors, program->bytes, chunk);
    program_run(program, save_oracle, &run);
    *out = (struct oracle){.counts = run.labels.counts};
    out->basic_bytes = (double)labels_basic_bytes(&run.labels, program->checkpoints - 1);
    out->list_bytes = (double)labels_list_bytes(&run.labels);
    out->paper_roots = (double)(run.tree.first_roots + run.tree.shifted_roots);
    out->paper_bytes = (double)(run.labels.counts.first_bytes + 4 * run.tree.first_roots + 12 * run.tree.shifted_roots);
    labels_clear(&run.labels);
    paper_tree_clear(&run.tree);
}
