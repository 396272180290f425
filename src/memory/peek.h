/* Copy memory that may be gone: the kernel copies, and answers instead of faulting. */
#ifndef VV_PEEK_H
#define VV_PEEK_H

#include <stddef.h>
#include <sys/uio.h>

/* 0 or -EFAULT. Never a signal; may be called in a signal handler. */
int vv_peek(void *to, const void *from, size_t size);
/* Several pieces, each as long there as here: much cheaper than one by one. */
int vv_peek_many(const struct iovec *to, const struct iovec *from, size_t count);
/* 1 if it works here. */
int vv_peek_works(void);

#endif
