/* Manifests: random ones there and back through fills of any size; cut ones; very many regions and runs. */
#include "../format/random.h"
#include "base/alloc.h"
#include "format/manifest.h"
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OWNER 1000u
#define DEPENDENCIES 300u
#define LAYOUT (UINT64_C(1) << 61)

/* A section in memory, given in pieces of at most `piece` bytes. */
struct source {
    const uint8_t *data;
    uint64_t size;
    size_t piece;
};

static int64_t fill(void *arg, uint64_t offset, void *data, size_t size) {
    const struct source *source = arg;
    assert_true(offset <= source->size);
    if (size > source->size - offset)
        size = source->size - offset;
    if (size > source->piece)
        size = source->piece;
    memcpy(data, source->data + offset, size);
    return (int64_t)size;
}

static struct vv_run random_run(uint64_t offset, uint64_t length, int is_overlay) {
    struct vv_run run = {.offset = offset, .length = length};
    do
        run.kind = (int)(1 + random_below(6));
    while (run.kind == VV_RUN_KEEP && !is_overlay);
    if (run.kind == VV_RUN_FROM || run.kind == VV_RUN_REPEATED)
        run.place_count = 1;
    else if (run.kind == VV_RUN_FROM_ANY)
        run.place_count = (uint32_t)(2 + random_below(15));
    if (run.kind == VV_RUN_REPEATED)
        run.piece = 1 + random_below(length < UINT32_MAX ? length : UINT32_MAX);
    for (uint32_t i = 0; i < run.place_count; i++) {
        run.places[i].dependency = (uint32_t)random_below(DEPENDENCIES + 1);
        run.places[i].owner = (uint32_t)random_bits(30);
        run.places[i].address = random_bits(61);
        run.places[i].copy = run.kind == VV_RUN_FROM_ANY ? (uint32_t)random_below(4) : 0;
    }
    return run;
}

static void random_shape(struct vv_region_shape *shape) {
    shape->type = (uint8_t)random_below(15);
    shape->dims = (uint8_t)random_below(VV_DIMS_MAX + 1);
    shape->is_lossy = (uint8_t)random_below(2);
    if (shape->is_lossy)
        shape->bound = (double)random_u64() / 3;
    for (int i = 0; i < shape->dims; i++) {
        shape->dim[i].global = random_bits(64);
        shape->dim[i].first = random_bits(64);
        shape->dim[i].local = random_bits(64);
    }
}

#define REGIONS 12
#define RUNS 30

/* A manifest as a list, to compare with. */
struct model {
    struct vv_manifest_head head;
    struct vv_region_entry regions[REGIONS];
    uint64_t addresses[REGIONS];
    struct vv_hash128 digests[REGIONS];
    struct vv_run runs[REGIONS][RUNS];
    int run_count[REGIONS];
};

static void make_region(struct model *m, int i, uint64_t *number) {
    struct vv_region_entry *r = &m->regions[i];
    int is_base = m->head.lower_count == 0;
    *number += random_bits(20) + (i > 0);
    r->number = *number;
    r->flags = is_base || random_below(3) ? VV_REGION_DESCRIBED : random_below(2) ? VV_REGION_REMOVED : 0;
    m->addresses[i] = random_bits(60) & ~(uint64_t)(VV_GRANULE - 1);
    m->run_count[i] = 0;
    if (r->flags & VV_REGION_REMOVED)
        return;
    m->run_count[i] = (int)random_below(RUNS);
    for (int j = 0; j < m->run_count[i]; j++) {
        m->runs[i][j] = random_run(r->length, 1 + random_bits(54), !is_base);
        r->length += m->runs[i][j].length;
    }
    m->digests[i] = random_hash();
    m->head.protected_bytes += r->length;
    m->head.runs += (uint64_t)m->run_count[i];
    if (r->flags & VV_REGION_DESCRIBED) {
        random_text(r->name, 1, VV_REGION_NAME_MAX);
        r->address = m->addresses[i];
        random_shape(&r->shape);
    }
}

static void make_model(struct model *m) {
    uint64_t number = 0;
    memset(m, 0, sizeof *m);
    m->head.owner = OWNER;
    m->head.lower_count = (uint32_t)random_below(4);
    m->head.layout_bytes = LAYOUT;
    m->head.entries = m->head.regions = random_below(REGIONS + 1);
    for (uint32_t i = 0; i < m->head.lower_count; i++)
        m->head.lower[i] =
            (struct vv_layer_ref){1 + (uint32_t)random_below(DEPENDENCIES), (uint32_t)random_bits(30), random_hash()};
    for (uint64_t i = 0; i < m->head.entries; i++)
        make_region(m, (int)i, &number);
}

