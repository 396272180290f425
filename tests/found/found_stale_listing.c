/* A prune on one host, beside a job on another, believed listings that were some seconds old, as hosts remember them:
 * it did not see the job's newest records, and removed what they depend on, after they had been reported. Whatever a
 * listing lacks, nothing that a record needs may go. Here every listing is of a copy of the store made earlier; all
 * else is as it is. */
#include "storage/storage.h"
#include "unit/store_life.h"

static char folder[64], real_uri[80], copy_uri[80];
static struct vv_store *store; /* of the job */
static struct vv_store *old;   /* of the prune */
static struct vv_lease *lease;
static struct vv_dependency made[8]; /* by version */

/* ---- a backend with old listings ---- */

struct remembering {
    struct varve_backend base;
    struct varve_backend *inner;
    struct varve_backend *copy; /* what is listed; NULL: all as it is */
};

static struct remembering *of(struct varve_backend *backend) {
    return (struct remembering *)backend;
}
static int pass_create(struct varve_backend *backend, const char *key, uint64_t hint, struct varve_upload **out) {
    return vv_backend_create(of(backend)->inner, key, hint, out);
}
static int pass_replace(struct varve_backend *backend, const char *key, const void *data, size_t size) {
    return vv_backend_replace(of(backend)->inner, key, data, size);
}
static int64_t pass_get(struct varve_backend *backend, const char *key, uint64_t offset, void *data, size_t size) {
    return vv_backend_get(of(backend)->inner, key, offset, data, size);
}
static int pass_stat(struct varve_backend *backend, const char *key, uint64_t *size) {
    return vv_backend_stat(of(backend)->inner, key, size);
}
static int old_list(struct varve_backend *backend, const char *prefix, const char *after, size_t limit,
                    varve_list_fn fn, void *arg) {
    struct varve_backend *listed = of(backend)->copy ? of(backend)->copy : of(backend)->inner;
    return vv_backend_list(listed, prefix, after, limit, fn, arg);
}
static int pass_remove(struct varve_backend *backend, const char *key) {
    return vv_backend_remove(of(backend)->inner, key);
}
static void close_both(struct varve_backend *backend) {
    vv_backend_close(of(backend)->inner);
    vv_backend_close(of(backend)->copy);
    free(backend);
}
static const struct varve_backend_ops remembering_ops = {.size = sizeof remembering_ops,
                                                         .name = "remembering",
                                                         .create = pass_create,
                                                         .replace = pass_replace,
                                                         .get = pass_get,
                                                         .stat = pass_stat,
                                                         .list = old_list,
                                                         .remove = pass_remove,
                                                         .close = close_both};

/* From now on the listings of `old` are of this moment. */
static void remember(void) {
    struct vv_backend_options options = {0};
    struct remembering *backend = of(old->backend);
    char command[256];
    vv_backend_close(backend->copy);
    backend->copy = NULL;
    snprintf(command, sizeof command, "rm -rf '%s/copy' && cp -a '%s/ck' '%s/copy'", folder, folder, folder);
    assert_int_equal(system(command), 0);
    ok(vv_backend_open(copy_uri, &options, &backend->copy, &error));
}

/* ---- the job ---- */

