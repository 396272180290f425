/* Small allocations are the C library's. Large ones are mappings of their own: what is freed goes back to the system at
 * once, whichever thread frees it. The C library keeps large pieces once some were freed, in an arena for each thread:
 * after a restart that was as much again as was in use. A mapping also grows without being copied. */
#include "base/alloc.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef VARVE_FAULTS

static atomic_uint_fast64_t alloc_count;
static atomic_uint_fast64_t alloc_fail_at;
static pthread_once_t alloc_once = PTHREAD_ONCE_INIT;

static void read_environment(void) {
    const char *text = secure_getenv("VARVE_FAIL_ALLOC");
    if (text)
        atomic_store(&alloc_fail_at, strtoull(text, NULL, 10));
}

static int is_refused(void) {
    pthread_once(&alloc_once, read_environment);
    uint64_t count = atomic_fetch_add(&alloc_count, 1) + 1;
    if (count != atomic_load(&alloc_fail_at))
        return 0;
    errno = ENOMEM;
    return 1;
}

void vv_alloc_fail_at(uint64_t k) {
    pthread_once(&alloc_once, read_environment);
    atomic_store(&alloc_fail_at, 0);
    atomic_store(&alloc_count, 0);
    atomic_store(&alloc_fail_at, k);
}

uint64_t vv_alloc_count(void) {
    return atomic_load(&alloc_count);
}
#else
static int is_refused(void) {
    return 0;
}

void vv_alloc_fail_at(uint64_t k) {
    (void)k;
}

uint64_t vv_alloc_count(void) {
    return 0;
}
#endif

/* The C library may answer NULL or a pointer to a request for nothing; ours never does the former. */
static size_t at_least_one(size_t size) {
    return size ? size : 1;
}

/* ---- mappings ---- */

#define PAGE ((size_t)4096)
#define LISTS 1024u

/* Sanitizers see only what the C library was asked for. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LARGE SIZE_MAX
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define LARGE SIZE_MAX
#endif
#endif
#ifndef LARGE
#define LARGE ((size_t)128 << 10)
#endif

/* Where they are and how long, by their addresses. */
struct mapping {
    struct mapping *next;
    uint8_t *at;
    size_t size;
    int is_ours; /* or the program's, which is not counted */
};
static struct mapping *mappings[LISTS];
static pthread_mutex_t mappings_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t mappings_once = PTHREAD_ONCE_INIT;

static void lock_mappings(void) {
    pthread_mutex_lock(&mappings_lock);
}

static void unlock_mappings(void) {
    pthread_mutex_unlock(&mappings_lock);
}

/* A program may fork while one of our threads has the lock. */
static void watch_forks(void) {
    (void)pthread_atfork(lock_mappings, unlock_mappings, unlock_mappings);
}

static struct mapping **list_of(const void *ptr) {
    uintptr_t page = (uintptr_t)ptr / PAGE;
    return &mappings[(page ^ page >> 10) % LISTS];
}

static size_t whole_pages(size_t size) {
    return (at_least_one(size) + PAGE - 1) / PAGE * PAGE;
}

static void note_mapping(struct mapping *mapping, void *at, size_t size) {
    mapping->at = at;
    mapping->size = size;
    pthread_once(&mappings_once, watch_forks);
    lock_mappings();
    struct mapping **list = list_of(at);
    mapping->next = *list;
    *list = mapping;
    unlock_mappings();
}

/* The mapping that begins here, and is in no list any more; NULL: it is the C library's. */
static struct mapping *take_mapping(const void *ptr) {
    if ((uintptr_t)ptr % PAGE != 0)
        return NULL;
    lock_mappings();
    struct mapping **at = list_of(ptr);
    while (*at && (*at)->at != ptr)
        at = &(*at)->next;
    struct mapping *mapping = *at;
    if (mapping)
        *at = mapping->next;
    unlock_mappings();
    return mapping;
}

