/* What the trackers have in common that let the kernel note writes: which memory they take, the ends of a region, and
 * how they are tried. */
#ifndef VV_TRACKED_H
#define VV_TRACKED_H

#include "memory/pagemap.h"
#include "memory/pages.h"
#include "memory/tracked_range.h"

/* May the whole pages inside be watched? 0, and they count until vv_tracked_give; or -ERANGE: looking at the bytes is
 * cheaper; -ENOTSUP: memory of another kind; -ENOSPC: there are too many already. */
int vv_tracked_take(const struct vv_watch *watch);
void vv_tracked_give(void);

/* Reports what changed in whole pages [start, end); offsets are counted from ptr. */
typedef int (*vv_inside_fn)(void *context, const uint8_t *ptr, uint64_t start, uint64_t end, vv_pages_fn fn, void *arg);

/* The partial pages at the ends of a region, and between them what `inside` reports. */
int vv_tracked_collect(const struct vv_watch *watch, vv_inside_fn inside, void *context, vv_pages_fn fn, void *arg);
/* Everything in whole pages [start, end) may have changed. is_ours: as for vv_pages_walk_ours. */
int vv_tracked_walk(const uint8_t *ptr, uint64_t start, uint64_t end, int is_ours, vv_pages_fn fn, void *arg);

/* Reports the whole pages inside a region that match; find: vv_pagemap_scan or vv_pagemap_read. */
int vv_tracked_peek(const struct vv_watch *watch, vv_pagemap_fn find, int fd, const struct vv_page_query *query,
                    vv_pages_fn fn, void *arg);

/* Calls `what` for each mapping in [start, end) of private anonymous memory that may be written: the kernel refuses a
 * range of which a part is of another kind. */
void vv_tracked_for_plain(uint64_t start, uint64_t end, void (*what)(void *context, uint64_t start, uint64_t end),
                          void *context);

/* Writes, reads and drops pages of its own, and looks what is reported. NULL, or what goes wrong. `begin` returns 0
 * when it watches the pages; from the second `collect` on, only what changed since the one before may be reported. */
struct vv_trial {
    int (*begin)(void *context, uint64_t start, uint64_t end);
    vv_inside_fn collect;
    void *context;
};
const char *vv_tracked_try(const struct vv_trial *trial);

#endif
