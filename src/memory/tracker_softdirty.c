/* The tracker on soft-dirty bits: the kernel sets one when a page is first written after all were cleared.
 *
 * Writing 4 to /proc/self/clear_refs clears the bits of the whole process. Between reading a bit and clearing it, a
 * write goes unnoticed. So both happen while nobody writes: a collect reads the bits of its watch, and one clear
 * follows when all watches were collected (renew). The program's promise not to write is about the regions of one
 * session. Those of another may be written meanwhile: so only one tracker of a process has the bits (`owner`).
 *
 * What the bits do not tell:
 *
 *   dropped   After MADV_DONTNEED and the like a page is absent, and is reported as untouched, every time. If it was
 *             read again it is the page of zeros, with its bit clear. That one is never mapped exclusively, so all
 *             present pages that are not are reported. Those that a child of fork shares are among them.
 *   cleared   by somebody else. A canary, a page of our own, is written after each clear: if its bit is clear after
 *             others were read, those say nothing, and everything is reported.
 *   moved     mremap takes whole page tables along, with the bits as they were elsewhere. A mapping loses its
 *             userfaultfd when it is moved: so those we watch are registered with one, which is used for nothing else.
 *             A mapping that is not registered came since, and everything there is reported.
 *   merged    KSM takes the bit of a page that it merges. In a process that lets it merge, everything is reported.
 *   flushed   Linux 5.6 to 5.10 do not flush the TLB after clearing, and then a write may leave no bit. Changing the
 *             protection of more than 33 pages flushes all of it: those around the canary. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "memory/pagemap.h"
#include "memory/process.h"
#include "memory/tracked.h"
#include "memory/tracker.h"
#include "memory/uffd.h"

#define CAPACITY 512
#define CANARY_PAGES 64u

struct note {
    struct note *next;
    int is_whole;     /* the bits do not tell: report everything */
    int is_collected; /* since the last clear */
};

struct softdirty {
    struct vv_tracker base;
    int pagemap, clear_refs;
    int uffd;  /* -1: moved memory is not noticed */
    pid_t pid; /* the descriptors speak of the memory of this process */
    volatile uint8_t *canary;
    struct note *notes;
};

static atomic_int owner; /* the process whose bits a tracker has; a child of fork has its own */

/* One collect. */
struct pass {
    struct softdirty *softdirty;
    const uint8_t *ptr; /* where offsets are counted from */
    vv_pages_fn fn;
    void *arg;
    int is_whole;
};

static int report(struct pass *pass, uint64_t start, uint64_t end, int is_untouched) {
    return pass->fn(pass->arg, start - (uint64_t)(uintptr_t)pass->ptr, end - start, is_untouched);
}

/* ---- bits ---- */

static int is_soft_dirty(const struct softdirty *softdirty, const volatile void *page) {
    static const struct vv_page_query query = {.all = VV_PAGE_SOFT_DIRTY};
    struct vv_page_range found;
    uint64_t start = (uint64_t)(uintptr_t)page, next;
    return vv_pagemap_read(softdirty->pagemap, &query, start, start + VV_PAGE, &found, 1, &next) == 1;
}

static int clear_bits(struct softdirty *softdirty) {
    void *canary = (void *)(uintptr_t)softdirty->canary;
    const size_t size = CANARY_PAGES * VV_PAGE;
    if (pwrite(softdirty->clear_refs, "4", 1, 0) != 1 || mprotect(canary, size, PROT_READ) != 0 ||
        mprotect(canary, size, PROT_READ | PROT_WRITE) != 0)
        return -EIO;
    softdirty->canary[0]++;
    return 0;
}

/* ---- collect ---- */

/* May a page that is there have changed? A swapped page keeps its bit. */
static int is_changed(const struct pass *pass, uint64_t categories) {
    return pass->is_whole || (categories & VV_PAGE_SOFT_DIRTY) ||
           ((categories & VV_PAGE_PRESENT) && !(categories & VV_PAGE_EXCLUSIVE));
}

