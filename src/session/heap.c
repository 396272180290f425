/* Large allocations that the program never named (setting heap): libvarve_preload knows them by the place in the
 * program that allocated them. Before each checkpoint and restart they become regions that move, and those that were
 * freed are protected no more.
 *
 * Another process has other addresses, so memory that holds some would come back wrong. The ranges of addresses that
 * the process has in use are stored beside the allocations. A word that lies in one of them is taken for an address:
 * looked for in each allocation when it is first stored, and in all of them when they have come back. */
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/search.h"
#include "format/attributes.h"
#include "memory/pagemap.h"
#include "memory/pages.h"
#include "session/session_private.h"

#define HOOK "varve_preload_each_1" /* preload/allocator.c */

/* ---- addresses ---- */

/* Mappings with no more than this between them count as one. 1: done; 0: there are too many. */
static int fill_ranges(struct vv_ranges *ranges, struct vv_maps *maps, uint64_t gap) {
    struct vv_map map;
    int rc;
    memset(ranges, 0, sizeof *ranges);
    for (uint64_t from = 0; (rc = vv_maps_next(maps, from, &map)) > 0; from = map.end) {
        if (map.start >> 47) /* what the kernel shows of itself is the same everywhere */
            break;
        if (ranges->count > 0 && map.start - ranges->list[ranges->count - 1].end <= gap) {
            ranges->list[ranges->count - 1].end = map.end;
            continue;
        }
        if (ranges->count == VV_RANGES_MOST)
            return 0;
        ranges->list[ranges->count].begin = map.start;
        ranges->list[ranges->count++].end = map.end;
    }
    return rc < 0 ? rc : 1;
}

static int take_ranges(struct vv_ranges *ranges, struct varve_error *error) {
    struct vv_maps maps;
    int rc = 0;
    for (uint64_t gap = 0; rc == 0; gap = gap ? 2 * gap : 65536) {
        rc = vv_maps_open(&maps);
        if (rc < 0)
            break;
        rc = fill_ranges(ranges, &maps, gap);
        vv_maps_close(&maps);
    }
    return rc < 0 ? vv_error(error, rc, "which addresses the process has in use cannot be read: %s", strerror(-rc)) : 0;
}

int vv_ranges_has(const struct vv_ranges *ranges, uint64_t word) {
    size_t low = 0, high = (size_t)ranges->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (word >= ranges->list[middle].end)
            low = middle + 1;
        else
            high = middle;
    }
    return low < ranges->count && word >= ranges->list[low].begin;
}

/* What came from a store may be anything. */
static int are_ranges(const struct vv_ranges *ranges) {
    uint64_t last = 0;
    if (ranges->count == 0 || ranges->count > VV_RANGES_MOST)
        return 0;
    for (size_t i = 0; i < ranges->count; i++) {
        if (ranges->list[i].begin < last || ranges->list[i].end <= ranges->list[i].begin)
            return 0;
        last = ranges->list[i].end;
    }
    return 1;
}

struct searching {
    const struct vv_ranges *ranges;
    const struct vv_heap_block *block;
    uint64_t found; /* offset */
};

/* 1: here is one. The block begins with a page, so words lie at whole multiples of their size. */
static int search_pages(void *arg, uint64_t offset, uint64_t length, int is_untouched) {
    struct searching *searching = arg;
    const struct vv_ranges *ranges = searching->ranges;
    uint64_t low = ranges->list[0].begin, above = ranges->list[ranges->count - 1].end - low;
    const uint64_t *words = (const uint64_t *)searching->block->ptr + offset / sizeof *words;
    for (size_t i = 0; i < length / sizeof *words && !is_untouched; i++)
        if (words[i] - low < above && vv_ranges_has(ranges, words[i])) {
            searching->found = offset + i * sizeof *words;
            return 1;
        }
    return 0;
}

static int search(const struct vv_ranges *ranges, const struct vv_heap_block *block, struct varve_error *error) {
    struct searching searching = {ranges, block, 0};
    int rc = vv_pages_walk(block->ptr, block->size, search_pages, &searching);
    if (rc <= 0)
        return rc ? vv_error(error, rc, "allocation %s cannot be read", block->name) : 0;
    return vv_error(error, -ENOTSUP,
                    "allocation %s of %zu bytes holds at byte %" PRIu64
                    " what looks like an address: other runs have other addresses. If these are numbers, set"
                    " heap=unchecked; else store the process (varve dump)",
                    block->name, block->size, searching.found);
}

static int is_checked(const struct vv_session *session) {
    return session->job.settings.heap == VV_CHOOSE_HEAP_DATA;
}

