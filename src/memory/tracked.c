#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>
#include <varve/varve.h>

#include "memory/tracked.h"

#define SMALLEST (256u << 10) /* below this, looking at the bytes is cheaper */
#define MOST_RANGES 4096u     /* each may cut a mapping in three, and a process may have 65,530 */

static atomic_uint range_count; /* of all trackers */

int vv_tracked_take(const struct vv_watch *watch) {
    size_t length;
    uintptr_t start = vv_watch_inside(watch, &length);
    if (length < SMALLEST)
        return -ERANGE;
    if ((watch->flags & VARVE_DEVICE_WRITES) || !vv_memory_is_plain((const void *)start, length))
        return -ENOTSUP;
    if (atomic_fetch_add(&range_count, 1) >= MOST_RANGES) {
        vv_tracked_give();
        return -ENOSPC;
    }
    return 0;
}

void vv_tracked_give(void) {
    atomic_fetch_sub(&range_count, 1);
}

int vv_tracked_collect(const struct vv_watch *watch, vv_inside_fn inside, void *context, vv_pages_fn fn, void *arg) {
    size_t length;
    uintptr_t start = vv_watch_inside(watch, &length);
    if (length == 0)
        return vv_pages_walk(watch->ptr, watch->size, fn, arg);
    uint64_t head = start - (uintptr_t)watch->ptr, tail = watch->size - head - length;
    int rc = head ? fn(arg, 0, head, 0) : 0;
    if (rc == 0)
        rc = inside(context, watch->ptr, start, start + length, fn, arg);
    if (rc == 0 && tail)
        rc = fn(arg, head + length, tail, 0);
    return rc;
}

struct shifted {
    uint64_t by;
    vv_pages_fn fn;
    void *arg;
};

static int report_shifted(void *arg, uint64_t offset, uint64_t length, int is_untouched) {
    struct shifted *shifted = arg;
    return shifted->fn(shifted->arg, shifted->by + offset, length, is_untouched);
}

int vv_tracked_walk(const uint8_t *ptr, uint64_t start, uint64_t end, int is_ours, vv_pages_fn fn, void *arg) {
    struct shifted shifted = {start - (uint64_t)(uintptr_t)ptr, fn, arg};
    const void *first = (const void *)(uintptr_t)start;
    return (is_ours ? vv_pages_walk_ours : vv_pages_walk)(first, end - start, report_shifted, &shifted);
}

int vv_tracked_peek(const struct vv_watch *watch, vv_pagemap_fn find, int fd, const struct vv_page_query *query,
                    vv_pages_fn fn, void *arg) {
    struct vv_page_range found[512];
    size_t length;
    uint64_t start = vv_watch_inside(watch, &length), end = start + length;
    while (start < end) {
        int count = find(fd, query, start, end, found, sizeof found / sizeof *found, &start);
        if (count < 0)
            return count;
        for (int i = 0; i < count; i++) {
            uint64_t offset = found[i].start - (uint64_t)(uintptr_t)watch->ptr;
            int rc = fn(arg, offset, found[i].end - found[i].start, 0);
            if (rc != 0)
                return rc;
        }
    }
    return 0;
}

void vv_tracked_for_plain(uint64_t start, uint64_t end, void (*what)(void *context, uint64_t start, uint64_t end),
                          void *context) {
    struct vv_maps maps;
    struct vv_map map;
    if (vv_maps_open(&maps) != 0)
        return;
    while (start < end && vv_maps_next(&maps, start, &map) == 1 && map.start < end) {
        uint64_t from = map.start > start ? map.start : start;
        start = map.end < end ? map.end : end;
        if (map.is_anonymous && map.is_writable)
            what(context, from, start);
    }
    vv_maps_close(&maps);
}

/* ---- does it work here? ---- */

#define TRIAL_PAGES 16u

/* Two bits per page of the trial memory: reported, and as what. */
static int note_pages(void *arg, uint64_t offset, uint64_t length, int is_untouched) {
    uint32_t *seen = arg;
    for (uint64_t page = offset / VV_PAGE; page < (offset + length) / VV_PAGE; page++)
        *seen |= (is_untouched ? UINT32_C(0x10000) : UINT32_C(1)) << page;
    return 0;
}

static uint32_t collect_trial(const struct vv_trial *trial, uint8_t *pages) {
    uint64_t start = (uint64_t)(uintptr_t)pages;
    uint32_t seen = 0;
    int rc = trial->collect(trial->context, pages, start, start + TRIAL_PAGES * VV_PAGE, note_pages, &seen);
    return rc == 0 ? seen : ~0u;
}

static int read_into(uint8_t *page) {
    int ends[2];
    if (pipe(ends) != 0)
        return 0;
    int did = write(ends[1], "x", 1) == 1 && read(ends[0], page, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return did;
}

/* Page 15 stays untouched. */
static const char *try_pages(const struct vv_trial *trial, volatile uint8_t *pages) {
    uint8_t *plain = (uint8_t *)(uintptr_t)pages;
    for (unsigned i = 0; i < TRIAL_PAGES - 1; i++)
        pages[i * VV_PAGE] = 1;
    if (trial->begin(trial->context, (uintptr_t)pages, (uintptr_t)pages + TRIAL_PAGES * VV_PAGE) != 0)
        return "memory cannot be registered for write tracking";
    if (collect_trial(trial, plain) != (UINT32_C(0x80000000) | 0x7fff))
        return "pages written before are not reported";
    if (collect_trial(trial, plain) != UINT32_C(0x80000000))
        return "pages that nobody wrote are reported";
    pages[3 * VV_PAGE] = 2;
    if (collect_trial(trial, plain) != (UINT32_C(0x80000000) | 1 << 3))
        return "a write is not seen";
    if (!read_into(plain + 5 * VV_PAGE + 7))
        return "read(2) into a watched page fails";
    if (collect_trial(trial, plain) != (UINT32_C(0x80000000) | 1 << 5))
        return "a write by read(2) is not seen";
    for (unsigned i = 0; i < TRIAL_PAGES - 1; i++)
        pages[i * VV_PAGE] = 3;
    if (collect_trial(trial, plain) != (UINT32_C(0x80000000) | 0x7fff))
        return "not all writes are seen";
    if (madvise(plain + 7 * VV_PAGE, VV_PAGE, MADV_DONTNEED) != 0 ||
        collect_trial(trial, plain) != (UINT32_C(0x80000000) | 1 << 23))
        return "a dropped page is not seen";
    return NULL;
}

const char *vv_tracked_try(const struct vv_trial *trial) {
    const size_t size = TRIAL_PAGES * VV_PAGE;
    uint8_t *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return "no memory";
    madvise(pages, size, MADV_NOHUGEPAGE);
    const char *problem = try_pages(trial, pages);
    munmap(pages, size);
    return problem;
}
