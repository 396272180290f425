/* Forgetting and pruning, alone and beside sleepers, adopters and running sessions. */
#include <pthread.h>
#include <stdatomic.h>

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

/* Claim and heartbeat of another session, as its own process would write them; the claim says nothing about its
 * process. */
static void put_session(uint32_t generation, uint32_t heartbeat_state, struct vv_attempt refers) {
    struct vv_claim claim = {.settings = store->settings, .ranks = 1, .beat_seconds = 1, .dead_seconds = 60};
    struct vv_heartbeat heartbeat = {.counter = 1, .state = heartbeat_state, .refers = refers};
    struct vv_key key = vv_attempt_key(NAME, &(struct vv_attempt){.generation = generation}, VV_KIND_CLAIM, 0, 0);
    char text[VV_KEY_CAPACITY];
    struct vv_buf buf;
    vv_buf_init(&buf);
    vv_claim_encode(&buf, &key, store->id, &claim);
    vv_key_print(&key, text);
    ok(vv_backend_replace(store->backend, text, buf.data, buf.size));
    vv_buf_clear(&buf);
    key.kind = VV_KIND_HEARTBEAT;
    vv_heartbeat_encode(&buf, &key, store->id, &heartbeat);
    vv_key_print(&key, text);
    ok(vv_backend_replace(store->backend, text, buf.data, buf.size));
    vv_buf_clear(&buf);
}

static void next_session(void) {
    vv_lease_release(lease);
    ok(take(store, 60, 0, &lease));
}

/* ---- forget ---- */

static void test_forget(void **state) {
    (void)state;
    checkpoint(store, lease, at(1, 10, 0), at(0, 0, 0), NULL, 0);
    checkpoint(store, lease, at(1, 20, 0), at(1, 10, 0), NULL, 0);
    struct vv_attempt unnamed = at(1, 30, 0);
    write_single(store, unnamed, at(1, 20, 0), NULL, 0);
    ok(commit_votes(store, lease, NAME, &unnamed, NULL, &error));
    assert_int_equal(vv_forget(store, NAME, 1, 20, &error), VARVE_BUSY);
    assert_int_equal(vv_forget(store, NAME, 1, 30, &error), VARVE_BUSY);
    assert_int_equal(vv_forget(store, NAME, 1, 15, &error), VARVE_NO_CHECKPOINT);
    ok(vv_forget(store, NAME, 1, 10, &error));
    assert_int_equal(vv_forget(store, NAME, 1, 10, &error), VARVE_FORGOTTEN);
    assert_int_equal(record_state(store, 1, 10), VARVE_FORGOTTEN);
    next_session();
    ok(vv_lease_refer(lease, &(struct vv_attempt){.generation = 1, .version = 20}, &error));
    checkpoint(store, lease, at(2, 21, 0), at(1, 20, 0), NULL, 0);
    ok(vv_lease_refer(lease, &(struct vv_attempt){.generation = 1, .version = 20}, &error));
    assert_int_equal(vv_forget(store, NAME, 2, 21, &error), VARVE_BUSY); /* its own, not yet named */
    assert_int_equal(vv_forget(store, NAME, 1, 20, &error), VARVE_BUSY);
    vv_lease_release(lease);
    lease = NULL;
    ok(vv_forget(store, NAME, 1, 20, &error));
    char text[VV_KEY_CAPACITY];
    key_text(at(1, 30, 0), VV_KIND_RECORD, 0, 0, text);
    damage(store, text, 200);
    ok(vv_forget(store, NAME, 1, 30, &error)); /* a damaged one */
    assert_int_equal(record_state(store, 1, 30), VARVE_FORGOTTEN);
}

/* ---- prune ---- */

static void count_report(void *arg, const char *key, uint64_t size) {
    (void)key;
    *(uint64_t *)arg += size;
}

