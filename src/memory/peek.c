/* Copying memory that may be gone: the kernel copies it, and says EFAULT where a load would be a signal. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

#include "memory/peek.h"

#define PIECE (1u << 30) /* below what the kernel copies in one call */

/* The way that works; found by the first who asks, and whoever asks at the same time finds the same. */
enum way { WAY_UNKNOWN, WAY_CALL, WAY_FILE, WAY_NONE };
static _Atomic int known_way;

/* /proc/self/mem and the process that opened it: a child of fork would read its parent's memory through the parent's.
 * Process in the upper half, descriptor in the lower one; 0: none was opened. */
static _Atomic uint64_t known_file;

static int file_of(uint64_t known) {
    return (int)(uint32_t)known;
}

/* A descriptor or -errno. */
static int open_own_memory(void) {
    uint64_t pid = (uint64_t)getpid();
    uint64_t known = atomic_load(&known_file);
    if (known >> 32 == pid)
        return file_of(known);
    int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (!atomic_compare_exchange_strong(&known_file, &known, pid << 32 | (uint32_t)fd)) {
        close(fd); /* another thread was first */
        return file_of(known);
    }
    if (known != 0)
        close(file_of(known)); /* the parent's; nobody uses it here */
    return fd;
}

static ssize_t copy_by_call(void *to, const void *from, size_t size) {
    struct iovec local = {to, size}, remote = {(void *)(uintptr_t)from, size};
    ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    return got >= 0 ? got : -errno;
}

static ssize_t copy_by_file(void *to, const void *from, size_t size) {
    int fd = open_own_memory();
    if (fd < 0)
        return fd;
    ssize_t got = pread(fd, to, size, (off_t)(uintptr_t)from);
    return got >= 0 ? got : -errno;
}

static int copy(enum way way, uint8_t *to, const uint8_t *from, size_t size) {
    while (size > 0) {
        size_t step = size < PIECE ? size : PIECE;
        ssize_t got = way == WAY_CALL ? copy_by_call(to, from, step) : copy_by_file(to, from, step);
        if (got == -EINTR)
            continue;
        if (got <= 0)
            return -EFAULT;
        to += got;
        from += got;
        size -= (size_t)got;
    }
    return 0;
}

static int does_work(enum way way) {
    static const uint8_t sample[16] = "peek at me";
    uint8_t seen[sizeof sample] = {0};
    /* Both must hold: what is there is read, and what is not is refused. */
    if (copy(way, seen, sample, sizeof sample) != 0)
        return 0;
    for (size_t i = 0; i < sizeof sample; i++)
        if (seen[i] != sample[i])
            return 0;
    return copy(way, seen, NULL, sizeof seen) == -EFAULT;
}

static enum way find_way(void) {
    int way = atomic_load(&known_way);
    if (way == WAY_UNKNOWN) {
        way = does_work(WAY_CALL) ? WAY_CALL : does_work(WAY_FILE) ? WAY_FILE : WAY_NONE;
        atomic_store(&known_way, way);
    }
    return (enum way)way;
}

int vv_peek_works(void) {
    return find_way() != WAY_NONE;
}

int vv_peek(void *to, const void *from, size_t size) {
    enum way way = find_way();
    return way == WAY_NONE ? -EFAULT : copy(way, to, from, size);
}

int vv_peek_many(const struct iovec *to, const struct iovec *from, size_t count) {
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += from[i].iov_len;
    if (find_way() == WAY_CALL && count <= IOV_MAX &&
        process_vm_readv(getpid(), to, count, from, count, 0) == (ssize_t)size)
        return 0;
    for (size_t i = 0; i < count; i++) { /* one by one: some of it is gone, or there is no such call */
        int rc = vv_peek(to[i].iov_base, from[i].iov_base, from[i].iov_len);
        if (rc != 0)
            return rc;
    }
    return 0;
}
