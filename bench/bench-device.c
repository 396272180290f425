/* How fast an OpenCL device finds what changed, without storing it: bytes compared per second, beside memcpy of the
 * same bytes on the host.
 *
 *     bench-device [--size MEBIBYTES] [--chunk BYTES] [--rounds N]
 *
 * A line of JSON for each share of granules that change between two checkpoints (one word in each), and one for the
 * first checkpoint. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "opencl_private.h"
#include "options.h"

#define PART (UINT64_C(64) << 20)
#define SEED UINT64_C(42)

struct bench {
    uint64_t bytes;
    uint32_t chunk, rounds, source;
    cl_command_queue queue;
    cl_mem buffer;
    struct cl_region *region;
    uint8_t *host, *copy;
    uint8_t *is_usable;
    uint64_t state;
};

/* Time that has passed, and time that processors have worked. */
struct spent {
    double *seconds, *cpu;
    double since, cpu_since;
};

static void begin(struct spent *spent) {
    spent->since = bench_now();
    spent->cpu_since = bench_cpu();
}

static void end(struct spent *spent, uint32_t round) {
    spent->seconds[round] = bench_now() - spent->since;
    spent->cpu[round] = bench_cpu() - spent->cpu_since;
}

static void check(int rc, const char *what) {
    if (rc) {
        fprintf(stderr, "bench-device: %s: %d\n", what, rc);
        exit(1);
    }
}

static uint64_t next(struct bench *bench) {
    return bench_random(&bench->state);
}

static void open_device(struct bench *bench) {
    cl_platform_id platform;
    cl_device_id device;
    cl_int code;
    char why[512] = "";
    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS) {
        fprintf(stderr, "bench-device: there is no OpenCL device\n");
        exit(77);
    }
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    check(code, "clCreateContext");
    bench->queue = clCreateCommandQueue(context, device, 0, &code);
    check(code, "clCreateCommandQueue");
    bench->buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, bench->bytes, NULL, &code);
    check(code, "clCreateBuffer");
    code = vv_cl_region_create(bench->queue, bench->buffer, 0, bench->bytes, &bench->region, why, sizeof why);
    if (code)
        fprintf(stderr, "bench-device: %s\n", why);
    check(code, "vv_cl_region_create");
}

/* One word of so many of a hundred granules, or, with 100, all words of all of them. */
static void change(struct bench *bench, unsigned percent) {
    uint64_t *words = (uint64_t *)(void *)bench->host;
    if (percent == 100)
        for (uint64_t i = 0; i < bench->bytes / 8; i++)
            words[i] = next(bench);
    for (uint64_t i = 0; percent < 100 && i < bench->bytes / VARVE_GRANULE; i++)
        if (next(bench) % 100 < percent)
            words[i * (VARVE_GRANULE / 8) + next(bench) % (VARVE_GRANULE / 8)] = next(bench);
    check(clEnqueueWriteBuffer(bench->queue, bench->buffer, CL_TRUE, 0, bench->bytes, bench->host, 0, NULL, NULL),
          "write");
}

static void compare(struct bench *bench, uint64_t *data_bytes, uint64_t *runs) {
    struct varve_ask ask = {.size = sizeof ask,
                            .total = bench->bytes,
                            .seed = SEED,
                            .source = bench->source,
                            .chunk = bench->chunk,
                            .most = bench->bytes / 8 / 32, /* an eighth of the region, 32 bytes each */
                            .is_usable = bench->is_usable,
                            .source_count = bench->source + 1};
    *data_bytes = *runs = 0;
    for (uint64_t at = 0; at < bench->bytes; at += ask.length) {
        struct varve_answer answer;
        ask.offset = at;
        ask.length = bench->bytes - at < PART ? bench->bytes - at : PART;
        check(vv_cl_ops.compare(bench->region, &ask, &answer), bench->region->why);
        *data_bytes += answer.data_bytes;
        *runs += answer.run_count;
    }
}

static void spent_init(struct spent *spent, uint32_t rounds) {
    spent->seconds = calloc(rounds, sizeof(double));
    spent->cpu = calloc(rounds, sizeof(double));
    bench_check(spent->seconds && spent->cpu, "memory");
}

static void spent_clear(struct spent *spent) {
    free(spent->seconds);
    free(spent->cpu);
}

static void measure(struct bench *bench, unsigned percent) {
    struct spent found, copied;
    uint64_t data = 0, runs = 0;
    spent_init(&found, bench->rounds);
    spent_init(&copied, bench->rounds);
    for (uint32_t i = 0; i < bench->rounds; i++) {
        change(bench, percent);
        begin(&copied);
        memcpy(bench->copy, bench->host, bench->bytes);
        end(&copied, i);
        begin(&found);
        compare(bench, &data, &runs);
        end(&found, i);
        check(vv_cl_ops.settle(bench->region, 1), "settle");
        bench->source++;
    }
    double seconds = bench_median(found.seconds, bench->rounds), cpu = bench_median(found.cpu, bench->rounds);
    double memcpy_seconds = bench_median(copied.seconds, bench->rounds),
           memcpy_cpu = bench_median(copied.cpu, bench->rounds);
    printf("{\"bench\":\"device\",\"bytes\":%" PRIu64 ",\"chunk\":%u,\"changed_percent\":%u,\"seconds\":%.4f,"
           "\"cpu_seconds\":%.4f,\"memcpy_seconds\":%.4f,\"memcpy_cpu_seconds\":%.4f,\"throughput_over_memcpy\":%.3f,"
           "\"cpu_over_memcpy\":%.3f,\"data_bytes\":%" PRIu64 ",\"runs\":%" PRIu64 "}\n",
           bench->bytes, bench->chunk, percent, seconds, cpu, memcpy_seconds, memcpy_cpu, memcpy_seconds / seconds,
           memcpy_cpu / cpu, data, runs);
    fflush(stdout);
    spent_clear(&found);
    spent_clear(&copied);
}

int main(int argc, char **argv) {
    struct bench bench = {.chunk = 128, .rounds = 5, .state = 1};
    size_t bytes = 256 * BENCH_MIB;
    const struct bench_option command_line[] = {
        {"--size", "MEBIBYTES", .size = &bytes, .least = BENCH_MIB, .step = BENCH_MIB},
        {"--chunk", "BYTES", .number = &bench.chunk},
        {"--rounds", .number = &bench.rounds, .least = 1, .most = 1000},
        {0},
    };
    options_read(command_line, argc, argv);
    bench.bytes = bytes;
    bench.host = malloc(bench.bytes);
    bench.copy = malloc(bench.bytes);
    bench.is_usable = malloc(10000);
    if (!bench.host || !bench.copy || !bench.is_usable)
        return 1;
    memset(bench.is_usable, 1, 10000);
    memset(bench.copy, 1, bench.bytes);
    open_device(&bench);
    measure(&bench, 100);
    measure(&bench, 0);
    measure(&bench, 10);
    vv_cl_ops.leave(bench.region);
    free(bench.host);
    free(bench.copy);
    free(bench.is_usable);
    return 0;
}
