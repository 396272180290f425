/* Repair, object kind by object kind; and a process that dies at each fault point. */
#include <signal.h>

#include "store_life.h"

static struct vv_store *store;
static struct vv_dependency a, b;

/* Three checkpoints: 20 depends on 10, which is forgotten, 30 on both. The session has ended. */
static int set_up(void **state) {
    struct vv_lease *lease = NULL;
    (void)state;
    store = open_store(fresh_uri(), VV_STORE_WRITE);
    ok(take(store, 60, 0, &lease));
    a = checkpoint(store, lease, at(1, 10, 0), at(0, 0, 0), NULL, 0);
    b = checkpoint(store, lease, at(1, 20, 1), a.attempt, &a, 1);
    struct vv_dependency both[2] = {a, b};
    checkpoint(store, lease, at(1, 30, 0), b.attempt, both, 2);
    vv_lease_release(lease);
    ok(vv_forget(store, NAME, 1, 10, &error));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    vv_store_close(store);
    return 0;
}

static char told[2048];
static void take_report(void *arg, const char *key, const char *text) {
    size_t used = strlen(told);
    (void)arg;
    snprintf(told + used, sizeof told - used, "%s: %s\n", key, text);
}

static int repair(int is_dry_run) {
    struct vv_repair_options options = {.is_dry_run = is_dry_run, .report = take_report};
    told[0] = '\0';
    int rc = vv_repair(store, &options, &error);
    if (rc < 0)
        fail_msg("%s", error.text);
    return rc;
}

/* Spoil an object, repair, and compare. Records get another time. */
static void spoil(struct vv_attempt attempt, int kind, int64_t offset) {
    char text[VV_KEY_CAPACITY];
    struct vv_buf before, after;
    vv_buf_init(&before);
    vv_buf_init(&after);
    key_text(attempt, kind, 0, 0, text);
    ok(vv_backend_get_all(store->backend, text, 1 << 20, &before));
    if (offset == INT64_MAX)
        ok(vv_backend_remove(store->backend, text));
    else
        damage(store, text, offset);
    assert_int_equal(repair(1), 1);
    assert_non_null(strstr(told, text));
    assert_int_equal(repair(0), 1);
    assert_non_null(strstr(told, text));
    ok(vv_backend_get_all(store->backend, text, 1 << 20, &after));
    assert_int_equal(after.size, before.size);
    if (kind == VV_KIND_WRITERS)
        assert_memory_equal(after.data, before.data, after.size);
    assert_int_equal(repair(0), 0);
    assert_whole(store);
    vv_buf_clear(&before);
    vv_buf_clear(&after);
}

static void test_nothing_to_do(void **state) {
    (void)state;
    assert_int_equal(repair(0), 0);
    assert_string_equal(told, "");
}

static void test_writers(void **state) {
    (void)state;
    spoil(at(1, 30, 0), VV_KIND_WRITERS, 110);
    spoil(at(1, 30, 0), VV_KIND_WRITERS, INT64_MAX);
    spoil(at(1, 10, 0), VV_KIND_WRITERS, 20); /* of a forgotten one that is depended on */
    spoil(at(1, 10, 0), VV_KIND_WRITERS, INT64_MAX);
}

static void test_record(void **state) {
    (void)state;
    write_single(store, at(1, 20, 0), at(0, 0, 0), NULL, 0); /* another attempt with a full vote */
    spoil(at(1, 20, 0), VV_KIND_RECORD, 200);                /* the head still says which attempt */
    spoil(at(1, 20, 0), VV_KIND_RECORD, 20);                 /* the writers list tells */
    struct vv_record record;
    ok(vv_record_load(store, NAME, 1, 20, &record, &error));
    assert_int_equal(record.attempt, 1);
    assert_int_equal(record.dependency_count, 1);
    vv_record_clear(&record);
    spoil(at(1, 30, 0), VV_KIND_RECORD, INT64_MAX);
    spoil(at(1, 20, 0), VV_KIND_RECORD, INT64_MAX);
}

static void test_tombstone(void **state) {
    (void)state;
    spoil(at(1, 10, 0), VV_KIND_RECORD, 100);
    assert_int_equal(record_state(store, 1, 10), VARVE_FORGOTTEN);
}

static void test_hopeless(void **state) {
    (void)state;
    char text[VV_KEY_CAPACITY];
    key_text(at(1, 10, 0), VV_KIND_PACK, 0, 0, text);
    damage(store, text, -40); /* both records depend on it */
    key_text(at(1, 30, 0), VV_KIND_RECORD, 0, 0, text);
    damage(store, text, 200);
    assert_int_equal(repair(0), 0);
    assert_non_null(strstr(told, text));
    assert_non_null(strstr(told, "cannot be rebuilt"));
    assert_int_equal(record_state(store, 1, 30), VARVE_CORRUPT);
    ok(vv_backend_remove(store->backend, text));
    assert_int_equal(repair(0), 0); /* nor is it made as if it had been lost */
    assert_int_equal(record_state(store, 1, 30), VARVE_NO_CHECKPOINT);
}

