/* Blocks with codings and ranges: from the writer, over several parts, into the tables, copies, verify, and to who asks
 * what the blocks of a run hold. */
#include "store_data.h"

#include "format/values.h"
#include "read/view_private.h"
#include "store/pack_replica.h"

#define BLOCK 8192u
#define BLOCKS 8u
#define FIELD (BLOCKS * BLOCK - 4096u) /* the last block is shared with another region */
#define PART (96u + BLOCK + 1500u)     /* room for one block that is stored as it is, and some others */
#define TYPE 10                        /* f64 */
#define NO_RANGE 5u                    /* the block that gets none although it could */

static const struct vv_attempt attempt = {.generation = 1, .version = 5};
static double values[BLOCKS * BLOCK / 8];

static const struct vv_coding codings[] = {
    {.codec = VV_CODEC_NONE},
    {.codec = VV_CODEC_ZSTD, .filter = {VV_FILTER_DELTA, VV_FILTER_SHUFFLE}, .element = 8},
    {.codec = VV_CODEC_LZ4, .filter = {VV_FILTER_BITSHUFFLE}, .element = 8},
    {.codec = VV_CODEC_LZ4_ZSTD},
};

static void make_values(void) {
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        size_t block = i * 8 / BLOCK;
        values[i] = (double)(i % 50) + 1000.0 * (double)block;
    }
    values[3 * BLOCK / 8 + 7] = -1e300;
    uint64_t nan = UINT64_C(0x7ff8000000000000);
    memcpy(&values[2 * BLOCK / 8], &nan, sizeof nan);
}

static const uint8_t *bytes_at(uint64_t address) {
    return (const uint8_t *)values + address;
}

static struct vv_range range_at(uint32_t block) {
    struct vv_range range = {0};
    if (block != NO_RANGE && block != BLOCKS - 1)
        vv_values_range(TYPE, bytes_at(block * BLOCK), BLOCK, &range);
    return range;
}

/* The block's bytes are those of its extents, one after another. */
static void put_typed(struct vv_pack_writer *pack, uint32_t number, const struct vv_extent *extents, uint32_t count) {
    struct vv_block block = {.owner = extents[0].owner, .raw = BLOCK, .range = range_at(number)};
    struct vv_coding coding = codings[number % 4];
    uint8_t raw[BLOCK], stored[BLOCK];
    struct vv_coder *coder;
    uint32_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(raw + at, bytes_at(extents[i].address), extents[i].length);
        at += extents[i].length;
    }
    assert_int_equal(at, BLOCK);
    assert_ok(vv_coder_create(&coder));
    int64_t size =
        coding.codec ? vv_coder_encode(coder, &coding, &(struct vv_content){.type = TYPE}, raw, BLOCK, stored, 1) : 0;
    vv_coder_destroy(coder);
    assert_true(size >= 0 && (size > 0) == (coding.codec != 0));
    block.codec = coding.codec;
    memcpy(block.filter, coding.filter, sizeof block.filter);
    block.element = coding.element;
    block.stored = size ? (uint32_t)size : BLOCK;
    assert_ok(vv_pack_block(pack, &block, size ? stored : raw, extents, count, NULL, 0, &failure));
}

static void put_blocks(struct vv_pack_writer *pack, uint32_t owner) {
    for (uint32_t i = 0; i < BLOCKS; i++) {
        struct vv_extent whole = {.owner = owner, .address = i * BLOCK, .length = BLOCK};
        struct vv_extent halves[2] = {{.owner = owner, .address = i * BLOCK + 4096, .length = 4096},
                                      {.owner = owner, .address = i * BLOCK, .length = 4096}};
        if (i == 6)
            put_typed(pack, i, halves, 2);
        else
            put_typed(pack, i, &whole, 1);
    }
}

static void put_regions(struct vv_store *store, struct vv_pack_writer *pack, uint32_t owner) {
    struct mf mf;
    mf_begin(&mf, owner, owner ? 0 : BLOCKS * BLOCK);
    if (owner == 0) {
        mf_region(&mf, 1, "field", 0, FIELD, VV_REGION_DESCRIBED);
        mf_run(&mf, VV_RUN_HERE, FIELD, NULL, 0);
        vv_manifest_region_end(&mf.writer, region_digest(store, bytes_at(0), FIELD));
        mf_region(&mf, 2, "other", FIELD, 4096, VV_REGION_DESCRIBED);
        mf_run(&mf, VV_RUN_HERE, 4096, NULL, 0);
        vv_manifest_region_end(&mf.writer, region_digest(store, bytes_at(FIELD), 4096));
        mf.head.regions = 2;
        mf.head.protected_bytes = BLOCKS * BLOCK;
    }
    mf_store(&mf, pack, NULL);
}

