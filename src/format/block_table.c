/* The tables of a pack (docs/format.md 6): block entries, extents, moved extents, and how they fit together. */
#include "format/format_private.h"
#include "format/pack.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* What encode/ knows by name; here only what an entry may say counts. */
enum {
    CODEC_NONE = 0,
    CODEC_FLOATS_FIRST = 3, /* fpzip, zfp and zfp on a grid take floating-point numbers, and no filters */
    CODEC_FLOATS_LAST = 5,
    CODEC_LAST = 6,
    FILTER_LAST = 5
};

/* NULL, or how codec, filters and element, each known, contradict one another. */
static const char *coding_contradiction(const struct vv_block *block) {
    uint8_t element = block->element;
    int has_filter = block->filter[0] || block->filter[1];
    int takes_floats = block->codec >= CODEC_FLOATS_FIRST && block->codec <= CODEC_FLOATS_LAST;
    if (block->filter[1] && !block->filter[0])
        return "there is a second filter without a first";
    if (has_filter && block->codec == CODEC_NONE)
        return "there are filters without a codec";
    if (has_filter && takes_floats)
        return "there are filters before a codec for floating-point numbers";
    if (has_filter && element != 1 && element != 2 && element != 4 && element != 8 && element != 12 && element != 16 &&
        element != 24)
        return "filters need elements of 1, 2, 4, 8, 12, 16 or 24 bytes";
    if (takes_floats && element != 4 && element != 8)
        return "the codec needs elements of 4 or 8 bytes";
    if (!has_filter && !takes_floats && element)
        return "nothing needs elements";
    return NULL;
}

void vv_block_encode(struct vv_buf *buf, const struct vv_block *block) {
    assert(block->raw >= 1 && block->raw <= VV_BLOCK_RAW_MAX && block->stored >= 1 && block->stored <= block->raw);
    assert(block->codec <= CODEC_LAST && (block->codec != CODEC_NONE || block->stored == block->raw));
    assert(block->offset >= VV_HEAD_SIZE && block->extent_count >= 1 && block->owner < VV_COUNT_MAX);
    assert((block->flags & ~(uint32_t)VV_BLOCK_FLAGS) == 0);
    assert(block->filter[0] <= FILTER_LAST && block->filter[1] <= FILTER_LAST && !coding_contradiction(block));
    uint8_t *at = vv_buf_extend(buf, VV_BLOCK_ENTRY_SIZE);
    if (!at)
        return;
    vv_put32(at, block->part);
    at[4] = block->codec;
    at[5] = block->filter[0];
    at[6] = block->filter[1];
    at[7] = block->element;
    vv_put64(at + 8, block->offset);
    vv_put32(at + 16, block->stored);
    vv_put32(at + 20, block->raw);
    vv_put64(at + 24, block->sum);
    vv_put64(at + 32, block->extents_offset);
    vv_put32(at + 40, block->extent_count);
    vv_put32(at + 44, block->flags);
    vv_put64(at + 48, block->first_id);
    vv_put32(at + 56, block->owner);
    vv_put32(at + 60, 0);
}

static int check_block_codec(const struct vv_parse *parse, const struct vv_block *block) {
    if (block->codec > CODEC_LAST)
        return vv_parse_fail(parse, VARVE_UNKNOWN_FORMAT, "codec is %u, which is not known", block->codec);
    for (int i = 0; i < 2; i++) {
        if (block->filter[i] > FILTER_LAST)
            return vv_parse_fail(parse, VARVE_UNKNOWN_FORMAT, "%s filter is %u, which is not known",
                                 i ? "second" : "first", block->filter[i]);
    }
    const char *contradiction = coding_contradiction(block);
    if (contradiction)
        return vv_parse_fail(parse, VARVE_CORRUPT, "%s: codec is %u, filters are %u and %u, element size is %u",
                             contradiction, block->codec, block->filter[0], block->filter[1], block->element);
    if (block->flags & ~(uint32_t)VV_BLOCK_FLAGS)
        return vv_parse_fail(parse, VARVE_UNKNOWN_FORMAT, "flags are %#x, this program knows %#x", block->flags,
                             VV_BLOCK_FLAGS);
    return 0;
}

