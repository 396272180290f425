/* What a region holds, as the program says it (struct varve_array): types, and a compact form that regions and their
 * history share. */
#ifndef VV_ARRAY_H
#define VV_ARRAY_H

#include <varve/varve.h>

#include "base/error.h"

#define VV_TYPES 15

/* Bytes of an element; 1 for VARVE_BYTES, 0 for what is no type. */
uint32_t vv_type_size(int type);
/* "bytes", "f64", ...; "?" for what is no type. */
const char *vv_type_name(int type);

/* Is it one that can be stored? -EINVAL and what is wrong, if not. */
int vv_array_check(const struct varve_array *array, const char *region, struct varve_error *error);
/* Its bytes; vv_array_check has passed, so they fit 64 bits. */
uint64_t vv_array_bytes(const struct varve_array *array);
/* The same in little memory, shared by those who hold it. Elements that follow each other have no stride, however the
 * program has said it; global is never 0 unless the array is empty. */
struct vv_array_dim {
    uint64_t local, first, global;
    struct varve_stride stride;
};
struct vv_array {
    _Atomic unsigned holders;
    uint8_t type;
    uint8_t dims;
    double bound; /* 0: every bit comes back */
    struct vv_array_dim dim[];
};
struct vv_array *vv_array_make(const struct varve_array *array); /* NULL: no memory. Held once */
struct vv_array *vv_array_hold(struct vv_array *array);          /* accepts and gives NULL */
void vv_array_drop(struct vv_array *array);                      /* accepts NULL */
/* Do they say the same? NULL is bytes. */
int vv_array_equal(const struct vv_array *a, const struct vv_array *b);
/* Does it have so many bytes? */
int vv_array_is_of(const struct vv_array *array, uint64_t bytes);
/* Bytes of the whole array that it is a block of. */
uint64_t vv_array_bytes_in_all(const struct vv_array *array);
/* In a program's words; lives on its own. */
void vv_array_tell(const struct vv_array *array, struct varve_array *out);

#endif
