/* Packs that are lost or damaged, read with the help of their copy objects and of their partners' packs. */
#include "store_data.h"

#include "read/view_private.h"
#include "storage/storage.h"
#include "store/pack_replica.h"

#define BLOCK 8192u
#define BLOCKS 6u
#define SIZE (BLOCKS * BLOCK)
#define WRITERS 3u

static uint8_t content[WRITERS][SIZE];
static const struct vv_attempt attempt = {.generation = 1, .version = 5};

/* How the writers of a checkpoint share it. */
struct plan {
    uint32_t partners; /* writer w has w + 1, w + 2, ... */
    int is_split;      /* each of two partners holds every other block only */
    int has_all_ids;   /* not only of every other block */
    uint64_t part_size;
};

static void put_blocks(struct vv_store *store, struct vv_pack_writer *pack, const struct plan *plan, uint32_t owner,
                       uint32_t first, uint32_t step) {
    for (uint32_t i = first; i < BLOCKS; i += step)
        put_extent(store, pack, owner, i * BLOCK, content[owner] + i * BLOCK, BLOCK,
                   i == 3 ? VV_CODEC_ZSTD : VV_CODEC_NONE, plan->has_all_ids || i % 2);
}

/* One region: its own bytes, and in the middle a block of the next owner. */
static void put_manifest(struct vv_store *store, struct vv_pack_writer *pack, uint32_t owner) {
    struct vv_place place = {.owner = (owner + 1) % WRITERS, .address = 2 * BLOCK};
    uint8_t whole[SIZE];
    struct mf mf;
    memcpy(whole, content[owner], SIZE);
    memcpy(whole + 2 * BLOCK, content[place.owner] + 2 * BLOCK, BLOCK);
    mf_begin(&mf, owner, SIZE);
    mf_region(&mf, 1, "bytes", 0, SIZE, VV_REGION_DESCRIBED);
    mf_run(&mf, VV_RUN_HERE, 2 * BLOCK, NULL, 0);
    mf_run(&mf, VV_RUN_FROM, BLOCK, &place, 0);
    mf_run(&mf, VV_RUN_HERE, SIZE - 3 * BLOCK, NULL, 0);
    vv_manifest_region_end(&mf.writer, region_digest(store, whole, SIZE));
    mf.head.regions = 1;
    mf.head.protected_bytes = SIZE;
    mf_store(&mf, pack, NULL);
}

static void write_checkpoint(struct vv_store *store, const struct plan *plan) {
    for (uint32_t writer = 0; writer < WRITERS; writer++) {
        struct vv_pack_options options = {.writer = writer,
                                          .writers = WRITERS,
                                          .ranks = WRITERS,
                                          .first_owner = writer,
                                          .owners = 1,
                                          .partner_count = plan->partners,
                                          .part_size = plan->part_size};
        for (uint32_t j = 0; j < plan->partners; j++)
            options.partners[j] = (writer + 1 + j) % WRITERS;
        struct vv_pack_writer *pack = begin_pack(store, attempt, &options);
        put_blocks(store, pack, plan, writer, 0, 1);
        for (uint32_t j = 0; j < plan->partners; j++)
            put_blocks(store, pack, plan, (writer + WRITERS - 1 - j) % WRITERS, plan->is_split ? j : 0,
                       plan->is_split ? 2 : 1);
        assert_ok(vv_pack_dependencies(pack, NULL, 0, &failure));
        put_manifest(store, pack, writer);
        assert_ok(vv_pack_seal(pack, SIZE, 1, NULL, &failure));
    }
    commit(store, attempt, NULL);
}

static void copy_bytes(struct vv_store *store, uint32_t writer, struct vv_buf *out) {
    vv_buf_init(out);
    assert_ok(vv_pack_replica_read(store, NAME, &attempt, writer, out, &failure));
}

static void put_copies(struct vv_store *store) {
    for (uint32_t writer = 0; writer < WRITERS; writer++) {
        struct vv_buf bytes;
        copy_bytes(store, writer, &bytes);
        assert_ok(vv_pack_replica_create(store, NAME, &attempt, writer, bytes.data, bytes.size, &failure));
        vv_buf_clear(&bytes);
    }
}

