/* The parent's side of a frozen copy; frozen_child.c has the other. Both wait for each other by futexes. A
 * pipe, into which nobody writes, tells the child when its parent is gone or has become another program. */
#include "frozen/frozen.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "frozen/frozen_child.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#define LOOK_MS 50    /* while an answer is waited for: is the child still there? */
#define READY_MS 100  /* to close descriptors, which a file on a network may make long; then it does so later */
#define KILL_MS 100   /* to end by itself; then it is killed */
#define END_MS 2000   /* to be gone after all; then it is left to itself */
#define ALL_SIGNALS 8 /* bytes of the kernel's set */

struct vv_frozen {
    struct vv_frozen_shared *shared; /* NULL: left to a child that did not end; the next needs its own */
    size_t mapped;
    int pipe[2];
    int pid, pidfd;  /* pid 0: none */
    int left_pidfd;  /* of one that did not end; -1: none */
    int owner;       /* the process that made it */
    int has_adopted; /* the child runs as the thread that reads does */
    int is_tried;    /* one has answered */
    int fatal_signal, fatal_run;
    char disposition[96];
};

const uint8_t *vv_frozen_buffer(const struct vv_frozen *frozen) {
    return frozen->shared->buffer;
}
int vv_frozen_pid(const struct vv_frozen *frozen) {
    return frozen->pid;
}
const char *vv_frozen_why_gone(const struct vv_frozen *frozen) {
    return frozen->disposition;
}
int vv_frozen_fatal_run(const struct vv_frozen *frozen) {
    return frozen->fatal_run;
}
int vv_frozen_met_a_hole(const struct vv_frozen *frozen) {
    return frozen->fatal_signal == SIGSEGV || frozen->fatal_signal == SIGBUS;
}

/* ---- made and unmade ---- */