static int collect_tile(struct pass *pass, const struct vv_page_range *tile) {
    if (!(tile->categories & (VV_PAGE_PRESENT | VV_PAGE_SWAPPED)))
        return report(pass, tile->start, tile->end, 1);
    if (!is_changed(pass, tile->categories))
        return 0;
    int rc = tile->categories & VV_PAGE_SWAPPED ? vv_pages_ask(tile->start, tile->end) : 0;
    return rc ? rc : report(pass, tile->start, tile->end, 0);
}

/* Within one mapping that is ours. */
static int collect_tiles(struct pass *pass, uint64_t start, uint64_t end) {
    static const struct vv_page_query query = {.wanted = VV_PAGE_PRESENT | VV_PAGE_SWAPPED | VV_PAGE_SOFT_DIRTY |
                                                         VV_PAGE_EXCLUSIVE};
    struct vv_page_range tiles[CAPACITY];
    while (start < end) {
        int count = vv_pagemap_read(pass->softdirty->pagemap, &query, start, end, tiles, CAPACITY, &start);
        if (count < 0)
            return count;
        if (!is_soft_dirty(pass->softdirty, pass->softdirty->canary))
            pass->is_whole = 1;
        for (int i = 0; i < count; i++) {
            int rc = collect_tile(pass, &tiles[i]);
            if (rc != 0)
                return rc;
        }
    }
    return 0;
}

/* The first page in [start, end) that is there; end: none is. */
static uint64_t find_there(const struct softdirty *softdirty, uint64_t start, uint64_t end) {
    static const struct vv_page_query query = {.any = VV_PAGE_PRESENT | VV_PAGE_SWAPPED};
    struct vv_page_range found;
    for (uint64_t step = VV_PAGE; start < end; step = 16u << 20) { /* mostly the first */
        uint64_t until = end - start < step ? end : start + step, next;
        int count = vv_pagemap_read(softdirty->pagemap, &query, start, until, &found, 1, &next);
        if (count != 0)
            return count > 0 ? found.start : start;
        start = until;
    }
    return end;
}

/* A part of one mapping. Where nothing is there, no bit can be wrong. */
static int collect_mapping(struct pass *pass, const struct vv_map *map, uint64_t start, uint64_t end) {
    struct softdirty *softdirty = pass->softdirty;
    int is_plain = map->is_anonymous && map->is_writable, is_ours = map->is_anonymous;
    if (softdirty->uffd >= 0) {
        uint64_t there = find_there(softdirty, start, end);
        int is_marked = there < end && vv_uffd_is_ours(softdirty->uffd, there);
        is_ours = is_marked || (is_plain && vv_uffd_register(softdirty->uffd, start, end - start) == 0);
        if (!is_marked)
            return vv_tracked_walk(pass->ptr, start, end, is_ours, pass->fn, pass->arg);
    }
    return is_ours ? collect_tiles(pass, start, end) : vv_tracked_walk(pass->ptr, start, end, 0, pass->fn, pass->arg);
}

static int collect_mappings(struct pass *pass, struct vv_maps *maps, uint64_t start, uint64_t end) {
    struct vv_map map;
    while (start < end) {
        int rc = vv_maps_next(maps, start, &map);
        if (rc < 0)
            return rc;
        uint64_t from = rc == 1 && map.start < end ? map.start : end;
        uint64_t to = rc == 1 && map.end < end ? map.end : end;
        rc = from > start ? report(pass, start, from, 0) : 0; /* a hole: whoever reads it will find out */
        from = from > start ? from : start;
        if (rc == 0 && from < to)
            rc = collect_mapping(pass, &map, from, to);
        if (rc != 0)
            return rc;
        start = to;
    }
    return 0;
}

struct inside {
    struct softdirty *softdirty;
    int is_whole;
};

static int collect_inside(void *context, const uint8_t *ptr, uint64_t start, uint64_t end, vv_pages_fn fn, void *arg) {
    const struct inside *inside = context;
    struct pass pass = {inside->softdirty, ptr, fn, arg, inside->is_whole};
    struct vv_maps maps;
    int rc = vv_maps_open(&maps);
    if (rc != 0)
        return rc;
    rc = collect_mappings(&pass, &maps, start, end);
    vv_maps_close(&maps);
    return rc;
}

