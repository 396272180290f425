/* How many bytes each rank will store, as far as is known here. Holds only ranks that were met. */
#ifndef VV_LOADS_H
#define VV_LOADS_H

#include <stddef.h>
#include <stdint.h>

struct vv_load {
    uint32_t rank; /* + 1; 0: an empty entry */
    uint64_t bytes;
};

struct vv_loads {
    struct vv_load *list;
    size_t count, capacity; /* a power of two, or 0 */
};

/* The load of a rank, `begin` if it is met for the first time. Lives until the next call. NULL: no memory. */
uint64_t *vv_loads_of(struct vv_loads *loads, uint32_t rank, uint64_t begin);
void vv_loads_clear(struct vv_loads *loads);

#endif
