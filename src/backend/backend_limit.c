/* A slower storage than there is: at most so many bytes per second, written and read together, and a delay before every
 * verb. For tests and for sharing a machine.
 *
 * Each transfer reserves its time on one line; who has reserved sleeps until its end. Unused time is kept up to the
 * worth of 1 MiB, so a short burst passes at full speed. */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "backend/backend_wrap.h"
#include "base/alloc.h"
#include "base/thread.h"

#define BURST_BYTES (1u << 20)

struct limit {
    struct wrap wrap;
    uint64_t bytes_per_second;
    uint64_t latency_ns;
    pthread_mutex_t lock;
    uint64_t reserved_ns; /* the line is taken up to here */
};

static void sleep_until(uint64_t ns) {
    struct timespec at = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}

static uint64_t bytes_to_ns(const struct limit *limit, uint64_t bytes) {
    return (uint64_t)((double)bytes * 1e9 / (double)limit->bytes_per_second);
}

static void transfer(struct limit *limit, uint64_t bytes) {
    if (limit->bytes_per_second == 0 || bytes == 0)
        return;
    uint64_t now = vv_clock_ns(), burst = bytes_to_ns(limit, BURST_BYTES);
    pthread_mutex_lock(&limit->lock);
    if (limit->reserved_ns + burst < now)
        limit->reserved_ns = now - burst;
    limit->reserved_ns += bytes_to_ns(limit, bytes);
    uint64_t until = limit->reserved_ns;
    pthread_mutex_unlock(&limit->lock);
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
    pthread_mutex_destroy(&((struct limit *)wrap)->lock);
}

static const struct wrap_hooks limit_hooks = {
    .name = "limit", .enter = limit_enter, .leave = limit_leave, .destroy = limit_destroy};

int vv_limit_backend_wrap(struct varve_backend *inner, uint64_t bytes_per_second, uint64_t latency_ns,
                          struct varve_backend **out) {
    struct limit *limit = vv_calloc(1, sizeof(*limit));
    if (!limit)
        return -ENOMEM;
    vv_wrap_init(&limit->wrap, &limit_hooks, inner);
    limit->bytes_per_second = bytes_per_second;
    limit->latency_ns = latency_ns;
    pthread_mutex_init(&limit->lock, NULL);
    *out = &limit->wrap.base;
    return 0;
}
