/* What libvarve_preload takes of a program that allocates: run it as it is, and by `varve run` (alloc.sh does both).
 *
 *   bench-alloc [--json] [--small N] [--large N] [--size SIZE]
 *
 * N small allocations (10 million unless told) of 16 to 1024 bytes, of which 4096 are live at a time, in an order by
 * chance. Then N large ones (20,000) of SIZE (256 KiB), one after the other, of which each page is written once. */
#include <stdio.h>
#include <stdlib.h>
#include <varve/varve.h>

#include "bench.h"
#include "options.h"

#define LIVE 4096

static struct {
    int is_json;
    unsigned small, large;
    size_t size;
} options = {.small = 10000000, .large = 20000, .size = 256 * 1024};

static const struct bench_option command_line[] = {
    {"--json", .flag = &options.is_json},
    {"--small", .number = &options.small, .least = 1, .most = 1u << 31},
    {"--large", .number = &options.large, .least = 1, .most = 1u << 31},
    {"--size", "SIZE", .bytes = &options.size, .least = 4096},
    {0},
};

static char *volatile live[LIVE];

static double run_small(void) {
    uint64_t chance = 1;
    double begin = bench_now();
    for (unsigned i = 0; i < options.small; i++) {
        uint64_t word = bench_random(&chance);
        char *volatile *slot = &live[word % LIVE];
        free(*slot);
        *slot = malloc(16 + (word >> 32) % 1009);
        bench_check(*slot != NULL, "no memory");
        (*slot)[0] = (char)i;
    }
    double seconds = bench_now() - begin;
    for (unsigned i = 0; i < LIVE; i++)
        free(live[i]);
    return seconds;
}

static double run_large(void) {
    double begin = bench_now();
    for (unsigned i = 0; i < options.large; i++) {
        live[0] = malloc(options.size);
        bench_check(live[0] != NULL, "no memory");
        for (size_t at = 0; at < options.size; at += 4096)
            live[0][at] = (char)i;
        free(live[0]);
    }
    return bench_now() - begin;
}

int main(int argc, char **argv) {
    options_read(command_line, argc, argv);
    double small = run_small(), large = run_large();
    if (options.is_json)
        printf("{\"bench\": \"alloc\", \"ns_small\": %.2f, \"ns_large\": %.1f}\n", small / options.small * 1e9,
               large / options.large * 1e9);
    else
        printf("%.2f ns for each small allocation, %.1f ns for each large one\n", small / options.small * 1e9,
               large / options.large * 1e9);
    return 0;
}
