/* The tables of a pack in memory: blocks as they are, extents sorted by (owner, address) for lookup. 32 bytes per
 * extent and about as much per block as on storage; a section is never expanded before its digest has been checked.
 *
 * A rank that reads its part of a pack of many owners keeps only its own extents: otherwise all ranks together would
 * have them as often as there are owners, and sort them, since they lie in turns. */
#include "base/alloc.h"
#include "base/search.h"
#include "store/pack_reader.h"

#include <errno.h>
#include <stdlib.h>

#define BLOCKS_MAX UINT32_MAX

struct raw_tables {
    uint8_t *blocks;
    uint64_t blocks_size;
    uint8_t *extents;
    uint64_t extents_size;
    uint8_t *moved;
    uint64_t moved_size;
};

static int load_section(const struct vv_pack_id *id, int object, const struct vv_footer *footer, int kind,
                        uint8_t **out, uint64_t *size_out, struct varve_error *error) {
    const struct vv_section *section = vv_footer_section(footer, kind, 0);
    char key[VV_KEY_CAPACITY];
    vv_pack_key(id, object, 0, key);
    if (!section) {
        *size_out = 0;
        return kind == VV_SECTION_MOVED ? 0 : vv_error(error, VARVE_CORRUPT, "%s has no section of kind %d", key, kind);
    }
    struct vv_section at = vv_pack_section(footer, section, object);
    *size_out = at.length;
    return vv_section_load(id->store, key, &at, out, error);
}

static int parse_blocks(const struct raw_tables *raw, struct vv_pack_tables *tables, struct varve_error *error) {
    uint64_t extents = 0;
    tables->block_count = raw->blocks_size / VV_BLOCK_ENTRY_SIZE;
    if (raw->blocks_size % VV_BLOCK_ENTRY_SIZE || tables->block_count > BLOCKS_MAX) {
        return vv_error(error, VARVE_CORRUPT, "a blocks section cannot have %llu bytes",
                        (unsigned long long)raw->blocks_size);
    }
    tables->blocks = vv_calloc(tables->block_count ? tables->block_count : 1, sizeof tables->blocks[0]);
    if (!tables->blocks)
        return vv_error_sys(error, -ENOMEM, "%llu blocks", (unsigned long long)tables->block_count);
    for (uint64_t i = 0; i < tables->block_count; i++) {
        struct vv_block *block = &tables->blocks[i];
        int rc = vv_block_parse(raw->blocks + i * VV_BLOCK_ENTRY_SIZE, block, error);
        if (rc < 0)
            return rc;
        extents += block->extent_count;
    }
    /* An extent takes at least two bytes: a larger count is a lie that must not cost memory. */
    if (extents > raw->extents_size / 2) {
        return vv_error(error, VARVE_CORRUPT, "%llu extents cannot be in an extents section of %llu bytes",
                        (unsigned long long)extents, (unsigned long long)raw->extents_size);
    }
    return 0;
}

/* A block with data of several owners is for several ranks, whether its entry says so or not. */
static int decode_block_extents(struct vv_block *block, uint32_t number, uint32_t owner, struct vv_cursor *cursor,
                                struct vv_buf *out, struct varve_error *error) {
    struct vv_extent_coder coder = {.owner = block->owner};
    uint32_t raw = 0, id = 0;
    block->is_even = block->flags & VV_BLOCK_IDS;
    for (uint32_t i = 0; i < block->extent_count; i++) {
        struct vv_extent extent;
        int rc = vv_extent_decode(cursor, &coder, &extent, error);
        if (rc < 0)
            return rc;
        struct vv_pack_extent found = {.address = extent.address,
                                       .owner = extent.owner,
                                       .length = extent.length,
                                       .block = number,
                                       .raw = raw,
                                       .id = id};
        if (owner == VV_ALL_OWNERS || owner == extent.owner)
            vv_buf_append(out, &found, sizeof found);
        if (extent.owner != block->owner)
            block->flags |= VV_BLOCK_SHARED;
        block->is_even &= raw % VV_GRANULE == 0;
        raw += extent.length;
        id += (uint32_t)vv_granules(extent.length);
    }
    return 0;
}

static int decode_extents(const struct raw_tables *raw, uint32_t owner, struct vv_pack_tables *tables,
                          struct varve_error *error) {
    struct vv_cursor cursor;
    struct vv_buf list;
    vv_buf_init(&list);
    vv_cursor_init(&cursor, raw->extents, raw->extents_size);
    int rc = 0;
    for (uint64_t b = 0; b < tables->block_count && rc == 0; b++)
        rc = decode_block_extents(&tables->blocks[b], (uint32_t)b, owner, &cursor, &list, error);
    if (rc == 0 && list.failed)
        rc = vv_error_sys(error, list.failed, "extents");
    uint8_t *exact = list.size ? vv_realloc(list.data, list.size) : NULL; /* they stay for long */
    tables->extents = (struct vv_pack_extent *)(exact ? exact : list.data);
    tables->extent_count = list.size / sizeof tables->extents[0];
    return rc;
}

