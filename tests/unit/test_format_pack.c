/* Packs: random tables there and back, and what does not fit together. */
#include "../format/random.h"
#include "base/alloc.h"
#include "format/pack.h"
#include "test.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST 40

/* A pack's tables, as a writer would make them. */
struct tables {
    struct vv_footer footer;
    uint64_t part_lengths[4];
    struct vv_dependency dependencies[4];
    struct vv_section sections[16];
    struct vv_block blocks[MOST];
    uint64_t block_count;
    struct vv_buf extents;
    uint64_t ids;
};

/* A coding that a writer may use. */
static void choose_coding(struct vv_block *block) {
    static const uint8_t elements[] = {1, 2, 4, 8, 12, 16, 24};
    block->codec = (uint8_t)random_below(7);
    if (block->codec >= 3 && block->codec <= 5) {
        block->element = random_below(2) ? 4 : 8;
    } else if (block->codec && random_below(2)) {
        block->filter[0] = (uint8_t)(1 + random_below(4));
        block->filter[1] = (uint8_t)random_below(5);
        block->element = elements[random_below(sizeof elements)];
    }
}

static void add_block(struct tables *t, uint32_t part, uint64_t *offset) {
    struct vv_block *block = &t->blocks[t->block_count++];
    *block = (struct vv_block){.part = part, .offset = *offset, .extents_offset = t->extents.size, .first_id = t->ids};
    block->flags = (uint32_t)random_below(2);
    block->owner = (uint32_t)random_below(t->footer.ranks);
    block->extent_count = (uint32_t)(1 + random_below(6));
    struct vv_extent_coder coder = {.owner = block->owner};
    for (uint32_t i = 0; i < block->extent_count; i++) {
        struct vv_extent e = {.owner = i == 0 ? block->owner : (uint32_t)random_below(t->footer.ranks)};
        e.length = (uint32_t)(1 + random_bits(20));
        e.address = random_bits(61);
        if (block->flags & VV_BLOCK_IDS) {
            e.address &= ~(uint64_t)(VV_GRANULE - 1);
            t->ids += vv_granules(e.length);
        }
        block->raw += e.length;
        vv_extent_encode(&t->extents, &coder, &e);
    }
    choose_coding(block);
    block->stored = block->codec ? (uint32_t)(1 + random_below(block->raw)) : block->raw;
    block->sum = random_u64();
    t->footer.raw_bytes += block->raw;
    t->footer.stored_bytes += block->stored;
    *offset += block->stored;
}

static void add_section(struct tables *t, uint32_t kind, uint32_t owner, uint64_t length, uint64_t *offset) {
    t->footer.sections[t->footer.section_count++] =
        (struct vv_section){.kind = kind, .owner = owner, .offset = *offset, .length = length, .digest = random_hash()};
    *offset += length;
}

static void fill_footer(struct vv_footer *f) {
    f->settings = (struct vv_settings_store){VV_ID_XXH3, 12, VV_LAYOUT_SHARED, random_u64(), random_u64()};
    f->writers = (uint32_t)(1 + random_bits(20));
    f->ranks = (uint32_t)(10 + random_bits(20));
    f->first_owner = (uint32_t)random_below(f->ranks - 6);
    f->owners = (uint32_t)random_below(6);
    f->partner_count = (uint32_t)random_below(f->writers < 3 ? f->writers + 1 : 4);
    for (uint32_t i = 0; i < f->partner_count; i++)
        f->partners[i] = i;
    f->parent = random_below(2) ? (struct vv_attempt){0} : (struct vv_attempt){4, 5, 6};
    f->time_ns = random_u64();
    f->protected_bytes = random_u64();
    f->regions = random_u64();
    f->parts = (uint32_t)random_below(5);
    f->dependency_count = (uint32_t)random_below(5);
    random_text(f->name, 1, VV_NAME_MAX);
    random_text(f->program, 0, VV_TEXT_CAPACITY - 1);
    for (uint32_t i = 0; i < f->dependency_count; i++)
        f->dependencies[i] = (struct vv_dependency){{1 + i, (uint32_t)random_bits(32), random_bits(63)}, random_hash()};
}

