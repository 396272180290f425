/* A ring is two positions, counted in bytes and never turned back, and the bytes between them. A message is its
 * size in 8 bytes, its bytes, and a gap up to the next multiple of 8. What does not fit before the end begins at
 * the beginning again, and a mark says so; no message is longer than half of the ring, so that one always fits into
 * a ring that is empty.
 *
 * Whatever the other process may have done to the memory, offsets are masked and sizes compared with the ring's
 * before anything is read or written by them. */
#include "gather/ring.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"

#define MAGIC 0x52565652u
#define LINE 64
#define HEAD 8u         /* bytes in front of each message */
#define TURN UINT32_MAX /* instead of a size: the rest up to the end is empty */
#define CAPACITY_LEAST 4096u

/* Each side writes into lines of its own. */
struct vv_ring {
    uint32_t capacity;
    uint32_t check; /* the room, told again */

    _Alignas(LINE) _Atomic uint64_t sent; /* all before it has been sent */
    uint64_t reserved_at;                 /* of the sender alone: where its message begins */
    uint32_t reserved;                    /* its size at most; 0: nothing is reserved */
    _Atomic uint64_t awaited;             /* the sender sleeps until this much is dropped; 0: it does not */

    _Alignas(LINE) _Atomic uint64_t dropped; /* all before it may be written over */
    uint64_t peeked;                         /* of the receiver alone: where the message ends that it looks at */
    uint32_t is_peeked;

    _Alignas(LINE) struct vv_doorbell freed; /* rings for the sender */

    _Alignas(LINE) uint8_t bytes[];
};

_Static_assert(sizeof(struct vv_ring) % LINE == 0, "messages begin at a line");
_Static_assert(sizeof(_Atomic uint32_t) == sizeof(uint32_t), "the kernel looks at it");

/* ---- bells ---- */

/* Not the private kind: the other side is another process. */
static long futex(const void *word, int what, uint32_t value, const struct timespec *timeout) {
    return syscall(SYS_futex, word, what, value, timeout, NULL, 0);
}

uint32_t vv_doorbell_look(const struct vv_doorbell *bell) {
    return atomic_load(&bell->rings);
}

/* Nobody is missed: who waits counts itself before the kernel compares the number, who rings changes the number
 * before it looks for sleepers, and all four are in one order. One who is killed asleep stays counted; ringing then
 * takes a little longer. */
void vv_doorbell_wait(struct vv_doorbell *bell, uint32_t seen, unsigned ms) {
    uint64_t begin = vv_clock_ns(), span = (uint64_t)ms * 1000000, passed = 0;
    atomic_fetch_add(&bell->sleepers, 1);
    while (passed < span && atomic_load(&bell->rings) == seen) {
        uint64_t left = span - passed;
        struct timespec timeout = {(time_t)(left / 1000000000), (long)(left % 1000000000)};
        (void)futex(&bell->rings, FUTEX_WAIT, seen, &timeout); /* also ends for a signal, or for nothing */
        passed = vv_clock_ns() - begin;
    }
    atomic_fetch_sub(&bell->sleepers, 1);
}

void vv_doorbell_ring(struct vv_doorbell *bell) {
    atomic_fetch_add(&bell->rings, 1);
    if (atomic_load(&bell->sleepers) > 0)
        (void)futex(&bell->rings, FUTEX_WAKE, INT_MAX, NULL);
}

/* ---- the ring ---- */

static int is_capacity(uint32_t capacity) {
    return capacity >= CAPACITY_LEAST && (capacity & (capacity - 1)) == 0;
}

/* 0 if this is no ring. */
static uint32_t capacity_of(const struct vv_ring *ring) {
    uint32_t capacity = ring->capacity;
    return is_capacity(capacity) && (capacity ^ MAGIC) == ring->check ? capacity : 0;
}

static uint32_t longest(uint32_t capacity) {
    return capacity ? capacity / 2 - HEAD : 0;
}

/* With its head and the gap behind it. */
static uint32_t whole(uint32_t size) {
    return HEAD + ((size + 7) & ~7u);
}

static uint32_t *head_at(struct vv_ring *ring, uint32_t offset) {
    return (uint32_t *)(ring->bytes + offset);
}

size_t vv_ring_bytes(uint32_t capacity) {
    return is_capacity(capacity) ? sizeof(struct vv_ring) + capacity : 0;
}

void vv_ring_init(struct vv_ring *ring, uint32_t capacity) {
    ring->capacity = is_capacity(capacity) ? capacity : 0;
    ring->check = capacity ^ MAGIC;
}

uint32_t vv_ring_longest(const struct vv_ring *ring) {
    return longest(capacity_of(ring));
}

/* ---- the sender ---- */

/* Where a message so long may begin; not 0 if there is room for it now. */
static int find_capacity(struct vv_ring *ring, uint32_t capacity, uint32_t size, uint64_t *at_out) {
    uint64_t at = atomic_load_explicit(&ring->sent, memory_order_relaxed) & ~UINT64_C(7);
    uint64_t used = at - atomic_load(&ring->dropped);
    uint32_t to_end = capacity - (uint32_t)(at & (capacity - 1)), skipped = to_end < whole(size) ? to_end : 0;
    *at_out = at + skipped;
    return used <= capacity && skipped + whole(size) <= capacity - used;
}

