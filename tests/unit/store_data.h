/* For tests of stored data: a store in memory, packs with chosen blocks and manifests, records without a session,
 * and a way to change any part of a pack while all digests stay right. */
#ifndef TEST_STORE_DATA_H
#define TEST_STORE_DATA_H

#include "../format/random.h"
#include "base/alloc.h"
#include "base/content_id.h"
#include "check/verify.h"
#include "encode/coding.h"
#include "lifecycle/commit.h"
#include "storage/storage.h"
#include "store/pack_reader.h"
#include "store/pack_writer.h"
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNUSED __attribute__((unused))
#define NAME "data"

static struct vv_log quiet = {.level = VV_LOG_ERROR, .rank = -1};

#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        int rc_ = (call);                                                                                              \
        if (rc_ < 0)                                                                                                   \
            fail_msg("%s: %d %s", #call, rc_, failure.text);                                                           \
    } while (0)

static struct varve_error failure UNUSED;

static UNUSED struct vv_store *open_store(const char *uri) {
    struct vv_backend_options options = {.may_create = 1};
    struct varve_backend *backend;
    struct vv_store *store;
    assert_ok(vv_backend_open(uri, &options, &backend, &failure));
    assert_ok(vv_store_open(backend, VV_STORE_WRITE, &quiet, &store, &failure));
    return store;
}

static UNUSED struct vv_store *new_store(void) {
    static unsigned count;
    char uri[64];
    snprintf(uri, sizeof uri, "mem://data%u", ++count);
    return open_store(uri);
}

static UNUSED struct vv_attempt attempt_at(uint32_t generation, uint64_t version) {
    return (struct vv_attempt){.generation = generation, .version = version};
}

static UNUSED struct vv_pack_options one_writer(void) {
    return (struct vv_pack_options){.writers = 1, .ranks = 1, .owners = 1, .part_size = 1u << 30, .program = "test"};
}

static UNUSED struct vv_pack_writer *begin_pack(struct vv_store *store, struct vv_attempt attempt,
                                                const struct vv_pack_options *options) {
    struct vv_pack_writer *pack;
    assert_ok(vv_pack_begin(store, NAME, &attempt, options, &pack, &failure));
    return pack;
}

/* One block whose raw bytes are `raw`, laid out as extents say. ids are made when asked for. */
static UNUSED void put_block(struct vv_store *store, struct vv_pack_writer *pack, const struct vv_extent *extents,
                             uint32_t count, const uint8_t *raw, int codec, int has_ids) {
    struct vv_block block = {.codec = (uint8_t)codec, .owner = extents[0].owner, .flags = has_ids ? VV_BLOCK_IDS : 0};
    struct vv_hash128 *ids = NULL;
    uint64_t id_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t at = 0; has_ids && at < extents[i].length; at += VV_GRANULE) {
            uint32_t size = extents[i].length - at < VV_GRANULE ? extents[i].length - at : VV_GRANULE;
            ids = realloc(ids, (id_count + 1) * sizeof *ids);
            ids[id_count] = (struct vv_hash128){0, 0};
            if (!vv_is_zero(raw + block.raw + at, size))
                ids[id_count] = vv_id(store->settings.seed, raw + block.raw + at, size);
            id_count++;
        }
        block.raw += extents[i].length;
    }
    uint8_t *stored = malloc(block.raw);
    struct vv_coder *coder;
    assert_ok(vv_coder_create(&coder));
    int64_t size = vv_coder_encode(coder, &(struct vv_coding){.codec = (uint8_t)codec}, &(struct vv_content){0}, raw,
                                   block.raw, stored, 1);
    vv_coder_destroy(coder);
    if (size <= 0)
        block.codec = VV_CODEC_NONE;
    block.stored = size > 0 ? (uint32_t)size : block.raw;
    assert_ok(vv_pack_block(pack, &block, size > 0 ? stored : raw, extents, count, ids, id_count, &failure));
    free(stored);
    free(ids);
}