/* Returns where the footer begins. */
static uint64_t make_tables(struct tables *t) {
    memset(t, 0, sizeof *t);
    vv_buf_init(&t->extents);
    t->footer.part_lengths = t->part_lengths;
    t->footer.dependencies = t->dependencies;
    t->footer.sections = t->sections;
    fill_footer(&t->footer);
    uint64_t offset = VV_HEAD_SIZE;
    for (uint32_t part = 0; part <= t->footer.parts; part++) {
        uint64_t blocks = random_below(8);
        offset = VV_HEAD_SIZE;
        for (uint64_t i = 0; i < blocks; i++)
            add_block(t, part, &offset);
        if (part < t->footer.parts)
            t->part_lengths[part] = offset;
    }
    add_section(t, VV_SECTION_BLOCKS, 0, t->block_count * VV_BLOCK_ENTRY_SIZE, &offset);
    add_section(t, VV_SECTION_EXTENTS, 0, t->extents.size, &offset);
    add_section(t, VV_SECTION_IDS, 0, t->ids * 16, &offset);
    if (random_below(2))
        add_section(t, VV_SECTION_MOVED, 0, random_bits(20), &offset);
    for (uint32_t i = 0; i < t->footer.owners; i++)
        add_section(t, VV_SECTION_MANIFEST, t->footer.first_owner + i, 120 + random_bits(40), &offset);
    for (uint64_t i = random_below(3); i > 0; i--)
        add_section(t, VV_SECTION_OPTIONAL + 2 + (uint32_t)random_bits(8), 7, random_bits(20), &offset);
    if (random_below(2))
        add_section(t, VV_SECTION_RANGES, 0, random_bits(20), &offset);
    return offset;
}

/* Parse end and footer as a reader would. */
static int read_footer(const struct vv_buf *buf, uint64_t offset, struct vv_footer *out, struct varve_error *error) {
    struct vv_hash128 digest;
    uint64_t found;
    uint32_t length;
    int rc = vv_end_parse(buf->data + buf->size - VV_END_SIZE, offset + buf->size, &found, &length, &digest, error);
    if (rc < 0)
        return rc;
    assert_true(found == offset && length == buf->size - VV_END_SIZE);
    return vv_footer_parse(buf->data, length, found, digest, out, error);
}

static void compare_footers(const struct vv_footer *a, const struct vv_footer *b) {
    assert_memory_equal(&a->settings, &b->settings, offsetof(struct vv_footer, name));
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->program, b->program);
    if (a->parts)
        assert_memory_equal(a->part_lengths, b->part_lengths, a->parts * sizeof *a->part_lengths);
    if (a->dependency_count)
        assert_memory_equal(a->dependencies, b->dependencies, a->dependency_count * sizeof *a->dependencies);
    assert_memory_equal(a->sections, b->sections, a->section_count * sizeof *a->sections);
    for (uint32_t i = 0; i < a->owners; i++) {
        const struct vv_section *s = vv_footer_section(b, VV_SECTION_MANIFEST, a->first_owner + i);
        assert_non_null(s);
        assert_int_equal(s->owner, a->first_owner + i);
    }
    assert_null(vv_footer_section(b, VV_SECTION_MANIFEST, a->first_owner + a->owners));
    assert_null(vv_footer_section(b, VV_SECTION_MANIFEST, a->first_owner - 1));
}

static void test_round_trips(void **state) {
    (void)state;
    for (int round = 0; round < 500; round++) {
        struct tables t;
        struct vv_footer parsed;
        struct varve_error error = {0};
        struct vv_buf buf, entries;
        vv_buf_init(&buf);
        vv_buf_init(&entries);
        uint64_t offset = make_tables(&t);
        struct vv_hash128 digest;
        vv_footer_encode(&buf, offset, &t.footer, &digest);
        int rc = read_footer(&buf, offset, &parsed, &error);
        if (rc < 0)
            print_message("%s\n", error.text);
        assert_int_equal(rc, 0);
        assert_true(vv_hash128_equal(parsed.digest, digest));
        compare_footers(&t.footer, &parsed);
        for (uint64_t i = 0; i < t.block_count; i++) {
            struct vv_block block;
            vv_block_encode(&entries, &t.blocks[i]);
            assert_int_equal(vv_block_parse(entries.data + i * VV_BLOCK_ENTRY_SIZE, &block, &error), 0);
            assert_int_equal(block.offset, t.blocks[i].offset);
            assert_int_equal(block.sum, t.blocks[i].sum);
            assert_int_equal(block.codec, t.blocks[i].codec);
            assert_memory_equal(block.filter, t.blocks[i].filter, 2);
            assert_int_equal(block.element, t.blocks[i].element);
            assert_int_equal(block.range.type, 0);
            t.blocks[i] = block;
        }
        rc = vv_tables_check(&parsed, t.blocks, t.block_count, t.extents.data, t.extents.size, &error);
        if (rc < 0)
            print_message("%s\n", error.text);
        assert_int_equal(rc, 0);
        vv_footer_clear(&parsed);
        vv_buf_clear(&t.extents);
        vv_buf_clear(&buf);
        vv_buf_clear(&entries);
    }
}

