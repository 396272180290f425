/* Repair, verify and prune beside others: what happens between two of their steps, storage that fails, and commits that
 * failed without a trace. */
#include "store_hook.h"

static struct vv_store *store, *other; /* the same objects; store has the hook */
static struct vv_lease *lease;         /* of other */

static int set_up(void **state) {
    char uri[64];
    (void)state;
    snprintf(uri, sizeof uri, "%s", fresh_uri());
    hook = NULL;
    store = open_hooked(uri);
    other = open_store(uri, VV_STORE_WRITE);
    lease = NULL;
    return take(other, 60, 0, &lease);
}

static int tear_down(void **state) {
    (void)state;
    hook = NULL;
    vv_lease_release(lease);
    vv_store_close(other);
    vv_store_close(store);
    return 0;
}

static void end_session(void) {
    vv_lease_release(lease);
    lease = NULL;
}

static char told[4096];
static int lost, notes;

static void add_told(const char *key, const char *text) {
    size_t used = strlen(told);
    snprintf(told + used, sizeof told - used, "%s: %s\n", key, text);
}
static void take_report(void *arg, const char *key, const char *text) {
    (void)arg;
    add_told(key, text);
}
static void take_finding(void *arg, int level, const char *key, const char *text) {
    (void)arg;
    lost += level == VV_FINDING_LOST_CHECKPOINT;
    notes += level == VV_FINDING_NOTE;
    add_told(key, text);
}

static int repair(int is_dry_run) {
    struct vv_repair_options options = {.is_dry_run = is_dry_run, .report = take_report};
    told[0] = '\0';
    return vv_repair(store, &options, &error);
}

static void verify(void) {
    struct vv_verify_options options = {.finding = take_finding};
    struct vv_verify_result result;
    told[0] = '\0';
    lost = notes = 0;
    ok(vv_verify(store, &options, &result, &error));
}

static void remove_record(uint32_t generation, uint64_t version) {
    char text[VV_KEY_CAPACITY];
    key_text(at(generation, version, 0), VV_KIND_RECORD, 0, 0, text);
    ok(vv_backend_remove(other->backend, text));
}

static void damage_record(uint32_t generation, uint64_t version, int64_t offset) {
    char text[VV_KEY_CAPACITY];
    key_text(at(generation, version, 0), VV_KIND_RECORD, 0, 0, text);
    damage(other, text, offset);
}

/* ---- a writer beside those who give its attempt up ---- */

/* They have seen its part, and not yet its pack: that comes when the part is gone. */
static void test_late_pack(void **state) {
    (void)state;
    struct vv_attempt attempt = at(1, 10, 0);
    struct pack_spec spec = {.writers = 2, .has_part = 1};
    char part[VV_KEY_CAPACITY];
    key_text(attempt, VV_KIND_PART, 0, 0, part);
    ok(write_pack(other, attempt, &spec));
    ok(vv_backend_remove(other->backend, part));
    verify();
    assert_non_null(strstr(told, "is missing, but its pack is there")); /* nobody has given it up yet */
    assert_int_equal(vv_attempt_drop(other, NAME, &attempt, 2, &error), 0);
    ok(write_pack(other, attempt, &spec));
    ok(vv_backend_remove(other->backend, part));
    verify();
    assert_null(strstr(told, "is missing"));
    assert_non_null(strstr(told, "was given up; prune removes it"));
    end_session();
    ok(prune(other, NULL));
    assert_false(exists(other, attempt, VV_KIND_PACK));
}

/* ---- prune beside repair ---- */

static int hits;

static int prune_at_claim(int verb, const char *key, uint64_t offset, int is_after) {
    (void)offset, (void)is_after;
    struct vv_attempt attempt = at(1, 10, 0);
    if (verb == VV_VERB_CREATE && is_key(key, at(2, 0, 0), VV_KIND_CLAIM) && !hits++) {
        ok(prune(other, NULL)); /* keeps what repair can rebuild */
        assert_true(exists(other, attempt, VV_KIND_PACK));
        ok(vv_attempt_remove(other, NAME, &attempt, 0, NULL, NULL, NULL));
    }
    return 0;
}

/* The votes are counted, then the data goes: a prune of an older program, or a person. */
static void test_prune_before_claim(void **state) {
    (void)state;
    checkpoint(other, lease, at(1, 10, 0), at(0, 0, 0), NULL, 0);
    end_session();
    remove_record(1, 10);
    hits = 0;
    hook = prune_at_claim;
    assert_int_equal(repair(0), 0);
    assert_int_equal(hits, 1);
    assert_false(exists(other, at(1, 10, 0), VV_KIND_PACK));
    assert_int_equal(record_state(other, 1, 10), VARVE_NO_CHECKPOINT);
}

/* The second get of a pack is that of its footer. */
static int forget_after_votes(int verb, const char *key, uint64_t offset, int is_after) {
    (void)offset;
    if (verb == VV_VERB_GET && is_after && is_key(key, at(1, 10, 0), VV_KIND_PACK) && ++hits == 2) {
        ok(vv_forget(other, NAME, 1, 10, &error));
        ok(prune(other, NULL));
    }
    return 0;
}

