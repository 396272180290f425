/* Manifests (docs/format.md 8), written as a stream of region entries with their runs. The head is in
 * manifest_head.c. */
#include "format/format_private.h"
#include "format/manifest.h"

#include <assert.h>
#include <string.h>

/* The longest run: two numbers, then sixteen places with their copies. */
#define RUN_CAPACITY (2 * 10 + VV_PLACES_MAX * (5 + 10 + 10 + 5))
#define RUN_LENGTH_END (UINT64_C(1) << 61) /* 8 * length + kind must fit into 64 bits */

void vv_manifest_begin(struct vv_manifest_writer *writer, struct vv_buf *buf, uint32_t owner) {
    assert(owner < VV_COUNT_MAX);
    *writer = (struct vv_manifest_writer){.buf = buf, .owner = owner};
}

static int has_strides(const struct vv_region_shape *shape) {
    for (int i = 0; i < shape->dims; i++)
        if (shape->dim[i].stride.every > 0)
            return 1;
    return 0;
}

static void put_shape(struct vv_buf *buf, const struct vv_region_shape *shape) {
    assert(shape->type <= 14 && shape->dims <= VV_DIMS_MAX && shape->is_lossy <= 1 && shape->distribution <= 4);
    int is_strided = has_strides(shape);
    vv_buf_u8(buf, shape->type);
    vv_buf_u8(buf, (uint8_t)(shape->dims | (is_strided ? VV_SHAPE_STRIDED : 0)));
    for (int i = 0; i < shape->dims; i++) {
        vv_buf_varint(buf, shape->dim[i].global);
        vv_buf_varint(buf, shape->dim[i].first);
        vv_buf_varint(buf, shape->dim[i].local);
        if (is_strided) {
            vv_buf_varint(buf, shape->dim[i].stride.block);
            vv_buf_varint(buf, shape->dim[i].stride.every);
        }
    }
    vv_buf_u8(buf, (uint8_t)(shape->is_lossy | shape->distribution << VV_SHAPE_DISTRIBUTION));
    if (shape->is_lossy) {
        uint64_t bits;
        memcpy(&bits, &shape->bound, sizeof bits);
        vv_buf_u64(buf, bits);
    }
}

void vv_manifest_region(struct vv_manifest_writer *writer, const struct vv_region_entry *entry, uint64_t address) {
    assert(entry->number >= writer->next_number && entry->number <= UINT32_MAX);
    assert(writer->offset == writer->length);
    vv_buf_varint(writer->buf, entry->number - writer->next_number);
    vv_buf_u8(writer->buf, entry->flags);
    writer->next_number = entry->number + 1;
    writer->entries++;
    writer->region_address = address;
    writer->offset = 0;
    writer->length = 0;
    if (entry->flags & VV_REGION_REMOVED) {
        assert(entry->flags == VV_REGION_REMOVED);
        return;
    }
    assert(address % VV_GRANULE == 0 && entry->length < VV_LENGTH_END && address < VV_LENGTH_END - entry->length);
    vv_buf_varint(writer->buf, entry->length);
    writer->length = entry->length;
    if (entry->flags & VV_REGION_DESCRIBED) {
        assert(entry->name[0] != '\0' && entry->address == address);
        vv_put_text(writer->buf, entry->name, sizeof entry->name);
        vv_buf_varint(writer->buf, address / VV_GRANULE);
        put_shape(writer->buf, &entry->shape);
    }
}

static inline uint8_t *put_varint(uint8_t *at, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    return at;
}

static inline uint8_t *put_svarint(uint8_t *at, int64_t value) {
    return put_varint(at, value >= 0 ? (uint64_t)value * 2 : ~(uint64_t)value * 2 + 1);
}

static uint8_t *put_place(uint8_t *at, const struct vv_manifest_writer *writer, const struct vv_place *place) {
    uint64_t reference = writer->region_address + writer->offset;
    assert(place->address <= VV_ADDRESS_END && place->owner < VV_COUNT_MAX);
    at = put_varint(at, place->dependency);
    at = put_svarint(at, (int64_t)place->owner - (int64_t)writer->owner);
    return put_svarint(at, (int64_t)place->address - (int64_t)reference);
}

static uint8_t *put_any(uint8_t *at, const struct vv_manifest_writer *writer, const struct vv_run *run) {
    assert(run->place_count >= 2 && run->place_count <= VV_PLACES_MAX);
    at = put_varint(at, run->place_count);
    for (uint32_t i = 0; i < run->place_count; i++) {
        assert(run->places[i].copy <= VV_PARTNERS_MAX);
        at = put_place(at, writer, &run->places[i]);
        at = put_varint(at, run->places[i].copy);
    }
    return at;
}

void vv_manifest_run(struct vv_manifest_writer *writer, const struct vv_run *run) {
    uint8_t bytes[RUN_CAPACITY];
    assert(run->offset == writer->offset && run->length >= 1 && run->length < RUN_LENGTH_END);
    assert(run->length <= writer->length - writer->offset);
    uint8_t *at = put_varint(bytes, run->length * 8 + (uint64_t)run->kind);
    switch (run->kind) {
    case VV_RUN_FROM:
        assert(run->places[0].copy == 0);
        at = put_place(at, writer, &run->places[0]);
        break;
    case VV_RUN_FROM_ANY:
        at = put_any(at, writer, run);
        break;
    case VV_RUN_REPEATED:
        assert(run->piece >= 1 && run->piece <= run->length && run->places[0].copy == 0);
        at = put_varint(at, run->piece);
        at = put_place(at, writer, &run->places[0]);
        break;
    default:
        assert(run->kind == VV_RUN_HERE || run->kind == VV_RUN_ZERO || run->kind == VV_RUN_KEEP);
        break;
    }
    vv_buf_append(writer->buf, bytes, (size_t)(at - bytes));
    writer->offset += run->length;
    writer->runs++;
}

void vv_manifest_region_end(struct vv_manifest_writer *writer, struct vv_hash128 digest) {
    assert(writer->offset == writer->length);
    vv_buf_u8(writer->buf, 0);
    vv_put_hash(writer->buf, digest);
}