static UNUSED void put_extent(struct vv_store *store, struct vv_pack_writer *pack, uint32_t owner, uint64_t address,
                              const uint8_t *raw, uint32_t length, int codec, int has_ids) {
    struct vv_extent extent = {.owner = owner, .address = address, .length = length};
    put_block(store, pack, &extent, 1, raw, codec, has_ids);
}

/* ---- manifests ---- */

struct mf {
    struct vv_buf buf;
    struct vv_manifest_writer writer;
    struct vv_manifest_head head;
};

static UNUSED void mf_begin(struct mf *mf, uint32_t owner, uint64_t layout) {
    *mf = (struct mf){.head = {.owner = owner, .layout_bytes = layout}};
    vv_buf_init(&mf->buf);
    vv_manifest_begin(&mf->writer, &mf->buf, owner);
}

static UNUSED void mf_region(struct mf *mf, uint64_t number, const char *name, uint64_t address, uint64_t length,
                             int flags) {
    struct vv_region_entry entry = {.number = number, .flags = (uint8_t)flags, .length = length, .address = address};
    snprintf(entry.name, sizeof entry.name, "%s", name);
    vv_manifest_region(&mf->writer, &entry, address);
}

static UNUSED void mf_run(struct mf *mf, int kind, uint64_t length, const struct vv_place *place, uint64_t piece) {
    struct vv_run run = {.kind = kind, .offset = mf->writer.offset, .length = length, .piece = piece};
    if (place) {
        run.place_count = 1;
        run.places[0] = *place;
    }
    vv_manifest_run(&mf->writer, &run);
}

static UNUSED void mf_store(struct mf *mf, struct vv_pack_writer *pack, struct vv_hash128 *digest) {
    mf->head.entries = mf->writer.entries;
    mf->head.runs = mf->writer.runs;
    assert_int_equal(mf->buf.failed, 0);
    assert_ok(vv_pack_manifest_begin(pack, &mf->head, &failure));
    assert_ok(vv_pack_manifest_add(pack, mf->buf.data, mf->buf.size, &failure));
    assert_ok(vv_pack_manifest_end(pack, digest, &failure));
    vv_buf_clear(&mf->buf);
}

/* The digest of a region by its definition. */
static UNUSED struct vv_hash128 region_digest(const struct vv_store *store, const uint8_t *data, uint64_t length) {
    struct vv_hash128 sum = {0, 0};
    for (uint64_t i = 0; i * VV_GRANULE < length; i++) {
        uint64_t left = length - i * VV_GRANULE;
        size_t size = left < VV_GRANULE ? left : VV_GRANULE;
        if (!vv_is_zero(data + i * VV_GRANULE, size))
            sum = vv_hash128_add(sum, vv_digest_term(i, vv_id(store->settings.seed, data + i * VV_GRANULE, size)));
    }
    return sum;
}

/* ---- records ---- */

static UNUSED void put_object(struct vv_store *store, const struct vv_key *key, struct vv_buf *buf) {
    char text[VV_KEY_CAPACITY];
    vv_key_print(key, text);
    assert_int_equal(buf->failed, 0);
    assert_ok(vv_backend_replace(store->backend, text, buf->data, buf->size));
    vv_buf_clear(buf);
}

static UNUSED void put_record(struct vv_store *store, struct vv_attempt attempt, struct vv_writers *writers,
                              struct vv_record *record) {
    struct vv_key key = vv_attempt_key(NAME, &attempt, VV_KIND_WRITERS, 0, 0);
    struct vv_buf buf;
    vv_buf_init(&buf);
    vv_writers_encode(&buf, &key, store->id, writers, &record->writers_digest);
    record->writers_length = buf.size;
    put_object(store, &key, &buf);
    key = vv_attempt_key(NAME, &attempt, VV_KIND_RECORD, 0, 0);
    vv_record_encode(&buf, &key, store->id, record);
    put_object(store, &key, &buf);
}

