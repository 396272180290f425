/* Stores made by an enemy: all sums and digests are right, what they say is wrong. Each must be refused, with the
 * defect named, without memory being taken for what is not there; verify must report it. */
#include "store_data.h"

#include <sys/resource.h>
#include <unistd.h>
#include <zstd.h>

#define BLOCK 4096u
#define SIZE (3 * BLOCK)

enum { S_BLOCKS, S_EXTENTS, S_IDS, S_MANIFEST }; /* sections of a pack with one owner */

static uint8_t content[SIZE];
static const struct vv_place nowhere = {.dependency = 0, .owner = 0, .address = 1 << 20};

/* Version 1: a base of one region. Version 2: an overlay that keeps the first half of it. */
static void write_base(struct vv_store *store, struct vv_dependency *dependency, struct vv_hash128 *digest) {
    struct vv_pack_options options = one_writer();
    struct vv_pack_writer *pack = begin_pack(store, attempt_at(1, 1), &options);
    struct mf mf;
    for (unsigned i = 0; i < 3; i++)
        put_extent(store, pack, 0, i * BLOCK, content + i * BLOCK, BLOCK, i ? VV_CODEC_NONE : VV_CODEC_ZSTD, 1);
    mf_begin(&mf, 0, SIZE);
    mf_region(&mf, 1, "bytes", 0, SIZE, VV_REGION_DESCRIBED);
    mf_run(&mf, VV_RUN_HERE, SIZE, NULL, 0);
    vv_manifest_region_end(&mf.writer, region_digest(store, content, SIZE));
    mf.head.regions = 1;
    mf.head.protected_bytes = SIZE;
    mf_store(&mf, pack, digest);
    assert_ok(vv_pack_seal(pack, SIZE, 1, NULL, &failure));
    commit(store, attempt_at(1, 1), dependency);
}

static void write_overlay(struct vv_store *store, const struct vv_dependency *dependency, struct vv_hash128 base) {
    struct vv_pack_options options = one_writer();
    struct vv_pack_writer *pack = begin_pack(store, attempt_at(1, 2), &options);
    struct mf mf;
    options.parent = dependency->attempt;
    put_extent(store, pack, 0, 2 * BLOCK, content + 2 * BLOCK, BLOCK, VV_CODEC_NONE, 1);
    assert_ok(vv_pack_dependencies(pack, dependency, 1, &failure));
    mf_begin(&mf, 0, SIZE);
    mf_region(&mf, 1, "", 0, SIZE, 0);
    mf_run(&mf, VV_RUN_KEEP, 2 * BLOCK, NULL, 0);
    mf_run(&mf, VV_RUN_HERE, BLOCK, NULL, 0);
    vv_manifest_region_end(&mf.writer, region_digest(store, content, SIZE));
    mf.head.regions = 1;
    mf.head.protected_bytes = SIZE;
    mf.head.lower_count = 1;
    mf.head.lower[0] = (struct vv_layer_ref){.dependency = 1, .digest = base};
    mf_store(&mf, pack, NULL);
    assert_ok(vv_pack_seal(pack, SIZE, 1, NULL, &failure));
    commit(store, attempt_at(1, 2), NULL);
}

/* ---- cuts ---- */

#define BLOCK_CUT(name, ...)                                                                                           \
    static void name(struct surgery *s, int is_footer_encoded) {                                                       \
        uint8_t *b = s->section[S_BLOCKS].data;                                                                        \
        if (!is_footer_encoded) {                                                                                      \
            (void)b;                                                                                                   \
            __VA_ARGS__;                                                                                               \
        }                                                                                                              \
    }
#define FOOTER_CUT(name, ...)                                                                                          \
    static void name(struct surgery *s, int is_footer_encoded) {                                                       \
        uint8_t *f = s->footer_bytes.data;                                                                             \
        if (is_footer_encoded) {                                                                                       \
            (void)f;                                                                                                   \
            __VA_ARGS__;                                                                                               \
        }                                                                                                              \
    }