/* Two writers, each the other's partner if asked for; all data is owner 0's. */
static struct vv_store *write_checkpoint(int has_partner, uint64_t part_size) {
    struct vv_store *store = new_store();
    make_values();
    for (uint32_t writer = 0; writer < 2; writer++) {
        struct vv_pack_options options = {.writer = writer,
                                          .writers = 2,
                                          .ranks = 2,
                                          .first_owner = writer,
                                          .owners = 1,
                                          .partner_count = (uint32_t)has_partner,
                                          .partners = {has_partner ? 1 - writer : 0},
                                          .part_size = part_size};
        struct vv_pack_writer *pack = begin_pack(store, attempt, &options);
        if (writer == 0 || has_partner)
            put_blocks(pack, 0);
        assert_ok(vv_pack_dependencies(pack, NULL, 0, &failure));
        put_regions(store, pack, writer);
        assert_ok(vv_pack_seal(pack, writer ? 0 : BLOCKS * BLOCK, writer ? 0 : 2, NULL, &failure));
    }
    commit(store, attempt, NULL);
    return store;
}

/* ---- what the blocks of a region hold ---- */

struct seen {
    uint64_t next; /* in the run */
    uint32_t pieces;
    uint32_t writer;
    int stop_after;
};

static int see(void *arg, const struct vv_block_piece *piece) {
    struct seen *seen = arg;
    uint32_t number = (uint32_t)(piece->address / BLOCK);
    const struct vv_coding *coding = &codings[number % 4];
    struct vv_range range = range_at(number);
    assert_int_equal(piece->offset, seen->next);
    assert_int_equal(piece->address, piece->offset);
    assert_true(piece->length > 0);
    assert_int_equal(piece->raw, number == 6 ? (piece->address % BLOCK ? 0 : 4096) : piece->address % BLOCK);
    assert_int_equal(piece->block->raw, BLOCK);
    assert_int_equal(piece->block->codec, coding->codec);
    assert_memory_equal(piece->block->filter, coding->filter, 2);
    assert_int_equal(piece->block->element, coding->element);
    assert_int_equal(piece->block->range.type, range.type);
    assert_int_equal(piece->block->range.flags, range.flags);
    assert_true(piece->block->range.low == range.low && piece->block->range.high == range.high);
    assert_true(piece->first == number * BLOCK && piece->end == (number + 1) * BLOCK);
    assert_int_equal(piece->is_mixed, 0);
    assert_int_equal(piece->writer, seen->writer);
    seen->next += piece->length;
    seen->pieces++;
    return seen->stop_after && seen->pieces == (uint32_t)seen->stop_after ? 77 : 0;
}

static int see_field(struct vv_store *store, struct seen *seen) {
    struct vv_view *view = NULL;
    struct vv_recipe *recipe = NULL;
    struct vv_recipe_region region;
    struct vv_run run;
    vv_error_clear(&failure);
    int rc = vv_view_open(store, NAME, attempt.generation, attempt.version, &view, &failure);
    if (rc == 0)
        rc = vv_recipe_open(view, 0, &recipe, &failure);
    if (rc == 0)
        rc = vv_recipe_next_region(recipe, &region, &failure);
    if (rc > 0)
        rc = vv_recipe_next_run(recipe, &run, &failure);
    if (rc > 0) {
        assert_int_equal(run.length, FIELD);
        rc = vv_view_blocks(view, &run, see, seen, &failure);
    }
    vv_recipe_close(recipe);
    vv_view_close(view);
    return rc;
}

static void check_field(struct vv_store *store, uint32_t writer) {
    struct seen seen = {.writer = writer};
    assert_ok(see_field(store, &seen));
    assert_int_equal(seen.next, FIELD);
    assert_int_equal(seen.pieces, BLOCKS + 1); /* one block in two halves, and half of the last */
}

static void test_parts(void **state) {
    (void)state;
    static const uint64_t part_sizes[] = {1u << 30, PART, 96 + BLOCK, 1000};
    for (size_t i = 0; i < sizeof part_sizes / sizeof part_sizes[0]; i++) {
        struct vv_store *store = write_checkpoint(0, part_sizes[i]);
        struct vv_pack_id id = {.store = store, .name = NAME, .attempt = attempt};
        struct vv_footer footer;
        assert_ok(vv_pack_footer_load(&id, VV_KIND_PACK, NULL, &footer, NULL, &failure));
        assert_int_equal(footer.parts > 0, i > 0);
        const struct vv_section *last = &footer.sections[footer.section_count - 1];
        assert_int_equal(last->kind, VV_SECTION_RANGES);
        assert_int_equal(last->length, (BLOCKS - 2) * VV_RANGE_ENTRY_SIZE);
        vv_footer_clear(&footer);
        check_field(store, 0);
        assert_int_equal(read_all(store, attempt.version), 0);
        struct findings findings;
        assert_int_equal(verify(store, NULL, 0, &findings).damaged_objects, 0);
        vv_store_close(store);
    }
}