static void test_prune(void **state) {
    (void)state;
    struct vv_prune_result result;
    struct vv_dependency a = checkpoint(store, lease, at(1, 10, 0), at(0, 0, 0), NULL, 0);
    struct vv_dependency b = checkpoint(store, lease, at(1, 20, 0), a.attempt, NULL, 0);
    write_single(store, at(1, 15, 0), at(0, 0, 0), NULL, 0); /* older than a record: cannot be committed any more */
    write_single(store, at(1, 20, 7), at(0, 0, 0), NULL, 0); /* another attempt was */
    write_single(store, at(1, 30, 0), b.attempt, &b, 1);     /* being written */
    checkpoint(store, lease, at(1, 25, 0), b.attempt, &b, 1);
    ok(vv_forget(store, NAME, 1, 10, &error));
    ok(vv_forget(store, NAME, 1, 20, &error)); /* 25 depends on it */

    uint64_t told = 0;
    struct vv_prune_options dry = {.is_dry_run = 1, .report = count_report, .arg = &told};
    ok(vv_prune(store, NAME, &dry, &result, &error));
    assert_true(told == result.bytes && told > 0);
    assert_true(exists(store, at(1, 10, 0), VV_KIND_PACK));
    assert_int_equal(record_state(store, 1, 15), VARVE_NO_CHECKPOINT);

    ok(prune(store, &result));
    assert_int_equal(result.kept_attempts, 1);
    assert_false(exists(store, at(1, 10, 0), VV_KIND_PACK));
    assert_false(exists(store, at(1, 10, 0), VV_KIND_WRITERS));
    assert_false(exists(store, at(1, 15, 0), VV_KIND_PACK));
    assert_false(exists(store, at(1, 20, 7), VV_KIND_PACK));
    assert_true(exists(store, at(1, 20, 0), VV_KIND_PACK));
    assert_true(exists(store, at(1, 30, 0), VV_KIND_PACK));
    assert_int_equal(record_state(store, 1, 10), VARVE_NO_CHECKPOINT); /* the heartbeat names a later version */
    assert_int_equal(record_state(store, 1, 15), VARVE_NO_CHECKPOINT);
    assert_int_equal(record_state(store, 1, 20), VARVE_FORGOTTEN); /* its data is there */
    struct vv_attempt late = at(1, 30, 0);
    assert_int_equal(commit_votes(store, lease, NAME, &late, NULL, &error), VARVE_FORGOTTEN); /* its parent is */
    assert_whole(store);
}

static void test_prune_refuses(void **state) {
    (void)state;
    struct vv_dependency a = checkpoint(store, lease, at(1, 10, 0), at(0, 0, 0), NULL, 0);
    checkpoint(store, lease, at(1, 20, 0), a.attempt, NULL, 0);
    write_single(store, at(1, 5, 0), at(0, 0, 0), NULL, 0);
    char text[VV_KEY_CAPACITY];
    key_text(at(1, 10, 0), VV_KIND_RECORD, 0, 0, text);
    damage(store, text, 200);
    assert_int_equal(prune(store, NULL), VARVE_CORRUPT);
    assert_non_null(strstr(error.text, text));
    assert_true(exists(store, at(1, 5, 0), VV_KIND_PACK));
    damage(store, text, 200);

    /* a pack being written that may depend on anything */
    write_single(store, at(1, 30, 0), at(1, 20, 0), NULL, 0);
    key_text(at(1, 30, 0), VV_KIND_PACK, 0, 0, text);
    damage(store, text, -40);
    assert_int_equal(prune(store, NULL), VARVE_CORRUPT);
    damage(store, text, -40);

    /* what cannot be interpreted stays */
    char odd[VV_KEY_CAPACITY];
    key_text(at(1, 5, 0), VV_KIND_WRITERS, 0, 0, odd);
    strcpy(strrchr(odd, '/'), "/surprise");
    ok(vv_backend_put(store->backend, odd, "x", 1));
    ok(prune(store, NULL));
    uint64_t size;
    ok(vv_backend_stat(store->backend, odd, &size));
    assert_false(exists(store, at(1, 5, 0), VV_KIND_PACK));
    assert_int_equal(record_state(store, 1, 5), VARVE_FORGOTTEN); /* something of its version is left */
}

static void test_keep(void **state) {
    (void)state;
    struct vv_dependency last = checkpoint(store, lease, at(1, 1, 0), at(0, 0, 0), NULL, 0);
    char text[VV_KEY_CAPACITY];
    ok(keep_newest(store, lease, 0));
    for (uint64_t version = 2; version <= 10; version++) {
        last = checkpoint(store, lease, at(1, version, 0), last.attempt, NULL, 0);
        ok(keep_newest(store, lease, 3));
    }
    for (uint64_t version = 1; version <= 10; version++) {
        assert_int_equal(record_state(store, 1, version), version > 7 ? 0 : VARVE_NO_CHECKPOINT);
        assert_int_equal(exists(store, at(1, version, 0), VV_KIND_PACK), version > 7);
    }
    /* damaged ones are not counted and not touched, but prune refuses */
    key_text(at(1, 10, 0), VV_KIND_RECORD, 0, 0, text);
    damage(store, text, 200);
    checkpoint(store, lease, at(1, 11, 0), at(1, 9, 0), NULL, 0);
    checkpoint(store, lease, at(1, 12, 0), at(1, 11, 0), NULL, 0);
    assert_int_equal(keep_newest(store, lease, 1), VARVE_CORRUPT);
    assert_int_equal(record_state(store, 1, 10), VARVE_CORRUPT);
    assert_int_equal(record_state(store, 1, 9), VARVE_FORGOTTEN);
    assert_int_equal(record_state(store, 1, 11), 0);
    damage(store, text, 200);
    assert_whole(store);
}

