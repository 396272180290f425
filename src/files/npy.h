/* The head of a NumPy file (.npy, version 1.0): type and shape in front of the bytes of an array. */
#ifndef FILES_NPY_H
#define FILES_NPY_H

#include <stddef.h>
#include <varve/varve_inspect.h>

struct npy_head {
    size_t size;
    char data[512]; /* 16 dimensions of 20 digits fit */
};

/* Make it for a region; bytes become u1 of one dimension. -EINVAL with advice when NumPy has no such type, or the
 * dimensions do not give the region's length. */
int npy_make(const struct varve_stored_region *region, struct npy_head *out, struct varve_error *error);

#endif
