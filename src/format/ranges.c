/* The ranges section (docs/format.md 6): the least and the greatest value of blocks that hold one region of a known
 * type. */
#include "format/format_private.h"
#include "format/pack.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* Element types as in a region's description (docs/format.md 8): those in which low and high are written the same. */
enum { TYPE_I8 = 1, TYPE_U64 = 8, TYPE_F32 = 9, TYPE_LAST = 14 };

static double as_float(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static int is_signed(uint8_t type) {
    return type % 2 != 0;
}

/* The integer types alternate: i8 u8 i16 u16 ... */
static int is_integer_range(const struct vv_range *range) {
    unsigned bits = 8u << (range->type - TYPE_I8) / 2;
    if (!is_signed(range->type))
        return range->low <= range->high && range->high <= UINT64_MAX >> (64 - bits);
    int64_t limit = (int64_t)(UINT64_MAX >> (65 - bits));
    int64_t low = (int64_t)range->low, high = (int64_t)range->high;
    return low <= high && low >= -limit - 1 && high <= limit;
}

const char *vv_range_check(const struct vv_range *range, int *code_out) {
    *code_out = VARVE_CORRUPT;
    if (range->type < TYPE_I8)
        return "bytes have no order";
    *code_out = VARVE_UNKNOWN_FORMAT;
    if (range->type > TYPE_LAST)
        return "its element type is not known";
    if (range->flags & ~(VV_RANGE_NAN | VV_RANGE_EMPTY))
        return "its flags are not known";
    *code_out = VARVE_CORRUPT;
    if (range->type <= TYPE_U64) {
        if (range->flags)
            return "integers have no NaN";
        return is_integer_range(range) ? NULL : "its bounds are not in order, or not of its type";
    }
    if (range->flags == VV_RANGE_EMPTY)
        return "it is empty without a NaN";
    if (range->flags & VV_RANGE_EMPTY)
        return range->low || range->high ? "it is empty but has bounds" : NULL;
    return as_float(range->low) <= as_float(range->high) ? NULL : "its bounds are not in order";
}

void vv_range_encode(struct vv_buf *buf, uint32_t block, const struct vv_range *range) {
    int code;
    (void)code;
    assert(!vv_range_check(range, &code));
    uint8_t *at = vv_buf_extend(buf, VV_RANGE_ENTRY_SIZE);
    if (!at)
        return;
    vv_put32(at, block);
    at[4] = range->type;
    at[5] = range->flags;
    at[6] = at[7] = 0;
    vv_put64(at + 8, range->low);
    vv_put64(at + 16, range->high);
}

/* before: one more than the block of the entry before. */
static int parse_entry(const struct vv_parse *parse, const uint8_t *data, uint64_t block_count, uint64_t before,
                       struct vv_range *ranges) {
    uint32_t block = vv_get32(data);
    struct vv_range range = {.type = data[4], .flags = data[5], .low = vv_get64(data + 8), .high = vv_get64(data + 16)};
    int code;
    if (block < before || block >= block_count)
        return vv_parse_fail(parse, VARVE_CORRUPT, "block is %u, must be %" PRIu64 " or more and below %" PRIu64, block,
                             before, block_count);
    int rc = vv_parse_reserved(parse, "reserved field", data[6] | (uint64_t)data[7] << 8);
    if (rc < 0)
        return rc;
    const char *why = vv_range_check(&range, &code);
    if (why)
        return vv_parse_fail(parse, code,
                             "range of block %u: %s (type %u, flags %#x, low %#" PRIx64 ", high %#" PRIx64 ")", block,
                             why, range.type, range.flags, range.low, range.high);
    ranges[block] = range;
    return 0;
}

int vv_ranges_parse(const void *data, uint64_t size, uint64_t block_count, struct vv_range *ranges,
                    struct varve_error *error) {
    struct vv_parse parse = {.error = error, .what = "ranges of a pack"};
    const uint8_t *bytes = data;
    uint64_t before = 0;
    if (size % VV_RANGE_ENTRY_SIZE || size / VV_RANGE_ENTRY_SIZE > block_count)
        return vv_parse_fail(&parse, VARVE_CORRUPT, "section has %" PRIu64 " bytes for %" PRIu64 " blocks", size,
                             block_count);
    if (block_count)
        memset(ranges, 0, block_count * sizeof *ranges);
    for (uint64_t at = 0; at < size; at += VV_RANGE_ENTRY_SIZE) {
        int rc = parse_entry(&parse, bytes + at, block_count, before, ranges);
        if (rc < 0)
            return rc;
        before = (uint64_t)vv_get32(bytes + at) + 1;
    }
    return 0;
}
