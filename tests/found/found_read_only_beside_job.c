/* While a job ran, its checkpoints could not be restarted from by anybody else: the name was busy. With access=read
 * they can. The job forgets and prunes what is being read (keep=2): then another checkpoint is taken, and never wrong
 * bytes. */
#include "found/small.h"

#include "group/group.h"

#define RANKS 3u

/* ---- one process ---- */

static void run_job(void) {
    struct varve_session *session = open_name("job", "keep=2");
    for (int64_t version = 1; access(folder, F_OK) == 0; version++) {
        char mark[80];
        if (save(session, version) != 0)
            _exit(1);
        snprintf(mark, sizeof mark, "%s/begun", folder);
        if (version == 3)
            close(open(mark, O_WRONLY | O_CREAT, 0600));
        snprintf(mark, sizeof mark, "%s/over", folder);
        if (access(mark, F_OK) == 0)
            break;
    }
    _exit(varve_close(session) != 0);
}

static void wait_for(const char *name) {
    char path[120];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    while (access(path, F_OK) < 0)
        usleep(1000);
}

static void test_beside_a_job(void **state) {
    (void)state;
    int status;
    int64_t last = 0, got = 0;
    pid_t child = fork();
    if (child == 0)
        run_job();
    wait_for("begun");
    for (int i = 0; i < 60 || last < 12; i++) {
        struct varve_session *session = open_name("job", "access=read");
        memset(region, 0, SIZE);
        expect(session, varve_restart(session, VARVE_LATEST, &got), 0);
        assert_true(got >= last);
        check_region(got);
        last = got;
        assert_int_equal(varve_close(session), 0);
    }
    struct varve_session *other = NULL;
    struct varve_error error;
    assert_int_equal(try_open("job", "", &other, &error), VARVE_BUSY); /* to write it is another matter */
    shell(": >$D/over");
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    shell("test $(ls $D/ck/n/job/claim | wc -l) = 1 && test $(ls $D/ck/n/job/beat | wc -l) = 1");
}

/* ---- forgotten while it is read: the restart asks for memory between its look at the record and its reading of the
 * data ---- */

static uint8_t extra[SIZE];
static int is_saved_again;

static void forget_newest(void) {
    struct varve_store *tool;
    struct varve_error error;
    assert_int_equal(varve_store_open(store_path, NULL, &tool, &error), 0);
    for (int64_t version = 2; version <= 3; version++)
        assert_int_equal(varve_store_forget(tool, &(struct varve_which){.name = "job", .version = version}, &error), 0);
    assert_int_equal(varve_store_prune(tool, NULL, 0, NULL, NULL, NULL, &error), 0);
    varve_store_close(tool);
}

/* Version 4 has no region "extra". */
static void save_again(void) {
    struct varve_session *session = open_name("job", "keep=1");
    expect(session, varve_restart_regions(session, 1, (const char *const[]){"data"}, 1, 0, NULL), 0);
    expect(session, save(session, 4), 0);
    expect(session, save(session, 5), 0);
    expect(session, save(session, 6), 0);
    assert_int_equal(varve_close(session), 0);
}

static void *given; /* what the session has now */

static void *give_memory(void *arg, const struct varve_region_info *info) {
    int *asked = arg;
    assert_int_equal(info->bytes, SIZE);
    if ((*asked)++ == 0) {
        forget_newest();
        if (is_saved_again)
            save_again();
    }
    return given = malloc(SIZE);
}

static void take_memory(void *arg, const char *name, void *memory) {
    (void)arg, (void)name;
    assert_ptr_equal(memory, given);
    free(memory);
}

static struct varve_session *prepare_reading(void) {
    struct varve_session *session = open_name("job", "");
    assert_int_equal(varve_protect(session, "extra", extra, SIZE), 0);
    for (int64_t version = 1; version <= 3; version++) {
        memset(extra, (int)version, SIZE);
        expect(session, save(session, version), 0);
    }
    assert_int_equal(varve_close(session), 0);
    session = open_name("job", "access=read");
    assert_int_equal(varve_unprotect(session, "data"), 0);
    assert_int_equal(varve_protect(session, "extra", extra, SIZE), 0);
    memset(extra, 0, SIZE);
    logged[0] = '\0';
    return session;
}

static void test_forgotten_while_it_is_read(void **state) {
    (void)state;
    struct varve_allocator allocator = {.size = sizeof allocator, .alloc = give_memory, .release = take_memory};
    struct varve_session *session = prepare_reading();
    int asked = is_saved_again = 0;
    int64_t got = 0;
    expect(session, varve_restart_alloc(session, VARVE_LATEST, &allocator, &asked, &got), 0);
    assert_int_equal(got, 1);
    assert_int_equal(asked, 2);
    assert_int_equal(extra[5], 1);
    assert_null(strstr(logged, "damaged")); /* it was not */
    expect(session, varve_restart(session, 3, &got), -ENOENT);
    assert_int_equal(varve_close(session), 0);
    free(given);
}

/* The newer one that is there in the end does not fit. Its error promises that nothing was written, and something was.
 */
static void test_another_one_meanwhile(void **state) {
    (void)state;
    struct varve_allocator allocator = {.size = sizeof allocator, .alloc = give_memory, .release = take_memory};
    struct varve_session *session = prepare_reading();
    int asked = 0;
    is_saved_again = 1;
    expect(session, varve_restart_alloc(session, VARVE_LATEST, &allocator, &asked, NULL), VARVE_CORRUPT);
    assert_non_null(strstr(varve_session_error(session)->text, "extra"));
    varve_close(session);
}

/* ---- many ranks ---- */

static void rank_main(struct varve_comm *comm, void *arg) {
    const int *is_reading = arg;
    struct varve_options options = VARVE_OPTIONS_INIT;
    struct varve_session *session;
    struct varve_error error;
    int64_t got = -1;
    options.settings = *is_reading ? "access=read" : "keep=0";
    if (varve_open_comm(group_comm(comm), store_path, "many", &options, &session, &error) != 0)
        group_fail(comm, "open: %s", error.text);
    varve_protect(session, "data", region, SIZE);
    if (*is_reading) {
        if (varve_restart(session, VARVE_LATEST, &got) != 0 || got != 5)
            group_fail(comm, "restart: %s", varve_session_error(session)->text);
        check_region(5 + comm->rank);
        if (varve_checkpoint(session, 6) != -EROFS)
            group_fail(comm, "a checkpoint was begun");
    } else {
        fill_region(5 + comm->rank);
        if (varve_checkpoint(session, 5) != 0)
            group_fail(comm, "checkpoint: %s", varve_session_error(session)->text);
    }
    if (varve_close(session) != 0)
        group_fail(comm, "close");
}

static void test_many_ranks(void **state) {
    const int is_reading[] = {0, 1};
    (void)state;
    group_must_run(RANKS, rank_main, &is_reading[0], NULL, NULL);
    char *before = snapshot();
    group_must_run(RANKS, rank_main, &is_reading[1], NULL, NULL);
    expect_unchanged(before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_beside_a_job, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_forgotten_while_it_is_read, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_another_one_meanwhile, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_many_ranks, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