/* A damaged record is forgotten while it is being rebuilt. */
static void test_forgotten_meanwhile(void **state) {
    (void)state;
    checkpoint(other, lease, at(1, 10, 0), at(0, 0, 0), NULL, 0);
    checkpoint(other, lease, at(1, 20, 0), at(1, 10, 0), NULL, 0);
    end_session();
    damage_record(1, 10, 200);
    hits = 0;
    hook = forget_after_votes;
    assert_int_equal(repair(0), 0);
    assert_true(hits >= 2);
    assert_false(exists(other, at(1, 10, 0), VV_KIND_PACK));
    assert_true(record_state(other, 1, 10) < 0);
    assert_int_equal(record_state(other, 1, 20), 0);
    assert_whole(other);
}

/* The record of a session that runs is not made by anybody else. */
static void test_damaged_beside_session(void **state) {
    (void)state;
    checkpoint(other, lease, at(1, 10, 0), at(0, 0, 0), NULL, 0);
    damage_record(1, 10, 200);
    assert_int_equal(repair(1), 1);
    assert_int_equal(repair(0), 0);
    assert_non_null(strstr(told, "in use"));
    assert_int_equal(record_state(other, 1, 10), VARVE_CORRUPT);
    end_session();
    assert_int_equal(repair(0), 1);
    assert_int_equal(record_state(other, 1, 10), 0);
}

static int synced, removed_before;
static int watch_order(int verb, const char *key, uint64_t offset, int is_after) {
    (void)offset, (void)is_after;
    synced += verb == VV_VERB_SYNC && is_key(key, at(1, 10, 0), VV_KIND_RECORD);
    removed_before += verb == VV_VERB_REMOVE && !synced;
    return 0;
}

/* Who made the tombstone may have died before it was durable. */
static void test_tombstone_is_durable(void **state) {
    (void)state;
    checkpoint(other, lease, at(1, 10, 0), at(0, 0, 0), NULL, 0);
    checkpoint(other, lease, at(1, 20, 0), at(1, 10, 0), NULL, 0);
    ok(vv_forget(other, NAME, 1, 10, &error));
    synced = removed_before = 0;
    hook = watch_order;
    ok(prune(store, NULL));
    assert_false(exists(other, at(1, 10, 0), VV_KIND_PACK));
    assert_true(synced > 0);
    assert_int_equal(removed_before, 0);
}

/* ---- storage that fails ---- */

static struct vv_attempt bad_attempt;
static int bad_kind;
static int fail_get(int verb, const char *key, uint64_t offset, int is_after) {
    (void)offset, (void)is_after;
    return verb == VV_VERB_GET && is_key(key, bad_attempt, bad_kind) ? -EIO : 0;
}

/* An attempt that cannot be read just now may be the one that was committed. */
static void test_error_is_not_absence(void **state) {
    (void)state;
    struct vv_record record;
    write_single(other, at(1, 10, 0), at(0, 0, 0), NULL, 0);
    struct vv_dependency base = checkpoint(other, lease, at(1, 5, 0), at(0, 0, 0), NULL, 0);
    checkpoint(other, lease, at(1, 10, 1), base.attempt, &base, 1);
    end_session();
    static const struct {
        struct vv_attempt attempt;
        int kind;
    } bad[] = {{{1, 1, 10}, VV_KIND_PACK}, {{1, 1, 10}, VV_KIND_WRITERS}, {{1, 0, 5}, VV_KIND_PACK}};
    hook = fail_get;
    for (int is_missing = 0; is_missing < 2; is_missing++) {
        if (is_missing)
            remove_record(1, 10);
        else
            damage_record(1, 10, 40); /* its head does not say which attempt */
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            bad_attempt = bad[i].attempt;
            bad_kind = bad[i].kind;
            assert_int_equal(repair(0), -EIO);
            assert_true(record_state(other, 1, 10) < 0);
        }
        bad_attempt = at(9, 9, 9);
        assert_int_equal(repair(0), 1);
        ok(vv_record_load(other, NAME, 1, 10, &record, &error));
        assert_int_equal(record.attempt, 1);
        vv_record_clear(&record);
    }
}

/* ---- lost, or never committed ---- */

#ifdef VARVE_FAULTS
static void commit_fails(struct vv_attempt attempt, struct vv_attempt parent) {
    write_single(other, attempt, parent, NULL, 0);
    vv_fault_set("store.record.before_create=error:28");
    assert_int_equal(commit_votes(other, lease, NAME, &attempt, NULL, &error), -ENOSPC);
    vv_fault_set(NULL);
}