BLOCK_CUT(raw_is_2_gib, vv_put32(b + 64 + 20, 1u << 31))
BLOCK_CUT(raw_is_larger, vv_put32(b + 20, 8192))
BLOCK_CUT(stored_is_larger, vv_put32(b + 64 + 16, 5000))
BLOCK_CUT(codec_is_9, b[64 + 4] = 9)
BLOCK_CUT(filter_is_9, b[64 + 5] = 9)
BLOCK_CUT(filter_is_1, b[64 + 5] = 1)
BLOCK_CUT(offset_is_far, vv_put64(b + 64 + 8, UINT64_C(1) << 60))
BLOCK_CUT(blocks_overlap, vv_put64(b + 128 + 8, vv_get64(b + 64 + 8)))
BLOCK_CUT(part_is_7, vv_put32(b + 128, 7))
BLOCK_CUT(extents_are_many, vv_put32(b + 64 + 40, UINT32_MAX))
BLOCK_CUT(extents_are_more, vv_put32(b + 64 + 40, 3000))
BLOCK_CUT(ids_are_elsewhere, vv_put64(b + 64 + 48, UINT64_C(1) << 59))
BLOCK_CUT(block_flags, vv_put32(b + 44, 0x80))
BLOCK_CUT(blocks_are_cut, s->section[S_BLOCKS].size -= 7)
BLOCK_CUT(ids_are_cut, s->section[S_IDS].size -= 16)
BLOCK_CUT(blocks_are_gone, s->section[S_BLOCKS].size = 0)

static void set_extents(struct surgery *s, const struct vv_extent extents[3]) {
    uint8_t *blocks = s->section[S_BLOCKS].data;
    s->section[S_EXTENTS].size = 0;
    for (unsigned i = 0; i < 3; i++) {
        struct vv_extent_coder coder = {.owner = extents[i].owner};
        vv_put64(blocks + i * 64 + 32, s->section[S_EXTENTS].size);
        vv_put32(blocks + i * 64 + 56, extents[i].owner);
        vv_extent_encode(&s->section[S_EXTENTS], &coder, &extents[i]);
    }
}
#define EXTENTS_CUT(name, ...)                                                                                         \
    static void name(struct surgery *s, int is_footer_encoded) {                                                       \
        const struct vv_extent extents[3] = {__VA_ARGS__};                                                             \
        if (!is_footer_encoded)                                                                                        \
            set_extents(s, extents);                                                                                   \
    }
EXTENTS_CUT(extents_overlap, {0, 0, BLOCK}, {0, BLOCK, BLOCK}, {0, BLOCK, BLOCK})
EXTENTS_CUT(extents_miss, {0, 0, BLOCK}, {0, 5 * BLOCK, BLOCK}, {0, 2 * BLOCK, BLOCK})
EXTENTS_CUT(extents_are_short, {0, 0, BLOCK}, {0, BLOCK, BLOCK - 1}, {0, 2 * BLOCK, BLOCK})
EXTENTS_CUT(extents_are_crooked, {0, 0, BLOCK}, {0, BLOCK + 1, BLOCK}, {0, 3 * BLOCK, BLOCK})
EXTENTS_CUT(extents_of_nobody, {0, 0, BLOCK}, {99, BLOCK, BLOCK}, {0, 2 * BLOCK, BLOCK})

static void extents_at_the_end(struct surgery *s, int is_footer_encoded) {
    if (is_footer_encoded)
        return;
    struct vv_buf *extents = &s->section[S_EXTENTS];
    extents->size = vv_get64(s->section[S_BLOCKS].data + 128 + 32);
    vv_buf_varint(extents, 2 * BLOCK);
    vv_buf_svarint(extents, INT64_MAX);
}

FOOTER_CUT(footer_sections_many, vv_put32(f + 120, 0x7fffffff))
FOOTER_CUT(footer_dependencies_many, vv_put32(f + 116, 1048576))
FOOTER_CUT(footer_parts_many, vv_put32(f + 112, 1048576))
FOOTER_CUT(footer_owners, vv_put32(f + 36, 0xffffffff))
FOOTER_CUT(footer_partners, vv_put32(f + 40, 2))
FOOTER_CUT(footer_settings, vv_put64(f + 8, vv_get64(f + 8) + 1))
FOOTER_CUT(footer_name, f[128 + 2] = '.')
/* sections are the last 160 bytes of the footer */
FOOTER_CUT(section_is_2_to_60, vv_put64(f + s->footer_bytes.size - VV_END_SIZE - 40 + 16, UINT64_C(1) << 60))
FOOTER_CUT(section_is_elsewhere, vv_put64(f + s->footer_bytes.size - VV_END_SIZE - 160 + 8, UINT64_C(1) << 61))
FOOTER_CUT(section_kind_6, vv_put32(f + s->footer_bytes.size - VV_END_SIZE - 40, 6))
FOOTER_CUT(section_of_owner_5, vv_put32(f + s->footer_bytes.size - VV_END_SIZE - 40 + 4, 5))

