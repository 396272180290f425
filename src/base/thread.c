/* The pool is one lock, a ring of waiting jobs, and three conditions: there is work, there is room, all is quiet. A
 * round ends in vv_pool_wait; between its first failed job and that end nothing more is run. */
#include "base/thread.h"
#include "base/alloc.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

struct job {
    vv_job_fn fn;
    void *arg;
};

struct vv_pool {
    pthread_mutex_t lock;
    pthread_cond_t has_work;
    pthread_cond_t not_full;
    pthread_cond_t is_quiet;
    struct job *ring;
    unsigned capacity; /* of the ring */
    unsigned first;    /* oldest waiting job */
    unsigned waiting;  /* jobs in the ring */
    unsigned running;
    int error; /* first of this round */
    int is_closing;
    const struct vv_placement *where;
    unsigned threads;
    pthread_t ids[];
};

static struct job take_job(struct vv_pool *pool) {
    struct job job = pool->ring[pool->first];
    pool->first = (pool->first + 1) % pool->capacity;
    pool->waiting--;
    pthread_cond_signal(&pool->not_full);
    return job;
}

static void note_result(struct vv_pool *pool, int rc) {
    if (rc < 0 && !pool->error) {
        pool->error = rc;
        pthread_cond_broadcast(&pool->not_full); /* nobody needs room for a round that has failed */
    }
}

static void *work(void *arg) {
    struct vv_pool *pool = arg;
    vv_thread_place(pool->where);
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->waiting && !pool->is_closing)
            pthread_cond_wait(&pool->has_work, &pool->lock);
        if (!pool->waiting)
            break;
        struct job job = take_job(pool);
        if (!pool->error) {
            pool->running++;
            pthread_mutex_unlock(&pool->lock);
            int rc = job.fn(job.arg);
            pthread_mutex_lock(&pool->lock);
            pool->running--;
            note_result(pool, rc);
        }
        if (!pool->waiting && !pool->running)
            pthread_cond_broadcast(&pool->is_quiet);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* "2+4-7". */
static int parse_cpus(const char *text, cpu_set_t *out) {
    CPU_ZERO(out);
    for (;;) {
        char *end;
        if (*text < '0' || *text > '9')
            return -1;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (*end == '-' && end[1] >= '0' && end[1] <= '9')
            last = strtoul(end + 1, &end, 10);
        if (last < first || last >= CPU_SETSIZE)
            return -1;
        for (; first <= last; first++)
            CPU_SET(first, out);
        if (*end != '+')
            return *end ? -1 : 0;
        text = end + 1;
    }
}

int vv_cpus_are_valid(const char *text) {
    cpu_set_t cpus;
    return strcmp(text, "auto") == 0 || parse_cpus(text, &cpus) == 0;
}

void vv_thread_place(const struct vv_placement *where) {
    cpu_set_t cpus;
    if (!where)
        return;
    if (where->nice > 0) {
        id_t self = (id_t)gettid();
        errno = 0;
        int now = getpriority(PRIO_PROCESS, self);
        if (now != -1 || errno == 0)
            setpriority(PRIO_PROCESS, self, now + where->nice);
    }
    if (parse_cpus(where->cpus, &cpus) == 0)
        pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);
}

/* Signals belong to the threads of the application, except those that a thread brings upon itself. */
static void block_signals(sigset_t *before) {
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
    sigset_t blocked;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        sigdelset(&blocked, own[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, before);
}

int vv_thread_start(pthread_t *out, void *(*fn)(void *), void *arg) {
    sigset_t before;
    block_signals(&before);
    int rc = pthread_create(out, NULL, fn, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -rc;
}

static int start_workers(struct vv_pool *pool, unsigned threads) {
    int rc = 0;
    while (pool->threads < threads && rc == 0) {
        rc = vv_thread_start(&pool->ids[pool->threads], work, pool);
        if (rc == 0)
            pool->threads++;
    }
    return rc;
}

int vv_pool_create(unsigned threads, unsigned queue, const struct vv_placement *where, struct vv_pool **out) {
    struct vv_pool *pool = vv_calloc(1, sizeof *pool + threads * sizeof pool->ids[0]);
    if (!pool)
        return -ENOMEM;
    pool->capacity = queue ? queue : 1;
    pool->where = where;
    pool->ring = vv_calloc(pool->capacity, sizeof pool->ring[0]);
    if (!pool->ring) {
        vv_free(pool);
        return -ENOMEM;
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->has_work, NULL);
    pthread_cond_init(&pool->not_full, NULL);
    pthread_cond_init(&pool->is_quiet, NULL);
    int rc = start_workers(pool, threads);
    if (rc < 0) {
        vv_pool_destroy(pool);
        return rc;
    }
    *out = pool;
    return 0;
}

void vv_pool_destroy(struct vv_pool *pool) {
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->is_closing = 1;
    pthread_cond_broadcast(&pool->has_work);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->threads; i++)
        pthread_join(pool->ids[i], NULL);
    pthread_cond_destroy(&pool->is_quiet);
    pthread_cond_destroy(&pool->not_full);
    pthread_cond_destroy(&pool->has_work);
    pthread_mutex_destroy(&pool->lock);
    vv_free(pool->ring);
    vv_free(pool);
}

static int run_in_caller(struct vv_pool *pool, vv_job_fn fn, void *arg) {
    if (!pool->error)
        note_result(pool, fn(arg));
    return pool->error;
}

int vv_pool_submit(struct vv_pool *pool, vv_job_fn fn, void *arg) {
    if (!pool->threads)
        return run_in_caller(pool, fn, arg);
    pthread_mutex_lock(&pool->lock);
    while (pool->waiting == pool->capacity && !pool->error)
        pthread_cond_wait(&pool->not_full, &pool->lock);
    int rc = pool->error;
    if (!rc) {
        pool->ring[(pool->first + pool->waiting) % pool->capacity] = (struct job){fn, arg};
        pool->waiting++;
        pthread_cond_signal(&pool->has_work);
    }
    pthread_mutex_unlock(&pool->lock);
    return rc;
}

int vv_pool_wait(struct vv_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    while (pool->waiting || pool->running)
        pthread_cond_wait(&pool->is_quiet, &pool->lock);
    int rc = pool->error;
    pool->error = 0;
    pthread_mutex_unlock(&pool->lock);
    return rc;
}

static uint64_t read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t vv_clock_ns(void) {
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t vv_clock_wall_ns(void) {
    return read_clock(CLOCK_REALTIME);
}

uint64_t vv_clock_thread_ns(void) {
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

void vv_cond_init(pthread_cond_t *cond) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

int vv_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until) {
    struct timespec at = {.tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u)};
    return pthread_cond_timedwait(cond, lock, &at);
}

void vv_sleep_ms(unsigned ms) {
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {
    }
}

int vv_random(void *out, size_t size) {
    uint8_t *at = out;
    while (size) {
        ssize_t n = getrandom(at, size, 0);
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0) {
            at += n;
            size -= (size_t)n;
        }
    }
    return 0;
}