/* ---- tombstones ---- */

static void test_tombstone_lifetime(void **state) {
    (void)state;
    vv_lease_release(lease);
    lease = NULL;
    struct pack_spec half = {.writers = 2};
    ok(write_pack(store, at(1, 10, 0), &half));
    /* superseded, on a host about which nothing is known: waste, but its session may be asleep before the record */
    put_session(1, VV_HEARTBEAT_RUNNING, at(0, 0, 0));
    put_session(2, VV_HEARTBEAT_ENDED, at(0, 0, 0));
    ok(prune(store, NULL));
    assert_false(exists(store, at(1, 10, 0), VV_KIND_PACK));
    assert_int_equal(record_state(store, 1, 10), VARVE_FORGOTTEN);
    /* its heartbeat names a later version, but of another generation */
    put_session(1, VV_HEARTBEAT_RUNNING, (struct vv_attempt){.generation = 7, .version = 99});
    ok(prune(store, NULL));
    assert_int_equal(record_state(store, 1, 10), VARVE_FORGOTTEN);
    /* it can commit no more, but generation 3 may be adopting */
    put_session(1, VV_HEARTBEAT_RUNNING, at(1, 11, 0));
    put_session(3, VV_HEARTBEAT_RUNNING, at(0, 0, 0));
    ok(prune(store, NULL));
    assert_int_equal(record_state(store, 1, 10), VARVE_FORGOTTEN);
    put_session(3, VV_HEARTBEAT_RUNNING, at(1, 5, 0));
    ok(prune(store, NULL));
    assert_int_equal(record_state(store, 1, 10), VARVE_NO_CHECKPOINT);
}

/* ---- sleepers ---- */

#ifdef VARVE_FAULTS
struct sleeper {
    pthread_t thread;
    struct vv_attempt attempt;
    int is_adopter;
    int rc;
    atomic_int is_done;
};

static void *sleeper_main(void *arg) {
    struct sleeper *sleeper = arg;
    struct varve_error own;
    sleeper->rc = sleeper->is_adopter ? vv_adopt(store, lease, NAME, &own)
                                      : commit_votes(store, lease, NAME, &sleeper->attempt, NULL, &own);
    atomic_store(&sleeper->is_done, 1);
    return NULL;
}

/* It passes all checks and falls asleep one step before it creates the record. */
static void start_sleeper(struct sleeper *sleeper) {
    vv_fault_set("store.record.before_create=sleep:700");
    assert_int_equal(pthread_create(&sleeper->thread, NULL, sleeper_main, sleeper), 0);
    vv_sleep_ms(200);
    assert_false(atomic_load(&sleeper->is_done));
}

static int wait_sleeper(struct sleeper *sleeper) {
    assert_false(atomic_load(&sleeper->is_done)); /* else the test has shown nothing */
    pthread_join(sleeper->thread, NULL);
    vv_fault_set(NULL);
    return sleeper->rc;
}

/* Taken for dead, its parent forgotten, everything pruned: it must not commit what is gone. */
static void test_sleeper(void **state) {
    (void)state;
    struct vv_dependency a = checkpoint(store, lease, at(1, 10, 0), at(0, 0, 0), NULL, 0);
    struct sleeper sleeper = {.attempt = at(1, 20, 0)};
    write_single(store, sleeper.attempt, a.attempt, &a, 1);
    start_sleeper(&sleeper);
    put_session(2, VV_HEARTBEAT_ENDED, at(0, 0, 0));
    ok(vv_forget(store, NAME, 1, 10, &error));
    ok(prune(store, NULL));
    assert_false(exists(store, at(1, 10, 0), VV_KIND_PACK));
    assert_int_equal(record_state(store, 1, 20), VARVE_FORGOTTEN); /* also though its data is gone */
    assert_int_equal(wait_sleeper(&sleeper), VARVE_FORGOTTEN);
    assert_int_equal(record_state(store, 1, 20), VARVE_FORGOTTEN);
    assert_whole(store);
}

