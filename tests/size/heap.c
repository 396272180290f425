/* Allocation functions that count. The linker gives us their callers (-Wl,--wrap=malloc and so on).
 *
 * What was asked for is counted, not what the C library gave: its rounding depends on addresses. So the sizes are
 * kept in a table by address. */
#include "heap.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>

#define SLOTS (1u << 18) /* far more than a test has pieces at a time */

struct piece {
    const void *at; /* NULL: never used; GONE: free again */
    int64_t bytes;
};

static const char gone;
#define GONE ((const void *)&gone)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct piece pieces[SLOTS];
static struct heap live, peak;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *ptr, size_t size);
void __real_free(void *ptr);
int __real_posix_memalign(void **out, size_t alignment, size_t size);
void *__real_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *address, size_t size);
char *__real_realpath(const char *path, char *out);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *ptr, size_t size);
void __wrap_free(void *ptr);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);
void *__wrap_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *address, size_t size);
char *__wrap_realpath(const char *path, char *out);

struct heap heap_live(void) {
    pthread_mutex_lock(&lock);
    struct heap bytes = live;
    pthread_mutex_unlock(&lock);
    return bytes;
}

void heap_watch(void) {
    pthread_mutex_lock(&lock);
    peak = live;
    pthread_mutex_unlock(&lock);
}

struct heap heap_peak(void) {
    pthread_mutex_lock(&lock);
    struct heap bytes = peak;
    pthread_mutex_unlock(&lock);
    return bytes;
}

/* Lock held. */
static void count(int64_t bytes, int is_small) {
    live.all += bytes;
    live.small += is_small ? bytes : 0;
    peak.all = live.all > peak.all ? live.all : peak.all;
    peak.small = live.small > peak.small ? live.small : peak.small;
}

static size_t slot_of(const void *at) {
    return (size_t)((uintptr_t)at * UINT64_C(0x9E3779B97F4A7C15) >> 40) % SLOTS;
}

static void *note(void *at, size_t size) {
    if (!at)
        return at;
    pthread_mutex_lock(&lock);
    size_t slot = slot_of(at);
    for (size_t tries = 0; pieces[slot].at && pieces[slot].at != GONE; slot = (slot + 1) % SLOTS)
        if (++tries == SLOTS)
            abort();
    pieces[slot] = (struct piece){at, (int64_t)size};
    count((int64_t)size, size < HEAP_SMALL);
    pthread_mutex_unlock(&lock);
    return at;
}

/* Lock held. NULL for a piece we have not seen begin: somebody else has taken it. */
static struct piece *find(const void *at) {
    size_t slot = slot_of(at);
    for (size_t tries = 0; at && pieces[slot].at && tries < SLOTS; slot = (slot + 1) % SLOTS, tries++)
        if (pieces[slot].at == at)
            return &pieces[slot];
    return NULL;
}

static void forget(const void *at) {
    pthread_mutex_lock(&lock);
    struct piece *piece = find(at);
    if (piece) {
        count(-piece->bytes, piece->bytes < HEAP_SMALL);
        piece->at = GONE;
    }
    pthread_mutex_unlock(&lock);
}

static size_t size_of(const void *at) {
    pthread_mutex_lock(&lock);
    struct piece *piece = find(at);
    size_t bytes = piece ? (size_t)piece->bytes : 0;
    pthread_mutex_unlock(&lock);
    return bytes;
}

void *__wrap_malloc(size_t size) {
    return note(__real_malloc(size), size);
}

void *__wrap_calloc(size_t count, size_t size) {
    return note(__real_calloc(count, size), count * size);
}

/* It always moves, and while it does, the old piece and the new one are both there: the worst that may happen. */
void *__wrap_realloc(void *ptr, size_t size) {
    size_t before = size_of(ptr);
    void *moved = __wrap_malloc(size);
    if (!moved)
        return NULL;
    if (ptr)
        memcpy(moved, ptr, before < size ? before : size);
    __wrap_free(ptr);
    return moved;
}

void __wrap_free(void *ptr) {
    forget(ptr);
    __real_free(ptr);
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t size) {
    int rc = __real_posix_memalign(out, alignment, size);
    if (rc == 0)
        note(*out, size);
    return rc;
}

void *__wrap_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
    void *mapped = __real_mmap(address, size, protection, flags, fd, offset);
    return mapped == MAP_FAILED ? mapped : note(mapped, size);
}

int __wrap_munmap(void *address, size_t size) {
    forget(address);
    return __real_munmap(address, size);
}

/* Allocates inside the C library what the caller frees. */
char *__wrap_realpath(const char *path, char *out) {
    char *found = __real_realpath(path, out);
    return found && !out ? note(found, strlen(found) + 1) : found;
}