static void test_flips_and_truncations(void **state) {
    (void)state;
    struct tables t;
    struct vv_footer parsed;
    struct varve_error error;
    struct vv_buf buf;
    vv_buf_init(&buf);
    uint64_t offset = make_tables(&t);
    vv_footer_encode(&buf, offset, &t.footer, NULL);
    for (size_t at = 0; at < buf.size; at++) {
        uint8_t flip = (uint8_t)(1 + random_below(255));
        buf.data[at] ^= flip;
        assert_int_equal(read_footer(&buf, offset, &parsed, &error), VARVE_CORRUPT);
        buf.data[at] ^= flip;
        if (at >= VV_END_SIZE) {
            struct vv_buf cut = {.data = buf.data, .size = at};
            assert_int_equal(read_footer(&cut, offset, &parsed, &error), VARVE_CORRUPT);
        }
        /* cut off, but with a digest that fits */
        if (at < buf.size - VV_END_SIZE)
            assert_int_equal(vv_footer_parse(buf.data, at, offset, vv_digest(buf.data, at), &parsed, &error),
                             VARVE_CORRUPT);
    }
    vv_buf_clear(&t.extents);
    vv_buf_clear(&buf);
}

/* Any change of a block that keeps its entry well-formed must break the tables. */
static void test_tables_do_not_fit(void **state) {
    (void)state;
    for (int round = 0; round < 300; round++) {
        struct tables t;
        struct varve_error error;
        make_tables(&t);
        if (t.block_count > 0) {
            struct vv_block *block = &t.blocks[random_below(t.block_count)];
            switch (random_below(6)) {
            case 0:
                block->offset++;
                break;
            case 1:
                block->part++;
                break;
            case 2:
                block->raw++;
                break;
            case 3:
                block->extents_offset++;
                break;
            case 4:
                block->first_id++;
                break;
            default:
                block->extent_count++;
                break;
            }
            assert_int_equal(
                vv_tables_check(&t.footer, t.blocks, t.block_count, t.extents.data, t.extents.size, &error),
                VARVE_CORRUPT);
        }
        vv_buf_clear(&t.extents);
    }
}

static void test_every_extents_truncation(void **state) {
    (void)state;
    struct tables t;
    struct varve_error error;
    do
        make_tables(&t);
    while (t.block_count == 0);
    for (size_t size = 0; size < t.extents.size; size++) {
        t.sections[1].length = size;
        uint8_t *copy = malloc(size ? size : 1);
        assert_non_null(copy);
        memcpy(copy, t.extents.data, size);
        assert_int_equal(vv_tables_check(&t.footer, t.blocks, t.block_count, copy, size, &error), VARVE_CORRUPT);
        free(copy);
    }
    vv_buf_clear(&t.extents);
}

static void test_moved(void **state) {
    (void)state;
    struct vv_moved list[MOST], found;
    struct vv_extent_coder coder = {.owner = 3}, reader = coder;
    struct varve_error error;
    struct vv_buf buf;
    struct vv_cursor cursor;
    uint64_t address = 0;
    uint32_t owner = 3;
    vv_buf_init(&buf);
    for (int i = 0; i < MOST; i++) {
        if (random_below(4) == 0) {
            owner += 1 + (uint32_t)random_bits(10);
            address = 0;
        }
        address += random_bits(50);
        list[i] =
            (struct vv_moved){{.owner = owner, .address = address}, 1 + random_bits(50), (uint32_t)random_bits(30)};
        address += list[i].length;
        vv_moved_encode(&buf, &coder, &list[i]);
    }
    vv_cursor_init(&cursor, buf.data, buf.size);
    for (int i = 0; i < MOST; i++) {
        assert_int_equal(vv_moved_decode(&cursor, &reader, &found, &error), 0);
        assert_int_equal(found.extent.owner, list[i].extent.owner);
        assert_true(found.extent.address == list[i].extent.address);
        assert_true(found.length == list[i].length);
        assert_int_equal(found.writer, list[i].writer);
    }
    assert_int_equal(vv_cursor_left(&cursor), 0);
    vv_buf_clear(&buf);
}

