#include "samples.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrays/array_index.h"

#define PART_RAW 64u
#define PACK_RAW 4104u
#define TYPED_STORED 1000u /* of the pack's block in the typed pack */
#define TIME_NS UINT64_C(1700000000000000000)

const uint8_t sample_store_id[16] = {0xA0, 0xA1, 0xA2, 0xA3, 0xA4, 0xA5, 0xA6, 0xA7,
                                     0xA8, 0xA9, 0xAA, 0xAB, 0xAC, 0xAD, 0xAE, 0xAF};
static const struct vv_settings_store settings = {VV_ID_XXH3, 12, VV_LAYOUT_SHARED, UINT64_C(0x1122334455667788),
                                                  TIME_NS};
static const struct vv_attempt parent = {.generation = 3, .attempt = 0, .version = 90};
static const struct vv_dependency dependencies[SAMPLE_DEPENDENCIES] = {
    {{.generation = 1, .attempt = 2, .version = UINT64_C(1) << 50}, {0x1111, 0x2222}},
    {{.generation = 3, .attempt = 0, .version = 90}, {0x3333, 0x4444}},
};

struct vv_key sample_key(int kind) {
    struct vv_key key = {.kind = kind, .name = "golden run/1"};
    int has_writer = kind == VV_KIND_PACK || kind == VV_KIND_PART || kind == VV_KIND_COPY || kind == VV_KIND_PARITY;
    if (kind == VV_KIND_STORE)
        key.name[0] = '\0';
    else if (kind != VV_KIND_CATALOGUE && kind != VV_KIND_TRIGGER)
        key.generation = 3;
    if (has_writer || kind == VV_KIND_WRITERS || kind == VV_KIND_RECORD) {
        key.version = 100;
        key.attempt = 1;
    }
    if (kind == VV_KIND_PIN)
        key.version = 100;
    if (has_writer)
        key.writer = 1;
    return key;
}

void sample_store(struct vv_buf *buf) {
    struct vv_store_object store = {.settings = settings};
    memcpy(store.store_id, sample_store_id, 16);
    vv_store_object_encode(buf, &store);
}

void sample_store_local(struct vv_buf *buf) {
    struct vv_store_object store = {.settings = settings};
    store.settings.layout = VV_LAYOUT_LOCAL;
    memcpy(store.store_id, sample_store_id, 16);
    vv_store_object_encode(buf, &store);
}

void sample_claim(struct vv_buf *buf) {
    struct vv_key key = sample_key(VV_KIND_CLAIM);
    struct vv_claim claim = {
        .settings = settings,
        .session_id = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
        .time_ns = TIME_NS + 1,
        .boot_id = {0xB0, 0xB1},
        .pid_namespace = 4026531836,
        .pid_start = 123456,
        .pid = 4242,
        .ranks = 8,
        .beat_seconds = 30,
        .dead_seconds = 300,
        .host = "node17",
        .program = "heat2d --steps 100",
    };
    vv_claim_encode(buf, &key, sample_store_id, &claim);
}

void sample_heartbeat(struct vv_buf *buf) {
    struct vv_key key = sample_key(VV_KIND_HEARTBEAT);
    struct vv_heartbeat heartbeat = {
        .session_id = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
        .counter = 77,
        .time_ns = TIME_NS + 2,
        .state = VV_HEARTBEAT_RUNNING,
        .refers = parent,
    };
    vv_heartbeat_encode(buf, &key, sample_store_id, &heartbeat);
}

void sample_writers(struct vv_buf *buf) {
    struct vv_key key = sample_key(VV_KIND_WRITERS);
    struct vv_writer list[] = {
        {.first_owner = 0,
         .owners = 4,
         .partner_count = 1,
         .partners = {1},
         .pack_length = 4000,
         .footer_digest = {1, 2}},
        {.first_owner = 4, .owners = 2, .parts = 1, .pack_length = 5000, .parts_length = 160, .footer_digest = {3, 4}},
        {.first_owner = 6,
         .owners = 2,
         .partner_count = 2,
         .partners = {0, 1},
         .pack_length = UINT64_C(1) << 40,
         .footer_digest = {5, 6}},
    };
    struct vv_writers writers = {.ranks = 8, .count = 3, .list = list};
    vv_writers_encode(buf, &key, sample_store_id, &writers, NULL);
}

