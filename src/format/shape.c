/* What a region holds: between a program's words and those of a manifest. */
#include <string.h>

#include "format/manifest.h"

void vv_shape_of_array(const struct varve_array *array, struct vv_region_shape *out) {
    memset(out, 0, sizeof *out);
    out->type = (uint8_t)array->type;
    out->dims = (uint8_t)array->dims;
    out->is_lossy = array->lossy != NULL;
    out->bound = array->bound;
    for (unsigned i = 0; i < array->dims; i++) {
        out->dim[i].global = array->dim[i].global;
        out->dim[i].first = array->dim[i].first;
        out->dim[i].local = array->dim[i].local;
        out->dim[i].stride = array->stride[i];
    }
}

void vv_array_of(const struct vv_region_shape *shape, struct varve_array *out) {
    memset(out, 0, sizeof *out);
    out->size = sizeof *out;
    out->type = shape->type;
    out->dims = shape->dims;
    out->lossy = shape->is_lossy ? "zfp" : NULL;
    out->bound = shape->is_lossy ? shape->bound : 0;
    for (unsigned i = 0; i < shape->dims; i++) {
        out->dim[i] = (struct varve_dim){shape->dim[i].local, shape->dim[i].first, shape->dim[i].global};
        out->stride[i] = shape->dim[i].stride;
    }
}
