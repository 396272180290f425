/* make-seeds FOLDER: write the first inputs of every format target below FOLDER (the corpus), from the encoders. */
#include "../format/samples.h"
#include "encode/coding.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <varve/varve.h>

static int failed;

static void write_seed(const char *root, const char *kind, const char *name, const void *data, size_t size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", root, kind);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/%s", root, kind, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size)
        failed = 1;
    if (file && fclose(file) != 0)
        failed = 1;
    if (failed)
        perror(path);
}

static void write_buf(const char *root, const char *kind, const char *name, struct vv_buf *buf) {
    write_seed(root, kind, name, buf->data, buf->size);
    if (buf->size >= VV_HEAD_SIZE && buf->data[0] == 0x89)
        write_seed(root, "head", kind, buf->data, VV_HEAD_SIZE);
    vv_buf_clear(buf);
}

static void write_small(const char *root) {
    struct vv_buf buf;
    vv_buf_init(&buf);
    sample_store(&buf);
    write_buf(root, "store", "one", &buf);
    sample_claim(&buf);
    write_buf(root, "claim", "one", &buf);
    sample_heartbeat(&buf);
    write_buf(root, "beat", "one", &buf);
    sample_writers(&buf);
    write_buf(root, "writers", "three", &buf);
    sample_record(&buf);
    write_buf(root, "record", "leans", &buf);
    sample_tombstone(&buf, VV_KIND_RECORD);
    write_buf(root, "record", "tombstone", &buf);
    sample_tombstone(&buf, VV_KIND_PACK);
    write_buf(root, "tombstone", "failed", &buf);
    sample_pin(&buf);
    write_buf(root, "pin", "one", &buf);
    sample_trigger(&buf);
    write_buf(root, "trigger", "one", &buf);
    sample_job_log(&buf);
    write_buf(root, "log", "one", &buf);
    sample_tombstone(&buf, VV_KIND_PIN);
    write_buf(root, "pin", "tombstone", &buf);
    sample_catalogue(&buf);
    write_buf(root, "catalogue", "three", &buf);
    sample_manifest_base(&buf);
    write_buf(root, "manifest", "base", &buf);
    sample_manifest_overlay(&buf);
    write_buf(root, "manifest", "overlay", &buf);
}

/* Footer and tables, taken out of a pack. */
static void write_pack(const char *root) {
    struct vv_buf buf, tables;
    vv_buf_init(&buf);
    vv_buf_init(&tables);
    sample_pack(&buf);
    uint8_t *end = buf.data + buf.size - VV_END_SIZE;
    uint8_t *list = end - SAMPLE_PACK_SECTIONS * 40;
    uint64_t footer = vv_get64(end);
    uint64_t blocks = vv_get64(list + 8), blocks_size = vv_get64(list + 16);
    write_seed(root, "footer", "pack", buf.data + footer, buf.size - footer);
    write_seed(root, "head", "pack", buf.data, VV_HEAD_SIZE);
    vv_buf_u8(&tables, (uint8_t)(blocks_size / VV_BLOCK_ENTRY_SIZE));
    vv_buf_append(&tables, buf.data + blocks, blocks_size + vv_get64(list + 40 + 16));
    write_seed(root, "tables", "pack", tables.data, tables.size);
    vv_buf_clear(&tables);
    vv_buf_clear(&buf);
}

static void write_parity(const char *root) {
    struct vv_buf buf;
    vv_buf_init(&buf);
    sample_parity_table(&buf, VV_HEAD_SIZE + 100 + 3 * VV_PARITY_SUM);
    write_seed(root, "parity", "group", buf.data, buf.size);
    vv_buf_clear(&buf);
}

/* The tables and the ranges of the typed pack. */
static void write_typed(const char *root) {
    struct vv_buf buf, seed;
    vv_buf_init(&buf);
    vv_buf_init(&seed);
    sample_pack_typed(&buf);
    uint8_t *end = buf.data + buf.size - VV_END_SIZE;
    uint8_t *list = end - SAMPLE_TYPED_SECTIONS * 40;
    uint8_t *ranges = end - 40;
    uint64_t blocks_size = vv_get64(list + 16), footer = vv_get64(end);
    write_seed(root, "footer", "typed", buf.data + footer, buf.size - footer);
    vv_buf_u8(&seed, (uint8_t)(blocks_size / VV_BLOCK_ENTRY_SIZE));
    vv_buf_append(&seed, buf.data + vv_get64(list + 8), blocks_size + vv_get64(list + 40 + 16));
    write_seed(root, "tables", "typed", seed.data, seed.size);
    vv_buf_clear(&seed);
    vv_buf_u8(&seed, 2);
    vv_buf_append(&seed, buf.data + vv_get64(ranges + 8), vv_get64(ranges + 16));
    write_seed(root, "ranges", "typed", seed.data, seed.size);
    vv_buf_clear(&seed);
    vv_buf_clear(&buf);
}

