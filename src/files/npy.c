#include "files/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "files/error.h"

#define PREFIX 10 /* magic, version, length of the rest */
#define ALIGN 64

static const struct {
    const char *name; /* as NumPy writes it; NULL: it has no such type */
    uint64_t size;
} types[] = {
    [VARVE_BYTES] = {"|u1", 1}, [VARVE_I8] = {"|i1", 1},  [VARVE_U8] = {"|u1", 1},     [VARVE_I16] = {"<i2", 2},
    [VARVE_U16] = {"<u2", 2},   [VARVE_I32] = {"<i4", 4}, [VARVE_U32] = {"<u4", 4},    [VARVE_I64] = {"<i8", 8},
    [VARVE_U64] = {"<u8", 8},   [VARVE_F32] = {"<f4", 4}, [VARVE_F64] = {"<f8", 8},    [VARVE_F16] = {"<f2", 2},
    [VARVE_BF16] = {NULL, 2},   [VARVE_C64] = {"<c8", 8}, [VARVE_C128] = {"<c16", 16},
};
#define TYPE_COUNT ((int)(sizeof types / sizeof types[0]))

static int refuse_region(struct varve_error *error, const char *region, const char *why) {
    return files_error(error, -EINVAL, "region \"%s\" %s; --format raw writes its bytes as they are", region, why);
}

static int has_length(const struct varve_array *array, uint64_t bytes) {
    uint64_t product = types[array->type].size;
    for (unsigned i = 0; i < array->dims; i++)
        if (__builtin_mul_overflow(product, array->dim[i].local, &product))
            return 0;
    return product == bytes;
}

/* "(3, 4)", "(12,)". */
static size_t put_shape(char *out, size_t capacity, const struct varve_array *array) {
    size_t used = (size_t)snprintf(out, capacity, "(");
    for (unsigned i = 0; i < array->dims; i++)
        used += (size_t)snprintf(out + used, capacity - used, "%s%" PRIu64, i ? ", " : "", array->dim[i].local);
    return used + (size_t)snprintf(out + used, capacity - used, "%s)", array->dims == 1 ? "," : "");
}

static void fill_head(const char *type, const struct varve_array *array, struct npy_head *out) {
    char *text = out->data + PREFIX;
    size_t capacity = sizeof out->data - PREFIX;

    size_t used = (size_t)snprintf(text, capacity, "{'descr': '%s', 'fortran_order': False, 'shape': ", type);
    used += put_shape(text + used, capacity - used, array);
    used += (size_t)snprintf(text + used, capacity - used, ", }");
    /* Spaces up to a line end that makes the data begin at a multiple of 64. */
    size_t whole = (PREFIX + used + 1 + ALIGN - 1) / ALIGN * ALIGN;
    memset(text + used, ' ', whole - PREFIX - used);
    out->data[whole - 1] = '\n';
    memcpy(out->data, "\x93NUMPY\x01\x00", 8);
    out->data[8] = (char)((whole - PREFIX) & 0xff);
    out->data[9] = (char)((whole - PREFIX) >> 8);
    out->size = whole;
}

int npy_make(const struct varve_stored_region *region, struct npy_head *out, struct varve_error *error) {
    struct varve_array bytes = {.type = VARVE_BYTES, .dims = 1, .dim = {{.local = region->bytes}}};
    const struct varve_array *array = region->array->type == VARVE_BYTES ? &bytes : region->array;

    if (array->type < 0 || array->type >= TYPE_COUNT || !types[array->type].name) {
        char why[80];
        snprintf(why, sizeof why, "has the type %s, which NumPy does not have", region->type);
        return refuse_region(error, region->name, why);
    }
    if (!has_length(array, region->bytes))
        return refuse_region(error, region->name, "has dimensions that do not give its length");
    fill_head(types[array->type].name, array, out);
    return 0;
}
