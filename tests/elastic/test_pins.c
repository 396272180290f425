/* Pins: what is said to be pinned is never forgotten, whatever happens between two requests of those who forget; and
 * what is damaged counts as a pin. */
#include "../unit/store_hook.h"

#include "lifecycle/pin.h"

static struct vv_store *store, *other; /* the same objects; store has the hook */
static struct vv_lease *lease;         /* of other */
static struct vv_attempt last;

static int set_up(void **state) {
    char uri[64];
    (void)state;
    snprintf(uri, sizeof uri, "%s", fresh_uri());
    hook = NULL;
    store = open_hooked(uri);
    other = open_store(uri, VV_STORE_WRITE);
    last = at(0, 0, 0);
    lease = NULL;
    return take(other, 60, 0, &lease);
}

static int tear_down(void **state) {
    (void)state;
    hook = NULL;
    vv_fault_set(NULL);
    vv_lease_release(lease);
    vv_store_close(other);
    vv_store_close(store);
    return 0;
}

/* Each depends on nothing. */
static void save(uint64_t version) {
    checkpoint(other, lease, at(1, version, 0), last, NULL, 0);
    last = at(1, version, 0);
}

static int pin(struct vv_store *where, uint64_t version, const char *reason) {
    struct vv_attempt which = at(1, version, 0);
    struct vv_pin given = {0};
    snprintf(given.reason, sizeof given.reason, "%s", reason);
    return vv_pin_set(where, NAME, &which, &given, &error);
}

static int unpin(uint64_t version) {
    struct vv_attempt which = at(1, version, 0);
    return vv_pin_unset(other, NAME, &which, &error);
}

static int pin_state(uint64_t version) {
    struct vv_attempt which = at(1, version, 0);
    return vv_pin_look(other, NAME, &which, NULL, &error);
}

static void pin_text(uint64_t version, char *out) {
    key_text(at(1, version, 0), VV_KIND_PIN, 0, 0, out);
}

/* ---- a life ---- */

static void test_keep(void **state) {
    (void)state;
    for (uint64_t version = 1; version <= 12; version++) {
        save(version);
        if (version == 2 || version == 3)
            assert_int_equal(pin(other, version, "a figure"), 0);
        ok(keep_newest(other, lease, 2));
        if (version >= 6)
            assert_int_equal(record_state(other, 1, version - 2), VARVE_NO_CHECKPOINT); /* only the pinned ones stay */
        ok(prune(other, NULL));
        assert_whole(other);
    }
    assert_int_equal(record_state(other, 1, 1), VARVE_NO_CHECKPOINT);
    assert_int_equal(record_state(other, 1, 2), 0);
    assert_int_equal(record_state(other, 1, 3), 0);
    assert_true(exists(other, at(1, 2, 0), VV_KIND_PACK));
    assert_int_equal(pin(other, 2, "another one"), 1);
    ok(unpin(2));
    assert_int_equal(unpin(2), VARVE_NO_CHECKPOINT);
    assert_int_equal(record_state(other, 1, 2), 0); /* the next pass takes it */
    save(13);
    ok(keep_newest(other, lease, 2));
    assert_int_equal(record_state(other, 1, 2), VARVE_NO_CHECKPOINT);
    assert_false(exists(other, at(1, 2, 0), VV_KIND_PACK));
    assert_int_equal(record_state(other, 1, 3), 0);
    assert_int_equal(pin_state(3), VV_PIN_HELD);
    assert_int_equal(pin_state(2), VV_PIN_NONE); /* and leaves nothing behind */
    assert_int_equal(pin(other, 2, ""), VARVE_NO_CHECKPOINT);
}

static void test_forget(void **state) {
    (void)state;
    save(1);
    save(2);
    assert_int_equal(pin(other, 1, "the referee asks"), 0);
    assert_int_equal(vv_forget(other, NAME, 1, 1, &error), VARVE_BUSY);
    assert_non_null(strstr(error.text, "the referee asks"));
    assert_non_null(strstr(error.text, "varve unpin STORE " NAME "@1:1"));
    assert_int_equal(record_state(other, 1, 1), 0);
    ok(unpin(1));
    ok(vv_forget(other, NAME, 1, 1, &error));
    assert_int_equal(pin(other, 1, ""), VARVE_FORGOTTEN);
    assert_int_equal(pin_state(1), VV_PIN_NONE);
}

