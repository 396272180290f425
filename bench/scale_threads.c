/* bench-scale-restart under SimGrid: the threads of the library are actors of the simulation, on the host of their
 * rank.
 *
 * All actors take turns in one thread of the system, and give way only inside calls of SimGrid. A lock of the system
 * that one of them holds while it waits would stop all others. So here are the calls of the system by which the library
 * starts threads, locks, waits, sleeps and asks for the time or for random numbers; the linker's --wrap puts them in.
 * The library is as it is, down to its object files.
 *
 * Ranks of a node share memory that each maps for itself. They are one process here: all get the same mapping, so a
 * futex in it has one address. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "scale.h"

#undef clock_gettime
#undef nanosleep
#undef usleep

#define EPOCH_S 1000000 /* when the simulation begins: no time is 0 */
#define YIELD_S 1e-6
#define LEAST_S 1e-7 /* of any sleep: SimGrid's clock does not go on for less than 1 ns */
#define BUCKETS 4096u
#define STACK (96u << 10) /* of a thread: there are tens of thousands, and SimGrid touches all of it */

/* ---- waiting ---- */

struct waiter {
    sg_sem_t bell;
    int is_called;
    struct waiter *next;
};

struct queue {
    struct waiter *first;
};

static double now(void) {
    return simgrid_get_clock() + EPOCH_S;
}

static double seconds_of(const struct timespec *time) {
    return (double)time->tv_sec + (double)time->tv_nsec * 1e-9;
}

static double at_least(double seconds) {
    return seconds > LEAST_S ? seconds : LEAST_S;
}

static void line_up(struct queue *queue, struct waiter *waiter) {
    struct waiter **last = &queue->first;
    while (*last)
        last = &(*last)->next;
    *waiter = (struct waiter){.bell = sg_sem_init(0)};
    *last = waiter;
}

static void step_out(struct queue *queue, const struct waiter *waiter) {
    struct waiter **link = &queue->first;
    while (*link && *link != waiter)
        link = &(*link)->next;
    if (*link)
        *link = waiter->next;
}

/* Of one who has lined up: 1 when it was called, 0 when so many seconds are over (below 0: never). One who is called at
 * the very end still gets the bell, which must not be gone before. */
static int wait_in_line(struct queue *queue, struct waiter *waiter, double seconds) {
    if (seconds < 0 || sg_sem_acquire_timeout(waiter->bell, at_least(seconds)) == 0) {
        if (seconds < 0)
            sg_sem_acquire(waiter->bell);
        waiter->is_called = 1;
    } else if (waiter->is_called)
        sg_sem_acquire(waiter->bell);
    else
        step_out(queue, waiter);
    sg_sem_destroy(waiter->bell);
    return waiter->is_called;
}

/* The one that waits longest. 0: nobody does. */
static int call_next(struct queue *queue) {
    struct waiter *waiter = queue->first;
    if (!waiter)
        return 0;
    queue->first = waiter->next;
    waiter->is_called = 1;
    sg_sem_release(waiter->bell);
    return 1;
}

/* Calling lets others run, and some come back to wait: only as many as wait now are called, and at most so many. */
static long call_all(struct queue *queue, long most) {
    long count = 0, called = 0;
    for (const struct waiter *waiter = queue->first; waiter && count < most; waiter = waiter->next)
        count++;
    while (called < count && call_next(queue))
        called++;
    return called;
}

/* ---- locks and conditions, in the memory of the system's, where zeros are a free lock ---- */

struct lock {
    int is_taken;
    struct queue queue;
};

_Static_assert(sizeof(struct lock) <= sizeof(pthread_mutex_t), "a lock fits");
_Static_assert(sizeof(struct queue) <= sizeof(pthread_cond_t), "a condition fits");

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes) {
    (void)attributes;
    *(struct lock *)(void *)mutex = (struct lock){0};
    return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex) {
    (void)mutex;
    return 0;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex) {
    struct lock *lock = (struct lock *)(void *)mutex;
    struct waiter waiter;
    while (lock->is_taken) {
        line_up(&lock->queue, &waiter);
        wait_in_line(&lock->queue, &waiter, -1);
    }
    lock->is_taken = 1;
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex) {
    struct lock *lock = (struct lock *)(void *)mutex;
    lock->is_taken = 0;
    call_next(&lock->queue);
    return 0;
}

