/* Armed pages may only be read; whoever writes one gets SIGSEGV, and in its handler what the guard decides.
 *
 * The program can notice it: system calls that write an armed page fail with EFAULT instead of waiting, and a thread
 * that has SIGSEGV blocked is killed by the kernel when it writes one. For memory that is declared free of both.
 *
 * Every run of armed pages amidst unarmed ones is one more mapping, two with its neighbour, and the kernel allows a
 * process some number of them (vm.max_map_count), which the program needs, too. So the runs are counted and bounded. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "memory/attached.h"
#include "memory/guard.h"
#include "memory/lock.h"
#include "memory/pagebits.h"
#include "memory/pagemap.h"
#include "memory/signals.h"
#include "memory/tracked_range.h"

#define POPULATE_WRITE 23      /* MADV_POPULATE_WRITE, Linux 5.14 */
#define MAPPINGS_LEFT 5530     /* to the program; with the usual 65,530 that makes 30,000 runs */
#define WAIT_NS (1000L * 1000) /* at a time, so that other signals get through to who waits */

struct mprotect_guard {
    struct vv_guard base;
    vv_guard_fn fn;
    void *arg;
    uint32_t owner;
    struct vv_lock lock; /* of the armed bits and the protection that goes with them; held with signals blocked */
};

/* Of the whole process. */
static uint32_t arm_count; /* how many times something was armed */
static long run_count;     /* runs of armed pages */
static long run_limit;
static long lost_pages; /* armed pages that were gone when they should have been disarmed: moved elsewhere, perhaps */

/* What this thread met last. The model: a thread-local variable found by the usual way may be allocated at its first
 * use, which a signal handler must not do. */
struct place {
    uintptr_t address;
    uint32_t arm_count; /* as it was then */
};
struct fault_memory {
    struct place tried;   /* not armed when we looked: tried again */
    struct place moved;   /* taken for memory that the program has moved */
    struct place waiting; /* the page for which the callback said to wait */
};
static _Thread_local struct fault_memory last __attribute__((tls_model("initial-exec")));

#define LOAD(what) __atomic_load_n(&(what), __ATOMIC_SEQ_CST)
#define ADD(what, value) __atomic_add_fetch(&(what), value, __ATOMIC_SEQ_CST)

static void lock(struct mprotect_guard *guard, sigset_t *old_out) {
    vv_signals_block(old_out);
    vv_lock_take(&guard->lock);
}

static void unlock(struct mprotect_guard *guard, const sigset_t *old) {
    vv_lock_give(&guard->lock);
    vv_signals_restore(old);
}

static int make_writable(uintptr_t start, uintptr_t end) {
    return mprotect((void *)start, end - start, PROT_READ | PROT_WRITE) == 0 ? 0 : -errno;
}

/* ---- what the bits say; under the guard's lock ---- */

struct pages {
    struct vv_attached *in;
    size_t first, last; /* of the range, counted from its start */
    size_t count;       /* pages attached */
};

static struct pages pages_of(struct vv_attached *in, uintptr_t start, uintptr_t end) {
    return (struct pages){in, (start - in->start) / VV_PAGE, (end - in->start) / VV_PAGE,
                          (in->end - in->start) / VV_PAGE};
}

/* Runs that begin where setting or clearing these bits can make a difference. */
static long runs_around(const struct pages *pages) {
    size_t until = pages->last < pages->count ? pages->last + 1 : pages->count;
    return (long)vv_pagebits_runs(pages->in->armed, pages->first, until);
}

static long runs_if_clear(const struct pages *pages) {
    return pages->last < pages->count && vv_pagebits_test(pages->in->armed, pages->last);
}

static long runs_if_set(const struct pages *pages) {
    return pages->first == 0 || !vv_pagebits_test(pages->in->armed, pages->first - 1);
}

static void forget(const struct pages *pages) {
    ADD(run_count, runs_if_clear(pages) - runs_around(pages));
    vv_pagebits_clear(pages->in->armed, pages->first, pages->last);
}

/* ---- arming ---- */

