/* A userfaultfd in synchronous write-protect mode, and a thread that answers what it reports. Who writes an armed page
 * sleeps in the kernel until the page is disarmed, whether it is an instruction or a system call.
 *
 * No events (of fork, mremap, munmap, madvise) are asked for: they would make the program wait for us in those calls.
 * Without them the kernel takes a registration away together with the memory, a child of fork has none, and nobody
 * hangs as long as we wake also where disarming fails. What the program did to an armed page is found out when it
 * should be disarmed: the page table says whether it is still armed.
 *
 * How fast: the thread sleeps until a fault is reported, and who faulted sleeps until the answer. On another CPU that
 * is two wake-ups of an idle CPU; going on polling for a while keeps the thread awake but not the other CPU, and takes
 * the faulting thread's own CPU if that is where the thread happens to be (measured: worse than sleeping at once). On
 * the same CPU it is two switches. So the thread follows who faults. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "memory/attached.h"
#include "memory/guard.h"
#include "memory/pagebits.h"
#include "memory/pagemap.h"
#include "memory/signals.h"
#include "memory/tracked_range.h"
#include "memory/uffd.h"

#define MESSAGES 16
/* How often to look where the faulting thread runs: that costs as much as a trap. */
#define FOLLOW_NS UINT64_C(10000000)
#define ARMED_BIT 57 /* of an entry of /proc/self/pagemap, Linux 5.14 */

struct area {
    struct area *next;
    uintptr_t start, end;
    uint64_t *armed; /* pagebits */
};

struct uffd_guard {
    struct vv_guard base;
    vv_guard_fn fn;
    void *arg;
    pid_t owner; /* a child of fork has the descriptors, but they mean its parent's memory */
    int fd, pagemap, stop;
    pthread_t thread;
    int is_running;
    pthread_mutex_t calls; /* held by the thread while it answers; taken before the other lock */
    /* Of what follows. Held with signals blocked: a handler of the program's that interrupts the holder may write an
     * armed page, and then our thread needs the lock. */
    pthread_mutex_t lock;
    struct area *areas;
};

static void lock(struct uffd_guard *guard, sigset_t *old_out) {
    vv_signals_block(old_out);
    pthread_mutex_lock(&guard->lock);
}

static void unlock(struct uffd_guard *guard, const sigset_t *old) {
    pthread_mutex_unlock(&guard->lock);
    vv_signals_restore(old);
}

/* Under the lock. The area that holds all of it. */
static struct area *find_area(const struct uffd_guard *guard, uintptr_t start, uintptr_t end) {
    struct area *area = guard->areas;
    while (area && !(area->start <= start && end <= area->end))
        area = area->next;
    return area;
}

/* ---- which pages are armed ---- */

typedef void (*entry_fn)(struct area *area, size_t page, int is_armed, int *result);

static void note_armed(struct area *area, size_t page, int is_armed, int *result) {
    (void)result;
    if (is_armed)
        vv_pagebits_set(area->armed, page, page + 1);
}

static void compare_armed(struct area *area, size_t page, int is_armed, int *result) {
    if (!is_armed && vv_pagebits_test(area->armed, page))
        *result = -EFAULT;
}

static int each_entry(const struct uffd_guard *guard, struct area *area, uintptr_t start, uintptr_t end, entry_fn fn) {
    uint64_t entries[512];
    int result = 0;
    while (start < end) {
        size_t count = (end - start) / VV_PAGE < 512 ? (end - start) / VV_PAGE : 512;
        ssize_t got =
            pread(guard->pagemap, entries, count * sizeof entries[0], (off_t)(start / VV_PAGE * sizeof entries[0]));
        if (got < (ssize_t)sizeof entries[0])
            return got < 0 ? -errno : -EIO;
        count = (size_t)got / sizeof entries[0];
        for (size_t i = 0; i < count; i++)
            fn(area, (start - area->start) / VV_PAGE + i, (int)(entries[i] >> ARMED_BIT & 1), &result);
        start += count * VV_PAGE;
    }
    return result;
}

