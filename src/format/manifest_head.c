/* The head of a manifest section (docs/format.md 8): counts, and the layers below an overlay. */
#include "format/format_private.h"
#include "format/manifest.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define PACKED (UINT32_C(1) << 16)

void vv_manifest_head_encode(struct vv_buf *buf, const struct vv_manifest_head *head) {
    assert(head->lower_count < VV_LAYERS_MAX && head->owner < VV_COUNT_MAX);
    vv_buf_u32(buf, head->owner);
    vv_buf_u32(buf, head->lower_count | (head->is_packed ? PACKED : 0));
    vv_buf_u64(buf, head->regions);
    vv_buf_u64(buf, head->protected_bytes);
    vv_buf_u64(buf, head->layout_bytes);
    vv_buf_u64(buf, head->entries);
    vv_buf_u64(buf, head->runs);
    for (uint32_t i = 0; i < VV_LAYERS_MAX - 1; i++) {
        if (i >= head->lower_count) {
            vv_buf_zero(buf, 24);
            continue;
        }
        assert(head->lower[i].dependency != 0);
        vv_buf_u32(buf, head->lower[i].dependency);
        vv_buf_u32(buf, head->lower[i].writer);
        vv_put_hash(buf, head->lower[i].digest);
    }
}

static int parse_layers(const struct vv_parse *parse, const uint8_t *data, struct vv_manifest_head *head) {
    for (uint32_t i = 0; i < VV_LAYERS_MAX - 1; i++, data += 24) {
        struct vv_layer_ref *layer = &head->lower[i];
        layer->dependency = vv_get32(data);
        layer->writer = vv_get32(data + 4);
        layer->digest = vv_hash128_get(data + 8);
        if (i >= head->lower_count && (layer->dependency || layer->writer || !vv_hash128_is_zero(layer->digest)))
            return vv_parse_fail(parse, VARVE_CORRUPT, "lower layer %u is unused but not 0", i);
        if (i < head->lower_count && (layer->dependency == 0 || layer->dependency > VV_DEPENDENCIES_MAX))
            return vv_parse_fail(parse, VARVE_CORRUPT, "lean index of lower layer %u is %u", i, layer->dependency);
        if (layer->writer >= VV_COUNT_MAX)
            return vv_parse_fail(parse, VARVE_CORRUPT, "writer of lower layer %u is %u", i, layer->writer);
    }
    return 0;
}

static int check_head(const struct vv_parse *parse, const struct vv_manifest_head *head) {
    if (head->owner >= VV_COUNT_MAX)
        return vv_parse_fail(parse, VARVE_CORRUPT, "owner is %u, must be below 2^31 - 1", head->owner);
    if (head->lower_count >= VV_LAYERS_MAX)
        return vv_parse_fail(parse, VARVE_CORRUPT, "number of lower layers is %u, must be at most %d",
                             head->lower_count, VV_LAYERS_MAX - 1);
    if (head->layout_bytes >= VV_LENGTH_END || head->protected_bytes > head->layout_bytes)
        return vv_parse_fail(parse, VARVE_CORRUPT,
                             "%" PRIu64 " bytes are protected in a layout of %" PRIu64 " bytes, must be below 2^62",
                             head->protected_bytes, head->layout_bytes);
    if (head->regions > UINT32_MAX)
        return vv_parse_fail(parse, VARVE_CORRUPT, "regions are %" PRIu64 ", must be below 2^32", head->regions);
    if (head->lower_count == 0 && head->entries != head->regions)
        return vv_parse_fail(parse, VARVE_CORRUPT, "is a base of %" PRIu64 " regions but has %" PRIu64 " entries",
                             head->regions, head->entries);
    return 0;
}

int vv_manifest_head_parse(const uint8_t *data, size_t size, struct vv_manifest_head *out, struct varve_error *error) {
    struct vv_parse parse = {.error = error, .what = "manifest head"};
    struct vv_manifest_head head;
    memset(&head, 0, sizeof head);
    int rc;
    if (size < VV_MANIFEST_HEAD_SIZE)
        return vv_parse_fail(&parse, VARVE_CORRUPT, "has %zu bytes, must have %d", size, VV_MANIFEST_HEAD_SIZE);
    head.owner = vv_get32(data);
    head.lower_count = vv_get32(data + 4) & ~PACKED;
    head.is_packed = (vv_get32(data + 4) & PACKED) != 0;
    head.regions = vv_get64(data + 8);
    head.protected_bytes = vv_get64(data + 16);
    head.layout_bytes = vv_get64(data + 24);
    head.entries = vv_get64(data + 32);
    head.runs = vv_get64(data + 40);
    if ((rc = check_head(&parse, &head)) < 0 || (rc = parse_layers(&parse, data + 48, &head)) < 0)
        return rc;
    *out = head;
    return 0;
}

void vv_manifest_piece_encode(uint8_t out[VV_PIECE_HEAD_SIZE], const struct vv_manifest_piece *piece) {
    vv_put32(out, piece->raw);
    vv_put32(out + 4, piece->stored);
}

int vv_manifest_piece_parse(const uint8_t data[VV_PIECE_HEAD_SIZE], uint64_t left, struct vv_manifest_piece *out,
                            struct varve_error *error) {
    struct vv_parse parse = {.error = error, .what = "manifest piece"};
    struct vv_manifest_piece piece = {vv_get32(data), vv_get32(data + 4)};
    if (piece.raw == 0 || piece.raw > VV_PIECE_MAX || piece.stored > piece.raw ||
        (uint64_t)piece.stored * VV_PIECE_RATIO < piece.raw || piece.stored > left - VV_PIECE_HEAD_SIZE)
        return vv_parse_fail(&parse, VARVE_CORRUPT, "has %u bytes, %u as stored, with %" PRIu64 " left in its section",
                             piece.raw, piece.stored, left - VV_PIECE_HEAD_SIZE);
    *out = piece;
    return 0;
}
