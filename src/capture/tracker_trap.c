/* A tracker over the guard: a page that is still armed was not written.
 *
 * VV_PAGE_ARMED of a page: it has memory behind it, was armed, and nobody was let through since. Everything else that
 * is there may have changed. The page table has the last word. MADV_DONTNEED drops a page, with a userfaultfd together
 * with its protection, so that whoever writes it then meets no guard; with mprotect whoever reads it gets the page of
 * zeros in its place. Kernels without PAGEMAP_SCAN tell the first by the entry of each page, and of the second only
 * that it may be so: then it counts as changed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capture/capture_private.h"
#include "memory/process.h"

#define POPULATE_READ 22 /* MADV_POPULATE_READ, Linux 5.14 */
#define FOUND 256
#define MPROTECT_PAGES 50000u /* in all; every second of them may become a mapping of its own */

static struct vv_guard *guard_of(struct vv_tracker *tracker) {
    return ((struct vv_trap *)tracker)->capture->guard;
}

static int trap_attach(struct vv_tracker *tracker, struct vv_watch *watch) {
    struct vv_guard *guard = guard_of(tracker);
    struct vv_trap *trap = (struct vv_trap *)tracker;
    size_t length;
    uintptr_t start = vv_watch_inside(watch, &length);
    if (length == 0)
        return -ERANGE;
    /* Who writes a page in the middle of armed ones needs another mapping; there must always be one. */
    if (trap->is_mprotect && trap->pages + length / VV_PAGE > MPROTECT_PAGES)
        return -ENOSPC;
    int rc = guard->ops->attach(guard, start, length);
    trap->pages += rc == 0 ? length / VV_PAGE : 0;
    return rc;
}

static void trap_detach(struct vv_tracker *tracker, struct vv_watch *watch) {
    struct vv_guard *guard = guard_of(tracker);
    size_t length;
    uintptr_t start = vv_watch_inside(watch, &length);
    guard->ops->detach(guard, start, length);
    ((struct vv_trap *)tracker)->pages -= length / VV_PAGE;
}

static void disarmed(struct vv_watched *w, uint64_t first, uint64_t last) {
    for (uint64_t page = vv_skip(w, first); page < last; page = vv_skip(w, page + 1))
        vv_byte_set(w, page, VV_PAGE_ARMED, 0);
}

/* Pages that became others without a trap. Where a userfaultfd has them, the kernel does not make huge pages of them.
 * Else it may, also of a page that was dropped and read again: then that is not the page of zeros any more. Before
 * Linux 6.18 it leaves alone what nobody may write. A huge page may be split again before we look: see collect. */
static int look_at_pages(struct vv_trap *trap, struct vv_watched *w) {
    const uint64_t signs = trap->is_uffd ? VV_PAGE_WRITTEN : VV_PAGE_ZERO | VV_PAGE_HUGE;
    const struct vv_page_query query = {.any = signs, .wanted = VV_PAGE_PRESENT};
    struct vv_page_range found[FOUND];
    uint64_t base = vv_page_address(w, 0);
    uint64_t start = vv_page_address(w, w->page_first), end = vv_page_address(w, w->page_end);
    while (start < end) {
        int count = trap->scan(trap->pagemap, &query, start, end, found, FOUND, &start);
        if (count < 0)
            return count;
        for (int i = 0; i < count; i++)
            disarmed(w, (found[i].start - base) / VV_PAGE, (found[i].end - base) / VV_PAGE);
    }
    return 0;
}

/* What was armed with mprotect cannot be written: what can be is something else by now. */
static void look_at_mappings(struct vv_watched *w) {
    uint64_t base = vv_page_address(w, 0), start = vv_page_address(w, w->page_first),
             end = vv_page_address(w, w->page_end);
    struct vv_maps maps;
    struct vv_map map;
    int rc = vv_maps_open(&maps);
    for (uint64_t at = start; rc >= 0 && at < end && (rc = vv_maps_next(&maps, at, &map)) == 1 && map.start < end;
         at = map.end) {
        uint64_t from = map.start > start ? map.start : start, to = map.end < end ? map.end : end;
        if (map.is_writable)
            disarmed(w, (from - base) / VV_PAGE, (to - base) / VV_PAGE);
    }
    if (rc < 0)
        disarmed(w, 0, w->base.chunks + 1); /* nobody knows */
    else
        vv_maps_close(&maps);
}

struct trap_walk {
    struct vv_watched *watched;
    vv_pages_fn fn;
    void *arg;
};

