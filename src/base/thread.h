/* Threads: a bounded pool whose jobs are collected as one group, and the clock. */
#ifndef VV_THREAD_H
#define VV_THREAD_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* A pool of `threads` workers (0: jobs run in the caller) with a queue of at most `queue` waiting jobs; submit blocks
 * when it is full. The first negative result of a job is kept; later jobs of the same round are dropped unrun (their
 * drop function is not needed: jobs own nothing that the submitter does not free after the round). */
struct vv_pool;

/* Where threads of the library run, so that they stay out of the program's way. */
struct vv_placement {
    int nice;         /* added to the priority number of the program */
    const char *cpus; /* "auto": as the program; else processors, "2+4-7". Lives as long as the threads begin */
};
/* For the calling thread. What the system refuses is left as it was. NULL does nothing. */
void vv_thread_place(const struct vv_placement *where);
/* 1 if the text names processors or is "auto". */
int vv_cpus_are_valid(const char *text);
/* A thread of the library: signals of the application are not delivered to it. 0 or -errno. */
int vv_thread_start(pthread_t *out, void *(*fn)(void *), void *arg);

typedef int (*vv_job_fn)(void *arg);

/* where (NULL: anywhere) must live as long as the pool. */
int vv_pool_create(unsigned threads, unsigned queue, const struct vv_placement *where, struct vv_pool **out);
void vv_pool_destroy(struct vv_pool *pool); /* waits; accepts NULL */
/* Queue fn(arg). Returns 0, or the error a job of this round already met (fn will not run then). */
int vv_pool_submit(struct vv_pool *pool, vv_job_fn fn, void *arg);
/* Wait until all jobs are done; returns the first error of the round and begins a new round. */
int vv_pool_wait(struct vv_pool *pool);

uint64_t vv_clock_ns(void);        /* monotonic */
uint64_t vv_clock_wall_ns(void);   /* since 1970 */
uint64_t vv_clock_thread_ns(void); /* processor time of the calling thread */
void vv_sleep_ms(unsigned ms);
/* A condition that is waited for until vv_clock_ns() is `until`. */
void vv_cond_init(pthread_cond_t *cond);
/* With the lock. 0, perhaps for nothing, or ETIMEDOUT. */
int vv_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until);
/* Random bytes from the kernel. 0 or -errno. */
int vv_random(void *out, size_t size);

#endif
