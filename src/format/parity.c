#include "format/parity.h"

#include <errno.h>
#include <inttypes.h>

#include "base/alloc.h"
#include "format/format_private.h"

#define TABLE_SIZE 32u
#define ENTRY_SIZE 24u
#define END_MAGIC 0x52415056u /* VPAR */

void vv_parity_clear(struct vv_parity *parity) {
    vv_free(parity->list);
    *parity = (struct vv_parity){0};
}

/* ---- rows ---- */

uint64_t vv_parity_row_length(const struct vv_parity *parity, uint32_t row) {
    uint64_t longest = 0;
    for (uint32_t d = 0; d < parity->data; d++) {
        uint64_t piece = vv_parity_piece(parity, vv_parity_data_member(parity, row, d));
        longest = piece > longest ? piece : longest;
    }
    return longest;
}

static uint64_t length_of(const struct vv_parity *parity, uint32_t number) {
    return vv_parity_row_length(parity, vv_parity_row(parity, parity->member, number));
}

uint64_t vv_parity_offset(const struct vv_parity *parity, uint32_t number) {
    uint64_t offset = VV_HEAD_SIZE;
    for (uint32_t i = 0; i < number; i++)
        offset += length_of(parity, i);
    return offset;
}

uint64_t vv_parity_sums_at(const struct vv_parity *parity, uint32_t number) {
    uint64_t slices = 0;
    for (uint32_t i = 0; i < number; i++)
        slices += vv_parity_slices(length_of(parity, i));
    return slices * (parity->data + 1) * VV_PARITY_SUM;
}

/* ---- checking ---- */

/* Each pack has all its parts before it, and a member's packs ascend. */
static int is_next(const struct vv_covered *before, const struct vv_covered *at) {
    if (!before || before->is_pack)
        return at->part == 0 && (!before || before->member < at->member ||
                                 (before->member == at->member && before->writer < at->writer));
    return at->member == before->member && at->writer == before->writer && at->part == before->part + 1;
}

static int check_list(struct vv_parity *parity, const char *what, struct varve_error *error) {
    uint64_t all = 0;
    for (uint32_t i = 0; i < parity->count; i++) {
        const struct vv_covered *at = &parity->list[i];
        if (at->member >= vv_parity_members(parity) || at->is_pack > 1 || at->writer >= VV_COUNT_MAX)
            return vv_error(error, VARVE_CORRUPT, "%s: object %u is of member %u and writer %u", what, i, at->member,
                            at->writer);
        if (!is_next(i ? at - 1 : NULL, at))
            return vv_error(error, VARVE_CORRUPT, "%s: object %u, of writer %u, is not in its place", what, i,
                            at->writer);
        if (at->length < VV_HEAD_SIZE || at->length >= VV_LENGTH_END || (all += at->length) >= VV_LENGTH_END)
            return vv_error(error, VARVE_CORRUPT, "%s: object %u has %" PRIu64 " bytes", what, i, at->length);
        parity->streams[at->member] += at->length;
    }
    return parity->count && !parity->list[parity->count - 1].is_pack
               ? vv_error(error, VARVE_CORRUPT, "%s: its last pack is missing", what)
               : 0;
}

int vv_parity_check(struct vv_parity *parity, const char *what, struct varve_error *error) {
    memset(parity->streams, 0, sizeof parity->streams);
    if (parity->data < 1 || parity->parity < 1 || parity->data > VV_PARITY_MEMBERS_MAX ||
        parity->parity > VV_PARITY_MOST || vv_parity_members(parity) > VV_PARITY_MEMBERS_MAX)
        return vv_error(error, VARVE_UNKNOWN_FORMAT, "%s is of a code %u+%u", what, parity->data, parity->parity);
    if (parity->member >= vv_parity_members(parity))
        return vv_error(error, VARVE_CORRUPT, "%s is of member %u of %u", what, parity->member,
                        vv_parity_members(parity));
    return check_list(parity, what, error);
}

/* ---- the table ---- */

