/* From packs to records: votes, commit, giving up, adoption. */
#include "store_life.h"

static struct vv_store *store;
static struct vv_lease *lease;

static int set_up(void **state) {
    (void)state;
    store = open_store(fresh_uri(), VV_STORE_WRITE);
    lease = NULL;
    return take(store, 60, 0, &lease);
}

static int tear_down(void **state) {
    (void)state;
    vv_lease_release(lease);
    vv_store_close(store);
    return 0;
}

/* A session that comes after ours: a claim, and a heartbeat that says it has ended. */
static void supersede(uint32_t generation) {
    struct vv_claim claim = {.settings = store->settings, .ranks = 1, .beat_seconds = 1, .dead_seconds = 1};
    struct vv_heartbeat heartbeat = {.counter = 1, .state = VV_HEARTBEAT_ENDED};
    struct vv_key key = vv_attempt_key(NAME, &(struct vv_attempt){.generation = generation}, VV_KIND_CLAIM, 0, 0);
    struct vv_buf buf;
    vv_buf_init(&buf);
    vv_claim_encode(&buf, &key, store->id, &claim);
    ok(vv_object_create(store, &key, &buf, &error));
    vv_buf_clear(&buf);
    key.kind = VV_KIND_HEARTBEAT;
    vv_heartbeat_encode(&buf, &key, store->id, &heartbeat);
    ok(vv_object_create(store, &key, &buf, &error));
    vv_buf_clear(&buf);
}

static void next_session(void) {
    vv_lease_release(lease);
    ok(take(store, 60, 0, &lease));
}

static void test_commit(void **state) {
    (void)state;
    struct vv_record record;
    struct vv_writers writers;
    struct vv_attempt attempt = at(1, 10, 0);
    struct pack_spec spec = {.writer = 0, .writers = 2, .has_part = 1};
    assert_int_equal(commit_votes(store, lease, NAME, &attempt, NULL, &error), VARVE_DISAGREED);
    ok(write_pack(store, attempt, &spec));
    assert_int_equal(vv_votes_read(store, NAME, &attempt, &writers, &record, &error), 0);
    assert_int_equal(commit_votes(store, lease, NAME, &attempt, NULL, &error), VARVE_DISAGREED);
    spec.writer = 1;
    spec.has_part = 0;
    ok(write_pack(store, attempt, &spec));
    ok(commit_votes(store, lease, NAME, &attempt, &record, &error));
    assert_int_equal(record.ranks, 2);
    assert_int_equal(record.writers, 2);
    assert_true(record.stored_bytes == 10000 && record.raw_bytes == 10000);
    vv_record_clear(&record);
    assert_int_equal(vv_votes_read(store, NAME, &attempt, &writers, &record, &error), 1);
    assert_int_equal(writers.count, 2);
    assert_int_equal(writers.list[0].parts, 1);
    assert_true(writers.list[0].parts_length == 5096);
    assert_true(record.metadata_bytes ==
                writers.list[0].pack_length + writers.list[1].pack_length + writers.list[0].parts_length - 10000);
    vv_writers_clear(&writers);
    vv_record_clear(&record);
    ok(commit_votes(store, lease, NAME, &attempt, NULL, &error)); /* once more: it has succeeded */
    assert_whole(store);

    char text[VV_KEY_CAPACITY];
    key_text(attempt, VV_KIND_PART, 0, 0, text);
    assert_int_equal(vv_backend_remove(store->backend, text), 0);
    assert_int_equal(vv_votes_read(store, NAME, &attempt, &writers, &record, &error), VARVE_CORRUPT);
    assert_non_null(strstr(error.text, text));
}

static void test_disagreeing_votes(void **state) {
    (void)state;
    struct vv_attempt attempt = at(1, 10, 0);
    struct pack_spec spec = {.writer = 0, .writers = 2};
    struct vv_dependency dependency = checkpoint(store, lease, at(1, 5, 0), at(0, 0, 0), NULL, 0);
    ok(write_pack(store, attempt, &spec));
    spec.writer = 1;
    spec.parent = dependency.attempt;
    ok(write_pack(store, attempt, &spec));
    assert_int_equal(commit_votes(store, lease, NAME, &attempt, NULL, &error), VARVE_CORRUPT);
    assert_non_null(strstr(error.text, "parent"));
    assert_int_equal(record_state(store, 1, 10), VARVE_NO_CHECKPOINT);
}