static void test_moved_must_ascend(void **state) {
    (void)state;
    static const struct vv_moved list[] = {
        {{.owner = 4, .address = 8192}, 10, 0},
        {{.owner = 4, .address = 8201}, 10, 0}, /* overlaps the first by a byte */
        {{.owner = 3, .address = 16384}, 10, 0},
    };
    for (int i = 1; i < 3; i++) {
        struct vv_extent_coder coder = {.owner = 3}, reader = coder;
        struct vv_moved found;
        struct varve_error error;
        struct vv_buf buf;
        struct vv_cursor cursor;
        vv_buf_init(&buf);
        vv_moved_encode(&buf, &coder, &list[0]);
        vv_moved_encode(&buf, &coder, &list[i]);
        vv_cursor_init(&cursor, buf.data, buf.size);
        assert_int_equal(vv_moved_decode(&cursor, &reader, &found, &error), 0);
        assert_int_equal(vv_moved_decode(&cursor, &reader, &found, &error), VARVE_CORRUPT);
        vv_buf_clear(&buf);
    }
}

static void test_codings(void **state) {
    static const struct {
        uint8_t codec, first, second, element;
        int expected;
        const char *word; /* in the message */
    } cases[] = {
        {0, 0, 0, 0, 0, NULL},
        {6, 0, 0, 0, 0, NULL},
        {1, 1, 0, 1, 0, NULL},
        {2, 3, 1, 16, 0, NULL},
        {6, 4, 2, 2, 0, NULL},
        {2, 4, 1, 12, 0, NULL},
        {2, 5, 1, 2, 0, NULL},
        {1, 2, 0, 24, 0, NULL},
        {3, 0, 0, 4, 0, NULL},
        {5, 0, 0, 8, 0, NULL},
        {7, 0, 0, 0, VARVE_UNKNOWN_FORMAT, "codec is 7"},
        {255, 9, 9, 9, VARVE_UNKNOWN_FORMAT, "codec is 255"},
        {2, 6, 0, 4, VARVE_UNKNOWN_FORMAT, "first filter is 6"},
        {2, 1, 6, 4, VARVE_UNKNOWN_FORMAT, "second filter is 6"},
        {0, 1, 0, 4, VARVE_CORRUPT, "without a codec"},
        {0, 0, 0, 4, VARVE_CORRUPT, "nothing needs elements"},
        {2, 0, 0, 8, VARVE_CORRUPT, "nothing needs elements"},
        {6, 0, 0, 1, VARVE_CORRUPT, "nothing needs elements"},
        {2, 1, 0, 0, VARVE_CORRUPT, "filters need elements"},
        {2, 1, 0, 3, VARVE_CORRUPT, "filters need elements"},
        {2, 1, 0, 32, VARVE_CORRUPT, "filters need elements"},
        {2, 1, 0, 48, VARVE_CORRUPT, "filters need elements"},
        {2, 0, 0, 24, VARVE_CORRUPT, "nothing needs elements"},
        {2, 0, 1, 4, VARVE_CORRUPT, "without a first"},
        {3, 0, 0, 0, VARVE_CORRUPT, "4 or 8"},
        {4, 0, 0, 2, VARVE_CORRUPT, "4 or 8"},
        {5, 0, 0, 16, VARVE_CORRUPT, "4 or 8"},
        {3, 0, 0, 12, VARVE_CORRUPT, "4 or 8"},
        {3, 1, 0, 4, VARVE_CORRUPT, "floating-point"},
    };
    struct vv_block block = {.offset = VV_HEAD_SIZE, .stored = 8, .raw = 8, .extent_count = 1}, parsed;
    struct vv_buf buf;
    (void)state;
    vv_buf_init(&buf);
    vv_block_encode(&buf, &block);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct varve_error error = {0};
        memcpy(buf.data + 4, &cases[i].codec, 4);
        int rc = vv_block_parse(buf.data, &parsed, &error);
        if (rc != cases[i].expected)
            print_message("case %zu: %d, %s\n", i, rc, error.text);
        assert_int_equal(rc, cases[i].expected);
        if (cases[i].word)
            assert_non_null(strstr(error.text, cases[i].word));
        else
            assert_memory_equal(&parsed.codec, &cases[i].codec, 4);
    }
    vv_buf_clear(&buf);
}

static uint64_t bits(double value) {
    uint64_t out;
    memcpy(&out, &value, sizeof out);
    return out;
}