/* The default of keep leaves checkpoints of earlier runs alone if there are too many; pinned ones are none of those. */
static void test_count(void **state) {
    uint64_t count = 0;
    (void)state;
    for (uint64_t version = 1; version <= 5; version++)
        save(version);
    ok(vv_keep_count(other, NAME, 2, &count, &error));
    assert_int_equal(count, 5);
    assert_int_equal(pin(other, 2, ""), 0);
    ok(vv_keep_count(other, NAME, 2, &count, &error));
    assert_int_equal(count, 4);
}

/* ---- between two requests ---- */

static struct {
    uint64_t version;
    int countdown; /* requests until it happens; before and after a get are two */
    int has_happened;
    int answer;
} meanwhile;

static int pin_meanwhile(int verb, const char *key, uint64_t offset, int is_after) {
    (void)verb, (void)key, (void)offset, (void)is_after;
    if (meanwhile.countdown-- > 0 || meanwhile.has_happened)
        return 0;
    meanwhile.has_happened = 1;
    meanwhile.answer = pin(other, meanwhile.version, "meanwhile");
    return 0;
}

static int forget_meanwhile(int verb, const char *key, uint64_t offset, int is_after) {
    (void)verb, (void)key, (void)offset, (void)is_after;
    if (meanwhile.countdown-- > 0 || meanwhile.has_happened)
        return 0;
    meanwhile.has_happened = 1;
    meanwhile.answer = vv_forget(other, NAME, 1, meanwhile.version, &error);
    return 0;
}

static void expect_pinned_or_gone(int is_pinned, uint64_t version) {
    if (is_pinned) {
        assert_int_equal(record_state(other, 1, version), 0);
        assert_true(exists(other, at(1, version, 0), VV_KIND_PACK));
        assert_int_equal(pin_state(version), VV_PIN_HELD);
    } else {
        assert_true(record_state(other, 1, version) < 0);
        assert_int_not_equal(pin_state(version), VV_PIN_HELD);
    }
}

/* A pin before each request of a pass, and after each look: either it is refused, or the checkpoint stays. */
static void test_pin_during_keep(void **state) {
    int won = 0, lost = 0;
    (void)state;
    for (uint64_t version = 1; version <= 3; version++)
        save(version);
    for (int step = 0;; step++) {
        uint64_t version = (uint64_t)step + 2; /* the next one that goes */
        save(version + 2);
        meanwhile.version = version;
        meanwhile.countdown = step;
        meanwhile.has_happened = 0;
        hook = pin_meanwhile;
        ok(keep_newest(store, lease, 2));
        hook = NULL;
        if (!meanwhile.has_happened)
            break;
        int is_pinned = meanwhile.answer == 0;
        if (!is_pinned)
            assert_true(meanwhile.answer == VARVE_FORGOTTEN || meanwhile.answer == VARVE_NO_CHECKPOINT);
        won += is_pinned, lost += !is_pinned;
        expect_pinned_or_gone(is_pinned, version);
        ok(keep_newest(other, lease, 2));
        expect_pinned_or_gone(is_pinned, version);
        if (is_pinned) {
            ok(unpin(version)); /* or the next passes had more and more to do */
            ok(keep_newest(other, lease, 2));
        }
    }
    print_message("pinned %d times, refused %d times\n", won, lost);
    assert_true(won > 3 && lost > 3);
}

/* The same for somebody who forgets by hand. */
static void test_pin_during_forget(void **state) {
    int won = 0, lost = 0;
    (void)state;
    save(1);
    for (int step = 0;; step++) {
        uint64_t version = (uint64_t)step + 1;
        save(version + 1);
        meanwhile.version = version;
        meanwhile.countdown = step;
        meanwhile.has_happened = 0;
        hook = pin_meanwhile;
        int rc = vv_forget(store, NAME, 1, version, &error);
        hook = NULL;
        if (!meanwhile.has_happened)
            break;
        int is_pinned = meanwhile.answer == 0;
        assert_int_equal(rc, is_pinned ? VARVE_BUSY : 0);
        won += is_pinned, lost += !is_pinned;
        expect_pinned_or_gone(is_pinned, version);
    }
    assert_true(won > 0 && lost > 0);
}