static void key_of(int kind, uint32_t writer, uint32_t part, char *out) {
    struct vv_key key = vv_attempt_key(NAME, &attempt, kind, writer, part);
    vv_key_print(&key, out);
}

static void remove_object(struct vv_store *store, int kind, uint32_t writer, uint32_t part) {
    char key[VV_KEY_CAPACITY];
    key_of(kind, writer, part, key);
    assert_ok(vv_backend_remove(store->backend, key));
}

static void lose_writer(struct vv_store *store, uint32_t writer) {
    char key[VV_KEY_CAPACITY];
    uint64_t size;
    remove_object(store, VV_KIND_PACK, writer, 0);
    for (uint32_t part = 0;; part++) {
        key_of(VV_KIND_PART, writer, part, key);
        if (vv_backend_stat(store->backend, key, &size) < 0)
            break;
        remove_object(store, VV_KIND_PART, writer, part);
    }
}

/* All bytes of one owner: 0 and they are right, or an error. */
static int read_owner(struct vv_store *store, uint32_t owner, struct vv_pool *pool) {
    struct vv_view *view = NULL;
    struct vv_recipe *recipe = NULL;
    struct vv_fetch *fetch = NULL;
    struct vv_recipe_region region;
    struct vv_run run;
    uint8_t *out = calloc(1, SIZE);
    vv_error_clear(&failure);
    int rc = vv_view_open(store, NAME, attempt.generation, attempt.version, &view, &failure);
    if (rc == 0)
        rc = vv_recipe_open(view, owner, &recipe, &failure);
    if (rc == 0)
        rc = vv_fetch_create(view, pool, &fetch);
    if (rc == 0)
        rc = vv_recipe_next_region(recipe, &region, &failure);
    while (rc > 0 && (rc = vv_recipe_next_run(recipe, &run, &failure)) > 0) {
        rc = vv_fetch_add(fetch, &run, 0, run.length, out + run.offset, 1, &failure);
        rc = rc < 0 ? rc : 1;
    }
    if (rc == 0)
        rc = vv_fetch_run(fetch, &failure);
    if (rc == 0) {
        const uint8_t *next = content[(owner + 1) % WRITERS];
        assert_memory_equal(out, content[owner], 2 * BLOCK);
        assert_memory_equal(out + 2 * BLOCK, next + 2 * BLOCK, BLOCK);
        assert_memory_equal(out + 3 * BLOCK, content[owner] + 3 * BLOCK, SIZE - 3 * BLOCK);
    }
    vv_fetch_destroy(fetch);
    vv_recipe_close(recipe);
    vv_view_close(view);
    free(out);
    return rc;
}

static void assert_readable(struct vv_store *store, struct vv_pool *pool) {
    for (uint32_t owner = 0; owner < WRITERS; owner++) {
        int rc = read_owner(store, owner, pool);
        if (rc)
            fail_msg("owner %u: %d %s", owner, rc, failure.text);
    }
}

/* One or two of three packs are gone, with everything in one object or in parts. */
static void test_lost(void **state) {
    (void)state;
    static struct findings findings;
    struct vv_pool *pool;
    assert_ok(vv_pool_create(2, 4, NULL, &pool));
    for (unsigned round = 0; round < 12; round++) {
        struct plan plan = {.partners = 1 + round % 2,
                            .has_all_ids = round >= 6, /* then bytes are lost, but no ids */
                            .part_size = round % 4 < 2 ? 1u << 30 : 2 * BLOCK};
        struct vv_store *store = new_store();
        uint32_t first = round % WRITERS;
        write_checkpoint(store, &plan);
        put_copies(store);
        assert_readable(store, pool);
        assert_sound(store, pool);
        lose_writer(store, first);
        assert_readable(store, round % 3 ? pool : NULL);
        for (int is_quick = 0; is_quick < 2; is_quick++) {
            verify(store, pool, is_quick, &findings);
            assert_int_equal(findings.count[VV_FINDING_DAMAGE], 1);
            assert_non_null(strstr(findings.text, "is missing, but checkpoints need it; its tables are in its copy"));
        }
        lose_writer(store, (first + 1) % WRITERS); /* its partner */
        if (plan.partners == 2) {
            assert_readable(store, pool);
            lose_writer(store, (first + 2) % WRITERS);
        }
        assert_int_equal(read_owner(store, first, pool), VARVE_CORRUPT);
        assert_non_null(strstr(failure.text, "is missing"));
        for (int is_quick = 0; is_quick < 2; is_quick++) {
            verify(store, pool, is_quick, &findings);
            assert_non_null(strstr(findings.text, "version 5 of data cannot be restored"));
        }
        vv_store_close(store);
    }
    vv_pool_destroy(pool);
}