void sample_record(struct vv_buf *buf) {
    struct vv_key key = sample_key(VV_KIND_RECORD);
    struct vv_record record = {
        .settings = settings,
        .time_ns = TIME_NS + 3,
        .ranks = 8,
        .writers = 3,
        .writers_length = VV_HEAD_SIZE + 8 + 3 * 64 + VV_TAIL_SIZE,
        .writers_digest = {0x5555, 0x6666},
        .parent = parent,
        .protected_bytes = UINT64_C(1) << 44,
        .raw_bytes = 1000000,
        .stored_bytes = 500000,
        .metadata_bytes = 3000,
        .regions = 12,
        .dependency_count = SAMPLE_DEPENDENCIES,
        .dependencies = (struct vv_dependency *)dependencies,
        .program = "heat2d",
    };
    vv_record_encode(buf, &key, sample_store_id, &record);
}

void sample_tombstone(struct vv_buf *buf, int kind) {
    struct vv_key key = sample_key(kind);
    struct vv_tombstone tombstone = {
        .reason = kind == VV_KIND_PACK ? VV_TOMBSTONE_FAILED : VV_TOMBSTONE_FORGOTTEN,
        .time_ns = TIME_NS + 4,
        .text = "no space left",
    };
    vv_tombstone_encode(buf, &key, sample_store_id, &tombstone);
}

void sample_pin(struct vv_buf *buf) {
    struct vv_key key = sample_key(VV_KIND_PIN);
    struct vv_pin pin = {.time_ns = TIME_NS + 5, .host = "node17", .reason = "figure 3"};
    vv_pin_encode(buf, &key, sample_store_id, &pin);
}

void sample_trigger(struct vv_buf *buf) {
    struct vv_key key = sample_key(VV_KIND_TRIGGER);
    struct vv_trigger trigger = {.wish = VV_TRIGGER_EXIT, .time_ns = TIME_NS + 6, .host = "login2"};
    vv_trigger_encode(buf, &key, sample_store_id, &trigger);
}

void sample_job_log(struct vv_buf *buf) {
    struct vv_key key = sample_key(VV_KIND_LOG);
    static const char text[] = "{\"type\":\"job\",\"ranks\":3}\n{\"type\":\"end\",\"why\":\"closed\"}\n";
    vv_job_log_encode(buf, &key, sample_store_id, text, sizeof text - 1);
}

void sample_catalogue(struct vv_buf *buf) {
    struct vv_key key = sample_key(VV_KIND_CATALOGUE);
    struct vv_catalogue_entry list[] = {
        {{.generation = 3, .attempt = 1, .version = 100}, TIME_NS + 3, 1 << 20, 500000, 3000, 12, 8, 0},
        {{.generation = 3, .attempt = 0, .version = 90}, TIME_NS + 2, 1 << 20, 600000, 3000, 12, 8, 0},
        {{.generation = 1, .attempt = 0, .version = UINT64_C(1) << 50}, TIME_NS, 0, 0, 0, 0, 0, 1},
    };
    struct vv_catalogue catalogue = {.count = 3, .list = list};
    vv_catalogue_encode(buf, &key, sample_store_id, &catalogue);
}

/* Bytes of a block: nothing special, but not all equal. */
static void put_bytes(struct vv_buf *buf, uint32_t size) {
    for (uint32_t i = 0; i < size; i++)
        vv_buf_u8(buf, (uint8_t)(i * 7 + i / 256));
}

void sample_part(struct vv_buf *buf) {
    struct vv_key key = sample_key(VV_KIND_PART);
    vv_head_encode(buf, &key, sample_store_id, 0);
    put_bytes(buf, PART_RAW);
}

