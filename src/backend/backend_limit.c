/* A slower storage than there is: at most so many bytes per second, written and read together, and a delay before every
 * verb. For tests and for sharing a machine.
 *
 * Each transfer reserves its time on one line; who has reserved sleeps until its end. Unused time is kept up to the
 * worth of 1 MiB, so a short burst passes at full speed. The line is a word of memory: this backend's own, or that of
 * a file, which all processes of the machine share that name it. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "backend/backend_wrap_private.h"
#include "base/alloc.h"
#include "base/thread.h"

#define BURST_BYTES (1u << 20)
#define AHEAD_BYTES (1u << 30)         /* nobody reserves for more than these */
#define AHEAD_NS UINT64_C(10000000000) /* and this */

struct limit {
    struct wrap wrap;
    uint64_t bytes_per_second;
    uint64_t latency_ns;
    _Atomic uint64_t own;
    _Atomic uint64_t *reserved_ns; /* the line is taken up to here; own, or in a file */
};

static void sleep_until(uint64_t ns) {
    struct timespec at = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}

static uint64_t bytes_to_ns(const struct limit *limit, uint64_t bytes) {
    return (uint64_t)((double)bytes * 1e9 / (double)limit->bytes_per_second);
}

/* From when on the next one may reserve. A file may be older than the last start of the machine, when the clock began
 * anew, or hold anything: a time that nobody can have reserved is none. */
static uint64_t line_start(const struct limit *limit, uint64_t taken_ns, uint64_t now_ns) {
    uint64_t burst = bytes_to_ns(limit, BURST_BYTES), ahead = bytes_to_ns(limit, AHEAD_BYTES) + AHEAD_NS;
    if (taken_ns > now_ns && taken_ns - now_ns > ahead)
        return now_ns;
    uint64_t first = now_ns > burst ? now_ns - burst : 0;
    return taken_ns > first ? taken_ns : first;
}

static void transfer(struct limit *limit, uint64_t bytes) {
    if (limit->bytes_per_second == 0 || bytes == 0)
        return;
    uint64_t now = vv_clock_ns(), taken = atomic_load(limit->reserved_ns), until;
    do
        until = line_start(limit, taken, now) + bytes_to_ns(limit, bytes);
    while (!atomic_compare_exchange_weak(limit->reserved_ns, &taken, until));
    if (until > now)
        sleep_until(until);
}

static int limit_enter(struct wrap *wrap, struct wrap_op *op) {
    struct limit *limit = (struct limit *)wrap;
    if (limit->latency_ns)
        sleep_until(vv_clock_ns() + limit->latency_ns);
    if (op->verb == VV_VERB_WRITE || op->verb == VV_VERB_REPLACE)
        transfer(limit, op->size);
    return 0;
}

static int64_t limit_leave(struct wrap *wrap, struct wrap_op *op, int64_t result) {
    if (op->verb == VV_VERB_GET && result > 0)
        transfer((struct limit *)wrap, (uint64_t)result);
    return result;
}

static void limit_destroy(struct wrap *wrap) {
    struct limit *limit = (struct limit *)wrap;
    if (limit->reserved_ns != &limit->own)
        munmap((void *)limit->reserved_ns, sizeof(*limit->reserved_ns));
}

static const struct wrap_hooks limit_hooks = {
    .name = "limit", .enter = limit_enter, .leave = limit_leave, .destroy = limit_destroy};

/* A file of another size, or of another user, is somebody else's: nothing is written into it. */
static int make_capacity(int fd) {
    struct stat info;
    if (fstat(fd, &info) < 0)
        return -errno;
    if (info.st_uid != geteuid() || info.st_nlink != 1)
        return -EPERM;
    if (!S_ISREG(info.st_mode) || (info.st_size != 0 && info.st_size != sizeof(uint64_t)))
        return -EEXIST;
    return info.st_size == 0 && ftruncate(fd, sizeof(uint64_t)) < 0 ? -errno : 0;
}

static int map_line(const char *file, _Atomic uint64_t **out) {
    int fd = open(file, O_RDWR | O_CREAT | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd < 0)
        return -errno;
    int result = make_capacity(fd);
    if (result == 0) {
        void *line = mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (line == MAP_FAILED)
            result = -errno;
        else
            *out = line;
    }
    close(fd);
    return result;
}

int vv_limit_backend_wrap(struct varve_backend *inner, uint64_t bytes_per_second, uint64_t latency_ns, const char *file,
                          struct varve_backend **out) {
    struct limit *limit = vv_calloc(1, sizeof(*limit));
    if (!limit)
        return -ENOMEM;
    vv_wrap_init(&limit->wrap, &limit_hooks, inner);
    limit->bytes_per_second = bytes_per_second;
    limit->latency_ns = latency_ns;
    limit->reserved_ns = &limit->own;
    int result = file ? map_line(file, &limit->reserved_ns) : 0;
    if (result < 0) {
        vv_free(limit);
        return result;
    }
    *out = &limit->wrap.base;
    return 0;
}
