#include "base/alloc.h"
#include "encode/coding.h"
#include "read/recipe_private.h"

#include <errno.h>
#include <stdio.h>

/* Read once if it has no more than this: millions of runs, which take ten times as much wherever they are listed. */
#define KEEP_IN_MEMORY (32u << 20)

int vv_layer_error(const struct vv_layer *layer, int rc, struct varve_error *error) {
    if (layer->fill_error.code)
        return vv_error(error, layer->fill_error.code, "%s", layer->fill_error.text);
    return vv_pack_error(layer->key, rc, error);
}

/* Bytes of the section, as they are stored. */
static int read_section(struct vv_layer *layer, uint64_t offset, void *data, size_t size) {
    if (layer->data) {
        memcpy(data, layer->data + offset, size);
        return 0;
    }
    int rc =
        vv_pack_get(layer->view->store, layer->key, layer->section.offset + offset, data, size, &layer->fill_error);
    return rc < 0 ? vv_view_missing(layer->view, rc, &layer->fill_error) : 0;
}

/* ---- pieces ---- */

static int read_piece_head(struct vv_layer *layer, uint64_t at, struct vv_manifest_piece *out) {
    uint8_t head[VV_PIECE_HEAD_SIZE];
    uint64_t left = layer->section.length - at;
    if (left < sizeof head)
        return vv_error(&layer->fill_error, VARVE_CORRUPT, "%s: a manifest ends within the head of a piece",
                        layer->key);
    int rc = read_section(layer, at, head, sizeof head);
    return rc ? rc : vv_manifest_piece_parse(head, left, out, &layer->fill_error);
}

static int unpack(struct vv_layer *layer, const struct vv_manifest_piece *piece) {
    static const struct vv_coding zstd = {.codec = VV_CODEC_ZSTD};
    uint64_t at = layer->next_piece + VV_PIECE_HEAD_SIZE;
    if (piece->stored == piece->raw)
        return read_section(layer, at, layer->piece, piece->raw);
    uint8_t *stored = layer->piece + VV_PIECE_MAX;
    int rc = read_section(layer, at, stored, piece->stored);
    if (rc == 0)
        rc = vv_coder_decode(layer->coder, &zstd, stored, piece->stored, layer->piece, piece->raw);
    return rc ? vv_error_default(&layer->fill_error, rc, "%s: a piece of a manifest cannot be decoded", layer->key) : 0;
}

static int next_piece(struct vv_layer *layer) {
    struct vv_manifest_piece piece;
    int rc = read_piece_head(layer, layer->next_piece, &piece);
    if (rc == 0)
        rc = unpack(layer, &piece);
    if (rc)
        return rc;
    layer->next_piece += VV_PIECE_HEAD_SIZE + piece.stored;
    layer->piece_from = layer->piece_to;
    layer->piece_to += piece.raw;
    return 0;
}

static void first_piece(struct vv_layer *layer) {
    layer->next_piece = layer->piece_from = layer->piece_to = VV_MANIFEST_HEAD_SIZE;
}

/* How long it is unpacked, and room to unpack it. */
static int open_pieces(struct vv_layer *layer) {
    uint64_t at = VV_MANIFEST_HEAD_SIZE;
    layer->length = VV_MANIFEST_HEAD_SIZE;
    while (at < layer->section.length) {
        struct vv_manifest_piece piece;
        int rc = read_piece_head(layer, at, &piece);
        if (rc)
            return rc;
        at += VV_PIECE_HEAD_SIZE + piece.stored;
        layer->length += piece.raw;
    }
    layer->piece = vv_malloc((size_t)2 * VV_PIECE_MAX);
    int rc = layer->piece ? vv_coder_create(&layer->coder) : -ENOMEM;
    first_piece(layer);
    return rc ? vv_error(&layer->fill_error, rc, "no memory to read a manifest") : 0;
}

static int open_length(struct vv_layer *layer) {
    uint8_t bytes[VV_MANIFEST_HEAD_SIZE];
    struct vv_manifest_head head;
    layer->length = layer->section.length;
    if (layer->length < sizeof bytes)
        return 0; /* the reader will say it */
    int rc = read_section(layer, 0, bytes, sizeof bytes);
    if (rc == 0)
        rc = vv_manifest_head_parse(bytes, sizeof bytes, &head, &layer->fill_error);
    if (rc < 0)
        return vv_pack_error(layer->key, rc, &layer->fill_error);
    return rc || !head.is_packed ? rc : open_pieces(layer);
}

