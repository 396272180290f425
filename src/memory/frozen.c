/* The parent's side of a frozen copy; frozen_child.c has the other. Both wait for each other by futexes. A
 * pipe, into which nobody writes, tells the child when its parent is gone or has become another program. */
#include "memory/frozen.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "memory/frozen_child.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#define LOOK_MS 50    /* while an answer is waited for: is the child still there? */
#define READY_MS 100  /* to close descriptors, which a file on a network may make long; then it does so later */
#define ALL_SIGNALS 8 /* bytes of the kernel's set */

struct vv_frozen {
    struct vv_frozen_shared *shared;
    size_t mapped;
    int pipe[2];
    int pid, pidfd;  /* pid 0: none */
    int owner;       /* the process that made it */
    int has_adopted; /* the child runs as the thread that reads does */
    int fatal_signal, fatal_run;
    char fate[96];
};

const uint8_t *vv_frozen_buffer(const struct vv_frozen *frozen) {
    return frozen->shared->buffer;
}
int vv_frozen_pid(const struct vv_frozen *frozen) {
    return frozen->pid;
}
const char *vv_frozen_fate(const struct vv_frozen *frozen) {
    return frozen->fate;
}
int vv_frozen_fatal_run(const struct vv_frozen *frozen) {
    return frozen->fatal_run;
}
int vv_frozen_met_a_hole(const struct vv_frozen *frozen) {
    return frozen->fatal_signal == SIGSEGV || frozen->fatal_signal == SIGBUS;
}

/* ---- made and unmade ---- */

int vv_frozen_create(struct vv_frozen **out) {
    struct vv_frozen *frozen = vv_calloc(1, sizeof *frozen);
    if (!frozen)
        return -ENOMEM;
    frozen->pidfd = frozen->pipe[0] = frozen->pipe[1] = -1;
    frozen->mapped = sizeof *frozen->shared + VV_FROZEN_BYTES;
    frozen->shared = mmap(NULL, frozen->mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int rc = frozen->shared == MAP_FAILED ? -ENOMEM : 0;
    if (rc == 0 && pipe2(frozen->pipe, O_CLOEXEC) != 0)
        rc = -errno;
    if (rc != 0) {
        vv_frozen_destroy(frozen);
        return rc;
    }
    *out = frozen;
    return 0;
}

void vv_frozen_destroy(struct vv_frozen *frozen) {
    if (!frozen)
        return;
    vv_frozen_end(frozen);
    if (frozen->shared != MAP_FAILED)
        munmap(frozen->shared, frozen->mapped);
    for (int i = 0; i < 2; i++)
        if (frozen->pipe[i] >= 0)
            close(frozen->pipe[i]);
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
        snprintf(frozen->fate, sizeof frozen->fate, "somebody else has waited for it");
    else if (info.si_code == CLD_EXITED)
        snprintf(frozen->fate, sizeof frozen->fate, "it ended");
    else
        snprintf(frozen->fate, sizeof frozen->fate, "it was killed by signal %d", info.si_status);
    frozen->fatal_signal = rc == 0 && info.si_code != CLD_EXITED ? info.si_status : 0;
    return 1;
}

static void close_pidfd(struct vv_frozen *frozen) {
    if (frozen->pidfd >= 0)
        close(frozen->pidfd);
    frozen->pidfd = -1;
}

/* By its number only while that is its own: somebody else may have waited for it, and then it may be another's. */
static void kill_child(const struct vv_frozen *frozen) {
    siginfo_t info;
    if (frozen->pidfd >= 0 && (syscall(SYS_pidfd_send_signal, frozen->pidfd, SIGKILL, NULL, 0) == 0 || errno == ESRCH))
        return;
    if (wait_for_child(frozen, WEXITED | WNOHANG | WNOWAIT, &info) == 0)
        kill(frozen->pid, SIGKILL);
}

void vv_frozen_end(struct vv_frozen *frozen) {
    siginfo_t info;
    if (!frozen->pid)
        return;
    if (frozen->owner == getpid()) {
        kill_child(frozen);
        wait_for_child(frozen, WEXITED, &info);
    }
    close_pidfd(frozen);
    frozen->pid = 0;
}

/* ---- freezing ---- */

static void futex_wait(uint32_t *word, uint32_t value, unsigned milliseconds) {
    struct timespec patience = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &patience, NULL, 0);
}