static int check_blocks(struct vv_heap *heap, const struct vv_regions *regions, struct varve_error *error) {
    int rc = heap->fixed ? 0 : vv_pointers_compare(heap, heap->pointers, error);
    if (rc == 0 && !are_ranges(heap->ranges))
        rc = vv_error(error, VARVE_CORRUPT, "region " VV_HEAP_ADDRESSES " does not hold ranges of addresses");
    if (rc == 0 && heap->fixed)
        return vv_fixed_came_back(heap, regions, error);
    for (size_t i = 0; i < heap->count && rc == 0; i++) {
        rc = search(heap->ranges, &heap->list[i], error);
        heap->list[i].is_searched = 1;
    }
    return rc;
}

int vv_heap_came_back(struct vv_session *session, int is_all, struct varve_error *error) {
    struct vv_heap *heap = &session->about.heap;
    if (!heap->each || (!is_checked(session) && !heap->fixed))
        return 0;
    return vv_comm_agree(session->job.comm, is_all ? check_blocks(heap, &session->memory.regions, error) : 0, error);
}

int vv_heap_tell_ranges(void *arg, struct varve_memory *out) {
    out->ptr = arg;
    out->bytes = sizeof(struct vv_ranges);
    return 0;
}

int vv_heap_tell_pointers(void *arg, struct varve_memory *out) {
    out->ptr = arg;
    out->bytes = vv_pointers_size();
    return 0;
}

/* ---- allocations ---- */

static int take_block(void *arg, const char *name, void *ptr, size_t size, const char *why) {
    struct vv_heap *heap = arg;
    size_t length = strlen(name) + sizeof VV_HEAP;
    char *text = length > VV_REGION_NAME_MAX ? NULL : vv_malloc(length);
    if (!text || VV_GROW(heap->list, heap->count, heap->capacity) != 0) {
        vv_free(text);
        return -ENOMEM;
    }
    memcpy(text, VV_HEAP, sizeof VV_HEAP - 1);
    memcpy(text + sizeof VV_HEAP - 1, name, length - sizeof VV_HEAP + 1);
    heap->list[heap->count++] = (struct vv_heap_block){text, ptr, size, why, 0};
    return 0;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct vv_heap_block *)a)->name, ((const struct vv_heap_block *)b)->name);
}

struct vv_heap_block *vv_heap_find(const struct vv_heap *heap, const char *name) {
    struct vv_heap_block key = {.name = (char *)(uintptr_t)name};
    return heap->count ? bsearch(&key, heap->list, heap->count, sizeof key, by_name) : NULL;
}

static void clear_blocks(struct vv_heap *heap) {
    for (size_t i = 0; i < heap->count; i++)
        vv_free(heap->list[i].name);
    vv_free(heap->list);
    heap->list = NULL;
    heap->count = heap->capacity = 0;
}

/* ---- those that have a name all the same ---- */

/* Memory of regions that the program has named; disjoint and ascending. */
struct span {
    uintptr_t begin, end;
};

static int is_named_memory(const struct vv_region *region) {
    return region->name && !vv_is_ours(region->name) && !region->is_callback && !region->is_ended && region->ptr &&
           region->size > 0;
}

static int by_begin(const void *a, const void *b) {
    uintptr_t x = ((const struct span *)a)->begin, y = ((const struct span *)b)->begin;
    return (x > y) - (x < y);
}

/* Sorted, and what touches or overlaps is one. */
static size_t join_spans(struct span *list, size_t count) {
    size_t joined = 0;
    if (count > 1)
        qsort(list, count, sizeof *list, by_begin);
    for (size_t i = 0; i < count; i++)
        if (joined == 0 || list[i].begin > list[joined - 1].end)
            list[joined++] = list[i];
        else if (list[i].end > list[joined - 1].end)
            list[joined - 1].end = list[i].end;
    return joined;
}

static int refuse_part(const struct vv_heap_block *block, const struct vv_regions *regions, int is_fixed,
                       struct varve_error *error) {
    uintptr_t begin = (uintptr_t)block->ptr, end = begin + block->size;
    const char *name = "?";
    for (size_t i = 0; i < regions->count; i++) {
        const struct vv_region *region = &regions->list[i];
        if (is_named_memory(region) && (uintptr_t)region->ptr < end && (uintptr_t)region->ptr + region->size > begin)
            name = region->name;
    }
    return vv_error(
        error, -ENOTSUP,
        is_fixed ? "%s of %zu bytes lies in part in region %s: all memory of the program is stored; take "
                   "that varve_protect out"
                 : "allocation %s of %zu bytes lies in part in region %s: name all of it (varve_protect) or none",
        block->name, block->size, name);
}

/* A block that named regions cover is left out: twice in a checkpoint, nothing would say which of the two a restart
 * writes last. */
