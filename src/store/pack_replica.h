/* Copy objects (docs/format.md 6): the tables, manifests and footer of a pack, repeated in another failure domain. */
#ifndef VV_PACK_REPLICA_H
#define VV_PACK_REPLICA_H

#include "store/store.h"

/* The bytes of the copy object of a pack that lies sealed in this store, appended to out. */
int vv_pack_replica_read(struct vv_store *store, const char *name, const struct vv_attempt *attempt, uint32_t writer,
                         struct vv_buf *out, struct varve_error *error);

/* Create the copy object from bytes that another process has sent: they are checked to the last section first
 * (VARVE_CORRUPT). Durable when it returns 0, also when the same object was there before; -EEXIST when another one
 * is. */
int vv_pack_replica_create(struct vv_store *store, const char *name, const struct vv_attempt *attempt, uint32_t writer,
                           const void *data, size_t size, struct varve_error *error);

#endif