static int prepare(void **state) {
    struct vv_backend_options options = {.may_create = 1};
    struct remembering *backend = calloc(1, sizeof *backend);
    (void)state;
    strcpy(folder, "/tmp/varve-found-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(real_uri, sizeof real_uri, "%s/ck", folder);
    snprintf(copy_uri, sizeof copy_uri, "%s/copy", folder);
    store = open_store(real_uri, VV_STORE_WRITE);
    assert_non_null(backend);
    backend->base.ops = &remembering_ops;
    ok(vv_backend_open(real_uri, &options, &backend->inner, &error));
    ok(vv_store_open(&backend->base, VV_STORE_WRITE, &quiet, &old, &error));
    ok(take(store, 60, 0, &lease));
    return 0;
}

static int finish(void **state) {
    char command[128];
    (void)state;
    vv_lease_release(lease);
    lease = NULL;
    vv_store_close(store);
    vv_store_close(old);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* One that depends on all before it, as a base with overlays does. */
static void make(uint64_t version) {
    struct vv_attempt parent = version > 1 ? made[version - 1].attempt : at(0, 0, 0);
    made[version] =
        checkpoint(store, lease, at(vv_lease_generation(lease), version, 0), parent, made + 1, (uint32_t)version - 1);
}

static void make_up_to(uint64_t from, uint64_t to) {
    for (uint64_t version = from; version <= to; version++)
        make(version);
}

/* It may refuse, or find nothing to remove; what it must not do is to harm. */
static int prune_by_old_listing(void) {
    int rc = prune(old, NULL);
    assert_true(rc == 0 || rc == -ESTALE || rc == -EAGAIN);
    if (rc == -ESTALE)
        assert_non_null(strstr(error.text, "docs/backends.md"));
    assert_whole(store);
    return rc;
}

/* ---- the tests ---- */

static void test_job_goes_on(void **state) {
    (void)state;
    make_up_to(1, 3);
    remember();
    make_up_to(4, 5);
    ok(keep_newest(store, lease, 2));
    assert_int_equal(prune_by_old_listing(), -ESTALE);
}

static void test_job_has_ended(void **state) {
    (void)state;
    make_up_to(1, 3);
    remember();
    make_up_to(4, 5);
    ok(keep_newest(store, lease, 2));
    vv_lease_release(lease);
    lease = NULL;
    assert_int_equal(prune_by_old_listing(), -ESTALE);
    ok(take(store, 60, 0, &lease)); /* and a session that came after it, and has done nothing yet */
    assert_int_equal(prune_by_old_listing(), -ESTALE);
    ok(vv_lease_refer(lease, &made[4].attempt, &error)); /* or has gone on from an older one */
    assert_int_equal(prune_by_old_listing(), -ESTALE);
}

/* The last one is not named yet; the one before it, which is listed, has all that it needs. */
static void test_committed_but_not_named(void **state) {
    (void)state;
    make_up_to(1, 4);
    for (uint64_t version = 1; version <= 3; version++)
        ok(vv_record_bury(store, NAME, &made[version].attempt, &error));
    remember();
    struct vv_attempt next = at(1, 5, 0);
    write_single(store, next, made[4].attempt, made + 1, 4);
    ok(commit_votes(store, lease, NAME, &next, NULL, &error));
    assert_int_equal(prune_by_old_listing(), 0);
}

/* As soon as listings show what is there, it works again. */
static void test_later(void **state) {
    (void)state;
    make_up_to(1, 3);
    remember();
    make_up_to(4, 5);
    ok(keep_newest(store, lease, 2));
    assert_int_equal(prune_by_old_listing(), -ESTALE);
    remember();
    assert_int_equal(prune_by_old_listing(), 0);
}

/* A session that may still be adopting has claimed since: the tombstone in its way must stay. */
static void test_claim_not_listed(void **state) {
    struct pack_spec half = {.writers = 2};
    char command[128];
    (void)state;
    ok(write_pack(store, at(1, 7, 0), &half));
    vv_lease_release(lease);
    remember();
    ok(take(store, 60, 0, &lease));
    ok(prune(old, NULL));
    assert_int_equal(record_state(store, 1, 7), VARVE_FORGOTTEN);
    /* only the claims are listed as they were */
    snprintf(command, sizeof command, "cd '%s' && rm -r copy/n/*/data && cp -a ck/n/*/record copy/n/*/", folder);
    assert_int_equal(system(command), 0);
    ok(prune(old, NULL));
    assert_int_equal(record_state(store, 1, 7), VARVE_FORGOTTEN);
}

/* Of an attempt that may still be committed not all packs are listed; what the others depend on must stay. */
static void test_pack_not_listed(void **state) {
    (void)state;
    make_up_to(1, 2);
    struct vv_attempt next = at(1, 3, 0);
    struct pack_spec first = {.writer = 0, .writers = 2, .parent = made[2].attempt};
    struct pack_spec second = {
        .writer = 1, .writers = 2, .parent = made[2].attempt, .dependencies = made + 1, .dependency_count = 2};
    ok(write_pack(store, next, &first));
    remember();
    ok(write_pack(store, next, &second));
    for (uint64_t version = 1; version <= 2; version++)
        ok(vv_record_bury(store, NAME, &made[version].attempt,
                          &error)); /* by somebody who read the heartbeat long ago */
    assert_int_equal(prune_by_old_listing(), 0);
    assert_true(exists(store, made[1].attempt, VV_KIND_PACK));
    assert_true(exists(store, made[2].attempt, VV_KIND_PACK));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_job_goes_on, prepare, finish),
        cmocka_unit_test_setup_teardown(test_job_has_ended, prepare, finish),
        cmocka_unit_test_setup_teardown(test_committed_but_not_named, prepare, finish),
        cmocka_unit_test_setup_teardown(test_later, prepare, finish),
        cmocka_unit_test_setup_teardown(test_claim_not_listed, prepare, finish),
        cmocka_unit_test_setup_teardown(test_pack_not_listed, prepare, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