static void write_model(struct vv_buf *buf, const struct model *m) {
    struct vv_manifest_writer writer;
    vv_manifest_head_encode(buf, &m->head);
    vv_manifest_begin(&writer, buf, OWNER);
    for (uint64_t i = 0; i < m->head.entries; i++) {
        vv_manifest_region(&writer, &m->regions[i], m->addresses[i]);
        if (m->regions[i].flags & VV_REGION_REMOVED)
            continue;
        for (int j = 0; j < m->run_count[i]; j++)
            vv_manifest_run(&writer, &m->runs[i][j]);
        vv_manifest_region_end(&writer, m->digests[i]);
    }
    assert_true(writer.entries == m->head.entries && writer.runs == m->head.runs);
}

static void compare_run(const struct vv_run *a, const struct vv_run *b, uint64_t address) {
    assert_int_equal(a->kind, b->kind);
    assert_true(a->offset == b->offset && a->length == b->length && a->piece == b->piece);
    if (a->kind == VV_RUN_HERE) {
        assert_int_equal(b->place_count, 1);
        assert_true(b->places[0].dependency == 0 && b->places[0].owner == OWNER && b->places[0].copy == 0);
        assert_true(b->places[0].address == address + b->offset);
        return;
    }
    assert_int_equal(a->place_count, b->place_count);
    for (uint32_t i = 0; i < a->place_count; i++)
        assert_memory_equal(&a->places[i], &b->places[i], offsetof(struct vv_place, copy) + sizeof a->places[i].copy);
}

static void compare_region(const struct model *m, uint64_t i, const struct vv_region_entry *b) {
    const struct vv_region_entry *a = &m->regions[i];
    assert_true(a->number == b->number && a->flags == b->flags && a->length == b->length && a->address == b->address);
    assert_string_equal(a->name, b->name);
    assert_true(a->shape.type == b->shape.type && a->shape.dims == b->shape.dims);
    assert_true(a->shape.is_lossy == b->shape.is_lossy && a->shape.bound == b->shape.bound);
    assert_memory_equal(a->shape.dim, b->shape.dim, a->shape.dims * sizeof a->shape.dim[0]);
}

static void read_runs(struct vv_manifest_reader *reader, const struct model *m, uint64_t i) {
    struct varve_error error;
    struct vv_run run;
    struct vv_hash128 digest = {0, 0};
    if (!(m->regions[i].flags & VV_REGION_DESCRIBED))
        vv_manifest_set_address(reader, m->addresses[i]);
    for (int j = 0; j < m->run_count[i]; j++) {
        assert_int_equal(vv_manifest_next_run(reader, &run, &digest, &error), 1);
        compare_run(&m->runs[i][j], &run, m->addresses[i]);
    }
    assert_int_equal(vv_manifest_next_run(reader, &run, &digest, &error), 0);
    assert_true(vv_hash128_equal(digest, m->digests[i]));
}

static void read_model(const struct vv_buf *buf, const struct model *m, size_t piece) {
    struct source source = {buf->data, buf->size, piece};
    struct varve_error error = {0};
    struct vv_manifest_reader *reader;
    struct vv_region_entry entry;
    int rc = vv_manifest_open(fill, &source, buf->size, OWNER, DEPENDENCIES, &reader, &error);
    if (rc < 0)
        print_message("%s\n", error.text);
    assert_int_equal(rc, 0);
    assert_memory_equal(vv_manifest_head(reader), &m->head, sizeof m->head);
    for (uint64_t i = 0; i < m->head.entries; i++) {
        rc = vv_manifest_next_region(reader, &entry, &error);
        if (rc < 0)
            print_message("%s\n", error.text);
        assert_int_equal(rc, 1);
        compare_region(m, i, &entry);
        if (random_below(4)) /* otherwise they are skipped */
            read_runs(reader, m, i);
    }
    assert_int_equal(vv_manifest_next_region(reader, &entry, &error), 0);
    vv_manifest_close(reader);
}

static void test_round_trips(void **state) {
    (void)state;
    static struct model m;
    static const size_t pieces[] = {1, 7, 1000, SIZE_MAX};
    for (int round = 0; round < 1000; round++) {
        struct vv_buf buf;
        vv_buf_init(&buf);
        make_model(&m);
        write_model(&buf, &m);
        read_model(&buf, &m, pieces[round % 4]);
        vv_buf_clear(&buf);
    }
}

