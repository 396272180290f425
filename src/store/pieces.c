/* Pieces of a packed manifest. */
#include "store/pieces.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

#define PACK_LEVEL 3
#define PIECE_SHORT 2048u /* a zstd frame has some bytes at least, so it is never 256 times smaller */

static int make_coder(struct vv_pieces *pieces) {
    if (pieces->buffer)
        return 0;
    pieces->buffer = vv_malloc(VV_PIECE_HEAD_SIZE + VV_PIECE_MAX);
    return pieces->buffer ? vv_coder_create(&pieces->coder) : -ENOMEM;
}

/* Into pieces->room. */
static struct vv_manifest_piece make_piece(struct vv_pieces *pieces, const uint8_t *data, uint32_t size) {
    static const struct vv_coding coding = {.codec = VV_CODEC_ZSTD};
    static const struct vv_content content = {.type = VARVE_BYTES};
    uint8_t *out = pieces->buffer + VV_PIECE_HEAD_SIZE;
    int64_t got = vv_coder_encode(pieces->coder, &coding, &content, data, size, out, PACK_LEVEL);
    if (got > 0 && got < size)
        return (struct vv_manifest_piece){size, (uint32_t)got};
    memcpy(out, data, size); /* as it is, also when there was no memory to make it smaller */
    return (struct vv_manifest_piece){size, size};
}

static int pack(struct vv_pieces *pieces, const uint8_t *data, uint64_t size, uint32_t most, vv_pieces_fn fn,
                void *arg) {
    int rc = make_coder(pieces);
    while (size > 0 && rc == 0) {
        uint32_t part = size < most ? (uint32_t)size : most;
        struct vv_manifest_piece piece = make_piece(pieces, data, part);
        if ((uint64_t)piece.stored * VV_PIECE_RATIO < part) /* it packs too well: short pieces never do */
            rc = pack(pieces, data, part, PIECE_SHORT, fn, arg);
        else {
            vv_manifest_piece_encode(pieces->buffer, &piece);
            rc = fn(arg, pieces->buffer, VV_PIECE_HEAD_SIZE + piece.stored);
        }
        data += part;
        size -= part;
    }
    return rc;
}

int vv_pieces_pack(struct vv_pieces *pieces, const uint8_t *data, uint64_t size, vv_pieces_fn fn, void *arg) {
    return pack(pieces, data, size, VV_PIECE_MAX, fn, arg);
}

void vv_pieces_clear(struct vv_pieces *pieces) {
    vv_coder_destroy(pieces->coder);
    vv_free(pieces->buffer);
    *pieces = (struct vv_pieces){0};
}