static int check_block_sizes(const struct vv_parse *parse, const struct vv_block *block) {
    if (block->raw < 1 || block->raw > VV_BLOCK_RAW_MAX)
        return vv_parse_fail(parse, VARVE_CORRUPT, "raw length is %u, must be 1 to %u", block->raw, VV_BLOCK_RAW_MAX);
    if (block->stored < 1 || block->stored > block->raw)
        return vv_parse_fail(parse, VARVE_CORRUPT, "stored length is %u, must be 1 to the raw length, %u",
                             block->stored, block->raw);
    if (block->codec == CODEC_NONE && block->stored != block->raw)
        return vv_parse_fail(parse, VARVE_CORRUPT, "stored length is %u without a codec, raw length is %u",
                             block->stored, block->raw);
    if (block->offset < VV_HEAD_SIZE || block->offset >= VV_LENGTH_END - block->stored)
        return vv_parse_fail(parse, VARVE_CORRUPT, "offset is %" PRIu64 ", must be between the head and 2^62",
                             block->offset);
    if (block->extent_count < 1 || block->extent_count > block->raw)
        return vv_parse_fail(parse, VARVE_CORRUPT, "number of extents is %u, must be 1 to the raw length, %u",
                             block->extent_count, block->raw);
    if (block->part > VV_PARTS_MAX)
        return vv_parse_fail(parse, VARVE_CORRUPT, "part is %u, must be at most %u", block->part, VV_PARTS_MAX);
    if (block->owner >= VV_COUNT_MAX)
        return vv_parse_fail(parse, VARVE_CORRUPT, "owner is %u, must be below 2^31 - 1", block->owner);
    return 0;
}

int vv_block_parse(const uint8_t *data, struct vv_block *out, struct varve_error *error) {
    struct vv_parse parse = {.error = error, .what = "entry of a block"};
    struct vv_block block = {
        .part = vv_get32(data),
        .codec = data[4],
        .filter = {data[5], data[6]},
        .element = data[7],
        .offset = vv_get64(data + 8),
        .stored = vv_get32(data + 16),
        .raw = vv_get32(data + 20),
        .sum = vv_get64(data + 24),
        .extents_offset = vv_get64(data + 32),
        .extent_count = vv_get32(data + 40),
        .flags = vv_get32(data + 44),
        .first_id = vv_get64(data + 48),
        .owner = vv_get32(data + 56),
    };
    int rc;
    if ((rc = check_block_codec(&parse, &block)) < 0 || (rc = check_block_sizes(&parse, &block)) < 0 ||
        (rc = vv_parse_reserved(&parse, "reserved field", vv_get32(data + 60))) < 0)
        return rc;
    *out = block;
    return 0;
}

static void put_extent(struct vv_buf *buf, struct vv_extent_coder *coder, uint32_t owner, uint64_t address,
                       uint64_t length) {
    assert(length >= 1 && address <= VV_ADDRESS_END && length <= VV_ADDRESS_END - address && owner < VV_COUNT_MAX);
    int has_owner = owner != coder->owner;
    vv_buf_varint(buf, 2 * length + (uint64_t)has_owner);
    if (has_owner)
        vv_buf_svarint(buf, (int64_t)owner - (int64_t)coder->owner);
    vv_buf_svarint(buf, (int64_t)address - (int64_t)coder->address_end);
    coder->owner = owner;
    coder->address_end = address + length;
}

/* The three fields that extents and moved extents share. */
static int take_extent(struct vv_cursor *cursor, const struct vv_extent_coder *coder, uint64_t length_max,
                       struct vv_moved *out, const struct vv_parse *parse) {
    uint64_t first = vv_cursor_varint(cursor);
    uint64_t length = first >> 1;
    int64_t owner_step = first & 1 ? vv_cursor_svarint(cursor) : 0;
    int64_t address_step = vv_cursor_svarint(cursor);
    int64_t owner, address;
    if (cursor->failed)
        return vv_parse_fail(parse, VARVE_CORRUPT, "the section ends inside it or a varint is malformed");
    if (length < 1 || length > length_max)
        return vv_parse_fail(parse, VARVE_CORRUPT, "length is %" PRIu64 ", must be 1 to %" PRIu64, length, length_max);
    if ((first & 1) && owner_step == 0)
        return vv_parse_fail(parse, VARVE_CORRUPT, "an owner is announced but is the one before, %u", coder->owner);
    if (__builtin_add_overflow((int64_t)coder->owner, owner_step, &owner) || owner < 0 || owner >= VV_COUNT_MAX)
        return vv_parse_fail(parse, VARVE_CORRUPT, "owner is %u plus %" PRId64 ", must be 0 to 2^31 - 2", coder->owner,
                             owner_step);
    if (__builtin_add_overflow((int64_t)coder->address_end, address_step, &address) || address < 0 ||
        (uint64_t)address > VV_ADDRESS_END - length)
        return vv_parse_fail(parse, VARVE_CORRUPT,
                             "address is %" PRIu64 " plus %" PRId64 ", length %" PRIu64 ": must lie within 0 and 2^62",
                             coder->address_end, address_step, length);
    out->extent.owner = (uint32_t)owner;
    out->extent.address = (uint64_t)address;
    out->extent.length = length > UINT32_MAX ? UINT32_MAX : (uint32_t)length;
    out->length = length;
    return 0;
}