static void dependency_on_itself(struct surgery *s, int is_footer_encoded) {
    if (!is_footer_encoded)
        s->footer.dependencies[0].attempt = attempt_at(1, 2);
}
static void dependency_on_stranger(struct surgery *s, int is_footer_encoded) {
    if (!is_footer_encoded)
        s->footer.dependencies[0].attempt.generation = 0,
        s->footer.dependencies[0].attempt = (struct vv_attempt){1, 7, 1};
}
static void dependency_on_other_list(struct surgery *s, int is_footer_encoded) {
    if (!is_footer_encoded)
        s->footer.dependencies[0].writers_digest.low ^= 1;
}

/* Manifest heads: owner 0, lower 4, regions 8, bytes 16, layout 24, entries 32, runs 40, layers 48. */
#define MANIFEST_CUT(name, ...)                                                                                        \
    static void name(struct surgery *s, int is_footer_encoded) {                                                       \
        uint8_t *m = s->section[S_MANIFEST].data;                                                                      \
        if (!is_footer_encoded) {                                                                                      \
            (void)m;                                                                                                   \
            __VA_ARGS__;                                                                                               \
        }                                                                                                              \
    }
MANIFEST_CUT(manifest_of_other, vv_put32(m, 1))
MANIFEST_CUT(regions_lie, vv_put64(m + 8, 2); vv_put64(m + 32, 2))
MANIFEST_CUT(regions_many, vv_put64(m + 8, UINT64_C(1) << 31); vv_put64(m + 32, UINT64_C(1) << 31))
MANIFEST_CUT(bytes_lie, vv_put64(m + 16, SIZE - 1))
MANIFEST_CUT(runs_lie, vv_put64(m + 40, UINT64_C(1) << 40))
MANIFEST_CUT(layout_is_small, vv_put64(m + 24, BLOCK); vv_put64(m + 16, BLOCK))
MANIFEST_CUT(layers_are_9, vv_put32(m + 4, 9))
MANIFEST_CUT(layer_of_dependency_7, vv_put32(m + 48, 7))
MANIFEST_CUT(layer_of_writer_3, vv_put32(m + 52, 3))
MANIFEST_CUT(layer_is_wrong, m[56] ^= 1)
MANIFEST_CUT(layer_is_itself, vv_put32(m + 48, 0))
MANIFEST_CUT(layer_twice, vv_put32(m + 4, 2); memcpy(m + 72, m + 48, 24))
MANIFEST_CUT(overlay_regions_lie, vv_put64(m + 8, 2))
MANIFEST_CUT(overlay_bytes_lie, vv_put64(m + 16, SIZE - 1))

/* A manifest of our own making. */
static void sew(struct surgery *s, struct mf *mf, uint64_t regions, uint64_t bytes) {
    struct vv_buf *section = &s->section[S_MANIFEST];
    struct vv_manifest_head old, *head = &mf->head;
    assert_ok(vv_manifest_head_parse(section->data, section->size, &old, &failure));
    head->lower_count = old.lower_count;
    memcpy(head->lower, old.lower, sizeof old.lower);
    head->regions = regions;
    head->protected_bytes = bytes;
    head->entries = mf->writer.entries;
    head->runs = mf->writer.runs;
    section->size = 0;
    vv_manifest_head_encode(section, head);
    vv_buf_append(section, mf->buf.data, mf->buf.size);
    vv_buf_clear(&mf->buf);
}
#define SEW(name, layout, regions, bytes, ...)                                                                         \
    static void name(struct surgery *s, int is_footer_encoded) {                                                       \
        struct mf mf;                                                                                                  \
        struct vv_hash128 digest = {0, 0};                                                                             \
        if (is_footer_encoded)                                                                                         \
            return;                                                                                                    \
        mf_begin(&mf, 0, layout);                                                                                      \
        __VA_ARGS__;                                                                                                   \
        sew(s, &mf, regions, bytes);                                                                                   \
    }