static void random_range(struct vv_range *range) {
    static const uint8_t width[] = {0, 8, 8, 16, 16, 32, 32, 64, 64};
    *range = (struct vv_range){.type = (uint8_t)(1 + random_below(14))};
    if (range->type > 8) {
        double low = (double)(int64_t)random_u64() * 1e-9, high = low + (double)random_bits(60);
        range->flags = (uint8_t)random_below(2);
        range->low = bits(random_below(9) ? low : -INFINITY);
        range->high = bits(random_below(9) ? high : INFINITY);
        if (random_below(5) == 0)
            *range = (struct vv_range){.type = range->type, .flags = VV_RANGE_NAN | VV_RANGE_EMPTY};
        return;
    }
    uint64_t a = random_u64() >> (64 - width[range->type]), b = random_u64() >> (64 - width[range->type]);
    if (range->type % 2) {
        int64_t half = (int64_t)(UINT64_C(1) << (width[range->type] - 1));
        int64_t x = (int64_t)(a - (uint64_t)half), y = (int64_t)(b - (uint64_t)half);
        range->low = (uint64_t)(x < y ? x : y);
        range->high = (uint64_t)(x < y ? y : x);
    } else {
        range->low = a < b ? a : b;
        range->high = a < b ? b : a;
    }
}

static void compare_ranges(const struct vv_range *a, const struct vv_range *b) {
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->flags, b->flags);
    assert_true(a->low == b->low && a->high == b->high);
}

static void test_ranges(void **state) {
    (void)state;
    for (int round = 0; round < 300; round++) {
        struct vv_range made[MOST] = {0}, found[MOST];
        struct varve_error error;
        struct vv_buf buf;
        uint64_t count = random_below(MOST + 1);
        vv_buf_init(&buf);
        for (uint32_t i = 0; i < count; i++) {
            if (random_below(3)) {
                random_range(&made[i]);
                vv_range_encode(&buf, i, &made[i]);
            }
        }
        memset(found, 0xff, sizeof found);
        int rc = vv_ranges_parse(buf.data, buf.size, count, found, &error);
        if (rc < 0)
            print_message("%s\n", error.text);
        assert_int_equal(rc, 0);
        for (uint64_t i = 0; i < count; i++)
            compare_ranges(&made[i], &found[i]);
        for (size_t size = 0; size < buf.size; size++)
            if (size % VV_RANGE_ENTRY_SIZE)
                assert_int_equal(vv_ranges_parse(buf.data, size, count, found, &error), VARVE_CORRUPT);
        vv_buf_clear(&buf);
    }
}

static void test_ranges_refused(void **state) {
    struct {
        uint32_t block;
        struct vv_range range;
        uint8_t reserved;
        int expected;
    } cases[] = {
        {2, {.type = 10, .low = bits(-1), .high = bits(1)}, 0, 0},
        {2, {.type = 10, .low = bits(-0.0), .high = bits(0.0)}, 0, 0},
        {2, {.type = 9, .flags = 3}, 0, 0},
        {2, {.type = 1, .low = (uint64_t)-128, .high = 127}, 0, 0},
        {2, {.type = 7, .low = (uint64_t)INT64_MIN, .high = INT64_MAX}, 0, 0},
        {2, {.type = 8, .low = 0, .high = UINT64_MAX}, 0, 0},
        {1, {.type = 10, .low = bits(-1), .high = bits(1)}, 0, VARVE_CORRUPT}, /* the block before again */
        {0, {.type = 10, .low = bits(-1), .high = bits(1)}, 0, VARVE_CORRUPT},
        {3, {.type = 10, .low = bits(-1), .high = bits(1)}, 0, VARVE_CORRUPT}, /* there are three blocks */
        {UINT32_MAX, {.type = 10}, 0, VARVE_CORRUPT},
        {2, {.type = 0}, 0, VARVE_CORRUPT},
        {2, {.type = 15}, 0, VARVE_UNKNOWN_FORMAT},
        {2, {.type = 10, .flags = 4}, 0, VARVE_UNKNOWN_FORMAT},
        {2, {.type = 10}, 1, VARVE_UNKNOWN_FORMAT},
        {2, {.type = 10, .low = bits(1), .high = bits(-1)}, 0, VARVE_CORRUPT},
        {2, {.type = 10, .low = bits(NAN), .high = bits(1)}, 0, VARVE_CORRUPT},
        {2, {.type = 10, .low = bits(1), .high = bits(NAN)}, 0, VARVE_CORRUPT},
        {2, {.type = 10, .flags = 2}, 0, VARVE_CORRUPT},
        {2, {.type = 10, .flags = 3, .high = 1}, 0, VARVE_CORRUPT},
        {2, {.type = 5, .flags = 1}, 0, VARVE_CORRUPT},
        {2, {.type = 1, .low = 0, .high = 128}, 0, VARVE_CORRUPT},
        {2, {.type = 1, .low = (uint64_t)-129, .high = 0}, 0, VARVE_CORRUPT},
        {2, {.type = 7, .low = 1, .high = (uint64_t)-1}, 0, VARVE_CORRUPT},
        {2, {.type = 2, .low = 0, .high = 256}, 0, VARVE_CORRUPT},
        {2, {.type = 8, .low = UINT64_MAX, .high = 1}, 0, VARVE_CORRUPT},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct vv_range first = {.type = 4, .low = 7, .high = 65535};
        struct vv_range found[3];
        struct varve_error error = {0};
        struct vv_buf buf;
        vv_buf_init(&buf);
        vv_range_encode(&buf, 1, &first);
        vv_buf_u32(&buf, cases[i].block);
        vv_buf_u8(&buf, cases[i].range.type);
        vv_buf_u8(&buf, cases[i].range.flags);
        vv_buf_u8(&buf, 0);
        vv_buf_u8(&buf, cases[i].reserved);
        vv_buf_u64(&buf, cases[i].range.low);
        vv_buf_u64(&buf, cases[i].range.high);
        int rc = vv_ranges_parse(buf.data, buf.size, 3, found, &error);
        if (rc != cases[i].expected)
            print_message("case %zu: %d, %s\n", i, rc, error.text);
        assert_int_equal(rc, cases[i].expected);
        if (rc == 0) {
            compare_ranges(&found[1], &first);
            compare_ranges(&found[2], &cases[i].range);
        }
        assert_int_equal(vv_ranges_parse(buf.data, buf.size, 1, found, &error), VARVE_CORRUPT);
        vv_buf_clear(&buf);
    }
}

