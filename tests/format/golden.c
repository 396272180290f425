/* The bytes of the golden files: the samples, and the samples with one defect each. */
#include "golden.h"
#include "reseal.h"
#include "samples.h"

#include <assert.h>
#include <string.h>

static void sample_tombstone_pack(struct vv_buf *buf) {
    sample_tombstone(buf, VV_KIND_PACK);
}

static void sample_tombstone_record(struct vv_buf *buf) {
    sample_tombstone(buf, VV_KIND_RECORD);
}

static void sample_tombstone_pin(struct vv_buf *buf) {
    sample_tombstone(buf, VV_KIND_PIN);
}

static const struct {
    const char *name;
    void (*make)(struct vv_buf *buf);
} good[] = {
    {"good-store.bin", sample_store},
    {"good-store-local.bin", sample_store_local},
    {"good-claim.bin", sample_claim},
    {"good-beat.bin", sample_heartbeat},
    {"good-writers.bin", sample_writers},
    {"good-record.bin", sample_record},
    {"good-tombstone.bin", sample_tombstone_pack},
    {"good-record-tombstone.bin", sample_tombstone_record},
    {"good-pin.bin", sample_pin},
    {"good-pin-tombstone.bin", sample_tombstone_pin},
    {"good-trigger.bin", sample_trigger},
    {"good-log.bin", sample_job_log},
    {"good-catalogue.bin", sample_catalogue},
    {"good-part.bin", sample_part},
    {"good-pack.bin", sample_pack},
    {"good-pack-typed.bin", sample_pack_typed},
    {"good-copy.bin", sample_copy},
    {"good-parity.bin", sample_parity},
    {"good-manifest.bin", sample_manifest_base},
    {"good-overlay.bin", sample_manifest_overlay},
    {"good-manifest-arrays.bin", sample_manifest_arrays},
    {"good-attributes.bin", sample_attributes},
    {"good-arrays.bin", sample_arrays},
};

enum seal { UNSEALED, SMALL, HEAD };

/* `size` bytes of value (little-endian) at offset; a negative offset counts from the end. */
struct defect {
    const char *name;
    void (*make)(struct vv_buf *buf);
    enum seal seal;
    int offset;
    int size;
    uint64_t value;
};

#define BODY VV_HEAD_SIZE

