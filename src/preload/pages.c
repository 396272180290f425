/* Whole pages for large allocations, so that no two of them share one. What was freed last is kept: a program that
 * allocates the same temporary array in every step would pay for new pages each time. It is kept for the same call
 * site: what a program has not written must not hold what others left there, addresses above all. */
#include <string.h>
#include <sys/mman.h>

#include "preload_private.h"

#define KEPT_MOST 16
#define KEPT_BYTES ((size_t)64 << 20) /* in all */

static struct {
    void *ptr;
    size_t bytes;
    uint32_t site;
} kept[KEPT_MOST];
static unsigned kept_count;
static size_t kept_bytes;

/* Where the process has as many mappings as the kernel allows (vm.max_map_count), none may be cut in two. Then the
 * pages are emptied and wait, each with the next one in its begin. */
static struct waiting {
    struct waiting *next;
    size_t bytes;
} * waiting;

static void unmap(void *ptr, size_t bytes) {
    if (munmap(ptr, bytes) != 0) {
        struct waiting *more = ptr;
        madvise(ptr, bytes, MADV_DONTNEED);
        *more = (struct waiting){waiting, bytes};
        waiting = more;
        return;
    }
    while (waiting) { /* there is room for some now */
        struct waiting *next = waiting->next;
        if (munmap(waiting, waiting->bytes) != 0)
            return;
        waiting = next;
    }
}

static void *take_kept(size_t bytes, size_t alignment, uint32_t site) {
    for (unsigned i = kept_count; i-- > 0;) {
        void *ptr = kept[i].ptr;
        if (kept[i].bytes != bytes || kept[i].site != site || ((uintptr_t)ptr & (alignment - 1)))
            continue;
        memmove(kept + i, kept + i + 1, (--kept_count - i) * sizeof *kept);
        kept_bytes -= bytes;
        return ptr;
    }
    return NULL;
}

static void *map(size_t bytes) {
    void *ptr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return ptr == MAP_FAILED ? NULL : ptr;
}

/* Too much, and what is in front of the aligned address and behind its end goes back. */
static void *map_aligned(size_t bytes, size_t alignment) {
    size_t more;
    char *ptr = __builtin_add_overflow(bytes, alignment, &more) ? NULL : map(more);
    if (!ptr)
        return NULL;
    size_t before = (alignment - ((uintptr_t)ptr & (alignment - 1))) & (alignment - 1);
    if (before > 0)
        munmap(ptr, before);
    if (alignment - before > 0)
        munmap(ptr + before + bytes, alignment - before);
    return ptr + before;
}

void *pages_take(size_t bytes, size_t alignment, uint32_t site, int *is_used) {
    void *ptr = take_kept(bytes, alignment, site);
    *is_used = ptr != NULL;
    if (ptr)
        return ptr;
    return alignment <= 4096 ? map(bytes) : map_aligned(bytes, alignment);
}

/* The oldest make room. */
void pages_give(void *ptr, size_t bytes, uint32_t site) {
    if (bytes > KEPT_BYTES / 4) {
        unmap(ptr, bytes);
        return;
    }
    while (kept_count == KEPT_MOST || bytes > KEPT_BYTES - kept_bytes) {
        unmap(kept[0].ptr, kept[0].bytes);
        kept_bytes -= kept[0].bytes;
        memmove(kept, kept + 1, --kept_count * sizeof *kept);
    }
    kept[kept_count].ptr = ptr;
    kept[kept_count].bytes = bytes;
    kept[kept_count++].site = site;
    kept_bytes += bytes;
}

/* A tracker that watches part of it has split the mapping in the kernel, which then moves none of it. */
static void *copy_pages(void *ptr, size_t bytes, size_t wanted) {
    void *copy = map(wanted);
    if (!copy)
        return NULL;
    memcpy(copy, ptr, bytes < wanted ? bytes : wanted);
    unmap(ptr, bytes);
    return copy;
}

void *pages_resize(void *ptr, size_t bytes, size_t wanted) {
    void *moved = bytes == wanted ? ptr : mremap(ptr, bytes, wanted, MREMAP_MAYMOVE);
    return moved == MAP_FAILED ? copy_pages(ptr, bytes, wanted) : moved;
}