/* Read all there is; 0, or the first error. */
static int read_all(vv_fill_fn fn, void *arg, uint64_t size, int is_skipping) {
    struct varve_error error = {0};
    struct vv_manifest_reader *reader;
    struct vv_region_entry entry;
    struct vv_run run;
    struct vv_hash128 digest;
    int rc = vv_manifest_open(fn, arg, size, OWNER, DEPENDENCIES, &reader, &error);
    if (rc < 0)
        return rc;
    while ((rc = vv_manifest_next_region(reader, &entry, &error)) > 0) {
        if (is_skipping || (entry.flags & VV_REGION_REMOVED))
            continue;
        if (!(entry.flags & VV_REGION_DESCRIBED))
            vv_manifest_set_address(reader, 0);
        while ((rc = vv_manifest_next_run(reader, &run, &digest, &error)) > 0)
            ;
        if (rc < 0)
            break;
    }
    if (rc < 0) { /* an error stays */
        assert_true(error.text[0] != '\0');
        assert_int_equal(vv_manifest_next_region(reader, &entry, &error), rc);
    }
    vv_manifest_close(reader);
    return rc;
}

static void test_truncations(void **state) {
    (void)state;
    static struct model m;
    struct vv_buf buf;
    vv_buf_init(&buf);
    do
        make_model(&m);
    while (m.head.entries == 0);
    write_model(&buf, &m);
    for (size_t size = 0; size < buf.size; size++) {
        struct source cut = {buf.data, size, SIZE_MAX};
        assert_int_equal(read_all(fill, &cut, size, 0), VARVE_CORRUPT);
        assert_int_equal(read_all(fill, &cut, size, 1), VARVE_CORRUPT);
        assert_int_equal(read_all(fill, &cut, buf.size, 0), VARVE_CORRUPT); /* shorter than the footer says */
    }
    vv_buf_u8(&buf, 0);
    struct source longer = {buf.data, buf.size, SIZE_MAX};
    assert_int_equal(read_all(fill, &longer, buf.size, 1), VARVE_CORRUPT);
    vv_buf_clear(&buf);
}

/* The section's digest guards it; without it, a flipped byte must at least do no harm. */
static void test_flips(void **state) {
    (void)state;
    static struct model m;
    struct vv_buf buf;
    vv_buf_init(&buf);
    make_model(&m);
    write_model(&buf, &m);
    for (size_t at = 0; at < buf.size; at++) {
        struct source source = {buf.data, buf.size, SIZE_MAX};
        uint8_t flip = (uint8_t)(1 + random_below(255));
        buf.data[at] ^= flip;
        int rc = read_all(fill, &source, buf.size, 0);
        assert_true(rc == 0 || rc == VARVE_CORRUPT || rc == VARVE_UNKNOWN_FORMAT);
        buf.data[at] ^= flip;
    }
    vv_buf_clear(&buf);
}

static int64_t fill_fails(void *arg, uint64_t offset, void *data, size_t size) {
    struct source *source = arg;
    if (offset + size >= source->size / 2)
        return -EIO;
    return fill(arg, offset, data, size);
}

static void test_failing_fill(void **state) {
    (void)state;
    static struct model m;
    struct vv_buf buf;
    vv_buf_init(&buf);
    do {
        vv_buf_clear(&buf);
        make_model(&m);
        write_model(&buf, &m);
    } while (m.head.entries == 0);
    struct source source = {buf.data, buf.size, 50};
    assert_int_equal(read_all(fill_fails, &source, buf.size, 0), -EIO);
#ifdef VARVE_FAULTS
    vv_alloc_fail_at(1);
    assert_int_equal(read_all(fill, &source, buf.size, 0), -ENOMEM);
    vv_alloc_fail_at(0);
#endif
    vv_buf_clear(&buf);
}

/* Write to a file through a small buffer, read through the window. */
struct stream {
    FILE *file;
    struct vv_buf buf;
    struct vv_manifest_writer writer;
    uint64_t written;
    size_t capacity_max;
};

static void stream_flush(struct stream *s, size_t above) {
    if (s->buf.capacity > s->capacity_max)
        s->capacity_max = s->buf.capacity;
    if (s->buf.size <= above)
        return;
    assert_int_equal(fwrite(s->buf.data, 1, s->buf.size, s->file), s->buf.size);
    s->written += s->buf.size;
    s->buf.size = 0;
}

static void stream_begin(struct stream *s) {
    memset(s, 0, sizeof *s);
    vv_buf_init(&s->buf);
    s->file = tmpfile();
    assert_non_null(s->file);
    vv_manifest_begin(&s->writer, &s->buf, OWNER);
    uint8_t space[VV_MANIFEST_HEAD_SIZE] = {0};
    vv_buf_append(&s->buf, space, sizeof space);
}