int __wrap_pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes);
int __wrap_pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes) {
    (void)attributes;
    *(struct queue *)(void *)condition = (struct queue){0};
    return 0;
}

int __wrap_pthread_cond_destroy(pthread_cond_t *condition);
int __wrap_pthread_cond_destroy(pthread_cond_t *condition) {
    (void)condition;
    return 0;
}

int __wrap_pthread_cond_signal(pthread_cond_t *condition);
int __wrap_pthread_cond_signal(pthread_cond_t *condition) {
    call_next((struct queue *)(void *)condition);
    return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *condition);
int __wrap_pthread_cond_broadcast(pthread_cond_t *condition) {
    call_all((struct queue *)(void *)condition, LONG_MAX);
    return 0;
}

static int wait_for(pthread_cond_t *condition, pthread_mutex_t *mutex, double seconds) {
    struct queue *queue = (struct queue *)(void *)condition;
    struct waiter waiter;
    line_up(queue, &waiter);
    __wrap_pthread_mutex_unlock(mutex);
    int is_called = wait_in_line(queue, &waiter, seconds);
    __wrap_pthread_mutex_lock(mutex);
    return is_called ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
    return wait_for(condition, mutex, -1);
}

/* All clocks are the simulated one. */
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
    double seconds = seconds_of(until) - now();
    return wait_for(condition, mutex, seconds > 0 ? seconds : 0);
}

/* ---- threads ---- */

struct thread {
    void *(*fn)(void *arg);
    void *arg, *result;
    int is_over;
    struct queue queue;
};

static void run(int argc, char **argv) {
    (void)argc, (void)argv;
    struct thread *thread = sg_actor_self_get_data();
    thread->result = thread->fn(thread->arg);
    thread->is_over = 1;
    call_next(&thread->queue);
}

int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*fn)(void *), void *arg) {
    struct thread *thread = calloc(1, sizeof *thread);
    (void)attributes;
    if (!thread)
        return ENOMEM;
    *thread = (struct thread){.fn = fn, .arg = arg};
    *out = (pthread_t)thread;
    sg_actor_t actor = sg_actor_init("thread", sg_actor_get_host(sg_actor_self()));
    sg_actor_set_data(actor, thread);
    sg_actor_set_stacksize(actor, STACK);
    sg_actor_start_(actor, run, 0, NULL);
    return 0;
}

int __wrap_pthread_join(pthread_t id, void **result);
int __wrap_pthread_join(pthread_t id, void **result) {
    struct thread *thread = (struct thread *)id;
    struct waiter waiter;
    if (!thread->is_over) {
        line_up(&thread->queue, &waiter);
        wait_in_line(&thread->queue, &waiter, -1);
    }
    if (result)
        *result = thread->result;
    free(thread);
    return 0;
}

/* Of the one thread of the system that all are: nothing changes. */
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *before);
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *before) {
    (void)how, (void)set, (void)before;
    return 0;
}

/* ---- time ---- */

/* Computing takes no time here, so threads have used none. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out) {
    double time = clock == CLOCK_THREAD_CPUTIME_ID || clock == CLOCK_PROCESS_CPUTIME_ID ? 0 : simgrid_get_clock();
    uint64_t ns = (uint64_t)(time * 1e9 + 0.5);
    *out = (struct timespec){(time_t)(EPOCH_S + ns / 1000000000u), (long)(ns % 1000000000u)};
    return 0;
}

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left) {
    double seconds = seconds_of(time) - (flags & TIMER_ABSTIME ? now() : 0);
    (void)clock, (void)left;
    if (seconds > 0)
        sg_actor_sleep_for(at_least(seconds));
    return 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left) {
    return __wrap_clock_nanosleep(CLOCK_MONOTONIC, 0, time, left);
}

int __wrap_usleep(useconds_t us);
int __wrap_usleep(useconds_t us) {
    sg_actor_sleep_for(us * 1e-6);
    return 0;
}

int __wrap_sched_yield(void);
int __wrap_sched_yield(void) {
    sg_actor_sleep_for(YIELD_S);
    return 0;
}

/* ---- chance ---- */

