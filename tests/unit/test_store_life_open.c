/* Opening a store: made once, patched when its object is lost, never made anew over another. */
#include <pthread.h>

#include "storage/storage.h"
#include "store_life.h"

static void test_create(void **state) {
    (void)state;
    const char *uri = fresh_uri();
    struct vv_backend_options options = {.may_create = 1};
    struct varve_backend *backend = NULL;
    struct vv_store *store = NULL, *again = NULL;
    ok(vv_backend_open(uri, &options, &backend, &error));
    assert_int_equal(vv_store_open(backend, VV_STORE_READ, &quiet, &store, &error), VARVE_NO_STORE);
    store = open_store(uri, VV_STORE_WRITE);
    assert_int_equal(store->is_patched, 0);
    assert_true(store->settings.seed != 0);
    again = open_store(uri, VV_STORE_READ);
    assert_memory_equal(again->id, store->id, 16);
    assert_true(again->settings.seed == store->settings.seed);
    vv_store_close(again);
    vv_store_close(store);
    vv_store_close(NULL);
}

static void *open_in_thread(void *arg) {
    struct vv_backend_options options = {.may_create = 1};
    struct varve_backend *backend = NULL;
    struct vv_store *store = NULL;
    struct varve_error own;
    if (vv_backend_open(arg, &options, &backend, &own) < 0 ||
        vv_store_open(backend, VV_STORE_WRITE, &quiet, &store, &own) < 0)
        return NULL;
    return store;
}

static void test_race(void **state) {
    (void)state;
    for (int round = 0; round < 50; round++) {
        char uri[64];
        pthread_t threads[4];
        struct vv_store *stores[4];
        snprintf(uri, sizeof uri, "%s", fresh_uri());
        struct vv_store *holder = NULL; /* keeps the memory store while the threads come and go */
        struct vv_backend_options options = {.may_create = 1};
        struct varve_backend *backend = NULL;
        ok(vv_backend_open(uri, &options, &backend, &error));
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, open_in_thread, uri), 0);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], (void **)&stores[i]);
        ok(vv_store_open(backend, VV_STORE_READ, &quiet, &holder, &error));
        for (int i = 0; i < 4; i++) {
            assert_non_null(stores[i]);
            assert_memory_equal(stores[i]->id, holder->id, 16);
            vv_store_close(stores[i]);
        }
        vv_store_close(holder);
        vv_mem_drop(uri + 6);
    }
}

static int refuse_list(struct varve_backend *backend, const char *prefix, const char *after, size_t limit,
                       varve_list_fn fn, void *arg) {
    (void)backend, (void)prefix, (void)after, (void)limit, (void)fn, (void)arg;
    return -EIO;
}

/* The same objects, but listing fails. */
struct broken {
    struct varve_backend base;
    struct varve_backend *inner;
};

static int64_t broken_get(struct varve_backend *backend, const char *key, uint64_t offset, void *data, size_t size) {
    return vv_backend_get(((struct broken *)backend)->inner, key, offset, data, size);
}
static int broken_stat(struct varve_backend *backend, const char *key, uint64_t *size) {
    return vv_backend_stat(((struct broken *)backend)->inner, key, size);
}
static int broken_create(struct varve_backend *backend, const char *key, uint64_t hint, struct varve_upload **out) {
    return vv_backend_create(((struct broken *)backend)->inner, key, hint, out);
}
static int broken_replace(struct varve_backend *backend, const char *key, const void *data, size_t size) {
    return vv_backend_replace(((struct broken *)backend)->inner, key, data, size);
}
static void broken_close(struct varve_backend *backend) {
    vv_backend_close(((struct broken *)backend)->inner);
    free(backend);
}

static void test_error_is_not_absence(void **state) {
    (void)state;
    static struct varve_backend_ops ops = {.size = sizeof ops,
                                           .name = "broken",
                                           .create = broken_create,
                                           .replace = broken_replace,
                                           .get = broken_get,
                                           .stat = broken_stat,
                                           .list = refuse_list,
                                           .close = broken_close};
    struct vv_backend_options options = {.may_create = 1};
    struct broken *broken = calloc(1, sizeof *broken);
    struct vv_store *store = NULL;
    const char *uri = fresh_uri();
    broken->base.ops = &ops;
    ok(vv_backend_open(uri, &options, &broken->inner, &error));
    assert_int_equal(vv_store_open(&broken->base, VV_STORE_WRITE, &quiet, &store, &error), -EIO);
    struct varve_backend *backend = NULL;
    ok(vv_backend_open(uri, &options, &backend, &error));
    assert_int_equal(vv_store_open(backend, VV_STORE_READ, &quiet, &store, &error), VARVE_NO_STORE);
}