/* When this returns well, the child keeps no pipe, socket or lock of the program open. */
static int wait_until_ready(struct vv_frozen *frozen) {
    uint32_t *word = &frozen->shared->is_ready;
    uint64_t start = vv_clock_ns();
    while (!__atomic_load_n(word, __ATOMIC_ACQUIRE)) {
        futex_wait(word, 0, LOOK_MS);
        if (!__atomic_load_n(word, __ATOMIC_ACQUIRE) && is_gone(frozen))
            return -ECHILD;
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

int vv_frozen_begin(struct vv_frozen *frozen, const struct vv_frozen_range *kept, size_t count) {
    struct vv_frozen_shared *shared = frozen->shared;
    if (frozen->pid || count > VV_FROZEN_KEPT)
        return -EINVAL;
    shared->is_ready = shared->asked = shared->answered = 0;
    shared->at = UINT32_MAX;
    shared->parent = frozen->owner = getpid();
    shared->pipe = frozen->pipe[0];
    shared->page = (size_t)sysconf(_SC_PAGESIZE);
    shared->kept_count = (uint32_t)count;
    memcpy(shared->kept, kept, count * sizeof *kept);
    frozen->fate[0] = 0;
    frozen->has_adopted = frozen->fatal_signal = 0;
    frozen->fatal_run = -1;
    long pid = spawn(frozen);
    if (pid < 0)
        return (int)pid;
    frozen->pid = (int)pid;
    int rc = wait_until_ready(frozen);
    if (rc != 0)
        vv_frozen_end(frozen);
    return rc;
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

static int ask(struct vv_frozen *frozen, const struct vv_frozen_run *runs, size_t count, int gives_between,
               int wants_memory) {
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
    request->gives_between = gives_between;
    request->wants_memory = wants_memory;
    if (count > 0)
        memcpy(request->runs, runs, count * sizeof *runs);
    __atomic_store_n(&shared->asked, number, __ATOMIC_RELEASE);
    syscall(SYS_futex, &shared->asked, FUTEX_WAKE, 1, NULL, NULL, 0);
    for (uint32_t seen; (seen = __atomic_load_n(&shared->answered, __ATOMIC_ACQUIRE)) != number;) {
        futex_wait(&shared->answered, seen, LOOK_MS);
        if (__atomic_load_n(&shared->answered, __ATOMIC_ACQUIRE) != number && is_gone(frozen))
            return -ECHILD;
    }
    return 0;
}

int vv_frozen_read(struct vv_frozen *frozen, const struct vv_frozen_run *runs, size_t count, int gives_between) {
    return ask(frozen, runs, count, gives_between, 0);
}

int64_t vv_frozen_memory(struct vv_frozen *frozen) {
    static const char word[] = "Private_Dirty:";
    int rc = ask(frozen, NULL, 0, 0, 1);
    const char *found = rc == 0 ? strstr(frozen->shared->text, word) : NULL;
    return rc != 0 ? rc : found ? strtoll(found + strlen(word), NULL, 10) * 1024 : -ENOTSUP;
}

/* ---- does it work here? ---- */

/* A child of a process that has asked for another namespace would be the first in it, and take it along when it
 * ends. */
static int has_other_namespace(void) {
    char own[64] = "", childrens[64] = "";
    ssize_t a = readlink("/proc/self/ns/pid", own, sizeof own - 1);
    ssize_t b = readlink("/proc/self/ns/pid_for_children", childrens, sizeof childrens - 1);
    return a > 0 && b > 0 && strcmp(own, childrens) != 0;
}

static int try_out(struct vv_frozen *frozen, volatile uint8_t *page, size_t size) {
    struct vv_frozen_range kept = {(uintptr_t)page, size};
    struct vv_frozen_run run = {(uintptr_t)page, (uint32_t)size, 0};
    memset((void *)page, 'b', size);
    int rc = vv_frozen_begin(frozen, &kept, 1);
    if (rc != 0)
        return rc;
    memset((void *)page, 'a', size);
    rc = vv_frozen_read(frozen, &run, 1, 0);
    for (size_t i = 0; rc == 0 && i < size; i++)
        rc = frozen->shared->buffer[i] == 'b' ? 0 : -EIO;
    return rc;
}

static int probe(char *why, size_t room) {
    struct vv_frozen *frozen = NULL;
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    if (!VV_FROZEN_IS_KNOWN) {
        snprintf(why, room, "a frozen copy is known for x86_64 and aarch64 only");
        return -ENOTSUP;
    }
    if (has_other_namespace()) {
        snprintf(why, room, "the process has asked for another process namespace for its children");
        return -ENOTSUP;
    }
    uint8_t *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int rc = page == MAP_FAILED ? -ENOMEM : vv_frozen_create(&frozen);
    if (rc == 0)
        rc = try_out(frozen, page, size);
    if (rc != 0)
        snprintf(why, room, "a frozen copy could not be made and read: %s%s%s", strerror(-rc),
                 frozen && frozen->fate[0] ? ": " : "", frozen ? frozen->fate : "");
    vv_frozen_destroy(frozen);
    if (page != MAP_FAILED)
        munmap(page, size);
    return rc;
}

static pthread_once_t tried = PTHREAD_ONCE_INIT;
static int answer;
static char reason[160];

static void try_once(void) {
    answer = probe(reason, sizeof reason);
}

int vv_frozen_works(char *why, size_t room) {
    pthread_once(&tried, try_once);
    snprintf(why, room, "%s", reason);
    return answer;
}