/* Some of it is gone: give back what is there. */
static void free_what_is_left(uintptr_t start, uintptr_t end) {
    struct vv_maps maps;
    struct vv_map map;
    if (vv_maps_open(&maps) != 0)
        return;
    for (uintptr_t at = start; at < end && vv_maps_next(&maps, at, &map) == 1 && map.start < end; at = map.end)
        make_writable(map.start > start ? map.start : start, map.end < end ? map.end : end);
    vv_maps_close(&maps);
}

static int arm_pages(const struct pages *pages, uintptr_t start, uintptr_t end) {
    long more = runs_if_set(pages) - runs_around(pages);
    if (more > 0 && LOAD(run_count) + more > run_limit)
        return -ENOMEM;
    ADD(run_count, more);
    vv_pagebits_set(pages->in->armed, pages->first,
                    pages->last); /* before: a fault there is ours from the first moment */
    if (mprotect((void *)start, end - start, PROT_READ) == 0)
        return 0;
    int rc = -errno;
    if (make_writable(start, end) != 0)
        free_what_is_left(start, end);
    forget(pages);
    if (rc == -ENOMEM && !vv_attached_is_mapped(start, end))
        rc = -EFAULT;
    return rc;
}

/* Refused: nothing happened. Otherwise the bits are clear afterwards. In a handler, too, with one page. */
static int disarm_pages(const struct pages *pages, uintptr_t start, uintptr_t end) {
    long more = runs_if_clear(pages) - runs_around(pages);
    if (more > 0 && LOAD(run_count) + more > run_limit)
        return -EAGAIN;
    int rc = make_writable(start, end);
    if (rc == -ENOMEM && vv_attached_is_mapped(start, end))
        return -EAGAIN; /* the program itself has that many mappings */
    if (rc != 0) {
        ADD(lost_pages, (long)vv_pagebits_count(pages->in->armed, pages->first, pages->last));
        rc = -EFAULT;
        if (pages->last - pages->first > 1)
            free_what_is_left(start, end);
    }
    forget(pages); /* after: who still faults and finds the bit clear may try again */
    vv_attached_wake(start, end);
    return rc;
}

/* ---- in the handler ---- */

/* Once: what faults at the same place although nothing was armed since is not ours. */
static int is_first_time(struct place *place, uintptr_t address) {
    uint32_t now = LOAD(arm_count);
    if (place->address == address && place->arm_count == now)
        return 0;
    *place = (struct place){address, now};
    return 1;
}

static int try_again(uintptr_t address) {
    return is_first_time(&last.tried, address);
}

static int release(struct mprotect_guard *guard, struct vv_attached *in, uintptr_t page, uint32_t arms) {
    struct pages pages = pages_of(in, page, page + VV_PAGE);
    vv_lock_take(&guard->lock);
    int rc = 0; /* armed anew since it was decided, or disarmed: then it will be decided anew, or pass */
    if (LOAD(arm_count) == arms && vv_pagebits_test(in->armed, pages.first))
        rc = disarm_pages(&pages, page, page + VV_PAGE);
    vv_lock_give(&guard->lock);
    return rc;
}

/* A page that is armed. 1: go on; 0: wait. */
static int decide(struct vv_attached *in, uintptr_t page) {
    struct mprotect_guard *guard = (struct mprotect_guard *)in->guard;
    uint32_t arms = LOAD(arm_count);
    if (last.waiting.address == page && last.waiting.arm_count == arms)
        return 0;
    if (guard->fn(guard->arg, page))
        return release(guard, in, page, arms) != -EAGAIN;
    last.waiting = (struct place){page, arms};
    return 0;
}

/* In a child of fork nothing is held: the page is the child's own copy. */
static int let_child_write(struct vv_attached *in, uintptr_t page) {
    struct pages pages = pages_of(in, page, page + VV_PAGE);
    vv_pagebits_clear(in->armed, pages.first, pages.last);
    return make_writable(page, page + VV_PAGE) == 0;
}

/* Armed pages that the program has moved can only be read where they are now, which is no fault of its own. It does
 * what it must not, so the checkpoint fails; but it does not get a signal. */
