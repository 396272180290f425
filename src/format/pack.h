/* The tables of a pack (docs/format.md 6): blocks, extents, footer, end. No I/O. */
#ifndef VV_PACK_H
#define VV_PACK_H

#include "format/object.h"

#define VV_END_SIZE 32
#define VV_BLOCK_ENTRY_SIZE 64
#define VV_BLOCK_RAW_MAX (16u << 20)
#define VV_PARTS_MAX 1048576u
#define VV_FOOTER_MAX (256u << 20)
#define VV_ADDRESS_END (UINT64_C(1) << 62)
#define VV_GRANULE 4096u

enum vv_block_flags {
    VV_BLOCK_IDS = 1,
    VV_BLOCK_SHARED = 2, /* several ranks need it: only a hint */
    VV_BLOCK_FLAGS = VV_BLOCK_IDS | VV_BLOCK_SHARED
};

/* The least and the greatest value in a block, in the bits of its type's widest kind: f64, i64 or u64. */
struct vv_range {
    uint8_t type;  /* element type; 0: there is no range */
    uint8_t flags; /* enum vv_range_flags */
    uint64_t low, high;
};
enum vv_range_flags { VV_RANGE_NAN = 1, VV_RANGE_EMPTY = 2 /* nothing but NaN: low and high are 0 */ };

struct vv_block {
    uint32_t part;
    uint8_t codec;
    uint8_t filter[2];
    uint8_t element;
    uint64_t offset;
    uint32_t stored;
    uint32_t raw;
    uint64_t sum;
    uint64_t extents_offset;
    uint32_t extent_count;
    uint32_t flags;
    uint64_t first_id;
    uint32_t owner;
    struct vv_range range; /* not in the entry: in the ranges section, if there is one */
    uint8_t is_even;       /* not in the entry: there are ids, and granule i begins at byte i * VV_GRANULE */
};
void vv_block_encode(struct vv_buf *buf, const struct vv_block *block);
/* One entry of 64 bytes. Checks the entry alone; vv_tables_check checks them together. */
int vv_block_parse(const uint8_t *data, struct vv_block *out, struct varve_error *error);

#define VV_RANGE_ENTRY_SIZE 24
/* Can a block have this range? NULL, or what is wrong; *code_out is then VARVE_UNKNOWN_FORMAT or VARVE_CORRUPT. */
const char *vv_range_check(const struct vv_range *range, int *code_out);
/* The ranges section: an entry for the block of this position in the blocks section; ascending. */
void vv_range_encode(struct vv_buf *buf, uint32_t block, const struct vv_range *range);
/* A whole section. ranges: one for each block of the pack; those of blocks without an entry get type 0. */
int vv_ranges_parse(const void *data, uint64_t size, uint64_t block_count, struct vv_range *ranges,
                    struct varve_error *error);

struct vv_extent {
    uint32_t owner;
    uint64_t address;
    uint32_t length;
};
/* Encoder state: the extent before. Set owner to the block entry's owner and address_end to 0 at each block's start. */
struct vv_extent_coder {
    uint32_t owner;
    uint64_t address_end;
};
void vv_extent_encode(struct vv_buf *buf, struct vv_extent_coder *coder, const struct vv_extent *extent);
int vv_extent_decode(struct vv_cursor *cursor, struct vv_extent_coder *coder, struct vv_extent *out,
                     struct varve_error *error);

/* The moved section: the same, then the writer. Coder starts with owner = first owner, address_end = 0. The decoder
 * also checks that they ascend without overlap. */
struct vv_moved {
    struct vv_extent extent; /* its length is cut to 32 bits */
    uint64_t length;         /* the real one, which may exceed a block */
    uint32_t writer;
};
void vv_moved_encode(struct vv_buf *buf, struct vv_extent_coder *coder, const struct vv_moved *moved);
int vv_moved_decode(struct vv_cursor *cursor, struct vv_extent_coder *coder, struct vv_moved *out,
                    struct varve_error *error);

enum vv_section_kind {
    VV_SECTION_BLOCKS = 1,
    VV_SECTION_EXTENTS = 2,
    VV_SECTION_IDS = 3,
    VV_SECTION_MOVED = 4,
    VV_SECTION_MANIFEST = 5,
    VV_SECTION_OPTIONAL = 0x8000,
    VV_SECTION_RANGES = 0x8001
};
struct vv_section {
    uint32_t kind;
    uint32_t owner;
    uint64_t offset;
    uint64_t length;
    struct vv_hash128 digest;
};

struct vv_footer {
    struct vv_settings_store settings;
    uint32_t writers;
    uint32_t ranks;
    uint32_t first_owner;
    uint32_t owners;
    uint32_t partner_count;
    uint32_t partners[VV_PARTNERS_MAX];
    struct vv_attempt parent;
    uint64_t time_ns;
    uint64_t protected_bytes;
    uint64_t raw_bytes;
    uint64_t stored_bytes;
    uint64_t regions;
    uint32_t parts;
    uint32_t dependency_count;
    uint32_t section_count;
    char name[VV_NAME_MAX + 1];
    char program[VV_TEXT_CAPACITY];
    uint64_t *part_lengths;
    struct vv_dependency *dependencies;
    struct vv_section *sections;
    struct vv_hash128 digest; /* of the footer; filled by the parser */
};
/* Append footer and end; offset is where the footer begins in the object. digest_out may be NULL. */
void vv_footer_encode(struct vv_buf *buf, uint64_t offset, const struct vv_footer *footer,
                      struct vv_hash128 *digest_out);
/* The 32 bytes of the end: where the footer is and its digest. A copy object is read with the numbers of its pack:
 * object_length is the pack's, and what is said to be at x in the pack is at x - (length of the pack - length of the
 * copy) in the copy. */
int vv_end_parse(const uint8_t *data, uint64_t object_length, uint64_t *offset_out, uint32_t *length_out,
                 struct vv_hash128 *digest_out, struct varve_error *error);
/* Parse a footer whose digest must be `digest`. object_length bounds the sections; they must follow one another
 * without gaps up to footer_offset. */
int vv_footer_parse(const void *data, size_t size, uint64_t footer_offset, struct vv_hash128 digest,
                    struct vv_footer *out, struct varve_error *error);
void vv_footer_clear(struct vv_footer *footer);
/* The section of this kind (and owner, for manifests), or NULL. */
const struct vv_section *vv_footer_section(const struct vv_footer *footer, int kind, uint32_t owner);

/* Blocks, extents and the sizes of the ids section checked against each other and against the footer: blocks tile
 * the parts and the space before the first section, extents tile their blocks, ids count fits. Extents are not
 * checked for overlap here (the store's lookup table does, when it sorts them). */
int vv_tables_check(const struct vv_footer *footer, const struct vv_block *blocks, uint64_t block_count,
                    const void *extents, uint64_t extents_size, struct varve_error *error);
/* How many ids an extent of this length has. */
static inline uint64_t vv_granules(uint64_t length) {
    return (length + VV_GRANULE - 1) / VV_GRANULE;
}

#endif