static const struct defect defects[] = {
    /* heads */
    {"bad-store-magic.bin", sample_store, SMALL, 0, 1, 0x88},
    {"bad-store-newer-version.bin", sample_store, SMALL, 8, 2, 2},
    {"bad-store-unknown-kind.bin", sample_store, SMALL, 10, 2, 99},
    {"bad-store-reserved-12.bin", sample_store, SMALL, 12, 4, 1},
    {"bad-store-required-feature.bin", sample_store, SMALL, 16, 8, 1},
    {"bad-store-reserved-80.bin", sample_store, SMALL, 80, 8, 1},
    {"bad-store-name-sum.bin", sample_store, SMALL, 72, 8, 5},
    {"bad-store-head-sum.bin", sample_store, UNSEALED, 88, 1, 0},
    {"bad-claim-other-store.bin", sample_claim, SMALL, 32, 1, 0},
    {"bad-claim-generation.bin", sample_claim, SMALL, 48, 4, 4},
    {"bad-claim-is-beat.bin", sample_heartbeat, UNSEALED, 96, 0, 0},
    {"bad-record-version.bin", sample_record, SMALL, 56, 8, 101},
    {"bad-writers-attempt.bin", sample_writers, SMALL, 52, 4, 0},
    {"bad-writers-is-tombstone.bin", sample_writers, SMALL, 10, 2, VV_KIND_TOMBSTONE},
    {"bad-part-writer.bin", sample_part, HEAD, 64, 4, 2},
    {"bad-part-number.bin", sample_part, HEAD, 68, 4, 1},
    {"bad-part-name-mismatch.bin", sample_part, HEAD, 72, 8, 1},
    /* tails and settings */
    {"bad-store-tail-length.bin", sample_store, UNSEALED, -24, 8, 1},
    {"bad-store-digest.bin", sample_store, UNSEALED, -1, 1, 0},
    {"bad-store-unknown-id-kind.bin", sample_store, SMALL, BODY, 2, 3},
    {"bad-store-sha-with-seed.bin", sample_store, SMALL, BODY, 2, 2},
    {"bad-store-granule.bin", sample_store, SMALL, BODY + 2, 2, 13},
    {"bad-store-unknown-layout.bin", sample_store, SMALL, BODY + 4, 4, 2},
    /* bodies */
    {"bad-claim-name-mismatch.bin", sample_claim, SMALL, BODY + 98, 1, 'G'},
    {"bad-claim-name-length-lies.bin", sample_claim, SMALL, BODY + 96, 2, 0xffff},
    {"bad-claim-name-empty.bin", sample_claim, SMALL, BODY + 96, 2, 0},
    {"bad-claim-nul-in-host.bin", sample_claim, SMALL, BODY + 96 + 14 + 2, 1, 0},
    {"bad-claim-ranks.bin", sample_claim, SMALL, BODY + 84, 4, 0x80000000},
    {"bad-beat-unknown-state.bin", sample_heartbeat, SMALL, BODY + 32, 4, 3},
    {"bad-beat-reserved.bin", sample_heartbeat, SMALL, BODY + 36, 4, 1},
    {"bad-beat-none-with-version.bin", sample_heartbeat, SMALL, BODY + 40, 4, 0},
    {"bad-writers-count-lies.bin", sample_writers, SMALL, BODY, 4, 4},
    {"bad-writers-count-huge.bin", sample_writers, SMALL, BODY, 4, 0x7fffffff},
    {"bad-writers-ranks.bin", sample_writers, SMALL, BODY + 4, 4, 9},
    {"bad-writers-owners-overlap.bin", sample_writers, SMALL, BODY + 8 + 64, 4, 3},
    {"bad-writers-owners-many.bin", sample_writers, SMALL, BODY + 8 + 4, 4, 0xffffffff},
    {"bad-writers-partners-four.bin", sample_writers, SMALL, BODY + 8 + 12, 4, 4},
    {"bad-writers-partner-beyond.bin", sample_writers, SMALL, BODY + 8 + 16, 4, 3},
    {"bad-writers-partner-unused.bin", sample_writers, SMALL, BODY + 8 + 20, 4, 1},
    {"bad-writers-partner-itself.bin", sample_writers, SMALL, BODY + 8 + 16, 4, 0},
    {"bad-writers-partners-equal.bin", sample_writers, SMALL, BODY + 8 + 128 + 20, 4, 0},
    {"bad-writers-reserved.bin", sample_writers, SMALL, BODY + 8 + 28, 4, 1},
    {"bad-writers-pack-length.bin", sample_writers, SMALL, BODY + 8 + 32, 8, UINT64_C(1) << 62},
    {"bad-writers-parts-many.bin", sample_writers, SMALL, BODY + 8 + 64 + 8, 4, 1048577},
    {"bad-writers-parts-length.bin", sample_writers, SMALL, BODY + 8 + 40, 8, 1},
    {"bad-record-writers-length.bin", sample_record, SMALL, BODY + 40, 8, 300},
    {"bad-record-no-ranks.bin", sample_record, SMALL, BODY + 32, 4, 0},
    {"bad-record-leans-lie.bin", sample_record, SMALL, BODY + 120, 4, 3},
    {"bad-record-leans-huge.bin", sample_record, SMALL, BODY + 120, 4, 0xffffffff},
    {"bad-record-leans-descend.bin", sample_record, SMALL, BODY + 128, 4, 4},
    {"bad-record-leans-on-itself.bin", sample_record, SMALL, BODY + 128 + 32 + 4, 12, 0},
    {"bad-record-reserved.bin", sample_record, SMALL, BODY + 124, 4, 1},
    {"bad-record-tombstone-with-attempt.bin", sample_tombstone_record, SMALL, 52, 4, 1},
    {"bad-pin-version.bin", sample_pin, SMALL, 56, 8, 101},
    {"bad-pin-attempt.bin", sample_pin, SMALL, 52, 4, 1},
    {"bad-pin-name-mismatch.bin", sample_pin, SMALL, BODY + 10, 1, 'G'},
    {"bad-pin-reason-length-lies.bin", sample_pin, SMALL, BODY + 8 + 14 + 8, 2, 9},
    {"bad-pin-reason-too-short.bin", sample_pin, SMALL, BODY + 8 + 14 + 8, 2, 7},
    {"bad-pin-tombstone-unknown-reason.bin", sample_tombstone_pin, SMALL, BODY, 4, 5},
    {"bad-trigger-generation.bin", sample_trigger, SMALL, 48, 4, 3},
    {"bad-trigger-unknown-wish.bin", sample_trigger, SMALL, BODY, 4, 3},
    {"bad-trigger-no-wish.bin", sample_trigger, SMALL, BODY, 4, 0},
    {"bad-trigger-reserved.bin", sample_trigger, SMALL, BODY + 4, 4, 1},
    {"bad-trigger-name-mismatch.bin", sample_trigger, SMALL, BODY + 18, 1, 'G'},
    {"bad-trigger-host-length-lies.bin", sample_trigger, SMALL, BODY + 16 + 14, 2, 7},
    {"bad-trigger-host-too-short.bin", sample_trigger, SMALL, BODY + 16 + 14, 2, 5},
    {"bad-log-generation.bin", sample_job_log, SMALL, 48, 4, 4},
    {"bad-log-version.bin", sample_job_log, SMALL, 56, 8, 1},
    {"bad-tombstone-unknown-reason.bin", sample_tombstone_pack, SMALL, BODY, 4, 5},
    {"bad-tombstone-reserved.bin", sample_tombstone_pack, SMALL, BODY + 4, 4, 1},
    {"bad-tombstone-text-lies.bin", sample_tombstone_pack, SMALL, BODY + 16, 2, 14},
    {"bad-tombstone-left-over.bin", sample_tombstone_pack, SMALL, BODY + 16, 2, 12},
    {"bad-catalogue-count-lies.bin", sample_catalogue, SMALL, BODY, 8, UINT64_C(1) << 60},
    {"bad-catalogue-order.bin", sample_catalogue, SMALL, BODY + 8 + 8, 8, 90},
    {"bad-catalogue-unknown-state.bin", sample_catalogue, SMALL, BODY + 8 + 60, 4, 3},
    /* manifests: the head, then "00 01 A0 9C 01" (region 0, described, 20,000 bytes) at 120, a name of 11 at 125 */
    {"bad-manifest-other-owner.bin", sample_manifest_base, UNSEALED, 0, 4, 5},
    {"bad-manifest-four-layers.bin", sample_manifest_base, UNSEALED, 4, 4, 4},
    {"bad-manifest-layer-unused.bin", sample_manifest_base, UNSEALED, 60, 1, 1},
    {"bad-manifest-regions-many.bin", sample_manifest_base, UNSEALED, 8, 8, UINT64_C(1) << 32},
    {"bad-manifest-regions-not-entries.bin", sample_manifest_base, UNSEALED, 8, 8, 4},
    {"bad-manifest-protected-bytes.bin", sample_manifest_base, UNSEALED, 16, 8, 70001},
    {"bad-manifest-protected-too-few.bin", sample_manifest_base, UNSEALED, 16, 8, 69999},
    {"bad-manifest-layout-short.bin", sample_manifest_base, UNSEALED, 24, 8, 70000},
    {"bad-manifest-layout-huge.bin", sample_manifest_base, UNSEALED, 24, 8, UINT64_C(1) << 62},
    {"bad-manifest-runs-lie.bin", sample_manifest_base, UNSEALED, 40, 8, 7},
    {"bad-manifest-runs-too-few.bin", sample_manifest_base, UNSEALED, 40, 8, 5},
    {"bad-manifest-runs-huge.bin", sample_manifest_base, UNSEALED, 40, 8, UINT64_C(1) << 60},
    {"bad-manifest-unknown-flag.bin", sample_manifest_base, UNSEALED, 121, 1, 5},
    {"bad-manifest-removed-in-base.bin", sample_manifest_base, UNSEALED, 121, 1, 2},
    {"bad-manifest-not-described-in-base.bin", sample_manifest_base, UNSEALED, 121, 1, 0},
    {"bad-manifest-long-varint.bin", sample_manifest_base, UNSEALED, 122, 3, 0x008080},
    {"bad-manifest-varint-beyond-64-bits.bin", sample_manifest_base, UNSEALED, 122, 11, UINT64_MAX},
    {"bad-manifest-run-beyond-region.bin", sample_manifest_base, UNSEALED, 122, 3, 0x018080},
    {"bad-manifest-name-empty.bin", sample_manifest_base, UNSEALED, 125, 2, 0},
    {"bad-manifest-name-long.bin", sample_manifest_base, UNSEALED, 125, 2, 256},
    {"bad-manifest-nul-in-name.bin", sample_manifest_base, UNSEALED, 130, 1, 0},
    {"bad-manifest-unknown-type.bin", sample_manifest_base, UNSEALED, 139, 1, 15},
    {"bad-manifest-dimensions.bin", sample_manifest_base, UNSEALED, 140, 1, 17},
    {"bad-manifest-unknown-exactness.bin", sample_manifest_base, UNSEALED, 148, 1, 2},
    {"bad-manifest-run-kind-7.bin", sample_manifest_base, UNSEALED, 157, 1, 0x87},
    {"bad-manifest-run-kind-0.bin", sample_manifest_base, UNSEALED, 157, 1, 0x80},
    {"bad-manifest-keep-in-base.bin", sample_manifest_base, UNSEALED, 157, 1, 0x86},
    {"bad-manifest-runs-end-early.bin", sample_manifest_base, UNSEALED, 157, 1, 0},
    /* the dimensions of the first region at 134, its exactness and distribution at 150 */
    {"bad-manifest-strided-dimensions.bin", sample_manifest_arrays, UNSEALED, 134, 1, 32 + 17},
    {"bad-manifest-unknown-distribution.bin", sample_manifest_arrays, UNSEALED, 150, 1, 0x50},
    {"bad-attributes-half.bin", sample_attributes, UNSEALED, -1, 1, 'x'},
    {"bad-arrays-magic.bin", sample_arrays, UNSEALED, 3, 1, '2'},
    {"bad-arrays-ranks.bin", sample_arrays, UNSEALED, 4, 4, 7},
    {"bad-arrays-many.bin", sample_arrays, UNSEALED, 8, 4, 0xffffffff},
    {"bad-arrays-entries-long.bin", sample_arrays, UNSEALED, 12, 4, 0xffffffff},
    {"bad-arrays-unknown-kind.bin", sample_arrays, UNSEALED, 24 + 14, 1, 3},
    {"bad-arrays-grid-of-others.bin", sample_arrays, UNSEALED, 24 + 15, 1, 3},
    {"bad-arrays-group-beyond.bin", sample_arrays, UNSEALED, 112, 8, 1000},
    {"bad-overlay-layer-lean-0.bin", sample_manifest_overlay, UNSEALED, 48, 4, 0},
    {"bad-overlay-layer-lean-beyond.bin", sample_manifest_overlay, UNSEALED, 48, 4, 3},
    {"bad-overlay-number-beyond.bin", sample_manifest_overlay, UNSEALED, 120, 5, UINT64_C(0x1080808080)},
    {"bad-overlay-described-and-removed.bin", sample_manifest_overlay, UNSEALED, 121, 1, 3},
    {"bad-overlay-entries-lie.bin", sample_manifest_overlay, UNSEALED, 32, 8, 4},
    {"bad-overlay-left-over.bin", sample_manifest_overlay, UNSEALED, 32, 8, 2},
};

