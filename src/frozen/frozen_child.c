/* The life of a frozen copy: one function that never returns, with everything it uses inlined, since it drops the
 * memory that other code needs: the program's data, thread-local data, all of the stack but its own part of it.
 *
 * Raw system calls only. A fault (memory that is not there) kills it, which its parent notices. */
#include "frozen/frozen_child.h"

#if VV_FROZEN_IS_KNOWN

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/search.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x1000
#endif
#define LOOK_SECONDS 1   /* how often it looks whether its parent is still there */
#define OWN_STACK 65536u /* bytes around it that it keeps */
#define MOST_DESCRIPTORS (1u << 20)

#ifdef __x86_64__
VV_BARE_INLINE long call(long number, long a, long b, long c, long d, long e) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

VV_BARE_INLINE void copy(uint8_t *to, const uint8_t *from, size_t size) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
}
#else
VV_BARE_INLINE long call(long number, long a, long b, long c, long d, long e) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = 0;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}

/* volatile: so that no compiler makes it a call of memcpy. */
VV_BARE_INLINE void copy(uint8_t *to, const uint8_t *from, size_t size) {
    for (; size >= 16; size -= 16, to += 16, from += 16)
        __asm__ volatile("ldp x9, x10, [%0]\n stp x9, x10, [%1]" : : "r"(from), "r"(to) : "x9", "x10", "memory");
    for (; size > 0; size--)
        *(volatile uint8_t *)to++ = *(const volatile uint8_t *)from++;
}
#endif

VV_BARE_INLINE void leave(void) {
    call(SYS_exit_group, 0, 0, 0, 0, 0);
    __builtin_trap(); /* in a box where even that is refused */
}

VV_BARE_INLINE void tell(uint32_t *word, uint32_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    call(SYS_futex, (long)word, FUTEX_WAKE, 1, 0, 0);
}

VV_BARE_INLINE void leave_if_told(const struct vv_frozen_shared *shared) {
    if (__atomic_load_n(&shared->must_end, __ATOMIC_ACQUIRE))
        leave();
}

/* ---- letting go ---- */

VV_BARE_INLINE void close_all_but(unsigned kept) {
    long rc = kept > 0 ? call(SYS_close_range, 0, kept - 1, 0, 0, 0) : 0;
    if (rc == 0)
        rc = call(SYS_close_range, kept + 1, (long)~0u, 0, 0, 0);
    if (rc == 0)
        return;
    struct rlimit limit;
    unsigned end = MOST_DESCRIPTORS;
    if (call(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, (long)&limit, 0) == 0 && limit.rlim_cur < end)
        end = (unsigned)limit.rlim_cur;
    for (unsigned fd = 0; fd < end || fd <= kept; fd++)
        if (fd != kept)
            call(SYS_close, fd, 0, 0, 0, 0);
}

/* In one step, however long: short ones cost many times as much a page, and a mapping may be nearly empty. */
VV_BARE_INLINE void give_back(uintptr_t start, uintptr_t end) {
    if (start < end)
        call(SYS_madvise, (long)start, (long)(end - start), MADV_DONTNEED, 0, 0);
}

/* Of a mapping: all but the pages of what is kept, and of the stack that this runs on. */
VV_BARE_INLINE void drop_mapping(const struct vv_frozen_shared *shared, uintptr_t start, uintptr_t end) {
    const uintptr_t inside = shared->page - 1, here = (uintptr_t)__builtin_frame_address(0);
    const uintptr_t stack = (here - OWN_STACK) & ~inside, above = (here + OWN_STACK) & ~inside;
    uint32_t low; /* the first that ends above the start */
    VV_SEARCH(low, 0, shared->kept_count, shared->kept[low].start + shared->kept[low].length <= start);
    while (start < end) {
        uintptr_t next = end, after = end;
        if (low < shared->kept_count && (shared->kept[low].start & ~inside) < end) {
            next = shared->kept[low].start & ~inside;
            after = (shared->kept[low].start + shared->kept[low].length + inside) & ~inside;
        }
        if (stack < next && above > start) {
            next = stack;
            after = above;
        } else {
            low++;
        }
        if (next > start)
            give_back(start, next);
        start = after > start ? after : start;
    }
}

