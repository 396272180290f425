/* bench-field: checkpoints that the program waits for, beside files written by hand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "details.h"
#include "field_run.h"
#include "ranks.h"

const char *field_pattern(const struct field_setup *setup) {
    return setup->is_scattered ? "p1" : "p0";
}

struct field field_new(const struct field_setup *setup, const struct field_mode *mode) {
    struct field field = {.rank = ranks_own(), .size = setup->size};
    field.is_unique = mode->is_unique;
    field.alike = mode->alike;
    field.is_scattered = setup->is_scattered;
    return field;
}

struct varve_session *field_open(const struct field_setup *setup, const struct field_mode *mode) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error;
    char settings[512];
    /* The growth of the store is what a checkpoint stored only if nothing goes meanwhile. */
    snprintf(settings, sizeof settings, "keep=all%s%s%s%s", *mode->settings ? "," : "", mode->settings,
             *setup->settings ? "," : "", setup->settings);
    options.settings = settings;
    if (ranks_open(setup->store_path, "field", &options, &session, &error) != 0) {
        fprintf(stderr, "open: %s\n", error.text);
        exit(1);
    }
    return session;
}

void field_check(const struct varve_session *session, int rc, const char *what) {
    if (rc) {
        fprintf(stderr, "%s: %s\n", what, varve_session_error(session)->text);
        exit(1);
    }
}

void field_protect(const struct field_setup *setup, const struct field_mode *mode, struct varve_session *session,
                   uint8_t *memory) {
    size_t pages = setup->size / FIELD_PAGE, count = mode->regions ? mode->regions : 1;
    for (size_t i = 0; i < count; i++) {
        size_t first = pages * i / count * FIELD_PAGE, end = pages * (i + 1) / count * FIELD_PAGE;
        char name[32] = "field";
        if (count > 1)
            snprintf(name, sizeof name, "tensor.%03zu", i);
        field_check(session, varve_protect(session, name, memory + first, end - first), "protect");
    }
}

double field_bare_write(const struct field_setup *setup, const struct field_mode *mode, const void *data) {
    int is_timed = mode->regions == 0 || ranks_own() == 0;
    unlink(setup->bare_path); /* not what is measured */
    if (!is_timed)            /* for the cold read */
        bench_bare_write(setup->bare_path, data, setup->size);
    double begin = ranks_start();
    if (is_timed)
        bench_bare_write(setup->bare_path, data, setup->size);
    return ranks_stop(begin);
}

static double fast_write(const struct field_setup *setup, const void *data, const struct bench_way *way) {
    unlink(setup->bare_path);
    double begin = ranks_start();
    bench_direct_write(setup->bare_path, data, setup->size, way);
    return ranks_stop(begin);
}

void field_fast_writes(const struct field_setup *setup, const void *data, struct field_result *r) {
    for (size_t i = 0; i < bench_way_count; i++) {
        double seconds = fast_write(setup, data, &bench_ways[i]);
        if (r->fast_write == 0 || seconds < r->fast_write) {
            r->fast_write = seconds;
            r->fast_write_name = bench_ways[i].name;
        }
    }
}

double field_store_bytes(const struct field_setup *setup) {
    ranks_meet();
    double bytes = ranks_own() == 0 ? (double)bench_bytes(setup->store_path) : 0;
    return ranks_sum(bytes);
}

void field_note_bytes(const struct field_setup *setup, struct field_result *r, const struct vv_details *stats,
                      unsigned checkpoint, uint64_t changed, double growth) {
    struct field field = field_new(setup, r->mode);
    double floor = ranks_sum((double)field_floor(&field, checkpoint));
    double base = ranks_sum((double)stats->bytes_base), metadata = ranks_sum((double)stats->bytes_metadata);
    r->protected_bytes = ranks_sum((double)stats->bytes_protected);
    memcpy(r->dedup, stats->dedup, sizeof r->dedup);
    memcpy(r->dedup_reason, stats->dedup_reason, sizeof r->dedup_reason);
    if (base > r->base_most)
        r->base_most = base;
    if (checkpoint == 0) {
        memcpy(r->codec, stats->codec, sizeof r->codec);
        r->first_metadata = metadata;
        r->first_growth = growth;
        r->first_floor = floor;
        return;
    }
    if (stats->bytes_changed != changed) {
        fprintf(stderr, "%llu bytes were changed, but the statistics say %llu\n", (unsigned long long)changed,
                (unsigned long long)stats->bytes_changed);
        exit(1);
    }
    r->later_changed += ranks_sum((double)changed);
    r->later_growth += growth;
    r->later_floor += floor;
    r->later_metadata += metadata - base;
    r->later_chunks += ranks_sum((double)stats->chunks_new);
    r->later_runs += ranks_sum((double)stats->runs_changed);
}

static void one_checkpoint(const struct field_setup *setup, struct varve_session *session, struct field_result *r,
                           unsigned checkpoint, uint64_t changed) {
    struct vv_details stats = {0};
    double before = field_store_bytes(setup);
    double begin = ranks_start(), cpu = bench_cpu();
    field_check(session, varve_checkpoint(session, checkpoint), "checkpoint");
    double blocked = bench_now() - begin;
    field_check(session, varve_wait(session), "wait");
    double durable = ranks_stop(begin);
    cpu = ranks_sum(bench_cpu() - cpu);
    blocked = ranks_most(blocked);
    field_check(session, vv_details_get(session, &stats), "stats");
    field_note_bytes(setup, r, &stats, checkpoint, changed, field_store_bytes(setup) - before);
    if (checkpoint == 0)
        r->first_durable = durable;
    if (checkpoint > 0 || r->mode->is_unique) {
        field_add(&r->blocked, blocked);
        field_add(&r->durable, durable);
        field_add(&r->cpu, cpu);
    }
}

void field_measure_saving(const struct field_setup *setup, struct field_result *r) {
    struct field field = field_new(setup, r->mode);
    double sum = 0;
    field_init(&field, 1);
    /* Unmeasured: memory the system has not used lately can cost several times as much to get, and that would all
     * fall on the bare way. */
    field_bare_write(setup, r->mode, field.memory);
    struct varve_session *session = field_open(setup, r->mode);
    field_protect(setup, r->mode, session, field.memory);
    for (unsigned i = 0; i < setup->checkpoints; i++) {
        uint64_t changed = i ? field_advance(&field, i) : 0;
        sum += field_compute();
        if (i % 2)
            one_checkpoint(setup, session, r, i, changed);
        field_add(&r->bare, field_bare_write(setup, r->mode, field.memory));
        if (i % 2 == 0)
            one_checkpoint(setup, session, r, i, changed);
    }
    field_fast_writes(setup, field.memory, r);
    field_check(session, varve_close(session), "close");
    field_clear(&field);
    if (sum < 0)
        puts("");
}