static void put_value(uint8_t *at, int size, uint64_t value) {
    for (int i = 0; i < size; i++)
        at[i] = i < 8 ? (uint8_t)(value >> (8 * i)) : 0xff;
}

static void make_defect(const struct defect *defect, golden_fn fn, void *arg) {
    struct vv_buf buf;
    vv_buf_init(&buf);
    defect->make(&buf);
    size_t offset = defect->offset < 0 ? buf.size - (size_t)-defect->offset : (size_t)defect->offset;
    put_value(buf.data + offset, defect->size, defect->value);
    /* an entry that becomes the record's own attempt needs more than eight bytes */
    if (strcmp(defect->name, "bad-record-leans-on-itself.bin") == 0) {
        vv_put32(buf.data + offset, 1);
        vv_put64(buf.data + offset + 4, 100);
    }
    if (defect->seal == SMALL)
        reseal_small(buf.data, buf.size);
    else if (defect->seal == HEAD)
        reseal_head(buf.data, buf.size);
    fn(arg, defect->name, buf.data, buf.size);
    vv_buf_clear(&buf);
}

/* Packs: a change in a section, the footer or the section list. */
enum where { IN_BLOCKS, IN_EXTENTS, IN_MOVED, IN_FOOTER, IN_SECTIONS, IN_END, IN_RANGES };

