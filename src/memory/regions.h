/* The regions a program protects: named memory, or data behind callbacks. */
#ifndef VV_REGIONS_H
#define VV_REGIONS_H

#include <stddef.h>
#include <stdint.h>
#include <varve/varve.h>

struct vv_region {
    uint64_t number;  /* unique in the session, ascending in the order of protecting; what the manifest calls it */
    char *name;       /* NULL: unprotected, the slot is empty */
    void *ptr;        /* memory, or NULL */
    uint64_t size;    /* of callback regions: as asked at the last checkpoint */
    int is_callback;
    int is_owned;     /* from vv_regions_alloc */
    uint64_t mapped;  /* bytes of the mapping when owned */
    struct varve_callbacks callbacks;
    void *arg;
};

struct vv_regions {
    struct vv_region *list; /* ascending numbers */
    size_t count;           /* slots, empty ones included */
    size_t room;
    uint32_t *buckets; /* by name: slot + 1, or 0 */
    size_t bucket_count;
    size_t live;
    uint64_t next_number;
};

void vv_regions_init(struct vv_regions *regions);
void vv_regions_clear(struct vv_regions *regions); /* frees owned memory */
/* The region of this name, or NULL. */
struct vv_region *vv_regions_find(const struct vv_regions *regions, const char *name);
/* The region of this name, made if there is none. NULL: no memory. The pointer lives until the next call that adds one. */
struct vv_region *vv_regions_add(struct vv_regions *regions, const char *name);
void vv_regions_remove(struct vv_regions *regions, struct vv_region *region);
/* Zeroed pages owned by the region; 0 or -ENOMEM. */
int vv_region_map(struct vv_region *region, size_t size);
struct vv_region *vv_regions_owner_of(const struct vv_regions *regions, const void *ptr);
/* Drop empty slots; numbers stay ascending. */
void vv_regions_pack(struct vv_regions *regions);

#endif
