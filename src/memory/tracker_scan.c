/* The tracker that lets the kernel note first writes: userfaultfd with WP_ASYNC, read by PAGEMAP_SCAN.
 *
 * Pages are write-protected ("armed") with a bit in the page table; whoever writes one first, also a system call, has
 * the bit taken away by the kernel and goes on. Who lacks the bit was written. To collect is two walks over the page
 * table, batch by batch:
 *
 *   look   what is there: pages present or swapped, pages that are neither, mappings that are ours, mappings that are
 *          not (the program put others there, and the bits are gone with the old ones), and, by their absence, holes.
 *   take   over what is there and ours: pages without the bit are reported and get it, in one go.
 *
 * A page that is neither present nor swapped has no bit, and the kernel may or may not call it written; but it may
 * well have been changed: MADV_DONTNEED makes zeros of it. So all of these are reported every time, as untouched,
 * which costs their readers nothing. They are never armed, as that would fill the page tables of a sparse region: when
 * such a page becomes present it lacks the bit.
 *
 * Nothing is remembered about a watch: all its state is in those bits. Where a collect does not come to its end, all
 * bits are taken away, so that the next one reports everything. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "memory/pagemap.h"
#include "memory/tracked.h"
#include "memory/tracker.h"
#include "memory/uffd.h"

#define CAPACITY 512

struct scan {
    struct vv_tracker base;
    int uffd;
    int pagemap;
    pid_t pid; /* the descriptors speak of the memory of this process */
};

/* One collect. */
struct pass {
    struct scan *scan;
    const uint8_t *ptr; /* where offsets are counted from */
    vv_pages_fn fn;
    void *arg;
    int is_second_try; /* what is not ours now stays so */
};

static int report(struct pass *pass, uint64_t start, uint64_t end, int is_untouched) {
    return pass->fn(pass->arg, start - (uint64_t)(uintptr_t)pass->ptr, end - start, is_untouched);
}

/* ---- take ---- */

/* The ranges that look found, and how far they were reported. */
struct tiles {
    const struct vv_page_range *next, *end;
    uint64_t done;
};

/* Report the absent pages between `done` and `until`. */
static int report_absent(struct pass *pass, struct tiles *tiles, uint64_t until) {
    int rc = 0;
    for (; rc == 0 && tiles->next < tiles->end && tiles->next->start < until; tiles->next++) {
        const struct vv_page_range *tile = tiles->next;
        uint64_t start = tile->start > tiles->done ? tile->start : tiles->done;
        uint64_t end = tile->end < until ? tile->end : until;
        if (!(tile->categories & (VV_PAGE_PRESENT | VV_PAGE_SWAPPED)) && start < end)
            rc = report(pass, start, end, 1);
        if (tile->end > until)
            break;
    }
    if (tiles->done < until)
        tiles->done = until;
    return rc;
}

/* Tiles that follow each other without a hole, in mappings that are ours. */
static int take_tiles(struct pass *pass, const struct vv_page_range *first, size_t count) {
    /* To some kernels, an absent page in a page table that exists is written, too, and would be armed. */
    static const struct vv_page_query query = {.flags = VV_SCAN_PROTECT | VV_SCAN_CHECK,
                                               .all = VV_PAGE_WRITTEN,
                                               .any = VV_PAGE_PRESENT | VV_PAGE_SWAPPED,
                                               .wanted = VV_PAGE_WRITTEN | VV_PAGE_ZERO | VV_PAGE_SWAPPED};
    struct vv_page_range found[CAPACITY];
    struct tiles tiles = {first, first + count, first->start};
    uint64_t start = first->start, end = first[count - 1].end;
    while (start < end) {
        int taken = vv_pagemap_scan(pass->scan->pagemap, &query, start, end, found, CAPACITY, &start);
        if (taken < 0)
            return taken;
        for (int i = 0; i < taken; i++) {
            int rc = report_absent(pass, &tiles, found[i].start);
            if (rc == 0 && (found[i].categories & VV_PAGE_SWAPPED))
                rc = vv_pages_ask(found[i].start, found[i].end);
            if (rc == 0)
                rc = report(pass, found[i].start, found[i].end, (found[i].categories & VV_PAGE_ZERO) != 0);
            if (rc != 0)
                return rc;
            tiles.done = found[i].end;
        }
    }
    return report_absent(pass, &tiles, end);
}

/* ---- look ---- */

static int look_at_range(struct pass *pass, uint64_t start, uint64_t end);