/* How far the receiver must come before it is worth to be woken: not for each message, but when a quarter is free. */
static uint64_t worth_waking(const struct vv_ring *ring, uint32_t capacity, uint64_t end) {
    uint64_t sent = atomic_load_explicit(&ring->sent, memory_order_relaxed), most = capacity / 4 * 3;
    uint64_t fits = end > capacity ? end - capacity : 1, eased = sent > most ? sent - most : 1;
    return fits > eased ? fits : eased;
}

/* As with bells: the sender says what it waits for and then looks how far the receiver is, the receiver goes on and
 * then looks what is waited for. */
static int wait_for_capacity(struct vv_ring *ring, uint32_t capacity, uint32_t size, unsigned ms, uint64_t *at) {
    uint64_t begin = vv_clock_ns(), passed = 0;
    int has_capacity = 0;
    for (;;) {
        uint32_t seen = vv_doorbell_look(&ring->freed);
        atomic_store(&ring->awaited, worth_waking(ring, capacity, *at + whole(size)));
        has_capacity = find_capacity(ring, capacity, size, at);
        if (has_capacity || passed >= ms)
            break;
        vv_doorbell_wait(&ring->freed, seen, ms - (unsigned)passed);
        passed = (vv_clock_ns() - begin) / 1000000;
    }
    atomic_store(&ring->awaited, 0);
    return has_capacity;
}

void *vv_ring_reserve(struct vv_ring *ring, uint32_t size, unsigned ms) {
    uint32_t capacity = capacity_of(ring);
    uint64_t at;
    ring->reserved = 0;
    if (size == 0 || size > longest(capacity))
        return NULL;
    if (!find_capacity(ring, capacity, size, &at) && (ms == 0 || !wait_for_capacity(ring, capacity, size, ms, &at)))
        return NULL;
    ring->reserved_at = at;
    ring->reserved = size;
    return ring->bytes + (at & (capacity - 1)) + HEAD;
}

void vv_ring_send(struct vv_ring *ring, uint32_t size, struct vv_doorbell *bell) {
    uint32_t capacity = capacity_of(ring);
    uint64_t sent = atomic_load_explicit(&ring->sent, memory_order_relaxed), at = ring->reserved_at;
    if (size == 0 || size > ring->reserved || size > longest(capacity))
        return; /* nothing was reserved for it */
    if (at != sent)
        *head_at(ring, (uint32_t)(sent & (capacity - 8))) = TURN;
    *head_at(ring, (uint32_t)(at & (capacity - 8))) = size;
    ring->reserved = 0;
    atomic_store_explicit(&ring->sent, at + whole(size), memory_order_release);
    vv_doorbell_ring(bell);
}

/* ---- the receiver ---- */

/* Moves at to the next message, if the rest up to the end is empty. Returns its size, or 0 if it cannot be one. */
static uint32_t next_size(struct vv_ring *ring, uint32_t capacity, uint64_t *at, uint64_t sent) {
    uint32_t offset = (uint32_t)(*at & (capacity - 1));
    if (((*at | sent) & 7) != 0 || sent - *at > capacity)
        return 0;
    uint32_t size = *head_at(ring, offset);
    if (size == TURN) {
        *at += capacity - offset;
        if (*at >= sent || sent - *at > capacity)
            return 0;
        offset = 0;
        size = *head_at(ring, 0);
    }
    int is_inside =
        size > 0 && size <= longest(capacity) && whole(size) <= capacity - offset && whole(size) <= sent - *at;
    return is_inside ? size : 0;
}

const void *vv_ring_peek(struct vv_ring *ring, uint32_t *size_out, int *is_broken) {
    uint32_t capacity = capacity_of(ring), size = 0;
    uint64_t at = atomic_load_explicit(&ring->dropped, memory_order_relaxed);
    uint64_t sent = atomic_load_explicit(&ring->sent, memory_order_acquire);
    *size_out = 0;
    ring->is_peeked = 0;
    if (is_broken)
        *is_broken = 0;
    if (capacity && at == sent)
        return NULL;
    if (capacity)
        size = next_size(ring, capacity, &at, sent);
    if (size == 0) {
        if (is_broken)
            *is_broken = 1;
        return NULL;
    }
    ring->peeked = at + whole(size);
    ring->is_peeked = 1;
    *size_out = size;
    return ring->bytes + (at & (capacity - 1)) + HEAD;
}

void vv_ring_drop(struct vv_ring *ring) {
    if (!ring->is_peeked)
        return;
    ring->is_peeked = 0;
    atomic_store(&ring->dropped, ring->peeked);
    uint64_t awaited = atomic_load(&ring->awaited);
    if (awaited && ring->peeked >= awaited)
        vv_doorbell_ring(&ring->freed);
}