/* alignment: a power of two. What lies before and behind it goes back. */
static void *map_aligned(size_t size, size_t alignment) {
    size_t capacity = alignment > PAGE ? size + alignment : size;
    uint8_t *ptr = capacity < size ? MAP_FAILED
                                   : mmap(NULL, capacity, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (ptr == MAP_FAILED)
        return NULL;
    size_t before = alignment > PAGE ? (alignment - (uintptr_t)ptr % alignment) % alignment : 0;
    if (before)
        munmap(ptr, before);
    if (capacity - before > size)
        munmap(ptr + before + size, capacity - before - size);
    return ptr + before;
}

static void *map_for(size_t size, size_t alignment, int is_ours) {
    struct mapping *mapping = size > SIZE_MAX / 2 ? NULL : malloc(sizeof *mapping);
    void *ptr = mapping ? map_aligned(whole_pages(size), alignment) : NULL;
    if (!ptr) {
        free(mapping);
        errno = ENOMEM;
        return NULL;
    }
    mapping->is_ours = is_ours;
    note_mapping(mapping, ptr, whole_pages(size));
    return ptr;
}

static void *map_large(size_t size, size_t alignment) {
    return map_for(size, alignment, 1);
}

/* Where a process may have no more mappings, one in the middle of others cannot be taken out: then its pages go. */
static void unmap(void *at, size_t size) {
    if (munmap(at, size) != 0)
        (void)madvise(at, size, MADV_DONTNEED);
}

static int unmap_large(void *ptr) {
    struct mapping *mapping = take_mapping(ptr);
    if (!mapping)
        return 0;
    unmap(mapping->at, mapping->size);
    free(mapping);
    return 1;
}

/* ---- how much there is ---- */

static atomic_int_least64_t small_bytes; /* the C library's */
static atomic_uint_fast64_t most_bytes;

#define SMALL_HEAD sizeof(size_t) /* before each piece of the C library */

static void *count_small(void *ptr) {
    if (ptr)
        atomic_fetch_add_explicit(&small_bytes, (int64_t)(malloc_usable_size(ptr) + SMALL_HEAD), memory_order_relaxed);
    return ptr;
}

static void uncount_small(void *ptr) {
    if (ptr)
        atomic_fetch_sub_explicit(&small_bytes, (int64_t)(malloc_usable_size(ptr) + SMALL_HEAD), memory_order_relaxed);
}

/* Of a mapping, what was touched. */
static uint64_t resident(const struct mapping *mapping) {
    unsigned char there[4096];
    uint64_t pages = 0, page = (uint64_t)sysconf(_SC_PAGESIZE);
    size_t step = sizeof there * page;
    for (size_t at = 0; at < mapping->size; at += step) {
        size_t size = mapping->size - at < step ? mapping->size - at : step;
        if (mincore(mapping->at + at, size, there) != 0)
            return mapping->size;
        for (size_t i = 0; i < (size + page - 1) / page; i++)
            pages += there[i] & 1;
    }
    return pages * page;
}

uint64_t vv_memory_note(void) {
    int64_t small = atomic_load_explicit(&small_bytes, memory_order_relaxed);
    uint64_t now = small > 0 ? (uint64_t)small : 0;
    lock_mappings();
    for (size_t i = 0; i < LISTS; i++)
        for (const struct mapping *mapping = mappings[i]; mapping; mapping = mapping->next)
            now += mapping->is_ours ? resident(mapping) : 0;
    if (now > atomic_load_explicit(&most_bytes, memory_order_relaxed))
        atomic_store_explicit(&most_bytes, now, memory_order_relaxed);
    unlock_mappings();
    return now;
}

uint64_t vv_memory_most(void) {
    return atomic_load_explicit(&most_bytes, memory_order_relaxed);
}

/* ---- what everybody calls ---- */

void *vv_malloc(size_t size) {
    if (is_refused())
        return NULL;
    return size >= LARGE ? map_large(size, PAGE) : count_small(malloc(at_least_one(size)));
}

void *vv_calloc(size_t count, size_t size) {
    size_t total;
    if (__builtin_mul_overflow(count, size, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    if (is_refused())
        return NULL;
    return total >= LARGE ? map_large(total, PAGE) : count_small(calloc(1, at_least_one(total)));
}

/* From the C library to a mapping, or the reverse. */
static void *move_to(void *ptr, size_t had, size_t size) {
    void *moved = size >= LARGE ? map_large(size, PAGE) : count_small(malloc(at_least_one(size)));
    if (moved)
        memcpy(moved, ptr, had < size ? had : size);
    return moved;
}

static void *resize_large(struct mapping *mapping, size_t size) {
    uint8_t *before = mapping->at;
    void *ptr = size < LARGE           ? move_to(before, mapping->size, size)
                : size <= SIZE_MAX / 2 ? mremap(before, mapping->size, whole_pages(size), MREMAP_MAYMOVE)
                                       : MAP_FAILED;
    if (ptr == MAP_FAILED || !ptr) {
        note_mapping(mapping, before, mapping->size);
        errno = ENOMEM;
        return NULL;
    }
    if (size >= LARGE) {
        note_mapping(mapping, ptr, whole_pages(size));
    } else {
        unmap(before, mapping->size);
        free(mapping);
    }
    return ptr;
}

static void *resize_small(void *ptr, size_t size) {
    size_t had = malloc_usable_size(ptr);
    void *resized = size >= LARGE ? move_to(ptr, had, size) : realloc(ptr, at_least_one(size));
    if (!resized)
        return NULL;
    atomic_fetch_sub_explicit(&small_bytes, (int64_t)(had + SMALL_HEAD), memory_order_relaxed);
    if (size >= LARGE)
        free(ptr);
    else
        count_small(resized);
    return resized;
}

void *vv_realloc(void *ptr, size_t size) {
    if (is_refused())
        return NULL;
    if (!ptr)
        return size >= LARGE ? map_large(size, PAGE) : count_small(malloc(at_least_one(size)));
    struct mapping *mapping = take_mapping(ptr);
    return mapping ? resize_large(mapping, size) : resize_small(ptr, size);
}

int vv_grow(void *list, size_t *capacity, size_t count, size_t size, size_t first) {
    void *ptr;
    size_t more = *capacity ? *capacity + *capacity / 2 + 1 : first;
    if (count < *capacity)
        return 0;
    memcpy(&ptr, list, sizeof ptr);
    ptr = vv_realloc(ptr, more * size);
    if (!ptr)
        return -ENOMEM;
    memcpy(list, &ptr, sizeof ptr);
    *capacity = more;
    return 0;
}

void *vv_aligned(size_t size, size_t alignment) {
    void *ptr = NULL;
    if (is_refused())
        return NULL;
    if (size >= LARGE)
        return map_large(size, alignment);
    int rc = posix_memalign(&ptr, alignment, at_least_one(size));
    if (rc) {
        errno = rc;
        return NULL;
    }
    return count_small(ptr);
}

char *vv_strdup(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = vv_malloc(size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

void vv_free(void *ptr) {
    if (!ptr || unmap_large(ptr))
        return;
    uncount_small(ptr);
    free(ptr);
}

void *vv_pages_map(size_t size) {
    return is_refused() ? NULL : map_large(size, PAGE);
}

void *vv_pages_map_for_program(size_t size) {
    return is_refused() ? NULL : map_for(size, PAGE, 0);
}

void vv_pages_unmap(void *ptr, size_t size) {
    (void)size;
    if (ptr)
        unmap_large(ptr);
}