/* Kernels before 6.13 keep the bits when memory is moved, without noting writes any more. Taking bits away costs ten
 * times as much as looking for them. */
static int clear_old_bits(struct scan *scan, uint64_t start, uint64_t end) {
    static const struct vv_page_query query = {
        .any = VV_PAGE_PRESENT | VV_PAGE_SWAPPED, .inverted = VV_PAGE_WRITTEN, .wanted = VV_PAGE_WP_ALLOWED};
    struct vv_page_range found[64];
    while (start < end) {
        int count = vv_pagemap_scan(scan->pagemap, &query, start, end, found, 64, &start);
        if (count < 0)
            return count;
        for (int i = 0; i < count; i++) {
            int rc = vv_uffd_unprotect(scan->uffd, found[i].start, found[i].end - found[i].start);
            if (rc != 0)
                return rc;
        }
    }
    return 0;
}

static int register_range(void *context, uint64_t start, uint64_t end) {
    struct scan *scan = context;
    int rc = vv_uffd_register(scan->uffd, start, end - start);
    int is_ours = rc == 0 || rc == -ENOMEM; /* a part may be; every other error comes before anything is done */
    if (rc == 0)
        rc = clear_old_bits(scan, start, end);
    if (rc != 0 && is_ours)
        vv_uffd_unregister(scan->uffd, start, end - start);
    return rc;
}

/* A failure leaves that part as it was. */
static void register_part(void *context, uint64_t start, uint64_t end) {
    register_range(context, start, end);
}

static void unregister_part(void *context, uint64_t start, uint64_t end) {
    vv_uffd_unregister(((struct scan *)context)->uffd, start, end - start);
}

/* Mappings that are not ours: the program changed them. Everything there may have changed. */
static int take_foreign(struct pass *pass, uint64_t start, uint64_t end) {
    if (pass->is_second_try)
        return vv_tracked_walk(pass->ptr, start, end, 0, pass->fn, pass->arg);
    vv_tracked_for_plain(start, end, register_part, pass->scan);
    pass->is_second_try = 1;
    int rc = look_at_range(pass, start, end);
    pass->is_second_try = 0;
    return rc;
}

/* Within one batch of tiles: all that lies below `limit`. */
static int take_batch(struct pass *pass, const struct vv_page_range *tiles, size_t count, uint64_t start,
                      uint64_t limit) {
    size_t i = 0;
    while (start < limit) {
        uint64_t next = i < count ? tiles[i].start : limit;
        int rc = 0;
        if (next > start) { /* nothing is mapped there: whoever reads it will find out */
            rc = report(pass, start, next, 0);
        } else {
            size_t first = i;
            uint64_t ours = tiles[i].categories & VV_PAGE_WP_ALLOWED;
            for (; i < count && tiles[i].start == next && (tiles[i].categories & VV_PAGE_WP_ALLOWED) == ours; i++)
                next = tiles[i].end;
            rc = ours ? take_tiles(pass, tiles + first, i - first) : take_foreign(pass, start, next);
        }
        if (rc != 0)
            return rc;
        start = next;
    }
    return 0;
}

