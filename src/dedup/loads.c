#include "dedup/loads.h"

#include "base/alloc.h"

static struct vv_load *find_load(const struct vv_loads *loads, uint32_t rank) {
    size_t mask = loads->capacity - 1, at = (rank * UINT64_C(0x9e3779b97f4a7c15)) >> 40 & mask;
    while (loads->list[at].rank && loads->list[at].rank != rank + 1)
        at = (at + 1) & mask;
    return &loads->list[at];
}

static int grow_loads(struct vv_loads *loads) {
    struct vv_loads larger = {.count = loads->count, .capacity = loads->capacity ? loads->capacity * 2 : 64};
    larger.list = vv_calloc(larger.capacity, sizeof *larger.list);
    if (!larger.list)
        return -1;
    for (size_t i = 0; i < loads->capacity; i++)
        if (loads->list[i].rank)
            *find_load(&larger, loads->list[i].rank - 1) = loads->list[i];
    vv_free(loads->list);
    *loads = larger;
    return 0;
}

uint64_t *vv_loads_of(struct vv_loads *loads, uint32_t rank, uint64_t begin) {
    if (loads->count * 2 >= loads->capacity && grow_loads(loads))
        return NULL;
    struct vv_load *load = find_load(loads, rank);
    if (!load->rank) {
        *load = (struct vv_load){rank + 1, begin};
        loads->count++;
    }
    return &load->bytes;
}

void vv_loads_clear(struct vv_loads *loads) {
    vv_free(loads->list);
    *loads = (struct vv_loads){0};
}
