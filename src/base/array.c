/* Arrays as a program describes them. */
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"

#define BYTES_END (UINT64_C(1) << 62) /* as long as a region can be */

static const struct {
    const char *name;
    uint32_t size;
} types[VV_TYPES] = {
    [VARVE_BYTES] = {"bytes", 1}, [VARVE_I8] = {"i8", 1},   [VARVE_U8] = {"u8", 1},      [VARVE_I16] = {"i16", 2},
    [VARVE_U16] = {"u16", 2},     [VARVE_I32] = {"i32", 4}, [VARVE_U32] = {"u32", 4},    [VARVE_I64] = {"i64", 8},
    [VARVE_U64] = {"u64", 8},     [VARVE_F32] = {"f32", 4}, [VARVE_F64] = {"f64", 8},    [VARVE_F16] = {"f16", 2},
    [VARVE_BF16] = {"bf16", 2},   [VARVE_C64] = {"c64", 8}, [VARVE_C128] = {"c128", 16},
};

uint32_t vv_type_size(int type) {
    return type >= 0 && type < VV_TYPES ? types[type].size : 0;
}

const char *vv_type_name(int type) {
    return type >= 0 && type < VV_TYPES ? types[type].name : "?";
}

static uint64_t global_of(const struct varve_dim *dim) {
    return dim->global ? dim->global : dim->local;
}

/* Of no elements the first may be said to be anywhere: a grid of processes can be larger than a matrix has blocks. */
static uint64_t first_of(const struct varve_dim *dim) {
    uint64_t global = global_of(dim);
    return dim->first < global ? dim->first : global;
}

/* Programs that were built before there were strides have a shorter struct. */
#define SIZE_WITHOUT_STRIDES offsetof(struct varve_array, stride)

/* No stride where all elements follow each other. */
static struct varve_stride stride_of(const struct varve_array *array, unsigned dim) {
    const struct varve_stride none = {0, 0};
    if (array->size < sizeof *array)
        return none;
    const struct varve_stride *stride = &array->stride[dim];
    return stride->block == stride->every || array->dim[dim].local <= stride->block ? none : *stride;
}

/* Do its blocks end before the whole dimension does? */
static int check_stride(const struct varve_array *array, unsigned dim, const char *region, struct varve_error *error) {
    const struct varve_stride stride = stride_of(array, dim);
    uint64_t global = global_of(&array->dim[dim]), last = array->dim[dim].local - 1, begin, end;
    if (stride.block == 0 && stride.every == 0)
        return 0;
    if (stride.block == 0 || stride.every < stride.block)
        return vv_error(error, -EINVAL, "region %s: dimension %u has blocks of %llu elements every %llu", region, dim,
                        (unsigned long long)stride.block, (unsigned long long)stride.every);
    if (__builtin_mul_overflow(last / stride.block, stride.every, &begin) ||
        __builtin_add_overflow(begin, last % stride.block, &end) ||
        __builtin_add_overflow(end, array->dim[dim].first, &end) || end >= global)
        return vv_error(error, -EINVAL, "region %s: dimension %u: its blocks reach beyond the %llu elements in all",
                        region, dim, (unsigned long long)global);
    return 0;
}

static int check_dims(const struct varve_array *array, const char *region, struct varve_error *error) {
    uint64_t bytes = vv_type_size(array->type);
    if (array->dims < 1 || array->dims > VARVE_DIMS_MAX)
        return vv_error(error, -EINVAL, "region %s: an array has 1 to %d dimensions, not %u", region, VARVE_DIMS_MAX,
                        array->dims);
    for (unsigned i = 0; i < array->dims; i++) {
        const struct varve_dim *dim = &array->dim[i];
        if (dim->local > 0 && (dim->first > global_of(dim) || dim->local > global_of(dim) - dim->first))
            return vv_error(
                error, -EINVAL, "region %s: dimension %u has %llu elements from %llu on, but only %llu in all", region,
                i, (unsigned long long)dim->local, (unsigned long long)dim->first, (unsigned long long)global_of(dim));
        if (dim->local > 0 && bytes > BYTES_END / dim->local)
            return vv_error(error, -EINVAL, "region %s: its dimensions give more bytes than a region can have", region);
        bytes *= dim->local;
        int rc = check_stride(array, i, region, error);
        if (rc)
            return rc;
    }
    return 0;
}