/* Neither partner has all of it, both together do. */
static void test_split(void **state) {
    (void)state;
    struct plan plan = {.partners = 2, .is_split = 1, .part_size = 1u << 30};
    struct vv_store *store = new_store();
    write_checkpoint(store, &plan);
    put_copies(store);
    lose_writer(store, 1);
    assert_readable(store, NULL);
    lose_writer(store, 2);
    assert_int_equal(read_owner(store, 1, NULL), VARVE_CORRUPT);
    vv_store_close(store);
}

/* Any byte of the tables is wrong in the pack: the copy's are used. Both are: that is the end. */
static void test_damaged_tables(void **state) {
    (void)state;
    struct plan plan = {.partners = 1, .part_size = 1u << 30};
    struct vv_store *store = new_store();
    struct vv_buf pack, copy;
    char key[VV_KEY_CAPACITY], copy_key[VV_KEY_CAPACITY];
    write_checkpoint(store, &plan);
    put_copies(store);
    key_of(VV_KIND_PACK, 0, 0, key);
    key_of(VV_KIND_COPY, 0, 0, copy_key);
    copy_bytes(store, 0, &copy);
    vv_buf_init(&pack);
    assert_ok(vv_backend_get_all(store->backend, key, 1u << 30, &pack));
    size_t tables = pack.size - (copy.size - VV_HEAD_SIZE);
    for (size_t at = 0; at < pack.size; at = at == VV_HEAD_SIZE - 1 ? tables : at + 1) {
        pack.data[at] ^= 4;
        assert_ok(vv_backend_replace(store->backend, key, pack.data, pack.size));
        int rc = read_owner(store, 0, NULL);
        if (rc && rc != VARVE_UNKNOWN_FORMAT) /* what may be of a newer program is not passed over */
            fail_msg("byte %zu: %d %s", at, rc, failure.text);
        pack.data[at] ^= 4;
    }
    pack.data[tables + 1] ^= 4;
    copy.data[VV_HEAD_SIZE + 1] ^= 4;
    assert_ok(vv_backend_replace(store->backend, key, pack.data, pack.size));
    assert_ok(vv_backend_replace(store->backend, copy_key, copy.data, copy.size));
    assert_ok(read_owner(store, 0, NULL)); /* the blocks section: the partner's will do */
    pack.data[pack.size - 1] ^= 4;
    copy.data[copy.size - 1] ^= 4;
    assert_ok(vv_backend_replace(store->backend, key, pack.data, pack.size));
    assert_ok(vv_backend_replace(store->backend, copy_key, copy.data, copy.size));
    assert_int_equal(read_owner(store, 0, NULL), VARVE_CORRUPT);
    vv_buf_clear(&pack);
    vv_buf_clear(&copy);
    vv_store_close(store);
}

