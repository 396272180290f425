#include "uring.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define ENTRIES 4u

int uring_open(struct uring *uring) {
    memset(uring, 0, sizeof *uring);
    uring->fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &uring->params);
    if (uring->fd < 0)
        return -1;
    const struct io_uring_params *p = &uring->params;
    size_t submissions = p->sq_off.array + p->sq_entries * sizeof(uint32_t);
    size_t completions = p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);
    uring->queues_size = submissions > completions ? submissions : completions;
    uring->queues = mmap(NULL, uring->queues_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, uring->fd,
                         IORING_OFF_SQ_RING);
    uring->entries = mmap(NULL, p->sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_POPULATE, uring->fd, IORING_OFF_SQES);
    if (!(p->features & IORING_FEAT_SINGLE_MMAP) || uring->queues == MAP_FAILED || uring->entries == MAP_FAILED) {
        close(uring->fd);
        errno = ENOTSUP;
        return -1;
    }
    return 0;
}

int uring_register(struct uring *uring, void *buffer, size_t size) {
    struct iovec vector = {buffer, size};
    return (int)syscall(SYS_io_uring_register, uring->fd, IORING_REGISTER_BUFFERS, &vector, 1);
}

static uint32_t *word(const struct uring *uring, uint32_t offset) {
    return (uint32_t *)((uint8_t *)uring->queues + offset);
}

ssize_t uring_read(struct uring *uring, int file, void *to, size_t size, uint64_t offset, int buffer_index) {
    const struct io_uring_params *p = &uring->params;
    uint32_t tail = *word(uring, p->sq_off.tail), slot = tail & *word(uring, p->sq_off.ring_mask);
    uring->entries[slot] = (struct io_uring_sqe){
        .opcode = buffer_index < 0 ? IORING_OP_READ : IORING_OP_READ_FIXED,
        .fd = file,
        .addr = (uint64_t)(uintptr_t)to,
        .len = (uint32_t)size,
        .off = offset,
        .buf_index = (uint16_t)(buffer_index < 0 ? 0 : buffer_index),
    };
    word(uring, p->sq_off.array)[slot] = slot;
    __atomic_store_n(word(uring, p->sq_off.tail), tail + 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, uring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
        return -1;
    uint32_t head = *word(uring, p->cq_off.head);
    if (head == __atomic_load_n(word(uring, p->cq_off.tail), __ATOMIC_ACQUIRE)) {
        errno = EAGAIN;
        return -1;
    }
    const struct io_uring_cqe *done = (const struct io_uring_cqe *)((uint8_t *)uring->queues + p->cq_off.cqes) +
                                      (head & *word(uring, p->cq_off.ring_mask));
    int32_t result = done->res;
    __atomic_store_n(word(uring, p->cq_off.head), head + 1, __ATOMIC_RELEASE);
    if (result < 0) {
        errno = -result;
        return -1;
    }
    return result;
}

void uring_close(struct uring *uring) {
    munmap(uring->queues, uring->queues_size);
    munmap(uring->entries, uring->params.sq_entries * sizeof(struct io_uring_sqe));
    close(uring->fd);
}
