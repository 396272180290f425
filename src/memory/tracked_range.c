#include "memory/tracked_range.h"

uintptr_t vv_watch_inside(const struct vv_watch *watch, size_t *length_out) {
    const uintptr_t mask = VV_PAGE - 1;
    uintptr_t start = ((uintptr_t)watch->ptr + mask) & ~mask;
    uintptr_t end = ((uintptr_t)watch->ptr + watch->size) & ~mask;
    *length_out = end > start ? end - start : 0;
    return start;
}