/* What comes from another process is checked before it becomes an object. */
static void test_create(void **state) {
    (void)state;
    struct plan plan = {.partners = 1, .part_size = 1u << 30};
    struct vv_store *store = new_store();
    struct vv_buf bytes;
    char key[VV_KEY_CAPACITY];
    uint64_t size;
    write_checkpoint(store, &plan);
    copy_bytes(store, 1, &bytes);
    key_of(VV_KIND_COPY, 1, 0, key);
    for (size_t at = 0; at < bytes.size; at++) {
        bytes.data[at] ^= 0x21;
        int rc = vv_pack_replica_create(store, NAME, &attempt, 1, bytes.data, bytes.size, &failure);
        if (rc != VARVE_CORRUPT && rc != VARVE_UNKNOWN_FORMAT && !(at >= 24 && at < 32)) /* optional features */
            fail_msg("byte %zu: %d", at, rc);
        bytes.data[at] ^= 0x21;
    }
    for (size_t cut = 0; cut < bytes.size; cut++) {
        uint8_t *exact = malloc(cut ? cut : 1); /* so that a reader beyond the end is caught by tools that watch */
        memcpy(exact, bytes.data, cut);
        assert_int_equal(vv_pack_replica_create(store, NAME, &attempt, 1, exact, cut, &failure), VARVE_CORRUPT);
        free(exact);
    }
    struct vv_attempt other = attempt;
    other.attempt = 1;
    assert_int_equal(vv_pack_replica_create(store, NAME, &other, 1, bytes.data, bytes.size, &failure), VARVE_CORRUPT);
    assert_int_equal(vv_pack_replica_create(store, NAME, &attempt, 2, bytes.data, bytes.size, &failure), VARVE_CORRUPT);
    assert_int_equal(vv_pack_replica_create(store, "else", &attempt, 1, bytes.data, bytes.size, &failure),
                     VARVE_CORRUPT);
    assert_int_equal(vv_backend_stat(store->backend, key, &size), -ENOENT);
    assert_ok(vv_pack_replica_create(store, NAME, &attempt, 1, bytes.data, bytes.size, &failure));
    assert_ok(vv_pack_replica_create(store, NAME, &attempt, 1, bytes.data, bytes.size, &failure));
    assert_ok(vv_backend_replace(store->backend, key, bytes.data, bytes.size - 1));
    assert_int_equal(vv_pack_replica_create(store, NAME, &attempt, 1, bytes.data, bytes.size, &failure), -EEXIST);
    vv_buf_clear(&bytes);
    vv_store_close(store);
}

/* Damage of any kind to copies in the store, while the pack is gone: an error or the right bytes, nothing else. */
static void test_any_damage(void **state) {
    (void)state;
    struct plan plan = {.partners = 1, .part_size = 1u << 30};
    struct vv_store *store = new_store();
    struct vv_buf bytes;
    char key[VV_KEY_CAPACITY];
    unsigned whole = 0;
    write_checkpoint(store, &plan);
    put_copies(store);
    copy_bytes(store, 0, &bytes);
    lose_writer(store, 0);
    key_of(VV_KIND_COPY, 0, 0, key);
    for (unsigned i = 0; i < 3000; i++) {
        uint8_t *data = malloc(bytes.size);
        size_t size = i % 3 == 0 ? random_below(bytes.size) : bytes.size;
        memcpy(data, bytes.data, bytes.size);
        for (unsigned j = 0; j < i % 3; j++)
            data[random_below(bytes.size)] = (uint8_t)random_below(256);
        assert_ok(vv_backend_replace(store->backend, key, data, size));
        whole += read_owner(store, 0, NULL) == 0;
        free(data);
    }
    assert_true(whole < 1500);
    vv_buf_clear(&bytes);
    vv_store_close(store);
}

