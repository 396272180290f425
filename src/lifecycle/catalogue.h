/* The catalogue: a cache of the records of a name, so that listing 100,000 checkpoints reads two objects, not
 * 100,000. */
#ifndef VV_CATALOGUE_H
#define VV_CATALOGUE_H

#include "lifecycle/commit.h"

/* All checkpoints of a name, newest first: the listing decides what exists, the catalogue saves reading records,
 * missing ones are read. Records that are damaged, or that cannot be read, appear with time 0; `damaged` (may be NULL)
 * is called for them, with the error's code. If may_write and more than 64 had to be read, the catalogue is rewritten
 * (failure to do so is ignored). Tombstones are left out. Free with vv_catalogue_clear. */
int vv_catalogue_load(struct vv_store *store, const char *name, int may_write,
                      void (*damaged)(void *arg, uint32_t generation, uint64_t version, const struct varve_error *why),
                      void *arg, struct vv_catalogue *out, struct varve_error *error);

#endif
