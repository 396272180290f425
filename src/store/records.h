/* The records of a name: listing and reading them (docs/format.md 10). */
#ifndef VV_RECORDS_H
#define VV_RECORDS_H

#include "store/store.h"

/* The records of a name, newest first, tombstones included (the key does not tell). fn returns 0 to go on, positive
 * to stop. */
typedef int (*vv_record_fn)(void *arg, uint32_t generation, uint64_t version);
int vv_records_list(struct vv_store *store, const char *name, vv_record_fn fn, void *arg, struct varve_error *error);

/* Read one record. VARVE_NO_CHECKPOINT when there is none, VARVE_FORGOTTEN for a tombstone, VARVE_CORRUPT, ... */
int vv_record_load(struct vv_store *store, const char *name, uint32_t generation, uint64_t version,
                   struct vv_record *out, struct varve_error *error);

/* The newest key of this generation below record/, record or tombstone. 1 and the version, 0 if there is none. */
int vv_records_newest(struct vv_store *store, const char *name, uint32_t generation, uint64_t *version_out,
                      struct varve_error *error);

#endif