static void move_on(struct vv_extent_coder *coder, const struct vv_moved *to) {
    coder->owner = to->extent.owner;
    coder->address_end = to->extent.address + to->length;
}

void vv_extent_encode(struct vv_buf *buf, struct vv_extent_coder *coder, const struct vv_extent *extent) {
    assert(extent->length <= VV_BLOCK_RAW_MAX);
    put_extent(buf, coder, extent->owner, extent->address, extent->length);
}

int vv_extent_decode(struct vv_cursor *cursor, struct vv_extent_coder *coder, struct vv_extent *out,
                     struct varve_error *error) {
    struct vv_parse parse = {.error = error, .what = "extent"};
    struct vv_moved taken = {0};
    int rc = take_extent(cursor, coder, VV_BLOCK_RAW_MAX, &taken, &parse);
    if (rc < 0)
        return rc;
    move_on(coder, &taken);
    *out = taken.extent;
    return 0;
}

void vv_moved_encode(struct vv_buf *buf, struct vv_extent_coder *coder, const struct vv_moved *moved) {
    assert(moved->writer < VV_COUNT_MAX);
    put_extent(buf, coder, moved->extent.owner, moved->extent.address, moved->length);
    vv_buf_varint(buf, moved->writer);
}

int vv_moved_decode(struct vv_cursor *cursor, struct vv_extent_coder *coder, struct vv_moved *out,
                    struct varve_error *error) {
    struct vv_parse parse = {.error = error, .what = "moved extent"};
    struct vv_moved taken = {0};
    int rc = take_extent(cursor, coder, VV_ADDRESS_END, &taken, &parse);
    if (rc < 0)
        return rc;
    uint64_t writer = vv_cursor_varint(cursor);
    if (cursor->failed || writer >= VV_COUNT_MAX)
        return vv_parse_fail(&parse, VARVE_CORRUPT, "writer is missing, malformed, or %" PRIu64, writer);
    if (taken.extent.owner < coder->owner ||
        (taken.extent.owner == coder->owner && taken.extent.address < coder->address_end))
        return vv_parse_fail(&parse, VARVE_CORRUPT,
                             "owner %u, address %" PRIu64 " does not ascend: the one before is owner %u to %" PRIu64,
                             taken.extent.owner, taken.extent.address, coder->owner, coder->address_end);
    taken.writer = (uint32_t)writer;
    move_on(coder, &taken);
    *out = taken;
    return 0;
}

/* Where the blocks of a part must end; of the pack object, where its first section begins. */
static uint64_t part_end(const struct vv_footer *footer, uint32_t part) {
    return part < footer->parts ? footer->part_lengths[part] : footer->sections[0].offset;
}

static int check_part_end(const struct vv_parse *parse, const struct vv_footer *footer, uint32_t part, uint64_t end) {
    if (end == part_end(footer, part))
        return 0;
    return vv_parse_fail(parse, VARVE_CORRUPT, "blocks of part %u of %u end at %" PRIu64 ", must end at %" PRIu64, part,
                         footer->parts, end, part_end(footer, part));
}

/* Blocks tile every part from the head to its end. */
static int check_blocks(const struct vv_parse *parse, const struct vv_footer *footer, const struct vv_block *blocks,
                        uint64_t count) {
    uint32_t part = 0;
    uint64_t end = VV_HEAD_SIZE;
    int rc;
    for (uint64_t i = 0; i < count; i++) {
        if (blocks[i].part < part || blocks[i].part > footer->parts)
            return vv_parse_fail(parse, VARVE_CORRUPT, "part of block %" PRIu64 " is %u, must be %u to %u", i,
                                 blocks[i].part, part, footer->parts);
        for (; part < blocks[i].part; part++, end = VV_HEAD_SIZE)
            if ((rc = check_part_end(parse, footer, part, end)) < 0)
                return rc;
        if (blocks[i].offset != end)
            return vv_parse_fail(parse, VARVE_CORRUPT, "offset of block %" PRIu64 " is %" PRIu64 ", must be %" PRIu64,
                                 i, blocks[i].offset, end);
        end += blocks[i].stored;
    }
    for (; part < footer->parts; part++, end = VV_HEAD_SIZE)
        if ((rc = check_part_end(parse, footer, part, end)) < 0)
            return rc;
    return check_part_end(parse, footer, part, end);
}