static int leave_named(struct vv_heap *heap, const struct vv_regions *regions, struct varve_error *error) {
    struct span *spans = vv_malloc((regions->count + 1) * sizeof *spans);
    size_t count = 0, kept = 0;
    int rc = 0;
    if (!spans)
        return -ENOMEM;
    for (size_t i = 0; i < regions->count; i++)
        if (is_named_memory(&regions->list[i]))
            spans[count++] =
                (struct span){(uintptr_t)regions->list[i].ptr, (uintptr_t)regions->list[i].ptr + regions->list[i].size};
    count = join_spans(spans, count);
    for (size_t i = 0; i < heap->count; i++) {
        struct vv_heap_block block = heap->list[i];
        uintptr_t begin = (uintptr_t)block.ptr, end = begin + block.size;
        size_t at;
        VV_SEARCH(at, 0, count, spans[at].end <= begin);
        int is_touched = at < count && spans[at].begin < end;
        int is_covered = is_touched && spans[at].begin <= begin && spans[at].end >= end;
        if (rc == 0 && is_touched && !is_covered)
            rc = refuse_part(&block, regions, heap->fixed != NULL, error);
        if (is_covered)
            vv_free(block.name);
        else
            heap->list[kept++] = block;
    }
    heap->count = kept;
    vv_free(spans);
    return rc;
}

int vv_heap_take(const struct vv_heap *heap, const struct vv_regions *regions, struct vv_heap *out,
                 struct varve_error *error) {
    struct vv_heap now = *heap;
    now.list = NULL;
    now.count = now.capacity = 0;
    int rc = heap->each(take_block, &now);
    if (rc == 0)
        rc = leave_named(&now, regions, error);
    for (size_t i = 0; i < now.count && rc == 0; i++)
        if (now.list[i].why)
            rc = vv_error(error, -ENOTSUP,
                          heap->fixed ? "%s of %zu bytes cannot come back: %s"
                                      : "allocation %s of %zu bytes cannot be told from others when it comes back: %s",
                          now.list[i].name, now.list[i].size, now.list[i].why);
    if (now.count > 1)
        qsort(now.list, now.count, sizeof *now.list, by_name);
    for (size_t i = 1; i < now.count && rc == 0; i++) /* only one of them would be stored */
        if (by_name(&now.list[i - 1], &now.list[i]) == 0)
            rc = vv_error(error, -ENOTSUP,
                          "%s is there twice, and cannot be told apart when it comes back: give libraries of the "
                          "program names that differ in the first 95 bytes",
                          now.list[i].name);
    if (rc) {
        clear_blocks(&now);
        return vv_error_default(error, rc, "no memory to protect the program's allocations");
    }
    *out = now;
    return 0;
}

void vv_heap_replace(struct vv_heap *heap, const struct vv_heap *now) {
    for (size_t i = 0; i < now->count; i++) {
        const struct vv_heap_block *before = vv_heap_find(heap, now->list[i].name);
        now->list[i].is_searched = before && before->is_searched;
    }
    clear_blocks(heap);
    *heap = *now;
}

/* ---- what a later run will have ---- */

static void forget_past(struct vv_heap_past *past) {
    for (size_t i = 0; i < past->count; i++)
        vv_free(past->list[i].name);
    vv_free(past->list);
    *past = (struct vv_heap_past){.is_told = past->is_told};
}

/* Without memory for it there is no warning. */
void vv_heap_remember(struct vv_session *session) {
    const struct vv_heap *heap = &session->about.heap;
    struct vv_heap_past *past = &session->about.heap_past;
    forget_past(past);
    if (heap->fixed)
        vv_fixed_remember(&session->about.heap);
    if (!heap->each || heap->fixed)
        return;
    past->list = vv_calloc(heap->count + 1, sizeof *past->list);
    past->is_known = past->list != NULL;
    for (size_t i = 0; i < heap->count && past->is_known; i++) {
        past->list[i] = (struct vv_heap_block){.name = vv_strdup(heap->list[i].name), .size = heap->list[i].size};
        past->is_known = past->list[i].name != NULL;
        past->count += (size_t)past->is_known;
    }
}

static void tell_other(struct vv_session *session, const struct vv_heap_block *block, const char *what) {
    vv_log(
        &session->job.log, VV_LOG_WARN,
        "allocation %s of %zu bytes was %s after varve_restart: this checkpoint cannot come back, since the next run "
        "calls varve_restart with other allocations",
        block->name, block->size, what);
    session->about.heap_past.is_told = 1;
}