/* ---- the tracker ---- */

static int is_other_process(const struct softdirty *softdirty) {
    return softdirty->pid != getpid();
}

static int softdirty_collect(struct vv_tracker *tracker, struct vv_watch *watch, vv_pages_fn fn, void *arg) {
    struct softdirty *softdirty = (struct softdirty *)tracker;
    struct note *note = watch->notes;
    if (is_other_process(softdirty))
        return vv_pages_walk(watch->ptr, watch->size, fn, arg);
    struct inside inside = {softdirty, note->is_whole || vv_process_is_merged()};
    int rc = vv_tracked_collect(watch, collect_inside, &inside, fn, arg);
    note->is_whole = rc != 0;
    note->is_collected = rc == 0;
    return rc;
}

static void softdirty_renew(struct vv_tracker *tracker) {
    struct softdirty *softdirty = (struct softdirty *)tracker;
    if (is_other_process(softdirty) || !softdirty->notes)
        return;
    int is_cleared = clear_bits(softdirty) == 0;
    for (struct note *note = softdirty->notes; note; note = note->next) {
        note->is_whole |= !is_cleared || !note->is_collected;
        note->is_collected = 0;
    }
}

static int softdirty_peek(struct vv_tracker *tracker, struct vv_watch *watch, vv_pages_fn fn, void *arg) {
    static const struct vv_page_query query = {.all = VV_PAGE_SOFT_DIRTY | VV_PAGE_EXCLUSIVE};
    struct softdirty *softdirty = (struct softdirty *)tracker;
    if (is_other_process(softdirty))
        return -ENOTSUP;
    return vv_tracked_peek(watch, vv_pagemap_read, softdirty->pagemap, &query, fn, arg);
}

static int register_range(struct softdirty *softdirty, uint64_t start, uint64_t end) {
    return softdirty->uffd < 0 ? 0 : vv_uffd_register(softdirty->uffd, start, end - start);
}

static void unregister_part(void *context, uint64_t start, uint64_t end) {
    vv_uffd_unregister(((struct softdirty *)context)->uffd, start, end - start);
}

static void unregister_range(struct softdirty *softdirty, uint64_t start, uint64_t end) {
    if (softdirty->uffd >= 0 && vv_uffd_unregister(softdirty->uffd, start, end - start) != 0)
        vv_tracked_for_plain(start, end, unregister_part, softdirty);
}

static int softdirty_attach(struct vv_tracker *tracker, struct vv_watch *watch) {
    struct softdirty *softdirty = (struct softdirty *)tracker;
    size_t length;
    uintptr_t start = vv_watch_inside(watch, &length);
    if (is_other_process(softdirty))
        return -ENOTSUP;
    int rc = vv_tracked_take(watch);
    if (rc != 0)
        return rc;
    struct note *note = vv_calloc(1, sizeof *note);
    rc = note ? register_range(softdirty, start, start + length) : -ENOMEM;
    if (rc != 0) {
        if (rc == -ENOMEM && note)
            unregister_range(softdirty, start, start + length); /* a part may be registered */
        vv_free(note);
        vv_tracked_give();
        return rc;
    }
    *note = (struct note){.next = softdirty->notes, .is_whole = 1};
    softdirty->notes = note;
    watch->notes = note;
    return 0;
}

static void softdirty_detach(struct vv_tracker *tracker, struct vv_watch *watch) {
    struct softdirty *softdirty = (struct softdirty *)tracker;
    size_t length;
    uintptr_t start = vv_watch_inside(watch, &length);
    struct note **link = &softdirty->notes;
    while (*link && *link != watch->notes)
        link = &(*link)->next;
    if (*link)
        *link = (*link)->next;
    vv_free(watch->notes);
    watch->notes = NULL;
    if (is_other_process(softdirty))
        return;
    unregister_range(softdirty, start, start + length);
    vv_tracked_give();
}