#define REGION(number, name, address, length) mf_region(&mf, number, name, address, length, VV_REGION_DESCRIBED)
#define END vv_manifest_region_end(&mf.writer, digest)

SEW(run_points_outside, SIZE, 1, SIZE, REGION(1, "a", 0, SIZE); mf_run(&mf, VV_RUN_FROM, SIZE, &nowhere, 0); END)
SEW(run_leaves_extent, 4 * BLOCK, 1, 4 * BLOCK, REGION(1, "a", 0, 4 * BLOCK);
    mf_run(&mf, VV_RUN_HERE, 4 * BLOCK, NULL, 0); END)
SEW(region_is_2_to_60, UINT64_C(1) << 61, 1, UINT64_C(1) << 60, REGION(1, "a", 0, UINT64_C(1) << 60);
    mf_run(&mf, VV_RUN_HERE, UINT64_C(1) << 60, NULL, 0); END)
SEW(names_are_equal, SIZE, 2, 2 * BLOCK, REGION(1, "same", 0, BLOCK); mf_run(&mf, VV_RUN_HERE, BLOCK, NULL, 0); END;
    REGION(2, "same", BLOCK, BLOCK); mf_run(&mf, VV_RUN_HERE, BLOCK, NULL, 0); END)
SEW(regions_overlap, SIZE, 2, 4 * BLOCK - BLOCK, REGION(1, "a", 0, 2 * BLOCK);
    mf_run(&mf, VV_RUN_HERE, 2 * BLOCK, NULL, 0); END; REGION(2, "b", BLOCK, BLOCK);
    mf_run(&mf, VV_RUN_HERE, BLOCK, NULL, 0); END)
SEW(owner_is_nobody, SIZE, 1, BLOCK, REGION(1, "a", 0, BLOCK); struct vv_place place = {.owner = 77};
    mf_run(&mf, VV_RUN_FROM, BLOCK, &place, 0); END)
SEW(copy_is_none, SIZE, 1, BLOCK, REGION(1, "a", 0, BLOCK);
    struct vv_run run = {.kind = VV_RUN_FROM_ANY, .length = BLOCK, .place_count = 2};
    run.places[0].copy = run.places[1].copy = 3; vv_manifest_run(&mf.writer, &run); END)
SEW(removed_never_was, SIZE, 1, SIZE, struct vv_region_entry entry = {.number = 9, .flags = VV_REGION_REMOVED};
    vv_manifest_region(&mf.writer, &entry, 0); (void)digest)
SEW(not_described, 8 * BLOCK, 2, SIZE + BLOCK, mf_region(&mf, 9, "", 0, BLOCK, 0);
    mf_run(&mf, VV_RUN_ZERO, BLOCK, NULL, 0); END)
SEW(keeps_too_much, 8 * BLOCK, 1, 4 * BLOCK, REGION(1, "a", 4 * BLOCK, 4 * BLOCK);
    mf_run(&mf, VV_RUN_KEEP, 4 * BLOCK, NULL, 0); END)
SEW(keeps_nothing, 8 * BLOCK, 2, SIZE + BLOCK, REGION(5, "new", 4 * BLOCK, BLOCK);
    mf_run(&mf, VV_RUN_KEEP, BLOCK, NULL, 0); END)
SEW(name_of_below, 8 * BLOCK, 2, SIZE + BLOCK, REGION(5, "bytes", 4 * BLOCK, BLOCK);
    mf_run(&mf, VV_RUN_ZERO, BLOCK, NULL, 0); END)
SEW(address_of_below, 8 * BLOCK, 2, SIZE + BLOCK, REGION(5, "b", BLOCK, BLOCK);
    mf_run(&mf, VV_RUN_ZERO, BLOCK, NULL, 0); END)

