/* Parity objects (docs/format.md 6): what one member of a group keeps so that packs of others can be rebuilt. No I/O.
 *
 * A group has `data` + `parity` members on as many nodes. What a member has stored, its packs and their parts one after
 * another, is its *stream*, cut into `data` pieces of the same length. A row is one piece of each of `data` members and
 * a parity of each of the others: there are as many rows as members, and each member is on the side of the data in
 * `data` of them and keeps parity of the rest. So any `parity` members can be lost. */
#ifndef VV_PARITY_H
#define VV_PARITY_H

#include "format/object.h"

#define VV_PARITY_MEMBERS_MAX 16u
#define VV_PARITY_MOST 3u            /* per row; with more, powers of two are no code any more */
#define VV_PARITY_SLICE (64u << 10)  /* bytes of a piece that have a sum of their own */
#define VV_PARITY_OBJECTS_MAX 65536u /* packs and parts of a group */
#define VV_PARITY_TABLE_MAX (32u + 24u * VV_PARITY_OBJECTS_MAX)
#define VV_PARITY_END_SIZE 32u

/* A pack, or an earlier part of one. */
struct vv_covered {
    uint32_t member;
    uint32_t writer;
    uint32_t part; /* of the pack: the number of its earlier parts */
    uint32_t is_pack;
    uint64_t length;
};

struct vv_parity {
    uint32_t data, parity;
    uint32_t member; /* whose object it is */
    uint32_t count;
    struct vv_covered *list;                 /* ascending by member, writer and part: the streams */
    uint64_t streams[VV_PARITY_MEMBERS_MAX]; /* their lengths */
    struct vv_hash128 sums_digest;
};
void vv_parity_clear(struct vv_parity *parity);

/* How many members, never 0; the row of piece `number` of a member, and of its parity; who has data or parity of a
 * row. */
static inline uint32_t vv_parity_members(const struct vv_parity *parity) {
    uint32_t members = parity->data + parity->parity;
    return members ? members : 1;
}
static inline uint32_t vv_parity_data_row(const struct vv_parity *parity, uint32_t member, uint32_t number) {
    uint32_t members = vv_parity_members(parity);
    return (member + 2 * members - parity->parity - number) % members;
}
static inline uint32_t vv_parity_row(const struct vv_parity *parity, uint32_t member, uint32_t number) {
    return (member + vv_parity_members(parity) - number) % vv_parity_members(parity);
}
static inline uint32_t vv_parity_data_member(const struct vv_parity *parity, uint32_t row, uint32_t number) {
    return (row + parity->parity + number) % vv_parity_members(parity);
}
static inline uint32_t vv_parity_member(const struct vv_parity *parity, uint32_t row, uint32_t number) {
    return (row + number) % vv_parity_members(parity);
}
/* Bytes of a member's piece, of which the last may be shorter; of a row's parity: as long as its longest piece. */
static inline uint64_t vv_parity_piece(const struct vv_parity *parity, uint32_t member) {
    return (parity->streams[member] + parity->data - 1) / parity->data;
}
uint64_t vv_parity_row_length(const struct vv_parity *parity, uint32_t row);
static inline uint64_t vv_parity_slices(uint64_t length) {
    return (length + VV_PARITY_SLICE - 1) / VV_PARITY_SLICE;
}
/* Where the parity of this number begins in the object of the member; with number = parity, where the sums do. */
uint64_t vv_parity_offset(const struct vv_parity *parity, uint32_t number);
/* Sums of a slice: of the data of the row, then of the parity. Where those of the first slice are among all, and how
 * many bytes all have. */
#define VV_PARITY_SUM 8u
uint64_t vv_parity_sums_at(const struct vv_parity *parity, uint32_t number);

/* Fill in the lengths of the streams from the list, and check all of it: VARVE_CORRUPT. */
int vv_parity_check(struct vv_parity *parity, const char *what, struct varve_error *error);
/* Table and end of an object; offset is where the table begins. */
void vv_parity_encode(struct vv_buf *buf, uint64_t offset, const struct vv_parity *parity);
int vv_parity_end_parse(const uint8_t *data, uint64_t object_length, uint64_t *offset_out, uint32_t *length_out,
                        struct vv_hash128 *digest_out, struct varve_error *error);
/* A table whose digest must be `digest`. Clear with vv_parity_clear. */
int vv_parity_parse(const void *data, size_t size, uint64_t offset, struct vv_hash128 digest, struct vv_parity *out,
                    struct varve_error *error);

#endif
