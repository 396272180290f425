/* The heap of address-true mode: at the same addresses in every run, with all that the allocator knows inside of it. So
 * the bytes of the arena are the whole state of the heap, and a restart puts them back as they are.
 *
 * Blocks have classes of sizes, four to each doubling, and a freed one waits for the next of its class. What is free
 * holds zeros: it takes no room in a checkpoint, and no address lingers in it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preload_private.h"

#define STEP ((size_t)16 << 20)
#define CLASSES 184u
#define SMALL 1024u /* up to here each multiple of 16 is a class */
#define ROOM sizeof(struct tag)

struct freed {
    struct freed *next;
};

/* Before each block's memory. */
struct tag {
    uint64_t size;  /* that was asked for */
    uint32_t class; /* of the block */
    uint32_t back;  /* how many times 16 bytes the block begins before this */
};

/* At the begin of the arena. */
struct head {
    uint64_t top; /* bytes that were ever used */
    struct freed *free[CLASSES];
};

static size_t committed; /* bytes that can be used; not in the arena, since it is this process's */

static struct head *head(void) {
    return (struct head *)ARENA_BASE;
}

/* ---- classes ---- */

static unsigned class_of(size_t bytes) {
    if (bytes <= SMALL)
        return (unsigned)((bytes + 15) / 16);
    unsigned power = 63u - (unsigned)__builtin_clzll(bytes - 1);
    return SMALL / 16 + 1 + (power - 10) * 4 + (unsigned)((bytes - 1) >> (power - 2) & 3);
}

static size_t bytes_of(unsigned class) {
    if (class <= SMALL / 16)
        return 16u * class;
    class -= SMALL / 16 + 1;
    return (size_t)(5 + class % 4) << (class / 4 + 8);
}

/* ---- the arena's pages ---- */

int arena_reserve(void) {
    void *ptr = mmap((void *)ARENA_BASE, ARENA_MOST, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (ptr != MAP_FAILED && ptr != (void *)ARENA_BASE)
        munmap(ptr, ARENA_MOST);
    if (ptr != (void *)ARENA_BASE || arena_commit(STEP) != 0)
        return -1;
    head()->top = (sizeof(struct head) + 4095) & ~(size_t)4095;
    return 0;
}

int arena_commit(size_t bytes) {
    if (bytes <= committed)
        return 0;
    size_t wanted = bytes > ARENA_MOST - STEP ? ARENA_MOST + 1 : (bytes + STEP - 1) & ~(STEP - 1);
    if (wanted > ARENA_MOST || mprotect((void *)ARENA_BASE, wanted, PROT_READ | PROT_WRITE) != 0)
        return -1;
    committed = wanted;
    return 0;
}

void *arena_memory(size_t *bytes_out) {
    *bytes_out = committed;
    return (void *)ARENA_BASE;
}

void arena_drop(size_t from) {
    if (from < committed)
        madvise((char *)ARENA_BASE + from, committed - from, MADV_DONTNEED);
}

/* ---- blocks ---- */

static struct tag *tag_of(void *ptr) {
    struct tag *tag = (struct tag *)ptr - 1;
    if (((uintptr_t)ptr & 15) || tag->class == 0 || tag->class >= CLASSES || tag->size > bytes_of(tag->class)) {
        static const char text[] = "varve: free or realloc of a pointer that malloc has not given\n";
        (void)!write(STDERR_FILENO, text, sizeof text - 1);
        abort();
    }
    return tag;
}

static char *take_block(unsigned class) {
    struct freed *block = head()->free[class];
    if (block) {
        head()->free[class] = block->next;
        block->next = NULL;
        return (char *)block;
    }
    size_t bytes = bytes_of(class), top = head()->top;
    if (bytes > ARENA_MOST - top || arena_commit(top + bytes) != 0)
        return NULL;
    head()->top = top + bytes;
    return (char *)ARENA_BASE + top;
}

void *arena_take(size_t size, size_t alignment) {
    size_t more = ROOM + (alignment > 16 ? alignment : 0);
    if (size > ARENA_MOST || more > ARENA_MOST)
        return NULL;
    unsigned class = class_of(size + more);
    char *block = class < CLASSES ? take_block(class) : NULL;
    if (!block)
        return NULL;
    uintptr_t at = (uintptr_t)block + ROOM;
    if (alignment > 16)
        at = (at + alignment - 1) & ~(uintptr_t)(alignment - 1);
    struct tag *tag = (struct tag *)at - 1;
    *tag = (struct tag){size, class, (uint32_t)(((char *)tag - block) / 16)};
    return (void *)at;
}

/* Nobody may see what was there: trackers see a write, and would not see pages that are given back. What was never
 * written is only read, and so takes no memory. */
static void wipe_memory(void *memory, size_t bytes) {
    static const char zeros[4096];
    for (size_t at = 0; at < bytes; at += sizeof zeros) {
        size_t size = bytes - at < sizeof zeros ? bytes - at : sizeof zeros;
        if (memcmp((char *)memory + at, zeros, size) != 0)
            memset((char *)memory + at, 0, size);
    }
}

void arena_give(void *ptr) {
    struct tag *tag = tag_of(ptr);
    unsigned class = tag->class;
    struct freed *block = (struct freed *)((char *)tag - (size_t)tag->back * 16);
    wipe_memory(tag, ROOM + tag->size);
    block->next = head()->free[class];
    head()->free[class] = block;
}

size_t arena_size(void *ptr) {
    return tag_of(ptr)->size;
}

int arena_resize(void *ptr, size_t size) {
    struct tag *tag = tag_of(ptr);
    size_t before = (size_t)tag->back * 16 + ROOM, fits = bytes_of(tag->class) - before;
    if (size > fits || (size < fits / 2 && fits > SMALL))
        return 0;
    if (size < tag->size)
        wipe_memory((char *)ptr + size, tag->size - size);
    tag->size = size;
    return 1;
}