/* Both lists ascend. */
void vv_heap_tell_others(struct vv_session *session) {
    const struct vv_heap *heap = &session->about.heap;
    struct vv_heap_past *past = &session->about.heap_past;
    size_t i = 0, j = 0;
    while (past->is_known && !past->is_told && (i < heap->count || j < past->count)) {
        int order = i == heap->count ? 1 : j == past->count ? -1 : strcmp(heap->list[i].name, past->list[j].name);
        if (order < 0)
            tell_other(session, &heap->list[i], "made");
        else if (order > 0)
            tell_other(session, &past->list[j], "freed or named");
        else if (heap->list[i].size != past->list[j].size)
            tell_other(session, &heap->list[i], "resized");
        i += order <= 0;
        j += order >= 0;
    }
}

int vv_heap_search(struct vv_session *session, struct varve_error *error) {
    struct vv_heap *heap = &session->about.heap;
    if (heap->fixed)
        return vv_fixed_search(heap, error);
    int rc = heap->each ? take_ranges(heap->ranges, error) : 0;
    if (rc == 0 && heap->each)
        vv_pointers_take(heap, heap->pointers);
    for (size_t i = 0; heap->each && i < heap->count && rc == 0 && is_checked(session); i++) {
        if (!heap->list[i].is_searched)
            rc = search(heap->ranges, &heap->list[i], error);
        heap->list[i].is_searched = rc == 0;
    }
    return rc;
}

/* ---- the session's life ---- */

/* Its own allocations must be told from those of the program, by the object that makes them. */
static int is_library(void) {
    Dl_info info;
    if (!dladdr((void *)(uintptr_t)vv_heap_open, &info) || !info.dli_fname)
        return 0;
    const char *slash = strrchr(info.dli_fname, '/');
    return strncmp(slash ? slash + 1 : info.dli_fname, "libvarve", 8) == 0;
}

static int is_fixed(void) {
    int (*fixed)(size_t, int);
    *(void **)&fixed = dlsym(RTLD_DEFAULT, VV_FIXED_HOOK);
    return fixed && fixed(0, 0) == 1;
}

/* All ranks are started in the same way. */
static int check_mode(int choice, struct varve_error *error) {
    if ((choice == VV_CHOOSE_HEAP_FIXED) == is_fixed())
        return 0;
    return vv_error(error, -ENOTSUP,
                    is_fixed() ? "heap: this process was started by `varve run --fixed`, but heap=fixed is not set, or "
                                 "rank 0 was started otherwise"
                               : "heap: heap=fixed is set, or rank 0 was started by `varve run --fixed`, but this "
                                 "process was not");
}

void vv_heap_settle(struct vv_settings *settings) {
    if (settings->heap == VV_CHOOSE_HEAP_AUTO && dlsym(RTLD_DEFAULT, HOOK))
        settings->heap = is_fixed() ? VV_CHOOSE_HEAP_FIXED : VV_CHOOSE_HEAP_DATA;
}

int vv_heap_open(struct vv_session *session, struct varve_error *error) {
    struct vv_heap *heap = &session->about.heap;
    int choice = (int)session->job.settings.heap;
    (void)is_fixed(); /* with every setting: libvarve_preload tells of programs that open no session */
    if (choice == VV_CHOOSE_HEAP_AUTO && dlsym(RTLD_DEFAULT, HOOK))
        return vv_error(error, -ENOTSUP,
                        "heap: `varve run` has started this rank but not rank 0: it starts all or none");
    if (choice == VV_CHOOSE_HEAP_OFF || choice == VV_CHOOSE_HEAP_AUTO)
        return 0;
    if (!is_library())
        return vv_error(error, -ENOTSUP,
                        "heap: libvarve is linked into the program, and its memory cannot be told from the program's: "
                        "link with libvarve.so");
    heap->ranges = vv_calloc(1, sizeof *heap->ranges);
    heap->pointers = vv_calloc(1, vv_pointers_size());
    if (!heap->ranges || !heap->pointers)
        return vv_error(error, -ENOMEM, "no memory for a session");
    *(void **)&heap->each = dlsym(RTLD_DEFAULT, HOOK);
    if (heap->each && check_mode(choice, error) != 0)
        return -ENOTSUP;
    heap->fixed = heap->each && is_fixed() ? vv_fixed_create() : NULL;
    if (heap->each && is_fixed() && !heap->fixed)
        return vv_error(error, -ENOMEM, "no memory for a session");
    return heap->each ? 0
                      : vv_error(error, -ENOTSUP,
                                 "heap: libvarve_preload is not loaded: start the program by `varve run -- PROGRAM`, "
                                 "each rank for itself (mpirun -n 4 varve run -- PROGRAM)");
}

void vv_heap_close(struct vv_session *session) {
    clear_blocks(&session->about.heap);
    forget_past(&session->about.heap_past);
    vv_free(session->about.heap.ranges);
    vv_free(session->about.heap.pointers);
    vv_fixed_destroy(session->about.heap.fixed);
    session->about.heap.fixed = NULL;
    session->about.heap.ranges = NULL;
    session->about.heap.pointers = NULL;
}
