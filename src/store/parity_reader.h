/* Reading parity objects (docs/format.md 6), from wherever their bytes come. */
#ifndef VV_PARITY_READER_H
#define VV_PARITY_READER_H

#include "format/parity.h"
#include "store/store.h"

/* A parity object. get: exactly so many of its bytes, or an error. */
struct vv_parity_source {
    struct vv_key key;
    const uint8_t *store_id;
    int (*size)(void *arg, uint64_t *out, struct varve_error *error);
    int (*get)(void *arg, uint64_t offset, void *data, size_t size, struct varve_error *error);
    void *arg;
};

/* Its head, end and table, checked. Clear with vv_parity_clear. */
int vv_parity_load(const struct vv_parity_source *source, struct vv_parity *out, struct varve_error *error);
/* Its sums, checked: vv_parity_sums_at tells how many bytes. Free with vv_free. */
int vv_parity_sums_load(const struct vv_parity_source *source, const struct vv_parity *parity, uint8_t **out,
                        struct varve_error *error);

/* The same of one that lies in this store. */
struct vv_parity_here {
    struct vv_store *store;
    char text[VV_KEY_CAPACITY];
};
struct vv_parity_source vv_parity_here(struct vv_parity_here *here, struct vv_store *store, const struct vv_key *key);

#endif