/* The base's only entry: number, flags, varint length (2 bytes: 12288), text16 name at 120 + 4. */
MANIFEST_CUT(name_is_4_kib, vv_put16(m + 124, 4096))
MANIFEST_CUT(name_is_empty, vv_put16(m + 124, 0))
MANIFEST_CUT(name_has_nul, m[127] = 0)
MANIFEST_CUT(region_length_lies, m[122] ^= 1)

/* ---- bombs: what a block decodes to ---- */

static void replace_first_block(struct surgery *s, const uint8_t *stored, uint32_t size) {
    uint8_t *blocks = s->section[S_BLOCKS].data;
    uint32_t old = vv_get32(blocks + 16);
    struct vv_buf body;
    vv_buf_init(&body);
    vv_buf_append(&body, stored, size);
    vv_buf_append(&body, s->body.data + old, s->body.size - old);
    vv_buf_clear(&s->body);
    s->body = body;
    vv_put32(blocks + 16, size);
    vv_put64(blocks + 24, vv_sum64(stored, size));
    for (unsigned i = 1; i < 3; i++)
        vv_put64(blocks + i * 64 + 8, vv_get64(blocks + i * 64 + 8) + size - old);
    blocks[4] = VV_CODEC_ZSTD;
    s->footer.stored_bytes = s->footer.stored_bytes + size - old;
}
static void zstd_of(struct surgery *s, size_t raw_size) {
    uint8_t *raw = calloc(1, raw_size), *stored = malloc(ZSTD_compressBound(raw_size));
    size_t size = ZSTD_compress(stored, ZSTD_compressBound(raw_size), raw, raw_size, 1);
    assert_true(size < BLOCK);
    replace_first_block(s, stored, (uint32_t)size);
    free(raw);
    free(stored);
}
MANIFEST_CUT(bomb_of_16_mib, zstd_of(s, 16u << 20))
MANIFEST_CUT(block_too_short, zstd_of(s, BLOCK - 1))
MANIFEST_CUT(block_is_noise, uint8_t noise[100]; memset(noise, 0xa7, sizeof noise); replace_first_block(s, noise, 100))
static void bomb_of_1_tib(struct surgery *s, int is_footer_encoded) {
    /* magic, descriptor: 8-byte content size, window 2^20; then one RLE block of 128 KiB, last */
    static const uint8_t frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0xc0, 0x50, 0, 0, 0, 0, 0, 1, 0, 0, 0x03, 0x00, 0x10, 0x55};
    if (!is_footer_encoded)
        replace_first_block(s, frame, sizeof frame);
}
MANIFEST_CUT(moved_is_last, s->footer.sections[S_IDS + 1].kind = VV_SECTION_MOVED; (void)m)
MANIFEST_CUT(feature_unknown, s->required = 4)
MANIFEST_CUT(feature_of_drafts, s->required = 1)

