/* Damaged and missing objects: another copy is used where there is one, and what is wrong is named where there is
 * none. Verify sees every changed byte. */
#include "store_data.h"

#include "base/fault.h"

#define BLOCK 8192u

static uint8_t content[4 * BLOCK];

static void make_content(void) {
    random_state = 7;
    random_fill(content, sizeof content);
}

/* One region of four blocks; writer 1 is the partner of writer 0 and holds its blocks too, if asked for. */
static void write_checkpoint(struct vv_store *store, struct vv_attempt attempt, int has_partner, uint64_t part_size,
                             struct vv_dependency *dependency_out) {
    struct mf mf;
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
        for (unsigned i = 0; i < 4 && (writer == 0 || has_partner); i++)
            put_extent(store, pack, 0, i * BLOCK, content + i * BLOCK, BLOCK, i == 3 ? VV_CODEC_ZSTD : VV_CODEC_NONE,
                       i % 2);
        assert_ok(vv_pack_dependencies(pack, NULL, 0, &failure));
        mf_begin(&mf, writer, writer ? 0 : sizeof content);
        if (writer == 0) {
            mf_region(&mf, 1, "bytes", 0, sizeof content, VV_REGION_DESCRIBED);
            mf_run(&mf, VV_RUN_HERE, sizeof content, NULL, 0);
            vv_manifest_region_end(&mf.writer, region_digest(store, content, sizeof content));
            mf.head.regions = 1;
            mf.head.protected_bytes = sizeof content;
        }
        mf_store(&mf, pack, NULL);
        assert_ok(vv_pack_seal(pack, writer ? 0 : sizeof content, !writer, NULL, &failure));
    }
    if (dependency_out != (void *)-1)
        commit(store, attempt, dependency_out);
}

/* Change one byte of an object; again to undo. */
static void flip(struct vv_store *store, const char *key, uint64_t at) {
    struct vv_buf buf;
    vv_buf_init(&buf);
    assert_ok(vv_backend_get_all(store->backend, key, 1u << 30, &buf));
    assert_true(at < buf.size);
    buf.data[at] ^= 0x10;
    assert_ok(vv_backend_replace(store->backend, key, buf.data, buf.size));
    vv_buf_clear(&buf);
}

static void pack_key(struct vv_attempt attempt, int kind, uint32_t writer, uint32_t part, char *out) {
    struct vv_key key = vv_attempt_key(NAME, &attempt, kind, writer, part);
    vv_key_print(&key, out);
}

/* Read the region of owner 0: 0 and the right bytes, or an error. */
static int read_back(struct vv_store *store, struct vv_attempt attempt, struct vv_pool *pool) {
    struct vv_view *view = NULL;
    struct vv_recipe *recipe = NULL;
    struct vv_fetch *fetch = NULL;
    struct vv_recipe_region region;
    struct vv_run run;
    uint8_t *out = calloc(1, sizeof content);
    vv_error_clear(&failure);
    int rc = vv_view_open(store, NAME, attempt.generation, attempt.version, &view, &failure);
    if (rc == 0)
        rc = vv_recipe_open(view, 0, &recipe, &failure);
    if (rc == 0)
        rc = vv_fetch_create(view, pool, &fetch);
    if (rc == 0)
        rc = vv_recipe_next_region(recipe, &region, &failure);
    while (rc > 0) {
        rc = vv_recipe_next_run(recipe, &run, &failure);
        if (rc <= 0)
            break;
        rc = vv_fetch_add(fetch, &run, 0, run.length, out + run.offset, 1, &failure);
        rc = rc < 0 ? rc : 1;
    }
    if (rc == 0)
        rc = vv_fetch_run(fetch, &failure);
    if (rc == 0)
        assert_memory_equal(out, content, sizeof content);
    vv_fetch_destroy(fetch);
    vv_recipe_close(recipe);
    vv_view_close(view);
    free(out);
    return rc;
}

