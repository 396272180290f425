/* Packs of several ranks, with bytes that another writer keeps: whatever reads, checks, mends and removes them. */
#include "commit_votes.h"
#include "lifecycle/commit.h"
#include "store_groups.h"

static struct vv_lease *take_lease(struct vv_store *store) {
    struct vv_lease_options options = {.ranks = RANKS, .beat_seconds = 1, .dead_seconds = 60, .program = "groups"};
    struct vv_lease *lease = NULL;
    assert_ok(vv_lease_take(store, NAME, &options, &lease, &failure));
    return lease;
}

/* Both versions, committed by a session that has ended. */
static struct vv_store *grouped_store(void) {
    struct vv_store *store = new_store();
    struct vv_lease *lease = take_lease(store);
    struct vv_dependency dependency = {.attempt = attempt_at(1, 1)};
    for (int version = 1; version <= 2; version++) {
        struct vv_attempt attempt = attempt_at(1, (uint64_t)version);
        struct vv_record record;
        write_groups(store, version, version == 2 ? &dependency : NULL);
        assert_ok(commit_votes(store, lease, NAME, &attempt, &record, &failure));
        dependency.writers_digest = record.writers_digest;
        vv_record_clear(&record);
        assert_ok(vv_lease_refer(lease, &attempt, &failure));
    }
    vv_lease_release(lease);
    return store;
}

static void assert_state(struct vv_store *store, int version) {
    static uint8_t bytes[LAYOUT];
    struct vv_view *view = NULL;
    assert_ok(vv_view_open(store, NAME, 1, (uint64_t)version, &view, &failure));
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        struct vv_recipe *recipe = NULL;
        struct vv_recipe_region region;
        struct vv_fetch *fetch = NULL;
        assert_ok(vv_recipe_open(view, rank, &recipe, &failure));
        assert_ok(vv_fetch_create(view, NULL, &fetch));
        memset(bytes, 0, sizeof bytes);
        for (uint32_t at = 0; vv_recipe_next_region(recipe, &region, &failure) > 0; at += (uint32_t)region.length)
            read_region(recipe, fetch, region.length, bytes + at);
        assert_ok(vv_fetch_run(fetch, &failure));
        assert_memory_equal(bytes, state_of[version][rank], LAYOUT);
        vv_fetch_destroy(fetch);
        vv_recipe_close(recipe);
    }
    vv_view_close(view);
}

static void test_read(void **state) {
    (void)state;
    struct vv_store *store = grouped_store();
    assert_state(store, 1);
    assert_state(store, 2);
    assert_sound(store, NULL);
    vv_store_close(store);
}

static void key_of(int version, int kind, uint32_t writer, char *text) {
    struct vv_attempt attempt = attempt_at(1, (uint64_t)version);
    struct vv_key key = vv_attempt_key(NAME, &attempt, kind, writer, 0);
    vv_key_print(&key, text);
}

static void flip(struct vv_store *store, const char *key, size_t offset) {
    struct vv_buf buf;
    vv_buf_init(&buf);
    assert_ok(vv_backend_get_all(store->backend, key, 1 << 24, &buf));
    buf.data[offset] ^= 1;
    assert_ok(vv_backend_replace(store->backend, key, buf.data, buf.size));
    vv_buf_clear(&buf);
}

/* Byte 50 of a block. */
static size_t inside_block(struct vv_store *store, const char *key, const struct vv_footer *footer, uint32_t block) {
    struct vv_buf buf;
    vv_buf_init(&buf);
    assert_int_equal(footer->sections[0].kind, VV_SECTION_BLOCKS);
    assert_true(footer->sections[0].length >= (block + 1) * UINT64_C(64));
    assert_ok(vv_backend_get_all(store->backend, key, 1 << 24, &buf));
    size_t offset = vv_get64(buf.data + footer->sections[0].offset + (size_t)block * 64 + 8) + 50;
    vv_buf_clear(&buf);
    return offset;
}