static int compare_extents(const struct vv_pack_extent *x, const struct vv_pack_extent *y) {
    if (x->owner != y->owner)
        return x->owner < y->owner ? -1 : 1;
    return x->address == y->address ? 0 : x->address < y->address ? -1 : 1;
}

static uint64_t end_of_run(const struct vv_pack_extent *list, uint64_t from, uint64_t count) {
    uint64_t end = from + 1;
    while (end < count && compare_extents(&list[end - 1], &list[end]) <= 0)
        end++;
    return end < count ? end : count;
}

/* Two neighbouring runs, [from, middle) and [middle, end), become one in `out`. */
static void merge_two(const struct vv_pack_extent *list, uint64_t from, uint64_t middle, uint64_t end,
                      struct vv_pack_extent *out) {
    uint64_t a = from, b = middle;
    for (uint64_t i = from; i < end; i++)
        out[i] = b == end || (a < middle && compare_extents(&list[a], &list[b]) <= 0) ? list[a++] : list[b++];
}

/* The blocks of a lane ascend, and there are few lanes: long runs, which are merged two by two. */
static void merge_runs(struct vv_pack_tables *tables, struct vv_pack_extent *spare) {
    uint64_t count = tables->extent_count;
    while (count && end_of_run(tables->extents, 0, count) < count) {
        struct vv_pack_extent *list = tables->extents;
        for (uint64_t from = 0, end; from < count; from = end) {
            uint64_t middle = end_of_run(list, from, count);
            end = middle < count ? end_of_run(list, middle, count) : count;
            merge_two(list, from, middle, end, spare);
        }
        tables->extents = spare;
        spare = list;
    }
    vv_free(spare);
}

static int sort_extents(struct vv_pack_tables *tables, struct varve_error *error) {
    uint64_t count = tables->extent_count;
    int is_sorted = count == 0 || end_of_run(tables->extents, 0, count) == count;
    struct vv_pack_extent *spare = is_sorted ? NULL : vv_malloc(count * sizeof *spare);
    if (!is_sorted && !spare)
        return vv_error_sys(error, -ENOMEM, "extents");
    if (!is_sorted)
        merge_runs(tables, spare);
    const struct vv_pack_extent *list = tables->extents;
    for (uint64_t i = 1; i < tables->extent_count; i++) {
        if (list[i - 1].owner == list[i].owner && list[i - 1].address + list[i - 1].length > list[i].address) {
            return vv_error(error, VARVE_CORRUPT, "extents of owner %u overlap at address %llu (blocks %u and %u)",
                            list[i].owner, (unsigned long long)list[i].address, list[i - 1].block, list[i].block);
        }
    }
    return 0;
}

/* A range that is here was not given away; both lists ascend. */
static int check_apart(const struct vv_pack_tables *tables, struct varve_error *error) {
    uint64_t at = 0;
    for (uint64_t i = 0; i < tables->moved_count; i++) {
        const struct vv_moved *moved = &tables->moved[i];
        const struct vv_pack_extent *extent = NULL;
        for (; at < tables->extent_count; at++) {
            extent = &tables->extents[at];
            if (extent->owner > moved->extent.owner ||
                (extent->owner == moved->extent.owner && extent->address + extent->length > moved->extent.address))
                break;
        }
        if (at < tables->extent_count && extent->owner == moved->extent.owner &&
            extent->address < moved->extent.address + moved->length) {
            return vv_error(error, VARVE_CORRUPT, "address %llu of owner %u is said to be at writer %u, but is here",
                            (unsigned long long)extent->address, extent->owner, moved->writer);
        }
    }
    return 0;
}

static int decode_moved(const struct raw_tables *raw, const struct vv_footer *footer, uint32_t writer,
                        struct vv_pack_tables *tables, struct varve_error *error) {
    struct vv_extent_coder coder = {.owner = footer->first_owner};
    struct vv_cursor cursor;
    struct vv_buf list;
    int rc = 0;
    vv_buf_init(&list);
    vv_cursor_init(&cursor, raw->moved, raw->moved_size);
    while (vv_cursor_left(&cursor) && rc == 0) {
        struct vv_moved moved;
        rc = vv_moved_decode(&cursor, &coder, &moved, error);
        if (rc == 0 && (moved.writer >= footer->writers || moved.writer == writer ||
                        moved.extent.owner - footer->first_owner >= footer->owners)) {
            rc = vv_error(error, VARVE_CORRUPT, "a moved extent names owner %u and writer %u", moved.extent.owner,
                          moved.writer);
        }
        vv_buf_append(&list, &moved, sizeof moved);
        rc = rc == 0 && list.failed ? vv_error_sys(error, list.failed, "moved extents") : rc;
    }
    tables->moved = (struct vv_moved *)list.data;
    tables->moved_count = list.size / sizeof(struct vv_moved);
    return rc < 0 ? rc : check_apart(tables, error);
}