void sample_manifest_base(struct vv_buf *buf) {
    struct vv_manifest_head head = {
        .owner = 4, .regions = 3, .protected_bytes = 70000, .layout_bytes = 81920, .entries = 3, .runs = 6};
    struct vv_region_entry field = {
        .number = 0,
        .flags = VV_REGION_DESCRIBED,
        .length = 20000,
        .name = "temperature",
        .shape =
            {.type = 10, .dims = 2, .is_lossy = 1, .bound = 1e-6, .dim = {{1000, 0, 50, {0, 0}}, {50, 0, 50, {0, 0}}}},
    };
    struct vv_region_entry table = {
        .number = 7, .flags = VV_REGION_DESCRIBED, .length = 50000, .name = "table", .address = 20480};
    struct vv_region_entry empty = {
        .number = 8, .flags = VV_REGION_DESCRIBED, .length = 0, .name = "empty", .address = 81920};
    struct vv_manifest_writer writer;
    vv_manifest_head_encode(buf, &head);
    vv_manifest_begin(&writer, buf, 4);
    vv_manifest_region(&writer, &field, 0);
    vv_manifest_run(&writer, &(struct vv_run){.kind = VV_RUN_HERE, .length = 12288});
    vv_manifest_run(&writer, &(struct vv_run){.kind = VV_RUN_ZERO, .offset = 12288, .length = 7712});
    vv_manifest_region_end(&writer, (struct vv_hash128){0x77, 0x88});
    vv_manifest_region(&writer, &table, 20480);
    vv_manifest_run(&writer,
                    &(struct vv_run){.kind = VV_RUN_FROM, .length = 4096, .place_count = 1, .places = {{1, 3, 0, 0}}});
    vv_manifest_run(&writer, &(struct vv_run){.kind = VV_RUN_FROM_ANY,
                                              .offset = 4096,
                                              .length = 4096,
                                              .place_count = 2,
                                              .places = {{2, 4, UINT64_C(1) << 45, 0}, {0, 7, 4096, 2}}});
    vv_manifest_run(&writer, &(struct vv_run){.kind = VV_RUN_REPEATED,
                                              .offset = 8192,
                                              .length = 30000,
                                              .piece = 4096,
                                              .place_count = 1,
                                              .places = {{0, 4, 20480, 0}}});
    vv_manifest_run(&writer, &(struct vv_run){.kind = VV_RUN_HERE, .offset = 38192, .length = 11808});
    vv_manifest_region_end(&writer, (struct vv_hash128){0x99, 0xAA});
    vv_manifest_region(&writer, &empty, 81920);
    vv_manifest_region_end(&writer, (struct vv_hash128){0, 0});
}

void sample_manifest_overlay(struct vv_buf *buf) {
    struct vv_manifest_head head = {
        .owner = 5,
        .lower_count = 2,
        .regions = 4,
        .protected_bytes = 1 << 20,
        .layout_bytes = 2 << 20,
        .entries = 3,
        .runs = 3,
        .lower = {{1, 0, {1, 2}}, {2, 1, {3, 4}}},
    };
    struct vv_region_entry changed = {.number = 2, .length = 10000};
    struct vv_region_entry removed = {.number = 3, .flags = VV_REGION_REMOVED};
    struct vv_region_entry moved = {
        .number = 900, .flags = VV_REGION_DESCRIBED, .length = 4096, .name = "moved", .address = 1 << 20};
    struct vv_manifest_writer writer;
    vv_manifest_head_encode(buf, &head);
    vv_manifest_begin(&writer, buf, 5);
    vv_manifest_region(&writer, &changed, 8192);
    vv_manifest_run(&writer, &(struct vv_run){.kind = VV_RUN_KEEP, .length = 8192});
    vv_manifest_run(&writer, &(struct vv_run){.kind = VV_RUN_HERE, .offset = 8192, .length = 1808});
    vv_manifest_region_end(&writer, (struct vv_hash128){0xBB, 0xCC});
    vv_manifest_region(&writer, &removed, 0);
    vv_manifest_region(&writer, &moved, 1 << 20);
    vv_manifest_run(&writer, &(struct vv_run){.kind = VV_RUN_KEEP, .length = 4096});
    vv_manifest_region_end(&writer, (struct vv_hash128){0xDD, 0xEE});
}