static void close_fd(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* What is shared with a child. */
static void close_parts(struct vv_frozen *frozen) {
    if (frozen->shared)
        munmap(frozen->shared, frozen->mapped);
    frozen->shared = NULL;
    close_fd(&frozen->pipe[0]);
    close_fd(&frozen->pipe[1]);
}

static int open_parts(struct vv_frozen *frozen) {
    frozen->mapped = sizeof *frozen->shared + VV_FROZEN_BYTES;
    void *at = mmap(NULL, frozen->mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return -ENOMEM;
    frozen->shared = at;
    int rc = pipe2(frozen->pipe, O_CLOEXEC) == 0 ? 0 : -errno;
    if (rc != 0) {
        frozen->pipe[0] = frozen->pipe[1] = -1;
        close_parts(frozen);
    }
    return rc;
}

int vv_frozen_create(struct vv_frozen **out) {
    struct vv_frozen *frozen = vv_calloc(1, sizeof *frozen);
    if (!frozen)
        return -ENOMEM;
    frozen->pidfd = frozen->left_pidfd = frozen->pipe[0] = frozen->pipe[1] = -1;
    int rc = open_parts(frozen);
    if (rc != 0) {
        vv_free(frozen);
        return rc;
    }
    *out = frozen;
    return 0;
}

/* One that did not end in time may have by now. */
static void take_left(struct vv_frozen *frozen) {
    siginfo_t info;
    if (frozen->left_pidfd >= 0)
        waitid((idtype_t)P_PIDFD, (id_t)frozen->left_pidfd, &info, WEXITED | WNOHANG | __WALL);
    close_fd(&frozen->left_pidfd);
}

void vv_frozen_destroy(struct vv_frozen *frozen) {
    if (!frozen)
        return;
    vv_frozen_end(frozen);
    take_left(frozen);
    close_parts(frozen);
    vv_free(frozen);
}

/* ---- the child's end ---- */

static int wait_for_child(const struct vv_frozen *frozen, int options, siginfo_t *info) {
    int rc = -1;
    *info = (siginfo_t){.si_pid = 0};
    do {
        rc = frozen->pidfd >= 0 ? waitid((idtype_t)P_PIDFD, (id_t)frozen->pidfd, info, options | __WALL) : -1;
        if (frozen->pidfd < 0 || (rc != 0 && errno == EINVAL)) /* before Linux 5.4 */
            rc = waitid(P_PID, (id_t)frozen->pid, info, options | __WALL);
    } while (rc != 0 && errno == EINTR);
    return rc == 0 ? 0 : -errno;
}

/* Is it gone, and how? It is not waited for yet, so that its number stays its own. */
static int is_gone(struct vv_frozen *frozen) {
    siginfo_t info;
    int rc = wait_for_child(frozen, WEXITED | WNOHANG | WNOWAIT, &info);
    if (rc == 0 && info.si_pid == 0)
        return 0;
    uint32_t at = __atomic_load_n(&frozen->shared->at, __ATOMIC_ACQUIRE);
    frozen->fatal_run = at < VV_FROZEN_RUNS ? (int)at : -1;
    if (rc != 0)
        snprintf(frozen->disposition, sizeof frozen->disposition, "somebody else has waited for it");
    else if (info.si_code == CLD_EXITED)
        snprintf(frozen->disposition, sizeof frozen->disposition, "it ended");
    else
        snprintf(frozen->disposition, sizeof frozen->disposition, "it was killed by signal %d", info.si_status);
    frozen->fatal_signal = rc == 0 && info.si_code != CLD_EXITED ? info.si_status : 0;
    return 1;
}

/* By its number only while that is its own: somebody else may have waited for it, and then it may be another's. */
static void signal_child(const struct vv_frozen *frozen, int number) {
    siginfo_t info;
    if (frozen->pidfd >= 0 && (syscall(SYS_pidfd_send_signal, frozen->pidfd, number, NULL, 0) == 0 || errno == ESRCH))
        return;
    if (wait_for_child(frozen, WEXITED | WNOHANG | WNOWAIT, &info) == 0)
        kill(frozen->pid, number);
}

/* Told through the memory that both share: a program that has become another user since may not send signals to it.
 * 1 if it is gone, 0 if it is still there after a while. */
static int end_child(struct vv_frozen *frozen) {
    siginfo_t info;
    uint64_t start = vv_clock_ns(), passed = 0;
    int is_killed = 0;
    __atomic_store_n(&frozen->shared->must_end, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&frozen->shared->asked, frozen->shared->asked + 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &frozen->shared->asked, FUTEX_WAKE, 1, NULL, NULL, 0);
    while (passed < END_MS) {
        struct pollfd poll_it = {frozen->pidfd, POLLIN, 0};
        if (frozen->pidfd < 0 || poll(&poll_it, 1, LOOK_MS) > 0) {
            if (wait_for_child(frozen, WEXITED | WNOHANG, &info) != 0 || info.si_pid != 0)
                return 1;
            vv_sleep_ms(1); /* before Linux 5.3 a poll does not wait */
        }
        passed = (vv_clock_ns() - start) / 1000000;
        if (passed >= KILL_MS && !is_killed)
            signal_child(frozen, SIGKILL);
        is_killed |= passed >= KILL_MS;
        if (passed >= LOOK_MS)
            signal_child(frozen, SIGCONT); /* of a session everybody may */
    }
    return 0;
}

int vv_frozen_end(struct vv_frozen *frozen) {
    int has_ended = 1;
    if (!frozen->pid)
        return 0;
    if (frozen->owner == getpid())
        has_ended = end_child(frozen);
    if (!has_ended) { /* it ends when it sees the word, or nobody at the other end of the pipe */
        close_parts(frozen);
        take_left(frozen);
        frozen->left_pidfd = frozen->pidfd;
        frozen->pidfd = -1;
    }
    close_fd(&frozen->pidfd);
    frozen->pid = 0;
    return has_ended ? 0 : -ETIMEDOUT;
}

/* ---- freezing ---- */

/* 1 if nobody came: the child may have been stopped, as whole groups of processes are, and is told to go on then. */
static int futex_wait(uint32_t *word, uint32_t value, unsigned milliseconds) {
    struct timespec patience = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
    return syscall(SYS_futex, word, FUTEX_WAIT, value, &patience, NULL, 0) != 0 && errno == ETIMEDOUT;
}

/* When this returns well, the child keeps no pipe, socket or lock of the program open. */
static int wait_until_ready(struct vv_frozen *frozen) {
    uint32_t *word = &frozen->shared->is_ready;
    uint64_t start = vv_clock_ns();
    while (!__atomic_load_n(word, __ATOMIC_ACQUIRE)) {
        int is_late = futex_wait(word, 0, LOOK_MS);
        if (!__atomic_load_n(word, __ATOMIC_ACQUIRE) && is_gone(frozen))
            return -ECHILD;
        if (is_late)
            signal_child(frozen, SIGCONT);
        if (vv_clock_ns() - start > READY_MS * UINT64_C(1000000))
            return 0;
    }
    return 0;
}

static long spawn(struct vv_frozen *frozen) {
#if VV_FROZEN_IS_KNOWN
    uint64_t all = ~UINT64_C(0), before; /* of the kernel: pthread_sigmask leaves out two that the C library uses */
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, ALL_SIGNALS);
    long pid = vv_frozen_spawn(frozen->shared, &frozen->pidfd);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, ALL_SIGNALS);
    return pid;
#else
    (void)frozen;
    return -ENOTSUP;
#endif
}