struct pack_defect {
    const char *name;
    enum where where;
    int offset;
    int size;
    uint64_t value;
};

static const struct pack_defect pack_defects[] = {
    {"bad-pack-unknown-codec.bin", IN_BLOCKS, 4, 1, 3}, /* made when 3 was not known; an element is missing */
    {"bad-pack-unknown-codec-7.bin", IN_BLOCKS, 4, 1, 7},
    {"bad-pack-unknown-filter.bin", IN_BLOCKS, 5, 1, 1}, /* made when 1 was not known; there is no codec */
    {"bad-pack-fpzip-element-2.bin", IN_BLOCKS, 4, 4, 0x02000003},
    {"bad-pack-element-without-filter.bin", IN_BLOCKS, 7, 1, 8},
    {"bad-pack-unknown-block-flag.bin", IN_BLOCKS, 44, 4, 4},
    {"bad-pack-block-reserved.bin", IN_BLOCKS, 60, 4, 1},
    {"bad-pack-block-raw-huge.bin", IN_BLOCKS, 20, 4, (16 << 20) + 1},
    {"bad-pack-block-stored-zero.bin", IN_BLOCKS, 16, 4, 0},
    {"bad-pack-block-stored-above-raw.bin", IN_BLOCKS, 16, 4, 65},
    {"bad-pack-block-no-codec-shorter.bin", IN_BLOCKS, 16, 4, 63},
    {"bad-pack-block-no-extents.bin", IN_BLOCKS, 40, 4, 0},
    {"bad-pack-block-in-head.bin", IN_BLOCKS, 8, 8, 95},
    {"bad-pack-block-gap.bin", IN_BLOCKS, 64 + 8, 8, 97},
    {"bad-pack-block-part-beyond.bin", IN_BLOCKS, 64, 4, 2},
    {"bad-pack-block-part-order.bin", IN_BLOCKS, 0, 4, 1},
    {"bad-pack-block-extents-offset.bin", IN_BLOCKS, 64 + 32, 8, 3},
    {"bad-pack-block-extents-too-many.bin", IN_BLOCKS, 64 + 40, 4, 3},
    {"bad-pack-block-extents-too-few.bin", IN_BLOCKS, 64 + 40, 4, 1},
    {"bad-pack-block-first-id.bin", IN_BLOCKS, 64 + 48, 8, 1},
    {"bad-pack-block-owner.bin", IN_BLOCKS, 56, 4, 8},
    {"bad-pack-ids-inside-granule.bin", IN_BLOCKS, 44, 4, 1},
    {"bad-pack-ids-too-many.bin", IN_BLOCKS, 64 + 44, 4, 0},
    {"bad-pack-extent-empty.bin", IN_EXTENTS, 0, 1, 0},
    {"bad-pack-extent-owner.bin", IN_EXTENTS, 0, 1, 0x81},
    {"bad-pack-extent-negative-address.bin", IN_EXTENTS, 2, 1, 0x81},
    {"bad-pack-extent-beyond-block.bin", IN_EXTENTS, 0, 1, 0x82},
    {"bad-pack-extent-owner-again.bin", IN_EXTENTS, 10, 1, 0},
    {"bad-pack-moved-length-zero.bin", IN_MOVED, 0, 1, 0},
    {"bad-pack-unknown-id-kind.bin", IN_FOOTER, 0, 2, 7},
    {"bad-pack-raw-bytes.bin", IN_FOOTER, 88, 8, 4167},
    {"bad-pack-stored-bytes.bin", IN_FOOTER, 96, 8, 4167},
    {"bad-pack-partners-equal.bin", IN_FOOTER, 48, 4, 0},
    {"bad-pack-no-writers.bin", IN_FOOTER, 24, 4, 0},
    {"bad-pack-owners-beyond-ranks.bin", IN_FOOTER, 36, 4, 5},
    {"bad-pack-owners-without-manifest.bin", IN_FOOTER, 36, 4, 3},
    {"bad-pack-partner-beyond.bin", IN_FOOTER, 44, 4, 3},
    {"bad-pack-parts-lie.bin", IN_FOOTER, 112, 4, 2},
    {"bad-pack-parts-many.bin", IN_FOOTER, 112, 4, 1048577},
    {"bad-pack-leans-lie.bin", IN_FOOTER, 116, 4, 1},
    {"bad-pack-sections-lie.bin", IN_FOOTER, 120, 4, 7},
    {"bad-pack-sections-huge.bin", IN_FOOTER, 120, 4, 0x7fffffff},
    {"bad-pack-footer-reserved.bin", IN_FOOTER, 124, 4, 1},
    {"bad-pack-part-length.bin", IN_FOOTER, 128 + 14 + 8, 8, 161},
    {"bad-pack-unknown-section.bin", IN_SECTIONS, 3 * 40, 4, 0x7fff},
    {"bad-pack-section-order.bin", IN_SECTIONS, 0, 4, 2},
    {"bad-pack-optional-section-early.bin", IN_SECTIONS, 3 * 40, 4, 0x8000},
    {"bad-pack-section-owner.bin", IN_SECTIONS, 4, 4, 1},
    {"bad-pack-section-gap.bin", IN_SECTIONS, 40 + 8, 8, 4400},
    {"bad-pack-section-beyond.bin", IN_SECTIONS, 5 * 40 + 16, 8, UINT64_MAX},
    {"bad-pack-section-short.bin", IN_SECTIONS, 5 * 40 + 16, 8, 1},
    {"bad-pack-manifest-owner.bin", IN_SECTIONS, 4 * 40 + 4, 4, 5},
    {"bad-pack-end-magic.bin", IN_END, 12, 1, 'v'},
    {"bad-pack-end-offset.bin", IN_END, 0, 8, 96},
    {"bad-pack-end-length.bin", IN_END, 8, 4, 0xffffffff},
    {"bad-pack-footer-digest.bin", IN_END, 31, 1, 0},
};

