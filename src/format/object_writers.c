/* The list of writers of an attempt (docs/format.md 5): which writer serves which owners, and the digests of their
 * footers. */
#include "format/format_private.h"

#include "base/alloc.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define PARTS_MAX 1048576u

void vv_writers_encode(struct vv_buf *buf, const struct vv_key *key, const uint8_t store_id[16],
                       const struct vv_writers *writers, struct vv_hash128 *digest_out) {
    uint64_t owners = 0;
    assert(key->kind == VV_KIND_WRITERS && key->generation != 0 && key->version < VV_VERSION_END);
    assert(writers->count >= 1 && writers->count <= VV_COUNT_MAX && writers->ranks <= VV_COUNT_MAX);
    size_t start = vv_object_begin(buf, VV_KIND_WRITERS, key, store_id);
    vv_buf_u32(buf, writers->count);
    vv_buf_u32(buf, writers->ranks);
    for (uint32_t i = 0; i < writers->count; i++) {
        const struct vv_writer *writer = &writers->list[i];
        assert(writer->first_owner == owners);
        owners += writer->owners;
        vv_buf_u32(buf, writer->first_owner);
        vv_buf_u32(buf, writer->owners);
        vv_buf_u32(buf, writer->parts);
        vv_put_partners(buf, writer->partners, writer->partner_count);
        vv_buf_u32(buf, 0);
        vv_buf_u64(buf, writer->pack_length);
        vv_buf_u64(buf, writer->parts_length);
        vv_put_hash(buf, writer->footer_digest);
    }
    assert(owners == writers->ranks);
    (void)owners;
    struct vv_hash128 digest = vv_object_seal(buf, start);
    if (digest_out)
        *digest_out = digest;
}

static int check_lengths(const struct vv_parse *parse, const struct vv_writer *writer, uint32_t i) {
    if (writer->parts > PARTS_MAX)
        return vv_parse_fail(parse, VARVE_CORRUPT, "writer %u has %u earlier parts, may have at most %u", i,
                             writer->parts, PARTS_MAX);
    if (writer->pack_length < VV_HEAD_SIZE || writer->pack_length >= VV_LENGTH_END)
        return vv_parse_fail(parse, VARVE_CORRUPT, "pack of writer %u has %" PRIu64 " bytes", i, writer->pack_length);
    if (writer->parts_length < (uint64_t)writer->parts * VV_HEAD_SIZE || writer->parts_length >= VV_LENGTH_END ||
        (writer->parts == 0 && writer->parts_length != 0))
        return vv_parse_fail(parse, VARVE_CORRUPT, "%u earlier parts of writer %u have %" PRIu64 " bytes",
                             writer->parts, i, writer->parts_length);
    return 0;
}

static int parse_writer(struct vv_parse *parse, const struct vv_writers *writers, uint32_t i, uint64_t first_owner) {
    struct vv_writer *writer = &writers->list[i];
    int rc;
    writer->first_owner = vv_cursor_u32(&parse->at);
    writer->owners = vv_cursor_u32(&parse->at);
    writer->parts = vv_cursor_u32(&parse->at);
    if ((rc = vv_parse_partners(parse, writers->count, &writer->partner_count, writer->partners)) < 0)
        return rc;
    for (uint32_t j = 0; j < writer->partner_count; j++)
        if (writer->partners[j] == i)
            return vv_parse_fail(parse, VARVE_CORRUPT, "writer %u is its own partner", i);
    uint32_t reserved = vv_cursor_u32(&parse->at);
    writer->pack_length = vv_cursor_u64(&parse->at);
    writer->parts_length = vv_cursor_u64(&parse->at);
    writer->footer_digest = vv_hash128_get(vv_cursor_take(&parse->at, 16));
    if (writer->first_owner != first_owner)
        return vv_parse_fail(parse, VARVE_CORRUPT, "first owner of writer %u is %u, the owners before end at %" PRIu64,
                             i, writer->first_owner, first_owner);
    if (writer->owners > writers->ranks - first_owner)
        return vv_parse_fail(parse, VARVE_CORRUPT, "writer %u has %u owners from %u, there are %u ranks", i,
                             writer->owners, writer->first_owner, writers->ranks);
    if ((rc = vv_parse_reserved(parse, "reserved field of a writer", reserved)) < 0)
        return rc;
    return check_lengths(parse, writer, i);
}

static int parse_body(struct vv_parse *parse, struct vv_writers *out) {
    uint64_t owners = 0;
    int rc = vv_parse_need(parse, 8, "fixed fields");
    if (rc < 0)
        return rc;
    uint32_t count = vv_cursor_u32(&parse->at);
    out->ranks = vv_cursor_u32(&parse->at);
    if (count < 1 || count > VV_COUNT_MAX || out->ranks < 1 || out->ranks > VV_COUNT_MAX)
        return vv_parse_fail(parse, VARVE_CORRUPT, "%u writers and %u ranks, both must be 1 to 2^31 - 1", count,
                             out->ranks);
    if (vv_cursor_left(&parse->at) != (uint64_t)count * VV_WRITER_ENTRY_SIZE)
        return vv_parse_fail(parse, VARVE_CORRUPT, "number of writers is %u, the entries have %zu bytes", count,
                             vv_cursor_left(&parse->at));
    if (!(out->list = vv_calloc(count, sizeof *out->list)))
        return vv_parse_fail(parse, -ENOMEM, "no memory for %u writers", count);
    out->count = count;
    for (uint32_t i = 0; i < count; i++) {
        if ((rc = parse_writer(parse, out, i, owners)) < 0)
            return rc;
        owners += out->list[i].owners;
    }
    if (owners != out->ranks)
        return vv_parse_fail(parse, VARVE_CORRUPT, "the writers have %" PRIu64 " owners, there are %u ranks", owners,
                             out->ranks);
    return 0;
}

int vv_writers_parse(const void *data, size_t size, const struct vv_key *expect, const uint8_t *store_id,
                     struct vv_writers *out, struct varve_error *error) {
    struct vv_parse parse;
    struct vv_writers writers = {0};
    int rc = vv_object_open(&parse, VV_KIND_WRITERS, data, size, VV_WRITERS_MAX, expect, store_id, NULL, error);
    if (rc < 0)
        return rc;
    if ((rc = parse_body(&parse, &writers)) < 0) {
        vv_writers_clear(&writers);
        return rc;
    }
    writers.digest = vv_hash128_get((const uint8_t *)data + size - 16);
    writers.length = size;
    *out = writers;
    return 0;
}

void vv_writers_clear(struct vv_writers *writers) {
    if (!writers)
        return;
    vv_free(writers->list);
    memset(writers, 0, sizeof *writers);
}

int64_t vv_writers_home(const struct vv_writers *writers, uint32_t owner) {
    uint32_t low = 0, high = writers->count;
    while (low < high) { /* the first writer whose owners begin above owner */
        uint32_t middle = low + (high - low) / 2;
        if (writers->list[middle].first_owner <= owner)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || owner - writers->list[low - 1].first_owner >= writers->list[low - 1].owners)
        return -1;
    return (int64_t)low - 1;
}