/* Make a voted attempt a checkpoint; dependency_out is how later ones depend on it. */
static UNUSED void commit(struct vv_store *store, struct vv_attempt attempt, struct vv_dependency *dependency_out) {
    struct vv_writers writers;
    struct vv_record record;
    int rc = vv_votes_read(store, NAME, &attempt, &writers, &record, &failure);
    if (rc != 1)
        fail_msg("votes: %d %s", rc, failure.text);
    record.time_ns = 1;
    put_record(store, attempt, &writers, &record);
    if (dependency_out)
        *dependency_out = (struct vv_dependency){.attempt = attempt, .writers_digest = record.writers_digest};
    vv_writers_clear(&writers);
    vv_record_clear(&record);
}

/* ---- surgery: change a pack, and make everything above it agree ---- */

#define SECTIONS_MAX 16
struct surgery {
    struct vv_footer footer;
    struct vv_buf body; /* blocks */
    struct vv_buf section[SECTIONS_MAX];
    struct vv_buf footer_bytes; /* with end; set for the second cut */
    uint64_t required;
};
typedef void (*cut_fn)(struct surgery *surgery, int is_footer_encoded);

static UNUSED void get_object(struct vv_store *store, const struct vv_key *key, struct vv_buf *buf) {
    char text[VV_KEY_CAPACITY];
    vv_key_print(key, text);
    vv_buf_init(buf);
    assert_ok(vv_backend_get_all(store->backend, text, UINT64_C(1) << 32, buf));
}

static UNUSED void relist(struct vv_store *store, struct vv_attempt attempt, uint32_t writer, uint64_t length,
                          struct vv_hash128 digest) {
    struct vv_key key = vv_attempt_key(NAME, &attempt, VV_KIND_WRITERS, 0, 0);
    struct vv_writers writers;
    struct vv_record record;
    struct vv_buf buf;
    get_object(store, &key, &buf);
    assert_ok(vv_writers_parse(buf.data, buf.size, &key, store->id, &writers, &failure));
    vv_buf_clear(&buf);
    assert_ok(vv_record_load(store, NAME, attempt.generation, attempt.version, &record, &failure));
    writers.list[writer].pack_length = length;
    writers.list[writer].footer_digest = digest;
    put_record(store, attempt, &writers, &record);
    vv_writers_clear(&writers);
    vv_record_clear(&record);
}

static UNUSED void operate(struct vv_store *store, struct vv_attempt attempt, uint32_t writer, cut_fn cut) {
    struct vv_key key = vv_attempt_key(NAME, &attempt, VV_KIND_PACK, writer, 0);
    struct vv_pack_id id = {.store = store, .name = NAME, .attempt = attempt, .writer = writer};
    static struct surgery s;
    struct vv_buf bytes, out;
    memset(&s, 0, sizeof s);
    get_object(store, &key, &bytes);
    assert_ok(vv_pack_footer_load(&id, VV_KIND_PACK, NULL, &s.footer, NULL, &failure));
    assert_true(s.footer.section_count <= SECTIONS_MAX);
    vv_buf_append(&s.body, bytes.data + VV_HEAD_SIZE, s.footer.sections[0].offset - VV_HEAD_SIZE);
    for (uint32_t i = 0; i < s.footer.section_count; i++)
        vv_buf_append(&s.section[i], bytes.data + s.footer.sections[i].offset, s.footer.sections[i].length);
    cut(&s, 0);
    vv_buf_init(&out);
    vv_head_encode(&out, &key, store->id, 0);
    vv_put64(out.data + 16, s.required);
    vv_put64(out.data + 88, vv_sum64(out.data, 88));
    vv_buf_append(&out, s.body.data, s.body.size);
    for (uint32_t i = 0; i < s.footer.section_count; i++) {
        s.footer.sections[i].offset = out.size;
        s.footer.sections[i].length = s.section[i].size;
        s.footer.sections[i].digest =
            vv_digest(s.section[i].size ? s.section[i].data : (uint8_t *)"", s.section[i].size);
        vv_buf_append(&out, s.section[i].data, s.section[i].size);
        vv_buf_clear(&s.section[i]);
    }
    uint64_t footer_at = out.size;
    struct vv_hash128 digest;
    vv_footer_encode(&s.footer_bytes, footer_at, &s.footer, NULL);
    cut(&s, 1);
    size_t footer_size = s.footer_bytes.size - VV_END_SIZE;
    digest = vv_digest(s.footer_bytes.data, footer_size);
    vv_put64(s.footer_bytes.data + footer_size, footer_at);
    vv_put32(s.footer_bytes.data + footer_size + 8, (uint32_t)footer_size);
    vv_hash128_put(s.footer_bytes.data + footer_size + 16, digest);
    vv_buf_append(&out, s.footer_bytes.data, s.footer_bytes.size);
    uint64_t length = out.size;
    put_object(store, &key, &out);
    relist(store, attempt, writer, length, digest);
    vv_footer_clear(&s.footer);
    vv_buf_clear(&s.body);
    vv_buf_clear(&s.footer_bytes);
    vv_buf_clear(&bytes);
}

