/* A tracker that misses changes made wrong checkpoints, and nothing ever found out. At every checkpoint some chunks
 * that were not reported are compared all the same: a lie is found, the checkpoint fails and names the region, and the
 * next one is right. */
#include "details.h"
#include "pinned.h"

#define SIZE ((size_t)16 << 20)
/* An eighth of it is written by the kernel, unseen. Of 64 chunks or more not one of these is looked at with (7/8)^64 =
 * 0.0002, and in 20 checkpoints with 6e-75. */
#define UNSEEN (SIZE / 8)
#define CHECKPOINTS 20

static int tried; /* trackers that work here */

static void is_found(void **state) {
    static const char *const settings[] = {"tracker=scan", "tracker=scan,fine=64", "tracker=trap-uffd",
                                           "tracker=trap-mprotect"};
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        struct pinned pinned;
        struct varve_options options = VARVE_OPTIONS_INIT;
        struct varve_session *session = NULL;
        struct varve_error error = {0};
        int rc = 0, version = 1;
        pinned_open(&pinned, SIZE, UNSEEN);
        options.settings = settings[i];
        if ((rc = varve_open(pinned.store, "pinned", &options, &session, &error)) != 0) {
            printf("not tried: %s: %s\n", settings[i], error.text);
            assert_int_equal(rc, -ENOTSUP);
            pinned_close(&pinned);
            continue;
        }
        tried++;
        assert_int_equal(varve_protect_flags(session, "data", pinned.data, SIZE, VARVE_NO_KERNEL_WRITES), 0);
        assert_int_equal(pinned_save(session, version++), 0);
        for (; version <= CHECKPOINTS + 1 && rc == 0; version++) {
            pinned_receive(&pinned, (uint64_t)version);
            rc = pinned_save(session, version);
        }
        assert_int_equal(rc, -EFAULT);
        assert_non_null(strstr(varve_session_error(session)->text, "region data"));
        assert_non_null(strstr(varve_session_error(session)->text, "VARVE_DEVICE_WRITES"));
        /* From now on it is looked at whole. */
        for (int k = 0; k < 3; k++) {
            pinned_receive(&pinned, 1000 + (uint64_t)k);
            assert_int_equal(pinned_save(session, ++version), 0);
        }
        assert_int_equal(varve_close(session), 0);
        pinned_check(&pinned, version);
        pinned_close(&pinned);
    }
}

/* An honest tracker is never accused, and every checkpoint audits. */
static void honest(void **state) {
    struct pinned pinned;
    (void)state;
    pinned_open(&pinned, SIZE, 0);
    struct varve_session *session = pinned_session(&pinned, NULL);
    assert_int_equal(varve_protect(session, "data", pinned.data, SIZE), 0);
    for (int version = 1; version <= 30; version++) {
        struct vv_details stats = {0};
        pinned_fill(pinned.data + (size_t)version * 4096 * 7, 9000, (uint64_t)version);
        madvise(pinned.data + (size_t)version * 4096 * 50, 8192, MADV_DONTNEED);
        assert_int_equal(pinned_save(session, version), 0);
        assert_int_equal(vv_details_get(session, &stats), 0);
        if (version > 3 && strcmp(stats.tracker, "none") != 0) /* what was held may be looked at whole once more */
            assert_true(stats.chunks_audited >= 64);
    }
    assert_int_equal(varve_close(session), 0);
    pinned_check(&pinned, 30);
    pinned_close(&pinned);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(honest), cmocka_unit_test(is_found)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (failed == 0 && tried == 0)
        printf("skipped: no tracker works here\n");
    return failed ? failed : tried ? 0 : 77;
}