/* The extents of the two blocks: one extent in the part; two, with ids, in the pack. */
static void put_extents(struct vv_buf *buf, uint64_t *second_out) {
    struct vv_extent_coder coder = {.owner = 4};
    vv_extent_encode(buf, &coder, &(struct vv_extent){.owner = 4, .address = 100, .length = PART_RAW});
    *second_out = buf->size;
    coder = (struct vv_extent_coder){.owner = 4};
    vv_extent_encode(buf, &coder, &(struct vv_extent){.owner = 4, .address = 8192, .length = 4096});
    vv_extent_encode(buf, &coder, &(struct vv_extent){.owner = 5, .address = UINT64_C(1) << 45, .length = 8});
}

static void put_blocks(struct vv_buf *buf, uint64_t second_extents, int is_typed) {
    struct vv_buf bytes;
    vv_buf_init(&bytes);
    put_bytes(&bytes, PACK_RAW);
    struct vv_block block = {.offset = VV_HEAD_SIZE,
                             .stored = PART_RAW,
                             .raw = PART_RAW,
                             .sum = vv_sum64(bytes.data, PART_RAW),
                             .extent_count = 1,
                             .owner = 4};
    vv_block_encode(buf, &block);
    block.part = 1;
    block.stored = block.raw = PACK_RAW;
    block.sum = vv_sum64(bytes.data, PACK_RAW);
    block.extents_offset = second_extents;
    block.extent_count = 2;
    block.flags = VV_BLOCK_IDS;
    if (is_typed) { /* zstd over a byte shuffle over a delta; the golden pack holds no real frame */
        block.codec = 2;
        block.filter[0] = 3;
        block.filter[1] = 1;
        block.element = 8;
        block.stored = TYPED_STORED;
        block.sum = vv_sum64(bytes.data, TYPED_STORED);
    }
    vv_block_encode(buf, &block);
    vv_buf_clear(&bytes);
}

/* Append a section to the object and to the footer's list; clears the section. */
static void add_section(struct vv_buf *buf, struct vv_footer *footer, uint32_t kind, uint32_t owner,
                        struct vv_buf *section) {
    footer->sections[footer->section_count++] = (struct vv_section){
        .kind = kind,
        .owner = owner,
        .offset = buf->size,
        .length = section->size,
        .digest = vv_digest(section->data, section->size),
    };
    vv_buf_append(buf, section->data, section->size);
    vv_buf_clear(section);
}

static void put_ranges(struct vv_buf *buf) {
    double low = -1.5, high = 1e300;
    struct vv_range integers = {.type = 3, .low = (uint64_t)-5, .high = 32767};
    struct vv_range floats = {.type = 10, .flags = VV_RANGE_NAN};
    memcpy(&floats.low, &low, sizeof low);
    memcpy(&floats.high, &high, sizeof high);
    vv_range_encode(buf, 0, &integers);
    vv_range_encode(buf, 1, &floats);
}

static void add_tables(struct vv_buf *buf, struct vv_footer *footer, int is_typed) {
    struct vv_buf blocks, section;
    uint64_t second_extents;
    vv_buf_init(&blocks);
    vv_buf_init(&section);
    put_extents(&section, &second_extents);
    put_blocks(&blocks, second_extents, is_typed);
    add_section(buf, footer, VV_SECTION_BLOCKS, 0, &blocks);
    add_section(buf, footer, VV_SECTION_EXTENTS, 0, &section);
    put_bytes(&section, 32);
    add_section(buf, footer, VV_SECTION_IDS, 0, &section);
    struct vv_extent_coder coder = {.owner = 4};
    struct vv_moved moved = {{.owner = 4, .address = UINT64_C(1) << 44}, UINT64_C(5) << 32, 2};
    vv_moved_encode(&section, &coder, &moved);
    add_section(buf, footer, VV_SECTION_MOVED, 0, &section);
    sample_manifest_base(&section);
    add_section(buf, footer, VV_SECTION_MANIFEST, 4, &section);
    sample_manifest_overlay(&section);
    add_section(buf, footer, VV_SECTION_MANIFEST, 5, &section);
    if (is_typed) {
        put_ranges(&section);
        add_section(buf, footer, VV_SECTION_RANGES, 0, &section);
    }
}