/* A store with a claim and two records, whose object `varve` is treated by spoil. */
static struct vv_store *spoilt(const char *uri, int is_removed, uint8_t id[16], uint64_t *seed) {
    struct vv_store *store = open_store(uri, VV_STORE_WRITE);
    struct vv_lease *lease = NULL;
    ok(take(store, 2, 0, &lease));
    checkpoint(store, lease, at(1, 10, 0), at(0, 0, 0), NULL, 0);
    checkpoint(store, lease, at(1, 20, 0), at(1, 10, 0), NULL, 0);
    vv_lease_release(lease);
    memcpy(id, store->id, 16);
    *seed = store->settings.seed;
    if (is_removed)
        assert_int_equal(vv_backend_remove(store->backend, "varve"), 0);
    else
        damage(store, "varve", 100);
    return store;
}

static void test_patched(void **state) {
    (void)state;
    for (int is_removed = 0; is_removed < 2; is_removed++) {
        char uri[64];
        uint8_t id[16];
        uint64_t seed;
        snprintf(uri, sizeof uri, "%s", fresh_uri());
        struct vv_store *leader = spoilt(uri, is_removed, id, &seed);
        struct vv_store *store = open_store(uri, VV_STORE_WRITE);
        assert_int_equal(store->is_patched, 1);
        assert_memory_equal(store->id, id, 16);
        assert_true(store->settings.seed == seed);
        struct vv_repair_options options = {0};
        assert_int_equal(vv_repair(store, &options, &error), 1);
        assert_int_equal(store->is_patched, 0);
        vv_store_close(store);
        store = open_store(uri, VV_STORE_READ);
        assert_int_equal(store->is_patched, 0);
        assert_memory_equal(store->id, id, 16);
        vv_store_close(store);
        vv_store_close(leader);
    }
}

static void test_patch_refused(void **state) {
    (void)state;
    char uri[64], text[VV_KEY_CAPACITY];
    uint8_t id[16];
    uint64_t seed;
    struct vv_backend_options options = {.may_create = 1};
    struct varve_backend *backend = NULL;
    struct vv_store *store = NULL;
    snprintf(uri, sizeof uri, "%s", fresh_uri());
    struct vv_store *leader = spoilt(uri, 1, id, &seed);

    /* a claim of another store */
    struct vv_claim claim = {.settings = leader->settings, .ranks = 1};
    struct vv_key key = vv_attempt_key(NAME, &(struct vv_attempt){.generation = 7}, VV_KIND_CLAIM, 0, 0);
    struct vv_buf buf;
    uint8_t other[16] = {1};
    vv_buf_init(&buf);
    vv_claim_encode(&buf, &key, other, &claim);
    ok(vv_object_create(leader, &key, &buf, &error));
    vv_buf_clear(&buf);
    ok(vv_backend_open(uri, &options, &backend, &error));
    assert_int_equal(vv_store_open(backend, VV_STORE_WRITE, &quiet, &store, &error), VARVE_CORRUPT);
    assert_non_null(strstr(error.text, "agree"));

    /* nothing that could be read: never a new store */
    vv_key_print(&key, text);
    assert_int_equal(vv_backend_remove(leader->backend, text), 0);
    key_text(at(1, 0, 0), VV_KIND_CLAIM, 0, 0, text);
    damage(leader, text, 20);
    key_text(at(1, 10, 0), VV_KIND_RECORD, 0, 0, text);
    damage(leader, text, 20);
    key_text(at(1, 20, 0), VV_KIND_RECORD, 0, 0, text);
    damage(leader, text, 200);
    ok(vv_backend_open(uri, &options, &backend, &error));
    assert_int_equal(vv_store_open(backend, VV_STORE_WRITE, &quiet, &store, &error), VARVE_CORRUPT);
    uint64_t size;
    assert_int_equal(vv_backend_stat(leader->backend, "varve", &size), -ENOENT);
    vv_store_close(leader);
}

static int count_name(void *arg, const char *name) {
    int *count = arg;
    ++*count;
    assert_string_equal(name, NAME);
    return 0;
}

static void test_names(void **state) {
    (void)state;
    uint8_t id[16];
    uint64_t seed;
    int count = 0;
    struct vv_store *store = spoilt(fresh_uri(), 0, id, &seed);
    ok(vv_backend_put(store->backend, "n/%zz/odd", "x", 1));
    ok(vv_store_names(store, count_name, &count, &error));
    assert_int_equal(count, 1);
    vv_store_close(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_create),
                                       cmocka_unit_test(test_race),
                                       cmocka_unit_test(test_error_is_not_absence),
                                       cmocka_unit_test(test_patched),
                                       cmocka_unit_test(test_patch_refused),
                                       cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