/* A range of every type, in blocks that are not all next to each other. */
static void write_ranges(const char *root) {
    struct vv_buf buf;
    vv_buf_init(&buf);
    vv_buf_u8(&buf, 40);
    for (uint8_t type = 1; type <= 14; type++) {
        struct vv_range range = {.type = type, .low = 0, .high = 100};
        range.flags = type > 8 ? type % 2 : 0;
        if (type == 12)
            range = (struct vv_range){.type = type, .flags = VV_RANGE_NAN | VV_RANGE_EMPTY};
        vv_range_encode(&buf, 2u * type, &range);
    }
    write_seed(root, "ranges", "types", buf.data, buf.size);
    vv_buf_clear(&buf);
}

static void write_moved(const char *root) {
    struct vv_extent_coder coder = {.owner = 3};
    struct vv_buf buf;
    vv_buf_init(&buf);
    vv_buf_u8(&buf, 0);
    for (uint64_t i = 0; i < 4; i++) {
        struct vv_moved moved = {{.owner = 3 + (uint32_t)i / 2, .address = i << 45}, UINT64_C(1) << 33, (uint32_t)i};
        vv_moved_encode(&buf, &coder, &moved);
    }
    write_seed(root, "tables", "moved", buf.data, buf.size);
    vv_buf_clear(&buf);
}

/* Runs and extents of fine chunks: short, of many sources in turns, found elsewhere, repeated with the last piece cut.
 */
static void write_fine_manifest(const char *root, const char *name, uint32_t lower_count) {
    enum { CHUNK = 64, COUNT = 96, LENGTH = 3 * 4096 + 100 };
    struct vv_manifest_head head = {.owner = 1,
                                    .lower_count = lower_count,
                                    .regions = 1,
                                    .protected_bytes = LENGTH,
                                    .layout_bytes = 16384,
                                    .entries = 1,
                                    .runs = COUNT + 3};
    struct vv_region_entry entry = {.flags = VV_REGION_DESCRIBED, .length = LENGTH, .name = "fine"};
    struct vv_manifest_writer writer;
    struct vv_buf buf;
    if (lower_count)
        head.lower[0] = (struct vv_layer_ref){.dependency = 3, .writer = 1, .digest = {5, 6}};
    vv_buf_init(&buf);
    vv_manifest_head_encode(&buf, &head);
    vv_manifest_begin(&writer, &buf, 1);
    vv_manifest_region(&writer, &entry, 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        struct vv_run run = {.kind = VV_RUN_FROM, .offset = (uint64_t)i * CHUNK, .length = CHUNK, .place_count = 1};
        run.places[0] =
            (struct vv_place){.dependency = i % 6, .owner = i % 7 ? 1 : 0, .address = i * 2654435761u % 8192};
        if (i % 5 == 4)
            run.kind = lower_count ? VV_RUN_KEEP : VV_RUN_ZERO;
        else if (i % 5 == 3)
            run.kind = VV_RUN_HERE;
        if (run.kind != VV_RUN_FROM)
            run.place_count = 0;
        vv_manifest_run(&writer, &run);
    }
    uint64_t done = (uint64_t)COUNT * CHUNK;
    vv_manifest_run(&writer, &(struct vv_run){.kind = VV_RUN_REPEATED,
                                              .offset = done,
                                              .length = 1000,
                                              .piece = CHUNK,
                                              .place_count = 1,
                                              .places = {{2, 1, 128, 0}}});
    vv_manifest_run(&writer, &(struct vv_run){.kind = VV_RUN_ZERO, .offset = done + 1000, .length = 32});
    vv_manifest_run(&writer,
                    &(struct vv_run){.kind = VV_RUN_HERE, .offset = done + 1032, .length = LENGTH - done - 1032});
    vv_manifest_region_end(&writer, (struct vv_hash128){7, 8});
    write_seed(root, "manifest", name, buf.data, buf.size);
    vv_buf_clear(&buf);
}

