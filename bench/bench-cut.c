/* How fast files are cut into content-defined chunks, beside memcpy of the same bytes.
 *
 *   bench-cut [--json] [--size SIZE] [--rounds N]
 *
 * SIZE bytes of noise (256 MiB unless told) in memory, one thread. In turns: memcpy; the cuts for each target (512, 4K,
 * 32K); and the windows of all bytes one after another, without vectors, as the tests check them ("plain"). Medians of
 * N rounds (5 unless told) after one that does not count. share: of the speed of memcpy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "files/cut.h"
#include "options.h"

#define ROUNDS_MOST 100
#define KINDS 5

static const char *const names[KINDS] = {"memcpy", "cdc 512", "cdc 4K", "cdc 32K", "plain"};

static struct {
    int is_json;
    size_t size;
    unsigned rounds;
} options = {.size = 256 * BENCH_MIB, .rounds = 5};

static const struct bench_option command_line[] = {
    {"--json", .flag = &options.is_json},
    {"--size", "SIZE", .size = &options.size, .least = 65536},
    {"--rounds", .number = &options.rounds, .least = 1, .most = ROUNDS_MOST},
    {0},
};

static size_t chunks[KINDS];

static void cut(const uint8_t *data, size_t size, uint32_t target, size_t *count) {
    struct files_cut state;
    uint32_t ends[FILES_CUTS_MOST];

    files_cut_init(&state, target);
    *count = 0;
    for (size_t at = 0; at < size; at += FILES_CUT_BLOCK)
        *count += files_cut_next(&state, data + at, size - at < FILES_CUT_BLOCK ? size - at : FILES_CUT_BLOCK, ends);
}

static void roll(const uint8_t *data, size_t size, size_t *count) {
    uint16_t ends[FILES_CUT_BLOCK];

    *count = 0;
    for (size_t at = 0; at < size; at += FILES_CUT_BLOCK)
        *count +=
            files_cut_scan_plain(data + at, size - at < FILES_CUT_BLOCK ? size - at : FILES_CUT_BLOCK, 0xfffc, ends);
}

static double measure(unsigned kind, const uint8_t *data, uint8_t *copy, size_t size) {
    static const uint32_t targets[KINDS] = {0, 512, 4096, 32768, 0};
    double begin = bench_now();

    if (kind == 0) {
        memcpy(copy, data, size);
        __asm__ volatile("" : : "r"(copy) : "memory"); /* nobody reads it */
    } else if (targets[kind]) {
        cut(data, size, targets[kind], &chunks[kind]);
    } else {
        roll(data, size, &chunks[kind]);
    }
    return bench_now() - begin;
}

static void report(double times[KINDS][ROUNDS_MOST]) {
    double memcpy_speed = (double)options.size / bench_median(times[0], options.rounds);

    for (unsigned kind = 0; kind < KINDS; kind++) {
        double speed = (double)options.size / bench_median(times[kind], options.rounds);
        if (options.is_json) {
            printf("{\"what\":\"%s\",\"bytes_per_second\":%.0f,\"share\":%.4f,\"chunks\":%zu}\n", names[kind], speed,
                   speed / memcpy_speed, chunks[kind]);
        } else {
            printf("%-8s %6.2f GB/s  %5.2f of memcpy  %zu chunks\n", names[kind], speed / 1e9, speed / memcpy_speed,
                   chunks[kind]);
        }
    }
}

int main(int argc, char **argv) {
    static double times[KINDS][ROUNDS_MOST];
    uint64_t state = 1;

    options_read(command_line, argc, argv);
    uint8_t *buffer = bench_pages(options.size + FILES_CUT_BLOCK), *data = buffer + FILES_CUT_BLOCK;
    uint8_t *copy = bench_pages(options.size);
    for (size_t i = 0; i + 8 <= options.size; i += 8) {
        uint64_t word = bench_random(&state);
        memcpy(data + i, &word, 8);
    }
    for (unsigned round = 0; round <= options.rounds; round++)
        for (unsigned kind = 0; kind < KINDS; kind++) {
            double seconds = measure(kind, data, copy, options.size);
            times[kind][round ? round - 1 : 0] = seconds;
        }
    report(times);
    return 0;
}