/* The typed pack: block 1 has zstd, filters 3 and 1, elements of 8; blocks 0 and 1 have ranges. */
static const struct pack_defect typed_defects[] = {
    {"good-pack-rotated.bin", IN_BLOCKS, 64 + 5, 1, 5}, /* was unknown once */
    {"bad-pack-unknown-filter-6.bin", IN_BLOCKS, 64 + 5, 1, 6},
    {"bad-pack-unknown-second-filter.bin", IN_BLOCKS, 64 + 6, 1, 255},
    {"bad-pack-second-filter-alone.bin", IN_BLOCKS, 64 + 5, 1, 0},
    {"bad-pack-filters-without-codec.bin", IN_BLOCKS, 64 + 4, 1, 0},
    {"bad-pack-filters-before-fpzip.bin", IN_BLOCKS, 64 + 4, 1, 3},
    {"bad-pack-element-3.bin", IN_BLOCKS, 64 + 7, 1, 3},
    {"bad-pack-element-missing.bin", IN_BLOCKS, 64 + 7, 1, 0},
    {"bad-pack-ranges-owner.bin", IN_SECTIONS, 6 * 40 + 4, 4, 4},
    {"bad-pack-ranges-block-beyond.bin", IN_RANGES, 24, 4, 2},
    {"bad-pack-ranges-block-again.bin", IN_RANGES, 24, 4, 0},
    {"bad-pack-ranges-unknown-type.bin", IN_RANGES, 4, 1, 15},
    {"bad-pack-ranges-no-type.bin", IN_RANGES, 4, 1, 0},
    {"bad-pack-ranges-unknown-flag.bin", IN_RANGES, 24 + 5, 1, 4},
    {"bad-pack-ranges-integer-nan.bin", IN_RANGES, 5, 1, 1},
    {"bad-pack-ranges-empty-with-values.bin", IN_RANGES, 24 + 5, 1, 3},
    {"bad-pack-ranges-reserved.bin", IN_RANGES, 6, 2, 256},
    {"bad-pack-ranges-order.bin", IN_RANGES, 8, 8, 32768},
    {"bad-pack-ranges-beyond-type.bin", IN_RANGES, 16, 8, 32768},
    {"bad-pack-ranges-nan.bin", IN_RANGES, 24 + 8, 8, UINT64_C(0x7ff8000000000000)},
};