struct hostile {
    const char *name;
    uint64_t version; /* which pack is cut; both are read */
    cut_fn cut;
    int code;
    const char *text; /* in the message */
};
#define CASE(version, cut, code, text)                                                                                 \
    { #cut, version, cut, code, text }
static const struct hostile cases[] = {
    CASE(1, raw_is_2_gib, VARVE_CORRUPT, "raw length is 2147483648"),
    CASE(1, raw_is_larger, VARVE_CORRUPT, "blocks have 16384 bytes"),
    CASE(1, stored_is_larger, VARVE_CORRUPT, "stored length is 5000"),
    CASE(1, codec_is_9, VARVE_UNKNOWN_FORMAT, "codec is 9"),
    CASE(1, filter_is_9, VARVE_UNKNOWN_FORMAT, "first filter is 9"),
    CASE(1, filter_is_1, VARVE_CORRUPT, "filters without a codec"),
    CASE(1, offset_is_far, VARVE_CORRUPT, "offset of block 1"),
    CASE(1, blocks_overlap, VARVE_CORRUPT, "offset of block 2"),
    CASE(1, part_is_7, VARVE_CORRUPT, "part of block 2 is 7"),
    CASE(1, extents_are_many, VARVE_CORRUPT, "number of extents is 4294967295"),
    CASE(1, extents_are_more, VARVE_CORRUPT, "3002 extents cannot be"),
    CASE(1, ids_are_elsewhere, VARVE_CORRUPT, "first id of block 1"),
    CASE(1, block_flags, VARVE_UNKNOWN_FORMAT, "flags are 0x80"),
    CASE(1, blocks_are_cut, VARVE_CORRUPT, "section 0 of kind 1"),
    CASE(1, blocks_are_gone, VARVE_CORRUPT, "blocks of part 0 of 0 end at 96"),
    CASE(1, ids_are_cut, VARVE_CORRUPT, "ids section"),
    CASE(1, extents_overlap, VARVE_CORRUPT, "extents of owner 0 overlap at address 4096"),
    CASE(1, extents_miss, VARVE_CORRUPT, "address 4096 of owner 0 is in no extent"),
    CASE(1, extents_are_short, VARVE_CORRUPT, "extents of block 1"),
    CASE(1, extents_are_crooked, VARVE_CORRUPT, "inside a granule"),
    CASE(1, extents_of_nobody, VARVE_CORRUPT, "is 99"),
    CASE(1, extents_at_the_end, VARVE_CORRUPT, "2^62"),
    CASE(1, footer_sections_many, VARVE_CORRUPT, "number of sections is 2147483647"),
    CASE(1, footer_dependencies_many, VARVE_CORRUPT, "lean entries: 33554432 bytes are needed"),
    CASE(1, footer_parts_many, VARVE_CORRUPT, "8388608 bytes are needed"),
    CASE(1, footer_owners, VARVE_CORRUPT, "owners"),
    CASE(1, footer_partners, VARVE_CORRUPT, "partners"),
    CASE(1, footer_settings, VARVE_CORRUPT, "settings"),
    CASE(1, footer_name, VARVE_CORRUPT, "name"),
    CASE(1, section_is_2_to_60, VARVE_CORRUPT, "section"),
    CASE(1, section_is_elsewhere, VARVE_CORRUPT, "section"),
    CASE(1, section_kind_6, VARVE_UNKNOWN_FORMAT, "6"),
    CASE(1, section_of_owner_5, VARVE_CORRUPT, "manifest of owner 5"),
    CASE(2, dependency_on_itself, VARVE_CORRUPT, "depends on the future"),
    CASE(2, dependency_on_stranger, VARVE_CORRUPT, "which its record does not name"),
    CASE(2, dependency_on_other_list, VARVE_CORRUPT, "which its record does not name"),
    CASE(1, manifest_of_other, VARVE_CORRUPT, "owner"),
    CASE(1, regions_lie, VARVE_CORRUPT, "ends too early"),
    CASE(1, regions_many, VARVE_CORRUPT, "do not fit"),
    CASE(1, bytes_lie, VARVE_CORRUPT, "bytes"),
    CASE(1, runs_lie, VARVE_CORRUPT, "runs do not fit"),
    CASE(1, layout_is_small, VARVE_CORRUPT, "layout"),
    CASE(1, layers_are_9, VARVE_CORRUPT, "lower layers is 9"),
    CASE(2, layer_of_dependency_7, VARVE_CORRUPT, "lean index of lower layer 0 is 7"),
    CASE(2, layer_of_writer_3, VARVE_CORRUPT, "lower layer 0 names writer 3"),
    CASE(2, layer_is_wrong, VARVE_CORRUPT, "is not the one that"),
    CASE(2, layer_is_itself, VARVE_CORRUPT, "lean index of lower layer 0 is 0"),
    CASE(2, layer_twice, VARVE_CORRUPT, "the layers below it are not those"),
    CASE(2, overlay_regions_lie, VARVE_CORRUPT, "its head says 2"),
    CASE(2, overlay_bytes_lie, VARVE_CORRUPT, "its head says"),
    CASE(1, run_points_outside, VARVE_CORRUPT, "is in no extent"),
    CASE(1, run_leaves_extent, VARVE_CORRUPT, "address 12288 of owner 0 is in no extent"),
    CASE(1, region_is_2_to_60, VARVE_CORRUPT, "is in no extent"),
    CASE(1, names_are_equal, VARVE_CORRUPT, "two regions have the same name"),
    CASE(1, regions_overlap, VARVE_CORRUPT, "regions 1 and 2 overlap at address 4096"),
    CASE(1, owner_is_nobody, VARVE_CORRUPT, "names owner 77"),
    CASE(1, copy_is_none, VARVE_CORRUPT, "names copy 3"),
    CASE(2, removed_never_was, VARVE_CORRUPT, "region 9 is removed, but no layer below has it"),
    CASE(2, not_described, VARVE_CORRUPT, "region 9 is not described"),
    CASE(2, keeps_too_much, VARVE_CORRUPT, "beyond its length in the layer below"),
    CASE(2, keeps_nothing, VARVE_CORRUPT, "no layer below has it"),
    CASE(2, name_of_below, VARVE_CORRUPT, "two regions have the same name"),
    CASE(2, address_of_below, VARVE_CORRUPT, "overlap"),
    CASE(1, name_is_4_kib, VARVE_CORRUPT, "region name has 4096 bytes"),
    CASE(1, name_is_empty, VARVE_CORRUPT, "region name has 0 bytes"),
    CASE(1, name_has_nul, VARVE_CORRUPT, "NUL"),
    CASE(1, region_length_lies, VARVE_CORRUPT, "region has 12289 bytes"),
    CASE(1, bomb_of_16_mib, VARVE_CORRUPT, "part 0 cannot be decoded with zstd"),
    CASE(1, bomb_of_1_tib, VARVE_CORRUPT, "part 0 cannot be decoded with zstd"),
    CASE(1, block_too_short, VARVE_CORRUPT, "part 0 cannot be decoded with zstd"),
    CASE(1, block_is_noise, VARVE_CORRUPT, "part 0 cannot be decoded with zstd"),
    CASE(1, moved_is_last, VARVE_CORRUPT, "sections end with kind 0x4"),
    CASE(1, feature_unknown, VARVE_UNKNOWN_FORMAT, "4"),
    CASE(1, feature_of_drafts, VARVE_UNKNOWN_FORMAT, "required features are 0x1"),
};

static struct vv_store *make_store(void) {
    struct vv_store *store = new_store();
    struct vv_dependency dependency;
    struct vv_hash128 digest;
    write_base(store, &dependency, &digest);
    write_overlay(store, &dependency, digest);
    return store;
}

static void test_cases(void **state) {
    (void)state;
    static struct findings findings;
    struct vv_store *store = make_store();
    unsigned wrong = 0;
    assert_ok(read_all(store, 1));
    assert_ok(read_all(store, 2));
    assert_sound(store, NULL);
    vv_store_close(store);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct hostile *hostile = &cases[i];
        store = make_store();
        operate(store, attempt_at(1, hostile->version), 0, hostile->cut);
        int rc = read_all(store, hostile->version);
        if (rc != hostile->code || !strstr(failure.text, hostile->text)) {
            printf("# %s: %d %s\n", hostile->name, rc, failure.text);
            wrong++;
        }
        verify(store, NULL, 0, &findings);
        if (!findings.count[hostile->code == VARVE_CORRUPT ? VV_FINDING_DAMAGE : VV_FINDING_NOTE]) {
            printf("# %s: verify does not see it: %s\n", hostile->name, findings.text);
            wrong++;
        }
        verify(store, NULL, 1, &findings);
        vv_store_close(store);
    }
    assert_int_equal(wrong, 0);
}

