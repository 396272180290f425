/* What a program has attached to a checkpoint, read back. */
#ifndef VV_ATTRIBUTES_READER_H
#define VV_ATTRIBUTES_READER_H

#include "read/view.h"

/* Nonzero stops; below 0 it is the error. */
typedef int (*vv_attribute_fn)(void *arg, const char *name, const char *value);

/* All of them; 0 also if there are none. pool may be NULL. */
int vv_attributes_read(struct vv_view *view, uint64_t seed, struct vv_pool *pool, vv_attribute_fn fn, void *arg,
                       struct varve_error *error);

#endif
