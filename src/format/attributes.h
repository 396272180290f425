/* Attributes of a checkpoint (docs/format.md 8): pairs of texts, in a region of owner 0. No I/O. */
#ifndef VV_ATTRIBUTES_H
#define VV_ATTRIBUTES_H

#include <string.h>

#include "base/bytes.h"

#define VV_ATTRIBUTES ":varve:attributes" /* the region's name, which programs cannot have */
#define VV_ATTRIBUTES_MOST 65536          /* bytes of all */
#define VV_ATTRIBUTE_NAME_MAX 255

static inline int vv_is_attributes(const char *region) {
    return region[0] == ':' && strcmp(region, VV_ATTRIBUTES) == 0;
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
