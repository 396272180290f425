/* A guard stops whoever first writes a page that is armed, until the page is disarmed. Two kinds: a userfaultfd with a
 * thread of its own, and mprotect with a handler of SIGSEGV.
 *
 * In a child of fork nothing is armed: it writes its own copy. Its parent's guards are of no use there (-ECHILD) but
 * for close. */
#ifndef VV_GUARD_H
#define VV_GUARD_H

#include <stddef.h>
#include <stdint.h>

struct vv_guard;

/* Somebody writes an armed page (its first address is given). 1: it may go on, the guard disarms the page; 0: not yet,
 * somebody will disarm it. Called in the guard's thread, or in the writing thread inside a signal handler: it must not
 * allocate, and takes no lock that is ever held while the program's memory is written - nor by a thread that can be
 * interrupted by a signal handler of the program's, which may write it: whoever holds such a lock blocks signals
 * meanwhile. It may call disarm. May be called several times for one write. */
typedef int (*vv_guard_fn)(void *arg, uintptr_t page);

struct vv_guard_ops {
    const char *name; /* "uffd", "mprotect" */
    /* The program cannot notice it: system calls that write the memory wait like everybody else, and nobody gets a
     * signal. Where it is 0, system calls fail with EFAULT on an armed page, and a thread that has SIGSEGV blocked is
     * killed when it writes one. */
    int is_transparent;
    /* Addresses and lengths are whole pages. Attaching arms nothing. An error: this memory cannot be guarded. */
    int (*attach)(struct vv_guard *guard, uintptr_t start, size_t length);
    /* Of the whole of what was attached. Disarms; nobody is left waiting there, and the callback is not running for it
     * any more: so not under a lock that the callback takes. Memory that is gone is no error. */
    void (*detach)(struct vv_guard *guard, uintptr_t start, size_t length);
    /* Afterwards no write passes, unless the callback lets it: so the callback must know before this call that these
     * pages are held now. Callbacks that began before have returned, and what they let go or disarmed is over, before
     * anything is armed: so not under a lock that the callback takes, and not from it. Pages that have no memory behind
     * them yet may stay unguarded: they read as zeros, and become present when they are written. After an error
     * nothing of the range is armed, not even what was before: -ENOMEM too many mappings (mprotect), -EFAULT the memory
     * is not what was attached. */
    int (*arm)(struct vv_guard *guard, uintptr_t start, size_t length);
    /* Wakes who waits there. -EAGAIN (mprotect only): refused, everything stays armed. To open this hole would leave
     * too few mappings to the program. The caller keeps the range as one that is done but armed, and tries again after
     * others were disarmed; what reaches from one end of a run of armed pages to any place in it is never refused by
     * us, and all that is attached never by the kernel either. A page that the callback has let go is tried again by
     * the guard itself. Any other error: the memory is not what was attached any more, it was unmapped, moved or (seen
     * by uffd only) thrown away meanwhile, and what was read there before this call cannot be trusted. Nothing of it
     * is armed, nobody waits. */
    int (*disarm)(struct vv_guard *guard, uintptr_t start, size_t length);
    /* Detaches everything. Accepts NULL. */
    void (*close)(struct vv_guard *guard);
};

struct vv_guard {
    const struct vv_guard_ops *ops;
};

/* Both try what they promise on a page of their own, and fail with a reason in `why` when it does not work here. */
int vv_guard_uffd(vv_guard_fn fn, void *arg, struct vv_guard **out, char *why, size_t capacity);
/* Takes SIGSEGV: faults that are not ours go on to the handler the program had. One that the program installs later
 * takes our place, and would get our faults, until the next attach or arm, when ours is put on top of it again: so a
 * program that uses this should install its handlers before it protects memory. */
/* Pages armed with mprotect: are they still write-protected? Nobody tells us when the program maps others in their
 * place, or changes their protection itself. Linux 5.14; on older kernels they always seem to be. */
int vv_guard_mprotect_holds(uintptr_t start, size_t length);
int vv_guard_mprotect(vv_guard_fn fn, void *arg, struct vv_guard **out, char *why, size_t capacity);

#endif
