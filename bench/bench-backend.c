/* How fast the file backend is against the bare calls of the same size, on the file system of a folder.
 *
 *   bench-backend [--json] [--rounds N] [--size MIB] [--only write|read] [FOLDER]
 *
 * Write: a new file by 1 MiB write() calls and fsync, against create, write and commit of an object, in variants. Read:
 * the same bytes cold (the page cache is dropped before), by a read() loop, against get by 1, 2 and 4 threads. Rounds
 * are interleaved; medians. Each begins with an unmeasured bare pass, because pages that have not been in use lately
 * can cost several times as much to get, and that would all fall on the bare way. "ratio" is the speed against the bare
 * way of the same table. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/thread.h"
#include "options.h"
#include "storage/file_private.h"

#define MIB (1u << 20)
#define ROUNDS_MAX 51
#define SOURCE_MIB 64u

static uint8_t *source;
static size_t total = 512 * (size_t)MIB;
static unsigned rounds = 7;
static int is_json;
static const char *folder = ".", *only = "";

static void check(int ok, const char *what) {
    if (!ok) {
        perror(what);
        exit(1);
    }
}

struct variant {
    const char *name;
    int direct;
    struct vv_file_tuning tuning;
    unsigned threads; /* of reading; 0: the bare way */
    size_t shift;     /* unaligned reading: offset of all pieces */
    double seconds[ROUNDS_MAX];
    double cpu[ROUNDS_MAX];
};

static struct variant writes[] = {
    {.name = "bare write 1 MiB + fsync"},
    {.name = "default", .threads = 1},
    {.name = "buffered, no early writeback",
     .direct = VV_DIRECT_OFF,
     .tuning = {.skip_early_writeback = 1},
     .threads = 1},
    {.name = "buffered, early writeback", .direct = VV_DIRECT_OFF, .threads = 1},
    {.name = "direct 1 MiB x 1", .tuning = {.block_bytes = MIB, .in_flight = 1}, .threads = 1},
    {.name = "direct 1 MiB x 2", .tuning = {.block_bytes = MIB, .in_flight = 2}, .threads = 1},
    {.name = "direct 1 MiB x 4", .tuning = {.block_bytes = MIB, .in_flight = 4}, .threads = 1},
    {.name = "direct 2 MiB x 2", .tuning = {.block_bytes = 2 * MIB - 8192, .in_flight = 2}, .threads = 1},
    {.name = "direct 2 MiB x 4", .tuning = {.block_bytes = 2 * MIB - 8192, .in_flight = 4}, .threads = 1},
    {.name = "direct 2 MiB x 4, fallocate",
     .tuning = {.block_bytes = 2 * MIB - 8192, .in_flight = 4, .preallocate = 1},
     .threads = 1},
    {.name = "direct 4 MiB x 1", .tuning = {.block_bytes = 4 * MIB, .in_flight = 1}, .threads = 1},
    {.name = "direct 4 MiB x 2", .tuning = {.block_bytes = 4 * MIB, .in_flight = 2}, .threads = 1},
    {.name = "direct 4 MiB x 4", .tuning = {.block_bytes = 4 * MIB, .in_flight = 4}, .threads = 1},
    {.name = "direct 4 MiB x 2, fallocate",
     .tuning = {.block_bytes = 4 * MIB, .in_flight = 2, .preallocate = 1},
     .threads = 1},
};

static struct variant reads[] = {
    {.name = "bare read 1 MiB"},
    {.name = "default, 1 thread", .threads = 1},
    {.name = "default, 2 threads", .threads = 2},
    {.name = "default, 4 threads", .threads = 4},
    {.name = "default, 1 thread, unaligned", .threads = 1, .shift = 96},
    {.name = "default, 2 threads, unaligned", .threads = 2, .shift = 96},
    {.name = "default, 4 threads, unaligned", .threads = 4, .shift = 96},
    {.name = "buffered, 1 thread", .direct = VV_DIRECT_OFF, .threads = 1},
    {.name = "buffered, 2 threads", .direct = VV_DIRECT_OFF, .threads = 2},
    {.name = "buffered, 4 threads", .direct = VV_DIRECT_OFF, .threads = 4},
};

static double seconds_now(void) {
    return (double)vv_clock_ns() * 1e-9;
}

static double cpu_now(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6;
}

static void path_of(const char *name, char *out, size_t capacity) {
    snprintf(out, capacity, "%s/bench-backend.store/%s", folder, name);
}

static struct varve_backend *open_backend(const struct variant *variant) {
    struct vv_backend_options options = {.may_create = 1, .direct = variant->direct, .tuning = &variant->tuning};
    struct varve_backend *backend = NULL;
    struct varve_error error;
    char root[3100];
    snprintf(root, sizeof(root), "%s/bench-backend.store", folder);
    if (vv_backend_open(root, &options, &backend, &error) < 0) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    return backend;
}

static const uint8_t *piece(uint64_t offset) {
    return source + offset % (SOURCE_MIB * (uint64_t)MIB);
}

static void write_bare(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    check(fd >= 0, path);
    for (uint64_t at = 0; at < total; at += MIB)
        check(write(fd, piece(at), MIB) == MIB, "write");
    check(fsync(fd) == 0, "fsync");
    close(fd);
}

static void write_ours(struct varve_backend *backend) {
    struct varve_upload *upload = NULL;
    check(vv_backend_create(backend, "ours", total, &upload) == 0, "create");
    for (uint64_t at = 0; at < total; at += MIB)
        check(vv_backend_upload_write(upload, piece(at), MIB) == 0, "upload_write");
    check(vv_backend_upload_commit(upload) == 0, "commit");
}

