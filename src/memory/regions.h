/* The regions a program protects: named memory, or data behind callbacks. */
#ifndef VV_REGIONS_H
#define VV_REGIONS_H

#include <stddef.h>
#include <stdint.h>
#include <varve/varve.h>

struct vv_array;
struct vv_watch;
struct vv_device;

struct vv_region {
    uint64_t number; /* unique in the session; what the manifest calls it. A restart may change it */
    char *name;      /* NULL: unprotected, the slot is empty */
    void *ptr;       /* memory, or NULL */
    uint64_t size;   /* of callback regions: as asked at the last checkpoint */
    unsigned flags;  /* VARVE_DEVICE_WRITES and the others of varve_protect_flags */
    int is_doubted;  /* its tracker was found to lie */
    int is_ended;    /* a restart that failed has left it without memory: the program has to say what it is now */
    struct vv_watch *watch;   /* the capture's, or NULL: will be made when a checkpoint begins */
    struct vv_array *array;   /* what it holds; NULL: bytes */
    uint8_t distribution;     /* enum varve_distribution */
    uint8_t is_heeded;        /* that is what was stored, until the restart ends that found it there */
    uint32_t fine;            /* bytes of its chunks, 1 for whole granules; 0: as the setting says */
    struct vv_device *device; /* the engine's: it lies in a device's memory; NULL: it does not */
    int is_callback;
    struct varve_callbacks callbacks;
    varve_memory_fn ask;          /* tells where it is at each checkpoint; NULL: it stays where it is */
    void *arg;                    /* of the callbacks, or of ask */
    int (*resize)(uint64_t size); /* before a restart: it can have as many bytes as are stored. 0 or -ENOMEM; or NULL */
};

/* Memory that vv_regions_map made; it lives until it is unmapped or everything is cleared, protected or not. */
struct vv_mapping {
    void *ptr;
    size_t size;
};

struct vv_regions {
    struct vv_region *list; /* in the order of protecting */
    size_t count;           /* slots, empty ones included */
    size_t capacity;
    uint32_t *buckets; /* by name: slot + 1, or 0 */
    size_t bucket_count;
    size_t live;
    uint64_t next_number;
    struct vv_mapping *mappings;
    size_t mapping_count;
};

/* May a program say this about a region's memory? 0 or -EINVAL, and why. */
int vv_region_flags_check(const char *name, unsigned flags, struct varve_error *error);

void vv_regions_init(struct vv_regions *regions);
void vv_regions_clear(struct vv_regions *regions); /* unmaps everything */
/* The region of this name, or NULL. */
struct vv_region *vv_regions_find(const struct vv_regions *regions, const char *name);
/* The region of this name, made if there is none. NULL: no memory. The pointer lives until the next call that adds one.
 */
struct vv_region *vv_regions_add(struct vv_regions *regions, const char *name);
/* -EINVAL, and the name of one that has ended. */
int vv_regions_ended(const struct vv_regions *regions, struct varve_error *error);
void vv_regions_remove(struct vv_regions *regions, struct vv_region *region);
/* Numbers ascend with the slots: for a history that knows no region yet. */
void vv_regions_renumber(struct vv_regions *regions);
/* Zeroed pages; NULL: no memory. */
void *vv_regions_map(struct vv_regions *regions, size_t size);
/* Unmap what vv_regions_map gave, and remove the regions that lie there. Other pointers are left alone. */
void vv_regions_unmap(struct vv_regions *regions, void *ptr);
/* Drop empty slots; the order stays. */
void vv_regions_pack(struct vv_regions *regions);

/* May it be larger than memory? Then nothing is kept for each of its granules. */
static inline int vv_region_is_large(const struct vv_region *region) {
    return region->is_callback && (region->callbacks.flags & VARVE_LARGE);
}
/* Of those that are there. */
uint64_t vv_regions_large_bytes(const struct vv_regions *regions);

/* reachable.c: -EFAULT, and the region's name, if the memory of a wanted one cannot be written. */
int vv_regions_reachable(const struct vv_regions *regions, int (*is_wanted)(const void *arg, size_t slot),
                         const void *arg, struct varve_error *error);

#endif