/* Whoever has bytes in a damaged block is named, and nobody else. */
static void test_damage_names_who_loses(void **state) {
    (void)state;
    static struct findings findings;
    struct vv_store *store = grouped_store();
    struct vv_pack_id id = {.store = store, .name = NAME, .attempt = attempt_at(1, 1), .writer = 1};
    struct vv_footer footer;
    char key[VV_KEY_CAPACITY];
    key_of(1, VV_KIND_PACK, 1, key);
    assert_ok(vv_pack_footer_load(&id, VV_KIND_PACK, NULL, &footer, NULL, &failure));
    flip(store, key, inside_block(store, key, &footer, 2)); /* what rank 1 and rank 2 have given to it */
    verify(store, NULL, 0, &findings);
    assert_non_null(strstr(findings.text, "version 1 of data cannot be restored: \"v\" of rank 1, \"v\" of rank 2: "));
    assert_non_null(strstr(findings.text, "version 2 of data cannot be restored: \"v\" of rank 1, \"v\" of rank 2: "));
    assert_non_null(strstr(findings.text, key));
    assert_int_equal(findings.count[VV_FINDING_DAMAGE], 3);
    flip(store, key, inside_block(store, key, &footer, 2));
    flip(store, key, inside_block(store, key, &footer, 0)); /* in turns, and version 2 has one granule elsewhere */
    verify(store, NULL, 0, &findings);
    assert_non_null(strstr(findings.text, "\"u\" of rank 3, \"u\" of rank 4, \"u\" of rank 5: "));
    assert_null(strstr(findings.text, "\"v\""));
    flip(store, key, inside_block(store, key, &footer, 0));
    key_of(2, VV_KIND_PACK, 0, key);
    flip(store, key, VV_HEAD_SIZE + 7);
    verify(store, NULL, 0, &findings);
    assert_null(strstr(findings.text, "version 1 of"));
    assert_non_null(strstr(findings.text, "version 2 of data cannot be restored: \"u\" of rank 0, \"u\" of rank 1, "
                                          "\"u\" of rank 2: "));
    vv_footer_clear(&footer);
    vv_store_close(store);
}

/* More than a message has room for. */
static void test_a_lost_pack_names_many(void **state) {
    (void)state;
    static struct findings findings;
    struct vv_store *store = grouped_store();
    char key[VV_KEY_CAPACITY];
    key_of(1, VV_KIND_PACK, 0, key);
    assert_ok(vv_backend_remove(store->backend, key));
    verify(store, NULL, 0, &findings);
    assert_non_null(strstr(findings.text, "is missing, but checkpoints need it"));
    assert_non_null(strstr(findings.text, "version 1 of data cannot be restored: all of rank 0, all of rank 1, "
                                          "all of rank 2: "));
    assert_non_null(strstr(findings.text, "version 2 of data cannot be restored: \"u\" of rank 0, \"v\" of rank 0, "));
    assert_null(strstr(findings.text, "rank 3"));
    vv_store_close(store);
}

/* A moved section that sends readers to where nothing is. */
static void misguide(struct surgery *s, int is_footer_encoded) {
    struct vv_extent_coder coder = {0};
    struct vv_moved wrong = {.extent = {1, U_BYTES + G, V_BYTES}, .length = V_BYTES, .writer = 1};
    if (is_footer_encoded)
        return;
    assert_int_equal(s->footer.sections[3].kind, VV_SECTION_MOVED);
    s->section[3].size = 0;
    vv_moved_encode(&s->section[3], &coder, &wrong);
    vv_moved_encode(&s->section[3], &coder, &given[1]);
}

static void overlap(struct surgery *s, int is_footer_encoded) {
    struct vv_extent_coder coder = {0};
    struct vv_moved wrong = {.extent = {0, U_BYTES - 1, 1}, .length = 1, .writer = 1};
    if (is_footer_encoded)
        return;
    s->section[3].size = 0;
    vv_moved_encode(&s->section[3], &coder, &wrong);
}

static void test_moved_but_not_there(void **state) {
    (void)state;
    static struct findings findings;
    struct vv_store *store = new_store();
    write_groups(store, 1, NULL);
    commit(store, attempt_at(1, 1), NULL);
    operate(store, attempt_at(1, 1), 0, misguide);
    for (int is_quick = 0; is_quick < 2; is_quick++) {
        verify(store, NULL, is_quick, &findings);
        assert_non_null(strstr(findings.text, "cannot be restored: \"v\" of rank 1: address 20480 of owner 1 is in no "
                                              "extent of writer 0"));
        assert_null(strstr(findings.text, "rank 2"));
    }
    vv_store_close(store);
    store = new_store();
    is_given_kept = 0;
    write_groups(store, 1, NULL);
    is_given_kept = 1;
    commit(store, attempt_at(1, 1), NULL);
    verify(store, NULL, 0, &findings);
    assert_non_null(strstr(findings.text,
                           "cannot be restored: \"v\" of rank 1, \"v\" of rank 2: address 20480 of owner 1 "
                           "is in no extent of writer 1"));
    vv_store_close(store);
    store = new_store();
    write_groups(store, 1, NULL);
    commit(store, attempt_at(1, 1), NULL);
    operate(store, attempt_at(1, 1), 0, overlap);
    verify(store, NULL, 1, &findings);
    assert_non_null(strstr(findings.text, "is said to be at writer 1, but is here"));
    vv_store_close(store);
}