static void test_partner(void **state) {
    (void)state;
    struct vv_attempt attempt = attempt_at(1, 5);
    struct findings findings;
    struct vv_pool *pool;
    char home[VV_KEY_CAPACITY], partner[VV_KEY_CAPACITY];
    assert_ok(vv_pool_create(2, 4, NULL, &pool));
    for (unsigned block = 0; block < 4; block++) {
        struct vv_store *store = new_store();
        write_checkpoint(store, attempt, 1, 1u << 30, NULL);
        pack_key(attempt, VV_KIND_PACK, 0, 0, home);
        pack_key(attempt, VV_KIND_PACK, 1, 0, partner);
        assert_ok(read_back(store, attempt, pool));
        assert_sound(store, pool);
        flip(store, home, VV_HEAD_SIZE + block * BLOCK + 5);
        assert_ok(read_back(store, attempt, pool));
        verify(store, pool, 0, &findings);
        assert_int_equal(findings.count[VV_FINDING_DAMAGE], 1);
        assert_non_null(strstr(findings.text, home));
        /* Another block of the partner's is no harm, the same one is. */
        flip(store, partner, VV_HEAD_SIZE + (block + 1) % 4 * BLOCK + 5);
        assert_ok(read_back(store, attempt, NULL));
        verify(store, pool, 0, &findings);
        assert_int_equal(findings.count[VV_FINDING_DAMAGE], 2);
        flip(store, partner, VV_HEAD_SIZE + block * BLOCK + 7);
        assert_int_equal(read_back(store, attempt, pool), VARVE_CORRUPT);
        assert_non_null(strstr(failure.text, "is damaged"));
        verify(store, pool, 0, &findings);
        assert_int_equal(findings.count[VV_FINDING_DAMAGE], 3);
        assert_non_null(strstr(findings.text, "version 5 of data cannot be restored"));
        vv_store_close(store);
    }
    vv_pool_destroy(pool);
}

/* The home writer's tables are gone: all comes from the partner, but the manifest is lost. */
static void test_missing(void **state) {
    (void)state;
    struct vv_store *store = new_store();
    struct vv_attempt attempt = attempt_at(1, 5);
    struct findings findings;
    char key[VV_KEY_CAPACITY];
    write_checkpoint(store, attempt, 0, 1, NULL);
    pack_key(attempt, VV_KIND_PART, 0, 1, key);
    struct vv_buf bytes;
    vv_buf_init(&bytes);
    assert_ok(vv_backend_get_all(store->backend, key, 1u << 30, &bytes));
    assert_ok(vv_backend_remove(store->backend, key));
    assert_int_equal(read_back(store, attempt, NULL), VARVE_CORRUPT);
    assert_non_null(strstr(failure.text, key));
    assert_non_null(strstr(failure.text, "is missing, although the record of generation 1 version 5 stands"));
    verify(store, NULL, 0, &findings);
    assert_int_equal(findings.count[VV_FINDING_DAMAGE], 2); /* the part and the checkpoint */
    assert_non_null(strstr(findings.text, key));
    assert_ok(vv_backend_put(store->backend, key, bytes.data, bytes.size));
    vv_buf_clear(&bytes);
    assert_ok(read_back(store, attempt, NULL));

    pack_key(attempt, VV_KIND_PACK, 1, 0, key);
    assert_ok(vv_backend_remove(store->backend, key));
    verify(store, NULL, 0, &findings);
    assert_int_equal(findings.count[VV_FINDING_DAMAGE], 2);
    assert_non_null(strstr(findings.text, key));

    pack_key(attempt, VV_KIND_WRITERS, 0, 0, key);
    assert_ok(vv_backend_remove(store->backend, key));
    assert_int_equal(read_back(store, attempt, NULL), VARVE_CORRUPT);
    assert_non_null(strstr(failure.text, key));
    verify(store, NULL, 0, &findings);
    assert_non_null(strstr(findings.text, key));

    struct vv_key record = vv_attempt_key(NAME, &attempt, VV_KIND_RECORD, 0, 0);
    struct vv_tombstone tombstone = {.reason = VV_TOMBSTONE_FORGOTTEN};
    vv_buf_init(&bytes);
    vv_tombstone_encode(&bytes, &record, store->id, &tombstone);
    put_object(store, &record, &bytes);
    assert_int_equal(read_back(store, attempt, NULL), VARVE_FORGOTTEN);
    vv_store_close(store);
}