static void forget(struct area *area, uintptr_t start, uintptr_t end) {
    vv_pagebits_clear(area->armed, (start - area->start) / VV_PAGE, (end - area->start) / VV_PAGE);
}

/* ---- disarming ---- */

/* Mapping by mapping, because some of it is gone; then nobody sleeps there. */
static void free_what_is_left(const struct uffd_guard *guard, uintptr_t start, uintptr_t end,
                              int (*fn)(int fd, uintptr_t start, size_t length)) {
    struct vv_maps maps;
    struct vv_map map;
    if (vv_maps_open(&maps) == 0) {
        for (uintptr_t at = start; at < end && vv_maps_next(&maps, at, &map) == 1 && map.start < end; at = map.end) {
            uintptr_t from = map.start > start ? map.start : start;
            fn(guard->fd, from, (map.end < end ? map.end : end) - from);
        }
        vv_maps_close(&maps);
    }
    vv_uffd_wake(guard->fd, start, end - start);
}

/* Under the lock. */
static void release_page(struct uffd_guard *guard, uintptr_t page) {
    struct area *area = find_area(guard, page, page + VV_PAGE);
    if (area)
        forget(area, page, page + VV_PAGE);
    if (vv_uffd_unprotect(guard->fd, page, VV_PAGE) != 0)
        vv_uffd_wake(guard->fd, page, VV_PAGE);
}

static int guard_disarm(struct vv_guard *base, uintptr_t start, size_t length) {
    struct uffd_guard *guard = (struct uffd_guard *)base;
    sigset_t old;
    if (guard->owner != getpid())
        return -ECHILD;
    lock(guard, &old);
    struct area *area = find_area(guard, start, start + length);
    int rc = area ? each_entry(guard, area, start, start + length, compare_armed) : -EINVAL;
    if (area) {
        if (vv_uffd_unprotect(guard->fd, start, length) != 0) {
            free_what_is_left(guard, start, start + length, vv_uffd_unprotect);
            rc = -EFAULT;
        }
        forget(area, start, start + length);
    }
    unlock(guard, &old);
    return rc;
}

static int guard_arm(struct vv_guard *base, uintptr_t start, size_t length) {
    struct uffd_guard *guard = (struct uffd_guard *)base;
    sigset_t old;
    if (guard->owner != getpid())
        return -ECHILD;
    vv_signals_block(&old);
    pthread_mutex_lock(&guard->calls);
    pthread_mutex_lock(&guard->lock);
    struct area *area = find_area(guard, start, start + length);
    int rc = area ? vv_uffd_protect(guard->fd, start, length) : -EINVAL;
    if (rc == 0 && !vv_attached_is_mapped(start, start + length))
        rc = -EFAULT; /* newer kernels pass over holes */
    if (rc == 0)
        rc = each_entry(guard, area, start, start + length, note_armed);
    else if (rc == -ENOENT)
        rc = -EFAULT;
    if (area && rc != 0) {
        free_what_is_left(guard, start, start + length, vv_uffd_unprotect);
        forget(area, start, start + length);
    }
    pthread_mutex_unlock(&guard->lock);
    pthread_mutex_unlock(&guard->calls);
    vv_signals_restore(&old);
    return rc;
}

/* ---- the thread ---- */

/* Armed or not, as we know. A message may be out of date: another thread has disarmed the page since. */
static int is_armed(struct uffd_guard *guard, uintptr_t page) {
    pthread_mutex_lock(&guard->lock);
    const struct area *area = find_area(guard, page, page + VV_PAGE);
    int result = area && vv_pagebits_test(area->armed, (page - area->start) / VV_PAGE);
    pthread_mutex_unlock(&guard->lock);
    return result;
}