static void test_heartbeat(void **state) {
    (void)state;
    char text[VV_KEY_CAPACITY];
    uint64_t size;
    key_text(at(1, 0, 0), VV_KIND_HEARTBEAT, 0, 0, text);
    damage(store, text, 100);
    assert_int_equal(repair(0), 1);
    assert_int_equal(vv_backend_stat(store->backend, text, &size), -ENOENT);
    assert_int_equal(repair(0), 0);
}

/* What a running session has written but not recorded is not lost; a lost record is not touched while it runs. */
static void test_beside_session(void **state) {
    (void)state;
    struct vv_lease *lease = NULL;
    char text[VV_KEY_CAPACITY];
    ok(take(store, 60, 0, &lease));
    write_single(store, at(2, 40, 0), at(0, 0, 0), NULL, 0);
    assert_int_equal(repair(0), 0);
    assert_int_equal(record_state(store, 2, 40), VARVE_NO_CHECKPOINT);
    key_text(at(1, 30, 0), VV_KIND_RECORD, 0, 0, text);
    ok(vv_backend_remove(store->backend, text));
    assert_int_equal(repair(0), 0);
    assert_non_null(strstr(told, "in use"));
    vv_lease_release(lease);
    assert_int_equal(repair(0), 2);
    assert_int_equal(record_state(store, 1, 30), 0);
    assert_whole(store);
}

#ifdef VARVE_FAULTS
/* ---- a process that dies ---- */

static char folder[64];

/* One life: take over, adopt, two checkpoints, one failed attempt, keep. */
static void live(void) {
    struct vv_store *own = open_store(folder, VV_STORE_WRITE);
    struct vv_lease *lease = NULL;
    ok(take(own, 60, 0, &lease));
    ok(vv_adopt(own, lease, NAME, &error));
    uint32_t generation = vv_lease_generation(lease);
    struct vv_attempt failed = at(generation, 5, 0);
    struct pack_spec half = {.writer = 1, .writers = 2, .has_part = 1};
    struct vv_dependency first = checkpoint(own, lease, at(generation, 1, 0), at(0, 0, 0), NULL, 0);
    checkpoint(own, lease, at(generation, 2, 0), first.attempt, &first, 1);
    ok(write_pack(own, failed, &half));
    ok(vv_attempt_drop(own, NAME, &failed, 2, &error));
    ok(keep_newest(own, lease, 2));
    struct vv_repair_options options = {0};
    ok(vv_repair(own, &options, &error));
    vv_lease_release(lease);
    vv_store_close(own);
}

static int count_record(void *arg, uint32_t generation, uint64_t version) {
    (void)generation, (void)version;
    ++*(int *)arg;
    return 0;
}

static void die_at(const char *point, int times) {
    char spec[128];
    int status, count = 0;
    snprintf(spec, sizeof spec, "%s=kill:%d", point, times);
    pid_t pid = fork();
    if (pid == 0) {
        vv_fault_set(spec);
        live();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(status == 0 || WIFSIGNALED(status));
    struct vv_store *own = open_store(folder, VV_STORE_WRITE);
    assert_whole(own);
    ok(vv_records_list(own, NAME, count_record, &count, &error));
    assert_true(count >= 2); /* of the life before at least */
    vv_store_close(own);
    live();
    own = open_store(folder, VV_STORE_WRITE);
    assert_whole(own);
    ok(prune(own, NULL));
    assert_whole(own);
    vv_store_close(own);
}

static void test_deaths(void **state) {
    static const char *const points[] = {
        "store.open.before_create",     "store.claim.before_create",
        "store.claim.after_create",     "store.beat.after_first",
        "store.beat.before_refer",      "store.beat.after_refer",
        "store.pack.before_seal",       "store.pack.after_seal",
        "store.votes.before_read",      "store.commit.before_claims",
        "store.commit.before_parent",   "store.writers.before_create",
        "store.writers.after_create",   "store.record.before_create",
        "store.record.after_create",    "store.drop.before_tombstone",
        "store.drop.before_remove",     "store.attempt.before_remove",
        "store.forget.before_replace",  "store.forget.after_replace",
        "store.prune.before_records",   "store.prune.before_data",
        "store.prune.before_tombstone", "store.prune.before_remove",
        "store.adopt.before_commit",    "store.prune.before_tombstone_remove",
    };
    (void)state;
    /* in memory if possible: processes die here, not the host */
    snprintf(folder, sizeof folder, "%s/varve-life-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(folder));
    live();
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++)
        for (int times = 1; times <= 3; times++)
            die_at(points[i], times);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}
#endif

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_nothing_to_do),      TEST(test_writers),   TEST(test_record),         TEST(test_tombstone),
        TEST(test_hopeless),           TEST(test_heartbeat), TEST(test_beside_session),
#ifdef VARVE_FAULTS
        cmocka_unit_test(test_deaths),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
