/* A futex, since a signal handler may not take what pthreads has. */
#include "memory/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static void futex(struct vv_lock *lock, int operation, unsigned value) {
    syscall(SYS_futex, &lock->word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

void vv_lock_take(struct vv_lock *lock) {
    unsigned seen = 0;
    if (atomic_compare_exchange_strong_explicit(&lock->word, &seen, 1, memory_order_acquire, memory_order_relaxed))
        return;
    int kept = errno;
    while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
        futex(lock, FUTEX_WAIT, 2);
    errno = kept;
}

void vv_lock_give(struct vv_lock *lock) {
    int kept = errno;
    if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2)
        futex(lock, FUTEX_WAKE, 1);
    errno = kept;
}