static void test_dependencies(void **state) {
    (void)state;
    struct vv_dependency a = checkpoint(store, lease, at(1, 10, 0), at(0, 0, 0), NULL, 0);
    struct vv_dependency b = checkpoint(store, lease, at(1, 20, 0), a.attempt, &a, 1);
    struct vv_dependency both[2] = {a, b};
    checkpoint(store, lease, at(1, 30, 0), b.attempt, both, 2);
    struct vv_record record;
    ok(vv_record_load(store, NAME, 1, 30, &record, &error));
    assert_int_equal(record.dependency_count, 2);
    vv_record_clear(&record);

    /* on something the parent does not depend on; with another writers list; without any parent */
    struct vv_attempt bad = at(1, 40, 0);
    write_single(store, bad, a.attempt, both, 2);
    assert_int_equal(commit_votes(store, lease, NAME, &bad, NULL, &error), VARVE_CORRUPT);
    bad = at(1, 41, 0);
    struct vv_dependency wrong = b;
    wrong.writers_digest.low ^= 1;
    write_single(store, bad, b.attempt, &wrong, 1);
    assert_int_equal(commit_votes(store, lease, NAME, &bad, NULL, &error), VARVE_CORRUPT);
    bad = at(1, 42, 0);
    write_single(store, bad, at(0, 0, 0), &a, 1);
    assert_int_equal(commit_votes(store, lease, NAME, &bad, NULL, &error), VARVE_CORRUPT);
    assert_whole(store);
}

static void test_forgotten_parent(void **state) {
    (void)state;
    struct vv_dependency a = checkpoint(store, lease, at(1, 10, 0), at(0, 0, 0), NULL, 0);
    struct vv_attempt next = at(1, 20, 0);
    write_single(store, next, a.attempt, &a, 1);
    char text[VV_KEY_CAPACITY];
    key_text(a.attempt, VV_KIND_RECORD, 0, 0, text);
    damage(store, text, 200); /* it vouches for nothing: the same as forgotten */
    assert_int_equal(commit_votes(store, lease, NAME, &next, NULL, &error), VARVE_FORGOTTEN);
    damage(store, text, 200);
    ok(vv_record_bury(store, NAME, &a.attempt, &error));
    assert_int_equal(commit_votes(store, lease, NAME, &next, NULL, &error), VARVE_FORGOTTEN);
    assert_int_equal(record_state(store, 1, 20), VARVE_NO_CHECKPOINT);
}

static void test_taken_key(void **state) {
    (void)state;
    struct vv_attempt first = at(1, 10, 0), second = at(1, 10, 1), third = at(1, 20, 0);
    write_single(store, first, at(0, 0, 0), NULL, 0);
    write_single(store, second, at(0, 0, 0), NULL, 0);
    write_single(store, third, at(0, 0, 0), NULL, 0);
    ok(commit_votes(store, lease, NAME, &second, NULL, &error));
    assert_int_equal(commit_votes(store, lease, NAME, &first, NULL, &error), -EEXIST);
    struct vv_key key = vv_attempt_key(NAME, &third, VV_KIND_RECORD, 0, 0);
    ok(vv_tombstone_create(store, &key, VV_TOMBSTONE_PRUNED, &error));
    assert_int_equal(commit_votes(store, lease, NAME, &third, NULL, &error), VARVE_FORGOTTEN);

    /* a writers list that is not what the packs give */
    struct vv_attempt fourth = at(1, 30, 0);
    char text[VV_KEY_CAPACITY];
    write_single(store, fourth, at(0, 0, 0), NULL, 0);
    key_text(fourth, VV_KIND_WRITERS, 0, 0, text);
    ok(vv_backend_put(store->backend, text, "something", 9));
    assert_int_equal(commit_votes(store, lease, NAME, &fourth, NULL, &error), VARVE_CORRUPT);
    assert_int_equal(record_state(store, 1, 30), VARVE_NO_CHECKPOINT);
}