static int build(const struct raw_tables *raw, const struct vv_footer *footer, uint32_t writer, uint32_t owner,
                 struct vv_pack_tables *out, struct varve_error *error) {
    int rc = parse_blocks(raw, out, error);
    if (rc == 0)
        rc = vv_tables_check(footer, out->blocks, out->block_count, raw->extents, raw->extents_size, error);
    if (rc == 0)
        rc = decode_extents(raw, owner, out, error);
    if (rc == 0)
        rc = sort_extents(out, error);
    return rc < 0 ? rc : decode_moved(raw, footer, writer, out, error);
}

int vv_pack_tables_load_of(const struct vv_pack_id *id, int kind, const struct vv_footer *footer, uint32_t owner,
                           struct vv_pack_tables *out, size_t *bytes_out, struct varve_error *error) {
    struct raw_tables raw = {0};
    struct vv_pack_tables tables = {.parts = footer->parts};
    int rc = load_section(id, kind, footer, VV_SECTION_BLOCKS, &raw.blocks, &raw.blocks_size, error);
    if (rc == 0)
        rc = load_section(id, kind, footer, VV_SECTION_EXTENTS, &raw.extents, &raw.extents_size, error);
    if (rc == 0)
        rc = load_section(id, kind, footer, VV_SECTION_MOVED, &raw.moved, &raw.moved_size, error);
    if (rc == 0) {
        rc = build(&raw, footer, id->writer, owner, &tables, error);
        if (rc < 0) {
            char key[VV_KEY_CAPACITY];
            vv_pack_key(id, kind, 0, key);
            vv_pack_error(key, rc, error);
        }
    }
    vv_free(raw.blocks);
    vv_free(raw.extents);
    vv_free(raw.moved);
    if (rc < 0) {
        vv_pack_tables_clear(&tables);
        return rc;
    }
    if (bytes_out) {
        *bytes_out = tables.block_count * sizeof tables.blocks[0] + tables.extent_count * sizeof tables.extents[0] +
                     tables.moved_count * sizeof tables.moved[0];
    }
    *out = tables;
    return 0;
}

int vv_pack_tables_load(const struct vv_pack_id *id, int kind, const struct vv_footer *footer,
                        struct vv_pack_tables *out, size_t *bytes_out, struct varve_error *error) {
    return vv_pack_tables_load_of(id, kind, footer, VV_ALL_OWNERS, out, bytes_out, error);
}

void vv_pack_tables_clear(struct vv_pack_tables *tables) {
    vv_free(tables->blocks);
    vv_free(tables->extents);
    vv_free(tables->moved);
    *tables = (struct vv_pack_tables){0};
}

int vv_pack_ranges_load(struct vv_store *store, const char *key, const struct vv_section *section, uint64_t block_count,
                        struct vv_range **out, struct varve_error *error) {
    uint8_t *data = NULL;
    int rc = vv_section_load(store, key, section, &data, error);
    struct vv_range *ranges = rc == 0 ? vv_calloc(block_count ? block_count : 1, sizeof *ranges) : NULL;
    if (rc == 0) {
        rc = ranges ? vv_ranges_parse(data, section->length, block_count, ranges, error)
                    : vv_error_sys(error, -ENOMEM, "ranges of %llu blocks", (unsigned long long)block_count);
        rc = rc < 0 ? vv_pack_error(key, rc, error) : 0;
    }
    vv_free(data);
    if (rc < 0) {
        vv_free(ranges);
        return rc;
    }
    *out = ranges;
    return 0;
}

static int is_at_most(uint32_t owner, uint64_t address, uint32_t most_owner, uint64_t most_address) {
    return owner < most_owner || (owner == most_owner && address <= most_address);
}

const struct vv_pack_extent *vv_pack_find(const struct vv_pack_tables *tables, uint32_t owner, uint64_t address) {
    const struct vv_pack_extent *list = tables->extents;
    uint64_t above; /* the answer, if any, is the one before it */
    VV_SEARCH(above, 0, tables->extent_count, is_at_most(list[above].owner, list[above].address, owner, address));
    const struct vv_pack_extent *at = above ? &list[above - 1] : NULL;
    return at && at->owner == owner && address - at->address < at->length ? at : NULL;
}

const struct vv_moved *vv_pack_find_moved(const struct vv_pack_tables *tables, uint32_t owner, uint64_t address) {
    const struct vv_moved *list = tables->moved;
    uint64_t above;
    VV_SEARCH(above, 0, tables->moved_count,
              is_at_most(list[above].extent.owner, list[above].extent.address, owner, address));
    const struct vv_moved *at = above ? &list[above - 1] : NULL;
    return at && at->extent.owner == owner && address - at->extent.address < at->length ? at : NULL;
}