static void run_write(struct variant *variant, unsigned round) {
    char path[3200];
    path_of(variant->threads ? "ours" : "bare", path, sizeof(path));
    unlink(path);
    struct varve_backend *backend = open_backend(variant);
    double cpu = cpu_now(), start = seconds_now();
    if (variant->threads)
        write_ours(backend);
    else
        write_bare(path);
    variant->seconds[round] = seconds_now() - start;
    variant->cpu[round] = cpu_now() - cpu;
    vv_backend_close(backend);
    unlink(path);
}

static void drop_cache(const char *path) {
    int fd = open(path, O_RDONLY);
    check(fd >= 0, path);
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

struct reader {
    struct varve_backend *backend;
    pthread_mutex_t lock;
    uint64_t next;
    size_t shift;
};

static void *read_main(void *arg) {
    struct reader *reader = arg;
    uint8_t *memory = NULL;
    check(posix_memalign((void **)&memory, 4096, MIB) == 0, "memory");
    for (;;) {
        pthread_mutex_lock(&reader->lock);
        uint64_t at = reader->next;
        reader->next += MIB;
        pthread_mutex_unlock(&reader->lock);
        if (at + reader->shift >= total)
            break;
        check(vv_backend_get(reader->backend, "read", at + reader->shift, memory, MIB) > 0, "get");
        check(memcmp(memory, piece(at) + reader->shift, 4096 - reader->shift) == 0, "compare");
    }
    free(memory);
    return NULL;
}

static void read_bare(const char *path) {
    uint8_t *memory = NULL;
    check(posix_memalign((void **)&memory, 4096, MIB) == 0, "memory");
    int fd = open(path, O_RDONLY);
    check(fd >= 0, path);
    while (read(fd, memory, MIB) > 0)
        ;
    close(fd);
    free(memory);
}

static void run_read(struct variant *variant, unsigned round) {
    char path[3200];
    pthread_t threads[8];
    path_of("read", path, sizeof(path));
    struct reader reader = {
        .backend = open_backend(variant), .lock = PTHREAD_MUTEX_INITIALIZER, .shift = variant->shift};
    drop_cache(path);
    double cpu = cpu_now(), start = seconds_now();
    if (variant->threads == 0)
        read_bare(path);
    for (unsigned i = 0; i < variant->threads; i++)
        check(pthread_create(&threads[i], NULL, read_main, &reader) == 0, "thread");
    for (unsigned i = 0; i < variant->threads; i++)
        pthread_join(threads[i], NULL);
    variant->seconds[round] = seconds_now() - start;
    variant->cpu[round] = cpu_now() - cpu;
    vv_backend_close(reader.backend);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values) {
    double sorted[ROUNDS_MAX];
    memcpy(sorted, values, sizeof(sorted));
    qsort(sorted, rounds, sizeof(*sorted), compare);
    return sorted[rounds / 2];
}

static void report(const char *what, struct variant *variants, size_t count) {
    double bare = median(variants[0].seconds);
    if (!is_json)
        printf("%-5s %-32s %9s %9s %7s %7s %7s\n", what, "way", "MB/s", "slowest", "ratio", "cpu s", "best");
    for (size_t i = 0; i < count; i++) {
        double mid = median(variants[i].seconds), low = 1e9, high = 0;
        for (unsigned r = 0; r < rounds; r++) {
            low = variants[i].seconds[r] < low ? variants[i].seconds[r] : low;
            high = variants[i].seconds[r] > high ? variants[i].seconds[r] : high;
        }
        const char *format =
            is_json
                ? "{\"bench\":\"backend\",\"what\":\"%s\",\"way\":\"%s\",\"mb_per_s\":%.0f,\"slowest_mb_per_s\":%.0f,"
                  "\"ratio\":%.2f,\"cpu_s\":%.2f,\"best_mb_per_s\":%.0f}\n"
                : "%-5s %-32s %9.0f %9.0f %7.2f %7.2f %7.0f\n";
        double mb = (double)total / 1e6;
        printf(format, what, variants[i].name, mb / mid, mb / high, bare / mid, median(variants[i].cpu), mb / low);
    }
}

static const struct bench_option command_line[] = {
    {"--json", .flag = &is_json},
    {"--rounds", .number = &rounds, .least = 1, .most = ROUNDS_MAX},
    {"--size", "MIB", .size = &total, .least = MIB, .step = MIB},
    {"--only", "write|read", .choice = &only},
    {"FOLDER", .text = &folder},
    {0},
};

static void measure(const char *what, void (*run)(struct variant *, unsigned), struct variant *variants, size_t count) {
    if (*only && strcmp(only, what) != 0)
        return;
    for (unsigned round = 0; round < rounds; round++) {
        run(&variants[0], round);
        for (size_t i = 0; i < count; i++)
            run(&variants[i], round);
    }
    report(what, variants, count);
}

int main(int argc, char **argv) {
    char path[3200];
    options_read(command_line, argc, argv);
    source = malloc(SOURCE_MIB * (size_t)MIB + MIB);
    check(source != NULL, "memory");
    for (size_t i = 0; i < (SOURCE_MIB + 1) * (size_t)MIB / 8; i++)
        ((uint64_t *)(void *)source)[i] = (i % (SOURCE_MIB * (size_t)MIB / 8)) * 0x9e3779b97f4a7c15ull;
    vv_backend_close(open_backend(&writes[1]));
    measure("write", run_write, writes, sizeof(writes) / sizeof(*writes));
    path_of("read", path, sizeof(path));
    write_bare(path);
    measure("read", run_read, reads, sizeof(reads) / sizeof(*reads));
    unlink(path);
    snprintf(path, sizeof(path), "%s/bench-backend.store", folder);
    rmdir(path);
    return 0;
}