/* And the other way round: all of a forgetting, or of a pass and its prune, between two requests of a pin. */
static void forget_during_pin(int is_pass) {
    int won = 0, lost = 0;
    save(1);
    save(2);
    for (int step = 0;; step++) {
        uint64_t version = (uint64_t)step + 1;
        save(version + 2);
        meanwhile.version = version;
        meanwhile.countdown = step;
        meanwhile.has_happened = 0;
        hook = forget_meanwhile;
        int rc = pin(store, version, "");
        hook = NULL;
        if (!meanwhile.has_happened)
            break;
        assert_true(rc == 0 || rc == VARVE_FORGOTTEN || rc == VARVE_NO_CHECKPOINT);
        won += rc == 0, lost += rc < 0;
        if (is_pass)
            ok(keep_newest(other, lease, 2));
        expect_pinned_or_gone(rc == 0, version);
        if (rc == 0)
            ok(unpin(version));
    }
    assert_true(won > 0 && lost > 0);
}

static void test_forget_during_pin(void **state) {
    (void)state;
    forget_during_pin(0);
}

static void test_pass_during_pin(void **state) {
    (void)state;
    forget_during_pin(1);
}

/* ---- what is left by the dead ---- */

static void test_died_before_tombstone(void **state) {
    (void)state;
    save(1);
    save(2);
    vv_fault_set("store.forget.before_replace=error:5");
    assert_int_equal(vv_forget(other, NAME, 1, 1, &error), -EIO);
    vv_fault_set(NULL);
    assert_int_equal(record_state(other, 1, 1), 0);
    assert_int_equal(pin_state(1), VV_PIN_CLOSED);
    assert_int_equal(pin(other, 1, ""), VARVE_FORGOTTEN);
    assert_non_null(strstr(error.text, "being forgotten"));
    assert_int_equal(record_state(other, 1, 1), 0);
    assert_int_equal(unpin(1), VARVE_NO_CHECKPOINT); /* that is no pin */
    assert_int_equal(pin_state(1), VV_PIN_CLOSED);
    ok(prune(other, NULL));
    assert_int_equal(pin_state(1), VV_PIN_CLOSED); /* as long as the record is there */
    ok(vv_forget(other, NAME, 1, 1, &error));
    assert_int_equal(pin_state(1), VV_PIN_NONE);
}

static void put_pin(uint64_t version) {
    char text[VV_KEY_CAPACITY];
    struct vv_attempt which = at(1, version, 0);
    struct vv_key key = vv_attempt_key(NAME, &which, VV_KIND_PIN, 0, 0);
    struct vv_pin given = {.time_ns = 1, .host = "somewhere"};
    struct vv_buf buf;
    vv_buf_init(&buf);
    vv_pin_encode(&buf, &key, other->id, &given);
    pin_text(version, text);
    ok(vv_backend_put(other->backend, text, buf.data, buf.size));
    vv_buf_clear(&buf);
}

/* Whoever pins has died before it looked again: the pins are of no use. One whose record was lost is. */
static void test_prune(void **state) {
    struct vv_prune_options dry = {.is_dry_run = 1};
    struct vv_prune_result result;
    char text[VV_KEY_CAPACITY];
    (void)state;
    for (uint64_t version = 1; version <= 5; version++)
        save(version);
    ok(vv_forget(other, NAME, 1, 1, &error));
    ok(prune(other, NULL));
    put_pin(1); /* nothing of it is there */
    assert_int_equal(pin(other, 2, ""), 0);
    assert_int_equal(pin(other, 3, ""), 0);
    ok(vv_record_bury(other, NAME, &(struct vv_attempt){.generation = 1, .version = 2}, &error));
    key_text(at(1, 3, 0), VV_KIND_RECORD, 0, 0, text);
    ok(vv_backend_remove(other->backend, text)); /* lost; 4 names it as its parent, and repair can rebuild it */
    ok(vv_prune(other, NAME, &dry, &result, &error));
    assert_int_equal(pin_state(1), VV_PIN_HELD);
    ok(prune(other, NULL));
    assert_int_equal(pin_state(1), VV_PIN_NONE);
    assert_int_equal(pin_state(2), VV_PIN_NONE);
    assert_int_equal(pin_state(3), VV_PIN_HELD);
    assert_true(exists(other, at(1, 3, 0), VV_KIND_PACK));
}

