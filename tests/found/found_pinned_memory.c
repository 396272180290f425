/* A registered buffer of io_uring was filled between two checkpoints. No tracker can see that, the checkpoint said
 * "nothing changed", and a restart gave old bytes. Where anything is pinned all memory is looked at, unless a region is
 * promised to be written by processors only. */
#include "details.h"
#include "pinned.h"

#define SIZE ((size_t)4 << 20)

static void right_by_default(void **state) {
    struct pinned pinned;
    struct vv_details stats = {0};
    (void)state;
    pinned_open(&pinned, SIZE, SIZE);
    struct varve_session *session = pinned_session(&pinned, NULL);
    assert_int_equal(varve_protect(session, "data", pinned.data, SIZE), 0);
    for (int version = 1; version <= 3; version++) {
        assert_int_equal(pinned_save(session, version), 0);
        pinned_receive(&pinned, (uint64_t)version + 10);
        assert_int_equal(pinned_told, 1); /* once is enough */
    }
    assert_int_equal(pinned_save(session, 4), 0);
    assert_int_equal(pinned_told, 1);
    assert_int_equal(vv_details_get(session, &stats), 0);
    assert_int_equal(stats.bytes_changed, SIZE);
    assert_string_equal(stats.tracker, "none");
    assert_non_null(strstr(stats.tracker_reason, "pinned"));
    assert_int_equal(varve_close(session), 0);
    pinned_check(&pinned, 4);
    pinned_close(&pinned);
}

/* Pinned only after the first checkpoint: what was tracked until then is not any more. */
static void pinned_later(void **state) {
    struct pinned pinned;
    (void)state;
    pinned_open(&pinned, 4 * SIZE, 0);
    struct varve_session *session = pinned_session(&pinned, NULL);
    assert_int_equal(varve_protect(session, "data", pinned.data, pinned.size), 0);
    assert_int_equal(pinned_save(session, 1), 0);
    assert_int_equal(pinned_save(session, 2), 0);
    assert_int_equal(pinned_told, 0);
    pinned_register(&pinned, SIZE);
    assert_int_equal(pinned_save(session, 3), 0);
    assert_int_equal(pinned_told, 1);
    pinned_receive(&pinned, 99);
    assert_int_equal(pinned_save(session, 4), 0);
    assert_int_equal(varve_close(session), 0);
    pinned_check(&pinned, 4);
    pinned_close(&pinned);
}

/* Nothing of it is held, either: nobody could stop the kernel from writing it. */
static void not_held(void **state) {
    struct pinned pinned;
    struct vv_details stats = {0};
    (void)state;
    pinned_open(&pinned, 2 * SIZE, SIZE);
    struct varve_session *session = pinned_session(&pinned, "tracker=scan,staging=512K");
    int rc = session ? varve_protect(session, "data", pinned.data, pinned.size) : 0;
    assert_int_equal(rc, 0);
    assert_int_equal(varve_checkpoint(session, 1), 0);
    pinned_fill(pinned.data + SIZE, SIZE, 3);
    assert_int_equal(varve_wait(session), 0);
    assert_int_equal(vv_details_get(session, &stats), 0);
    assert_int_equal(stats.bytes_held, 0);
    assert_int_equal(varve_close(session), 0);
    pinned_close(&pinned);
}

/* A region that only processors write is tracked as ever. */
static void promised(void **state) {
    struct pinned pinned;
    struct vv_details stats = {0};
    static uint8_t *own;
    (void)state;
    pinned_open(&pinned, SIZE, SIZE);
    own = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pinned_fill(own, SIZE, 77);
    struct varve_session *session = pinned_session(&pinned, NULL);
    assert_int_equal(varve_protect_flags(session, "own", own, SIZE, VARVE_NO_DEVICE_WRITES | VARVE_DEVICE_WRITES),
                     -EINVAL);
    assert_int_equal(varve_protect_flags(session, "own", own, SIZE, VARVE_NO_DEVICE_WRITES), 0);
    assert_int_equal(pinned_save(session, 1), 0);
    assert_int_equal(pinned_save(session, 2), 0);
    assert_int_equal(vv_details_get(session, &stats), 0);
    assert_string_not_equal(stats.tracker, "none");
    assert_true(stats.chunks_audited >= 64); /* so it was tracked */
    assert_int_equal(pinned_told, 0);        /* it costs nothing */
    assert_int_equal(varve_close(session), 0);
    munmap(own, SIZE);
    pinned_close(&pinned);
}

/* Where nothing is tracked anyway, pinned memory changes nothing. */
static int is_tracked_here(void) {
    static uint8_t memory[1 << 20];
    struct varve_session *session = NULL;
    struct vv_details stats = {0};
    if (varve_open("mem://pinned", "tracker", NULL, &session, NULL) != 0 ||
        varve_protect(session, "memory", memory, sizeof memory) != 0 || pinned_save(session, 1) != 0 ||
        vv_details_get(session, &stats) != 0 || varve_close(session) != 0) {
        printf("no session to ask for its tracker\n");
        exit(1);
    }
    if (strcmp(stats.tracker, "none") == 0)
        printf("skipped: nothing is tracked here: %s\n", stats.tracker_reason);
    return strcmp(stats.tracker, "none") != 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pinned_later), cmocka_unit_test(right_by_default),
                                       cmocka_unit_test(not_held), cmocka_unit_test(promised)};
    if (!is_tracked_here())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