/* No range, no section; a run of zeros has no blocks; a nonzero answer ends the walk. */
static void test_without(void **state) {
    (void)state;
    struct vv_store *store = write_checkpoint(0, 1u << 30);
    struct vv_pack_id id = {.store = store, .name = NAME, .attempt = attempt, .writer = 1};
    struct vv_footer footer;
    assert_ok(vv_pack_footer_load(&id, VV_KIND_PACK, NULL, &footer, NULL, &failure));
    assert_null(vv_footer_section(&footer, VV_SECTION_RANGES, 0));
    vv_footer_clear(&footer);
    struct seen seen = {.stop_after = 3};
    assert_int_equal(see_field(store, &seen), 77);
    assert_int_equal(seen.pieces, 3);
    struct vv_view *view;
    struct vv_run run = {.kind = VV_RUN_ZERO, .length = 5};
    assert_ok(vv_view_open(store, NAME, 1, attempt.version, &view, &failure));
    assert_int_equal(vv_view_blocks(view, &run, see, &seen, &failure), 0);
    run.kind = VV_RUN_KEEP;
    assert_int_equal(vv_view_blocks(view, &run, see, &seen, &failure), -EINVAL);
    /* of what is repeated, only the piece */
    seen = (struct seen){0};
    run = (struct vv_run){.kind = VV_RUN_REPEATED, .length = 1u << 30, .piece = 100, .place_count = 1};
    assert_int_equal(vv_view_blocks(view, &run, see, &seen, &failure), 0);
    assert_int_equal(seen.next, 100);
    /* a place that is not there */
    run = (struct vv_run){.kind = VV_RUN_FROM, .length = 8, .place_count = 1, .places = {{.address = BLOCKS * BLOCK}}};
    assert_int_equal(vv_view_blocks(view, &run, see, &seen, &failure), VARVE_CORRUPT);
    /* one that is, as second choice */
    run.place_count = 2;
    run.kind = VV_RUN_FROM_ANY;
    seen = (struct seen){0};
    assert_int_equal(vv_view_blocks(view, &run, see, &seen, &failure), 0);
    vv_view_close(view);
    vv_store_close(store);
}

static void test_range_must_be_right(void **state) {
    (void)state;
    static const struct vv_range bad[] = {{.type = 15}, {.type = 1, .low = 5, .high = 4}, {.type = 8, .flags = 1}};
    for (int i = 0; i < 3; i++) {
        struct vv_store *store = new_store();
        struct vv_pack_options options = one_writer();
        struct vv_pack_writer *pack = begin_pack(store, attempt, &options);
        struct vv_extent extent = {.length = 8};
        struct vv_block block = {.raw = 8, .stored = 8, .range = bad[i]};
        assert_int_equal(vv_pack_block(pack, &block, "8 bytes.", &extent, 1, NULL, 0, &failure), -EINVAL);
        vv_pack_abort(pack);
        vv_store_close(store);
    }
}

/* ---- lost and damaged ---- */

static void put_copy(struct vv_store *store, uint32_t writer) {
    struct vv_buf bytes;
    vv_buf_init(&bytes);
    assert_ok(vv_pack_replica_read(store, NAME, &attempt, writer, &bytes, &failure));
    assert_ok(vv_pack_replica_create(store, NAME, &attempt, writer, bytes.data, bytes.size, &failure));
    vv_buf_clear(&bytes);
}

static void change_byte(struct vv_store *store, int kind, uint32_t writer, uint64_t from_end) {
    struct vv_key key = vv_attempt_key(NAME, &attempt, kind, writer, 0);
    struct vv_buf buf;
    get_object(store, &key, &buf);
    buf.data[buf.size - from_end] ^= 1;
    put_object(store, &key, &buf);
}

static uint64_t ranges_from_end(struct vv_store *store) {
    struct vv_pack_id id = {.store = store, .name = NAME, .attempt = attempt};
    struct vv_footer footer;
    uint64_t length;
    assert_ok(vv_pack_footer_load(&id, VV_KIND_PACK, NULL, &footer, &length, &failure));
    uint64_t at = length - vv_footer_section(&footer, VV_SECTION_RANGES, 0)->offset;
    vv_footer_clear(&footer);
    return at;
}

