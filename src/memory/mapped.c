#include "memory/mapped.h"

int vv_mapped_open(struct vv_mapped *mapped, int is_for_writing) {
    *mapped = (struct vv_mapped){.is_for_writing = is_for_writing};
    return vv_maps_open(&mapped->maps);
}

void vv_mapped_close(struct vv_mapped *mapped) {
    vv_maps_close(&mapped->maps);
}

/* Go on to the mapping that has this address. */
static int extend(struct vv_mapped *mapped, uint64_t address) {
    struct vv_map map;
    int rc = vv_maps_next(&mapped->maps, address, &map);
    if (rc != 1)
        return rc;
    /* What may be written may be read, on all processors that there are. */
    if (map.start > address || !(map.is_writable || (map.is_readable && !mapped->is_for_writing)))
        return 0;
    mapped->end = map.end;
    return 1;
}

int vv_mapped_has(struct vv_mapped *mapped, const void *ptr, uint64_t size) {
    uint64_t from = (uint64_t)(uintptr_t)ptr, to = from + size;
    if (to < from)
        return 0;
    int rc = 1;
    while (size > 0 && mapped->end < to && rc == 1)
        rc = extend(mapped, mapped->end > from ? mapped->end : from);
    return rc;
}