/* ---- what the writer refuses ---- */

static void refuse(const struct vv_moved *moved, uint64_t count) {
    struct vv_store *store = new_store();
    struct vv_pack_options options = {
        .writer = 1, .writers = 3, .ranks = 9, .first_owner = 3, .owners = 3, .part_size = 1u << 30};
    struct vv_pack_writer *pack = begin_pack(store, attempt_at(1, 1), &options);
    assert_int_equal(vv_pack_moved(pack, moved, count, &failure), -EINVAL);
    assert_int_equal(vv_pack_seal(pack, 0, 0, NULL, &failure), -EINVAL);
    vv_store_close(store);
}

static void test_refused(void **state) {
    (void)state;
    static const struct vv_moved one[] = {
        {.extent = {2, 0, 1}, .length = 1, .writer = 0}, /* not of this pack */
        {.extent = {6, 0, 1}, .length = 1, .writer = 0},
        {.extent = {3, 0, 1}, .length = 1, .writer = 1},              /* itself */
        {.extent = {3, 0, 1}, .length = 1, .writer = 3},              /* nobody */
        {.extent = {3, 0, 0}, .length = 0, .writer = 0},              /* nothing */
        {.extent = {3, VV_ADDRESS_END, 1}, .length = 1, .writer = 0}, /* beyond the end */
        {.extent = {3, UINT64_MAX, 1}, .length = 1, .writer = 0},
        {.extent = {3, 1, 1}, .length = VV_ADDRESS_END, .writer = 0},
        {.extent = {3, 1, 1}, .length = UINT64_MAX, .writer = 0},
    };
    static const struct vv_moved two[][2] = {
        {{.extent = {4, 0, 9}, .length = 9, .writer = 0}, {.extent = {3, 9, 9}, .length = 9, .writer = 0}},
        {{.extent = {3, 9, 9}, .length = 9, .writer = 0}, {.extent = {3, 0, 9}, .length = 9, .writer = 0}},
        {{.extent = {3, 0, 9}, .length = 9, .writer = 0},
         {.extent = {3, 8, 9}, .length = 9, .writer = 2}}, /* overlap */
        {{.extent = {3, 0, 9}, .length = 9, .writer = 0}, {.extent = {3, 9, 9}, .length = 9, .writer = 0}}, /* one */
    };
    for (size_t i = 0; i < sizeof one / sizeof one[0]; i++)
        refuse(&one[i], 1);
    for (size_t i = 0; i < sizeof two / sizeof two[0]; i++)
        refuse(two[i], 2);
}

