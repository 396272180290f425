/* What the kernel tells about our own memory: the state of pages (PAGEMAP_SCAN, Linux 6.7) and the list of mappings.
 * Descriptors are of the process that opened them: a child of fork that uses its parent's sees its parent's memory. */
#ifndef VV_PAGEMAP_H
#define VV_PAGEMAP_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- pages ---- */

/* Categories of a page, as bits. */
enum {
    VV_PAGE_WP_ALLOWED = 1 << 0, /* its mapping is registered with a userfaultfd that has WP_ASYNC */
    VV_PAGE_WRITTEN = 1 << 1,    /* not write-protected by one; says nothing of absent pages */
    VV_PAGE_PRESENT = 1 << 3,
    VV_PAGE_SWAPPED = 1 << 4,
    VV_PAGE_ZERO = 1 << 5, /* present, and the page of zeros that all processes share */
    VV_PAGE_HUGE = 1 << 6, /* mapped as a part of a huge page; not known to vv_pagemap_read */
    /* Of vv_pagemap_read only: */
    VV_PAGE_SOFT_DIRTY = 1 << 7, /* written, or become present, since soft-dirty bits were cleared */
    VV_PAGE_EXCLUSIVE = 1 << 8   /* present, and mapped by this process only, at one place; never the page of zeros */
};
enum {
    VV_SCAN_PROTECT = 1 << 0, /* write-protect what matches, in the same go */
    VV_SCAN_CHECK = 1 << 1    /* -EPERM if a mapping is not WP_ALLOWED */
};

struct vv_page_range {
    uint64_t start, end, categories; /* those asked for in `wanted` */
};

/* A page matches if it has all categories of `all`, and one of `any` unless that is 0; those in `inverted` are those
 * it must lack. */
struct vv_page_query {
    uint64_t flags, all, any, inverted, wanted;
};

/* A descriptor or -errno. */
int vv_pagemap_open(void);
/* Either of the two below. */
typedef int (*vv_pagemap_fn)(int fd, const struct vv_page_query *query, uint64_t start, uint64_t end,
                             struct vv_page_range *found, size_t capacity, uint64_t *next_out);

/* Ranges of matching pages in [start, end), ascending; neighbours of equal categories are one. Returns how many, or
 * -errno (-ENOTTY or -EINVAL: not known to this kernel). *next_out: everything below was looked at. What is not mapped
 * matches nothing. */
int vv_pagemap_scan(int fd, const struct vv_page_query *query, uint64_t start, uint64_t end,
                    struct vv_page_range *found, size_t capacity, uint64_t *next_out);

/* The same from the entries of the pages, for kernels without it: knows PRESENT, SWAPPED, WRITTEN (Linux 5.14; of
 * absent pages always), SOFT_DIRTY, EXCLUSIVE, and ZERO, which then only means that it may be that page. No flags. */
int vv_pagemap_read(int fd, const struct vv_page_query *query, uint64_t start, uint64_t end,
                    struct vv_page_range *found, size_t capacity, uint64_t *next_out);

/* ---- mappings ---- */

struct vv_map {
    uint64_t start, end;
    int is_anonymous; /* private, readable, of no file: what is absent reads as zeros */
    int is_readable, is_writable;
};
struct vv_maps {
    int fd;     /* asked for one mapping at a time (Linux 6.11), or -1 */
    FILE *text; /* else read line by line */
};

/* 0 or -errno. */
int vv_maps_open(struct vv_maps *maps);
void vv_maps_close(struct vv_maps *maps);
/* The first mapping that ends above `from`, which must not become less from call to call: 1, or 0 if there is none, or
 * -errno. */
int vv_maps_next(struct vv_maps *maps, uint64_t from, struct vv_map *out);

/* 1 if all of it is private anonymous memory that can be read and written (the heap, the data that begins as zeros,
 * mmap), with pages of the usual size; 0 if not, or unknown. */
int vv_memory_is_plain(const void *ptr, size_t size);

#endif