/* Of a range that is there: the pages that are not armed, run by run. */
static int report_unarmed(void *arg, uint64_t offset, uint64_t length, int is_untouched) {
    struct trap_walk *walk = arg;
    struct vv_watched *w = walk->watched;
    uint64_t end = offset + length;
    if (is_untouched)
        return walk->fn(walk->arg, offset, length, 1);
    while (offset < end) {
        uint64_t from = offset;
        while (offset < end && !vv_page_is_armed(w, (w->skew + offset) / VV_PAGE))
            offset = ((w->skew + offset) / VV_PAGE + 1) * VV_PAGE - w->skew;
        if (offset > end)
            offset = end;
        int rc = offset > from ? walk->fn(walk->arg, from, offset - from, 0) : 0;
        if (rc != 0)
            return rc;
        while (offset < end && vv_page_is_armed(w, (w->skew + offset) / VV_PAGE))
            offset = ((w->skew + offset) / VV_PAGE + 1) * VV_PAGE - w->skew;
    }
    return 0;
}

static int trap_collect(struct vv_tracker *tracker, struct vv_watch *watch, vv_pages_fn fn, void *arg) {
    struct vv_trap *trap = (struct vv_trap *)tracker;
    struct vv_watched *w = (struct vv_watched *)watch;
    struct trap_walk walk = {w, fn, arg};
    if (trap->is_mprotect) {
        int64_t changes = vv_process_huge_changes();
        look_at_mappings(w);
        if (changes < 0 || changes != w->huge_changes) /* of others, mostly; but nobody knows */
            disarmed(w, 0, watch->chunks + 1);
        w->huge_changes = changes;
    }
    if (trap->pagemap < 0 || look_at_pages(trap, w) != 0)
        disarmed(w, 0, watch->chunks + 1); /* nobody knows: all may have changed */
    return (trap->is_uffd ? vv_pages_walk_ours : vv_pages_walk)(watch->ptr, watch->size, report_unarmed, &walk);
}

void vv_trap_init(struct vv_trap *trap, struct vv_capture *c, const char *guard_name) {
    snprintf(trap->name, sizeof trap->name, "trap-%s", guard_name);
    trap->ops = (struct vv_tracker_ops){
        .name = trap->name, .attach = trap_attach, .detach = trap_detach, .collect = trap_collect};
    trap->base.ops = &trap->ops;
    trap->capture = c;
    trap->pagemap = -1;
    trap->is_uffd = strcmp(guard_name, "uffd") == 0;
    trap->is_mprotect = strcmp(guard_name, "mprotect") == 0;
    static const struct vv_page_query query = {.wanted = VV_PAGE_PRESENT};
    struct vv_page_range range;
    uint64_t page = (uint64_t)(uintptr_t)c & ~(uint64_t)(VV_PAGE - 1), next;
    trap->pagemap = vv_pagemap_open();
    trap->scan = vv_pagemap_scan;
    if (trap->pagemap >= 0 && trap->scan(trap->pagemap, &query, page, page + VV_PAGE, &range, 1, &next) < 0)
        trap->scan = vv_pagemap_read;
    if (trap->pagemap >= 0 && trap->scan(trap->pagemap, &query, page, page + VV_PAGE, &range, 1, &next) < 0)
        vv_trap_clear(trap);
}

void vv_trap_clear(struct vv_trap *trap) {
    if (trap->base.ops && trap->pagemap >= 0)
        close(trap->pagemap);
    trap->pagemap = -1;
}

/* ---- arming ---- */

/* A page without memory behind it cannot be armed: let it have the page of zeros. Those that were never touched are
 * left out where that is known; small regions do not know. */
static void back_for_reading(uintptr_t start, size_t length) {
    if (madvise((void *)start, length, POPULATE_READ) == 0)
        return;
    for (const volatile uint8_t *p = (const volatile uint8_t *)start; length > 0; p += VV_PAGE, length -= VV_PAGE)
        (void)*p;
}

static int is_captured(const struct vv_watched *w, uint64_t page) {
    uint64_t chunk, end = vv_page_chunks(w, page, &chunk);
    for (; chunk < end; chunk++)
        if (vv_state(w, chunk) != VV_STAGED && vv_state(w, chunk) != VV_PROCESSED)
            return 0;
    return 1;
}

static int arm_run(struct vv_trap *trap, struct vv_watched *w, uint64_t first, uint64_t last) {
    struct vv_guard *guard = trap->capture->guard;
    uintptr_t start = vv_page_address(w, first);
    back_for_reading(start, (last - first) * VV_PAGE);
    vv_lock_take(&trap->capture->lock);
    for (uint64_t page = first; page < last; page++)
        vv_byte_set(w, page, VV_PAGE_ARMED, VV_PAGE_ARMED);
    vv_lock_give(&trap->capture->lock);
    int rc = guard->ops->arm(guard, start, (last - first) * VV_PAGE);
    /* A page that the kernel took back in between (MADV_FREE) is not armed, and nobody would notice a write to it. */
    return rc != 0 || !trap->is_uffd || trap->pagemap < 0 ? rc : vv_trap_check(trap, w, first, last);
}

