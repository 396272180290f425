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
/* With interval=auto, or where the end of the job is known: what the checkpoints before this one have taken of the
 * program's time, and how long the last one took until it was durable; in seconds. */
#define VV_ATTRIBUTE_COST "varve.cost"
#define VV_ATTRIBUTE_DURABLE "varve.durable"
#define VV_SECONDS_TEXT 48

/* Allocations that no program has named, and the addresses that their process had in use (session/heap.c). Programs
 * cannot have such names, either. */
#define VV_HEAP ":heap:"
#define VV_HEAP_ADDRESSES VV_HEAP "addresses"
#define VV_HEAP_POINTERS VV_HEAP "pointers"          /* of static variables to allocations (session/heap_pointers.c) */
#define VV_HEAP_FIXED VV_HEAP "fixed:"               /* address-true mode (session/fixed.c): */
#define VV_HEAP_ARENA VV_HEAP_FIXED "heap"           /* the whole heap, */
#define VV_HEAP_OBJECT VV_HEAP_FIXED "object:"       /* and two for each file that the process has loaded: */
#define VV_HEAP_OBJECT_AT VV_HEAP_FIXED "object_at:" /* its build id, and where it is */

static inline int vv_is_heap(const char *region) {
    return strncmp(region, VV_HEAP, sizeof VV_HEAP - 1) == 0;
}

static inline int vv_is_about(const char *region) {
    return strncmp(region, VV_ABOUT, sizeof VV_ABOUT - 1) == 0;
}

/* A name that no program can give. */
static inline int vv_is_ours(const char *region) {
    return vv_is_about(region) || vv_is_heap(region);
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
/* Seconds, in whatever language the program runs. What is no time below a milliard of them becomes 0, and read -1. */
void vv_attribute_of_seconds(double seconds, char text[VV_SECONDS_TEXT]);
double vv_attribute_seconds(const char *text);

#endif