struct line {
    uintptr_t start, end;
    unsigned field; /* 0 start, 1 end, 2 what may be done with it, 3 the rest */
    int is_writable, is_private;
};

VV_BARE_INLINE int read_letter(struct line *line, char letter) {
    unsigned digit = letter <= '9' ? (unsigned)(letter - '0') : (unsigned)(letter - 'a' + 10);
    if (letter == '\n')
        return 1;
    if (line->field == 3)
        return 0;
    if (letter == '-' && line->field == 0) {
        line->field = 1;
    } else if (letter == ' ') {
        line->field++;
    } else if (line->field == 0) {
        line->start = line->start * 16 + digit;
    } else if (line->field == 1) {
        line->end = line->end * 16 + digit;
    } else {
        line->is_writable |= letter == 'w';
        line->is_private |= letter == 'p';
    }
    return 0;
}

/* Whatever is not needed: a page that this child shares with the program costs the program a copy when it is
 * written. */
VV_BARE_INLINE void drop_the_rest(struct vv_frozen_shared *shared) {
    struct line line = {0, 0, 0, 0, 0};
    long fd = call(SYS_openat, AT_FDCWD, (long)"/proc/self/maps", O_RDONLY, 0, 0), got;
    while (fd >= 0 && (got = call(SYS_read, fd, (long)shared->buffer, VV_FROZEN_BYTES, 0, 0)) > 0) {
        for (long i = 0; i < got; i++) {
            if (!read_letter(&line, (char)shared->buffer[i]))
                continue;
            leave_if_told(shared);
            if (line.is_private && line.is_writable)
                drop_mapping(shared, line.start, line.end);
            line.start = line.end = 0;
            line.field = 0;
            line.is_writable = line.is_private = 0;
        }
    }
    if (fd >= 0)
        call(SYS_close, fd, 0, 0, 0, 0);
}

/* What that takes, in a moment, on memory that loses nothing: a box that kills whoever does it does so before anybody
 * relies on this copy. */
VV_BARE_INLINE void rehearse(struct vv_frozen_shared *shared) {
    long fd = call(SYS_openat, AT_FDCWD, (long)"/proc/self/maps", O_RDONLY, 0, 0);
    if (fd >= 0) {
        call(SYS_read, fd, (long)shared->text, 1, 0, 0);
        call(SYS_close, fd, 0, 0, 0, 0);
    }
    give_back((uintptr_t)shared->buffer, (uintptr_t)shared->buffer + shared->page);
}

/* The program still waits for the first answer, which is empty. Any other is read from the buffer that dropping needs.
 */
VV_BARE_INLINE int is_on_trial(const struct vv_frozen_shared *shared, uint32_t asked, uint32_t seen) {
    const struct vv_frozen_request *request = &shared->requests[asked % 2];
    return shared->is_trial && seen == 0 && (asked == 0 || (request->count == 0 && !request->wants_memory));
}

/* A system short of memory takes this copy and not the program. */
VV_BARE_INLINE void volunteer(void) {
    long fd = call(SYS_openat, AT_FDCWD, (long)"/proc/self/oom_score_adj", O_WRONLY, 0, 0);
    if (fd < 0)
        return;
    call(SYS_write, fd, (long)"1000", 4, 0, 0);
    call(SYS_close, fd, 0, 0, 0, 0);
}

/* Whoever made it may go before everything else (SCHED_FIFO); this copy is not as important. */
VV_BARE_INLINE void stand_back(void) {
    struct sched_param none = {0};
    long policy = call(SYS_sched_getscheduler, 0, 0, 0, 0, 0);
    if (policy >= 0 && ((policy & 7) == SCHED_FIFO || (policy & 7) == SCHED_RR))
        call(SYS_sched_setscheduler, 0, SCHED_OTHER, (long)&none, 0, 0);
}

/* ---- answering ---- */

VV_BARE_INLINE void copy_runs(struct vv_frozen_shared *shared, const struct vv_frozen_request *request) {
    for (uint32_t i = 0; i < request->count; i++) {
        const struct vv_frozen_run *run = &request->runs[i];
        __atomic_store_n(&shared->at, i, __ATOMIC_RELAXED);
        leave_if_told(shared);
        copy(shared->buffer + run->place, (const uint8_t *)run->start, run->length);
    }
    __atomic_store_n(&shared->at, UINT32_MAX, __ATOMIC_RELAXED);
}

