/* Two tables: the call sites that were ever seen, and the large allocations that are live. Both lie in pages of their
 * own, since this code is the allocator. */
#include <string.h>
#include <sys/mman.h>

#include "preload_private.h"

static struct known_site *sites;
static uint32_t site_count, site_capacity;
static uint32_t *site_slots; /* by key: number + 1; twice as many as sites fit */
static struct block *blocks; /* by address, linear probing; a power of two */
static size_t block_count, block_capacity;

static void *map(size_t bytes) {
    void *ptr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return ptr == MAP_FAILED ? NULL : ptr;
}

static void unmap(void *ptr, size_t bytes) {
    if (ptr)
        munmap(ptr, bytes);
}

/* ---- sites ---- */

static void put_site(uint32_t *slots, uint32_t capacity, uint32_t number) {
    uint32_t mask = 2 * capacity - 1, at = (uint32_t)sites[number].site.key & mask;
    while (slots[at])
        at = (at + 1) & mask;
    slots[at] = number + 1;
}

static int grow_sites(void) {
    uint32_t capacity = site_capacity ? 2 * site_capacity : 256;
    struct known_site *list = map(capacity * sizeof *list);
    uint32_t *slots = map(2 * capacity * sizeof *slots);
    if (!list || !slots) {
        unmap(list, capacity * sizeof *list);
        unmap(slots, 2 * capacity * sizeof *slots);
        return -1;
    }
    if (sites)
        memcpy(list, sites, site_count * sizeof *list);
    unmap(sites, site_capacity * sizeof *sites);
    unmap(site_slots, 2 * site_capacity * sizeof *site_slots);
    sites = list;
    for (uint32_t i = 0; i < site_count; i++)
        put_site(slots, capacity, i);
    site_slots = slots;
    site_capacity = capacity;
    return 0;
}

int64_t blocks_site(const struct site *site) {
    uint32_t mask = 2 * site_capacity - 1, at = (uint32_t)site->key & mask;
    for (; site_capacity && site_slots[at]; at = (at + 1) & mask)
        if (sites[site_slots[at] - 1].site.key == site->key)
            return site_slots[at] - 1;
    if (site_count == site_capacity && grow_sites() != 0)
        return -1;
    sites[site_count] = (struct known_site){.site = *site};
    put_site(site_slots, site_capacity, site_count);
    return site_count++;
}

struct known_site *blocks_known(uint32_t site) {
    return &sites[site];
}

/* ---- blocks ---- */

static size_t home_of(const void *ptr) {
    return (size_t)(((uintptr_t)ptr >> 12) * 0x9e3779b97f4a7c15u >> 20) & (block_capacity - 1);
}

static void put_block(const struct block *block) {
    size_t at = home_of(block->ptr);
    while (blocks[at].ptr)
        at = (at + 1) & (block_capacity - 1);
    blocks[at] = *block;
}

static int grow_blocks(void) {
    struct block *old = blocks;
    size_t old_capacity = block_capacity, capacity = old ? 2 * block_capacity : 1024;
    struct block *list = map(capacity * sizeof *list);
    if (!list)
        return -1;
    blocks = list;
    block_capacity = capacity;
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i].ptr)
            put_block(&old[i]);
    unmap(old, old_capacity * sizeof *old);
    return 0;
}

int blocks_add(const struct block *block) {
    if (block_count >= block_capacity / 2 && grow_blocks() != 0)
        return -1;
    put_block(block);
    block_count++;
    return 0;
}

struct block *blocks_find(const void *ptr) {
    if (block_count == 0)
        return NULL;
    for (size_t at = home_of(ptr); blocks[at].ptr; at = (at + 1) & (block_capacity - 1))
        if (blocks[at].ptr == ptr)
            return &blocks[at];
    return NULL;
}

/* No gap may be left between an entry and its home. */
void blocks_remove(struct block *block) {
    size_t mask = block_capacity - 1, gap = (size_t)(block - blocks);
    for (size_t at = (gap + 1) & mask; blocks[at].ptr; at = (at + 1) & mask) {
        size_t from_home = (at - home_of(blocks[at].ptr)) & mask;
        if (from_home >= ((at - gap) & mask)) {
            blocks[gap] = blocks[at];
            gap = at;
        }
    }
    blocks[gap].ptr = NULL;
    block_count--;
}

int blocks_each(int (*fn)(void *arg, const struct block *block), void *arg) {
    int rc = 0;
    for (size_t i = 0; i < block_capacity && rc == 0; i++)
        if (blocks[i].ptr)
            rc = fn(arg, &blocks[i]);
    return rc;
}