/* An ids section of several pages, damaged in the pack. */
static void test_many_ids(void **state) {
    (void)state;
    enum { COUNT = VV_IDS_PAGE + 1000 };
    struct vv_store *store = new_store();
    struct vv_pack_options options = one_writer();
    struct vv_pack_writer *pack = begin_pack(store, attempt, &options);
    struct vv_extent *extents = calloc(COUNT, sizeof *extents);
    uint8_t *raw = malloc(COUNT);
    struct vv_pack_id id = {.store = store, .name = NAME, .attempt = attempt};
    struct vv_view *view;
    struct vv_footer footer;
    struct vv_buf bytes;
    struct mf mf;
    char key[VV_KEY_CAPACITY];
    for (uint32_t i = 0; i < COUNT; i++) {
        extents[i] = (struct vv_extent){.address = (uint64_t)i * VV_GRANULE, .length = 1};
        raw[i] = (uint8_t)(1 + i % 255);
    }
    for (uint32_t i = 0; i < COUNT; i += 1000)
        put_block(store, pack, extents + i, COUNT - i < 1000 ? COUNT - i : 1000, raw + i, VV_CODEC_NONE, 1);
    assert_ok(vv_pack_dependencies(pack, NULL, 0, &failure));
    mf_begin(&mf, 0, 0);
    mf_store(&mf, pack, NULL);
    assert_ok(vv_pack_seal(pack, 0, 0, NULL, &failure));
    commit(store, attempt, NULL);
    copy_bytes(store, 0, &bytes);
    assert_ok(vv_pack_replica_create(store, NAME, &attempt, 0, bytes.data, bytes.size, &failure));
    vv_buf_clear(&bytes);
    assert_ok(vv_pack_footer_load(&id, VV_KIND_PACK, NULL, &footer, NULL, &failure));
    key_of(VV_KIND_PACK, 0, 0, key);
    assert_ok(vv_backend_get_all(store->backend, key, 1u << 30, &bytes));
    bytes.data[vv_footer_section(&footer, VV_SECTION_IDS, 0)->offset + 16u * (COUNT - 1)] ^= 1;
    assert_ok(vv_backend_replace(store->backend, key, bytes.data, bytes.size));
    assert_ok(vv_view_open(store, NAME, 1, 5, &view, &failure));
    for (uint32_t i = 0; i < COUNT; i += i == 0 ? COUNT - 1 : 1) {
        struct vv_place place = {.address = (uint64_t)i * VV_GRANULE};
        struct vv_hash128 found;
        assert_int_equal(vv_view_id(view, &place, 1, &found, &failure), 1);
        assert_true(vv_hash128_equal(found, vv_id(store->settings.seed, raw + i, 1)));
    }
    vv_view_close(view);
    vv_footer_clear(&footer);
    vv_buf_clear(&bytes);
    free(extents);
    free(raw);
    vv_store_close(store);
}

static struct vv_store *node_store(const char *uri, const struct vv_store_object *like) {
    struct vv_backend_options options = {.may_create = 1};
    struct varve_backend *backend;
    struct vv_store *store;
    assert_ok(vv_backend_open(uri, &options, &backend, &failure));
    assert_ok(vv_store_open_as(backend, like, &quiet, &store, &failure));
    return store;
}

/* One node of three: its own pack, and the copy of the writer whose partner it is. That the others' packs are not
 * here is no damage, whatever lies here of them; that its own is not, is. */
static void test_one_node(void **state) {
    (void)state;
    static struct findings findings;
    struct vv_store_object like = {.settings = {.id_kind = VV_ID_XXH3, .granule_log2 = 12, .layout = VV_LAYOUT_LOCAL}};
    struct plan plan = {.partners = 1, .part_size = 1u << 30};
    struct vv_store *store = node_store("mem://node-of-three", &like);
    char key[VV_KEY_CAPACITY];
    write_checkpoint(store, &plan);
    put_copies(store);
    assert_readable(store, NULL);
    lose_writer(store, 0);
    lose_writer(store, 2);
    remove_object(store, VV_KIND_COPY, 1, 0);
    remove_object(store, VV_KIND_COPY, 2, 0);
    for (int is_quick = 0; is_quick < 2; is_quick++) {
        verify(store, NULL, is_quick, &findings);
        if (findings.count[VV_FINDING_DAMAGE] + findings.count[VV_FINDING_LOST_CHECKPOINT])
            fail_msg("%s", findings.text);
    }
    key_of(VV_KIND_PACK, 1, 0, key);
    struct vv_buf bytes;
    vv_buf_init(&bytes);
    assert_ok(vv_backend_get_all(store->backend, key, 1u << 30, &bytes));
    bytes.data[VV_HEAD_SIZE + 10] ^= 1; /* a block */
    assert_ok(vv_backend_replace(store->backend, key, bytes.data, bytes.size));
    verify(store, NULL, 0, &findings);
    assert_true(findings.count[VV_FINDING_DAMAGE] > 0);
    vv_buf_clear(&bytes);
    vv_store_close(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lost),           cmocka_unit_test(test_split),
                                       cmocka_unit_test(test_damaged_tables), cmocka_unit_test(test_create),
                                       cmocka_unit_test(test_any_damage),     cmocka_unit_test(test_many_ids),
                                       cmocka_unit_test(test_one_node)};
    random_state = 13;
    random_fill(content, sizeof content);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
