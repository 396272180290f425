/* PAGEMAP_SCAN, and /proc/self/maps by PROCMAP_QUERY where the kernel has it: with thousands of mappings, reading the
 * text from its beginning for every question would cost seconds. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "memory/pagemap.h"

/* From <linux/fs.h> of Linux 6.7 and 6.11; the headers of the build machine may be older than the running kernel. */
struct scan_arg {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define SCAN_REQUEST _IOWR('f', 16, struct scan_arg)

struct query_arg {
    uint64_t size, query_flags, query_addr, vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
    uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
    uint64_t vma_name_addr, build_id_addr;
};
#define QUERY_REQUEST _IOWR('f', 17, struct query_arg)
#define QUERY_READABLE 1u
#define QUERY_WRITABLE 2u
#define QUERY_SHARED 8u
#define QUERY_COVERING_OR_NEXT 16u

int vv_pagemap_open(void) {
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    return fd >= 0 ? fd : -errno;
}

int vv_pagemap_scan(int fd, const struct vv_page_query *query, uint64_t start, uint64_t end,
                    struct vv_page_range *found, size_t capacity, uint64_t *next_out) {
    struct scan_arg arg = {.size = sizeof arg,
                           .flags = query->flags,
                           .start = start,
                           .end = end,
                           .vec = (uint64_t)(uintptr_t)found,
                           .vec_len = capacity,
                           .category_inverted = query->inverted,
                           .category_mask = query->all | query->inverted,
                           .category_anyof_mask = query->any,
                           .return_mask = query->wanted};
    int count = ioctl(fd, SCAN_REQUEST, &arg);
    if (count < 0)
        return -errno;
    /* walk_end is not reliable when the vector was filled: go on behind the last range seen. */
    *next_out = (size_t)count < capacity ? end : found[count - 1].end;
    return count;
}

/* Bits of an entry: 63 present, 62 swapped, 61 of a file or shared, 57 write-protected by a userfaultfd, 56 mapped here
 * only, 55 soft-dirty. The page of zeros is neither of a file nor mapped here only; but so are others. */
static uint64_t categories_of(uint64_t entry) {
    uint64_t sum = 0;
    sum |= entry >> 63 & 1 ? VV_PAGE_PRESENT : 0;
    sum |= entry >> 62 & 1 ? VV_PAGE_SWAPPED : 0;
    sum |= entry >> 57 & 1 ? 0 : VV_PAGE_WRITTEN;
    sum |= entry >> 56 & 1 ? VV_PAGE_EXCLUSIVE : 0;
    sum |= entry >> 55 & 1 ? VV_PAGE_SOFT_DIRTY : 0;
    sum |= (entry >> 63 & 1) && !(entry >> 61 & 1) && !(entry >> 56 & 1) ? VV_PAGE_ZERO : 0;
    return sum;
}

static int does_match(const struct vv_page_query *query, uint64_t categories) {
    uint64_t must = query->all | query->inverted, seen = categories ^ query->inverted;
    return (seen & must) == must && (query->any == 0 || (seen & query->any) != 0);
}

int vv_pagemap_read(int fd, const struct vv_page_query *query, uint64_t start, uint64_t end,
                    struct vv_page_range *found, size_t capacity, uint64_t *next_out) {
    const uint64_t page = 4096, most = 4096;
    uint64_t entries[4096];
    size_t count = 0;
    if (query->flags != 0)
        return -EINVAL;
    while (start < end) {
        uint64_t pages = (end - start) / page < most ? (end - start) / page : most;
        ssize_t got = pread(fd, entries, pages * sizeof entries[0], (off_t)(start / page * sizeof entries[0]));
        if (got < (ssize_t)sizeof entries[0])
            return got < 0 ? -errno : -EIO;
        for (size_t i = 0; i < (size_t)got / sizeof entries[0]; i++, start += page) {
            uint64_t seen = categories_of(entries[i]), wanted = seen & query->wanted;
            if (!does_match(query, seen))
                continue;
            if (count > 0 && found[count - 1].end == start && found[count - 1].categories == wanted) {
                found[count - 1].end += page;
                continue;
            }
            if (count == capacity) {
                *next_out = start;
                return (int)count;
            }
            found[count++] = (struct vv_page_range){start, start + page, wanted};
        }
    }
    *next_out = end;
    return (int)count;
}

static int is_special_name(const char *name) {
    return name[0] == '[' && strncmp(name, "[heap]", 6) != 0 && strncmp(name, "[stack", 6) != 0 &&
           strncmp(name, "[anon:", 6) != 0;
}

static int ask_kernel(int fd, uint64_t from, struct query_arg *arg, char *name, uint32_t name_capacity) {
    *arg = (struct query_arg){.size = sizeof *arg,
                              .query_flags = QUERY_COVERING_OR_NEXT,
                              .query_addr = from,
                              .vma_name_size = name_capacity,
                              .vma_name_addr = (uint64_t)(uintptr_t)name};
    return ioctl(fd, QUERY_REQUEST, arg) == 0 ? 0 : -errno;
}

static int next_by_query(int fd, uint64_t from, struct vv_map *out) {
    struct query_arg arg;
    char name[256] = "";
    int rc = ask_kernel(fd, from, &arg, NULL, 0);
    if (rc != 0)
        return rc == -ENOENT ? 0 : rc;
    out->start = arg.vma_start;
    out->end = arg.vma_end;
    out->is_readable = (arg.vma_flags & QUERY_READABLE) != 0;
    out->is_writable = (arg.vma_flags & QUERY_WRITABLE) != 0;
    out->is_anonymous = arg.inode == 0 && arg.dev_major == 0 && arg.dev_minor == 0 && out->is_readable &&
                        !(arg.vma_flags & QUERY_SHARED);
    /* The kernel's own pages, such as [vdso], are never writable. */
    if (out->is_anonymous && !out->is_writable && ask_kernel(fd, from, &arg, name, sizeof name) == 0)
        out->is_anonymous = !is_special_name(name);
    return 1;
}

static int parse_line(const char *line, struct vv_map *out) {
    char flags[5];
    uint64_t offset, inode;
    unsigned major, minor;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64, &out->start, &out->end, flags, &offset,
               &major, &minor, &inode) != 7)
        return -1;
    const char *name = strchr(line, '[');
    out->is_readable = flags[0] == 'r';
    out->is_writable = flags[1] == 'w';
    out->is_anonymous = inode == 0 && major == 0 && minor == 0 && flags[3] == 'p' && out->is_readable &&
                        !(name && is_special_name(name));
    return 0;
}