/* Nothing is armed meanwhile, so what the callback decides is about the page as it is. */
static void answer_fault(struct uffd_guard *guard, uintptr_t page) {
    pthread_mutex_lock(&guard->calls);
    if (!is_armed(guard, page) || guard->fn(guard->arg, page)) {
        pthread_mutex_lock(&guard->lock);
        release_page(guard, page);
        pthread_mutex_unlock(&guard->lock);
    }
    pthread_mutex_unlock(&guard->calls);
}

struct follow {
    cpu_set_t home; /* where the thread may run */
    pid_t tid;      /* who faulted when we last looked */
    int others;     /* somebody else did since */
    int cpu;        /* where we are bound to; -1: nowhere */
    uint64_t next_ns;
};

/* The 39th field of "/proc/self/task/TID/stat"; the second is a name in brackets. */
static int cpu_of(pid_t tid) {
    char text[1024];
    snprintf(text, sizeof text, "/proc/self/task/%d/stat", (int)tid);
    int fd = open(text, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (got <= 0)
        return -1;
    text[got] = '\0';
    char *at = strrchr(text, ')');
    for (int field = 2; at && field < 39; field++)
        at = strchr(at + 1, ' ');
    return at ? (int)strtol(at, NULL, 10) : -1;
}

static void bind_to(struct follow *follow, int cpu) {
    cpu_set_t set;
    if (cpu == follow->cpu)
        return;
    follow->cpu = cpu;
    CPU_ZERO(&set);
    if (cpu >= 0 && cpu < CPU_SETSIZE)
        CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, cpu >= 0 ? &set : &follow->home); /* if it fails it is only slower */
}

/* With several threads faulting at once, the scheduler knows better. */
static void follow_faults(struct follow *follow, pid_t tid) {
    uint64_t now = vv_clock_ns();
    if (tid != follow->tid)
        follow->others = 1;
    if (now < follow->next_ns)
        return;
    int was_one = follow->next_ns == 0 || !follow->others || now > follow->next_ns + FOLLOW_NS;
    bind_to(follow, was_one ? cpu_of(tid) : -1);
    follow->tid = tid;
    follow->others = 0;
    follow->next_ns = now + FOLLOW_NS;
}

static void *serve(void *arg) {
    struct uffd_guard *guard = arg;
    struct uffd_msg messages[MESSAGES];
    struct follow follow = {.cpu = -1};
    struct pollfd wait[2] = {{.fd = guard->fd, .events = POLLIN}, {.fd = guard->stop, .events = POLLIN}};
    pthread_setname_np(pthread_self(), "varve-guard");
    sched_getaffinity(0, sizeof follow.home, &follow.home);
    for (;;) {
        ssize_t got = read(guard->fd, messages, sizeof messages);
        size_t count = got > 0 ? (size_t)got / sizeof messages[0] : 0;
        for (size_t i = 0; i < count; i++)
            if (messages[i].event == UFFD_EVENT_PAGEFAULT)
                answer_fault(guard, (uintptr_t)messages[i].arg.pagefault.address & ~(uintptr_t)(VV_PAGE - 1));
        if (count > 0) {
            follow_faults(&follow, (pid_t)messages[count - 1].arg.pagefault.feat.ptid); /* while nobody waits for us */
            continue;
        }
        poll(wait, 2, -1);
        if (wait[1].revents)
            return NULL;
    }
}

/* No signal of the program's is ever delivered to this thread; a fault of its own is not hidden. */
static int start_thread(struct uffd_guard *guard) {
    sigset_t all, old;
    if (guard->is_running)
        return 0;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&guard->thread, NULL, serve, guard);
    vv_signals_restore(&old);
    guard->is_running = rc == 0;
    return -rc;
}

static void stop_thread(struct uffd_guard *guard) {
    uint64_t one = 1;
    if (!guard->is_running)
        return;
    while (write(guard->stop, &one, sizeof one) < 0 && errno == EINTR)
        ;
    pthread_join(guard->thread, NULL);
    guard->is_running = 0;
}