static void stream_end(struct stream *s, uint64_t protected_bytes) {
    struct vv_manifest_head head = {.owner = OWNER,
                                    .regions = s->writer.entries,
                                    .protected_bytes = protected_bytes,
                                    .layout_bytes = LAYOUT,
                                    .entries = s->writer.entries,
                                    .runs = s->writer.runs};
    stream_flush(s, 0);
    rewind(s->file);
    vv_manifest_head_encode(&s->buf, &head);
    assert_int_equal(fwrite(s->buf.data, 1, s->buf.size, s->file), s->buf.size);
    fflush(s->file);
    vv_buf_clear(&s->buf);
    assert_true(s->capacity_max <= 256 << 10);
}

static int64_t fill_from_file(void *arg, uint64_t offset, void *data, size_t size) {
    FILE *file = arg;
    if (fseek(file, (long)offset, SEEK_SET) != 0)
        return -EIO;
    return (int64_t)fread(data, 1, size, file);
}

/* Read the stream twice; the second pass is warm and timed. One allocation, whatever the length. */
static void stream_read(struct stream *s, const char *what, int is_skipping) {
    uint64_t begin = 0;
    for (int pass = 0; pass < 2; pass++) {
        begin = vv_clock_ns();
#ifdef VARVE_FAULTS
        vv_alloc_fail_at(0);
        uint64_t before = vv_alloc_count();
#endif
        assert_int_equal(read_all(fill_from_file, s->file, s->written, is_skipping), 0);
#ifdef VARVE_FAULTS
        assert_int_equal(vv_alloc_count() - before, 1);
#endif
    }
    print_message("# %s: %" PRIu64 " regions, %" PRIu64 " runs, %.1f MB, %.3f s per pass\n", what, s->writer.entries,
                  s->writer.runs, (double)s->written / 1e6, (double)(vv_clock_ns() - begin) / 1e9);
}

static void test_million_regions(void **state) {
    (void)state;
    static struct vv_region_entry entry = {.flags = VV_REGION_DESCRIBED, .length = 100};
    struct stream s;
    stream_begin(&s);
    for (uint64_t i = 0; i < 1000000; i++) {
        entry.number = i;
        entry.address = i * VV_GRANULE + (UINT64_C(1) << 45);
        snprintf(entry.name, sizeof entry.name, "region %" PRIu64, i);
        vv_manifest_region(&s.writer, &entry, entry.address);
        vv_manifest_run(&s.writer, &(struct vv_run){.kind = VV_RUN_HERE, .length = 100});
        vv_manifest_region_end(&s.writer, (struct vv_hash128){i, i});
        stream_flush(&s, 64 << 10);
    }
    stream_end(&s, 100 * UINT64_C(1000000));
    stream_read(&s, "many regions", 0);
    fclose(s.file);
}

static void test_ten_million_runs(void **state) {
    (void)state;
    static const struct vv_region_entry entry = {.flags = VV_REGION_DESCRIBED,
                                                 .length = UINT64_C(10000000) << 24,
                                                 .name = "large",
                                                 .address = UINT64_C(1) << 44};
    struct vv_run run = {.place_count = 1};
    struct stream s;
    stream_begin(&s);
    uint64_t begin = vv_clock_ns();
    vv_manifest_region(&s.writer, &entry, entry.address);
    for (uint64_t i = 0; i < 10000000; i++) {
        run.kind = i % 4 == 0 ? VV_RUN_HERE : i % 4 == 2 ? VV_RUN_ZERO : VV_RUN_FROM;
        run.offset = i << 24;
        run.length = 1 << 24;
        run.places[0].dependency = (uint32_t)(i % DEPENDENCIES);
        run.places[0].owner = OWNER + (uint32_t)(i % 64);
        run.places[0].address = entry.address + run.offset + (i % 8192) * VV_GRANULE;
        vv_manifest_run(&s.writer, &run);
        stream_flush(&s, 64 << 10);
    }
    vv_manifest_region_end(&s.writer, (struct vv_hash128){1, 2});
    stream_end(&s, entry.length);
    print_message("# written in %.3f s\n", (double)(vv_clock_ns() - begin) / 1e9);
    stream_read(&s, "many runs", 0);
    stream_read(&s, "many runs, skipped", 1);
    fclose(s.file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),     cmocka_unit_test(test_truncations),
        cmocka_unit_test(test_flips),           cmocka_unit_test(test_failing_fill),
        cmocka_unit_test(test_million_regions), cmocka_unit_test(test_ten_million_runs),
    };
    random_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
