/* Protected regions: a list in the order of protecting, and a hash table from names to slots. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/error.h"
#include "base/hash.h"
#include "memory/regions.h"

int vv_region_flags_check(const char *name, unsigned flags, struct varve_error *error) {
    if (flags & ~(VARVE_DEVICE_WRITES | VARVE_NO_KERNEL_WRITES | VARVE_NO_DEVICE_WRITES))
        return vv_error(error, -EINVAL, "region %s: unknown flags %#x; varve.h lists those that there are", name,
                        flags);
    if ((flags & VARVE_DEVICE_WRITES) && (flags & VARVE_NO_DEVICE_WRITES))
        return vv_error(error, -EINVAL,
                        "region %s: VARVE_DEVICE_WRITES and VARVE_NO_DEVICE_WRITES contradict each other; give one",
                        name);
    return 0;
}

void vv_regions_init(struct vv_regions *regions) {
    memset(regions, 0, sizeof *regions);
}

void vv_regions_clear(struct vv_regions *regions) {
    for (size_t i = 0; i < regions->mapping_count; i++)
        vv_pages_unmap(regions->mappings[i].ptr, regions->mappings[i].size);
    for (size_t i = 0; i < regions->count; i++) {
        vv_free(regions->list[i].name);
        vv_array_drop(regions->list[i].array);
    }
    vv_free(regions->mappings);
    vv_free(regions->list);
    vv_free(regions->buckets);
    vv_regions_init(regions);
}

static size_t bucket_of(const struct vv_regions *regions, const char *name) {
    return vv_sum64(name, strlen(name)) & (regions->bucket_count - 1);
}

static void bucket_insert(struct vv_regions *regions, size_t slot) {
    size_t at = bucket_of(regions, regions->list[slot].name);
    while (regions->buckets[at] != 0)
        at = (at + 1) & (regions->bucket_count - 1);
    regions->buckets[at] = (uint32_t)slot + 1;
}

static int rebuild_buckets(struct vv_regions *regions, size_t bucket_count) {
    uint32_t *buckets = vv_calloc(bucket_count, sizeof *buckets);
    if (!buckets)
        return -ENOMEM;
    vv_free(regions->buckets);
    regions->buckets = buckets;
    regions->bucket_count = bucket_count;
    for (size_t i = 0; i < regions->count; i++)
        if (regions->list[i].name)
            bucket_insert(regions, i);
    return 0;
}

struct vv_region *vv_regions_find(const struct vv_regions *regions, const char *name) {
    if (regions->bucket_count == 0)
        return NULL;
    size_t at = bucket_of(regions, name);
    while (regions->buckets[at] != 0) {
        struct vv_region *region = &regions->list[regions->buckets[at] - 1];
        /* Unprotected regions keep their bucket until the next rebuild, so that probing goes on past them. */
        if (region->name && strcmp(region->name, name) == 0)
            return region;
        at = (at + 1) & (regions->bucket_count - 1);
    }
    return NULL;
}

static int reserve_slot(struct vv_regions *regions) {
    if (VV_GROW(regions->list, regions->count, regions->capacity) != 0)
        return -ENOMEM;
    if ((regions->count + 1) * 2 > regions->bucket_count)
        return rebuild_buckets(regions, regions->bucket_count ? regions->bucket_count * 2 : 32);
    return 0;
}

struct vv_region *vv_regions_add(struct vv_regions *regions, const char *name) {
    struct vv_region *region = vv_regions_find(regions, name);
    if (region) {
        region->is_ended = 0;
        return region;
    }
    char *copy = vv_strdup(name);
    if (!copy || reserve_slot(regions) != 0) {
        vv_free(copy);
        return NULL;
    }
    region = &regions->list[regions->count++];
    memset(region, 0, sizeof *region);
    region->name = copy;
    region->number = regions->next_number++;
    bucket_insert(regions, regions->count - 1);
    regions->live++;
    return region;
}

int vv_regions_ended(const struct vv_regions *regions, struct varve_error *error) {
    for (size_t i = 0; i < regions->count; i++)
        if (regions->list[i].name && regions->list[i].is_ended)
            return vv_error(error, -EINVAL,
                            "region %s: a varve_restart_alloc that failed has ended its protection: protect it again, "
                            "or call varve_unprotect",
                            regions->list[i].name);
    return 0;
}

void vv_regions_renumber(struct vv_regions *regions) {
    for (size_t i = 0; i < regions->count; i++)
        regions->list[i].number = i;
    regions->next_number = regions->count;
}

void vv_regions_remove(struct vv_regions *regions, struct vv_region *region) {
    vv_free(region->name);
    vv_array_drop(region->array);
    region->name = NULL;
    region->array = NULL;
    regions->live--;
}

void vv_regions_pack(struct vv_regions *regions) {
    if (regions->live == regions->count)
        return;
    size_t kept = 0;
    for (size_t i = 0; i < regions->count; i++)
        if (regions->list[i].name)
            regions->list[kept++] = regions->list[i];
    regions->count = kept;
    memset(regions->buckets, 0, regions->bucket_count * sizeof *regions->buckets);
    for (size_t i = 0; i < kept; i++)
        bucket_insert(regions, i);
}

void *vv_regions_map(struct vv_regions *regions, size_t size) {
    size_t mapped = ((size ? size : 1) + 4095) & ~(size_t)4095;
    if (mapped < size)
        return NULL;
    struct vv_mapping *mappings =
        vv_realloc(regions->mappings, (regions->mapping_count + 1) * sizeof *regions->mappings);
    if (!mappings)
        return NULL;
    regions->mappings = mappings;
    void *ptr = vv_pages_map_for_program(mapped);
    if (ptr)
        mappings[regions->mapping_count++] = (struct vv_mapping){ptr, mapped};
    return ptr;
}

/* One that moves is asked where it is when that matters. */
static void leave_memory(struct vv_regions *regions, struct vv_region *region) {
    if (!region->ask) {
        vv_regions_remove(regions, region);
        return;
    }
    region->ptr = NULL;
    region->size = 0;
}

void vv_regions_unmap(struct vv_regions *regions, void *ptr) {
    size_t at = 0;
    while (at < regions->mapping_count && regions->mappings[at].ptr != ptr)
        at++;
    if (at == regions->mapping_count)
        return;
    for (size_t i = 0; i < regions->count; i++)
        if (regions->list[i].name && !regions->list[i].is_callback && regions->list[i].ptr == ptr)
            leave_memory(regions, &regions->list[i]);
    vv_pages_unmap(ptr, regions->mappings[at].size);
    regions->mappings[at] = regions->mappings[--regions->mapping_count];
}

uint64_t vv_regions_large_bytes(const struct vv_regions *regions) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < regions->count; i++)
        if (regions->list[i].name && vv_region_is_large(&regions->list[i]))
            bytes += regions->list[i].size;
    return bytes;
}