/* The section is damaged: verify says so, who asks gets an error, the data is read as ever; a copy helps. */
static void test_damaged_section(void **state) {
    (void)state;
    struct vv_store *store = write_checkpoint(0, PART);
    uint64_t at = ranges_from_end(store);
    struct findings findings;
    struct seen seen = {0};
    put_copy(store, 0);
    change_byte(store, VV_KIND_PACK, 0, at);
    check_field(store, 0);
    assert_true(verify(store, NULL, 0, &findings).damaged_objects > 0);
    change_byte(store, VV_KIND_COPY, 0, at);
    assert_int_equal(see_field(store, &seen), VARVE_CORRUPT);
    assert_int_equal(seen.pieces, 0);
    assert_int_equal(read_all(store, attempt.version), 0);
    assert_int_equal(verify(store, NULL, 0, &findings).damaged_objects, 2);
    change_byte(store, VV_KIND_PACK, 0, at);
    assert_int_equal(verify(store, NULL, 0, &findings).damaged_objects, 1);
    vv_store_close(store);
}

/* The pack is gone: tables and ranges come from its copy. */
static void test_lost_pack(void **state) {
    (void)state;
    struct vv_store *store = write_checkpoint(1, PART);
    char key[VV_KEY_CAPACITY];
    struct vv_key pack = vv_attempt_key(NAME, &attempt, VV_KIND_PACK, 0, 0);
    put_copy(store, 0);
    vv_key_print(&pack, key);
    assert_ok(vv_backend_remove(store->backend, key));
    check_field(store, 0);
    vv_store_close(store);
}

static uint8_t *ranges_of(struct surgery *s) {
    return s->section[s->footer.section_count - 1].data;
}

static void cut_low(struct surgery *s, int is_footer_encoded) {
    double low = -5;
    if (!is_footer_encoded)
        memcpy(ranges_of(s) + VV_RANGE_ENTRY_SIZE + 8, &low, sizeof low);
}

static void cut_type(struct surgery *s, int is_footer_encoded) {
    if (!is_footer_encoded)
        ranges_of(s)[4] = 9; /* f32: the values are others then */
}

static void cut_unknown(struct surgery *s, int is_footer_encoded) {
    if (!is_footer_encoded)
        ranges_of(s)[5] = 8;
}

static void cut_order(struct surgery *s, int is_footer_encoded) {
    if (!is_footer_encoded)
        ranges_of(s)[VV_RANGE_ENTRY_SIZE] = 0;
}

static void cut_length(struct surgery *s, int is_footer_encoded) {
    if (!is_footer_encoded)
        s->section[s->footer.section_count - 1].size--;
}

/* Well-signed nonsense. */
static void test_untrue(void **state) {
    static const struct {
        cut_fn cut;
        int seen;
        int is_unknown;
        const char *word;
    } cases[] = {{cut_low, 0, 0, "range is not that"},
                 {cut_type, 0, 0, "range is not that"},
                 {cut_unknown, VARVE_UNKNOWN_FORMAT, 1, "flags are not known"},
                 {cut_order, VARVE_CORRUPT, 0, "block is 0"},
                 {cut_length, VARVE_CORRUPT, 0, "section has"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct vv_store *store = write_checkpoint(0, PART);
        struct findings findings;
        operate(store, attempt, 0, cases[i].cut);
        verify(store, NULL, 0, &findings);
        if (!strstr(findings.text, cases[i].word))
            fail_msg("case %zu: %s", i, findings.text);
        if (cases[i].seen) {
            struct seen seen = {0};
            assert_int_equal(see_field(store, &seen), cases[i].seen);
        }
        assert_int_equal(read_all(store, attempt.version), 0);
        vv_store_close(store);
    }
}

static void test_no_memory(void **state) {
    (void)state;
#ifdef VARVE_FAULTS
    struct vv_store *store = write_checkpoint(0, PART);
    int rc = -ENOMEM;
    for (uint64_t k = 1; rc == -ENOMEM; k++) {
        struct seen seen = {0};
        assert_true(k < 1000);
        vv_alloc_fail_at(k);
        rc = see_field(store, &seen);
        vv_alloc_fail_at(0);
    }
    assert_int_equal(rc, 0);
    vv_store_close(store);
#else
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_without),
        cmocka_unit_test(test_range_must_be_right),
        cmocka_unit_test(test_damaged_section),
        cmocka_unit_test(test_lost_pack),
        cmocka_unit_test(test_untrue),
        cmocka_unit_test(test_no_memory),
    };
    random_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
