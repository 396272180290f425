/* The bytes of a block from what is stored of it. */
#ifndef VV_BLOCK_DECODE_H
#define VV_BLOCK_DECODE_H

#include "encode/coders.h"
#include "format/pack.h"

/* Not for codec none. key is for messages; the sum has been checked. raw has block->raw bytes. */
int vv_block_decode(struct vv_coders *coders, const char *key, const struct vv_block *block, const void *stored,
                    void *raw, struct varve_error *error);

#endif