/* ---- reading back ---- */

static UNUSED void read_region(struct vv_recipe *recipe, struct vv_fetch *fetch, uint64_t length, uint8_t *out) {
    struct vv_run run;
    uint64_t at = 0;
    int rc;
    while ((rc = vv_recipe_next_run(recipe, &run, &failure)) > 0) {
        assert_int_equal(run.offset, at);
        assert_true(run.length > 0 && run.length <= length - at);
        assert_ok(vv_fetch_add(fetch, &run, 0, run.length, out + at, 0, &failure));
        at += run.length;
    }
    assert_ok(rc);
    assert_int_equal(at, length);
}

/* ---- reading all of a checkpoint, a window of each run ---- */

static UNUSED int read_runs(struct vv_recipe *recipe, struct vv_fetch *fetch) {
    static uint8_t window[65536];
    struct vv_run run;
    int rc;
    while ((rc = vv_recipe_next_run(recipe, &run, &failure)) > 0) {
        uint64_t size = run.length < sizeof window ? run.length : sizeof window;
        rc = vv_fetch_add(fetch, &run, run.length - size, size, window, 0, &failure);
        if (rc == 0)
            rc = vv_fetch_run(fetch, &failure);
        if (rc < 0)
            return rc;
    }
    return rc;
}

static UNUSED int read_all(struct vv_store *store, uint64_t version) {
    struct vv_view *view = NULL;
    struct vv_recipe *recipe = NULL;
    struct vv_fetch *fetch = NULL;
    struct vv_recipe_region region;
    vv_error_clear(&failure);
    int rc = vv_view_open(store, NAME, 1, version, &view, &failure);
    if (rc == 0)
        rc = vv_recipe_open(view, 0, &recipe, &failure);
    if (rc == 0)
        rc = vv_fetch_create(view, NULL, &fetch);
    while (rc == 0 && (rc = vv_recipe_next_region(recipe, &region, &failure)) > 0)
        rc = read_runs(recipe, fetch);
    vv_fetch_destroy(fetch);
    vv_recipe_close(recipe);
    vv_view_close(view);
    return rc;
}

/* ---- verify, with all findings in one text ---- */

struct findings {
    char text[16384];
    unsigned count[3];
};
static UNUSED void note_finding(void *arg, int level, const char *key, const char *text) {
    struct findings *findings = arg;
    size_t used = strlen(findings->text);
    findings->count[level]++;
    snprintf(findings->text + used, sizeof findings->text - used, "%d %s: %s\n", level, key, text);
}
static UNUSED struct vv_verify_result verify(struct vv_store *store, struct vv_pool *pool, int is_quick,
                                             struct findings *findings) {
    struct vv_verify_options options = {.pool = pool, .is_quick = is_quick, .finding = note_finding, .arg = findings};
    struct vv_verify_result result;
    memset(findings, 0, sizeof *findings);
    assert_ok(vv_verify(store, &options, &result, &failure));
    return result;
}
static UNUSED void assert_sound(struct vv_store *store, struct vv_pool *pool) {
    static struct findings findings;
    for (int is_quick = 0; is_quick < 2; is_quick++) {
        verify(store, pool, is_quick, &findings);
        if (findings.count[0] + findings.count[1] + findings.count[2])
            fail_msg("quick %d: %s", is_quick, findings.text);
    }
}

#endif