/* Not hostile, only strange: an empty region needs no room in the layout, wherever its address is. */
static void test_empty_far(void **state) {
    (void)state;
    struct vv_store *store = new_store();
    struct vv_pack_options options = one_writer();
    struct vv_pack_writer *pack = begin_pack(store, attempt_at(1, 1), &options);
    struct mf mf;
    put_extent(store, pack, 0, 0, content, BLOCK, VV_CODEC_NONE, 1);
    mf_begin(&mf, 0, BLOCK);
    mf_region(&mf, 1, "bytes", 0, BLOCK, VV_REGION_DESCRIBED);
    mf_run(&mf, VV_RUN_HERE, BLOCK, NULL, 0);
    vv_manifest_region_end(&mf.writer, region_digest(store, content, BLOCK));
    mf_region(&mf, 2, "empty", 64 * BLOCK, 0, VV_REGION_DESCRIBED);
    vv_manifest_region_end(&mf.writer, region_digest(store, content, 0));
    mf.head.regions = 2;
    mf.head.protected_bytes = BLOCK;
    mf_store(&mf, pack, NULL);
    assert_ok(vv_pack_seal(pack, BLOCK, 2, NULL, &failure));
    commit(store, attempt_at(1, 1), NULL);
    assert_ok(read_all(store, 1));
    assert_sound(store, NULL);
    vv_store_close(store);
}