/* The record goes while the view is open: what is missing then was forgotten, not damaged. */
static void test_forgotten_meanwhile(void **state) {
    (void)state;
    struct vv_store *store = new_store();
    struct vv_attempt attempt = attempt_at(1, 5);
    struct vv_view *view;
    struct vv_recipe *recipe;
    char key[VV_KEY_CAPACITY];
    write_checkpoint(store, attempt, 0, 1u << 30, NULL);
    assert_ok(vv_view_open(store, NAME, 1, 5, &view, &failure));
    pack_key(attempt, VV_KIND_PACK, 0, 0, key);
    assert_ok(vv_backend_remove(store->backend, key));
    assert_int_equal(vv_recipe_open(view, 0, &recipe, &failure), VARVE_CORRUPT);
    pack_key(attempt, VV_KIND_RECORD, 0, 0, key);
    assert_ok(vv_backend_remove(store->backend, key));
    assert_int_equal(vv_recipe_open(view, 0, &recipe, &failure), VARVE_FORGOTTEN);
    vv_view_close(view);
    vv_store_close(store);
}

struct keys {
    char list[64][VV_KEY_CAPACITY];
    unsigned count;
};
static int take_component(void *arg, const char *name, int is_prefix) {
    vv_buf_u8(arg, is_prefix ? 'p' : 'o');
    vv_buf_append(arg, name, strlen(name) + 1);
    return 0;
}
static void list_keys(struct vv_store *store, const char *prefix, struct keys *keys) {
    struct vv_buf found;
    vv_buf_init(&found);
    assert_ok(vv_backend_list(store->backend, prefix, NULL, 0, take_component, &found));
    for (const char *at = (char *)found.data; at < (char *)found.data + found.size; at += strlen(at) + 1) {
        char key[VV_KEY_CAPACITY];
        snprintf(key, sizeof key, "%.400s%s%.100s", prefix, *prefix ? "/" : "", at + 1);
        if (*at == 'p')
            list_keys(store, key, keys);
        else
            memcpy(keys->list[keys->count++], key, sizeof key);
    }
    vv_buf_clear(&found);
}

/* Every byte of every object is covered by verify, and so is its length. */
static void test_every_byte(void **state) {
    (void)state;
    struct vv_store *store = new_store();
    struct vv_attempt attempt = attempt_at(1, 5);
    static struct findings findings;
    static struct keys keys;
    write_checkpoint(store, attempt, 0, 3 * BLOCK, NULL);
    list_keys(store, "", &keys);
    assert_true(keys.count >= 6);
    for (unsigned k = 0; k < keys.count; k++) {
        struct vv_buf buf;
        vv_buf_init(&buf);
        assert_ok(vv_backend_get_all(store->backend, keys.list[k], 1u << 30, &buf));
        for (size_t at = 0; at<buf.size; at += buf.size> 2 * BLOCK && at > 200 && at < 2 * BLOCK ? 511 : 1) {
            buf.data[at] ^= (uint8_t)(1u << at % 8);
            assert_ok(vv_backend_replace(store->backend, keys.list[k], buf.data, buf.size));
            verify(store, NULL, 0, &findings);
            if (!findings.count[0] && !findings.count[2])
                fail_msg("%s: a change of byte %zu is not seen", keys.list[k], at);
            buf.data[at] ^= (uint8_t)(1u << at % 8);
        }
        assert_ok(vv_backend_replace(store->backend, keys.list[k], buf.data, buf.size - 1));
        assert_true(verify(store, NULL, 0, &findings).damaged_objects > 0);
        vv_buf_u8(&buf, 0);
        assert_ok(vv_backend_replace(store->backend, keys.list[k], buf.data, buf.size));
        assert_true(verify(store, NULL, 0, &findings).damaged_objects > 0);
        assert_ok(vv_backend_replace(store->backend, keys.list[k], buf.data, buf.size - 1));
        vv_buf_clear(&buf);
    }
    assert_sound(store, NULL);
    vv_store_close(store);
}

