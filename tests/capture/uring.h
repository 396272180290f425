/* Just enough of io_uring to read one piece at a time, without a library. */
#ifndef CAPTURE_URING_H
#define CAPTURE_URING_H

#include <linux/io_uring.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct uring {
    int fd;
    void *queues;
    size_t queues_size;
    struct io_uring_sqe *entries;
    struct io_uring_params params;
};
/* -1 and errno. */
int uring_open(struct uring *uring);
/* Pin this memory as buffer 0: from then on reads into it need no page table. */
int uring_register(struct uring *uring, void *buffer, size_t size);
/* Read and wait for it; buffer_index -1: not a registered buffer. Returns bytes, or -1 and errno. */
ssize_t uring_read(struct uring *uring, int file, void *to, size_t size, uint64_t offset, int buffer_index);
void uring_close(struct uring *uring);

#endif