/* ---- arrays of the whole job ---- */

static void put_array(struct vv_manifest_writer *writer, uint32_t number, const char *name, unsigned distribution,
                      const struct vv_region_shape *shape) {
    struct vv_region_entry entry = {.number = number,
                                    .flags = VV_REGION_DESCRIBED,
                                    .length = 4096,
                                    .address = UINT64_C(4096) * number,
                                    .shape = *shape};
    snprintf(entry.name, sizeof entry.name, "%s", name);
    entry.shape.distribution = (uint8_t)distribution;
    vv_manifest_region(writer, &entry, entry.address);
    vv_manifest_run(writer, &(struct vv_run){.kind = VV_RUN_HERE, .length = 4096});
    vv_manifest_region_end(writer, (struct vv_hash128){number + 1, 7});
}

void sample_manifest_arrays(struct vv_buf *buf) {
    struct vv_manifest_head head = {
        .owner = 4, .regions = 5, .protected_bytes = 5 * 4096, .layout_bytes = 5 * 4096, .entries = 5, .runs = 5};
    const struct vv_region_shape cyclic = {
        .type = 10, .dims = 2, .dim = {{100, 16, 32, {8, 24}}, {UINT64_C(1) << 40, 5, 16, {0, 0}}}};
    const struct vv_region_shape list = {.type = 8, .dims = 1, .dim = {{512, 0, 512, {0, 0}}}}, bytes = {0};
    struct vv_manifest_writer writer;
    vv_manifest_head_encode(buf, &head);
    vv_manifest_begin(&writer, buf, 4);
    put_array(&writer, 0, "cyclic", VARVE_BY_DIMS, &cyclic);
    put_array(&writer, 1, "list", VARVE_JOINED, &list);
    put_array(&writer, 2, "common", VARVE_REPLICATED, &bytes);
    put_array(&writer, 3, "own", VARVE_BY_RANK, &bytes);
    put_array(&writer, 4, "scratch", VARVE_DROPPED, &bytes);
}

void sample_attributes(struct vv_buf *buf) {
    vv_attribute_put(buf, "time", "0.25");
    vv_attribute_put(buf, "input file", "heat.in");
    vv_attribute_put(buf, "empty", "");
}

static void describe(struct vv_global_arrays *arrays, uint32_t owner, const char *name, unsigned distribution,
                     const struct vv_region_shape *shape) {
    struct vv_recipe_region region = {.length = vv_type_size(shape->type), .shape = *shape};
    struct varve_error error = {0};
    snprintf(region.name, sizeof region.name, "%s", name);
    region.shape.distribution = (uint8_t)distribution;
    for (unsigned i = 0; i < shape->dims; i++)
        region.length *= shape->dim[i].local;
    if (vv_global_arrays_describe(arrays, owner, &region, &error) != 0)
        abort();
}

/* A grid of 2 x 3, one of which rows are dealt out, a list, and blocks that are no grid. */
void sample_arrays(struct vv_buf *buf) {
    struct vv_global_arrays arrays = {0};
    for (uint32_t r = 0; r < SAMPLE_RANKS; r++) {
        uint64_t row = r / 3, column = r % 3;
        describe(&arrays, r, "tiles", VARVE_BY_DIMS,
                 &(struct vv_region_shape){
                     .type = 10, .dims = 2, .dim = {{11, row * 5, 5 + row, {0, 0}}, {12, column * 4, 4, {0, 0}}}});
        describe(&arrays, r, "dealt", VARVE_BY_DIMS,
                 &(struct vv_region_shape){.type = 9, .dims = 1, .dim = {{36, r * 3, 6, {3, 18}}}});
        describe(&arrays, r, "list", VARVE_JOINED,
                 &(struct vv_region_shape){.type = 8, .dims = 1, .dim = {{r * 2, 0, r * 2, {0, 0}}}});
        describe(
            &arrays, r, "uneven", VARVE_BY_DIMS,
            &(struct vv_region_shape){
                .type = 5, .dims = 2, .dim = {{6, r, 1, {0, 0}}, {10, r % 2 ? 0 : 4, r == 5 ? 0 : 6 - r % 2, {0, 0}}}});
    }
    vv_index_encode(&arrays, SAMPLE_RANKS, buf);
    vv_global_arrays_clear(&arrays);
}