/* Offsets in the table, or, if they are negative, in the end. Entries begin at 32. */
static const struct {
    const char *name;
    int offset, size;
    uint64_t value;
} parity_defects[] = {
    {"bad-parity-no-data.bin", 0, 4, 0},
    {"bad-parity-data-many.bin", 0, 4, 16},
    {"bad-parity-none.bin", 4, 4, 0},
    {"bad-parity-unknown-code.bin", 4, 4, 4},
    {"bad-parity-member-beyond.bin", 8, 4, 3},
    {"bad-parity-other-member.bin", 8, 4, 2},
    {"bad-parity-count-lies.bin", 12, 4, 4},
    {"bad-parity-count-huge.bin", 12, 4, 0xffffffff},
    {"bad-parity-object-of-nobody.bin", 32 + 4 * 24, 4, 3},
    {"bad-parity-order.bin", 32, 4, 2},
    {"bad-parity-writer-again.bin", 32 + 4 * 24 + 4, 4, 2},
    {"bad-parity-writer-beyond.bin", 32 + 4 * 24 + 4, 4, 0x7fffffff},
    {"bad-parity-part-missing.bin", 32 + 2 * 24 + 8, 4, 2},
    {"bad-parity-part-alone.bin", 32 + 4 * 24 + 12, 4, 0},
    {"bad-parity-unknown-flag.bin", 32 + 12, 4, 2},
    {"bad-parity-length-tiny.bin", 32 + 16, 8, 95},
    {"bad-parity-length-huge.bin", 32 + 16, 8, UINT64_C(1) << 62},
    {"bad-parity-length-longer.bin", 32 + 16, 8, 202},
    {"bad-parity-end-magic.bin", -20, 1, 'v'},
    {"bad-parity-end-offset.bin", -32, 8, 96},
    {"bad-parity-end-length.bin", -24, 4, 0xffffffff},
    {"bad-parity-digest.bin", -1, 1, 0},
};

