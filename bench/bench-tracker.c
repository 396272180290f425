/* What it costs to know which pages changed, with each tracker that works here.
 *
 *   bench-tracker [--size MIB] [--rounds N] [--huge]
 *
 * A region of small pages (or huge ones) of which every tenth page is written between two collects. Medians of rounds:
 * ns_per_write of these pages, of which the tracker's note is a part; collect_ms_per_gib, clearing included; and what
 * it reported. "hash" reads and hashes all of it, as is done where no tracker tells anything. One line of JSON each. */
#include <stdio.h>
#include <sys/mman.h>
#include <xxhash.h>

#include "bench.h"
#include "memory/tracker.h"
#include "options.h"

#define PAGE 4096u
#define STEP 10u
#define ROUNDS_MAX 64u

static size_t size = 256 * BENCH_MIB;
static unsigned rounds = 7;
static int is_huge;

static int sum_changed(void *arg, uint64_t offset, uint64_t length, int is_untouched) {
    (void)offset;
    *(uint64_t *)arg += is_untouched ? 0 : length;
    return 0;
}

static double write_some(volatile uint8_t *bytes, unsigned round) {
    double start = bench_now();
    for (size_t page = round % STEP; page < size / PAGE; page += STEP)
        bytes[page * PAGE]++;
    return (bench_now() - start) * 1e9 / ((double)size / PAGE / STEP);
}

static void print(const char *name, const double *writes, const double *collects, uint64_t changed) {
    printf("{\"bench\":\"tracker\",\"tracker\":\"%s\",\"size\":%zu,\"huge\":%d,\"ns_per_write\":%.0f,"
           "\"collect_ms_per_gib\":%.2f,\"bytes_reported\":%llu}\n",
           name, size, is_huge, bench_median(writes, rounds), bench_median(collects, rounds),
           (unsigned long long)changed);
    fflush(stdout);
}

static double collect(struct vv_tracker *tracker, struct vv_watch *watch, uint64_t *changed) {
    double start = bench_now();
    *changed = 0;
    bench_check(tracker->ops->collect(tracker, watch, sum_changed, changed) == 0, "collect");
    if (tracker->ops->renew)
        tracker->ops->renew(tracker);
    return (bench_now() - start) * 1e3 * 1024 / ((double)size / BENCH_MIB);
}

static void measure(struct vv_tracker *tracker, uint8_t *memory) {
    double writes[ROUNDS_MAX], collects[ROUNDS_MAX];
    struct vv_watch watch = {.ptr = memory, .size = size};
    uint64_t changed;
    bench_check(tracker->ops->attach(tracker, &watch) == 0, "attach");
    collect(tracker, &watch, &changed);
    for (unsigned i = 0; i < rounds; i++) {
        writes[i] = write_some(memory, i);
        collects[i] = collect(tracker, &watch, &changed);
    }
    tracker->ops->detach(tracker, &watch);
    print(tracker->ops->name, writes, collects, changed);
    tracker->ops->close(tracker);
}

static void measure_hash(uint8_t *memory) {
    double writes[ROUNDS_MAX], hashes[ROUNDS_MAX];
    uint64_t sum = 0;
    for (unsigned i = 0; i < rounds; i++) {
        writes[i] = write_some(memory, i);
        double start = bench_now();
        for (size_t at = 0; at < size; at += PAGE)
            sum ^= XXH3_128bits(memory + at, PAGE).low64;
        hashes[i] = (bench_now() - start) * 1e3 * 1024 / ((double)size / BENCH_MIB);
    }
    print("hash", writes, hashes, size);
    if (sum == 0) /* used, so that no compiler may leave the work out */
        puts("");
}

static const struct bench_option command_line[] = {
    {"--size", "MIB", .size = &size, .least = BENCH_MIB, .step = BENCH_MIB},
    {"--rounds", .number = &rounds, .least = 1, .most = ROUNDS_MAX},
    {"--huge", .flag = &is_huge},
    {0},
};

int main(int argc, char **argv) {
    struct vv_tracker *tracker = NULL;
    char why[128];
    options_read(command_line, argc, argv);
    uint8_t *memory = bench_pages(size);
    madvise(memory, size, is_huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    for (size_t i = 0; i < size; i++)
        memory[i] = (uint8_t)(i * 2654435761u >> 13);
    measure_hash(memory);
    measure(&vv_tracker_none, memory);
    if (vv_tracker_scan(&tracker, why, sizeof why) == 0)
        measure(tracker, memory);
    else
        fprintf(stderr, "scan: %s\n", why);
    if (vv_tracker_softdirty(1, &tracker, why, sizeof why) == 0)
        measure(tracker, memory);
    else
        fprintf(stderr, "softdirty: %s\n", why);
    munmap(memory, size);
    return 0;
}
