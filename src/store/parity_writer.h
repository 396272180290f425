/* Writing a parity object (docs/format.md 6): its parities, then what tells of them. Each function returns 0 or an
 * error with a text. */
#ifndef VV_PARITY_WRITER_H
#define VV_PARITY_WRITER_H

#include "format/parity.h"
#include "store/store.h"

struct vv_parity_writer;

int vv_parity_begin(struct vv_store *store, const struct vv_key *key, struct vv_parity_writer **out,
                    struct varve_error *error);
/* The next bytes of a parity, and the windows of data that they are of, in their order: whole slices, except at the end
 * of the row. */
int vv_parity_add(struct vv_parity_writer *writer, const struct vv_parity *parity, const uint8_t *const *data,
                  const uint8_t *bytes, size_t size, struct varve_error *error);
/* Durable when it returns 0. Fills in the digest of the sums. length_out: of the object. */
int vv_parity_end(struct vv_parity_writer *writer, struct vv_parity *parity, uint64_t *length_out,
                  struct varve_error *error);
/* Whatever became of it; what was not ended leaves nothing. Accepts NULL. */
void vv_parity_close(struct vv_parity_writer *writer);

#endif
