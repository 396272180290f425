/* Messages from one process to another on the same node, through memory that both have mapped. It needs nobody's
 * permission to talk, so it works in the background whatever the program's MPI allows.
 *
 * A ring has one sender and one receiver, each one thread at a time. Messages lie in it as they were sent, in one
 * piece, and in order; the receiver reads them in place. Who waits sleeps in the kernel (futex) and looks again now
 * and then, since the other side may have died. */
#ifndef VV_RING_H
#define VV_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Wakes a receiver of several rings. All zeros to begin with. */
struct vv_doorbell {
    _Atomic uint32_t rings;
    _Atomic uint32_t sleepers;
};
/* Has it rung? Take a look at the number, then at the rings; if they are empty, wait until the number has changed,
 * or ms milliseconds are over. */
uint32_t vv_doorbell_look(const struct vv_doorbell *bell);
void vv_doorbell_wait(struct vv_doorbell *bell, uint32_t seen, unsigned ms);
void vv_doorbell_ring(struct vv_doorbell *bell);

struct vv_ring; /* in shared memory; knows no addresses */

/* Memory for a ring with `room` bytes for messages, a power of two from 4 KiB on; a multiple of 64. 0 for other
 * rooms. */
size_t vv_ring_bytes(uint32_t capacity);
/* In zeroed memory at a multiple of 64. Once, before anybody else looks at it. */
void vv_ring_init(struct vv_ring *ring, uint32_t capacity);
/* The longest message. At least room / 4; 0 if this is no ring (any more). */
uint32_t vv_ring_longest(const struct vv_ring *ring);

/* ---- the sender ---- */
/* Room for a message of size bytes (1 to the longest), at a multiple of 8. NULL if there is none after ms
 * milliseconds, or never. Who has to wait is not woken for each message that goes, but when a quarter of the ring
 * is free. Reserving again forgets what was reserved. */
void *vv_ring_reserve(struct vv_ring *ring, uint32_t size, unsigned ms);
/* Send what was written there; size is at most what was reserved. The receiver's bell rings. Sends nothing if
 * nothing is reserved. */
void vv_ring_send(struct vv_ring *ring, uint32_t size, struct vv_doorbell *bell);

/* ---- the receiver ---- */
/* The next message, which stays until it is dropped; NULL if there is none now. With is_broken (may be NULL) set
 * when what is there cannot be a message. */
const void *vv_ring_peek(struct vv_ring *ring, uint32_t *size_out, int *is_broken);
/* The message that was looked at last; nothing if there is none. */
void vv_ring_drop(struct vv_ring *ring);

#endif