static void put_pack(struct vv_buf *buf, int is_typed) {
    struct vv_key key = sample_key(VV_KIND_PACK);
    struct vv_section sections[SAMPLE_TYPED_SECTIONS];
    uint32_t stored = is_typed ? TYPED_STORED : PACK_RAW;
    uint64_t part_length = VV_HEAD_SIZE + PART_RAW;
    struct vv_footer footer = {
        .settings = settings,
        .writers = 3,
        .ranks = 8,
        .first_owner = 4,
        .owners = 2,
        .partner_count = 2,
        .partners = {0, 2},
        .parent = parent,
        .time_ns = TIME_NS + 5,
        .protected_bytes = 70000 + (1 << 20),
        .raw_bytes = PART_RAW + PACK_RAW,
        .stored_bytes = PART_RAW + stored,
        .regions = 7,
        .parts = 1,
        .dependency_count = SAMPLE_DEPENDENCIES,
        .name = "golden run/1",
        .program = "heat2d",
        .part_lengths = &part_length,
        .dependencies = (struct vv_dependency *)dependencies,
        .sections = sections,
    };
    vv_head_encode(buf, &key, sample_store_id, 0);
    put_bytes(buf, stored);
    add_tables(buf, &footer, is_typed);
    vv_footer_encode(buf, buf->size, &footer, NULL);
}

void sample_pack(struct vv_buf *buf) {
    put_pack(buf, 0);
}

void sample_pack_typed(struct vv_buf *buf) {
    put_pack(buf, 1);
}

/* Everything behind the blocks of the pack, byte for byte. */
void sample_copy(struct vv_buf *buf) {
    struct vv_key key = sample_key(VV_KIND_COPY);
    struct vv_buf pack;
    vv_buf_init(&pack);
    sample_pack(&pack);
    vv_head_encode(buf, &key, sample_store_id, 0);
    vv_buf_append(buf, pack.data + VV_HEAD_SIZE + PACK_RAW, pack.size - VV_HEAD_SIZE - PACK_RAW);
    vv_buf_clear(&pack);
}

/* Of a group of three, with two parts of one pack. The rows have 166, 166 and 100 bytes; the bytes are any. */
void sample_parity_table(struct vv_buf *buf, uint64_t offset) {
    struct vv_covered list[] = {
        {0, 0, 0, 1, 200}, {1, 1, 0, 0, 161}, {1, 1, 1, 1, 170}, {2, 2, 0, 1, 96}, {2, 4, 0, 1, 100},
    };
    struct vv_parity parity = {.data = 2, .parity = 1, .member = 1, .count = 5, .list = list};
    uint8_t sums[3 * VV_PARITY_SUM];
    memset(sums, 0x5a, sizeof sums);
    parity.sums_digest = vv_digest(sums, sizeof sums);
    vv_parity_encode(buf, offset, &parity);
}

void sample_parity(struct vv_buf *buf) {
    struct vv_key key = sample_key(VV_KIND_PARITY);
    vv_head_encode(buf, &key, sample_store_id, 0);
    for (int i = 0; i < 100; i++)
        vv_buf_u8(buf, (uint8_t)i);
    for (unsigned i = 0; i < 3 * VV_PARITY_SUM; i++)
        vv_buf_u8(buf, 0x5a);
    sample_parity_table(buf, buf->size);
}