static int was_moved(uintptr_t address, uintptr_t page) {
    if (!vv_attached_is_torn() && LOAD(lost_pages) <= 0)
        return 0;
    if (!is_first_time(&last.moved, address) || make_writable(page, page + VV_PAGE) != 0)
        return 0;
    if (LOAD(lost_pages) > 0)
        ADD(lost_pages, -1);
    return 1;
}

static int on_fault(const siginfo_t *info) {
    if (info->si_code != SEGV_ACCERR)
        return 0;
    uintptr_t address = (uintptr_t)info->si_addr, page = address & ~(uintptr_t)(VV_PAGE - 1);
    uint32_t word = vv_attached_word();
    int is_done = 1, must_wait = 0;
    unsigned ticket = vv_attached_enter();
    struct vv_attached *in = vv_attached_find(page);
    if (!in)
        is_done = (vv_attached_was(page) && try_again(address)) || was_moved(address, page);
    else if (!vv_pagebits_test(in->armed, (page - in->start) / VV_PAGE))
        is_done = try_again(address);
    else if (in->owner != vv_attached_mark())
        is_done = let_child_write(in, page);
    else
        must_wait = !decide(in, page);
    vv_attached_leave(ticket);
    if (must_wait)
        vv_attached_wait(word, page, WAIT_NS); /* whatever wakes us, the write is simply tried again */
    return is_done;
}

/* ---- the guard ---- */

/* It stays until this guard detaches it; only the table in which it is found may change. */
static struct vv_attached *find_own(struct vv_guard *base, uintptr_t start, size_t length) {
    unsigned ticket = vv_attached_enter();
    struct vv_attached *in = vv_attached_find(start);
    vv_attached_leave(ticket);
    return in && in->guard == base && start + length <= in->end ? in : NULL;
}

/* What may not be written, or is executed, or seen by others, cannot be given back as it was or is not stopped for
 * all. */
static int guard_attach(struct vv_guard *base, uintptr_t start, size_t length) {
    struct mprotect_guard *guard = (struct mprotect_guard *)base;
    if (guard->owner != vv_attached_mark())
        return -ECHILD;
    if (!vv_memory_is_plain((void *)start, length))
        return -ENOTSUP;
    int rc = vv_signals_take(on_fault);
    return rc == 0 ? vv_attached_add(base, start, length) : rc;
}

static void guard_detach(struct vv_guard *base, uintptr_t start, size_t length) {
    struct mprotect_guard *guard = (struct mprotect_guard *)base;
    int is_mine = guard->owner == vv_attached_mark();
    sigset_t old;
    struct vv_attached *in = find_own(base, start, length);
    if (!in || in->start != start || in->end != start + length)
        return;
    struct pages pages = pages_of(in, start, start + length);
    if (is_mine)
        lock(guard, &old); /* a child of fork may have inherited it locked, and is alone */
    if (vv_pagebits_count(in->armed, 0, pages.count) > 0)
        disarm_pages(&pages, start, start + length);
    if (is_mine)
        unlock(guard, &old);
    vv_attached_free(vv_attached_remove(base, start, length));
    vv_attached_wake(start, start + length);
}

static int guard_arm(struct vv_guard *base, uintptr_t start, size_t length) {
    struct mprotect_guard *guard = (struct mprotect_guard *)base;
    sigset_t old;
    if (guard->owner != vv_attached_mark())
        return -ECHILD;
    int rc = vv_signals_take(on_fault); /* the program may have installed a handler since */
    if (rc != 0)
        return rc;
    struct vv_attached *in = find_own(base, start, length);
    if (!in)
        return -EINVAL;
    struct pages pages = pages_of(in, start, start + length);
    vv_attached_settle();
    lock(guard, &old);
    rc = arm_pages(&pages, start, start + length);
    ADD(arm_count, 1); /* at the end: whoever decided before has to decide anew */
    unlock(guard, &old);
    return rc;
}