/* ---- damage ---- */

static char told[4096];

static void take_finding(void *arg, int level, const char *key, const char *text) {
    (void)arg;
    size_t used = strlen(told);
    if (level == VV_FINDING_DAMAGE)
        snprintf(told + used, sizeof told - used, "%s: %s\n", key, text);
}

static uint64_t verify(void) {
    struct vv_verify_options options = {.finding = take_finding, .is_quick = 1};
    struct vv_verify_result result;
    told[0] = '\0';
    ok(vv_verify(other, &options, &result, &error));
    return result.damaged_objects;
}

static void expect_damaged_pin(const char *key) {
    assert_int_equal(pin_state(1), VV_PIN_HELD);
    assert_int_equal(vv_forget(other, NAME, 1, 1, &error), VARVE_BUSY);
    assert_non_null(strstr(error.text, "cannot be read"));
    ok(keep_newest(other, lease, 2));
    assert_int_equal(record_state(other, 1, 1), 0);
    assert_int_equal(verify(), 1);
    assert_non_null(strstr(told, key));
    assert_non_null(strstr(told, "counts as a pin"));
}

static void test_damage(void **state) {
    struct vv_buf buf;
    char text[VV_KEY_CAPACITY];
    (void)state;
    for (uint64_t version = 1; version <= 4; version++)
        save(version);
    assert_int_equal(pin(other, 1, "a reason"), 0);
    ok(keep_newest(other, lease, 2));
    assert_int_equal(verify(), 0);
    pin_text(1, text);
    vv_buf_init(&buf);
    ok(vv_backend_get_all(other->backend, text, 1 << 20, &buf));
    for (size_t i = 0; i < buf.size; i++) {
        buf.data[i] ^= 0x10;
        ok(vv_backend_replace(other->backend, text, buf.data, buf.size));
        expect_damaged_pin(text);
        buf.data[i] ^= 0x10;
        ok(vv_backend_replace(other->backend, text, buf.data, i));
        expect_damaged_pin(text);
    }
    vv_buf_clear(&buf);
    ok(unpin(1));
    assert_int_equal(verify(), 0);
    ok(vv_forget(other, NAME, 1, 1, &error));
}

/* The tombstone that closes the key, damaged: nobody knows what it was, so the checkpoint is kept. */
static void test_damaged_tombstone(void **state) {
    char text[VV_KEY_CAPACITY];
    (void)state;
    save(1);
    save(2);
    vv_fault_set("store.forget.before_replace=error:5");
    assert_int_equal(vv_forget(other, NAME, 1, 1, &error), -EIO);
    vv_fault_set(NULL);
    pin_text(1, text);
    damage(other, text, 100);
    expect_damaged_pin(text);
    ok(unpin(1));
    ok(vv_forget(other, NAME, 1, 1, &error));
}

/* A storage that fails is no answer: nothing is forgotten. */
static int fail_get(int verb, const char *key, uint64_t offset, int is_after) {
    (void)offset, (void)is_after;
    return verb == VV_VERB_GET && strstr(key, "/pin.") ? -EIO : 0;
}

static void test_storage_fails(void **state) {
    (void)state;
    for (uint64_t version = 1; version <= 4; version++)
        save(version);
    assert_int_equal(pin(other, 1, ""), 0);
    hook = fail_get;
    assert_int_equal(vv_forget(store, NAME, 1, 1, &error), -EIO);
    assert_int_equal(keep_newest(store, lease, 2), -EIO);
    hook = NULL;
    assert_int_equal(record_state(other, 1, 1), 0);
    assert_int_equal(record_state(other, 1, 2), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_keep, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_forget, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pin_during_keep, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pin_during_forget, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_forget_during_pin, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pass_during_pin, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_died_before_tombstone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_prune, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damaged_tombstone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_storage_fails, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