static void set_parent(struct vv_store *store, struct vv_attempt attempt, struct vv_attempt parent) {
    struct vv_key key = vv_attempt_key(NAME, &attempt, VV_KIND_RECORD, 0, 0);
    struct vv_record record;
    struct vv_buf buf;
    assert_ok(vv_record_load(store, NAME, attempt.generation, attempt.version, &record, &failure));
    record.parent = parent;
    vv_buf_init(&buf);
    vv_record_encode(&buf, &key, store->id, &record);
    put_object(store, &key, &buf);
    vv_record_clear(&record);
}

static void test_unrecorded(void **state) {
    (void)state;
    struct vv_store *store = new_store();
    struct findings findings;
    char key[VV_KEY_CAPACITY];
    write_checkpoint(store, attempt_at(1, 5), 0, 1u << 30, NULL);
    write_checkpoint(store, attempt_at(1, 6), 0, 1u << 30, (void *)-1);
    verify(store, NULL, 0, &findings);
    assert_int_equal(findings.count[VV_FINDING_LOST_CHECKPOINT], 0); /* its session may still commit it */
    assert_int_equal(findings.count[VV_FINDING_NOTE], 1);
    write_checkpoint(store, attempt_at(1, 7), 0, 1u << 30, NULL);
    verify(store, NULL, 0, &findings);
    assert_int_equal(findings.count[VV_FINDING_LOST_CHECKPOINT], 0); /* its commit may have failed */
    assert_int_equal(findings.count[VV_FINDING_NOTE], 1);
    assert_non_null(strstr(findings.text, "generation 1 version 6 is complete but without record"));
    set_parent(store, attempt_at(1, 7), attempt_at(1, 6));
    struct vv_verify_result result = verify(store, NULL, 0, &findings);
    assert_int_equal(result.lost_checkpoints, 1);
    assert_int_equal(result.checkpoints, 2);
    assert_int_equal(result.damaged_objects, 0);
    assert_non_null(strstr(findings.text, "generation 1 version 6 is complete but has no record"));
    pack_key(attempt_at(1, 6), VV_KIND_PACK, 1, 0, key);
    assert_ok(vv_backend_remove(store->backend, key));
    verify(store, NULL, 0, &findings);
    assert_int_equal(findings.count[VV_FINDING_LOST_CHECKPOINT], 0);
    assert_int_equal(findings.count[VV_FINDING_NOTE], 1);
    assert_ok(vv_backend_put(store->backend, "n/data/notes.txt", "hello", 5));
    assert_ok(vv_backend_put(store->backend, "README", "hello", 5));
    verify(store, NULL, 0, &findings);
    assert_int_equal(findings.count[VV_FINDING_NOTE], 3);
    assert_ok(vv_backend_remove(store->backend, "varve"));
    verify(store, NULL, 0, &findings);
    assert_int_equal(findings.count[VV_FINDING_DAMAGE], 1);
    vv_store_close(store);
}

static int stop_at(void *arg, uint64_t done, uint64_t total) {
    unsigned *left = arg;
    assert_true(done <= total);
    return *left == 0 || --*left == 0;
}

static void test_stop(void **state) {
    (void)state;
    struct vv_store *store = new_store();
    struct vv_verify_result result;
    write_checkpoint(store, attempt_at(1, 5), 0, 1u << 30, NULL);
    for (unsigned calls = 1;; calls++) {
        unsigned left = calls;
        struct vv_verify_options options = {.progress = stop_at, .arg = &left};
        int rc = vv_verify(store, &options, &result, &failure);
        if (rc == 0)
            break;
        assert_int_equal(rc, -EINTR);
        assert_true(calls < 1000);
    }
    vv_store_close(store);
}

