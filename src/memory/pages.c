/* Untouched pages, by PAGEMAP_SCAN (Linux 6.7), which jumps over holes in the page table, else by /proc/self/pagemap.
 *
 * A page that is neither present nor swapped in a private anonymous mapping has never been written (or was dropped
 * since) and reads as zeros. In a mapping of a file, of a device or of hugetlbfs, or shared with other processes,
 * absence says nothing, nor where the program has a userfaultfd of its own that fills in pages when they are read:
 * those are walked as touched. An entry that is neither present nor empty may be many things: swapped, on its way to
 * another place, in a device's memory; but also a guard page or memory that has failed, which nobody can read. So such
 * pages are asked for before anybody reads them. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/pagemap.h"
#include "memory/pages.h"
#include "memory/peek.h"
#include "memory/uffd.h"

#define PAGE 4096u         /* other page sizes are not looked at: everything counts as touched there */
#define SMALL (256u << 10) /* below this, reading the bytes is cheaper than looking */
#define BACK (4u << 20)    /* at a time, so that others get at the memory map in between */
#define POPULATE_WRITE 23  /* MADV_POPULATE_WRITE, Linux 5.14 */

struct walk {
    uint64_t base; /* address of the memory */
    uint64_t size;
    uint64_t done; /* everything below this offset was reported */
    int stopped;   /* what fn returned when it wanted no more */
    int is_ours;   /* registered by ourselves, if at all */
    int is_taken;  /* the mapping is registered by somebody else; -1: not looked yet */
    vv_pages_fn fn;
    void *arg;
};

/* Of a page that is absent. */
static int is_taken(struct walk *walk, uint64_t offset) {
    uint64_t page = (walk->base + offset) & ~(uint64_t)(PAGE - 1);
    if (walk->is_taken < 0)
        walk->is_taken = !walk->is_ours && vv_uffd_is_taken((uintptr_t)page);
    return walk->is_taken;
}

static int report(struct walk *walk, uint64_t until, int is_untouched) {
    if (until > walk->size)
        until = walk->size;
    if (until <= walk->done)
        return 0;
    uint64_t from = walk->done;
    walk->done = until;
    if (is_untouched)
        is_untouched = !is_taken(walk, from);
    walk->stopped = walk->fn(walk->arg, from, until - from, is_untouched);
    return walk->stopped;
}

int vv_pages_ask(uint64_t start, uint64_t end) {
    uint8_t byte;
    if (!vv_peek_works())
        return 0;
    for (; start < end; start += PAGE)
        if (vv_peek(&byte, (const void *)(uintptr_t)start, 1) != 0)
            return -EFAULT;
    return 0;
}

/* Pages [start, end) are touched; what lies between them and the last report is not. Addresses, not offsets. */
static int touched(struct walk *walk, uint64_t start, uint64_t end, int is_present) {
    int rc = start > walk->base ? report(walk, start - walk->base, 1) : 0;
    if (rc == 0 && !is_present)
        rc = walk->stopped = vv_pages_ask(start, end);
    return rc ? rc : report(walk, end - walk->base, 0);
}

/* Within one private anonymous mapping. Returns -ENOTTY when the kernel has no PAGEMAP_SCAN. */
static int scan_range(struct walk *walk, int fd, uint64_t start, uint64_t end) {
    static const struct vv_page_query query = {.any = VV_PAGE_PRESENT | VV_PAGE_SWAPPED,
                                               .wanted = VV_PAGE_PRESENT | VV_PAGE_SWAPPED};
    struct vv_page_range found[256];
    while (start < end) {
        int count = vv_pagemap_scan(fd, &query, start, end, found, sizeof found / sizeof found[0], &start);
        if (count < 0)
            return count == -EINVAL ? -ENOTTY : count;
        for (int i = 0; i < count; i++) {
            int rc = touched(walk, found[i].start, found[i].end, (found[i].categories & VV_PAGE_PRESENT) != 0);
            if (rc)
                return rc;
        }
    }
    return 0;
}

