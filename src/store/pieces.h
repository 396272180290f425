/* Packing the entries of a manifest: cut into pieces, each compressed by itself (docs/format.md 8). */
#ifndef VV_PIECES_H
#define VV_PIECES_H

#include "encode/coding.h"
#include "format/manifest.h"

#define VV_PACK_FROM 256u /* runs; fewer are not worth it */

/* Begins as zeros. */
struct vv_pieces {
    struct vv_coder *coder;
    uint8_t *buffer; /* one piece */
};
/* fn gets the pieces one after another, with their heads. 0, -ENOMEM, or what fn returned. */
typedef int (*vv_pieces_fn)(void *arg, const void *data, size_t size);
int vv_pieces_pack(struct vv_pieces *pieces, const uint8_t *data, uint64_t size, vv_pieces_fn fn, void *arg);
void vv_pieces_clear(struct vv_pieces *pieces);

#endif