void vv_parity_encode(struct vv_buf *buf, uint64_t offset, const struct vv_parity *parity) {
    size_t start = buf->size;
    vv_buf_u32(buf, parity->data);
    vv_buf_u32(buf, parity->parity);
    vv_buf_u32(buf, parity->member);
    vv_buf_u32(buf, parity->count);
    vv_put_hash(buf, parity->sums_digest);
    for (uint32_t i = 0; i < parity->count; i++) {
        const struct vv_covered *at = &parity->list[i];
        vv_buf_u32(buf, at->member);
        vv_buf_u32(buf, at->writer);
        vv_buf_u32(buf, at->part);
        vv_buf_u32(buf, at->is_pack);
        vv_buf_u64(buf, at->length);
    }
    size_t size = buf->size - start;
    if (buf->failed)
        return;
    struct vv_hash128 digest = vv_digest(buf->data + start, size);
    vv_buf_u64(buf, offset);
    vv_buf_u32(buf, (uint32_t)size);
    vv_buf_u32(buf, END_MAGIC);
    vv_put_hash(buf, digest);
}

int vv_parity_end_parse(const uint8_t *data, uint64_t object_length, uint64_t *offset_out, uint32_t *length_out,
                        struct vv_hash128 *digest_out, struct varve_error *error) {
    uint64_t offset = vv_get64(data);
    uint32_t length = vv_get32(data + 8);
    if (vv_get32(data + 12) != END_MAGIC)
        return vv_error(error, VARVE_CORRUPT, "does not end as parity does");
    if (length < TABLE_SIZE || length > VV_PARITY_TABLE_MAX || object_length >= VV_LENGTH_END ||
        object_length < VV_HEAD_SIZE + VV_PARITY_END_SIZE + length ||
        offset != object_length - VV_PARITY_END_SIZE - length)
        return vv_error(error, VARVE_CORRUPT,
                        "its table has %u bytes at %" PRIu64 ", which does not fit into %" PRIu64 " bytes", length,
                        offset, object_length);
    *offset_out = offset;
    *length_out = length;
    *digest_out = vv_hash128_get(data + 16);
    return 0;
}

static int parse_list(struct vv_cursor *at, struct vv_parity *out, struct varve_error *error) {
    out->list = vv_calloc((size_t)out->count + 1, sizeof *out->list);
    if (!out->list)
        return vv_error_sys(error, -ENOMEM, "a table of parity");
    for (uint32_t i = 0; i < out->count; i++) {
        struct vv_covered *entry = &out->list[i];
        entry->member = vv_cursor_u32(at);
        entry->writer = vv_cursor_u32(at);
        entry->part = vv_cursor_u32(at);
        entry->is_pack = vv_cursor_u32(at);
        entry->length = vv_cursor_u64(at);
    }
    return vv_parity_check(out, "the table of parity", error);
}

/* What comes before the table follows from it. */
static int check_place(const struct vv_parity *parity, uint64_t offset, struct varve_error *error) {
    uint64_t wanted = vv_parity_offset(parity, parity->parity) + vv_parity_sums_at(parity, parity->parity);
    return wanted == offset ? 0
                            : vv_error(error, VARVE_CORRUPT,
                                       "its table is at %" PRIu64 ", but says that %" PRIu64 " bytes come before it",
                                       offset, wanted);
}

int vv_parity_parse(const void *data, size_t size, uint64_t offset, struct vv_hash128 digest, struct vv_parity *out,
                    struct varve_error *error) {
    struct vv_cursor at;
    *out = (struct vv_parity){0};
    if (!vv_hash128_equal(vv_digest(data, size), digest))
        return vv_error(error, VARVE_CORRUPT, "the digest of its table does not match");
    vv_cursor_init(&at, data, size);
    out->data = vv_cursor_u32(&at);
    out->parity = vv_cursor_u32(&at);
    out->member = vv_cursor_u32(&at);
    out->count = vv_cursor_u32(&at);
    const uint8_t *sums = vv_cursor_take(&at, 16);
    if (at.failed || out->count > VV_PARITY_OBJECTS_MAX || vv_cursor_left(&at) != (size_t)out->count * ENTRY_SIZE)
        return vv_error(error, VARVE_CORRUPT, "a table of %zu bytes cannot name %u objects", size, out->count);
    out->sums_digest = vv_hash128_get(sums);
    int rc = parse_list(&at, out, error);
    if (rc == 0)
        rc = check_place(out, offset, error);
    if (rc < 0)
        vv_parity_clear(out);
    return rc;
}