/* Captured in the call: whatever is written there belongs to the next checkpoint already. */
static void disarm_run(struct vv_trap *trap, struct vv_watched *w, uint64_t first, uint64_t last) {
    struct vv_guard *guard = trap->capture->guard;
    int was_armed = 0;
    vv_lock_take(&trap->capture->lock);
    for (uint64_t page = first; page < last; page++)
        was_armed |= vv_page_is_armed(w, page);
    disarmed(w, first, last);
    vv_lock_give(&trap->capture->lock);
    if (was_armed) /* that a page was dropped meanwhile does not matter: its chunks were looked at */
        guard->ops->disarm(guard, vv_page_address(w, first), (last - first) * VV_PAGE);
}

/* Between two holes. */
static int arm_range(struct vv_trap *trap, struct vv_watched *w, int all, uint64_t first, uint64_t last,
                     uint64_t *pages) {
    while (first < last) {
        uint64_t end = first;
        while (end < last && (all || !is_captured(w, end)))
            end++;
        int rc = end > first ? arm_run(trap, w, first, end) : 0;
        if (rc != 0)
            return rc;
        *pages += end - first;
        for (first = end; end < last && !all && is_captured(w, end);)
            end++;
        if (end > first)
            disarm_run(trap, w, first, end);
        first = end;
    }
    return 0;
}

int vv_trap_arm(struct vv_trap *trap, struct vv_watched *w, int all, uint64_t *pages) {
    uint64_t done = w->page_first;
    for (size_t i = 0; i <= w->hole_count; i++) {
        /* A page on the border of a hole holds a part of a chunk that is none. */
        uint64_t end = i < w->hole_count ? w->holes[i].first + (w->skew ? 1 : 0) : w->page_end;
        int rc = done < end ? arm_range(trap, w, all, done, end < w->page_end ? end : w->page_end, pages) : 0;
        if (rc != 0)
            return rc;
        if (i == w->hole_count)
            break;
        done = w->holes[i].last > done ? w->holes[i].last : done;
        vv_lock_take(&trap->capture->lock);
        disarmed(w, end, w->holes[i].last);
        vv_lock_give(&trap->capture->lock);
    }
    return 0;
}

/* How many bytes of [start, end) are pages of this kind. */
static int64_t count_pages(struct vv_trap *trap, const struct vv_page_query *query, uint64_t start, uint64_t end) {
    struct vv_page_range found[VV_MOST];
    int64_t bytes = 0;
    while (start < end) {
        int count = trap->scan(trap->pagemap, query, start, end, found, VV_MOST, &start);
        if (count < 0)
            return count;
        for (int i = 0; i < count; i++)
            bytes += (int64_t)(found[i].end - found[i].start);
    }
    return bytes;
}

int vv_trap_check(struct vv_trap *trap, const struct vv_watched *w, uint64_t first, uint64_t last) {
    static const struct vv_page_query armed = {.all = VV_PAGE_WRITTEN,
                                               .inverted = VV_PAGE_WRITTEN,
                                               .any = VV_PAGE_PRESENT | VV_PAGE_SWAPPED,
                                               .wanted = VV_PAGE_WRITTEN};
    uint64_t start = vv_page_address(w, first), end = vv_page_address(w, last);
    const struct vv_guard_ops *ops = trap->capture->guard->ops;
    if (trap->is_mprotect && !vv_guard_mprotect_holds(start, end - start))
        return -EFAULT;
    if (trap->pagemap < 0)
        return ops->arm(trap->capture->guard, start, end - start); /* says no where nothing is mapped */
    if (!trap->is_uffd)
        return 0;
    return count_pages(trap, &armed, start, end) == (int64_t)(end - start) ? 0 : -EFAULT;
}

int64_t vv_trap_solid(struct vv_trap *trap, const struct vv_watched *w, uint64_t first, uint64_t last) {
    static const struct vv_page_query there = {.any = VV_PAGE_PRESENT | VV_PAGE_SWAPPED, .wanted = VV_PAGE_PRESENT};
    static const struct vv_page_query solid = {.all = VV_PAGE_ZERO,
                                               .inverted = VV_PAGE_ZERO,
                                               .any = VV_PAGE_PRESENT | VV_PAGE_SWAPPED,
                                               .wanted = VV_PAGE_PRESENT};
    uint64_t start = vv_page_address(w, first), end = vv_page_address(w, last);
    if (trap->is_uffd || trap->pagemap < 0)
        return 0;
    if (count_pages(trap, &there, start, end) != (int64_t)(end - start))
        return -EFAULT;
    return count_pages(trap, &solid, start, end);
}