static int guard_disarm(struct vv_guard *base, uintptr_t start, size_t length) {
    struct mprotect_guard *guard = (struct mprotect_guard *)base;
    sigset_t old;
    if (guard->owner != vv_attached_mark())
        return -ECHILD;
    struct vv_attached *in = find_own(base, start, length);
    if (!in)
        return -EINVAL;
    struct pages pages = pages_of(in, start, start + length);
    lock(guard, &old);
    int rc = disarm_pages(&pages, start, start + length);
    unlock(guard, &old);
    return rc;
}

int vv_guard_mprotect_holds(uintptr_t start, size_t length) {
    for (uintptr_t page = start; page < start + length; page += VV_PAGE)
        if (madvise((void *)page, VV_PAGE, POPULATE_WRITE) == 0) /* what can be written is not protected */
            return 0;
    return 1;
}

static void guard_close(struct vv_guard *base) {
    if (!base)
        return;
    for (struct vv_attached *in = vv_attached_any(base); in; in = vv_attached_any(base))
        guard_detach(base, in->start, in->end - in->start);
    vv_free(base);
}

static const struct vv_guard_ops mprotect_ops = {
    .name = "mprotect",
    .is_transparent = 0,
    .attach = guard_attach,
    .detach = guard_detach,
    .arm = guard_arm,
    .disarm = guard_disarm,
    .close = guard_close,
};

static void read_run_limit(void) {
    long mappings = 65530;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    if (file) {
        if (fscanf(file, "%ld", &mappings) != 1) /* NOLINT(cert-err34-c) */
            mappings = 65530;
        fclose(file);
    }
    run_limit = mappings > 2 * MAPPINGS_LEFT ? (mappings - MAPPINGS_LEFT) / 2 : mappings / 4;
}

static int make_guard(vv_guard_fn fn, void *arg, struct vv_guard **out) {
    struct mprotect_guard *guard = vv_calloc(1, sizeof *guard);
    if (!guard)
        return -ENOMEM;
    *guard = (struct mprotect_guard){.base.ops = &mprotect_ops, .fn = fn, .arg = arg, .owner = vv_attached_mark()};
    *out = &guard->base;
    return 0;
}

/* ---- the trial ---- */

static int note_fault(void *arg, uintptr_t page) {
    (void)page;
    ++*(volatile int *)arg;
    return 1;
}

/* A write to an armed page is seen and then done. 0, or an error and its reason. */
static int try_page(volatile uint8_t *page, const char **why_out) {
    volatile int seen = 0;
    struct vv_guard *guard = NULL;
    int rc = make_guard(note_fault, (void *)&seen, &guard);
    if (rc != 0)
        return rc;
    *page = 1;
    rc = guard_attach(guard, (uintptr_t)page, VV_PAGE);
    if (rc == 0)
        rc = guard_arm(guard, (uintptr_t)page, VV_PAGE);
    *why_out = rc != 0 ? "memory cannot be attached" : "a write to an armed page was not seen";
    if (rc == 0) {
        *page = 2;
        rc = seen == 1 && *page == 2 ? 0 : -ENOTSUP;
    }
    guard_close(guard);
    return rc;
}

static int try_it(const char **why_out) {
    sigset_t fault, old;
    void *page = vv_pages_map(VV_PAGE);
    if (!page)
        return -ENOMEM;
    sigemptyset(&fault);
    sigaddset(&fault, SIGSEGV);
    pthread_sigmask(SIG_UNBLOCK, &fault, &old); /* blocked, it would kill */
    int rc = try_page(page, why_out);
    vv_signals_restore(&old);
    vv_pages_unmap(page, VV_PAGE);
    return rc;
}

int vv_guard_mprotect(vv_guard_fn fn, void *arg, struct vv_guard **out, char *why, size_t capacity) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const char *reason = "no memory";
    pthread_once(&once, read_run_limit);
    int rc = vv_attached_begin();
    if (rc != 0)
        reason = "the kernel cannot wipe memory in children (MADV_WIPEONFORK)";
    else
        rc = try_it(&reason);
    if (rc == 0)
        rc = make_guard(fn, arg, out);
    if (rc != 0 && capacity > 0)
        snprintf(why, capacity, "mprotect: %s (%s)", reason, strerror(-rc));
    return rc;
}