/* A child of a thread that has asked for another namespace would be the first in it, and take it along when it ends.
 * A namespace without a first process has no name yet. */
static int has_other_namespace(void) {
    static const char path[] = "/proc/thread-self/ns/pid_for_children";
    char own[64] = "", childrens[64] = "";
    struct stat stat;
    ssize_t a = readlink("/proc/thread-self/ns/pid", own, sizeof own - 1);
    ssize_t b = readlink(path, childrens, sizeof childrens - 1);
    if (b < 0)
        return a > 0 && errno == ENOENT && lstat(path, &stat) == 0;
    return a > 0 && strcmp(own, childrens) != 0;
}

static int refuse_freezing(struct vv_frozen *frozen, const char *why) {
    snprintf(frozen->disposition, sizeof frozen->disposition, "%s", why);
    return -ENOTSUP;
}

/* It works for the thread that reads, on the processors and behind the threads that this one is behind. The one that
 * made it may be bound to a processor that the program wants for itself. */
static void adopt(struct vv_frozen *frozen) {
    cpu_set_t set;
    int kept = errno;
    frozen->has_adopted = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        sched_setaffinity(frozen->pid, sizeof set, &set);
    setpriority(PRIO_PROCESS, (id_t)frozen->pid, getpriority(PRIO_PROCESS, 0));
    errno = kept;
}

static int ask_child(struct vv_frozen *frozen, const struct vv_frozen_run *runs, size_t count,
                     enum vv_frozen_after after, int wants_memory) {
    struct vv_frozen_shared *shared = frozen->shared;
    if (!frozen->pid || frozen->owner != getpid())
        return -ECHILD;
    if (count > VV_FROZEN_RUNS)
        return -EINVAL;
    if (!frozen->has_adopted)
        adopt(frozen);
    uint32_t number = shared->asked + 1;
    struct vv_frozen_request *request = &shared->requests[number % 2];
    request->count = (uint32_t)count;
    request->after = after;
    request->wants_memory = wants_memory;
    if (count > 0)
        memcpy(request->runs, runs, count * sizeof *runs);
    __atomic_store_n(&shared->asked, number, __ATOMIC_RELEASE);
    syscall(SYS_futex, &shared->asked, FUTEX_WAKE, 1, NULL, NULL, 0);
    for (uint32_t seen; (seen = __atomic_load_n(&shared->answered, __ATOMIC_ACQUIRE)) != number;) {
        int is_late = futex_wait(&shared->answered, seen, LOOK_MS);
        if (__atomic_load_n(&shared->answered, __ATOMIC_ACQUIRE) != number && is_gone(frozen))
            return -ECHILD;
        if (is_late)
            signal_child(frozen, SIGCONT);
    }
    return 0;
}

/* Does the first one answer at all? In a box that refuses what it needs it does not. */
static int try_first(struct vv_frozen *frozen) {
    int rc = ask_child(frozen, NULL, 0, VV_FROZEN_KEEP, 0);
    frozen->is_tried = rc == 0;
    frozen->has_adopted = 0; /* another thread will read */
    return rc;
}