/* One ranges section, of no owner; other optional sections may be repeated. */
static void test_ranges_sections(void **state) {
    static const struct {
        uint32_t kind, owner;
        int expected;
    } cases[] = {{VV_SECTION_RANGES + 1, 3, 0}, {VV_SECTION_RANGES, 0, VARVE_CORRUPT}};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct tables t;
        struct vv_footer parsed;
        struct varve_error error;
        struct vv_buf buf;
        do {
            make_tables(&t);
            vv_buf_clear(&t.extents);
        } while (vv_footer_section(&t.footer, VV_SECTION_RANGES, 0));
        struct vv_section *last = &t.sections[t.footer.section_count - 1];
        uint64_t offset = last->offset + last->length;
        add_section(&t, VV_SECTION_RANGES, i == 2 ? 1 : 0, 24, &offset);
        if (i < 2)
            add_section(&t, cases[i].kind, cases[i].owner, 24, &offset);
        vv_buf_init(&buf);
        vv_footer_encode(&buf, offset, &t.footer, NULL);
        int rc = read_footer(&buf, offset, &parsed, &error);
        assert_int_equal(rc, i == 2 ? VARVE_CORRUPT : cases[i].expected);
        if (rc == 0)
            vv_footer_clear(&parsed);
        vv_buf_clear(&buf);
    }
}

static void test_no_memory(void **state) {
    (void)state;
#ifdef VARVE_FAULTS
    struct tables t = {0};
    struct vv_footer parsed;
    struct varve_error error;
    struct vv_buf buf;
    vv_buf_init(&buf);
    do {
        vv_buf_clear(&t.extents);
        make_tables(&t);
    } while (t.footer.parts == 0 || t.footer.dependency_count == 0);
    uint64_t offset = t.sections[t.footer.section_count - 1].offset + t.sections[t.footer.section_count - 1].length;
    vv_footer_encode(&buf, offset, &t.footer, NULL);
    for (uint64_t k = 1; k <= 3; k++) {
        vv_alloc_fail_at(k);
        assert_int_equal(read_footer(&buf, offset, &parsed, &error), -ENOMEM);
        vv_alloc_fail_at(0);
    }
    vv_buf_clear(&t.extents);
    vv_buf_clear(&buf);
#else
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_flips_and_truncations),
        cmocka_unit_test(test_tables_do_not_fit),
        cmocka_unit_test(test_every_extents_truncation),
        cmocka_unit_test(test_moved),
        cmocka_unit_test(test_moved_must_ascend),
        cmocka_unit_test(test_codings),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_ranges_refused),
        cmocka_unit_test(test_ranges_sections),
        cmocka_unit_test(test_no_memory),
    };
    random_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
