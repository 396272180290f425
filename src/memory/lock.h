/* A lock that a signal handler may take, if everybody else blocks signals while holding it. */
#ifndef VV_LOCK_H
#define VV_LOCK_H

#include <stdatomic.h>

/* 0 free, 1 taken, 2 taken and somebody sleeps. */
struct vv_lock {
    atomic_uint word;
};
void vv_lock_take(struct vv_lock *lock);
void vv_lock_give(struct vv_lock *lock);

#endif
