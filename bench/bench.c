/* Helpers of the benchmarks. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void bench_check(int ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "%s: %s\n", what, strerror(errno));
        exit(1);
    }
}

double bench_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

uint64_t bench_peak(void) {
    char line[200];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    bench_check(file != NULL, "/proc/self/status");
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %llu kB", &kib) == 1)
            break;
    fclose(file);
    return kib << 10;
}

uint64_t bench_peak_anew(void) {
    FILE *file = fopen("/proc/self/clear_refs", "w");
    bench_check(file != NULL && fputs("5", file) >= 0 && fclose(file) == 0, "/proc/self/clear_refs");
    return bench_peak();
}

double bench_cpu(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double bench_median(const double *list, size_t n) {
    double sorted[256];
    if (n == 0)
        return 0;
    if (n > 256)
        n = 256;
    memcpy(sorted, list, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare_doubles);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

uint64_t bench_random(uint64_t *state) {
    uint64_t x = *state += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

void *bench_pages(size_t size) {
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bench_check(pages != MAP_FAILED, "mmap");
    return pages;
}

/* ---- the bare way ---- */

double bench_bare_write(const char *path, const void *data, size_t size) {
    const uint8_t *bytes = data;
    unlink(path);
    double begin = bench_now();
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bench_check(fd >= 0, path);
    for (size_t at = 0; at < size; at += BENCH_MIB) {
        size_t count = size - at < BENCH_MIB ? size - at : BENCH_MIB;
        bench_check(write(fd, bytes + at, count) == (ssize_t)count, "write");
    }
    bench_check(fsync(fd) == 0, "fsync");
    close(fd);
    return bench_now() - begin;
}

double bench_bare_read(const char *path, void *data, size_t size) {
    uint8_t *bytes = data;
    double begin = bench_now();
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bench_check(fd >= 0, path);
    for (size_t at = 0; at < size; at += BENCH_MIB) {
        size_t count = size - at < BENCH_MIB ? size - at : BENCH_MIB;
        bench_check(read(fd, bytes + at, count) == (ssize_t)count, "read");
    }
    close(fd);
    return bench_now() - begin;
}

const struct bench_way bench_ways[] = {
    {"direct 1 MiB", BENCH_MIB, 1},
    {"direct 1 MiB x 4", BENCH_MIB, 4},
    {"direct 4 MiB x 2", 4 * BENCH_MIB, 2},
};
const size_t bench_way_count = sizeof bench_ways / sizeof bench_ways[0];

#define WAY_THREADS_MAX 16

/* A thread of a direct write or read: every threads-th piece. */
struct share {
    pthread_t thread;
    int fd;
    int is_write;
    uint8_t *data;
    size_t size, bytes, first, step;
};

static void *run_share(void *arg) {
    struct share *share = arg;
    for (size_t at = share->first; at < share->size; at += share->step) {
        size_t count = share->size - at < share->bytes ? share->size - at : share->bytes;
        ssize_t done = share->is_write ? pwrite(share->fd, share->data + at, count, (off_t)at)
                                       : pread(share->fd, share->data + at, count, (off_t)at);
        bench_check(done == (ssize_t)count, "direct");
    }
    return NULL;
}

static void run_way(int fd, int is_write, void *data, size_t size, const struct bench_way *way) {
    struct share shares[WAY_THREADS_MAX];
    for (unsigned i = 0; i < way->threads; i++) {
        shares[i] = (struct share){.fd = fd,
                                   .is_write = is_write,
                                   .data = data,
                                   .size = size,
                                   .bytes = way->bytes,
                                   .first = i * way->bytes,
                                   .step = way->threads * way->bytes};
        bench_check(pthread_create(&shares[i].thread, NULL, run_share, &shares[i]) == 0, "thread");
    }
    for (unsigned i = 0; i < way->threads; i++)
        pthread_join(shares[i].thread, NULL);
}

/* Not every file system has O_DIRECT: then without. */
static int open_direct(const char *path, int flags) {
    int fd = open(path, flags | O_DIRECT | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : open(path, flags | O_CLOEXEC, 0600);
}

double bench_direct_write(const char *path, const void *data, size_t size, const struct bench_way *way) {
    unlink(path);
    double begin = bench_now();
    int fd = open_direct(path, O_WRONLY | O_CREAT);
    bench_check(fd >= 0, path);
    run_way(fd, 1, (void *)(uintptr_t)data, size, way);
    bench_check(fsync(fd) == 0, "fsync");
    close(fd);
    return bench_now() - begin;
}

double bench_direct_read(const char *path, void *data, size_t size, const struct bench_way *way) {
    double begin = bench_now();
    int fd = open_direct(path, O_RDONLY);
    bench_check(fd >= 0, path);
    run_way(fd, 0, data, size, way);
    close(fd);
    return bench_now() - begin;
}

/* ---- folders ---- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

void bench_remove(const char *path) {
    nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS);
}

static int cool_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)ftw;
    if (type != FTW_F)
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bench_check(fd >= 0, path);
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
    return 0;
}

void bench_cool(const char *path) {
    bench_check(nftw(path, cool_one, 32, FTW_PHYS) == 0, path);
}

static uint64_t total_bytes;

static int count_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)ftw;
    if (type == FTW_F && !strstr(path, "/.reserve,/"))
        total_bytes += (uint64_t)st->st_size;
    return 0;
}

uint64_t bench_bytes(const char *path) {
    total_bytes = 0;
    bench_check(nftw(path, count_one, 32, FTW_PHYS) == 0, path);
    return total_bytes;
}