static int pagemap_range(struct walk *walk, int fd, uint64_t start, uint64_t end) {
    uint64_t entries[4096];
    while (start < end) {
        uint64_t pages = (end - start) / PAGE;
        if (pages > sizeof entries / sizeof entries[0])
            pages = sizeof entries / sizeof entries[0];
        ssize_t got = pread(fd, entries, pages * 8, (off_t)(start / PAGE * 8));
        if (got < 8)
            return got < 0 ? -errno : -EIO;
        uint64_t seen = (uint64_t)got / 8;
        for (uint64_t i = 0; i < seen; i++) {
            int is_touched = (entries[i] >> 62) != 0, is_present = (entries[i] >> 63) != 0; /* bit 62: swapped */
            int rc = is_touched ? touched(walk, start + i * PAGE, start + (i + 1) * PAGE, is_present) : 0;
            if (rc)
                return rc;
        }
        start += seen * PAGE;
    }
    return 0;
}

static int walk_mapping(struct walk *walk, int fd, uint64_t start, uint64_t end) {
    uint64_t first = (walk->base + walk->done) & ~(uint64_t)(PAGE - 1);
    uint64_t last = (walk->base + walk->size + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    if (start < first)
        start = first;
    if (end > last)
        end = last;
    walk->is_taken = -1;
    int rc = scan_range(walk, fd, start, end);
    if (rc == -ENOTTY)
        rc = pagemap_range(walk, fd, start, end);
    return rc ? rc : report(walk, end - walk->base, 1);
}

static int walk_mappings(struct walk *walk, struct vv_maps *maps, int fd) {
    struct vv_map map;
    while (walk->done < walk->size && vv_maps_next(maps, walk->base + walk->done, &map) == 1) {
        if (map.start >= walk->base + walk->size)
            break;
        int rc = 0;
        if (map.start > walk->base + walk->done) /* a hole: reading it would fault, as the program would */
            rc = report(walk, map.start - walk->base, 0);
        if (rc == 0)
            rc = map.is_anonymous ? walk_mapping(walk, fd, map.start, map.end) : report(walk, map.end - walk->base, 0);
        if (rc)
            return rc;
    }
    return 0;
}

static int walk_pages(struct walk walk) {
    if (walk.size >= SMALL && sysconf(_SC_PAGESIZE) == PAGE) {
        struct vv_maps maps;
        int fd = vv_pagemap_open();
        if (fd >= 0 && vv_maps_open(&maps) == 0) {
            walk_mappings(&walk, &maps, fd); /* after an error of the kernel's, the rest counts as touched */
            vv_maps_close(&maps);
        }
        if (fd >= 0)
            close(fd);
    }
    return walk.stopped ? walk.stopped : report(&walk, walk.size, 0);
}

int vv_pages_walk(const void *ptr, uint64_t size, vv_pages_fn fn, void *arg) {
    return walk_pages((struct walk){.base = (uint64_t)(uintptr_t)ptr, .size = size, .fn = fn, .arg = arg});
}

int vv_pages_walk_ours(const void *ptr, uint64_t size, vv_pages_fn fn, void *arg) {
    return walk_pages(
        (struct walk){.base = (uint64_t)(uintptr_t)ptr, .size = size, .fn = fn, .arg = arg, .is_ours = 1});
}

static int zero_range(void *arg, uint64_t offset, uint64_t length, int is_untouched) {
    if (!is_untouched)
        memset((uint8_t *)arg + offset, 0, length);
    return 0;
}

int vv_pages_zero(void *ptr, uint64_t size) {
    return vv_pages_walk(ptr, size, zero_range, ptr);
}

void vv_pages_back(void *ptr, uint64_t size) {
    uintptr_t from = ((uintptr_t)ptr + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    uintptr_t to = ((uintptr_t)ptr + size) & ~(uintptr_t)(PAGE - 1);
    while (from < to) {
        size_t step = to - from < BACK ? to - from : BACK;
        if (madvise((void *)from, step, POPULATE_WRITE) != 0)
            return; /* what is not backed now will be when it is written */
        from += step;
    }
}
