/* Lists of typed arrays. */
#include "arrays.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"

#define LARGE 65536u /* bytes from which an array gets pages of its own */

size_t array_element(int type) {
    static const size_t sizes[] = {
        [VARVE_BYTES] = 1, [VARVE_I8] = 1,  [VARVE_U8] = 1,   [VARVE_I16] = 2, [VARVE_U16] = 2,
        [VARVE_I32] = 4,   [VARVE_U32] = 4, [VARVE_I64] = 8,  [VARVE_U64] = 8, [VARVE_F32] = 4,
        [VARVE_F64] = 8,   [VARVE_F16] = 2, [VARVE_BF16] = 2, [VARVE_C64] = 8, [VARVE_C128] = 16};
    return sizes[type];
}

static void take_memory(struct arrays *arrays, struct array *array) {
    if (array->bytes >= LARGE)
        array->data = bench_pages(array->bytes);
    else
        array->data = calloc(1, array->bytes);
    bench_check(array->data != NULL, "memory");
    arrays->bytes += array->bytes;
}

static struct array *next(struct arrays *arrays) {
    if (arrays->count == arrays->capacity) {
        arrays->capacity = arrays->capacity ? 2 * arrays->capacity : 64;
        arrays->list = realloc(arrays->list, arrays->capacity * sizeof *arrays->list);
        bench_check(arrays->list != NULL, "memory");
    }
    return &arrays->list[arrays->count++];
}

void *arrays_add(struct arrays *arrays, int type, const uint64_t dim[ARRAY_DIMS], const char *name, ...) {
    struct array *array = next(arrays);
    va_list list;
    *array = (struct array){.type = type, .bytes = array_element(type)};
    va_start(list, name);
    vsnprintf(array->name, sizeof array->name, name, list);
    va_end(list);
    for (; array->dims < ARRAY_DIMS && dim[array->dims]; array->dims++) {
        array->dim[array->dims] = dim[array->dims];
        array->bytes *= dim[array->dims];
    }
    take_memory(arrays, array);
    return array->data;
}

void arrays_alike(const struct arrays *arrays, struct arrays *out) {
    *out = (struct arrays){0};
    for (size_t i = 0; i < arrays->count; i++) {
        struct array *array = next(out);
        *array = arrays->list[i];
        take_memory(out, array);
    }
}

void arrays_turn(struct arrays *arrays) {
    uint8_t kept[1009 * 16];
    for (size_t i = 0; i < arrays->count; i++) {
        const struct array *array = &arrays->list[i];
        size_t element = array_element(array->type), count = array->bytes / element;
        size_t moved = (count > 3 * 1009 ? 1009 : count / 3) * element; /* prime: no whole number of chunks or rows */
        memcpy(kept, array->data, moved);
        memmove(array->data, (uint8_t *)array->data + moved, array->bytes - moved);
        memcpy((uint8_t *)array->data + array->bytes - moved, kept, moved);
    }
}

void arrays_clear(struct arrays *arrays) {
    for (size_t i = 0; i < arrays->count; i++)
        if (arrays->list[i].bytes >= LARGE)
            munmap(arrays->list[i].data, arrays->list[i].bytes);
        else
            free(arrays->list[i].data);
    free(arrays->list);
    *arrays = (struct arrays){0};
}
