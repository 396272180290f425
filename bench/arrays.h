/* A program's state as a list of typed arrays: what bench-codec protects. */
#ifndef ARRAYS_H
#define ARRAYS_H

#include <stddef.h>
#include <stdint.h>
#include <varve/varve.h>

#define ARRAY_DIMS 4
#define ARRAY_OF(...) ((const uint64_t[ARRAY_DIMS]){__VA_ARGS__}) /* dimensions, for arrays_add */

struct array {
    char name[56];
    void *data;
    int type; /* enum varve_type */
    unsigned dims;
    uint64_t dim[ARRAY_DIMS]; /* the slowest first */
    size_t bytes;
};

struct arrays {
    struct array *list;
    size_t count, capacity;
    size_t bytes; /* of all */
};

size_t array_element(int type); /* bytes */
/* A new array of zeros, large ones in pages of their own; the memory is the list's. dim ends with 0, or after
 * ARRAY_DIMS. */
void *arrays_add(struct arrays *arrays, int type, const uint64_t dim[ARRAY_DIMS], const char *name, ...)
    __attribute__((format(printf, 4, 5)));
/* The same names and shapes in other memory, all zeros. */
void arrays_alike(const struct arrays *arrays, struct arrays *out);
/* Every array moves round by some elements: other chunks, the same kind of values. */
void arrays_turn(struct arrays *arrays);
void arrays_clear(struct arrays *arrays); /* and the memory */

#endif
