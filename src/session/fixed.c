/* Address-true mode (setting heap=fixed; `varve run --fixed`): the whole heap and the static variables of the program
 * come back, with the pointers in them. libvarve_preload says where they are, and which files the process has loaded:
 * a restart is refused before anything is written unless the same are at the same addresses.
 *
 * What belongs to the process does not come back: its stack, and what the C library, MPI or this library have allocated
 * (FILE, communicators, the session). Words that point there are *foreign*. The program runs again up to varve_restart,
 * and has set them anew on its way, at the same place. So a foreign word gets the value of this process. Where one is
 * foreign only in the stored process there is no such value, and where it was changed after varve_restart it would be
 * another: then the checkpoint is refused. */
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/search.h"
#include "format/attributes.h"
#include "memory/pagemap.h"
#include "memory/pages.h"
#include "session/session_private.h"

struct span {
    uint64_t begin, end;
};

struct word {
    uint64_t at, value;
};

struct vv_fixed {
    struct span *objects; /* loaded at the first call: pointers to them stay right */
    size_t object_count, object_capacity;
    struct word *words; /* foreign ones at varve_restart; ascending places */
    size_t word_count, word_capacity;
    struct vv_ranges now;
};

struct vv_fixed *vv_fixed_create(void) {
    return vv_calloc(1, sizeof(struct vv_fixed));
}

void vv_fixed_destroy(struct vv_fixed *fixed) {
    if (!fixed)
        return;
    vv_free(fixed->objects);
    vv_free(fixed->words);
    vv_free(fixed);
}

static int call_preload(uint64_t size, int is_restarted) {
    int (*fixed)(size_t, int);
    *(void **)&fixed = dlsym(RTLD_DEFAULT, VV_FIXED_HOOK);
    int rc = fixed ? fixed(size, is_restarted) : -ENOTSUP;
    return rc < 0 ? rc : 0;
}

int vv_fixed_resize(uint64_t size) {
    return call_preload(size, 0);
}

/* ---- which addresses are foreign ---- */

static int add_object(struct dl_phdr_info *info, size_t size, void *arg) {
    struct vv_fixed *fixed = arg;
    struct span span = {UINT64_MAX, 0};
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uint64_t begin = info->dlpi_addr + part->p_vaddr, end = begin + part->p_memsz;
        if (part->p_type != PT_LOAD)
            continue;
        span.begin = begin < span.begin ? begin : span.begin;
        span.end = end > span.end ? end : span.end;
    }
    if (span.end <= span.begin)
        return 0;
    if (VV_GROW(fixed->objects, fixed->object_count, fixed->object_capacity) != 0)
        return -ENOMEM;
    fixed->objects[fixed->object_count++] = span;
    return 0;
}

static int by_begin(const void *a, const void *b) {
    uint64_t x = ((const struct span *)a)->begin, y = ((const struct span *)b)->begin;
    return (x > y) - (x < y);
}

/* Does it come back? The entries of objects are only names. */
static int is_memory(const struct vv_heap_block *block) {
    return strncmp(block->name, VV_HEAP_OBJECT, sizeof VV_HEAP_OBJECT - 1) != 0 &&
           strncmp(block->name, VV_HEAP_OBJECT_AT, sizeof VV_HEAP_OBJECT_AT - 1) != 0;
}

/* Objects and what comes back, ascending; *count_out of them. NULL: no memory. */
static struct span *take_home(const struct vv_heap *heap, size_t *count_out) {
    const struct vv_fixed *fixed = heap->fixed;
    struct span *list = vv_malloc((fixed->object_count + heap->count + 1) * sizeof *list);
    size_t count = 0;
    for (size_t i = 0; list && i < fixed->object_count; i++)
        list[count++] = fixed->objects[i];
    for (size_t i = 0; list && i < heap->count; i++)
        if (is_memory(&heap->list[i]))
            list[count++] =
                (struct span){(uintptr_t)heap->list[i].ptr, (uintptr_t)heap->list[i].ptr + heap->list[i].size};
    if (list && count > 1)
        qsort(list, count, sizeof *list, by_begin);
    *count_out = count;
    return list;
}

static int add_range(struct vv_ranges *ranges, uint64_t begin, uint64_t end) {
    if (begin >= end)
        return 0;
    if (ranges->count > 0 && ranges->list[ranges->count - 1].end == begin) {
        ranges->list[ranges->count - 1].end = end;
        return 0;
    }
    if (ranges->count == VV_RANGES_MOST)
        return -E2BIG;
    ranges->list[ranges->count].begin = begin;
    ranges->list[ranges->count++].end = end;
    return 0;
}

/* All that is mapped, without `home`. */
static int fill_ranges(struct vv_ranges *ranges, struct vv_maps *maps, const struct span *home, size_t count) {
    struct vv_map map;
    int rc;
    memset(ranges, 0, sizeof *ranges);
    for (uint64_t from = 0; (rc = vv_maps_next(maps, from, &map)) > 0; from = map.end) {
        if (map.start >> 47)
            return 0;
        if (!map.is_readable) /* reserved, as the rest of the arena: nothing is there */
            continue;
        uint64_t at = map.start;
        for (size_t i = 0; i < count && rc >= 0; i++) {
            if (home[i].end <= at || home[i].begin >= map.end)
                continue;
            rc = add_range(ranges, at, home[i].begin);
            at = home[i].end;
        }
        rc = rc < 0 ? rc : add_range(ranges, at, map.end);
        if (rc < 0)
            break;
    }
    return rc;
}

