/* A restart could not write its claim when the file system was full. Without any reserve left it now restarts without a
 * claim, and the first checkpoint for which there is room makes it. Until then checkpoints fail like others: varve_wait
 * and varve_close, which returned 0 once, tell it, and on_error=warn makes a line of it. */
#include "base/fault.h"
#include "details.h"
#include "found/small.h"

static void fill(void) {
    shell("rm -rf $D/ck/.reserve, && mkdir $D/others && (cat /dev/zero >$D/others/zeros; for i in $(seq 2000); do"
          " : >$D/others/$i || break; done; cat /dev/zero >>$D/others/zeros) 2>/dev/null || true");
}

static struct varve_session *restart_when_full_with(const char *settings) {
    shell("mount -t tmpfs -o size=8m,nr_inodes=500,mode=755 none $D");
    make_versions("job", "", 3);
    fill();
    logged[0] = '\0';
    struct varve_session *session = open_name("job", settings);
    assert_non_null(strstr(logged, "job is open for reading only"));
    restart(session, 3);
    return session;
}

static struct varve_session *restart_when_full(void) {
    return restart_when_full_with("");
}

static void test_later(void **state) {
    (void)state;
    struct varve_session *session = restart_when_full();
    expect(session, save(session, 4), -ENOSPC);
    assert_non_null(strstr(varve_session_error(session)->text, "are short in"));
    expect(session, save(session, 5), -ENOSPC);
    shell("rm -r $D/others");
    expect(session, save(session, 6), 0);
    expect(session, save(session, 7), 0);
    assert_int_equal(varve_close(session), 0);
    session = open_name("job", "");
    restart(session, 7);
    assert_int_equal(varve_close(session), 0);
}

/* A claim that was made and had to be let go of is our own: it is no session that came between. It was taken for one,
 * and no checkpoint could be written any more. */
static void test_claimed_half_way(void **state) {
    (void)state;
#ifdef VARVE_FAULTS
    struct varve_session *session = restart_when_full();
    shell("rm -r $D/others");
    for (int64_t version = 4; version < 6; version++) {
        vv_fault_set("store.beat.before_refer=error:28");
        expect(session, save(session, version), -ENOSPC);
        vv_fault_set(NULL);
    }
    expect(session, save(session, 6), 0);
    assert_int_equal(varve_close(session), 0);
    session = open_name("job", "");
    restart(session, 6);
    assert_int_equal(varve_close(session), 0);
#else
    skip(); /* there are no fault points */
#endif
}

/* A program that looks only at what varve_wait or varve_close say must not take nothing for something. */
static void test_is_told(void **state) {
    struct vv_details stats = {0};
    (void)state;
    struct varve_session *session = restart_when_full();
    expect(session, varve_checkpoint(session, 4), -ENOSPC);
    expect(session, varve_wait(session), -ENOSPC);
    expect(session, varve_test(session), -ENOSPC);
    assert_int_equal(vv_details_get(session, &stats), 0);
    assert_int_equal(stats.version, 4);
    assert_int_equal(stats.result, -ENOSPC);
    assert_int_equal(varve_close(session), -ENOSPC);
}

static void test_is_only_warned(void **state) {
    (void)state;
    struct varve_session *session = restart_when_full_with("on_error=warn");
    expect(session, varve_checkpoint(session, 4), 0);
    assert_non_null(strstr(logged, "checkpoint 4 failed"));
    expect(session, varve_wait(session), -ENOSPC);
    shell("rm -r $D/others");
    expect(session, save(session, 5), 0);
    assert_int_equal(varve_close(session), 0);
}

/* What another session has saved meanwhile must not be hidden by what we go on from. */
static void test_somebody_came_between(void **state) {
    (void)state;
    struct varve_session *session = restart_when_full(), *other;
    shell("rm -r $D/others");
    other = open_name("job", "");
    restart(other, 3);
    expect(other, save(other, 10), 0);
    assert_int_equal(varve_close(other), 0);
    expect(session, save(session, 4), VARVE_FENCED);
    expect(session, save(session, 4), VARVE_FENCED);
    varve_close(session);
    other = open_name("job", "");
    restart(other, 10);
    assert_int_equal(varve_close(other), 0);
}

/* The session before us was taken for dead, and committed once more under its own claim. Its last record stands for
 * that: it is out of sight until we have restarted. */
static void test_predecessor_went_on(void **state) {
    (void)state;
    shell("mount -t tmpfs -o size=8m,nr_inodes=500,mode=755 none $D");
    make_versions("job", "", 3);
    shell("mkdir $D/aside && cd $D/ck/n/job/record && mv $(find . -type f | sort | head -1) $D/aside/");
    fill();
    struct varve_session *session = open_name("job", "");
    assert_non_null(strstr(logged, "job is open for reading only"));
    restart(session, 2);
    shell("rm -r $D/others && mv $D/aside/* $D/ck/n/job/record/");
    expect(session, save(session, 3), VARVE_FENCED);
    expect(session, save(session, 4), VARVE_FENCED);
    varve_close(session);
    session = open_name("job", "");
    restart(session, 3);
    assert_int_equal(varve_close(session), 0);
}

/* Version 3 has all its packs and no record: whoever has the claim adopts it. There is room again when the restart
 * comes. */
static void test_adopts_late(void **state) {
    (void)state;
    shell("mount -t tmpfs -o size=8m,nr_inodes=500,mode=755 none $D");
    make_versions("job", "", 3);
    shell("cd $D/ck/n/job/record && rm $(find . -type f | sort | head -1)");
    fill();
    struct varve_session *session = open_name("job", "");
    assert_non_null(strstr(logged, "job is open for reading only"));
    shell("rm -r $D/others");
    restart(session, 3);
    expect(session, save(session, 4), 0);
    assert_int_equal(varve_close(session), 0);
}

/* What we go on from may be forgotten while we have no heartbeat that names it: then the next checkpoint is a whole
 * one. */
static void test_parent_is_forgotten(void **state) {
    (void)state;
    struct varve_session *session = restart_when_full();
    struct varve_store *tool;
    struct varve_error error;
    shell("rm -r $D/others");
    assert_int_equal(varve_store_open(store_path, NULL, &tool, &error), 0);
    assert_int_equal(varve_store_forget(tool, &(struct varve_which){.name = "job", .version = 3}, &error), 0);
    assert_int_equal(varve_store_prune(tool, NULL, 0, NULL, NULL, NULL, &error), 0);
    varve_store_close(tool);
    memset(region, 5, SIZE / 2);
    expect(session, varve_checkpoint(session, 4), 0);
    expect(session, varve_wait(session), 0);
    assert_int_equal(varve_close(session), 0);
    uint8_t *wanted = malloc(SIZE);
    memcpy(wanted, region, SIZE);
    memset(region, 0, SIZE);
    int64_t got;
    session = open_name("job", "access=read");
    expect(session, varve_restart(session, VARVE_LATEST, &got), 0);
    assert_int_equal(got, 4);
    assert_memory_equal(region, wanted, SIZE);
    free(wanted);
    assert_int_equal(varve_close(session), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_later, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_claimed_half_way, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_is_told, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_is_only_warned, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_somebody_came_between, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_predecessor_went_on, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_adopts_late, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_parent_is_forgotten, make_folder, remove_folder),
    };
    if (!can_mount())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
