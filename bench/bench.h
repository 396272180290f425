/* What the benchmarks share: time, medians, a bare file to compare with, and files that shall be read cold. All of it
 * ends the program with a message when the system refuses: a benchmark has nothing to go on with. */
#ifndef BENCH_H
#define BENCH_H

#include <stddef.h>
#include <stdint.h>

#define BENCH_MIB ((size_t)1 << 20)

/* Exit with a message (and errno) unless ok. */
void bench_check(int ok, const char *what);
double bench_now(void);    /* seconds, monotonic */
double bench_cpu(void);    /* seconds of processor time of all threads of this process so far */
uint64_t bench_peak(void); /* bytes of memory this process has had at the most (VmHWM) */
/* Begin it anew: what the process has now. */
uint64_t bench_peak_anew(void);
double bench_median(const double *list, size_t n); /* 0 of nothing */
uint64_t bench_random(uint64_t *state);            /* splitmix64 */
void *bench_pages(size_t size);                    /* fresh memory, not touched */

/* ---- the bare way: one new file ---- */
double bench_bare_write(const char *path, const void *data, size_t size); /* 1 MiB write() calls, fsync; seconds */
double bench_bare_read(const char *path, void *data, size_t size);        /* 1 MiB read() calls; seconds */

/* Faster than the bare way: past the page cache, several at once. data is page-aligned. */
struct bench_way {
    const char *name;
    size_t bytes; /* per call */
    unsigned threads;
};
extern const struct bench_way bench_ways[];
extern const size_t bench_way_count;
double bench_direct_write(const char *path, const void *data, size_t size, const struct bench_way *way); /* seconds */
double bench_direct_read(const char *path, void *data, size_t size, const struct bench_way *way);

/* ---- folders ---- */
void bench_remove(const char *path);    /* a file or a folder with all it holds; need not exist */
void bench_cool(const char *path);      /* write back and drop from the page cache, a file or all files of a folder */
uint64_t bench_bytes(const char *path); /* sum of the file sizes of a folder */

#endif
