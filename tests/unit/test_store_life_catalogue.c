/* The catalogue against the records it caches. */
#include "store_life.h"

#define RECORDS 2000

static struct vv_store *store;

/* A record that no pack stands behind: enough for a list. */
static void put_record(uint32_t generation, uint64_t version) {
    struct vv_attempt attempt = at(generation, version, 0);
    struct vv_key key = vv_attempt_key(NAME, &attempt, VV_KIND_RECORD, 0, 0);
    struct vv_record record = {.settings = store->settings,
                               .time_ns = 1000 + version,
                               .ranks = 1,
                               .writers = 1,
                               .writers_length = 96 + 8 + 64 + 24,
                               .protected_bytes = version};
    struct vv_buf buf;
    vv_buf_init(&buf);
    vv_record_encode(&buf, &key, store->id, &record);
    ok(vv_object_create(store, &key, &buf, &error));
    vv_buf_clear(&buf);
}

static int set_up(void **state) {
    char uri[80];
    (void)state;
    snprintf(uri, sizeof uri, "%s?count=1", fresh_uri());
    store = open_store(uri, VV_STORE_WRITE);
    for (uint64_t version = 0; version < RECORDS; version++)
        put_record(1 + (version >= RECORDS / 2), version);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    vv_store_close(store);
    return 0;
}

static uint64_t gets(void) {
    struct vv_backend_counts counts;
    assert_int_equal(vv_count_get(store->backend, &counts), 0);
    return counts.calls[VV_VERB_GET];
}

static int damaged_count;
static void take_damaged(void *arg, uint32_t generation, uint64_t version, const struct varve_error *why) {
    (void)arg, (void)generation, (void)version;
    assert_true(why->text[0]);
    damaged_count++;
}

static struct vv_catalogue load(int may_write) {
    struct vv_catalogue catalogue;
    damaged_count = 0;
    ok(vv_catalogue_load(store, NAME, may_write, take_damaged, NULL, &catalogue, &error));
    return catalogue;
}

static void check(const struct vv_catalogue *catalogue, uint64_t count) {
    assert_true(catalogue->count == count);
    for (uint64_t i = 0; i < count; i++) {
        const struct vv_catalogue_entry *entry = &catalogue->list[i];
        assert_true(entry->attempt.version == entry->protected_bytes &&
                    entry->time_ns == 1000 + entry->attempt.version);
        assert_true(i == 0 || entry->attempt.version < entry[-1].attempt.version);
    }
}

static void test_load(void **state) {
    (void)state;
    uint64_t before = gets();
    struct vv_catalogue catalogue = load(0);
    check(&catalogue, RECORDS);
    vv_catalogue_clear(&catalogue);
    uint64_t cost = gets() - before;
    catalogue = load(1); /* nothing was cached: reads all, writes */
    vv_catalogue_clear(&catalogue);
    before = gets();
    catalogue = load(1);
    check(&catalogue, RECORDS);
    vv_catalogue_clear(&catalogue);
    assert_true(cost >= RECORDS);
    assert_true(gets() - before <= 2);
    /* ten new ones are read each time, and no catalogue is written for them */
    for (uint64_t version = RECORDS; version < RECORDS + 10; version++)
        put_record(3, version);
    for (int round = 0; round < 2; round++) {
        before = gets();
        catalogue = load(1);
        check(&catalogue, RECORDS + 10);
        vv_catalogue_clear(&catalogue);
        assert_true(gets() - before <= 12);
    }
}

static void test_forgotten(void **state) {
    (void)state;
    char text[VV_KEY_CAPACITY];
    struct vv_catalogue catalogue = load(1);
    vv_catalogue_clear(&catalogue);
    ok(vv_forget(store, NAME, 1, 3, &error));
    ok(vv_forget(store, NAME, 2, RECORDS - 1, &error));
    uint64_t before = gets();
    catalogue = load(1);
    check(&catalogue, RECORDS - 2);
    vv_catalogue_clear(&catalogue);
    assert_true(gets() - before <= 2);
    key_text(at(1, 7, 0), VV_KIND_RECORD, 0, 0, text);
    assert_int_equal(vv_backend_remove(store->backend, text), 0); /* an entry without a record means nothing */
    catalogue = load(0);
    check(&catalogue, RECORDS - 3);
    vv_catalogue_clear(&catalogue);
}

static void test_damaged(void **state) {
    (void)state;
    char text[VV_KEY_CAPACITY];
    key_text(at(1, 5, 0), VV_KIND_RECORD, 0, 0, text);
    damage(store, text, 150);
    for (int round = 0; round < 2; round++) {
        struct vv_catalogue catalogue = load(1);
        assert_true(catalogue.count == RECORDS);
        assert_true(catalogue.list[RECORDS - 6].attempt.version == 5 && catalogue.list[RECORDS - 6].time_ns == 0);
        assert_int_equal(damaged_count, 1);
        vv_catalogue_clear(&catalogue);
    }
    damage(store, text, 150);
    /* a damaged catalogue is as good as none */
    key_text(at(0, 0, 0), VV_KIND_CATALOGUE, 0, 0, text);
    damage(store, text, 500);
    struct vv_catalogue catalogue = load(0);
    check(&catalogue, RECORDS);
    assert_int_equal(damaged_count, 0);
    vv_catalogue_clear(&catalogue);
    struct vv_repair_options options = {0};
    assert_int_equal(vv_repair(store, &options, &error), 1);
    uint64_t size;
    ok(vv_backend_stat(store->backend, text, &size));
    assert_true(size > RECORDS * 64);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_load), TEST(test_forgotten), TEST(test_damaged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