uint64_t scale_seed;

/* The same in every run. */
ssize_t __wrap_getrandom(void *out, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *out, size_t size, unsigned flags) {
    uint8_t *bytes = out;
    (void)flags;
    for (size_t i = 0; i < size; i++) {
        scale_seed = scale_seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        bytes[i] = (uint8_t)(scale_seed >> 56);
    }
    return (ssize_t)size;
}

/* ---- futexes ---- */

struct word {
    const uint32_t *at;
    struct queue queue;
    struct word *next;
};

/* Never freed: there are few. */
static struct word *word_at(const uint32_t *at) {
    static struct word *all[BUCKETS];
    struct word **link = &all[((uintptr_t)at >> 2) * UINT64_C(0x9e3779b97f4a7c15) >> 52];
    while (*link && (*link)->at != at)
        link = &(*link)->next;
    if (!*link && (*link = calloc(1, sizeof **link)))
        (*link)->at = at;
    if (!*link)
        abort();
    return *link;
}

static long futex_wait(const uint32_t *at, uint32_t value, const struct timespec *timeout) {
    struct waiter waiter;
    if (*(const volatile uint32_t *)at != value) {
        errno = EAGAIN;
        return -1;
    }
    struct queue *queue = &word_at(at)->queue;
    line_up(queue, &waiter);
    if (wait_in_line(queue, &waiter, timeout ? seconds_of(timeout) : -1))
        return 0;
    errno = ETIMEDOUT;
    return -1;
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
    va_list list;
    long words[6];
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        words[i] = va_arg(list, long);
    va_end(list);
    if (number != SYS_futex)
        return __real_syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
    const uint32_t *at = (const uint32_t *)words[0];
    if ((int)words[1] == FUTEX_WAIT)
        return futex_wait(at, (uint32_t)words[2], (const struct timespec *)words[3]);
    return call_all(&word_at(at)->queue, (int)words[2]);
}

/* ---- memory ---- */

/* How much memory the process has, for statistics: it would look at that of all ranks, for each rank. */
uint64_t __wrap_vv_memory_note(void);
uint64_t __wrap_vv_memory_note(void) {
    return 0;
}

/* Memory that ranks share. */

struct mapping {
    dev_t device;
    ino_t file;
    size_t size, users;
    void *at;
    struct mapping *next;
};

static struct mapping *mappings;

static struct mapping *find_mapping(int fd) {
    struct stat info;
    struct mapping *mapping = mappings;
    if (fstat(fd, &info) < 0)
        return NULL;
    while (mapping && (mapping->device != info.st_dev || mapping->file != info.st_ino))
        mapping = mapping->next;
    if (mapping || !(mapping = calloc(1, sizeof *mapping)))
        return mapping;
    *mapping = (struct mapping){.device = info.st_dev, .file = info.st_ino, .next = mappings};
    mappings = mapping;
    return mapping;
}

void *__real_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    if (fd < 0 || !(flags & MAP_SHARED) || offset)
        return __real_mmap(at, size, protection, flags, fd, offset);
    struct mapping *mapping = find_mapping(fd);
    if (!mapping)
        return MAP_FAILED;
    if (mapping->users == 0) {
        mapping->at = __real_mmap(at, size, protection, flags, fd, offset);
        mapping->size = size;
    }
    if (mapping->at == MAP_FAILED || mapping->size != size)
        return MAP_FAILED;
    mapping->users++;
    return mapping->at;
}

int __real_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size) {
    struct mapping **link = &mappings, *mapping;
    while (*link && (*link)->at != at)
        link = &(*link)->next;
    mapping = *link;
    if (!mapping)
        return __real_munmap(at, size);
    if (--mapping->users > 0)
        return 0;
    *link = mapping->next; /* another file may get its number */
    free(mapping);
    return __real_munmap(at, size);
}