/* The session was told that 20 failed, and went on: it does not come back as if it had been a checkpoint. */
static void test_failed_commit(void **state) {
    (void)state;
    checkpoint(other, lease, at(1, 10, 0), at(0, 0, 0), NULL, 0);
    commit_fails(at(1, 20, 0), at(1, 10, 0));
    checkpoint(other, lease, at(1, 30, 0), at(1, 10, 0), NULL, 0);
    for (int has_ended = 0; has_ended < 2; has_ended++) {
        if (has_ended)
            end_session();
        verify();
        assert_int_equal(lost, 0);
        assert_int_equal(notes, 1);
        assert_non_null(strstr(told, "version 20 is complete but without record"));
        assert_int_equal(repair(has_ended), 0);
        assert_non_null(strstr(told, "left alone"));
        assert_int_equal(record_state(other, 1, 20), VARVE_NO_CHECKPOINT);
    }
    assert_int_equal(repair(0), 0);
    assert_int_equal(record_state(other, 1, 20), VARVE_NO_CHECKPOINT);
}
#endif

static void assert_lost(uint64_t version) {
    char text[64];
    remove_record(1, version);
    verify();
    assert_int_equal(lost, 1);
    snprintf(text, sizeof text, "version %u is complete but has no record", (unsigned)version);
    assert_non_null(strstr(told, text));
    assert_int_equal(repair(1), 1);
    assert_int_equal(repair(0), 1);
    assert_int_equal(record_state(other, 1, version), 0);
}

static void put_catalogue(struct vv_attempt attempt, uint32_t is_tombstone) {
    struct vv_key key = vv_attempt_key(NAME, &(struct vv_attempt){0}, VV_KIND_CATALOGUE, 0, 0);
    struct vv_catalogue_entry entry = {.attempt = attempt, .time_ns = 1, .ranks = 1, .is_tombstone = is_tombstone};
    struct vv_catalogue catalogue = {.count = 1, .list = &entry};
    char text[VV_KEY_CAPACITY];
    struct vv_buf buf;
    vv_buf_init(&buf);
    vv_catalogue_encode(&buf, &key, other->id, &catalogue);
    vv_key_print(&key, text);
    ok(vv_backend_replace(other->backend, text, buf.data, buf.size));
    vv_buf_clear(&buf);
}

/* Something names it: it was committed. */
static void test_lost(void **state) {
    (void)state;
    checkpoint(other, lease, at(1, 10, 0), at(0, 0, 0), NULL, 0);
    checkpoint(other, lease, at(1, 20, 0), at(1, 10, 0), NULL, 0);
    checkpoint(other, lease, at(1, 30, 0), at(0, 0, 0), NULL, 0);
    end_session();
    assert_lost(10); /* the parent of 20 */
    assert_lost(30); /* in the heartbeat; nothing is newer */
    put_catalogue(at(1, 20, 0), 0);
    assert_lost(20);
    put_catalogue(at(1, 20, 0), 1);
    remove_record(1, 20);
    verify();
    assert_int_equal(lost, 0);
    assert_int_equal(repair(0), 0);
    ok(take(other, 60, 0, &lease)); /* a restart from 20, in the next generation */
    ok(vv_lease_refer(lease, &(struct vv_attempt){.generation = 1, .version = 20}, &error));
    end_session();
    verify();
    assert_int_equal(lost, 1);
    assert_int_equal(repair(0), 1);
    assert_int_equal(record_state(other, 1, 20), 0);
}

/* Several at once: each names the one before. */
static void test_lost_chain(void **state) {
    (void)state;
    checkpoint(other, lease, at(1, 10, 0), at(0, 0, 0), NULL, 0);
    checkpoint(other, lease, at(1, 20, 0), at(1, 10, 0), NULL, 0);
    checkpoint(other, lease, at(1, 30, 0), at(1, 20, 0), NULL, 0);
    end_session();
    for (uint64_t left = 40; left >= 30; left -= 10) { /* 40: nothing is left */
        for (uint64_t version = 10; version < left && version <= 30; version += 10)
            remove_record(1, version);
        int gone = left == 40 ? 3 : 2;
        verify();
        assert_int_equal(lost, gone);
        assert_int_equal(repair(1), gone);
        assert_int_equal(repair(0), gone);
        assert_whole(other);
    }
}

/* ---- dependencies ---- */

/* What is depended on is older: another attempt at the same version is not. */
static void test_dependency_on_sibling(void **state) {
    (void)state;
    struct vv_attempt attempt = at(1, 10, 1);
    struct vv_writers writers;
    struct vv_record record;
    struct vv_dependency sibling = checkpoint(other, lease, at(1, 10, 0), at(0, 0, 0), NULL, 0);
    write_single(other, attempt, at(0, 0, 0), &sibling, 1);
    assert_int_equal(vv_votes_read(other, NAME, &attempt, &writers, &record, &error), VARVE_CORRUPT);
    assert_non_null(strstr(error.text, "depends on the future"));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_late_pack),
        TEST(test_prune_before_claim),
        TEST(test_forgotten_meanwhile),
        TEST(test_damaged_beside_session),
        TEST(test_tombstone_is_durable),
        TEST(test_error_is_not_absence),
#ifdef VARVE_FAULTS
        TEST(test_failed_commit),
#endif
        TEST(test_lost),
        TEST(test_lost_chain),
        TEST(test_dependency_on_sibling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