static int look_at_range(struct pass *pass, uint64_t start, uint64_t end) {
    static const struct vv_page_query query = {.wanted = VV_PAGE_WP_ALLOWED | VV_PAGE_PRESENT | VV_PAGE_SWAPPED};
    struct vv_page_range tiles[CAPACITY];
    while (start < end) {
        uint64_t from = start;
        int count = vv_pagemap_scan(pass->scan->pagemap, &query, from, end, tiles, CAPACITY, &start);
        int rc = count < 0 ? count : take_batch(pass, tiles, (size_t)count, from, start);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* ---- the tracker ---- */

static int is_other_process(const struct scan *scan) {
    return scan->pid != getpid();
}

/* All pages lose their bit: the next collect reports everything. */
static void disarm(struct scan *scan, uint64_t start, uint64_t end) {
    if (vv_uffd_unprotect(scan->uffd, start, end - start) != 0)
        vv_tracked_for_plain(start, end, unregister_part, scan);
}

/* Whole pages [start, end) of the memory at ptr. */
static int collect_inside(void *context, const uint8_t *ptr, uint64_t start, uint64_t end, vv_pages_fn fn, void *arg) {
    struct pass pass = {.scan = context, .ptr = ptr, .fn = fn, .arg = arg};
    return look_at_range(&pass, start, end);
}

static int scan_collect(struct vv_tracker *tracker, struct vv_watch *watch, vv_pages_fn fn, void *arg) {
    struct scan *scan = (struct scan *)tracker;
    size_t length;
    uintptr_t start = vv_watch_inside(watch, &length);
    if (is_other_process(scan))
        return vv_pages_walk(watch->ptr, watch->size, fn, arg);
    int rc = vv_tracked_collect(watch, collect_inside, scan, fn, arg);
    if (rc != 0 && length > 0)
        disarm(scan, start, start + length);
    return rc;
}

static int scan_peek(struct vv_tracker *tracker, struct vv_watch *watch, vv_pages_fn fn, void *arg) {
    static const struct vv_page_query query = {
        .all = VV_PAGE_WRITTEN | VV_PAGE_PRESENT, .inverted = VV_PAGE_ZERO, .wanted = VV_PAGE_WRITTEN};
    struct scan *scan = (struct scan *)tracker;
    if (is_other_process(scan))
        return -ENOTSUP;
    return vv_tracked_peek(watch, vv_pagemap_scan, scan->pagemap, &query, fn, arg);
}

static int scan_attach(struct vv_tracker *tracker, struct vv_watch *watch) {
    struct scan *scan = (struct scan *)tracker;
    size_t length;
    uintptr_t start = vv_watch_inside(watch, &length);
    if (is_other_process(scan))
        return -ENOTSUP;
    int rc = vv_tracked_take(watch);
    if (rc != 0)
        return rc;
    rc = register_range(scan, start, start + length);
    if (rc != 0)
        vv_tracked_give();
    return rc;
}

static void scan_detach(struct vv_tracker *tracker, struct vv_watch *watch) {
    struct scan *scan = (struct scan *)tracker;
    size_t length;
    uintptr_t start = vv_watch_inside(watch, &length);
    if (is_other_process(scan))
        return;
    if (vv_uffd_unregister(scan->uffd, start, length) != 0)
        vv_tracked_for_plain(start, start + length, unregister_part, scan);
    vv_tracked_give();
}

static void scan_close(struct vv_tracker *tracker) {
    struct scan *scan = (struct scan *)tracker;
    close(scan->uffd);
    close(scan->pagemap);
    vv_free(scan);
}

static const struct vv_tracker_ops scan_ops = {
    .name = "scan",
    .attach = scan_attach,
    .detach = scan_detach,
    .collect = scan_collect,
    .peek = scan_peek,
    .close = scan_close,
};

/* ---- does it work here? ---- */

static const char *open_descriptors(struct scan *scan) {
    scan->pagemap = vv_pagemap_open();
    if (scan->pagemap < 0)
        return "/proc/self/pagemap cannot be opened";
    struct vv_page_range range;
    uint64_t next;
    static const struct vv_page_query query = {.wanted = VV_PAGE_PRESENT};
    uint64_t page = (uint64_t)(uintptr_t)scan & ~(uint64_t)(VV_PAGE - 1);
    if (vv_pagemap_scan(scan->pagemap, &query, page, page + VV_PAGE, &range, 1, &next) < 0)
        return "the kernel has no PAGEMAP_SCAN (Linux 6.7)";
    scan->uffd = vv_uffd_open(VV_UFFD_USER_ONLY, VV_UFFD_WP_ASYNC);
    if (scan->uffd == -EINVAL)
        return "the kernel has no userfaultfd with WP_ASYNC (Linux 6.7)";
    return scan->uffd < 0 ? "userfaultfd is not allowed here" : NULL;
}

int vv_tracker_scan(struct vv_tracker **out, char *why, size_t capacity) {
    if (sysconf(_SC_PAGESIZE) != VV_PAGE) {
        snprintf(why, capacity, "pages are not of 4096 bytes");
        return -ENOTSUP;
    }
    struct scan *scan = vv_calloc(1, sizeof *scan);
    if (!scan) {
        snprintf(why, capacity, "no memory");
        return -ENOMEM;
    }
    *scan = (struct scan){.base = {&scan_ops}, .uffd = -1, .pagemap = -1, .pid = getpid()};
    const char *problem = open_descriptors(scan);
    if (!problem)
        problem = vv_tracked_try(&(struct vv_trial){register_range, collect_inside, scan});
    if (problem) {
        snprintf(why, capacity, "%s", problem);
        if (scan->uffd >= 0)
            close(scan->uffd);
        if (scan->pagemap >= 0)
            close(scan->pagemap);
        vv_free(scan);
        return -ENOTSUP;
    }
    *out = &scan->base;
    return 0;
}