static void test_fenced(void **state) {
    (void)state;
    struct vv_attempt attempt = at(1, 10, 0);
    write_single(store, attempt, at(0, 0, 0), NULL, 0);
    supersede(2);
    assert_int_equal(commit_votes(store, lease, NAME, &attempt, NULL, &error), VARVE_FENCED);
    assert_int_equal(vv_lease_advance(lease, &error), VARVE_FENCED);
    assert_int_equal(keep_newest(store, lease, 2), VARVE_FENCED);
    assert_int_equal(record_state(store, 1, 10), VARVE_NO_CHECKPOINT);
    next_session(); /* which adopts it */
    assert_int_equal(vv_adopt(store, lease, NAME, &error), 1);
    assert_int_equal(record_state(store, 1, 10), 0);
    assert_whole(store);
}

/* ---- giving up ---- */

static void test_drop(void **state) {
    (void)state;
    struct vv_attempt attempt = at(1, 10, 0), retry = at(1, 10, 1);
    struct pack_spec spec = {.writer = 1, .writers = 2, .has_part = 1};
    ok(write_pack(store, attempt, &spec));
    assert_int_equal(vv_attempt_drop(store, NAME, &attempt, 2, &error), 0);
    char text[VV_KEY_CAPACITY];
    uint64_t size;
    key_text(attempt, VV_KIND_PACK, 1, 0, text);
    assert_int_equal(vv_backend_stat(store->backend, text, &size), -ENOENT);
    key_text(attempt, VV_KIND_PART, 1, 0, text);
    assert_int_equal(vv_backend_stat(store->backend, text, &size), -ENOENT);
    assert_true(exists(store, attempt, VV_KIND_WRITERS)); /* the tombstone */
    spec.writer = 0;
    ok(write_pack(store, attempt, &spec)); /* late ones do not help */
    spec.writer = 1;
    ok(write_pack(store, attempt, &spec));
    assert_int_equal(commit_votes(store, lease, NAME, &attempt, NULL, &error), VARVE_FORGOTTEN);
    assert_int_equal(vv_attempt_drop(store, NAME, &attempt, 2, &error), 0);

    /* another attempt at the same version goes through */
    write_single(store, retry, at(0, 0, 0), NULL, 0);
    ok(commit_votes(store, lease, NAME, &retry, NULL, &error));
    assert_int_equal(vv_attempt_drop(store, NAME, &retry, 1, &error), -EEXIST);
    ok(vv_lease_refer(lease, &retry, &error));
    ok(prune(store, NULL));
    assert_false(exists(store, attempt, VV_KIND_WRITERS));
    assert_whole(store);
}

static void test_drop_full_vote(void **state) {
    (void)state;
    struct vv_attempt attempt = at(1, 10, 0);
    write_single(store, attempt, at(0, 0, 0), NULL, 0);
    assert_int_equal(vv_attempt_drop(store, NAME, &attempt, 1, &error), 0);
    assert_false(exists(store, attempt, VV_KIND_PACK));
    next_session();
    assert_int_equal(vv_adopt(store, lease, NAME, &error), 0);
    assert_int_equal(record_state(store, 1, 10), VARVE_NO_CHECKPOINT);
#ifdef VARVE_FAULTS
    /* a commit that got as far as the writers list: nothing is touched */
    attempt = at(2, 20, 0);
    write_single(store, attempt, at(0, 0, 0), NULL, 0);
    vv_fault_set("store.record.before_create=error:5");
    assert_int_equal(commit_votes(store, lease, NAME, &attempt, NULL, &error), -EIO);
    vv_fault_set(NULL);
    assert_int_equal(vv_attempt_drop(store, NAME, &attempt, 1, &error), 1);
    assert_true(exists(store, attempt, VV_KIND_PACK));
    ok(commit_votes(store, lease, NAME, &attempt, NULL, &error));
    assert_whole(store);
#endif
}

