/* Fine chunks on many ranks: graphlet degree vectors of a Delaunay triangulation, counted by all ranks together.
 *
 *   mpirun -n RANKS bench-merkle-ranks [--json] [--vertices N] [--checkpoints N] [--chunk BYTES] [--methods
 * full,tree,...]
 *          [--settings TEXT] [FOLDER]
 *
 * As in figure 6 of Tan et al., ICPP 2023: each rank has vectors for all vertices, counts the subgraphs that begin at
 * its own part of them, and takes ten checkpoints meanwhile; the results would be added up at the end. So most of a
 * rank's memory stays as it is, and the more ranks there are, the more.
 *
 * full: every checkpoint holds everything. pages: 4 KiB that have changed (fine=1), nothing between ranks. tree: each
 * rank looks for fine chunks by itself. tree-exact: the same, and what no rank knows finely is compared with all ranks,
 * 4 KiB by 4 KiB.
 *
 * stored: data and metadata of all ranks and checkpoints. seconds: from the call until stored, all checkpoints, as the
 * slowest rank sees it; write_over_full: time of full over it. The last checkpoint is restored into other memory and
 * compared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"
#include "details.h"
#include "graphlets.h"
#include "options.h"
#include "ranks.h"

static const struct method {
    const char *name, *settings;
} methods[] = {{"full", "fine_method=full,dedup=none"},
               {"pages", "fine=1,dedup=none"},
               {"tree", "dedup=local"},
               {"tree-exact", "dedup=exact"}};
#define METHODS (sizeof methods / sizeof methods[0])

static uint32_t vertices = 32768;
static unsigned checkpoints = 10, chunk = 128;
static const char *only_methods = "full,pages,tree,tree-exact", *more_settings = "", *folder = ".";
static int is_json;

struct result {
    double protected_bytes, stored, metadata, seconds, blocked;
};

static void check(const struct varve_session *session, int rc, const char *what) {
    if (rc < 0) {
        fprintf(stderr, "bench-merkle-ranks: rank %u: %s: %s\n", ranks_own(), what, varve_session_error(session)->text);
        exit(1);
    }
}

static struct varve_session *open_store(const char *store, const struct method *method) {
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session = NULL;
    struct varve_error error = {0};
    char settings[512];
    snprintf(settings, sizeof settings, "codec=none,keep=2,fine=%u,%s%s%s", chunk, method->settings,
             more_settings[0] ? "," : "", more_settings);
    if (strcmp(method->name, "pages") == 0)
        snprintf(settings, sizeof settings, "codec=none,keep=2,%s%s%s", method->settings, more_settings[0] ? "," : "",
                 more_settings);
    options.settings = settings;
    if (ranks_open(store, method->name, &options, &session, &error) != 0) {
        fprintf(stderr, "bench-merkle-ranks: %s\n", error.text);
        exit(1);
    }
    return session;
}

static void save(struct varve_session *session, unsigned version, struct result *result) {
    struct vv_details stats = {0};
    double start = ranks_start();
    check(session, varve_checkpoint(session, version), "checkpoint");
    check(session, varve_wait(session), "wait");
    result->seconds += ranks_stop(start);
    check(session, vv_details_get(session, &stats), "statistics");
    result->blocked += stats.seconds_blocked;
    result->protected_bytes += (double)stats.bytes_protected;
    result->stored += (double)stats.bytes_stored;
    result->metadata += (double)stats.bytes_metadata;
}

static void compare(struct varve_session *session, uint32_t *vectors, size_t bytes) {
    uint32_t *expected = malloc(bytes);
    bench_check(expected != NULL, "memory");
    memcpy(expected, vectors, bytes);
    memset(vectors, 0xff, bytes);
    check(session, varve_restart(session, VARVE_LATEST, NULL), "restart");
    bench_check(memcmp(vectors, expected, bytes) == 0, "what was restored is not what was saved");
    free(expected);
}

static struct result run(const struct graph *graph, const struct method *method, const char *store) {
    struct result result = {0};
    struct graphlets counting;
    size_t bytes = (size_t)graph->vertices * graphlets_orbits(5) * sizeof(uint32_t);
    uint32_t *vectors = bench_pages(bytes);
    uint64_t first = (uint64_t)graph->vertices * ranks_own() / ranks_all();
    uint64_t count = (uint64_t)graph->vertices * (ranks_own() + 1) / ranks_all() - first;
    bench_check(vectors != NULL, "memory");
    memset(vectors, 0, bytes);
    graphlets_init(&counting, graph, 5, BY_ORBIT, vectors);
    struct varve_session *session = open_store(store, method);
    check(session, varve_protect(session, "vectors", vectors, bytes), "protect");
    for (unsigned i = 0; i < checkpoints; i++) {
        graphlets_count(&counting, (uint32_t)(first + count * i / checkpoints),
                        (uint32_t)(first + count * (i + 1) / checkpoints));
        save(session, i, &result);
    }
    compare(session, vectors, bytes);
    check(session, varve_close(session), "close");
    graphlets_clear(&counting);
    munmap(vectors, bytes);
    return result;
}

static void report(const struct method *method, struct result result, double full_seconds) {
    double stored = ranks_sum(result.stored), metadata = ranks_sum(result.metadata);
    double all = ranks_sum(result.protected_bytes), blocked = ranks_most(result.blocked);
    if (ranks_own() != 0)
        return;
    if (is_json)
        printf(
            "{\"bench\":\"merkle-ranks\",\"graph\":\"delaunay\",\"ranks\":%u,\"vertices\":%u,\"method\":\"%s\","
            "\"chunk\":%u,"
            "\"checkpoints\":%u,\"full_bytes\":%.0f,\"stored\":%.0f,\"metadata\":%.0f,\"ratio\":%.4g,\"seconds\":%.4g,"
            "\"blocked\":%.4g,\"speed_over_full\":%.4g}\n",
            ranks_all(), vertices, method->name, chunk, checkpoints, all, stored + metadata, metadata,
            all / (stored + metadata), result.seconds, blocked, full_seconds > 0 ? full_seconds / result.seconds : 0);
    else
        printf("%3u ranks  %-10s  %8.1f MB of %.1f MB, %.1f times less; %.2f s\n", ranks_all(), method->name,
               (stored + metadata) / 1e6, all / 1e6, all / (stored + metadata), result.seconds);
    fflush(stdout);
}

static const struct bench_option command_line[] = {
    {"--json", .flag = &is_json},
    {"--vertices", .number = &vertices, .least = 1000, .most = 100000000},
    {"--checkpoints", .number = &checkpoints, .least = 1},
    {"--chunk", "BYTES", .number = &chunk},
    {"--methods", "full,pages,tree,tree-exact", .list = &only_methods},
    {"--settings", "TEXT", .text = &more_settings},
    {"FOLDER", .text = &folder},
    {0},
};

int main(int argc, char **argv) {
    options_read(command_line, argc, argv);
    ranks_begin(&argc, &argv);
    char store[4000];
    double full_seconds = 0;
    struct graph *graph = graph_make("delaunay", vertices, 1);
    bench_check(graph != NULL, "a graph");
    vertices = graph->vertices;
    for (size_t i = 0; i < METHODS; i++) {
        if (!options_has(only_methods, methods[i].name))
            continue;
        snprintf(store, sizeof store, "%s/bench-merkle-ranks", folder);
        if (ranks_own() == 0)
            bench_remove(store);
        ranks_meet();
        struct result result = run(graph, &methods[i], store);
        if (i == 0)
            full_seconds = result.seconds;
        report(&methods[i], result, full_seconds);
        ranks_meet();
        if (ranks_own() == 0)
            bench_remove(store);
    }
    graph_free(graph);
    ranks_end();
    return 0;
}