static void test_taken(void **state) {
    (void)state;
    static const struct vv_moved list[] = {{.extent = {3, 0, 9}, .length = 9, .writer = 0},
                                           {.extent = {3, 9, 9}, .length = 9, .writer = 2},
                                           {.extent = {5, 0, UINT32_MAX}, .length = VV_ADDRESS_END, .writer = 2}};
    struct vv_store *store = new_store();
    struct vv_pack_options options = {
        .writer = 1, .writers = 3, .ranks = 9, .first_owner = 3, .owners = 3, .part_size = 1u << 30};
    struct vv_pack_id id = {.store = store, .name = NAME, .attempt = attempt_at(1, 1), .writer = 1};
    struct vv_pack_writer *pack = begin_pack(store, attempt_at(1, 1), &options);
    struct vv_extent_coder coder = {.owner = 3};
    struct vv_cursor cursor;
    struct vv_footer footer;
    struct vv_buf bytes;
    char key[VV_KEY_CAPACITY];
    assert_ok(vv_pack_moved(pack, NULL, 0, &failure)); /* nothing is not a list yet */
    assert_ok(vv_pack_moved(pack, list, 3, &failure));
    for (uint32_t i = 0; i < 3; i++) {
        struct mf mf;
        mf_begin(&mf, 3 + i, 0);
        mf_store(&mf, pack, NULL);
    }
    assert_ok(vv_pack_seal(pack, 0, 0, NULL, &failure));
    assert_ok(vv_pack_footer_load(&id, VV_KIND_PACK, NULL, &footer, NULL, &failure));
    assert_int_equal(footer.sections[3].kind, VV_SECTION_MOVED);
    key_of(1, VV_KIND_PACK, 1, key);
    vv_buf_init(&bytes);
    assert_ok(vv_backend_get_all(store->backend, key, 1 << 24, &bytes));
    vv_cursor_init(&cursor, bytes.data + footer.sections[3].offset, footer.sections[3].length);
    for (size_t i = 0; i < 3; i++) {
        struct vv_moved moved;
        assert_ok(vv_moved_decode(&cursor, &coder, &moved, &failure));
        assert_int_equal(moved.extent.owner, list[i].extent.owner);
        assert_int_equal(moved.extent.address, list[i].extent.address);
        assert_true(moved.length == list[i].length);
        assert_int_equal(moved.writer, list[i].writer);
    }
    assert_int_equal(vv_cursor_left(&cursor), 0);
    vv_buf_clear(&bytes);
    vv_footer_clear(&footer);
    /* twice, and after the first manifest */
    pack = begin_pack(store, attempt_at(1, 2), &options);
    assert_ok(vv_pack_moved(pack, list, 3, &failure));
    assert_int_equal(vv_pack_moved(pack, list, 3, &failure), -EINVAL);
    vv_pack_abort(pack);
    pack = begin_pack(store, attempt_at(1, 3), &options);
    struct mf mf;
    mf_begin(&mf, 3, 0);
    mf_store(&mf, pack, NULL);
    assert_int_equal(vv_pack_moved(pack, list, 3, &failure), -EINVAL);
    vv_pack_abort(pack);
    vv_store_close(store);
}

/* ---- mending, adopting, removing ---- */

static void test_repair(void **state) {
    (void)state;
    static const int kinds[] = {VV_KIND_WRITERS, VV_KIND_RECORD};
    struct vv_store *store = grouped_store();
    struct vv_repair_options options = {0};
    for (int version = 1; version <= 2; version++)
        for (int i = 0; i < 2; i++) {
            char key[VV_KEY_CAPACITY];
            key_of(version, kinds[i], 0, key);
            assert_ok(vv_backend_remove(store->backend, key));
            int rc = vv_repair(store, &options, &failure);
            if (rc != 1)
                fail_msg("%s: %d %s", key, rc, failure.text);
            assert_sound(store, NULL);
            assert_state(store, version);
        }
    vv_store_close(store);
}

/* A session dies before its record: the next one finds the votes of all writers. */
static void test_adopt(void **state) {
    (void)state;
    struct vv_store *store = new_store();
    struct vv_lease *lease = take_lease(store);
    write_groups(store, 1, NULL);
    vv_lease_release(lease);
    lease = take_lease(store);
    assert_int_equal(vv_adopt(store, lease, NAME, &failure), 1);
    vv_lease_release(lease);
    assert_state(store, 1);
    assert_sound(store, NULL);
    vv_store_close(store);
}

static int pack_exists(struct vv_store *store, int version, uint32_t writer) {
    char key[VV_KEY_CAPACITY];
    uint64_t size;
    key_of(version, VV_KIND_PACK, writer, key);
    return vv_backend_stat(store->backend, key, &size) == 0;
}

static void test_prune(void **state) {
    (void)state;
    struct vv_store *store = grouped_store();
    struct vv_prune_options options = {0};
    struct vv_prune_result result;
    assert_ok(vv_forget(store, NAME, 1, 1, &failure));
    assert_ok(vv_prune(store, NAME, &options, &result, &failure));
    assert_true(pack_exists(store, 1, 0) && pack_exists(store, 1, 1)); /* 2 depends on both */
    assert_state(store, 2);
    assert_sound(store, NULL);
    assert_ok(vv_forget(store, NAME, 1, 2, &failure));
    assert_ok(vv_prune(store, NAME, &options, &result, &failure));
    for (int version = 1; version <= 2; version++)
        assert_false(pack_exists(store, version, 0) || pack_exists(store, version, 1));
    vv_store_close(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_damage_names_who_loses),
        cmocka_unit_test(test_a_lost_pack_names_many),
        cmocka_unit_test(test_moved_but_not_there),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_taken),
        cmocka_unit_test(test_repair),
        cmocka_unit_test(test_adopt),
        cmocka_unit_test(test_prune),
    };
    make_states();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
