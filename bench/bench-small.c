/* How long a small checkpoint takes until it survives, beside a bare file of the same bytes.
 *
 *   bench-small [--json] [--size SIZE] [--checkpoints N] [--settings TEXT] [FOLDER]
 *
 * SIZE bytes (1 MiB unless told) of noise, all of it new each time. With so little data it is the calls of fsync that
 * take the time. In turns: a bare file, by write() and fsync; and a checkpoint, from varve_checkpoint to the return of
 * varve_wait. The first five of each do not count. Medians and the worst of N (100 unless told). What is done after
 * varve_wait has returned has the time between two turns, 20 ms, to itself. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <varve/varve.h>

#include "bench.h"
#include "options.h"

#define WARM 5
#define MOST 10000
#define PAUSE_US 20000

static struct {
    int is_json;
    size_t size;
    unsigned checkpoints;
    const char *settings, *folder;
    char bare[3000], store[3000];
} options = {.size = BENCH_MIB, .checkpoints = 100, .settings = "keep=2,log=error", .folder = "."};

static double bare_times[MOST], durable_times[MOST];

static const struct bench_option command_line[] = {
    {"--json", .flag = &options.is_json},
    {"--size", "SIZE", .size = &options.size, .least = 8},
    {"--checkpoints", .number = &options.checkpoints, .least = 1, .most = MOST},
    {"--settings", "TEXT", .text = &options.settings},
    {"FOLDER", .text = &options.folder},
    {0},
};

static double save(struct varve_session *session, int64_t version) {
    double begin = bench_now();
    int rc = varve_checkpoint(session, version);
    rc = rc ? rc : varve_wait(session);
    double seconds = bench_now() - begin;
    bench_check(rc == 0, varve_session_error(session)->text);
    return seconds;
}

static void measure(struct varve_session *session, uint8_t *data) {
    uint64_t state = 1;
    for (unsigned i = 0; i < options.checkpoints + WARM; i++) {
        for (size_t at = 0; at + 8 <= options.size; at += 8) {
            uint64_t word = bench_random(&state);
            memcpy(data + at, &word, 8);
        }
        double bare = bench_bare_write(options.bare, data, options.size);
        bench_remove(options.bare);
        double durable = save(session, i);
        if (i >= WARM) {
            bare_times[i - WARM] = bare;
            durable_times[i - WARM] = durable;
        }
        usleep(PAUSE_US);
    }
}

static double worst_of(const double *list) {
    double worst = 0;
    for (unsigned i = 0; i < options.checkpoints; i++)
        worst = list[i] > worst ? list[i] : worst;
    return worst;
}

static void report(void) {
    double bare = bench_median(bare_times, options.checkpoints);
    double durable = bench_median(durable_times, options.checkpoints);
    printf(options.is_json
               ? "{\"bytes\": %zu, \"bare_ms\": %.3f, \"durable_ms\": %.3f, \"over_bare\": %.2f, "
                 "\"bare_worst_ms\": %.3f, \"durable_worst_ms\": %.3f}\n"
               : "%zu new bytes: bare %.3f ms, until durable %.3f ms, %.2f of bare; the worst %.3f and %.3f "
                 "ms\n",
           options.size, bare * 1e3, durable * 1e3, durable / bare, worst_of(bare_times) * 1e3,
           worst_of(durable_times) * 1e3);
}

int main(int argc, char **argv) {
    struct varve_options opening = VARVE_OPTIONS_INIT;
    struct varve_session *session;
    struct varve_error error;
    options_read(command_line, argc, argv);
    snprintf(options.bare, sizeof options.bare, "%s/small-bare", options.folder);
    snprintf(options.store, sizeof options.store, "%s/small-store", options.folder);
    uint8_t *data = bench_pages(options.size);
    bench_remove(options.store);
    opening.settings = options.settings;
    bench_check(varve_open(options.store, "small", &opening, &session, &error) == 0, error.text);
    bench_check(varve_protect(session, "data", data, options.size) == 0, "protect");
    measure(session, data);
    bench_check(varve_close(session) == 0, "close");
    bench_remove(options.store);
    report();
    return 0;
}
