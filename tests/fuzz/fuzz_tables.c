/* An input is a byte with the number of blocks, their entries, and the extents section. Once it is checked as it is,
 * once with the offsets of blocks and extents and the length of the ids made right. At last it is read as moved
 * extents. */
#include "fuzz.h"

#define BLOCKS_MAX 32

static uint64_t sum_ids(struct vv_block *blocks, uint64_t count, const uint8_t *extents, size_t size, int is_fixing) {
    struct varve_error error;
    struct vv_cursor cursor;
    struct vv_extent extent;
    uint64_t ids = 0, offset = VV_HEAD_SIZE;
    vv_cursor_init(&cursor, extents, size);
    for (uint64_t i = 0; i < count; i++) {
        struct vv_extent_coder coder = {.owner = blocks[i].owner};
        uint64_t raw = 0;
        if (is_fixing) {
            blocks[i].part = 0;
            blocks[i].offset = offset;
            blocks[i].extents_offset = size - vv_cursor_left(&cursor);
            blocks[i].first_id = ids;
        }
        for (uint32_t j = 0; j < blocks[i].extent_count; j++) {
            if (vv_extent_decode(&cursor, &coder, &extent, &error) < 0)
                return ids;
            raw += extent.length;
            if (blocks[i].flags & VV_BLOCK_IDS)
                ids += vv_granules(extent.length);
        }
        if (is_fixing && raw <= VV_BLOCK_RAW_MAX) {
            blocks[i].raw = (uint32_t)raw;
            blocks[i].stored = (uint32_t)raw;
        }
        offset += blocks[i].stored;
    }
    return ids;
}

static void check(struct vv_block *blocks, uint64_t count, const uint8_t *extents, size_t size, int is_fixing) {
    struct varve_error error;
    uint64_t ids = sum_ids(blocks, count, extents, size, is_fixing);
    uint64_t end = count ? blocks[count - 1].offset + blocks[count - 1].stored : VV_HEAD_SIZE;
    struct vv_section sections[] = {
        {.kind = VV_SECTION_BLOCKS, .offset = end, .length = count * VV_BLOCK_ENTRY_SIZE},
        {.kind = VV_SECTION_EXTENTS, .offset = end + count * VV_BLOCK_ENTRY_SIZE, .length = size},
        {.kind = VV_SECTION_IDS, .offset = end + count * VV_BLOCK_ENTRY_SIZE + size, .length = ids * 16},
    };
    struct vv_footer footer = {.ranks = 1 << 30, .section_count = 3, .sections = sections};
    for (uint64_t i = 0; i < count; i++) {
        footer.raw_bytes += blocks[i].raw;
        footer.stored_bytes += blocks[i].stored;
    }
    int rc = vv_tables_check(&footer, blocks, count, extents, size, &error);
    FUZZ_CHECK(rc == 0 || rc == VARVE_CORRUPT);
}

static void read_moved(const uint8_t *data, size_t size) {
    struct vv_extent_coder coder = {.owner = 3};
    struct vv_cursor cursor;
    struct vv_moved moved;
    struct varve_error error;
    vv_cursor_init(&cursor, data, size);
    while (vv_cursor_left(&cursor) > 0 && vv_moved_decode(&cursor, &coder, &moved, &error) == 0)
        FUZZ_CHECK(moved.length >= 1 && moved.extent.address + moved.length <= VV_ADDRESS_END);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct vv_block blocks[BLOCKS_MAX];
    struct varve_error error;
    uint64_t count = size ? data[0] % BLOCKS_MAX : 0;
    if (size < 1 + count * VV_BLOCK_ENTRY_SIZE)
        return 0;
    const uint8_t *extents = data + 1 + count * VV_BLOCK_ENTRY_SIZE;
    size_t extents_size = size - (size_t)(extents - data);
    for (uint64_t i = 0; i < count; i++) {
        struct vv_buf again;
        const uint8_t *entry = data + 1 + i * VV_BLOCK_ENTRY_SIZE;
        if (vv_block_parse(entry, &blocks[i], &error) < 0)
            return 0;
        vv_buf_init(&again);
        vv_block_encode(&again, &blocks[i]);
        FUZZ_CHECK(memcmp(again.data, entry, VV_BLOCK_ENTRY_SIZE) == 0);
        vv_buf_clear(&again);
    }
    check(blocks, count, extents, extents_size, 0);
    check(blocks, count, extents, extents_size, 1);
    read_moved(extents, extents_size);
    return 0;
}
