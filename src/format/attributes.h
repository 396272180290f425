/* Attributes of a checkpoint (docs/format.md 8): pairs of texts, in a region of owner 0. No I/O. */
#ifndef VV_ATTRIBUTES_H
#define VV_ATTRIBUTES_H

#include <string.h>

#include "base/bytes.h"

/* Regions of rank 0 that say something about the whole checkpoint. Programs cannot have such names. */
#define VV_ABOUT ":varve:"
#define VV_ATTRIBUTES VV_ABOUT "attributes"
#define VV_INDEX VV_ABOUT "arrays" /* arrays/array_index.h */
#define VV_ATTRIBUTES_MOST 65536   /* bytes of all */
#define VV_ATTRIBUTE_NAME_MAX 255
/* What a checkpoint takes of the program's time, in seconds; with interval=auto. */
#define VV_ATTRIBUTE_COST "varve.cost"

/* Allocations that no program has named, and the addresses that their process had in use (session/heap.c). Programs
 * cannot have such names, either. */
#define VV_HEAP ":heap:"
#define VV_HEAP_ADDRESSES VV_HEAP "addresses"
#define VV_HEAP_POINTERS VV_HEAP "pointers" /* of static variables to allocations (session/heap_pointers.c) */

static inline int vv_is_heap(const char *region) {
    return strncmp(region, VV_HEAP, sizeof VV_HEAP - 1) == 0;
}

static inline int vv_is_about(const char *region) {
    return strncmp(region, VV_ABOUT, sizeof VV_ABOUT - 1) == 0;
}

struct vv_attribute {
    const char *name, *value; /* inside what is read */
};
struct vv_attribute_reader {
    const char *at;
    size_t left;
};
void vv_attribute_put(struct vv_buf *buf, const char *name, const char *value);
/* 1 and the next one, 0 at the end, -EBADMSG if there is half of one left. */
int vv_attribute_next(struct vv_attribute_reader *reader, struct vv_attribute *out);

#endif