static int find_foreign(struct vv_heap *heap, struct vv_ranges *out) {
    struct vv_fixed *fixed = heap->fixed;
    struct vv_maps maps;
    size_t count;
    int rc = fixed->object_count ? 0 : dl_iterate_phdr(add_object, fixed);
    struct span *home = rc ? NULL : take_home(heap, &count);
    if (!home)
        return -ENOMEM;
    rc = vv_maps_open(&maps);
    if (rc == 0) {
        rc = fill_ranges(out, &maps, home, count);
        vv_maps_close(&maps);
    }
    vv_free(home);
    return rc;
}

/* ---- foreign words ---- */

struct looking {
    const struct vv_ranges *ranges;
    const struct vv_heap_block *block;
    int (*fn)(struct looking *looking, uint64_t *word);
    struct vv_fixed *fixed;
    struct varve_error *error;
};

static int look_at_pages(void *arg, uint64_t offset, uint64_t length, int is_untouched) {
    struct looking *looking = arg;
    const struct vv_ranges *ranges = looking->ranges;
    uint64_t low = ranges->list[0].begin, above = ranges->list[ranges->count - 1].end - low;
    uintptr_t begin = (uintptr_t)looking->block->ptr + offset, end = begin + length;
    int rc = 0;
    if (is_untouched)
        return 0;
    for (uint64_t *word = (uint64_t *)((begin + 7) & ~(uintptr_t)7); (uintptr_t)(word + 1) <= end && rc == 0; word++)
        if (*word - low < above && vv_ranges_has(ranges, *word))
            rc = looking->fn(looking, word);
    return rc;
}

/* Calls fn for each, until it returns nonzero. */
static int each_foreign(const struct vv_heap *heap, struct looking *looking) {
    int rc = 0;
    for (size_t i = 0; i < heap->count && rc == 0 && looking->ranges->count > 0; i++) {
        looking->block = &heap->list[i];
        if (is_memory(looking->block))
            rc = vv_pages_walk(looking->block->ptr, looking->block->size, look_at_pages, looking);
    }
    return rc;
}

static int keep_word(struct looking *looking, uint64_t *word) {
    struct vv_fixed *fixed = looking->fixed;
    if (VV_GROW(fixed->words, fixed->word_count, fixed->word_capacity) != 0)
        return -ENOMEM;
    fixed->words[fixed->word_count++] = (struct word){(uintptr_t)word, *word};
    return 0;
}

static int by_place(const void *a, const void *b) {
    uint64_t x = ((const struct word *)a)->at, y = ((const struct word *)b)->at;
    return (x > y) - (x < y);
}

static const struct word *find_word(const struct vv_fixed *fixed, const uint64_t *word) {
    struct word key = {(uintptr_t)word, 0};
    return fixed->word_count ? bsearch(&key, fixed->words, fixed->word_count, sizeof key, by_place) : NULL;
}

/* Without memory for them the next checkpoint is refused. */
void vv_fixed_remember(struct vv_heap *heap) {
    struct vv_fixed *fixed = heap->fixed;
    struct looking looking = {.ranges = &fixed->now, .fn = keep_word, .fixed = fixed};
    fixed->word_count = 0;
    if (find_foreign(heap, &fixed->now) != 0 || each_foreign(heap, &looking) != 0)
        fixed->word_count = 0;
    if (fixed->word_count > 1)
        qsort(fixed->words, fixed->word_count, sizeof *fixed->words, by_place);
}

static int check_word(struct looking *looking, uint64_t *word) {
    const struct word *kept = find_word(looking->fixed, word);
    if (kept && kept->value == *word)
        return 0;
    return vv_error(
        looking->error, -ENOTSUP,
        "%s holds at byte %" PRIu64 " (address 0x%" PRIxPTR ") the address 0x%" PRIx64
        " of memory that does not come back (stack, C library, MPI, Varve): set it before varve_restart and "
        "leave it, or clear it before the checkpoint",
        looking->block->name, (uint64_t)((char *)word - (char *)looking->block->ptr), (uintptr_t)word, *word);
}

int vv_fixed_search(struct vv_heap *heap, struct varve_error *error) {
    struct looking looking = {.ranges = heap->ranges, .fn = check_word, .fixed = heap->fixed, .error = error};
    int rc = find_foreign(heap, heap->ranges);
    if (rc)
        return vv_error(error, rc, "which addresses the process has in use cannot be told: %s", strerror(-rc));
    rc = each_foreign(heap, &looking);
    return rc ? vv_error_default(error, rc, "the program's memory cannot be read") : 0;
}

static int put_word(struct looking *looking, uint64_t *word) {
    const struct word *kept = find_word(looking->fixed, word);
    if (kept) {
        *word = kept->value;
        return 0;
    }
    return vv_error(looking->error, -ENOTSUP,
                    "%s held at byte %" PRIu64
                    " an address of memory that does not come back, and this run has set none there on its way to "
                    "varve_restart. The program's memory was overwritten: it must end",
                    looking->block->name, (uint64_t)((char *)word - (char *)looking->block->ptr));
}

int vv_fixed_came_back(struct vv_heap *heap, const struct vv_regions *regions, struct varve_error *error) {
    struct looking looking = {.ranges = heap->ranges, .fn = put_word, .fixed = heap->fixed, .error = error};
    const struct vv_region *region = vv_regions_find(regions, VV_HEAP_ARENA);
    struct vv_heap_block *arena = vv_heap_find(heap, VV_HEAP_ARENA);
    int rc = 0;
    if (region && arena) { /* it has the size that was stored */
        arena->size = region->size;
        rc = call_preload(region->size, 1);
    }
    rc = rc ? rc : each_foreign(heap, &looking);
    return rc ? vv_error_default(error, rc, "the program's memory cannot be read") : 0;
}