static void release(struct softdirty *softdirty) {
    int pid = softdirty->pid;
    if (softdirty->uffd >= 0)
        close(softdirty->uffd);
    if (softdirty->clear_refs >= 0)
        close(softdirty->clear_refs);
    if (softdirty->pagemap >= 0)
        close(softdirty->pagemap);
    if (softdirty->canary)
        munmap((void *)(uintptr_t)softdirty->canary, CANARY_PAGES * VV_PAGE);
    if (!is_other_process(softdirty))
        atomic_compare_exchange_strong(&owner, &pid, 0);
    vv_free(softdirty);
}

static void softdirty_close(struct vv_tracker *tracker) {
    release((struct softdirty *)tracker);
}

static const struct vv_tracker_ops softdirty_ops = {
    .name = "softdirty",
    .attach = softdirty_attach,
    .detach = softdirty_detach,
    .collect = softdirty_collect,
    .renew = softdirty_renew,
    .peek = softdirty_peek,
    .close = softdirty_close,
};

/* ---- does it work here? ---- */

static int begin_trial(void *context, uint64_t start, uint64_t end) {
    return register_range(((struct inside *)context)->softdirty, start, end);
}

static int collect_trial(void *context, const uint8_t *ptr, uint64_t start, uint64_t end, vv_pages_fn fn, void *arg) {
    int rc = collect_inside(context, ptr, start, end, fn, arg);
    return rc ? rc : clear_bits(((struct inside *)context)->softdirty);
}

static const char *make_canary(struct softdirty *softdirty) {
    const size_t size = CANARY_PAGES * VV_PAGE;
    uint8_t *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return "no memory";
    madvise(pages, size, MADV_NOHUGEPAGE);
    softdirty->canary = pages;
    for (size_t i = 0; i < size; i += VV_PAGE)
        softdirty->canary[i] = 1;
    if (!is_soft_dirty(softdirty, softdirty->canary))
        return "the kernel has no soft-dirty bits (CONFIG_MEM_SOFT_DIRTY)";
    return NULL;
}

static const char *open_descriptors(struct softdirty *softdirty, int is_forced) {
    softdirty->pagemap = vv_pagemap_open();
    if (softdirty->pagemap < 0)
        return "/proc/self/pagemap cannot be opened";
    const char *problem = make_canary(softdirty);
    if (problem)
        return problem;
    softdirty->clear_refs = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (softdirty->clear_refs < 0)
        return "/proc/self/clear_refs cannot be opened";
    softdirty->uffd = vv_uffd_open(VV_UFFD_USER_ONLY, UFFD_FEATURE_PAGEFAULT_FLAG_WP);
    if (softdirty->uffd == -EINVAL)
        softdirty->uffd = vv_uffd_open(VV_UFFD_KERNEL_CAPABLE, UFFD_FEATURE_PAGEFAULT_FLAG_WP); /* before Linux 5.11 */
    return softdirty->uffd < 0 && !is_forced ? "moved memory is not noticed without userfaultfd" : NULL;
}

int vv_tracker_softdirty(int is_forced, struct vv_tracker **out, char *why, size_t capacity) {
    const char *problem;
    int before = atomic_load(&owner);
    if (sysconf(_SC_PAGESIZE) != VV_PAGE) {
        snprintf(why, capacity, "pages are not of 4096 bytes");
        return -ENOTSUP;
    }
    if (before == getpid() || !atomic_compare_exchange_strong(&owner, &before, getpid())) {
        snprintf(why, capacity, "another session of this process has the soft-dirty bits");
        return -EBUSY;
    }
    struct softdirty *softdirty = vv_calloc(1, sizeof *softdirty);
    if (!softdirty) {
        atomic_store(&owner, 0);
        snprintf(why, capacity, "no memory");
        return -ENOMEM;
    }
    *softdirty =
        (struct softdirty){.base = {&softdirty_ops}, .pagemap = -1, .clear_refs = -1, .uffd = -1, .pid = getpid()};
    problem = open_descriptors(softdirty, is_forced);
    if (!problem)
        problem = vv_tracked_try(&(struct vv_trial){begin_trial, collect_trial, &(struct inside){softdirty, 0}});
    if (problem) {
        snprintf(why, capacity, "%s", problem);
        release(softdirty);
        return -ENOTSUP;
    }
    *out = &softdirty->base;
    return 0;
}