static void make_parity_defect(size_t number, golden_fn fn, void *arg) {
    struct vv_buf buf;
    vv_buf_init(&buf);
    sample_parity(&buf);
    uint8_t *end = buf.data + buf.size - VV_PARITY_END_SIZE, *table = buf.data + vv_get64(end);
    int offset = parity_defects[number].offset;
    put_value(offset < 0 ? buf.data + buf.size + offset : table + offset, parity_defects[number].size,
              parity_defects[number].value);
    if (offset >= 0)
        vv_hash128_put(end + 16, vv_digest(table, (size_t)(end - table)));
    fn(arg, parity_defects[number].name, buf.data, buf.size);
    vv_buf_clear(&buf);
}

static uint8_t *place(struct vv_buf *buf, enum where where, uint32_t count) {
    uint8_t *end = buf->data + buf->size - VV_END_SIZE;
    uint8_t *sections = end - count * 40;
    switch (where) {
    case IN_BLOCKS:
        return buf->data + vv_get64(sections + 8);
    case IN_EXTENTS:
        return buf->data + vv_get64(sections + 40 + 8);
    case IN_MOVED:
        return buf->data + vv_get64(sections + 3 * 40 + 8);
    case IN_RANGES:
        return buf->data + vv_get64(sections + (SAMPLE_TYPED_SECTIONS - 1) * 40 + 8);
    case IN_FOOTER:
        return buf->data + vv_get64(end);
    case IN_SECTIONS:
        return sections;
    default:
        return end;
    }
}

static void make_pack_defect(const struct pack_defect *defect, void (*make)(struct vv_buf *buf), uint32_t sections,
                             golden_fn fn, void *arg) {
    struct vv_buf buf;
    vv_buf_init(&buf);
    make(&buf);
    put_value(place(&buf, defect->where, sections) + defect->offset, defect->size, defect->value);
    if (defect->where != IN_END)
        reseal_pack(buf.data, buf.size, sections);
    fn(arg, defect->name, buf.data, buf.size);
    vv_buf_clear(&buf);
}

void golden_make(golden_fn fn, void *arg) {
    struct vv_buf buf;
    vv_buf_init(&buf);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        good[i].make(&buf);
        fn(arg, good[i].name, buf.data, buf.size);
        vv_buf_clear(&buf);
    }
    for (size_t i = 0; i < sizeof defects / sizeof defects[0]; i++)
        make_defect(&defects[i], fn, arg);
    for (size_t i = 0; i < sizeof pack_defects / sizeof pack_defects[0]; i++)
        make_pack_defect(&pack_defects[i], sample_pack, SAMPLE_PACK_SECTIONS, fn, arg);
    for (size_t i = 0; i < sizeof typed_defects / sizeof typed_defects[0]; i++)
        make_pack_defect(&typed_defects[i], sample_pack_typed, SAMPLE_TYPED_SECTIONS, fn, arg);
    for (size_t i = 0; i < sizeof parity_defects / sizeof parity_defects[0]; i++)
        make_parity_defect(i, fn, arg);
}