static void test_ids(void **state) {
    (void)state;
    struct vv_store *store = new_store();
    struct vv_view *view;
    struct vv_hash128 id, expected;
    write_checkpoint(store, attempt_at(1, 5), 0, 1u << 30, NULL);
    assert_ok(vv_view_open(store, NAME, 1, 5, &view, &failure));
    struct vv_place place = {.address = BLOCK + VV_GRANULE};
    assert_int_equal(vv_view_id(view, &place, VV_GRANULE, &id, &failure), 1);
    expected = vv_id(store->settings.seed, content + place.address, VV_GRANULE);
    assert_true(vv_hash128_equal(id, expected));
    assert_int_equal(vv_view_id(view, &place, 100, &id, &failure), 0);
    place.address = 0; /* a block without ids */
    assert_int_equal(vv_view_id(view, &place, VV_GRANULE, &id, &failure), 0);
    place.address = BLOCK + 1;
    assert_int_equal(vv_view_id(view, &place, VV_GRANULE, &id, &failure), 0);
    place.address = 4 * BLOCK;
    assert_int_equal(vv_view_id(view, &place, VV_GRANULE, &id, &failure), VARVE_CORRUPT);
    place = (struct vv_place){.owner = 9};
    assert_int_equal(vv_view_id(view, &place, VV_GRANULE, &id, &failure), VARVE_CORRUPT);
    vv_view_close(view);
    vv_store_close(store);
}

#ifdef VARVE_FAULTS
/* Whatever fails while a pack is written, seal says so and there is no pack. */
static void test_writer_faults(void **state) {
    (void)state;
    static const char *const points[] = {
        "store.pack.before_begin",       "store.pack.before_block",      "store.pack.before_part_create",
        "store.pack.before_part_commit", "store.pack.after_part_commit", "store.pack.before_tables",
        "store.pack.before_manifest",    "store.pack.before_footer",     "store.pack.before_seal"};
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        struct vv_store *store = new_store();
        struct vv_pack_options options = one_writer();
        struct vv_attempt attempt = attempt_at(1, 1);
        struct vv_pack_writer *pack;
        struct vv_block block = {.raw = BLOCK, .stored = BLOCK};
        struct vv_extent extent = {.length = BLOCK};
        struct vv_manifest_head head = {0};
        char spec[100], key[VV_KEY_CAPACITY];
        uint64_t size;
        options.part_size = 1;
        snprintf(spec, sizeof spec, "%s=error:5", points[i]);
        vv_fault_set(spec);
        int rc = vv_pack_begin(store, NAME, &attempt, &options, &pack, &failure);
        if (rc == 0) {
            for (unsigned k = 0; k < 3; k++, extent.address += BLOCK)
                vv_pack_block(pack, &block, content, &extent, 1, NULL, 0, &failure);
            vv_pack_manifest_begin(pack, &head, &failure);
            vv_pack_manifest_end(pack, NULL, &failure);
            rc = vv_pack_seal(pack, 0, 0, NULL, &failure);
        }
        vv_fault_set(NULL);
        assert_int_equal(rc, -5);
        pack_key(attempt, VV_KIND_PACK, 0, 0, key);
        assert_int_equal(vv_backend_stat(store->backend, key, &size), -ENOENT);
        vv_store_close(store);
    }
}

/* Memory that runs out anywhere is an error and nothing else. */
static void test_no_memory(void **state) {
    (void)state;
    struct vv_store *store = new_store();
    struct vv_attempt attempt = attempt_at(1, 5);
    struct vv_verify_result result;
    struct vv_verify_options options = {0};
    write_checkpoint(store, attempt, 1, 3 * BLOCK, NULL);
    int rc = -ENOMEM;
    for (uint64_t k = 1; rc < 0; k++) {
        vv_alloc_fail_at(k);
        rc = read_back(store, attempt, NULL);
        vv_alloc_fail_at(0);
        assert_true(rc == 0 || rc == -ENOMEM);
        assert_true(k < 10000);
    }
    rc = -ENOMEM;
    for (uint64_t k = 1; rc < 0 && k < 10000; k++) {
        vv_alloc_fail_at(k);
        rc = vv_verify(store, &options, &result, &failure);
        vv_alloc_fail_at(0);
        assert_true(rc == 0 || rc == -ENOMEM);
    }
    vv_store_close(store);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_partner),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_forgotten_meanwhile),
        cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_unrecorded),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_ids),
#ifdef VARVE_FAULTS
        cmocka_unit_test(test_writer_faults),
        cmocka_unit_test(test_no_memory),
#endif
    };
    make_content();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