VV_BARE_INLINE void give_back_runs(const struct vv_frozen_request *request, uintptr_t inside) {
    for (uint32_t i = 0, last; request->after != VV_FROZEN_KEEP && i < request->count; i = last + 1) {
        const struct vv_frozen_run *runs = request->runs;
        last = request->after == VV_FROZEN_GIVE_BETWEEN ? request->count - 1 : i;
        give_back((runs[i].start + inside) & ~inside, (runs[last].start + runs[last].length) & ~inside);
    }
}

/* Its parent may not be allowed to look at another process; to look at oneself always is. */
VV_BARE_INLINE void tell_memory(struct vv_frozen_shared *shared) {
    long fd = call(SYS_openat, AT_FDCWD, (long)"/proc/self/smaps_rollup", O_RDONLY, 0, 0), size = 0, got;
    while (fd >= 0 && size < VV_FROZEN_TEXT - 1 &&
           (got = call(SYS_read, fd, (long)shared->text + size, VV_FROZEN_TEXT - 1 - size, 0, 0)) > 0)
        size += got;
    shared->text[size] = 0;
    if (fd >= 0)
        call(SYS_close, fd, 0, 0, 0, 0);
}

/* Until there is more to do than was seen. Ends the process when there is nobody left to do it for. */
VV_BARE_INLINE void wait_for_work(struct vv_frozen_shared *shared, long parent, uint32_t seen) {
    struct timespec patience = {LOOK_SECONDS, 0}, none = {0, 0};
    struct pollfd poll = {shared->pipe, POLLIN, 0};
    if (call(SYS_futex, (long)&shared->asked, FUTEX_WAIT, (long)seen, (long)&patience, 0) != -ETIMEDOUT)
        return;
    if (call(SYS_getppid, 0, 0, 0, 0, 0) != parent || call(SYS_ppoll, (long)&poll, 1, (long)&none, 0, 0) > 0)
        leave();
}

static VV_BARE __attribute__((noinline, noreturn)) void live(struct vv_frozen_shared *shared) {
    /* One byte: neither a file nor a program that takes cores (as 0 would) gets one. */
    struct rlimit no_core = {1, 1};
    uint32_t seen = 0;
    int must_drop = 1;
    long parent = call(SYS_getppid, 0, 0, 0, 0, 0);
    if (parent != shared->parent && parent != 0)
        leave();
    call(SYS_prlimit64, 0, RLIMIT_CORE, (long)&no_core, 0, 0);
    call(SYS_prctl, PR_SET_NAME, (long)"varve-frozen", 0, 0, 0); /* for people who look at the list of processes */
    close_all_but((unsigned)shared->pipe);
    volunteer(); /* before the program goes on and needs memory */
    tell(&shared->is_ready, 1);
    stand_back();
    if (shared->is_trial)
        rehearse(shared);
    for (;;) {
        uint32_t asked = __atomic_load_n(&shared->asked, __ATOMIC_ACQUIRE);
        leave_if_told(shared);
        if (must_drop && !is_on_trial(shared, asked, seen)) {
            drop_the_rest(shared);
            must_drop = 0;
        }
        if (asked == seen) {
            wait_for_work(shared, parent, seen);
            continue;
        }
        seen = asked;
        copy_runs(shared, &shared->requests[seen % 2]);
        if (shared->requests[seen % 2].wants_memory)
            tell_memory(shared);
        tell(&shared->answered, seen); /* its parent has work now; nobody waits for what follows */
        give_back_runs(&shared->requests[seen % 2], shared->page - 1);
    }
}

/* No exit signal, no shared files: a copy of the process with only this thread. A debugger would take it for a thread
 * of the program's, since it has no exit signal: it is not told. */
VV_BARE __attribute__((noinline)) long vv_frozen_spawn(struct vv_frozen_shared *shared, int *pidfd) {
    long pid = call(SYS_clone, CLONE_PIDFD | CLONE_UNTRACED, 0, (long)pidfd, 0, 0);
    if (pid == 0)
        live(shared);
    return pid;
}

#endif