/* Its session wakes late: the attempt was adopted, depended on, and forgotten meanwhile. */
static void test_drop_adopted(void **state) {
    (void)state;
    struct vv_attempt attempt = at(1, 10, 0);
    struct vv_record record;
    write_single(store, attempt, at(0, 0, 0), NULL, 0);
    next_session();
    assert_int_equal(vv_adopt(store, lease, NAME, &error), 1);
    ok(vv_record_load(store, NAME, 1, 10, &record, &error));
    struct vv_dependency dependency = {.attempt = attempt, .writers_digest = record.writers_digest};
    vv_record_clear(&record);
    checkpoint(store, lease, at(2, 20, 0), attempt, &dependency, 1);
    assert_int_equal(vv_attempt_drop(store, NAME, &attempt, 1, &error), -EEXIST);
    ok(vv_forget(store, NAME, 1, 10, &error));
    assert_int_equal(vv_attempt_drop(store, NAME, &attempt, 1, &error), 1);
    assert_whole(store);
}

/* ---- adoption ---- */

static void test_adopt(void **state) {
    (void)state;
    struct vv_dependency a = checkpoint(store, lease, at(1, 10, 0), at(0, 0, 0), NULL, 0);
    struct pack_spec half = {.writer = 0, .writers = 2, .parent = a.attempt};
    write_single(store, at(1, 5, 0), at(0, 0, 0), NULL, 0); /* older than a record */
    write_single(store, at(1, 20, 0), a.attempt, &a, 1);    /* superseded by its own attempt 1 */
    write_single(store, at(1, 20, 1), a.attempt, &a, 1);
    ok(write_pack(store, at(1, 30, 0), &half));               /* not a full vote */
    write_single(store, at(1, 40, 0), at(1, 39, 0), NULL, 0); /* its parent does not exist */
    next_session();
    assert_int_equal(vv_adopt(store, lease, NAME, &error), 1);
    struct vv_record record;
    ok(vv_record_load(store, NAME, 1, 20, &record, &error));
    assert_int_equal(record.attempt, 1);
    assert_int_equal(record.dependency_count, 1);
    vv_record_clear(&record);
    assert_int_equal(record_state(store, 1, 5), VARVE_NO_CHECKPOINT);
    assert_int_equal(record_state(store, 1, 30), VARVE_NO_CHECKPOINT);
    assert_int_equal(record_state(store, 1, 40), VARVE_NO_CHECKPOINT);
    assert_int_equal(vv_adopt(store, lease, NAME, &error), 0);
    assert_whole(store);
}

static void test_adopt_not(void **state) {
    (void)state;
    struct vv_attempt attempt = at(1, 20, 0);
    char text[VV_KEY_CAPACITY];
    write_single(store, attempt, at(0, 0, 0), NULL, 0);
    assert_int_equal(vv_adopt(store, lease, NAME, &error), 0); /* its own */
    key_text(attempt, VV_KIND_PACK, 0, 0, text);
    next_session();
    damage(store, text, -40);
    assert_int_equal(vv_adopt(store, lease, NAME, &error), 0);
    damage(store, text, -40);
    assert_int_equal(vv_adopt(store, lease, NAME, &error), 1);
}

#ifdef VARVE_FAULTS
/* An error at each step: no record, or an undecided outcome that a second try settles. */
static void test_steps_fail(void **state) {
    (void)state;
    static const char *const points[] = {"store.votes.before_read=error:5",    "store.commit.before_claims=error:5",
                                         "store.commit.before_parent=error:5", "store.writers.before_create=error:5",
                                         "store.writers.after_create=error:5", "store.record.before_create=error:5",
                                         "store.record.after_create=error:5"};
    struct vv_attempt parent = at(0, 0, 0);
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        struct vv_attempt attempt = at(1, 10 + i, 0);
        write_single(store, attempt, parent, NULL, 0);
        vv_fault_set(points[i]);
        assert_int_equal(commit_votes(store, lease, NAME, &attempt, NULL, &error), -EIO);
        vv_fault_set(NULL);
        ok(commit_votes(store, lease, NAME, &attempt, NULL, &error));
        parent = attempt;
    }
    assert_whole(store);
}
#endif

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_commit),       TEST(test_disagreeing_votes),
        TEST(test_dependencies), TEST(test_forgotten_parent),
        TEST(test_taken_key),    TEST(test_fenced),
        TEST(test_drop),         TEST(test_drop_full_vote),
        TEST(test_drop_adopted), TEST(test_adopt),
        TEST(test_adopt_not),
#ifdef VARVE_FAULTS
        TEST(test_steps_fail),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