/* ---- the guard ---- */

static int guard_attach(struct vv_guard *base, uintptr_t start, size_t length) {
    struct uffd_guard *guard = (struct uffd_guard *)base;
    sigset_t old;
    if (guard->owner != getpid())
        return -ECHILD;
    struct area *area = vv_calloc(1, sizeof *area);
    if (!area)
        return -ENOMEM;
    *area = (struct area){.start = start, .end = start + length};
    area->armed = vv_calloc(vv_pagebits_words(length / VV_PAGE), sizeof *area->armed);
    int rc = area->armed ? start_thread(guard) : -ENOMEM;
    if (rc == 0)
        rc = vv_uffd_register(guard->fd, start, length);
    if (rc != 0) {
        vv_free(area->armed);
        vv_free(area);
        return rc;
    }
    lock(guard, &old);
    area->next = guard->areas;
    guard->areas = area;
    unlock(guard, &old);
    return 0;
}

static struct area *take_area(struct uffd_guard *guard, uintptr_t start, uintptr_t end) {
    struct area **link = &guard->areas, *area = NULL;
    while (*link && ((*link)->start != start || (*link)->end != end))
        link = &(*link)->next;
    area = *link;
    if (area)
        *link = area->next;
    return area;
}

static void guard_detach(struct vv_guard *base, uintptr_t start, size_t length) {
    struct uffd_guard *guard = (struct uffd_guard *)base;
    sigset_t old;
    if (guard->owner != getpid())
        return;
    lock(guard, &old);
    struct area *area = take_area(guard, start, start + length);
    if (area && vv_uffd_unregister(guard->fd, start, length) != 0)
        free_what_is_left(guard, start, start + length, vv_uffd_unregister);
    if (area) /* the kernel by itself wakes only who waits for missing pages */
        vv_uffd_wake(guard->fd, start, length);
    pthread_mutex_unlock(&guard->lock);
    pthread_mutex_lock(&guard->calls); /* until a callback that is on its way has come back */
    pthread_mutex_unlock(&guard->calls);
    vv_signals_restore(&old);
    if (area) {
        vv_free(area->armed);
        vv_free(area);
    }
}

/* Unregistering, and not just closing: a child of fork that is still there keeps the descriptor open. */
static void guard_close(struct vv_guard *base) {
    struct uffd_guard *guard = (struct uffd_guard *)base;
    if (!guard)
        return;
    int is_mine = guard->owner == getpid();
    while (guard->areas) {
        struct area *area = guard->areas;
        if (is_mine) {
            guard_detach(base, area->start, area->end - area->start);
            continue;
        }
        guard->areas = area->next;
        vv_free(area->armed);
        vv_free(area);
    }
    if (is_mine)
        stop_thread(guard);
    if (guard->fd >= 0)
        close(guard->fd);
    if (guard->pagemap >= 0)
        close(guard->pagemap);
    if (guard->stop >= 0)
        close(guard->stop);
    if (is_mine) {
        pthread_mutex_destroy(&guard->lock);
        pthread_mutex_destroy(&guard->calls);
    }
    vv_free(guard);
}

static const struct vv_guard_ops uffd_ops = {
    .name = "uffd",
    .is_transparent = 1,
    .attach = guard_attach,
    .detach = guard_detach,
    .arm = guard_arm,
    .disarm = guard_disarm,
    .close = guard_close,
};