/* ---- the manifest ---- */

static int64_t fill_layer(void *arg, uint64_t offset, void *data, size_t size) {
    struct vv_layer *layer = arg;
    uint64_t left = offset < layer->length ? layer->length - offset : 0;
    size_t n = left < size ? (size_t)left : size;
    int rc = 0;
    if (layer->coder && offset < VV_MANIFEST_HEAD_SIZE)
        n = n < VV_MANIFEST_HEAD_SIZE - offset ? n : (size_t)(VV_MANIFEST_HEAD_SIZE - offset);
    if (!layer->coder || offset < VV_MANIFEST_HEAD_SIZE) {
        rc = n ? read_section(layer, offset, data, n) : 0;
        return rc < 0 ? rc : (int64_t)n;
    }
    if (offset < layer->piece_from)
        first_piece(layer);
    while (offset >= layer->piece_to && n > 0 && rc == 0)
        rc = next_piece(layer);
    if (rc < 0)
        return rc;
    n = n < layer->piece_to - offset ? n : (size_t)(layer->piece_to - offset);
    if (n > 0)
        memcpy(data, layer->piece + (offset - layer->piece_from), n);
    return (int64_t)n;
}

int vv_layer_rewind(struct vv_layer *layer, uint32_t owner, struct varve_error *error) {
    vv_manifest_close(layer->reader);
    layer->reader = NULL;
    layer->is_at_end = layer->has_entry = layer->is_in = layer->has_run = 0;
    int rc = vv_manifest_open(fill_layer, layer, layer->length, owner, layer->dependency_count, &layer->reader, error);
    return rc < 0 ? vv_layer_error(layer, rc, error) : 0;
}

static int map_dependencies(struct vv_layer *layer, const struct vv_footer *footer, struct varve_error *error) {
    layer->dependency_count = footer->dependency_count;
    layer->sources = vv_calloc((size_t)footer->dependency_count + 1, sizeof layer->sources[0]);
    layer->dependencies = vv_calloc((size_t)footer->dependency_count + 1, sizeof layer->dependencies[0]);
    if (!layer->sources || !layer->dependencies)
        return vv_error_sys(error, -ENOMEM, "%u lean entries", footer->dependency_count);
    layer->sources[0] = layer->source;
    for (uint32_t i = 0; i < footer->dependency_count; i++) {
        layer->dependencies[i + 1] = footer->dependencies[i];
        layer->sources[i + 1] = vv_view_find_source(layer->view, &footer->dependencies[i]);
    }
    return 0;
}

const struct vv_dependency *vv_layer_dependency(const struct vv_layer *layer, uint32_t dependency) {
    return &layer->dependencies[dependency];
}

/* Digest first: nothing is parsed that was not written. */
static int check_section(void *arg, const char *key, const struct vv_section *section, struct varve_error *error) {
    struct vv_layer *layer = arg;
    struct vv_store *store = layer->view->store;
    snprintf(layer->key, sizeof layer->key, "%s", key);
    layer->section = *section;
    return section->length <= KEEP_IN_MEMORY ? vv_section_load(store, key, section, &layer->data, error)
                                             : vv_section_check(store, key, section, error);
}

int vv_layer_open(struct vv_layer *layer, struct vv_view *view, uint32_t source, uint32_t writer, uint32_t owner,
                  struct varve_error *error) {
    struct vv_cached *footer;
    *layer = (struct vv_layer){.view = view, .source = source, .writer = writer};
    int rc = vv_view_footer(view, source, writer, &footer, error);
    if (rc < 0)
        return rc;
    rc = map_dependencies(layer, footer->object, error);
    vv_view_release(view, footer);
    if (rc == 0)
        rc = vv_view_section(view, source, writer, VV_SECTION_MANIFEST, owner, check_section, layer, error);
    if (rc == 0 && (rc = open_length(layer)) < 0)
        return vv_layer_error(layer, rc, error);
    return rc < 0 ? rc : vv_layer_rewind(layer, owner, error);
}

void vv_layer_clear(struct vv_layer *layer) {
    vv_manifest_close(layer->reader);
    vv_coder_destroy(layer->coder);
    vv_free(layer->piece);
    vv_free(layer->data);
    vv_free(layer->dependencies);
    vv_free(layer->sources);
    layer->reader = NULL;
    layer->coder = NULL;
    layer->piece = NULL;
    layer->data = NULL;
    layer->dependencies = NULL;
    layer->sources = NULL;
}