int vv_array_check(const struct varve_array *array, const char *region, struct varve_error *error) {
    if (!array || array->size < SIZE_WITHOUT_STRIDES)
        return vv_error(error, -EINVAL, "region %s: set array->size to sizeof(struct varve_array)", region);
    if (vv_type_size(array->type) == 0)
        return vv_error(error, -EINVAL, "region %s: %d is no type", region, array->type);
    if (array->lossy && strcmp(array->lossy, "zfp") != 0)
        return vv_error(error, -EINVAL, "region %s: there is no lossy way \"%s\"; there is \"zfp\"", region,
                        array->lossy);
    if (array->lossy && array->type != VARVE_F32 && array->type != VARVE_F64)
        return vv_error(error, -EINVAL, "region %s: only f32 and f64 can be stored with a bound, not %s", region,
                        vv_type_name(array->type));
    if (array->lossy && !(isnormal(array->bound) && array->bound > 0))
        return vv_error(error, -EINVAL, "region %s: the bound must be a number above 0, not %g", region, array->bound);
    if (!array->lossy && array->bound != 0)
        return vv_error(error, -EINVAL,
                        "region %s: a bound of %g without lossy; say \"zfp\" there, or leave the bound at 0", region,
                        array->bound);
    return check_dims(array, region, error);
}

uint64_t vv_array_bytes(const struct varve_array *array) {
    uint64_t bytes = vv_type_size(array->type);
    for (unsigned i = 0; i < array->dims; i++)
        bytes *= array->dim[i].local;
    return bytes;
}

struct vv_array *vv_array_make(const struct varve_array *array) {
    struct vv_array *made = vv_calloc(1, sizeof *made + array->dims * sizeof made->dim[0]);
    if (!made)
        return NULL;
    made->holders = 1;
    made->type = (uint8_t)array->type;
    made->dims = (uint8_t)array->dims;
    made->bound = array->lossy ? array->bound : 0;
    for (unsigned i = 0; i < array->dims; i++)
        made->dim[i] = (struct vv_array_dim){array->dim[i].local, first_of(&array->dim[i]), global_of(&array->dim[i]),
                                             stride_of(array, i)};
    return made;
}

struct vv_array *vv_array_hold(struct vv_array *array) {
    if (array)
        array->holders++;
    return array;
}

void vv_array_drop(struct vv_array *array) {
    if (array && --array->holders == 0)
        vv_free(array);
}

int vv_array_equal(const struct vv_array *a, const struct vv_array *b) {
    if (!a || !b || a == b)
        return a == b;
    return a->type == b->type && a->dims == b->dims && a->bound == b->bound &&
           memcmp(a->dim, b->dim, a->dims * sizeof a->dim[0]) == 0;
}

int vv_array_is_of(const struct vv_array *array, uint64_t bytes) {
    uint64_t product = vv_type_size(array->type);
    for (unsigned i = 0; i < array->dims; i++)
        product *= array->dim[i].local;
    return product == bytes;
}

void vv_array_tell(const struct vv_array *array, struct varve_array *out) {
    memset(out, 0, sizeof *out);
    out->size = sizeof *out;
    if (!array)
        return;
    out->type = array->type;
    out->dims = array->dims;
    out->lossy = array->bound > 0 ? "zfp" : NULL;
    out->bound = array->bound;
    for (unsigned i = 0; i < array->dims; i++) {
        out->dim[i] = (struct varve_dim){array->dim[i].local, array->dim[i].first, array->dim[i].global};
        out->stride[i] = array->dim[i].stride;
    }
}