static int make_guard(vv_guard_fn fn, void *arg, struct uffd_guard **out, const char **why_out) {
    struct uffd_guard *guard = vv_calloc(1, sizeof *guard);
    *why_out = "no memory";
    if (!guard)
        return -ENOMEM;
    *guard =
        (struct uffd_guard){.base.ops = &uffd_ops, .fn = fn, .arg = arg, .owner = getpid(), .pagemap = -1, .stop = -1};
    pthread_mutex_init(&guard->lock, NULL);
    pthread_mutex_init(&guard->calls, NULL);
    guard->fd = vv_uffd_open(VV_UFFD_KERNEL_CAPABLE, UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_THREAD_ID);
    int rc = guard->fd < 0 ? guard->fd : 0;
    *why_out = rc == -EPERM
                   ? "not allowed to stop system calls (needs CAP_SYS_PTRACE, vm.unprivileged_userfaultfd=1 or "
                     "access to /dev/userfaultfd)"
                   : "the kernel has no synchronous write protection";
    if (rc == 0) {
        guard->pagemap = vv_pagemap_open();
        guard->stop = eventfd(0, EFD_CLOEXEC);
        rc = guard->pagemap < 0 ? guard->pagemap : guard->stop < 0 ? -EMFILE : 0;
        *why_out = "cannot look at the page table";
    }
    if (rc == 0)
        *out = guard;
    else
        guard_close(&guard->base);
    return rc;
}

/* ---- the trial ---- */

static int count_fault(void *arg, uintptr_t page) {
    (void)page;
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST);
    return 1;
}

/* An instruction writes the first page, a system call the second: both are stopped, then done. */
static int try_writes(volatile uint8_t *pages, const int *seen) {
    int pipes[2];
    char byte = 7;
    pages[0] = 7;
    if (__atomic_load_n(seen, __ATOMIC_SEQ_CST) != 1 || pages[0] != 7)
        return -ENOTSUP;
    if (pipe2(pipes, O_CLOEXEC) != 0)
        return -errno;
    int rc = write(pipes[1], &byte, 1) == 1 && read(pipes[0], (void *)(pages + VV_PAGE), 1) == 1 ? 0 : -ENOTSUP;
    if (__atomic_load_n(seen, __ATOMIC_SEQ_CST) != 2 || pages[VV_PAGE] != 7)
        rc = -ENOTSUP;
    close(pipes[0]);
    close(pipes[1]);
    return rc;
}

static int try_pages(volatile uint8_t *pages, const char **why_out) {
    int seen = 0;
    struct uffd_guard *guard = NULL;
    int rc = make_guard(count_fault, &seen, &guard, why_out);
    if (rc != 0)
        return rc;
    uintptr_t start = (uintptr_t)pages;
    pages[0] = pages[VV_PAGE] = pages[2 * VV_PAGE] = 1; /* only what is there can be armed */
    rc = guard_attach(&guard->base, start, 3 * VV_PAGE);
    *why_out = "memory cannot be registered";
    if (rc == 0)
        rc = guard_arm(&guard->base, start, 3 * VV_PAGE);
    if (rc == 0) {
        *why_out = "a write to an armed page was not stopped, or a system call failed on it";
        rc = try_writes(pages, &seen);
    }
    if (rc == 0) {
        struct area *area = guard->areas;
        *why_out = "the page table does not tell what is armed";
        rc = vv_pagebits_count(area->armed, 0, 3) == 1 && vv_pagebits_test(area->armed, 2) ? 0 : -ENOTSUP;
        if (rc == 0)
            rc = guard_disarm(&guard->base, start, 3 * VV_PAGE);
    }
    guard_close(&guard->base);
    return rc;
}

int vv_guard_uffd(vv_guard_fn fn, void *arg, struct vv_guard **out, char *why, size_t capacity) {
    const char *reason = "no memory";
    struct uffd_guard *guard = NULL;
    void *pages = vv_pages_map(3 * (size_t)VV_PAGE);
    int rc = pages ? try_pages(pages, &reason) : -ENOMEM;
    vv_pages_unmap(pages, 3 * (size_t)VV_PAGE);
    if (rc == 0)
        rc = make_guard(fn, arg, &guard, &reason);
    if (rc == 0)
        *out = &guard->base;
    else if (capacity > 0)
        snprintf(why, capacity, "userfaultfd: %s (%s)", reason, strerror(-rc));
    return rc;
}
