/* Between frozen.c and the child it makes: what both share, and the child's life. */
#ifndef VV_FROZEN_CHILD_H
#define VV_FROZEN_CHILD_H

#include "frozen/frozen.h"

#if defined(__x86_64__) || defined(__aarch64__)
#define VV_FROZEN_IS_KNOWN 1
#else
#define VV_FROZEN_IS_KNOWN 0
#endif

/* No library code and none that the compiler adds: what that needs (thread-local data, shadow memory, a stack guard) is
 * dropped in the child. */
#ifdef __has_attribute
#if __has_attribute(no_stack_protector)
#define VV_NO_GUARD __attribute__((no_stack_protector))
#endif
#if __has_attribute(no_profile_instrument_function)
#define VV_NO_PROFILE __attribute__((no_profile_instrument_function))
#endif
#endif
#ifndef VV_NO_GUARD
#define VV_NO_GUARD
#endif
#ifndef VV_NO_PROFILE
#define VV_NO_PROFILE
#endif
#if defined(__has_attribute) && defined(__clang__)
#if __has_attribute(disable_sanitizer_instrumentation) /* the other one leaves calls in front of atomic operations */
#define VV_NO_CHECKS                                                                                                   \
    __attribute__((no_sanitize("address", "thread", "undefined", "memory", "coverage"),                                \
                   disable_sanitizer_instrumentation))
#else
#define VV_NO_CHECKS __attribute__((no_sanitize("address", "thread", "undefined", "memory", "coverage")))
#endif
#else
#define VV_NO_CHECKS __attribute__((no_sanitize_address, no_sanitize_thread, no_sanitize_undefined))
#endif
#define VV_BARE VV_NO_GUARD VV_NO_PROFILE VV_NO_CHECKS __attribute__((no_instrument_function))
#define VV_BARE_INLINE static inline VV_BARE __attribute__((always_inline))

#define VV_FROZEN_TEXT 2048

struct vv_frozen_request {
    uint32_t count;
    enum vv_frozen_after after;
    int wants_memory;
    struct vv_frozen_run runs[VV_FROZEN_RUNS];
};
struct vv_frozen_shared {
    uint32_t is_ready; /* the child has let go of the program's descriptors; waited for as a futex */
    uint32_t asked;    /* requests in all; waited for as a futex */
    uint32_t answered; /* waited for as a futex */
    uint32_t at;       /* the run that is being copied */
    uint32_t must_end; /* asked is bumped, too, so that the child looks */
    uint32_t is_trial; /* the program waits for the first answer, before it goes on */
    uint32_t kept_count;
    int parent, pipe; /* its process, and the end that the child keeps: the other closes when its parent is gone */
    size_t page;
    struct vv_frozen_request requests[2]; /* in turns: one is given back while the next is made */
    struct vv_frozen_range kept[VV_FROZEN_KEPT];
    char text[VV_FROZEN_TEXT]; /* what the kernel says of the child's memory */
    uint8_t buffer[] __attribute__((aligned(4096)));
};

/* Makes the child, which never returns; in the parent its process id or -errno, and a descriptor of it in *pidfd where
 * the kernel has such. All signals are blocked. */
long vv_frozen_spawn(struct vv_frozen_shared *shared, int *pidfd);

#endif
