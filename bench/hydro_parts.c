/* The solver's state as ranks would have it: the patches in the order of a curve through the square, cut into pieces of
 * equally many. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "hydro_private.h"

struct on_curve {
    uint64_t key;
    int slot;
};

/* The bits of x and y in turns; a divided patch comes before its parts. */
static uint64_t curve_key(const struct hydro *hydro, int slot) {
    int level = hydro->level[slot];
    uint64_t x = (uint64_t)hydro->place[slot * 2] << (LEVELS - 1 - level);
    uint64_t y = (uint64_t)hydro->place[slot * 2 + 1] << (LEVELS - 1 - level), key = 0;
    for (int bit = 0; bit < 24; bit++)
        key |= (x >> bit & 1) << (2 * bit) | (y >> bit & 1) << (2 * bit + 1);
    return key << 2 | (uint64_t)level;
}

static int compare(const void *a, const void *b) {
    const struct on_curve *x = a, *y = b;
    return x->key < y->key ? -1 : x->key > y->key;
}

/* Which part each slot is in; -1: nobody is there. The caller frees it. */
static int *cut(const struct hydro *hydro, unsigned parts) {
    struct on_curve *list = calloc((size_t)hydro->slots, sizeof *list);
    int *part = calloc((size_t)hydro->slots, sizeof *part);
    size_t count = 0;
    bench_check(list && part, "memory");
    for (int slot = 0; slot < hydro->slots; slot++) {
        part[slot] = -1;
        if (hydro->level[slot] >= 0)
            list[count++] = (struct on_curve){curve_key(hydro, slot), slot};
    }
    qsort(list, count, sizeof *list, compare);
    for (size_t i = 0; i < count; i++)
        part[list[i].slot] = (int)(i * parts / count);
    free(list);
    return part;
}

/* The rows of an array of all slots that are in a part, in their order. */
static void copy_rows(const struct array *from, const int *part, int which, struct arrays *out) {
    uint64_t dim[ARRAY_DIMS];
    size_t row = from->bytes / from->dim[0];
    memcpy(dim, from->dim, sizeof dim);
    dim[0] = 0;
    for (uint64_t slot = 0; slot < from->dim[0]; slot++)
        dim[0] += part[slot] == which;
    uint8_t *to = arrays_add(out, from->type, dim, "%s", from->name);
    for (uint64_t slot = 0; slot < from->dim[0]; slot++)
        if (part[slot] == which) {
            memcpy(to, (const uint8_t *)from->data + slot * row, row);
            to += row;
        }
}

/* A tile is where its undivided or divided patch is. Tiles are numbered anew: in each part from 0. */
static void copy_tiles(const struct hydro *hydro, const int *part, int which, struct arrays *out) {
    unsigned tiles = hydro->tiles * hydro->tiles, number = 0, other;
    for (unsigned tile = 0; tile < tiles; tile++) {
        if (part[hydro->map[0][tile]] != which)
            continue;
        for (size_t i = 0; i < hydro->arrays.count; i++) {
            const struct array *from = &hydro->arrays.list[i];
            char name[16];
            if (sscanf(from->name, "tile/%u/%15s", &other, name) == 2 && other == tile)
                memcpy(arrays_add(out, from->type, from->dim, "tile/%u/%s", number, name), from->data, from->bytes);
        }
        number++;
    }
}

void hydro_part(const struct hydro *hydro, unsigned which, unsigned parts, struct arrays *out) {
    int *part = cut(hydro, parts);
    *out = (struct arrays){0};
    for (size_t i = 0; i < hydro->arrays.count; i++) {
        const struct array *from = &hydro->arrays.list[i];
        if (from->dim[0] == (uint64_t)hydro->slots)
            copy_rows(from, part, (int)which, out);
        else if (strncmp(from->name, "tile/", 5) != 0)
            memcpy(arrays_add(out, from->type, from->dim, "%s", from->name), from->data, from->bytes);
    }
    copy_tiles(hydro, part, (int)which, out);
    free(part);
}