/* ---- records and writers lists ---- */

typedef void (*relist_fn)(struct vv_writers *writers, struct vv_record *record);

static void dependencies_on_future(struct vv_writers *writers, struct vv_record *record) {
    (void)writers;
    record->dependencies[0].attempt.version = 9;
}
static void dependencies_on_sibling(struct vv_writers *writers, struct vv_record *record) {
    (void)writers;
    record->dependencies[0].attempt = (struct vv_attempt){1, 1, 2};
}
static void dependencies_on_other(struct vv_writers *writers, struct vv_record *record) {
    (void)writers;
    record->dependencies[0].writers_digest.high ^= 1;
}
static void pack_is_2_to_61(struct vv_writers *writers, struct vv_record *record) {
    (void)record;
    writers->list[0].pack_length = UINT64_C(1) << 61;
}
static void pack_is_longer(struct vv_writers *writers, struct vv_record *record) {
    (void)record;
    writers->list[0].pack_length++;
}
static void pack_is_shorter(struct vv_writers *writers, struct vv_record *record) {
    (void)record;
    writers->list[0].pack_length--;
}
static void parts_lie(struct vv_writers *writers, struct vv_record *record) {
    (void)record;
    writers->list[0].parts = 3;
    writers->list[0].parts_length = 300;
}
static void ranks_lie(struct vv_writers *writers, struct vv_record *record) {
    (void)writers;
    record->ranks = 2;
}
static void regions_of_record_lie(struct vv_writers *writers, struct vv_record *record) {
    (void)writers;
    record->regions = 7;
}

static void test_lists(void **state) {
    (void)state;
    static const struct {
        relist_fn fn;
        const char *text;
    } lists[] = {{dependencies_on_future, "depends on the future"},
                 {dependencies_on_sibling, "depends on the future"},
                 {dependencies_on_other, "does not name"},
                 {pack_is_2_to_61, "shorter"},
                 {pack_is_longer, "shorter"},
                 {pack_is_shorter, "longer"},
                 {parts_lie, "parts"},
                 {ranks_lie, "differ about writers or ranks"},
                 {regions_of_record_lie, NULL}};
    static struct findings findings;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        struct vv_store *store = make_store();
        struct vv_attempt attempt = attempt_at(1, 2);
        struct vv_key key = vv_attempt_key(NAME, &attempt, VV_KIND_WRITERS, 0, 0);
        struct vv_writers writers;
        struct vv_record record;
        struct vv_buf buf;
        get_object(store, &key, &buf);
        assert_ok(vv_writers_parse(buf.data, buf.size, &key, store->id, &writers, &failure));
        vv_buf_clear(&buf);
        assert_ok(vv_record_load(store, NAME, 1, 2, &record, &failure));
        lists[i].fn(&writers, &record);
        put_record(store, attempt, &writers, &record);
        vv_writers_clear(&writers);
        vv_record_clear(&record);
        int rc = read_all(store, 2);
        if (lists[i].text && (rc != VARVE_CORRUPT || !strstr(failure.text, lists[i].text)))
            fail_msg("%zu: %d %s", i, rc, failure.text);
        assert_true(verify(store, NULL, 0, &findings).damaged_objects > 0);
        vv_store_close(store);
    }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED
#endif
#endif

/* No more memory than a quarter GiB above what there is now: sizes that lie cannot be followed. */
static void limit_memory(void) {
#ifndef IS_SANITIZED /* a sanitizer needs address space of its own */
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    if (file && fscanf(file, "%lu", &pages) == 1) {
        rlim_t limit = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (256u << 20);
        struct rlimit rlimit = {limit, limit};
        setrlimit(RLIMIT_AS, &rlimit);
    }
    if (file)
        fclose(file);
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_empty_far),
                                       cmocka_unit_test(test_lists)};
    random_state = 11;
    random_fill(content, sizeof content);
    memset(content, 3, BLOCK); /* the first block becomes smaller */
    limit_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