/* All tombstones come before the first removal: the parent's data is older and would go first. */
static void test_prune_order(void **state) {
    (void)state;
    struct vv_dependency a = checkpoint(store, lease, at(1, 10, 0), at(0, 0, 0), NULL, 0);
    struct sleeper sleeper = {.attempt = at(1, 20, 0)};
    write_single(store, sleeper.attempt, a.attempt, &a, 1);
    put_session(2, VV_HEARTBEAT_ENDED, at(0, 0, 0));
    ok(vv_forget(store, NAME, 1, 10, &error));
    vv_fault_set("store.prune.before_remove=error:5");
    assert_int_equal(prune(store, NULL), -EIO);
    vv_fault_set("store.attempt.before_remove=error:5");
    assert_int_equal(prune(store, NULL), -EIO);
    vv_fault_set(NULL);
    assert_int_equal(record_state(store, 1, 20), VARVE_FORGOTTEN);
    assert_true(exists(store, at(1, 10, 0), VV_KIND_PACK));
    assert_true(exists(store, at(1, 20, 0), VV_KIND_PACK));
}

/* Alive, but its parent was forgotten after it looked: what it depends on stays, and it commits. */
static void test_parent_forgotten_late(void **state) {
    (void)state;
    struct vv_dependency a = checkpoint(store, lease, at(1, 10, 0), at(0, 0, 0), NULL, 0);
    struct sleeper sleeper = {.attempt = at(1, 20, 0)};
    write_single(store, sleeper.attempt, a.attempt, &a, 1);
    start_sleeper(&sleeper);
    ok(vv_record_bury(store, NAME, &a.attempt, &error)); /* by somebody who read the heartbeat long ago */
    ok(prune(store, NULL));
    assert_true(exists(store, at(1, 10, 0), VV_KIND_PACK));
    assert_int_equal(wait_sleeper(&sleeper), 0);
    assert_int_equal(record_state(store, 1, 20), 0);
    assert_whole(store);
    ok(prune(store, NULL));
    assert_whole(store);
}

/* A checkpoint of whoever slept before its record and came through. */
static void record_without_claim(struct vv_attempt attempt) {
    struct vv_writers writers;
    struct vv_record record;
    vv_fault_set(NULL);
    write_single(store, attempt, at(0, 0, 0), NULL, 0);
    assert_int_equal(vv_votes_read(store, NAME, &attempt, &writers, &record, &error), 1);
    ok(vv_votes_record(store, NAME, &attempt, &writers, &record, &error));
    vv_writers_clear(&writers);
    vv_record_clear(&record);
}

/* The same session in a further generation. */
static void test_sleeping_adopter(void **state) {
    (void)state;
    write_single(store, at(1, 10, 0), at(0, 0, 0), NULL, 0);
    next_session();
    struct sleeper sleeper = {.is_adopter = 1};
    start_sleeper(&sleeper);
    ok(prune(store, NULL)); /* the next session would adopt it */
    assert_true(exists(store, at(1, 10, 0), VV_KIND_PACK));
    record_without_claim(at(1, 11, 0));
    ok(prune(store, NULL)); /* older than a checkpoint: waste */
    assert_false(exists(store, at(1, 10, 0), VV_KIND_PACK));
    assert_int_equal(record_state(store, 1, 10), VARVE_FORGOTTEN);
    assert_int_equal(wait_sleeper(&sleeper), 0);
    assert_int_equal(record_state(store, 1, 10), VARVE_FORGOTTEN);
    checkpoint(store, lease, at(2, 20, 0), at(0, 0, 0), NULL, 0);
    ok(prune(store, NULL));
    assert_int_equal(record_state(store, 1, 10), VARVE_NO_CHECKPOINT);
    assert_whole(store);
}

/* An adopter has counted the votes and falls asleep; the session, not as dead as it seemed, gives its attempt up. */
static void test_drop_beside_adopter(void **state) {
    (void)state;
    struct vv_attempt attempt = at(1, 10, 0);
    write_single(store, attempt, at(0, 0, 0), NULL, 0);
    next_session();
    struct sleeper sleeper = {.is_adopter = 1};
    vv_fault_set("store.writers.before_create=sleep:700");
    assert_int_equal(pthread_create(&sleeper.thread, NULL, sleeper_main, &sleeper), 0);
    vv_sleep_ms(200);
    assert_int_equal(vv_attempt_drop(store, NAME, &attempt, 1, &error), 0);
    assert_int_equal(wait_sleeper(&sleeper), 0);
    assert_int_equal(record_state(store, 1, 10), VARVE_NO_CHECKPOINT);
    assert_whole(store);
    /* and the other way round */
    attempt = at(1, 20, 0);
    write_single(store, attempt, at(0, 0, 0), NULL, 0);
    sleeper = (struct sleeper){.is_adopter = 1};
    start_sleeper(&sleeper);
    assert_int_equal(vv_attempt_drop(store, NAME, &attempt, 1, &error), 1);
    assert_int_equal(wait_sleeper(&sleeper), 1);
    assert_int_equal(record_state(store, 1, 20), 0);
    assert_whole(store);
}