/* The extents of one block: they tile it, and begin at granules if it has ids. *ids grows by their granules. */
static int check_block_extents(const struct vv_parse *parse, const struct vv_footer *footer,
                               const struct vv_block *block, uint64_t index, struct vv_cursor *cursor, uint64_t *ids) {
    struct vv_extent_coder coder = {.owner = block->owner};
    struct vv_extent extent;
    uint64_t raw = 0;
    for (uint32_t i = 0; i < block->extent_count; i++) {
        int rc = vv_extent_decode(cursor, &coder, &extent, parse->error);
        if (rc < 0)
            return rc;
        raw += extent.length;
        if (raw > block->raw)
            break;
        if (extent.owner >= footer->ranks || (i == 0 && extent.owner != block->owner))
            return vv_parse_fail(parse, VARVE_CORRUPT,
                                 "owner of extent %u of block %" PRIu64 " is %u; the block says %u, ranks are %u", i,
                                 index, extent.owner, block->owner, footer->ranks);
        if (!(block->flags & VV_BLOCK_IDS))
            continue;
        if (extent.address % VV_GRANULE)
            return vv_parse_fail(parse, VARVE_CORRUPT,
                                 "extent %u of block %" PRIu64 " has ids but begins at %" PRIu64 ", inside a granule",
                                 i, index, extent.address);
        *ids += vv_granules(extent.length);
    }
    if (raw != block->raw)
        return vv_parse_fail(parse, VARVE_CORRUPT,
                             "extents of block %" PRIu64 " have %" PRIu64 " bytes or more, the block has %u", index,
                             raw, block->raw);
    return 0;
}

static int check_extents(const struct vv_parse *parse, const struct vv_footer *footer, const struct vv_block *blocks,
                         uint64_t count, const uint8_t *extents, uint64_t size) {
    const struct vv_section *ids_section = vv_footer_section(footer, VV_SECTION_IDS, 0);
    struct vv_cursor cursor;
    uint64_t ids = 0;
    vv_cursor_init(&cursor, extents, size);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = size - vv_cursor_left(&cursor);
        if (blocks[i].extents_offset != at)
            return vv_parse_fail(parse, VARVE_CORRUPT,
                                 "first extent of block %" PRIu64 " is said to be at %" PRIu64 ", is at %" PRIu64, i,
                                 blocks[i].extents_offset, at);
        if (blocks[i].first_id != ids)
            return vv_parse_fail(parse, VARVE_CORRUPT,
                                 "first id of block %" PRIu64 " is %" PRIu64 ", the blocks before have %" PRIu64, i,
                                 blocks[i].first_id, ids);
        int rc = check_block_extents(parse, footer, &blocks[i], i, &cursor, &ids);
        if (rc < 0)
            return rc;
    }
    if (vv_cursor_left(&cursor) != 0)
        return vv_parse_fail(parse, VARVE_CORRUPT, "%zu bytes are left over in the extents section",
                             vv_cursor_left(&cursor));
    if (!ids_section || ids_section->length / 16 != ids || ids_section->length % 16)
        return vv_parse_fail(parse, VARVE_CORRUPT,
                             "ids section has %" PRIu64 " bytes, the extents have %" PRIu64 " ids",
                             ids_section ? ids_section->length : 0, ids);
    return 0;
}

/* What the footer says of the new data is the sum over all blocks. */
static int check_sums(const struct vv_parse *parse, const struct vv_footer *footer, const struct vv_block *blocks,
                      uint64_t count) {
    uint64_t raw = 0, stored = 0;
    for (uint64_t i = 0; i < count; i++) {
        raw += blocks[i].raw;
        stored += blocks[i].stored;
    }
    if (raw == footer->raw_bytes && stored == footer->stored_bytes)
        return 0;
    return vv_parse_fail(parse, VARVE_CORRUPT,
                         "blocks have %" PRIu64 " bytes, stored as %" PRIu64 "; the footer says %" PRIu64
                         " and %" PRIu64,
                         raw, stored, footer->raw_bytes, footer->stored_bytes);
}

int vv_tables_check(const struct vv_footer *footer, const struct vv_block *blocks, uint64_t block_count,
                    const void *extents, uint64_t extents_size, struct varve_error *error) {
    struct vv_parse parse = {.error = error, .what = "tables of a pack"};
    const struct vv_section *section = vv_footer_section(footer, VV_SECTION_BLOCKS, 0);
    int rc;
    if (!section || section->length / VV_BLOCK_ENTRY_SIZE != block_count || section->length % VV_BLOCK_ENTRY_SIZE)
        return vv_parse_fail(&parse, VARVE_CORRUPT, "blocks section has %" PRIu64 " bytes for %" PRIu64 " blocks",
                             section ? section->length : 0, block_count);
    section = vv_footer_section(footer, VV_SECTION_EXTENTS, 0);
    if (!section || section->length != extents_size)
        return vv_parse_fail(&parse, VARVE_CORRUPT, "extents section has %" PRIu64 " bytes instead of %" PRIu64,
                             section ? section->length : 0, extents_size);
    if ((rc = check_blocks(&parse, footer, blocks, block_count)) < 0 ||
        (rc = check_sums(&parse, footer, blocks, block_count)) < 0)
        return rc;
    return check_extents(&parse, footer, blocks, block_count, extents, extents_size);
}