static int next_by_text(FILE *text, uint64_t from, struct vv_map *out) {
    char line[512];
    while (fgets(line, sizeof line, text)) {
        int rc = parse_line(line, out);
        while (!strchr(line, '\n') && fgets(line, sizeof line, text))
            ;
        if (rc == 0 && out->end > from)
            return 1;
    }
    return ferror(text) ? -EIO : 0;
}

int vv_maps_open(struct vv_maps *maps) {
    struct query_arg arg;
    *maps = (struct vv_maps){.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
    if (maps->fd < 0)
        return -errno;
    int rc = ask_kernel(maps->fd, 0, &arg, NULL, 0);
    if (rc == 0 || rc == -ENOENT)
        return 0;
    maps->text = fdopen(maps->fd, "re");
    if (!maps->text) {
        rc = -errno;
        close(maps->fd);
        return rc;
    }
    maps->fd = -1;
    return 0;
}

void vv_maps_close(struct vv_maps *maps) {
    if (maps->text)
        fclose(maps->text);
    else
        close(maps->fd);
}

int vv_maps_next(struct vv_maps *maps, uint64_t from, struct vv_map *out) {
    return maps->text ? next_by_text(maps->text, from, out) : next_by_query(maps->fd, from, out);
}

int vv_memory_is_plain(const void *ptr, size_t size) {
    uint64_t from = (uint64_t)(uintptr_t)ptr, end = from + size;
    struct vv_maps maps;
    struct vv_map map;
    if (end < from || vv_maps_open(&maps) != 0)
        return 0;
    while (from < end && vv_maps_next(&maps, from, &map) == 1 && map.start <= from && map.is_anonymous &&
           map.is_writable)
        from = map.end;
    vv_maps_close(&maps);
    return from >= end;
}