/* The record appears between prune's look and its tombstone: prune begins again and keeps it. */
static void *slow_prune(void *arg) {
    *(int *)arg = prune(store, NULL);
    return NULL;
}

static void test_record_wins(void **state) {
    (void)state;
    struct vv_attempt attempt = at(1, 10, 0);
    pthread_t thread;
    int rc = -1;
    write_single(store, attempt, at(0, 0, 0), NULL, 0);
    next_session();
    vv_fault_set("store.prune.before_tombstone=sleep:500");
    assert_int_equal(pthread_create(&thread, NULL, slow_prune, &rc), 0);
    vv_sleep_ms(200);
    assert_int_equal(vv_adopt(store, lease, NAME, &error), 1);
    pthread_join(thread, NULL);
    vv_fault_set(NULL);
    assert_int_equal(rc, 0);
    assert_int_equal(record_state(store, 1, 10), 0);
    assert_whole(store);
}
#endif

/* ---- all at once ---- */

static atomic_int is_over;
static atomic_int failures;

static void *prune_loop(void *arg) {
    struct vv_prune_options options = {0};
    struct varve_error own;
    (void)arg;
    while (!atomic_load(&is_over))
        if (vv_prune(store, NAME, &options, NULL, &own) < 0)
            atomic_fetch_add(&failures, 1);
    return NULL;
}

static int bury_some(void *arg, uint32_t generation, uint64_t version) {
    struct vv_attempt attempt = at(generation, version, 0);
    struct vv_record record;
    unsigned *seed = arg;
    if (rand_r(seed) % 3 == 0 && vv_record_load(store, NAME, generation, version, &record, NULL) == 0) {
        vv_record_clear(&record);
        vv_record_bury(store, NAME, &attempt, NULL);
    }
    return 0;
}

/* Forgets whatever it finds, without the courtesy of looking at heartbeats. */
static void *forget_loop(void *arg) {
    while (!atomic_load(&is_over)) {
        vv_records_list(store, NAME, bury_some, arg, NULL);
        vv_sleep_ms(1);
    }
    return NULL;
}

static void test_together(void **state) {
    (void)state;
    pthread_t threads[3];
    unsigned seed = 1;
    struct vv_dependency dependencies[8];
    uint32_t count = 0;
    struct vv_attempt parent = at(0, 0, 0);
    int committed = 0, dropped = 0;
    atomic_store(&is_over, 0);
    pthread_create(&threads[0], NULL, prune_loop, NULL);
    pthread_create(&threads[1], NULL, prune_loop, NULL);
    pthread_create(&threads[2], NULL, forget_loop, &seed);
    uint64_t end = vv_clock_ns() + 1500000000u;
    for (uint64_t version = 1; vv_clock_ns() < end; version++) {
        struct vv_attempt attempt = at(vv_lease_generation(lease), version, 0);
        struct vv_record record;
        write_single(store, attempt, parent, dependencies, count);
        int rc = commit_votes(store, lease, NAME, &attempt, &record, &error);
        assert_true(rc == 0 || rc == VARVE_FORGOTTEN);
        if (rc < 0) { /* the history is dropped */
            dropped++;
            count = 0;
            parent = at(0, 0, 0);
            continue;
        }
        committed++;
        if (count == 8)
            memmove(dependencies, dependencies + 1, --count * sizeof dependencies[0]);
        dependencies[count++] = (struct vv_dependency){.attempt = attempt, .writers_digest = record.writers_digest};
        parent = attempt;
        vv_record_clear(&record);
        ok(vv_lease_refer(lease, &attempt, &error));
    }
    atomic_store(&is_over, 1);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    print_message("%d committed, %d given up\n", committed, dropped);
    assert_int_equal(atomic_load(&failures), 0);
    assert_true(committed > 10);
    assert_whole(store);
    ok(prune(store, NULL));
    assert_whole(store);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_forget),
        TEST(test_prune),
        TEST(test_prune_refuses),
        TEST(test_keep),
        TEST(test_tombstone_lifetime),
#ifdef VARVE_FAULTS
        TEST(test_sleeper),
        TEST(test_prune_order),
        TEST(test_parent_forgotten_late),
        TEST(test_sleeping_adopter),
        TEST(test_drop_beside_adopter),
        TEST(test_record_wins),
#endif
        TEST(test_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