static void prepare_child(struct vv_frozen *frozen, const struct vv_frozen_range *kept, size_t count) {
    struct vv_frozen_shared *shared = frozen->shared;
    shared->is_ready = shared->asked = shared->answered = shared->must_end = 0;
    shared->at = UINT32_MAX;
    shared->is_trial = !frozen->is_tried;
    shared->parent = frozen->owner = getpid();
    shared->pipe = frozen->pipe[0];
    shared->page = (size_t)sysconf(_SC_PAGESIZE);
    shared->kept_count = (uint32_t)count;
    memcpy(shared->kept, kept, count * sizeof *kept);
    frozen->has_adopted = frozen->fatal_signal = 0;
    frozen->fatal_run = -1;
}

int vv_frozen_begin(struct vv_frozen *frozen, const struct vv_frozen_range *kept, size_t count) {
    if (frozen->pid || count > VV_FROZEN_KEPT)
        return -EINVAL;
    frozen->disposition[0] = 0;
    take_left(frozen);
    if (!VV_FROZEN_IS_KNOWN)
        return refuse_freezing(frozen, "a frozen copy is known for x86_64 and aarch64 only");
    if (has_other_namespace())
        return refuse_freezing(frozen, "the process has asked for another process namespace for its children");
    int rc = frozen->shared ? 0 : open_parts(frozen);
    if (rc != 0)
        return rc;
    prepare_child(frozen, kept, count);
    long pid = spawn(frozen);
    if (pid < 0)
        return (int)pid;
    frozen->pid = (int)pid;
    rc = wait_until_ready(frozen);
    if (rc == 0 && !frozen->is_tried && frozen->shared->is_ready)
        rc = try_first(frozen);
    if (rc != 0)
        vv_frozen_end(frozen);
    return rc;
}

int vv_frozen_read(struct vv_frozen *frozen, const struct vv_frozen_run *runs, size_t count,
                   enum vv_frozen_after after) {
    return ask_child(frozen, runs, count, after, 0);
}

int64_t vv_frozen_memory(struct vv_frozen *frozen) {
    static const char word[] = "Private_Dirty:";
    int rc = ask_child(frozen, NULL, 0, VV_FROZEN_KEEP, 1);
    const char *found = rc == 0 ? strstr(frozen->shared->text, word) : NULL;
    return rc != 0 ? rc : found ? strtoll(found + strlen(word), NULL, 10) * 1024 : -ENOTSUP;
}

/* ---- does it work here? ---- */

static int try_out(struct vv_frozen *frozen, volatile uint8_t *page, size_t size) {
    struct vv_frozen_range kept = {(uintptr_t)page, size};
    struct vv_frozen_run run = {(uintptr_t)page, (uint32_t)size, 0};
    memset((void *)page, 'b', size);
    int rc = vv_frozen_begin(frozen, &kept, 1);
    if (rc != 0)
        return rc;
    memset((void *)page, 'a', size);
    rc = vv_frozen_read(frozen, &run, 1, VV_FROZEN_GIVE);
    for (size_t i = 0; rc == 0 && i < size; i++)
        rc = frozen->shared->buffer[i] == 'b' ? 0 : -EIO;
    return rc;
}

static int probe(char *why, size_t capacity) {
    struct vv_frozen *frozen = NULL;
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int rc = page == MAP_FAILED ? -ENOMEM : vv_frozen_create(&frozen);
    if (rc == 0)
        rc = try_out(frozen, page, size);
    if (rc != 0)
        snprintf(why, capacity, "a frozen copy could not be made and read: %s%s%s", strerror(-rc),
                 frozen && frozen->disposition[0] ? ": " : "", frozen ? frozen->disposition : "");
    vv_frozen_destroy(frozen);
    if (page != MAP_FAILED)
        munmap(page, size);
    return rc;
}

static pthread_mutex_t answering = PTHREAD_MUTEX_INITIALIZER;
static int is_answered, answer;
static char reason[160];

int vv_frozen_may_pass(int rc) {
    return rc == -EAGAIN || rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE;
}

int vv_frozen_works(char *why, size_t capacity) {
    pthread_mutex_lock(&answering);
    if (!is_answered) {
        reason[0] = 0;
        answer = probe(reason, sizeof reason);
        is_answered = !vv_frozen_may_pass(answer);
    }
    int rc = answer;
    snprintf(why, capacity, "%s", reason);
    pthread_mutex_unlock(&answering);
    return rc;
}