/* Two blocks: granules with ids, and fine pieces without. */
static void write_fine_tables(const char *root) {
    enum { PIECES = 40 };
    struct vv_extent_coder coder = {.owner = 0};
    struct vv_block whole = {
        .offset = VV_HEAD_SIZE, .stored = 8192, .raw = 8192, .extent_count = 1, .flags = VV_BLOCK_IDS};
    struct vv_block fine = {.offset = VV_HEAD_SIZE + 8192, .extent_count = PIECES, .first_id = 2};
    struct vv_buf extents, seed;
    vv_buf_init(&extents);
    vv_buf_init(&seed);
    vv_extent_encode(&extents, &coder, &(struct vv_extent){.address = 0, .length = 8192});
    fine.extents_offset = extents.size;
    coder = (struct vv_extent_coder){.owner = 0};
    for (uint32_t i = 0; i < PIECES; i++) {
        struct vv_extent extent = {.address = 8192 + i * 224, .length = 32u << i % 3};
        fine.raw += extent.length;
        vv_extent_encode(&extents, &coder, &extent);
    }
    fine.stored = fine.raw;
    vv_buf_u8(&seed, 2);
    vv_block_encode(&seed, &whole);
    vv_block_encode(&seed, &fine);
    vv_buf_append(&seed, extents.data, extents.size);
    write_seed(root, "tables", "fine", seed.data, seed.size);
    vv_buf_clear(&extents);
    vv_buf_clear(&seed);
}

/* A block in every coding, to be decoded, and the same to be encoded: see fuzz_codec.c. row 3: filters take vectors. */
static void write_blocks(const char *root, uint32_t row) {
    enum { COUNT = 300, ROW = 20, SIZE = COUNT * 8 };
    uint8_t raw[SIZE], stored[SIZE];
    for (int i = 0; i < COUNT; i++) { /* multiples of 1/8, so that they lie on a grid, too */
        double x = 100 + (i % ROW) * 0.125 + (i / ROW) * 0.25 + (i * i % 7) * 0.125;
        memcpy(raw + (size_t)i * 8, &x, 8);
    }
    struct vv_coder *coder;
    if (vv_coder_create(&coder)) {
        failed = 1;
        return;
    }
    for (int name = 0; name <= VV_CODING_NAMES; name++) {
        int is_grid = name == VV_CODING_NAMES;
        uint8_t type = name == VV_CODING_ROTATE_ZSTD ? VARVE_F32 : VARVE_F64;
        struct vv_content content = {.type = type, .row = row, .grid = is_grid ? 0.125 : 0};
        struct vv_coding coding;
        uint8_t element = row == 3 && name % 2 ? 12 : 0; /* of filters; the others take 24 for vectors */
        if (!vv_coding_fit(is_grid ? VV_CODING_ZFP : name, &content, element, &coding) ||
            (row == 3 && !coding.filter[0]))
            continue;
        int64_t got = vv_coder_encode(coder, &coding, &content, raw, SIZE, stored, 1);
        uint8_t head[11] = {coding.codec, coding.filter[0], coding.filter[1], coding.element};
        vv_put32(head + 4, SIZE - 1);
        vv_put16(head + 7, (uint16_t)row);
        vv_put16(head + 9, (uint16_t)-3);
        for (int is_encoding = 0; is_encoding < 2; is_encoding++) {
            struct vv_buf seed;
            char text[64];
            vv_buf_init(&seed);
            head[0] = is_encoding ? coding.codec | 128 : coding.codec;
            vv_buf_append(&seed, head, sizeof head);
            vv_buf_append(&seed, is_encoding || got <= 0 ? raw : stored, is_encoding || got <= 0 ? SIZE : (size_t)got);
            snprintf(text, sizeof text, "%s-%s%s", is_encoding ? "encode" : "decode",
                     is_grid ? "grid" : vv_coding_text(name), row == 3 ? "-vectors" : "");
            write_seed(root, "codec", text, seed.data, seed.size);
            vv_buf_clear(&seed);
        }
    }
    vv_coder_destroy(coder);
}

static void write_keys(const char *root) {
    for (int kind = VV_KIND_STORE; kind <= VV_KIND_LAST; kind++) {
        char text[VV_KEY_CAPACITY];
        struct vv_key key = sample_key(kind);
        if (kind == VV_KIND_TOMBSTONE || kind == VV_KIND_SEALED)
            continue;
        vv_key_print(&key, text);
        write_seed(root, "key", vv_kind_name(kind), text, strlen(text));
    }
    write_seed(root, "key", "name", "%2Ea.b%2F", 9);
    write_seed(root, "key", "number", "0123cdef", 8);
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    write_small(argv[1]);
    write_pack(argv[1]);
    write_parity(argv[1]);
    write_moved(argv[1]);
    write_fine_manifest(argv[1], "fine", 0);
    write_fine_manifest(argv[1], "fine-overlay", 1);
    write_fine_tables(argv[1]);
    write_typed(argv[1]);
    write_ranges(argv[1]);
    write_keys(argv[1]);
    write_blocks(argv[1], 20);
    write_blocks(argv[1], 3);
    return failed;
}
